//! Crash campaigns on the timed machine: run a program under a scheme, crash after entries of its
//! journal, recover for real, and judge what is left.
//!
//! - `judge` knows only the bare transactions and their acknowledgements. Recovered data has to
//!   be what some number of its transactions leaves, none of them in part; fewer than were
//!   acknowledged is a loss.
//! - [`Plant`]s break a scheme, the machine or the image on purpose; the campaign has to notice.
//!
//! A campaign is a function of its parts and the seed, and its failure prints the command that
//! replays it.

mod judge;
mod plants;
#[cfg(test)]
mod tests;

pub use outlast_crash::campaign::Points;
pub use plants::{PLANTS, Plant};

use outlast_schemes::Patch;
use outlast_schemes::hwl::{Fault, Faults, Hwl, records_max};
use outlast_sim::Domain;
use outlast_sim::timed::{Cycle, MachineConfig, NonPers, Setup, System, TimedJournal};
use outlast_workloads::Random;

use super::machine_options;
use super::schemes::{LogOptions, Prepared, SimScheme, with_cores};
use super::work::{Bench, Plan, Work};
use crate::record::{Kind, Metric, Record};
use judge::{Fate, Judge};
use plants::{At, Before};

/// The stream of random numbers from which crash points are drawn.
const POINTS: u64 = 0x0063_7261_7368;

/// What is run, crashed and judged.
#[derive(Clone, PartialEq, Debug)]
pub struct Campaign {
    /// The scheme.
    pub scheme: SimScheme,
    /// The program.
    pub plan: Plan,
    /// The log.
    pub options: LogOptions,
    /// The machine.
    pub machine: MachineConfig,
    /// What is broken.
    pub plant: Option<Plant>,
    /// Where it crashes.
    pub points: Points,
    /// Whether recoveries crash as well, after each of their writes.
    pub second_crash: bool,
}

/// What it came to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Entries of the journal.
    pub entries: usize,
    /// Images that were recovered and judged.
    pub images: u64,
    /// Those that lack an acknowledged transaction.
    pub lost: u64,
    /// Those that no number of transactions explains, or that recovery refuses.
    pub torn: u64,
    /// The first entry behind which that happened.
    pub first: Option<usize>,
}

impl Report {
    /// Whether the scheme broke its promise.
    pub fn is_guilty(&self, scheme: SimScheme) -> bool {
        self.torn > 0 || (self.lost > 0 && scheme.guarantee() != "buffered")
    }
}

impl Campaign {
    /// A small campaign: caches of a few lines, a log of a few transactions.
    pub fn small(scheme: SimScheme, bench: &str, seed: u64) -> Self {
        let machine = MachineConfig::named("tiny").expect("a preset");
        let bench = Bench::named(bench).expect("a program of the table");
        let plan = Plan {
            bench,
            footprint: 2048,
            threads: 2,
            warm_up: 0,
            transactions: 80,
            shared: false,
            switch_every: 0,
            seed,
        };
        let options =
            LogOptions { slots: 256, buffer: 8, scan_period: 4000, ..LogOptions::scaled(1) };
        Self {
            scheme,
            plan,
            options,
            machine,
            plant: None,
            points: Points::All,
            second_crash: true,
        }
    }

    /// The log's options with what the plant changes. A log that is too small for two of the
    /// largest transactions has as many slots as these need.
    fn planted_options(&self, work: &Work) -> LogOptions {
        let mut options = self.options;
        let largest = work.streams.iter().map(|log| records_max(log)).max().unwrap_or(1);
        let faults = self.plant.map_or(Faults::NONE, |plant| plant.faults);
        let at = self.plant.map(|plant| plant.at);
        options.faults = options.faults.and(faults);
        match at {
            Some(At::LateScan) => options.scan_period *= 1000,
            Some(At::Undeclared) => options.slots = 4,
            _ => {}
        }
        // A log that goes round as often as it can.
        let wraps = [Fault::HeadEarly, Fault::ByTime, Fault::PassesRunning, Fault::VolatileHead];
        if wraps.iter().any(|fault| faults.has(*fault)) || at == Some(At::LateScan) {
            options.slots = 1;
        }
        if options.tx_records_max.is_none() && at != Some(At::Undeclared) {
            options.slots = options.slots.max(2 * largest);
        }
        options
    }

    /// Runs, crashes, recovers, judges.
    ///
    /// # Errors
    /// When the run cannot be made or comes to a stop.
    pub fn run(&self) -> Result<Report, Box<dyn std::error::Error>> {
        let work = self.plan.work()?;
        let mut prepared = Prepared::new(self.scheme, &work, &self.planted_options(&work))?;
        if let Some(plant) = self.plant {
            prepared.streams = prepared
                .streams
                .iter()
                .map(|log| std::sync::Arc::new(plant.rewrite(log)))
                .collect();
        }
        let judge = Judge::new(&work);
        let machine = with_cores(&self.machine, work.lanes());
        let mut image = work.image.to_vec();
        image.resize((prepared.lines * 64) as usize, 0);
        let setup = Setup {
            seed: self.plan.seed,
            base: image.clone(),
            journal: Some(Domain::Adr),
            transfers_forget_dirt: self.plant.is_some_and(|plant| plant.at == At::Transfer),
        };
        let sources = prepared.sources(&work);
        let journal = match prepared.hwl {
            Some(config) => {
                let mut system = System::new(&machine, Hwl::new(config)?, setup, sources)?;
                system.run_to_end()?;
                system.journal().cloned()
            }
            None => {
                let mut system = System::new(&machine, NonPers, setup, sources)?;
                system.run_to_end()?;
                system.journal().cloned()
            }
        };
        let journal = journal.expect("it was asked for");
        self.points.check(journal.journal().len())?;
        Ok(self.judge_all(&journal, &judge, &prepared, image))
    }

    fn judge_all(
        &self,
        journal: &TimedJournal,
        judge: &Judge,
        prepared: &Prepared,
        mut image: Vec<u8>,
    ) -> Report {
        let entries = journal.journal().len();
        let mut report = Report { entries, ..Report::default() };
        let mut cursor = journal.journal().cursor();
        let mut random = Random::stream(self.plan.seed, POINTS);
        for point in self.points.of(entries, &mut random) {
            // What the lines of the last few entries held before them.
            let mut before: Vec<Before> = Vec::new();
            while cursor.entries() < point {
                let entry = cursor.entries();
                if point - entry <= 16 {
                    let at = journal.journal().get(entry).line.start();
                    let line = image[at.0 as usize..][..64].try_into().expect("a line was taken");
                    before.push((entry, at, line));
                }
                cursor.advance_to_entry(entry + 1, &mut image, |_| {});
            }
            // A crash just before the next entry.
            let now = match point < entries {
                true => Cycle(journal.at(point).0.saturating_sub(1)),
                false => Cycle::NEVER,
            };
            let damage =
                self.plant.map_or(Vec::new(), |plant| plant.damage(journal, point, now, &before));
            let undo = overlay(&mut image, &damage);
            let (torn, lost, images) = self.judge_one(journal, judge, prepared, &mut image, now);
            overlay(&mut image, &undo);
            report.images += images;
            report.torn += torn;
            report.lost += lost;
            if torn + lost > 0 && report.first.is_none() {
                report.first = Some(point);
            }
        }
        report
    }

    /// Torn, lost, judged.
    fn judge_one(
        &self,
        journal: &TimedJournal,
        judge: &Judge,
        prepared: &Prepared,
        image: &mut [u8],
        now: Cycle,
    ) -> (u64, u64, u64) {
        let acknowledged = judge.acknowledged(journal, now);
        let Ok(patches) = prepared.recover(image) else { return (1, 0, 1) };
        let (mut torn, mut lost, mut images) = (0, 0, 0);
        let stops = if self.second_crash { 0..patches.len() } else { 0..0 };
        for stop in stops.chain([patches.len()]) {
            let first = overlay(image, &patches[..stop]);
            let second = match stop < patches.len() {
                true => prepared.recover(image),
                false => Ok(Vec::new()),
            };
            images += 1;
            match second {
                Err(_) => torn += 1,
                Ok(second) => {
                    let undo = overlay(image, &second);
                    match judge.verdict(image, &acknowledged) {
                        Fate::Kept => {}
                        Fate::Lost => lost += 1,
                        Fate::Torn => torn += 1,
                    }
                    overlay(image, &undo);
                }
            }
            overlay(image, &first);
        }
        (torn, lost, images)
    }

    /// The command that runs this campaign again, at one crash point if that is given.
    pub fn command(&self, point: Option<usize>) -> String {
        let Plan { bench, footprint, threads, transactions, shared, switch_every, seed, .. } =
            self.plan;
        let mut words = vec![
            format!("outlast sim {} --scheme {}", bench.name, self.scheme),
            format!("{} --threads {threads}", machine_options(&self.machine)),
            format!("--footprint {footprint} --transactions {transactions}"),
            format!("--log-slots {} --log-buffer {}", self.options.slots, self.options.buffer),
            format!("--scan-period {} --seed {seed}", self.options.scan_period),
        ];
        if shared {
            words.push("--shared".to_owned());
        }
        if switch_every > 0 {
            words.push(format!("--switch-every {switch_every}"));
        }
        if self.options.growths > 0 {
            words.push(format!("--log-growths {}", self.options.growths));
        }
        if let Some(max) = self.options.tx_records_max {
            words.push(format!("--max-tx-records {max}"));
        }
        if let Some(plant) = self.plant {
            words.push(format!("--plant {}", plant.name));
        }
        match point {
            Some(point) => words.push(format!("--crash-entry {point}")),
            None => words.push("--crash all".to_owned()),
        }
        words.join(" ")
    }

    /// What it came to, as records.
    pub fn records(&self, report: &Report) -> Vec<Record> {
        let record = |metric, value: u64| {
            let config = format!("{}, {} bytes", self.machine.name, self.plan.footprint);
            let record = Record::new(
                Kind::Crash,
                self.plan.bench.name,
                self.scheme.name(),
                metric,
                value as f64,
            );
            let record = record
                .threads(self.plan.threads.into())
                .config(&config)
                .guarantee(self.scheme.guarantee())
                .domain("adr");
            match self.plant {
                Some(plant) => record.plant(plant.name),
                None => record,
            }
        };
        vec![
            record(Metric::IMAGES_VERIFIED, report.images),
            record(Metric::LOST, report.lost),
            record(Metric::TORN, report.torn),
        ]
    }
}

/// Writes patches and returns what they replaced, so that applying that undoes them.
fn overlay(image: &mut [u8], patches: &[Patch]) -> Vec<Patch> {
    let mut undo = Vec::with_capacity(patches.len());
    for patch in patches {
        let place = &mut image[patch.at.0 as usize..][..8];
        undo.push(Patch { at: patch.at, word: (&*place).try_into().expect("eight bytes") });
        place.copy_from_slice(&patch.word);
    }
    undo.reverse();
    undo
}
