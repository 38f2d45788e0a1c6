//! Which fault model is in force: the choices that `docs/fault-model.md` leaves open.

use std::fmt;
use std::str::FromStr;

pub use outlast_trace::Domain;

/// The unit that the medium writes atomically.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Tear {
    /// Whole lines (rule 2).
    #[default]
    Line,
    /// Words of 8 bytes.
    Word,
}

/// The instructions that order `clflush` (rule 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Clflush {
    /// Later stores of its lane, and every fence: Intel.
    #[default]
    WithStores,
    /// MFENCE only: AMD.
    MfenceOnly,
}

/// In which order the words of one wide store persist (rule 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Wide {
    /// Ascending, as every `Medium` promises.
    #[default]
    Ascending,
    /// In any order within a line: vector stores.
    Unordered,
}

/// The fault model in force. The default is `adr` with atomic lines on Intel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Model {
    /// Where durability begins (rule 13).
    pub domain: Domain,
    /// The unit that the medium writes atomically.
    pub tear: Tear,
    /// The instructions that order `clflush`.
    pub clflush: Clflush,
    /// In which order the words of a wide store persist.
    pub wide: Wide,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            domain: Domain::Adr,
            tear: Tear::default(),
            clflush: Clflush::default(),
            wide: Wide::default(),
        }
    }
}

impl Model {
    /// This model with another domain.
    pub fn in_domain(self, domain: Domain) -> Self {
        Self { domain, ..self }
    }

    /// This model with other tearing.
    pub fn tearing(self, tear: Tear) -> Self {
        Self { tear, ..self }
    }
}

/// A word that is no way of tearing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no way of tearing: one of line, word")]
pub struct UnknownTear(String);

impl fmt::Display for Tear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Line => "line",
            Self::Word => "word",
        })
    }
}

impl FromStr for Tear {
    type Err = UnknownTear;

    fn from_str(text: &str) -> Result<Self, UnknownTear> {
        match text {
            "line" => Ok(Self::Line),
            "word" => Ok(Self::Word),
            _ => Err(UnknownTear(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_of_tearing_are_written_and_read_back() {
        for tear in [Tear::Line, Tear::Word] {
            assert_eq!(tear.to_string().parse(), Ok(tear));
        }
        assert!("page".parse::<Tear>().is_err());
    }
}
