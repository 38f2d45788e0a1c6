//! Commits: lines, then the journal, then bitmaps.

use outlast_sim::timed::{Outbox, SchemeWrite};

use super::lane::{Ending, OfPage};
use super::layout::{FELL_BACK, RECORDS, Record};
use super::plants::Fault;
use super::ports::{JOURNAL, SubPages, Token};
use crate::shared::ring::{Commit, Header};

impl SubPages {
    /// Journals a transaction whose lines are all durable, if its end was asked for.
    pub(super) fn seal(&mut self, lane: usize, out: &mut Outbox<Token>) {
        let of = &self.lanes[lane];
        let is_flushed = of.durable == of.lines.len() || self.has(Fault::SealsEarly);
        if of.ending != Ending::Flushing || !is_flushed {
            return;
        }
        // A page's record has all of its bitmap: two commits with the same page go one after the other.
        let is_busy = |of: &OfPage| of.lines != 0 && self.pages.get(of.page).is_committing;
        if of.pages.iter().any(is_busy) {
            self.waits = true;
            return;
        }
        let mut records: Vec<Record> = of
            .pages
            .iter()
            // A transaction that aborts has none.
            .filter(|of| of.is_shadowed && of.lines != 0)
            .map(|of| {
                let page = self.pages.get(of.page);
                let bitmap = page.committed.bitmap ^ of.lines;
                Record { page: of.page, other: page.other, bitmap }
            })
            .collect();
        let fell_back = of.pages.iter().any(|of| !of.is_shadowed);
        if fell_back && !self.has(Fault::ForgetsFallBack) {
            records.push(Record { page: FELL_BACK, other: 0, bitmap: of.fell_back + 1 });
        }
        let slots = records.len().div_ceil(RECORDS).max(1);
        if !self.journal.has_room_for(lane, slots as u64) {
            self.counts.journal_full += 1;
            self.waits = true;
            self.journal.want_room();
            self.checkpoint(out);
            return;
        }
        for at in 0..self.lanes[lane].pages.len() {
            let OfPage { page, lines, .. } = self.lanes[lane].pages[at];
            self.pages.get_mut(page).is_committing |= lines != 0;
        }
        if records.is_empty() {
            records.push(Record { page: FELL_BACK, other: 0, bitmap: 0 });
        }
        let mut chunks = records.chunks(RECORDS).peekable();
        while let Some(chunk) = chunks.next() {
            let record = self.journal.take(lane);
            if chunks.peek().is_some() {
                self.lanes[lane].outstanding += 1;
                self.send(lane, record, chunk, None, Token::Journaled { lane }, out);
            } else {
                let of = &mut self.lanes[lane];
                of.last.clear();
                of.last.extend_from_slice(chunk);
                of.ending = Ending::Draining { record };
            }
        }
        self.send_last(lane, out);
    }

    /// Sends a transaction's last record when the others are durable (R1).
    pub(super) fn send_last(&mut self, lane: usize, out: &mut Outbox<Token>) {
        let Ending::Draining { record } = self.lanes[lane].ending else { return };
        if self.lanes[lane].outstanding > 0 {
            return;
        }
        self.lanes[lane].ending = Ending::Sealing;
        let commit = self.journal.commit(lane);
        let last = std::mem::take(&mut self.lanes[lane].last);
        let token = Token::Committed { lane, seq: commit.seq };
        self.send(lane, record, &last, Some(commit), token, out);
        self.lanes[lane].last = last;
    }

    /// Sends a header of the journal.
    pub(super) fn send(
        &mut self,
        ring: usize,
        record: u64,
        records: &[Record],
        commit: Option<Commit>,
        token: Token,
        out: &mut Outbox<Token>,
    ) {
        let count = records.len() as u8;
        let words = Record::encode(records);
        out.write(SchemeWrite {
            line: self.config.layout.journal.header(ring, record),
            words: u8::MAX,
            data: Header { number: record, count, commit, words }.encode(),
            cause: JOURNAL,
            token,
        });
    }

    /// A transaction has committed: its lines are the committed ones, and what they replace is free to
    /// be written to.
    pub(super) fn committed(&mut self, lane: usize, seq: u64, out: &mut Outbox<Token>) {
        self.journal.committed(seq, 1);
        let mut fell_back = false;
        for at in 0..self.lanes[lane].pages.len() {
            let OfPage { page, lines, is_shadowed } = self.lanes[lane].pages[at];
            fell_back |= !is_shadowed;
            if lines != 0 {
                let of = self.pages.get_mut(page);
                of.committed.bitmap ^= lines;
                of.committed.other = of.other;
                of.is_committing = false;
                self.is_dirty(page);
            }
        }
        if fell_back {
            self.counts.fell_back += 1;
            self.lanes[lane].fell_back += 1;
            self.checkpoint.headers.push(lane);
        }
        self.checkpoint.commits.push(seq);
        self.close(lane, out);
        let of = &mut self.lanes[lane];
        (of.is_open, of.ending) = match self.config.fault {
            Some(Fault::EndsEarly) => (true, Ending::NotYet),
            _ => (false, Ending::Durable),
        };
        self.checkpoint_if_crowded(out);
        self.wake(out);
    }
}
