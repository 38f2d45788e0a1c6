//! The positions that lanes show to the sweeper, and in which order that is written and read (SWEEP-1 to SWEEP-4).
//!
//! It is generic over words, so that a model checker goes through all that threads can do to each
//! other with it. Loads see what the thread that stored the value had done before; nothing here needs one
//! order over all words. In SWEEP-4, if a sweep's reading of the clock includes a commit's number, that
//! commit drew it before, and had stored its bound before that: both are then seen.

use std::sync::atomic::AtomicU64;

use crate::word::Word;

/// The part of a lane that the sweeper reads. Positions count lines and only grow; a line's place in the
/// ring is its position modulo the ring's length.
pub(crate) struct LaneShared<W = AtomicU64> {
    /// While a redo commit is under way: a counter below its number, shown before that is drawn. Else
    /// [`IDLE`](Self::IDLE).
    pub bound: W,
    /// Position behind the last record that is installed in place.
    pub installed: W,
    /// Counter of that record, or of a later one: stored first.
    pub last_installed: W,
    /// How many numbers the lane has drawn.
    pub drawn: W,
    /// Position behind the last record all of whose data the lane's own thread has flushed.
    pub flushed: W,
    /// As `flushed`, and that thread has fenced it since.
    pub fenced: W,
    /// Position behind the last record below the floor. Only the sweeper moves it.
    pub swept: W,
    /// Position up to which lines may be used again: the durable tail.
    pub tail: W,
    /// Undo: the last number of a transaction that has witnesses and no durable mark yet; zero
    /// when there is none.
    pub unmarked: W,
    /// Atlas: the number of the lane's section that has let go of its locks and is not stable yet;
    /// zero when there is none.
    #[cfg(feature = "lab")]
    pub section: W,
}

/// The bound of a lane that has no commit under way.
const IDLE: u64 = u64::MAX;

impl LaneShared {
    /// No commit is under way.
    pub const IDLE: u64 = IDLE;
}

impl<W: Word> LaneShared<W> {
    /// A lane that has done nothing.
    pub fn new() -> Self {
        Self {
            bound: W::new(IDLE),
            installed: W::new(0),
            last_installed: W::new(0),
            drawn: W::new(0),
            flushed: W::new(0),
            fenced: W::new(0),
            swept: W::new(0),
            tail: W::new(0),
            unmarked: W::new(0),
            #[cfg(feature = "lab")]
            section: W::new(0),
        }
    }

    /// SWEEP-4: a commit is about to draw its number, which will be above the clock and the lane's last.
    /// Where it does so by itself, a full fence must lie between this and its reading of the clock.
    #[inline]
    pub fn enter(&self, clock: &W) {
        self.bound.store(clock.load().max(self.last_installed.load()));
    }

    /// Position behind the last installed record, and a counter that is not below that record's.
    pub fn installed_and_last(&self) -> (u64, u64) {
        let installed = self.installed.load();
        (installed, self.last_installed.load())
    }

    /// Position behind the last record that needs no flush by a sweep, when that has fenced: one of
    /// the lane's `own` thread, or another.
    pub fn covered(&self, own: bool) -> u64 {
        let flushed = if own { &self.flushed } else { &self.fenced };
        flushed.load().max(self.swept.load())
    }

    /// SWEEP-3: the floor above these lines is durable, and the tail behind them.
    pub fn free_to(&self, position: u64) {
        self.tail.store(position);
    }
}

/// SWEEP-4: the smallest counter whose record may not be in place yet. The clock is raised to all numbers
/// drawn by lanes themselves, and `full_fence` lies between that and the reading of the bounds.
pub(crate) fn first_not_installed<'s, W: Word + 's>(
    clock: &W,
    lanes: impl Iterator<Item = &'s LaneShared<W>> + Clone,
    full_fence: impl FnOnce(),
) -> u64 {
    clock.raise(lanes.clone().map(|lane| lane.last_installed.load()).fold(0, u64::max));
    full_fence();
    let clock = clock.load();
    let bounds = lanes.into_iter().map(|lane| lane.bound.load());
    bounds.fold(clock, u64::min) + 1
}

#[cfg(all(test, not(miri)))]
mod tests;
