//! How a lane's batch is found by others than the lane's own thread.
//!
//! A lane whose transactions are over and pending is *parked*: between two transactions its whole
//! state lies where any thread can take it. Its own thread takes it back to begin the next one;
//! the thread that wants the batch durable takes it, does what the lane would have done, and puts it back.
//!
//! * **HANDOFF-1** The thread that has a lane's state is alone with it. The own thread takes it inside the gate,
//!   the others are inside before they take any; so no thread keeps a state while it waits for the
//!   gate.
//! * **HANDOFF-2** A lane fences what it has flushed before it parks, and so does the thread that puts its state
//!   back: the next to have it could not (SWEEP-1).
//! * **HANDOFF-3** Group commit: one thread at a time, the *leader*, stores and flushes the records of all
//!   the lanes that it found parked, then fences once, then puts everything in place. A fence orders
//!   its own core's stores only; the leader has made all of them.
//! * **HANDOFF-4** A lane that runs is told that its batch is wanted, and commits it when its transaction
//!   is over. So a thread that waits for a batch waits for one transaction at most.
//! * **HANDOFF-5** A lane that ran alone holds no locks for its batch: the batch is durable, and in place,
//!   before any other lane's transaction begins (SOLO-2).

use std::sync::atomic::{AtomicBool, Ordering};

use outlast_pmem::Medium;

use crate::ack::AsyncTicket;
use crate::error::PoolError;
use crate::io::Site;
use crate::plant::Plant;
use crate::pool::{LaneState, Pool};
use crate::scheme::redo::LONG;
use crate::spin::{SpinLock, wait};
use crate::tx::Tx;

/// State of batches that lanes share.
#[derive(Default)]
pub(crate) struct Handoff {
    /// Some lane has committed asynchronously since the pool was opened.
    pub has_pending: AtomicBool,
    /// Held by the thread that makes other lanes' batches durable (HANDOFF-3).
    leading: SpinLock<()>,
}

impl<M: Medium> Pool<M> {
    /// Makes durable every transaction of every lane that was committed asynchronously and has
    /// returned: with one fence where no transaction runs. A transaction under way on a lane that has some
    /// is waited for.
    ///
    /// # Errors
    /// [`PoolError::Forked`] in a forked child, [`PoolError::Medium`] when a write to the file has
    /// failed: what was not durable then never is.
    ///
    /// # Panics
    /// When this thread has such a transaction open itself: it would wait for ever.
    pub fn sync(&self) -> Result<(), PoolError> {
        self.refuse_unusable()?;
        self.make_all_durable()
    }

    fn make_all_durable(&self) -> Result<(), PoolError> {
        if !self.handoff.has_pending.load(Ordering::Relaxed) {
            return Ok(());
        }
        let batches: Vec<_> = self.lanes.iter().map(|lane| lane.parked.pending()).collect();
        self.lead(|id| batches[id] != 0);
        for (lane, batch) in batches.into_iter().enumerate() {
            self.make_durable(AsyncTicket { lane: lane as u32, batch })?;
        }
        Ok(())
    }

    /// Whether an asynchronous commit is durable. Costs a load.
    #[inline]
    pub fn is_durable(&self, ticket: AsyncTicket) -> bool {
        let lane = self.lanes.get(ticket.lane as usize);
        lane.is_some_and(|lane| lane.parked.is_durable(ticket.batch))
    }

    /// Whether an asynchronous commit of this opening of the pool may have that ticket: waiting for
    /// others would never end.
    pub fn has_issued_async(&self, ticket: AsyncTicket) -> bool {
        let lane = self.lanes.get(ticket.lane as usize);
        let issued = lane.is_some_and(|lane| lane.parked.pending() >= ticket.batch);
        issued || self.is_durable(ticket)
    }

    /// Whether this thread has a transaction open, for which a wait might be one for itself.
    pub fn is_this_thread_inside(&self) -> bool {
        self.gate.is_inside()
    }

    /// Returns when the asynchronous commit with that ticket is durable; if no other lane sees to
    /// it, this thread does. The lane's transaction under way, if it has one, is waited for.
    ///
    /// # Errors
    /// [`PoolError::Forked`] in a forked child, [`PoolError::Medium`] when a write to the file has
    /// failed before it was durable.
    ///
    /// # Panics
    /// When this thread has that transaction open itself, and when the pool has not given out that
    /// ticket: either would be waited for for ever.
    pub fn await_durable(&self, ticket: AsyncTicket) -> Result<(), PoolError> {
        self.refuse_unusable()?;
        self.make_durable(ticket)
    }

    pub(crate) fn make_durable(&self, ticket: AsyncTicket) -> Result<(), PoolError> {
        let mut tries = 0;
        while !self.is_durable(ticket) {
            self.refuse_unusable()?;
            // A medium that fails meanwhile ends batches.
            let is_known = self.has_issued_async(ticket) || !self.medium.is_usable();
            assert!(is_known, "a ticket of another pool: {ticket:?}");
            let lane = ticket.lane as usize;
            self.lead(|id| id == lane);
            if self.is_durable(ticket) {
                break;
            }
            // HANDOFF-4.
            self.lanes[lane].parked.want();
            assert!(
                !self.gate.is_this_thread_in(lane),
                "a transaction's closure waits for what its own lane has pending"
            );
            wait(&self.medium, &mut tries);
        }
        Ok(())
    }

    /// Another lane was in the way, and may be so with the locks of a batch.
    pub(crate) fn make_way(&self) {
        if !self.handoff.has_pending.load(Ordering::Relaxed) {
            return;
        }
        self.lead(|id| self.lanes[id].parked.pending() != 0);
        for lane in &self.lanes {
            if lane.parked.pending() != 0 {
                lane.parked.want();
            }
        }
    }

    /// HANDOFF-5: a solo ends, and its lane has no transaction. No lock word says what it has stored to.
    pub(crate) fn end_solo(&self, soloist: usize) {
        self.settle(soloist);
        let mut tries = 0;
        while self.lanes[soloist].parked.pending() != 0
            && !self.io().plants(Plant::SoloStaysPending)
        {
            self.lead(|id| id == soloist);
            wait(&self.medium, &mut tries);
        }
        // NUMBER-2.
        if !self.io().plants(Plant::SoloNotCounted) {
            self.raise_clock(self.lanes[soloist].shared.last_installed.load(Ordering::Relaxed));
        }
    }

    /// SOLO-3: whether one lane may run without locks while no other has a transaction. What a batch has
    /// stored, or will, only its locks say.
    pub(crate) fn is_settled(&self) -> bool {
        if self.handoff.has_pending.load(Ordering::SeqCst)
            && !self.io().plants(Plant::SoloOverPending)
        {
            return false;
        }
        // NUMBER-2.
        if !self.io().plants(Plant::OthersNotCounted) {
            self.raise_clock(self.newest());
        }
        true
    }

    /// HANDOFF-3: makes durable what these lanes have pending, as far as they are parked.
    pub(crate) fn lead(&self, is_wanted: impl Fn(usize) -> bool) {
        let (io, medium) = (self.io_of_group(), &self.medium);
        // The leader has the place behind those of the lanes.
        let place = self.lanes.len();
        let mut tries = 0;
        let _leading = loop {
            let leading = self.handoff.leading.lock(medium);
            // HANDOFF-1. No thread leads while it waits at the gate: others may be inside already.
            if self.gate.try_enter(place) {
                break leading;
            }
            drop(leading);
            wait(medium, &mut tries);
        };
        let wanted = self.lanes.iter().enumerate().filter(|(id, _)| is_wanted(*id));
        let states = wanted.filter_map(|(_, lane)| lane.parked.try_take());
        let mut group: Vec<Tx<'_, M>> = states.map(|lane| Tx::of(self, lane)).collect();
        group.retain_mut(|tx| {
            let has_some = !tx.lane.pending.is_empty();
            if !has_some {
                tx.give_back();
            }
            has_some
        });
        let rooms: Vec<_> = group
            .iter_mut()
            .map(|tx| {
                tx.is_beside_others();
                tx.prepare_batch()
            })
            .collect();
        let last = group.len().saturating_sub(1);
        let fenced_early = last > 0 && io.plants(Plant::GroupFencedEarly);
        let mut sealed = Vec::with_capacity(group.len());
        for (number, (tx, room)) in group.iter_mut().zip(rooms).enumerate() {
            if number == last && fenced_early {
                io.fence(Site::RedoRecord);
            }
            sealed.push(tx.seal_batch(room));
        }
        let is_durable = group.is_empty() || fenced_early || io.try_fence(Site::RedoRecord);
        for (tx, sealed) in group.iter_mut().zip(sealed) {
            if is_durable {
                tx.end_redo::<LONG>(sealed);
                tx.batch_ended();
                tx.counts.batches.add(1);
            } else {
                tx.abandon();
            }
            tx.give_back();
        }
        self.gate.leave(place);
    }
}

impl<'p, M: Medium> Tx<'p, M> {
    pub(crate) fn of(pool: &'p Pool<M>, lane: Box<LaneState>) -> Self {
        let slot = &pool.lanes[lane.id];
        Self { pool, lane, stand_in: None, slot, counts: &slot.counts }
    }

    /// The lane's transaction is over and something is pending: leaves the state to the thread that wants
    /// it, unless one has said so already.
    #[inline(never)]
    pub(crate) fn leave_pending(&mut self) {
        if self.pool.lanes[self.lane.id].parked.is_wanted() {
            // Those who want it ask whether it is durable.
            let _ = self.commit_batch();
        } else {
            let id = self.lane.id;
            let stand_in = self.stand_in.take();
            let stand_in = stand_in.unwrap_or_else(|| Box::new(LaneState::stand_in(id)));
            if !self.pool.io().plants(Plant::ParkedUnfenced) {
                self.fence_for_others();
            }
            let state = std::mem::replace(&mut self.lane, stand_in);
            self.park(id, state);
        }
    }

    /// Puts the state of another thread's lane back.
    fn give_back(&mut self) {
        let id = self.lane.id;
        self.fence_for_others();
        let state = std::mem::replace(&mut self.lane, Box::new(LaneState::stand_in(id)));
        self.park(id, state);
    }

    #[inline]
    fn park(&self, id: usize, state: Box<LaneState>) {
        let mut tries = 0;
        self.pool.lanes[id].parked.put(state, || wait(&self.pool.medium, &mut tries));
    }

    /// Takes the lane's state back from where it is parked, and waits for the thread that has it.
    #[inline]
    pub(crate) fn unpark(&mut self) {
        if self.lane.is_stand_in {
            self.unpark_state();
        }
    }

    #[inline(never)]
    fn unpark_state(&mut self) {
        let parked = &self.pool.lanes[self.lane.id].parked;
        let mut tries = 0;
        let state = loop {
            if let Some(state) = parked.try_take() {
                break state;
            }
            wait(&self.pool.medium, &mut tries);
        };
        self.stand_in = Some(std::mem::replace(&mut self.lane, state));
    }

    /// HANDOFF-2, SWEEP-1: the lane's next thread cannot fence what this one flushed.
    #[inline]
    pub(crate) fn fence_for_others(&mut self) {
        let (pool, io, lane) = (self.pool, self.io(), &mut *self.lane);
        let shared = &pool.lanes[lane.id].shared;
        let flushed = shared.flushed.load(Ordering::Relaxed);
        let is_fenced = flushed <= shared.fenced.load(Ordering::Relaxed);
        let covered = pool.facts.covers;
        if covered && lane.deferred.is_unfenced {
            io.fence(pool.facts.covers_at());
            lane.deferred.is_unfenced = false;
        } else if !covered && !is_fenced {
            io.fence(Site::RedoData);
        }
        shared.fenced.store(flushed, Ordering::Release);
    }
}
