//! The way from a root to a block.

use std::fmt;

/// Steps of a path that are shown, at its start and at its end.
const SHOWN: usize = 6;

/// Bytes of a key that are shown.
const KEY_SHOWN: usize = 24;

/// The way from a root to a block or a value. It is put together on the stack of the walk, and costs nothing that is
/// not shown.
#[derive(Clone, Copy, Debug)]
pub struct Path<'p> {
    above: Option<&'p Path<'p>>,
    step: Step<'p>,
}

/// One step of a path.
#[derive(Clone, Copy, Debug)]
pub enum Step<'p> {
    /// The root itself.
    Root,
    /// A field, or a part of a structure.
    Name(&'p str),
    /// An index, or a key that is a number.
    Number(i128),
    /// A key of bytes.
    Key(&'p [u8]),
    /// A path that was shown earlier.
    Shown(&'p str),
}

impl Path<'_> {
    /// The root.
    pub const ROOT: Self = Self { above: None, step: Step::Root };
}

impl<'p> Path<'p> {
    /// One step further.
    pub fn then(&'p self, step: Step<'p>) -> Self {
        Self { above: Some(self), step }
    }

    /// A path that was shown earlier, to go on from.
    pub fn shown(text: &'p str) -> Self {
        Self { above: None, step: Step::Shown(text) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps = Vec::new();
        let mut next = Some(self);
        while let Some(path) = next {
            steps.push(path.step);
            next = path.above;
        }
        steps.reverse();
        if let [Step::Root, _, ..] = steps[..] {
            steps.remove(0);
        }
        let left_out = steps.len().saturating_sub(2 * SHOWN);
        for (i, step) in steps.iter().enumerate() {
            if left_out > 0 && i == SHOWN {
                write!(f, ".…")?;
            }
            if left_out > 0 && (SHOWN..SHOWN + left_out).contains(&i) {
                continue;
            }
            show(f, step, i == 0)?;
        }
        Ok(())
    }
}

fn show(f: &mut fmt::Formatter<'_>, step: &Step<'_>, is_first: bool) -> fmt::Result {
    match step {
        Step::Root => f.write_str("root"),
        Step::Name(name) if is_first => f.write_str(name),
        Step::Name(name) => write!(f, ".{name}"),
        Step::Number(number) => write!(f, "[{number}]"),
        Step::Shown(text) => f.write_str(text),
        Step::Key(key) => show_key(f, key),
    }
}

fn show_key(f: &mut fmt::Formatter<'_>, key: &[u8]) -> fmt::Result {
    let shown = &key[..key.len().min(KEY_SHOWN)];
    let more = if key.len() > shown.len() { "…" } else { "" };
    match std::str::from_utf8(shown) {
        Ok(text) if !text.chars().any(char::is_control) => write!(f, "[{text:?}{more}]"),
        _ => {
            f.write_str("[0x")?;
            shown.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            write!(f, "{more}]")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_a_program_would_write_it() {
        let root = Path::ROOT;
        assert_eq!(root.to_string(), "root");
        let accounts = root.then(Step::Name("accounts"));
        let third = accounts.then(Step::Number(3));
        assert_eq!(third.then(Step::Name("owner")).to_string(), "accounts[3].owner");
        assert_eq!(accounts.then(Step::Key(b"Ada")).to_string(), "accounts[\"Ada\"]");
        assert_eq!(accounts.then(Step::Key(&[1, 255])).to_string(), "accounts[0x01ff]");
        let long = [b'a'; 30];
        assert!(accounts.then(Step::Key(&long)).to_string().ends_with("aaa\"…]"));
        let again = third.to_string();
        assert_eq!(Path::shown(&again).then(Step::Name("x")).to_string(), "accounts[3].x");
    }

    #[test]
    fn a_long_path_shows_its_ends() {
        fn deep(path: &Path<'_>, steps: i128) -> String {
            match steps {
                0 => path.to_string(),
                _ => deep(&path.then(Step::Number(steps)), steps - 1),
            }
        }
        let shown = deep(&Path::ROOT, 100);
        assert_eq!(shown, "[100][99][98][97][96][95].…[6][5][4][3][2][1]");
    }
}
