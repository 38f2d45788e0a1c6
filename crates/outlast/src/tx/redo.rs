//! Redo logging: new words are gathered, sealed with one fence, then stored in place.
//!
//! * **REDO-1** Nothing is stored in place, and no lock released, before the record is fenced. The
//!   fence is the commit point; no other transaction can observe an unfenced record.
//! * **REDO-2** Contents of large new blocks are not logged. They are in place, flushed *and fenced*
//!   before the record is stored: under one common fence the record could be evicted first.
//! * **REDO-3** The number is drawn with all locks held, so that for each line the order of numbers
//!   is the order of the locks, and replay in that order ends with what the last owner stored.
//! * **REDO-4** Gaps in the numbers are harmless: a number without a complete record belongs to a
//!   transaction that no other has observed.
//! * **REDO-5** A block that was freed is quarantined until the floor is above the free (HEAP-4), since
//!   live records may still write to it at recovery.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LINE_BYTES, PoolOffset, line_pieces};

use crate::ack::Ticket;
use crate::io::Site;
use crate::lines::{LineEntry, runs, word_mask};
use crate::plant::Plant;
use crate::pool::{LaneShared, LaneSlot, LaneState};
use crate::scheme::WriteBack;
use crate::seq::Seq;
use crate::transact::Abort;
use crate::tx::commit_record::{ITEM_WORDS_MAX, RecordSpace};
use crate::tx::placed::Placed;
use crate::tx::{Buffers, Tx};
use crate::writeback::enter_commit;

/// A record that is stored and flushed, and not fenced.
pub(crate) struct SealedRedo<'p> {
    slot: &'p LaneSlot,
    number: u64,
    seq: Seq,
    /// The position behind it.
    head: u64,
    /// Lines that the lane had flushed before.
    flushed: u64,
}

impl<'p, M: Medium> Tx<'p, M> {
    /// Reads a range of which the write set may hold a part.
    pub(super) fn load_over_write_set(
        &mut self,
        at: PoolOffset,
        out: &mut [u8],
    ) -> Result<(), Abort> {
        let range = ByteRange::new(at, out.len() as u64);
        if range.lines().all(|line| self.lane.buffers.lines.find(line).is_none()) {
            return self.read_range(at, out);
        }
        let mut done = 0;
        for (piece, len) in line_pieces(at, out.len()) {
            let part = &mut out[done..done + len];
            if !self.load_from_write_set(piece, part)? {
                self.read_committed(piece, part)?;
            }
            done += len;
        }
        Ok(())
    }

    /// Copies what the write set has of a piece of one line; the rest comes from the line.
    /// `false` when the write set has nothing of it.
    fn load_from_write_set(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<bool, Abort> {
        let Some(index) = self.lane.buffers.lines.find(at.line()) else { return Ok(false) };
        let LineEntry { words: held, transaction, .. } = self.lane.buffers.lines.entries()[index];
        let (from, to) = (at.in_line(), at.in_line() + out.len());
        let wanted = word_mask(from, to);
        if held & wanted == 0 {
            return Ok(false);
        }
        if transaction != self.lane.pending.transaction() {
            self.lane.pending.was_seen = true;
        }
        if held & wanted != wanted {
            self.read_committed(at, out)?;
        }
        let bytes: &[u8; 64] = bytemuck::cast_ref(&self.lane.buffers.contents[index]);
        for (first, words) in runs(held & wanted) {
            let (start, end) = (first as usize * 8, (first + words) as usize * 8);
            let (start, end) = (start.max(from), end.min(to));
            out[start - from..end - from].copy_from_slice(&bytes[start..end]);
        }
        Ok(true)
    }

    /// A word of a transaction that runs alone, of whose line the write set may have something.
    pub(super) fn load_kept_word(&mut self, at: PoolOffset) -> u64 {
        self.kept_word(at).unwrap_or_else(|| self.pool.medium.load_u64(at))
    }

    /// The write set's content of a word.
    #[inline]
    pub(super) fn kept_word(&mut self, at: PoolOffset) -> Option<u64> {
        let LaneState { buffers, pending, .. } = &mut *self.lane;
        let index = buffers.lines.find(at.line())?;
        let (entry, word) = (&buffers.lines.entries()[index], at.in_line() / 8);
        if entry.words >> word & 1 == 0 {
            return None;
        }
        pending.was_seen |= entry.transaction != pending.transaction();
        Some(u64::from_le(buffers.contents[index][word]))
    }

    pub(super) fn store_to_write_set(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        let mut done = 0;
        for (piece, len) in line_pieces(at, bytes.len()) {
            self.store_piece(piece, &bytes[done..done + len])?;
            done += len;
        }
        Ok(())
    }

    /// Puts a word into the write set of a transaction that may store to its line.
    #[inline(always)]
    pub(super) fn put_word(&mut self, at: PoolOffset, value: u64) {
        if self.pool.io().plants(Plant::WordInPlaceAtOnce) {
            self.pool.medium.store_u64(at, value);
        }
        let LaneState { buffers, pending, .. } = &mut *self.lane;
        let Buffers { lines, contents, .. } = buffers;
        let (line, word) = (at.line(), at.in_line() / 8);
        if let Some(index) = lines.add_word(line, word) {
            if let Some(content) = contents.get_mut(index) {
                content[word] = value.to_le();
                return;
            }
        } else if let Some((index, entry)) = lines.entry_among_few(line)
            && let Some(content) = contents.get_mut(index)
            && entry.transaction == pending.transaction()
        {
            entry.words |= 1 << word;
            entry.stored = true;
            content[word] = value.to_le();
            return;
        }
        self.put_word_otherwise(at, value);
    }

    /// The same, whatever it takes.
    #[inline(never)]
    fn put_word_otherwise(&mut self, at: PoolOffset, value: u64) {
        let lane = &mut *self.lane;
        let (index, _) = lane.buffers.lines.find_or_add(at.line());
        lane.buffers.add_contents(index);
        lane.save_for_abort(index);
        let Buffers { lines, contents, .. } = &mut lane.buffers;
        let (entry, word) = (lines.entry_mut(index), at.in_line() / 8);
        entry.words |= 1 << word;
        entry.stored = true;
        contents[index][word] = value.to_le();
    }

    fn store_piece(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        let line = at.line();
        let (index, new) = self.lane.buffers.lines.find_or_add(line);
        if new {
            self.lane.buffers.add_contents(index);
            if !self.pool.locks_at_commit() {
                self.lock_line(line)?;
            }
            if self.pool.is_literal {
                self.touch_pending(ByteRange::new(line.start(), LINE_BYTES));
            }
        } else {
            self.lane.save_for_abort(index);
        }
        let (from, to) = (at.in_line(), at.in_line() + bytes.len());
        let mask = word_mask(from, to);
        let held = self.lane.buffers.lines.entries()[index].words;
        // Words that are stored to in part are held whole.
        for edge in [from / 8, (to - 1) / 8] {
            let partial = from > edge * 8 || to < edge * 8 + 8;
            if partial && held & 1 << edge == 0 {
                let mut word = [0; 8];
                self.read_committed(line.start().plus(edge as u64 * 8), &mut word)?;
                self.lane.buffers.contents[index][edge] = u64::from_ne_bytes(word);
            }
        }
        let content: &mut [u8; 64] = bytemuck::cast_mut(&mut self.lane.buffers.contents[index]);
        content[from..to].copy_from_slice(bytes);
        let entry = self.lane.buffers.lines.entry_mut(index);
        entry.words |= mask;
        entry.stored = true;
        Ok(())
    }

    pub(super) fn commit_redo(&mut self) -> Result<Ticket, Abort> {
        let space = self.prepare_redo()?;
        let sealed = self.seal_redo(space)?;
        self.lane.deferred.gather_ahead(self.pool, self.lane.id);
        // REDO-1: the commit point.
        self.fence_or_fail(Site::RedoRecord)?;
        Ok(self.end_redo(sealed))
    }

    /// The record in volatile memory, and room for it.
    #[inline(always)]
    pub(super) fn prepare_redo(&mut self) -> Result<RecordSpace, Abort> {
        self.gather_new();
        if !self.lane.buffers.fresh.is_empty() {
            self.persist_fresh();
        }
        self.reserve_record(self.ring().lines / 2)
    }

    /// Draws the number, stores the record and flushes it. What must follow is a fence.
    #[inline(always)]
    pub(super) fn seal_redo(&mut self, space: RecordSpace) -> Result<SealedRedo<'p>, Abort> {
        let io = self.io();
        let slot = &self.pool.lanes[self.lane.id];
        if !self.lane.buffers.is_alone {
            enter_commit(self.pool, &slot.shared);
        }
        let idle = |abort| {
            slot.shared.bound.store(LaneShared::IDLE, Ordering::Release);
            abort
        };
        self.lock_write_set().map_err(idle)?;
        let number = self.draw_number().map_err(idle)?;
        let seq = self.pool.seq(number);
        if self.keeps_sums() {
            // With all locks held: nothing else changes these words before the record is there.
            let medium = &self.pool.medium;
            let load = |at, words: &mut [u64]| medium.load(at, bytemuck::cast_slice_mut(words));
            self.lane.buffers.payload.reload_old(load);
        }
        let head = self.write_record(space, seq);
        self.note_to_cover(head, |entry| entry.words != 0);
        // Before the fence, which a lock behind it would wait for.
        self.end_blocks_after(seq);
        self.lane.buffers.lines.forget_places();
        self.lane.buffers.look_what_is_left();
        if io.plants(Plant::EarlyRelease) {
            self.release_locks(Some(number));
        }
        if io.plants(Plant::InstallBeforeFence) {
            self.install();
            self.store_allocations();
        }
        if self.pool.is_literal {
            self.renew_sums();
        }
        self.fetch_ahead();
        let flushed = slot.shared.flushed.load(Ordering::Relaxed);
        Ok(SealedRedo { slot, number, seq, head, flushed })
    }

    /// The fence is over: stores everything in place and lets others see it.
    #[inline(always)]
    pub(crate) fn end_redo(&mut self, sealed: SealedRedo<'p>) -> Ticket {
        let SealedRedo { slot, number, seq, head, flushed } = sealed;
        // SWEEP-1: it has covered what was flushed before.
        slot.shared.fenced.store(flushed, Ordering::Release);
        if self.lane.deferred.is_unfenced {
            self.lane.deferred.is_unfenced = false;
        }

        if self.keeps_sums() {
            let mut deltas = self.begin_deltas(number);
            self.note_installed(&mut deltas);
            self.install();
            self.store_summed_allocations(&mut deltas);
            self.note_given_back(&mut deltas);
        } else {
            self.install();
            self.store_allocations();
        }
        if self.pool.write_back == WriteBack::Asynchronous {
            self.flush_installed();
            slot.shared.flushed.store(head, Ordering::Relaxed);
        }
        if self.pool.is_literal {
            self.hand_over_ended(number, head);
        }
        if !self.lane.buffers.locked.is_empty() {
            self.release_held_locks(Some(number));
        }

        self.lane.log.head = head;
        slot.shared.last_installed.store(number, Ordering::Release);
        slot.shared.installed.store(head, Ordering::Release);
        slot.shared.bound.store(LaneShared::IDLE, Ordering::Release);
        Ticket::of(seq)
    }

    /// The record: every word that the write set holds, then the bits of blocks.
    #[inline(always)]
    pub(super) fn gather_new(&mut self) {
        let Buffers { lines, contents, payload, .. } = &mut self.lane.buffers;
        payload.append_lines(lines.entries(), contents, ITEM_WORDS_MAX);
        if self.keeps_sums() {
            self.gather_old();
        }
        self.gather_allocations();
    }

    /// Room for what stands in place, of all words but those of new blocks.
    fn gather_old(&mut self) {
        let new = Placed::of(self.lane.buffers.allocated.iter().copied());
        let Buffers { lines, contents, payload, .. } = &mut self.lane.buffers;
        let olds = lines.entries().iter().map(|entry| {
            let mask = entry.words & !new.words_in(entry.line);
            (entry.line, mask)
        });
        payload.append_old_lines(olds, contents);
    }

    /// REDO-2: contents of new blocks that are stored in place.
    #[inline(never)]
    fn persist_fresh(&self) {
        if self.io().plants(Plant::FreshUnflushed) {
            return;
        }
        let buffers = &self.lane.buffers;
        for entry in buffers.lines.entries() {
            if entry.fresh {
                self.io().flush_line(Site::RedoFresh, entry.line);
            }
        }
        self.make_runs();
        self.io().fence(Site::RedoFresh);
    }

    /// Stores everything in place, but for the bits of blocks.
    #[inline]
    pub(super) fn install(&self) {
        let buffers = &self.lane.buffers;
        let medium = &self.pool.medium;
        for (entry, content) in buffers.lines.entries().iter().zip(&buffers.contents) {
            medium.store_words(entry.line, entry.words, content);
        }
    }

    /// Starts the write-back of what was installed. No commit waits for it: the lane's next fence
    /// completes it, or the sweeper does.
    fn flush_installed(&self) {
        for entry in self.lane.buffers.lines.entries() {
            if entry.words != 0 {
                self.io().flush_line(Site::RedoData, entry.line);
            }
        }
        self.flush_allocations(Site::RedoData);
    }

    /// Nothing is in place yet, so nothing needs to be put back. New blocks belonged to no other transaction.
    pub(super) fn abort_redo(&mut self) {
        self.release_locks(None);
        self.drop_reservations();
        if !self.lane.pending.is_empty() {
            self.lane.restore_batch();
        }
    }
}
