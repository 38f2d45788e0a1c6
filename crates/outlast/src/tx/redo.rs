//! Redo logging: new words are gathered, sealed with one fence, then stored in place.
//!
//! * **R1** Nothing is stored in place, and no lock released, before the record is fenced. The
//!   fence is the commit point; a record that it does not cover nobody has seen.
//! * **R2** Contents of large new blocks are not logged. They are in place, flushed *and fenced*
//!   before the record is stored: under one common fence the record could be evicted first.
//! * **R3** The number is drawn with all locks held, so that for each line the order of numbers
//!   is the order of the locks, and replay in that order ends with what the last owner stored.
//! * **R4** Gaps in the numbers are harmless: a number without a complete record belongs to a
//!   transaction of which nobody saw anything.
//! * **R5** A block that was freed is quarantined until the floor is above the free (M4), since
//!   live records may still write to it at recovery.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LINE_BYTES, LineAddr, PoolOffset, line_pieces};

use crate::alloc::Reserved;
use crate::io::Site;
use crate::lines::{runs, word_mask};
use crate::log::{self, PAYLOAD_WORDS_MAX, Payload, RecordKind, Region, lines_for};
use crate::plant::Plant;
use crate::pool::LaneShared;
use crate::seq::Seq;
use crate::transact::Abort;
use crate::tx::Tx;
use crate::writeback::{RingSpace, enter_commit, reserve_lines};

/// Lines behind the head that are fetched after a commit, ready for the next one.
const LINES_AHEAD: u64 = 4;

/// Most words in one item; longer runs are split so that every region has room for some.
const ITEM_WORDS_MAX: usize = 384;

impl<M: Medium> Tx<'_, M> {
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
        let held = self.lane.buffers.lines.entries()[index].words;
        let (from, to) = (at.in_line(), at.in_line() + out.len());
        let wanted = word_mask(from, to);
        if held & wanted == 0 {
            return Ok(false);
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

    pub(super) fn store_to_write_set(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        let mut done = 0;
        for (piece, len) in line_pieces(at, bytes.len()) {
            self.store_piece(piece, &bytes[done..done + len])?;
            done += len;
        }
        Ok(())
    }

    fn store_piece(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        let line = at.line();
        let (index, new) = self.lane.buffers.lines.find_or_add(line);
        if new {
            self.lane.buffers.add_contents(index);
            self.lock_line(line)?;
        }
        let (from, to) = (at.in_line(), at.in_line() + bytes.len());
        let mask = word_mask(from, to);
        let held = self.lane.buffers.lines.entries()[index].words;
        // Words that are stored to in part are held whole.
        for edge in [from / 8, (to - 1) / 8] {
            let partial = from > edge * 8 || to < edge * 8 + 8;
            if partial && held & 1 << edge == 0 {
                let word = self.pool.medium.load_u64(line.start().plus(edge as u64 * 8));
                self.lane.buffers.contents[index][edge] = word;
            }
        }
        let content: &mut [u8; 64] = bytemuck::cast_mut(&mut self.lane.buffers.contents[index]);
        content[from..to].copy_from_slice(bytes);
        let entry = self.lane.buffers.lines.entry_mut(index);
        entry.words |= mask;
        entry.stored = true;
        Ok(())
    }

    pub(super) fn commit_redo(&mut self) -> Result<(), Abort> {
        let io = self.io();
        self.gather_new();
        self.persist_fresh();
        let space = self.reserve_record()?;

        let slot = &self.pool.lanes[self.lane.id];
        if !self.lane.buffers.is_alone {
            enter_commit(self.pool, &slot.shared);
        }
        let number = match self.draw_number() {
            Ok(number) => number,
            Err(abort) => {
                slot.shared.bound.store(LaneShared::IDLE, Ordering::Release);
                return Err(abort);
            }
        };
        let seq = self.pool.seq(number);
        let head = self.write_record(space, seq);
        if io.plants(Plant::EarlyRelease) {
            self.release_locks(Some(number));
        }
        if io.plants(Plant::InstallBeforeFence) {
            self.install();
        }
        // R1: the commit point.
        io.fence(Site::RedoRecord);
        slot.shared.fenced.store(self.lane.log.last_installed, Ordering::Release);

        self.install();
        self.flush_installed();
        self.release_locks(Some(number));

        self.lane.log.head = head;
        self.lane.log.last_installed = number;
        slot.shared.last_installed.store(number, Ordering::Release);
        slot.shared.installed.store(head, Ordering::Release);
        slot.shared.bound.store(LaneShared::IDLE, Ordering::Release);
        self.end_blocks_after(seq);
        self.fetch_ahead();
        Ok(())
    }

    /// The record: every word that the write set holds, then the bits of blocks.
    fn gather_new(&mut self) {
        let buffers = &mut self.lane.buffers;
        for (entry, content) in buffers.lines.entries().iter().zip(&buffers.contents) {
            for (first, words) in runs(entry.words) {
                let at = entry.line.start().plus(u64::from(first) * 8);
                let words = &content[first as usize..(first + words) as usize];
                buffers.payload.append_words(at, words, ITEM_WORDS_MAX);
            }
        }
        if self.io().plants(Plant::AllocationNotLogged) {
            return;
        }
        let mut payload = std::mem::take(&mut self.lane.buffers.payload);
        for block in self.taken() {
            match block.reserved {
                Reserved::Bit { word, bit, .. } => payload.set_bit(word, bit),
                Reserved::Run { word, large, .. } => {
                    payload.append_words(word, &[large.to_word()], ITEM_WORDS_MAX);
                }
            }
        }
        for block in self.given_back() {
            match block.reserved {
                Reserved::Bit { word, bit, .. } => payload.clear_bit(word, bit),
                Reserved::Run { word, .. } => payload.append_words(word, &[0], ITEM_WORDS_MAX),
            }
        }
        self.lane.buffers.payload = payload;
    }

    /// R2: contents of new blocks that are stored in place.
    fn persist_fresh(&self) {
        let buffers = &self.lane.buffers;
        if buffers.fresh.is_empty() || self.io().plants(Plant::FreshUnflushed) {
            return;
        }
        for entry in buffers.lines.entries() {
            if entry.stored && entry.words == 0 {
                self.io().flush_line(Site::RedoFresh, entry.line);
            }
        }
        self.io().fence(Site::RedoFresh);
    }

    /// Room for the record: in the ring if it takes at most half of that, else in regions of the
    /// heap that records in the ring name.
    fn reserve_record(&mut self) -> Result<RecordSpace, Abort> {
        let ring_half = self.ring().lines / 2;
        let words = self.lane.buffers.payload.as_words().len();
        let lines = lines_for(words);
        if words <= PAYLOAD_WORDS_MAX && lines <= ring_half {
            let head = self.lane.log.head;
            let space = reserve_lines(self.pool, self.lane.id, head, lines);
            return Ok(RecordSpace { space, parts: Vec::new() });
        }
        self.reserve_elsewhere(ring_half)
    }

    #[cold]
    fn reserve_elsewhere(&mut self, ring_half: u64) -> Result<RecordSpace, Abort> {
        let total = self.lane.buffers.payload.as_words().len();
        let mut parts: Vec<(Region, usize)> = Vec::new();
        let mut from = 0;
        while from < total {
            // A line more than the payload takes, for the word of the final part that says how
            // many came before. Smaller regions hold what whole items fit.
            let lines = lines_for((total - from).min(PAYLOAD_WORDS_MAX - 1)) + 1;
            let region = self.reserve_log_region(lines)?;
            let rest = &self.lane.buffers.payload.as_words()[from..];
            let words = log::prefix_within(rest, region.lines.min(lines) - 1);
            parts.push((region, words));
            from += words;
            if parts.len() as u64 > ring_half {
                return Err(Abort::LogFull { bytes: total as u64 * 8 });
            }
        }
        let head = self.lane.log.head;
        let space = reserve_lines(self.pool, self.lane.id, head, parts.len() as u64);
        Ok(RecordSpace { space, parts })
    }

    /// Stores and flushes the record; returns the position behind it. Its fence is the caller's.
    fn write_record(&mut self, reserved: RecordSpace, seq: Seq) -> u64 {
        let io = self.io();
        let ring = self.ring();
        let RecordSpace { space, parts } = reserved;
        let site = Site::RedoRecord;
        let mut head = self.lane.log.head;
        if let Some(line) = space.wrap_at {
            log::append(io, site, ring, line, RecordKind::Wrap, seq, &[]);
        }
        head = head - head % ring.lines
            + if space.line < head % ring.lines { ring.lines } else { 0 }
            + space.line;
        let payload = std::mem::take(&mut self.lane.buffers.payload);
        let words = payload.as_words();
        let lines = if parts.is_empty() {
            log::append(io, site, ring, space.line, RecordKind::Redo, seq, words)
        } else {
            self.write_parts(&parts, words, seq);
            for (i, (region, _)) in (0..).zip(&parts) {
                let named = [region.at.0, region.lines];
                log::append(io, site, ring, space.line + i, RecordKind::Detached, seq, &named);
            }
            parts.len() as u64
        };
        self.lane.buffers.payload = payload;
        head + lines
    }

    #[cold]
    fn write_parts(&self, parts: &[(Region, usize)], words: &[u64], seq: Seq) {
        let io = self.io();
        let mut rest = words;
        for (i, (region, count)) in parts.iter().enumerate() {
            let (part, tail) = rest.split_at(*count);
            rest = tail;
            let site = Site::RedoRecord;
            if parts.len() == 1 {
                log::append(io, site, *region, 0, RecordKind::Redo, seq, part);
            } else if tail.is_empty() {
                let counted: Vec<u64> = [i as u64].iter().chain(part).copied().collect();
                log::append(io, site, *region, 0, RecordKind::RedoFinal, seq, &counted);
            } else {
                log::append(io, site, *region, 0, RecordKind::RedoPart, seq, part);
            }
        }
    }

    /// Stores everything in place.
    fn install(&self) {
        let buffers = &self.lane.buffers;
        let medium = &self.pool.medium;
        for (entry, content) in buffers.lines.entries().iter().zip(&buffers.contents) {
            for (first, words) in runs(entry.words) {
                let at = entry.line.start().plus(u64::from(first) * 8);
                let words = &content[first as usize..(first + words) as usize];
                match words {
                    [word] => medium.store_u64(at, *word),
                    words => medium.store(at, bytemuck::cast_slice(words)),
                }
            }
        }
        self.store_allocations();
    }

    /// Starts the write-back of what was installed. Nobody waits for it: the lane's next fence
    /// completes it, or the sweeper does.
    fn flush_installed(&self) {
        for entry in self.lane.buffers.lines.entries() {
            if entry.words != 0 {
                self.io().flush_line(Site::RedoData, entry.line);
            }
        }
        self.flush_allocations(Site::RedoData);
    }

    /// R5.
    fn end_blocks_after(&mut self, seq: Seq) {
        let io = self.io();
        let buffers = &mut self.lane.buffers;
        if buffers.freed.is_empty() && buffers.regions.is_empty() {
            return;
        }
        let mut heap = self.pool.heap.lock(&self.pool.medium);
        for block in buffers.freed.drain(..) {
            if io.plants(Plant::NoQuarantine) {
                heap.release(block);
            } else if !io.plants(Plant::FreedAtOnce) {
                heap.release_after(seq, block);
            }
        }
        buffers.regions.drain(..).for_each(|region| heap.release_region_after(seq, region));
    }

    fn fetch_ahead(&self) {
        let ring = self.ring();
        let head = self.lane.log.head % ring.lines;
        for line in head..(head + LINES_AHEAD).min(ring.lines) {
            self.pool.medium.prefetch_write(LineAddr(ring.at.0 / LINE_BYTES + line));
        }
    }

    /// Nothing is in place yet, so nothing needs to be put back. New blocks were nobody's.
    pub(super) fn abort_redo(&mut self) {
        self.release_locks(None);
        self.drop_reservations();
    }
}

/// Where a record will go.
struct RecordSpace {
    space: RingSpace,
    /// Regions of the heap and the words of the payload that each holds; none when the record
    /// itself is in the ring.
    parts: Vec<(Region, usize)>,
}

impl Payload {
    /// Appends words at `at`, to the last item if they continue it.
    fn append_words(&mut self, at: PoolOffset, words: &[u64], most: usize) {
        if !self.extend_last(at, words, most) {
            self.words(at, words.len()).copy_from_slice(words);
        }
    }
}
