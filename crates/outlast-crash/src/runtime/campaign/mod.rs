//! Random crash campaigns: the runtime at work on cache models, crashed at thousands of points,
//! recovered with the production code, and judged.
//!
//! 1. A workload is loaded into a pool of ten thousand keys and more, on plain memory.
//! 2. Lanes then run transactions on a [`Recorder`](outlast_pmem::Recorder) under a seeded
//!    schedule, with logs so small that they wrap all the time. That is the crash window; it
//!    begins with the opening of the pool.
//! 3. The recorded operations are played through caches: each replacement policy in each of the
//!    [`Caches`]. What comes out is a [`Journal`](outlast_sim::Journal) of what became durable.
//! 4. At chosen points of the journal the machine crashes. Recovery runs on the image, which
//!    advances from point to point and is never copied.
//!
//! What is checked when:
//!
//! | at | is checked |
//! |---|---|
//! | every crash point | recovery ends without error; **every** key: the structure is sound, each byte of each value is of one version, and the versions are those that the acknowledged transactions and a closed set of whole others leave |
//! | one in 16 | also the allocator, block by block, against what is reachable, and all metadata |
//! | one in 4 | recovery itself runs on a cache, crashes at a random point and runs again; then as at every point |
//! | one in 16 | the pool starts, runs up to a dozen transactions, and crashes again; then as at every point |
//!
//! The judge knows only what transactions read and wrote, and shares nothing with the runtime.
//!
//! ```
//! use outlast::Scheme;
//! use outlast_crash::runtime::campaign::Campaign;
//! use outlast_workloads::Workload;
//!
//! let mut campaign = Campaign::new(Workload::named("hash").unwrap(), Scheme::Redo);
//! (campaign.keys, campaign.transactions, campaign.points) = (100, 20, 40);
//! let report = campaign.run(&|_| {})?;
//! assert_eq!(report.total().losses(), 0);
//! # Ok::<(), outlast_crash::runtime::campaign::CampaignError>(())
//! ```

mod census;
mod crash_points;
mod look;
pub(crate) mod overlay;
mod points;
mod record;
mod report;
mod shrink;
mod timed;

pub use census::{OBJECT_BYTES, ObjectCounts};
pub use look::{Look, Ran, stored};
pub use points::{CrashOp, NoSuchEntry, NoSuchMoment, ParseCrashOpError, Points};
pub use report::{CampaignReport, Counts, Failure, Stage};
pub use timed::{TimedCampaign, TimedError, TimedRecording, TimedReport};

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use outlast::lab::Plant;
use outlast::{Abort, Ack, PoolError, Scheme};
use outlast_check::part::Part;
use outlast_sim::{
    Domain, FlushCompletion, HierarchyConfig, Inclusion, Policy, Preset, instead_of,
};
use outlast_trace::OpLog;
use outlast_workloads::{BadScale, Layout, Scale, Workload};

use crate::oracle::keys::KeyHistory;
pub use crate::runtime::{KEYS_MAX, LANES_MAX, TRANSACTIONS_MAX};
use crate::shell::word;
use crash_points::{Machine, Shared};
use record::{Base, Recording};

/// Most transactions of `aof`.
const AOF_TRANSACTIONS_MAX: u64 = 1 << 17;

/// Most bytes of a lane's log: images of the pool are kept in memory.
pub const LANE_BYTES_MAX: u64 = 64 << 20;

/// The caches that a policy is tried in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Caches {
    /// Two lines a lane over four; flushes complete by their fence.
    Tiny,
    /// As `Tiny`, exclusive; flushes complete at once.
    TinyExclusive,
    /// 32 KiB a lane over 256 KiB; flushes complete by their fence.
    Small,
    /// Three levels, 19 MiB; flushes complete at once.
    Server,
    /// As `Server`, each level with a sixteenth of the sets.
    Server16th,
}

impl Caches {
    /// All of them, with their names on the command line.
    pub const ALL: [(Caches, &str); 5] = [
        (Self::Tiny, "tiny"),
        (Self::TinyExclusive, "tiny-exclusive"),
        (Self::Small, "small"),
        (Self::Server, "server"),
        (Self::Server16th, "server-16th"),
    ];

    /// Those that a campaign runs on unless it is told otherwise.
    pub const USUAL: [Caches; 4] = [Self::Tiny, Self::TinyExclusive, Self::Small, Self::Server];

    /// The hierarchy, and when its flushes are complete.
    pub fn hierarchy(self) -> (HierarchyConfig, FlushCompletion) {
        match self {
            Self::Tiny => (Preset::Tiny.config(), FlushCompletion::AtFence),
            Self::TinyExclusive => {
                let config = Preset::Tiny.config().with_inclusion(Inclusion::Exclusive);
                (config, FlushCompletion::AtFlush)
            }
            Self::Small => (Preset::Small.config(), FlushCompletion::AtFence),
            Self::Server => (Preset::Server.config(), FlushCompletion::AtFlush),
            Self::Server16th => {
                let mut config = Preset::Server.config();
                let levels = [&mut config.l1, &mut config.llc].into_iter().chain(&mut config.l2);
                levels.for_each(|level| level.size_bytes /= 16);
                (config, FlushCompletion::AtFlush)
            }
        }
    }

    fn instead_of(name: &str) -> String {
        instead_of(name, Self::ALL.map(|row| row.1))
    }

    /// Capacity of the last level, in bytes.
    pub fn last_level_bytes(self) -> u64 {
        self.hierarchy().0.llc.size_bytes
    }
}

impl fmt::Display for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::ALL[*self as usize].1)
    }
}

impl FromStr for Caches {
    type Err = CampaignError;

    fn from_str(name: &str) -> Result<Self, CampaignError> {
        let row = Self::ALL.iter().find(|row| row.1 == name);
        row.map(|row| row.0).ok_or_else(|| CampaignError::UnknownCaches { name: name.to_owned() })
    }
}

/// A campaign: what runs, on what, and how often it crashes.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// What runs.
    pub workload: &'static Workload,
    /// The scheme on trial.
    pub scheme: Scheme,
    /// The replacement policies.
    pub policies: Vec<Policy>,
    /// The caches in which each policy is tried.
    pub caches: Vec<Caches>,
    /// First crashes for each policy, divided among the caches. Fewer where a run has not so
    /// many different images; second crashes come on top.
    pub points: usize,
    /// Lanes that run transactions.
    pub lanes: u16,
    /// Bytes of each lane's log.
    pub lane_bytes: u64,
    /// Keys in the pool before the crash window.
    pub keys: u64,
    /// Transactions of all lanes together.
    pub transactions: u32,
    /// What everything drawn at random follows from.
    pub seed: u64,
    /// A planted bug.
    pub plant: Option<Plant>,
    /// Ends with the first failure.
    pub until_failure: bool,
    /// What survives a crash.
    pub domain: Domain,
    /// Whether recoveries crash too, and pools go on after them and crash again.
    pub second_crash: bool,
    /// Instead of many small values under a small log: a run at the published sizes of values
    /// on one lane, whose loads go through the caches too, and which crashes anywhere after so
    /// many transactions. The scheme reckons with the emulated last level, and stale objects are
    /// counted ([`ObjectCounts`]).
    pub warm_up: Option<u32>,
    /// The pool keeps checksums, which recovered pools are compared with when they are checked.
    pub checksums: bool,
    /// When transactions are acknowledged.
    pub ack: Ack,
    /// Commits are asynchronous, where the scheme can do that, and each lane makes them durable and
    /// acknowledges this number of them at a time.
    pub sync_every: Option<u32>,
    /// What lies beside what in the data.
    pub layout: Layout,
    /// Only this crash point: replays a failure.
    pub crash_at: Option<CrashOp>,
    /// The part of the crash points that is tried, each with what follows from it.
    pub part: Option<Part>,
    /// Threads that judge.
    pub threads: usize,
}

impl Campaign {
    /// A campaign over ten thousand keys on two lanes, with all policies and caches: 2,000 crash
    /// points for each policy.
    pub fn new(workload: &'static Workload, scheme: Scheme) -> Self {
        Self {
            workload,
            scheme,
            policies: Policy::ALL.iter().map(|row| row.0).collect(),
            caches: Caches::USUAL.into(),
            points: 2_000,
            lanes: 2,
            lane_bytes: 4 << 10,
            keys: 10_000,
            transactions: 1_000,
            seed: 1,
            plant: None,
            until_failure: false,
            domain: Domain::Adr,
            second_crash: true,
            warm_up: None,
            checksums: false,
            ack: Ack::default(),
            sync_every: None,
            layout: Layout::default(),
            crash_at: None,
            part: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// How much of the workload: `keys` keys with small values, so that many fit in a line, and
    /// their neighbours can be hurt; as published after a warm-up.
    pub fn scale(&self) -> Scale {
        let scale = self.workload.laid_out(&self.workload.scale_of(self.keys), self.layout);
        let operations = u64::from(self.transactions);
        if self.warm_up.is_some() {
            return Scale { operations, ..scale };
        }
        Scale { operations, fields: 4, field_bytes: 24, value_bytes: 24, ..scale }
    }

    /// The lanes, memory and number of transactions of the workload's file, where it is of one.
    pub fn of_file(self) -> Self {
        match self.workload.own() {
            None => self,
            Some(work) => Self {
                lanes: work.lanes(),
                keys: work.words(),
                transactions: u32::try_from(work.len()).unwrap_or(u32::MAX),
                ..self
            },
        }
    }

    /// Transactions of a lane. A file's go to its lanes as they come.
    fn of_lane(&self, lane: u16) -> u32 {
        match self.workload.own() {
            None => self.transactions.div_ceil(u32::from(self.lanes)).max(1),
            Some(work) => work.count_of_lane(lane, self.transactions.into()) as u32,
        }
    }

    /// The lanes of all transactions that run one at a time: in turn, or in a file's order.
    fn turns(&self) -> Vec<u16> {
        match self.workload.own() {
            None => (0..self.of_lane(0)).flat_map(|_| 0..self.lanes).collect(),
            Some(work) => work.lanes_in_order(self.transactions.into()).collect(),
        }
    }

    /// What the campaign crashes: the bytes of the loaded pool, and the operations of its run on them.
    ///
    /// # Errors
    /// What cannot be run.
    ///
    /// # Panics
    /// When a planted bug shows though nothing has crashed.
    pub fn recording(&self) -> Result<(Vec<u8>, OpLog), CampaignError> {
        self.check()?;
        let base = Base::load(self)?;
        let recording =
            Recording::make(self, &base).unwrap_or_else(|violation| panic!("{violation}"));
        Ok((base.bytes, recording.log))
    }

    /// Runs the campaign. `progress` hears, from any thread, how many first crashes are done of
    /// the [`planned`](Self::planned) ones.
    ///
    /// # Errors
    /// What cannot be run. A loss is no error but a [`Failure`] of the report.
    pub fn run(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<CampaignReport, CampaignError> {
        self.check()?;
        let started = Instant::now();
        let base = Base::load(self)?;
        let mut report = CampaignReport::new(self);
        report.data_bytes = base.data_bytes;
        match Recording::make(self, &base) {
            Err(violation) => report.fail_uncrashed(violation),
            Ok(recording) => {
                report.operations = recording.log.len();
                report.transactions = recording.transactions.len();
                match KeyHistory::new(base.initial.clone(), &recording.transactions) {
                    Err(violation) => report.fail_uncrashed(violation),
                    Ok(history) => {
                        self.judge(&base, &recording, &history, &mut report, progress)?
                    }
                }
            }
        }
        report.elapsed = started.elapsed();
        Ok(report)
    }

    /// How many first crashes there will be, at most.
    pub fn planned(&self) -> u64 {
        match self.crash_at {
            Some(_) => 1,
            None => {
                let all = (self.policies.len() as u64).saturating_mul(self.points as u64);
                all / self.part.map_or(1, |part| u64::from(part.of()))
            }
        }
    }

    fn check(&self) -> Result<(), CampaignError> {
        // Where nothing shortens the log, all of it is kept in memory.
        let transactions = match self.scheme {
            Scheme::Aof => AOF_TRANSACTIONS_MAX,
            _ => TRANSACTIONS_MAX,
        };
        let limits: [(&'static str, u64, u64, u64); 4] = [
            ("lanes", u64::from(self.lanes), 1, u64::from(LANES_MAX)),
            ("keys", self.keys, 4, KEYS_MAX),
            ("transactions", u64::from(self.transactions), 1, transactions),
            ("bytes of each lane's log", self.lane_bytes, 1, LANE_BYTES_MAX),
        ];
        for (what, value, least, most) in limits {
            if !(least..=most).contains(&value) {
                return Err(CampaignError::Limit { what, value, least, most });
            }
        }
        if let Some(work) = self.workload.own()
            && work.lanes() != self.lanes
        {
            let (workload, lanes) = (self.workload.name, work.lanes());
            return Err(CampaignError::LanesOfFile { workload, lanes });
        }
        if self.policies.is_empty() || self.caches.is_empty() {
            return Err(CampaignError::NoCaches);
        }
        if let Some(warm_up) = self.warm_up {
            let most = u64::from(self.transactions) - 1;
            if !(1..=most).contains(&u64::from(warm_up)) {
                let (what, value) = ("transactions of the warm-up", u64::from(warm_up));
                return Err(CampaignError::Limit { what, value, least: 1, most });
            }
            if self.lanes != 1 || self.caches.len() != 1 {
                return Err(CampaignError::WarmUp);
            }
        }
        Ok(())
    }

    /// Shares the machines out among threads. What is reported does not depend on who was first.
    fn judge(
        &self,
        base: &Base,
        recording: &Recording,
        history: &KeyHistory,
        report: &mut CampaignReport,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), NoSuchMoment> {
        let (done, last_job) = (AtomicU64::new(0), AtomicUsize::new(usize::MAX));
        let shared =
            Shared { campaign: self, base, recording, history, done: &done, last_job: &last_job };
        let jobs: Vec<(Machine, usize)> = (self.policies.iter())
            .flat_map(|&policy| {
                let caches = self.caches.iter().enumerate();
                caches.map(move |(nth, &caches)| (Machine { policy, caches }, self.share_of(nth)))
            })
            .collect();
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.clamp(1, jobs.len()) {
                scope.spawn(|| {
                    loop {
                        let job = next.fetch_add(1, Ordering::Relaxed);
                        let Some(&(machine, points)) = jobs.get(job) else { break };
                        let outcome = shared.crash_all(job, machine, points, progress);
                        results.lock().expect("no thread panics").push((job, outcome));
                    }
                });
            }
        });
        let mut results = results.into_inner().expect("no thread panicked");
        results.sort_by_key(|(job, _)| *job);
        // Under some caches an operation makes fewer lines durable than under others.
        let missing = results.iter().map(|(_, outcome)| outcome.missing);
        if let Some(missing) = missing.collect::<Option<Vec<_>>>()
            && let Some(first) = missing.first()
        {
            return Err(*first);
        }
        let last_job = last_job.into_inner();
        for (job, outcome) in results.into_iter().take_while(|(job, _)| *job <= last_job) {
            report.policies[job / self.caches.len()].1.add(&outcome.counts);
            report.fail(outcome.failures);
        }
        Ok(())
    }

    fn share_of(&self, nth: usize) -> usize {
        let all = self.caches.len();
        self.points / all + usize::from(nth < self.points % all)
    }

    /// The command that runs exactly this campaign again.
    pub fn command(&self) -> String {
        let policies: Vec<String> = self.policies.iter().map(ToString::to_string).collect();
        let caches: Vec<String> = self.caches.iter().map(ToString::to_string).collect();
        let mut command = format!(
            "outlast crash {} --scheme {} --policy {} --caches {} --seed {} --lanes {} \
             --lane-bytes {} --transactions {} --domain {}",
            word(self.workload.name),
            self.scheme,
            policies.join(","),
            caches.join(","),
            self.seed,
            self.lanes,
            self.lane_bytes,
            self.transactions,
            self.domain.name(),
        );
        if self.workload.own().is_none() {
            command += &format!(" --keys {}", self.keys);
        }
        match self.crash_at {
            Some(at) => command += &format!(" --crash-op {at}"),
            None => command += &format!(" --points {}", self.points),
        }
        if let Some(warm_up) = self.warm_up {
            command += &format!(" --warm-up {warm_up}");
        }
        if self.checksums {
            command += " --checksums";
        }
        if self.ack != Ack::default() {
            command += &format!(" --ack {}", self.ack);
        }
        if let Some(every) = self.sync_every {
            command += &format!(" --sync-every {every}");
        }
        if self.layout != Layout::default() {
            command += &format!(" --layout {}", self.layout);
        }
        if !self.second_crash {
            command += " --single";
        }
        if let Some(plant) = self.plant {
            command += &format!(" --plant {}", word(&plant.to_string()));
        }
        command
    }
}

/// The domain of that name.
///
/// # Errors
/// When no emulated domain has it.
pub fn parse_domain(name: &str) -> Result<Domain, CampaignError> {
    let found = name.parse().ok().filter(|domain: &Domain| !domain.row().is_paged);
    found.ok_or_else(|| CampaignError::UnknownDomain(name.to_owned()))
}

/// A campaign that cannot be run. Each message names what would be right.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// A number that cannot be.
    #[error("{what}: {value} is out of range; {least} to {most} are possible")]
    Limit {
        /// Of what.
        what: &'static str,
        /// The number given.
        value: u64,
        /// The least that works.
        least: u64,
        /// The most that works.
        most: u64,
    },
    /// Lanes of a file are those that it says.
    #[error("{workload} has {lanes} lanes: another number does not apply")]
    LanesOfFile {
        /// The workload.
        workload: &'static str,
        /// Its lanes.
        lanes: u16,
    },
    /// No policy or no caches.
    #[error("a campaign needs at least one policy and one kind of caches")]
    NoCaches,
    /// A warm-up for several lanes or caches.
    #[error(
        "a campaign with a warm-up runs on one lane and one kind of caches: --lanes 1, --caches server"
    )]
    WarmUp,
    /// No caches have this name.
    #[error("no caches are named '{name}'; {}", Caches::instead_of(.name))]
    UnknownCaches {
        /// The name given.
        name: String,
    },
    /// No domain of the emulator has this name.
    #[error("no emulated domain is named '{0}': choose one of adr, eadr, process")]
    UnknownDomain(String),
    /// The run has no such crash point.
    #[error(transparent)]
    CrashOp(#[from] NoSuchMoment),
    /// There is no crash to look at.
    #[error(
        "no crash point fails here: --crash-op OPERATIONS names one to look at, 0 to {operations}"
    )]
    NothingFails {
        /// Operations of the run.
        operations: usize,
    },
    /// There is no crash to look at: the run itself goes wrong.
    #[error("{0}, though nothing had crashed")]
    Uncrashed(crate::Violation),
    /// The workload does not come in this size.
    #[error(transparent)]
    Scale(#[from] BadScale),
    /// The pool could not be made.
    #[error("the pool to be crashed cannot be made: {0}")]
    Pool(#[from] PoolError),
    /// The workload could not be loaded.
    #[error("the workload cannot be loaded: {0}")]
    Load(#[from] Abort),
}
