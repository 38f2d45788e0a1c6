//! The program under check, with the volatile state that its lanes share.

use outlast_pmem::Recorder;
use outlast_trace::LaneId;

/// A program of several lanes.
pub(super) trait Program: Sync {
    /// What its lanes share beside the medium.
    type Shared: Sync;

    /// The shared state as a run begins with it.
    fn share(&self) -> Self::Shared;

    /// What a lane does.
    fn run(&self, lane: LaneId, medium: &Recorder, shared: &Self::Shared);
}

/// A program as two closures.
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
    type Shared = T;

    fn share(&self) -> T {
        (self.share)()
    }

    fn run(&self, lane: LaneId, medium: &Recorder, shared: &T) {
        (self.program)(lane, medium, shared);
    }
}
