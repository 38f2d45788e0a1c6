//! Every image that a crash may leave, recovered and judged.
//!
//! [`Exhaustive`] walks a recorded run. At each key point (`docs/fault-model.md`: just before an
//! event that raises a floor, and at the end) it runs recovery over and over. A unit gets its
//! content only when recovery touches it, depth first, each combination once. Gorjiara, Xu and
//! Demsky do so in their model checker ("Jaaru", ASPLOS 2021). An execution that leaves
//! units untouched stands for every content they may have. That nothing was left out is not
//! believed but counted: the images that the executions stand for must add up to the product of
//! all widths, at every key point.
//!
//! What recovery itself stores is recorded, and it is crashed in the same way: its history begins
//! at the image it recovered from, and what that image left open is still open.

use std::time::{Duration, Instant};

use outlast_trace::OpLog;

use crate::memory::count::Count;
use crate::memory::history::TooWide;
use crate::memory::image::{ImageMedium, Limits, Looked, OPS_MAX};
use crate::memory::model::Model;
use crate::memory::verdict::{Judge, Violation};
use crate::memory::witness::Witness;

mod assume;
mod coverage;
mod replay;
mod search;
mod seen;
#[cfg(test)]
mod tests;
mod trail;

pub(crate) use assume::{Assume, acknowledged_at, prefix};
pub use coverage::{Coverage, Widest};
pub(crate) use replay::LAST_ROW;
pub use replay::{OpenUnit, Replay, ReplayedCrash};
use search::Search;
pub use seen::Seen;
pub(crate) use trail::Told;

/// The exhaustive checker's settings.
///
/// ```
/// use outlast_check::memory::{Crash, Exhaustive, ImageMedium, Model, Violation};
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
/// # Ok::<(), outlast_check::memory::TooWide>(())
/// ```
#[derive(Clone, Debug)]
pub struct Exhaustive {
    model: Model,
    pub(crate) crashes: u32,
    pub(crate) failures_max: usize,
    images_max: u64,
    /// Whether crash points share those images, and with which seed what does not fit is drawn.
    sharing: Option<u64>,
    from_op: usize,
    distinct_max: usize,
    ops_max: u64,
    time_max: Duration,
    len_max: u64,
    atomic_line: bool,
    assume: Assume,
}

/// The result of an exhaustive check.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// By the number of crashes: crashes of the program first, then of its recovery, and so on.
    pub levels: Vec<Level>,
    /// The violations, in the order in which they were met.
    pub failures: Vec<Failure>,
    /// Crash points, of the program or inside a recovery, with a unit that has too many contents
    /// to enumerate; none where such a unit is an error.
    pub unchecked: Vec<Unchecked>,
    /// How many crash points of the program were checked, and how well.
    pub coverage: Coverage,
    /// Whether every allowed image was verified: no limit was hit, and nothing made it end early.
    pub complete: bool,
    /// How long it took.
    pub elapsed: Duration,
    /// The lines that some recovery has loaded from.
    pub(crate) looked: Looked,
}

/// A crash point that was not checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unchecked {
    /// The operation of the program before which the first crash came.
    pub op: usize,
    /// Why nothing was enumerated there.
    pub why: TooWide,
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
    /// Executions that were spared at crash points which are equal to earlier ones, whose images
    /// were all in order.
    pub remembered: u64,
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
            remembered: 0,
        }
    }
}

/// A violation and the image that shows it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{violation} (image: {witness})")]
pub struct Failure {
    /// The violation.
    pub violation: Violation,
    /// With which image.
    pub witness: Witness,
}

impl Outcome {
    /// Executions of recovery at all levels.
    pub fn images_verified(&self) -> u64 {
        self.levels.iter().map(|level| level.verified).sum()
    }

    /// Executions that equal crash points spared.
    pub fn images_remembered(&self) -> u64 {
        self.levels.iter().map(|level| level.remembered).sum()
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
            sharing: None,
            distinct_max: 1 << 22,
            from_op: 0,
            ops_max: OPS_MAX,
            time_max: Duration::MAX,
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

    /// Lets all crash points share [`images_max`](Self::images_max), so that none of them uses up
    /// what those behind it need. A crash point whose images do not fit into its share is sampled:
    /// nothing persisted, everything, each unit alone, each unit left out, then at random by
    /// `seed`. Images that other crash points leave over go to it in the end.
    pub fn sharing_images(mut self, seed: u64) -> Self {
        self.sharing = Some(seed);
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

    /// After how long a recovery that goes on using the medium counts as endless. No limit by
    /// default.
    pub fn recovery_time_max(mut self, time: Duration) -> Self {
        self.time_max = time;
        self
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits { ops: self.ops_max, time: self.time_max }
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

    /// No more executions of recovery than that.
    pub(crate) fn at_most_images(mut self, images: u64) -> Self {
        self.images_max = self.images_max.min(images);
        self
    }

    /// An equal part of the images for each of `runs`, after `used` images.
    pub(crate) fn images_left_for(&self, runs: u64, used: u64) -> u64 {
        match self.images_max {
            u64::MAX => u64::MAX,
            images => images.saturating_sub(used) / runs,
        }
    }

    /// The fault model in force.
    pub fn model(&self) -> Model {
        self.model
    }

    /// Checks a run on a medium that held `base` when `log` began, all of it durable.
    ///
    /// # Errors
    /// When a unit has too many contents to enumerate.
    pub fn run(&self, base: &[u8], log: &OpLog, judge: impl Judge) -> Result<Outcome, TooWide> {
        whole(self.run_all(base, log, judge))
    }

    /// As [`run`](Self::run), after others of runs on the same `base`, whose judges answered alike.
    ///
    /// # Errors
    /// When a unit has too many contents to enumerate.
    pub fn run_after(
        &self,
        base: &[u8],
        log: &OpLog,
        judge: impl Judge,
        seen: &mut Seen,
    ) -> Result<Outcome, TooWide> {
        whole(self.run_all_after(base, log, &mut { judge }, seen))
    }

    /// As [`run`](Self::run), and lists crash points with such a unit instead of ending there.
    pub fn run_all(&self, base: &[u8], log: &OpLog, judge: impl Judge) -> Outcome {
        self.run_all_after(base, log, &mut { judge }, &mut Seen::default())
    }

    fn run_all_after(
        &self,
        base: &[u8],
        log: &OpLog,
        judge: &mut dyn Judge,
        seen: &mut Seen,
    ) -> Outcome {
        let started = Instant::now();
        let mut search = Search::new(self, base, judge, seen);
        let ended = search.run(log);
        let found = search.finish();
        Outcome {
            complete: ended && found.is_complete(),
            levels: found.levels,
            failures: found.failures,
            unchecked: found.unchecked,
            coverage: found.coverage,
            elapsed: started.elapsed(),
            looked: found.looked,
        }
    }

    pub(crate) fn image(&self, base: &[u8]) -> ImageMedium {
        let image = ImageMedium::new(base).growing_to(self.len_max);
        if self.atomic_line { image.with_atomic_line() } else { image }
    }
}

/// The outcome, unless a unit was too wide.
fn whole(mut outcome: Outcome) -> Result<Outcome, TooWide> {
    if outcome.unchecked.is_empty() { Ok(outcome) } else { Err(outcome.unchecked.remove(0).why) }
}
