//! Table II, as runs show it: what each scheme does with programs that are made for the question.

use std::error::Error;
use std::sync::Arc;

use outlast_schemes::{MachineScheme, Options, Prepared, Streams, Work};
use outlast_sim::Domain;
use outlast_sim::timed::{LaneOps, Machine, MachineConfig, Setup, Source};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};

use super::measured::Counts;
use crate::papers::view::Own;
use crate::record::{Document, Kind, Metric, Record};

/// The table's columns.
pub(super) const COLUMNS: [&str; 4] = ["frm", "journaling", "thynvm", "picl"];

/// The table's rows: the claims' names, and the paper's words.
pub(super) const ROWS: [(&str, &str); 8] = [
    ("async_cache_flush", "Async. cache flush"),
    ("single_commit_overlap", "Single-commit overlap"),
    ("multi_commit_overlap", "Multi-commit overlap"),
    ("undo_coalescing", "Undo coalescing"),
    ("redo_page_coalescing", "Redo page coalescing"),
    ("second_scale_epochs", "Second-scale epochs"),
    ("no_translation_layer", "No translation layer"),
    ("mem_ctrl_complexity", "Mem. ctrl. complexity"),
];

/// The value of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cell {
    NotApplicable,
    No,
    Yes,
    Low,
    Medium,
    High,
}

impl Cell {
    /// As claims have it.
    pub(super) fn number(self) -> f64 {
        match self {
            Self::NotApplicable => -1.0,
            Self::No => 0.0,
            Self::Yes | Self::Low => 1.0,
            Self::Medium => 2.0,
            Self::High => 3.0,
        }
    }

    fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    fn words(row: &str, number: f64) -> &'static str {
        let is_complexity = row == ROWS[7].0;
        match (number as i64, is_complexity) {
            (-1, _) => "n/a",
            (0, _) => "no",
            (1, false) => "yes",
            (1, true) => "low",
            (2, _) => "medium",
            _ => "high",
        }
    }
}

/// The table, and what each cell was told by.
#[derive(Clone, Debug, Default)]
pub(super) struct Features {
    cells: Vec<(&'static str, &'static str, Cell, String)>,
}

/// Observations of a scheme's runs.
struct Seen {
    /// Cycles for which cores stood at an epoch's end, with few lines dirty and with many.
    stands: (f64, f64),
    /// Cycles from an epoch's end until it had persisted, and those for which cores stood.
    unpersisted: f64,
    stood: f64,
    /// Epochs that had ended before one persisted, beyond that one, at most.
    behind: u64,
    /// Undo entries of each write of the log.
    coalesced: Option<f64>,
    /// Pages copied home as one; nothing where nothing is copied home.
    pages: Option<u64>,
    /// Epochs that ended before their time where one stores to more than any table names.
    early: u64,
    /// Lines of the program that were evicted before an epoch ended and are not at home.
    moved: bool,
    /// Whether the controller reads or copies on its own account.
    reads: bool,
}

impl Features {
    /// Runs the programs.
    ///
    /// # Errors
    /// When the machine cannot be built or comes to a stop.
    pub(super) fn observe() -> Result<Self, Box<dyn Error>> {
        let mut features = Self::default();
        for scheme in COLUMNS {
            let seen = Seen::of(scheme)?;
            for (row, _) in ROWS {
                let (cell, why) = seen.cell(row);
                features.cells.push((row, scheme, cell, why));
            }
        }
        Ok(features)
    }

    pub(super) fn records(&self) -> Vec<Record> {
        let record = |(row, scheme, cell, why): &(&str, &str, Cell, String)| {
            Record::new(Kind::Sim, row, scheme, FEATURE, cell.number()).config("picl").class(why)
        };
        self.cells.iter().map(record).collect()
    }
}

/// A cell of the table; the class says what told it.
pub(super) const FEATURE: Metric = Metric { name: "table2_feature", unit: "feature" };

/// Table II as text and as a page's table.
pub(super) const TABLE: Own = Own { text, html };

fn text(records: &[Record]) -> String {
    let cell = |row: &str, scheme: &str| {
        let is_it = |record: &&Record| {
            record.is(FEATURE) && record.workload == row && record.scheme == scheme
        };
        records.iter().find(is_it).and_then(|record| record.value)
    };
    if !records.iter().any(|record| record.is(FEATURE)) {
        return String::new();
    }
    let mut text = format!("  {:<24}", "");
    COLUMNS.iter().for_each(|scheme| text += &format!("{scheme:>12}"));
    text.push('\n');
    for (row, words) in ROWS {
        text += &format!("  {words:<24}");
        for scheme in COLUMNS {
            let found = cell(row, scheme).map_or("-", |number| Cell::words(row, number));
            text += &format!("{found:>12}");
        }
        text.push('\n');
    }
    text
}

fn html(document: &Document) -> String {
    match text(&document.records) {
        table if table.is_empty() => table,
        table => format!("<pre>{table}</pre>"),
    }
}

/// Lines of the programs, and those of few and of many that an epoch stores to.
const LINES: u64 = 1 << 15;
const FEW: u64 = 64;
const MANY: u64 = 512;
/// Instructions that compute between an epoch's stores and its end: enough for the stores to finish.
const PAUSE: u64 = 100_000;

impl Seen {
    fn of(scheme: &str) -> Result<Self, Box<dyn Error>> {
        let few = Observed::of(scheme, &rounds(FEW, 12), FEW + PAUSE)?;
        let many = Observed::of(scheme, &rounds(MANY, 12), MANY + PAUSE)?;
        // One epoch of a page each time, more pages than tables name.
        let sparse = Observed::of(scheme, &stores(0, 64, LINES / 64), 1 << 40)?;
        let evicted = Observed::of(scheme, &flushed_lines(), 1 << 40)?;
        let dense = Observed::of(scheme, &rounds(2048, 4), 2048 + PAUSE)?;
        let log = match scheme {
            "picl" => dense.counts.counter("undo_blocks"),
            _ => Some(dense.counts.writes("log") / 2),
        };
        let entries = dense.counts.counter("undo_entries");
        let coalesced = entries.zip(log).map(|(entries, log)| entries as f64 / log.max(1) as f64);
        let copies = dense.counts.counter("lines_copied_home").unwrap_or(0)
            + dense.counts.counter("pages_copied_home").unwrap_or(0);
        Ok(Self {
            stands: (few.stands(), many.stands()),
            unpersisted: few.unpersisted,
            stood: few.counts.stop_cycles as f64,
            behind: few.behind,
            coalesced,
            pages: dense.counts.counter("pages_copied_home"),
            early: sparse.counts.counter("epochs_early").unwrap_or(0),
            moved: evicted.moved,
            reads: copies > 0 || dense.counts.reads("old lines") > 0,
        })
    }

    fn cell(&self, row: &str) -> (Cell, String) {
        let overlaps = self.unpersisted > 1.02 * self.stood;
        match row {
            "async_cache_flush" => {
                let (few, many) = self.stands;
                let why = format!(
                    "with {FEW} and {MANY} lines dirty, cores stand for {few:.0} and {many:.0} cycles"
                );
                // Finishing what was begun, and saving registers, takes as long whatever is dirty.
                (Cell::of(many < 2.0 * few), why)
            }
            "single_commit_overlap" => {
                let why = format!(
                    "epochs wait {:.0} cycles to persist, in which cores stand for {:.0}",
                    self.unpersisted, self.stood
                );
                (Cell::of(overlaps), why)
            }
            "multi_commit_overlap" => {
                let why = format!("{} later epochs ended before one persisted", self.behind);
                (Cell::of(overlaps && self.behind > 1), why)
            }
            "undo_coalescing" => match self.coalesced {
                None => (Cell::NotApplicable, "makes no undo entries".to_owned()),
                Some(each) => (
                    Cell::of(each >= 2.0),
                    format!("{each:.1} undo entries for each write of the log"),
                ),
            },
            "redo_page_coalescing" => match self.pages {
                None => (Cell::NotApplicable, "copies nothing home".to_owned()),
                Some(pages) => (Cell::of(pages > 0), format!("{pages} pages copied home as one")),
            },
            "second_scale_epochs" => {
                let pages = LINES / 64;
                let why = format!("{} epochs ended early over {pages} pages", self.early);
                (Cell::of(self.early == 0), why)
            }
            "no_translation_layer" => {
                let where_to = if self.moved { "beside their homes" } else { "at home" };
                (
                    Cell::of(!self.moved),
                    format!("lines written back within an epoch are {where_to}"),
                )
            }
            _ => {
                let parts = [
                    (self.reads, "reads or copies on its own"),
                    (self.moved, "redirects lines"),
                    (self.moved && overlaps, "keeps two versions"),
                    (self.pages.is_some_and(|pages| pages > 0), "has two granularities"),
                ];
                let has: Vec<&str> =
                    parts.iter().filter(|(holds, _)| *holds).map(|part| part.1).collect();
                let cell = match has.len() {
                    0 => Cell::Low,
                    1 | 2 => Cell::Medium,
                    _ => Cell::High,
                };
                let has = if has.is_empty() {
                    "does nothing of its own".to_owned()
                } else {
                    has.join(", ")
                };
                (cell, format!("the controller {has}"))
            }
        }
    }
}

/// A run of one program.
struct Observed {
    counts: Counts,
    unpersisted: f64,
    behind: u64,
    moved: bool,
}

impl Observed {
    fn of(scheme: &str, log: &OpLog, epoch: u64) -> Result<Self, Box<dyn Error>> {
        let scheme: MachineScheme = scheme.parse()?;
        let work = Work {
            streams: Streams::Recorded(vec![Arc::new(log.clone())]),
            image: Arc::default(),
            end: LineAddr(LINES),
            lanes: 1,
            is_nested: false,
            whole: None,
        };
        // Tables as a thirty-second of the published ones.
        let options = Options::default()
            .with("epoch", epoch)
            .with("save_lines", 1)
            .with("table_entries", 192)
            .with("line_entries", 64)
            .with("page_entries", 128)
            .with("log", 16 << 20);
        let prepared = scheme.prepare(&work, &options, None)?;
        let mut machine = run(prepared.as_ref())?;
        let counts = Counts::of(&machine.take_stats());
        let journal = machine.journal().ok_or("the machine keeps a journal")?;
        let (mut unpersisted, mut behind) = (0.0, 0);
        for (at, epoch) in journal.persisted_epochs() {
            let ended = journal.ended_epochs();
            let own = ended.iter().find(|end| end.epoch == *epoch);
            unpersisted += own.map_or(0.0, |end| at.since(end.at) as f64);
            let last = ended.iter().filter(|end| end.at < *at).map(|end| end.epoch).max();
            behind = behind.max(last.unwrap_or(0).saturating_sub(*epoch));
        }
        let mut image = vec![0; 64 * prepared.lines() as usize];
        let entries = journal.journal().len();
        journal.journal().cursor().advance_to_entry(entries, &mut image, |_| {});
        let moved = image[..64 * LINES as usize].iter().all(|byte| *byte == 0);
        Ok(Self { counts, unpersisted, behind, moved })
    }

    /// Cycles for which cores stood at each epoch's end.
    fn stands(&self) -> f64 {
        let epochs = self.counts.counter("epochs").unwrap_or(0).max(1);
        self.counts.stop_cycles as f64 / epochs as f64
    }
}

fn run(prepared: &dyn Prepared) -> Result<Box<dyn Machine>, Box<dyn Error>> {
    let machine = MachineConfig::named("picl")?;
    let log = &prepared.streams()[0];
    let sources: Vec<Box<dyn Source>> = vec![Box::new(LaneOps::new(Arc::clone(log), LaneId(0)))];
    let setup = Setup { journal: Some(Domain::Adr), ..Setup::default() };
    let mut machine = prepared.machine(&machine, setup, sources)?;
    machine.run_to_end()?;
    Ok(machine)
}

fn store(log: &mut OpLog, line: u64, value: u64) {
    log.op(LaneId(0), Op::Store { at: PoolOffset(64 * line), bytes: &value.to_le_bytes() });
}

/// Rounds of stores to the first lines, a pause behind each, in which they become visible. There is more
/// to execute behind the last round's end.
fn rounds(lines: u64, rounds: u64) -> OpLog {
    let mut log = OpLog::default();
    for round in 1..=rounds {
        (0..lines).for_each(|line| store(&mut log, line, round));
        log.op(LaneId(0), Op::Compute(PAUSE as u32));
    }
    log.op(LaneId(0), Op::Compute(PAUSE as u32 / 2));
    log
}

/// Stores to lines so far apart, each then flushed, so that it leaves the caches.
fn stores(from: u64, step: u64, count: u64) -> OpLog {
    let mut log = OpLog::default();
    for line in (0..count).map(|number| from + step * number) {
        store(&mut log, line, 1);
        let kind = FlushKind::ClflushOpt;
        log.op(LaneId(0), Op::Flush { kind, line: LineAddr(line) });
    }
    log.op(LaneId(0), Op::Sfence);
    log
}

/// Some lines that leave the caches within one epoch.
fn flushed_lines() -> OpLog {
    stores(0, 1, FEW)
}
