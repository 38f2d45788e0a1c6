//! A running transaction: a value, never thread-local state.
//!
//! Its beginning, its end and what it remembers between are here; what a closure asks of it is in
//! [`access`], with the short way to single words in [`words`], and what keeps transactions apart
//! in [`isolation`] and [`numbers`]. How stores are logged and made durable is the
//! [scheme](crate::scheme)'s; [`write_set`], [`commit_record`] and [`pending`] are parts for several of them.

mod access;
pub(crate) mod blocks;
pub(crate) mod commit_record;
mod deltas;
pub(crate) mod isolation;
mod numbers;
pub(crate) mod pending;
pub(crate) mod placed;
mod words;
mod write_set;

use std::sync::atomic::Ordering;

use outlast_pmem::{Mapped, Medium};
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
use crate::pool::{LaneShared, LaneSlot, LaneState, Pool};
use crate::scheme::redo::{LONG, SHORT};
use crate::scheme::{archapt, under, undo};
use crate::seq::Seq;
use crate::stats::counts::LaneCounts;
use crate::transact::Abort;
use crate::writeback;
use words::{Window, Windows};

/// Lines that a write set has room for from the start.
const CONTENTS_MIN: usize = 32;

/// Fewer blocks given back are looked through one by one.
const FREED_FEW: usize = 32;

/// A running transaction of one lane: what a closure gets from
/// [`Runner::run`](crate::Runner::run), and what ends with it.
pub struct Tx<'p, M: Medium = Mapped> {
    pub(crate) pool: &'p Pool<M>,
    pub(crate) lane: Box<LaneState>,
    /// The placeholder of `lane` while that is parked.
    pub(crate) stand_in: Option<Box<LaneState>>,
    /// The lane's place in the pool.
    pub(crate) slot: &'p LaneSlot,
    /// Those of the lane.
    pub(crate) counts: &'p LaneCounts,
}

/// A transaction's buffers, kept by its lane so that the memory is allocated once.
#[derive(Default)]
pub(crate) struct Buffers {
    /// No other lane runs transactions: no lock is taken and no version checked.
    pub(crate) is_alone: bool,
    /// Beside others: the lane whose pages the transaction has to itself, mostly its own.
    pub(crate) bias_of: usize,
    pub(crate) windows: Windows,
    /// WAY-2: everything but `lines` is clear, and was when the transaction began.
    pub(crate) has_lines_only: bool,
    /// The clock when the transaction's view was last known to be whole.
    pub(crate) view: u64,
    pub(crate) reads: Vec<(Stripe, LockWord)>,
    /// Locks held, and what their words said before.
    pub(crate) locked: Vec<(Stripe, LockWord)>,
    pub(crate) lines: LineSet,
    /// Redo: the content of each line of `lines`, as far as its mask says; what stands behind the
    /// last line's is of no account.
    pub(crate) contents: Vec<[u64; 8]>,
    /// New blocks that are stored to in place, without a log.
    pub(crate) fresh: Vec<ByteRange>,
    pub(crate) allocated: Vec<Block>,
    pub(crate) freed: Vec<Block>,
    /// Where those are, once they are many; as many as `freed` has, or out of date.
    pub(crate) freed_at: FxHashSet<PoolOffset>,
    /// Undo: old words and bits of the whole transaction. Redo: the record in the making.
    pub(crate) payload: Payload,
    /// Under `none`: the old content of each word, as often as it was stored to (NONE-1).
    pub(crate) old_words: Vec<(PoolOffset, u64)>,
    pub(crate) undo: undo::InTx,
    /// Undo by age: the way to the seal.
    pub(crate) sealed: archapt::InTx,
    /// Regions of the heap that the log uses for this transaction.
    pub(crate) regions: Vec<log::Region>,
    /// BIAS-4: what was in the way is that another lane had this to itself.
    pub(crate) wanted_page: Option<Page>,
    /// The first thing that failed; whatever the closure returns, nothing is committed.
    pub(crate) failure: Option<Abort>,
    /// Only for a planted bug: a number drawn too early.
    pub(crate) early_number: u64,
}

impl<'p, M: Medium> Tx<'p, M> {
    /// In debug builds it and the commit are compiled once for a medium, and not for each closure that runs.
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[cfg_attr(debug_assertions, inline(never))]
    pub(crate) fn begin(&mut self) {
        let is_alone = self.enter_gate();
        if !is_alone || !self.lane.buffers.has_lines_only {
            self.begin_otherwise(is_alone);
        }
        // WAY-4.
        debug_assert!(self.lane.buffers.is_alone == is_alone && !self.lane.is_stand_in);
        if self.pool.io().plants(Plant::NumberBeforeLocks) {
            self.draw_early();
        }
    }

    /// Behind a transaction that has not ended on the short way.
    #[inline(never)]
    fn begin_otherwise(&mut self, is_alone: bool) {
        let pool = self.pool;
        self.unpark();
        if self.lane.buffers.is_alone != is_alone {
            (self.lane.buffers.is_alone, self.lane.buffers.windows.of) = (is_alone, 0);
        }
        if self.lane.buffers.bias_of != self.lane.id {
            self.lane.buffers.bias_of = self.lane.id;
        }
        if self.lane.pending.is_empty() {
            self.lane.begin_alone();
        } else {
            self.begin_after_batch();
        }
        if self.lane.buffers.windows.of != pool.medium.len() {
            self.open_windows();
        }
        let buffers = &mut self.lane.buffers;
        if buffers.has_lines_only {
            buffers.lines.hold_items(buffers.windows.allow_short);
        }
        if !is_alone {
            self.lane.buffers.view = pool.clock.load(Ordering::SeqCst);
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
    pub(crate) fn enter(&mut self) -> bool {
        let is_alone = self.enter_gate();
        self.unpark();
        is_alone
    }

    #[inline(always)]
    fn enter_gate(&self) -> bool {
        let pool = self.pool;
        let (end_solo, is_settled) = (|id| pool.end_solo(id), || pool.is_settled());
        pool.solo.enter(&pool.medium, &pool.gate, self.lane.id, end_solo, is_settled)
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
        // The windows are opened anew by the next transaction, alone or not.
        (self.lane.buffers.is_alone, self.lane.buffers.windows.of) = (false, 0);
        self.lane.buffers.windows.allow_short = false;
        self.lane.buffers.windows.quick_loads = Window::NONE;
    }

    /// Common tail of commit and abort. What a transaction rarely needs is a call away: to
    /// save registers for it would be stores behind the fence.
    #[inline(always)]
    pub(crate) fn end<const WAY: bool>(&mut self) {
        if self.pool.facts.is_stepped {
            if self.is_write_back_due::<WAY>() {
                self.step_write_back();
            } else if self.lane.deferred.is_part_due(self.lane.log.head) {
                let io = self.io();
                let LaneState { log, deferred, .. } = &mut *self.lane;
                deferred.flush_part(self.pool, io, log.head - log.stepped, log.head);
            }
        }
        if self.pool.checkpointer.changes.is_on() {
            self.mark_changes();
        }
        if WAY == SHORT {
            // WAY-4.
            self.lane.buffers.lines.clear_forgotten();
            self.pool.gate.leave(self.lane.id);
        } else {
            self.leave();
        }
    }

    /// CHECKPOINT-1: marks the pages that the transaction stored to, committed or not.
    #[inline(never)]
    fn mark_changes(&self) {
        if self.io().plants(Plant::MarkedBeforeStores) {
            return;
        }
        let changes = &self.pool.checkpointer.changes;
        let left_out = self.io().plants(Plant::FreshNotMarked);
        if self.pool.plan.flushes_fresh_whole && !left_out {
            self.lane.buffers.fresh.iter().for_each(|range| changes.mark_range(*range));
        }
        let Buffers { lines, old_words, .. } = &self.lane.buffers;
        changes.mark_lines(old_words.iter().map(|(at, _)| at.line()));
        let items = self.lane.buffers.payload.singles(lines.items());
        let lines = lines.entries().iter().map(|entry| entry.line);
        let lines = lines.chain(items.map(|(at, _)| at.line()));
        changes.mark_lines(lines.filter(|line| !(left_out && self.is_fresh(line.start(), 1))));
    }

    /// Whether enough of the log was used, or touched, for a share of the write-back.
    #[inline(always)]
    fn is_write_back_due<const WAY: bool>(&self) -> bool {
        let lane = &*self.lane;
        let lines = lane.log.head - lane.log.stepped;
        // The short way is taken where no access is recorded.
        lines >= self.pool.plan.step_every
            || WAY == LONG && lane.accesses.len() as u64 >= self.pool.plan.drain_every
    }

    /// Does a share of the write-back.
    #[inline(never)]
    fn step_write_back(&mut self) {
        self.lane.log.stepped = self.lane.log.head;
        if !self.pool.facts.covers {
            return under!(self.pool.scheme(), D => D::step_write_back(self));
        }
        let (io, lane) = (self.io(), &mut *self.lane);
        writeback::step_deferred(self.pool, io, lane.id, &mut lane.deferred, &mut lane.accesses);
        if std::mem::take(&mut lane.are_sums_due) {
            writeback::step_sums(self.pool);
        }
    }

    #[inline(always)]
    pub(crate) fn io(&self) -> Io<'p, M> {
        Io::counted(&self.pool.medium, &self.counts.io, self.pool.versions())
    }

    /// Makes the transaction durable, then visible to others. The commit point is the scheme's.
    /// After an error the transaction is still running and wants to be aborted.
    #[cfg_attr(not(debug_assertions), inline)]
    #[cfg_attr(debug_assertions, inline(never))]
    pub(crate) fn commit(&mut self) -> Result<Ticket, Abort> {
        self.refuse_after_failure()?;
        self.lane.buffers.has_lines_only = false;
        self.lane.buffers.spread();
        let is_usual = self.pool.facts.commits_by_record && self.lane.pending.is_empty();
        if is_usual && !self.lane.buffers.lines.is_empty() {
            return self.commit_redo::<LONG>();
        }
        if !self.lane.pending.is_empty() {
            return self.commit_with_batch();
        }
        if self.lane.buffers.changed_nothing() {
            under!(self.pool.scheme(), D => D::commit_nothing(self))?;
            self.release_locks(None);
            return Ok(Ticket::NOTHING);
        }
        under!(self.pool.scheme(), D => D::commit(self))
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
        self.lane.buffers.has_lines_only = false;
        self.drop_batch();
        let is_in_place = self.lane.buffers.has_stored();
        if is_in_place {
            self.put_back();
        }
        // Optimistic readers: see `abort_in_place`.
        let version = is_in_place.then(|| self.tick());
        self.release_locks(version);
        under!(self.pool.scheme(), D => D::abandon(self));
        let shared = &self.pool.lanes[self.lane.id].shared;
        shared.bound.store(LaneShared::IDLE, Ordering::Release);
        // The heap in memory keeps what was reserved: nothing is allocated any more.
        let Buffers { allocated, freed, regions, undo, .. } = &mut self.lane.buffers;
        allocated.clear();
        freed.clear();
        regions.clear();
        undo.fresh_lines.clear();
    }

    /// Undoes everything.
    pub(crate) fn abort(&mut self) {
        self.lane.buffers.has_lines_only = false;
        match self.pool.facts.has_write_set {
            true => self.abort_write_set(),
            false => self.abort_in_place(),
        }
        if self.io().plants(Plant::AbortNotMarked) {
            self.lane.buffers.lines.clear();
            self.lane.buffers.old_words.clear();
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

    /// Whether everything but `lines` is clear.
    fn finds_lines_only(&self) -> bool {
        let Self { reads, fresh, allocated, freed, payload, old_words, regions, .. } = self;
        (reads.is_empty() && fresh.is_empty() && old_words.is_empty())
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
        if !self.has_lines_only {
            self.clear_rest();
        }
        debug_assert!(self.finds_lines_only());
    }

    #[inline(never)]
    fn clear_rest(&mut self) {
        clear(&mut self.reads);
        clear(&mut self.fresh);
        clear(&mut self.allocated);
        clear(&mut self.freed);
        if !self.freed_at.is_empty() {
            self.freed_at.clear();
        }
        if !self.payload.is_empty() {
            self.payload.clear();
        }
        clear(&mut self.old_words);
        self.undo.clear();
        self.sealed.clear();
        clear(&mut self.regions);
        if self.failure.is_some() {
            self.failure = None;
        }
    }

    /// Whether the transaction may take the short way.
    #[inline(always)]
    pub(crate) fn are_few_lines_only(&self) -> bool {
        let is_short = self.windows.allow_short && self.has_lines_only && self.lines.are_few();
        debug_assert!(!is_short || self.is_alone && self.finds_lines_only());
        debug_assert!(!is_short || self.locked.is_empty());
        is_short
    }

    pub(crate) fn changed_nothing(&self) -> bool {
        (self.lines.is_empty() && self.old_words.is_empty())
            && (self.allocated.is_empty() && self.freed.is_empty())
    }

    /// Whether something that an abort puts back was stored in place.
    pub(crate) fn has_stored(&self) -> bool {
        self.undo.stored || !self.old_words.is_empty()
    }

    /// Whether the transaction has given back the block at `at`.
    pub(crate) fn has_freed(&mut self, at: PoolOffset) -> bool {
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
    pub(crate) fn add_freed(&mut self, block: Block) {
        if self.freed.len() >= FREED_FEW && self.freed_at.len() == self.freed.len() {
            self.freed_at.insert(block.at);
        }
        self.has_lines_only = false;
        self.freed.push(block);
    }

    /// A line was read when its lock said that.
    #[inline]
    pub(crate) fn note_read(&mut self, stripe: Stripe, word: LockWord) {
        if self.reads.last().is_none_or(|last| last.0 != stripe) {
            self.has_lines_only = false;
            self.reads.push((stripe, word));
        }
    }

    /// `contents` has a place for every line of the set.
    #[inline]
    pub(crate) fn add_contents(&mut self, index: usize) {
        if index >= self.contents.len() {
            self.double_contents();
        }
    }

    #[cold]
    fn double_contents(&mut self) {
        self.contents.resize((self.contents.len() * 2).max(CONTENTS_MIN), [0; 8]);
    }

    /// The same, as part of a range that it goes on from: blocks of a class are taken side by side.
    pub(crate) fn add_fresh_beside(&mut self, block: ByteRange) {
        const LOOKED_AT: usize = 4;
        let mut latest = self.fresh.iter_mut().rev().take(LOOKED_AT);
        match latest.find(|range| range.end() == block.at) {
            Some(range) => range.len += block.len,
            None => self.add_fresh(block),
        }
    }

    /// A new block is stored to in place from now on.
    pub(crate) fn add_fresh(&mut self, block: ByteRange) {
        self.has_lines_only = false;
        self.fresh.push(block);
        self.windows.close_stores();
    }
}

/// The last number that the log has seen; zero before the first.
pub(crate) fn next_number(last: Seq, generation: u64) -> Result<Seq, Abort> {
    let next =
        if last.generation() == generation { last.next() } else { Some(Seq::new(generation, 1)) };
    next.ok_or(Abort::NumbersUsedUp)
}
