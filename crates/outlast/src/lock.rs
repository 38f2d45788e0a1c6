//! Isolation: versioned lock words over stripes of lines, in volatile memory.
//!
//! Writers lock the lines they store to until the end of the transaction, at once or, where they
//! store to a write set, when they commit; readers take no lock but remember the version they saw and
//! check it again (two-phase locking for writes, optimistic reads in the manner of TL2). A version is
//! the number of the commit that stored to a line last, so that the order of the log is the order of
//! the locks.
//!
//! A lock word has the lane that has it when it is taken, and the version and the lane that it comes
//! from when it is free.

use std::sync::atomic::{AtomicU64, Ordering};

use outlast_trace::{LINE_BYTES, LineAddr};

use crate::layout::LANES_MAX;
use crate::seq::Seq;

/// Versioned locks, one for every line modulo the size of the table. Neighbouring lines have
/// neighbouring locks, so that reading an object touches few lines of the table.
pub(crate) struct LockTable {
    words: Box<[AtomicU64]>,
}

/// A line's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stripe(pub u32);

/// The content of a lock word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockWord(pub u64);

/// A lane's number stands above the bit that says whether the lock is taken, a version above that.
const VERSION_SHIFT: u32 = 17;

const _: () =
    assert!((LANES_MAX as u64) < 1 << 16 && Seq::COUNTER_MAX >> (64 - VERSION_SHIFT) == 0);

impl LockWord {
    /// Released by that commit of a lane.
    pub fn free(version: u64, lane: usize) -> Self {
        Self(version << VERSION_SHIFT | (lane as u64) << 1)
    }

    pub fn taken_by(lane: usize) -> Self {
        Self((lane as u64) << 1 | 1)
    }

    pub fn is_free(self) -> bool {
        self.0 & 1 == 0
    }

    /// When free: the commit that last released it.
    pub fn version(self) -> u64 {
        self.0 >> VERSION_SHIFT
    }

    /// The lane that has it, or had it last.
    pub fn lane(self) -> usize {
        (self.0 >> 1 & 0xffff) as usize
    }
}

impl Stripe {
    /// Whether its lock is the first in a cache line of them.
    #[inline]
    pub fn begins_line(self) -> bool {
        u64::from(self.0).is_multiple_of(LINE_BYTES / 8)
    }
}

impl LockTable {
    /// A table of at least `stripes` locks, all free at version 0.
    pub fn new(stripes: usize) -> Self {
        let stripes = stripes.next_power_of_two();
        // Fresh memory of the system is zero, and is mapped by the first store to it.
        Self { words: bytemuck::zeroed_slice_box(stripes) }
    }

    #[inline]
    pub fn stripe(&self, line: LineAddr) -> Stripe {
        Stripe((line.0 as usize & (self.words.len() - 1)) as u32)
    }

    #[inline]
    fn word(&self, stripe: Stripe) -> &AtomicU64 {
        &self.words[stripe.0 as usize]
    }

    #[inline]
    pub fn load(&self, stripe: Stripe) -> LockWord {
        LockWord(self.word(stripe).load(Ordering::SeqCst))
    }

    /// Has the lock's cache line fetched, to take the lock.
    #[inline]
    pub fn prefetch_write(&self, stripe: Stripe) {
        outlast_pmem::prefetch_write(self.word(stripe));
    }

    /// Has the lock's cache line fetched, to look at it.
    #[inline]
    pub fn prefetch_read(&self, stripe: Stripe) {
        outlast_pmem::prefetch_read(self.word(stripe));
    }

    /// Takes the lock if it still says `seen`.
    #[inline]
    pub fn try_take(&self, stripe: Stripe, seen: LockWord, lane: usize) -> bool {
        let taken = LockWord::taken_by(lane).0;
        self.word(stripe)
            .compare_exchange(seen.0, taken, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    #[inline]
    pub fn release(&self, stripe: Stripe, to: LockWord) {
        self.word(stripe).store(to.0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_lock_cannot_be_taken_and_a_stale_sight_of_it_fails() {
        let table = LockTable::new(5);
        let stripe = table.stripe(LineAddr(9));
        assert_eq!(stripe, table.stripe(LineAddr(1)));
        let seen = table.load(stripe);
        assert!(table.try_take(stripe, seen, 3));
        assert_eq!(table.load(stripe), LockWord::taken_by(3));
        assert!(!table.try_take(stripe, seen, 4));
        table.release(stripe, LockWord::free(7, 3));
        let freed = table.load(stripe);
        assert_eq!((freed.version(), freed.lane()), (7, 3));
        assert!(!table.try_take(stripe, seen, 4), "the version has moved on");
    }
}
