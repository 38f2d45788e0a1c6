//! Aborts: current bits become the committed ones again. Lines that were stored to in place are restored
//! from the log of old lines, and the journal says that the transaction has ended, which makes its
//! records void.

use outlast_sim::LineBytes;
use outlast_sim::timed::{Answer, Outbox, SchemeWrite};
use outlast_trace::LineAddr;

use super::lane::Ending;
use super::layout::LINES;
use super::plants::Fault;
use super::ports::{OLD_LINE, SubPages, Token};

impl SubPages {
    /// Gives up a lane's transaction; asked again until its old lines are in their places.
    pub(super) fn give_up(&mut self, lane: usize, out: &mut Outbox<Token>) -> Answer {
        match self.lanes[lane].ending {
            Ending::NotYet => {}
            Ending::Durable => {
                self.lanes[lane].close();
                return Answer::Proceed;
            }
            Ending::Flushing => {
                self.seal(lane, out);
                return self.wait();
            }
            _ => return self.wait(),
        }
        let mut left = 0;
        for at in 0..self.lanes[lane].lines.len() {
            let line = self.lanes[lane].lines[at];
            match self.record_of(line) {
                Some((record, _)) => {
                    left += 1;
                    out.read(record.plus(1), OLD_LINE, Token::Restored { line });
                }
                None => self.turn_back(line, out),
            }
        }
        if left == 0 {
            self.close(lane, out);
            return Answer::Proceed;
        }
        self.lanes[lane].ending = Ending::Restoring { left };
        self.wait()
    }

    /// A line's newest bytes are the committed ones.
    fn turn_back(&mut self, line: LineAddr, out: &mut Outbox<Token>) {
        out.discard(line);
        if let Some(page) = self.pages.number_of(line)
            && !self.has(Fault::KeepsBits)
        {
            let page = self.pages.get_mut(page);
            let bit = 1 << (line.0 % LINES);
            page.current = page.current & !bit | page.committed.bitmap & bit;
        }
    }

    /// A line's old bytes were read.
    pub(super) fn restore(&mut self, line: LineAddr, data: &LineBytes, out: &mut Outbox<Token>) {
        let Some(page) = self.pages.number_of(line) else { return };
        out.discard(line);
        let (place, token) = (self.pages.get(page).place(line), Token::Restored { line });
        let (words, data) = (u8::MAX, *data);
        out.write(SchemeWrite { line: place, words, data, cause: OLD_LINE, token });
    }

    /// A line's old bytes are in their place. When all are, the transaction ends, with no page.
    pub(super) fn is_restored(&mut self, line: LineAddr, out: &mut Outbox<Token>) {
        let Some(lane) = self.lines.get(&line).map(|of| of.lane) else { return };
        let of = &mut self.lanes[lane];
        let Ending::Restoring { left } = &mut of.ending else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        for page in &mut of.pages {
            page.lines = 0;
        }
        of.durable = of.lines.len();
        of.ending = Ending::Flushing;
        self.seal(lane, out);
    }
}
