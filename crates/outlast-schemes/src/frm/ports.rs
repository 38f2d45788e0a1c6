//! Undo checkpoints in the machine's ports.
//!
//! ```text
//!  a write arrives ─> old line read ─> entry written ─durable─> written home
//!  an epoch has ended ─> caches flushed, each line so ─all durable─> commit record ─durable─> resume
//! ```

use std::collections::{BTreeSet, VecDeque};

use outlast_sim::timed::{
    Answer, Block, Cycle, LevelFlush, Outbox, Scheme, SchemeWrite, StoreSeen, WriteRoute,
    WriteSeen, WriteTicket,
};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::{LaneId, LineAddr};

use super::Fault;
use super::layout::{COMMITTED, Layout, RUN, Stamp};
use crate::image::Image;
use crate::shared::epoch::{EpochCall, Epochs};

/// Causes of its traffic, by their place in [`Scheme::CAUSES`].
const OLD: Cause = Cause::Scheme(0);
const LOGGED: Cause = Cause::Scheme(1);
const FLUSHED: Cause = Cause::Scheme(2);
const COMMIT: Cause = Cause::Scheme(3);

/// Entries between the oldest that is not durable and the youngest that has begun.
pub(super) const WINDOW: u64 = 64;

/// What its own requests were for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Epoch(EpochCall),
    /// The old line of a write was read, for the entry with this number.
    Old(WriteTicket, LineAddr, u64),
    /// That entry is durable.
    Logged(WriteTicket, u64),
    /// The caches are flushed; what had left them before is durable; so is the commit record.
    Flushed,
    Settled,
    Committed,
}

impl From<EpochCall> for Token {
    fn from(call: EpochCall) -> Self {
        Self::Epoch(call)
    }
}

/// The mechanism.
#[derive(Clone, Debug)]
pub(super) struct Frm {
    layout: Layout,
    fault: Option<Fault>,
    epochs: Epochs,
    run: u64,
    /// Writes that have no entry yet.
    queue: VecDeque<(WriteTicket, LineAddr)>,
    /// Entries that are not durable.
    under_way: BTreeSet<u64>,
    /// The next entry, and the lines that caches have newer bytes of than memory: each takes one.
    next: u64,
    dirty: u64,
    /// Entries that may be taken and needed, before the epoch ends early.
    full_at: u64,
    /// Whether the caches are flushed and entries of other writes are waited for.
    drains: bool,
    entries: u64,
    log_max: u64,
}

impl Frm {
    /// The mechanism over a memory that recovery has left. An epoch ends early while the log has room
    /// for `reserve` lines.
    pub(super) fn new(
        layout: Layout,
        epoch: u64,
        reserve: u64,
        fault: Option<Fault>,
        memory: Image<'_>,
    ) -> Self {
        let word = |word| memory.word_or_zero(layout.header(), word);
        Self {
            layout,
            fault,
            epochs: Epochs::behind(word(COMMITTED), layout.registers, epoch, memory)
                .saving_late(fault == Some(Fault::SavesLate)),
            run: word(RUN),
            queue: VecDeque::new(),
            under_way: BTreeSet::new(),
            next: 0,
            dirty: 0,
            full_at: layout.entries.saturating_sub(reserve),
            drains: false,
            entries: 0,
            log_max: 0,
        }
    }

    /// The same, where output may have its epoch persist at once.
    pub(super) fn persisting_output(self, persists_output: bool) -> Self {
        Self { epochs: self.epochs.persisting_output(persists_output), ..self }
    }

    /// Begins entries, as far as the window and the log allow.
    fn pump(&mut self, out: &mut Outbox<Token>) {
        while let Some(&(ticket, line)) = self.queue.front() {
            let oldest = self.under_way.first().copied().unwrap_or(self.next);
            if self.next.saturating_sub(oldest) >= WINDOW || self.next == self.layout.entries {
                break;
            }
            self.queue.pop_front();
            self.under_way.insert(self.next);
            out.read(line, OLD, Token::Old(ticket, line, self.next));
            self.next += 1;
            self.entries += 1;
        }
        self.log_max = self.log_max.max(self.next);
        self.end_if_full(out);
    }

    fn end_if_full(&mut self, out: &mut Outbox<Token>) {
        if self.next + self.queue.len() as u64 + self.dirty >= self.full_at {
            self.epochs.end(out);
        }
    }

    /// What was flushed is durable; so are entries of others once they have none to wait for.
    fn settle(&mut self, out: &mut Outbox<Token>) {
        if self.drains && self.queue.is_empty() && self.under_way.is_empty() {
            self.drains = false;
            out.wait_for_writes(Token::Settled);
        }
    }

    fn commit(&mut self, out: &mut Outbox<Token>) {
        let mut data: LineBytes = [0; 64];
        data[8 * COMMITTED as usize..][..8].copy_from_slice(&self.epochs.executing().to_le_bytes());
        let (line, words) = (self.layout.header(), 1 << COMMITTED);
        out.write(SchemeWrite { line, words, data, cause: COMMIT, token: Token::Committed });
    }
}

impl Scheme for Frm {
    type Tag = ();
    type Page = ();
    type Token = Token;

    const CAUSES: &'static [&'static str] = &["old lines", "log", "epoch flush", "commit record"];
    const SEES_BELOW: bool = true;

    fn started(&mut self, out: &mut Outbox<Token>) {
        self.epochs.start(out);
    }

    /// What a program calls the end of an epoch is output to it.
    fn epoch(&mut self, now: Cycle, _lane: LaneId, out: &mut Outbox<Token>) -> Answer {
        self.epochs.output(now, out);
        Answer::Proceed
    }

    #[inline]
    fn store(
        &mut self,
        _now: Cycle,
        _lane: LaneId,
        store: &StoreSeen<'_>,
        _tag: &mut (),
        _page: Option<&mut ()>,
        out: &mut Outbox<Token>,
    ) -> Answer {
        if !store.newer {
            self.dirty += 1;
            self.end_if_full(out);
        }
        Answer::Proceed
    }

    fn route_write(
        &mut self,
        _now: Cycle,
        write: &WriteSeen<'_, ()>,
        out: &mut Outbox<Token>,
    ) -> WriteRoute {
        self.dirty = self.dirty.saturating_sub(u64::from(write.cause != Cause::Streamed));
        self.queue.push_back((write.ticket, write.line));
        self.pump(out);
        WriteRoute::Wait
    }

    fn read_done(&mut self, _now: Cycle, token: Token, data: &LineBytes, out: &mut Outbox<Token>) {
        let Token::Old(ticket, of, number) = token else { return };
        let stamp = Stamp { run: self.run, epoch: self.epochs.executing() };
        let (line, data) = (self.layout.place(number), Layout::encode(stamp, of, data));
        let token = Token::Logged(ticket, number);
        out.write_block(Block { line, data, cause: LOGGED, token });
        if self.fault == Some(Fault::Unordered) {
            out.release_write(ticket, WriteRoute::Here);
        }
    }

    fn write_durable(&mut self, now: Cycle, token: Token, out: &mut Outbox<Token>) {
        match token {
            Token::Logged(ticket, number) => {
                self.under_way.remove(&number);
                if self.fault != Some(Fault::Unordered) {
                    out.release_write(ticket, WriteRoute::Here);
                }
                self.pump(out);
                self.settle(out);
            }
            Token::Committed => {
                let epoch = self.epochs.executing();
                out.report_persisted(epoch);
                self.epochs.have_persisted(epoch, now);
                self.next = 0;
                self.epochs.resume(out);
            }
            _ => {}
        }
    }

    fn flushed(&mut self, _now: Cycle, token: Token, out: &mut Outbox<Token>) {
        match token {
            Token::Flushed if self.fault != Some(Fault::CommitsEarly) => {
                self.drains = true;
                self.settle(out);
            }
            Token::Settled => self.commit(out),
            _ => {}
        }
    }

    fn step(&mut self, _now: Cycle, token: Token, out: &mut Outbox<Token>) {
        if let Token::Epoch(call) = token {
            self.epochs.came(call, out);
        }
    }

    fn stopped(&mut self, _now: Cycle, token: Token, out: &mut Outbox<Token>) {
        if let Token::Epoch(call) = token
            && self.epochs.came(call, out)
        {
            let (level, token) = (None, Token::Flushed);
            out.flush(LevelFlush {
                level,
                cause: FLUSHED,
                invalidate: false,
                yields: false,
                token,
            });
            if self.fault == Some(Fault::CommitsEarly) {
                self.commit(out);
            }
        }
    }

    fn take_counters(&mut self, each: &mut dyn FnMut(&'static str, &'static str, f64)) {
        self.epochs.take_counters(each);
        each("undo_entries", "count", std::mem::take(&mut self.entries) as f64);
        let log_max = super::layout::ENTRY_BYTES * std::mem::take(&mut self.log_max);
        each("log_bytes_max", "B", log_max as f64);
    }
}
