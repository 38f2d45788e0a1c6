//! Undo logging: old words first, then new ones in place, then everything flushed.
//!
//! * **UNDO-1** A word's old content is logged, and that record fenced, before anything is stored
//!   over it: whatever the cache evicts, recovery can put it back. Announced ranges gather and
//!   share one record, one flush batch and one fence, paid at the first store.
//! * **UNDO-2** At commit all lines stored to are flushed and fenced before the mark.
//! * **UNDO-3** Where witnesses do not speak for it (UNDO-5, [`witness`]), the mark raises
//!   the lane's floor to the transaction's last record: one word, the commit point. It is flushed
//!   and fenced before the acknowledgement and before any lock is released.
//! * **UNDO-4** A word is logged once per transaction, so the order of putting back within a
//!   transaction does not matter; new blocks are not logged at all.
//!
//! How old words are kept, put in place and put back is here for all schemes that store in place.

pub(crate) mod witness;

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LINE_BYTES, PoolOffset, line_pieces};

use crate::ack::Ticket;
use crate::alloc::{Block, Heap, HeapError, Reserved};
use crate::io::{Io, Site};
use crate::layout::LANE_FLOOR;
use crate::lines::{runs, word_mask};
use crate::log::{self, Item, Record, RecordKind, Region, lines_for};
use crate::plant::Plant;
use crate::scheme::{Discipline, Facts, under};
use crate::sealed::seal_at;
use crate::spin::SpinLock;
use crate::transact::Abort;
use crate::tx::{Tx, next_number};

/// Most words in one item, so that every region has room for a record with one.
const ITEM_WORDS_MAX: usize = 384;

/// Lines that a region of the heap has at least, if that many are free in one piece.
const REGION_LINES: u64 = 1024;

pub(crate) struct Undo;

impl Discipline for Undo {
    const FACTS: Facts = Facts {
        commits_at: &[Site::UndoMark, Site::UndoWitnesses],
        keeps_announced: true,
        ..Facts::IN_PLACE
    };

    fn commit<M: Medium>(tx: &mut Tx<'_, M>) -> Result<Ticket, Abort> {
        let number = tx.draw_number()?;
        // Allocations gathered after the last store, if any.
        tx.log_gathered()?;
        tx.store_allocations();
        if tx.io().plants(Plant::EarlyRelease) {
            tx.release_locks(Some(number));
        }
        if !tx.bear_witness()? {
            tx.flush_data();
            if !tx.io().plants(Plant::MarkWithData) {
                tx.fence_or_fail(Site::UndoData)?;
            }
            tx.mark_done()?;
        }
        tx.release_locks(Some(number));
        tx.end_blocks();
        Ok(Ticket::of(tx.pool.seq(number)))
    }
}

/// State of undo in a pool.
#[derive(Default)]
pub(crate) struct InPool {
    /// Held by the thread that makes up for a lane's mark.
    settling: SpinLock<()>,
}

/// How far a transaction's undo log has come.
#[derive(Default)]
pub(crate) struct InTx {
    /// Words of the payload that are in the log, durably.
    pub(crate) logged: usize,
    /// Where the next record goes; `None` at the start of the lane's half of the ring.
    pub(crate) at: Option<(Region, u64)>,
    /// Something was stored in place.
    pub(crate) stored: bool,
    /// Lines of new blocks that are stored to and not flushed yet.
    pub(crate) fresh_lines: Vec<u32>,
    /// Alone: where, and what stands there when everything is durable.
    pub(crate) witnesses: Vec<u64>,
}

impl InTx {
    pub(crate) fn is_clear(&self) -> bool {
        self.logged == 0 && self.at.is_none() && !self.stored && self.fresh_lines.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        if !self.is_clear() {
            (self.logged, self.at, self.stored) = (0, None, false);
            self.fresh_lines.clear();
        }
    }
}

impl<M: Medium> Tx<'_, M> {
    /// Takes the locks of a range and gathers its old words, as far as they are not kept yet.
    pub(crate) fn keep_old(&mut self, at: PoolOffset, len: u64) -> Result<(), Abort> {
        if len == 0 || (!self.lane.buffers.fresh.is_empty() && self.is_fresh(at, len)) {
            return Ok(());
        }
        let (mut from, mut to) = (at.0 & !7, (at.0 + len).next_multiple_of(8));
        if self.io().plants(Plant::AnnouncedRoundedIn) && to - from > 8 {
            (from, to) = (at.0.next_multiple_of(8), (at.0 + len) & !7);
        }
        // Adjacent words of neighbouring lines share an item.
        let mut run: Option<ByteRange> = None;
        for line in ByteRange::new(PoolOffset(from), to - from).lines() {
            self.lock_line(line)?;
            let start = line.start().0;
            let touched = word_mask(
                (from.max(start) - start) as usize,
                (to.min(start + 64) - start) as usize,
            );
            let (index, _) = self.lane.buffers.lines.find_or_add(line);
            let entry = self.lane.buffers.lines.entry_mut(index);
            let mut missing = touched & !entry.words;
            entry.words |= touched;
            if self.pool.io().plants(Plant::LoggedTwice) {
                missing = touched;
            }
            if missing != 0 {
                self.touch(ByteRange::new(line.start(), LINE_BYTES));
            }
            if missing != 0 && self.keeps_sums() {
                self.keep_for_sums(index, missing);
            }
            for (first, words) in runs(missing) {
                let piece =
                    ByteRange::new(line.start().plus(u64::from(first) * 8), u64::from(words) * 8);
                run = Some(match run {
                    Some(r)
                        if r.end() == piece.at
                            && r.len + piece.len <= ITEM_WORDS_MAX as u64 * 8 =>
                    {
                        ByteRange::new(r.at, r.len + piece.len)
                    }
                    Some(r) => {
                        self.gather(r);
                        piece
                    }
                    None => piece,
                });
            }
        }
        if let Some(run) = run {
            self.gather(run);
        }
        Ok(())
    }

    fn gather(&mut self, range: ByteRange) {
        let words = self.lane.buffers.payload.words(range.at, range.len as usize / 8);
        self.pool.medium.load(range.at, bytemuck::cast_slice_mut(words));
    }

    /// Gathers what a block's durable word said before: `allocated` or not.
    pub(crate) fn note_old_allocation(&mut self, block: Block, allocated: bool) {
        if self.io().plants(Plant::AllocationNotLogged) {
            return;
        }
        let payload = &mut self.lane.buffers.payload;
        match block.reserved {
            Reserved::Bit { word, bit, .. } if allocated => payload.set_bit(word, bit),
            Reserved::Bit { word, bit, .. } => payload.clear_bit(word, bit),
            Reserved::Run { word, .. } => {
                payload.words(word, 1)[0] = self.pool.medium.load_u64(word);
            }
        }
    }

    pub(crate) fn store_in_place(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        let early = self.io().plants(Plant::StoreBeforeLog);
        if !self.mark_stored(at, bytes.len()) {
            self.keep_old(at, bytes.len() as u64)?;
            let kept = self.mark_stored(at, bytes.len());
            debug_assert!(kept || M::OBSERVED, "what is kept can be stored to");
        }
        if !early {
            self.log_gathered()?;
        }
        self.lane.buffers.undo.stored = true;
        self.pool.medium.store(at, bytes);
        if early { self.log_gathered() } else { Ok(()) }
    }

    /// Notes that the lines of a range are stored to, if the old content of the range is kept.
    #[inline]
    fn mark_stored(&mut self, at: PoolOffset, len: usize) -> bool {
        let lines = &mut self.lane.buffers.lines;
        line_pieces(at, len).all(|(piece, len)| {
            let Some(index) = lines.find(piece.line()) else { return false };
            let entry = lines.entry_mut(index);
            let mask = word_mask(piece.in_line(), piece.in_line() + len);
            let kept = entry.words & mask == mask;
            if kept {
                entry.note_store(mask);
            }
            kept
        })
    }

    /// UNDO-1: what was gathered goes into the log, durably.
    #[inline]
    pub(crate) fn log_gathered(&mut self) -> Result<(), Abort> {
        let buffers = &self.lane.buffers;
        if buffers.undo.logged == buffers.payload.as_words().len() {
            return Ok(());
        }
        under!(self.pool.scheme(), D => D::log_old(self))
    }

    /// UNDO-1, as records of the lane's half of the ring.
    pub(crate) fn write_undo_records(&mut self) -> Result<(), Abort> {
        let io = self.io();
        let begins = self.lane.buffers.undo.at.is_none();
        if begins && io.medium.is_paged() && self.ring().undo_parts() < 2 && self.lane.log.stale > 0
        {
            self.blank_stale();
            io.fence(Site::Ring);
        }
        loop {
            let logged = self.lane.buffers.undo.logged;
            let rest = &self.lane.buffers.payload.as_words()[logged..];
            if rest.is_empty() {
                break;
            }
            let start = || (self.ring().undo_part(self.lane.log.half), 0);
            let (region, line) = self.lane.buffers.undo.at.unwrap_or_else(start);
            // The last line stays free for a `Continued`.
            let room = region.lines - line - 1;
            let words = log::prefix_within(rest, room);
            if words == 0 {
                self.continue_elsewhere(region, line, rest.len())?;
                continue;
            }
            let seq = next_number(self.lane.log.last_undo, self.pool.generation)?;
            let rest = &self.lane.buffers.payload.as_words()[logged..logged + words];
            let record = Record::new(RecordKind::Undo, seq, rest);
            let lines = log::append(io, Site::UndoRecord, region, line, record);
            self.lane.log.last_undo = seq;
            self.lane.buffers.undo.at = Some((region, line + lines));
            self.lane.buffers.undo.logged += words;
        }
        self.flush_fresh();
        self.fence_or_fail(Site::UndoRecord)?;
        // The record proves the lane's transaction before this one done (UNDO-6), and another fence comes
        // before the next one's first record.
        if begins && io.medium.is_paged() && self.lane.log.stale > 0 {
            self.blank_stale();
        }
        Ok(())
    }

    /// LOG-10: makes the lines blank that the lane's last transaction has used, and starts their write-back.
    #[cold]
    fn blank_stale(&mut self) {
        let ring = self.ring();
        let part = match ring.undo_parts() {
            1 => ring,
            _ => ring.undo_part(self.lane.log.half ^ 1),
        };
        let lines = std::mem::take(&mut self.lane.log.stale);
        log::blank(self.io(), Site::Ring, Region { lines, ..part });
    }

    /// LOG-10, where the medium tears lines: the lane's next transaction takes the other half of the ring, and makes
    /// blank what this one has used of its own, `more` lines behind its undo records included.
    pub(crate) fn leave_half(&mut self, more: u64) {
        let Some((region, line)) = self.lane.buffers.undo.at else { return };
        let ring = self.ring();
        let part = ring.undo_part(self.lane.log.half);
        self.lane.log.stale = if region.is_elsewhere { part.lines } else { line + more };
        if ring.undo_parts() > 1 {
            self.lane.log.half ^= 1;
        }
    }

    /// New blocks filled before a record share its fence: then they need no witness.
    pub(crate) fn flush_fresh(&mut self) {
        let mut lines = std::mem::take(&mut self.lane.buffers.undo.fresh_lines);
        lines.drain(..).for_each(|index| self.flush_fresh_line(index));
        self.lane.buffers.undo.fresh_lines = lines;
    }

    /// The same for one entry of the lines.
    pub(crate) fn flush_fresh_line(&mut self, index: u32) {
        let io = self.io();
        if io.plants(Plant::FreshUnflushed) {
            return;
        }
        let entry = self.lane.buffers.lines.entry_mut(index as usize);
        entry.fresh = false;
        // Small blocks share lines: what else was stored there an abort may have to flush.
        entry.stored = entry.written != 0;
        io.flush_line(Site::UndoFresh, entry.line);
    }

    /// The region is full: the log goes on in a stretch of the heap, which is released with the
    /// transaction.
    #[cold]
    fn continue_elsewhere(&mut self, full: Region, line: u64, words: usize) -> Result<(), Abort> {
        let wanted = (lines_for(words) + 1).max(REGION_LINES);
        let next = self.reserve_log_region(wanted)?;
        let seq = next_number(self.lane.log.last_undo, self.pool.generation)?;
        let payload = [next.at.0, next.lines];
        let kind = RecordKind::Continued;
        log::append(self.io(), Site::UndoRecord, full, line, Record::new(kind, seq, &payload));
        self.lane.log.last_undo = seq;
        self.lane.buffers.undo.at = Some((next, 0));
        Ok(())
    }

    /// A stretch of the heap for the log of this transaction.
    pub(crate) fn reserve_log_region(&mut self, lines: u64) -> Result<Region, Abort> {
        self.reserve_log_region_by(lines, |heap, io, settle| heap.reserve_region(io, lines, settle))
    }

    /// As `reserve_log_region`, from what `from` finds.
    pub(crate) fn reserve_log_region_by(
        &mut self,
        lines: u64,
        mut from: impl FnMut(&mut Heap, Io<'_, M>, &dyn Fn()) -> Result<Region, HeapError>,
    ) -> Result<Region, Abort> {
        let bytes = lines * LINE_BYTES;
        let region =
            self.reserve(bytes, |heap, _, io, settle| from(heap, io, settle)).map_err(|abort| {
                match abort {
                    Abort::OutOfSpace { .. } => Abort::LogFull { bytes },
                    other => other,
                }
            })?;
        self.lane.buffers.has_lines_only = false;
        self.lane.buffers.regions.push(region);
        Ok(region)
    }

    pub(crate) fn ring(&self) -> Region {
        self.slot.ring
    }

    /// UNDO-2, but for its fence.
    pub(crate) fn flush_data(&self) {
        let io = self.io();
        let unflushed = |at| io.plants(Plant::FreshUnflushed) && self.is_fresh(at, 1);
        let stored = self.lane.buffers.lines.entries().iter().filter(|entry| entry.stored);
        let lines = stored.map(|entry| entry.line).filter(|line| !unflushed(line.start()));
        io.flush_each(Site::UndoData, lines);
        self.flush_allocations(Site::UndoData);
    }

    /// UNDO-3: the records of this lane are dead from here on.
    pub(crate) fn mark_done(&mut self) -> Result<(), Abort> {
        let io = self.io();
        let at = self.pool.header().geometry.lane_at(self.lane.id).plus(LANE_FLOOR);
        let word = seal_at(self.lane.log.last_undo.bits(), at);
        if io.plants(Plant::MarkInHalves) {
            io.medium.store(at, &word.to_le_bytes()[..4]);
            io.medium.store(at.plus(4), &word.to_le_bytes()[4..]);
        } else {
            io.medium.store_u64(at, word);
        }
        io.flush(Site::UndoMark, at, 8);
        self.fence_or_fail(Site::UndoMark)?;
        self.pool.lanes[self.lane.id].shared.unmarked.store(0, Ordering::Release);
        if io.medium.is_paged() {
            self.leave_half(0);
        }
        Ok(())
    }

    /// Blocks given back are every lane's, now that the commit is durable; so are regions and what
    /// was taken and given back in one.
    pub(crate) fn end_blocks(&mut self) {
        let buffers = &mut self.lane.buffers;
        if buffers.freed.is_empty() && buffers.regions.is_empty() {
            return;
        }
        let mut heap = self.pool.heap.lock(&self.pool.medium);
        if !self.pool.io().plants(Plant::FreedAtOnce) {
            buffers.freed.drain(..).for_each(|block| heap.release(block));
        }
        buffers.regions.drain(..).for_each(|region| heap.release_region(region));
    }

    /// Puts everything back. Durable bits need no care: they change only after the last thing
    /// that can fail.
    pub(crate) fn abort_in_place(&mut self) {
        let stored = self.lane.buffers.has_stored();
        if stored {
            self.put_back();
        }
        under!(self.pool.scheme(), D => D::end_aborted(self, stored));
        // Optimistic readers may have copied what was in place for a while: the lines get a new
        // version although their content is the old one.
        let version = stored.then(|| self.tick());
        self.release_locks(version);
        self.drop_reservations();
    }

    /// Old words are in place again, if any new ones `stored`: makes them so durably, and the records dead.
    pub(crate) fn make_put_back_durable(&mut self, stored: bool) {
        if self.lane.buffers.undo.logged == 0 {
            return;
        }
        if stored {
            self.flush_data();
            self.io().fence(Site::UndoData);
        }
        // Where that fails, nothing more of this pool becomes durable, and recovery puts back.
        let _ = self.mark_done();
    }

    pub(crate) fn put_back(&mut self) {
        if self.pool.facts.is_volatile {
            return self.put_back_exchanged();
        }
        let payload = std::mem::take(&mut self.lane.buffers.payload);
        let skip = usize::from(self.io().plants(Plant::AbortIncomplete));
        // Bits were never stored. Words of directories were not either, and putting them back
        // changes nothing.
        let words = log::items(payload.as_words()).filter_map(|item| {
            let Item::Words { at, words } = item.expect("we gathered it") else { return None };
            Some((at, words))
        });
        for (at, words) in words.skip(skip) {
            self.pool.medium.store(at, bytemuck::cast_slice(words));
        }
        self.lane.buffers.payload = payload;
    }
}
