//! Explains the first failure of a scope.

use outlast::PoolOffset;
use outlast::inspect::Geometry;
use outlast::recover::UnrecoveredPool;
use outlast_trace::TxId;

use super::judge::CellJudge;
use super::script::{self, Facts, Step};
use super::{Recorded, Scope, ScopeConfig};
use crate::explain::{Compared, Explanation, Recovery, Transaction, place_in, recovery_of, run_of};
use crate::{Crash, CrashImage, Failure, ImageMedium, Judge, TooWide, Violation};

/// Places that a recovery read, at most.
const READ_MAX: usize = 12;

impl Scope {
    /// Looks for the first failing image, makes it small, and tells it; nothing where none fails. One
    /// crash explains more than several, so images that one crash leaves come first. `replay` is the
    /// command that shows it again.
    ///
    /// # Errors
    /// When a unit of memory has too many contents to enumerate.
    pub fn explain(
        &self,
        config: &ScopeConfig,
        replay: String,
    ) -> Result<Option<Explanation>, TooWide> {
        if self.crashes > 1 {
            let once = Self { crashes: 1, ..self.clone() };
            if let Some(told) = once.explain(config, replay.clone())? {
                return Ok(Some(told));
            }
        }
        let (tally, found) = self.search(config, |_| ())?;
        let Some(guilt) = tally.failure else { return Ok(None) };
        let mut told = Explanation {
            flaw: config.plant.map(|plant| plant.to_string()).unwrap_or_default(),
            about: config.plant.map_or(String::new(), |plant| plant.describe()),
            scheme: config.scheme.name().to_owned(),
            guarantee: config.scheme.guarantee().to_string(),
            program: format!("{}: {}", self.name, self.about),
            transactions: self.transactions(),
            schedule: if self.lanes.len() > 1 { guilt.plan } else { String::new() },
            runs: Vec::new(),
            recovery: Recovery::default(),
            compared: Vec::new(),
            verdict: guilt.violation.to_string(),
            replay,
        };
        match found {
            Some((recorded, failure)) => {
                self.tell(config, &recorded, failure, &mut told)?;
                Ok(Some(told))
            }
            None => {
                told.recovery.outcome = "nothing had crashed yet".to_owned();
                Ok(Some(told))
            }
        }
    }

    fn tell(
        &self,
        config: &ScopeConfig,
        recorded: &Recorded,
        failure: Failure,
        told: &mut Explanation,
    ) -> Result<(), TooWide> {
        let Ok(judge) = self.judge(config, recorded) else { return Ok(()) };
        let mut watching = Watching { judge, found: None, read: Vec::new() };
        let settings = self.settings(config);
        let (base, log) = (&recorded.base, &recorded.log);
        let failure = settings.shrink(base, log, &failure, &mut watching)?;
        let mut nothing_more = failure.witness.clone();
        let replay = settings.replay(base, log, &failure.witness, &mut watching)?;
        let (found, read) = (watching.found.take(), std::mem::take(&mut watching.read));
        let report = watching.judge.recovered();
        let Some(last) = replay.crashes.last() else { return Ok(()) };
        told.verdict = failure.violation.to_string();
        let acked = last.acked.clone();
        for transaction in &mut told.transactions {
            transaction.acknowledged = acked.contains(&TxId(transaction.id));
        }
        let map = Map { scope: self, root: recorded.root, geometry: geometry(base) };
        let places = |at: PoolOffset| map.place(at);
        for (number, crash) in replay.crashes.iter().enumerate() {
            nothing_more.crashes.truncate(number + 1);
            let point = failure.witness.crashes[number].clone();
            nothing_more.crashes[number].picks.clear();
            let floor = settings.replay(base, log, &nothing_more, &mut watching)?;
            nothing_more.crashes[number].picks.clone_from(&point.picks);
            nothing_more.crashes.extend_from_slice(&failure.witness.crashes[number + 1..]);
            let floor = floor.crashes.get(number).map_or(&crash.image, |crash| &crash.image);
            let name = match number {
                0 => "the program".to_owned(),
                1 => "the recovery from that".to_owned(),
                _ => format!("the recovery from crash {number}"),
            };
            told.runs.push(run_of(name, crash, &point, floor, &crash.sites, &places));
        }
        told.recovery = recovery_of(&replay.recovery, &last.image, &places);
        told.recovery.read = summary(read.iter().map(|line| places(PoolOffset(line * 64))));
        told.recovery.outcome = match (&found, report) {
            (None, _) => failure.violation.to_string(),
            (Some(_), None) => "recovery gave no pool".to_owned(),
            (Some(_), Some(report)) => format!(
                "{} records put back, {} transactions replayed, {} lines corrected by checksums",
                report.undone, report.replayed, report.corrected
            ),
        };
        told.compared = self.compared(&recorded.facts, &acked, found.as_deref());
        Ok(())
    }

    fn transactions(&self) -> Vec<Transaction> {
        let lanes = self.lanes.iter().enumerate();
        let of_lane = |(lane, script): (usize, &Vec<Vec<Step>>)| {
            let told = move |(index, steps): (usize, &Vec<Step>)| Transaction {
                id: script::tx_id(lane, index).0,
                lane: lane as u16,
                does: steps.iter().map(Step::describe).collect::<Vec<_>>().join(", "),
                acknowledged: false,
            };
            script.iter().enumerate().map(told).collect::<Vec<_>>()
        };
        lanes.flat_map(of_lane).collect()
    }

    /// For each cell that a transaction wrote: the version of the last acknowledged writer, or a later
    /// one.
    fn compared(
        &self,
        facts: &[Facts],
        acked: &[TxId],
        found: Option<&[Result<u64, Violation>]>,
    ) -> Vec<Compared> {
        let row = |cell: u64| {
            let chain = chain(facts, cell);
            if chain.len() < 2 {
                return None;
            }
            let is_acked = |version: &u64| acked.contains(&TxId(*version));
            let from = chain.iter().rposition(is_acked).unwrap_or(0);
            let allowed: Vec<String> = chain[from..].iter().map(|&v| version(v)).collect();
            let (found, is_allowed) = match found.map(|found| &found[cell as usize]) {
                None => ("no pool to look into".to_owned(), false),
                Some(Ok(found)) => (version(*found), chain[from..].contains(found)),
                Some(Err(violation)) => (violation.detail.clone(), false),
            };
            let expected = allowed.join(" or ");
            Some(Compared { what: format!("cell {cell}"), expected, found, is_allowed })
        };
        (0..self.shape.cells()).filter_map(row).collect()
    }
}

fn version(version: u64) -> String {
    match version {
        0 => "version 0, the initial one".to_owned(),
        version => format!("version {version}"),
    }
}

/// The versions of a cell in the order in which they were written.
fn chain(facts: &[Facts], cell: u64) -> Vec<u64> {
    let mut chain = vec![0];
    let next = |last: u64| {
        let mut writers = facts.iter().filter(|facts| facts.writes.contains(&cell));
        writers.find(|facts| facts.reads.contains(&(cell, last))).map(|facts| facts.tx.0)
    };
    while let Some(version) = next(*chain.last().expect("it begins with the initial one")) {
        if chain.contains(&version) {
            break;
        }
        chain.push(version);
    }
    chain
}

/// Places in their order, each once, neighbours of one kind together.
fn summary(places: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<(String, u64)> = Vec::new();
    for place in places {
        let kind = place.split_once(", line ").map_or(place.as_str(), |(kind, _)| kind);
        match all.last_mut().filter(|last| last.0 == kind) {
            Some(last) => last.1 += 1,
            None => all.push((kind.to_owned(), 1)),
        }
    }
    let left_out = all.len().saturating_sub(READ_MAX);
    let told = |(kind, lines): (String, u64)| match lines {
        1 => kind,
        lines => format!("{kind} ({lines} lines)"),
    };
    let mut told: Vec<String> = all.into_iter().take(READ_MAX).map(told).collect();
    if left_out > 0 {
        told.push(format!("{left_out} more places"));
    }
    told
}

fn geometry(base: &[u8]) -> Option<Geometry> {
    let image = ImageMedium::new(base);
    let pool = UnrecoveredPool::open(CrashImage::B(&image)).and_then(|pool| pool.recover());
    pool.ok().map(|pool| pool.header().geometry)
}

/// What lies where in a scope's pool.
struct Map<'s> {
    scope: &'s Scope,
    root: PoolOffset,
    geometry: Option<Geometry>,
}

impl Map<'_> {
    fn place(&self, at: PoolOffset) -> String {
        let shape = &self.scope.shape;
        let root_end = self.root.0 + shape.root_bytes();
        if (self.root.0..root_end).contains(&at.0) {
            return self.in_root(at.0 - self.root.0);
        }
        place_in(self.geometry.as_ref(), at)
    }

    /// A cell, or what follows them.
    fn in_root(&self, offset: u64) -> String {
        let shape = &self.scope.shape;
        match offset / shape.stride {
            cell if cell < shape.cells() => format!("cell {cell}"),
            _ => "the words behind the cells".to_owned(),
        }
    }
}

/// A judge that notes what it has seen.
struct Watching<'a> {
    judge: CellJudge<'a>,
    /// What each cell said after the last recovery.
    found: Option<Vec<Result<u64, Violation>>>,
    /// Lines that recovery loaded from.
    read: Vec<u64>,
}

impl Judge for &mut Watching<'_> {
    fn verify(&mut self, image: &ImageMedium, crash: &Crash<'_>) -> Result<(), Violation> {
        self.found = None;
        let (verdict, read) = image.lines_loaded_by(|| self.judge.verify(image, crash));
        self.read = read.into_iter().map(|line| line.0).collect();
        if self.judge.recovered().is_some() {
            let cells = 0..self.judge.shape.cells();
            self.found = Some(cells.map(|cell| self.judge.version(image, cell)).collect());
        }
        verdict
    }

    fn after(&mut self, image: &ImageMedium, crash: &Crash<'_>) -> Result<(), Violation> {
        self.judge.after(image, crash)
    }
}
