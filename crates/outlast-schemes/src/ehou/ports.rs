//! The mechanism in the machine's ports. `entries` and `commit` have the rest of it.

use outlast_sim::timed::{
    Answer, Cycle, Outbox, ReadSeen, Route, Scheme, StoreSeen, WriteRoute, WriteSeen,
};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::{LaneId, LineAddr};
use rustc_hash::FxHashMap;

use super::config::{Config, Fault};
use super::layout::{Record, TAKEN, WORDS};
use crate::shared::{Bloom, SetAssoc};
use outlast_sim::timed::{Lookups, Waiting};

/// Causes of its traffic, by their place in [`Scheme::CAUSES`].
pub(super) const AIT: Cause = Cause::Scheme(0);
pub(super) const LOG: Cause = Cause::Scheme(1);
pub(super) const COPY: Cause = Cause::Scheme(2);
pub(super) const RECLAIM: Cause = Cause::Scheme(3);
pub(super) const FREE: Cause = Cause::Scheme(4);
pub(super) const COMMIT: Cause = Cause::Scheme(5);

/// What its own requests were for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// A block's entry was not cached, as its lookup says now.
    Missed(u64),
    /// A line of the map with a block's entry.
    Entry(u64),
    /// A line of a lane's overflow log, read for a block that missed.
    Searched { block: u64, lane: u16, line: u32 },
    /// A line of a lane's overflow log, read to be applied.
    Replayed { lane: u16, line: u32 },
    /// Lines of a block were copied to its new place.
    Copied(u64),
    /// An entry of a lane's transaction that ends is in the map.
    Applied(u16),
    /// An entry for which no lane waits is in the map, or a line of a log is in its place.
    Written,
    /// A lane looks again whether its lines are durable.
    Look,
}

/// What a cached entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    /// As in the map.
    #[default]
    Clean,
    /// Committed, and not in the map.
    Committed,
    /// Committed, and on its way there.
    Persisting,
    /// Of a transaction that runs, whose block is being copied to its new place.
    Copying,
    /// Of a transaction that runs.
    Speculative,
}

/// A cached entry; where its block lies the map of newest places says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Entry {
    pub(super) state: State,
    /// Its place in the write set of the transaction that runs.
    pub(super) write: u32,
}

/// Where the record of a speculative entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In the reclaim list.
    Reclaim(u32),
    /// In the overflow log.
    Log(u32),
}

/// A block of a write set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Write {
    pub(super) block: u32,
    pub(super) new: u32,
    /// The spare block whose word named the new one.
    pub(super) slot: u32,
    pub(super) place: Place,
}

/// A lane, its transaction, write set, reclaim list and overflow log.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) is_open: bool,
    /// The number of the transaction that runs, or of the next.
    pub(super) tx: u64,
    /// Its lines have been forced out.
    pub(super) is_forced: bool,
    /// Its commit is durable, or being undone, and so much is to be waited for.
    pub(super) left: Option<u32>,
    /// Blocks that it stores to.
    pub(super) claimed: Vec<u32>,
    /// Of each line whose last store memory may not have, that store's time.
    pub(super) unwritten: FxHashMap<LineAddr, Cycle>,
    pub(super) writes: Vec<Write>,
    /// Free places of the reclaim list, the first one last; and those that were used.
    pub(super) places: Vec<u32>,
    pub(super) places_used: u32,
    pub(super) log: Vec<Record>,
    /// Lines of the log that left its buffer.
    pub(super) log_lines_written: u32,
    /// Blocks with a record in the log, and their places in the write set.
    pub(super) logged: FxHashMap<u32, u32>,
    pub(super) bloom: Bloom,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stats {
    pub(super) lookups: u64,
    pub(super) misses: u64,
    pub(super) overwritten: u64,
    pub(super) evicted: u64,
    pub(super) overflowed: u64,
    pub(super) found_in_log: u64,
    pub(super) found_in_none: u64,
    pub(super) waits: u64,
    pub(super) aborts: u64,
}

/// The mechanism.
#[derive(Clone, Debug)]
pub(super) struct Ehou {
    pub(super) config: Config,
    pub(super) cache: SetAssoc<Entry>,
    pub(super) lookups: Lookups,
    /// Where each block of the program lies, and where it does for recovery.
    pub(super) newest: Vec<u32>,
    pub(super) committed: Vec<u32>,
    /// The free block that each spare one's word names, and spare ones with such.
    pub(super) free: Vec<u32>,
    pub(super) spares: Vec<u32>,
    /// Of each block, the lane whose transaction stores to it, plus one.
    pub(super) claims: Vec<u8>,
    pub(super) lanes: Vec<Lane>,
    /// Of each line that was stored to outside of transactions and that memory may not have, the
    /// last store's time.
    loose: FxHashMap<LineAddr, Cycle>,
    /// Blocks being copied, and copies of each under way.
    pub(super) copying: Vec<(u64, u8)>,
    /// Blocks whose entries are known and find no room.
    pub(super) starved: Vec<u64>,
    pub(super) stats: Stats,
}

impl Ehou {
    /// The mechanism over memory that starts with these bytes.
    pub(super) fn new(config: Config, base: &[u8]) -> Self {
        let layout = config.layout;
        let word = |line: LineAddr, number: u64| {
            let at = (line.start().0 + 8 * number) as usize;
            let bytes = base.get(at..at + 8);
            bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
        };
        let place = |block: u64| word(layout.map_line(block), block % WORDS) ^ block;
        let newest: Vec<u32> = (0..layout.blocks).map(|block| place(block) as u32).collect();
        let free = (layout.blocks..layout.all()).map(|spare| place(spare) as u32).collect();
        let lane = |lane: u64| Lane {
            is_open: false,
            tx: word(layout.header(lane), 1) + 1,
            is_forced: false,
            left: None,
            claimed: Vec::new(),
            unwritten: FxHashMap::default(),
            writes: Vec::new(),
            places: (0..layout.reclaimed as u32).rev().collect(),
            places_used: 0,
            log: Vec::new(),
            log_lines_written: 0,
            logged: FxHashMap::default(),
            bloom: Bloom::new(config.bloom_bits),
        };
        Self {
            config,
            cache: SetAssoc::new(config.ait.sets, config.ait.ways),
            lookups: Lookups::default(),
            committed: newest.clone(),
            newest,
            free,
            spares: (0..layout.spares as u32).rev().collect(),
            claims: vec![0; layout.blocks as usize],
            lanes: (0..layout.lanes).map(lane).collect(),
            loose: FxHashMap::default(),
            copying: Vec::new(),
            starved: Vec::new(),
            stats: Stats::default(),
        }
    }

    #[inline]
    pub(super) fn has(&self, fault: Fault) -> bool {
        self.config.faults.has(fault)
    }

    /// Where a program's line lies.
    #[inline]
    pub(super) fn place_of(&self, line: LineAddr) -> LineAddr {
        let layout = self.config.layout;
        layout.line_in(self.newest[layout.block_of(line) as usize].into(), line)
    }

    fn miss(&mut self, now: Cycle, block: u64, asked: Waiting, out: &mut Outbox<Token>) {
        self.stats.misses += 1;
        if self.lookups.wait(block, asked) {
            out.call(now.plus(self.config.ait.latency_cycles), Token::Missed(block));
        }
    }

    /// Lets a lane's transaction have a line's block, or says that it has to wait: for another
    /// lane's transaction, or for what was stored there outside of any.
    fn claim(&mut self, lane: usize, line: LineAddr, out: &mut Outbox<Token>) -> Answer {
        let layout = self.config.layout;
        let block = layout.block_of(line);
        if self.claims[block as usize] != 0 {
            self.stats.waits += 1;
            return Answer::Wait;
        }
        if !self.loose.is_empty() {
            let first = LineAddr(block * layout.block_lines);
            let lines = (0..layout.block_lines).map(|number| first.plus(number));
            let mut any = false;
            for line in lines.filter(|line| self.loose.contains_key(line)) {
                out.force(line);
                any = true;
            }
            if any {
                return Answer::Wait;
            }
        }
        self.claims[block as usize] = lane as u8 + 1;
        self.lanes[lane].claimed.push(block as u32);
        Answer::Proceed
    }
}

impl Scheme for Ehou {
    type Tag = ();
    type Page = ();
    type Token = Token;

    const CAUSES: &'static [&'static str] =
        &["ait", "overflow log", "copies", "reclaim list", "free list", "commits"];

    fn begin(&mut self, _now: Cycle, lane: LaneId, _out: &mut Outbox<Token>) -> Answer {
        self.lanes[usize::from(lane.0)].is_open = true;
        Answer::Proceed
    }

    fn end(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox<Token>) -> Answer {
        self.ends(now, lane.0, out)
    }

    fn abort(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox<Token>) -> Answer {
        self.aborts(now, lane.0, out)
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
        if line >= self.config.layout.end {
            return Answer::Proceed;
        }
        let claim = self.claims[self.config.layout.block_of(line) as usize];
        if !self.lanes[index].is_open {
            if claim != 0 {
                self.stats.waits += 1;
                return Answer::Wait;
            }
            self.loose.insert(line, now);
            return Answer::Proceed;
        }
        if usize::from(claim) != index + 1 && self.claim(index, line, out) == Answer::Wait {
            return Answer::Wait;
        }
        self.lanes[index].unwritten.insert(line, now);
        Answer::Proceed
    }

    #[inline]
    fn locate(&self, line: LineAddr) -> LineAddr {
        if line >= self.config.layout.end { line } else { self.place_of(line) }
    }

    #[inline]
    fn route_read(&mut self, now: Cycle, read: &ReadSeen, out: &mut Outbox<Token>) -> Route {
        let line = read.line;
        if line >= self.config.layout.end {
            return Route::Here;
        }
        self.stats.lookups += 1;
        let (block, cycles) = (self.config.layout.block_of(line), self.config.ait.latency_cycles);
        if let Some(at) = self.cache.find(block) {
            self.cache.touch(at);
            return Route::After { line: self.place_of(line), cycles };
        }
        self.miss(now, block, Waiting::Read(read.ticket, line, now.plus(cycles)), out);
        Route::Wait
    }

    #[inline]
    fn route_write(
        &mut self,
        now: Cycle,
        write: &WriteSeen<'_, ()>,
        out: &mut Outbox<Token>,
    ) -> WriteRoute {
        let line = write.line;
        if line >= self.config.layout.end {
            return WriteRoute::Here;
        }
        self.stats.lookups += 1;
        let (block, cycles) = (self.config.layout.block_of(line), self.config.ait.latency_cycles);
        let asked = Waiting::Write(write.ticket, line, now.plus(cycles), write.words);
        if let Some(at) = self.cache.find(block) {
            self.cache.touch(at);
            if !self.lookups.is_waited_for(block)
                && let Some(line) = self.write_goes(at, block, line, write.words, out)
            {
                return WriteRoute::After { line, cycles };
            }
            self.lookups.wait(block, asked);
        } else {
            self.miss(now, block, asked, out);
        }
        WriteRoute::Wait
    }

    fn is_discarded(&mut self, _now: Cycle, write: &WriteSeen<'_, ()>) -> bool {
        self.lookups.forget(write.ticket);
        true
    }

    fn durable(
        &mut self,
        _now: Cycle,
        line: LineAddr,
        cause: Cause,
        sent: Cycle,
        out: &mut Outbox<Token>,
    ) {
        // Of its own writes the line is where they go, which tells nothing of that line's bytes.
        if line >= self.config.layout.end || matches!(cause, Cause::Scheme(_)) {
            return;
        }
        let is_older = |stored: &Cycle| *stored < sent;
        let claim = self.claims[self.config.layout.block_of(line) as usize];
        if let Some(lane) = usize::from(claim).checked_sub(1) {
            let of = &mut self.lanes[lane];
            if of.unwritten.get(&line).is_some_and(is_older) {
                of.unwritten.remove(&line);
                if of.is_forced && of.unwritten.is_empty() {
                    out.wake();
                }
            }
        }
        if self.loose.get(&line).is_some_and(is_older) {
            self.loose.remove(&line);
            out.wake();
        }
    }

    fn write_durable(&mut self, now: Cycle, token: Token, out: &mut Outbox<Token>) {
        match token {
            Token::Applied(lane) => self.has_waited(lane, out),
            Token::Copied(block) => self.copied(now, block, out),
            _ => {}
        }
    }

    fn read_done(&mut self, now: Cycle, token: Token, _data: &LineBytes, out: &mut Outbox<Token>) {
        match token {
            Token::Entry(block) => {
                if self.has(Fault::LogUnread) {
                    self.newest[block as usize] = self.committed[block as usize];
                }
                self.has_entry(now, block, out);
            }
            Token::Searched { block, lane, line } => self.search(now, block, lane, Some(line), out),
            Token::Replayed { lane, line } => self.replay(lane, line, out),
            _ => {}
        }
    }

    fn step(&mut self, now: Cycle, token: Token, out: &mut Outbox<Token>) {
        match token {
            Token::Missed(block) => self.search(now, block, 0, None, out),
            Token::Look => out.wake(),
            _ => {}
        }
    }

    fn take_counters(&mut self, each: &mut dyn FnMut(&'static str, &'static str, f64)) {
        let stats = std::mem::take(&mut self.stats);
        for (name, count) in [
            ("ait_lookups", stats.lookups),
            ("ait_misses", stats.misses),
            ("ait_overwritten", stats.overwritten),
            ("ait_evicted", stats.evicted),
            ("ait_overflowed", stats.overflowed),
            ("ait_found_in_log", stats.found_in_log),
            ("ait_found_in_no_log", stats.found_in_none),
            ("store_waits", stats.waits),
            ("aborts", stats.aborts),
        ] {
            each(name, "count", count as f64);
        }
    }
}

const _: () = assert!(TAKEN as u32 == u32::MAX, "a taken word names no block");
