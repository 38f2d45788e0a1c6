//! The program under check, with the volatile state that its lanes share, and the judge of its crashes.
//!
//! A check is compiled once for all programs and judges: what it does costs far more than a call.

use outlast_pmem::Recorder;
use outlast_trace::LaneId;

use crate::memory::image::ImageMedium;
use crate::memory::verdict::{Crash, Violation};

/// Recovery and oracle as one judge.
pub(super) type Verify<'a> = &'a dyn Fn(&ImageMedium, &Crash<'_>) -> Result<(), Violation>;

/// The work of each lane of a run.
pub(super) type Lane<'a> = &'a (dyn Fn(LaneId) + Sync);

/// A program of several lanes.
pub(super) trait Program: Sync {
    /// Makes the state that a run's lanes share beside the medium, and lets `run` run them, which it does once.
    fn run(&self, medium: &Recorder, run: &mut dyn FnMut(Lane<'_>));
}

/// A program as two closures: the state that its lanes share, and the work of each.
pub(super) struct Lanes<F, P> {
    pub share: F,
    pub program: P,
}

impl<T, F, P> Program for Lanes<F, P>
where
    T: Sync,
    F: Fn() -> T + Sync,
    P: Fn(LaneId, &Recorder, &T) + Sync,
{
    fn run(&self, medium: &Recorder, run: &mut dyn FnMut(Lane<'_>)) {
        let shared = (self.share)();
        run(&|lane| (self.program)(lane, medium, &shared));
    }
}
