//! A lane that is alone needs no locks.
//!
//! The first lane taken of a pool that has no other is its *soloist*: its transactions take no
//! lock and check no version, because nobody else runs any. That ends for good with the first
//! transaction of another lane, which waits for the soloist's transaction under way; from then
//! on all lanes lock. When all lanes have been given back, the next one taken is a soloist again.
//!
//! * **S1** A soloist's transaction runs without locks only after it has shown that it is inside
//!   the [gate](crate::gate) and has then seen that its lane is still the soloist. The other lane
//!   first ends the solo and then looks whether the soloist is inside. A full fence lies between
//!   the two steps on both sides, so one of the two sees the other. The soloist's is the gate's,
//!   paid by the other side where the operating system can do that
//!   ([`Barrier`](crate::barrier::Barrier)): a fence at each begin would keep a transaction's first
//!   loads from overlapping with the last ones of the transaction before.
//! * **S2** Nobody runs with locks before the soloist's last transaction without is over: lock
//!   words need not know of it. What it changed has, at the latest, the version of the clock at
//!   which every later transaction starts.

use std::sync::atomic::{AtomicU64, Ordering};

use outlast_pmem::Medium;

use crate::gate::Gate;
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
    /// How many lanes are taken.
    taken: SpinLock<usize>,
}

impl Solo {
    /// Without soloists all lanes lock from the start.
    pub fn new(allowed: bool) -> Self {
        Self { allowed, soloist: AtomicU64::new(SHARED), taken: SpinLock::new(0) }
    }

    /// Lane `id` was taken. `when_first` is called where there is no other.
    pub fn lane_taken<M: Medium>(&self, medium: &M, id: usize, when_first: impl FnOnce()) {
        let mut taken = self.taken.lock(medium);
        if self.allowed && *taken == 0 {
            when_first();
            self.soloist.store(id as u64 + 1, Ordering::SeqCst);
        }
        *taken += 1;
    }

    /// A lane was given back.
    pub fn lane_given_back<M: Medium>(&self, medium: &M) {
        *self.taken.lock(medium) -= 1;
    }

    /// Lane `id` begins a transaction, and is inside the gate until it leaves that. `true` when it
    /// runs without locks. `settle` does what is left to do for the soloist that it is given, when
    /// this ends a solo.
    #[inline]
    pub fn enter<M: Medium>(
        &self,
        medium: &M,
        gate: &Gate,
        id: usize,
        settle: impl Fn(usize),
    ) -> bool {
        loop {
            gate.enter(medium, id);
            // S1.
            let soloist = self.soloist.load(Ordering::Acquire);
            if soloist == SHARED || soloist == id as u64 + 1 {
                return soloist != SHARED;
            }
            // Outside, or whoever ends the solo would wait for this lane.
            gate.leave(id);
            self.end(medium, gate, &settle);
        }
    }

    /// S2: ends the solo, waits until nothing runs under it, and settles what it left open.
    #[cold]
    fn end<M: Medium>(&self, medium: &M, gate: &Gate, settle: impl Fn(usize)) {
        let mut tries = 0;
        loop {
            let now = self.soloist.load(Ordering::SeqCst);
            if now == SHARED {
                return;
            }
            let soloist = (now & !ENDING) as usize - 1;
            // Said before anything has changed, so that whoever catches it can go on.
            assert!(
                !gate.is_this_thread_in(soloist),
                "a transaction's closure runs another transaction of the same pool"
            );
            // Nobody becomes the soloist meanwhile: the caller has a lane.
            if now & ENDING == 0 && self.swap(now, now | ENDING) {
                gate.await_outside(medium, soloist);
                settle(soloist);
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
        let (medium, solo, gate) = (Heap::new(64), Solo::new(true), Gate::new(4));
        solo.lane_taken(&medium, 3, || ());
        solo.lane_taken(&medium, 0, || ());
        let enters = |id| {
            let alone = solo.enter(&medium, &gate, id, none);
            gate.leave(id);
            alone
        };
        assert!(enters(3), "the other lane has not begun anything");
        assert!(!enters(0));
        assert!(!enters(3), "it ends for good");
        solo.lane_given_back(&medium);
        assert!(!enters(3), "even when the other lane is given back");
        solo.lane_given_back(&medium);
        solo.lane_taken(&medium, 1, || ());
        assert!(enters(1), "with all given back it begins again");
    }

    #[test]
    #[should_panic(expected = "closure runs another transaction")]
    fn a_transaction_inside_a_transaction_does_not_wait_for_ever() {
        let (medium, solo, gate) = (Heap::new(64), Solo::new(true), Gate::new(4));
        (0..2).for_each(|id| solo.lane_taken(&medium, id, || ()));
        assert!(solo.enter(&medium, &gate, 0, none));
        solo.enter(&medium, &gate, 1, none);
    }

    #[test]
    fn nobody_runs_beside_a_soloist() {
        let medium = Heap::new(64);
        for _ in 0..if cfg!(miri) { 3 } else { 300 } {
            let (solo, gate) = (Solo::new(true), Gate::new(3));
            let inside = AtomicUsize::new(0);
            (0..3).for_each(|id| solo.lane_taken(&medium, id, || ()));
            std::thread::scope(|scope| {
                for id in 0..3 {
                    let (solo, gate, inside, medium) = (&solo, &gate, &inside, &medium);
                    scope.spawn(move || {
                        for _ in 0..30 {
                            let alone = solo.enter(medium, gate, id, none);
                            let others = inside.fetch_add(1, Ordering::SeqCst);
                            assert!(!alone || others == 0, "a soloist begins beside others");
                            std::hint::spin_loop();
                            let beside = inside.fetch_sub(1, Ordering::SeqCst) - 1;
                            assert!(!alone || beside == 0, "others began beside a soloist");
                            gate.leave(id);
                        }
                    });
                }
            });
        }
    }
}
