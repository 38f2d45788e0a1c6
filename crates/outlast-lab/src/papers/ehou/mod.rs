//! The EHOU paper's figures again ("Efficient hardware-assisted out-place update for persistent
//! memory"): what each claims, beside what the timed machine says here.
//!
//! | part | what is measured |
//! |---|---|
//! | figure 6 | writes and reads of memory that no program issued |
//! | figure 7 | throughput over `redu` |
//! | assumptions | what the paper leaves open, each reading on its own |
//! | ait | entries of the AIT cache |
//! | size | lines of a transaction, up to where the AIT cache overflows |
//! | latency | what a write of the memory takes |
//! | granularity | 64 bytes an entry, and 256 as the device has it |
//! | wear | durable writes of each line |
//! | energy | what residual energy has to write at a crash |
//!
//! The last seven are ours. Four copies of each work run on four cores, as the paper runs them, all
//! schemes on address indirection. Footprints, keys and transactions are not published: the table in
//! `docs/ehou.md` says which are taken.

mod assumptions;
mod judge;
mod sweeps;
mod views;

use std::error::Error;
use std::path::Path;
use std::sync::LazyLock;

use outlast_crash::machine::work_of;
use outlast_schemes::{MachineScheme, Options};
use outlast_sim::Cause;
use outlast_sim::timed::{MachineConfig, ReadCause};
use outlast_workloads::Workload;
use outlast_workloads::machine::Plan;

use super::claim::{self, Claim};
use super::paper::{Card, Outcome, Paper, Request, Run};
use crate::native::Size;
use crate::parallel::in_parallel;
use crate::progress::{Listener, Phase, Progress};
use crate::record::Record;
use crate::simulated::{Measured, measure, scheme_records};

/// Out-of-place update through the DIMM's address indirection.
pub struct Ehou;

static CARD: Card = Card {
    name: "ehou",
    id: "ehou",
    title: "EHOU",
    about: "out-of-place update in the memory controller, beside REDU and SSP, on the timed machine",
    figures: || Part::ALL.iter().map(|part| (part.name(), part.claims_name())).collect(),
    claims: &CLAIMS,
    rows: || claim::names(judge::ROWS),
    views: views::ALL,
};

/// The paper's claims.
static CLAIMS: LazyLock<Vec<Claim>> = LazyLock::new(|| claim::parse(include_str!("claims.csv")));

impl Paper for Ehou {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Run>, Box<dyn Error>> {
        request.only_figures_and_scale(self.name())?;
        let parts = request.parts(self.name(), &Part::ALL, Part::name)?;
        Ok(Box::new(Task::new(&parts, request.size, request.seed)))
    }

    fn for_report(&self, size: Size, _directory: &Path, seed: u64) -> Box<dyn Run> {
        Box::new(Task::for_report(size, seed))
    }
}

impl Run for Task {
    fn run(&self, listen: &mut Listener<'_>) -> Result<Outcome, Box<dyn Error>> {
        Ok(Outcome { records: run(self, listen)?, ..Outcome::default() })
    }

    /// The quick scale took 5 min 32 s of processor time.
    fn stages(&self) -> Vec<Phase> {
        let scale = self.transactions as f64 / 8_000.0;
        let of = |parts: &[Part], stage, seconds: f64| {
            self.wants(parts).then_some((stage, seconds * scale))
        };
        let figures = [Part::Fig6, Part::Fig7, Part::Assumptions, Part::Energy];
        let swept = [Part::Ait, Part::Size, Part::Latency, Part::Granularity];
        [
            of(&figures, WORKS_STAGE, 60.0),
            of(&[Part::Assumptions], ASSUMPTIONS_STAGE, 60.0),
            of(&swept, SWEEPS_STAGE, 40.0),
            of(&[Part::Wear], WEAR_STAGE, 10.0),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// The stages of [`run`] in progress events.
const WORKS_STAGE: &str = "works under schemes";
const ASSUMPTIONS_STAGE: &str = "assumptions";
const SWEEPS_STAGE: &str = "sweeps";
const WEAR_STAGE: &str = "wear";

/// The schemes of the figures, the bound first.
const SCHEMES: [&str; 6] = ["non-pers", "redu", "ssp", "ehou-eager", "ehou-lazy", "ehou"];

/// The paper's workloads, with the bytes of data of all four copies.
const WORKS: [(&str, u64); 9] = [
    ("array-stream", 64 * MB),
    ("array-random", 64 * MB),
    ("hash", 64 * MB),
    ("hashmap", 64 * MB),
    ("btree", 64 * MB),
    ("b-tree-zipf", 64 * MB),
    ("rbtree-zipf", 64 * MB),
    ("tatp", 64 * MB),
    ("tpcc", 320 * MB),
];
const MB: u64 = 1 << 20;
/// Copies of each, a core each.
const COPIES: u16 = 4;

/// The scheme of a table's row.
fn scheme(name: &str) -> MachineScheme {
    name.parse().expect("the tables above name schemes")
}

/// A figure, or a part of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Part {
    /// Writes and reads that no program issued.
    Fig6,
    /// Throughput.
    Fig7,
    /// Parameters that the paper leaves open.
    Assumptions,
    /// Sizes of the AIT cache.
    Ait,
    /// Sizes of transactions.
    Size,
    /// Latencies of writes.
    Latency,
    /// Bytes that an entry maps.
    Granularity,
    /// Writes of each line.
    Wear,
    /// Lines that are drained at a crash.
    Energy,
}

impl Part {
    /// All, the paper's first.
    pub const ALL: [Self; 9] = [
        Self::Fig6,
        Self::Fig7,
        Self::Assumptions,
        Self::Ait,
        Self::Size,
        Self::Latency,
        Self::Granularity,
        Self::Wear,
        Self::Energy,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fig6 => "6",
            Self::Fig7 => "7",
            Self::Assumptions => "assumptions",
            Self::Ait => "ait",
            Self::Size => "size",
            Self::Latency => "latency",
            Self::Granularity => "granularity",
            Self::Wear => "wear",
            Self::Energy => "energy",
        }
    }

    /// The name in the table of claims.
    pub fn claims_name(self) -> String {
        match self {
            Self::Fig6 | Self::Fig7 => format!("fig{}", self.name()),
            part => part.name().to_owned(),
        }
    }
}

/// The parts to measure, and their sizes.
#[derive(Clone, Debug)]
pub struct Task {
    /// Which parts.
    pub parts: Vec<Part>,
    /// By what footprints and tables are divided.
    pub divisor: u64,
    /// Transactions that count, of all copies together; a quarter more runs before.
    pub transactions: u64,
    /// The seed of everything drawn.
    pub seed: u64,
}

impl Task {
    /// The parts at their usual amount.
    pub fn new(parts: &[Part], size: Size, seed: u64) -> Self {
        let (divisor, transactions) = match size {
            Size::Quick => (4, 8_000),
            Size::Full => (1, 40_000),
        };
        Self { parts: parts.to_vec(), divisor, transactions, seed }
    }

    /// The parts of a report: the paper's own figures.
    pub fn for_report(size: Size, seed: u64) -> Self {
        match size {
            Size::Full => Self::new(&Part::ALL, size, seed),
            Size::Quick => Self {
                divisor: 16,
                transactions: 1_500,
                ..Self::new(&[Part::Fig6, Part::Fig7], size, seed)
            },
        }
    }

    fn wants(&self, parts: &[Part]) -> bool {
        parts.iter().any(|part| self.parts.contains(part))
    }

    /// The paper's machine, with a last level and a second-level TLB divided as everything is.
    fn machine(&self) -> Result<MachineConfig, Box<dyn Error>> {
        let mut machine = MachineConfig::named("ehou")?;
        if self.divisor > 1 {
            machine.set_option("llc.size", &format!("{} KiB", 8192 / self.divisor))?;
            let sets = (TLB_SETS / self.divisor).max(1);
            machine.set_option("tlb.l2_sets", &sets.to_string())?;
        }
        Ok(machine)
    }

    /// Options of every scheme: address indirection, its cache and logs divided as everything is.
    fn options(&self) -> Options {
        let records = (LOG_RECORDS / self.divisor).max(64);
        Options::default()
            .with("ait.on", 1)
            .with("ait.sets", AIT_SETS / self.divisor)
            .with("log_records", records)
            .with("fit_log", 1)
    }

    /// Entries of the AIT cache.
    fn ait_entries(&self) -> u64 {
        16 * (AIT_SETS / self.divisor)
    }

    fn plan(&self, (name, footprint): (&str, u64)) -> Plan {
        let workload = Workload::named(name).expect("the tables above name workloads");
        let count = match name {
            // Large transactions.
            "tpcc" => self.transactions / 8,
            // Each copy goes over all of its data.
            "array-stream" => self.transactions * 4,
            _ => self.transactions,
        };
        Plan {
            workload,
            footprint: footprint / self.divisor,
            threads: COPIES,
            warm_up: count / 4,
            transactions: count,
            shared: false,
            switch_every: 0,
            abort_every: 0,
            batch: 0,
            seed: self.seed,
        }
    }
}

/// Sets of the AIT cache as published.
const AIT_SETS: u64 = 8192;

/// Sets of the second-level TLB as published.
const TLB_SETS: u64 = 128;
/// Records of each lane's redo log, which the paper does not give.
const LOG_RECORDS: u64 = 1024;

/// A run of a work under a scheme.
#[derive(Clone, Debug)]
struct Row {
    work: &'static str,
    measured: Measured,
}

impl Row {
    fn scheme(&self) -> &'static str {
        self.measured.scheme.name()
    }

    fn per_tx(&self, count: u64) -> f64 {
        count as f64 / self.measured.transactions
    }

    /// Writes of memory a transaction that no program issued.
    fn extra_writes(&self) -> f64 {
        let each = self.measured.stats.writes.each();
        let own = each.filter(|(cause, _, _)| matches!(cause, Cause::Scheme(_)));
        self.per_tx(own.map(|(_, _, count)| count).sum())
    }

    /// Reads of memory a transaction that no program missed for: of all causes, or all but one.
    fn extra_reads(&self, but: &str) -> f64 {
        let each = self.measured.stats.reads.each();
        let own =
            each.filter(|(cause, name, _)| matches!(cause, ReadCause::Scheme(_)) && *name != but);
        self.per_tx(own.map(|(_, _, count)| count).sum())
    }

    /// Reads and writes of one of the scheme's causes.
    fn traffic(&self, cause: &str) -> (u64, u64) {
        let stats = &self.measured.stats;
        let reads = stats.reads.each().find(|row| row.1 == cause).map_or(0, |row| row.2);
        let writes = stats.writes.each().find(|row| row.1 == cause).map_or(0, |row| row.2);
        (reads, writes)
    }
}

/// Measurements, beside their records.
#[derive(Clone, Debug, Default)]
struct Findings {
    rows: Vec<Row>,
    /// The same under other readings, each by its name.
    assumed: Vec<(&'static str, Findings)>,
}

impl Findings {
    /// The row of a work under a scheme.
    fn row(&self, work: &str, scheme: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.work == work && row.scheme() == scheme)
    }

    /// A value of every work that ran.
    fn each(&self, of: impl Fn(&str) -> Option<f64>) -> Vec<f64> {
        WORKS.iter().filter_map(|(work, _)| of(work)).collect()
    }
}

/// Measures the parts and judges the claims about them.
///
/// # Errors
/// When a run cannot be made or comes to a stop.
pub fn run(task: &Task, listen: &mut Listener<'_>) -> Result<Vec<Record>, Box<dyn Error>> {
    let machine = task.machine()?;
    let mut findings = Findings::default();
    let mut records = Vec::new();
    let on_all = task.wants(&[Part::Fig6, Part::Fig7, Part::Assumptions]);
    if on_all || task.wants(&[Part::Energy]) {
        let works = if on_all { &WORKS[..] } else { &WORKS[2..3] };
        let run = |work: &(&'static str, u64)| under_all(task, &machine, *work);
        for (rows, more, left_out) in in_parallel(works, usize::MAX, WORKS_STAGE, listen, run)? {
            left_out.iter().for_each(|why| listen(Progress::Note(why)));
            findings.rows.extend(rows);
            records.extend(more);
        }
        records.extend(views::relative(&findings));
    }
    if task.wants(&[Part::Assumptions]) {
        let (assumed, more) = assumptions::run(task, &machine, &findings, listen)?;
        findings.assumed = assumed;
        records.extend(more);
    }
    records.extend(sweeps::run(task, &machine, listen)?);
    for record in &mut records {
        record.paper = Some(CARD.id.to_owned());
    }
    records.extend(judge::judge(task, &findings));
    Ok(records)
}

/// A work under all schemes: rows, records, and which cannot take it.
type Under = (Vec<Row>, Vec<Record>, Vec<String>);

fn under_all(
    task: &Task,
    machine: &MachineConfig,
    work: (&'static str, u64),
) -> Result<Under, String> {
    let (name, _) = work;
    let recorded = task.plan(work).record().map_err(|error| error.to_string())?;
    let (mut rows, mut records, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for of in SCHEMES.map(scheme) {
        if let Err(why) = of.prepare(&work_of(&recorded), &task.options(), None) {
            left_out.push(format!("{name}: {why}"));
            continue;
        }
        let measured = measure(machine, of, &recorded, &task.options())
            .map_err(|error| format!("{name} under {of}: {error}"))?;
        records.extend(scheme_records(machine, &recorded, &measured));
        rows.push(Row { work: name, measured });
    }
    Ok((rows, records, left_out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Kind, Verdict};

    fn tiny(parts: &[Part]) -> Task {
        Task { divisor: 256, transactions: 100, ..Task::new(parts, Size::Quick, 1) }
    }

    #[test]
    fn a_tiny_reproduction_judges_every_claim_and_is_the_same_again() {
        let run = |parts: &[Part]| run(&tiny(parts), &mut |_| ()).unwrap();
        let records = run(&Part::ALL);
        let claims: Vec<_> = records.iter().filter(|r| r.kind == Kind::Claim).collect();
        assert_eq!(claims.len(), CLAIMS.len());
        for claim in &claims {
            assert!(claim.verdict.is_some(), "{}", claim.metric);
            // Data that the TLB holds is never consolidated.
            let silent = claim.verdict == Some(Verdict::NotTestable) && claim.reason.is_none();
            assert!(!silent, "{}", claim.metric);
        }
        for view in views::ALL {
            assert!(records.iter().any(|record| view.shows(record)), "{}", view.title);
        }
        let again = run(&[Part::Energy]);
        let mut measured = again.iter().filter(|record| record.kind != Kind::Claim);
        assert!(measured.clone().count() > 20 && measured.all(|record| records.contains(record)));
    }
}
