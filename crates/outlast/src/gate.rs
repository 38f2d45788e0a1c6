//! The gate that every transaction passes, and that a checkpoint closes for a moment.
//!
//! * **GATE-1** The thread that has closed the gate and found no lane inside is alone with the memory until it is
//!   opened: a transaction first shows that it is inside and then looks at the gate; the closer
//!   first closes it and then looks who is inside. A full fence lies between the two steps on
//!   both sides, the frequent one paid by the closer ([`Barrier`]).
//! * **GATE-2** A thread that is inside with one transaction may begin another on another lane though
//!   the gate is closed: waiting, it would keep the closer waiting for ever. It counts that
//!   before the first one ends, and the closer looks again until the count stands still.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;

use crate::barrier::{Barrier, this_thread};
use crate::padded::CachePadded;
use crate::spin::wait;
use crate::sync::{AtomicBool, AtomicUsize};

/// The lane has no transaction.
const IDLE: usize = 0;

/// Which lanes have a transaction, and whether others may begin one. The thread that makes other lanes'
/// transactions durable has a place as a lane has.
pub(crate) struct Gate {
    /// The thread that has a transaction on a lane.
    inside: Box<[CachePadded<AtomicUsize>]>,
    closed: AtomicBool,
    /// How often a transaction was let in though the gate was closed.
    let_in: AtomicUsize,
    barrier: Barrier,
}

/// Opens the gate when dropped.
pub(crate) struct Closed<'g>(&'g Gate);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.closed.store(false, Ordering::Release);
    }
}

impl Gate {
    pub fn new(lanes: usize) -> Self {
        Self {
            inside: (0..lanes).map(|_| CachePadded::new(AtomicUsize::new(IDLE))).collect(),
            closed: AtomicBool::new(false),
            let_in: AtomicUsize::new(0),
            barrier: Barrier::new(),
        }
    }

    /// Lane `id` begins a transaction; waits while the gate is closed.
    #[inline]
    pub fn enter<M: Medium>(&self, medium: &M, id: usize) {
        self.inside[id].store(this_thread(), Ordering::Relaxed);
        // GATE-1.
        self.barrier.light();
        if self.closed.load(Ordering::Acquire) {
            self.enter_closed(medium, id);
        }
    }

    /// As [`enter`](Self::enter), unless it would have to wait.
    pub fn try_enter(&self, id: usize) -> bool {
        self.inside[id].store(this_thread(), Ordering::Relaxed);
        // GATE-1.
        self.barrier.light();
        if !self.closed.load(Ordering::Acquire) {
            return true;
        }
        if self.has_other(id) {
            self.let_in.fetch_add(1, Ordering::SeqCst);
            return true;
        }
        self.leave(id);
        false
    }

    #[cold]
    fn enter_closed<M: Medium>(&self, medium: &M, id: usize) {
        let mut tries = 0;
        loop {
            if self.has_other(id) {
                self.let_in.fetch_add(1, Ordering::SeqCst);
                return;
            }
            self.inside[id].store(IDLE, Ordering::Release);
            while self.closed.load(Ordering::Acquire) {
                wait(medium, &mut tries);
            }
            self.inside[id].store(this_thread(), Ordering::Relaxed);
            self.barrier.light();
            if !self.closed.load(Ordering::Acquire) {
                return;
            }
        }
    }

    /// Whether this thread is inside on another lane than this one.
    fn has_other(&self, id: usize) -> bool {
        let me = this_thread();
        let mut lanes = self.inside.iter().enumerate();
        lanes.any(|(other, lane)| other != id && lane.load(Ordering::Relaxed) == me)
    }

    /// The transaction of lane `id` is over.
    #[inline]
    pub fn leave(&self, id: usize) {
        self.inside[id].store(IDLE, Ordering::Release);
    }

    /// Whether this thread has a transaction open on lane `id`.
    pub fn is_this_thread_in(&self, id: usize) -> bool {
        self.inside[id].load(Ordering::Relaxed) == this_thread()
    }

    /// Waits until lane `id` has been outside once. What the caller has stored before is seen by
    /// the lane's next transaction.
    pub fn await_outside<M: Medium>(&self, medium: &M, id: usize) {
        self.await_outside_since(medium, id, || ());
    }

    /// As [`await_outside`](Self::await_outside), or until what the lane counts has changed: a lane
    /// that runs one transaction after the other is outside for moments only.
    pub fn await_outside_since<M: Medium, C: PartialEq>(
        &self,
        medium: &M,
        id: usize,
        count: impl Fn() -> C,
    ) {
        self.barrier.heavy();
        let (before, mut tries) = (count(), 0);
        while self.inside[id].load(Ordering::Acquire) != IDLE && count() == before {
            wait(medium, &mut tries);
        }
    }

    /// As [`await_outside`](Self::await_outside), with one look. Only if that says yes it has to be a
    /// look behind the barrier, which interrupts all other cores.
    pub fn is_outside(&self, id: usize) -> bool {
        let is_idle = || self.inside[id].load(Ordering::Acquire) == IDLE;
        is_idle() && {
            self.barrier.heavy();
            is_idle()
        }
    }

    /// Whether this thread has a transaction open, for which it would wait in vain.
    pub fn is_inside(&self) -> bool {
        self.has_other(usize::MAX)
    }

    /// Closes the gate and waits until no lane is inside. For one closer at a time.
    pub fn close<M: Medium>(&self, medium: &M) -> Closed<'_> {
        self.closed.store(true, Ordering::SeqCst);
        let closed = Closed(self);
        self.barrier.heavy();
        let mut tries = 0;
        loop {
            let before = self.let_in.load(Ordering::SeqCst);
            let all_idle = self.inside.iter().all(|lane| lane.load(Ordering::Acquire) == IDLE);
            // GATE-2.
            if all_idle && self.let_in.load(Ordering::SeqCst) == before {
                return closed;
            }
            wait(medium, &mut tries);
        }
    }
}

#[cfg(all(test, outlast_loom))]
mod modelled {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use outlast_pmem::Heap;

    use super::*;

    impl Gate {
        /// Lanes do without their fence.
        pub(crate) fn without_fences(lanes: usize) -> Self {
            Self { barrier: Barrier::one_sided(), ..Self::new(lanes) }
        }
    }

    /// GATE-1: a lane uses memory inside the gate, and a thread that has closed it uses the same.
    fn close_beside_lanes(gate: fn(usize) -> Gate) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let gate = Arc::new(gate(1));
            let memory = Arc::new(UnsafeCell::new(0));
            let lane = {
                let (gate, memory) = (gate.clone(), memory.clone());
                loom::thread::spawn(move || {
                    gate.enter(&Heap::new(64), 0);
                    memory.with_mut(|_| ());
                    gate.leave(0);
                })
            };
            let closed = gate.close(&Heap::new(64));
            memory.with_mut(|_| ());
            drop(closed);
            lane.join().unwrap();
        });
    }

    #[test]
    fn loom_who_has_closed_the_gate_is_alone() {
        close_beside_lanes(Gate::new);
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn loom_a_gate_without_its_fence_is_found() {
        close_beside_lanes(Gate::without_fences);
    }

    /// GATE-2: a thread goes from one lane to the other while another closes the gate.
    #[test]
    fn loom_a_thread_that_is_inside_goes_on() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let gate = Arc::new(Gate::new(2));
            let memory = Arc::new(UnsafeCell::new(0));
            let lane = {
                let (gate, memory) = (gate.clone(), memory.clone());
                loom::thread::spawn(move || {
                    let medium = Heap::new(64);
                    gate.enter(&medium, 0);
                    gate.enter(&medium, 1);
                    gate.leave(0);
                    memory.with_mut(|_| ());
                    gate.leave(1);
                })
            };
            let closed = gate.close(&Heap::new(64));
            memory.with_mut(|_| ());
            drop(closed);
            lane.join().unwrap();
        });
    }
}

#[cfg(all(test, not(outlast_loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use outlast_pmem::Heap;

    use super::*;

    #[test]
    fn no_lane_is_inside_while_the_gate_is_closed() {
        let (medium, gate) = (Heap::new(64), Gate::new(2));
        let (inside, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let rounds = if cfg!(miri) { 5 } else { 2000 };
        std::thread::scope(|scope| {
            for id in 0..2 {
                let (gate, medium, inside, over) = (&gate, &medium, &inside, &over);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        gate.enter(medium, id);
                        inside.fetch_add(1, Ordering::SeqCst);
                        std::hint::spin_loop();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        gate.leave(id);
                    }
                });
            }
            for _ in 0..rounds {
                let closed = gate.close(&medium);
                for _ in 0..20 {
                    assert_eq!(inside.load(Ordering::SeqCst), 0);
                    medium.pause();
                }
                drop(closed);
                std::thread::yield_now();
            }
            over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_thread_that_is_inside_may_begin_more() {
        let (medium, gate) = (Heap::new(64), Gate::new(3));
        gate.enter(&medium, 0);
        assert!(gate.is_inside());
        std::thread::scope(|scope| {
            let closer = scope.spawn(|| {
                drop(gate.close(&medium));
                gate.let_in.load(Ordering::SeqCst)
            });
            while !gate.closed.load(Ordering::Acquire) {
                medium.pause();
            }
            // From one lane to the other, never outside.
            for _ in 0..100 {
                gate.enter(&medium, 1);
                gate.leave(0);
                gate.enter(&medium, 0);
                gate.leave(1);
            }
            gate.leave(0);
            assert_eq!(closer.join().unwrap(), 200);
        });
        assert!(!gate.is_inside());
    }
}
