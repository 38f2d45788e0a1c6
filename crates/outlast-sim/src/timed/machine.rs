//! A machine whose scheme its user does not know.

use super::{
    journal::TimedJournal,
    ports::Scheme,
    requests::MemoryRequest,
    stats::RunStats,
    system::{Ended, RunError, System},
    time::Cycle,
    timeline::Timeline,
    warm::Warmed,
};
use crate::cache::LineBytes;
use outlast_trace::LineAddr;

/// A [`System`] under any scheme: what measures and crashes machines needs no more of one. A call
/// runs millions of instructions, so it costs nothing that the scheme's type is behind it.
pub trait Machine {
    /// As [`System::run`].
    ///
    /// # Errors
    /// As there.
    fn run(&mut self, instructions: u64) -> Result<Ended, RunError>;

    /// As [`System::warm`].
    ///
    /// # Errors
    /// As there.
    fn warm(&mut self, until: u64, leaves_dirty: bool) -> Result<Warmed, RunError>;

    /// As [`System::passed`].
    fn passed(&self) -> u64;

    /// As [`System::run_to_end`].
    ///
    /// # Errors
    /// As there.
    fn run_to_end(&mut self) -> Result<(), RunError> {
        while self.run(u64::MAX)? != Ended::Finished {}
        Ok(())
    }

    /// The present cycle.
    fn now(&self) -> Cycle;

    /// As [`System::retired`].
    fn retired(&mut self) -> Vec<u64>;

    /// As [`System::take_stats`].
    fn take_stats(&mut self) -> RunStats;

    /// As [`System::line`].
    fn line(&mut self, line: LineAddr) -> LineBytes;

    /// As [`System::journal`].
    fn journal(&self) -> Option<&TimedJournal>;

    /// As [`System::export_requests`].
    fn export_requests(&mut self);

    /// As [`System::take_requests`].
    fn take_requests(&mut self) -> Vec<MemoryRequest>;

    /// As [`System::keep_timeline`].
    fn keep_timeline(&mut self, from: Cycle, to: Cycle);

    /// As [`System::take_timeline`].
    fn take_timeline(&mut self) -> Option<Timeline>;
}

impl<S: Scheme> Machine for System<S> {
    fn run(&mut self, instructions: u64) -> Result<Ended, RunError> {
        System::run(self, instructions)
    }

    fn warm(&mut self, until: u64, leaves_dirty: bool) -> Result<Warmed, RunError> {
        System::warm(self, until, leaves_dirty)
    }

    fn passed(&self) -> u64 {
        System::passed(self)
    }

    fn now(&self) -> Cycle {
        System::now(self)
    }

    fn retired(&mut self) -> Vec<u64> {
        System::retired(self)
    }

    fn take_stats(&mut self) -> RunStats {
        System::take_stats(self)
    }

    fn line(&mut self, line: LineAddr) -> LineBytes {
        System::line(self, line)
    }

    fn journal(&self) -> Option<&TimedJournal> {
        System::journal(self)
    }

    fn export_requests(&mut self) {
        System::export_requests(self);
    }

    fn take_requests(&mut self) -> Vec<MemoryRequest> {
        System::take_requests(self)
    }

    fn keep_timeline(&mut self, from: Cycle, to: Cycle) {
        System::keep_timeline(self, from, to);
    }

    fn take_timeline(&mut self) -> Option<Timeline> {
        System::take_timeline(self)
    }
}
