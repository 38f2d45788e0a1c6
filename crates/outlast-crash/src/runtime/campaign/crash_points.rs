//! Crashing one run under one cache, point after point.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use outlast::lab::Plant;
use outlast::recover::{RecoveredPool, UnrecoveredPool};
use outlast::{PoolError, PoolOffset};
use outlast_pmem::schedule;
use outlast_sim::{AtomicConfig, AtomicDriver, Journal, Policy};
use outlast_trace::OpLog;
use outlast_workloads::Random;

use super::census::{Census, ObjectCounts, Said};
use super::overlay::Overlay;
use super::points::{CrashOp, NoSuchMoment, choose, choose_after};
use super::record::{
    Base, LATER_LANE, Recording, later_worker, open_options, place_acknowledgements, run_lane,
};
use super::{Caches, Campaign, Counts, Failure, Stage};
use crate::caught;
use crate::oracle::keys::{ABSENT, KeyHistory, KeyState, Moment, Transaction};
use crate::panicked;
use crate::{Broken, CrashImage, Violation};

/// Failures of each machine that are told, the earliest: of parts together the same ones.
const FAILURES_MAX: usize = 16;

/// One crash point in this number crashes its recovery too.
const IN_RECOVERY_ONE_IN: u64 = 4;

/// One recovery in this number is followed by more work and another crash.
const LATER_ONE_IN: u64 = 16;

/// Transactions of such a later run, at most.
const LATER_TRANSACTIONS_MAX: u64 = 12;

/// One crash point in this number has its allocator held against what is reachable.
const CHECK_ONE_IN: u64 = 16;

/// The stream of random numbers from which moments after a warm-up are drawn.
const MOMENTS: u64 = 0x6d6f_6d65_6e74;

/// What all jobs of a campaign share.
pub(super) struct Shared<'a> {
    pub campaign: &'a Campaign,
    pub base: &'a Base,
    pub recording: &'a Recording,
    pub history: &'a KeyHistory,
    /// Crash points so far, in all jobs.
    pub done: &'a AtomicU64,
    /// The first job after which nothing else counts.
    pub last_job: &'a AtomicUsize,
}

/// What one job found.
#[derive(Default)]
pub(super) struct JobOutcome {
    pub counts: Counts,
    /// The first ones.
    pub failures: Vec<Failure>,
    /// The crash point that was asked for, where the run has none such.
    pub missing: Option<NoSuchMoment>,
}

/// One crash point, with everything about it.
pub(super) struct Seen {
    pub journal: Journal,
    /// Entries of it that are in the image.
    pub entries: usize,
    pub image: Vec<u8>,
    pub recovered: Vec<u8>,
    pub recovery: OpLog,
    pub failure: Option<Failure>,
}

/// One policy in one hierarchy: a machine that the run is played through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Machine {
    pub policy: Policy,
    pub caches: Caches,
}

impl Shared<'_> {
    /// Plays the run through a machine and crashes it at this number of points.
    pub fn crash_all(
        &self,
        job: usize,
        machine: Machine,
        points: usize,
        progress: &dyn Fn(u64),
    ) -> JobOutcome {
        let seed = machine.seed(self.campaign.seed);
        let journal = self.play(machine);
        let chosen = match self.campaign.crash_at {
            Some(at) => vec![at],
            None if self.campaign.warm_up.is_some() => {
                // The same moments under every policy.
                let random = &mut Random::stream(self.campaign.seed, MOMENTS);
                choose_after(self.recording.warm_at, &journal, points, random)
            }
            None => choose(&self.recording.log, &journal, points, &mut Random::stream(seed, 0)),
        };
        let mut crasher = self.crasher(machine, &journal);
        let mut moment = self.history.beginning();
        let mut cursor = journal.cursor();
        let mut failures = Vec::new();
        let part = self.campaign.part;
        for (number, at) in chosen.into_iter().enumerate() {
            if part.is_some_and(|part| !part.has(number as u128)) {
                continue;
            }
            if self.last_job.load(Ordering::Relaxed) < job {
                break;
            }
            let entries = match at.entries_in(&journal) {
                Ok(entries) => entries,
                Err(missing) => {
                    return JobOutcome { missing: Some(missing), ..JobOutcome::default() };
                }
            };
            crasher.overlay.advance(|image| cursor.advance_to_entry(entries, image, |_| {}));
            moment.advance(at.ops);
            if let Some(census) = &mut crasher.census {
                census.advance(at.ops);
            }
            let mut random = Random::stream(seed, 1 + entries as u64);
            if let Err((stage, violation)) = crasher.crash(&moment, &mut random) {
                crasher.counts.count(violation.broken);
                if failures.len() < FAILURES_MAX {
                    failures.push(Failure { violation, machine: Some((machine, at)), stage });
                }
                if self.campaign.until_failure {
                    self.last_job.fetch_min(job, Ordering::Relaxed);
                    break;
                }
            }
            progress(self.done.fetch_add(1, Ordering::Relaxed) + 1);
        }
        JobOutcome { counts: crasher.counts, failures, missing: None }
    }

    /// The run on a machine: its writes that become durable.
    fn play(&self, machine: Machine) -> Journal {
        let Campaign { seed, lanes, .. } = *self.campaign;
        let config = AtomicConfig { domain: self.campaign.domain, ..machine.config(lanes) };
        let driver = AtomicDriver::new(&config, machine.seed(seed), &self.base.bytes);
        driver.expect("the presets can be built").play(&self.recording.log)
    }

    /// Stands at the base image.
    fn crasher(&self, machine: Machine, journal: &Journal) -> Crasher<'_> {
        let mut bytes = self.base.bytes.clone();
        bytes.resize(journal.image_bytes() as usize, 0);
        let overlay = Overlay::new(bytes).planting(Plant::code_of(self.campaign.plant));
        let mut crasher = Crasher::new(self, machine, overlay);
        crasher.census = self
            .campaign
            .warm_up
            .map(|_| Census::new(self.recording, &self.base.bytes, journal.image_bytes() as usize));
        crasher
    }

    /// Crashes at one point of a machine, and keeps everything.
    pub fn look(&self, machine: Machine, at: CrashOp) -> Result<Seen, NoSuchMoment> {
        let journal = self.play(machine);
        let entries = at.entries_in(&journal)?;
        let mut crasher = self.crasher(machine, &journal);
        let mut cursor = journal.cursor();
        crasher.overlay.advance(|image| cursor.advance_to_entry(entries, image, |_| {}));
        let mut moment = self.history.beginning();
        moment.advance(at.ops);
        if let Some(census) = &mut crasher.census {
            census.advance(at.ops);
        }
        let image = crasher.overlay.view(<[u8]>::to_vec);
        let start = crasher.overlay.checkpoint();
        crasher.overlay.record();
        // The verdict is that of the whole crash point, below.
        let _ = crasher.verify(&moment, false);
        let recovery = crasher.overlay.take_log();
        let recovered = crasher.overlay.view(<[u8]>::to_vec);
        crasher.overlay.roll_back(start);
        let mut random = Random::stream(machine.seed(self.campaign.seed), 1 + entries as u64);
        let verdict = crasher.crash(&moment, &mut random);
        let failure = verdict.err().map(|(stage, violation)| Failure {
            violation,
            machine: Some((machine, at)),
            stage,
        });
        Ok(Seen { journal, entries, image, recovered, recovery, failure })
    }
}

impl Machine {
    fn seed(self, seed: u64) -> u64 {
        let part = (self.policy as u64) << 8 | self.caches as u64;
        Random::stream(seed, part ^ 0x6361_6368_6573).next_u64()
    }

    fn config(self, lanes: u16) -> AtomicConfig {
        let (hierarchy, completion) = self.caches.hierarchy();
        let caches = hierarchy.with_lanes(lanes).with_policy(self.policy);
        AtomicConfig { completion, ..AtomicConfig::from(caches) }
    }
}

pub(super) struct Crasher<'a> {
    shared: &'a Shared<'a>,
    machine: Machine,
    pub overlay: Overlay,
    /// What the last recovery left of each key.
    found: Vec<KeyState>,
    pub counts: Counts,
    /// What the last recovery said of lines.
    said: Said,
    /// Counts stale objects, where that is asked for.
    census: Option<Census<'a>>,
}

type Crashed = Result<(), (Stage, Violation)>;

impl<'a> Crasher<'a> {
    /// Without a count of stale objects.
    pub fn new(shared: &'a Shared<'a>, machine: Machine, overlay: Overlay) -> Self {
        Self {
            shared,
            machine,
            overlay,
            found: Vec::new(),
            counts: Counts::default(),
            said: Said::default(),
            census: None,
        }
    }
}

impl Crasher<'_> {
    /// One crash point: recovery and judgement, and now and then what may follow.
    pub fn crash(&mut self, moment: &Moment<'_>, random: &mut Random) -> Crashed {
        let mut one_in = |n| random.below(n) == 0;
        let second = self.shared.campaign.second_crash;
        let (again, later) = (second && one_in(IN_RECOVERY_ONE_IN), second && one_in(LATER_ONE_IN));
        let check = one_in(CHECK_ONE_IN);
        let start = self.overlay.checkpoint();
        if again {
            self.overlay.record();
        }
        self.counts.crash_points += 1;
        let stale = self.census.as_ref().map(|census| self.overlay.view(|b| census.stale(b)));
        let mut verdict = self.verify(moment, check);
        if let (Some(census), Some(stale)) = (&self.census, stale) {
            let objects = match &verdict {
                Err(violation) if violation.is_refusal() && self.said.left.is_empty() => {
                    ObjectCounts::refused(stale.len())
                }
                _ => self.overlay.view(|bytes| census.outcome(&stale, bytes, &self.said)),
            };
            self.counts.objects.add(&objects);
            if verdict.is_ok() && objects.silently_wrong > 0 {
                verdict = Err(census.wrong(&objects));
            }
        }
        let log = self.overlay.take_log();
        self.overlay.roll_back(start);
        verdict.map_err(|violation| (Stage::Run, violation))?;
        if again {
            self.crash_recovery(moment, &log, random)?;
        }
        if later {
            self.crash_later(random)?;
        }
        Ok(())
    }

    /// The recovery that left this log crashes too.
    fn crash_recovery(&mut self, moment: &Moment<'_>, log: &OpLog, random: &mut Random) -> Crashed {
        let journal = self.play(log, random);
        if journal.is_empty() {
            return Ok(());
        }
        let entries = random.below(journal.len() as u64) as usize;
        self.counts.crash_points += 1;
        self.counts.in_recovery += 1;
        let verdict = self.verify_after(&journal, entries, moment, false);
        verdict.map_err(|violation| (Stage::Recovery, violation))
    }

    /// The pool goes on after the recovery, and crashes again.
    fn crash_later(&mut self, random: &mut Random) -> Crashed {
        let start = self.overlay.checkpoint();
        self.overlay.record();
        let run = quietly(|| self.go_on(random));
        let log = self.overlay.take_log();
        self.overlay.roll_back(start);
        let at_fault = |violation| (Stage::Later, violation);
        let (recovered_at, mut transactions) = run.map_err(at_fault)?;
        place_acknowledgements(&log, &mut transactions);
        let history = KeyHistory::new(self.found.clone(), &transactions).map_err(at_fault)?;
        let journal = self.play(&log, random);
        let recovered = journal.entries_after(recovered_at);
        let entries = recovered + random.below((journal.len() - recovered) as u64 + 1) as usize;
        let at = CrashOp::with_entries(&journal, entries);
        let mut moment = history.beginning();
        moment.advance(at.ops.max(recovered_at));
        self.counts.crash_points += 1;
        self.counts.later += 1;
        let check = random.below(CHECK_ONE_IN) == 0;
        let verdict = self.verify_after(&journal, entries, &moment, check);
        verdict.map_err(at_fault)
    }

    /// Recovers, starts the pool and runs some transactions. Returns the operation at which
    /// recovery was over, and what the transactions did.
    fn go_on(&mut self, random: &mut Random) -> Result<(usize, Vec<Transaction>), Violation> {
        let Shared { campaign, base, .. } = *self.shared;
        let refused = |what: String| Violation::new(Broken::Refused, what);
        let recovered = UnrecoveredPool::open(CrashImage::A(&self.overlay))
            .and_then(|pool| pool.recover())
            .map_err(|error| refused(error.to_string()))?;
        let recovered_at = self.overlay.recorded();
        read_state(campaign, base, &self.overlay, &recovered, self.found.len(), &mut self.found)?;
        let pool = recovered.start(&open_options(campaign));
        let pool = pool.map_err(|error| refused(error.to_string()))?;
        let mut lane = pool.lane().map_err(|error| refused(error.to_string()))?;
        let loaded = campaign.workload.attach(&base.scale, &mut lane);
        let loaded = loaded.map_err(|abort| refused(abort.to_string()))?;
        drop(lane);
        let (seed, lanes) = (random.next_u64(), campaign.lanes);
        let worker = later_worker(campaign.workload, &base.scale, &loaded, seed, lanes);
        let count = 1 + random.below(LATER_TRANSACTIONS_MAX) as u32;
        let clock = AtomicU64::new(0);
        let done = schedule::on_lane(LATER_LANE, || {
            run_lane(&pool, LATER_LANE.0, worker, count, 1, &clock, || self.overlay.recorded())
        })?;
        Ok((recovered_at, done))
    }

    /// Plays operations through fresh small caches over the image as it stands.
    fn play(&self, log: &OpLog, random: &mut Random) -> Journal {
        let (caches, completion) = Caches::Tiny.hierarchy();
        let caches = caches.with_policy(self.machine.policy);
        let domain = self.shared.campaign.domain;
        let config = AtomicConfig { caches, domain, completion };
        let seed = random.next_u64();
        self.overlay.view(|base| {
            let driver = AtomicDriver::new(&config, seed, base);
            driver.expect("the presets can be built").play(log)
        })
    }

    /// Verifies the image with the first entries of a journal on top.
    fn verify_after(
        &mut self,
        journal: &Journal,
        entries: usize,
        moment: &Moment<'_>,
        check: bool,
    ) -> Result<(), Violation> {
        let start = self.overlay.checkpoint();
        journal.iter().take(entries).for_each(|persisted| self.overlay.persist(&persisted));
        self.overlay.checkpoint();
        let verdict = self.verify(moment, check);
        self.overlay.roll_back(start);
        verdict
    }

    /// Recovers with the production code and judges every key; with `check`, the allocator too.
    fn verify(&mut self, moment: &Moment<'_>, check: bool) -> Result<(), Violation> {
        let Shared { campaign, base, .. } = *self.shared;
        let (overlay, found, said) = (&self.overlay, &mut self.found, &mut self.said);
        *said = Said::default();
        quietly(|| {
            let recovered = UnrecoveredPool::open(CrashImage::A(overlay))
                .and_then(|pool| pool.recover())
                .map_err(|error| {
                    let message = error.to_string();
                    if let PoolError::Uncorrectable { corrected, lines, .. } = error {
                        *said = Said { corrected, left: lines };
                    }
                    Violation::new(Broken::Refused, message)
                })?;
            said.corrected.extend(recovered.corrected_lines());
            read_state(campaign, base, overlay, &recovered, moment.keys(), found)?;
            moment.judge(found)?;
            if check {
                let report = recovered.check();
                if let Some(finding) = report.findings.first() {
                    return Err(Violation::new(Broken::Other, finding.to_string()));
                }
            }
            Ok(())
        })
    }
}

/// Runs `body`; a panic is a violation.
fn quietly<R>(body: impl FnOnce() -> Result<R, Violation>) -> Result<R, Violation> {
    caught::catch(body).unwrap_or_else(|payload| Err(panicked(&*payload)))
}

/// Walks everything that the root reaches and notes the state of each key.
fn read_state(
    campaign: &Campaign,
    base: &Base,
    overlay: &Overlay,
    recovered: &RecoveredPool<CrashImage<'_>>,
    keys: usize,
    found: &mut Vec<KeyState>,
) -> Result<(), Violation> {
    let root = recovered.root().map_err(|e| Violation::new(Broken::Refused, e.to_string()))?;
    let root = root.ok_or_else(|| Violation::new(Broken::Lost, "the root object is gone"))?;
    found.clear();
    found.resize(keys, ABSENT);
    let mut foreign = None;
    let walked = overlay.view(|bytes| {
        let mut read = |at: PoolOffset, out: &mut [u8]| {
            let from = usize::try_from(at.0).ok();
            let piece = from.and_then(|at| bytes.get(at..at.checked_add(out.len())?));
            piece.map(|piece| out.copy_from_slice(piece)).is_some()
        };
        campaign.workload.audit(&base.scale, root, &mut read, |key, version| {
            match found.get_mut(key as usize) {
                Some(state) => *state = version.0,
                None => foreign = Some(key),
            }
        })
    });
    walked.map_err(|damage| Violation::new(Broken::Garbage, damage.to_string()))?;
    match foreign {
        Some(key) => Err(Violation::new(Broken::Garbage, format!("key {key} was never there"))),
        None => Ok(()),
    }
}
