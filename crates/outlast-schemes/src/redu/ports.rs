//! The redo log in the machine's ports: stores, commits, and where lines are.

use outlast_sim::timed::{
    Answer, Block, Cycle, Outbox, ReadSeen, Route, Scheme, SchemeWrite, StoreSeen, WriteRoute,
    WriteSeen, WriteTicket,
};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::{LaneId, LineAddr};
use rustc_hash::FxHashMap;

use super::dram::DramCache;
use super::lane::{Ending, Lane};
use super::plants::Fault;
use super::update::Updates;
use super::{Config, GROUP};
use crate::image::Image;
use crate::shared::ring::{Commit, Header, Log, WORDS};

/// Causes of its traffic, by their place in [`Scheme::CAUSES`].
pub(super) const LOG: Cause = Cause::Scheme(0);
pub(super) const IN_PLACE: Cause = Cause::Scheme(1);
pub(super) const TRUNCATION: Cause = Cause::Scheme(2);
pub(super) const READ_BACK: Cause = Cause::Scheme(3);

/// What its own requests were for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// A header of a lane's log was written, or a record's lines: how many.
    Logged { lane: u8, lines: u8 },
    /// The header that makes a lane's transaction count was written.
    Committed { lane: u8, seq: u64 },
    /// A line of a transaction was written in place; whether it was one of those under way.
    InPlace { seq: u64, is_update: bool },
    /// The same of a line that left the caches by itself, or was forced out.
    Left { seq: u64, is_update: bool, ticket: WriteTicket },
    /// Older bytes of a line, of no transaction, were written in place.
    Older,
    /// A line was read back from the log.
    ReadBack { seq: u64, line: LineAddr },
    /// The truncation point was written.
    Truncated,
}

/// What is kept beside a line in the caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tag {
    /// The last store of a transaction to it, by its number among all; 0 for none.
    version: u32,
    /// Whether stores of no transaction came since it was filled.
    is_plain: bool,
}

impl Tag {
    /// Whether stores of no transaction came since it was filled.
    pub(super) fn is_plain(self) -> bool {
        self.is_plain
    }
}

/// Where a line stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// A lane's running transaction has stored to it.
    Open(usize),
    /// It waits to be written in place, for the commit with this number.
    Queued(u64),
    /// It was forced out of the caches for that, or is read back from the log.
    Leaving(u64),
}

/// A line whose newest bytes are not in place, nor on their way there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) phase: Phase,
    /// The last store to it.
    pub(super) version: u32,
    /// Whether that store's bytes have left the caches: they are in the DRAM cache then, or else where
    /// they were logged.
    pub(super) has_left: bool,
    /// Where it was logged last; its lane's buffer, if nowhere.
    pub(super) logged: Option<LineAddr>,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) records: u64,
    pub(super) coalesced: u64,
    pub(super) log_full: u64,
    pub(super) buffer_full: u64,
    pub(super) lookups: u64,
    pub(super) hits: u64,
    pub(super) dram_full: u64,
    pub(super) log_reads: u64,
}

/// The mechanism.
#[derive(Clone, Debug)]
pub(super) struct Redu {
    pub(super) config: Config,
    pub(super) lanes: Vec<Lane>,
    pub(super) lines: FxHashMap<LineAddr, Line>,
    pub(super) dram: DramCache,
    pub(super) log: Log,
    pub(super) updates: Updates,
    pub(super) counts: Counts,
    version: u32,
    /// Whether a store or an end waits for the scheme.
    waits: bool,
}

impl Redu {
    /// The mechanism over a memory that is zero, or as recovery has left it.
    pub(super) fn new(config: Config, memory: Image<'_>) -> Self {
        Self {
            config,
            lanes: vec![Lane::default(); config.rings.rings as usize],
            lines: FxHashMap::default(),
            dram: DramCache::new(config.dram),
            log: Log::new(config.rings, memory),
            updates: Updates::new(config.updates),
            counts: Counts::default(),
            version: 0,
            waits: false,
        }
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.config.fault == Some(fault)
    }

    /// Whether a lane's buffer has room for another line, or can make it.
    fn makes_room(&mut self, index: usize, out: &mut Outbox<Token>) -> bool {
        if self.lanes[index].buffer.len() == GROUP {
            if !self.log.has_room(index) {
                self.counts.log_full += 1;
                self.truncate(out);
                return false;
            }
            let record = self.send_lines(index, out);
            self.send_header(index, record, None, out);
        }
        let Lane { buffer, in_flight, .. } = &self.lanes[index];
        let has_room = buffer.len() + in_flight < self.config.buffer;
        self.counts.buffer_full += u64::from(!has_room);
        has_room
    }

    /// Sends the lines of a lane's next record; returns its number.
    fn send_lines(&mut self, index: usize, out: &mut Outbox<Token>) -> u64 {
        let record = self.log.take(index);
        let place = self.config.rings.data(index, record);
        let lane = &mut self.lanes[index];
        for (number, (line, _)) in lane.buffer.iter().enumerate() {
            if let Some(line) = self.lines.get_mut(line) {
                line.logged = Some(place.plus(number as u64));
            }
        }
        let lines = lane.buffer.len();
        lane.in_flight += lines;
        lane.outstanding += 1;
        self.counts.records += 1;
        out.write_block(Block {
            line: place,
            data: lane.buffer.iter().map(|(_, data)| *data).collect(),
            cause: LOG,
            token: Token::Logged { lane: index as u8, lines: lines as u8 },
        });
        record
    }

    /// Sends the header of the record whose lines were sent last.
    fn send_header(
        &mut self,
        index: usize,
        record: u64,
        commit: Option<Commit>,
        out: &mut Outbox<Token>,
    ) {
        let lane = &mut self.lanes[index];
        let mut words = [0; WORDS];
        for (word, (line, _)) in words.iter_mut().zip(&lane.buffer) {
            *word = line.0;
        }
        let header = Header { number: record, count: lane.buffer.len() as u8, commit, words };
        lane.buffer.clear();
        let token = match commit {
            Some(commit) => Token::Committed { lane: index as u8, seq: commit.seq },
            None => {
                lane.outstanding += 1;
                Token::Logged { lane: index as u8, lines: 0 }
            }
        };
        out.write(SchemeWrite {
            line: self.config.rings.header(index, record),
            words: u8::MAX,
            data: header.encode(),
            cause: LOG,
            token,
        });
    }

    /// Sends the commit of a lane whose other records are durable (R1).
    fn seal(&mut self, index: usize, out: &mut Outbox<Token>) {
        let lane = &mut self.lanes[index];
        if let Ending::Draining { record } = lane.ending
            && (lane.outstanding == 0 || self.config.fault == Some(Fault::CommitEarly))
        {
            lane.ending = Ending::Sealing;
            let commit = self.log.commit(index);
            self.send_header(index, record, Some(commit), out);
        }
    }

    /// The end of a transaction is as good as durable: its lines are to be written in place.
    fn committed(&mut self, index: usize, seq: u64, out: &mut Outbox<Token>) {
        let lane = &mut self.lanes[index];
        lane.ending = Ending::Durable;
        self.log.committed(seq, lane.lines.len() as u64);
        for line in lane.lines.drain(..) {
            if let Some(of) = self.lines.get_mut(&line) {
                of.phase = Phase::Queued(seq);
            }
            self.updates.queue(seq, line);
        }
        match self.config.fault {
            Some(Fault::PassesUnapplied) => self.log.pass_unapplied(),
            Some(Fault::EndsEarly) => self.lanes[index].ending = Ending::NotYet,
            _ => {}
        }
        self.update(out);
        self.wake(out);
    }

    /// Lets what waits ask again.
    pub(super) fn wake(&mut self, out: &mut Outbox<Token>) {
        if std::mem::take(&mut self.waits) {
            out.wake();
        }
    }

    /// Where a line's bytes are that have left the caches and found no way in the DRAM cache: in the
    /// log, or else in its lane's buffer.
    #[inline]
    fn logged(&self, line: LineAddr) -> Option<Result<LineAddr, &LineBytes>> {
        let of = self.lines.get(&line).filter(|of| of.has_left)?;
        match (of.logged, of.phase) {
            (Some(at), _) => Some(Ok(at)),
            (None, Phase::Open(lane)) => self.lanes[lane].buffered(line).map(Err),
            (None, _) => None,
        }
    }
}

/// The line behind a store.
fn stored(store: &StoreSeen<'_>) -> LineBytes {
    let mut data = *store.old;
    data[(store.at.0 % 64) as usize..][..store.new.len()].copy_from_slice(store.new);
    data
}

impl Scheme for Redu {
    type Tag = Tag;
    type Page = ();
    type Token = Token;

    const CAUSES: &'static [&'static str] = &["log", "in place", "truncation", "log read"];

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
        _page: Option<&mut ()>,
        out: &mut Outbox<Token>,
    ) -> Answer {
        let line = store.at.line();
        let of = self.lines.get(&line).copied();
        let index = match of {
            Some(Line { phase: Phase::Open(owner), .. }) => owner,
            _ if self.lanes[usize::from(lane.0)].is_open => usize::from(lane.0),
            _ => {
                tag.is_plain = true;
                return Answer::Proceed;
            }
        };
        if self.lanes[index].ending != Ending::NotYet
            || matches!(of, Some(Line { phase: Phase::Leaving(_), .. }))
        {
            self.waits = true;
            return Answer::Wait;
        }
        let data = stored(store);
        let joins = self.lanes[index].join(line, &data);
        let is_open = matches!(of, Some(Line { phase: Phase::Open(_), .. }));
        let is_logged = is_open && self.has(Fault::LogsOnce);
        if joins {
            self.counts.coalesced += 1;
        } else if !is_logged && !self.makes_room(index, out) {
            self.waits = true;
            return Answer::Wait;
        }
        self.version = self.version.wrapping_add(1).max(1);
        let new = Line {
            phase: Phase::Open(index),
            version: self.version,
            has_left: false,
            logged: None,
        };
        if !is_open {
            self.keep_older(line, of, store.old, *tag, out);
            self.lanes[index].lines.push(line);
        }
        if !joins && !is_logged {
            self.lanes[index].buffer.push((line, data));
        }
        self.lines.insert(line, new);
        *tag = Tag { version: self.version, is_plain: false };
        Answer::Proceed
    }

    fn end(&mut self, _now: Cycle, lane: LaneId, out: &mut Outbox<Token>) -> Answer {
        let index = usize::from(lane.0);
        match self.lanes[index].ending {
            Ending::NotYet if self.lanes[index].lines.is_empty() => {
                self.lanes[index].close();
                return Answer::Proceed;
            }
            Ending::NotYet if !self.log.has_room(index) => {
                self.counts.log_full += 1;
                self.truncate(out);
            }
            Ending::NotYet => {
                let record = self.send_lines(index, out);
                self.lanes[index].ending = Ending::Draining { record };
                self.seal(index, out);
            }
            Ending::Draining { .. } => {}
            Ending::Sealing if self.has(Fault::EndsEarly) => return Answer::Proceed,
            Ending::Sealing => {}
            Ending::Durable => {
                self.lanes[index].close();
                return Answer::Proceed;
            }
        }
        self.waits = true;
        Answer::Wait
    }

    fn abort(&mut self, _now: Cycle, lane: LaneId, out: &mut Outbox<Token>) -> Answer {
        let index = usize::from(lane.0);
        for line in std::mem::take(&mut self.lanes[index].lines) {
            self.lines.remove(&line);
            if !self.has(Fault::AbortedLeft) {
                self.dram.remove(line);
            }
            out.discard(line);
        }
        self.log.abort(index);
        self.lanes[index].close();
        Answer::Proceed
    }

    fn is_discarded(&mut self, _now: Cycle, write: &WriteSeen<'_, Tag>) -> bool {
        !write.tag.is_plain
    }

    #[inline]
    fn filled(&mut self, _now: Cycle, line: LineAddr, _out: &mut Outbox<Token>) -> Tag {
        let version = self.lines.get(&line).map_or(0, |of| of.version);
        Tag { version, is_plain: false }
    }

    #[inline]
    fn locate(&self, line: LineAddr) -> LineAddr {
        match self.logged(line) {
            Some(Ok(at)) if !self.has(Fault::ReadsPast) => at,
            _ => line,
        }
    }

    #[inline]
    fn held(&self, line: LineAddr) -> Option<&LineBytes> {
        if self.has(Fault::ReadsPast) {
            return None;
        }
        self.dram.get(line).or_else(|| self.logged(line).and_then(Result::err))
    }

    fn route_read(&mut self, _now: Cycle, read: &ReadSeen, _out: &mut Outbox<Token>) -> Route {
        let cycles = self.config.latency;
        self.counts.lookups += 1;
        if self.dram.look_up(read.line) {
            self.counts.hits += 1;
            return Route::Answered { cycles };
        }
        match self.logged(read.line) {
            Some(Err(_)) => Route::Answered { cycles },
            Some(Ok(line)) => {
                self.counts.log_reads += 1;
                Route::After { line, cycles }
            }
            None => Route::After { line: read.line, cycles },
        }
    }

    fn route_write(
        &mut self,
        _now: Cycle,
        write: &WriteSeen<'_, Tag>,
        out: &mut Outbox<Token>,
    ) -> WriteRoute {
        let Some(of) = self.lines.get_mut(&write.line) else {
            self.dram.remove(write.line);
            return WriteRoute::Here;
        };
        let is_newest = write.tag.version == of.version;
        match of.phase {
            Phase::Open(_) if is_newest => {
                of.has_left = true;
                if !self.dram.insert(write.line, write.data) {
                    self.counts.dram_full += 1;
                }
                if self.has(Fault::InPlace) {
                    return WriteRoute::Here;
                }
                out.done(write.ticket);
            }
            // Bytes of no transaction, from before this one's first store.
            Phase::Open(_) if write.tag.is_plain => {
                self.dram.remove(write.line);
                return WriteRoute::Here;
            }
            Phase::Queued(seq) | Phase::Leaving(seq) if is_newest => {
                let is_update = matches!(of.phase, Phase::Leaving(_));
                self.lines.remove(&write.line);
                self.dram.remove(write.line);
                out.write_inside(SchemeWrite {
                    line: write.line,
                    words: write.words,
                    data: *write.data,
                    cause: IN_PLACE,
                    token: Token::Left { seq, is_update, ticket: write.ticket },
                });
                self.wake(out);
            }
            // The caches have newer bytes, or have sent them already.
            _ => out.done(write.ticket),
        }
        WriteRoute::Taken
    }

    fn write_durable(&mut self, _now: Cycle, token: Token, out: &mut Outbox<Token>) {
        match token {
            Token::Logged { lane, lines } => {
                let index = usize::from(lane);
                let lane = &mut self.lanes[index];
                lane.outstanding -= 1;
                lane.in_flight -= usize::from(lines);
                self.seal(index, out);
                self.wake(out);
            }
            Token::Committed { lane, seq } => self.committed(lane.into(), seq, out),
            Token::InPlace { seq, is_update } => self.is_in_place(seq, is_update, out),
            Token::Left { seq, is_update, ticket } => {
                out.done(ticket);
                self.is_in_place(seq, is_update, out);
            }
            Token::Truncated => {
                self.log.moved();
                self.truncate(out);
                self.wake(out);
            }
            Token::Older | Token::ReadBack { .. } => {}
        }
    }

    fn read_done(&mut self, _now: Cycle, token: Token, data: &LineBytes, out: &mut Outbox<Token>) {
        if let Token::ReadBack { seq, line } = token {
            self.read_back(seq, line, data, out);
        }
    }

    fn take_counters(&mut self, each: &mut dyn FnMut(&'static str, &'static str, f64)) {
        let counts = std::mem::take(&mut self.counts);
        each("log_records", "count", counts.records as f64);
        each("log_coalesced", "count", counts.coalesced as f64);
        each("log_full", "count", counts.log_full as f64);
        each("log_buffer_full", "count", counts.buffer_full as f64);
        each("dram_lookups", "count", counts.lookups as f64);
        each("dram_hits", "count", counts.hits as f64);
        each("dram_full", "count", counts.dram_full as f64);
        each("log_reads", "count", counts.log_reads as f64);
    }
}
