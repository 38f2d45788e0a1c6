//! Shadow sub-paging in the machine's ports: stores, commits, and where lines are.

use outlast_sim::timed::{
    Answer, Cycle, Outbox, ReadSeen, Route, Scheme, StoreSeen, WriteRoute, WriteSeen, WriteTicket,
};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::{LaneId, LineAddr};
use rustc_hash::FxHashMap;

use super::Config;
use super::checkpoint::Checkpoint;
use super::lane::{Ending, Lane, Line, OfPage, State};
use super::layout::{LINES, NONE};
use super::pages::Pages;
use super::plants::Fault;
use crate::image::Image;
use crate::shared::ring::Log;

/// Causes of its traffic, by their place in [`Scheme::CAUSES`].
pub(super) const JOURNAL: Cause = Cause::Scheme(0);
pub(super) const CONSOLIDATION: Cause = Cause::Scheme(1);
pub(super) const TABLE: Cause = Cause::Scheme(2);
pub(super) const OLD_LINE: Cause = Cause::Scheme(3);

/// What its own requests were for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// A record of a lane's transaction was journaled, not its last.
    Journaled { lane: usize },
    /// The last was.
    Committed { lane: usize, seq: u64 },
    /// Lines of a page that is consolidated were copied.
    Copied { page: u32 },
    /// Its record was journaled.
    Consolidated { page: u32, seq: u64 },
    /// A line of the table, or a lane's header, was written.
    Checkpoint,
    /// The truncation point was written.
    Truncated,
    /// A line's old bytes were logged; its record is next.
    OldLine { line: LineAddr },
    /// So was the record.
    OldRecord { line: LineAddr },
    /// A line's old bytes were read from the log, or are in place again.
    Restored { line: LineAddr },
    /// Older bytes of a line, of no transaction, were written to their place.
    Older,
}

/// What is kept beside a line in the caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tag {
    /// The last store of a transaction to it, by its number among all; 0 for none.
    pub(super) version: u32,
    /// Whether stores of no transaction came since it was filled.
    pub(super) is_plain: bool,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) consolidations: u64,
    pub(super) consolidated: u64,
    pub(super) early: u64,
    pub(super) fell_back: u64,
    pub(super) old_lines: u64,
    pub(super) checkpoints: u64,
    pub(super) journal_full: u64,
}

/// The mechanism.
#[derive(Clone, Debug)]
pub(super) struct SubPages {
    pub(super) config: Config,
    pub(super) pages: Pages,
    pub(super) lanes: Vec<Lane>,
    /// Lines that running transactions have stored to.
    pub(super) lines: FxHashMap<LineAddr, Line>,
    /// Pages of running transactions: the page and the lane, and the place among the lane's pages.
    of_pages: FxHashMap<(u32, usize), u32>,
    pub(super) journal: Log,
    pub(super) checkpoint: Checkpoint,
    /// Consolidated pages whose records wait for a slot of the journal.
    pub(super) unjournaled: Vec<u32>,
    /// Writes of pages that are consolidated.
    pub(super) waiting: Vec<(WriteTicket, LineAddr)>,
    pub(super) counts: Counts,
    version: u32,
    /// Whether a store, an end or a walk waits for the scheme.
    pub(super) waits: bool,
}

impl SubPages {
    /// The mechanism over a memory that is zero, or as recovery has left it.
    pub(super) fn new(config: Config, memory: Image<'_>) -> Self {
        let is_anew = config.fault == Some(Fault::CountsAnew);
        let memory = if is_anew { Image::new(&[]) } else { memory };
        let layout = config.layout;
        let header = |lane| memory.word_or_zero(layout.header(lane), 0);
        let lane = |lane| Lane { fell_back: header(lane), ..Lane::default() };
        Self {
            config,
            pages: Pages::new(layout, memory),
            lanes: (0..layout.lanes() as usize).map(lane).collect(),
            lines: FxHashMap::default(),
            of_pages: FxHashMap::default(),
            journal: Log::new(layout.journal, memory),
            checkpoint: Checkpoint::default(),
            unjournaled: Vec::new(),
            waiting: Vec::new(),
            counts: Counts::default(),
            version: 0,
            waits: false,
        }
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.config.fault == Some(fault)
    }

    /// Lets what waits ask again.
    pub(super) fn wake(&mut self, out: &mut Outbox<Token>) {
        if std::mem::take(&mut self.waits) {
            out.wake();
        }
    }

    pub(super) fn wait(&mut self) -> Answer {
        self.waits = true;
        Answer::Wait
    }

    /// Whether a lane's transaction shadows a page that it stores to, or logs old lines of it. None
    /// while that cannot be said: a physical page is about to come free.
    fn shadows(&mut self, lane: usize, page: u32, out: &mut Outbox<Token>) -> Option<usize> {
        if let Some(place) = self.of_pages.get(&(page, lane)) {
            return Some(*place as usize);
        }
        let is_over = self.lanes[lane].pages.len() as u64 >= self.config.tx_pages;
        let mut is_shadowed = !is_over;
        if is_shadowed && self.pages.get(page).other == NONE {
            is_shadowed = self.pages.activate(page);
            if !is_shadowed {
                if let Some(victim) = self.pages.victim() {
                    self.counts.early += 1;
                    self.consolidate(victim, out);
                }
                if self.pages.is_consolidating() {
                    return None;
                }
                is_shadowed = self.pages.activate(page);
            }
        }
        let of = &mut self.lanes[lane];
        let place = of.pages.len();
        of.pages.push(OfPage { page, lines: 0, is_shadowed });
        self.of_pages.insert((page, lane), place as u32);
        Some(place)
    }

    /// The first store of a transaction to a line. Whether it may proceed.
    fn opens(
        &mut self,
        lane: usize,
        page: u32,
        line: LineAddr,
        store: &StoreSeen<'_>,
        tag: Tag,
        out: &mut Outbox<Token>,
    ) -> Answer {
        let Some(place) = self.shadows(lane, page, out) else { return self.wait() };
        let bit = 1 << (line.0 % LINES);
        let of = &mut self.lanes[lane];
        of.lines.push(line);
        let is_shadowed = of.pages[place].is_shadowed;
        let mut new = Line { lane, version: 0, state: State::Dirty, old: None };
        if is_shadowed {
            of.pages[place].lines |= bit;
            if tag.is_plain {
                self.keep_older(line, store.old, out);
            }
            let page = self.pages.get_mut(page);
            page.open |= bit;
            if self.config.fault != Some(Fault::InPlace) {
                page.current ^= bit;
            }
            self.lines.insert(line, new);
            return Answer::Proceed;
        }
        self.pages.get_mut(page).open |= bit;
        new.old = Some(of.old_lines);
        new.state = State::Logging;
        of.old_lines += 1;
        self.lines.insert(line, new);
        self.log_old(line, store.old, out);
        if self.has(Fault::UnloggedOld) {
            return Answer::Proceed;
        }
        self.wait()
    }

    /// The transaction of a lane is over, in whichever way.
    pub(super) fn close(&mut self, lane: usize, out: &mut Outbox<Token>) {
        for at in 0..self.lanes[lane].lines.len() {
            let line = self.lanes[lane].lines[at];
            self.lines.remove(&line);
            if let Some(page) = self.pages.number_of(line) {
                self.pages.get_mut(page).open &= !(1 << (line.0 % LINES));
            }
        }
        for at in 0..self.lanes[lane].pages.len() {
            let page = self.lanes[lane].pages[at].page;
            self.of_pages.remove(&(page, lane));
            if self.pages.get(page).tlbs == 0 && self.config.is_translated {
                self.consolidate(page, out);
            }
        }
        self.lanes[lane].close();
    }

    /// Where a line's newest bytes go and are.
    #[inline]
    fn place(&self, line: LineAddr) -> LineAddr {
        match self.pages.number_of(line) {
            Some(page) => self.pages.get(page).place(line),
            None => line,
        }
    }
}

impl Scheme for SubPages {
    type Tag = Tag;
    /// The current bitmap, as TLB entries have it; the controller has the same.
    type Page = u64;
    type Token = Token;

    const CAUSES: &'static [&'static str] =
        &["metadata journal", "consolidation", "metadata table", "old lines"];

    fn begin(&mut self, _now: Cycle, lane: LaneId, _out: &mut Outbox<Token>) -> Answer {
        self.lanes[usize::from(lane.0)].is_open = true;
        Answer::Proceed
    }

    fn store(
        &mut self,
        _now: Cycle,
        lane: LaneId,
        store: &StoreSeen<'_>,
        tag: &mut Tag,
        bits: Option<&mut u64>,
        out: &mut Outbox<Token>,
    ) -> Answer {
        let line = store.at.line();
        let of = self.lines.get(&line).copied();
        let lane = match of {
            Some(of) => of.lane,
            None if self.lanes[usize::from(lane.0)].is_open => usize::from(lane.0),
            None => {
                tag.is_plain = true;
                return Answer::Proceed;
            }
        };
        let Some(page) = self.pages.number_of(line) else { return Answer::Proceed };
        if self.lanes[lane].ending != Ending::NotYet || self.pages.get(page).consolidating.is_some()
        {
            return self.wait();
        }
        let answer = match of {
            None => self.opens(lane, page, line, store, *tag, out),
            Some(Line { state: State::Logging, .. }) if !self.has(Fault::UnloggedOld) => {
                self.wait()
            }
            Some(_) => Answer::Proceed,
        };
        if answer == Answer::Wait {
            return answer;
        }
        self.version = self.version.wrapping_add(1).max(1);
        if let Some(of) = self.lines.get_mut(&line) {
            if of.state == State::Durable {
                self.lanes[lane].durable -= 1;
            }
            (of.version, of.state) = (self.version, State::Dirty);
        }
        *tag = Tag { version: self.version, is_plain: false };
        if let Some(bits) = bits {
            *bits = self.pages.get(page).current;
        }
        Answer::Proceed
    }

    fn end(&mut self, _now: Cycle, lane: LaneId, out: &mut Outbox<Token>) -> Answer {
        let lane = usize::from(lane.0);
        match self.lanes[lane].ending {
            Ending::NotYet if self.lanes[lane].lines.is_empty() => {
                self.lanes[lane].close();
                return Answer::Proceed;
            }
            Ending::NotYet => {
                self.lanes[lane].ending = Ending::Flushing;
                for line in &self.lanes[lane].lines {
                    if self.lines.get(line).is_some_and(|of| of.state == State::Dirty) {
                        out.force(*line);
                    }
                }
                self.seal(lane, out);
            }
            Ending::Flushing => self.seal(lane, out),
            Ending::Durable => {
                self.lanes[lane].close();
                return Answer::Proceed;
            }
            Ending::Sealing if self.has(Fault::EndsEarly) => return Answer::Proceed,
            _ => {}
        }
        self.wait()
    }

    fn abort(&mut self, _now: Cycle, lane: LaneId, out: &mut Outbox<Token>) -> Answer {
        self.give_up(lane.0.into(), out)
    }

    fn is_discarded(&mut self, _now: Cycle, write: &WriteSeen<'_, Tag>) -> bool {
        !write.tag.is_plain
    }

    #[inline]
    fn filled(&mut self, _now: Cycle, line: LineAddr, _out: &mut Outbox<Token>) -> Tag {
        let version = self.lines.get(&line).map_or(0, |of| of.version);
        Tag { version, is_plain: false }
    }

    fn translated(
        &mut self,
        _now: Cycle,
        _lane: LaneId,
        page: u64,
        bits: &mut u64,
        _out: &mut Outbox<Token>,
    ) {
        if page < self.pages.len() {
            let page = self.pages.get_mut(page as u32);
            page.tlbs += 1;
            *bits = page.current;
        }
    }

    fn page_leaves(
        &mut self,
        _now: Cycle,
        page: u64,
        _bits: &mut u64,
        out: &mut Outbox<Token>,
    ) -> Answer {
        if page >= self.pages.len() {
            return Answer::Proceed;
        }
        let page = page as u32;
        self.consolidate(page, out);
        if self.config.walks_wait && self.pages.get(page).consolidating.is_some() {
            return self.wait();
        }
        Answer::Proceed
    }

    fn untranslated(&mut self, _now: Cycle, _lane: LaneId, page: u64, _out: &mut Outbox<Token>) {
        if page < self.pages.len() {
            self.pages.get_mut(page as u32).tlbs -= 1;
        }
    }

    #[inline]
    fn locate(&self, line: LineAddr) -> LineAddr {
        self.place(line)
    }

    #[inline]
    fn route_read(&mut self, _now: Cycle, read: &ReadSeen, _out: &mut Outbox<Token>) -> Route {
        match self.place(read.line) {
            line if line == read.line => Route::Here,
            line => Route::There(line),
        }
    }

    fn route_write(
        &mut self,
        _now: Cycle,
        write: &WriteSeen<'_, Tag>,
        _out: &mut Outbox<Token>,
    ) -> WriteRoute {
        let Some(page) = self.pages.number_of(write.line) else { return WriteRoute::Here };
        let page = self.pages.get(page);
        if page.consolidating.is_some() {
            self.waiting.push((write.ticket, write.line));
            return WriteRoute::Wait;
        }
        if let Some(of) = self.lines.get_mut(&write.line)
            && of.version == write.tag.version
            && of.state == State::Dirty
        {
            of.state = State::Sent(write.sent);
        }
        match page.place(write.line) {
            line if line == write.line => WriteRoute::Here,
            line => WriteRoute::There(line),
        }
    }

    fn durable(
        &mut self,
        _now: Cycle,
        line: LineAddr,
        cause: Cause,
        sent: Cycle,
        out: &mut Outbox<Token>,
    ) {
        if let Cause::Scheme(_) = cause {
            return;
        }
        let Some(of) = self.lines.get_mut(&line) else { return };
        if of.state == State::Sent(sent) {
            of.state = State::Durable;
            let lane = of.lane;
            self.lanes[lane].durable += 1;
            self.seal(lane, out);
        }
    }

    fn write_durable(&mut self, _now: Cycle, token: Token, out: &mut Outbox<Token>) {
        match token {
            Token::Journaled { lane } => {
                self.lanes[lane].outstanding -= 1;
                self.send_last(lane, out);
            }
            Token::Committed { lane, seq } => self.committed(lane, seq, out),
            Token::Copied { page } => self.copied(page, out),
            Token::Consolidated { page, seq } => self.consolidated(page, seq, out),
            Token::Checkpoint => self.checkpointed(out),
            Token::Truncated => {
                self.journal.moved();
                self.journal_consolidations(out);
                self.wake(out);
            }
            Token::OldLine { line } => self.log_record(line, out),
            Token::OldRecord { line } => {
                if let Some(of) = self.lines.get_mut(&line)
                    && of.state == State::Logging
                {
                    of.state = State::Dirty;
                }
                self.wake(out);
            }
            Token::Restored { line } => self.is_restored(line, out),
            Token::Older => {}
        }
    }

    fn read_done(&mut self, _now: Cycle, token: Token, data: &LineBytes, out: &mut Outbox<Token>) {
        if let Token::Restored { line } = token {
            self.restore(line, data, out);
        }
    }

    fn take_counters(&mut self, each: &mut dyn FnMut(&'static str, &'static str, f64)) {
        let counts = std::mem::take(&mut self.counts);
        each("consolidations", "count", counts.consolidations as f64);
        each("consolidated_lines", "count", counts.consolidated as f64);
        each("consolidated_early", "count", counts.early as f64);
        each("fell_back", "count", counts.fell_back as f64);
        each("old_lines", "count", counts.old_lines as f64);
        each("checkpoints", "count", counts.checkpoints as f64);
        each("journal_full", "count", counts.journal_full as f64);
    }
}
