//! The same on the timed machine: the runtime's transactions in time, and crashes of them.
//!
//! Set-up is functional: the pool is loaded and opened, and what that stored counts as durable.
//! Then lanes run their transactions, and what the recorder wrote down runs on the machine, each
//! lane on a core of its own. What was recorded has its values, so the machine must keep the order
//! of what depends on each other ([`order`]).
//!
//! *Without crashes* the lanes are recorded one transaction at a time, in turn. Contention is that
//! of the recording.
//!
//! *With crashes* several lanes are recorded together, under a seeded schedule that may hand the
//! baton over at every operation. The machine keeps the order of their fences as well: a lane's
//! knowledge of another's durability, by volatile tables, rests on a fence of that one. So fences
//! of different lanes do not overlap, and such a run's throughput is not that of the scheme.
//!
//! A crash is a place in the machine's journal. Everything acknowledged before the next entry
//! became durable must have survived. Whose transaction was acknowledged when is the machine's
//! time, not the recording's order.

mod order;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use outlast::Pool;
use outlast::lab::Plant;
use outlast::recover::UnrecoveredPool;
use outlast_pmem::schedule;
use outlast_pmem::{InstructionCosts, Mark, Medium, Recorder};
use outlast_sim::Domain;
use outlast_sim::timed::{
    Cycle, LaneOps, MachineConfig, MachineError, NonPers, RunError, RunStats, Setup, Source,
    System, TimedJournal, Timeline, instructions_of,
};
use outlast_trace::{LaneId, OpLog, TxId};
use outlast_workloads::{Loaded, Random};

use super::crash_points::{Crasher, Machine, Shared};
use super::overlay::Overlay;
use super::points::{NoSuchEntry, Points};
use super::record::{
    Base, Listener, Recording, Seat, open_options, place_acknowledgements, run_together,
};
use super::{Campaign, CampaignError, Counts};
use crate::oracle::keys::{KeyHistory, Transaction};
use crate::{Broken, Live, Violation};

/// The stream of random numbers from which crash points are drawn.
const POINTS: u64 = 0x7469_6d65_6421;

/// A run of a workload over the runtime on the timed machine.
#[derive(Clone, Debug)]
pub struct TimedCampaign {
    /// What runs: workload, scheme, keys, lanes, transactions, log, seed, planted bug. Of all else
    /// it is `second_crash` that counts. Values are of the published sizes.
    pub campaign: Campaign,
    /// Where it crashes, if it does.
    pub points: Option<Points>,
    /// Transactions of each lane before counting starts.
    pub warm_up: u32,
    /// The machine. It gets as many cores as there are lanes.
    pub machine: MachineConfig,
    /// What the runtime's own instructions are.
    pub costs: InstructionCosts,
    /// The cycles, from the end of the warm-up, of which a timeline is wanted.
    pub timeline: Option<(u64, u64)>,
}

/// What such a run came to.
#[derive(Clone, Debug)]
pub struct TimedReport {
    /// What the machine counted behind the warm-up.
    pub stats: RunStats,
    /// Transactions acknowledged meanwhile.
    pub transactions: u64,
    /// What the crashes came to.
    pub counts: Counts,
    /// Journal entries, each of them a possible crash point; 0 where nothing crashes.
    pub journal_entries: usize,
    /// The first failure, with how many journal entries its image had.
    pub failure: Option<(Violation, Option<usize>)>,
    /// The timeline that was wanted, and the cycle in which counting ended.
    pub timeline: Option<(Timeline, Cycle)>,
}

/// What makes such a run impossible.
#[derive(Debug, thiserror::Error)]
pub enum TimedError {
    /// The campaign.
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    /// The machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The machine came to a stop.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The run's journal has no such entry.
    #[error(transparent)]
    Entry(#[from] NoSuchEntry),
    /// A transaction that was recorded failed, though nothing had crashed.
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// A recorded run, ready for the machine.
pub struct TimedRecording {
    /// Its operations.
    pub log: Arc<OpLog>,
    /// The bytes of the pool before the first of them.
    pub image: Vec<u8>,
    /// Operations of the warm-up.
    warm_at: usize,
    /// How many transactions come after it.
    timed: u64,
    /// Their beginnings and acknowledgements count operations as they were recorded, without what
    /// `log` has between them.
    transactions: Vec<Transaction>,
}

impl TimedCampaign {
    /// Records, runs, crashes and judges.
    ///
    /// # Errors
    /// What cannot be run. A loss is no error but a failure of the report.
    pub fn run(&self) -> Result<TimedReport, TimedError> {
        let campaign = self.as_recorded();
        let base = Base::load(&campaign)?;
        let recording = match self.record(&campaign, &base) {
            Ok(recording) => recording,
            Err(violation) => return Ok(TimedReport::failed(violation)),
        };
        let journal = self.points.map(|_| Domain::Adr);
        let (mut report, mut system) = self.counted(&recording, journal)?;
        if let Some(points) = self.points {
            system.run_to_end()?;
            let journal = system.journal().expect("it was asked for");
            report.journal_entries = journal.journal().len();
            points.check(report.journal_entries)?;
            crash(&campaign, points, &base, &recording, journal, &mut report);
        }
        Ok(report)
    }

    /// Runs what was recorded, maybe for a machine with another memory, and crashes nothing.
    ///
    /// # Errors
    /// When the machine cannot be built or comes to a stop.
    pub fn time(&self, recording: &TimedRecording) -> Result<TimedReport, TimedError> {
        Ok(self.counted(recording, None)?.0)
    }

    /// Runs the warm-up, and counts behind it.
    fn counted(
        &self,
        recording: &TimedRecording,
        journal: Option<Domain>,
    ) -> Result<(TimedReport, System<NonPers>), TimedError> {
        let mut system = self.system(recording, journal)?;
        let (warm, all) = self.instructions(recording);
        system.run(warm)?;
        system.take_stats();
        if let Some((from, to)) = self.timeline {
            let now = system.now();
            system.keep_timeline(now.plus(from), now.plus(to));
        }
        system.run(all - warm)?;
        let stats = system.take_stats();
        let now = system.now();
        let timeline = system.take_timeline().map(|timeline| (timeline, now));
        let report = TimedReport {
            transactions: recording.timed,
            stats,
            counts: Counts::default(),
            journal_entries: 0,
            failure: None,
            timeline,
        };
        Ok((report, system))
    }

    /// Records the run and nothing else.
    ///
    /// # Errors
    /// What cannot be run.
    pub fn recording(&self) -> Result<Result<TimedRecording, Violation>, TimedError> {
        let campaign = self.as_recorded();
        let base = Base::load(&campaign)?;
        Ok(self.record(&campaign, &base))
    }

    /// The campaign as its parts expect it: values of the published sizes.
    fn as_recorded(&self) -> Campaign {
        let per_lane = self.campaign.of_lane(0) + self.warm_up;
        let transactions = match self.campaign.workload.own() {
            None => per_lane * u32::from(self.campaign.lanes),
            Some(_) => self.campaign.transactions,
        };
        let caches = vec![self.campaign.caches[0]];
        let policies = vec![self.campaign.policies[0]];
        let warm_up = Some(self.warm_up.max(1)); // Values of the published sizes.
        Campaign { warm_up, transactions, caches, policies, ..self.campaign.clone() }
    }

    fn record(&self, campaign: &Campaign, base: &Base) -> Result<TimedRecording, Violation> {
        let refused = |what: String| Violation::new(Broken::Refused, what);
        let medium = Recorder::from_image(base.bytes.clone());
        let medium = medium.recording_loads().with_costs(self.costs);
        let medium = medium.planting(Plant::code_of(campaign.plant));
        let Campaign { workload, lanes, .. } = *campaign;
        let mut options = open_options(campaign);
        options.cache_bytes = Some(self.machine.llc.size.0);
        let pool = UnrecoveredPool::open(Live::B(&medium))
            .and_then(|pool| pool.recover())
            .and_then(|pool| pool.start(&options))
            .map_err(|error| refused(error.to_string()))?;
        let mut lane = pool.lane().map_err(|error| refused(error.to_string()))?;
        let loaded = workload.attach(&base.scale, &mut lane);
        let loaded = loaded.map_err(|abort| refused(abort.to_string()))?;
        drop(lane);
        drop(medium.take_log());
        let image = medium.to_bytes();
        let together = lanes > 1 && self.points.is_some();
        let (mut transactions, mut warm_at) = match together {
            true => (run_together(campaign, base, &pool, &loaded, || medium.ops())?, 0),
            false => self.in_turn(campaign, base, &pool, &loaded, || medium.ops())?,
        };
        let mut log = medium.take_log();
        place_acknowledgements(&log, &mut transactions);
        if together {
            let last_of_warm_up = transactions
                .chunk_by(|tx, next| tx.lane == next.lane)
                .filter_map(|of_lane| of_lane.iter().take(self.warm_up as usize).next_back())
                .map(|tx| tx.acked + 1);
            warm_at = last_of_warm_up.max().unwrap_or(0);
        }
        let timed = transactions.iter().filter(|tx| tx.acked >= warm_at).count() as u64;
        if together {
            (log, warm_at) = order::behind_fences(&log, warm_at);
        } else if lanes > 1 {
            (log, warm_at) = order::behind_acknowledgements(&log, warm_at);
        }
        Ok(TimedRecording { log: Arc::new(log), image, warm_at, timed, transactions })
    }

    /// Runs the lanes' transactions one at a time, in turn. Returns them lane after lane, and the
    /// operation at which the warm-up was over.
    fn in_turn(
        &self,
        campaign: &Campaign,
        base: &Base,
        pool: &Pool<Live<'_>>,
        loaded: &Loaded,
        ops: impl Fn() -> usize,
    ) -> Result<(Vec<Transaction>, usize), Violation> {
        let refused = |what: String| Violation::new(Broken::Refused, what);
        let Campaign { workload, seed, lanes, .. } = *campaign;
        let mut working = Vec::new();
        for lane in 0..lanes {
            let at_work = pool.lane_at(usize::from(lane)).map_err(|e| refused(e.to_string()))?;
            working.push((at_work, workload.worker(&base.scale, loaded, seed, lane as u8 + 1, 0)));
        }
        let clock = AtomicU64::new(0);
        let mut transactions: Vec<Vec<Transaction>> = vec![Vec::new(); working.len()];
        let mut warm_at = 0;
        for (turn, lane) in campaign.turns().into_iter().enumerate() {
            if turn == self.warm_up as usize * working.len() {
                warm_at = ops();
            }
            let own = usize::from(lane);
            let index = transactions[own].len();
            let (at_work, worker) = &mut working[own];
            let done = schedule::on_lane(LaneId(lane), || {
                let mut listener = Listener { clock: &clock, reads: vec![], writes: vec![] };
                let begun = ops();
                let mut seat = Seat { lane: at_work, is_async: false };
                let stepped = worker.step_with(&mut seat, &mut listener);
                let id = TxId(u64::from(lane) << 32 | index as u64);
                pool.medium().mark(Mark::Ack(id));
                worker.draw();
                let Listener { reads, writes, .. } = listener;
                let name = format!("transaction {index} of lane {lane}");
                let acked = usize::MAX;
                stepped.map(|_| Transaction { lane, name, begun, acked, reads, writes })
            });
            let done =
                done.map_err(|abort| refused(format!("while nothing had crashed: {abort}")))?;
            transactions[own].push(done);
        }
        Ok((transactions.into_iter().flatten().collect(), warm_at))
    }

    fn system(
        &self,
        recording: &TimedRecording,
        journal: Option<Domain>,
    ) -> Result<System<NonPers>, MachineError> {
        let lanes = self.campaign.lanes;
        let mut machine = self.machine.clone();
        machine.core.count = machine.core.count.max(u32::from(lanes));
        let source = |lane| -> Box<dyn Source> {
            Box::new(LaneOps::new(Arc::clone(&recording.log), LaneId(lane)))
        };
        let sources = (0..lanes).map(source).collect();
        let setup = Setup {
            seed: self.campaign.seed,
            base: recording.image.clone(),
            journal,
            ..Setup::default()
        };
        System::new(&machine, NonPers, setup, sources)
    }

    /// Instructions of the warm-up, and of everything.
    fn instructions(&self, recording: &TimedRecording) -> (u64, u64) {
        let (mut warm, mut all) = (0, 0);
        for (at, (_, op)) in recording.log.iter().enumerate() {
            all += instructions_of(op);
            warm += if at < recording.warm_at { instructions_of(op) } else { 0 };
        }
        (warm, all)
    }
}

/// Crashes at the points, recovers and judges.
fn crash(
    campaign: &Campaign,
    points: Points,
    base: &Base,
    recording: &TimedRecording,
    timed: &TimedJournal,
    report: &mut TimedReport,
) {
    let journal = timed.journal();
    let transactions = in_time(&recording.transactions, &acknowledgements(timed));
    let history = match KeyHistory::new(base.initial.clone(), &transactions) {
        Ok(history) => history,
        Err(violation) => {
            report.counts.count(violation.broken);
            report.failure = Some((violation, None));
            return;
        }
    };
    let mut bytes = recording.image.clone();
    bytes.resize(bytes.len().max(journal.image_bytes() as usize), 0);
    let recording = Recording::default();
    let (done, last_job) = (AtomicU64::new(0), AtomicUsize::new(usize::MAX));
    let shared = Shared {
        campaign,
        base,
        recording: &recording,
        history: &history,
        done: &done,
        last_job: &last_job,
    };
    let machine = Machine { policy: campaign.policies[0], caches: campaign.caches[0] };
    let overlay = Overlay::new(bytes).planting(Plant::code_of(campaign.plant));
    let mut crasher = Crasher::new(&shared, machine, overlay);
    let mut moment = history.beginning();
    let mut cursor = journal.cursor();
    for entries in points.of(journal.len(), &mut Random::stream(campaign.seed, POINTS)) {
        crasher.overlay.advance(|image| cursor.advance_to_entry(entries, image, |_| {}));
        // The last moment with this image: the next entry becomes durable in this cycle.
        let until = if entries < journal.len() { timed.at(entries).0 } else { u64::MAX >> 1 };
        moment.advance(until as usize);
        let mut random = Random::stream(campaign.seed, 1 + entries as u64);
        if let Err((_, violation)) = crasher.crash(&moment, &mut random) {
            crasher.counts.count(violation.broken);
            report.failure.get_or_insert((violation, Some(entries)));
            if campaign.until_failure {
                break;
            }
        }
    }
    report.counts.add(&crasher.counts);
}

/// The cycles of the acknowledgements, lane after lane as the transactions are.
fn acknowledgements(journal: &TimedJournal) -> Vec<usize> {
    let mut acked = journal.acknowledged_by(Cycle(u64::MAX)).to_vec();
    acked.sort_unstable_by_key(|(_, tx)| *tx);
    acked.iter().map(|(at, _)| at.0 as usize).collect()
}

/// The transactions with the machine's cycles in place of the recording's operations.
///
/// One begins, at the earliest, when the one before it in its lane was acknowledged. It also begins
/// before the acknowledgement of any that was not yet acknowledged when it began in the recording. Its
/// loads are the recording's, and the machine may be late with its lane.
fn in_time(transactions: &[Transaction], acked: &[usize]) -> Vec<Transaction> {
    debug_assert_eq!(acked.len(), transactions.len(), "each is acknowledged once");
    // In the recording's order, with the first of the machine's acknowledgements from there on.
    let mut firsts: Vec<_> =
        transactions.iter().zip(acked).map(|(tx, acked)| (tx.acked, *acked)).collect();
    firsts.sort_unstable();
    for at in (1..firsts.len()).rev() {
        firsts[at - 1].1 = firsts[at - 1].1.min(firsts[at].1);
    }
    let first_since = |begun: usize| {
        let from = firsts.partition_point(|(recorded, _)| *recorded < begun);
        firsts.get(from).map_or(usize::MAX, |(_, acked)| *acked)
    };

    let mut before = HashMap::new();
    let mut timed = transactions.to_vec();
    for (tx, &acked) in timed.iter_mut().zip(acked) {
        let ready = before.insert(tx.lane, acked).unwrap_or(0);
        tx.begun = ready.min(first_since(tx.begun));
        tx.acked = acked;
    }
    timed
}

impl TimedReport {
    fn failed(violation: Violation) -> Self {
        let mut counts = Counts::default();
        counts.count(violation.broken);
        Self {
            stats: RunStats::default(),
            transactions: 0,
            counts,
            journal_entries: 0,
            failure: Some((violation, None)),
            timeline: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlapped_in_the_recording_overlaps_on_the_machine() {
        let recorded = |lane, begun, acked| Transaction {
            lane,
            name: String::new(),
            begun,
            acked,
            reads: vec![],
            writes: vec![],
        };
        // The third ran beside the fourth, whose lane the machine was faster with.
        let transactions =
            [recorded(0, 0, 10), recorded(0, 10, 20), recorded(0, 20, 30), recorded(1, 15, 25)];
        let begun = |acked| in_time(&transactions, acked).iter().map(|tx| tx.begun).collect();
        let (late, early): (Vec<_>, Vec<_>) =
            (begun(&[100, 200, 300, 150]), begun(&[10, 20, 30, 90]));
        assert_eq!(late, [0, 100, 150, 0]);
        assert_eq!(early, [0, 10, 20, 0]);
    }
}
