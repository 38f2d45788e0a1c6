//! Asynchronous commit: transactions that are over, and durable later.
//!
//! What they changed waits in volatile memory as one *batch* of their lane, as if they were one
//! transaction that goes on, and becomes durable as one record: when somebody wants it, when the
//! batch is full, or with the lane's next commit that waits.
//!
//! * **D1** Nothing that is pending is in place, and no lock of it let go, before the batch's
//!   record is fenced. Only the own lane reads it before, from the batch. So nobody else can
//!   depend on what a crash may take back, and recovery needs no rule for gaps.
//! * **D2** A lane's transactions become durable in their order: a commit that waits takes what is
//!   pending along, and batches follow each other.
//! * **D3** A transaction that only reads and has seen something pending returns when that is
//!   durable.
//! * **D4** A batch always fits into its lane's ring, so that nothing can keep it from becoming
//!   durable. What would not fit commits at once.
//!
//! How other threads find a lane's batch is in [`handoff`](crate::pool::handoff).

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::{LineAddr, PoolOffset};

use crate::ack::{AsyncTicket, Ticket};
use crate::alloc::Block;
use crate::io::Site;
use crate::lines::runs;
use crate::lock::LockWord;
use crate::log::record::words_in;
use crate::plant::Plant;
use crate::pool::LaneState;
use crate::seq::Seq;
use crate::transact::Abort;
use crate::tx::commit_record::RecordSpace;
use crate::tx::redo::SealedRedo;
use crate::tx::{Buffers, Tx};

/// Most lines of log that a batch takes, however long the ring: what is put together there is read
/// again at each load.
const BATCH_LINES_MAX: u64 = 1024;

/// Words of a record that a block takes which was taken or given back.
const BLOCK_WORDS: usize = 2;

/// Numbers that are kept for batches when commits run out of them.
const NUMBERS_KEPT: u64 = 1 << 20;

/// A lane's batch.
#[derive(Default)]
pub(crate) struct Pending {
    buffers: Buffers,
    /// How many batches were durable before it.
    batches: u64,
    /// Words that its record will take at most.
    words: usize,
    /// The running transaction has read something of it.
    pub(super) was_seen: bool,
}

impl Pending {
    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    #[inline]
    pub(super) fn find(&self, line: LineAddr) -> Option<usize> {
        self.buffers.lines.find(line)
    }

    /// The words that it holds of a line.
    pub(super) fn words(&self, index: usize) -> u8 {
        self.buffers.lines.entries()[index].words
    }

    pub(super) fn content(&self, index: usize) -> &[u64; 8] {
        &self.buffers.contents[index]
    }

    /// What it holds of one word.
    #[inline]
    pub(super) fn word(&self, line: LineAddr, word: usize) -> Option<u64> {
        let index = self.find(line)?;
        (self.words(index) & 1 << word != 0).then(|| self.content(index)[word])
    }

    /// A block that it takes and that starts there.
    pub(super) fn taken_at(&self, at: PoolOffset) -> Option<Block> {
        self.buffers.allocated.iter().find(|block| block.at == at).copied()
    }

    pub(super) fn gives_back(&self, at: PoolOffset) -> bool {
        self.buffers.freed.iter().any(|block| block.at == at)
    }
}

/// Words that a record takes for those words of a line.
fn logged_words(words: u8) -> usize {
    let runs = words & !(words << 1);
    (words.count_ones() + runs.count_ones()) as usize
}

impl Buffers {
    /// Words that its record takes at most.
    fn logged_words(&self) -> usize {
        let lines: usize = self.lines.entries().iter().map(|entry| logged_words(entry.words)).sum();
        lines + BLOCK_WORDS * (self.allocated.len() + self.freed.len())
    }

    /// Takes over what another transaction, later than these, has changed, with its locks.
    /// Returns how many words more its record takes.
    fn take_over(&mut self, later: &mut Self) -> usize {
        let mut more = BLOCK_WORDS * (later.allocated.len() + later.freed.len());
        for (entry, content) in later.lines.entries().iter().zip(&later.contents) {
            let (index, new) = self.lines.find_or_add(entry.line);
            if new {
                self.add_contents(index);
            }
            for (first, words) in runs(entry.words) {
                let range = first as usize..(first + words) as usize;
                self.contents[index][range.clone()].copy_from_slice(&content[range]);
            }
            let held = self.lines.entry_mut(index);
            more += logged_words(held.words | entry.words) - logged_words(held.words);
            held.words |= entry.words;
            held.stored |= entry.stored;
            held.fresh |= entry.fresh;
        }
        self.locked.append(&mut later.locked);
        self.allocated.append(&mut later.allocated);
        self.freed.append(&mut later.freed);
        self.fresh.append(&mut later.fresh);
        more
    }
}

impl<M: Medium> Tx<'_, M> {
    /// Ends the transaction, which becomes durable with its batch. Only this lane can see it till
    /// then. After an error the transaction is still running and wants to be aborted.
    pub(crate) fn commit_later(&mut self) -> Result<AsyncTicket, Abort> {
        if !self.pool.commits_later {
            return self.commit().map(|_| AsyncTicket::DURABLE);
        }
        self.refuse_after_failure()?;
        if self.lane.buffers.changed_nothing() {
            self.release_locks(None);
            let seen = self.lane.pending.was_seen;
            return Ok(if seen { self.batch_ticket() } else { AsyncTicket::DURABLE });
        }
        if self.pool.commits() >= Seq::COUNTER_MAX - NUMBERS_KEPT {
            return Err(Abort::NumbersUsedUp);
        }
        self.validate_reads()?;
        let (words, most) = (self.lane.buffers.logged_words(), self.batch_words_max());
        if self.lane.pending.words + words > most {
            self.commit_pending_beside();
        }
        if words > most {
            return self.commit_redo().map(|_| AsyncTicket::DURABLE);
        }
        if self.io().plants(Plant::AsyncInPlace) {
            self.install();
        }
        self.put_off();
        if self.io().plants(Plant::AsyncUnlocked) {
            for (stripe, before) in self.lane.pending.buffers.locked.drain(..) {
                self.pool.locks.release(stripe, before);
            }
        }
        Ok(self.batch_ticket())
    }

    /// Commits, and makes durable what is pending before it, both with one record where they fit.
    pub(super) fn commit_with_pending(&mut self) -> Result<Ticket, Abort> {
        if self.lane.buffers.changed_nothing() {
            self.release_locks(None);
            // D3.
            if self.lane.pending.was_seen && !self.io().plants(Plant::AsyncBelieved) {
                self.commit_pending();
            }
            return Ok(Ticket::NOTHING);
        }
        self.validate_reads()?;
        let words = self.lane.pending.words + self.lane.buffers.logged_words();
        if words > self.batch_words_max() || self.io().plants(Plant::AsyncLeftBehind) {
            if !self.io().plants(Plant::AsyncLeftBehind) {
                self.commit_pending_beside();
            }
            return self.commit_redo();
        }
        self.put_off();
        Ok(self.commit_pending())
    }

    /// Makes the batch durable. The running transaction, if there is one, has no locks.
    pub(crate) fn commit_pending(&mut self) -> Ticket {
        let space = self.prepare_pending();
        let sealed = self.seal_pending(space);
        // D1: the commit point of all of them.
        self.io().fence(Site::RedoRecord);
        let ticket = self.end_redo(sealed);
        self.pending_ended();
        ticket
    }

    /// As [`commit_pending`](Self::commit_pending), beside a running transaction, which takes over
    /// the locks: it may have stored to those lines.
    fn commit_pending_beside(&mut self) {
        if self.lane.pending.is_empty() {
            return;
        }
        let locked = std::mem::take(&mut self.lane.pending.buffers.locked);
        let number = self.commit_pending().seq().counter();
        let now_free = LockWord::free(number);
        self.lane.buffers.locked.extend(locked.into_iter().map(|(stripe, _)| (stripe, now_free)));
    }

    /// From here on until [`pending_ended`](Self::pending_ended) the batch is what the lane
    /// commits, instead of the running transaction.
    pub(crate) fn prepare_pending(&mut self) -> RecordSpace {
        let LaneState { buffers, pending, .. } = &mut *self.lane;
        pending.buffers.is_alone = buffers.is_alone;
        std::mem::swap(buffers, &mut pending.buffers);
        self.prepare_redo().unwrap_or_else(|abort| unreachable!("D4: a batch has room: {abort}"))
    }

    pub(crate) fn seal_pending(&mut self, space: RecordSpace) -> SealedRedo {
        if self.io().plants(Plant::DurableTooEarly) {
            self.show_durable();
        }
        self.seal_redo(space).unwrap_or_else(|abort| unreachable!("D4: it has a number: {abort}"))
    }

    /// The batch is in place: the next one begins.
    pub(crate) fn pending_ended(&mut self) {
        self.mark_changes();
        self.show_durable();
        let LaneState { buffers, pending, .. } = &mut *self.lane;
        buffers.clear();
        std::mem::swap(buffers, &mut pending.buffers);
        pending.batches += 1;
        pending.words = 0;
        pending.was_seen = false;
        let shared = &self.pool.lanes[self.lane.id].shared;
        shared.pending.store(0, Ordering::Release);
        shared.wanted.store(false, Ordering::Relaxed);
    }

    fn show_durable(&self) {
        let shared = &self.pool.lanes[self.lane.id].shared;
        shared.durable.store(self.lane.pending.batches + 1, Ordering::Release);
    }

    /// Adds the running transaction to the batch.
    fn put_off(&mut self) {
        let LaneState { buffers, pending, .. } = &mut *self.lane;
        let was_empty = pending.is_empty();
        pending.words += pending.buffers.take_over(buffers);
        if was_empty {
            let shared = &self.pool.lanes[self.lane.id].shared;
            shared.pending.store(self.lane.pending.batches + 1, Ordering::Release);
            self.pool.has_pending.store(true, Ordering::Relaxed);
        }
    }

    fn batch_ticket(&self) -> AsyncTicket {
        AsyncTicket { lane: self.lane.id as u32, batch: self.lane.pending.batches + 1 }
    }

    /// D4: words that surely fit into the part of a ring that one record may take.
    fn batch_words_max(&self) -> usize {
        words_in((self.ring().lines / 2).min(BATCH_LINES_MAX))
    }
}
