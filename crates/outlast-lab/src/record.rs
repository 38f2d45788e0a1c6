//! Tidy results: one record for one measured value, and the document that holds a run's.
//!
//! This is what `--json` prints and what `results.json` holds; tables, figures and the report
//! page are made from nothing else. Metric names and units are an interface that others rely on
//! ([`Metric`]).

use std::collections::BTreeMap;
use std::fmt;

use outlast_crash::explain::Explanation;
use serde::{Deserialize, Serialize};

use crate::beside::Beside;
use crate::machine::Machine;
use crate::power::Power;
use crate::stats::Spread;

/// Everything that one command measured, with what is needed to measure it again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Document {
    /// The version of Outlast that measured.
    pub outlast: String,
    /// The command line.
    pub command: String,
    /// Where it ran.
    pub machine: Machine,
    /// The seed of every random choice.
    pub seed: u64,
    /// The source's commit, where known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub commit: Option<String>,
    /// Every key of each simulated machine that ran, by the machine's name with the keys that were set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub simulated: BTreeMap<String, BTreeMap<String, String>>,
    /// What was measured.
    pub records: Vec<Record>,
    /// A report's comparison of schemes on one program, apart from what papers claim.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub compared: Vec<Record>,
    /// Crash points after which something was wrong, the first ones of each campaign under each policy and caches.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub failures: Vec<FailedPoint>,
    /// Crashes that the run explains.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub explained: Vec<Explanation>,
    /// Front ends and engines beside the programs that they stand for.
    #[serde(skip_serializing_if = "Beside::is_empty", default)]
    pub beside: Beside,
    /// Programs that know nothing of this project, after a loss of power.
    #[serde(skip_serializing_if = "Power::is_empty", default)]
    pub power: Power,
}

impl Document {
    /// What was measured for a paper's figures and claimed by it, and the rest: two documents.
    /// Crashes stay with the rest.
    pub(crate) fn split(&self, paper: &str) -> (Self, Self) {
        let of_paper =
            |record: &Record| record.kind != Kind::Crash && record.paper.as_deref() == Some(paper);
        let part = |wanted: bool| {
            let records = self.records.iter().filter(|record| of_paper(record) == wanted);
            Self { records: records.cloned().collect(), ..self.clone_head() }
        };
        (part(true), part(false))
    }

    fn clone_head(&self) -> Self {
        Self {
            simulated: BTreeMap::new(),
            records: Vec::new(),
            compared: Vec::new(),
            failures: Vec::new(),
            explained: Vec::new(),
            beside: Beside::default(),
            power: Power::default(),
            commit: self.commit.clone(),
            machine: self.machine.clone(),
            outlast: self.outlast.clone(),
            command: self.command.clone(),
            seed: self.seed,
        }
    }

    /// A document without records yet, about this machine.
    pub fn new(version: &str, command: &str, seed: u64, commit: Option<String>) -> Self {
        Self {
            outlast: version.to_owned(),
            command: command.to_owned(),
            machine: Machine::this(),
            seed,
            commit,
            simulated: BTreeMap::new(),
            records: Vec::new(),
            compared: Vec::new(),
            failures: Vec::new(),
            explained: Vec::new(),
            beside: Beside::default(),
            power: Power::default(),
        }
    }

    /// The document as the JSON that commands print: one line per field and record member.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a document is plain data");
        text.push('\n');
        text
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    ///
    /// # Errors
    /// When the text is not such a document.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

/// A crash point after which something was wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FailedPoint {
    /// The workload.
    pub workload: String,
    /// The scheme.
    pub scheme: String,
    /// The replacement policy; absent, as caches and point, where it went wrong with no crash at all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy: Option<String>,
    /// The caches.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub caches: Option<String>,
    /// The simulated machine.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub machine: Option<String>,
    /// The crash point, for `--crash-op`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub crash_op: Option<String>,
    /// The entry of the machine's journal, for `--crash-entry`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub crash_entry: Option<usize>,
    /// The entry of the rest's journal, for `--resume-entry`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resume_entry: Option<usize>,
    /// The mistake.
    pub wrong: String,
    /// The command that shows it again.
    pub replay: String,
}

/// What kind of run a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Measured on this machine's processor and memory.
    Native,
    /// Counted in simulated time.
    Sim,
    /// From a crash campaign.
    Crash,
    /// A paper's claim, or a target of our own, held against a measured value.
    Claim,
}

/// What became of a claim, or of a planted bug.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Measured, and at least as good as claimed.
    Reached,
    /// Measured, and not as good as claimed.
    NotReached,
    /// The claim contradicts itself or another one of its paper.
    Contradictory,
    /// Nothing that can be run here would show it.
    NotTestable,
}

impl Verdict {
    /// What a reader must see first has the lowest number.
    pub(crate) fn urgency(verdict: Option<Self>) -> u8 {
        match verdict {
            Some(Self::NotReached) => 0,
            Some(Self::Contradictory) => 1,
            Some(Self::Reached) => 2,
            Some(Self::NotTestable) | None => 3,
        }
    }
}

/// One measured value. Members that do not apply are left out of the JSON.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Which kind of run.
    pub kind: Kind,
    /// What ran.
    pub workload: String,
    /// Under which scheme.
    pub scheme: String,
    /// What was measured: a [`Metric`]'s name.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The value; for repeated measurements their median. Absent only where a claim was not
    /// tested.
    pub value: Option<f64>,
    /// Lower quartile over rounds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p25: Option<f64>,
    /// Upper quartile over rounds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p75: Option<f64>,
    /// How many rounds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rounds: Option<u32>,
    /// How many threads.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub threads: Option<u32>,
    /// Sizes and settings, in words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub config: Option<String>,
    /// The simulated machine: a preset or a file, before `set` changed it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub machine: Option<String>,
    /// Keys of the machine and of the scheme that were set, with their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub set: BTreeMap<String, String>,
    /// Bytes of the workload's data. With the workload's name, `keys`, `transactions` and `seed`
    /// it says what ran: values of different work are not compared.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub footprint: Option<u64>,
    /// Keys, records or words of the workload's data.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub keys: Option<u64>,
    /// Transactions that count, of all threads together.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub transactions: Option<u64>,
    /// The seed of what was drawn, where it is not that of the whole document.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seed: Option<u64>,
    /// Cache replacement policy, or `any`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy: Option<String>,
    /// Persistence domain.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub domain: Option<String>,
    /// What the scheme promises.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub guarantee: Option<String>,
    /// Lines per fence, for floors.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lines: Option<u32>,
    /// Which part of a distribution, or against what, where a metric has several values.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub class: Option<String>,
    /// When transactions were acknowledged: `logical` or `physical`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ack: Option<String>,
    /// Arrivals per second on which transactions did not wait for each other; nothing in closed
    /// loops.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub arrivals_per_s: Option<u64>,
    /// Nanoseconds added to every line that was written back; nothing where none were.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub write_latency_ns: Option<u64>,
    /// The planted bug, or the control, that was switched on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plant: Option<String>,
    /// Which paper claims it, `outlast` for our own targets; of a value, for whose figures it was
    /// measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub paper: Option<String>,
    /// The claim, in words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub claim: Option<String>,
    /// The value claimed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub paper_value: Option<f64>,
    /// What became of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<Verdict>,
    /// Why it was not reached, or what the comparison leaves out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// What identifies the work of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkId<'r> {
    workload: &'r str,
    footprint: Option<u64>,
    keys: Option<u64>,
    transactions: Option<u64>,
    seed: Option<u64>,
}

impl fmt::Display for WorkId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.workload)?;
        for (value, what) in
            [(self.footprint, "bytes"), (self.keys, "keys"), (self.transactions, "transactions")]
        {
            if let Some(value) = value {
                write!(f, ", {value} {what}")?;
            }
        }
        self.seed.map_or(Ok(()), |seed| write!(f, ", seed {seed}"))
    }
}

impl Record {
    /// One value.
    ///
    /// # Panics
    /// When the value is not finite: JSON has no such numbers, and no measurement is one.
    pub fn new(kind: Kind, workload: &str, scheme: &str, metric: Metric, value: f64) -> Self {
        assert!(value.is_finite(), "{} of {scheme} on {workload} is {value}", metric.name);
        Self { value: Some(value), ..Self::empty(kind, workload, scheme, metric) }
    }

    /// The median of several rounds, with its quartiles.
    pub fn spread(
        kind: Kind,
        workload: &str,
        scheme: &str,
        metric: Metric,
        spread: Spread,
    ) -> Self {
        Self {
            p25: Some(spread.p25),
            p75: Some(spread.p75),
            rounds: Some(spread.rounds),
            ..Self::new(kind, workload, scheme, metric, spread.median)
        }
    }

    /// A claim that `metric` of `scheme` on `workload` is `paper_value`, and what became of it.
    pub fn claim(paper: &str, claim: &str, workload: &str, scheme: &str, metric: Metric) -> Self {
        Self {
            paper: Some(paper.to_owned()),
            claim: Some(claim.to_owned()),
            ..Self::empty(Kind::Claim, workload, scheme, metric)
        }
    }

    fn empty(kind: Kind, workload: &str, scheme: &str, metric: Metric) -> Self {
        Self {
            kind,
            workload: workload.to_owned(),
            scheme: scheme.to_owned(),
            metric: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            value: None,
            p25: None,
            p75: None,
            rounds: None,
            threads: None,
            config: None,
            machine: None,
            set: BTreeMap::new(),
            footprint: None,
            keys: None,
            transactions: None,
            seed: None,
            policy: None,
            domain: None,
            guarantee: None,
            lines: None,
            class: None,
            ack: None,
            arrivals_per_s: None,
            write_latency_ns: None,
            plant: None,
            paper: None,
            claim: None,
            paper_value: None,
            verdict: None,
            reason: None,
        }
    }

    /// What identifies the work: values of different work are not compared.
    pub fn work(&self) -> WorkId<'_> {
        let Self { workload, footprint, keys, transactions, seed, .. } = self;
        WorkId {
            workload,
            footprint: *footprint,
            keys: *keys,
            transactions: *transactions,
            seed: *seed,
        }
    }

    /// Whether this is a value of `metric`.
    pub fn is(&self, metric: Metric) -> bool {
        self.metric == metric.name
    }

    /// Judges a claim: `reached` when `holds`, else `not_reached` with the reason.
    pub fn judged(mut self, paper_value: f64, value: f64, holds: bool, reason: &str) -> Self {
        self.paper_value = Some(paper_value);
        self.value = Some(value);
        self.verdict = Some(if holds { Verdict::Reached } else { Verdict::NotReached });
        self.reason = (!holds && !reason.is_empty()).then(|| reason.to_owned());
        self
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $argument:ty, $convert:expr;)*) => {
        impl Record {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(mut self, $name: $argument) -> Self {
                    let convert: fn($argument) -> $type = $convert;
                    self.$name = Some(convert($name));
                    self
                }
            )*
        }
    };
}

setters! {
    /// Sets the number of threads.
    threads: u32 = u32, |n| n;
    /// Sets lines per fence.
    lines: u32 = u32, |n| n;
    /// Sets which of a metric's values this is.
    class: String = &str, str::to_owned;
    /// Sets when transactions were acknowledged.
    ack: String = &str, str::to_owned;
    /// Sets the arrivals per second.
    arrivals_per_s: u64 = u64, |rate| rate;
    /// Sets the nanoseconds added to a line written back.
    write_latency_ns: u64 = u64, |ns| ns;
    /// Sets the bytes of the workload's data.
    footprint: u64 = u64, |bytes| bytes;
    /// Sets the keys of the workload's data.
    keys: u64 = u64, |keys| keys;
    /// Sets how many transactions count.
    transactions: u64 = u64, |count| count;
    /// Sets the seed.
    seed: u64 = u64, |seed| seed;
    /// Sets sizes and settings, in words.
    config: String = &str, str::to_owned;
    /// Sets the cache replacement policy.
    policy: String = &str, str::to_owned;
    /// Sets the persistence domain.
    domain: String = &str, str::to_owned;
    /// Sets what the scheme promises.
    guarantee: String = &str, str::to_owned;
    /// Sets the planted bug or control.
    plant: String = &str, str::to_owned;
    /// Sets the verdict.
    verdict: Verdict = Verdict, |v| v;
    /// Sets the reason.
    reason: String = &str, str::to_owned;
}

/// A metric's name and unit. Names are stable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Metric {
    /// As records spell it.
    pub name: &'static str,
    /// As records spell it.
    pub unit: &'static str,
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $unit:literal;)*) => {
        impl Metric {
            $($(#[$doc])* pub const $constant: Metric = Metric { name: $name, unit: $unit };)*
        }
    };
}

metrics! {
    /// Transactions per second of wall time.
    THROUGHPUT = "throughput", "tx/s";
    /// Transactions per CPU second of the whole process.
    THROUGHPUT_CPU = "throughput_cpu", "tx/s";
    /// Transactions per second over those of SQLite's write-ahead log, in the same rounds.
    SPEED_OVER_WAL = "speed_over_wal", "ratio";
    /// Commands that a server answers per second.
    COMMANDS = "commands", "1/s";
    /// CPU time of a server's process for a command.
    SERVER_CPU = "server_cpu", "us";
    /// Transactions per CPU second over those of another (the class), in the same rounds.
    RELATIVE_SPEED = "relative_speed", "ratio";
    /// Transactions per second of wall time over those with fewer threads, in the same rounds.
    SCALING = "scaling", "ratio";
    /// The same by CPU seconds of the whole process.
    SCALING_CPU = "scaling_cpu", "ratio";
    /// Transactions of the thread that ran the fewest over an even share of them.
    LEAST_SHARE = "least_share", "ratio";
    /// Wall time of a transaction.
    TX_TIME = "tx_time", "ns";
    /// Median time from call to acknowledgement, which is durable (see `ack`).
    LATENCY_P50 = "latency_p50", "ns";
    /// 99th percentile of the same.
    LATENCY_P99 = "latency_p99", "ns";
    /// Median time from a transaction's arrival to its acknowledgement, in an open loop.
    OPEN_LATENCY_P50 = "open_latency_p50", "ns";
    /// 99th percentile of the same.
    OPEN_LATENCY_P99 = "open_latency_p99", "ns";
    /// Transactions answered per second of wall time in an open loop.
    OPEN_THROUGHPUT = "open_throughput", "tx/s";
    /// Lines flushed per transaction.
    FLUSHED_LINES = "flushed_lines", "lines/tx";
    /// Fences per transaction.
    FENCES = "fences", "fences/tx";
    /// Lines streamed past the caches per transaction.
    STREAMED_LINES = "streamed_lines", "lines/tx";
    /// Calls per transaction that wait for the device.
    SYNCS = "syncs", "syncs/tx";
    /// Throughput over that of an append and one sync, in the same rounds.
    FLOOR_SHARE = "floor_share", "ratio";
    /// Bytes of a database's files that are allocated.
    DISK_BYTES = "disk_bytes", "B";
    /// Those of them that its log takes for good.
    DISK_LOG_BYTES = "disk_log_bytes", "B";
    /// The others over the bytes of keys and values.
    SPACE_RATIO = "space_ratio", "ratio";
    /// All of them over the bytes of keys and values.
    SPACE_RATIO_ALL = "space_ratio_all", "ratio";
    /// From opening a database whose last process was killed to its first value.
    FIRST_OPENING = "first_opening", "ms";
    /// Dirty bytes over the bytes of flushed lines.
    DIRTINESS = "dirtiness", "ratio";
    /// Flushes of the heap's lines, on an emulated cache.
    DATA_FLUSHES = "data_flushes", "lines/tx";
    /// Those of them that found the line dirty.
    DIRTY_DATA_FLUSHES = "dirty_data_flushes", "lines/tx";
    /// Flushes of log lines, on an emulated cache.
    LOG_FLUSHES = "log_flushes", "lines/tx";
    /// Dirty lines of the heap that left the emulated cache by themselves.
    DATA_EVICTIONS = "data_evictions", "lines/tx";
    /// Flushes of the heap's lines that undo logging issues and this scheme does not: on the same
    /// layout, or on that of the class.
    DATA_FLUSHES_SAVED = "data_flushes_saved", "%";
    /// The same, of those that find the line dirty.
    DIRTY_DATA_FLUSHES_SAVED = "dirty_data_flushes_saved", "%";
    /// As `data_flushes_saved`, with the lines of checksums and of the log.
    ALL_FLUSHES_SAVED = "all_flushes_saved", "%";
    /// As `dirty_data_flushes_saved`, with the lines of checksums and of the log.
    ALL_DIRTY_FLUSHES_SAVED = "all_dirty_flushes_saved", "%";
    /// Flushes of lines of checksums, on an emulated cache.
    SUMS_FLUSHES = "sums_flushes", "lines/tx";
    /// Those of them that found the line dirty.
    DIRTY_SUMS_FLUSHES = "dirty_sums_flushes", "lines/tx";
    /// As `data_flushes_saved`, with the lines of checksums.
    SUMMED_FLUSHES_SAVED = "summed_flushes_saved", "%";
    /// As `dirty_data_flushes_saved`, with the lines of checksums.
    DIRTY_SUMMED_FLUSHES_SAVED = "dirty_summed_flushes_saved", "%";
    /// Of the flushes of undo logging on an unaligned layout, those saved by the layout (the class
    /// says which are counted).
    SAVED_BY_COALESCING = "saved_by_coalescing", "%";
    /// The others saved: those that are skipped.
    SAVED_BY_SKIPPING = "saved_by_skipping", "%";
    /// Stored bytes over the bytes of those flushed lines that were dirty in the emulated cache.
    DIRTINESS_FOUND = "dirtiness_found", "ratio";
    /// As `dirtiness`, with the log's lines.
    DIRTINESS_ALL = "dirtiness_all", "ratio";
    /// The share of flushes of the heap's lines, by the number of words stored to (the class).
    FLUSHES_BY_WORDS = "flushes_by_words", "%";
    /// Flushes of the heap's lines that undo logging saves by what lies beside what.
    COALESCING_SAVED = "coalescing_saved", "%";
    /// Memory that write-back by age takes.
    HISTORY_BYTES = "history_bytes", "B";
    /// The share of touched blocks, by the number of transactions that touch them (the class).
    REUSE = "reuse", "%";
    /// Throughput below that of `none`.
    THROUGHPUT_LOSS = "throughput_loss", "%";
    /// Throughput above that of another scheme (the class).
    THROUGHPUT_GAIN = "throughput_gain", "%";
    /// Throughput above that of undo logging, with a memory (the class) of the timed machine.
    GAIN_OVER_UNDO = "gain_over_undo", "%";
    /// 99th percentile of latency below that of another scheme (the class).
    LATENCY_P99_SAVED = "latency_p99_saved", "%";
    /// The share of flushes and fences in what a scheme adds to a transaction.
    PERSISTENCE_SHARE = "persistence_share", "%";
    /// Throughput with `clwb` above that with `clflushopt`.
    CLWB_GAIN = "clwb_gain", "%";
    /// Opening a pool that has crashed with a full log: mapping, recovery, volatile parts.
    RECOVERY_TIME = "recovery_time", "ms";
    /// Transactions that this opening has repeated or put back.
    RECOVERED = "recovered", "count";
    /// Time of one object of the micro-benchmark; the scheme is what is done to it.
    OBJECT_TIME = "object_time", "ns";
    /// Lines flushed for it.
    OBJECT_LINES = "object_lines", "lines";
    /// Time saved against flushing the object.
    OBJECT_TIME_SAVED = "object_time_saved", "%";
    /// Time of a transaction beyond that of `none` in the same round.
    PERSISTENCE_COST = "persistence_cost", "ns";
    /// The same, over that of the better of the peers in the same round.
    PERSISTENCE_COST_RATIO = "persistence_cost_ratio", "ratio";
    /// As `persistence_cost`, in CPU time of the whole process.
    PERSISTENCE_COST_CPU = "persistence_cost_cpu", "ns";
    /// As `persistence_cost_ratio`, in CPU time of the whole process.
    PERSISTENCE_COST_RATIO_CPU = "persistence_cost_ratio_cpu", "ratio";
    /// The part of a transaction spent on making log records.
    TIME_LOG = "time_log", "ns";
    /// The part spent on flushing and streaming.
    TIME_FLUSH = "time_flush", "ns";
    /// The part spent waiting in fences.
    TIME_FENCE = "time_fence", "ns";
    /// The part that the work itself takes.
    TIME_REST = "time_rest", "ns";
    /// Time of a number of lines with one fence; the scheme is the pattern.
    FLOOR = "floor", "ns";
    /// What the floor predicts for a transaction's flushed lines and fences.
    FLOOR_PREDICTED = "floor_predicted", "ns";
    /// The cost of persistence over what the floor predicts.
    FLOOR_DISTANCE = "floor_distance", "ratio";
    /// Thread schedules tried.
    SCHEDULES = "schedules", "count";
    /// Crash points tried.
    CRASH_POINTS = "crash_points", "count";
    /// Images recovered and judged.
    IMAGES_VERIFIED = "images_verified", "count";
    /// How many of them differ.
    IMAGES_DISTINCT = "images_distinct", "count";
    /// Images recovered and judged per CPU second.
    VERIFY_RATE = "verify_rate", "images/s";
    /// Pages of 4 KiB that a core of this machine sums byte by byte.
    PAGES_SUMMED = "pages_summed", "pages/s";
    /// Images verified for each page that the same core sums.
    VERIFIED_OVER_PAGES = "verified_over_pages", "ratio";
    /// Acknowledged transactions lost.
    LOST = "lost", "count";
    /// Transactions found in part.
    TORN = "torn", "count";
    /// Damage that recovery found and could not correct.
    UNCORRECTABLE = "uncorrectable", "count";
    /// Objects whose durable bytes were older at a crash than what was acknowledged.
    STALE_OBJECTS = "stale_objects", "count";
    /// Of these, made right by recovery from live log records.
    REPAIRED_BY_LOG = "repaired_by_log", "count";
    /// The others, whose log was gone: the I-obj of Archapt's Table IV.
    INCONSISTENT_OBJECTS = "inconsistent_objects", "count";
    /// Stale objects that recovery itself found to be wrong.
    DETECTED = "detected", "count";
    /// Of the detected, put right from checksums.
    CORRECTED = "corrected", "count";
    /// Objects that are wrong after a recovery that complained of nothing.
    SILENTLY_WRONG = "silently_wrong", "count";
    /// Pools that recovery gave up, or that it left with an unsound allocator.
    REFUSED = "refused", "count";
    /// Of one planted bug (1 or 0), or of all: found by the checker.
    PLANTED_KILLED = "planted_killed", "count";
    /// Planted bugs tried.
    PLANTED_TOTAL = "planted_total", "count";
    /// Images judged until a planted bug was found.
    IMAGES_TO_KILL = "images_to_kill", "count";
    /// Of one control (1 or 0): flagged though nothing is wrong.
    CONTROL_FLAGGED = "control_flagged", "count";
    /// Simulated instructions per CPU second of the host.
    SIM_SPEED = "sim_speed", "instr/s";
    /// Instructions per cycle.
    IPC = "ipc", "instr/cycle";
    /// Instructions that a simulated run retired.
    INSTRUCTIONS = "instructions", "count";
    /// Core cycles that it took.
    CYCLES = "cycles", "count";
    /// Lookups that found their line; the class is the level.
    CACHE_HITS = "cache_hits", "count";
    /// Lookups that did not; the class is the level.
    CACHE_MISSES = "cache_misses", "count";
    /// Page walks.
    PAGE_WALKS = "page_walks", "count";
    /// Branches predicted wrongly.
    MISPREDICTED = "mispredicted", "count";
    /// Lines read from simulated memory.
    MEMORY_READS = "memory_reads", "count";
    /// Lines that residual energy has to write at a crash; the class is the mean or the most.
    DRAIN_LINES = "drain_lines", "count";
    /// The time of the memory for them; the class is the mean or the most.
    DRAIN_TIME = "drain_time", "ns";
    /// The energy that takes; the class is the mean or the most.
    DRAIN_ENERGY = "drain_energy", "nJ";
    /// Lines written to simulated memory; the class is the cause.
    MEMORY_WRITES = "memory_writes", "count";
    /// Lines written to simulated memory per transaction; the class is the cause.
    MEMORY_WRITES_TX = "memory_writes_tx", "lines/tx";
    /// Instructions per transaction in a simulated run.
    INSTRUCTIONS_TX = "instructions_tx", "instr/tx";
    /// Accesses that found their row open.
    ROW_HITS = "row_hits", "count";
    /// Accesses that found no row open in their bank.
    ROW_MISSES = "row_misses", "count";
    /// Accesses that found another row open.
    ROW_CONFLICTS = "row_conflicts", "count";
    /// Time from a read's arrival at the memory controller to its last data: the mean, or the
    /// class.
    READ_LATENCY = "read_latency", "ns";
    /// Time from a write's arrival at the memory controller until its cells are written: the mean,
    /// or the class.
    WRITE_LATENCY = "write_latency", "ns";
    /// Time from a line's leaving the caches, or the scheme, until it is durable: by cause, the
    /// mean or what else the class says.
    PERSIST_LATENCY = "persist_latency", "ns";
    /// Requests that waited in the memory's queues, on average over time; the class is the queue.
    QUEUE_OCCUPANCY = "queue_occupancy", "requests";
    /// The most that waited in one channel.
    QUEUE_MAX = "queue_max", "count";
    /// Cycles in which a channel's queue took no more, of all channels.
    QUEUE_FULL_CYCLES = "queue_full_cycles", "count";
    /// Dynamic energy of the memory, or a part of it (the class), where a source gives energies.
    MEMORY_ENERGY = "memory_energy", "nJ";
    /// Bytes read and written, in 10^9 a second.
    BANDWIDTH = "bandwidth", "GB/s";
    /// Cycles in which a core's oldest instruction was a fence that waited, of all cores.
    FENCE_CYCLES = "fence_cycles", "count";
    /// Time in which the line of a hardware log that is written most wears out without wear
    /// levelling, at the rate of the run, where a source says what a line bears.
    LOG_LIFETIME = "log_lifetime", "days";
    /// Events of the simulator per simulated instruction.
    SIM_EVENTS = "sim_events", "events/instr";
    /// Ticks of simulated cores per simulated instruction.
    SIM_TICKS = "sim_ticks", "ticks/instr";
    /// Cycles in which a core retired nothing, of all cores; the class is the cause.
    LOST_CYCLES = "lost_cycles", "count";
    /// Lines that a prefetcher asked for.
    PREFETCHES = "prefetches", "count";
    /// Energy of the processor by a simple activity model.
    PROCESSOR_ENERGY = "processor_energy", "nJ";
    /// Throughput over that of plain memory, which promises nothing, on the same work.
    SPEED_OVER_PLAIN = "speed_over_plain", "ratio";
    /// Instructions of each core in an epoch.
    EPOCH_INSTRUCTIONS = "epoch_instructions", "instr";
    /// Epochs that persisted.
    EPOCHS_PERSISTED = "epochs_persisted", "count";
    /// Lookups in the memory's address indirection, where it is charged.
    AIT_LOOKUPS = "ait_lookups", "count";
    /// Bytes written to simulated memory over the bytes that transactions stored.
    WRITE_AMPLIFICATION = "write_amplification", "ratio";
    /// Lines read from simulated memory per transaction; the class is the cause.
    MEMORY_READS_TX = "memory_reads_tx", "lines/tx";
    /// Dynamic energy of the memory per transaction.
    MEMORY_ENERGY_TX = "memory_energy_tx", "nJ/tx";
    /// Durable writes of a line; the class is which of the lines that were written.
    LINE_WRITES = "line_writes", "count";
    /// How unevenly these wear: 0 where all are written alike, towards 1 where one takes all writes.
    WEAR_GINI = "wear_gini", "ratio";
    /// Memory that a scheme takes beside the data.
    EXTRA_SPACE = "extra_space", "B";
    /// Lines that an executed recovery read: the median of several crashes.
    RECOVERY_READS = "recovery_reads", "lines";
    /// Lines that it wrote.
    RECOVERY_WRITES = "recovery_writes", "lines";
    /// Time of the simulated memory for these, as fast as it takes requests.
    RECOVERY_MEMORY_TIME = "recovery_memory_time", "ns";
    /// CPU time of the host that executed it.
    RECOVERY_HOST_TIME = "recovery_host_time", "ns";
    /// What one operation takes; the workload is the operation.
    PRIMITIVE = "primitive", "ns";
}

impl Metric {
    /// What a crash of a scheme that promises durability must not leave.
    pub const HARM: [Metric; 5] =
        [Self::LOST, Self::TORN, Self::UNCORRECTABLE, Self::SILENTLY_WRONG, Self::REFUSED];

    /// Whether it is one of them.
    pub fn is_harm(self) -> bool {
        Self::HARM.contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_comes_back_from_its_json() {
        let mut document = Document::new("1.2.3", "outlast bench sps1", 42, Some("abc".into()));
        let spread = Spread { median: 5.0, p25: 4.0, p75: 6.5, rounds: 7 };
        document.records = vec![
            Record::spread(Kind::Native, "sps1", "undo", Metric::THROUGHPUT, spread)
                .threads(1)
                .domain("adr"),
            Record::claim(
                "outlast",
                "cost of undo",
                "sps1",
                "undo",
                Metric::PERSISTENCE_COST_RATIO,
            )
            .judged(0.6, 0.7, false, "because"),
        ];
        assert_eq!(Document::from_json(&document.to_json()).unwrap(), document);
    }

    #[test]
    fn json_holds_the_names_others_rely_on_and_nothing_that_does_not_apply() {
        let record = Record::new(Kind::Native, "ycsb-a", "redo", Metric::LATENCY_P99, 900.0);
        let json = serde_json::to_value(record.threads(2)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "kind": "native", "workload": "ycsb-a", "scheme": "redo",
                "metric": "latency_p99", "unit": "ns", "value": 900.0, "threads": 2,
            })
        );
        let claim =
            Record::claim("archapt", "x", "w", "s", Metric::IPC).judged(1.0, 2.0, false, "y");
        let json = serde_json::to_value(claim).unwrap();
        assert_eq!(json["verdict"], "not_reached");
        assert_eq!(json["paper_value"], 1.0);
        assert_eq!(json["kind"], "claim");
    }

    #[test]
    #[should_panic(expected = "throughput of undo on sps1 is NaN")]
    fn a_value_that_is_no_number_is_refused() {
        Record::new(Kind::Native, "sps1", "undo", Metric::THROUGHPUT, f64::NAN);
    }
}
