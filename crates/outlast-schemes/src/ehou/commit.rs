//! How transactions end.
//!
//! 1. What the transaction stored leaves the caches, and is durable in new blocks.
//! 2. The lane's header says that its commit has begun: the commit point, one durable step.
//! 3. Each spare block's word names the superseded block, and behind that the map names the new one:
//!    in the persistence domain at once, or of what overflowed, in the map itself. A crash finds the
//!    records of all of it in the reclaim list and the log, so any part of this may be repeated.
//! 4. The header says that it has ended, which voids its records.

use outlast_sim::timed::{Answer, Cycle, Kept, Outbox};
use outlast_trace::LineAddr;

use super::config::{Fault, Persisting};
use super::layout::{RECORDS, WORDS, words_in_line};
use super::ports::{AIT, COMMIT, Ehou, Entry, LOG, Place, State, Token, Write};

impl Ehou {
    /// A lane's transaction ends.
    pub(super) fn ends(&mut self, now: Cycle, lane: u16, out: &mut Outbox<Token>) -> Answer {
        let leaves_lines = self.has(Fault::LinesLeft);
        let of = &mut self.lanes[usize::from(lane)];
        if !of.is_open {
            return Answer::Proceed;
        }
        if of.left.is_none() {
            if !of.unwritten.is_empty() && !leaves_lines {
                // What is stored in this very cycle is forced out in the next one.
                if of.unwritten.values().any(|stored| *stored >= now) {
                    out.call(now.next(), Token::Look);
                } else if !of.is_forced {
                    of.is_forced = true;
                    of.unwritten.keys().for_each(|line| out.force(*line));
                }
                return Answer::Wait;
            }
            let left = self.commits(lane, out);
            self.lanes[usize::from(lane)].left = Some(left);
        }
        if self.lanes[usize::from(lane)].left != Some(0) {
            return Answer::Wait;
        }
        self.has_ended(now, lane, out);
        Answer::Proceed
    }

    /// A lane's transaction commits. Returns for how much it has to wait before it has ended.
    fn commits(&mut self, lane: u16, out: &mut Outbox<Token>) -> u32 {
        let of = &mut self.lanes[usize::from(lane)];
        if of.writes.is_empty() {
            return 0;
        }
        let (tx, written) = (of.tx, of.log_lines_written);
        let writes = std::mem::take(&mut of.writes);
        if !self.has(Fault::OneByOne) {
            self.keep_header(lane, 0, tx, out);
        }
        if self.has(Fault::LogCleared) {
            self.keep_header(lane, 1, tx, out);
        }
        let mut left = written;
        let mut lines: Vec<u64> = Vec::new();
        for line in 0..written {
            let at = self.config.layout.log_line(lane.into(), u64::from(line) * RECORDS);
            out.read_inside(at, LOG, Token::Replayed { lane, line });
        }
        for write in &writes {
            match write.place {
                Place::Reclaim(_) => {
                    let is_eager = self.config.persisting == Persisting::Eager;
                    self.flips(write, out);
                    self.keep_word(
                        write.block.into(),
                        u64::from(write.new) ^ u64::from(write.block),
                        AIT,
                        out,
                    );
                    self.sets(write, if is_eager { State::Persisting } else { State::Committed });
                    if is_eager && self.config.whole_lines {
                        lines.push(write.block.into());
                    } else if is_eager {
                        self.write_entry(write.block.into(), Token::Applied(lane), out);
                        left += 1;
                    }
                }
                Place::Log(number) if number / RECORDS as u32 >= written => {
                    self.applies(write, lane, out);
                    left += 1;
                }
                Place::Log(_) => {}
            }
        }
        lines.sort_unstable();
        lines.dedup_by_key(|block| *block / WORDS);
        left += lines.len() as u32;
        for block in lines {
            self.write_entry(block, Token::Applied(lane), out);
        }
        self.lanes[usize::from(lane)].writes = writes;
        left
    }

    /// A line of a log has been read: its records are applied.
    pub(super) fn replay(&mut self, lane: u16, line: u32, out: &mut Outbox<Token>) {
        let writes = std::mem::take(&mut self.lanes[usize::from(lane)].writes);
        let mut applied = 0;
        for write in &writes {
            if matches!(write.place, Place::Log(number) if number / RECORDS as u32 == line) {
                self.applies(write, lane, out);
                applied += 1;
            }
        }
        let of = &mut self.lanes[usize::from(lane)];
        of.writes = writes;
        of.left = of.left.map(|left| left + applied);
        self.has_waited(lane, out);
    }

    /// One thing less to wait for.
    pub(super) fn has_waited(&mut self, lane: u16, out: &mut Outbox<Token>) {
        let left = &mut self.lanes[usize::from(lane)].left;
        *left = left.map(|left| left - 1);
        if *left == Some(0) {
            out.wake();
        }
    }

    /// A block that overflowed: its entry goes to the map.
    fn applies(&mut self, write: &Write, lane: u16, out: &mut Outbox<Token>) {
        self.flips(write, out);
        self.write_entry(write.block.into(), Token::Applied(lane), out);
        self.sets(write, State::Persisting);
    }

    /// The superseded block is free, and the new one is what recovery finds.
    fn flips(&mut self, write: &Write, out: &mut Outbox<Token>) {
        let &Write { block, new, slot, .. } = write;
        let old = std::mem::replace(&mut self.committed[block as usize], new);
        if !self.has(Fault::FreedEarly) {
            self.free[slot as usize] = old;
        }
        if !self.has(Fault::FreedVolatile) {
            self.keep_free(slot, out);
        }
    }

    /// The cached entry of a block, if there is one, becomes this.
    fn sets(&mut self, write: &Write, state: State) {
        if let Some(at) = self.cache.find(write.block.into()) {
            *self.cache.value(at) = Entry { state, write: 0 };
        }
    }

    /// A transaction whose entries are all in their places has ended.
    fn has_ended(&mut self, now: Cycle, lane: u16, out: &mut Outbox<Token>) {
        let writes = std::mem::take(&mut self.lanes[usize::from(lane)].writes);
        if !writes.is_empty() {
            let tx = self.lanes[usize::from(lane)].tx;
            if !self.has(Fault::LogCleared) {
                self.keep_header(lane, 1, tx, out);
            }
            for write in &writes {
                if let Some(at) = self.cache.find(write.block.into())
                    && self.cache.value(at).state == State::Persisting
                {
                    *self.cache.value(at) = Entry::default();
                }
                if !self.has(Fault::FreedEarly) {
                    self.spares.push(write.slot);
                }
            }
        }
        self.closes(now, lane, writes, out);
    }

    /// What a transaction had goes back, its records are void.
    fn closes(&mut self, now: Cycle, lane: u16, mut writes: Vec<Write>, out: &mut Outbox<Token>) {
        let (layout, index) = (self.config.layout, u64::from(lane));
        let keeps_list = self.has(Fault::ReclaimLate);
        let of = &mut self.lanes[usize::from(lane)];
        if !keeps_list {
            for place in (0..of.places_used).step_by(RECORDS as usize) {
                out.unkeep(layout.reclaim_line(index, place.into()));
            }
        }
        for line in u64::from(of.log_lines_written)..(of.log.len() as u64).div_ceil(RECORDS) {
            out.unkeep(layout.log_line(index, line * RECORDS));
        }
        if !of.log.is_empty() {
            of.log.clear();
            of.logged.clear();
            of.bloom.clear();
            of.log_lines_written = 0;
        }
        let in_list = writes.iter().rev().filter_map(|write| match write.place {
            Place::Reclaim(place) => Some(place),
            Place::Log(_) => None,
        });
        of.places.extend(in_list);
        of.places_used = 0;
        of.tx += u64::from(!writes.is_empty());
        writes.clear();
        of.writes = writes;
        of.unwritten.clear();
        (of.is_open, of.is_forced, of.left) = (false, false, None);
        for block in of.claimed.drain(..) {
            self.claims[block as usize] = 0;
        }
        self.retry_starved(now, out);
        out.wake();
    }

    /// A lane's transaction is given up: its blocks are free, and each of the program's lies where it
    /// did.
    pub(super) fn aborts(&mut self, now: Cycle, lane: u16, out: &mut Outbox<Token>) -> Answer {
        let index = usize::from(lane);
        if !self.lanes[index].is_open {
            return Answer::Proceed;
        }
        let block_lines = self.config.layout.block_lines;
        for &block in &self.lanes[index].claimed {
            let first = LineAddr(u64::from(block) * block_lines);
            (0..block_lines).for_each(|number| out.discard(first.plus(number)));
        }
        let is_copied =
            |(block, _): &(u64, u8)| usize::from(self.claims[*block as usize]) == index + 1;
        if self.copying.iter().any(is_copied) {
            return Answer::Wait; // What is being copied has its place until then.
        }
        self.stats.aborts += 1;
        let writes = std::mem::take(&mut self.lanes[index].writes);
        for write in &writes {
            if !self.has(Fault::AbortStays) {
                self.newest[write.block as usize] = self.committed[write.block as usize];
                self.sets(write, State::Clean);
            }
            self.free[write.slot as usize] = write.new;
            if !self.has(Fault::AbortLeaks) {
                self.keep_free(write.slot, out);
            }
            self.spares.push(write.slot);
        }
        if !writes.is_empty() {
            let tx = self.lanes[index].tx;
            self.keep_header(lane, 1, tx, out);
        }
        self.closes(now, lane, writes, out);
        Answer::Proceed
    }

    /// Keeps a word of a lane's header.
    fn keep_header(&self, lane: u16, word: u64, value: u64, out: &mut Outbox<Token>) {
        let (words, data) = words_in_line(word, &[value]);
        let line = self.config.layout.header(lane.into());
        out.keep(Kept { line, words, data, cause: COMMIT });
    }
}
