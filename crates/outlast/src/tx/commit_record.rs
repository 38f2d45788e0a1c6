//! The record of a commit: new words and the bits of blocks, under one number, in the ring or
//! beside it.

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LINE_BYTES, LineAddr};

use crate::alloc::{Block, ChunkWord, Reserved};
use crate::collections::hash_key;
use crate::io::Site;
use crate::lines::LineEntry;
use crate::log::{self, PAYLOAD_WORDS_MAX, Place, Record, RecordKind, Region, lines_for};
use crate::plant::Plant;
use crate::pool::LaneState;
use crate::seq::Seq;
use crate::transact::Abort;
use crate::tx::blocks::reserved_word;
use crate::tx::placed::Placed;
use crate::tx::{Buffers, Tx};
use crate::writeback::reserve_lines;

/// Lines behind the head that are fetched after a commit, ready for the next one.
const LINES_AHEAD: u64 = 4;

/// Most words in one item; longer runs are split so that every region has room for some.
pub(crate) const ITEM_WORDS_MAX: usize = 384;

impl<M: Medium> Tx<'_, M> {
    /// Room for what stands in place, of all words but those of new blocks.
    pub(crate) fn gather_old(&mut self) {
        let new = Placed::of(self.lane.buffers.allocated.iter().copied());
        let Buffers { lines, contents, payload, .. } = &mut self.lane.buffers;
        let olds = lines.entries().iter().map(|entry| {
            let mask = entry.words & !new.words_in(entry.line);
            (entry.line, mask)
        });
        payload.append_old_lines(olds, contents);
    }

    /// Gathers what becomes of blocks, taken and given back.
    #[inline]
    pub(crate) fn gather_allocations(&mut self) {
        if !self.lane.buffers.allocated.is_empty() || !self.lane.buffers.freed.is_empty() {
            self.gather_all_allocations();
        }
    }

    fn gather_all_allocations(&mut self) {
        if self.io().plants(Plant::AllocationNotLogged) {
            return;
        }
        let mut payload = std::mem::take(&mut self.lane.buffers.payload);
        for block in self.taken() {
            match block.reserved {
                Reserved::Bit { word, bit, .. } => {
                    if self.keeps_sums() && !self.logs_contents(block) {
                        let hash = self.hash_of(block);
                        payload.taken(block.at, block.bytes as usize / 8, hash);
                    }
                    payload.set_bit(word, bit);
                }
                Reserved::Run { word, large, .. } => {
                    payload.append_words(word, &[large.to_word(word)], ITEM_WORDS_MAX);
                }
            }
        }
        for block in self.given_back() {
            match block.reserved {
                Reserved::Bit { word, bit, .. } => payload.clear_bit(word, bit),
                Reserved::Run { word, .. } => {
                    payload.append_words(word, &[ChunkWord::Free.to_word(word)], ITEM_WORDS_MAX);
                }
            }
        }
        self.lane.buffers.payload = payload;
    }

    /// The content of a new block.
    fn hash_of(&self, block: Block) -> u64 {
        let mut content = vec![0; block.bytes as usize];
        self.pool.medium.load(block.at, &mut content);
        hash_key(0, &content)
    }

    /// Room for the record: in the ring if it takes at most `most` lines, else in regions of the heap
    /// that records in the ring name.
    #[inline(always)]
    pub(crate) fn reserve_record(&mut self, most: u64) -> Result<RecordSpace, Abort> {
        let space = match self.room_in_ring(most) {
            Some(room) => room,
            None => self.room_otherwise(most)?,
        };
        self.reserve_room(&space);
        Ok(space)
    }

    /// The record's lines of the ring, if it is short enough for that.
    #[inline(always)]
    pub(crate) fn room_in_ring(&self, most: u64) -> Option<RecordSpace> {
        let words = self.lane.buffers.payload.len();
        let lines = self.slot.first.lines_for(words);
        (words <= PAYLOAD_WORDS_MAX && lines <= most).then_some(RecordSpace { lines, parts: None })
    }

    /// Makes the ring longer where a record of `lines` lines has no place in it. Whether it has one then.
    fn lengthens_ring_for(&mut self, lines: u64) -> bool {
        let slot = self.slot;
        slot.lines() < slot.ring.lines
            && lines <= slot.ring.lines / 2
            && self.pool.lengthen_ring(&mut self.lane, lines)
            && lines <= slot.longest_record()
    }

    /// For a record that is longer than `most` lines: in a longer ring, or elsewhere.
    #[cold]
    pub(crate) fn room_otherwise(&mut self, most: u64) -> Result<RecordSpace, Abort> {
        let words = self.lane.buffers.payload.len();
        let lines = self.slot.first.lines_for(words);
        if words <= PAYLOAD_WORDS_MAX && self.lengthens_ring_for(lines) {
            return Ok(RecordSpace { lines, parts: None });
        }
        let parts = self.reserve_elsewhere(most)?;
        Ok(RecordSpace { lines: parts.len() as u64, parts: Some(parts) })
    }

    /// Waits until the ring has the room.
    #[inline(always)]
    pub(crate) fn reserve_room(&mut self, space: &RecordSpace) {
        reserve_lines(self.pool, self.slot, &mut self.lane, space.lines);
    }

    fn reserve_elsewhere(&mut self, most: u64) -> Result<Vec<(Region, usize)>, Abort> {
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
            if parts.len() as u64 > most {
                return Err(Abort::LogFull { bytes: total as u64 * 8 });
            }
        }
        Ok(parts)
    }

    /// Stores and flushes the record, or streams it; returns the position behind it. Its fence is the
    /// caller's.
    #[inline(always)]
    pub(crate) fn write_record(&mut self, reserved: RecordSpace, seq: Seq) -> u64 {
        let (io, site) = (self.io(), Site::RedoRecord);
        let RecordSpace { lines, parts } = reserved;
        let slot = self.slot;
        let LaneState { log, buffers, .. } = &mut *self.lane;
        log.begin_record(io, site, slot, seq, lines);
        match parts {
            None => {
                let (record, payload) = ((RecordKind::Redo, seq, lines), &mut buffers.payload);
                log.place().append(io, site, record, payload, self.pool.stream_from);
            }
            Some(parts) => self.write_parts(&parts, seq),
        }
        // Behind the fence it would be a store that waits.
        self.lane.buffers.payload.clear();
        self.lane.log.end_record(lines)
    }

    /// The record in regions of the heap, and records in the ring that name them.
    #[cold]
    fn write_parts(&self, parts: &[(Region, usize)], seq: Seq) {
        let io = self.io();
        let mut rest = self.lane.buffers.payload.as_words();
        for (i, (region, count)) in parts.iter().enumerate() {
            let (part, tail) = rest.split_at(*count);
            rest = tail;
            let counted: Vec<u64>;
            let (kind, words) = match tail.is_empty() {
                true if parts.len() == 1 => (RecordKind::Redo, part),
                true => {
                    counted = [&[i as u64], part].concat();
                    (RecordKind::RedoFinal, &counted[..])
                }
                false => (RecordKind::RedoPart, part),
            };
            log::append(io, Site::RedoRecord, *region, 0, Record::new(kind, seq, words));
        }
        let first = self.lane.log.place();
        for (place, (region, _)) in (0..).map(|line| first.further(line)).zip(parts) {
            let named = [region.at.0, region.lines];
            place.append_words(io, Site::RedoRecord, (RecordKind::Detached, seq), &named, 1);
        }
    }

    /// REDO-5: blocks given back are free when the floor has passed the commit, which has its number.
    #[inline(always)]
    pub(crate) fn end_blocks_after(&mut self, seq: Seq) {
        let buffers = &self.lane.buffers;
        if !buffers.freed.is_empty() || !buffers.regions.is_empty() {
            self.quarantine_blocks(seq);
        }
    }

    /// Where lanes flush later what their records store: tells the lane what the one that ends at
    /// position `head` puts in place.
    #[inline(always)]
    pub(crate) fn note_to_cover(&mut self, head: u64, is_in_place: impl Fn(&LineEntry) -> bool) {
        if !self.pool.facts.covers {
            return;
        }
        let LaneState { buffers, deferred, .. } = &mut *self.lane;
        if !buffers.regions.is_empty() {
            return deferred.note_record_in_log(head);
        }
        let entries = buffers.lines.entries();
        let lines = entries.iter().filter(|entry| is_in_place(entry)).map(|entry| entry.line);
        if buffers.allocated.is_empty() && buffers.freed.is_empty() {
            return deferred.note_record(head, entries.len(), lines);
        }
        let blocks = buffers.allocated.iter().chain(&buffers.freed);
        let most = entries.len() + buffers.allocated.len() + buffers.freed.len();
        let words = blocks.map(|block| reserved_word(*block).line());
        deferred.note_record(head, most, lines.chain(words));
    }

    /// The same of a transaction that has changed lines and nothing else.
    #[inline(always)]
    pub(crate) fn note_lines_to_cover(&mut self, head: u64) {
        if self.pool.facts.covers {
            let LaneState { buffers, deferred, .. } = &mut *self.lane;
            let Buffers { lines, payload, .. } = buffers;
            if lines.holds_items() {
                deferred.note_lines(head, payload.singles(lines.items()).map(|(at, _)| at.line()));
            } else {
                debug_assert!(lines.entries().iter().all(|entry| entry.words != 0));
                deferred.note_lines(head, lines.entries().iter().map(|entry| entry.line));
            }
        }
    }

    #[inline(never)]
    fn quarantine_blocks(&mut self, seq: Seq) {
        let io = self.io();
        if !self.lane.buffers.is_alone && self.pool.bias.is_there() && self.keep_freed(seq) {
            return;
        }
        let buffers = &mut self.lane.buffers;
        if io.plants(Plant::PendingLostWithFree)
            && let Some(history) = &self.pool.plan.history
        {
            let blocks = buffers.freed.iter().map(|block| ByteRange::new(block.at, block.bytes));
            let lines = blocks.flat_map(ByteRange::lines);
            lines.for_each(|line| history.forget(&self.pool.medium, line));
        }
        let mut heap = self.pool.heap.lock(&self.pool.medium);
        for block in &buffers.freed {
            if io.plants(Plant::NoQuarantine) {
                heap.release(*block);
            } else if !io.plants(Plant::FreedAtOnce) {
                heap.release_after(seq, *block);
            }
        }
        buffers.regions.iter().for_each(|region| heap.release_region_after(seq, *region));
    }

    /// Leaves it to the lane to tell the heap later of blocks given back, if that may be.
    fn keep_freed(&mut self, seq: Seq) -> bool {
        let io = self.io();
        let is_planted = [Plant::PendingLostWithFree, Plant::NoQuarantine, Plant::FreedAtOnce]
            .into_iter()
            .any(|plant| io.plants(plant));
        let LaneState { buffers, heap, .. } = &mut *self.lane;
        !is_planted && buffers.regions.is_empty() && heap.keep_freed(seq, &buffers.freed)
    }

    /// Fetches what comes behind the lane's last record in the ring, unless all records go past the
    /// caches.
    #[inline]
    pub(crate) fn fetch_ahead(&self) {
        let Place { region: ring, line, lap } = self.lane.log.place();
        if lap.is_some() && self.pool.stream_from <= 1 {
            return;
        }
        for line in line..(line + LINES_AHEAD).min(ring.lines) {
            self.pool.medium.prefetch_write(LineAddr(ring.at.0 / LINE_BYTES + line));
        }
    }
}

/// Room for a record.
pub(crate) struct RecordSpace {
    /// How much of the ring it takes.
    lines: u64,
    /// Regions of the heap and the words of the payload that each holds; `None` when the record
    /// itself is in the ring.
    parts: Option<Vec<(Region, usize)>>,
}
