//! What is chosen of the mechanism, and what can be left out of it.

use super::layout::Layout;
use crate::shared::ait::Ait;

/// When a committed entry is written to the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Persisting {
    /// When its transaction ends.
    Eager,
    /// When it is overwritten or evicted.
    Lazy,
}

/// The mechanism over some work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Config {
    pub(super) layout: Layout,
    pub(super) ait: Ait,
    pub(super) persisting: Persisting,
    /// Whether speculative entries may be evicted, into overflow logs.
    pub(super) logs: bool,
    /// Whether a write of a line of the map persists all committed entries of that line.
    pub(super) whole_lines: bool,
    /// Lines of each log buffer.
    pub(super) buffer_lines: u64,
    pub(super) bloom_bits: u64,
    pub(super) faults: Faults,
}

/// One way in which the mechanism is left unsound. Numbers are those of `docs/ehou.md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Fault {
    /// H12: a speculative entry is evicted to the map, and to no log.
    LogToMap,
    /// H13: a crash drains speculative entries as well.
    DrainsSpeculative,
    /// H14: recovery does not free the blocks of transactions that had not committed.
    ReclaimLost,
    /// H15: records of the overflow log are applied before the commit.
    AppliedEarly,
    /// EHOU-2: nothing says that a transaction has committed but its entries, one by one.
    OneByOne,
    /// EHOU-3: the log is cleared before all of it is applied.
    LogCleared,
    /// EHOU-4: a block is reclaimed although its entry has committed.
    ReclaimLate,
    /// EHOU-5: that a superseded block is free is not durable.
    FreedVolatile,
    /// EHOU-5: a superseded block is free at once, before its transaction commits.
    FreedEarly,
    /// EHOU-8: an abort does not free its blocks.
    AbortLeaks,
    /// EHOU-8: an abort leaves speculative entries, so that loads find what it stored.
    AbortStays,
    /// EHOU-9: a transaction ends before its lines have left the caches.
    LinesLeft,
    /// EHOU-12: a miss looks into no log.
    LogUnread,
    /// A committed entry is overwritten and was not written to the map.
    Overwritten,
    /// A committed entry is evicted and not written to the map.
    Evicted,
}

/// A set of [`Fault`]s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Faults(u32);

impl Faults {
    pub(super) const NONE: Self = Self(0);

    pub(super) const fn of(faults: &[Fault]) -> Self {
        let (mut bits, mut k) = (0, 0);
        while k < faults.len() {
            bits |= 1 << faults[k] as u8;
            k += 1;
        }
        Self(bits)
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline]
    pub(super) const fn has(self, fault: Fault) -> bool {
        self.0 >> fault as u8 & 1 == 1
    }
}
