//! A running transaction: a value, never thread-local state.
//!
//! Its beginning, its end and what it remembers between are here; what a closure asks of it is in
//! [`access`], with the short way to single words in [`words`], and what keeps transactions apart
//! in [`isolation`] and [`numbers`]. How stores are logged and made durable is in [`undo`] (also `none`, which
//! keeps old words in volatile memory only, to be able to abort), [`atlas`], [`redo`],
//! [`rollback`] and [`aof`].

mod access;
mod aof;
mod atlas;
mod blocks;
pub(crate) mod commit_record;
mod deltas;
mod isolation;
mod literal;
mod numbers;
mod parts;
pub(crate) mod pending;
mod placed;
pub(crate) mod redo;
mod rollback;
mod sealed;
mod undo;
pub(crate) mod witness;
mod words;

pub(crate) use blocks::{LOGS_BLOCKS_BY_AGE_UP_TO, LOGS_BLOCKS_UP_TO, LOGS_PAGED_BLOCKS_UP_TO};

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, PoolOffset};
use rustc_hash::FxHashSet;

use crate::ack::Ticket;
use crate::alloc::Block;
use crate::bias::Page;
use crate::io::Io;
use crate::lines::LineSet;
use crate::lock::{LockWord, Stripe};
use crate::log::{self, Payload};
use crate::plant::Plant;
use crate::pool::{LaneShared, LaneState, Pool};
use crate::scheme::{Logging, WriteBack};
use crate::seq::Seq;
use crate::transact::Abort;
use crate::writeback;
use words::Window;

/// Lines that a write set has room for from the start.
const CONTENTS_MIN: usize = 32;

/// Fewer blocks given back are looked through one by one.
const FREED_FEW: usize = 32;

/// A running transaction of one lane: what a closure gets from
/// [`Runner::run`](crate::Runner::run), and what ends with it.
pub struct Tx<'p, M: Medium> {
    pub(crate) pool: &'p Pool<M>,
    pub(crate) lane: Box<LaneState>,
    /// The placeholder of `lane` while that is parked.
    pub(crate) stand_in: Option<Box<LaneState>>,
}

/// A transaction's buffers, kept by its lane so that the memory is allocated once.
#[derive(Default)]
pub(crate) struct Buffers {
    /// No other lane runs transactions: no lock is taken and no version checked.
    is_alone: bool,
    /// Beside others: the lane whose pages the transaction has to itself, mostly its own.
    pub(crate) bias_of: usize,
    /// No checker records accesses.
    is_untold: bool,
    /// Words that are in place or in the write set.
    loads: Window,
    /// The same where no lock is looked at and no access recorded; none beside others.
    quick_loads: Window,
    /// Words that are stored into the write set and nowhere else.
    stores: Window,
    /// Bytes of the pool when both were opened wide; 0 when one is not.
    windows_of: u64,
    /// The last transaction has left nothing but lines for the next one to clear.
    left_lines_only: bool,
    /// The clock when the transaction's view was last known to be whole.
    view: u64,
    reads: Vec<(Stripe, LockWord)>,
    /// Locks held, and what their words said before.
    locked: Vec<(Stripe, LockWord)>,
    lines: LineSet,
    /// Redo: the content of each line of `lines`, as far as its mask says; what stands behind the
    /// last line's is of no account.
    contents: Vec<[u64; 8]>,
    /// New blocks that are stored to in place, without a log.
    fresh: Vec<ByteRange>,
    /// Undo: lines of those that are stored to and not flushed yet.
    fresh_lines: Vec<u32>,
    allocated: Vec<Block>,
    freed: Vec<Block>,
    /// Where those are, once they are many; as many as `freed` has, or out of date.
    freed_at: FxHashSet<PoolOffset>,
    /// Undo: old words and bits of the whole transaction. Redo: the record in the making.
    payload: Payload,
    undo: undo::UndoProgress,
    /// Undo by age: the way to the seal.
    sealed: sealed::SealedProgress,
    /// Undo alone: where, and what stands there when everything is durable.
    witnesses: Vec<u64>,
    /// Regions of the heap that the log uses for this transaction.
    regions: Vec<log::Region>,
    /// BIAS-4: what was in the way is that another lane had this to itself.
    pub(crate) wanted_page: Option<Page>,
    /// The first thing that failed; whatever the closure returns, nothing is committed.
    failure: Option<Abort>,
    /// Only for a planted bug: a number drawn too early.
    early_number: u64,
}

impl<'p, M: Medium> Tx<'p, M> {
    /// In debug builds it and the commit are compiled once for a medium, and not for each closure that runs.
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[cfg_attr(debug_assertions, inline(never))]
    pub(crate) fn begin(&mut self) {
        let is_alone = self.enter();
        let pool = self.pool;
        if self.lane.buffers.is_alone != is_alone {
            (self.lane.buffers.is_alone, self.lane.buffers.windows_of) = (is_alone, 0);
        }
        if self.lane.pending.is_empty() {
            self.lane.begin_alone();
        } else {
            self.begin_after_batch();
        }
        if self.lane.buffers.windows_of != pool.medium.len() {
            self.open_windows();
        }
        if !is_alone {
            self.lane.buffers.view = pool.clock.load(Ordering::SeqCst);
        }
        if pool.io().plants(Plant::NumberBeforeLocks) {
            self.draw_early();
        }
    }

    #[inline(never)]
    fn begin_after_batch(&mut self) {
        self.make_room_in_batch();
        if !self.lane.pending.is_empty() {
            self.lane.begin_after_batch();
        }
    }

    /// The lane is inside the gate and has its state. `true` when it runs alone.
    #[inline(always)]
    pub(crate) fn enter(&mut self) -> bool {
        let pool = self.pool;
        let (end_solo, is_settled) = (|id| pool.end_solo(id), || pool.is_settled());
        let id = self.lane.id;
        let is_alone = pool.solo.enter(&pool.medium, &pool.gate, id, end_solo, is_settled);
        self.unpark();
        is_alone
    }

    /// The opposite: the lane's batch is left to the first lane that wants it.
    #[inline]
    pub(crate) fn leave(&mut self) {
        if !self.lane.pending.is_empty() {
            self.leave_pending();
        }
        self.pool.gate.leave(self.lane.id);
    }

    /// Whether no other lane runs transactions.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.lane.buffers.is_alone
    }

    /// Others may run.
    pub(crate) fn is_beside_others(&mut self) {
        self.lane.buffers.is_alone = false;
        self.lane.buffers.quick_loads = Window::NONE;
    }

    /// Common tail of commit and abort. What a transaction rarely needs is a call away: to
    /// save registers for it would be stores behind the fence.
    #[inline(always)]
    pub(crate) fn end(&mut self) {
        if self.pool.write_back.is_covered_by_lanes() {
            if self.is_write_back_due() {
                self.step_write_back();
            } else if self.lane.deferred.is_part_due(self.lane.log.head) {
                let LaneState { log, deferred, .. } = &mut *self.lane;
                deferred.flush_part(self.pool, log.head - log.stepped, log.head);
            }
        }
        if self.pool.checkpointer.changes.is_on() {
            self.mark_changes();
        }
        self.leave();
    }

    /// CHECKPOINT-1: marks the pages that the transaction stored to, committed or not.
    #[inline(never)]
    fn mark_changes(&self) {
        if self.io().plants(Plant::MarkedBeforeStores) {
            return;
        }
        let changes = &self.pool.checkpointer.changes;
        let left_out = self.io().plants(Plant::FreshNotMarked);
        let lines = self.lane.buffers.lines.entries().iter().map(|entry| entry.line);
        changes.mark_lines(lines.filter(|line| !(left_out && self.is_fresh(line.start(), 1))));
    }

    /// Whether enough of the log was used, or touched, for a share of the write-back.
    #[inline(always)]
    fn is_write_back_due(&self) -> bool {
        let lane = &*self.lane;
        let lines = lane.log.head - lane.log.stepped;
        lines >= self.pool.step_every || lane.accesses.len() as u64 >= self.pool.drain_every
    }

    /// Does a share of the write-back.
    #[inline(never)]
    fn step_write_back(&mut self) {
        let lane = &mut *self.lane;
        lane.log.stepped = lane.log.head;
        if self.pool.is_literal {
            writeback::step_literal(self.pool, lane.id, &mut lane.accesses);
            return;
        }
        writeback::step_deferred(self.pool, lane.id, &mut lane.deferred, &mut lane.accesses);
        if std::mem::take(&mut lane.are_sums_due) {
            writeback::step_sums(self.pool);
        }
    }

    fn io(&self) -> Io<'p, M> {
        self.pool.io()
    }

    /// Undo whose data is flushed by age: all records of a lane stand in its ring, one behind the
    /// other, and its commit is a seal, or a literal variant's mark.
    fn is_sealed(&self) -> bool {
        self.pool.logging == Logging::Undo && self.pool.write_back == WriteBack::ByAge
    }

    /// Makes the transaction durable, then visible to others. The commit point is the scheme's.
    /// After an error the transaction is still running and wants to be aborted.
    #[cfg_attr(not(debug_assertions), inline)]
    #[cfg_attr(debug_assertions, inline(never))]
    pub(crate) fn commit(&mut self) -> Result<Ticket, Abort> {
        self.refuse_after_failure()?;
        let is_usual = self.pool.logging == Logging::Redo && self.lane.pending.is_empty();
        if is_usual && !self.lane.buffers.lines.is_empty() {
            return self.commit_redo();
        }
        if is_usual && self.lane.buffers.is_alone && self.lane.buffers.changed_nothing() {
            self.lane.buffers.look_what_is_left();
            return Ok(Ticket::NOTHING);
        }
        self.commit_otherwise()
    }

    fn commit_otherwise(&mut self) -> Result<Ticket, Abort> {
        self.lane.buffers.left_lines_only = false;
        if !self.lane.pending.is_empty() {
            return self.commit_with_batch();
        }
        if self.lane.buffers.changed_nothing() {
            if self.pool.logging == Logging::Sections {
                self.await_stable(&self.predecessors());
                // What they did may never be.
                self.refuse_unusable()?;
            }
            self.release_locks(None);
            return Ok(Ticket::NOTHING);
        }
        match self.pool.logging {
            Logging::Undo if self.pool.is_literal => self.commit_logically(),
            Logging::Undo if self.is_sealed() => self.commit_sealed(),
            Logging::Volatile | Logging::Undo => self.commit_undo(),
            Logging::Redo => self.commit_redo(),
            Logging::Pages => self.commit_rollback(),
            Logging::Sections => self.commit_section(),
            Logging::Commands => self.commit_commands(),
        }
    }

    /// Whether an operation failed because another transaction was in the way.
    pub(crate) fn met_conflict(&self) -> bool {
        matches!(self.lane.buffers.failure, Some(Abort::Conflict))
    }

    /// Ends the transaction, and what the lane has pending, on a medium that has failed. No later
    /// transaction of the pool begins, so this only keeps those under way on other lanes from seeing
    /// what was not acknowledged, and from waiting for it.
    #[cold]
    pub(crate) fn abandon(&mut self) {
        self.lane.buffers.left_lines_only = false;
        self.drop_batch();
        let is_in_place = self.lane.buffers.undo.stored;
        if is_in_place {
            self.put_back();
        }
        // Optimistic readers: see `abort_undo`.
        let version = is_in_place.then(|| self.tick());
        self.release_locks(version);
        let shared = &self.pool.lanes[self.lane.id].shared;
        shared.section.store(0, Ordering::Release);
        shared.bound.store(LaneShared::IDLE, Ordering::Release);
        // The heap in memory keeps what was reserved: nothing is allocated any more.
        let Buffers { allocated, freed, regions, fresh_lines, .. } = &mut self.lane.buffers;
        allocated.clear();
        freed.clear();
        regions.clear();
        fresh_lines.clear();
    }

    /// Undoes everything.
    pub(crate) fn abort(&mut self) {
        self.lane.buffers.left_lines_only = false;
        match self.pool.logging {
            Logging::Volatile | Logging::Undo | Logging::Sections => self.abort_undo(),
            Logging::Redo | Logging::Pages | Logging::Commands => self.abort_redo(),
        }
        if self.io().plants(Plant::AbortNotMarked) {
            self.lane.buffers.lines.clear();
        }
    }
}

#[inline(always)]
fn clear<T>(items: &mut Vec<T>) {
    if !items.is_empty() {
        items.clear();
    }
}

impl Buffers {
    pub(crate) fn of_lane(id: usize) -> Self {
        Self { bias_of: id, ..Self::default() }
    }

    /// Looking at each list behind the fence would keep the next transaction's loads waiting, so a redo
    /// commit does it before, as far as such a transaction can have left something. Whatever else ends
    /// one leaves it to the next.
    #[inline]
    fn look_what_is_left(&mut self) {
        let Self { reads, fresh, allocated, freed, regions, failure, .. } = self;
        // What failed is there where the commit is a batch's, made after its lane had given up.
        let left_lines_only = (reads.is_empty() && failure.is_none())
            && (fresh.is_empty() && allocated.is_empty())
            && (freed.is_empty() && regions.is_empty());
        if self.left_lines_only != left_lines_only {
            self.left_lines_only = left_lines_only;
        }
    }

    /// Whether everything else is clear.
    fn has_lines_only(&self) -> bool {
        let Self { reads, fresh, fresh_lines, allocated, freed, payload, regions, .. } = self;
        (reads.is_empty() && fresh.is_empty() && fresh_lines.is_empty())
            && (allocated.is_empty() && freed.is_empty() && regions.is_empty())
            && (payload.is_empty() && self.failure.is_none())
            && (self.undo.is_clear() && self.sealed.is_clear())
    }

    /// For the next transaction. Stores to what is not empty and to nothing else: behind the fence
    /// of the transaction before, stores wait for it, and where there are too many the next
    /// transaction's loads do too.
    #[inline(always)]
    fn clear(&mut self) {
        debug_assert!(self.locked.is_empty(), "a transaction ends without locks");
        self.lines.clear();
        if !self.left_lines_only {
            self.clear_rest();
        }
        debug_assert!(self.has_lines_only());
    }

    fn clear_rest(&mut self) {
        clear(&mut self.reads);
        clear(&mut self.fresh);
        clear(&mut self.fresh_lines);
        clear(&mut self.allocated);
        clear(&mut self.freed);
        if !self.freed_at.is_empty() {
            self.freed_at.clear();
        }
        if !self.payload.is_empty() {
            self.payload.clear();
        }
        self.undo.clear();
        self.sealed.clear();
        clear(&mut self.regions);
        if self.failure.is_some() {
            self.failure = None;
        }
    }

    fn changed_nothing(&self) -> bool {
        self.lines.is_empty() && self.allocated.is_empty() && self.freed.is_empty()
    }

    /// Whether the transaction has given back the block at `at`.
    fn has_freed(&mut self, at: PoolOffset) -> bool {
        let Self { freed, freed_at, .. } = self;
        if freed.len() < FREED_FEW {
            return freed.iter().any(|block| block.at == at);
        }
        if freed_at.len() != freed.len() {
            freed_at.clear();
            freed_at.extend(freed.iter().map(|block| block.at));
        }
        freed_at.contains(&at)
    }

    /// It gives a block back, which it has not done before.
    fn add_freed(&mut self, block: Block) {
        if self.freed.len() >= FREED_FEW && self.freed_at.len() == self.freed.len() {
            self.freed_at.insert(block.at);
        }
        self.freed.push(block);
    }

    /// A line was read when its lock said that.
    #[inline]
    fn note_read(&mut self, stripe: Stripe, word: LockWord) {
        if self.reads.last().is_none_or(|last| last.0 != stripe) {
            self.reads.push((stripe, word));
        }
    }

    /// `contents` has a place for every line of the set.
    #[inline]
    fn add_contents(&mut self, index: usize) {
        if index >= self.contents.len() {
            self.double_contents();
        }
    }

    #[cold]
    fn double_contents(&mut self) {
        self.contents.resize((self.contents.len() * 2).max(CONTENTS_MIN), [0; 8]);
    }

    /// A new block is stored to in place from now on.
    fn add_fresh(&mut self, block: ByteRange) {
        self.fresh.push(block);
        (self.stores, self.windows_of) = (Window::NONE, 0);
    }
}

/// The last number that the log has seen; zero before the first.
pub(crate) fn next_number(last: Seq, generation: u64) -> Result<Seq, Abort> {
    let next =
        if last.generation() == generation { last.next() } else { Some(Seq::new(generation, 1)) };
    next.ok_or(Abort::NumbersUsedUp)
}
