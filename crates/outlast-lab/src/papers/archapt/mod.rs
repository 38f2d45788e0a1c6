//! The Archapt paper's figures again: what each claims, beside what was measured here.
//!
//! | part | what is measured | by |
//! |---|---|---|
//! | figures 1, 7, 8 | throughput and 99th percentile, scheme against scheme | [`timing`], natively |
//! | figure 2 | the share of flushes and fences in a scheme's cost | [`timing`], natively |
//! | figure 3 | how many transactions touch a block | [`reuse`], on the access stream |
//! | figure 6 | flushing objects against keeping checksums of them | [`checksums`], natively |
//! | figures 9, 10, table I | flushes, and how dirty the lines are | [`flushes`], on an emulated cache |
//! | `clwb` | `clwb` against `clflushopt` | [`timing`], natively |
//! | `memories` | throughput where writes are slow | [`memories`], on the timed machine |
//! | `front-ends` | throughput and 99th percentile under Redis and SQLite | [`front_ends`], natively |
//! | table IV | crash tests | [`table4`], on emulated caches |
//!
//! Every claim of the paper's results and orderings (`claims.csv`) gets one verdict by the rules in
//! `judge`, and the project's own goals about the same measurements are judged beside them.
//!
//! What the paper measures under Redis and SQLite is measured here over [`outlast::Transact`]: the
//! same schemes and workloads without the front ends, since those take most of a transaction's time. Its averages
//! are judged once more under the front ends ([`front_ends`]). The paper emulates persistent memory with
//! plain DRAM, and so its claims are judged there; the runs with writes slowed down stand beside.

pub mod checksums;
mod crashes;
mod evidence;
pub mod flushes;
pub mod front_ends;
mod judge;
pub mod memories;
mod ours;
pub mod reuse;
mod stages;
pub mod table4;
pub mod timing;
mod views;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::LazyLock;

use outlast::Scheme;
use outlast::scheme::Guarantee;
use outlast_crash::runtime::campaign::{CampaignError, TimedError};
use outlast_workloads::{Scale, Workload};

use super::claim::{self, Claim};
use super::paper::{Card, Outcome, Paper, Request, Run};
use crate::crash::planted_in;
use crate::emulated::EmulationError;
use crate::native::{NativeError, Size};
use crate::progress::{Listener, Phase, Progress};

/// "Archapt": architecture-aware transactions.
pub struct Archapt;

/// How it is called.
static CARD: Card = Card {
    name: "archapt",
    id: ARCHAPT,
    title: "Archapt",
    about: "architecture-aware transactions: skipped flushes, checksums, coalescing",
    figures: || Part::ALL.iter().map(|part| (part.name(), part.claims_name())).collect(),
    claims: &CLAIMS,
    rows: || claim::names(judge::ROWS),
    views: views::ALL,
};

/// The paper's claims.
static CLAIMS: LazyLock<Vec<Claim>> = LazyLock::new(|| claim::parse(include_str!("claims.csv")));

impl Paper for Archapt {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Run>, Box<dyn Error>> {
        let figures: Vec<Part> =
            request.figures.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
        let parts = if figures.is_empty() { &Part::ALL[..] } else { &figures };
        let usual = Task::new(parts, request.size, request.seed);
        let mut task = Task {
            threads: request.threads.clone().unwrap_or(usual.threads),
            write_latency_ns: request.write_latency_ns.unwrap_or(usual.write_latency_ns),
            directory: request.directory.clone().unwrap_or(usual.directory),
            table4: table4_of(request, parts)?,
            ..usual
        };
        if are_counted(parts) {
            task.count_only(&request.workloads, &request.schemes)?;
        }
        Ok(Box::new(task))
    }

    fn for_report(&self, size: Size, directory: &Path, seed: u64) -> Box<dyn Run> {
        Box::new(Task::for_report(size, directory, seed))
    }
}

/// Whether any of these parts counts flushes.
fn are_counted(parts: &[Part]) -> bool {
    Part::COUNTED.iter().any(|part| parts.contains(part))
}

/// Table IV as it was asked for.
fn table4_of(request: &Request, parts: &[Part]) -> Result<Option<table4::Plan>, Box<dyn Error>> {
    let Request { crashes, plant, workloads, schemes, .. } = request;
    if !parts.contains(&Part::Table4) {
        if crashes.is_some() || plant.is_some() {
            return Err("--crashes and --plant go with --figure table4".into());
        }
        let given = !workloads.is_empty() || !schemes.is_empty();
        if given && !are_counted(parts) {
            return Err("--workload and --scheme go with figures 9, 10, table1 and table4".into());
        }
        return Ok(None);
    }
    let mut plan = table4::Plan::new(request.size, request.seed);
    for name in workloads {
        plan.workloads.push(table4::workload(name)?);
    }
    if !schemes.is_empty() {
        plan.schemes.clone_from(schemes);
    }
    plan.crashes = crashes.map_or(plan.crashes, |crashes| crashes as usize);
    plan.plant = *plant;
    if let Some(plant) = *plant {
        plan.schemes = planted_in(plant, &plan.schemes, !schemes.is_empty())?;
    }
    Ok(Some(plan))
}

impl Run for Task {
    fn run(&self, listen: &mut Listener<'_>) -> Result<Outcome, Box<dyn Error>> {
        Ok(run(self, listen)?)
    }

    fn stages(&self) -> Vec<Phase> {
        stages::of(self)
    }

    fn panics_are_results(&self) -> bool {
        let promised = |scheme: &Scheme| scheme.guarantee() == Guarantee::Durable;
        self.table4
            .as_ref()
            .is_some_and(|plan| plan.plant.is_some() || !plan.schemes.iter().all(promised))
    }
}

/// The name under which the paper's claims are filed.
pub const ARCHAPT: &str = "archapt";

/// The workloads that the paper runs on Redis. TPC-C runs on both; it is measured once.
pub const REDIS: [&str; 7] = ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f", "tpcc"];

/// Those that it runs on SQLite, LinkBench in the paper's own mix.
pub const SQLITE: [&str; 3] = ["tpcc", "linkbench-archapt", "oltp-ycsb"];

/// All of them.
pub const WORKLOADS: [&str; 9] = [
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-d",
    "ycsb-e",
    "ycsb-f",
    "tpcc",
    "linkbench-archapt",
    "oltp-ycsb",
];

/// The only one that stores nothing.
pub const READ_ONLY: &str = "ycsb-c";

/// The others.
const STORING: [&str; 8] =
    ["ycsb-a", "ycsb-b", "ycsb-d", "ycsb-e", "ycsb-f", "tpcc", "linkbench-archapt", "oltp-ycsb"];

/// The schemes of the paper. Those that do not exist here yet are left out.
pub const SCHEMES: [&str; 7] =
    ["undo", "undo-archapt", "redo", "redo-archapt", "aof", "rollback", "atlas"];

/// A figure or a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Part {
    /// Throughput lost by logging.
    Fig1,
    /// Flushes and fences in the cost of logging.
    Fig2,
    /// Data reuse.
    Fig3,
    /// Checksums against flushes.
    Fig6,
    /// Throughput.
    Fig7,
    /// The 99th percentile of latency.
    Fig8,
    /// Flushes saved.
    Fig9,
    /// Dirtiness with Archapt.
    Fig10,
    /// Dirtiness without.
    Table1,
    /// Crash tests.
    Table4,
    /// `clwb` against `clflushopt`, of which the paper has a sentence.
    Clwb,
    /// Throughput and latency under Redis and SQLite.
    FrontEnds,
    /// Throughput on memories with slow writes, which the paper does not have.
    Memories,
}

impl Part {
    /// Those that count flushes.
    pub const COUNTED: [Self; 3] = [Self::Table1, Self::Fig9, Self::Fig10];

    /// All, in the paper's order.
    pub const ALL: [Self; 13] = [
        Self::Fig1,
        Self::Fig2,
        Self::Table1,
        Self::Fig3,
        Self::Fig6,
        Self::Fig7,
        Self::Fig8,
        Self::Fig9,
        Self::Fig10,
        Self::Clwb,
        Self::Table4,
        Self::FrontEnds,
        Self::Memories,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fig1 => "1",
            Self::Fig2 => "2",
            Self::Fig3 => "3",
            Self::Fig6 => "6",
            Self::Fig7 => "7",
            Self::Fig8 => "8",
            Self::Fig9 => "9",
            Self::Fig10 => "10",
            Self::Table1 => "table1",
            Self::Table4 => "table4",
            Self::Clwb => "clwb",
            Self::FrontEnds => "front-ends",
            Self::Memories => "memories",
        }
    }

    /// The name in the table of claims.
    pub fn claims_name(self) -> String {
        match self.name() {
            number if number.starts_with(|c: char| c.is_ascii_digit()) => format!("fig{number}"),
            name => name.to_owned(),
        }
    }
}

/// A name that no part has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no figure is called '{0}'; there are {names}", names = Part::ALL.map(Part::name).join(", "))]
pub struct UnknownPart(String);

impl FromStr for Part {
    type Err = UnknownPart;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|part| part.name() == name);
        found.ok_or_else(|| UnknownPart(name.to_owned()))
    }
}

/// Whose flushes figures 9 and 10 and table I do not count.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotCounted {
    /// No such workload, or it stores nothing.
    #[error("no flushes are counted on '{0}' but on {names}", names = STORING.join(", "))]
    Workload(String),
    /// Not one of the paper's.
    #[error("no flushes of '{0}' are counted but of {names}",
        names = flushes::schemes_counted().collect::<Vec<_>>().join(", "))]
    Scheme(String),
}

/// The parts to measure, and their sizes.
#[derive(Clone, Debug)]
pub struct Task {
    /// Which parts.
    pub parts: Vec<Part>,
    /// How much.
    pub size: Size,
    /// Threads of the native runs, one competition for each number.
    pub threads: Vec<u32>,
    /// Nanoseconds added to each line written back in the runs on slower memory.
    pub write_latency_ns: u64,
    /// Where pools are created.
    pub directory: PathBuf,
    /// How much exactly; that of the size if not given.
    pub amount: Amount,
    /// Schemes whose flushes are counted; all of them if there are none.
    pub counted: Vec<String>,
    /// Workloads on which they are; all of them if there are none. Claims are about all, so those about
    /// some are not judged.
    pub counted_on: Vec<&'static str>,
    /// Table IV's crash tests, if they are to run.
    pub table4: Option<table4::Plan>,
    /// The seed of everything drawn.
    pub seed: u64,
}

/// Whose flushes a quick report counts.
const COUNTED_AT_A_GLANCE: [&str; 6] = [
    "undo",
    "undo-archapt",
    "redo",
    "redo-archapt",
    "undo-archapt:literal",
    "redo-archapt:literal",
];

/// How long a chip of phase-change memory takes for a write pulse (ISSCC 2012).
pub const WRITE_LATENCY_NS: u64 = 150;

impl Task {
    /// All parts at their usual amount.
    pub fn new(parts: &[Part], size: Size, seed: u64) -> Self {
        Self {
            parts: parts.to_vec(),
            size,
            threads: vec![1, 2],
            write_latency_ns: WRITE_LATENCY_NS,
            directory: crate::native::default_directory(),
            amount: match size {
                Size::Quick if parts.len() == Part::ALL.len() => Amount::of_all_parts(),
                size => Amount::of(size),
            },
            counted: Vec::new(),
            counted_on: Vec::new(),
            table4: None,
            seed,
        }
    }

    /// The parts of a report: everything in the full scale; in the quick one the parts
    /// counted in seconds, flushes of the schemes that the project's goals are about.
    pub fn for_report(size: Size, directory: &Path, seed: u64) -> Self {
        let directory = directory.to_owned();
        match size {
            Size::Full => {
                let table4 = Some(table4::Plan::new(size, seed));
                Self { directory, table4, ..Self::new(&Part::ALL, size, seed) }
            }
            Size::Quick => Self {
                directory,
                amount: Amount::at_a_glance(),
                counted: COUNTED_AT_A_GLANCE.map(str::to_owned).to_vec(),
                ..Self::new(&Part::COUNTED, size, seed)
            },
        }
    }

    /// Counts flushes only on these workloads and under these schemes, and those of the baselines.
    ///
    /// # Errors
    /// A workload or a scheme whose flushes are not counted.
    pub fn count_only(
        &mut self,
        workloads: &[String],
        schemes: &[Scheme],
    ) -> Result<(), NotCounted> {
        for name in workloads {
            let known = STORING.into_iter().find(|known| known == name);
            self.counted_on.push(known.ok_or_else(|| NotCounted::Workload(name.clone()))?);
        }
        for scheme in schemes {
            let name = scheme.name();
            if !flushes::schemes_counted().any(|known| known == name) {
                return Err(NotCounted::Scheme(name.to_owned()));
            }
            self.counted.push(name.to_owned());
        }
        Ok(())
    }

    /// Whether the flushes of the scheme of that name are counted.
    fn counts_scheme(&self, name: &str) -> bool {
        self.counted.is_empty() || self.counted.iter().any(|counted| counted == name)
    }

    /// Whether any of these parts is asked for.
    fn wants(&self, parts: &[Part]) -> bool {
        parts.iter().any(|part| self.parts.contains(part))
    }

    /// Whether everything is: only then claims that belong to no figure are judged.
    fn wants_all(&self) -> bool {
        Part::ALL.iter().all(|part| self.parts.contains(part))
    }

    /// The number of threads by which claims are judged: the most that do not share a core.
    fn judged_threads(&self) -> u32 {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let fitting = self.threads.iter().copied().filter(|threads| *threads <= cores).max();
        fitting.or(self.threads.iter().copied().min()).unwrap_or(1)
    }

    /// A workload's scale for runs that are counted and not timed.
    fn counted_scale(&self, workload: &Workload, operations: u64) -> Scale {
        let published = workload.scale();
        let quick = workload.quick_scale();
        let scale = match self.size {
            // Ten million nodes of LinkBench would take some twenty gigabytes.
            Size::Full if published.records > RECORDS_MAX => {
                Scale { records: RECORDS_MAX, ..published }
            }
            Size::Full => published,
            // TPC-C is small, and smaller it has nothing that could age.
            Size::Quick if workload.name == "tpcc" => published,
            Size::Quick => Scale { records: quick.records * 2, ..quick },
        };
        let scale = self.amount.keys.map_or(scale, |keys| workload.scale_of(keys));
        Scale { operations, ..scale }
    }
}

/// Sizes of the single runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amount {
    /// The approximate number of keys of every workload, instead of those of the size.
    pub keys: Option<u64>,
    /// Transactions before the count begins, on the emulated cache. TPC-C does a tenth.
    pub warm_up: u64,
    /// Transactions counted.
    pub transactions: u64,
    /// The divisor of these counts for YCSB-E.
    pub scans_part: u64,
    /// Bytes of log, on the emulated cache.
    pub lane_bytes: u64,
    /// Bytes of the emulated cache.
    pub cache_bytes: u64,
    /// Transactions on the timed machine. TPC-C and YCSB-E do a tenth.
    pub simulated: u64,
    /// The approximate number of keys of every workload there.
    pub simulated_keys: u64,
    /// Rounds of competitions.
    pub rounds: u32,
    /// One turn.
    pub turn_ms: u64,
    /// Transactions of each thread whose latencies are measured one by one.
    pub latency_transactions: u64,
    /// Objects of the micro-benchmark, if their bytes are not more than `object_bytes`.
    pub objects: u64,
    /// Bytes of all its objects together at most.
    pub object_bytes: u64,
}

/// The most records of a counted run: those of YCSB as published.
const RECORDS_MAX: u64 = 1_000_000;

/// The last-level cache of the paper's machine, and its ways.
const CACHE_BYTES: u64 = 19_712 << 10;
const CACHE_WAYS: u32 = 11;

impl Amount {
    /// Sizes for a quick report: a few seconds of counting, on data, cache and log of a
    /// sixteenth of the quick size.
    pub fn at_a_glance() -> Self {
        let quick = Self::of(Size::Quick);
        Self {
            keys: Some(6_250),
            warm_up: 4_000,
            transactions: 4_000,
            scans_part: 4,
            lane_bytes: quick.lane_bytes / 16,
            cache_bytes: quick.cache_bytes / 16,
            ..quick
        }
    }

    /// Sizes for all parts together at the quick scale, to end within six minutes: twice the
    /// transactions of [`at_a_glance`](Self::at_a_glance), and fewer of those that are timed. A part that
    /// is asked for by name has more.
    pub fn of_all_parts() -> Self {
        Self {
            warm_up: 8_000,
            transactions: 8_000,
            simulated: 400,
            simulated_keys: 10_000,
            rounds: 3,
            turn_ms: 20,
            latency_transactions: 4_000,
            ..Self::at_a_glance()
        }
    }

    /// The amounts of a size.
    pub fn of(size: Size) -> Self {
        let full = Self {
            keys: None,
            warm_up: 1_000_000,
            transactions: 2_000_000,
            scans_part: 5,
            lane_bytes: 64 << 20,
            cache_bytes: CACHE_BYTES,
            simulated: 100_000,
            simulated_keys: 1_000_000,
            rounds: 9,
            turn_ms: 200,
            latency_transactions: 20_000,
            objects: 1_300_000,
            object_bytes: u64::MAX,
        };
        match size {
            Size::Full => full,
            Size::Quick => Self {
                warm_up: 100_000,
                transactions: 100_000,
                lane_bytes: 32 << 20,
                simulated: 10_000,
                simulated_keys: 100_000,
                rounds: 5,
                turn_ms: 40,
                object_bytes: 64 << 20,
                ..full
            },
        }
    }
}

/// Something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// On the emulated cache.
    #[error(transparent)]
    Emulation(#[from] EmulationError),
    /// On this machine.
    #[error(transparent)]
    Native(#[from] NativeError),
    /// In crash tests.
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    /// Under a front end.
    #[error(transparent)]
    FrontEnd(#[from] front_ends::FrontEndError),
    /// On the timed machine.
    #[error(transparent)]
    Timed(#[from] TimedError),
}

/// Measures the parts and judges the claims about them.
///
/// # Errors
/// [`ReproduceError`].
pub fn run(task: &Task, listen: &mut Listener<'_>) -> Result<Outcome, ReproduceError> {
    let mut records = Vec::new();
    let (mut failures, mut planted) = (Vec::new(), Vec::new());
    if task.wants(&[Part::Fig1, Part::Fig2, Part::Fig7, Part::Fig8]) {
        records.extend(timing::measure(task, listen)?);
    }
    if task.wants(&[Part::Clwb]) {
        records.extend(timing::flush_kinds(task, listen)?);
    }
    if task.wants(&[Part::Fig6]) {
        records.extend(checksums::measure(task, listen)?);
    }
    if task.wants(&Part::COUNTED) {
        records.extend(flushes::measure(task, listen)?);
    }
    if task.wants(&[Part::Fig3]) {
        records.extend(reuse::measure(task, listen)?);
    }
    if task.wants(&[Part::FrontEnds]) {
        records.extend(front_ends::measure(task, listen)?);
    }
    if task.wants(&[Part::Memories]) {
        records.extend(memories::measure(task, listen)?);
    }
    if let Some(plan) = &task.table4 {
        let crashed = plan.run(listen)?;
        records.extend(crashed.records);
        failures = crashed.failures;
        if plan.plant.is_some() {
            planted.clone_from(&plan.schemes);
        }
    }
    if !task.counted_on.is_empty() {
        listen(Progress::Note("claims are about all workloads: none is judged by some"));
    } else {
        let judged = judge::judge(task, &records);
        let goals = ours::judge(task, &records);
        records.extend(judged);
        records.extend(goals);
    }
    Ok(Outcome { records, failures, planted })
}

/// Those of the named schemes that exist; a note says which do not.
fn available(names: &[&str], listen: &mut Listener<'_>) -> Vec<Scheme> {
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for name in names {
        match name.parse::<Scheme>() {
            Ok(scheme) => found.push(scheme),
            Err(_) => missing.push(*name),
        }
    }
    if !missing.is_empty() {
        listen(Progress::Note(&format!("left out, not built yet: {}", missing.join(", "))));
    }
    found
}

fn workload(name: &str) -> &'static Workload {
    Workload::named(name).expect("a workload of the table")
}

#[cfg(test)]
mod tests;
