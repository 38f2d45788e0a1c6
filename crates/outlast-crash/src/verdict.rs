//! What the judge is told of a crash, and what it answers.

use std::any::Any;
use std::fmt;

use outlast_trace::{LaneId, TxId};

use crate::caught;
use crate::image::{ImageMedium, Stuck};

/// What came before a crash.
#[derive(Clone, Copy, Debug)]
pub struct Crash<'a> {
    /// 1 for a crash of the program, 2 for a crash of the recovery from that, and so on.
    pub level: u32,
    /// The operation before which it happened, counted in the program or in the recovery that
    /// crashed. For messages: a verdict must not depend on it.
    pub op: usize,
    /// The transactions acknowledged before, in order; those acknowledged by earlier recoveries
    /// included.
    pub acked: &'a [TxId],
    /// The lane of every transaction that had begun, in order.
    pub begun: &'a [LaneId],
}

impl Crash<'_> {
    /// How many transactions this lane had begun.
    pub fn begun_by(&self, lane: LaneId) -> usize {
        self.begun.iter().filter(|&&l| l == lane).count()
    }
}

/// Which promise was broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Broken {
    /// An acknowledged transaction is missing.
    Lost,
    /// A transaction is there in part.
    Torn,
    /// What survived depends on something that did not.
    NotClosed,
    /// What survived cannot have happened one after the other.
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
    pub(crate) fn is_refusal(&self) -> bool {
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

/// Recovers an image and judges what comes of it.
///
/// Both methods must be functions of the image's bytes and of what the crash says of
/// acknowledged and begun transactions, and nothing else: they run again and again. An answer
/// with more acknowledged transactions must not be milder than with fewer.
pub trait Judge {
    /// Runs recovery on `image` and judges what it left. A panic counts as a violation.
    ///
    /// # Errors
    /// What is wrong with the recovered state.
    fn verify(&mut self, image: &ImageMedium, crash: &Crash<'_>) -> Result<(), Violation>;

    /// Goes on working after a recovery that was in order, so that the next crash meets a pool
    /// which has been in use since. Called after `verify` where another crash follows, and after
    /// every first crash.
    ///
    /// # Errors
    /// What is wrong with how it goes on.
    fn after(&mut self, image: &ImageMedium, crash: &Crash<'_>) -> Result<(), Violation> {
        let _ = (image, crash);
        Ok(())
    }
}

impl<F> Judge for F
where
    F: FnMut(&ImageMedium, &Crash<'_>) -> Result<(), Violation>,
{
    fn verify(&mut self, image: &ImageMedium, crash: &Crash<'_>) -> Result<(), Violation> {
        self(image, crash)
    }
}

/// Runs both halves of a judge, turning panics into violations.
pub(crate) fn judge(
    judge: &mut dyn Judge,
    image: &ImageMedium,
    crash: &Crash<'_>,
    go_on: bool,
) -> Result<(), Violation> {
    let both = || {
        judge.verify(image, crash)?;
        if go_on { judge.after(image, crash) } else { Ok(()) }
    };
    caught::catch(both).unwrap_or_else(|payload| Err(panicked(&*payload)))
}

#[cold]
pub(crate) fn panicked(payload: &(dyn Any + Send)) -> Violation {
    match payload.downcast_ref() {
        Some(Stuck(why)) => Violation::new(Broken::Stuck, why.clone()),
        None => Violation::new(Broken::Panicked, caught::message(payload)),
    }
}
