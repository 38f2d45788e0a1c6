//! Isolation: versioned lock words over stripes of lines, in volatile memory.
//!
//! Writers lock the lines they store to, at once and until the end of the transaction; readers
//! take no lock but remember the version they saw and check it again (two-phase locking for
//! writes, optimistic reads in the manner of TL2). The commit clock that versions come from is
//! the one that numbers redo records, so that the order of the log is the order of the locks.
//!
//! A lock word is `version << 1` when free and `lane << 1 | 1` when taken.

use std::sync::atomic::{AtomicU64, Ordering};

use outlast_trace::LineAddr;

/// Versioned locks, one for every line modulo the size of the table. Neighbouring lines have
/// neighbouring locks, so that reading an object touches few lines of the table.
pub(crate) struct LockTable {
    words: Box<[AtomicU64]>,
}

/// A line's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stripe(pub u32);

/// What a lock word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockWord(pub u64);

impl LockWord {
    pub fn free(version: u64) -> Self {
        Self(version << 1)
    }

    pub fn taken_by(lane: usize) -> Self {
        Self((lane as u64) << 1 | 1)
    }

    pub fn is_free(self) -> bool {
        self.0 & 1 == 0
    }

    /// When free: the commit that last released it.
    pub fn version(self) -> u64 {
        self.0 >> 1
    }
}

impl LockTable {
    /// A table of at least `stripes` locks, all free at version 0.
    pub fn new(stripes: usize) -> Self {
        let stripes = stripes.next_power_of_two();
        Self { words: (0..stripes).map(|_| AtomicU64::new(0)).collect() }
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
        LockWord(self.word(stripe).load(Ordering::Acquire))
    }

    /// Takes the lock if it still says `seen`.
    #[inline]
    pub fn try_take(&self, stripe: Stripe, seen: LockWord, lane: usize) -> bool {
        let taken = LockWord::taken_by(lane).0;
        self.word(stripe)
            .compare_exchange(seen.0, taken, Ordering::AcqRel, Ordering::Relaxed)
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
        table.release(stripe, LockWord::free(7));
        assert_eq!(table.load(stripe).version(), 7);
        assert!(!table.try_take(stripe, seen, 4), "the version has moved on");
    }
}
