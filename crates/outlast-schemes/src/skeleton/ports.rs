//! The eager undo log in the machine's ports.

use outlast_sim::timed::{Answer, Cycle, Outbox, Scheme, SchemeWrite, StoreSeen};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::{LaneId, LineAddr};
use rustc_hash::FxHashMap;

use super::{Fault, Layout};
use crate::image::Image;

/// Causes of its traffic, by their place in [`Scheme::CAUSES`].
const OLD_LINE: Cause = Cause::Scheme(0);
const RECORD: Cause = Cause::Scheme(1);
const COMMIT: Cause = Cause::Scheme(2);
const RESTORED: Cause = Cause::Scheme(3);

/// What its own requests were for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// A line's old content was written: its record is next.
    OldLine(usize, LineAddr),
    /// A record was written: its line may be stored to.
    Record(usize, LineAddr),
    /// An old line was read from the log of a transaction that aborts, or is in its place again.
    Restored(usize, LineAddr),
    /// A lane's header was written: its transaction has ended.
    Commit(usize),
    /// A lane looks again whether its lines are durable.
    Look,
}

/// A lane and its transaction.
#[derive(Clone, Debug, Default)]
struct Lane {
    is_open: bool,
    /// Transactions that have ended.
    ended: u64,
    commit: Commit,
    /// The records of lines that the transaction stores to: their number, and whether they are
    /// durable.
    records: FxHashMap<LineAddr, (u64, bool)>,
    /// Of each line whose last store memory may not have, that store's time.
    unwritten: FxHashMap<LineAddr, Cycle>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Commit {
    #[default]
    NotYet,
    /// It aborts, and this number of its lines is not as before.
    Restoring(usize),
    /// It aborts, and its lines are as before.
    Restored,
    UnderWay,
    Durable,
}

/// The mechanism.
#[derive(Clone, Debug)]
pub(super) struct EagerUndo {
    layout: Layout,
    fault: Option<Fault>,
    lanes: Vec<Lane>,
    records: u64,
    waits: u64,
}

impl EagerUndo {
    /// The mechanism over a memory in which lanes have ended the transactions that headers say.
    pub(super) fn new(layout: Layout, fault: Option<Fault>, memory: Image<'_>) -> Self {
        let ended = |lane| match fault {
            Some(Fault::CountsAnew) => 0,
            _ => memory.word_or_zero(layout.header(lane), 0),
        };
        let lanes = (0..layout.lanes).map(|lane| Lane { ended: ended(lane), ..Lane::default() });
        Self { layout, fault, lanes: lanes.collect(), records: 0, waits: 0 }
    }

    fn write(line: LineAddr, words: &[u64], cause: Cause, token: Token) -> SchemeWrite<Token> {
        let mut data: LineBytes = [0; 64];
        for (place, word) in data.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        SchemeWrite { line, words: u8::MAX, data, cause, token }
    }
}

impl Scheme for EagerUndo {
    type Tag = ();
    type Page = ();
    type Token = Token;

    const CAUSES: &'static [&'static str] = &["old lines", "records", "commits", "restored"];

    fn begin(&mut self, _now: Cycle, lane: LaneId, _out: &mut Outbox<Token>) -> Answer {
        self.lanes[usize::from(lane.0)].is_open = true;
        Answer::Proceed
    }

    fn store(
        &mut self,
        now: Cycle,
        lane: LaneId,
        store: &StoreSeen<'_>,
        _tag: &mut (),
        _page: Option<&mut ()>,
        out: &mut Outbox<Token>,
    ) -> Answer {
        let (index, line) = (usize::from(lane.0), store.at.line());
        let record_at = |number| self.layout.record(index as u64, number).plus(1);
        let of = &mut self.lanes[index];
        if !of.is_open {
            return Answer::Proceed;
        }
        let number = of.records.len() as u64;
        let is_durable = match of.records.get(&line) {
            Some((_, is_durable)) => *is_durable,
            None => {
                of.records.insert(line, (number, false));
                self.records += 1;
                out.write(SchemeWrite {
                    line: record_at(number),
                    words: u8::MAX,
                    data: *store.old,
                    cause: OLD_LINE,
                    token: Token::OldLine(index, line),
                });
                if self.fault == Some(Fault::RecordEarly) {
                    let at = self.layout.record(index as u64, number);
                    let words = [of.ended + 1, line.0];
                    out.write(Self::write(at, &words, RECORD, Token::Record(index, line)));
                }
                false
            }
        };
        if !is_durable && self.fault != Some(Fault::Unordered) {
            self.waits += 1;
            return Answer::Wait;
        }
        of.unwritten.insert(line, now);
        Answer::Proceed
    }

    fn end(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox<Token>) -> Answer {
        let index = usize::from(lane.0);
        let header = self.layout.header(index as u64);
        let of = &mut self.lanes[index];
        let leaves_lines = self.fault == Some(Fault::LinesLeft);
        match of.commit {
            _ if of.records.is_empty() => {
                of.is_open = false;
                Answer::Proceed
            }
            Commit::NotYet if !of.unwritten.is_empty() && !leaves_lines => {
                // What is stored in this very cycle is forced out in the next one.
                if of.unwritten.values().any(|stored| *stored >= now) {
                    out.call(now.next(), Token::Look);
                } else {
                    of.unwritten.keys().for_each(|line| out.force(*line));
                }
                Answer::Wait
            }
            Commit::NotYet | Commit::Restored => {
                of.commit = Commit::UnderWay;
                let number = of.ended + 1;
                out.write(Self::write(header, &[number], COMMIT, Token::Commit(index)));
                Answer::Wait
            }
            Commit::UnderWay | Commit::Restoring(_) => Answer::Wait,
            Commit::Durable => {
                let ended = of.ended + 1;
                *of = Lane { ended, ..Lane::default() };
                Answer::Proceed
            }
        }
    }

    fn abort(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox<Token>) -> Answer {
        let index = usize::from(lane.0);
        let of = &mut self.lanes[index];
        if of.commit == Commit::NotYet && !of.records.is_empty() {
            of.unwritten.clear(); // None of it is to be durable.
            of.commit = Commit::Restoring(of.records.len());
            for (line, (number, _)) in &of.records {
                let at = self.layout.record(index as u64, *number).plus(1);
                out.read(at, RESTORED, Token::Restored(index, *line));
            }
            return Answer::Wait;
        }
        // With its lines as before, it ends as any.
        self.end(now, lane, out)
    }

    fn read_done(&mut self, _now: Cycle, token: Token, data: &LineBytes, out: &mut Outbox<Token>) {
        let Token::Restored(_, line) = token else { return };
        if self.fault != Some(Fault::AbortedLeft) {
            out.discard(line); // And at the same time memory has what was there before.
        }
        let (words, data, cause) = (u8::MAX, *data, RESTORED);
        out.write(SchemeWrite { line, words, data, cause, token });
    }

    fn durable(
        &mut self,
        _now: Cycle,
        line: LineAddr,
        _cause: Cause,
        sent: Cycle,
        out: &mut Outbox<Token>,
    ) {
        for lane in &mut self.lanes {
            if lane.unwritten.get(&line).is_some_and(|stored| *stored < sent) {
                lane.unwritten.remove(&line);
                if lane.unwritten.is_empty() {
                    out.wake();
                }
            }
        }
    }

    fn write_durable(&mut self, _now: Cycle, token: Token, out: &mut Outbox<Token>) {
        match token {
            Token::OldLine(..) if self.fault == Some(Fault::RecordEarly) => {}
            Token::OldLine(lane, line) => {
                let of = &self.lanes[lane];
                let Some((number, _)) = of.records.get(&line) else { return };
                let at = self.layout.record(lane as u64, *number);
                let words = [of.ended + 1, line.0];
                out.write(Self::write(at, &words, RECORD, Token::Record(lane, line)));
            }
            Token::Record(lane, line) => {
                if let Some((_, is_durable)) = self.lanes[lane].records.get_mut(&line) {
                    *is_durable = true;
                }
                out.wake();
            }
            Token::Restored(lane, _) => {
                if let Commit::Restoring(left) = &mut self.lanes[lane].commit {
                    *left -= 1;
                    if *left == 0 {
                        self.lanes[lane].commit = Commit::Restored;
                        out.wake();
                    }
                }
            }
            Token::Commit(lane) => {
                self.lanes[lane].commit = Commit::Durable;
                out.wake();
            }
            Token::Look => {}
        }
    }

    fn step(&mut self, _now: Cycle, _token: Token, out: &mut Outbox<Token>) {
        out.wake();
    }

    fn take_counters(&mut self, each: &mut dyn FnMut(&'static str, &'static str, f64)) {
        each("log_records", "count", std::mem::take(&mut self.records) as f64);
        each("store_waits", "count", std::mem::take(&mut self.waits) as f64);
    }
}
