//! Hardware undo+redo logging, and forced write-back ("Steal but no force: efficient hardware
//! undo+redo logging for persistent memory systems", HPCA'18).
//!
//! Every store of a transaction puts its word's old and new value into a FIFO in the memory
//! controller, which drains into a circular log in persistent memory. Data stays in the caches
//! and may be evicted at any time.
//!
//! Where the paper is unsound, this is what holds here:
//!
//! - **G1** A record has its slot before it has its place in the FIFO, so the FIFO always drains.
//! - **G2** A line leaves for memory only when all records of its words are durable, along with
//!   all records before them ([`Hwl::may_write`](Scheme::may_write)). The paper argues with
//!   latencies instead (HWL-5).
//! - **G3** A commit is a record (HWL-1), and with [`Commit::Durable`] a transaction ends when it
//!   is durable, along with all before it. The paper ends it when it is issued (HWL-4):
//!   [`Commit::Buffered`].
//! - **G4** The head passes a record only when its transaction has committed durably (HWL-8) and
//!   its line has reached memory since (HWL-7, HWL-10, HWL-11), and a slot is used again only
//!   when the head that passed it is durable (HWL-9). When the log is full, stores wait.
//! - **G5** A transaction makes its first record when there are slots for the largest that it may
//!   become, so that running ones, which the head cannot pass, never fill the log (HWL-8).
//!
//! `fwb` scans all levels periodically: a line found dirty for the second time is written back to
//! memory. That, not the program, lets the head move. A period that is computed from the slowest
//! writes is too long when the log's writes hit open rows (HWL-10), so a scan also starts when a
//! quarter of the log was filled since the last one.

mod record;
mod recover;

pub use recover::recover;

use outlast_sim::timed::{Answer, Cycle, Outbox, Scheme, SchemeWrite, StoreSeen};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::{ByteRange, FlushKind, LaneId, LineAddr, Op, OpLog, Sink};
use record::{Change, Record};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Tokens of the scheme's own writes: records by their number, and the head.
const HEAD_TOKEN: u32 = u32::MAX;
/// Tokens of records have this bit clear.
const HEAD_TOKEN_BIT: u32 = 1 << 31;
/// The call that starts a scan and asks for the next one a period later.
const SCAN: u32 = 0;
/// The call that starts a scan between these, because the log fills faster.
const EARLY_SCAN: u32 = 1;
/// Records that are on their way to the log at the same time; the others coalesce.
const IN_FLIGHT_MAX: usize = 2;

/// Where the log lies: a line for its head, then its slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogPlace {
    /// The head's line.
    pub base: LineAddr,
    /// Slots of a line each.
    pub slots: u64,
}

impl LogPlace {
    fn slot(self, number: u64) -> LineAddr {
        self.base.plus(1 + number % self.slots)
    }
}

/// When a transaction has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commit {
    /// When its commit record is durable: guarantee `durable`.
    Durable,
    /// When its commit record is in the volatile FIFO, as the paper has it: guarantee `buffered`.
    Buffered,
}

/// What can be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HwlConfig {
    /// Where the log lies.
    pub log: LogPlace,
    /// Records that a transaction may need, its commit included: that many slots are kept for
    /// each that runs. One that needs more may wait for ever beside others.
    pub tx_records_max: u64,
    /// Records that the FIFO holds, at least 2.
    pub buffer: usize,
    /// Cycles from one scan to the next; `None` without forced write-back.
    pub scan_period: Option<u64>,
    /// When a transaction has ended.
    pub commit: Commit,
    /// Whether G2 is kept. Without it, it is the order of the controller's queues alone that
    /// decides, as in the paper: to be found guilty.
    pub ordered: bool,
}

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HwlStats {
    /// Records made, commits included.
    pub records: u64,
    /// Stores that found a record to join.
    pub coalesced: u64,
    /// Times that a store or a commit had to wait for the FIFO.
    pub buffer_full: u64,
    /// Times that it had to wait for the log.
    pub log_full: u64,
    /// Lines forced out.
    pub forced: u64,
    /// Scans.
    pub scans: u64,
}

/// A record that is in the log, until the head passes it.
#[derive(Clone, Copy, Debug)]
struct Logged {
    line: LineAddr,
    lane: u8,
    /// When its last store was performed.
    at: Cycle,
    commit: bool,
}

/// A lane's transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tx {
    None,
    /// Running, with no record yet.
    Running,
    /// Running, with the number of its first record and how many it has.
    Logging {
        first: u64,
        records: u64,
    },
    /// Its commit record has this number.
    Ending(u64),
}

/// The mechanism.
#[derive(Debug)]
pub struct Hwl {
    config: HwlConfig,
    lanes: Vec<Tx>,
    /// Records that are not durable, oldest first; those before `issued` are on their way.
    fifo: VecDeque<Record>,
    issued: usize,
    /// The next record's number; records before `durable` are durable, all of them.
    next: u64,
    durable: u64,
    /// Of each lane, the last commit that is durable, along with all records before it.
    committed: Vec<u64>,
    /// Records that became durable before one that is older.
    early: Vec<u64>,
    /// Records from `head` on; the head in memory is `durable_head`.
    logged: VecDeque<Logged>,
    head: u64,
    durable_head: u64,
    /// The head that is on its way to memory.
    moving_head: Option<u64>,
    /// A store or a commit waits for room in the log.
    waits_for_log: bool,
    /// Of each line with records that are not durable, the last of them.
    unlogged: FxHashMap<LineAddr, u64>,
    /// Of each line stored to in a transaction, the first store that memory may not have.
    unwritten: FxHashMap<LineAddr, (Cycle, Cycle)>,
    scanning: bool,
    /// The next record at the last scan, or when one was asked for.
    scanned_at: u64,
    /// What was counted.
    pub stats: HwlStats,
}

impl Hwl {
    /// The mechanism over an empty log, whose head line is zero.
    ///
    /// # Panics
    /// When the FIFO has fewer than 2 records, or the log fewer slots than two transactions need.
    pub fn new(config: HwlConfig) -> Self {
        assert!(config.buffer >= 2, "a FIFO of {} records holds no transaction", config.buffer);
        let needed = 2 * config.tx_records_max;
        assert!(config.log.slots >= needed, "two transactions need {needed} slots");
        Self {
            config,
            lanes: Vec::new(),
            fifo: VecDeque::new(),
            issued: 0,
            next: 1,
            durable: 1,
            committed: vec![0; 256],
            early: Vec::new(),
            logged: VecDeque::new(),
            head: 1,
            durable_head: 1,
            moving_head: None,
            waits_for_log: false,
            unlogged: FxHashMap::default(),
            unwritten: FxHashMap::default(),
            scanning: false,
            scanned_at: 0,
            stats: HwlStats::default(),
        }
    }

    /// Slots that have to be free before a lane's next record (G5): its own, where it is the
    /// first those of the whole transaction, and what the other lanes' transactions may need.
    fn wanted(&self, lane: usize) -> u64 {
        let max = self.config.tx_records_max;
        let may_need = |tx: &Tx| match tx {
            Tx::Logging { records, .. } => max.saturating_sub(*records),
            Tx::None | Tx::Running | Tx::Ending(_) => 0,
        };
        let others = self.lanes.iter().enumerate().filter(|(other, _)| *other != lane);
        let own = if self.lanes[lane] == Tx::Running { max } else { 1 };
        own + others.map(|(_, tx)| may_need(tx)).sum::<u64>()
    }

    /// Makes a record, if the FIFO and the log have room for it.
    fn append(&mut self, now: Cycle, record: Record, out: &mut Outbox) -> bool {
        if self.fifo.len() >= self.config.buffer {
            self.stats.buffer_full += 1;
            return false;
        }
        let wanted = self.wanted(usize::from(record.lane));
        if self.next + wanted > self.durable_head + self.config.log.slots {
            self.stats.log_full += 1;
            self.waits_for_log = true;
            self.truncate(out);
            return false; // G4
        }
        self.stats.records += 1;
        self.next += 1;
        if self.config.scan_period.is_some()
            && self.next - self.scanned_at > self.config.log.slots / 4
        {
            self.scanned_at = self.next;
            // Not in this cycle, whose stores a write of this cycle may or may not carry.
            out.call(now.next(), EARLY_SCAN);
        }
        let Record { line, lane, commit, .. } = record;
        self.logged.push_back(Logged { line, lane, at: now, commit });
        self.fifo.push_back(record);
        self.issue(out);
        true
    }

    /// Adds a word's change to a record of the same transaction, which has those from `first` on,
    /// if there is one that is not on its way yet and has room.
    fn join(&mut self, now: Cycle, line: LineAddr, lane: u8, first: u64, change: Change) -> bool {
        let fits = |record: &&mut Record| {
            record.line == line && record.lane == lane && record.number >= first
        };
        let issued = self.issued;
        // Only the youngest: an older one must not get a value that is newer than its.
        let Some(record) = self.fifo.iter_mut().skip(issued).rev().find(fits) else {
            return false;
        };
        if !record.add(change) {
            return false;
        }
        let index = (record.number - self.head) as usize;
        self.logged[index].at = now;
        self.stats.coalesced += 1;
        true
    }

    /// Sends the oldest records on their way to the log.
    fn issue(&mut self, out: &mut Outbox) {
        while self.issued < self.fifo.len().min(IN_FLIGHT_MAX) {
            let record = &self.fifo[self.issued];
            out.write(SchemeWrite {
                line: self.config.log.slot(record.number),
                words: u8::MAX,
                data: record.encode(),
                cause: Cause::Logged,
                token: record.number as u32 & !HEAD_TOKEN_BIT,
            });
            self.issued += 1;
        }
    }

    /// A record is durable.
    fn record_durable(&mut self, token: u32, out: &mut Outbox) {
        let index = self.fifo.iter().position(|r| r.number as u32 & !HEAD_TOKEN_BIT == token);
        let index = index.expect("only records that are on their way become durable");
        let record = self.fifo.remove(index).expect("it was just found there");
        self.issued -= 1;
        self.early.push(record.number);
        while let Some(at) = self.early.iter().position(|number| *number == self.durable) {
            self.early.swap_remove(at);
            let logged = &self.logged[(self.durable - self.head) as usize];
            if logged.commit {
                self.committed[usize::from(logged.lane)] = self.durable;
            }
            self.durable += 1;
        }
        let durable = self.durable;
        self.unlogged.retain(|_, last| *last >= durable);
        self.issue(out);
        self.truncate(out);
        out.wake();
    }

    /// Moves the head as far as G4 lets it.
    fn truncate(&mut self, out: &mut Outbox) {
        if self.moving_head.is_some() {
            return;
        }
        while let Some(oldest) = self.logged.front() {
            let unwritten = self.unwritten.get(&oldest.line);
            let in_memory = oldest.commit || unwritten.is_none_or(|(first, _)| *first > oldest.at);
            let committed = self.committed[usize::from(oldest.lane)] >= self.head;
            if !committed || !in_memory {
                break;
            }
            self.logged.pop_front();
            self.head += 1;
        }
        // A head goes to memory for an eighth of the log, or as soon as somebody waits for it.
        let moved = self.head - self.durable_head;
        if moved > self.config.log.slots / 8 || (moved > 0 && self.waits_for_log) {
            self.moving_head = Some(self.head);
            let mut data: LineBytes = [0; 64];
            data[..8].copy_from_slice(&self.head.to_le_bytes());
            out.write(SchemeWrite {
                line: self.config.log.base,
                words: 1,
                data,
                cause: Cause::Metadata,
                token: HEAD_TOKEN,
            });
        }
    }
}

impl Scheme for Hwl {
    /// The line was dirty at the last scan.
    type Tag = bool;

    fn begin(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox) -> Answer {
        let index = usize::from(lane.0);
        if self.lanes.len() <= index {
            self.lanes.resize(index + 1, Tx::None);
        }
        self.lanes[index] = Tx::Running;
        if let (Some(period), false) = (self.config.scan_period, self.scanning) {
            self.scanning = true;
            out.call(now.plus(period), SCAN);
        }
        Answer::Proceed
    }

    fn end(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox) -> Answer {
        let index = usize::from(lane.0);
        if self.lanes.len() <= index {
            return Answer::Proceed; // It never began.
        }
        if let Tx::Logging { .. } = self.lanes[index] {
            let mut record = Record::new(self.next, lane.0 as u8, LineAddr(0));
            record.commit = true;
            if !self.append(now, record, out) {
                return Answer::Wait;
            }
            self.lanes[index] = Tx::Ending(self.next - 1);
        }
        if let Tx::Ending(number) = self.lanes[index]
            && self.config.commit == Commit::Durable
            && number >= self.durable
        {
            return Answer::Wait; // G3
        }
        self.lanes[index] = Tx::None;
        Answer::Proceed
    }

    fn store(
        &mut self,
        now: Cycle,
        lane: LaneId,
        store: &StoreSeen<'_>,
        _tag: &mut bool,
        out: &mut Outbox,
    ) -> Answer {
        let (first, records) =
            match self.lanes.get(usize::from(lane.0)).copied().unwrap_or(Tx::None) {
                Tx::None | Tx::Ending(_) => return Answer::Proceed,
                Tx::Running => (None, 0),
                Tx::Logging { first, records } => (Some(first), records),
            };
        let line = store.at.line();
        let word = store.at.in_line() / 8;
        let old = store.old.as_chunks::<8>().0[word];
        let mut new = old;
        new[store.at.in_line() % 8..][..store.new.len()].copy_from_slice(store.new);
        let change =
            Change { word: word as u8, old: u64::from_le_bytes(old), new: u64::from_le_bytes(new) };
        let lane_number = lane.0 as u8;
        let joined = first.is_some_and(|first| self.join(now, line, lane_number, first, change));
        if !joined {
            let mut record = Record::new(self.next, lane_number, line);
            record.first = first.is_none();
            record.add(change);
            if !self.append(now, record, out) {
                return Answer::Wait;
            }
            let first = first.unwrap_or(self.next - 1);
            self.lanes[usize::from(lane.0)] = Tx::Logging { first, records: records + 1 };
            self.unlogged.insert(line, self.next - 1);
        }
        self.unwritten.entry(line).or_insert((now, now)).1 = now;
        Answer::Proceed
    }

    fn may_write(&mut self, _now: Cycle, line: LineAddr, _cause: Cause) -> Answer {
        if self.config.ordered && self.unlogged.contains_key(&line) {
            return Answer::Wait; // G2
        }
        Answer::Proceed
    }

    fn durable(
        &mut self,
        _now: Cycle,
        line: LineAddr,
        cause: Cause,
        sent: Cycle,
        out: &mut Outbox,
    ) {
        if matches!(cause, Cause::Logged | Cause::Metadata) {
            return;
        }
        if let Some((first, last)) = self.unwritten.get_mut(&line) {
            if *last < sent {
                self.unwritten.remove(&line);
            } else if *first < sent {
                *first = sent;
            }
            self.truncate(out);
        }
    }

    fn write_durable(&mut self, _now: Cycle, token: u32, out: &mut Outbox) {
        if token == HEAD_TOKEN {
            self.durable_head = self.moving_head.take().expect("a head was on its way");
            self.waits_for_log = false; // Whoever still does says so again.
            self.truncate(out);
            out.wake();
        } else {
            self.record_durable(token, out);
        }
    }

    fn step(&mut self, now: Cycle, token: u32, out: &mut Outbox) {
        self.stats.scans += 1;
        self.scanned_at = self.next;
        for level in [1, 2, 3] {
            out.scan(level);
        }
        if token == EARLY_SCAN {
            return;
        }
        // Without transactions there is nothing to force; the next one starts the scans again.
        let idle = self.unwritten.is_empty() && self.lanes.iter().all(|tx| *tx == Tx::None);
        self.scanning = !idle;
        if let (Some(period), true) = (self.config.scan_period, self.scanning) {
            out.call(now.plus(period), SCAN);
        }
    }

    fn scanned(
        &mut self,
        _now: Cycle,
        _level: u8,
        line: LineAddr,
        dirty: bool,
        tag: &mut bool,
        out: &mut Outbox,
    ) {
        if dirty && *tag {
            self.stats.forced += 1;
            out.force(line);
        }
        *tag = dirty && !*tag;
    }
}

/// The same operations with every transaction's lines flushed and fenced before it ends: what
/// `hwl` leaves to software, and `fwb` to its scans.
pub fn flush_at_commit(bare: &OpLog) -> OpLog {
    let mut log = OpLog::default();
    let mut stored: FxHashMap<LaneId, Vec<LineAddr>> = FxHashMap::default();
    for (lane, op) in bare.iter() {
        let lines = stored.entry(lane).or_default();
        match op {
            Op::Store { at, bytes } => {
                for line in ByteRange::new(at, bytes.len() as u64).lines() {
                    if !lines.contains(&line) {
                        lines.push(line);
                    }
                }
            }
            Op::TxEnd if !lines.is_empty() => {
                for line in lines.drain(..) {
                    log.op(lane, Op::Flush { kind: FlushKind::Clwb, line });
                }
                log.op(lane, Op::Sfence);
            }
            _ => {}
        }
        log.op(lane, op);
    }
    log
}
