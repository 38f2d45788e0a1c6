//! Patterns of keys and channels. Redis has its own: over bytes, with classes and escapes, `*` past
//! every byte. Libraries match paths or texts.

/// Whether a pattern matches a whole text.
pub(crate) fn matches(pattern: &[u8], text: &[u8], ignores_case: bool) -> bool {
    let fold = |byte: u8| if ignores_case { byte.to_ascii_lowercase() } else { byte };
    let (mut p, mut t) = (0, 0);
    // Where to go on after the last star: it takes one byte more.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            None if t == text.len() => return true,
            None => None,
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some(_) if t == text.len() => None,
            Some(b'?') => Some(p + 1),
            Some(b'[') => {
                let (is_in, end) = class(&pattern[p..], text[t], fold);
                is_in.then_some(p + end)
            }
            Some(b'\\') if p + 1 < pattern.len() => {
                (fold(pattern[p + 1]) == fold(text[t])).then_some(p + 2)
            }
            Some(byte) => (fold(*byte) == fold(text[t])).then_some(p + 1),
        };
        match (step, &mut retry) {
            (Some(next), _) => (p, t) = (next, t + 1),
            (None, Some((after, from))) if *from < text.len() => {
                *from += 1;
                (p, t) = (*after, *from);
            }
            _ => return false,
        }
    }
}

/// Whether a class has a byte, and how long the class is.
fn class(pattern: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> (bool, usize) {
    let is_not = pattern.get(1) == Some(&b'^');
    let mut at = if is_not { 2 } else { 1 };
    let mut found = false;
    loop {
        match pattern.get(at) {
            None => break,
            Some(b']') => {
                at += 1;
                break;
            }
            Some(b'\\') if at + 1 < pattern.len() => {
                found |= pattern[at + 1] == byte;
                at += 2;
            }
            Some(first) if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() => {
                let (a, b) = (fold(*first), fold(pattern[at + 2]));
                found |= (a.min(b)..=a.max(b)).contains(&fold(byte));
                at += 3;
            }
            Some(one) => {
                found |= fold(*one) == fold(byte);
                at += 1;
            }
        }
    }
    (found != is_not, at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, is_match) in [
            ("*", "", true),
            ("a*b*c", "aXbYbc", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]1", "b1", true),
            ("[^a-c]1", "b1", false),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("foo*", "bar", false),
            ("*foo", "xfofoo", true),
            ("[a", "a", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), false), is_match, "{pattern}");
        }
        assert!(matches(b"FOO*", b"foobar", true));
        let stars = "a*".repeat(64) + "b";
        assert!(!matches(stars.as_bytes(), "a".repeat(256).as_bytes(), false));
    }
}
