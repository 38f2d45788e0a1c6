//! Lanes: one thread's session with a pool, with its log and its volatile buffers.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use outlast_pmem::{Call, Mapped, Mark, Medium};

use crate::ack::{Ack, AsyncTicket, Ticket};
use crate::alloc::LaneHeap;
use crate::bias::Page;
use crate::checksums::Deltas;
use crate::error::PoolError;
use crate::events::event;
use crate::io::Io;
use crate::layout::{Geometry, LANE_FLOOR, LANE_TAIL};
use crate::log::{self, Place, Region};
use crate::padded::CachePadded;
use crate::plant::Plant;
use crate::pool::backoff::BackOff;
use crate::pool::lane_log::LaneLog;
use crate::pool::own_error::keep_own;
use crate::pool::parked::Parked;
use crate::pool::shared::LaneShared;
use crate::pool::{LANE_FLOOR_UNPROVEN, LANE_TAIL_UNPROVEN, Pool, load_sealed, ring_in_use};
use crate::scheme::Role;
use crate::scheme::redo::{LONG, SHORT};
use crate::seq::Seq;
use crate::spin::{SpinLock, wait};
use crate::stats::counts::LaneCounts;
use crate::transact::{Abort, Runner};
use crate::tx::pending::Pending;
use crate::tx::{Buffers, Tx};
use crate::writeback::{self, Access, Deferred, Reach};

/// After this many conflicts in a row a transaction runs alone.
const CONFLICTS_BEFORE_PRIVILEGE: u32 = 16;

/// The place of a lane in its pool: what other threads may look at, and the rest while the lane is
/// not taken.
pub(crate) struct LaneSlot {
    /// All of it, which may be longer than the part in use.
    pub ring: Region,
    /// The line by which the records of a lap end, so that a `Wrap` fits behind. Only the lane's own thread moves it.
    pub(super) end: AtomicU64,
    /// Half of the part in use.
    pub(super) longest: AtomicU64,
    /// Position 0 of this opening.
    pub first: Place,
    /// The ring is made blank before anything is logged there.
    pub is_blanked_first: bool,
    pub shared: CachePadded<LaneShared>,
    /// The work of its transactions.
    pub counts: CachePadded<LaneCounts>,
    /// The changes of commits, for the checksum updater.
    pub deltas: SpinLock<Deltas>,
    /// Its transactions that are over, for a published variant's history unit.
    #[cfg(feature = "lab")]
    pub ended: SpinLock<Vec<crate::scheme::published::Ended>>,
    state: SpinLock<Option<Box<LaneState>>>,
    /// That of a lane which has a batch and no transaction: see [`handoff`](super::handoff).
    pub parked: Parked<Box<LaneState>>,
}

/// A lane's volatile state from transaction to transaction. Alone in its lines, since
/// lanes are allocated one behind the other.
#[repr(align(128))]
pub(crate) struct LaneState {
    pub id: usize,
    pub log: LaneLog,
    pub buffers: Buffers,
    /// Transactions that are over and not durable.
    pub pending: Pending,
    /// Stands in for the lane's state, which is parked.
    pub is_stand_in: bool,
    /// By age: what was read since the history unit looked last.
    pub accesses: Vec<Access>,
    /// By age, by segment: how far the lane is with what its log covers.
    pub deferred: Deferred,
    /// It has gathered so much for the checksums that a lane should add it up.
    pub are_sums_due: bool,
    /// Its share of the heap.
    pub heap: LaneHeap,
    /// Where it came first.
    pub pages: Vec<Page>,
    /// Conflicts in a row of transactions that [`Lane::begin`] began.
    pub conflicts: u32,
    /// For how long it backs off after a conflict.
    pub backoff: BackOff,
}

impl LaneState {
    fn new(id: usize, last_undo: Seq) -> Self {
        Self {
            id,
            log: LaneLog::new(last_undo),
            buffers: Buffers::of_lane(id),
            pending: Pending::default(),
            is_stand_in: false,
            accesses: Vec::new(),
            deferred: Deferred::default(),
            are_sums_due: false,
            heap: LaneHeap::default(),
            pages: Vec::new(),
            conflicts: 0,
            backoff: BackOff::new(id),
        }
    }

    /// The placeholder of a lane whose state is parked: its number.
    pub fn stand_in(id: usize) -> Self {
        Self { is_stand_in: true, ..Self::new(id, Seq::from_bits(0)) }
    }
}

impl LaneSlot {
    pub fn new<M: Medium>(
        io: Io<'_, M>,
        geometry: &Geometry,
        id: usize,
        streams: bool,
    ) -> Result<Self, PoolError> {
        let at = geometry.lane_at(id);
        let in_use = ring_in_use(io.medium, geometry, id)?;
        let ring = Region { lines: geometry.ring_lines(), ..in_use };
        let tail = load_sealed(io.medium, at.plus(LANE_TAIL), LANE_TAIL_UNPROVEN)?;
        let tail = log::place_of_tail(in_use, tail).expect("recovery has read it");
        let (first, is_blanked_first) = match io.plants(Plant::LapGoesOn) && tail.lap.is_some() {
            true => (tail, false),
            false => tail.of_next_opening(streams, io.medium.is_paged()),
        };
        let last_undo = load_sealed(io.medium, at.plus(LANE_FLOOR), LANE_FLOOR_UNPROVEN)?;
        let state = LaneState::new(id, Seq::from_bits(last_undo));
        let slot = Self {
            ring,
            end: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            first: Place { region: ring, ..first },
            is_blanked_first,
            shared: CachePadded::new(LaneShared::new()),
            counts: CachePadded::default(),
            deltas: SpinLock::default(),
            #[cfg(feature = "lab")]
            ended: SpinLock::default(),
            state: SpinLock::new(Some(Box::new(state))),
            parked: Parked::new(),
        };
        slot.end_lap_at(in_use.lines);
        Ok(slot)
    }

    pub fn take<M: Medium>(&self, medium: &M) -> Option<Box<LaneState>> {
        self.state.lock(medium).take()
    }

    /// Whether no thread has the lane.
    pub fn is_free<M: Medium>(&self, medium: &M) -> bool {
        self.state.lock(medium).is_some()
    }

    /// Where the record at a position of the ring stands.
    #[inline]
    pub fn place(&self, position: u64) -> Place {
        self.first.further(position)
    }

    /// Whether its records are streamed.
    #[inline]
    pub fn streams(&self) -> bool {
        self.first.lap.is_some()
    }
}

/// One thread's session with a pool: it runs transactions, one after the other.
///
/// A lane that is to serve another thread is dropped here and taken there: what its thread
/// flushed, only that thread can fence.
pub struct Lane<'p, M: Medium = Mapped> {
    /// `None` only while the lane is dropped.
    pub(super) tx: Option<Tx<'p, M>>,
}

impl<'p, M: Medium> Lane<'p, M> {
    pub(crate) fn new(pool: &'p Pool<M>, state: Box<LaneState>) -> Self {
        Self { tx: Some(Tx::of(pool, state)) }
    }

    /// The pool it belongs to.
    pub fn pool(&self) -> &'p Pool<M> {
        self.tx.as_ref().expect(LIVES).pool
    }

    /// As [`run`](Runner::run), and returns the commit's ticket beside what `body` returned.
    ///
    /// # Errors
    /// As `run`.
    #[inline(always)]
    pub fn run_ticketed<R, F>(&mut self, body: F) -> Result<(R, Ticket), Abort>
    where
        F: FnMut(&mut Tx<'p, M>) -> Result<R, Abort>,
    {
        self.run_to(body, |attempt| attempt.commit(), |lane, ticket| lane.acknowledge(*ticket))
    }

    /// As [`run`](Runner::run), and returns before the transaction is durable, with the ticket that
    /// tells when it is. This lane's transactions see it at once, others wait until it is durable.
    /// A crash before takes it back whole, and with it everything that this lane has committed
    /// after it. It becomes durable with this lane's next commit that waits, when so much is pending
    /// that the next transaction may not fit into one record with it, when another lane needs what
    /// it has locked, at [`Pool::sync`] and [`Pool::await_durable`], and when the lane is dropped; not
    /// by itself. One that has changed more than a dozen lines is durable when it returns, and so are
    /// the next ones of a lane on which one did not fit behind what was pending: waiting gains nothing
    /// there.
    ///
    /// Schemes without a redo log, pools with checksums and published variants commit as `run` does.
    ///
    /// # Errors
    /// As `run`.
    #[inline(always)]
    pub fn run_async<R, F>(&mut self, body: F) -> Result<(R, AsyncTicket), Abort>
    where
        F: FnMut(&mut Tx<'p, M>) -> Result<R, Abort>,
    {
        self.run_to(body, |attempt| attempt.commit_later(), |_, _| Ok(()))
    }

    /// As [`run_async`](Self::run_async), for a body that fails with an error of the program's own:
    /// [`try_run`](Runner::try_run).
    ///
    /// # Errors
    /// As `try_run`.
    pub fn try_run_async<R, E, F>(&mut self, mut body: F) -> Result<(R, AsyncTicket), E>
    where
        F: FnMut(&mut Tx<'p, M>) -> Result<R, E>,
        E: From<Abort>,
    {
        let mut own = None;
        let done = self.run_async(|tx| {
            let returned = body(tx);
            keep_own(tx, returned, &mut own)
        });
        done.map_err(|abort| own.unwrap_or_else(|| abort.into()))
    }

    /// Runs `body` until no conflict is met, ends it with `commit`, and does the rest with its
    /// ticket.
    ///
    /// A result is put together once, where it is returned, and inlined into its caller. Put
    /// together in one place and moved to another it would be stored by words and loaded by
    /// vectors: such a load cannot take what it wants from stores under way, and those wait for the
    /// commit's fence. The first attempt stands in no loop: what a compiler works out before one it
    /// has to save, and these would be stores behind the fence of the commit before.
    #[inline(always)]
    fn run_to<R, T, F>(
        &mut self,
        mut body: F,
        commit: impl Fn(Attempt<'_, 'p, M>) -> Result<T, Abort>,
        end: impl FnOnce(&mut Self, &T) -> Result<(), Abort>,
    ) -> Result<(R, T), Abort>
    where
        F: FnMut(&mut Tx<'p, M>) -> Result<R, Abort>,
    {
        let pool = self.pool();
        if !pool.medium.is_usable() {
            return Err(pool.refusal());
        }
        let tx = self.tx.as_mut().expect(LIVES);
        pool.medium.mark(Mark::TxBegin);
        pool.medium.mark(Mark::Call(Call::Begin));
        let mut conflicts = 0;
        if pool.privileged.load(Ordering::Acquire) == 0 {
            match tx.attempt(&mut body, &commit) {
                Ok((value, ticket)) => {
                    let ended = end(self, &ticket);
                    pool.medium.mark(Mark::TxEnd);
                    ended?;
                    return Ok((value, ticket));
                }
                Err(Abort::Conflict) => {
                    tx.counts.count_abort(&Abort::Conflict);
                    conflicts = 1;
                }
                Err(abort) => {
                    tx.counts.count_abort(&abort);
                    pool.medium.mark(Mark::TxEnd);
                    return Err(abort);
                }
            }
        }
        let mut done = tx.attempt_again(conflicts, &mut body, &commit);
        if let Ok((_, ticket)) = &done
            && let Err(abort) = end(self, ticket)
        {
            done = Err(abort);
        }
        pool.medium.mark(Mark::TxEnd);
        done
    }

    /// The commit with that ticket is made, and its client wants to be answered.
    #[inline]
    pub(super) fn acknowledge(&mut self, ticket: Ticket) -> Result<(), Abort> {
        if self.pool().ack == Ack::Physical { self.make_physical(ticket) } else { Ok(()) }
    }

    /// Returns when the commit with that ticket is physical, its own or another lane's. Under a
    /// published variant that is when others have touched so much that its data is believed to be
    /// written back, and never if no transaction does (ARC-1). Else the lane does the work itself: it sweeps the log, once where nothing else runs. A transaction that
    /// another lane has under way may hold the floor back, and is waited for. Therefore a thread
    /// that has a transaction open on any lane must not wait: it may be waiting for itself.
    ///
    /// # Errors
    /// [`Abort::Forked`] in a forked child, [`Abort::Medium`] when a write to the file has failed.
    ///
    /// # Panics
    /// When the pool has not given out that ticket: no commit would ever reach it.
    pub fn await_physical(&mut self, ticket: Ticket) -> Result<(), Abort> {
        let pool = self.pool();
        if !pool.medium.is_usable() {
            return Err(pool.refusal());
        }
        self.make_physical(ticket)
    }

    fn make_physical(&mut self, ticket: Ticket) -> Result<(), Abort> {
        let tx = self.tx.as_mut().expect(LIVES);
        let pool = tx.pool;
        assert!(pool.has_issued(ticket), "a ticket of another pool: {ticket:?}");
        let mut tries = 0;
        while !pool.is_physical(ticket) {
            if !pool.medium.is_usable() {
                return Err(pool.refusal());
            }
            if pool.facts.role == Role::Published {
                wait(&pool.medium, &mut tries);
                continue;
            }
            // A lane that is alone commits without showing its bound, so no other lane sweeps beside it.
            tx.enter();
            writeback::sweep(pool, tx.lane.id, Reach::Past(ticket.seq()));
            tx.leave();
            if !pool.is_physical(ticket) {
                wait(&pool.medium, &mut tries);
            }
        }
        Ok(())
    }
}

impl<M: Medium> fmt::Debug for Lane<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.tx.as_ref().map(|tx| tx.lane.id);
        f.debug_struct("Lane").field("id", &id).finish_non_exhaustive()
    }
}

pub(super) const LIVES: &str = "a lane has its transaction until it is dropped";

/// A transaction that has begun. Aborts it unless it was committed, also when a panic unwinds
/// through the closure.
pub(super) struct Attempt<'a, 'p, M: Medium> {
    tx: &'a mut Tx<'p, M>,
    committed: bool,
}

impl<'a, 'p, M: Medium> Attempt<'a, 'p, M> {
    /// Takes over what ends the transaction.
    pub fn begun(tx: &'a mut Tx<'p, M>) -> Self {
        Self { tx, committed: false }
    }

    #[inline(always)]
    pub fn commit(mut self) -> Result<Ticket, Abort> {
        if !self.tx.lane.buffers.are_few_lines_only() {
            return self.commit_long();
        }
        self.tx.pool.medium.mark(Mark::Call(Call::Commit));
        let ticket = self.tx.commit_lines()?;
        self.committed = true;
        self.tx.end::<SHORT>();
        Ok(ticket)
    }

    #[inline(never)]
    fn commit_long(self) -> Result<Ticket, Abort> {
        self.end_by(Tx::commit)
    }

    #[inline(always)]
    pub fn commit_later(self) -> Result<AsyncTicket, Abort> {
        self.end_by(Tx::commit_later)
    }

    #[inline(always)]
    fn end_by<T>(
        mut self,
        commit: impl FnOnce(&mut Tx<'p, M>) -> Result<T, Abort>,
    ) -> Result<T, Abort> {
        self.tx.pool.medium.mark(Mark::Call(Call::Commit));
        let ticket = commit(self.tx)?;
        if !self.tx.is_alone() {
            self.tx.lane.backoff.committed();
        }
        self.committed = true;
        self.tx.end::<LONG>();
        Ok(ticket)
    }

    #[inline(never)]
    fn give_up(&mut self) {
        if self.tx.pool.medium.is_forked() {
            // The transaction is the parent's.
            return;
        }
        if self.tx.pool.medium.failure().is_some() {
            self.tx.abandon();
            return self.tx.leave();
        }
        self.tx.abort();
        self.tx.end::<LONG>();
    }
}

impl<M: Medium> Drop for Attempt<'_, '_, M> {
    #[inline]
    fn drop(&mut self) {
        if !self.committed {
            self.give_up();
        }
    }
}

impl<'p, M: Medium> Tx<'p, M> {
    #[inline(always)]
    fn attempt<R, T>(
        &mut self,
        body: &mut impl FnMut(&mut Tx<'p, M>) -> Result<R, Abort>,
        commit: &impl Fn(Attempt<'_, 'p, M>) -> Result<T, Abort>,
    ) -> Result<(R, T), Abort> {
        self.begin();
        let attempt = Attempt::begun(self);
        let result = body(attempt.tx)?;
        Ok((result, commit(attempt)?))
    }

    /// After `conflicts` conflicts, or because another lane runs alone: waits for its turn until no
    /// conflict is met.
    #[cold]
    #[inline(never)]
    fn attempt_again<R, T>(
        &mut self,
        mut conflicts: u32,
        mut body: &mut dyn FnMut(&mut Tx<'p, M>) -> Result<R, Abort>,
        commit: &dyn Fn(Attempt<'_, 'p, M>) -> Result<T, Abort>,
    ) -> Result<(R, T), Abort> {
        let mut turn = Turn::new(self);
        loop {
            if let Some(owner) = self.wants_page_of() {
                // Said before anything has changed, so that a caller that catches it can go on.
                assert!(
                    !self.pool.is_relied_on_here(owner),
                    "a transaction's closure runs another transaction of the same pool"
                );
            }
            self.give_way(conflicts);
            if turn.wait(conflicts) {
                self.begins_turn_alone(conflicts);
            }
            match self.attempt(&mut body, &commit) {
                Err(Abort::Conflict) => {
                    self.counts.count_abort(&Abort::Conflict);
                    conflicts += 1;
                }
                Err(abort) => {
                    self.counts.count_abort(&abort);
                    return Err(abort);
                }
                done => return done,
            }
        }
    }

    /// All other lanes wait while this one runs, which has met conflict upon conflict.
    #[cold]
    pub(super) fn begins_turn_alone(&self, _conflicts: u32) {
        self.counts.turns_alone.add(1);
        event!(WARN, "conflict storm", lane = self.lane.id as u64, conflicts = _conflicts);
    }

    /// After `conflicts` conflicts: resolves the cause, as far as that can be done, or lets the other
    /// lane go ahead.
    pub(super) fn give_way(&mut self, conflicts: u32) {
        if let Some(page) = self.lane.buffers.wanted_page.take() {
            self.pool.share(page);
        } else if conflicts > 0 {
            self.pool.make_way();
            self.lane.backoff.conflict();
            self.stay_away(conflicts - 1);
        }
    }
}

/// A lane's place among those that run: beside the others, or alone after many conflicts.
pub(super) struct Turn<'p, M: Medium> {
    pool: &'p Pool<M>,
    /// The value of `privileged` while this lane runs alone.
    me: u64,
    is_alone: bool,
}

impl<'p, M: Medium> Turn<'p, M> {
    pub fn new(tx: &Tx<'p, M>) -> Self {
        Self { pool: tx.pool, me: tx.lane.id as u64 + 1, is_alone: false }
    }

    /// Waits while another lane runs alone; asks to run alone after many conflicts. Returns whether it is the lane's
    /// turn to do so now, and was not before.
    pub fn wait(&mut self, conflicts: u32) -> bool {
        let was_alone = self.is_alone;
        let privileged = &self.pool.privileged;
        let mut tries = 0;
        while !self.is_alone {
            if privileged.load(Ordering::Acquire) != 0 {
                wait(&self.pool.medium, &mut tries);
            } else if conflicts < CONFLICTS_BEFORE_PRIVILEGE {
                return false;
            } else {
                self.is_alone = privileged
                    .compare_exchange(0, self.me, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok();
            }
        }
        !was_alone
    }
}

impl<M: Medium> Drop for Turn<'_, M> {
    /// Lets others run again, also when a panic unwinds.
    fn drop(&mut self) {
        if self.is_alone {
            self.pool.privileged.store(0, Ordering::Release);
        }
    }
}

impl<'p, M: Medium> Runner for Lane<'p, M> {
    type Tx = Tx<'p, M>;

    #[inline(always)]
    fn run<R, F>(&mut self, body: F) -> Result<R, Abort>
    where
        F: FnMut(&mut Self::Tx) -> Result<R, Abort>,
    {
        self.run_ticketed(body).map(|(result, _)| result)
    }

    fn run_later<R, F>(&mut self, body: F) -> Result<R, Abort>
    where
        F: FnMut(&mut Self::Tx) -> Result<R, Abort>,
    {
        self.run_async(body).map(|(result, _)| result)
    }

    fn sync(&mut self) -> Result<(), Abort> {
        self.pool().sync().map_err(|_| self.pool().refusal())
    }
}

impl<M: Medium> Drop for Lane<'_, M> {
    fn drop(&mut self) {
        if let Some(mut tx) = self.tx.take() {
            if tx.pool.medium.is_forked() {
                // The lane, and what it has pending, is the parent's.
                return;
            }
            if tx.lane.is_stand_in {
                tx.pool.lead(|id| id == tx.lane.id);
                // A batch that another leader has taken is durable when that one puts it back.
                tx.unpark();
            }
            tx.fence_for_others();
            // Others will work without this lane's next record to prove its last one done (UNDO-6).
            tx.pool.settle(tx.lane.id);
            let slot = &tx.pool.lanes[tx.lane.id];
            // NUMBER-2, BIAS-5.
            let clock = tx.pool.clock_behind(tx.lane.id);
            let (id, pages) = (tx.lane.id, tx.lane.pages.drain(..));
            tx.pool.bias.given_back(&tx.pool.medium, id, pages, clock);
            if tx.lane.heap.has_some() {
                tx.lane.heap.give_back(&mut tx.pool.heap.lock(&tx.pool.medium));
            }
            *slot.state.lock(&tx.pool.medium) = Some(tx.lane);
            tx.pool.lane_given_back();
        }
    }
}
