//! Parts of a search, for several processes or machines: together they try exactly the whole.

use std::fmt;
use std::str::FromStr;

/// The most parts of a search.
const PARTS_MAX: u32 = 1 << 20;

/// One part of several, counted from 1. Written `nth/of`.
///
/// ```
/// use outlast_check::part::Part;
///
/// let parts: Vec<Part> = vec!["1/2".parse()?, "2/2".parse()?];
/// assert!((0..10).all(|number| parts.iter().filter(|part| part.has(number)).count() == 1));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    nth: u32,
    of: u32,
}

impl Part {
    /// Whether a numbered piece of the work belongs to this part. Each belongs to one.
    #[must_use]
    pub fn has(self, number: u128) -> bool {
        number % u128::from(self.of) == u128::from(self.nth - 1)
    }

    /// Whether it is the part that counts what all of them meet.
    #[must_use]
    pub fn is_first(self) -> bool {
        self.nth == 1
    }

    /// The number of parts.
    #[must_use]
    pub fn of(self) -> u32 {
        self.of
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.nth, self.of)
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').map(|(nth, of)| (nth.parse(), of.parse()));
        match numbers {
            Some((Ok(nth), Ok(of))) if (1..=of).contains(&nth) && of <= PARTS_MAX => {
                Ok(Self { nth, of })
            }
            _ => Err(format!("expected PART/PARTS, such as 2/8, of at most {PARTS_MAX} parts")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_one_of_several() {
        for wrong in ["", "1", "0/2", "3/2", "1/0", "-1/2", "a/b", "1/2/3", "1/9999999"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
        let part: Part = "3/8".parse().unwrap();
        assert_eq!((part.to_string().as_str(), part.is_first(), part.of()), ("3/8", false, 8));
        assert!(part.has(2) && part.has(10) && !part.has(3) && !part.has(u128::MAX));
    }
}
