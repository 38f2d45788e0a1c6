//! Archapt's Table IV again: nine workloads, crashed a hundred times under each replacement policy.
//!
//! The paper counts objects of physically committed transactions that a crash finds stale, and
//! how many of them its checksums detect and cannot correct. Here each run goes through emulated
//! caches of the paper's last level with data several times as large, crashes at moments drawn
//! from the seed, recovers with the production code, and is judged key by key and byte by byte.
//! LinkBench runs as published too, and an adversary joins the paper's four policies.
//!
//! | metric | sum over the crashes of |
//! |---|---|
//! | `stale_objects` | objects of 256 bytes whose durable bytes are older than what was acknowledged |
//! | `repaired_by_log` | those that recovery made right from live records: they awaited their flush |
//! | `inconsistent_objects` | the others, whose log was gone: the paper's I-obj |
//! | `detected`, `corrected`, `uncorrectable` | those that recovery itself found wrong; without checksums, only by refusing the pool |
//! | `silently_wrong` | objects that are wrong after a recovery without complaint |
//! | `lost`, `torn`, `refused` | crashes that lost an acknowledgement, left a part, gave no pool |
//!
//! The programs run on the runtime itself. What the paper ran on SQLite is told apart by its row:
//! TPC-C comes twice, the second time from another seed.

mod page;
mod published;

use std::fmt::Write as _;

use outlast::Scheme;
use outlast::lab::Plant;
use outlast_crash::runtime::campaign::{
    Caches, Campaign, CampaignError, CampaignReport, Counts, Failure,
};
use outlast_sim::{Policy, instead_of};
use outlast_workloads::Workload;

pub use page::html;
pub use published::{Cell, PUBLISHED, Published};

use super::ARCHAPT;
use crate::crash::campaigns;
use crate::format::{bytes, grouped};
use crate::native::Size;
use crate::progress::{Listener, Progress};
use crate::record::{Kind, Metric, Record, Verdict};
use crate::table::TextTable;

/// The class of a row that the paper does not have.
const UNPUBLISHED: &str = "unpublished";

/// The workload of claims about the whole table.
pub const TABLE: &str = "Table IV";

/// Every metric of a cell, and what columns call it.
pub const COLUMNS: [(Metric, &str); 10] = [
    (Metric::STALE_OBJECTS, "stale"),
    (Metric::REPAIRED_BY_LOG, "by log"),
    (Metric::INCONSISTENT_OBJECTS, "I-obj"),
    (Metric::DETECTED, "detected"),
    (Metric::CORRECTED, "corrected"),
    (Metric::UNCORRECTABLE, "uncorr."),
    (Metric::SILENTLY_WRONG, "silent"),
    (Metric::LOST, "lost"),
    (Metric::TORN, "torn"),
    (Metric::REFUSED, "refused"),
];

/// One of our rows.
#[derive(Clone, Copy, Debug)]
struct Row {
    workload: &'static str,
    published: Option<usize>,
    /// Keys that the data is made of, and transactions, in the quick scale.
    keys: u64,
    transactions: u32,
    /// Added to the seed, where a workload comes twice.
    seed: u64,
}

const fn row(workload: &'static str, published: usize, keys: u64, transactions: u32) -> Row {
    Row { workload, published: Some(published), keys, transactions, seed: 0 }
}

/// Scans read some fifty records each, transactions of TPC-C some dozens of rows: fewer of them.
const ROWS: [Row; 10] = [
    row("tpcc", 0, 20_000, 3_000),
    row("ycsb-a", 1, 4_000, 20_000),
    row("ycsb-b", 2, 4_000, 20_000),
    row("ycsb-d", 3, 4_000, 20_000),
    row("ycsb-e", 4, 4_000, 2_000),
    row("ycsb-f", 5, 4_000, 20_000),
    Row { seed: 1, ..row("tpcc", 6, 20_000, 3_000) },
    row("linkbench-archapt", 7, 20_000, 20_000),
    row("oltp-ycsb", 8, 4_000, 10_000),
    Row { published: None, ..row("linkbench", 0, 20_000, 20_000) },
];

/// The crash tests to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Full: the paper's last level. Quick: caches, data, log and length a sixteenth.
    pub size: Size,
    /// The seed of everything drawn.
    pub seed: u64,
    /// The schemes on trial.
    pub schemes: Vec<Scheme>,
    /// Only these workloads; all if there are none.
    pub workloads: Vec<&'static Workload>,
    /// Crashes of each workload under each policy and scheme.
    pub crashes: usize,
    /// A planted bug.
    pub plant: Option<Plant>,
    /// Threads that judge.
    pub threads: usize,
}

/// The results of the crash tests.
#[derive(Clone, Debug, Default)]
pub struct Crashed {
    /// The cells, and one claim for each scheme.
    pub records: Vec<Record>,
    /// The first failure of each row and scheme, with the command that replays it.
    pub failures: Vec<String>,
}

impl Plan {
    /// Archapt's schemes, sound and as published, a hundred crashes.
    pub fn new(size: Size, seed: u64) -> Self {
        Self {
            size,
            seed,
            schemes: vec![
                Scheme::UndoArchapt,
                Scheme::RedoArchapt,
                Scheme::UndoArchaptLiteral,
                Scheme::RedoArchaptLiteral,
            ],
            workloads: Vec::new(),
            crashes: 100,
            plant: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Runs it, row after row.
    ///
    /// # Errors
    /// A test that cannot be run; a loss is a failure of the outcome.
    pub fn run(&self, listen: &mut Listener<'_>) -> Result<Crashed, CampaignError> {
        let jobs: Vec<(&Row, Campaign)> = (ROWS.iter())
            .filter(|row| self.wants(row))
            .flat_map(|row| self.schemes.iter().map(move |scheme| (row, *scheme)))
            .map(|(row, scheme)| (row, self.campaign(row, scheme)))
            .collect();
        let total = jobs.iter().map(|job| job.1.planned()).sum();
        let (mut outcome, mut before) = (Crashed::default(), 0);
        let mut reports = Vec::new();
        for (row, campaign) in jobs {
            let step = |done| Progress::Step { stage: TABLE, done: before + done, total };
            listen(step(0));
            let report = campaigns::run(&campaign, &mut |done| listen(step(done)))?;
            before += campaign.planned();
            outcome.records.extend(cells(row, &report));
            if report.is_guilty() {
                let reason = campaigns::reason(&report).unwrap_or_default();
                outcome.failures.push(format!("{}, {}: {reason}", row.workload, campaign.scheme));
            }
            reports.push(report);
        }
        if self.plant.is_none() {
            outcome.records.extend(self.schemes.iter().map(|scheme| claim(*scheme, &reports)));
        }
        Ok(outcome)
    }

    fn wants(&self, row: &Row) -> bool {
        self.workloads.is_empty() || self.workloads.iter().any(|w| w.name == row.workload)
    }

    fn campaign(&self, row: &Row, scheme: Scheme) -> Campaign {
        let workload = Workload::named(row.workload).expect("a workload of the table");
        let (caches, more) = match self.size {
            Size::Quick => (Caches::Server16th, 1),
            Size::Full => (Caches::Server, 16),
        };
        let transactions = row.transactions * more;
        Campaign {
            caches: vec![caches],
            points: self.crashes,
            lanes: 1,
            lane_bytes: u64::from(more) << 20,
            keys: u64::from(more) * row.keys,
            transactions,
            warm_up: Some(transactions / 2),
            seed: self.seed + row.seed,
            plant: self.plant,
            second_crash: false,
            threads: self.threads,
            ..Campaign::new(workload, scheme)
        }
    }
}

/// A workload of the table, by its name.
///
/// # Errors
/// The names there are.
pub fn workload(name: &str) -> Result<&'static Workload, String> {
    let row = ROWS.iter().find(|row| row.workload == name);
    row.and_then(|row| Workload::named(row.workload)).ok_or_else(|| {
        let mut known: Vec<&str> = ROWS.iter().map(|row| row.workload).collect();
        known.sort_unstable();
        known.dedup();
        format!("no workload of Table IV is called '{name}'; {}", instead_of(name, known))
    })
}

impl Row {
    /// By what its records are joined.
    fn key(&self) -> &'static str {
        self.published.map_or(UNPUBLISHED, |row| PUBLISHED[row].key)
    }

    /// The printed value of a metric.
    fn published(&self, metric: Metric, policy: Policy) -> Option<u32> {
        let column = match policy {
            Policy::Lru => 0,
            Policy::Plru => 1,
            Policy::Bip => 2,
            Policy::Random => 3,
            Policy::Adversarial => return None,
        };
        let cell = PUBLISHED[self.published?].cells[column];
        match metric {
            Metric::INCONSISTENT_OBJECTS => Some(cell.inconsistent),
            Metric::DETECTED => Some(cell.detected),
            Metric::UNCORRECTABLE => Some(cell.uncorrected),
            _ => None,
        }
    }
}

fn value(counts: &Counts, metric: Metric) -> u64 {
    let objects = counts.objects;
    match metric {
        Metric::STALE_OBJECTS => objects.stale,
        Metric::REPAIRED_BY_LOG => objects.repaired_by_log,
        Metric::INCONSISTENT_OBJECTS => objects.stale - objects.repaired_by_log,
        Metric::DETECTED => objects.detected,
        Metric::CORRECTED => objects.corrected,
        Metric::UNCORRECTABLE => objects.uncorrectable,
        Metric::SILENTLY_WRONG => objects.silently_wrong,
        Metric::LOST => counts.lost,
        Metric::TORN => counts.torn + counts.not_closed + counts.garbage,
        Metric::REFUSED => counts.refused + counts.unsound,
        // Recovery ran on every crash's image, and every key was judged.
        _ => counts.crash_points,
    }
}

/// The records of a row under one scheme, policy by policy.
fn cells(row: &Row, report: &CampaignReport) -> Vec<Record> {
    let Campaign { workload, scheme, domain, plant, .. } = &report.campaign;
    let (config, reason) = (config(report), campaigns::reason(report));
    let failed_under = report.failure.as_ref().and_then(Failure::crash).map(|crash| crash.0);
    let mut records = Vec::new();
    for (nth, (policy, counts)) in report.policies.iter().enumerate() {
        let mut counts = *counts;
        if nth == 0 {
            counts.add(&report.uncrashed);
        }
        let is_guilty = failed_under.map_or(nth == 0, |under| under == *policy);
        let metrics = [Metric::CRASH_POINTS, Metric::IMAGES_VERIFIED].into_iter();
        for metric in metrics.chain(COLUMNS.map(|column| column.0)) {
            let value = value(&counts, metric);
            let record =
                Record::new(Kind::Crash, workload.name, scheme.name(), metric, value as f64);
            let mut record = record
                .policy(&policy.to_string())
                .domain(domain.name())
                .guarantee(&scheme.guarantee().to_string())
                .config(&config);
            record.paper = Some(ARCHAPT.to_owned());
            record.class = Some(row.key().to_owned());
            record.paper_value = row.published(metric, *policy).map(f64::from);
            record.plant = plant.map(|plant| plant.to_string());
            record.reason = reason.clone().filter(|_| is_guilty && metric.is_harm() && value > 0);
            records.push(record);
        }
    }
    records
}

fn config(report: &CampaignReport) -> String {
    let Campaign { workload, caches, lane_bytes, transactions, warm_up, .. } = &report.campaign;
    let last_level = caches.first().map_or(0, |caches| caches.last_level_bytes());
    format!(
        "{}: {} in use; caches with a last level of {}; {} of log; {transactions} transactions, \
         {} before the first crash; seed {}",
        workload.describe(&report.campaign.scale()),
        bytes(report.data_bytes),
        bytes(last_level),
        bytes(*lane_bytes),
        warm_up.unwrap_or_default(),
        report.campaign.seed,
    )
}

/// The paper's claim, held against all rows and policies of a scheme. What its checksums do not put
/// right shows as loss, tearing or a refusal as well as in objects that stay wrong: all are counted.
fn claim(scheme: Scheme, reports: &[CampaignReport]) -> Record {
    let mine = || reports.iter().filter(|report| report.campaign.scheme == scheme);
    let harm = Metric::HARM.map(|metric| {
        let counted = mine().map(|report| value(&report.total(), metric)).sum::<u64>();
        (metric.name.replace('_', " "), counted)
    });
    let all: u64 = harm.iter().map(|(_, counted)| counted).sum();
    let parts = harm.map(|(name, counted)| format!("{name}: {counted}")).join(", ");
    let claim = "after a crash nothing stays wrong, is lost, torn or refused (Table IV)";
    let record = Record::claim(ARCHAPT, claim, TABLE, scheme.name(), Metric::SILENTLY_WRONG);
    record.judged(0.0, all as f64, all == 0, &format!("{parts}; see Table IV below"))
}

/// Whether a record belongs to this table.
pub fn is_ours(record: &Record) -> bool {
    record.kind == Kind::Crash && record.paper.as_deref() == Some(ARCHAPT)
}

/// One workload under one scheme and policy.
pub struct Line<'a> {
    cell: Vec<&'a Record>,
}

impl Line<'_> {
    /// The row, scheme and policy.
    pub fn heads(&self) -> [String; 4] {
        let first = self.cell[0];
        let row = PUBLISHED.iter().find(|row| first.class.as_deref() == Some(row.key));
        let label = match row {
            Some(row) => format!("{} {}", row.system, row.workload),
            None => "not in the paper".to_owned(),
        };
        let policy = first.policy.clone().unwrap_or_default();
        [label, first.workload.clone(), first.scheme.clone(), policy]
    }

    /// The settings.
    pub fn config(&self) -> &str {
        self.cell[0].config.as_deref().unwrap_or_default()
    }

    /// The count of a metric.
    pub fn value(&self, metric: Metric) -> Option<u64> {
        let record = self.cell.iter().find(|record| record.is(metric));
        record.and_then(|record| record.value).map(|value| value as u64)
    }

    /// I-obj, DI-obj and CC-obj of the paper.
    pub fn published(&self) -> Option<[u64; 3]> {
        let metrics = [Metric::INCONSISTENT_OBJECTS, Metric::DETECTED, Metric::UNCORRECTABLE];
        let value = |metric: Metric| {
            let record = self.cell.iter().find(|record| record.is(metric))?;
            record.paper_value.map(|value| value as u64)
        };
        let [i, di, cc] = metrics.map(value);
        Some([i?, di?, cc?])
    }
}

/// The table's lines, in the order of the records.
pub fn lines(records: &[Record]) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for record in records.iter().filter(|record| is_ours(record)) {
        let key =
            |r: &Record| (r.class.clone(), r.scheme.clone(), r.policy.clone(), r.plant.clone());
        match lines.last_mut() {
            Some(line) if key(line.cell[0]) == key(record) => line.cell.push(record),
            _ => lines.push(Line { cell: vec![record] }),
        }
    }
    lines
}

/// The table for a terminal: ours, and the paper's I-obj, DI-obj and CC-obj beside it.
pub fn text(records: &[Record]) -> String {
    let mut text = String::new();
    let lines = lines(records);
    let mut schemes: Vec<String> = Vec::new();
    for line in &lines {
        let [_, _, scheme, _] = line.heads();
        if !schemes.contains(&scheme) {
            schemes.push(scheme);
        }
    }
    for scheme in schemes {
        let _ = writeln!(text, "{scheme}");
        let names = ["crashes"].into_iter().chain(COLUMNS.map(|column| column.1));
        let head = ["workload, the paper's row", "policy"].into_iter().chain(names);
        let mut table = TextTable::new(head.chain(["paper: I", "DI", "CC"]));
        let mut last = String::new();
        for line in lines.iter().filter(|line| line.heads()[2] == scheme) {
            let [label, workload, _, policy] = line.heads();
            let name = format!("{workload}, {label}");
            let shown = if name == last { String::new() } else { name.clone() };
            let metrics = [Metric::CRASH_POINTS].into_iter().chain(COLUMNS.map(|c| c.0));
            let dot = || "·".to_owned();
            let cell = |metric| line.value(metric).map_or_else(dot, grouped);
            let ours: Vec<String> = metrics.map(cell).collect();
            let theirs = match line.published() {
                Some(cells) => cells.map(grouped),
                None => [dot(), dot(), dot()],
            };
            table.row([shown, policy].into_iter().chain(ours).chain(theirs));
            last = name;
        }
        text += &table.render();
        text.push('\n');
    }
    let mut configs: Vec<String> = Vec::new();
    for line in &lines {
        let config = format!("  {}: {}\n", line.heads()[1], line.config());
        if !configs.contains(&config) {
            configs.push(config);
        }
    }
    text += &configs.concat();
    for record in records.iter().filter(|r| r.kind == Kind::Claim && r.workload == TABLE) {
        let sign = if record.verdict == Some(Verdict::Reached) { "✓" } else { "✗" };
        let (scheme, wrong) = (&record.scheme, record.value.unwrap_or_default());
        let claim = record.claim.as_deref().unwrap_or_default();
        let _ = writeln!(text, "  {sign} {scheme}: {claim}: {wrong} did");
    }
    text
}

#[cfg(test)]
mod tests;
