//! A lane that is alone needs no locks.
//!
//! The first lane taken of a pool that has no other is its *soloist*: its transactions take no
//! lock and check no version, because nobody else runs any. That ends for good with the first
//! transaction of another lane, which waits for the soloist's transaction under way; from then
//! on all lanes lock. When all lanes have been given back, the next one taken is a soloist again.
//!
//! * **S1** A soloist's transaction runs without locks only after it has shown that it runs and
//!   has then seen that it is still the soloist. The other lane first ends the solo and then
//!   looks whether a transaction runs. Both orders are sequentially consistent, so one of the two
//!   sees the other.
//! * **S2** Nobody runs with locks before the soloist's last transaction without is over: lock
//!   words need not know of it. What it changed has, at the latest, the version of the clock at
//!   which every later transaction starts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use outlast_pmem::Medium;

use crate::spin::{SpinLock, wait};

/// Nobody is the soloist: all lanes lock.
const SHARED: u64 = 0;

/// Set in `soloist` while the lane named there may still be in its last solo transaction.
const ENDING: u64 = 1 << 63;

/// Who runs alone.
pub(crate) struct Solo {
    /// The soloist's number plus one, maybe with [`ENDING`]; or [`SHARED`].
    soloist: AtomicU64,
    /// The soloist's transaction is under way.
    runs: AtomicBool,
    /// How many lanes are taken.
    taken: SpinLock<usize>,
}

impl Solo {
    pub fn new() -> Self {
        Self {
            soloist: AtomicU64::new(SHARED),
            runs: AtomicBool::new(false),
            taken: SpinLock::new(0),
        }
    }

    /// Lane `id` was taken.
    pub fn lane_taken<M: Medium>(&self, medium: &M, id: usize) {
        let mut taken = self.taken.lock(medium);
        if *taken == 0 {
            self.soloist.store(id as u64 + 1, Ordering::SeqCst);
        }
        *taken += 1;
    }

    /// A lane was given back.
    pub fn lane_given_back<M: Medium>(&self, medium: &M) {
        *self.taken.lock(medium) -= 1;
    }

    /// Lane `id` begins a transaction. `true` when it runs without locks; then
    /// [`leave`](Self::leave) ends it.
    #[inline]
    pub fn enter<M: Medium>(&self, medium: &M, id: usize) -> bool {
        let me = id as u64 + 1;
        if self.soloist.load(Ordering::Relaxed) == me {
            // S1.
            self.runs.swap(true, Ordering::SeqCst);
            if self.soloist.load(Ordering::SeqCst) == me {
                return true;
            }
            self.runs.store(false, Ordering::SeqCst);
        }
        if self.soloist.load(Ordering::Acquire) != SHARED {
            self.end(medium);
        }
        false
    }

    /// The soloist's transaction is over.
    #[inline]
    pub fn leave(&self) {
        self.runs.store(false, Ordering::Release);
    }

    /// S2: ends the solo and waits until nothing runs under it.
    #[cold]
    fn end<M: Medium>(&self, medium: &M) {
        // Nobody becomes the soloist meanwhile: the caller has a lane.
        let mut now = self.soloist.load(Ordering::SeqCst);
        while now & ENDING == 0 && now != SHARED {
            match self.swap(now, now | ENDING) {
                Ok(_) => now |= ENDING,
                Err(newer) => now = newer,
            }
        }
        if now == SHARED {
            return;
        }
        let mut tries = 0;
        while self.runs.load(Ordering::SeqCst) {
            wait(medium, &mut tries);
        }
        // Where it fails another lane has done it.
        let _ = self.swap(now, SHARED);
    }

    fn swap(&self, from: u64, to: u64) -> Result<u64, u64> {
        self.soloist.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use outlast_pmem::Heap;

    use super::*;

    #[test]
    fn the_first_lane_runs_alone_until_another_begins() {
        let (medium, solo) = (Heap::new(64), Solo::new());
        solo.lane_taken(&medium, 3);
        solo.lane_taken(&medium, 0);
        assert!(solo.enter(&medium, 3), "the other lane has not begun anything");
        solo.leave();
        assert!(!solo.enter(&medium, 0));
        assert!(!solo.enter(&medium, 3), "it ends for good");
        solo.lane_given_back(&medium);
        assert!(!solo.enter(&medium, 3), "even when the other lane is given back");
        solo.lane_given_back(&medium);
        solo.lane_taken(&medium, 1);
        assert!(solo.enter(&medium, 1), "with all given back it begins again");
    }

    #[test]
    fn nobody_runs_beside_a_soloist() {
        let medium = Heap::new(64);
        for _ in 0..if cfg!(miri) { 3 } else { 300 } {
            let (solo, inside) = (Solo::new(), AtomicUsize::new(0));
            (0..3).for_each(|id| solo.lane_taken(&medium, id));
            std::thread::scope(|scope| {
                for id in 0..3 {
                    let (solo, inside, medium) = (&solo, &inside, &medium);
                    scope.spawn(move || {
                        for _ in 0..30 {
                            let alone = solo.enter(medium, id);
                            let others = inside.fetch_add(1, Ordering::SeqCst);
                            assert!(!alone || others == 0, "a soloist begins beside others");
                            std::hint::spin_loop();
                            let beside = inside.fetch_sub(1, Ordering::SeqCst) - 1;
                            assert!(!alone || beside == 0, "others began beside a soloist");
                            if alone {
                                solo.leave();
                            }
                        }
                    });
                }
            });
        }
    }
}
