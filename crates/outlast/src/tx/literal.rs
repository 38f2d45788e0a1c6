//! Literal variants: undo whose commit is only logical, and what both tell the history unit.
//!
//! The undo host logs old words and nothing else. Its commit writes down that it happened, by a
//! record of old words without any, and flushes no data: until the transaction is physically
//! committed a crash takes it back although it was acknowledged (ARC-1). An abort writes an empty record of
//! new words instead, so that recovery leaves alone what was put back already.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::ByteRange;

use crate::ack::Ticket;
use crate::io::Site;
use crate::lines::runs;
use crate::log::RecordKind;
use crate::pool::LaneShared;
use crate::scheme::{Logging, Reading};
use crate::transact::Abort;
use crate::tx::Tx;
use crate::tx::blocks::reserved_word;
use crate::writeback::{Ended, enter_commit, finish_pending, renew_sums, reserve_lines};

impl<M: Medium> Tx<'_, M> {
    /// Whatever others have pending of these bytes is flushed before this transaction sees them.
    #[cold]
    pub(super) fn touch_pending(&self, bytes: ByteRange) {
        finish_pending(self.pool, bytes);
    }

    /// The logical commit on undo logging.
    pub(super) fn commit_logically(&mut self) -> Result<Ticket, Abort> {
        let io = self.io();
        if self.has_stored_nothing() {
            self.release_locks(None);
            return Ok(Ticket::NOTHING);
        }
        // Old bits of blocks.
        self.log_gathered()?;
        if self.make_runs() || !self.lane.buffers.fresh_lines.is_empty() {
            self.flush_fresh();
            io.fence(Site::UndoFresh);
        }
        if self.lane.buffers.sealed.last == 0 {
            let shared = &self.pool.lanes[self.lane.id].shared;
            enter_commit(self.pool, shared);
        }
        let number = match self.draw_number() {
            Ok(number) => number,
            Err(abort) => {
                let shared = &self.pool.lanes[self.lane.id].shared;
                shared.bound.store(LaneShared::IDLE, Ordering::Release);
                return Err(abort);
            }
        };
        let head = self.mark_end(RecordKind::Before, number);
        self.renew_sums();
        self.fence_or_fail(Site::RedoRecord)?;
        self.store_allocations();
        self.hand_over_ended(number, head);
        self.release_locks(Some(number));
        self.end_sealed(head, number);
        let seq = self.pool.seq(number);
        self.end_blocks_after(seq);
        Ok(Ticket::of(seq))
    }

    /// A record without words, in the ring. Its fence is the caller's.
    fn mark_end(&mut self, kind: RecordKind, number: u64) -> u64 {
        let io = self.io();
        reserve_lines(self.pool, self.lane.id, &mut self.lane.log, 1);
        let (seq, slot) = (self.pool.seq(number), &self.pool.lanes[self.lane.id]);
        let log = &mut self.lane.log;
        log.begin_record(io, Site::RedoRecord, slot, seq, 1);
        log.place().append_words(io, Site::RedoRecord, (kind, seq), &[], 1);
        log.end_record(1)
    }

    /// Old words are put back, durably. Returns the number under which they count no more; `last`
    /// is that of the last record.
    pub(super) fn end_aborted_logically(&mut self, last: u64) -> u64 {
        self.renew_sums();
        if last == 0 {
            return 0;
        }
        let number = self.tick();
        let head = self.mark_end(RecordKind::Redo, number);
        self.io().fence(Site::RedoRecord);
        self.lane.log.head = head;
        let ended = Ended { counter: number, head, lines: Vec::new() };
        self.pool.lanes[self.lane.id].ended.lock(&self.pool.medium).push(ended);
        number
    }

    /// Objects that are written again while they have checksums: the paper has these "recalculated
    /// and updated" and names no order. They are flushed with the commit's record, under its fence.
    pub(super) fn renew_sums(&self) {
        let medium = &self.pool.medium;
        let buffers = &self.lane.buffers;
        let keeps = self.pool.reading == Reading::NothingOnRewrite;
        let is_redo = self.pool.logging == Logging::Redo;
        let entries = buffers.lines.entries().iter().enumerate();
        let entries = entries.filter(|(_, entry)| {
            // The content of new blocks is in place and durable, and is not looked at again.
            let is_rewritten = if is_redo { entry.words != 0 } else { entry.written != 0 };
            !(keeps && is_rewritten)
        });
        let lines = entries.map(|(index, entry)| {
            let mut content = [0; 8];
            medium.load(entry.line.start(), bytemuck::cast_slice_mut(&mut content));
            if is_redo {
                for (first, words) in runs(entry.words) {
                    let words = first as usize..(first + words) as usize;
                    content[words.clone()].copy_from_slice(&buffers.contents[index][words]);
                }
            }
            (entry.line, content)
        });
        renew_sums(self.pool, lines);
    }

    /// Everything is in place; locks are still held, so the next transaction that touches these lines finds them
    /// pending.
    pub(super) fn hand_over_ended(&self, counter: u64, head: u64) {
        let buffers = &self.lane.buffers;
        let is_redo = self.pool.logging == Logging::Redo;
        let stored = buffers
            .lines
            .entries()
            .iter()
            .filter(|entry| if is_redo { entry.words != 0 } else { entry.written != 0 });
        let blocks = self.taken().chain(self.given_back());
        let words = blocks.map(|block| reserved_word(block).line());
        let lines = stored.map(|entry| entry.line).chain(words).collect();
        let ended = Ended { counter, head, lines };
        self.pool.lanes[self.lane.id].ended.lock(&self.pool.medium).push(ended);
    }
}
