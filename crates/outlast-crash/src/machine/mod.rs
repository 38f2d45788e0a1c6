//! Crash campaigns on the timed machine: run a workload under a scheme, crash after entries of its
//! journal, recover for real, and judge what is left.
//!
//! - `judge` knows only the bare transactions and their acknowledgements. Recovered data has to
//!   be what some number of its transactions leaves, none of them in part; fewer than were
//!   acknowledged is a loss.
//! - A [`Plant`] breaks a scheme, the machine or the image on purpose; the campaign has to notice.
//!
//! A campaign is a function of its parts and the seed, and its failure prints the command that
//! replays it. It knows no scheme by name.

mod judge;
mod plants;

pub use crate::campaign::Points;

use std::sync::Arc;

use outlast_schemes::{
    Breaks, Image, MachineScheme, Options, Patch, Plant, Prepared, Streams, Work,
};
use outlast_sim::Domain;
use outlast_sim::timed::{Cycle, LaneOps, MachineConfig, Setup, Source, TimedJournal};
use outlast_trace::{Guarantee, LaneId};
use outlast_workloads::Random;
use outlast_workloads::machine::{BareWorkload, Plan, Recorded};

use judge::{Fate, Judge};
use plants::{Before, damage, rewrite};

/// The stream of random numbers from which crash points are drawn.
const POINTS: u64 = 0x0063_7261_7368;

/// What is run, crashed and judged.
#[derive(Clone, PartialEq, Debug)]
pub struct Campaign {
    /// The scheme.
    pub scheme: MachineScheme,
    /// The workload.
    pub plan: Plan,
    /// Options of the scheme.
    pub options: Options,
    /// The machine.
    pub machine: MachineConfig,
    /// What is broken.
    pub plant: Option<&'static Plant>,
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
    pub fn is_guilty(&self, scheme: MachineScheme) -> bool {
        self.torn > 0 || (self.lost > 0 && scheme.guarantee() != Guarantee::Buffered)
    }
}

impl Campaign {
    /// A small campaign: caches of a few lines, and whatever a scheme does rarely is frequent.
    pub fn small(scheme: MachineScheme, workload: &str, seed: u64) -> Self {
        let workload = BareWorkload::named(workload).expect("a workload of the table");
        let plan = Plan {
            workload,
            footprint: 2048,
            threads: 2,
            warm_up: 0,
            transactions: 80,
            shared: false,
            switch_every: 0,
            abort_every: 0,
            seed,
        };
        Self {
            scheme,
            plan,
            options: scheme.small(),
            machine: MachineConfig::named("tiny").expect("a preset"),
            plant: None,
            points: Points::All,
            second_crash: true,
        }
    }

    /// The campaign that notices a plant, or stays silent on a control: small, every entry a crash
    /// point.
    pub fn showing(plant: &'static Plant, seed: u64) -> Self {
        let shown = plant.shown_by;
        let scheme = shown.variant.parse().expect("a plant names a variant");
        let mut campaign = Self::small(scheme, shown.program, seed);
        campaign.plan.footprint = shown.footprint;
        campaign.plan.shared = shown.is_shared;
        campaign.plan.abort_every = shown.abort_every;
        for (key, value) in shown.options {
            campaign.options.put(key, *value);
        }
        campaign.plant = Some(plant);
        campaign
    }

    /// Runs, crashes, recovers, judges.
    ///
    /// # Errors
    /// When the run cannot be made or comes to a stop.
    pub fn run(&self) -> Result<Report, Box<dyn std::error::Error>> {
        let recorded = self.plan.record()?;
        let breaks = self.plant.map_or(Breaks::Nothing, |plant| plant.breaks);
        let planted = match breaks {
            Breaks::Scheme(number) => Some(number),
            _ => None,
        };
        let prepared = self.scheme.prepare(&work_of(&recorded), &self.options, planted)?;
        let streams: Vec<_> =
            prepared.streams().iter().map(|log| Arc::new(rewrite(breaks, log))).collect();
        let source = |lane: u16| -> Box<dyn Source> {
            Box::new(LaneOps::new(Arc::clone(&streams[recorded.stream_of(lane)]), LaneId(lane)))
        };
        let sources = (0..recorded.lanes()).map(source).collect();
        let mut image = recorded.image.to_vec();
        image.resize((prepared.lines() * 64) as usize, 0);
        let setup = Setup {
            seed: self.plan.seed,
            base: image.clone(),
            journal: Some(Domain::Adr),
            transfers_forget_dirt: breaks == Breaks::Transfer,
        };
        let config = with_cores(&self.machine, recorded.lanes());
        let mut machine = prepared.machine(&config, setup, sources)?;
        machine.run_to_end()?;
        let journal = machine.journal().expect("it was asked for");
        self.points.check(journal.journal().len())?;
        let judge = Judge::new(&recorded);
        Ok(self.judge_all(journal, &judge, prepared.as_ref(), image))
    }

    fn judge_all(
        &self,
        journal: &TimedJournal,
        judge: &Judge,
        prepared: &dyn Prepared,
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
            let breaks = self.plant.map_or(Breaks::Nothing, |plant| plant.breaks);
            let undo = overlay(&mut image, &damage(breaks, journal, point, now, &before));
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
        prepared: &dyn Prepared,
        image: &mut [u8],
        now: Cycle,
    ) -> (u64, u64, u64) {
        let acknowledged = judge.acknowledged(journal, now);
        let Ok(patches) = prepared.recover(Image::new(image)) else { return (1, 0, 1) };
        let (mut torn, mut lost, mut images) = (0, 0, 0);
        let stops = if self.second_crash { 0..patches.len() } else { 0..0 };
        for stop in stops.chain([patches.len()]) {
            let first = overlay(image, &patches[..stop]);
            let second = match stop < patches.len() {
                true => prepared.recover(Image::new(image)),
                false => Ok(Vec::new()),
            };
            images += 1;
            match second {
                Err(_) => torn += 1,
                Ok(second) => {
                    let undo = overlay(image, &second);
                    match judge.verdict(prepared, image, &acknowledged) {
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
        let Plan { workload, footprint, threads, transactions, shared, seed, .. } = self.plan;
        let Plan { switch_every, abort_every, .. } = self.plan;
        let mut words = vec![
            format!("outlast sim {} --scheme {}", workload.name, self.scheme),
            format!("{} --threads {threads}", machine_options(&self.machine)),
            format!("--footprint {footprint} --transactions {transactions} --seed {seed}"),
        ];
        for (key, value) in self.options.given(&self.scheme.keys()) {
            words.push(format!("--set {}='{}'", key.full_name(), key.show(value)));
        }
        if shared {
            words.push("--shared".to_owned());
        }
        if switch_every > 0 {
            words.push(format!("--switch-every {switch_every}"));
        }
        if abort_every > 0 {
            words.push(format!("--abort-every {abort_every}"));
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
}

/// What was recorded, as schemes take it.
pub fn work_of(recorded: &Recorded) -> Work {
    Work {
        streams: Streams::Recorded(recorded.streams.clone()),
        image: Arc::clone(&recorded.image),
        end: recorded.end(),
        lanes: recorded.lanes(),
        is_nested: recorded.plan.switch_every > 0,
    }
}

/// The machine with as many cores as these threads need.
pub fn with_cores(machine: &MachineConfig, threads: u16) -> MachineConfig {
    let mut machine = machine.clone();
    let cores = u32::from(threads).div_ceil(machine.core.threads);
    machine.core.count = machine.core.count.max(cores);
    machine
}

/// The options of the command line that make this machine, kind of core included: a machine's name
/// is that of its preset or file with the options that changed it.
pub fn machine_options(machine: &MachineConfig) -> String {
    let mut parts = machine.name.split(", ");
    let config = parts.next().unwrap_or_default();
    let mut options = format!("--config {config}");
    if MachineConfig::named(config).is_ok_and(|preset| preset.core.kind != machine.core.kind) {
        options += &format!(" --core {}", machine.core.kind);
    }
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        options += &format!(" --set {key}='{value}'");
    }
    options
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
