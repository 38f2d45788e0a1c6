//! Commands as they were given, for a timeline.

use super::{Channel, Place};

/// A command, in clocks of the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::timed::controller) struct Given {
    /// JEDEC's name of it.
    pub(in crate::timed::controller) name: &'static str,
    /// Bank of the channel.
    pub(in crate::timed::controller) bank: u8,
    pub(in crate::timed::controller) at: u64,
    /// The cycles that it takes: tRCD, tRP, tRFC, or the data bus.
    pub(in crate::timed::controller) clocks: u64,
}

impl Channel {
    fn note(&mut self, name: &'static str, bank: u8, at: u64, clocks: u64) {
        if let Some(given) = &mut self.given {
            given.push(Given { name, bank, at, clocks });
        }
    }

    pub(super) fn note_activate(&mut self, now: u64, place: Place) {
        self.note("ACT", place.bank, now, self.timing.rcd);
    }

    pub(super) fn note_precharge(&mut self, now: u64, place: Place) {
        self.note("PRE", place.bank, now, self.timing.rp);
    }

    pub(super) fn note_column(&mut self, now: u64, write: bool, place: Place) {
        self.note(if write { "WR" } else { "RD" }, place.bank, now, self.timing.burst);
    }

    pub(super) fn note_refresh(&mut self, bank: usize, at: u64, clocks: u64) {
        self.note("REF", bank as u8, at, clocks);
    }
}
