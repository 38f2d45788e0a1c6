//! The runtime in exhaustive scopes: small scripts, every schedule within a bound, every crash point,
//! every image that any cache could leave, a second crash at every point of recovery.
//!
//! A [`Scope`] says what runs and how far the search goes; [`Scope::run`] records each schedule
//! on a [`Recorder`], hands the history to the [exhaustive checker](crate::Exhaustive), and has
//! every recovered image judged: versions of cells by the oracle, the allocator by what is reachable.

mod explain;
mod judge;
pub mod lifecycle;
#[cfg(feature = "machine")]
pub mod own;
pub mod points;
pub mod script;
pub mod table;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outlast::lab::Plant;
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::scheme::Reading;
use outlast::{Abort, Ack, AsyncTicket, Pool, PoolOffset, Runner, Scheme, Transact, Tx};
use outlast_pmem::schedule::{Explorer, Plan, ScheduleError, Scheduler, on_lane};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{FlushKind, LaneId, Op, OpLog, TxId};

use crate::Seen;
use crate::caught;
use crate::{Broken, Count, Exhaustive, Failure, Live, Model, Outcome, TooWide, Violation};
use judge::CellJudge;
use script::{Facts, LaneScript, Shape, Step};

/// Lanes of a script that run in one go: they take turns, all of them, before the next begin.
type Turn = Vec<Result<Vec<Facts>, Violation>>;

/// The pages of a rollback journal: small, because each of their lines multiplies the images, and
/// not a line, so that two transactions can meet in one.
const PAGE_BYTES: u64 = 128;

/// The lane of the thread that opens a pool.
const OPENER: LaneId = LaneId(15);

/// A small program and how thoroughly it is crashed.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Its name, on the command line and in reports.
    pub name: &'static str,
    /// What it is for, in one line.
    pub about: &'static str,
    /// Where its cells live.
    pub shape: Shape,
    /// What each lane does.
    pub lanes: Vec<LaneScript>,
    /// Bytes of the pool.
    pub pool_bytes: u64,
    /// Bytes of each lane's log.
    pub lane_bytes: u64,
    /// Schedules: all with at most this number of preemptions ...
    pub preemptions: u32,
    /// ... but no more than this many, evenly taken.
    pub schedules_max: u64,
    /// How many crashes in a row.
    pub crashes: u32,
    /// All threads take lane 0 for each transaction, instead of one lane each for ever.
    pub shared_lane: bool,
    /// Lanes lock from the start; else the first of them runs without, until another begins.
    pub lock_always: bool,
    /// Only for the scheme that journals pages.
    pub of_pages: bool,
    /// Write-back by age: lines of the LRU queue.
    pub queue_lines: u64,
    /// Write-back by age: how often lanes look after it.
    pub step_every: usize,
    /// Chunks of a log beside its ring that the largest transaction needs where commits are sealed.
    pub beside_rings: u64,
    /// Chunks that a journal of whole pages needs more than that.
    pub pages_beside: u64,
    /// Free chunks hold what looks like records of the log.
    pub littered: bool,
    /// Crashes before this number of transactions were acknowledged are left to other scopes.
    pub from_ack: usize,
    /// The pool keeps checksums; then only schemes that keep them can be on trial.
    pub checksums: bool,
    /// The pool has been in use: its logs are neither empty nor at their start.
    pub used: bool,
    /// What used it logged in lines of the other form: streamed ones, or ones with tags.
    pub of_other_form: bool,
}

/// What a scope's search found.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Schedules recorded.
    pub schedules: u64,
    /// Crash points at which images were enumerated, second crashes included.
    pub crash_points: u64,
    /// Images that the rules allow, and those that an executed recovery stood for.
    pub allowed: Count,
    /// See `allowed`; equal to it where the search is complete.
    pub covered: Count,
    /// Recoveries executed and judged.
    pub verified: u64,
    /// Recoveries that were spared at crash points which other schedules, or other recoveries, have
    /// in common with this one. Limits count them.
    pub remembered: u64,
    /// Different images among those executed.
    pub distinct: u64,
    /// Time spent verifying.
    pub elapsed: Duration,
    /// The first failure.
    pub failure: Option<ScopeFailure>,
    /// No limit cut the search short.
    pub complete: bool,
}

/// A failure, with what replays it.
#[derive(Clone, Debug)]
pub struct ScopeFailure {
    /// What is wrong.
    pub violation: Violation,
    /// The schedule, as a plan.
    pub plan: String,
    /// The image, as a witness; `None` when nothing had to crash.
    pub witness: Option<String>,
}

impl fmt::Display for ScopeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (schedule: {}", self.violation, self.plan)?;
        match &self.witness {
            Some(witness) => write!(f, "; image: {witness})"),
            None => f.write_str("; nothing crashed)"),
        }
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            schedules: 0,
            crash_points: 0,
            allowed: Count::ZERO,
            covered: Count::ZERO,
            verified: 0,
            remembered: 0,
            distinct: 0,
            elapsed: Duration::ZERO,
            failure: None,
            complete: true,
        }
    }
}

impl Tally {
    /// Adds what one exhaustive check found, but for its failures.
    fn take(&mut self, outcome: &Outcome) {
        for level in &outcome.levels {
            self.crash_points += level.key_points;
            self.allowed = self.allowed.plus(level.allowed);
            self.covered = self.covered.plus(level.covered);
        }
        self.verified += outcome.images_verified();
        self.remembered += outcome.images_remembered();
        self.distinct += outcome.images_distinct();
        self.elapsed += outcome.elapsed;
        self.complete &= outcome.complete;
    }

    /// Recoveries that count towards a limit.
    pub fn counted(&self) -> u64 {
        self.verified + self.remembered
    }

    /// Recoveries per second.
    pub fn verify_rate(&self) -> f64 {
        self.verified as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// What is varied beside the scope.
#[derive(Clone, Copy, Debug)]
pub struct ScopeConfig {
    /// The scheme on trial.
    pub scheme: Scheme,
    /// The fault model.
    pub model: Model,
    /// A planted bug.
    pub plant: Option<Plant>,
    /// When the script's commits are acknowledged.
    pub ack: Ack,
    /// Literal variants: how their paper is read.
    pub reading: Reading,
    /// Where the log is streamed: records of fewer lines are flushed.
    pub stream_from: u64,
    /// Only this is a failure, whatever else is wrong.
    pub wanted: Option<Broken>,
    /// After how many recoveries to give up.
    pub images_max: u64,
    /// After how many schedules to give up.
    pub schedules_max: u64,
}

impl ScopeConfig {
    /// The scheme under the default model, nothing planted, no limit.
    pub fn of(scheme: Scheme) -> Self {
        Self {
            scheme,
            model: Model::default(),
            plant: None,
            ack: Ack::default(),
            reading: Reading::default(),
            stream_from: 1,
            wanted: None,
            images_max: u64::MAX,
            schedules_max: u64::MAX,
        }
    }
}

impl ScopeConfig {
    /// Whether the medium is a file behind the page cache.
    fn is_paged(&self) -> bool {
        self.model.domain.row().is_paged
    }

    /// Whether something else is looked for.
    fn is_unwanted(&self, broken: Broken) -> bool {
        self.wanted.is_some_and(|wanted| wanted != broken)
    }
}

/// One recorded run of a scope.
struct Recorded {
    base: Vec<u8>,
    root: PoolOffset,
    log: OpLog,
    facts: Vec<Facts>,
    plan: String,
}

/// What lanes know of each other.
#[derive(Default)]
struct Returned {
    /// Asynchronous commits that have returned, of all lanes.
    commits: Mutex<Vec<(TxId, AsyncTicket)>>,
    lanes_over: AtomicUsize,
    transactions: AtomicUsize,
}

impl Returned {
    fn add(&self, id: TxId, ticket: AsyncTicket) {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner).push((id, ticket));
    }

    fn list(&self) -> Vec<(TxId, AsyncTicket)> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A lane's log that no scope fills.
const LONG_LANE_BYTES: u64 = 2048;

impl Scope {
    /// Whether the scheme can be tried in it.
    pub fn tries(&self, scheme: Scheme) -> bool {
        let keeps_sums = matches!(scheme, Scheme::UndoArchapt | Scheme::RedoArchapt);
        let later = self.lanes.iter().flatten().flatten().any(|step| *step == Step::Later);
        (!self.checksums || keeps_sums || scheme.is_published())
            && (!later || scheme.commits_later())
            && (!self.of_pages || scheme == Scheme::Rollback)
            && !(self.of_other_form && scheme.is_published())
    }

    /// Runs the script under every schedule of the scope and verifies every image of each.
    ///
    /// # Errors
    /// When a unit of memory has too many contents to enumerate.
    pub fn run(
        &self,
        config: &ScopeConfig,
        progress: impl FnMut(&Tally),
    ) -> Result<Tally, TooWide> {
        self.search(config, progress).map(|(tally, _)| tally)
    }

    /// As [`run`](Self::run), with the run in which the first failing image was found.
    fn search(
        &self,
        config: &ScopeConfig,
        mut progress: impl FnMut(&Tally),
    ) -> Result<(Tally, Option<(Recorded, Failure)>), TooWide> {
        let mut found = None;
        let mut tally = Tally::default();
        // Schedules in which lanes read and wrote the same are judged alike.
        let mut seen: HashMap<Vec<Facts>, Seen> = HashMap::new();
        let (base, root) = self.base(config.scheme);
        let mut explorer = Explorer::new(if self.lanes.len() > 1 { self.preemptions } else { 0 });
        while let Some(scheduler) = explorer.next() {
            let schedules_max = self.schedules_max.min(config.schedules_max);
            if tally.schedules >= schedules_max || tally.counted() >= config.images_max {
                tally.complete = false;
                break;
            }
            tally.schedules += 1;
            match self.record(config, &base, root, scheduler, &mut explorer) {
                Ok(recorded) => {
                    let seen = seen.entry(recorded.facts.clone()).or_insert_with(Seen::with_points);
                    let failure = self.verify(config, &recorded, seen, &mut tally)?;
                    found = failure.map(|failure| (recorded, failure));
                }
                // What comes of other interleavings of such a schedule is not asked.
                Err(failure) if config.is_unwanted(failure.violation.broken) => {}
                Err(failure) => tally.failure = Some(failure),
            }
            progress(&tally);
            if tally.failure.is_some() {
                break;
            }
        }
        Ok((tally, found))
    }

    /// The cache of which the queue has that many lines: as many, or half.
    fn cache_bytes_for(&self, scheme: Scheme) -> u64 {
        let lines_bytes = self.queue_lines * 64;
        if scheme.is_published() { lines_bytes } else { lines_bytes / 2 }
    }

    /// A pool with the script's root block, everything durable, and where that is.
    fn base(&self, scheme: Scheme) -> (Vec<u8>, PoolOffset) {
        let medium = Recorder::new(self.pool_bytes_for(scheme));
        // A log that only grows would lie in the first free chunks, which a scope wants to fill.
        let made_with = match scheme {
            _ if self.of_other_form && scheme.streams_log() => Scheme::Redo,
            _ if self.of_other_form => Scheme::Swift,
            Scheme::Aof => Scheme::Redo,
            _ => scheme,
        };
        // What makes the root block has a ring of its own then: each line that is made blank multiplies
        // the images, and the script's rings are to have one.
        let maker = if self.of_other_form { self.lanes.len() } else { 0 };
        let create = CreateOptions {
            lanes: self.lanes.len().max(maker + 1) as u32,
            lane_bytes: self.lane_bytes_for(scheme),
            chunk_bytes: Some(4096),
            uuid: Some(Default::default()),
            checksums: self.checksums,
            ..CreateOptions::default()
        };
        let open = OpenOptions {
            lock_stripes: 64,
            cache_bytes: Some(self.cache_bytes_for(made_with)),
            page_bytes: PAGE_BYTES,
            ..OpenOptions::with_scheme(made_with)
        };
        let pool = Pool::create_on(&medium, &create, &open).expect("a scope's pool can be made");
        let mut lane = pool.lane_at(maker).expect("a new pool has free lanes");
        let root = script::create(&mut lane, &self.shape).expect("a scope's pool has room");
        if self.littered {
            script::litter(&mut lane, &self.shape, root).expect("a scope's pool has room");
        }
        drop(lane);
        // Records of one and two lines, so that the tail comes to rest anywhere. Of those that are made
        // blank just one: a crash may leave any of its words.
        let records: &[u64] = if self.of_other_form { &[8] } else { &[8, 8, 8, 80, 80, 8, 80] };
        for id in 0..if self.used { self.lanes.len() } else { 0 } {
            let mut lane = pool.lane_at(id).expect("a new pool has free lanes");
            for bytes in records {
                let mut same = vec![0; self.shape.root_bytes().min(*bytes) as usize];
                let store_again = |tx: &mut Tx<'_, _>| {
                    tx.load(root, &mut same)?;
                    tx.store(root, &same)
                };
                lane.run(store_again).expect("a scope's pool works");
            }
        }
        if scheme.is_published() {
            // What is only logically committed a literal variant on undo takes back.
            pool.close();
        } else {
            drop(pool);
        }
        let bytes = medium.to_bytes();
        (bytes, root)
    }

    /// Where each store is a record, and so a line, rings twice as long are as short as others, but for
    /// the longest.
    fn lane_bytes_for(&self, scheme: Scheme) -> u64 {
        if scheme == Scheme::Atlas && !self.of_other_form && self.lane_bytes < LONG_LANE_BYTES {
            2 * self.lane_bytes
        } else {
            self.lane_bytes
        }
    }

    /// Undo that is sealed needs more for what its rings cannot hold: old words and new. A
    /// journal also has the old words of new blocks.
    fn pool_bytes_for(&self, scheme: Scheme) -> u64 {
        let more = match scheme {
            Scheme::UndoArchapt => self.beside_rings.saturating_sub(1),
            // Checksums, of every block.
            _ if scheme.is_published() && !self.checksums => 8,
            Scheme::Rollback => self.pages_beside,
            Scheme::Atlas => self.beside_rings,
            // The log grows, and freed large blocks stay with it.
            Scheme::Aof => 6,
            _ => 0,
        };
        self.pool_bytes + more * 4096
    }

    fn record(
        &self,
        config: &ScopeConfig,
        base: &[u8],
        root: PoolOffset,
        scheduler: Scheduler,
        explorer: &mut Explorer,
    ) -> Result<Recorded, ScopeFailure> {
        let medium = Recorder::from_image(base.to_vec());
        let medium = medium.planting(Plant::code_of(config.plant)).paged(config.is_paged());
        let medium = match config.plant {
            Some(Plant::FlushedByClflushOpt) => medium.flushing_with(FlushKind::ClflushOpt),
            _ => medium,
        };
        let open = OpenOptions {
            lock_stripes: 64,
            lock_always: self.lock_always,
            cache_bytes: Some(self.cache_bytes_for(config.scheme)),
            sample_bits: 0,
            step_every: self.step_every,
            page_bytes: PAGE_BYTES,
            ack: config.ack,
            reading: config.reading,
            stream_from: Some(config.stream_from),
            ..OpenOptions::with_scheme(config.scheme)
        };
        let guilty = |violation, plan: &str| ScopeFailure {
            violation,
            plan: plan.to_owned(),
            witness: None,
        };
        // The thread that opens the pool is no lane of the script: its flushes need its own fences.
        let opened = on_lane(OPENER, || {
            outlast::recover::UnrecoveredPool::open(Live::B(&medium))
                .and_then(|pool| pool.recover())
                .and_then(|pool| pool.start(&open))
        });
        let pool = opened
            .map_err(|error| guilty(Violation::new(Broken::Refused, error.to_string()), "none"))?;
        let returned = Returned::default();
        let bodies: Vec<_> = (0..self.lanes.len())
            .map(|lane| {
                let (pool, medium, returned) = (&pool, &medium, &returned);
                move || self.run_lane(pool, medium, returned, root, lane)
            })
            .collect();
        let run = scheduler.run(bodies).map_err(|error: ScheduleError| {
            guilty(Violation::new(Broken::Stuck, error.to_string()), "see the error")
        })?;
        explorer.ran(&run);
        let plan = Plan::Explicit(run.switches.clone()).to_string();
        let turns: Turn = run
            .lanes
            .into_iter()
            .map(|lane| {
                lane.unwrap_or_else(|payload| {
                    Err(Violation::new(Broken::Panicked, caught::message(&*payload)))
                })
            })
            .collect();
        let mut facts = Vec::new();
        for lane in turns {
            facts.extend(lane.map_err(|violation| guilty(violation, &plan))?);
        }
        drop(pool);
        Ok(Recorded { base: base.to_vec(), root, log: medium.take_log(), facts, plan })
    }

    /// What one lane does: its transactions, each acknowledged when it returns, or by a
    /// [`Step::Sync`] or [`Step::Look`] of any lane when it is among those that have `returned`.
    fn run_lane(
        &self,
        pool: &Pool<Live<'_>>,
        medium: &Recorder,
        returned: &Returned,
        root: PoolOffset,
        lane: usize,
    ) -> Result<Vec<Facts>, Violation> {
        let refused = |what: String| Violation::new(Broken::Refused, what);
        let seat = if self.shared_lane { 0 } else { lane };
        let mut kept = None;
        let mut facts = Vec::new();
        for (index, steps) in self.lanes[lane].iter().enumerate() {
            let mut runner = match kept.take() {
                Some(runner) => runner,
                None => loop {
                    match pool.lane_at(seat) {
                        Ok(runner) => break runner,
                        Err(_) if self.shared_lane => medium.pause(),
                        Err(error) => return Err(refused(error.to_string())),
                    }
                },
            };
            let id = script::tx_id(lane, index);
            if let [step @ (Step::Sync | Step::Look | Step::Stay | Step::After(_))] = &steps[..] {
                let mut durable = returned.list();
                match step {
                    Step::Sync => runner.sync().map_err(|abort| refused(abort.to_string()))?,
                    Step::Look => durable.retain(|(_, ticket)| pool.is_durable(*ticket)),
                    Step::After(count) => {
                        durable.clear();
                        medium.pause();
                        while returned.transactions.load(Ordering::Acquire) < *count {
                            medium.pause();
                        }
                    }
                    _ => {
                        durable.clear();
                        while returned.lanes_over.load(Ordering::Acquire) + 1 < self.lanes.len() {
                            medium.pause();
                        }
                    }
                }
                durable.into_iter().for_each(|(id, _)| medium.mark(Mark::Ack(id)));
                kept = Some(runner);
                continue;
            }
            let body = script::body(&self.shape, root, id, steps);
            let done = if steps.contains(&Step::Later) {
                runner.run_async(body).map(|(done, ticket)| (done, Some(ticket)))
            } else {
                runner.run(body).map(|done| (done, None))
            };
            let done = match done {
                Ok(done) => Some(done),
                Err(Abort::Cancelled(_)) => None,
                Err(abort) => return Err(refused(abort.to_string())),
            };
            returned.transactions.fetch_add(1, Ordering::AcqRel);
            if !self.shared_lane {
                kept = Some(runner);
            }
            let Some((done, ticket)) = done else { continue };
            match ticket {
                Some(ticket) => returned.add(id, ticket),
                None => medium.mark(Mark::Ack(id)),
            }
            facts.push(done);
        }
        drop(kept);
        returned.lanes_over.fetch_add(1, Ordering::AcqRel);
        Ok(facts)
    }

    fn verify(
        &self,
        config: &ScopeConfig,
        recorded: &Recorded,
        seen: &mut Seen,
        tally: &mut Tally,
    ) -> Result<Option<Failure>, TooWide> {
        let judge = match self.judge(config, recorded) {
            Ok(judge) => judge,
            Err(violation) => {
                let plan = recorded.plan.clone();
                tally.failure = Some(ScopeFailure { violation, plan, witness: None });
                return Ok(None);
            }
        };
        let acks = (0..recorded.log.len())
            .filter(|index| matches!(recorded.log.get(*index).1, Op::Ack(_)));
        let from_op = self.from_ack.checked_sub(1).and_then(|n| acks.clone().nth(n)).unwrap_or(0);
        let outcome = self
            .settings(config)
            .from_op(from_op)
            .images_max(config.images_max.saturating_sub(tally.counted()))
            .run_after(&recorded.base, &recorded.log, judge, seen)?;
        tally.take(&outcome);
        let failure = outcome.failures.into_iter().next();
        if let Some(failure) = &failure {
            tally.failure = Some(ScopeFailure {
                violation: failure.violation.clone(),
                plan: recorded.plan.clone(),
                witness: Some(failure.witness.to_string()),
            });
        }
        Ok(failure)
    }

    fn settings(&self, config: &ScopeConfig) -> Exhaustive {
        Exhaustive::new(config.model).crashes(self.crashes)
    }

    /// Who judges the images of a run.
    fn judge<'a>(
        &'a self,
        config: &ScopeConfig,
        recorded: &Recorded,
    ) -> Result<CellJudge<'a>, Violation> {
        let (scheme, plant) = (config.scheme, config.plant);
        CellJudge::new(&self.shape, recorded.root, scheme, plant, &recorded.facts)
            .map(|judge| judge.checking_rings(self.of_other_form).looking_for(config.wanted))
    }
}
