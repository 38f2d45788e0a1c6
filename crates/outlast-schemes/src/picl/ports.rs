//! PiCL in the machine's ports.

use std::collections::VecDeque;

use outlast_sim::timed::{
    Answer, Cycle, Outbox, Scheme, SchemeWrite, StoreSeen, WriteRoute, WriteSeen, WriteTicket,
};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::{LaneId, LineAddr};

use super::buffer::UndoLog;
use super::config::{Config, Fault};
use super::layout::{self, Entry, QUARTERS};
use super::recover;
use super::scan::Scan;
use crate::image::Image;
use crate::shared::epoch::{EpochCall, Epochs};

/// Causes of its traffic, by their place in [`Scheme::CAUSES`].
pub(super) const UNDO: Cause = Cause::Scheme(0);
pub(super) const SCANNED: Cause = Cause::Scheme(1);
pub(super) const PERSISTED: Cause = Cause::Scheme(2);
pub(super) const GROWTH: Cause = Cause::Scheme(3);
const STREAMED: Cause = Cause::Scheme(4);

/// Epochs that tags of four bits tell apart.
pub(super) const EPOCHS: u64 = 16;

/// The epoch of a line's last store, as four bits tell it; 0 where there was none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Eid(u8);

impl Eid {
    pub(super) fn of(epoch: u64) -> Self {
        Self((epoch % EPOCHS) as u8 + 1)
    }

    /// The youngest epoch with this tag, up to the one that executes.
    pub(super) fn epoch(self, executing: u64) -> Option<u64> {
        let tag = u64::from(self.0.checked_sub(1)?);
        executing.checked_sub((executing + EPOCHS - tag) % EPOCHS)
    }
}

/// The tag of a line: an EID for each of its granules, the first alone where that is the line.
pub(super) type Eids = [Eid; QUARTERS];

/// What its own requests were for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Epoch(EpochCall),
    /// Entries come from private caches.
    Arrived,
    /// A block is durable.
    Flushed,
    /// A scan is over, up to this epoch; what had left the caches by its end is durable; the word
    /// that says so is.
    Scanned(u64),
    Settled,
    Persisted,
    /// The log is full; the operating system has found room; the header says so.
    Interrupt,
    Interrupted,
    Grown,
    /// The old bytes of a line that is streamed to.
    Streamed(WriteTicket, LineAddr),
}

impl From<EpochCall> for Token {
    fn from(call: EpochCall) -> Self {
        Self::Epoch(call)
    }
}

/// A write of a word of the header.
pub(super) fn header_word(
    line: LineAddr,
    word: u64,
    value: u64,
    cause: Cause,
    token: Token,
) -> SchemeWrite<Token> {
    let mut data: LineBytes = [0; 64];
    data[8 * word as usize..][..8].copy_from_slice(&value.to_le_bytes());
    SchemeWrite { line, words: 1 << word, data, cause, token }
}

/// A write that passes the caches: what it replaces comes from memory.
#[derive(Clone, Copy, Debug)]
enum Streamed {
    /// Waits for room in the buffer, for the granule of this number and those behind.
    Read(LineBytes, u64),
    /// Waits until this number of entries is durable.
    Logged(u64),
}

/// The mechanism.
#[derive(Clone, Debug)]
pub(super) struct Picl {
    pub(super) config: Config,
    pub(super) epochs: Epochs,
    /// The tag of the epoch that executes.
    eid: Eid,
    pub(super) persisted: u64,
    pub(super) log: UndoLog,
    pub(super) scan: Scan,
    /// The last epoch that is to persist as soon as it can.
    pub(super) urgent: u64,
    /// Blocks that the end of an epoch may need.
    reserve: u64,
    /// Whether the log's end has come, and the world stands until it is empty again.
    is_exhausted: bool,
    streamed: VecDeque<(WriteTicket, LineAddr, Streamed)>,
    /// Lines that are streamed to and have no entry for that yet. Loads find the new bytes: a store
    /// whose entry had them must not come first.
    unlogged: Vec<LineAddr>,
    /// Whether a store or a write was told to wait since all were told to ask again.
    is_waited_for: bool,
    counted: Counted,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    store_waits: u64,
    held_evictions: u64,
    stalled: u64,
    exhausted: u64,
}

impl Picl {
    /// The mechanism over a memory that recovery has left. An epoch's end may make `reserve`
    /// entries.
    pub(super) fn new(config: Config, reserve: u64, memory: Image<'_>) -> Self {
        let header = config.layout.header();
        let word = |word| memory.word_or_zero(header, word);
        let persisted = word(layout::PERSISTED);
        let (next, last) = match config.faults.has(Fault::Untruncated) {
            true => recover::behind_last(config.layout, memory),
            false => (word(layout::FIRST).max(1), u64::MAX),
        };
        let registers = config.layout.registers;
        let epochs = Epochs::behind(persisted, registers, config.epoch, memory)
            .saving_late(config.faults.has(Fault::SavesLate))
            .persisting_output(config.persists_output);
        Self {
            config,
            eid: Eid::of(epochs.executing()),
            epochs,
            persisted,
            log: UndoLog::new(config, word(layout::GROWTHS), next, last),
            scan: Scan::Idle,
            urgent: 0,
            reserve,
            is_exhausted: false,
            streamed: VecDeque::new(),
            unlogged: Vec::new(),
            is_waited_for: false,
            counted: Counted::default(),
        }
    }

    /// Whether the next epoch may begin: tags tell all apart that have not persisted then, with one
    /// to spare.
    fn may_resume(&self) -> bool {
        let next = self.epochs.executing() + 1;
        let wraps = self.config.faults.has(Fault::TagsWrap);
        (next - self.persisted < EPOCHS || wraps) && !self.is_exhausted
    }

    /// An epoch has ended, and all cores stand.
    fn epoch_ended(&mut self, out: &mut Outbox<Token>) {
        self.resume_if_may(out);
        self.scan_if_due(out);
    }

    pub(super) fn resume_if_may(&mut self, out: &mut Outbox<Token>) {
        if !self.epochs.has_ended() {
            return;
        }
        if self.is_exhausted {
            self.urgent = self.epochs.executing();
            self.is_exhausted = self.persisted < self.urgent;
        }
        if !self.may_resume() {
            self.counted.stalled += 1;
            return;
        }
        self.epochs.resume(out);
        self.eid = Eid::of(self.epochs.executing());
        self.scan_if_due(out);
    }

    /// The last epoch that has ended.
    pub(super) fn committed(&self) -> u64 {
        self.epochs.executing() - u64::from(!self.epochs.has_ended())
    }

    /// Ends the epoch when what is left of the log may be needed for that.
    fn look_after_log(&mut self, out: &mut Outbox<Token>) {
        if !self.is_exhausted && self.log.is_nearly_full(self.reserve) {
            self.is_exhausted = true;
            self.counted.exhausted += 1;
            self.epochs.end(out);
            self.resume_if_may(out); // Where they stand already.
        }
    }

    fn append(
        &mut self,
        now: Cycle,
        (line, granule): (LineAddr, u64),
        from: u64,
        data: &LineBytes,
        out: &mut Outbox<Token>,
    ) -> u64 {
        let till = self.epochs.executing() - u64::from(self.config.faults.has(Fault::TillEarly));
        let words = self.config.layout.granule.words(granule);
        let made = self.log.append(now, Entry { line, words, from, till, data: *data }, out);
        self.look_after_log(out);
        made
    }

    /// Entries have become durable, or there is room for more.
    fn went_on(&mut self, now: Cycle, out: &mut Outbox<Token>) {
        self.stream(now, out);
        self.scan_goes_on(out);
        if std::mem::take(&mut self.is_waited_for) {
            out.wake();
        }
    }

    /// Lets streamed writes go on whose old bytes are durable, and logs those of others.
    fn stream(&mut self, now: Cycle, out: &mut Outbox<Token>) {
        let granules = self.config.layout.granule.of_line();
        for (ticket, line, mut state) in std::mem::take(&mut self.streamed) {
            while let Streamed::Read(data, granule) = state
                && self.log.has_room()
            {
                let made = self.append(now, (line, granule), self.persisted, &data, out);
                state = if granule + 1 < granules {
                    Streamed::Read(data, granule + 1)
                } else {
                    let at = self.unlogged.iter().position(|unlogged| *unlogged == line);
                    at.map(|at| self.unlogged.swap_remove(at));
                    if std::mem::take(&mut self.is_waited_for) {
                        out.wake();
                    }
                    Streamed::Logged(made)
                };
            }
            match state {
                Streamed::Logged(made) if self.log.is_durable(made, out) => {
                    out.release_write(ticket, WriteRoute::Here);
                }
                _ => self.streamed.push_back((ticket, line, state)),
            }
        }
    }
}

impl Scheme for Picl {
    type Tag = Eids;
    type Page = ();
    type Token = Token;

    const CAUSES: &'static [&'static str] =
        &["undo", "cache scan", "persisted epoch", "log growth", "streamed"];
    const SEES_BELOW: bool = true;

    fn started(&mut self, out: &mut Outbox<Token>) {
        self.epochs.start(out);
    }

    /// What a program calls the end of an epoch is output to it.
    fn epoch(&mut self, now: Cycle, _lane: LaneId, out: &mut Outbox<Token>) -> Answer {
        let urgent = self.epochs.output(now, out);
        self.urgent = self.urgent.max(urgent.unwrap_or(0));
        Answer::Proceed
    }

    #[inline]
    fn store(
        &mut self,
        now: Cycle,
        _lane: LaneId,
        store: &StoreSeen<'_>,
        tag: &mut Eids,
        _page: Option<&mut ()>,
        out: &mut Outbox<Token>,
    ) -> Answer {
        let granule = self.config.layout.granule.number_of(store.at);
        if store.newer && tag[granule] == self.eid {
            return Answer::Proceed; // Modified in this epoch before.
        }
        if !self.log.has_room() || self.unlogged.contains(&store.at.line()) {
            self.counted.store_waits += 1;
            self.is_waited_for = true;
            return Answer::Wait;
        }
        let from = match store.newer {
            true => tag[granule].epoch(self.epochs.executing()).unwrap_or(self.persisted),
            false => self.persisted, // Of a clean line nothing says when it was stored to.
        };
        self.append(now, (store.at.line(), granule as u64), from, store.old, out);
        if !store.newer && !self.config.faults.has(Fault::QuartersStay) {
            *tag = Eids::default(); // Old ones would be taken for young ones 16 epochs later.
        }
        tag[granule] = self.eid;
        Answer::Proceed
    }

    fn streams(&mut self, _now: Cycle, line: LineAddr, _out: &mut Outbox<Token>) {
        self.unlogged.push(line);
    }

    fn is_flushed(
        &mut self,
        _now: Cycle,
        token: Token,
        _level: u8,
        _line: LineAddr,
        _dirty: bool,
        tag: &mut Eids,
    ) -> bool {
        self.is_scanned(token, *tag)
    }

    #[inline]
    fn may_write(
        &mut self,
        _now: Cycle,
        line: LineAddr,
        cause: Cause,
        out: &mut Outbox<Token>,
    ) -> Answer {
        if cause == SCANNED && self.config.faults.has(Fault::ScanUnfiltered) {
            return Answer::Proceed;
        }
        if self.log.holds_back(line, out) {
            self.counted.held_evictions += 1;
            self.is_waited_for = true;
            return Answer::Wait;
        }
        Answer::Proceed
    }

    #[inline]
    fn route_write(
        &mut self,
        _now: Cycle,
        write: &WriteSeen<'_, Eids>,
        out: &mut Outbox<Token>,
    ) -> WriteRoute {
        if write.cause != Cause::Streamed {
            return WriteRoute::Here;
        }
        out.read(write.line, STREAMED, Token::Streamed(write.ticket, write.line));
        WriteRoute::Wait
    }

    fn read_done(&mut self, now: Cycle, token: Token, data: &LineBytes, out: &mut Outbox<Token>) {
        if let Token::Streamed(ticket, line) = token {
            self.streamed.push_back((ticket, line, Streamed::Read(*data, 0)));
            self.stream(now, out);
        }
    }

    fn write_durable(&mut self, now: Cycle, token: Token, out: &mut Outbox<Token>) {
        match token {
            Token::Flushed => {
                self.log.flushed(out);
                self.went_on(now, out);
            }
            Token::Persisted => self.has_persisted(now, out),
            Token::Grown => {
                self.log.has_grown(out);
                self.went_on(now, out);
            }
            _ => {}
        }
    }

    fn flushed(&mut self, _now: Cycle, token: Token, out: &mut Outbox<Token>) {
        self.scan_came(token, out);
    }

    fn step(&mut self, now: Cycle, token: Token, out: &mut Outbox<Token>) {
        match token {
            Token::Epoch(call) => {
                self.epochs.came(call, out);
            }
            Token::Arrived => {
                self.log.arrived(now, out);
                self.went_on(now, out);
            }
            Token::Interrupt => {
                out.call(now.plus(self.config.interrupt_cycles), Token::Interrupted);
            }
            Token::Interrupted => self.log.interrupted(out),
            _ => {}
        }
    }

    fn stopped(&mut self, _now: Cycle, token: Token, out: &mut Outbox<Token>) {
        if let Token::Epoch(call) = token
            && self.epochs.came(call, out)
        {
            self.epoch_ended(out);
        }
    }

    fn take_counters(&mut self, each: &mut dyn FnMut(&'static str, &'static str, f64)) {
        self.epochs.take_counters(each);
        let log = std::mem::take(&mut self.log.counted);
        let Counted { store_waits, held_evictions, stalled, exhausted } =
            std::mem::take(&mut self.counted);
        let block = self.config.layout.block_bytes();
        for (name, unit, value) in [
            ("undo_entries", "count", log.entries),
            ("undo_blocks", "count", log.blocks),
            ("log_bytes", "B", log.blocks * block),
            ("log_bytes_max", "B", log.live_max * block),
            ("log_growths", "count", log.growths),
            ("log_exhausted", "count", exhausted),
            ("store_waits", "count", store_waits),
            ("held_evictions", "count", held_evictions),
            ("epoch_stalls", "count", stalled),
        ] {
            each(name, unit, value as f64);
        }
    }
}
