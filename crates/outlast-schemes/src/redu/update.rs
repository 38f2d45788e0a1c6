//! Direct update: lines of transactions that have committed are written in place, a few at a time,
//! and the log is truncated behind them.

use std::collections::VecDeque;

use outlast_sim::LineBytes;
use outlast_sim::timed::{Outbox, SchemeWrite};
use outlast_trace::LineAddr;

use super::plants::Fault;
use super::ports::{IN_PLACE, Line, Phase, READ_BACK, Redu, TRUNCATION, Tag, Token};

/// Lines to be written in place.
#[derive(Clone, Debug)]
pub(super) struct Updates {
    /// Lines with their commits, the oldest first. One that is written in place by itself stays here
    /// and is passed over.
    queue: VecDeque<(u64, LineAddr)>,
    under_way: usize,
    /// Lines under way at most.
    width: usize,
}

impl Updates {
    pub(super) fn new(width: usize) -> Self {
        Self { queue: VecDeque::new(), under_way: 0, width }
    }

    pub(super) fn queue(&mut self, seq: u64, line: LineAddr) {
        self.queue.push_back((seq, line));
    }
}

impl Redu {
    /// Begins updates as far as there is room.
    pub(super) fn update(&mut self, out: &mut Outbox<Token>) {
        while self.updates.under_way < self.updates.width {
            let Some((seq, line)) = self.updates.queue.pop_front() else { return };
            let Some(of) = self.lines.get_mut(&line) else { continue };
            if of.phase != Phase::Queued(seq) {
                continue; // It was written already.
            }
            self.updates.under_way += 1;
            if !of.has_left {
                of.phase = Phase::Leaving(seq);
                out.force(line);
            } else if let Some(data) = self.dram.get(line).copied() {
                self.lines.remove(&line);
                self.dram.unpin(line);
                let token = Token::InPlace { seq, is_update: true };
                out.write_inside(SchemeWrite {
                    line,
                    words: u8::MAX,
                    data,
                    cause: IN_PLACE,
                    token,
                });
            } else if let Some(at) = of.logged {
                of.phase = Phase::Leaving(seq);
                self.counts.log_reads += 1;
                out.read_inside(at, READ_BACK, Token::ReadBack { seq, line });
            }
        }
    }

    /// A line was read back from the log, and is written in place.
    pub(super) fn read_back(
        &mut self,
        seq: u64,
        line: LineAddr,
        data: &LineBytes,
        out: &mut Outbox<Token>,
    ) {
        self.lines.remove(&line);
        let token = Token::InPlace { seq, is_update: true };
        out.write_inside(SchemeWrite { line, words: u8::MAX, data: *data, cause: IN_PLACE, token });
        self.wake(out);
    }

    /// A transaction stores to a line for the first time. Its bytes before that, which a crash or an
    /// abort goes back to, are written in place if they are not there: those of an earlier
    /// transaction, or of stores of none.
    pub(super) fn keep_older(
        &mut self,
        line: LineAddr,
        of: Option<Line>,
        old: &LineBytes,
        tag: Tag,
        out: &mut Outbox<Token>,
    ) {
        let token = match of {
            Some(Line { phase: Phase::Queued(seq), .. }) => {
                if self.has(Fault::Forgets) {
                    self.log.applied(seq);
                    return;
                }
                Token::InPlace { seq, is_update: false }
            }
            _ if tag.is_plain() => Token::Older,
            _ => return,
        };
        self.dram.remove(line);
        out.write(SchemeWrite { line, words: u8::MAX, data: *old, cause: IN_PLACE, token });
    }

    /// A line of a transaction is durable in place.
    pub(super) fn is_in_place(&mut self, seq: u64, is_update: bool, out: &mut Outbox<Token>) {
        self.updates.under_way -= usize::from(is_update);
        self.update(out);
        if self.has(Fault::PassesUnapplied) || self.log.applied(seq) {
            self.truncate(out);
        }
    }

    /// Moves the truncation point, if it is time.
    pub(super) fn truncate(&mut self, out: &mut Outbox<Token>) {
        if self.has(Fault::FreesEarly) {
            self.log.free_early();
        }
        if let Some(data) = self.log.moves() {
            let line = self.config.rings.base;
            let token = Token::Truncated;
            out.write(SchemeWrite { line, words: u8::MAX, data, cause: TRUNCATION, token });
        }
    }
}
