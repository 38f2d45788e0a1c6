//! What is chosen of the mechanism, and what can be left out of it.

use super::layout::Layout;

/// The mechanism over some work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Config {
    pub(super) layout: Layout,
    /// Instructions of each core in an epoch.
    pub(super) epoch: u64,
    /// Epochs between the one that executes and the one that the scan persists, less one.
    pub(super) gap: u64,
    /// Whether a second buffer takes entries while the first is written.
    pub(super) is_double: bool,
    pub(super) bloom_bits: u64,
    /// Cycles in which a private cache's entry comes to the buffer.
    pub(super) forward_cycles: u64,
    /// Cycles of the interrupt in which the log grows.
    pub(super) interrupt_cycles: u64,
    /// Whether output ends its epoch and has it persisted at once.
    pub(super) persists_output: bool,
    /// The level that scans look through: the last, which has what others have; or all.
    pub(super) scanned_level: Option<u8>,
    pub(super) faults: Faults,
}

/// One way in which the mechanism is left unsound. Numbers are those of `docs/picl.md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Fault {
    /// H4: the filter does not find every line whose entry is in the buffer.
    FilterMisses,
    /// H5: an epoch counts as persisted when its scan begins.
    PersistedAtScan,
    /// H6: an entry ends with the epoch before.
    TillEarly,
    /// PICL-1: what the scan writes does not wait for its undo entries.
    ScanUnfiltered,
    /// PICL-2, as H8 of others: registers are saved when the next epoch has begun.
    SavesLate,
    /// PICL-3: the end of a scan does not wait for entries on their way from private caches.
    ForwardsLost,
    /// PICL-4: epochs do not wait for a scan that lags behind by more than tags can tell.
    TagsWrap,
    /// PICL-4: entries in the log have numbers as wide as tags.
    NarrowLog,
    /// PICL-5: a flush of the buffer counts as done when it is issued.
    FlushIssued,
    /// PICL-7: recovery takes blocks of which a part is missing.
    TornTaken,
    /// PICL-8: recovery leaves the log as it is.
    Untruncated,
    /// PICL-9: recovery stops one epoch too early.
    StopsEarly,
    /// PICL-10: `PersistedEID` is written beside the last lines of the scan, not behind them.
    PersistedUnordered,
    /// PICL-13: the log is applied from its head on, so that the youngest entry wins.
    AppliedForward,
    /// Super blocks are free one epoch too early.
    FreedEarly,
    /// A part of the log is used before it is durable that it belongs to it.
    GrowthUnrecorded,
    /// PICL-6: a block has as many lines as entries, and its header takes some of them.
    BlockCut,
    /// PICL-11: the place of a block that was not full is taken again by the next one.
    PlaceTakenAgain,
    /// PICL-12: the gap is counted from the epoch that executes.
    GapShort,
    /// PICL-4: the EIDs of a line's quarters stay when it has gone home.
    QuartersStay,
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
