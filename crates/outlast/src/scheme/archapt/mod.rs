//! Data that is flushed when it has probably left the cache, on redo logging and on undo logging (mechanisms of
//! Archapt). On redo the commit is that of [`redo`](super::redo); which records a lane covers, and when, is
//! AGE-1 to AGE-3 in [`writeback`](crate::writeback).
//!
//! # Undo logging whose commits flush no data: old words before the stores, new words at the commit
//!
//! When data is flushed by age, a committed transaction's lines may stay in the cache for long.
//! Its old words could only take it back; so the commit also logs what it has stored, as redo
//! does, and that record *seals* the transaction: from its fence on recovery repeats it, and its
//! old words count no more. All records of a lane stand in its ring one behind the other, under
//! numbers from the pool's one clock, and die with the floor.
//!
//! * **SEAL-1** Old words are logged, and fenced, before anything is stored over them (as UNDO-1).
//! * **SEAL-2** The seal is fenced before a lock is released or anything acknowledged. It has what was
//!   stored to small new blocks; contents of large ones are fenced before it is stored (as REDO-2).
//!   Bits of blocks change after it.
//! * **SEAL-3** From before its first record until it is over a transaction shows its bound, so the
//!   floor cannot pass old words that recovery may still need (SWEEP-4).
//! * **SEAL-4** An aborted transaction puts its old words back, and flushes and fences the lines,
//!   before its bound goes; regions that its records name stay the log's until the floor has
//!   passed those. Its records need no seal: as long as they live, so does whatever was
//!   committed to these words later, under higher numbers, and that is repeated after they were
//!   put back.
//! * **SEAL-5** A transaction keeps room for its seal: old words take a quarter of the ring at most
//!   and a line that names the region of the heap where they go on; the seal takes a quarter at
//!   most, or lines that name regions. With what wraps waste that fits every ring.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;

use crate::ack::Ticket;
use crate::io::Site;
use crate::lines::{LineEntry, runs};
use crate::log::{self, LiveRecord, Place, Record, RecordKind, Region, lines_for};
use crate::plant::Plant;
use crate::pool::LaneShared;
use crate::scheme::{Discipline, Facts};
use crate::seq::Seq;
use crate::transact::Abort;
use crate::tx::commit_record::ITEM_WORDS_MAX;
use crate::tx::placed::Placed;
use crate::tx::{Buffers, Tx};
use crate::writeback::{enter_commit, reserve_lines};

pub(crate) struct Redo;

impl Discipline for Redo {
    const FACTS: Facts = Facts { is_stepped: true, covers: true, by_age: true, ..Facts::REDO };
}

pub(crate) struct Undo;

impl Discipline for Undo {
    const FACTS: Facts = Facts {
        commits_at: &[Site::RedoRecord],
        keeps_announced: true,
        logs_old_bits: false,
        has_floor: true,
        is_stepped: true,
        covers: true,
        by_age: true,
        ..Facts::IN_PLACE
    };

    /// SEAL-2.
    fn commit<M: Medium>(tx: &mut Tx<'_, M>) -> Result<Ticket, Abort> {
        if tx.has_stored_nothing() {
            tx.release_locks(None);
            return Ok(Ticket::NOTHING);
        }
        let runs = tx.make_runs();
        if tx.flush_unsealed() || runs {
            tx.io().fence(Site::UndoFresh);
        }
        tx.swap_payloads();
        let sealed = tx.seal();
        if sealed.is_err() {
            tx.swap_payloads();
        }
        let (number, head, flushed) = sealed?;
        let (seq, shared) = (tx.pool.seq(number), &tx.pool.lanes[tx.lane.id].shared);
        // AGE-2: it has covered what was flushed before.
        shared.fenced.store(flushed, Ordering::Release);
        tx.lane.deferred.is_unfenced = false;
        if tx.keeps_sums() {
            let mut deltas = tx.begin_deltas(number);
            tx.note_stored(&mut deltas);
            tx.store_summed_allocations(&mut deltas);
            tx.note_given_back(&mut deltas);
        } else {
            tx.store_allocations();
        }
        tx.release_locks(Some(number));
        tx.end_sealed(head, number);
        tx.end_blocks_after(seq);
        tx.fetch_ahead();
        Ok(Ticket::of(seq))
    }

    fn log_old<M: Medium>(tx: &mut Tx<'_, M>) -> Result<(), Abort> {
        tx.write_before_records()
    }

    fn end_aborted<M: Medium>(tx: &mut Tx<'_, M>, stored: bool) {
        tx.end_aborted_by_age(stored, |_, last| last);
    }
}

impl<M: Medium> Tx<'_, M> {
    /// The record of new words, fenced. Returns its number, the position behind it, and how far the lane had
    /// flushed before.
    fn seal(&mut self) -> Result<(u64, u64, u64), Abort> {
        self.gather_after();
        let space = self.reserve_record(self.ring_share())?;
        let shared = &self.pool.lanes[self.lane.id].shared;
        if self.lane.buffers.sealed.last == 0 {
            enter_commit(self.pool, shared);
        }
        let number = self.draw_number()?;
        let head = self.write_record(space, self.pool.seq(number));
        self.note_to_cover(head, |entry| entry.written != 0 || entry.fresh);
        if self.io().plants(Plant::EarlyRelease) {
            self.release_locks(Some(number));
        }
        let flushed = shared.flushed.load(Ordering::Relaxed);
        self.lane.deferred.gather_ahead(self.pool, self.slot);
        // The commit point.
        self.fence_or_fail(Site::RedoRecord)?;
        Ok((number, head, flushed))
    }

    /// Lines of the ring that a transaction's old words may take, and its seal.
    fn ring_share(&self) -> u64 {
        (self.ring().lines / 4).max(1)
    }

    /// SEAL-1: gathered old words go into the ring, durably.
    pub(crate) fn write_before_records(&mut self) -> Result<(), Abort> {
        if self.lane.buffers.sealed.last == 0 {
            let shared = &self.pool.lanes[self.lane.id].shared;
            enter_commit(self.pool, shared);
        }
        let first = self.pool.lanes[self.lane.id].first;
        loop {
            let logged = self.lane.buffers.undo.logged;
            let rest = self.lane.buffers.payload.as_words().len() - logged;
            if rest == 0 {
                break;
            }
            let left = self.ring_share() - self.lane.buffers.sealed.ring_lines;
            match self.lane.buffers.undo.at {
                Some((region, line)) => self.write_before_elsewhere(region, line)?,
                None if first.lines_for(rest) <= left => {
                    let lines = first.lines_for(rest);
                    let (place, seq) = self.ring_space(lines)?;
                    let (io, site, kind) = (self.io(), Site::UndoRecord, RecordKind::Before);
                    let stream_from = self.pool.stream_from;
                    let payload = &mut self.lane.buffers.payload;
                    if logged == 0 {
                        place.append(io, site, (kind, seq, lines), payload, stream_from);
                    } else {
                        let rest = &payload.as_words()[logged..];
                        place.append_words(io, site, (kind, seq), rest, stream_from);
                    }
                    self.lane.buffers.undo.logged += rest;
                    self.lane.buffers.sealed.ring_lines += lines;
                }
                None => self.go_elsewhere(rest)?,
            }
        }
        if self.has_unsealed_blocks() {
            self.flush_unsealed();
        }
        self.fence_or_fail(Site::UndoRecord)
    }

    /// `lines` lines of the ring, for a record of old words under that number.
    fn ring_space(&mut self, lines: u64) -> Result<(Place, Seq), Abort> {
        reserve_lines(self.pool, self.slot, &mut self.lane, lines);
        let seq = self.ticket()?;
        let (io, slot) = (self.io(), &self.pool.lanes[self.lane.id]);
        let log = &mut self.lane.log;
        log.begin_record(io, Site::UndoRecord, slot, seq, lines);
        let place = log.place();
        log.head = log.end_record(lines);
        Ok((place, seq))
    }

    /// A number for a record of old words.
    fn ticket(&mut self) -> Result<Seq, Abort> {
        let number = self.tick();
        if number >= Seq::COUNTER_MAX {
            return Err(Abort::NumbersUsedUp);
        }
        let sealed = &mut self.lane.buffers.sealed;
        sealed.last = number;
        sealed.tickets += 1;
        Ok(self.pool.seq(number))
    }

    /// SEAL-5: the rest of the old words goes into a region of the heap.
    #[cold]
    fn go_elsewhere(&mut self, words: usize) -> Result<(), Abort> {
        let region = self.reserve_log_region(lines_for(words) + 1)?;
        let named = [region.at.0, region.lines];
        let (place, seq) = self.ring_space(1)?;
        let kind = RecordKind::BeforeElsewhere;
        place.append_words(self.io(), Site::UndoRecord, (kind, seq), &named, 1);
        self.lane.buffers.undo.at = Some((region, 0));
        Ok(())
    }

    #[cold]
    fn write_before_elsewhere(&mut self, region: Region, line: u64) -> Result<(), Abort> {
        let io = self.io();
        let logged = self.lane.buffers.undo.logged;
        let rest = &self.lane.buffers.payload.as_words()[logged..];
        // The last line stays free for the name of the next region.
        let words = log::prefix_within(rest, region.lines - line - 1);
        if words == 0 {
            let next = self.reserve_log_region(lines_for(rest.len()) + 1)?;
            let seq = self.ticket()?;
            let named = [next.at.0, next.lines];
            let kind = RecordKind::BeforeElsewhere;
            log::append(io, Site::UndoRecord, region, line, Record::new(kind, seq, &named));
            self.lane.buffers.undo.at = Some((next, 0));
            return Ok(());
        }
        let seq = self.ticket()?;
        let rest = &self.lane.buffers.payload.as_words()[logged..logged + words];
        let record = Record::new(RecordKind::Before, seq, rest);
        let lines = log::append(io, Site::UndoRecord, region, line, record);
        self.lane.buffers.undo.at = Some((region, line + lines));
        self.lane.buffers.undo.logged += words;
        Ok(())
    }

    /// Whether there is nothing to commit, whatever was announced.
    pub(crate) fn has_stored_nothing(&self) -> bool {
        let buffers = &self.lane.buffers;
        buffers.sealed.last == 0 && buffers.allocated.is_empty() && buffers.freed.is_empty()
    }

    /// SEAL-2: contents of new blocks that the seal will not have are flushed. Whether there were any.
    fn flush_unsealed(&mut self) -> bool {
        if self.lane.buffers.undo.fresh_lines.is_empty() {
            return false;
        }
        if !self.find_sealed_blocks() {
            self.flush_fresh();
            return true;
        }
        let mut lines = std::mem::take(&mut self.lane.buffers.undo.fresh_lines);
        let found = lines.len();
        lines.retain(|index| {
            let line = self.lane.buffers.lines.entries()[*index as usize].line;
            let is_sealed = self.lane.buffers.sealed.blocks.words_in(line) != 0;
            if !is_sealed {
                self.flush_fresh_line(*index);
            }
            is_sealed
        });
        let flushed = lines.len() < found;
        self.lane.buffers.undo.fresh_lines = lines;
        flushed
    }

    /// What the transaction has stored, then the bits of blocks.
    fn gather_after(&mut self) {
        let medium = &self.pool.medium;
        let mut payload = std::mem::take(&mut self.lane.buffers.payload);
        payload.clear();
        let takes_fresh = !self.io().plants(Plant::FreshUnflushed);
        for entry in self.lane.buffers.lines.entries() {
            let fresh = entry.fresh && takes_fresh;
            let sealed = &self.lane.buffers.sealed.blocks;
            let new = if fresh { sealed.words_in(entry.line) } else { 0 };
            let (mask, mut content) = (entry.written | new, [0; 8]);
            for (first, words) in runs(mask) {
                let words = first as usize..(first + words) as usize;
                let at = entry.line.start().plus(words.start as u64 * 8);
                medium.load(at, bytemuck::cast_slice_mut(&mut content[words]));
            }
            let all = LineEntry { words: mask, ..*entry };
            payload.append_lines(&[all], &[content], ITEM_WORDS_MAX);
        }
        if self.keeps_sums() {
            let Buffers { lines, contents, .. } = &self.lane.buffers;
            let written = lines.entries().iter().map(|entry| (entry.line, entry.written));
            payload.append_old_lines(written, contents);
        }
        self.lane.buffers.payload = payload;
        self.gather_allocations();
    }

    /// The old words and the new ones change places.
    fn swap_payloads(&mut self) {
        let buffers = &mut self.lane.buffers;
        std::mem::swap(&mut buffers.payload, &mut buffers.sealed.other);
    }

    /// Regions with old words are named by live records also when the transaction was aborted.
    fn release_regions_after(&mut self, last: u64) {
        let regions = &mut self.lane.buffers.regions;
        if regions.is_empty() || self.pool.io().plants(Plant::AbortedRegionsFreed) {
            return;
        }
        let seq = self.pool.seq(last);
        let mut heap = self.pool.heap.lock(&self.pool.medium);
        regions.drain(..).for_each(|region| heap.release_region_after(seq, region));
    }

    /// The records up to `head` are complete and everything below is in place.
    pub(crate) fn end_sealed(&mut self, head: u64, number: u64) {
        let shared = &self.pool.lanes[self.lane.id].shared;
        self.lane.log.head = head;
        shared.last_installed.store(number, Ordering::Release);
        shared.installed.store(head, Ordering::Release);
        shared.bound.store(LaneShared::IDLE, Ordering::Release);
    }

    /// SEAL-4. What the transaction `stored` is put back already. `mark` gets the number of its last record and
    /// returns the number under which its records end.
    pub(crate) fn end_aborted_by_age(
        &mut self,
        stored: bool,
        mark: impl FnOnce(&mut Self, u64) -> u64,
    ) {
        if stored {
            self.flush_data();
            self.io().fence(Site::UndoData);
        }
        let last = mark(self, self.lane.buffers.sealed.last);
        if last != 0 {
            self.end_sealed(self.lane.log.head, last);
        }
        self.release_regions_after(last);
        let shared = &self.pool.lanes[self.lane.id].shared;
        shared.bound.store(LaneShared::IDLE, Ordering::Release);
    }
}

/// A sealed transaction's buffers beside its old words.
#[derive(Default)]
pub(crate) struct InTx {
    /// The number of its last record of old words; zero before there is one.
    pub(crate) last: u64,
    /// How many numbers it has drawn for old words since its view was taken.
    pub(crate) tickets: u64,
    /// Lines of the ring that its old words take.
    ring_lines: u64,
    /// New blocks whose contents the seal takes along, while there are lines of new blocks that were
    /// not flushed.
    pub(crate) blocks: Placed,
    /// The new words while the old ones are the payload, and the other way round.
    other: crate::log::Payload,
}

impl InTx {
    pub(crate) fn is_clear(&self) -> bool {
        self.last == 0 && self.tickets == 0 && self.other.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        if !self.is_clear() {
            (self.last, self.tickets, self.ring_lines) = (0, 0, 0);
            self.other.clear();
        }
    }
}

/// Row d': a complete record of new words seals what its lane has logged before. Row i': back to
/// the end of the transaction before, which a literal variant marks by a record without words.
pub(crate) fn seal_off(undo: &mut Vec<&LiveRecord>) {
    let kept = undo.iter().take_while(|record| record.kind == RecordKind::Undo).count();
    let is_mark =
        |record: &&LiveRecord| record.kind == RecordKind::Before && record.payload.is_empty();
    undo.truncate(undo.iter().rposition(is_mark).map_or(kept, |mark| mark + 1));
}
