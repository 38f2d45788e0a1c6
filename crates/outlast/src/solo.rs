//! A lane that is alone needs no locks.
//!
//! The first lane taken of a pool that has no other is its *soloist*: its transactions take no
//! lock and check no version, because nobody else runs any. That ends for good with the first
//! transaction of another lane, which waits for the soloist's transaction under way; from then
//! on all lanes lock. When all lanes have been given back, the next one taken is a soloist again.
//!
//! * **S1** A soloist's transaction runs without locks only after it has shown that it runs and
//!   has then seen that it is still the soloist. The other lane first ends the solo and then
//!   looks whether a transaction runs. A full fence lies between the two steps on both sides, so
//!   one of the two sees the other. The soloist's is paid by the other side where the operating
//!   system can do that ([`Barrier`]): a fence at each begin would keep a transaction's first
//!   loads from overlapping with the last ones of the transaction before.
//! * **S2** Nobody runs with locks before the soloist's last transaction without is over: lock
//!   words need not know of it. What it changed has, at the latest, the version of the clock at
//!   which every later transaction starts.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use outlast_pmem::Medium;

use crate::barrier::{Barrier, this_thread};
use crate::spin::{SpinLock, wait};

/// Nobody is the soloist: all lanes lock.
const SHARED: u64 = 0;

/// Set in `soloist` while the lane named there may still be in its last solo transaction.
const ENDING: u64 = 1 << 63;

/// Who runs alone.
pub(crate) struct Solo {
    allowed: bool,
    /// The soloist's number plus one, maybe with [`ENDING`]; or [`SHARED`].
    soloist: AtomicU64,
    barrier: Barrier,
    /// The soloist's transaction is under way.
    runs: AtomicBool,
    /// The thread that it runs on, or ran last.
    thread: AtomicUsize,
    /// How many lanes are taken.
    taken: SpinLock<usize>,
}

impl Solo {
    /// Without soloists all lanes lock from the start.
    pub fn new(allowed: bool) -> Self {
        Self {
            allowed,
            barrier: Barrier::new(),
            soloist: AtomicU64::new(SHARED),
            runs: AtomicBool::new(false),
            thread: AtomicUsize::new(0),
            taken: SpinLock::new(0),
        }
    }

    /// Lane `id` was taken.
    pub fn lane_taken<M: Medium>(&self, medium: &M, id: usize) {
        let mut taken = self.taken.lock(medium);
        if self.allowed && *taken == 0 {
            self.soloist.store(id as u64 + 1, Ordering::SeqCst);
        }
        *taken += 1;
    }

    /// A lane was given back.
    pub fn lane_given_back<M: Medium>(&self, medium: &M) {
        *self.taken.lock(medium) -= 1;
    }

    /// Lane `id` begins a transaction. `true` when it runs without locks; then
    /// [`leave`](Self::leave) ends it. `settle` does what is left to do for the soloist that it
    /// is given, when this ends a solo.
    #[inline]
    pub fn enter<M: Medium>(&self, medium: &M, id: usize, settle: impl Fn(usize)) -> bool {
        let me = id as u64 + 1;
        if self.soloist.load(Ordering::Relaxed) == me {
            self.thread.store(this_thread(), Ordering::Relaxed);
            // S1.
            self.runs.store(true, Ordering::Relaxed);
            self.barrier.light();
            if self.soloist.load(Ordering::Acquire) == me {
                return true;
            }
            self.runs.store(false, Ordering::Release);
        }
        if self.soloist.load(Ordering::Acquire) != SHARED {
            self.end(medium, settle);
        }
        false
    }

    /// The soloist's transaction is over.
    #[inline]
    pub fn leave(&self) {
        self.runs.store(false, Ordering::Release);
    }

    /// S2: ends the solo, waits until nothing runs under it, and settles what it left open.
    #[cold]
    fn end<M: Medium>(&self, medium: &M, settle: impl Fn(usize)) {
        let mut tries = 0;
        loop {
            let now = self.soloist.load(Ordering::SeqCst);
            if now == SHARED {
                return;
            }
            // Said before anything has changed, so that whoever catches it can go on.
            assert!(
                !(self.runs.load(Ordering::Acquire)
                    && self.thread.load(Ordering::Relaxed) == this_thread()),
                "a transaction's closure runs another transaction of the same pool"
            );
            // Nobody becomes the soloist meanwhile: the caller has a lane.
            if now & ENDING == 0 && self.swap(now, now | ENDING) {
                self.barrier.heavy();
                while self.runs.load(Ordering::Acquire) {
                    wait(medium, &mut tries);
                }
                settle(now as usize - 1);
                self.soloist.store(SHARED, Ordering::SeqCst);
                return;
            }
            wait(medium, &mut tries);
        }
    }

    fn swap(&self, from: u64, to: u64) -> bool {
        self.soloist.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use outlast_pmem::Heap;

    use super::*;

    fn none(_: usize) {}

    #[test]
    fn the_first_lane_runs_alone_until_another_begins() {
        let (medium, solo) = (Heap::new(64), Solo::new(true));
        solo.lane_taken(&medium, 3);
        solo.lane_taken(&medium, 0);
        assert!(solo.enter(&medium, 3, none), "the other lane has not begun anything");
        solo.leave();
        assert!(!solo.enter(&medium, 0, none));
        assert!(!solo.enter(&medium, 3, none), "it ends for good");
        solo.lane_given_back(&medium);
        assert!(!solo.enter(&medium, 3, none), "even when the other lane is given back");
        solo.lane_given_back(&medium);
        solo.lane_taken(&medium, 1);
        assert!(solo.enter(&medium, 1, none), "with all given back it begins again");
    }

    #[test]
    #[should_panic(expected = "closure runs another transaction")]
    fn a_transaction_inside_a_transaction_does_not_wait_for_ever() {
        let (medium, solo) = (Heap::new(64), Solo::new(true));
        (0..2).for_each(|id| solo.lane_taken(&medium, id));
        assert!(solo.enter(&medium, 0, none));
        solo.enter(&medium, 1, none);
    }

    #[test]
    fn nobody_runs_beside_a_soloist() {
        let medium = Heap::new(64);
        for _ in 0..if cfg!(miri) { 3 } else { 300 } {
            let (solo, inside) = (Solo::new(true), AtomicUsize::new(0));
            (0..3).for_each(|id| solo.lane_taken(&medium, id));
            std::thread::scope(|scope| {
                for id in 0..3 {
                    let (solo, inside, medium) = (&solo, &inside, &medium);
                    scope.spawn(move || {
                        for _ in 0..30 {
                            let alone = solo.enter(medium, id, none);
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
