//! The journal's truncation: when a ring is half full, the table gets what all commits so far have
//! changed, each of its lines once, and the truncation point moves behind them.

use outlast_sim::timed::{Outbox, SchemeWrite};
use outlast_trace::LineAddr;

use super::layout::{Layout, words};
use super::plants::Fault;
use super::ports::{JOURNAL, SubPages, TABLE, Token};

/// What the table lacks.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkpoint {
    /// Commits that are durable in the journal alone.
    pub(super) commits: Vec<u64>,
    /// The first pages of the table's lines that they change.
    pages: Vec<u32>,
    /// Lanes of those that fell back to logging.
    pub(super) headers: Vec<usize>,
    /// The commits of the checkpoint under way, its lines of the table that are not written yet, and its
    /// writes that are not durable.
    covered: Vec<u64>,
    unwritten: Vec<u32>,
    outstanding: usize,
}

/// Lines of the table on their way at a time: commits do not wait behind a whole checkpoint.
const WRITES: usize = 8;

impl SubPages {
    /// The table lacks what has committed of a page.
    pub(super) fn is_dirty(&mut self, page: u32) {
        let first = Layout::first_of_line(page);
        let of = self.pages.get_mut(first);
        if !std::mem::replace(&mut of.is_dirty, true) {
            self.checkpoint.pages.push(first);
        }
    }

    /// Begins a checkpoint if a ring is half full.
    pub(super) fn checkpoint_if_crowded(&mut self, out: &mut Outbox<Token>) {
        if self.journal.is_crowded() {
            self.checkpoint(out);
        }
    }

    /// Begins a checkpoint, if none is under way and there is anything for it.
    pub(super) fn checkpoint(&mut self, out: &mut Outbox<Token>) {
        let Checkpoint { commits, covered, unwritten, outstanding, .. } = &self.checkpoint;
        let is_under_way = !covered.is_empty() || !unwritten.is_empty() || *outstanding > 0;
        if is_under_way || commits.is_empty() {
            return self.truncate(out);
        }
        self.counts.checkpoints += 1;
        let Checkpoint { commits, covered, unwritten, pages, .. } = &mut self.checkpoint;
        std::mem::swap(commits, covered);
        std::mem::swap(pages, unwritten);
        if self.has(Fault::TruncatesEarly) {
            self.covers(out);
        }
        let mut headers = std::mem::take(&mut self.checkpoint.headers);
        headers.sort_unstable();
        headers.dedup();
        for &lane in &headers {
            let line = self.config.layout.header(lane);
            self.write_table(line, &[self.lanes[lane].fell_back], out);
        }
        self.write_entries(out);
    }

    /// Writes lines of the table as they are now, which is as commits in the journal have left them.
    fn write_entries(&mut self, out: &mut Outbox<Token>) {
        let layout = self.config.layout;
        while self.checkpoint.outstanding < WRITES {
            let Some(first) = self.checkpoint.unwritten.pop() else { break };
            self.pages.get_mut(first).is_dirty = false;
            let (mut data, mut differs) = ([0; 8], false);
            for (page, words) in (first..layout.pages as u32).zip(data.chunks_exact_mut(2)) {
                let of = self.pages.get_mut(page);
                differs |= of.committed.encode() != of.in_table.encode();
                of.in_table = of.committed;
                words.copy_from_slice(&of.committed.encode());
            }
            // A page that is back where it was needs nothing.
            if differs {
                self.write_table(layout.table_line(first), &data, out);
            }
        }
        if self.checkpoint.outstanding == 0 {
            self.covers(out);
        }
    }

    fn write_table(&mut self, line: LineAddr, values: &[u64], out: &mut Outbox<Token>) {
        self.checkpoint.outstanding += 1;
        let data = words(values);
        let token = Token::Checkpoint;
        out.write(SchemeWrite { line, words: u8::MAX, data, cause: TABLE, token });
    }

    /// A write of the checkpoint is durable.
    pub(super) fn checkpointed(&mut self, out: &mut Outbox<Token>) {
        self.checkpoint.outstanding -= 1;
        self.write_entries(out);
    }

    /// The table has what the checkpoint's commits say.
    fn covers(&mut self, out: &mut Outbox<Token>) {
        for seq in std::mem::take(&mut self.checkpoint.covered) {
            self.journal.applied(seq);
        }
        self.truncate(out);
    }

    /// Moves the truncation point, if it is time.
    fn truncate(&mut self, out: &mut Outbox<Token>) {
        if let Some(data) = self.journal.moves() {
            let line = self.config.layout.journal.base;
            let (words, token) = (u8::MAX, Token::Truncated);
            out.write(SchemeWrite { line, words, data, cause: JOURNAL, token });
        }
    }
}
