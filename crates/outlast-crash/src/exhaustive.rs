//! Every image that a crash may leave, recovered and judged.
//!
//! [`Exhaustive`] walks a recorded run. At each key point (`docs/fault-model.md`: just before an
//! event that raises a floor, and at the end) it runs recovery over and over, and a unit gets its
//! content only when recovery touches it: depth first, each combination once, as Gorjiara, Xu
//! and Demsky do it for their model checker ("Jaaru", ASPLOS 2021). An execution that leaves
//! units untouched stands for every content they may have. That nothing was left out is not
//! believed but counted: the images that the executions stand for must add up to the product of
//! all widths, at every key point.
//!
//! What recovery itself stores is recorded, and it is crashed in the same way: its history begins
//! at the image it recovered from, and what that image left open is still open.

use std::time::{Duration, Instant};

use outlast_trace::{LaneId, Op, OpLog, PoolOffset};
use rustc_hash::FxHashSet;

use crate::count::Count;
use crate::history::TooWide;
use crate::history::tracker::{Raise, Tracker};
use crate::image::{ImageMedium, Mode, OPS_MAX, State};
use crate::model::Model;
use crate::verdict::{Broken, Crash, Judge, Violation, judge};
use crate::witness::{CrashPoint, Pick, Witness};

mod assume;
mod replay;
#[cfg(test)]
mod tests;
mod trail;

pub(crate) use assume::Assume;
pub use replay::{OpenUnit, Replay, ReplayedCrash};
pub(crate) use trail::{Told, window_end};

/// The exhaustive checker's settings.
///
/// ```
/// use outlast_crash::{Crash, Exhaustive, ImageMedium, Model, Violation};
/// use outlast_pmem::{Mark, Medium, Recorder};
/// use outlast_trace::{PoolOffset, TxId};
///
/// let medium = Recorder::new(128);
/// medium.store_u64(PoolOffset(0), 1);
/// medium.flush_range(PoolOffset(0), 8);
/// medium.mark(Mark::Ack(TxId(1))); // a fence is missing before this
///
/// let verify = |image: &ImageMedium, crash: &Crash<'_>| match image.load_u64(PoolOffset(0)) {
///     0 if crash.acked.contains(&TxId(1)) => Err(Violation::from("transaction 1 is lost")),
///     _ => Ok(()),
/// };
/// let outcome = Exhaustive::new(Model::default()).run(&[0; 128], &medium.take_log(), verify)?;
/// assert_eq!(outcome.failures[0].witness.to_string(), "op 3");
/// # Ok::<(), outlast_crash::TooWide>(())
/// ```
#[derive(Clone, Debug)]
pub struct Exhaustive {
    model: Model,
    pub(crate) crashes: u32,
    pub(crate) failures_max: usize,
    images_max: u64,
    from_op: usize,
    distinct_max: usize,
    pub(crate) ops_max: u64,
    len_max: u64,
    atomic_line: bool,
    assume: Assume,
}

/// What an exhaustive check found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// By the number of crashes: crashes of the program first, then of its recovery, and so on.
    pub levels: Vec<Level>,
    /// The violations, in the order in which they were met.
    pub failures: Vec<Failure>,
    /// Whether every allowed image was verified: no limit was hit, and nothing made it end early.
    pub complete: bool,
    /// How long it took.
    pub elapsed: Duration,
}

/// Numbers for crashes of one level.
#[derive(Clone, Debug)]
pub struct Level {
    /// Crash points at which images were enumerated.
    pub key_points: u64,
    /// Allowed images, summed over key points: different bytes at one key point, or different
    /// key points.
    pub allowed: Count,
    /// Allowed images that an execution of recovery stood for. Equal to `allowed` where the check
    /// is complete.
    pub covered: Count,
    /// Choices in the sense of rule 4, of which several may give one image.
    pub choices: Count,
    /// Executions of recovery, each with its judgement.
    pub verified: u64,
    /// Different (image, acknowledged transactions) among them, as far as recovery looked.
    pub distinct: u64,
    /// Recoveries whose own crashes were not enumerated again, since an equal image with an equal
    /// recovery had been.
    pub repeated: u64,
}

impl Default for Level {
    fn default() -> Self {
        Self {
            key_points: 0,
            allowed: Count::ZERO,
            covered: Count::ZERO,
            choices: Count::ZERO,
            verified: 0,
            distinct: 0,
            repeated: 0,
        }
    }
}

/// A violation and the image that shows it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{violation} (image: {witness})")]
pub struct Failure {
    /// What is wrong.
    pub violation: Violation,
    /// With which image.
    pub witness: Witness,
}

impl Outcome {
    /// Executions of recovery at all levels.
    pub fn images_verified(&self) -> u64 {
        self.levels.iter().map(|level| level.verified).sum()
    }

    /// Different images among them.
    pub fn images_distinct(&self) -> u64 {
        self.levels.iter().map(|level| level.distinct).sum()
    }

    /// Executions of recovery per second.
    pub fn verify_rate(&self) -> f64 {
        self.images_verified() as f64 / self.elapsed.as_secs_f64()
    }
}

impl Exhaustive {
    /// A check under `model`, with a second crash, that ends at the first failure.
    pub fn new(model: Model) -> Self {
        Self {
            model,
            crashes: 2,
            failures_max: 1,
            images_max: u64::MAX,
            distinct_max: 1 << 22,
            from_op: 0,
            ops_max: OPS_MAX,
            len_max: 0,
            atomic_line: false,
            assume: Assume::Nothing,
        }
    }

    /// How many crashes may come one after the other, at least 1: with 2, the default, recovery
    /// is crashed everywhere too.
    pub fn crashes(mut self, crashes: u32) -> Self {
        self.crashes = crashes.max(1);
        self
    }

    /// After how many failures to give up, at least 1; 1 by default.
    pub fn failures_max(mut self, failures: usize) -> Self {
        self.failures_max = failures.max(1);
        self
    }

    /// After how many executions of recovery to give up; the outcome is then not complete.
    pub fn images_max(mut self, images: u64) -> Self {
        self.images_max = images;
        self
    }

    /// The program's first operations before which no crash is tried.
    pub fn from_op(mut self, op: usize) -> Self {
        self.from_op = op;
        self
    }

    /// Up to how many distinct images to count; 16 bytes or so are kept of each.
    pub fn distinct_max(mut self, images: usize) -> Self {
        self.distinct_max = images;
        self
    }

    /// After how many operations a recovery counts as endless.
    pub fn recovery_ops_max(mut self, ops: u64) -> Self {
        self.ops_max = ops;
        self
    }

    /// Up to how many bytes recovery may make the medium grow.
    pub fn growing_to(mut self, len: u64) -> Self {
        self.len_max = len;
        self
    }

    /// Gives recovery a medium with MOVDIR64B.
    pub fn with_atomic_line(mut self) -> Self {
        self.atomic_line = true;
        self
    }

    /// The same settings under another fault model.
    pub(crate) fn with_model(mut self, model: Model) -> Self {
        self.model = model;
        self
    }

    /// Takes more for granted than the model does.
    pub(crate) fn assuming(mut self, assume: Assume) -> Self {
        self.assume = assume;
        self
    }

    /// The fault model in force.
    pub fn model(&self) -> Model {
        self.model
    }

    /// Checks a run on a medium that held `base` when `log` began, all of it durable.
    ///
    /// # Errors
    /// When a unit has too many contents to enumerate.
    pub fn run(&self, base: &[u8], log: &OpLog, mut judge: impl Judge) -> Result<Outcome, TooWide> {
        let started = Instant::now();
        let mut search = Search::new(self, base, &mut judge);
        let ended = search.explore(1, log, &Told::default())?;
        Ok(Outcome {
            complete: ended == Flow::On
                && search.failures.is_empty()
                && !search.image.with(|state| state.open.has_guessed()),
            levels: search.levels,
            failures: search.failures,
            elapsed: started.elapsed(),
        })
    }

    pub(crate) fn image(&self, base: &[u8]) -> ImageMedium {
        let image = ImageMedium::new(base).growing_to(self.len_max);
        if self.atomic_line { image.with_atomic_line() } else { image }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    On,
    Stop,
}

struct Search<'a, J> {
    settings: &'a Exhaustive,
    image: ImageMedium,
    judge: &'a mut J,
    levels: Vec<Level>,
    distinct: Vec<FxHashSet<u128>>,
    nested: FxHashSet<u128>,
    /// The crashes that led to the recovery being crashed now.
    path: Vec<CrashPoint>,
    failures: Vec<Failure>,
    verified: u64,
    logs: Vec<OpLog>,
}

impl<'a, J: Judge> Search<'a, J> {
    fn new(settings: &'a Exhaustive, base: &[u8], judge: &'a mut J) -> Self {
        let levels = settings.crashes as usize;
        Self {
            settings,
            image: settings.image(base),
            judge,
            levels: vec![Level::default(); levels],
            distinct: vec![FxHashSet::default(); levels],
            nested: FxHashSet::default(),
            path: Vec::new(),
            failures: Vec::new(),
            verified: 0,
            logs: Vec::new(),
        }
    }

    /// Crashes a run, or a recovery, at all its key points.
    fn explore(&mut self, level: u32, log: &OpLog, before: &Told) -> Result<Flow, TooWide> {
        let mut tracker = self.settings.assume.tracker(self.settings.model);
        let log = &*self.settings.assume.rewrite(log);
        let told = before.with(log);
        for index in 0..log.len() {
            let (lane, op) = log.get(index);
            let is_tried = level > 1 || index >= self.settings.from_op;
            for part in 0..tracker.parts(&op) {
                if let Some(raise) = tracker.raises(lane, &op, part).filter(|_| is_tried) {
                    let until = match raise {
                        Raise::Issued => index,
                        Raise::Drained => window_end(log, index),
                    };
                    let point = CrashPoint { op: index, part, told: until, picks: Vec::new() };
                    if self.key_point(level, &tracker, point, &told)? == Flow::Stop {
                        return Ok(Flow::Stop);
                    }
                }
                self.image.with(|state| state.play(&mut tracker, index, lane, &op, part));
            }
        }
        let end = CrashPoint { op: log.len(), part: 0, told: log.len(), picks: Vec::new() };
        self.key_point(level, &tracker, end, &told)
    }

    /// Tries every combination of contents at one crash point.
    fn key_point(
        &mut self,
        level: u32,
        tracker: &Tracker,
        point: CrashPoint,
        told: &Told,
    ) -> Result<Flow, TooWide> {
        let frame = self.image.with(|state| {
            if level == 1 {
                // The program's own crash points are never come back to.
                state.memory.clear_journal();
            }
            state.open.push(tracker, &state.memory)
        })?;
        let whole = self.image.with(|state| state.open.whole());
        let crash = told.crash(level, &point);
        let stats = &mut self.levels[level as usize - 1];
        stats.key_points += 1;
        stats.allowed = stats.allowed.plus(whole);
        stats.choices = stats.choices.plus(frame.choices);
        let told_print = told.print(&crash);
        let mut covered = Count::ZERO;
        let mut flow = Flow::On;
        loop {
            covered = covered.plus(self.leaf(&point, &crash, told_print, &mut flow)?);
            if flow == Flow::Stop || !self.image.with(|state| state.open.advance()) {
                break;
            }
        }
        assert!(
            flow == Flow::Stop || covered.agrees_with(whole),
            "the images verified at {point:?} add up to {covered} and not to {whole}"
        );
        let stats = &mut self.levels[level as usize - 1];
        stats.covered = stats.covered.plus(covered);
        self.image.with(|state| {
            state.open.forget();
            state.open.pop(frame, Some(&mut state.memory));
        });
        Ok(flow)
    }

    /// One execution of recovery, and the crashes of this recovery. Returns how many images the
    /// execution stands for.
    fn leaf(
        &mut self,
        point: &CrashPoint,
        crash: &Crash<'_>,
        told_print: u128,
        flow: &mut Flow,
    ) -> Result<Count, TooWide> {
        let another = crash.level < self.settings.crashes;
        let go_on = another || crash.level == 1;
        self.image.with(|state| state.begin(another, self.settings.ops_max));
        let mut verdict = judge(self.judge, &self.image, crash, go_on);
        self.verified += 1;
        let (rest, print, changed) = self.image.with(|state| {
            if state.open.has_strayed() {
                let why = "recovered from the same contents, it looked at other lines than before";
                verdict = Err(Violation::new(Broken::Strayed, why));
            }
            (state.open.rest(), state.open.fingerprint(&state.memory), state.has_changed())
        });
        let print = print.wrapping_add(told_print);
        self.count(crash.level, print);
        match verdict {
            Err(violation) => {
                let strayed = violation.broken == Broken::Strayed;
                self.fail(point, violation);
                if strayed || self.failures.len() >= self.settings.failures_max {
                    *flow = Flow::Stop;
                }
                self.image.with(State::revert);
            }
            Ok(()) if another && changed => *flow = self.nest(point, crash, print)?,
            Ok(()) => self.image.with(State::revert),
        }
        self.image.with(State::undecide);
        if self.verified >= self.settings.images_max {
            *flow = Flow::Stop;
        }
        Ok(rest)
    }

    fn count(&mut self, level: u32, print: u128) {
        let stats = &mut self.levels[level as usize - 1];
        stats.verified += 1;
        let seen = &mut self.distinct[level as usize - 1];
        if seen.len() < self.settings.distinct_max && seen.insert(print) {
            stats.distinct += 1;
        }
    }

    fn fail(&mut self, point: &CrashPoint, violation: Violation) {
        let mut crashes = self.with_picks(point);
        self.image.with(|state| state.add_representatives(&mut crashes));
        self.failures.push(Failure { violation, witness: Witness { crashes } });
    }

    /// The crashes up to this point, with what the last recovery decided.
    fn with_picks(&self, point: &CrashPoint) -> Vec<CrashPoint> {
        let mut crashes = self.path.clone();
        crashes.push(point.clone());
        self.image.with(|state| state.add_picks(&mut crashes));
        crashes
    }

    /// Crashes the recovery that has just run.
    fn nest(
        &mut self,
        point: &CrashPoint,
        crash: &Crash<'_>,
        print: u128,
    ) -> Result<Flow, TooWide> {
        let mut log = self.logs.pop().unwrap_or_default();
        self.image.with(|state| {
            state.swap_log(&mut log);
            state.revert();
        });
        let stats = &mut self.levels[crash.level as usize - 1];
        let mut flow = Flow::On;
        if self.nested.insert(print.wrapping_add(trail::log_print(&log))) {
            let inner = self.with_picks(point);
            let outer = std::mem::replace(&mut self.path, inner);
            let settled = self.image.with(State::settle);
            let before = Told::of(crash.acked, crash.begun);
            flow = self.explore(crash.level + 1, &log, &before)?;
            self.image.with(|state| state.unsettle(settled));
            self.path = outer;
        } else {
            stats.repeated += 1;
        }
        self.logs.push(log);
        Ok(flow)
    }
}

/// What all drivers do with an image's state.
impl State {
    /// Lets one part of an operation take effect on what is durable.
    pub(crate) fn play(
        &mut self,
        tracker: &mut Tracker,
        index: usize,
        lane: LaneId,
        op: &Op<'_>,
        part: usize,
    ) {
        tracker.apply(index, lane, op, part, &mut self.memory);
        if let Op::Grow { len } = *op {
            self.open.resize(len);
        }
    }

    /// Notes what the running recovery decided otherwise than at its floor, each with the crash
    /// that had left it open: a recovery may be the first to look at what an earlier crash left.
    pub(crate) fn add_picks(&self, crashes: &mut [CrashPoint]) {
        for decision in self.open.decisions().iter().filter(|decision| decision.row != 0) {
            let at = PoolOffset(self.open.name(decision.unit) * 8);
            crashes[self.open.crash_of(decision.unit)].picks.push(Pick { at, row: decision.row });
        }
    }

    /// Notes one content of what is known only to be refused, or to pass.
    fn add_representatives(&self, crashes: &mut [CrashPoint]) {
        for (unit, row) in self.open.representatives() {
            let at = PoolOffset(self.open.name(unit) * 8);
            crashes[self.open.crash_of(unit)].picks.push(Pick { at, row });
        }
    }

    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.open.set_mode(mode);
    }
}
