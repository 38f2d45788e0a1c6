//! The PiCL paper's figures again ("PiCL: A Software-Transparent, Persistent Cache Log for Nonvolatile
//! Main Memory"): what each claims, beside what the timed machine says here.
//!
//! | part | what is measured |
//! |---|---|
//! | figure 9 | time of single programs over `ideal` |
//! | figure 10 | time of mixes of eight |
//! | figure 11 | commits in the instructions of an epoch |
//! | figure 12 | operations of the memory by kind |
//! | figure 13 | the undo log of eight epochs |
//! | figure 14 | epochs that are to be long |
//! | figures 15 to 18 | sizes of the last level, latencies of writes, bandwidths, gaps of the scan |
//! | tables II to V | features, as runs show them; area, from RTL that Yosys maps; the machine; the mixes |
//! | assumptions | what the paper leaves open, each reading on its own |
//! | epochs | lengths of epochs: time, recovery, work that is lost |
//! | compression | how well entries of the undo log compress |
//! | wear | durable writes of each line |
//!
//! Programs are those of the suite ([`crate::suite`]), which stand for SPEC CPU2006. Beside them
//! synthetic streams run, whose figures stand apart. `docs/picl.md` says what the quick scale divides.

mod area;
mod assumptions;
mod beyond;
mod features;
mod judge;
mod machine;
mod measured;
mod runs;
mod views;
mod works;

use std::error::Error;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::LazyLock;
use std::thread;

use super::claim::{self, Claim};
use super::paper::{Card, Outcome, Paper, Request, Run};
use crate::native::Size;
use crate::progress::{Listener, Phase, Progress};
use crate::record::{Kind, Record};
use features::Features;
pub(crate) use machine::PRESET;
use measured::Row;
use outlast_rtl::synthesis::Area;
use works::Works;

/// Checkpoints by a log that caches write.
pub struct Picl;

static CARD: Card = Card {
    name: "picl",
    id: "picl",
    title: "PiCL",
    about: "checkpoints that programs do not notice, on traces of real programs, on the timed machine",
    figures: || Part::ALL.iter().map(|part| (part.name(), part.claims_name())).collect(),
    claims: &CLAIMS,
    rows: || claim::names(judge::ROWS),
    views: views::ALL,
};

/// The paper's claims.
static CLAIMS: LazyLock<Vec<Claim>> = LazyLock::new(|| claim::parse(include_str!("claims.csv")));

impl Paper for Picl {
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

    /// By the instructions that all programs of the suite would take; where some are missing it is less.
    fn stages(&self) -> Vec<Phase> {
        let works = Works::all(self);
        let seconds = |instructions: u64| instructions as f64 / HOST_SPEED as f64 / 2.0;
        // Programs are captured once: how long that takes is told while it goes on.
        let figures = (runs::STAGE, seconds(self.instructions(&works)));
        let mut stages = vec![(works::CAPTURE, 1.0), figures];
        if self.wants(&[Part::Assumptions]) {
            let all = assumptions::instructions(self, &works);
            stages.push((assumptions::STAGE, seconds(all)));
        }
        stages.extend(beyond::stages(self, &works).map(|(stage, all)| (stage, seconds(all))));
        stages
    }
}

/// The schemes of the figures, the bound first.
const SCHEMES: [&str; 6] = [IDEAL, "journaling", "shadow", "frm", "thynvm", PICL];
const IDEAL: &str = "ideal";
const PICL: &str = "picl";
/// Those that PiCL is compared with.
const PRIOR: [&str; 4] = ["journaling", "shadow", "frm", "thynvm"];

/// Instructions of an epoch as published.
const EPOCH: u64 = 30_000_000;
/// Epochs whose log figure 13 has.
const EPOCHS_OF_LOG: u64 = 8;
/// Those of an epoch that is to be long (figure 14).
const LONG_EPOCH: u64 = 500_000_000;

/// A figure, a table, or a part of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Part {
    /// Single programs.
    Fig9,
    /// Mixes of eight.
    Fig10,
    /// Commits.
    Fig11,
    /// Operations of the memory.
    Fig12,
    /// The log of eight epochs.
    Fig13,
    /// Long epochs.
    Fig14,
    /// Sizes of the last level.
    Fig15,
    /// Latencies of writes.
    Fig16,
    /// Bandwidths of the link.
    Fig17,
    /// Gaps of the scan.
    Fig18,
    /// Features.
    Table2,
    /// Area.
    Table3,
    /// The machine.
    Table4,
    /// The mixes.
    Table5,
    /// Parameters that the paper leaves open.
    Assumptions,
    /// Lengths of epochs.
    Epochs,
    /// How well the log compresses.
    Compression,
    /// Writes of each line.
    Wear,
    /// The clock of the RTL: at full scale, or where it is asked for by name.
    Frequency,
}

impl Part {
    /// All, the paper's first.
    pub const ALL: [Self; 19] = [
        Self::Fig9,
        Self::Fig10,
        Self::Fig11,
        Self::Fig12,
        Self::Fig13,
        Self::Fig14,
        Self::Fig15,
        Self::Fig16,
        Self::Fig17,
        Self::Fig18,
        Self::Table2,
        Self::Table3,
        Self::Table4,
        Self::Table5,
        Self::Assumptions,
        Self::Epochs,
        Self::Compression,
        Self::Wear,
        Self::Frequency,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fig9 => "9",
            Self::Fig10 => "10",
            Self::Fig11 => "11",
            Self::Fig12 => "12",
            Self::Fig13 => "13",
            Self::Fig14 => "14",
            Self::Fig15 => "15",
            Self::Fig16 => "16",
            Self::Fig17 => "17",
            Self::Fig18 => "18",
            Self::Table2 => "table2",
            Self::Table3 => "table3",
            Self::Table4 => "table4",
            Self::Table5 => "table5",
            Self::Assumptions => "assumptions",
            Self::Epochs => "epochs",
            Self::Compression => "compression",
            Self::Wear => "wear",
            Self::Frequency => "frequency",
        }
    }

    /// The name in the table of claims.
    pub fn claims_name(self) -> String {
        match self.name() {
            name if name.starts_with(|first: char| first.is_ascii_digit()) => format!("fig{name}"),
            name => name.to_owned(),
        }
    }
}

/// The parts to measure, and their sizes.
#[derive(Clone, Debug)]
pub struct Task {
    /// Which parts.
    pub parts: Vec<Part>,
    /// By what epochs, caches and tables are divided.
    pub divisor: u64,
    /// Epochs of a single program: before counting starts, and those that count.
    pub single: (u64, u64),
    /// The same of a mix.
    pub mixed: (u64, u64),
    /// Of this number of mixes one runs.
    pub mixed_every: usize,
    /// Mixes of the sweeps.
    pub swept_mixes: usize,
    /// Of this number of single works one has epochs that are to be long, and other gaps of the scan.
    pub swept_every: usize,
    /// Where programs come from.
    pub size: Size,
    /// The seed of everything drawn.
    pub seed: u64,
    /// Whether programs run, or synthetic work alone.
    pub with_programs: bool,
    /// Whether Table III has its RTL mapped: minutes.
    pub with_synthesis: bool,
}

impl Task {
    /// The parts at their usual amount.
    pub fn new(parts: &[Part], size: Size, seed: u64) -> Self {
        let (divisor, single, mixed, mixed_every, swept_mixes, swept_every) = match size {
            Size::Quick => (32, (3, 3), (3, 1), 4, 1, 16),
            Size::Full => (1, (4, 8), (5, 8), 1, 8, 1),
        };
        Self {
            parts: parts.to_vec(),
            divisor,
            single,
            mixed,
            mixed_every,
            swept_mixes,
            swept_every,
            size,
            seed,
            with_programs: true,
            with_synthesis: true,
        }
    }

    /// The parts of a report: features, machine and mixes, and at full scale all.
    pub fn for_report(size: Size, seed: u64) -> Self {
        match size {
            Size::Full => Self::new(&Part::ALL, size, seed),
            Size::Quick => Self {
                divisor: 256,
                with_programs: false,
                ..Self::new(&[Part::Fig9, Part::Fig11, Part::Table2, Part::Table4], size, seed)
            },
        }
    }

    fn wants(&self, parts: &[Part]) -> bool {
        parts.iter().any(|part| self.parts.contains(part))
    }

    /// Instructions of an epoch here.
    fn epoch(&self) -> u64 {
        EPOCH / self.divisor
    }
}

/// Measurements, beside their records.
#[derive(Clone, Debug)]
struct Findings {
    rows: Vec<Row>,
    /// By what everything was divided.
    divisor: u64,
    /// Epochs that count of a single program.
    epochs: u64,
    /// The area of the hardware, or why it is not known.
    area: Result<Area, String>,
    /// The longest epochs, as milliseconds of the paper's scale, and what they cost, per cent.
    by_epoch: Vec<(f64, f64)>,
    /// The same under other readings, each by its name.
    assumed: Vec<(&'static str, Findings)>,
}

impl Default for Findings {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            divisor: 0,
            epochs: EPOCHS_OF_LOG,
            area: Err(area::NOT_MAPPED.to_owned()),
            by_epoch: Vec::new(),
            assumed: Vec::new(),
        }
    }
}

impl Findings {
    /// The factor from the log of the epochs that counted to that of eight.
    fn of_eight_epochs(&self) -> f64 {
        EPOCHS_OF_LOG as f64 / self.epochs as f64
    }
}

/// Instructions that a host's processor simulates in a second, about: the mean over schemes and works.
const HOST_SPEED: u64 = 4_500_000;

/// Measures the parts and judges the claims about them.
///
/// # Errors
/// When a run cannot be made or comes to a stop.
pub fn run(task: &Task, listen: &mut Listener<'_>) -> Result<Vec<Record>, Box<dyn Error>> {
    let works = Works::find(task, listen)?;
    // Synthesis takes minutes on one processor, so it goes on beside the runs.
    let mapping = task.synthesises(Part::Table3).then(|| thread::spawn(area::map));
    let mut findings = Findings {
        rows: runs::run(task, &works, listen)?,
        divisor: task.divisor,
        epochs: task.single.1,
        ..Findings::default()
    };
    let mut records = views::records(task, &findings.rows);
    if task.wants(&[Part::Table2]) {
        records.extend(Features::observe()?.records());
    }
    if let Some(mapping) = mapping {
        findings.area = mapping.join().unwrap_or_else(|panic| resume_unwind(panic));
        records.extend(findings.area.iter().flat_map(area::records));
    }
    if task.synthesises(Part::Frequency) {
        listen(Progress::Note("placing and routing parts of the RTL: some four minutes"));
        match area::frequencies() {
            Ok(found) => records.extend(found),
            Err(why) => listen(Progress::Note(&why)),
        }
    }
    if task.wants(&[Part::Table4]) {
        records.extend(machine::records()?);
    }
    if task.wants(&[Part::Table5]) {
        records.extend(works.mixes.iter().map(|mix| {
            let found = mix.found as f64;
            Record::new(Kind::Sim, mix.name, IDEAL, views::MIX_PROGRAMS, found).config("picl")
        }));
    }
    if task.wants(&[Part::Assumptions]) {
        let (assumed, more) = assumptions::run(task, &works, &findings, listen)?;
        findings.assumed = assumed;
        records.extend(more);
    }
    let (by_epoch, more) = beyond::run(task, &works, listen)?;
    findings.by_epoch = by_epoch;
    records.extend(more);
    for record in &mut records {
        record.paper = Some(CARD.id.to_owned());
    }
    records.extend(judge::judge(task, &works, &findings));
    Ok(records)
}

#[cfg(test)]
mod tests;
