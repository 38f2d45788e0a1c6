//! The software schemes, by name.

use std::fmt;
use std::str::FromStr;

/// How a pool's transactions are made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Scheme {
    /// Nothing is logged durably and nothing is flushed: the speed that nobody can have.
    None,
    /// Old words are logged and fenced before data changes in place; data is flushed at commit
    /// (mechanisms of PMDK).
    #[default]
    Undo,
    /// New words are logged at commit with one fence, then stored in place and flushed
    /// asynchronously (mechanisms of Mnemosyne).
    Redo,
}

/// What a scheme promises about a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guarantee {
    /// Every acknowledged transaction whole, every other whole or absent.
    Durable,
    /// Nothing.
    None,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Durable => "durable",
            Self::None => "none",
        })
    }
}

/// A row of the table of schemes: name, guarantee, one line.
pub type SchemeRow = (Scheme, &'static str, Guarantee, &'static str);

/// All schemes.
pub const SCHEMES: &[SchemeRow] = &[
    (Scheme::None, "none", Guarantee::None, "no logging, no flushing: the speed nobody can have"),
    (
        Scheme::Undo,
        "undo",
        Guarantee::Durable,
        "undo log, ranges logged at once, data flushed at commit: three fences, or two for a lane that is alone",
    ),
    (
        Scheme::Redo,
        "redo",
        Guarantee::Durable,
        "redo log, one fence, data stored in place and flushed asynchronously",
    ),
];

impl Scheme {
    fn row(self) -> &'static SchemeRow {
        SCHEMES.iter().find(|row| row.0 == self).expect("every scheme has its row")
    }

    /// The name that commands and results use.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// What survives a crash.
    pub fn guarantee(self) -> Guarantee {
        self.row().2
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no scheme has.
#[derive(Debug, thiserror::Error)]
#[error("no scheme is called '{0}'; there are {names}", names = SCHEMES.iter().map(|row| row.1).collect::<Vec<_>>().join(", "))]
pub struct UnknownScheme(String);

impl FromStr for Scheme {
    type Err = UnknownScheme;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        SCHEMES
            .iter()
            .find(|row| row.1 == name)
            .map(|row| row.0)
            .ok_or_else(|| UnknownScheme(name.to_owned()))
    }
}
