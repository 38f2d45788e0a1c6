//! Verdicts on a recovered state: the broken promise and its detail.

use std::fmt;

/// Which promise was broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Broken {
    /// An acknowledged transaction is missing.
    Lost,
    /// A transaction is there in part.
    Torn,
    /// A surviving transaction depends on a lost one.
    NotClosed,
    /// The surviving transactions have no serial order.
    Cycle,
    /// There is a value that no transaction wrote.
    Garbage,
    /// Recovery refuses the image.
    Refused,
    /// Recovery panicked.
    Panicked,
    /// Recovery does not come to an end.
    Stuck,
    /// Recovery is no function of the image.
    Strayed,
    /// The image that was to be judged cannot exist here.
    NoSuchImage,
    /// A crash point was not checked.
    Unchecked,
    /// Something else that the judge looks at.
    Other,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Lost => "lost",
            Self::Torn => "torn",
            Self::NotClosed => "not closed",
            Self::Cycle => "cycle",
            Self::Garbage => "garbage",
            Self::Refused => "refused",
            Self::Panicked => "panicked",
            Self::Stuck => "stuck",
            Self::Strayed => "strayed",
            Self::NoSuchImage => "no such image",
            Self::Unchecked => "not checked",
            Self::Other => "broken",
        })
    }
}

/// A recovered state that must not be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{broken}: {detail}")]
pub struct Violation {
    /// Which promise was broken.
    pub broken: Broken,
    /// How, naming keys and transactions.
    pub detail: String,
}

impl Violation {
    /// A violation with its explanation.
    pub fn new(broken: Broken, detail: impl Into<String>) -> Self {
        Self { broken, detail: detail.into() }
    }

    /// Whether recovery gave no pool at all.
    pub fn is_refusal(&self) -> bool {
        matches!(self.broken, Broken::Refused | Broken::Panicked | Broken::Stuck)
    }
}

impl From<String> for Violation {
    fn from(detail: String) -> Self {
        Self::new(Broken::Other, detail)
    }
}

impl From<&str> for Violation {
    fn from(detail: &str) -> Self {
        Self::new(Broken::Other, detail)
    }
}
