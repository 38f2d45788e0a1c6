//! The HWL/FWB paper's figures again ("Steal but no force", HPCA'18): what each claims, beside what
//! the timed machine says here.
//!
//! | part | what is measured |
//! |---|---|
//! | figure 6 | throughput of the micro-benchmarks under every scheme, by threads |
//! | figure 7 | instructions executed and IPC |
//! | figure 8 | dynamic energy of the memory |
//! | figure 9 | writes to memory |
//! | figure 10 | what stands for the WHISPER set |
//! | figure 11 | sizes of the log buffer; scans against the size of the log |
//! | table I | what the mechanism costs in bits |
//!
//! Everything is divided by the same number at the quick scale: data, last level, log and the
//! period of scans, so that their ratios are the paper's. Up to four threads have a core each, eight
//! share four. A line is durable when the NVRAM has it, not before: the paper's processor is
//! volatile, its queues included. Runs are independent and use all processors of the host; what
//! they say depends on the seed alone.

mod judge;
mod views;

use std::error::Error;
use std::path::Path;
use std::sync::LazyLock;

use outlast_crash::machine::{Campaign, work_of};
use outlast_schemes::{MachineScheme, Options, plants};
use outlast_sim::Cause;
use outlast_sim::timed::MachineConfig;

use super::claim::{self, Claim};
use super::paper::{Card, Outcome, Paper, Request, Run};
use crate::native::Size;
use crate::parallel::in_parallel;
use crate::progress::{Listener, Phase};
use crate::record::{Kind, Metric, Record};
use crate::simulated::{Measured, measure, scheme_records};
use outlast_workloads::Workload;
use outlast_workloads::machine::{Plan, Recorded};

/// "Steal but no force": hardware undo+redo logging, and forced write-back.
pub struct Fwb;

/// How it is called.
static CARD: Card = Card {
    name: "fwb",
    id: HWL,
    title: "HWL and FWB",
    about: "hardware undo+redo logging and forced write-back, on the timed machine",
    figures: || Part::ALL.iter().map(|part| (part.name(), part.claims_name())).collect(),
    claims: &CLAIMS,
    rows: || claim::names(judge::ROWS),
    views: views::ALL,
};

/// The paper's claims.
static CLAIMS: LazyLock<Vec<Claim>> = LazyLock::new(|| claim::parse(include_str!("claims.csv")));

impl Paper for Fwb {
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

    fn stages(&self) -> Vec<Phase> {
        let plans = self.plans().len() as f64;
        let runs = plans * (SCHEMES.len() + 1) as f64 * self.transactions as f64 * 2.0;
        let mut stages = Vec::new();
        if plans > 0.0 {
            stages.push((PROGRAMS_STAGE, runs / TRANSACTIONS_S));
        }
        if self.wants(&[Part::Fig11]) {
            let points = (POINTS * SEEDS * self.transactions * 2) as f64;
            stages.push((SENSITIVITIES_STAGE, points / TRANSACTIONS_S));
        }
        stages
    }
}

/// The stages of [`run`] in progress events.
const PROGRAMS_STAGE: &str = "programs under schemes";
const SENSITIVITIES_STAGE: &str = "sensitivities";
/// Transactions that two processors simulate in a second, about: a report's 450,000 took 10 s.
const TRANSACTIONS_S: f64 = 45_000.0;
/// Points of the sensitivities.
const POINTS: u64 = 27;

/// The name under which the paper's claims are filed.
pub const HWL: &str = "hwl";

/// The paper's micro-benchmarks (Table III), integers then strings.
const MICRO: [&str; 10] = [
    "hash-toggle",
    "rbtree-toggle",
    "sps",
    "btree-toggle",
    "ssca2",
    "hash-string",
    "rbtree-string",
    "sps-string",
    "btree-string",
    "ssca2-string",
];
/// The programs in place of the WHISPER set.
const WHISPER: [&str; 6] = ["ctree", "hashmap", "echo", "vacation", "ycsb-a", "tpcc"];

/// The schemes that the figures compare: the paper's, and what they are read against.
const SCHEMES: [&str; 15] = [
    "non-pers",
    "unsafe-undo",
    "unsafe-redo",
    "undo-clwb",
    "redo-clwb",
    "undo-redo-clwb",
    "undo-clwb:ring",
    "redo-clwb:ring",
    "hw-ulog",
    "hw-rlog",
    "hwl",
    "fwb",
    "fwb:buffered",
    "hwl:literal",
    "fwb:literal",
];

/// The workload of a table's row.
fn workload(name: &str) -> &'static Workload {
    Workload::named(name).expect("the tables above name workloads")
}

/// Slots of the hardware log: 4 MB, as the paper has it.
const LOG_SLOTS: u64 = 65_536;
/// Cycles from one scan to the next for such a log (paper, section VI).
const SCAN_PERIOD: u64 = 3_000_000;
/// Records of the log buffer in the controller (paper, section IV-C).
const LOG_BUFFER: usize = 15;

/// The hardware log as it is varied.
#[derive(Clone, Copy, Debug)]
struct Log {
    slots: u64,
    buffer: u64,
    scan_period: u64,
    forces: bool,
    /// Whether a record holds words of one line alone, as the paper's sizes suggest.
    one_line: bool,
}

impl Log {
    fn options(self) -> Options {
        Options::default()
            .with("one_line", self.one_line.into())
            .with("log_slots", self.slots)
            .with("log_buffer", self.buffer)
            .with("scan_period", self.scan_period)
            .with("forces", self.forces.into())
    }
}

/// A figure or a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Part {
    /// Throughput.
    Fig6,
    /// Instructions and IPC.
    Fig7,
    /// Energy of the memory.
    Fig8,
    /// Writes to memory.
    Fig9,
    /// WHISPER.
    Fig10,
    /// The log buffer and the scans.
    Fig11,
    /// Hardware.
    Table1,
}

impl Part {
    /// All, in the paper's order.
    pub const ALL: [Self; 7] =
        [Self::Fig6, Self::Fig7, Self::Fig8, Self::Fig9, Self::Fig10, Self::Fig11, Self::Table1];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fig6 => "6",
            Self::Fig7 => "7",
            Self::Fig8 => "8",
            Self::Fig9 => "9",
            Self::Fig10 => "10",
            Self::Fig11 => "11",
            Self::Table1 => "table1",
        }
    }

    /// The name in the table of claims.
    pub fn claims_name(self) -> String {
        match self {
            Self::Table1 => "table1".to_owned(),
            part => format!("fig{}", part.name()),
        }
    }
}

/// The parts to measure, and their sizes.
#[derive(Clone, Debug)]
pub struct Task {
    /// Which parts.
    pub parts: Vec<Part>,
    /// By what sizes are divided: 1 for the paper's.
    pub divisor: u64,
    /// Transactions that count of a program whose transactions are small; as many before them.
    pub transactions: u64,
    /// Threads of programs with integers, of those with strings, and of the WHISPER set.
    pub threads: [Vec<u16>; 3],
    /// The seed of everything drawn.
    pub seed: u64,
}

impl Task {
    /// The parts at their usual amount.
    pub fn new(parts: &[Part], size: Size, seed: u64) -> Self {
        let (divisor, transactions, threads) = match size {
            Size::Quick => (16, 6_000, [vec![1, 2, 4, 8], vec![1, 8], vec![8]]),
            Size::Full => {
                let all = vec![1, 2, 4, 8];
                (1, 150_000, [all.clone(), all.clone(), all])
            }
        };
        Self { parts: parts.to_vec(), divisor, transactions, threads, seed }
    }

    /// The parts of a report: throughput with one thread and with eight, and table I.
    pub fn for_report(size: Size, seed: u64) -> Self {
        match size {
            Size::Full => Self::new(&Part::ALL, size, seed),
            Size::Quick => Self {
                threads: [vec![1, 8], vec![], vec![]],
                transactions: 1_500,
                ..Self::new(&[Part::Fig6, Part::Table1], size, seed)
            },
        }
    }

    fn wants(&self, parts: &[Part]) -> bool {
        parts.iter().any(|part| self.parts.contains(part))
    }

    /// Programs that run, each with a number of threads.
    fn plans(&self) -> Vec<(&'static str, u16)> {
        let mut plans = Vec::new();
        if self.wants(&[Part::Fig6, Part::Fig7, Part::Fig8, Part::Fig9]) {
            for name in MICRO {
                let strings = name.ends_with("-string");
                plans.extend(self.threads[usize::from(strings)].iter().map(|n| (name, *n)));
            }
        }
        if self.wants(&[Part::Fig10]) {
            for name in WHISPER {
                plans.extend(self.threads[2].iter().map(|n| (name, *n)));
            }
        }
        plans
    }

    /// The paper's machine, with a last level divided as everything is.
    fn machine(&self) -> Result<MachineConfig, Box<dyn std::error::Error>> {
        let mut machine = MachineConfig::named("hwl")?;
        if self.divisor > 1 {
            machine.set_option("llc.size", &format!("{} KiB", 8192 / self.divisor))?;
        }
        Ok(machine)
    }

    fn plan(&self, name: &str, threads: u16) -> Plan {
        // Programs with large transactions run fewer of them.
        let workload = workload(name);
        let count = match name {
            "vacation" | "tpcc" => self.transactions / 6,
            "echo" | "sps-string" => self.transactions / 2,
            _ => self.transactions,
        };
        Plan {
            workload,
            footprint: workload.footprint() / self.divisor,
            threads,
            warm_up: count,
            transactions: count,
            shared: false,
            switch_every: 0,
            abort_every: 0,
            batch: 0,
            seed: self.seed,
        }
    }

    fn log(&self, work: &Recorded) -> Log {
        // A log that is scaled down still has to hold the largest transactions.
        let largest = work_of(work).largest_transaction() + 1;
        let slots = LOG_SLOTS / self.divisor;
        Log {
            slots: slots.max(4 * largest * u64::from(work.lanes()).min(4)),
            buffer: LOG_BUFFER as u64,
            scan_period: SCAN_PERIOD / self.divisor,
            forces: true,
            one_line: false,
        }
    }
}

/// A run of one program under one scheme.
#[derive(Clone, Debug)]
struct Row {
    bench: &'static str,
    threads: u16,
    measured: Measured,
    energy: Option<f64>,
}

/// One point of a sensitivity, over runs of several seeds: one alone differs from another by some
/// percent, which is more than what some of these change.
#[derive(Clone, Debug)]
struct Point {
    /// The parameter that is varied.
    what: &'static str,
    value: f64,
    /// Geometric mean, in transactions per second.
    throughput: f64,
    /// Log records a cycle, in the run that wrote most.
    log_rate: f64,
}

/// Log records that a run wrote in a cycle.
fn log_rate(measured: &Measured) -> f64 {
    let stats = &measured.stats;
    stats.writes.of(Cause::Logged) as f64 / stats.cycles as f64
}

/// Seeds of a point.
const SEEDS: u64 = 4;

/// Measurements, beside their records.
#[derive(Clone, Debug, Default)]
struct Findings {
    rows: Vec<Row>,
    /// `fwb` with records of one line each.
    one_line: Vec<Row>,
    points: Vec<Point>,
    /// By what the log was divided.
    divisor: u64,
    /// Torn and lost images where only the size of the log buffer keeps order, and how many.
    by_latency: Option<(u64, u64)>,
}

/// Measures the parts and judges the claims about them.
///
/// # Errors
/// When a run cannot be made or comes to a stop.
pub fn run(
    task: &Task,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let machine = task.machine()?;
    let mut findings = Findings { divisor: task.divisor, ..Findings::default() };
    let mut records = Vec::new();
    let plans = task.plans();
    let measured = in_parallel(&plans, usize::MAX, PROGRAMS_STAGE, listen, |(name, threads)| {
        let work = task.plan(name, *threads).record().map_err(|error| error.to_string())?;
        let log = task.log(&work);
        let options = log.options();
        let mut rows = Vec::new();
        let mut records = Vec::new();
        let row = |measured: Measured| {
            let energy = crate::simulated::memory_energy(&machine, &measured.stats);
            Row { bench: name, threads: *threads, measured, energy }
        };
        for scheme in
            SCHEMES.map(|name| name.parse::<MachineScheme>().expect("a scheme of the table"))
        {
            let measured = measure(&machine, scheme, &work, &options)
                .map_err(|error| format!("{name} under {scheme}: {error}"))?;
            records.extend(scheme_records(&machine, &work, &measured));
            rows.push(row(measured));
        }
        let options = Log { one_line: true, ..log }.options();
        let fwb = "fwb".parse::<MachineScheme>().expect("a scheme of the table");
        let one_line = measure(&machine, fwb, &work, &options)
            .map_err(|error| format!("{name} under {fwb}: {error}"))?;
        records.extend(views::log_lines(&rows, &one_line, name));
        Ok::<_, String>((rows, row(one_line), records))
    })?;
    for (rows, one_line, more) in measured {
        findings.rows.extend(rows);
        findings.one_line.push(one_line);
        records.extend(more);
    }
    if task.wants(&[Part::Fig11]) {
        sensitivities(task, &machine, &mut findings, &mut records, listen)?;
    }
    if task.wants(&[Part::Table1]) {
        records.extend(views::hardware());
    }
    for record in &mut records {
        record.paper = Some(HWL.to_owned());
    }
    records.extend(views::relative(&findings));
    records.extend(judge::judge(task, &findings));
    Ok(records)
}

/// Figure 11: sizes of the log buffer on hash, and scans against the size of the log.
fn sensitivities(
    task: &Task,
    machine: &MachineConfig,
    findings: &mut Findings,
    records: &mut Vec<Record>,
    listen: &mut Listener<'_>,
) -> Result<(), Box<dyn std::error::Error>> {
    let fwb: MachineScheme = "fwb".parse()?;
    let threads = *task.threads[0].last().unwrap_or(&8);
    let seeds = (task.seed..task.seed + SEEDS).map(|seed| Task { seed, ..task.clone() });
    let works: Vec<Recorded> =
        seeds.map(|of| of.plan("hash-toggle", threads).record()).collect::<Result<_, _>>()?;
    let largest = works.iter().map(|work| task.log(work)).max_by_key(|of| of.slots);
    let usual = largest.expect("there are seeds");
    let mut fast = machine.clone();
    fast.set_option("memory.tWR", "0 ns")?;
    let mut jobs: Vec<(&'static str, f64, Log, &MachineConfig)> = Vec::new();
    for entries in [1, 2, 4, 8, 15, 32, 64, 128, 256] {
        let options = Log { buffer: entries, ..usual };
        jobs.push((views::BUFFER, entries as f64, options, machine));
        if entries >= 15 {
            jobs.push((views::BUFFER_FAST, entries as f64, options, &fast));
        }
    }
    for (numerator, denominator) in [(1, 4), (1, 2), (1, 1), (2, 1), (4, 1)] {
        let period = usual.scan_period * numerator / denominator;
        let options = Log { scan_period: period, ..usual };
        jobs.push((views::PERIOD, period as f64, options, machine));
        let slots = usual.slots * numerator / denominator;
        let options =
            Log { slots, scan_period: usual.scan_period * numerator / denominator, ..usual };
        jobs.push((views::LOG, slots as f64, options, machine));
    }
    // Without scans nothing lets the head move: a log that is never full.
    let endless = Log { slots: 1 << 22, forces: false, ..usual };
    jobs.push((views::NO_SCAN, 0.0, endless, machine));
    let mut free = machine.clone();
    free.set_option("caches.scan_tags", "0")?;
    jobs.push((views::FREE_TAGS, 0.0, usual, &free));
    jobs.push((views::NO_EARLY, 0.0, Log { slots: 1 << 22, ..usual }, machine));
    let points = in_parallel(&jobs, usize::MAX, SENSITIVITIES_STAGE, listen, |job| {
        let (what, value, options, machine) = job;
        let (mut logs, mut log_rate_max) = (0.0, 0.0);
        for work in &works {
            let measured = measure(machine, fwb, work, &options.options())
                .map_err(|error| format!("{what} {value}: {error}"))?;
            logs += measured.throughput().ln();
            log_rate_max = log_rate(&measured).max(log_rate_max);
        }
        let throughput = (logs / works.len() as f64).exp();
        Ok::<_, String>(Point { what, value: *value, throughput, log_rate: log_rate_max })
    })?;
    for point in &points {
        let metric = Metric { name: point.what, unit: "tx/s" };
        let of = works[0].plan.describe();
        let config = format!("{} ({}), {of}, {SEEDS} seeds", machine.name, machine.core.kind);
        records.push(
            Record::new(Kind::Sim, "hash-toggle", "fwb", metric, point.throughput)
                .threads(threads.into())
                .class(&format!("{}", point.value))
                .config(&config)
                .guarantee("durable"),
        );
    }
    findings.points = points;
    findings.by_latency = Some(order_by_latency(task.seed)?);
    Ok(())
}

/// Whether a log buffer of 15 entries keeps records before their data by its size alone: images
/// that are not as they should be, and all images.
fn order_by_latency(seed: u64) -> Result<(u64, u64), Box<dyn std::error::Error>> {
    let plant = plants().find(|plant| plant.name == "H1").expect("a plant of the table");
    let (mut guilty, mut images) = (0, 0);
    for seed in seed..seed + 3 {
        let mut campaign = Campaign { second_crash: false, ..Campaign::showing(plant, seed) };
        campaign.options.put("log_buffer", LOG_BUFFER as u64);
        let report = campaign.run()?;
        guilty += report.torn + report.lost;
        images += report.images;
    }
    Ok((guilty, images))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Verdict;

    fn tiny(parts: &[Part]) -> Task {
        Task {
            divisor: 256,
            transactions: 100,
            threads: [vec![1, 2], vec![2], vec![2]],
            ..Task::new(parts, Size::Quick, 1)
        }
    }

    #[test]
    fn a_tiny_reproduction_judges_every_claim_and_is_the_same_again() {
        let run = |parts: &[Part]| run(&tiny(parts), &mut |_| ()).unwrap();
        let records = run(&Part::ALL);
        let claims: Vec<_> = records.iter().filter(|r| r.kind == Kind::Claim).collect();
        assert_eq!(claims.len(), CLAIMS.len());
        for claim in &claims {
            assert!(claim.verdict.is_some(), "{}", claim.metric);
            let silent = claim.verdict == Some(Verdict::NotTestable) && claim.reason.is_none();
            assert!(!silent, "{}", claim.metric);
        }
        // Both readings of what a record holds stand beside the claim.
        let speed = claims.iter().find(|claim| claim.metric == "hwl.fwb.throughput.1t").unwrap();
        let reason = speed.reason.as_deref().unwrap();
        assert!(reason.contains("with words of one line alone"), "{reason}");
        let lines = |class: &str| -> f64 {
            let of_class =
                |r: &&Record| r.is(views::LOG_LINES) && r.class.as_deref() == Some(class);
            let scattered = |r: &&Record| r.workload == "rbtree-toggle";
            let found = records.iter().filter(of_class).filter(scattered);
            found.filter_map(|record| record.value).sum()
        };
        let (any, one) = (lines("any lines"), lines("one line"));
        assert!(any > 0.0 && one > 1.2 * any, "{any} {one}");
        let again = run(&[Part::Fig10]);
        let mut measured = again.iter().filter(|record| record.kind != Kind::Claim);
        assert!(measured.clone().count() > 20 && measured.all(|record| records.contains(record)));
    }

    #[test]
    fn every_part_announces_its_time() {
        let sum = |parts: &[Part]| {
            Task::new(parts, Size::Quick, 1).stages().iter().map(|stage| stage.1).sum::<f64>()
        };
        assert!(sum(&Part::ALL) <= 360.0, "{}", sum(&Part::ALL));
        assert!(sum(&[Part::Fig11]) > 0.0 && sum(&[Part::Table1]) == 0.0);
    }

    #[test]
    fn a_figure_alone_judges_its_own_claims() {
        let records = run(&tiny(&[Part::Table1]), &mut |_| ()).unwrap();
        assert!(records.iter().all(|record| record.is(views::HARDWARE)), "it claims no result");
        assert_eq!(records.len(), 5);
        let request = Request { figures: vec!["12".to_owned()], ..Request::new(Size::Quick, 1) };
        let refused = request.parts("fwb", &Part::ALL, Part::name).unwrap_err();
        assert!(refused.contains("there are 6, 7"));
    }
}
