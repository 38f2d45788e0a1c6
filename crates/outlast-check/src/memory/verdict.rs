//! A judge's view of a crash, and its answer.

use std::any::Any;

use outlast_trace::{LaneId, TxId};

use crate::caught;
use crate::memory::image::{ImageMedium, Stuck};
pub use crate::oracle::{Broken, Violation};

/// The marks before a crash.
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

/// Recovers an image and judges the result.
///
/// Both methods must be functions of the image's bytes and of what the crash says of
/// acknowledged and begun transactions, and nothing else: they run again and again. An answer
/// with more acknowledged transactions must not be milder than with fewer.
pub trait Judge {
    /// Runs recovery on `image` and judges the state it left. A panic counts as a violation.
    ///
    /// # Errors
    /// The violation in the recovered state.
    fn verify(&mut self, image: &ImageMedium, crash: &Crash<'_>) -> Result<(), Violation>;

    /// Goes on working after a recovery that was in order, so that the next crash meets a pool
    /// which has been in use since. Called after `verify` where another crash follows, and after
    /// every first crash.
    ///
    /// # Errors
    /// The violation in the continued run.
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

/// The violation that a panic of recovery or judge is.
#[cold]
pub fn panicked(payload: &(dyn Any + Send)) -> Violation {
    match payload.downcast_ref() {
        Some(Stuck(why)) => Violation::new(Broken::Stuck, why.clone()),
        None => Violation::new(Broken::Panicked, caught::message(payload)),
    }
}
