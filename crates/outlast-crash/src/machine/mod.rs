//! Crash campaigns on the timed machine: run a workload under a scheme, crash after entries of its
//! journal, recover for real, and judge what is left.
//!
//! - `history` hands the bare transactions and their acknowledgements to the oracle. Recovered data
//!   has to be what some number of its transactions leaves, none of them in part; the scheme's
//!   guarantee says how many.
//! - From recovered images the rest of the work runs on (`resume`), and crashes again.
//! - A [`Plant`] breaks a scheme, the machine or the image on purpose; the campaign has to notice.
//!
//! A campaign is a function of its parts and the seed, and its failure prints the command that
//! replays it. It knows no scheme by name.

mod crashes;
mod explain;
mod history;
mod look;
mod plants;
mod resume;
mod states;
mod told;

pub use crate::runtime::campaign::Points;
pub use look::{Left, Look, Ran, Written};

use std::path::Path;
use std::sync::Arc;

use outlast_check::part::Part;
use outlast_schemes::{Breaks, Key, MachineScheme, Options, Plant, Streams, Work, whole_image};
use outlast_sim::Domain;
use outlast_sim::timed::{LaneOps, MachineConfig, Setup, Source};
use outlast_trace::{Guarantee, LaneId};
use outlast_workloads::machine::{Plan, Recorded};
use outlast_workloads::{Random, Workload};

use crashes::{Crashes, Run};
use history::{History, Judged, There};
use plants::rewrite;

use crate::Violation;
use crate::oracle::prefixes::Counts;
use crate::shell::{quoted, word};

/// Recovered images from which work is resumed, if nothing else is asked for.
pub const RESUMES_DEFAULT: usize = 4;

/// Recovered images from which work is resumed where a plant goes unnoticed with fewer, and seeds that
/// are tried.
const RESUMES_MANY: usize = 40;
const SEEDS_TRIED: u64 = 4;

/// Where the rest crashes then.
pub const RESUMED_POINTS: Points = Points::Some(12);

/// Failures that a report keeps: of parts together the same ones.
const FAILURES_MAX: usize = 16;

/// The stream of random numbers from which crash points are drawn, those from which work is resumed,
/// and how far recovery came before it was repeated there.
const POINTS: u64 = 0x0063_7261_7368;
const RESUMES: u64 = 0x7265_7375_6d65;
const STOPS: u64 = 0x0073_746f_7073;

/// The most writes of a recovery that have a crash behind them. Of more writes some are drawn.
const STOPS_MAX: usize = 32;

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
    /// Whether recoveries crash as well, after each of their writes; of long ones, after 30 that are
    /// drawn.
    pub second_crash: bool,
    /// Recovered images, drawn, from which the rest of the work runs on and crashes again.
    pub resumes: usize,
    /// Where that crashes.
    pub resumed_points: Points,
    /// The part of the crash points that is tried, each with what follows from it.
    pub part: Option<Part>,
}

/// A crash point: an entry of the journal, and one of the rest's journal where work was resumed from the
/// image that is recovered there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CrashEntry {
    /// Entries before the crash.
    pub entry: usize,
    /// Entries of the rest's before the second one.
    pub resumed: Option<usize>,
}

/// What it came to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Entries of the journal.
    pub entries: usize,
    /// Images that were recovered and judged.
    pub images: u64,
    /// Recovered images from which the rest of the work ran on.
    pub resumed: u64,
    /// Images of which the scheme's guarantee is broken; of a scheme without one, those that break the
    /// strongest.
    pub broken: u64,
    /// Images that lack an acknowledged transaction.
    pub lost: u64,
    /// Those that no number of transactions explains, or that recovery refuses, or from which the rest
    /// cannot run.
    pub torn: u64,
    /// The first crash point where that happened, and what was wrong.
    pub first: Option<(CrashEntry, Violation)>,
    /// The first 16 of them.
    pub failures: Vec<(CrashEntry, Violation)>,
}

impl Report {
    /// Notes what the oracle says of an image, and returns what is there, if anything whole is.
    fn add(&mut self, at: CrashEntry, judged: Judged) -> Option<There> {
        let Judged { there, lost, verdict } = judged;
        self.lost += u64::from(lost);
        self.torn += u64::from(there.is_none() && !lost);
        if let Err(violation) = verdict {
            self.broken += 1;
            self.first.get_or_insert_with(|| (at, violation.clone()));
            if self.failures.len() < FAILURES_MAX {
                self.failures.push((at, violation));
            }
        }
        there
    }

    /// The first crash point where something was wrong.
    pub fn first_entry(&self) -> Option<CrashEntry> {
        self.first.as_ref().map(|(at, _)| *at)
    }

    /// Whether the guarantee was broken.
    pub fn is_guilty(&self) -> bool {
        self.broken > 0
    }
}

impl Campaign {
    /// A small campaign: caches of a few lines, and whatever a scheme does rarely is frequent.
    pub fn small(scheme: MachineScheme, workload: &str, seed: u64) -> Self {
        let workload = Workload::named(workload).expect("a workload of the table");
        let plan = Plan {
            workload,
            footprint: 2048,
            threads: 2,
            warm_up: 0,
            transactions: 80,
            shared: false,
            switch_every: 0,
            abort_every: 0,
            batch: 0,
            seed,
        };
        Self {
            scheme,
            plan: plan.of_file(),
            options: scheme.small(),
            machine: MachineConfig::named("tiny").expect("a preset"),
            plant: None,
            points: Points::All,
            second_crash: true,
            resumes: RESUMES_DEFAULT,
            resumed_points: RESUMED_POINTS,
            part: None,
        }
    }

    /// The campaign that notices a plant, or stays silent on a control: small, every entry a crash
    /// point.
    pub fn showing(plant: &'static Plant, seed: u64) -> Self {
        let shown = plant.shown_by;
        let scheme = shown.variant.parse().expect("a plant names a variant");
        let mut campaign = Self::small(scheme, shown.program, seed);
        campaign.plan.footprint = shown.footprint;
        campaign.plan.threads = shown.threads;
        campaign.plan.shared = shown.is_shared;
        campaign.plan.abort_every = shown.abort_every;
        for (key, value) in shown.options {
            campaign.options.put(key, *value);
        }
        for (key, value) in shown.machine {
            let set = campaign.machine.set_option(key, value);
            set.expect("a plant changes keys that a machine has");
        }
        campaign.plant = Some(plant);
        campaign
    }

    /// A campaign that does notice a plant, found by running such: with this seed or one of the next, from
    /// the usual number of recovered images on, or from more. Nothing for a plant that none of them notices,
    /// as a control.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn noticing(
        plant: &'static Plant,
        seed: u64,
    ) -> Result<Option<Self>, Box<dyn std::error::Error>> {
        if plant.is_control() {
            return Ok(None);
        }
        for resumes in [RESUMES_DEFAULT, RESUMES_MANY] {
            for more in 0..SEEDS_TRIED {
                let usual = Self::showing(plant, seed.wrapping_add(more));
                let campaign = Self { resumes, ..usual };
                if campaign.run()?.is_guilty() {
                    return Ok(Some(campaign));
                }
            }
        }
        Ok(None)
    }

    /// Runs, crashes, recovers, judges.
    ///
    /// # Errors
    /// When the run cannot be made or comes to a stop.
    pub fn run(&self) -> Result<Report, Box<dyn std::error::Error>> {
        self.run_on(&self.plan.record()?)
    }

    /// The same on work that was recorded otherwise, as a captured program's. Of the plan only the
    /// seed counts.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_on(&self, recorded: &Recorded) -> Result<Report, Box<dyn std::error::Error>> {
        let work = work_of(recorded);
        let run = self.start(recorded, &work, None)?;
        let history = match run.recovered {
            There::Epoch { .. } => History::of_epochs(&run),
            There::Transactions(_) => History::of_transactions(recorded),
        };
        let entries = run.journal().journal().len();
        self.points.check(entries)?;
        let points = self.points.of(entries, &mut self.random(POINTS, 0));
        let resumed = self.resumed_at(&points);
        let mut crashes = Crashes {
            campaign: self,
            recorded,
            work: &work,
            history,
            report: Report { entries, ..Report::default() },
        };
        crashes.of(&run, None, &points, &resumed)?;
        Ok(crashes.report)
    }

    /// Whether the scheme keeps epochs of all that is stored, and no transactions.
    ///
    /// # Errors
    /// When the scheme cannot run this work.
    pub fn has_epochs(&self, recorded: &Recorded) -> Result<bool, Box<dyn std::error::Error>> {
        let prepared = self.scheme.prepare(&work_of(recorded), &self.options, None)?;
        Ok(prepared.epoch_lines() > 0)
    }

    /// The crash points among these from which the rest of the work runs on.
    fn resumed_at(&self, points: &[usize]) -> Vec<usize> {
        let mut resumed = points.to_vec();
        let mut random = self.random(RESUMES, 0);
        while resumed.len() > self.resumes {
            resumed.swap_remove(random.below(resumed.len() as u64) as usize);
        }
        resumed
    }

    /// Random numbers for one purpose at one crash point, the same when that is replayed.
    fn random(&self, purpose: u64, entry: usize) -> Random {
        Random::stream(self.plan.seed.wrapping_add((entry as u64) << 32), purpose)
    }

    fn breaks(&self) -> Breaks {
        self.plant.map_or(Breaks::Nothing, |plant| plant.breaks)
    }

    /// The guarantee by which images are judged: where there is none, that of the scheme's kind, which is
    /// the strongest for transactions.
    fn judged_by(&self, there: &There) -> Guarantee {
        match (self.scheme.guarantee(), there) {
            (Guarantee::None, There::Epoch { .. }) => Guarantee::Epoch,
            (Guarantee::None, There::Transactions(_)) => Guarantee::Durable,
            (promised, _) => promised,
        }
    }

    /// Runs work to its end from its image on, in which an earlier recovery may have left some of it.
    fn start(
        &self,
        recorded: &Recorded,
        work: &Work,
        recovered: Option<There>,
    ) -> Result<Run, Box<dyn std::error::Error>> {
        let breaks = self.breaks();
        let planted = match breaks {
            Breaks::Scheme(number) => Some(number),
            _ => None,
        };
        let prepared = self.scheme.prepare(work, &self.options, planted)?;
        let streams: Vec<_> =
            prepared.streams().iter().map(|log| Arc::new(rewrite(breaks, log))).collect();
        let source = |lane: u16| -> Box<dyn Source> {
            Box::new(LaneOps::new(Arc::clone(&streams[recorded.stream_of(lane)]), LaneId(lane)))
        };
        let sources = (0..recorded.lanes()).map(source).collect();
        let base = whole_image(&work.image, prepared.lines());
        let has_epochs = prepared.epoch_lines() > 0;
        let recovered = recovered.unwrap_or_else(|| match has_epochs {
            true => There::Epoch { epoch: 0, positions: vec![0; recorded.lanes().into()] },
            false => There::Transactions(Counts::new()),
        });
        let setup = Setup {
            seed: self.plan.seed,
            base: work.image.to_vec(),
            journal: Some(Domain::Adr),
            stores: has_epochs,
            transfers_forget_dirt: breaks == Breaks::Transfer,
            flushes_end_in_buffer: breaks == Breaks::Buffer,
            ..Setup::default()
        };
        let config = with_cores(&self.machine, recorded.lanes());
        let mut machine = prepared.machine(&config, setup, sources)?;
        machine.run_to_end()?;
        Ok(Run { prepared, machine, base, recovered })
    }

    /// The command that runs this campaign again, at one crash point if that is given.
    pub fn command(&self, point: Option<CrashEntry>) -> String {
        let Plan { workload, footprint, threads, transactions, shared, seed, .. } = self.plan;
        let Plan { switch_every, abort_every, batch, .. } = self.plan;
        let mut words = vec![
            format!("outlast sim {} --scheme {}", word(workload.name), self.scheme),
            format!("{} --threads {threads}", machine_options(&self.machine)),
            format!("--transactions {transactions} --seed {seed}"),
        ];
        if workload.own().is_none() {
            words.push(format!("--footprint {footprint}"));
        }
        words.extend(self.given_options());
        if shared {
            words.push("--shared".to_owned());
        }
        if switch_every > 0 {
            words.push(format!("--switch-every {switch_every}"));
        }
        if abort_every > 0 {
            words.push(format!("--abort-every {abort_every}"));
        }
        if batch > 0 {
            words.push(format!("--batch {batch}"));
        }
        words.extend(self.crash_options(point));
        words.join(" ")
    }

    /// The command that runs this campaign again on the first instructions of a captured program.
    pub fn command_on(&self, trace: &Path, instructions: u64, point: Option<CrashEntry>) -> String {
        let mut words = vec![
            format!(
                "outlast sim --trace {} --scheme {}",
                word(&trace.display().to_string()),
                self.scheme
            ),
            format!("{} --instructions {instructions}", machine_options(&self.machine)),
            format!("--seed {}", self.plan.seed),
        ];
        words.extend(self.given_options());
        words.extend(self.crash_options(point));
        words.join(" ")
    }

    fn given_options(&self) -> Vec<String> {
        let keys = self.scheme.keys();
        let word = |(key, value): (&Key, u64)| {
            format!("--set {}={}", key.full_name(), quoted(&key.show(value)))
        };
        self.options.given(&keys).map(word).collect()
    }

    fn crash_options(&self, point: Option<CrashEntry>) -> Vec<String> {
        let mut words: Vec<_> =
            self.plant.iter().map(|plant| format!("--plant {}", plant.name)).collect();
        match point {
            Some(CrashEntry { entry, resumed }) => {
                words.push(format!("--crash-entry {entry}"));
                words.extend(resumed.map(|entry| format!("--resume-entry {entry}")));
            }
            None => words.push(format!("--crash all --resume {}", self.resumes)),
        }
        words
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
        whole: None,
    }
}

/// The machine with as many cores as these threads need.
pub fn with_cores(machine: &MachineConfig, threads: u16) -> MachineConfig {
    machine.with_cores(u32::from(threads).div_ceil(machine.core.threads))
}

/// The options of the command line that make this machine, kind of core included: a machine's name
/// is that of its preset or file with the options that changed it.
pub fn machine_options(machine: &MachineConfig) -> String {
    let mut parts = machine.name.split(", ");
    let config = parts.next().unwrap_or_default();
    let mut options = format!("--config {}", word(config));
    if MachineConfig::named(config).is_ok_and(|preset| preset.core.kind != machine.core.kind) {
        options += &format!(" --core {}", machine.core.kind);
    }
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        options += &format!(" --set {key}={}", quoted(value));
    }
    options
}
