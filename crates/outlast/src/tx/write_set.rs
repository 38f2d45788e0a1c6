//! The write set: new words that wait in volatile memory for the commit, and loads over them.

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LINE_BYTES, LineAddr, PoolOffset, line_pieces};

use crate::lines::{LineEntry, runs, word_mask};
use crate::plant::Plant;
use crate::pool::LaneState;
use crate::transact::Abort;
use crate::tx::{Buffers, Tx};

impl<M: Medium> Tx<'_, M> {
    /// Reads a range of which the write set may hold a part.
    pub(crate) fn load_over_write_set(
        &mut self,
        at: PoolOffset,
        out: &mut [u8],
    ) -> Result<(), Abort> {
        self.lane.buffers.spread();
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
    pub(crate) fn load_kept_word(&mut self, at: PoolOffset) -> u64 {
        self.kept_word(at).unwrap_or_else(|| self.pool.medium.load_u64(at))
    }

    /// The write set's content of a word.
    #[inline]
    pub(crate) fn kept_word(&mut self, at: PoolOffset) -> Option<u64> {
        let LaneState { buffers, pending, .. } = &mut *self.lane;
        if buffers.lines.holds_items() {
            return buffers.item_of_word(at);
        }
        let index = buffers.lines.find(at.line())?;
        let (entry, word) = (&buffers.lines.entries()[index], at.in_line() / 8);
        if entry.words >> word & 1 == 0 {
            return None;
        }
        pending.was_seen |= entry.transaction != pending.transaction();
        Some(u64::from_le(buffers.contents[index][word]))
    }

    pub(crate) fn store_to_write_set(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        let mut done = 0;
        for (piece, len) in line_pieces(at, bytes.len()) {
            self.store_piece(piece, &bytes[done..done + len])?;
            done += len;
        }
        Ok(())
    }

    /// Puts a word into the write set of a transaction that may store to its line: at a glance as an item of the
    /// record to come (WAY-5).
    #[inline(always)]
    pub(crate) fn put_word(&mut self, at: PoolOffset, value: u64) {
        if self.pool.io().plants(Plant::WordInPlaceAtOnce) {
            self.pool.medium.store_u64(at, value);
        }
        let Buffers { lines, payload, .. } = &mut self.lane.buffers;
        let put = |number| payload.put_single(number, at, value.to_le());
        if !lines.add_item(at.line(), put) {
            self.put_word_otherwise(at, value);
        }
    }

    #[inline(never)]
    fn put_word_otherwise(&mut self, at: PoolOffset, value: u64) {
        if self.lane.buffers.lines.holds_items() {
            if self.lane.buffers.put_item(at, value) {
                return;
            }
            self.lane.buffers.spread();
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
            content[word] = value.to_le();
            return;
        }
        self.put_word_slow(at, value);
    }

    /// As `put_word`, whatever it takes.
    fn put_word_slow(&mut self, at: PoolOffset, value: u64) {
        let lane = &mut *self.lane;
        let (index, _) = lane.buffers.lines.find_or_add(at.line());
        lane.buffers.add_contents(index);
        lane.save_for_abort(index);
        let Buffers { lines, contents, .. } = &mut lane.buffers;
        let (entry, word) = (lines.entry_mut(index), at.in_line() / 8);
        entry.words |= 1 << word;
        contents[index][word] = value.to_le();
    }

    fn store_piece(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        let line = at.line();
        let (index, new) = self.lane.buffers.lines.find_or_add(line);
        if new {
            self.lane.buffers.add_contents(index);
            if !self.pool.facts.locks_at_commit {
                self.lock_line(line)?;
            }
            self.touch(ByteRange::new(line.start(), LINE_BYTES));
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
        Ok(())
    }

    /// Stores everything in place, but for the bits of blocks.
    #[inline(always)]
    pub(crate) fn install(&self) {
        let buffers = &self.lane.buffers;
        if buffers.lines.holds_items() {
            let items = buffers.payload.singles(buffers.lines.items());
            let items = items.map(|(at, word)| (at, u64::from_le(word)));
            return self.pool.medium.store_u64_each(items);
        }
        let lines = buffers.lines.entries().iter().zip(&buffers.contents);
        let lines = lines.map(|(entry, content)| (entry.line, entry.words, content));
        self.pool.medium.store_words_each(lines);
    }

    /// Nothing is in place yet, so nothing needs to be put back. New blocks belonged to no other transaction.
    pub(crate) fn abort_write_set(&mut self) {
        self.release_locks(None);
        self.drop_reservations();
        if !self.lane.pending.is_empty() {
            self.lane.restore_batch();
        }
    }
}

/// A write set of items (WAY-5).
impl Buffers {
    /// Puts a word in as an item, if its line has none, or one of that word.
    fn put_item(&mut self, at: PoolOffset, value: u64) -> bool {
        self.payload.make_room_for_singles(self.lines.items() + 1);
        let payload = &self.payload;
        let number = match self.lines.find_item(at.line(), |number| payload.single(number).0.line())
        {
            Ok(number) if payload.single(number).0 == at => Some(number),
            Ok(_) => None,
            Err(place) => self.lines.add_item_at(place),
        };
        number.is_some_and(|number| self.payload.put_single(number, at, value.to_le()))
    }

    /// The content of a word that has an item.
    fn item_of_word(&self, at: PoolOffset) -> Option<u64> {
        let line_of = |number| self.payload.single(number).0.line();
        let (place, word) = self.payload.single(self.lines.find_item(at.line(), line_of).ok()?);
        (place == at).then(|| u64::from_le(word))
    }

    /// A write set of items becomes one of lines and their contents.
    pub(crate) fn spread(&mut self) {
        if self.lines.holds_items() {
            self.spread_items();
        }
    }

    #[inline(never)]
    fn spread_items(&mut self) {
        for number in 0..self.lines.end_items() {
            let (at, word) = self.payload.single(number);
            let (index, _) = self.lines.find_or_add(at.line());
            self.add_contents(index);
            self.lines.entry_mut(index).words |= 1 << (at.in_line() / 8);
            self.contents[index][at.in_line() / 8] = word;
        }
    }

    /// The lines that the write set stores to.
    pub(crate) fn written_lines(&self) -> impl Iterator<Item = LineAddr> {
        let entries = self.lines.entries().iter().filter(|entry| entry.words != 0);
        let items = self.payload.singles(self.lines.items());
        entries.map(|entry| entry.line).chain(items.map(|(at, _)| at.line()))
    }
}
