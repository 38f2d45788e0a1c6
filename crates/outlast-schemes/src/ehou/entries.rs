//! Entries of the AIT cache: how they come, become speculative, and leave.
//!
//! ```text
//!            a write of a transaction's block            commit
//!   clean ──────────────────────────────> speculative ─────────> committed
//!     ^      committed ones are written        │ no other victim     │ overwritten, evicted,
//!     │      to the map first                  v                     │ or at once (eager)
//!     │                                   overflow log               v
//!     └────────────────────────────────────────┴──── applied ───── in the map
//! ```

use outlast_sim::Cause;
use outlast_sim::timed::{Copied, Cycle, Kept, Outbox, SchemeWrite, Waiting};
use outlast_trace::LineAddr;

use super::config::Fault;
use super::layout::{RECORDS, Record, TAKEN, WORDS, words_in_line};
use super::ports::{AIT, COPY, Ehou, Entry, FREE, LOG, Place, RECLAIM, State, Token, Write};

impl Ehou {
    /// Where a write of a program's line goes whose entry is cached; nowhere yet while its block is
    /// being copied.
    pub(super) fn write_goes(
        &mut self,
        at: usize,
        block: u64,
        line: LineAddr,
        words: u8,
        out: &mut Outbox<Token>,
    ) -> Option<LineAddr> {
        let lane = usize::from(self.claims[block as usize]).checked_sub(1);
        match (lane, self.cache.value(at).state) {
            (_, State::Copying) => None,
            (None, _) | (_, State::Speculative) => Some(self.place_of(line)),
            (Some(lane), state) => self.becomes_speculative(lane, at, state, line, words, out),
        }
    }

    /// A transaction's first write of a block: a free block takes it.
    fn becomes_speculative(
        &mut self,
        lane: usize,
        at: usize,
        state: State,
        line: LineAddr,
        words: u8,
        out: &mut Outbox<Token>,
    ) -> Option<LineAddr> {
        let layout = self.config.layout;
        let block = layout.block_of(line);
        if state == State::Committed {
            self.stats.overwritten += 1;
            self.leaves_for_map(block, Fault::Overwritten, out);
        }
        let slot = self.spares.pop().expect("there are spare blocks for all transactions at once");
        let new = self.free[slot as usize];
        let of = &mut self.lanes[lane];
        let place = of.places.pop().expect("the list has room for all that is cached");
        of.places_used = of.places_used.max(place + 1);
        let write = of.writes.len() as u32;
        of.writes.push(Write { block: block as u32, new, slot, place: Place::Reclaim(place) });
        let record = Record { tx: of.tx as u32, block: block as u32, slot, new };
        // The record first: what is taken is in the list.
        keep_record(layout.reclaim_line(lane as u64, place.into()), place, record, RECLAIM, out);
        self.free[slot as usize] = TAKEN as u32;
        self.keep_free(slot, out);
        if self.has(Fault::FreedEarly) {
            self.free[slot as usize] = self.committed[block as usize];
            self.spares.push(slot);
        }
        if self.has(Fault::DrainsSpeculative) {
            self.keep_word(block, u64::from(new) ^ block, AIT, out);
        }
        // What of the block is not written has to be copied.
        let number = line.0 % layout.block_lines;
        let (before, behind) = match words {
            u8::MAX => (0..number, number + 1..layout.block_lines),
            _ => (0..layout.block_lines, 0..0),
        };
        let mut copies = 0;
        for range in [before, behind].into_iter().filter(|range| !range.is_empty()) {
            let first = |block: u32| LineAddr(u64::from(block) * layout.block_lines + range.start);
            out.copy(Copied {
                from: first(self.newest[block as usize]),
                to: first(new),
                lines: range.end - range.start,
                cause: COPY,
                token: Token::Copied(block),
            });
            copies += 1;
        }
        if copies > 0 {
            *self.cache.value(at) = Entry { state: State::Copying, write };
            self.copying.push((block, copies));
            return None;
        }
        *self.cache.value(at) = Entry { state: State::Speculative, write };
        self.newest[block as usize] = new;
        Some(self.place_of(line))
    }

    /// Some lines of a block have been copied.
    pub(super) fn copied(&mut self, now: Cycle, block: u64, out: &mut Outbox<Token>) {
        let Some(number) = self.copying.iter().position(|(of, _)| *of == block) else { return };
        self.copying[number].1 -= 1;
        if self.copying[number].1 > 0 {
            return;
        }
        self.copying.swap_remove(number);
        let at = self.cache.find(block).expect("an entry stays while its block is copied");
        let lane = usize::from(self.claims[block as usize]) - 1;
        let entry = self.cache.value(at);
        entry.state = State::Speculative;
        self.newest[block as usize] = self.lanes[lane].writes[entry.write as usize].new;
        self.serve(now, block, at, out);
        self.retry_starved(now, out);
        out.wake(); // An abort waits for copies.
    }

    /// A block's entry is known: it is cached if there is room, and what waits for it goes on.
    pub(super) fn has_entry(&mut self, now: Cycle, block: u64, out: &mut Outbox<Token>) {
        let at = match self.cache.find(block) {
            Some(at) => at,
            None => {
                let logs = self.config.logs;
                let rank = |entry: &Entry| match entry.state {
                    State::Clean | State::Persisting => Some(0),
                    State::Committed => Some(1),
                    State::Speculative if logs => Some(2),
                    State::Speculative | State::Copying => None,
                };
                let Some(at) = self.cache.room(block, rank) else {
                    return self.starves(now, block, out);
                };
                self.leaves(at, out);
                let state = match self.logged(block) {
                    Some(write) => Entry { state: State::Speculative, write },
                    None => Entry::default(),
                };
                self.cache.put(at, block, state);
                at
            }
        };
        self.serve(now, block, at, out);
    }

    /// The place in its write set of a block whose entry is in the log of a transaction that runs.
    fn logged(&self, block: u64) -> Option<u32> {
        let lane = usize::from(self.claims[block as usize]).checked_sub(1)?;
        if self.has(Fault::LogUnread) {
            return None;
        }
        self.lanes[lane].logged.get(&(block as u32)).copied()
    }

    /// No entry may make room: reads need none, and writes wait for a transaction to end.
    fn starves(&mut self, now: Cycle, block: u64, out: &mut Outbox<Token>) {
        while let Some(read) = self.lookups.next_read(block) {
            self.release(now, read, out);
        }
        if self.lookups.is_waited_for(block) {
            self.starved.push(block);
        }
    }

    pub(super) fn retry_starved(&mut self, now: Cycle, out: &mut Outbox<Token>) {
        for block in std::mem::take(&mut self.starved) {
            self.has_entry(now, block, out);
        }
    }

    fn release(&self, now: Cycle, asked: Waiting, out: &mut Outbox<Token>) {
        let (Waiting::Read(_, line, _) | Waiting::Write(_, line, _, _)) = asked;
        asked.release(now, self.place_of(line), out);
    }

    /// What waits for a block with a cached entry goes on, in its order.
    fn serve(&mut self, now: Cycle, block: u64, at: usize, out: &mut Outbox<Token>) {
        while let Some(asked) = self.lookups.first(block) {
            if let Waiting::Write(_, line, _, words) = asked
                && self.write_goes(at, block, line, words, out).is_none()
            {
                return;
            }
            self.lookups.next(block);
            self.release(now, asked, out);
        }
    }

    /// The entry at a position makes room.
    fn leaves(&mut self, at: usize, out: &mut Outbox<Token>) {
        let Some((block, entry)) = self.cache.get(at) else { return };
        match entry.state {
            State::Committed => {
                self.stats.evicted += 1;
                self.leaves_for_map(block, Fault::Evicted, out);
            }
            State::Speculative => self.overflows(block, entry.write, out),
            State::Clean | State::Persisting | State::Copying => {}
        }
    }

    /// A committed entry is written to the map.
    fn leaves_for_map(&mut self, block: u64, fault: Fault, out: &mut Outbox<Token>) {
        match self.has(fault) {
            true => out.unkeep(self.config.layout.map_line(block)),
            false => {
                self.write_entry(block, Token::Written, out);
                self.have_left_with(block);
            }
        }
    }

    /// A block's entry is on its way to the map: so are the committed ones of its line, if they count.
    fn have_left_with(&mut self, block: u64) {
        if !self.config.whole_lines {
            return;
        }
        let first = block / WORDS * WORDS;
        for block in first..first + WORDS {
            if let Some(at) = self.cache.find(block)
                && self.cache.value(at).state == State::Committed
            {
                *self.cache.value(at) = Entry::default();
            }
        }
    }

    /// A speculative entry is evicted: its record goes to the overflow log, unless it is there.
    fn overflows(&mut self, block: u64, write: u32, out: &mut Outbox<Token>) {
        let lane = usize::from(self.claims[block as usize]) - 1;
        let Write { new, slot, place, .. } = self.lanes[lane].writes[write as usize];
        let Place::Reclaim(place) = place else { return };
        self.stats.overflowed += 1;
        let (layout, of) = (self.config.layout, &mut self.lanes[lane]);
        let record = Record { tx: of.tx as u32, block: block as u32, slot, new };
        let number = of.log.len() as u32;
        let line = number / RECORDS as u32;
        of.log.push(record);
        of.logged.insert(block as u32, write);
        of.bloom.insert(block);
        of.writes[write as usize].place = Place::Log(number);
        of.places.push(place);
        let is_new_line = number.is_multiple_of(RECORDS as u32);
        if is_new_line && u64::from(line - of.log_lines_written) >= self.config.buffer_lines {
            self.write_log_line(lane, out);
        }
        if self.has(Fault::LogToMap) || self.has(Fault::AppliedEarly) {
            let before = std::mem::replace(&mut self.committed[block as usize], new);
            self.write_entry(block, Token::Written, out);
            self.committed[block as usize] = before;
        }
        if !self.has(Fault::LogToMap) {
            let line = layout.log_line(lane as u64, number.into());
            keep_record(line, number, record, LOG, out);
        }
        // Only now is it in the log, and the list's place may be used again.
        let nothing = Record::from_words([0, 0]);
        keep_record(layout.reclaim_line(lane as u64, place.into()), place, nothing, RECLAIM, out);
    }

    /// The oldest line of a log's buffer leaves it.
    fn write_log_line(&mut self, lane: usize, out: &mut Outbox<Token>) {
        let of = &mut self.lanes[lane];
        let first = of.log_lines_written as usize * RECORDS as usize;
        let words: Vec<u64> =
            of.log[first..first + RECORDS as usize].iter().flat_map(|of| of.words()).collect();
        let (words, data) = words_in_line(0, &words);
        let line = self.config.layout.log_line(lane as u64, first as u64);
        out.write_inside(SchemeWrite { line, words, data, cause: LOG, token: Token::Written });
        of.log_lines_written += 1;
    }

    /// Looks for a block in the logs, lane after lane and in each from the newest line on; `line` was
    /// read. What no log has, the map has.
    pub(super) fn search(
        &mut self,
        now: Cycle,
        block: u64,
        lane: u16,
        line: Option<u32>,
        out: &mut Outbox<Token>,
    ) {
        let lanes = if self.has(Fault::LogUnread) { 0 } else { self.lanes.len() as u16 };
        let mut read = line;
        for lane in lane..lanes {
            let of = &self.lanes[usize::from(lane)];
            let is_read = read.take();
            if is_read.is_none() && (of.log.is_empty() || !of.bloom.may_have(block)) {
                continue;
            }
            // The buffer takes no read, then line after line.
            let from = is_read.unwrap_or(of.log_lines_written);
            let found = of.logged.get(&(block as u32)).map(|write| of.writes[*write as usize]);
            if let Some(Write { place: Place::Log(number), .. }) = found
                && number / RECORDS as u32 >= from
            {
                self.stats.found_in_log += 1;
                return self.has_entry(now, block, out);
            }
            if let Some(line) = from.checked_sub(1) {
                let at = self.config.layout.log_line(lane.into(), u64::from(line) * RECORDS);
                return out.read_inside(at, LOG, Token::Searched { block, lane, line });
            }
            self.stats.found_in_none += 1;
        }
        out.read_inside(self.config.layout.map_line(block), AIT, Token::Entry(block));
    }

    /// Writes a block's committed entry to the map: its line with all that have committed.
    pub(super) fn write_entry(&self, block: u64, token: Token, out: &mut Outbox<Token>) {
        let first = block / WORDS * WORDS;
        let words: [u64; WORDS as usize] = std::array::from_fn(|number| {
            let block = first + number as u64;
            u64::from(self.committed[block as usize]) ^ block
        });
        let (words, data) = words_in_line(0, &words);
        let line = self.config.layout.map_line(block);
        out.write_inside(SchemeWrite { line, words, data, cause: AIT, token });
    }

    /// Keeps what a spare block's word names.
    pub(super) fn keep_free(&self, slot: u32, out: &mut Outbox<Token>) {
        let spare = self.config.layout.blocks + u64::from(slot);
        let word = match self.free[slot as usize] {
            free if free == TAKEN as u32 => TAKEN,
            free => u64::from(free) ^ spare,
        };
        self.keep_word(spare, word, FREE, out);
    }

    /// Keeps a word of the map.
    pub(super) fn keep_word(&self, block: u64, word: u64, cause: Cause, out: &mut Outbox<Token>) {
        let (words, data) = words_in_line(block % WORDS, &[word]);
        out.keep(Kept { line: self.config.layout.map_line(block), words, data, cause });
    }
}

fn keep_record(line: LineAddr, number: u32, record: Record, cause: Cause, out: &mut Outbox<Token>) {
    let (words, data) = record.in_line(number.into());
    out.keep(Kept { line, words, data, cause });
}
