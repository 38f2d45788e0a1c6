//! Asynchronous commit: transactions that are over, and durable later.
//!
//! What they changed stays in their lane's write set, with their locks, as if they were one
//! transaction that goes on: a *batch*. It becomes durable as one record: when a lane wants it,
//! when it is full, or with the lane's next commit that waits; a transaction that would gain nothing
//! by waiting does not. A transaction that gives up takes back what it has changed of the batch and
//! nothing else.
//!
//! * **PENDING-1** Nothing that is pending is in place, and no lock of it let go, before the batch's
//!   record is fenced. Only the own lane reads it before, from the write set. So no other lane can
//!   depend on what a crash may take back, and recovery needs no rule for gaps.
//! * **PENDING-2** A lane's transactions become durable in their order: a commit that waits is part of
//!   the record that makes durable what is pending before it, and batches follow each other.
//! * **PENDING-3** A transaction that only reads and has seen something pending returns when that is
//!   durable.
//! * **PENDING-4** A batch always fits into its lane's ring, so that nothing can keep it from becoming
//!   durable. Whatever would make it too large runs again, behind it.
//! * **PENDING-5** What a transaction has read is looked at when it is put off and not again, with the locks
//!   of what it changes held. A lane that has seen what it changes before that, and commits behind it,
//!   looks again and sees the locks (NUMBER-5).
//!
//! How other threads find a lane's batch is in [`handoff`](crate::pool::handoff).

use std::sync::atomic::{Ordering, fence};

use outlast_pmem::Medium;

use crate::ack::{AsyncTicket, Ticket};
use crate::io::Site;
use crate::lines::LineEntry;
use crate::log::record::words_in;
use crate::log::streamed;
use crate::plant::Plant;
use crate::pool::LaneState;
use crate::scheme::redo::{LONG, SealedRedo};
use crate::transact::Abort;
use crate::tx::commit_record::RecordSpace;
use crate::tx::{Buffers, Tx};

/// Most lines of log that a batch takes, however long the ring: a write set that does not fit
/// into the first-level cache costs more than the fences that it saves.
const BATCH_LINES_MAX: u64 = 56;

/// A transaction that has changed more lines is durable when it returns: putting them off, and
/// looking for them in a larger write set, costs more than its share of a fence.
const PUT_OFF_LINES_MAX: usize = 12;

/// A transaction that had to run again because of its batch is not put off, nor are its lane's next
/// ones, this many in all: more of the kind may come.
const AT_ONCE_AFTER_REFUSAL: u8 = 64;

/// A batch that is fuller than this, in quarters, is made durable before the next transaction.
const FULL_QUARTERS: usize = 3;

/// Words of a record that a block takes which was taken or given back.
const BLOCK_WORDS: usize = 2;

/// A lane's batch, which lies in its buffers.
#[derive(Default)]
pub(crate) struct Pending {
    /// How many batches were durable before it.
    batches: u64,
    /// How many transactions it has; none when there is no batch.
    transactions: u16,
    /// Words that its record will take at most.
    words: usize,
    /// It has no room for the next transaction.
    is_full: bool,
    /// How many of the lane's next transactions are not put off.
    at_once: u8,
    /// The running transaction has read something of it.
    pub(crate) was_seen: bool,
    /// The buffers' lengths when the running transaction began.
    before: Mark,
    /// Lines of the batch as they were before the running transaction stored to them.
    saved: Vec<(usize, LineEntry, [u64; 8])>,
}

/// Where lists of the buffers ended.
#[derive(Clone, Copy, PartialEq, Default)]
pub(crate) struct Mark {
    pub lines: usize,
    pub locked: usize,
    pub allocated: usize,
    pub freed: usize,
    pub fresh: usize,
}

impl Pending {
    /// Whether there is no batch.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.transactions == 0
    }

    /// Where the running transaction's part of the buffers begins.
    #[inline]
    pub(crate) fn before(&self) -> Mark {
        self.before
    }

    /// The running transaction, counted within the batch.
    #[inline]
    pub(crate) fn transaction(&self) -> u16 {
        self.transactions
    }
}

/// Words that a record takes for those words of a line.
fn logged_words(words: u8) -> usize {
    let runs = words & !(words << 1);
    (words.count_ones() + runs.count_ones()) as usize
}

impl Buffers {
    fn mark(&self) -> Mark {
        Mark {
            lines: self.lines.entries().len(),
            locked: self.locked.len(),
            allocated: self.allocated.len(),
            freed: self.freed.len(),
            fresh: self.fresh.len(),
        }
    }
}

impl LaneState {
    /// The lane begins a transaction on what its batch has left in the buffers.
    #[inline]
    pub(crate) fn begin_after_batch(&mut self) {
        let Self { buffers, pending, .. } = self;
        buffers.has_lines_only = false;
        buffers.reads.clear();
        buffers.failure = None;
        pending.was_seen = false;
        pending.saved.clear();
        pending.before = buffers.mark();
        buffers.lines.set_transaction(pending.transactions);
    }

    /// There is no batch: the buffers are the transaction's own.
    #[inline(always)]
    pub(crate) fn begin_alone(&mut self) {
        self.buffers.clear();
        self.buffers.has_lines_only = true;
        debug_assert!(self.pending.before == Mark::default() && self.pending.saved.is_empty());
    }

    /// The running transaction is about to change a line that its write set has.
    #[inline]
    pub(crate) fn save_for_abort(&mut self, index: usize) {
        if self.buffers.lines.entry_mut(index).transaction != self.pending.transaction() {
            self.save_line(index);
        }
    }

    #[inline(never)]
    fn save_line(&mut self, index: usize) {
        let entry = self.buffers.lines.entries()[index];
        self.pending.saved.push((index, entry, self.buffers.contents[index]));
        self.buffers.lines.entry_mut(index).transaction = self.pending.transaction();
    }

    /// What the running transaction has changed of the batch is as it was.
    pub(crate) fn restore_batch(&mut self) {
        let Self { buffers, pending, .. } = self;
        for (index, entry, content) in pending.saved.drain(..).rev() {
            *buffers.lines.entry_mut(index) = entry;
            buffers.contents[index] = content;
        }
        // A commit that failed may have gathered its record.
        buffers.payload.clear();
        let before = pending.before;
        buffers.lines.truncate(before.lines);
        buffers.freed.truncate(before.freed);
        buffers.freed_at.clear();
        buffers.fresh.truncate(before.fresh);
        debug_assert!(
            buffers.locked.len() == before.locked && buffers.allocated.len() == before.allocated
        );
    }

    /// Words that the batch's record takes at most with the running transaction in it.
    fn words_with_running(&self) -> usize {
        let Self { buffers, pending, .. } = self;
        let entries = buffers.lines.entries();
        let new = entries[pending.before.lines..].iter().map(|entry| logged_words(entry.words));
        let more = pending.saved.iter().map(|(index, was, _)| {
            logged_words(entries[*index].words).saturating_sub(logged_words(was.words))
        });
        let (now, before) = (buffers.mark(), pending.before);
        let blocks = now.allocated + now.freed - before.allocated - before.freed;
        pending.words + new.sum::<usize>() + more.sum::<usize>() + BLOCK_WORDS * blocks
    }

    /// How many lines the running transaction has changed.
    #[inline]
    fn changed_lines(&self) -> usize {
        self.buffers.lines.entries().len() - self.pending.before.lines + self.pending.saved.len()
    }

    /// Whether the running transaction has changed nothing.
    #[inline]
    pub(crate) fn changed_nothing(&self) -> bool {
        let (now, before) = (self.buffers.mark(), self.pending.before);
        now.lines == before.lines
            && now.allocated == before.allocated
            && now.freed == before.freed
            && self.pending.saved.is_empty()
    }
}

impl<'p, M: Medium> Tx<'p, M> {
    /// Ends the transaction, which becomes durable with its batch, or at once where putting it off
    /// gains nothing. Only this lane can see it till then. After an error the transaction is still
    /// running and wants to be aborted.
    pub(crate) fn commit_later(&mut self) -> Result<AsyncTicket, Abort> {
        if !self.pool.commits_later {
            return self.commit().map(|_| AsyncTicket::DURABLE);
        }
        self.lane.buffers.has_lines_only = false;
        self.lane.buffers.spread();
        self.refuse_after_failure()?;
        if self.lane.changed_nothing() {
            self.release_locks(None);
            let seen = self.lane.pending.was_seen;
            return Ok(if seen { self.batch_ticket() } else { AsyncTicket::DURABLE });
        }
        if self.lane.changed_lines() > PUT_OFF_LINES_MAX || self.lane.pending.at_once > 0 {
            let at_once = &mut self.lane.pending.at_once;
            *at_once = at_once.saturating_sub(1);
            return self.commit().map(|_| AsyncTicket::DURABLE);
        }
        if self.numbers_run_out() {
            return Err(Abort::NumbersUsedUp);
        }
        let words = self.lane.words_with_running();
        if words > self.batch_words_max() {
            self.refuse_in_batch()?;
            return self.commit_redo::<LONG>().map(|_| AsyncTicket::DURABLE);
        }
        self.end_reading()?;
        if self.io().plants(Plant::AsyncInPlace) {
            self.install();
        }
        self.put_off(words);
        if self.io().plants(Plant::AsyncUnlocked) {
            for (stripe, before) in self.lane.buffers.locked.drain(..) {
                self.pool.locks.release(stripe, before);
            }
        }
        Ok(self.batch_ticket())
    }

    /// Commits, and makes durable what is pending before it, with one record.
    pub(crate) fn commit_with_batch(&mut self) -> Result<Ticket, Abort> {
        if self.lane.changed_nothing() {
            self.release_locks(None);
            // PENDING-3.
            if self.lane.pending.was_seen && !self.io().plants(Plant::AsyncBelieved) {
                self.commit_batch()?;
            }
            return Ok(Ticket::NOTHING);
        }
        if self.io().plants(Plant::AsyncLeftBehind) {
            let words = self.lane.words_with_running();
            self.end_reading()?;
            self.put_off(words);
            return Ok(Ticket::NOTHING);
        }
        if self.lane.words_with_running() > self.batch_words_max() {
            self.refuse_in_batch()?;
        }
        let ticket = self.commit_redo::<LONG>()?;
        self.batch_ended();
        Ok(ticket)
    }

    /// PENDING-5.
    fn end_reading(&mut self) -> Result<(), Abort> {
        self.lock_write_set()?;
        self.validate_reads()
    }

    /// PENDING-4: a transaction that does not fit behind others of the batch runs again, without them.
    fn refuse_in_batch(&mut self) -> Result<(), Abort> {
        if self.lane.pending.is_empty() {
            return Ok(());
        }
        self.lane.pending.is_full = true;
        self.lane.pending.at_once = AT_ONCE_AFTER_REFUSAL;
        Err(Abort::Conflict)
    }

    /// Makes the batch durable. No transaction is running. Where the medium has failed, the batch is
    /// dropped.
    pub(crate) fn commit_batch(&mut self) -> Result<Ticket, Abort> {
        let space = self.prepare_batch();
        let sealed = self.seal_batch(space);
        self.lane.deferred.gather_ahead(self.pool, self.slot);
        // PENDING-1: the commit point of all of them.
        if let Err(abort) = self.fence_or_fail(Site::RedoRecord) {
            self.abandon();
            return Err(abort);
        }
        let ticket = self.end_redo::<LONG>(sealed);
        self.batch_ended();
        self.counts.batches.add(1);
        Ok(ticket)
    }

    pub(crate) fn prepare_batch(&mut self) -> RecordSpace {
        self.lane.buffers.reads.clear();
        self.prepare_redo().unwrap_or_else(|abort| unreachable!("D4: a batch has room: {abort}"))
    }

    pub(crate) fn seal_batch(&mut self, space: RecordSpace) -> SealedRedo {
        if self.io().plants(Plant::DurableTooEarly) {
            self.show_durable();
        }
        self.seal_redo::<LONG>(space)
            .unwrap_or_else(|abort| unreachable!("D4: it has a number: {abort}"))
    }

    /// The batch is in place: the buffers are the next transaction's.
    pub(crate) fn batch_ended(&mut self) {
        self.mark_changes();
        self.show_durable();
        self.lane.buffers.clear();
        let pending = &mut self.lane.pending;
        let (batches, at_once) = (pending.batches + 1, pending.at_once);
        let mut saved = std::mem::take(&mut pending.saved);
        saved.clear();
        *pending = Pending { batches, at_once, saved, ..Pending::default() };
        self.pool.lanes[self.lane.id].parked.ended();
    }

    /// Before the next transaction: a batch that has no room for it is made durable.
    #[inline]
    pub(crate) fn make_room_in_batch(&mut self) {
        let pending = &self.lane.pending;
        if pending.is_full || pending.words * 4 > self.batch_words_max() * FULL_QUARTERS {
            // Where that fails, the transaction that begins now fails at its commit.
            let _ = self.commit_batch();
            // BIAS-1: the revocation of a bias may take this commit for the end of the transaction, which
            // must then see that.
            fence(Ordering::SeqCst);
        }
    }

    /// Nothing that the batch changed ever becomes durable: there is none from here on.
    pub(crate) fn drop_batch(&mut self) {
        let had_one = !self.lane.pending.is_empty();
        let Pending { batches, at_once, .. } = self.lane.pending;
        // Its ticket has the number of no later batch.
        let batches = batches + u64::from(had_one);
        self.lane.pending = Pending { batches, at_once, ..Pending::default() };
        if had_one {
            self.pool.lanes[self.lane.id].parked.ended();
        }
    }

    fn show_durable(&self) {
        let slot = &self.pool.lanes[self.lane.id];
        slot.parked.show_durable(self.lane.pending.batches + 1);
    }

    /// The running transaction is part of the batch, whose record takes `words` words now.
    fn put_off(&mut self, words: usize) {
        let pending = &mut self.lane.pending;
        pending.words = words;
        pending.transactions += 1;
        self.counts.put_off.add(1);
        if pending.transactions == 1 {
            self.pool.lanes[self.lane.id].parked.begun(self.lane.pending.batches + 1);
            self.pool.handoff.has_pending.store(true, Ordering::Relaxed);
        }
        // It has the locks it needs.
        self.lane.pending.before = self.lane.buffers.mark();
    }

    fn batch_ticket(&self) -> AsyncTicket {
        AsyncTicket { lane: self.lane.id as u32, batch: self.lane.pending.batches + 1 }
    }

    /// PENDING-4: words that surely fit into the part of a ring that one record may take.
    fn batch_words_max(&self) -> usize {
        let slot = &self.pool.lanes[self.lane.id];
        let lines = slot.longest_record().min(BATCH_LINES_MAX);
        if slot.streams() {
            return streamed::words_in(lines);
        }
        words_in(lines)
    }
}
