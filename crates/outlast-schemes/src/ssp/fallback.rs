//! What is not shadowed: pages of a transaction beyond what TLBs hold, or for which there is no shadow
//! page. Their lines are stored to where they are, and their old bytes are logged before.
//!
//! A record, the old line and behind it its place under the number of the lane's transaction, is durable
//! before the first store to its line. The transaction's commit says its number, which makes the
//! records void.

use outlast_sim::LineBytes;
use outlast_sim::timed::{Outbox, SchemeWrite};
use outlast_trace::LineAddr;

use super::lane::Line;
use super::layout::words;
use super::ports::{OLD_LINE, SubPages, Token};

impl SubPages {
    /// Where a line's record lies.
    pub(super) fn record_of(&self, line: LineAddr) -> Option<(LineAddr, usize)> {
        let Line { lane, old, .. } = self.lines.get(&line)?;
        old.map(|number| (self.config.layout.old_line(*lane, number), *lane))
    }

    /// Logs a line's old bytes.
    pub(super) fn log_old(&mut self, line: LineAddr, old: &LineBytes, out: &mut Outbox<Token>) {
        let Some((record, _)) = self.record_of(line) else { return };
        self.counts.old_lines += 1;
        let token = Token::OldLine { line };
        let (line, words, data) = (record.plus(1), u8::MAX, *old);
        out.write(SchemeWrite { line, words, data, cause: OLD_LINE, token });
    }

    /// They are durable: the record is next.
    pub(super) fn log_record(&mut self, line: LineAddr, out: &mut Outbox<Token>) {
        let Some((record, lane)) = self.record_of(line) else { return };
        let place =
            self.pages.number_of(line).map_or(line, |page| self.pages.get(page).place(line));
        out.write(SchemeWrite {
            line: record,
            words: u8::MAX,
            data: words(&[self.lanes[lane].fell_back + 1, place.0]),
            cause: OLD_LINE,
            token: Token::OldRecord { line },
        });
    }

    /// A transaction's first store to a line of a page that it shadows meets bytes of no transaction. An
    /// abort goes back to them: they are written where the line was.
    pub(super) fn keep_older(&mut self, line: LineAddr, old: &LineBytes, out: &mut Outbox<Token>) {
        let Some(page) = self.pages.number_of(line) else { return };
        let place = self.pages.get(page).place(line);
        let (words, token) = (u8::MAX, Token::Older);
        out.write(SchemeWrite { line: place, words, data: *old, cause: OLD_LINE, token });
    }
}
