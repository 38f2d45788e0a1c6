//! The guarantees of schemes about a crash.

use std::fmt;
use std::str::FromStr;

/// The promise of a scheme, by its standard name. The oracle has a predicate for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Guarantee {
    /// Every acknowledged transaction whole, every other whole or absent.
    Durable,
    /// Every transaction whole or absent, and with one all that it depends on. The latest of those
    /// acknowledged may be absent.
    Buffered,
    /// Memory as it was at the end of an epoch, one no older than the last reported persisted.
    Epoch,
    /// The state after the commands in a log are executed again.
    Replay,
    /// Nothing.
    None,
}

impl Guarantee {
    /// All, strongest first.
    pub const ALL: [Self; 5] =
        [Self::Durable, Self::Buffered, Self::Epoch, Self::Replay, Self::None];

    /// Its name in commands and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Buffered => "buffered",
            Self::Epoch => "epoch",
            Self::Replay => "replay",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Guarantee {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|guarantee| guarantee.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("no guarantee is called '{name}'; there are {names}")
        })
    }
}
