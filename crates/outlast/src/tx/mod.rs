//! A running transaction: a value, never thread-local state.
//!
//! What all schemes share is here: isolation, reads, and what a transaction remembers.
//! How stores are logged and made durable is in [`undo`] (also `none`, which keeps old words in
//! volatile memory only, to be able to abort), [`atlas`], [`redo`], [`rollback`] and [`aof`].

mod aof;
mod atlas;
mod blocks;
pub(crate) mod commit_record;
mod deltas;
mod literal;
mod parts;
pub(crate) mod pending;
pub(crate) mod redo;
mod rollback;
mod sealed;
mod undo;
pub(crate) mod witness;

pub(crate) use blocks::{LOGS_BLOCKS_BY_AGE_UP_TO, LOGS_BLOCKS_UP_TO};

use std::sync::atomic::{Ordering, fence};

use outlast_pmem::{Call, Mark, Medium};
use outlast_trace::{ByteRange, LINE_BYTES, LineAddr, PoolOffset, line_pieces};

use crate::ack::Ticket;
use crate::alloc::Block;
use crate::checksums::Deltas;
use crate::io::Io;
use crate::layout::ROOT_AT;
use crate::lines::LineSet;
use crate::lock::{LockWord, Stripe};
use crate::log::{Payload, Region};
use crate::plant::Plant;
use crate::pool::{LaneState, Pool};
use crate::scheme::{Logging, WriteBack};
use crate::seq::Seq;
use crate::spin::wait;
use crate::transact::{Abort, BlockKind, RootKind, Transact};
use crate::writeback::{self, Access};

/// How often a taken lock is looked at before its taker counts as in the way.
const LOCK_PATIENCE: u32 = 32;

/// Lines that a write set has room for from the start.
const CONTENTS_MIN: usize = 32;

/// Most lines of an announced range that are fetched at once: as many as a core has under way.
const LINES_FETCHED_MAX: usize = 16;

/// A running transaction of one lane: what a closure gets from
/// [`Runner::run`](crate::Runner::run), and what ends with it.
pub struct Tx<'p, M: Medium> {
    pub(crate) pool: &'p Pool<M>,
    pub(crate) lane: Box<LaneState>,
    /// What takes the place of `lane` while that is parked.
    pub(crate) stand_in: Option<Box<LaneState>>,
}

/// What a transaction remembers, kept by its lane so that the memory is allocated once.
#[derive(Default)]
pub(crate) struct Buffers {
    /// No other lane runs transactions: no lock is taken and no version checked.
    is_alone: bool,
    /// Alone, and nobody wants to know what is touched.
    is_direct: bool,
    /// Words that are in place or in the write set.
    loads: Window,
    /// Words that are stored into the write set and nowhere else.
    stores: Window,
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
    /// Undo: old words and bits of the whole transaction. Redo: the record in the making.
    payload: Payload,
    undo: undo::UndoProgress,
    /// Undo by age: the way to the seal.
    sealed: sealed::SealedProgress,
    /// Undo alone: where, and what stands there when everything is durable.
    witnesses: Vec<u64>,
    /// Regions of the heap that the log uses for this transaction.
    regions: Vec<Region>,
    /// Where checksums are kept: what this transaction changes in them.
    deltas: Deltas,
    /// The first thing that failed; whatever the closure returns, nothing is committed.
    failure: Option<Abort>,
    /// Only for a planted bug: a number drawn too early.
    early_number: u64,
}

/// Aligned words of the pool that are reached in few steps.
#[derive(Clone, Copy, PartialEq, Default)]
struct Window {
    from: u64,
    bytes: u64,
}

impl Window {
    const NONE: Self = Self { from: 0, bytes: 0 };

    #[inline]
    fn has_word(self, at: PoolOffset) -> bool {
        at.0.wrapping_sub(self.from) < self.bytes && at.is_aligned(8)
    }
}

impl<'p, M: Medium> Tx<'p, M> {
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        let is_alone = self.enter();
        let pool = self.pool;
        self.lane.buffers.is_alone = is_alone;
        if self.lane.pending.is_empty() {
            self.lane.begin_alone();
        } else {
            self.begin_after_batch();
        }
        self.open_windows();
        let buffers = &mut self.lane.buffers;
        buffers.view = pool.clock.load(Ordering::Acquire);
        if pool.io().plants(Plant::NumberBeforeLocks) {
            buffers.early_number = pool.clock.fetch_add(1, Ordering::SeqCst) + 1;
        }
    }

    /// Words of the heap are reached without a look at what else there may be. Under a literal
    /// variant whatever is touched may be pending.
    #[inline]
    fn open_windows(&mut self) {
        let pool = self.pool;
        let buffers = &mut self.lane.buffers;
        let heap = if !pool.is_literal {
            let from = pool.header().geometry.heap_at;
            Window { from, bytes: pool.medium.len() - from }
        } else {
            Window::NONE
        };
        buffers.is_direct = buffers.is_alone && pool.history.is_none();
        let is_kept = pool.logging == Logging::Redo && !pool.io().plants(Plant::MarkedBeforeStores);
        let stores = if is_kept { heap } else { Window::NONE };
        // Behind a fence stores are dear, and nearly always nothing has changed.
        if buffers.loads != heap {
            buffers.loads = heap;
        }
        if buffers.stores != stores {
            buffers.stores = stores;
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
        let end_solo = |id| pool.end_solo(id);
        let is_alone = pool.solo.enter(&pool.medium, &pool.gate, self.lane.id, end_solo);
        self.unpark();
        is_alone
    }

    /// The opposite: the lane's batch is left to whoever wants it.
    #[inline]
    pub(crate) fn leave(&mut self) {
        if !self.lane.pending.is_empty() {
            self.leave_pending();
        }
        self.pool.gate.leave(self.lane.id);
    }

    /// Others may run.
    pub(crate) fn is_beside_others(&mut self) {
        let buffers = &mut self.lane.buffers;
        (buffers.is_alone, buffers.is_direct) = (false, false);
    }

    /// After commit or abort, whichever it was.
    #[inline]
    pub(crate) fn end(&mut self) {
        match self.pool.write_back {
            WriteBack::ByAge | WriteBack::BySegment => self.step_write_back(),
            WriteBack::Never | WriteBack::AtCommit | WriteBack::Asynchronous => {}
        }
        self.mark_changes();
        self.leave();
    }

    /// C1: marks the pages that the transaction stored to, committed or not.
    #[inline]
    fn mark_changes(&self) {
        let changes = &self.pool.checkpointer.changes;
        if !changes.is_on() || self.io().plants(Plant::MarkedBeforeStores) {
            return;
        }
        let left_out = self.io().plants(Plant::FreshNotMarked);
        let lines = self.lane.buffers.lines.entries().iter().map(|entry| entry.line);
        changes.mark_lines(lines.filter(|line| !(left_out && self.is_fresh(line.start(), 1))));
    }

    /// Does a share of the write-back, once enough of the log was used, or touched.
    #[inline]
    fn step_write_back(&mut self) {
        let lane = &mut *self.lane;
        let lines = lane.log.head - lane.log.stepped;
        if lines >= self.pool.step_every || lane.accesses.len() as u64 >= self.pool.drain_every {
            lane.log.stepped = lane.log.head;
            if self.pool.is_literal {
                writeback::step_literal(self.pool, lane.id, &mut lane.accesses);
                return;
            }
            writeback::step_cover(self.pool, lane.id, &mut lane.cover, &mut lane.accesses);
            if self.pool.matrices.is_some() {
                writeback::step_sums(self.pool, lane.id);
            }
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

    fn own(&self) -> LockWord {
        LockWord::taken_by(self.lane.id)
    }

    /// Makes the transaction durable, then visible to others. The commit point is the scheme's.
    /// After an error the transaction is still running and wants to be aborted.
    #[inline]
    pub(crate) fn commit(&mut self) -> Result<Ticket, Abort> {
        self.refuse_after_failure()?;
        let is_usual = self.pool.logging == Logging::Redo && self.lane.pending.is_empty();
        if is_usual && !self.lane.buffers.lines.is_empty() {
            return self.commit_redo();
        }
        self.commit_otherwise()
    }

    fn commit_otherwise(&mut self) -> Result<Ticket, Abort> {
        if !self.lane.pending.is_empty() {
            return self.commit_with_batch();
        }
        if self.lane.buffers.changed_nothing() {
            if self.pool.logging == Logging::Sections {
                self.await_stable(&self.predecessors());
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

    /// Undoes everything.
    pub(crate) fn abort(&mut self) {
        match self.pool.logging {
            Logging::Volatile | Logging::Undo | Logging::Sections => self.abort_undo(),
            Logging::Redo | Logging::Pages | Logging::Commands => self.abort_redo(),
        }
        if self.io().plants(Plant::AbortNotMarked) {
            self.lane.buffers.lines.clear();
        }
    }

    /// Lets go of the locks; `version` is the commit that their lines now show, `None` when
    /// nothing was stored to them.
    #[inline]
    fn release_locks(&mut self, version: Option<u64>) {
        if !self.lane.buffers.locked.is_empty() {
            self.release_held_locks(version);
        }
        self.end_writing();
    }

    fn release_held_locks(&mut self, version: Option<u64>) {
        // Nothing of the batch becomes visible with a transaction that has stored nothing.
        let from = if version.is_some() { 0 } else { self.lane.pending.before().locked };
        for (stripe, before) in self.lane.buffers.locked.drain(from..).rev() {
            let word = version.map_or(before, LockWord::free);
            // The mark stands where the lock is still held, so that a trace shows no two owners.
            self.pool.medium.mark(Mark::Unlock(u64::from(stripe.0)));
            self.pool.locks.release(stripe, word);
        }
    }

    /// Draws the number of this commit and checks that everything read is still as it was.
    fn draw_number(&mut self) -> Result<u64, Abort> {
        if self.io().plants(Plant::NumberBeforeLocks) {
            self.validate_reads()?;
            return Ok(self.lane.buffers.early_number);
        }
        let number = self.tick();
        if number >= Seq::COUNTER_MAX {
            return Err(Abort::NumbersUsedUp);
        }
        if number != self.lane.buffers.view + self.lane.buffers.sealed.tickets + 1 {
            self.validate_reads()?;
        }
        Ok(number)
    }

    /// Moves the clock and returns what it shows.
    fn tick(&self) -> u64 {
        let clock = &self.pool.clock;
        if self.lane.buffers.is_alone {
            // Nobody else moves it, and a locked instruction would wait for all stores before it.
            let number = clock.load(Ordering::Relaxed) + 1;
            clock.store(number, Ordering::Release);
            return number;
        }
        clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether every line read still has the version that was read. Own locks count by what
    /// they covered.
    fn validate_reads(&self) -> Result<(), Abort> {
        if self.io().plants(Plant::ReadsNotValidated) {
            return Ok(());
        }
        let own = self.own();
        let buffers = &self.lane.buffers;
        for (stripe, seen) in &buffers.reads {
            let now = self.pool.locks.load(*stripe);
            let covered = || buffers.locked.iter().find(|(s, _)| s == stripe).map(|(_, was)| *was);
            let same = if now == own { covered() == Some(*seen) } else { now == *seen };
            if !same {
                return Err(Abort::Conflict);
            }
        }
        Ok(())
    }

    /// Makes the view as new as the clock, if nothing that was read has changed.
    fn extend_view(&mut self) -> Result<(), Abort> {
        let clock = self.pool.clock.load(Ordering::Acquire);
        self.validate_reads()?;
        self.lane.buffers.view = clock;
        // The clock has counted the own numbers drawn so far.
        self.lane.buffers.sealed.tickets = 0;
        Ok(())
    }

    /// Takes the lock of a line for writing, if this transaction does not have it.
    #[inline]
    fn lock_line(&mut self, line: LineAddr) -> Result<(), Abort> {
        if self.lane.buffers.is_alone {
            return Ok(());
        }
        let stripe = self.pool.locks.stripe(line);
        let mut tries = 0;
        loop {
            let word = self.pool.locks.load(stripe);
            if word == self.own() {
                return Ok(());
            }
            if word.is_free() {
                if word.version() > self.lane.buffers.view {
                    self.extend_view()?;
                }
                if self.pool.locks.try_take(stripe, word, self.lane.id) {
                    self.pool.medium.mark(Mark::Lock(u64::from(stripe.0)));
                    self.lane.buffers.locked.push((stripe, word));
                    if self.pool.logging == Logging::Sections {
                        self.lane.buffers.payload.acquired(stripe, word.version());
                    }
                    return Ok(());
                }
            }
            if tries >= LOCK_PATIENCE {
                return Err(Abort::Conflict);
            }
            wait(&self.pool.medium, &mut tries);
        }
    }

    /// Loads an aligned word of the heap beside others.
    fn load_shared_word(&mut self, at: PoolOffset) -> Result<u64, Abort> {
        let mut bytes = [0; 8];
        if !self.lane.buffers.fresh.is_empty() {
            let result = self.load_found(at, &mut bytes);
            return self.note(result).map(|()| u64::from_le_bytes(bytes));
        }
        if self.pool.logging.has_write_set()
            && !self.lane.buffers.lines.surely_lacks(at.line())
            && let Some(kept) = self.kept_word(at)
        {
            return Ok(kept);
        }
        let stripe = self.pool.locks.stripe(at.line());
        let word = self.pool.locks.load(stripe);
        if word.is_free() && word.version() <= self.lane.buffers.view {
            let value = self.pool.medium.load_u64(at);
            fence(Ordering::Acquire);
            let torn_is_fine = self.io().plants(Plant::ReadsTorn);
            if self.pool.locks.load(stripe) == word || torn_is_fine {
                self.lane.buffers.note_read(stripe, word);
                return Ok(value);
            }
        }
        let result = self.read_committed(at, &mut bytes);
        self.note(result).map(|()| u64::from_le_bytes(bytes))
    }

    /// Copies a piece of one line as some committed transaction left it, together with all
    /// other lines read.
    #[inline]
    fn read_committed(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        if self.lane.buffers.is_alone {
            self.pool.medium.load(at, out);
            return Ok(());
        }
        let stripe = self.pool.locks.stripe(at.line());
        let mut tries = 0;
        loop {
            let word = self.pool.locks.load(stripe);
            if word == self.own() {
                self.pool.medium.load(at, out);
                return Ok(());
            }
            if word.is_free() {
                self.pool.medium.load(at, out);
                fence(Ordering::Acquire);
                let torn_is_fine = self.io().plants(Plant::ReadsTorn);
                if self.pool.locks.load(stripe) == word || torn_is_fine {
                    if word.version() > self.lane.buffers.view {
                        self.extend_view()?;
                        // The line itself may have changed between its copy and the new view.
                        if self.pool.locks.load(stripe) != word {
                            continue;
                        }
                    }
                    self.lane.buffers.note_read(stripe, word);
                    return Ok(());
                }
            }
            if tries >= LOCK_PATIENCE {
                return Err(Abort::Conflict);
            }
            wait(&self.pool.medium, &mut tries);
        }
    }

    /// Fetches the first lines of a range.
    #[inline]
    fn fetch(&self, range: ByteRange) {
        if range.at.in_line() as u64 + range.len <= LINE_BYTES {
            return self.pool.medium.prefetch_write(range.at.line());
        }
        range
            .lines()
            .take(LINES_FETCHED_MAX)
            .for_each(|line| self.pool.medium.prefetch_write(line));
    }

    fn check_range(&self, what: &'static str, at: PoolOffset, len: u64) -> Result<(), Abort> {
        let heap_at = self.pool.header().geometry.heap_at;
        let end = at.0.checked_add(len);
        if at.0 < heap_at || end.is_none_or(|end| end > self.pool.medium.len()) {
            return Err(Abort::BadAddress { what, at, why: "it lies outside the heap" });
        }
        Ok(())
    }

    /// Whether this transaction allocated these bytes and stores to them without a log.
    #[inline]
    fn is_fresh(&self, at: PoolOffset, len: u64) -> bool {
        let fresh = &self.lane.buffers.fresh[self.lane.pending.before().fresh..];
        // Stores go to the newest block most of the time.
        fresh.iter().rev().any(|block| block.at <= at && at.0 + len <= block.end().0)
    }

    #[inline]
    fn load_any(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        if self.pool.write_back == WriteBack::ByAge {
            if self.pool.is_literal {
                self.touch_pending(ByteRange::new(at, out.len() as u64));
            }
            self.note_access(at, out.len() as u64);
        }
        self.load_found(at, out)
    }

    /// Loads what has been told of.
    #[inline]
    fn load_found(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        if self.lane.buffers.is_alone && !self.pool.logging.has_write_set() {
            // Everything is in place.
            self.pool.medium.load(at, out);
            return Ok(());
        }
        if !self.lane.buffers.fresh.is_empty() && self.is_fresh(at, out.len() as u64) {
            self.pool.medium.load(at, out);
            return Ok(());
        }
        if self.pool.logging.has_write_set() && !self.lane.buffers.lines.is_empty() {
            return self.load_over_write_set(at, out);
        }
        self.read_range(at, out)
    }

    /// Reads any range as committed transactions left it.
    #[inline]
    fn read_range(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        if self.lane.buffers.is_alone {
            self.pool.medium.load(at, out);
            return Ok(());
        }
        if at.in_line() + out.len() <= 64 {
            return self.read_committed(at, out);
        }
        if self.read_lines_at_once(at, out)? {
            return Ok(());
        }
        let mut done = 0;
        for (piece, len) in line_pieces(at, out.len()) {
            self.read_committed(piece, &mut out[done..done + len])?;
            done += len;
        }
        Ok(())
    }

    /// Reads several lines with one copy between two looks at their locks. `false` when one of
    /// them is taken or changes meanwhile, and they must be read one by one.
    fn read_lines_at_once(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<bool, Abort> {
        let locks = &self.pool.locks;
        let buffers = &mut self.lane.buffers;
        let (view, before) = (buffers.view, buffers.reads.len());
        let mut newest = 0;
        for line in ByteRange::new(at, out.len() as u64).lines() {
            let stripe = locks.stripe(line);
            let word = locks.load(stripe);
            if !word.is_free() {
                buffers.reads.truncate(before);
                return Ok(false);
            }
            newest = newest.max(word.version());
            buffers.reads.push((stripe, word));
        }
        self.pool.medium.load(at, out);
        fence(Ordering::Acquire);
        if buffers.reads[before..].iter().any(|(stripe, word)| locks.load(*stripe) != *word) {
            buffers.reads.truncate(before);
            return Ok(false);
        }
        if newest > view {
            self.extend_view()?;
        }
        Ok(true)
    }

    /// Leaves a hint for the history unit.
    #[inline]
    fn note_access(&mut self, at: PoolOffset, len: u64) {
        if self.pool.sample.has(at) {
            let lines = (at.in_line() as u64 + len).div_ceil(LINE_BYTES);
            self.lane.accesses.push(Access::new(at.line(), lines));
        }
    }

    fn store_any(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.begin_writing()?;
        if self.pool.write_back == WriteBack::ByAge {
            self.note_access(at, bytes.len() as u64);
        }
        if self.io().plants(Plant::MarkedBeforeStores) {
            let lines = ByteRange::new(at, bytes.len() as u64).lines();
            self.pool.checkpointer.changes.mark_lines(lines);
        }
        if !self.lane.buffers.fresh.is_empty() && self.is_fresh(at, bytes.len() as u64) {
            self.pool.medium.store(at, bytes);
            for line in ByteRange::new(at, bytes.len() as u64).lines() {
                let buffers = &mut self.lane.buffers;
                let (index, _) = buffers.lines.find_or_add(line);
                buffers.add_contents(index);
                let entry = buffers.lines.entry_mut(index);
                entry.stored = true;
                if !std::mem::replace(&mut entry.fresh, true) {
                    buffers.fresh_lines.push(index as u32);
                }
            }
            return Ok(());
        }
        match self.pool.logging {
            Logging::Volatile | Logging::Undo | Logging::Sections => self.store_in_place(at, bytes),
            Logging::Redo | Logging::Pages | Logging::Commands => {
                self.store_to_write_set(at, bytes)
            }
        }
    }

    /// [`load_u64`](Transact::load_u64), beside others and whatever else takes more than a few
    /// instructions.
    #[inline(never)]
    fn load_word(&mut self, at: PoolOffset) -> Result<u64, Abort> {
        if self.lane.buffers.loads.has_word(at) {
            self.pool.medium.mark(Mark::Call(Call::Load));
            if self.pool.write_back == WriteBack::ByAge {
                self.note_access(at, 8);
            }
            if !self.lane.buffers.is_alone {
                return self.load_shared_word(at);
            }
            return Ok(match self.pool.logging.has_write_set() {
                true => self.load_kept_word(at),
                false => self.pool.medium.load_u64(at),
            });
        }
        let mut bytes = [0; 8];
        self.load(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The same for stores.
    #[inline(never)]
    fn store_word(&mut self, at: PoolOffset, value: u64) -> Result<(), Abort> {
        if self.lane.buffers.stores.has_word(at) {
            self.pool.medium.mark(Mark::Call(Call::Store));
            if self.pool.write_back == WriteBack::ByAge {
                self.note_access(at, 8);
            }
            if !self.lane.buffers.is_alone {
                return self.put_shared_word(at, value);
            }
            self.put_word(at, value);
            return Ok(());
        }
        let buffers = &self.lane.buffers;
        let is_volatile = self.pool.logging == Logging::Volatile && buffers.is_alone;
        if is_volatile && buffers.loads.has_word(at) && buffers.fresh.is_empty() {
            self.pool.medium.mark(Mark::Call(Call::Store));
            self.refuse_after_failure()?;
            self.exchange_word(at, value);
            return Ok(());
        }
        self.store(at, &value.to_le_bytes())
    }

    /// Remembers a failure, so that a closure that swallows it cannot commit.
    #[inline]
    fn note<R>(&mut self, result: Result<R, Abort>) -> Result<R, Abort> {
        if let Err(abort) = &result {
            let buffers = &mut self.lane.buffers;
            buffers.failure.get_or_insert_with(|| abort.clone());
            buffers.stores = Window::NONE;
        }
        result
    }

    /// After a failure nothing more is changed: an operation that failed half-way has locked
    /// and kept some of its lines and not others.
    #[inline]
    fn refuse_after_failure(&self) -> Result<(), Abort> {
        match &self.lane.buffers.failure {
            None => Ok(()),
            Some(abort) => Err(abort.clone()),
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
    /// For the next transaction. Stores to what is not empty and to nothing else: behind the fence of the transaction before,
    /// stores wait for it, and where there are too many the next transaction's loads do too.
    #[inline]
    fn clear(&mut self) {
        debug_assert!(self.locked.is_empty(), "a transaction ends without locks");
        clear(&mut self.reads);
        self.lines.clear();
        clear(&mut self.fresh);
        clear(&mut self.fresh_lines);
        clear(&mut self.allocated);
        clear(&mut self.freed);
        if !self.payload.is_empty() {
            self.payload.clear();
        }
        self.undo.clear();
        self.sealed.clear();
        clear(&mut self.regions);
        self.deltas.clear();
        if self.failure.is_some() {
            self.failure = None;
        }
    }

    fn changed_nothing(&self) -> bool {
        self.lines.is_empty() && self.allocated.is_empty() && self.freed.is_empty()
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
        self.stores = Window::NONE;
    }
}

impl<M: Medium> Transact for Tx<'_, M> {
    #[inline]
    fn load(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        self.pool.medium.mark(Mark::Call(Call::Load));
        let result =
            self.check_range("loading", at, out.len() as u64).and_then(|()| self.load_any(at, out));
        self.note(result)
    }

    #[inline]
    fn load_u64(&mut self, at: PoolOffset) -> Result<u64, Abort> {
        let buffers = &self.lane.buffers;
        if buffers.is_direct && buffers.loads.has_word(at) {
            self.pool.medium.mark(Mark::Call(Call::Load));
            if buffers.lines.surely_lacks(at.line()) || !self.pool.logging.has_write_set() {
                return Ok(self.pool.medium.load_u64(at));
            }
            return Ok(self.load_kept_word(at));
        }
        self.load_word(at)
    }

    #[inline]
    fn store_u64(&mut self, at: PoolOffset, value: u64) -> Result<(), Abort> {
        let buffers = &self.lane.buffers;
        if buffers.is_direct && buffers.stores.has_word(at) {
            self.pool.medium.mark(Mark::Call(Call::Store));
            self.put_word(at, value);
            return Ok(());
        }
        self.store_word(at, value)
    }

    #[inline]
    fn will_write(&mut self, ranges: &[ByteRange]) -> Result<(), Abort> {
        self.pool.medium.mark(Mark::Call(Call::WillWrite));
        self.refuse_after_failure()?;
        // Lines are fetched before the first lock: a locked instruction waits for the loads
        // before it, one after the other, but not for prefetches. Redo does not look at what it
        // overwrites, and would wait for it when it stores in place.
        if self.pool.logging.has_write_set() || self.pool.logging == Logging::Volatile {
            for range in ranges {
                if let Err(outside) = self.check_range("announcing", range.at, range.len) {
                    return self.note(Err(outside));
                }
                self.fetch(*range);
            }
            return Ok(());
        }
        if ranges.len() > 1 {
            let len = self.pool.medium.len();
            ranges.iter().filter(|range| range.at.0 < len).for_each(|range| self.fetch(*range));
        }
        let result = ranges.iter().try_for_each(|range| {
            self.check_range("announcing", range.at, range.len)?;
            match self.pool.logging {
                Logging::Undo => self.keep_old(range.at, range.len),
                // Sections log what they store, one store at a time.
                _ => Ok(()),
            }
        });
        self.note(result)
    }

    #[inline]
    fn store(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        self.pool.medium.mark(Mark::Call(Call::Store));
        self.refuse_after_failure()?;
        let result = self
            .check_range("storing", at, bytes.len() as u64)
            .and_then(|()| self.store_any(at, bytes));
        self.note(result)
    }

    fn alloc(&mut self, bytes: u64, kind: BlockKind) -> Result<PoolOffset, Abort> {
        self.pool.medium.mark(Mark::Call(Call::Alloc));
        self.refuse_after_failure()?;
        let result = self.alloc_any(bytes, kind);
        self.note(result)
    }

    fn free(&mut self, block: PoolOffset) -> Result<(), Abort> {
        self.pool.medium.mark(Mark::Call(Call::Free));
        self.refuse_after_failure()?;
        let result = self.free_any(block);
        self.note(result)
    }

    fn root(&mut self) -> Result<Option<(PoolOffset, RootKind)>, Abort> {
        let mut word = [0; 8];
        let result = self.load_any(ROOT_AT, &mut word).and_then(|()| {
            crate::pool::parse_root(u64::from_le_bytes(word))
                .map_err(|why| Abort::Damaged(format!("at {ROOT_AT}: {why}")))
        });
        self.note(result)
    }

    fn set_root(&mut self, block: PoolOffset, kind: RootKind) -> Result<(), Abort> {
        self.refuse_after_failure()?;
        let result = if let Err(outside) = self.check_range("making root", block, 16) {
            Err(outside)
        } else if block.is_aligned(16) {
            let word = crate::pool::root_word(block, kind).to_le_bytes();
            self.store_any(ROOT_AT, &word)
        } else {
            let why = "it is no block: blocks are aligned to 16";
            Err(Abort::BadAddress { what: "making root", at: block, why })
        };
        self.note(result)
    }
}

/// The last number that the log has seen; zero before the first.
pub(crate) fn next_number(last: Seq, epoch: u64) -> Result<Seq, Abort> {
    let next = if last.epoch() == epoch { last.next() } else { Some(Seq::new(epoch, 1)) };
    next.ok_or(Abort::NumbersUsedUp)
}
