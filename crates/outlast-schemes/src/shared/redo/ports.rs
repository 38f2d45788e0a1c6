//! A scheme with redo copies in the machine's ports: what is the same whatever its tables are.
//!
//! ```text
//!            the epoch ends                no checkpoint, and no write waits
//!   runs ──────────────────────> drains ───────────────────────────────────> flushes
//!    ^                                                                          │ R1
//!    └─────────────────────────────────────────────────────────────────────── seals
//!       R5; where a checkpoint overlaps with the next epoch, R4 of lines past the tables
//! ```
//!
//! In all states but the first, the cores stand.

use std::fmt::Debug;

use outlast_sim::timed::{
    Answer, Cycle, LevelFlush, Outbox, ReadSeen, Route, Scheme, WriteRoute, WriteSeen, WriteTicket,
};
use outlast_trace::{LaneId, LineAddr};

use super::spill::Spill;
use super::{CAUSES, Config, Entry, FLUSH, Fault, Reached, Redo, Token as RedoToken};
use crate::shared::epoch::{EpochCall, Epochs};

/// What the tables say of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// It goes there.
    At(LineAddr),
    /// It waits until [`Places::filled`] says that more is possible.
    Waits,
    /// They have no room in this epoch.
    Full,
}

/// A write that asks for its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) line: LineAddr,
    /// Whether it writes all of its line.
    pub(crate) is_whole: bool,
    /// Whether lines of this epoch are past the tables.
    pub(crate) has_spilled: bool,
}

/// The translation tables of a scheme, and its choice of copies.
pub(crate) trait Places: Debug {
    /// Whether a checkpoint goes on while the next epoch runs.
    const OVERLAPS: bool = false;

    /// Where a line's newest bytes are.
    fn locate(&self, line: LineAddr) -> LineAddr;

    /// The place of a write.
    fn place(&mut self, asked: Asked, out: &mut Outbox<Token>) -> Place;

    /// A copy that was asked for with [`Token::Filled`] is durable. Returns whether writes that wait may
    /// have a place now.
    fn filled(&mut self, what: u64, out: &mut Outbox<Token>) -> bool;

    /// The epoch is over. Returns its copies.
    fn seal(&mut self) -> Vec<Entry>;

    /// Whether a copy that was asked for with [`Token::Filled`] is under way.
    fn is_filling(&self) -> bool;

    /// The copies of the last epoch that was sealed are home (R6), and none of them is being read.
    fn free(&mut self);

    /// Lines and pages with which copies have begun since the last call.
    fn take_filled(&mut self) -> (u64, u64);
}

/// What its own requests were for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    Redo(RedoToken),
    Epoch(EpochCall),
    /// A copy has what it begins with: the tables know which.
    Filled(u64),
    /// So has that of a line past the tables.
    Spilled(LineAddr),
    Flushed,
}

impl From<RedoToken> for Token {
    fn from(token: RedoToken) -> Self {
        Self::Redo(token)
    }
}

impl From<EpochCall> for Token {
    fn from(call: EpochCall) -> Self {
        Self::Epoch(call)
    }
}

/// As in the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Runs,
    Drains,
    Flushes,
    Seals,
}

/// The mechanism.
#[derive(Debug)]
pub(crate) struct Checkpoints<P> {
    epochs: Epochs,
    redo: Redo,
    places: P,
    spill: Spill,
    stage: Stage,
    /// Writes that wait until their copies are filled: their line, and whether they write all of it.
    parked: Vec<(WriteTicket, LineAddr, bool)>,
    /// Copies are home, and some of them are being read yet.
    is_home: bool,
    /// The first line that is not in checkpoints.
    end: LineAddr,
    lookup_cycles: u64,
    fault: Option<Fault>,
    counts: Counts,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    spilled: u64,
    entries: u64,
}

impl<P: Places> Checkpoints<P> {
    /// Under what was chosen, over a memory in which `places` has nothing.
    pub(crate) fn new(config: Config, epochs: Epochs, places: P) -> Self {
        let Config { layout, spilled, copies, lookup_cycles, fault, .. } = config;
        Self {
            epochs,
            redo: Redo::new(layout, copies, fault),
            places,
            spill: Spill::new(layout, spilled),
            stage: Stage::Runs,
            parked: Vec::new(),
            is_home: false,
            end: config.end(),
            lookup_cycles,
            fault,
            counts: Counts::default(),
        }
    }

    /// Where a write of a line goes; none if it has to wait for its copy. What the tables have no room
    /// for goes past them, and the epoch ends. It may not wait for that: a core may wait for it, and
    /// does not stand before.
    #[inline]
    fn place(
        &mut self,
        line: LineAddr,
        is_whole: bool,
        out: &mut Outbox<Token>,
    ) -> Option<LineAddr> {
        let has_spilled = !self.spill.is_empty();
        let place = match has_spilled && self.spill.has(line) {
            true => Place::Full,
            false => self.places.place(Asked { line, is_whole, has_spilled }, out),
        };
        match place {
            Place::At(line) => Some(line),
            Place::Waits => None,
            Place::Full => {
                self.epochs.end(out);
                let from = self.places.locate(line);
                self.spill.place(line, from, is_whole, out)
            }
        }
    }

    #[inline]
    fn write_route(&self, line: LineAddr) -> WriteRoute {
        match self.lookup_cycles {
            0 => WriteRoute::There(line),
            cycles => WriteRoute::After { line, cycles },
        }
    }

    /// Lets writes that wait ask again, in their order.
    fn ask_again(&mut self, out: &mut Outbox<Token>) {
        for (ticket, line, is_whole) in std::mem::take(&mut self.parked) {
            match self.place(line, is_whole, out) {
                Some(at) => out.release_write(ticket, self.write_route(at)),
                None => self.parked.push((ticket, line, is_whole)),
            }
        }
    }

    /// Goes on to the flush as soon as no earlier checkpoint is under way and no write waits: a
    /// flush does not wait for those.
    fn drains(&mut self, out: &mut Outbox<Token>) {
        if self.stage != Stage::Drains || !self.redo.is_idle() || self.is_home {
            return;
        }
        self.ask_again(out);
        if !self.parked.is_empty() {
            return;
        }
        if self.fault == Some(Fault::Unflushed) {
            return self.seals(out);
        }
        self.stage = Stage::Flushes;
        let token = Token::Flushed;
        out.flush(LevelFlush {
            level: None,
            cause: FLUSH,
            invalidate: false,
            yields: false,
            token,
        });
    }

    /// R1 holds.
    fn seals(&mut self, out: &mut Outbox<Token>) {
        self.stage = Stage::Seals;
        let mut entries: Vec<Entry> = match self.fault {
            Some(Fault::SpillForgotten) => Vec::new(),
            _ => self.spill.entries().collect(),
        };
        let spilled = entries.len();
        entries.extend(self.places.seal());
        self.counts.entries += entries.len() as u64;
        self.counts.spilled += spilled as u64;
        self.redo.seal(self.epochs.executing(), entries, spilled, out);
        let goes_on = P::OVERLAPS && spilled == 0;
        let goes_on = goes_on || self.fault == Some(Fault::ResumesEarly);
        if goes_on {
            self.resumes(out);
        }
    }

    /// A call of the driver of epochs.
    fn comes(&mut self, token: Token, out: &mut Outbox<Token>) {
        if let Token::Epoch(call) = token
            && self.epochs.came(call, out)
        {
            self.stage = Stage::Drains;
            self.drains(out);
        }
    }

    /// Writes that wait may have a place now.
    fn has_filled(&mut self, out: &mut Outbox<Token>) {
        self.frees(out);
        match self.stage {
            Stage::Drains => self.drains(out),
            _ => self.ask_again(out),
        }
    }

    /// Copies that are home are free, once none of them is being read.
    fn frees(&mut self, out: &mut Outbox<Token>) {
        if !self.is_home || self.places.is_filling() || self.spill.is_filling() {
            return;
        }
        self.is_home = false;
        self.places.free();
        match self.stage {
            Stage::Seals => {
                self.spill.clear();
                self.resumes(out);
            }
            _ => self.drains(out),
        }
    }

    fn resumes(&mut self, out: &mut Outbox<Token>) {
        self.stage = Stage::Runs;
        self.epochs.resume(out);
    }
}

impl<P: Places> Scheme for Checkpoints<P> {
    type Tag = ();
    type Page = ();
    type Token = Token;

    const CAUSES: &'static [&'static str] = CAUSES;

    fn started(&mut self, out: &mut Outbox<Token>) {
        self.epochs.start(out);
    }

    /// What a program calls the end of an epoch is output to it.
    fn epoch(&mut self, now: Cycle, _lane: LaneId, out: &mut Outbox<Token>) -> Answer {
        self.epochs.output(now, out);
        Answer::Proceed
    }

    #[inline]
    fn locate(&self, line: LineAddr) -> LineAddr {
        if self.fault == Some(Fault::ReadsHome) {
            return line;
        }
        self.spill.locate(line).unwrap_or_else(|| self.places.locate(line))
    }

    #[inline]
    fn route_read(&mut self, _now: Cycle, read: &ReadSeen, _out: &mut Outbox<Token>) -> Route {
        let line = self.locate(read.line);
        match self.lookup_cycles {
            0 if line == read.line => Route::Here,
            0 => Route::There(line),
            cycles => Route::After { line, cycles },
        }
    }

    #[inline]
    fn route_write(
        &mut self,
        _now: Cycle,
        write: &WriteSeen<'_, ()>,
        out: &mut Outbox<Token>,
    ) -> WriteRoute {
        if write.line >= self.end {
            return WriteRoute::Here;
        }
        let is_whole = write.words == u8::MAX;
        match self.place(write.line, is_whole, out) {
            Some(at) => self.write_route(at),
            None => {
                self.parked.push((write.ticket, write.line, is_whole));
                WriteRoute::Wait
            }
        }
    }

    fn write_durable(&mut self, now: Cycle, token: Token, out: &mut Outbox<Token>) {
        match token {
            Token::Redo(token) => {
                if token == RedoToken::Record {
                    self.epochs.have_persisted(self.redo.epoch, now);
                }
                match self.redo.write_durable(token, out) {
                    Some(Reached::FirstHome) if P::OVERLAPS => {
                        self.spill.clear();
                        self.resumes(out);
                    }
                    Some(Reached::Free) => {
                        self.is_home = true;
                        self.frees(out);
                    }
                    Some(Reached::FirstHome) | None => {}
                }
            }
            Token::Filled(what) => {
                if self.places.filled(what, out) {
                    self.has_filled(out);
                }
            }
            Token::Spilled(line) => {
                self.spill.filled(line);
                self.has_filled(out);
            }
            Token::Epoch(_) | Token::Flushed => {}
        }
    }

    fn step(&mut self, _now: Cycle, token: Token, out: &mut Outbox<Token>) {
        self.comes(token, out);
    }

    fn stopped(&mut self, _now: Cycle, token: Token, out: &mut Outbox<Token>) {
        self.comes(token, out);
    }

    fn flushed(&mut self, _now: Cycle, token: Token, out: &mut Outbox<Token>) {
        if token == Token::Flushed {
            debug_assert!(self.parked.is_empty(), "a flush waits for its lines");
            self.seals(out);
        }
    }

    fn take_counters(&mut self, each: &mut dyn FnMut(&'static str, &'static str, f64)) {
        self.epochs.take_counters(each);
        let homes = self.redo.take_counts();
        let (lines, pages) = self.places.take_filled();
        let lines = lines + self.spill.take_filled();
        // A page is read and written as one operation each, and so is a block of the directory.
        let blocks = 2 * (homes.pages + pages) + homes.directory_blocks;
        for (name, count) in [
            ("commits", homes.commits),
            ("lines_copied_home", homes.lines),
            ("pages_copied_home", homes.pages),
            ("lines_copied_on_write", lines),
            ("pages_copied_on_write", pages),
            ("block_operations", blocks),
        ] {
            each(name, "count", count as f64);
        }
        let counts = std::mem::take(&mut self.counts);
        each("entries_committed", "count", counts.entries as f64);
        each("lines_past_tables", "count", counts.spilled as f64);
    }
}
