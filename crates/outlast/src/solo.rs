//! A lane that is alone needs no locks.
//!
//! The first lane taken of a pool that has no other is its *soloist*: its transactions take no
//! lock and check no version, because no other lane runs any. That ends with the first
//! transaction of another lane, which waits for the soloist's transaction under way; from then
//! on all lanes lock. It begins again when all others have been given back, or *back off* because
//! they have met too many conflicts: the lane that is left needs no locks meanwhile.
//!
//! * **SOLO-1** A soloist's transaction runs without locks only after it has shown that it is inside
//!   the [gate](crate::gate) and has then seen that its lane is still the soloist. The other lane
//!   first ends the solo and then looks whether the soloist is inside. A full fence lies between
//!   the two steps on both sides, so one of the two sees the other. The soloist's is the gate's,
//!   paid by the other side where the operating system can do that
//!   ([`Barrier`](crate::barrier::Barrier)): a fence at each begin would keep a transaction's first
//!   loads from overlapping with the last ones of the transaction before.
//! * **SOLO-2** No lane runs with locks before the soloist's last transaction without is over: lock
//!   words need not know of it. What it changed has, at the latest, the version of the clock at
//!   which every later transaction starts.
//! * **SOLO-3** A lane that is taken is awake, unless it has backed off, outside the gate. It
//!   comes back before it begins a transaction. The only one awake becomes the soloist first and then
//!   looks whether it is still the only one; who comes back counts itself first and then looks whether
//!   there is a soloist. So one of the two sees the other. No lane that has backed off holds
//!   locks, and the clock is raised to their numbers before the soloist draws one.
//! * **SOLO-4** The last lane awake does not back off: one lane makes progress.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;

use crate::gate::Gate;
use crate::spin::{SpinLock, wait};
use crate::sync::{AtomicU64, AtomicUsize};

/// There is no soloist: all lanes lock.
const SHARED: u64 = 0;

/// Set in `soloist` while the lane named there may still be in its last solo transaction.
const ENDING: u64 = 1 << 63;

/// Set beside it by that lane, when it has no such transaction.
const LET_GO: u64 = 1 << 62;

/// Rounds that a lane waits for the end of a solo before it has the operating system interrupt the lane.
const ROUNDS_TO_LET_GO: u32 = if cfg!(outlast_loom) { 1 } else { 32 };

/// Who runs alone.
pub(crate) struct Solo {
    allowed: bool,
    /// The soloist's number plus one, maybe with [`ENDING`]; or [`SHARED`].
    soloist: AtomicU64,
    /// How many lanes are taken and have not backed off.
    awake: AtomicUsize,
    /// How many lanes are taken.
    taken: SpinLock<usize>,
}

impl Solo {
    /// Without soloists all lanes lock from the start.
    pub fn new(allowed: bool) -> Self {
        let (soloist, awake) = (AtomicU64::new(SHARED), AtomicUsize::new(0));
        Self { allowed, soloist, awake, taken: SpinLock::new(0) }
    }

    /// Lane `id` was taken. `when_first` is called where there is no other.
    pub fn lane_taken<M: Medium>(&self, medium: &M, id: usize, when_first: impl FnOnce()) {
        let mut taken = self.taken.lock(medium);
        if self.allowed && *taken == 0 {
            when_first();
            self.soloist.store(id as u64 + 1, Ordering::SeqCst);
        }
        *taken += 1;
        self.awake.fetch_add(1, Ordering::SeqCst);
    }

    /// A lane was given back.
    pub fn lane_given_back<M: Medium>(&self, medium: &M) {
        *self.taken.lock(medium) -= 1;
        self.awake.fetch_sub(1, Ordering::SeqCst);
    }

    /// SOLO-4: a lane that is outside the gate backs off until what is returned is dropped. `None` when all
    /// others have backed off already.
    pub fn back_off(&self) -> Option<BackedOff<'_>> {
        let one_less = |awake: usize| (awake > 1).then(|| awake - 1);
        let left = self.awake.fetch_update(Ordering::SeqCst, Ordering::Relaxed, one_less);
        left.is_ok().then(|| BackedOff(self))
    }

    /// Lane `id` begins a transaction, and is inside the gate until it leaves that. `true` when it
    /// runs without locks. `settle` does what is left to do for the soloist that it is given, when
    /// this ends a solo. `is_settled` says whether a solo may begin as far as others' transactions are
    /// concerned, which are all over.
    #[inline(always)]
    pub fn enter<M: Medium>(
        &self,
        medium: &M,
        gate: &Gate,
        id: usize,
        settle: impl Fn(usize),
        is_settled: impl Fn() -> bool,
    ) -> bool {
        loop {
            gate.enter(medium, id);
            // SOLO-1, SOLO-3.
            let soloist = self.soloist.load(Ordering::SeqCst);
            if soloist == id as u64 + 1 {
                return true;
            }
            if soloist == SHARED {
                let is_only_one = self.allowed && self.awake.load(Ordering::Relaxed) == 1;
                return is_only_one && self.begin(id, is_settled);
            }
            // Outside, or the lane that ends the solo would wait for this one.
            gate.leave(id);
            self.end(medium, gate, id, &settle);
        }
    }

    /// SOLO-3: begins a solo of the lane, which is inside the gate, if it is the only one awake.
    #[cold]
    fn begin(&self, id: usize, is_settled: impl Fn() -> bool) -> bool {
        if !is_settled() || !self.swap(SHARED, id as u64 + 1) {
            return false;
        }
        if self.awake.load(Ordering::SeqCst) == 1 && is_settled() {
            return true;
        }
        // The lane that ends it already waits for this transaction, which takes locks.
        self.swap(id as u64 + 1, SHARED);
        false
    }

    /// SOLO-2: ends the solo, waits until nothing runs under it, and settles what it left open. Lane `id`
    /// is outside the gate.
    #[cold]
    fn end<M: Medium>(&self, medium: &M, gate: &Gate, id: usize, settle: impl Fn(usize)) {
        let mut tries = 0;
        loop {
            let now = self.soloist.load(Ordering::SeqCst);
            if now == SHARED {
                return;
            }
            let soloist = (now & !(ENDING | LET_GO)) as usize - 1;
            if soloist == id && now & LET_GO == 0 {
                // If not, another lane has seen that by itself.
                self.swap(now, now | LET_GO);
                continue;
            }
            // Said before anything has changed, so that a caller that catches it can go on.
            assert!(
                !gate.is_this_thread_in(soloist),
                "a transaction's closure runs another transaction of the same pool"
            );
            // No lane becomes the soloist meanwhile: the caller's is awake.
            if now & ENDING == 0 && self.swap(now, now | ENDING) {
                self.await_end(medium, gate, soloist);
                settle(soloist);
                self.soloist.store(SHARED, Ordering::SeqCst);
                return;
            }
            wait(medium, &mut tries);
        }
    }

    /// Until a lane whose solo is ending has no transaction under it. Most lanes say so when they begin
    /// the next one.
    fn await_end<M: Medium>(&self, medium: &M, gate: &Gate, soloist: usize) {
        let mut tries = 0;
        while tries < if M::OBSERVED { 1 } else { ROUNDS_TO_LET_GO } {
            if self.soloist.load(Ordering::SeqCst) & LET_GO != 0 {
                return;
            }
            wait(medium, &mut tries);
        }
        gate.await_outside(medium, soloist);
    }

    fn swap(&self, from: u64, to: u64) -> bool {
        self.soloist.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// A lane has backed off until this is dropped.
pub(crate) struct BackedOff<'s>(&'s Solo);

impl Drop for BackedOff<'_> {
    fn drop(&mut self) {
        self.0.awake.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(all(test, outlast_loom))]
mod modelled {
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Mutex};
    use outlast_pmem::Heap;

    use super::*;

    /// Two lanes and memory that both change, behind a lock when they are not alone.
    struct Shared {
        solo: Solo,
        gate: Gate,
        lock: Mutex<()>,
        memory: UnsafeCell<u64>,
    }

    impl Shared {
        fn transaction(&self, id: usize) {
            let alone = self.solo.enter(&Heap::new(64), &self.gate, id, |_| (), || true);
            let locked = (!alone).then(|| self.lock.lock().unwrap());
            self.memory.with_mut(|_| ());
            drop(locked);
            self.gate.leave(id);
        }
    }

    fn model(gate: fn(usize) -> Gate, two: impl Fn(&Shared) + Clone + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        (model.preemption_bound, model.max_branches) = (Some(3), 20_000);
        model.check(move || {
            let shared = Shared {
                solo: Solo::new(true),
                gate: gate(2),
                lock: Mutex::new(()),
                memory: UnsafeCell::new(0),
            };
            let medium = Heap::new(64);
            (0..2).for_each(|id| shared.solo.lane_taken(&medium, id, || ()));
            let shared = Arc::new(shared);
            let other = {
                let (shared, two) = (shared.clone(), two.clone());
                loom::thread::spawn(move || two(&shared))
            };
            (0..2).for_each(|_| shared.transaction(0));
            other.join().unwrap();
        });
    }

    /// SOLO-1, SOLO-2.
    #[test]
    fn loom_no_lane_runs_beside_a_soloist() {
        model(Gate::new, |shared| shared.transaction(1));
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn loom_a_soloist_without_its_fence_is_found() {
        model(Gate::without_fences, |shared| shared.transaction(1));
    }

    /// SOLO-3.
    #[test]
    fn loom_a_lane_that_comes_back_is_seen() {
        model(Gate::new, |shared| {
            shared.transaction(1);
            drop(shared.solo.back_off());
            shared.transaction(1);
        });
    }
}

#[cfg(all(test, feature = "lab", not(outlast_loom)))]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use outlast_pmem::{Heap, Recorder};
    use outlast_trace::PoolOffset;

    use super::*;
    use crate::medium::{CreateOptions, OpenOptions};
    use crate::plant::Plant;
    use crate::pool::{Pool, UnrecoveredPool};
    use crate::{BlockKind, Runner, Scheme, Transact};

    fn none(_: usize) {}

    fn settled() -> bool {
        true
    }

    #[test]
    fn the_first_lane_runs_alone_until_another_begins() {
        let (medium, solo, gate) = (Heap::new(64), Solo::new(true), Gate::new(4));
        solo.lane_taken(&medium, 3, || ());
        solo.lane_taken(&medium, 0, || ());
        let enters = |id| {
            let alone = solo.enter(&medium, &gate, id, none, settled);
            gate.leave(id);
            alone
        };
        assert!(enters(3), "the other lane has not begun anything");
        assert!(!enters(0));
        assert!(!enters(3), "both may run");
        solo.lane_given_back(&medium);
        assert!(enters(3), "the other lane was given back");
        solo.lane_given_back(&medium);
        solo.lane_taken(&medium, 1, || ());
        assert!(enters(1), "all have been given back");
    }

    #[test]
    fn who_is_left_alone_runs_alone() {
        let (medium, solo, gate) = (Heap::new(64), Solo::new(true), Gate::new(4));
        (0..3).for_each(|id| solo.lane_taken(&medium, id, || ()));
        let enters_when = |id, is_settled: bool| {
            let alone = solo.enter(&medium, &gate, id, none, || is_settled);
            gate.leave(id);
            alone
        };
        (0..3).for_each(|id| _ = enters_when(id, true));
        let one = solo.back_off().unwrap();
        assert!(!enters_when(1, true));
        let two = solo.back_off().unwrap();
        assert!(solo.back_off().is_none(), "the last lane stays");
        assert!(!enters_when(1, false), "another lane has something pending");
        assert!(enters_when(1, true) && enters_when(1, true));
        drop(two);
        assert!(enters_when(1, true), "who has come back has not begun anything");
        assert!(!enters_when(2, true));
        assert!(!enters_when(1, true));
        drop(one);
        let kept = Solo::new(false);
        kept.lane_taken(&medium, 0, || ());
        assert!(!kept.enter(&medium, &gate, 0, none, settled), "all lanes lock from the start");
    }

    /// A pool of two lanes that draw their numbers by themselves, and two cells.
    fn pool_of_two(plant: Option<Plant>) -> (Pool<Recorder>, [PoolOffset; 2]) {
        let create = CreateOptions { lanes: 2, ..CreateOptions::default() };
        let open = OpenOptions { lock_stripes: 1 << 10, ..OpenOptions::with_scheme(Scheme::Swift) };
        let medium = Recorder::new(1 << 20).planting(Plant::code_of(plant));
        let pool = Pool::create_on(medium, &create, &open).unwrap();
        let block = pool.lane().unwrap().run(|tx| {
            let block = tx.alloc(128, BlockKind::General)?;
            tx.store(block, &[0; 128]).map(|()| block)
        });
        let block = block.unwrap();
        (pool, [block, block.plus(64)])
    }

    /// What recovery finds in a cell to which a lane has stored alone, after one that has backed off
    /// and whose commits the clock does not show.
    fn stored_alone(plant: Option<Plant>) -> u64 {
        let (pool, [cell, other]) = pool_of_two(plant);
        let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
        two.run(|tx| tx.load_u64(cell)).unwrap();
        one.run(|tx| tx.store_u64(other, 1)).unwrap();
        (0..4).for_each(|value| two.run(|tx| tx.store_u64(cell, value)).unwrap());
        let apart = pool.solo.back_off().unwrap();
        one.run(|tx| tx.store_u64(cell, 100)).unwrap();
        assert_eq!(pool.solo.soloist.load(Ordering::SeqCst), 1);
        drop((one, two, apart));
        let image = pool.into_medium().to_bytes();
        let pool = UnrecoveredPool::open(Recorder::from_image(image)).unwrap();
        let pool = pool.recover().unwrap();
        let pool = pool.start(&OpenOptions::with_scheme(Scheme::Swift)).unwrap();
        pool.lane().unwrap().run(|tx| tx.load_u64(cell)).unwrap()
    }

    /// What comes of a cell to which two lanes add one, if the first does so asynchronously and backs
    /// off.
    fn added_over_pending(plant: Option<Plant>) -> u64 {
        let (pool, [cell, other]) = pool_of_two(plant);
        let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
        two.run(|tx| tx.load_u64(cell)).unwrap();
        one.run(|tx| tx.load_u64(cell).and_then(|_| tx.store_u64(other, 1))).unwrap();
        two.run_async(|tx| tx.load_u64(cell).and_then(|was| tx.store_u64(cell, was + 1))).unwrap();
        let apart = pool.solo.back_off().unwrap();
        one.run(|tx| tx.load_u64(cell).and_then(|was| tx.store_u64(cell, was + 1))).unwrap();
        drop(apart);
        pool.sync().unwrap();
        two.run(|tx| tx.load_u64(cell)).unwrap()
    }

    #[test]
    fn who_runs_alone_knows_what_others_have_left() {
        assert_eq!(stored_alone(None), 100);
        assert_eq!(stored_alone(Some(Plant::OthersNotCounted)), 3, "its plant goes unnoticed");
        assert_eq!(added_over_pending(None), 2);
        assert_eq!(added_over_pending(Some(Plant::SoloOverPending)), 1, "its plant goes unnoticed");
        assert_eq!(Plant::shown_in(crate::plant::Shows::BackOff).count(), 2);
    }

    #[test]
    #[should_panic(expected = "closure runs another transaction")]
    fn a_transaction_inside_a_transaction_does_not_wait_for_ever() {
        let (medium, solo, gate) = (Heap::new(64), Solo::new(true), Gate::new(4));
        (0..2).for_each(|id| solo.lane_taken(&medium, id, || ()));
        assert!(solo.enter(&medium, &gate, 0, none, settled));
        solo.enter(&medium, &gate, 1, none, settled);
    }

    #[test]
    fn no_lane_runs_beside_a_soloist() {
        let medium = Heap::new(64);
        let pause = |rounds: usize| (0..rounds).for_each(|_| std::hint::spin_loop());
        let (pools, rounds) = if cfg!(miri) { (2, 9) } else { (30, 1000) };
        // Counted, for who panics inside the gate is waited for.
        let (begun_alone, met_others) = (AtomicUsize::new(0), AtomicUsize::new(0));
        for number in 0..pools {
            let lanes = 2 + number % 2;
            let (solo, gate) = (Solo::new(true), Gate::new(lanes));
            let inside = AtomicUsize::new(0);
            (0..lanes).for_each(|id| solo.lane_taken(&medium, id, || ()));
            std::thread::scope(|scope| {
                for id in 0..lanes {
                    let (medium, solo, gate, inside) = (&medium, &solo, &gate, &inside);
                    let (begun_alone, met_others) = (&begun_alone, &met_others);
                    scope.spawn(move || {
                        for round in 0..rounds {
                            let alone = solo.enter(medium, gate, id, none, settled);
                            begun_alone.fetch_add(usize::from(alone), Ordering::Relaxed);
                            let others = inside.fetch_add(1, Ordering::SeqCst);
                            pause(round % 64);
                            let beside = others + inside.fetch_sub(1, Ordering::SeqCst) - 1;
                            met_others
                                .fetch_add(usize::from(alone && beside > 0), Ordering::Relaxed);
                            gate.leave(id);
                            if (round + id) % 3 != 0 {
                                let _apart = solo.back_off();
                                pause(round * 7 % 128);
                            }
                        }
                    });
                }
            });
        }
        assert_eq!(met_others.into_inner(), 0, "a lane runs beside a soloist");
        let begun_alone = begun_alone.into_inner();
        assert!(cfg!(miri) || begun_alone > rounds, "alone {begun_alone} times only");
    }
}
