//! A program's marks of its transactions: lines that name one as begun or as durable.

use crate::run::Step;
use crate::sys::MARKS_FD;

/// How a line names a transaction: words before and behind its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    before: String,
    behind: String,
}

impl Pattern {
    /// A pattern from text with `{}` where the number stands.
    ///
    /// # Errors
    /// There is not exactly one `{}`.
    pub fn new(text: &str) -> Result<Self, String> {
        match text.split_once("{}") {
            Some((before, behind)) if !behind.contains("{}") => {
                Ok(Self { before: before.to_owned(), behind: behind.to_owned() })
            }
            _ => Err(format!(
                "pattern '{text}' needs one {{}} where the number stands, as in 'A {{}}'"
            )),
        }
    }

    /// The number in a line that the pattern fits, and keys with versions behind it: `I 7 a=3 b=4`.
    #[must_use]
    pub fn begun(&self, line: &str) -> Option<(u64, Vec<(String, u64)>)> {
        let rest = line.strip_prefix(self.before.as_str())?;
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (number, rest) = (rest[..digits].parse().ok()?, &rest[digits..]);
        let rest = rest.strip_prefix(self.behind.as_str())?;
        let writes = rest.strip_prefix(' ').map(|rest| rest.split_whitespace());
        if writes.is_none() && !rest.is_empty() {
            return None;
        }
        let write = |word: &str| {
            let (key, version) = word.rsplit_once('=')?;
            (!key.is_empty()).then_some((key.to_owned(), version.parse().ok()?))
        };
        Some((number, writes.into_iter().flatten().map(write).collect::<Option<_>>()?))
    }

    /// The number in a line that the pattern fits.
    #[must_use]
    pub fn number(&self, line: &str) -> Option<u64> {
        line.strip_prefix(self.before.as_str())?.strip_suffix(self.behind.as_str())?.parse().ok()
    }
}

/// The patterns of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marks {
    /// Lines that begin a transaction.
    pub issued: Pattern,
    /// Lines that acknowledge one.
    pub acked: Pattern,
    /// The descriptor for such lines, besides standard output.
    pub descriptor: i32,
}

impl Default for Marks {
    fn default() -> Self {
        let pattern = |before: &str| Pattern { before: before.to_owned(), behind: String::new() };
        Self { issued: pattern("I "), acked: pattern("A "), descriptor: MARKS_FD }
    }
}

/// Lines of one pipe, of which the last may be unfinished.
#[derive(Default, Debug)]
pub struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// The marks in `bytes`, which come behind all earlier ones.
    pub fn add(&mut self, bytes: &[u8], marks: &Marks) -> Vec<Step> {
        let mut found = Vec::new();
        for &byte in bytes {
            if byte != b'\n' {
                // A line that long is no mark.
                if self.rest.len() < 4096 {
                    self.rest.push(byte);
                }
                continue;
            }
            let line = String::from_utf8_lossy(&self.rest);
            let line = line.trim_end_matches('\r');
            if let Some(number) = marks.acked.number(line) {
                found.push(Step::Acked(number));
            } else if let Some((number, writes)) = marks.issued.begun(line) {
                found.push(Step::Issued(number));
                found
                    .extend(writes.into_iter().map(|(key, version)| Step::Writes { key, version }));
            }
            self.rest.clear();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_however_they_are_cut() {
        let text = b"I 1\nhello\nA 1\r\nI 2\nA x\nA 2";
        let whole = Lines::default().add(text, &Marks::default()).len();
        assert_eq!(whole, 3);
        let mut lines = Lines::default();
        let cut: usize = text.chunks(1).map(|byte| lines.add(byte, &Marks::default()).len()).sum();
        assert_eq!(cut, whole);
    }

    #[test]
    fn a_pattern_has_one_number() {
        let pattern = Pattern::new("committed #{}.").unwrap();
        assert_eq!(pattern.number("committed #7."), Some(7));
        assert_eq!(pattern.number("committed #7"), None);
        let writes = vec![("a".to_owned(), 3), ("b=c".to_owned(), 4)];
        assert_eq!(pattern.begun("committed #7. a=3 b=c=4"), Some((7, writes)));
        assert_eq!(pattern.begun("committed #7."), Some((7, Vec::new())));
        assert_eq!(pattern.begun("committed #7.a=3"), None);
        assert_eq!(pattern.begun("committed #7. and more"), None);
        assert!(Pattern::new("committed").is_err());
        assert!(Pattern::new("{} {}").is_err());
    }
}
