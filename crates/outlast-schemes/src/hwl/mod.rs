//! Hardware undo+redo logging, and forced write-back ("Steal but no force: efficient hardware
//! undo+redo logging for persistent memory systems", HPCA'18).
//!
//! Every store of a transaction puts its word's old and new value into a FIFO in the memory
//! controller, which drains into a circular log in persistent memory. Data stays in the caches
//! and may be evicted at any time.
//!
//! Where the paper is unsound, this is what holds here (`docs/hwl.md` has every point):
//!
//! - **G1** A record has its slot before it has its place in the FIFO, so the FIFO always drains.
//! - **G2** A line leaves for memory only when all records of its words are durable, along with
//!   all records before them ([`Hwl::may_write`](Scheme::may_write)). The paper argues with
//!   latencies instead (HWL-5).
//! - **G3** A commit is in the log (HWL-1): a flag in the transaction's last record if that has
//!   not left yet, else a record of its own. With [`Commit::Durable`] a transaction ends when
//!   that is durable, along with all before it. The paper ends it when it is issued (HWL-4):
//!   [`Commit::Buffered`].
//! - **G4** The head passes a record only when its transaction has committed durably (HWL-8) and
//!   its lines have reached memory since (HWL-7, HWL-10, HWL-11), and a slot is used again only
//!   when the head that passed it is durable (HWL-9). When the log is full, stores wait.
//! - **G5** A transaction makes its first record when there are slots for the largest that it may
//!   become, so that running ones, which the head cannot pass, never fill the log (HWL-8). Where
//!   one is larger than was declared, the log grows if it may.
//! - **G6** A store joins a record only of its own transaction, and only if there is no
//!   younger record of its line: replayed in their order, records leave what the stores left.
//!
//! `fwb` scans all levels periodically: a line found dirty for the second time is written back to
//! memory. That, not the program, lets the head move. A period that is computed from the slowest
//! writes is too long when the log's writes hit open rows (HWL-10), so a scan also starts when a
//! quarter of the log was filled since the last one. The lines that a scan
//! finds are spread over half of the time between two scans; written at once they would keep reads
//! waiting. They go in the order of addresses: in that of sets, hundreds in a row go to one bank.
//!
//! *The FIFO drains* when a commit is in it, when it is half full, when a line or commit waits for a
//! record, and else [`HOLD_CYCLES`] after a record was made: until then stores may join it.
//!
//! *Begin and commit* are calls: [`with_calls`] gives them their instructions.
//!
//! *Context switches.* A core may begin a transaction inside another one: another thread runs
//! there meanwhile. Each has its transaction number, as the paper's register has it; up to 256
//! run at the same time, and a number is used again when its transaction has ended.

mod config;
mod log;
mod plants;
mod program;
mod record;
mod recover;
mod variants;

pub use config::{Commit, Fault, Faults, GROWTHS_MAX, HwlConfig, LogError, LogPlace, Values};
pub use program::{Flushes, with_calls, with_flushes};
pub use recover::{recover, recover_as};
pub use variants::HardwareLogging;

use crate::image::Image;
use log::Logged;
use outlast_sim::Cause;
use outlast_sim::timed::{self, Answer, Cycle, Scheme, StoreSeen};
use outlast_trace::{LaneId, LineAddr};
use record::{Change, Record};
use recover::youngest;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// What this scheme wants done: its own requests carry numbers.
type Outbox = timed::Outbox<u32>;

/// Cycles that a record waits for stores that may join it, if it is not needed before.
pub const HOLD_CYCLES: u64 = 64;

/// Tokens of the scheme's own writes: records by their number, and the head.
const HEAD_TOKEN: u32 = u32::MAX;
/// Tokens of records have this bit clear.
const HEAD_TOKEN_BIT: u32 = 1 << 31;
/// The token of a record's write.
fn token_of(number: u64) -> u32 {
    number as u32 & !HEAD_TOKEN_BIT
}

/// The call that starts a scan and asks for the next one a period later.
const SCAN: u32 = 0;
/// The call that starts a scan between these, because the log fills faster.
const EARLY_SCAN: u32 = 1;
/// The call that sends records which no store joined.
const DRAIN: u32 = 2;
/// The call that forces the next line out.
const FORCE: u32 = 3;
/// Lines forced out together while a core waits for room in the log.
const FORCED_IN_HASTE: usize = 8;
/// Records that are on their way to the write queue at the same time; the others coalesce.
const IN_FLIGHT_MAX: usize = 2;
/// Transactions that run at the same time: a number has 8 bits.
const TXS_MAX: usize = 256;
/// Scans after which a line that was dirty at the first has been sent to memory and arrived.
const SCANS_UNTIL_DURABLE: u64 = 3;

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HwlStats {
    /// Records made.
    pub records: u64,
    /// Those that say nothing but that their transaction is complete.
    pub commit_records: u64,
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
    /// Times that the log grew.
    pub grown: u64,
}

/// A transaction that has begun and not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Open {
    /// Its physical number.
    tx: u8,
    progress: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    /// It has no record yet.
    Running,
    /// The numbers of its first and its last record, and how many it has.
    Logging { first: u64, last: u64, records: u64 },
    /// This record says that it is complete.
    Ending(u64),
}

/// The mechanism.
#[derive(Clone, Debug)]
pub struct Hwl {
    config: HwlConfig,
    /// Of each lane, its transactions: the last one runs, those before were switched out.
    lanes: Vec<Vec<Open>>,
    in_use: [bool; TXS_MAX],
    /// Records that have no place in the write queue, oldest first; those before `issued` are on
    /// their way there.
    fifo: VecDeque<Record>,
    issued: usize,
    /// Records up to this one are to leave now.
    urgent: u64,
    /// A call is under way that sends those which no store joins.
    draining: bool,
    /// A transaction could not begin: all numbers are in use.
    refused: bool,
    /// The next record's number; records before `durable` are durable, all of them.
    next: u64,
    durable: u64,
    /// Of each transaction number, the last commit that is durable, along with all before it.
    committed: Vec<u64>,
    /// Records that became durable before one that is older.
    early: Vec<u64>,
    /// Records from `head` on; the head in memory is `durable_head`.
    logged: VecDeque<Logged>,
    head: u64,
    durable_head: u64,
    /// Where the regions that the log grew into start, and how many of them memory knows of.
    starts: [u64; GROWTHS_MAX as usize],
    durable_regions: usize,
    /// The head and the regions that are on their way to memory.
    moving_head: Option<(u64, usize)>,
    /// A store or a commit waits for room in the log.
    waits_for_log: bool,
    /// Of each line with records that are not durable, the last of them.
    unlogged: FxHashMap<LineAddr, u64>,
    /// Of each line stored to in a transaction, the first store that memory may not have.
    unwritten: FxHashMap<LineAddr, (Cycle, Cycle)>,
    scanning: bool,
    /// Lines to be forced out, and when the last of them has to be.
    to_force: VecDeque<LineAddr>,
    to_force_is_sorted: bool,
    force_by: Cycle,
    last_scan: Cycle,
    /// The next record at the last scan, or when one was asked for.
    scanned_at: u64,
    /// What was counted.
    pub stats: HwlStats,
}

impl Hwl {
    /// The mechanism over an empty log, whose head line is zero.
    ///
    /// # Errors
    /// [`LogError`] when the log or its buffer cannot be.
    pub fn new(config: HwlConfig) -> Result<Self, LogError> {
        Self::over(config, Image::new(&[]))
    }

    /// The mechanism over a memory in which the log is as recovery has left it: empty from its head
    /// on.
    ///
    /// # Errors
    /// [`LogError`] when the log or its buffer cannot be.
    pub fn over(config: HwlConfig, memory: Image<'_>) -> Result<Self, LogError> {
        config.check()?;
        let of_head = |number| memory.word_or_zero(config.log.base, number);
        let starts: [u64; GROWTHS_MAX as usize] = std::array::from_fn(|k| of_head(1 + k as u64));
        let head = if config.faults.has(Fault::Overwrite) {
            youngest(config.log, &starts, memory) + 1
        } else {
            of_head(0).max(1)
        };
        Ok(Self {
            config,
            lanes: Vec::new(),
            in_use: [false; TXS_MAX],
            fifo: VecDeque::new(),
            issued: 0,
            urgent: head - 1,
            draining: false,
            refused: false,
            next: head,
            durable: head,
            committed: vec![0; TXS_MAX],
            early: Vec::new(),
            logged: VecDeque::new(),
            head,
            durable_head: head,
            durable_regions: starts.iter().take_while(|start| **start != 0).count(),
            starts,
            moving_head: None,
            waits_for_log: false,
            unlogged: FxHashMap::default(),
            unwritten: FxHashMap::default(),
            scanning: false,
            to_force: VecDeque::new(),
            to_force_is_sorted: true,
            force_by: Cycle(0),
            last_scan: Cycle(0),
            scanned_at: head - 1,
            stats: HwlStats::default(),
        })
    }

    fn has(&self, fault: Fault) -> bool {
        self.config.faults.has(fault)
    }

    /// The running transaction of a lane.
    fn open(&mut self, lane: LaneId) -> Option<&mut Open> {
        self.lanes.get_mut(usize::from(lane.0))?.last_mut()
    }

    /// Forces the next line out and asks to be called for the one after it, so that all are out
    /// in time.
    fn force_some(&mut self, now: Cycle, out: &mut Outbox) {
        if !self.to_force_is_sorted {
            self.to_force.make_contiguous().sort_unstable();
            self.to_force_is_sorted = true;
        }
        let together = if self.waits_for_log { FORCED_IN_HASTE } else { 1 };
        for line in self.to_force.drain(..together.min(self.to_force.len())) {
            self.stats.forced += 1;
            out.force(line);
        }
        if !self.to_force.is_empty() {
            let left = self.force_by.0.saturating_sub(now.0);
            out.call(now.plus((left / self.to_force.len() as u64).max(1)), FORCE);
        }
    }
}

impl Scheme for Hwl {
    /// Scans that found the line dirty.
    type Tag = u8;

    type Page = ();
    type Token = u32;

    fn begin(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox) -> Answer {
        let Some(tx) = self.in_use.iter().position(|used| !used) else {
            self.refused = true;
            return Answer::Wait;
        };
        self.in_use[tx] = true;
        let index = usize::from(lane.0);
        if self.lanes.len() <= index {
            self.lanes.resize_with(index + 1, Vec::new);
        }
        self.lanes[index].push(Open { tx: tx as u8, progress: Progress::Running });
        if let (Some(period), false) = (self.config.scan_period, self.scanning) {
            self.scanning = true;
            out.call(now.plus(period), SCAN);
        }
        Answer::Proceed
    }

    fn end(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox) -> Answer {
        let Some(&mut Open { tx, progress }) = self.open(lane) else {
            return Answer::Proceed; // It never began.
        };
        let progress = match progress {
            Progress::Logging { last, .. } => {
                let Some(number) = self.log_commit(now, tx, last, out) else {
                    return Answer::Wait;
                };
                self.urgent = self.urgent.max(number);
                self.issue(out);
                Progress::Ending(number)
            }
            other => other,
        };
        if let Some(open) = self.open(lane) {
            open.progress = progress;
        }
        if let Progress::Ending(number) = progress
            && self.config.commit == Commit::Durable
            && number >= self.durable
        {
            return Answer::Wait; // G3
        }
        self.in_use[usize::from(tx)] = false;
        self.lanes[usize::from(lane.0)].pop();
        if std::mem::take(&mut self.refused) {
            out.wake();
        }
        Answer::Proceed
    }

    fn store(
        &mut self,
        now: Cycle,
        lane: LaneId,
        store: &StoreSeen<'_>,
        _tag: &mut u8,
        _page: Option<&mut ()>,
        out: &mut Outbox,
    ) -> Answer {
        let Some(&mut Open { tx, progress }) = self.open(lane) else {
            return Answer::Proceed;
        };
        let known = match progress {
            Progress::Running => None,
            Progress::Logging { first, last, records } => Some((first, last, records)),
            Progress::Ending(_) => return Answer::Proceed,
        };
        let line = store.at.line();
        let word = store.at.in_line() / 8;
        let old = store.old.as_chunks::<8>().0[word];
        let mut new = old;
        new[store.at.in_line() % 8..][..store.new.len()].copy_from_slice(store.new);
        let change = Change {
            line,
            word: word as u8,
            old: u64::from_le_bytes(old),
            new: u64::from_le_bytes(new),
        };
        let first = known.map_or(u64::MAX, |(first, _, _)| first);
        let number = match self.join(now, tx, first, change) {
            Some(number) => number,
            None => {
                let mut record = Record::new(self.next, tx);
                record.first = known.is_none();
                record.add(change);
                if !self.append(now, record, out) {
                    return Answer::Wait;
                }
                let number = self.next - 1;
                let (first, _, records) = known.unwrap_or((number, number, 0));
                if let Some(open) = self.open(lane) {
                    open.progress = Progress::Logging { first, last: number, records: records + 1 };
                }
                number
            }
        };
        self.unlogged.insert(line, number);
        self.unwritten.entry(line).or_insert((now, now)).1 = now;
        Answer::Proceed
    }

    fn may_write(
        &mut self,
        _now: Cycle,
        line: LineAddr,
        _cause: Cause,
        out: &mut Outbox,
    ) -> Answer {
        match self.unlogged.get(&line) {
            Some(&last) if !self.has(Fault::Unordered) => {
                self.urgent = self.urgent.max(last);
                self.issue(out);
                Answer::Wait // G2
            }
            _ => Answer::Proceed,
        }
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
            self.log_truncate(out);
        }
    }

    fn write_taken(&mut self, _now: Cycle, token: u32, out: &mut Outbox) {
        if token != HEAD_TOKEN {
            self.record_taken(token, out);
        }
    }

    fn write_durable(&mut self, _now: Cycle, token: u32, out: &mut Outbox) {
        if token == HEAD_TOKEN {
            let (head, regions) = self.moving_head.take().expect("a head was on its way");
            (self.durable_head, self.durable_regions) = (head, regions);
            self.waits_for_log = false; // A core that still waits says so again.
            self.log_truncate(out);
            out.wake();
        } else {
            self.record_durable(token, out);
        }
    }

    fn take_counters(&mut self, each: &mut dyn FnMut(&'static str, &'static str, f64)) {
        let stats = std::mem::take(&mut self.stats);
        for (name, count) in [
            ("log_records", stats.records),
            ("log_commit_records", stats.commit_records),
            ("log_coalesced", stats.coalesced),
            ("log_buffer_full", stats.buffer_full),
            ("log_full", stats.log_full),
            ("log_grown", stats.grown),
            ("scans", stats.scans),
            ("forced_lines", stats.forced),
        ] {
            each(name, "count", count as f64);
        }
    }

    fn step(&mut self, now: Cycle, token: u32, out: &mut Outbox) {
        if token == DRAIN {
            // Calls come in the order of records: all made so long ago leave.
            let old = |logged: &Logged| now.since(logged.at) >= HOLD_CYCLES;
            while self.urgent < self.next - 1 {
                let index = (self.urgent + 1).saturating_sub(self.head) as usize;
                if !self.logged.get(index).is_none_or(old) {
                    break;
                }
                self.urgent += 1;
            }
            self.draining = self.urgent < self.next - 1;
            if self.draining {
                out.call(now.plus(HOLD_CYCLES), DRAIN);
            }
            return self.issue(out);
        }
        if token == FORCE {
            return self.force_some(now, out);
        }
        self.stats.scans += 1;
        self.scanned_at = self.next;
        self.force_by = now.plus(now.since(self.last_scan) / 2);
        self.last_scan = now;
        for level in [1, 2, 3] {
            out.scan(level);
        }
        if token == EARLY_SCAN {
            return;
        }
        // Without transactions there is nothing to force; the next one starts the scans again.
        let idle = self.unwritten.is_empty() && self.lanes.iter().all(Vec::is_empty);
        self.scanning = !idle;
        if let (Some(period), true) = (self.config.scan_period, self.scanning) {
            out.call(now.plus(period), SCAN);
        }
    }

    fn scanned(
        &mut self,
        now: Cycle,
        _level: u8,
        line: LineAddr,
        dirty: bool,
        tag: &mut u8,
        out: &mut Outbox,
    ) {
        // A line that only went down one level would start again there: twice as many scans.
        let enough = if self.has(Fault::OneLevel) { 3 } else { 1 };
        if dirty && *tag >= enough {
            if self.to_force.is_empty() {
                out.call(now.next(), FORCE);
            }
            self.to_force.push_back(line);
            self.to_force_is_sorted = false;
        }
        *tag = if dirty && *tag < enough { *tag + 1 } else { 0 };
    }
}
