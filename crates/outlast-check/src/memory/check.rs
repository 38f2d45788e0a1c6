//! Testing a user's own persistent program: findings, not just failures.
//!
//! [`Check`] runs a program on a recording medium, possibly on several lanes under many
//! schedules, enumerates what a crash may leave, runs the program's own recovery on each image
//! and asks its oracle. A failure is made small and explained: the same check runs again on
//! memory that is kinder in one respect, and the respect in which it must be kinder for the
//! failure to vanish is the class of the bug ([`Class`]).
//!
//! ```
//! use outlast_check::memory::{Check, Class, Crash, ImageMedium};
//! use outlast_pmem::{Mark, Medium, Recorder};
//! use outlast_trace::{LaneId, PoolOffset, TxId};
//!
//! const VALUE: PoolOffset = PoolOffset(64);
//! const VALID: PoolOffset = PoolOffset(0);
//!
//! fn publish<M: Medium>(medium: &M) {
//!     medium.store_u64(VALUE, 42);
//!     medium.flush(VALUE.line()); // a fence is missing here
//!     medium.store_u64(VALID, 1);
//!     medium.flush(VALID.line());
//!     medium.fence();
//!     medium.mark(Mark::Ack(TxId(1)));
//! }
//!
//! fn recover<M: Medium>(medium: &M) -> Option<u64> {
//!     (medium.load_u64(VALID) == 1).then(|| medium.load_u64(VALUE))
//! }
//!
//! let report = Check::new(128).run(
//!     |_lane: LaneId, medium: &Recorder| publish(medium),
//!     |image: &ImageMedium| Ok(recover(image)),
//!     |state: &Option<u64>, crash: &Crash<'_>| match state {
//!         None if crash.acked.is_empty() => Ok(()),
//!         Some(42) => Ok(()),
//!         other => Err(format!("found {other:?}").into()),
//!     },
//! );
//! let finding = &report.findings[0];
//! assert_eq!(finding.class, Class::MissingFence);
//! assert_eq!(finding.place.line, Some(VALUE.line()));
//! assert!(report.has_failures());
//! ```
//!
//! # The end of a check
//!
//! The search goes from the simple to the involved: one crash everywhere before two, schedules
//! with few preemptions before those with more. The first failure ends it.
//!
//! A panic of the program, of recovery or of the oracle is a finding, with its message and line
//! and without a word on standard error. So is a run or a recovery with too many operations on
//! the medium ([`Check::program_ops_max`], [`Check::recovery_ops_max`]) or one that takes too
//! long ([`Check::time_max`]). Two things cannot be caught: an overflowing stack, which ends the
//! process, and a loop that never touches the medium, which no thread can interrupt; the latter
//! is named on standard error before the process ends.
//!
//! A schedule may take [`Check::images_max`] executions of recovery. Each crash point has a share
//! of them; one with more images is sampled: nothing persisted, everything, each unit of the
//! image alone, each left out, then at random. [`Report::coverage`] says how many crash points
//! were enumerated, sampled, or not visited, and [`Report::complete`] whether nothing is missing.
//!
//! Streamed words become durable one by one, so a record of *n* words has 2ⁿ images. A recovery
//! that says by [`Medium::verify`](outlast_pmem::Medium::verify) that it uses them only through
//! the verdict of a checksum is run on one content that the checksum refuses.
//!
//! # Lanes
//!
//! [`Check::lanes`] run at once, one at a time: at every operation another one may go on. Where
//! no [`schedules`](Check::schedules) are given, each lane is interrupted once at each of its
//! operations. State that lanes share beside the medium is made afresh for each schedule
//! ([`Check::run_with`]). A lane must not wait for another one without saying so by
//! [`pause`](outlast_pmem::Medium::pause); a mutex of std is taken by
//! [`schedule::lock`](outlast_pmem::schedule::lock). One that does wait is a finding, a second
//! later.
//!
//! # Needless flushes
//!
//! Flushes that write back nothing, fences with nothing to wait for, lines that are persisted and
//! never read are findings that [lose nothing](Class::only_costs_time): only if they are needless
//! in every schedule that was run. A lane that flushes what another one has stored, before it
//! relies on it, does nothing needless.

use std::time::{Duration, Instant};

use outlast_pmem::Recorder;
use outlast_pmem::schedule::Plan;
use outlast_trace::{FlushKind, LaneId};

use crate::memory::exhaustive::Exhaustive;
use crate::memory::image::ImageMedium;
use crate::memory::model::Model;
use crate::memory::verdict::{Broken, Crash, Violation};

mod callers;
mod classify;
mod costs;
mod evidence;
mod finding;
mod places;
mod program;
mod report;
mod run;
mod search;
mod stall;
mod told;

pub use callers::Caller;
pub(crate) use classify::{stored_bytes, stored_words};
pub use finding::{Acknowledged, Class, Finding, Held, Line, Place, Reproduction};
use program::Lanes;
pub use report::Report;
pub(crate) use run::lines_of;
use stall::Watch;

/// Which interleavings of a program's lanes are tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Schedules {
    /// One.
    One(Plan),
    /// A number of random ones; see [`Plan::Random`].
    Random {
        /// How many.
        count: u64,
        /// Of the first; the others follow.
        seed: u64,
        /// How sticky they are.
        stay: u8,
    },
    /// All with at most a number of preemptions, up to a number of schedules.
    Preemptions {
        /// How many preemptions.
        bound: u32,
        /// After how many schedules to end; the report says whether all were run.
        schedules_max: u64,
    },
}

/// A check of a persistent program.
#[derive(Clone, Debug)]
pub struct Check {
    base: Vec<u8>,
    lanes: u16,
    schedules: Option<Schedules>,
    settings: Exhaustive,
    flush_kind: FlushKind,
    atomic_line: bool,
    len_max: u64,
    program_ops_max: u64,
    time_max: Duration,
}

/// Operations after which a program counts as endless, unless told otherwise. Each costs some 50
/// bytes of memory.
const PROGRAM_OPS_MAX: u64 = 4_000_000;

/// Executions of recovery that a schedule may take, unless told otherwise.
const IMAGES_MAX: u64 = 1_000_000;

/// Operations after which a recovery counts as endless, unless told otherwise: a constant, and
/// those added for each word of the medium.
const RECOVERY_OPS_MAX: (u64, u64) = (1_000_000, 64);

/// How long a recovery with its oracle may take.
const TIME_MAX: Duration = Duration::from_secs(60);

impl Check {
    /// A check on a medium of `len` zero bytes, with one lane, under the default fault model.
    pub fn new(len: u64) -> Self {
        Self::on_image(vec![0; len as usize])
    }

    /// A check on a medium that holds `bytes`.
    pub fn on_image(mut bytes: Vec<u8>) -> Self {
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        let model = Model::default();
        let words = bytes.len() as u64 / 8;
        let ops = RECOVERY_OPS_MAX.0 + RECOVERY_OPS_MAX.1 * words;
        let settings = Exhaustive::new(model)
            .images_max(IMAGES_MAX)
            .sharing_images(0)
            .recovery_ops_max(ops)
            .recovery_time_max(TIME_MAX);
        Self {
            len_max: bytes.len() as u64,
            base: bytes,
            lanes: 1,
            schedules: None,
            settings,
            flush_kind: FlushKind::Clwb,
            atomic_line: false,
            program_ops_max: PROGRAM_OPS_MAX,
            time_max: TIME_MAX,
        }
    }

    /// Lets `setup` prepare the medium. It is not crashed: all that it stores is durable when the
    /// program begins.
    pub fn prepared(mut self, setup: impl FnOnce(&Recorder)) -> Self {
        let medium = self.recorder();
        setup(&medium);
        self.base = medium.to_bytes();
        self
    }

    /// The fault model.
    pub fn model(mut self, model: Model) -> Self {
        self.settings = self.settings.with_model(model);
        self
    }

    /// How many lanes run the program at once.
    pub fn lanes(mut self, lanes: u16) -> Self {
        self.lanes = lanes;
        self
    }

    /// Which interleavings are tried; by default, where there are several lanes, all in which one
    /// lane is interrupted at most once, and no more than 10,000 of them.
    pub fn schedules(mut self, schedules: Schedules) -> Self {
        self.schedules = Some(schedules);
        self
    }

    /// How many crashes may come one after the other; 2 by default.
    pub fn crashes(mut self, crashes: u32) -> Self {
        self.settings = self.settings.crashes(crashes);
        self
    }

    /// How many executions of recovery a schedule may take; a million by default. Its crash points
    /// share them, and one whose images do not fit into its share is sampled: see
    /// [`Report::coverage`].
    pub fn images_max(mut self, images: u64) -> Self {
        self.settings = self.settings.images_max(images);
        self
    }

    /// The seed of samples; 0 by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings = self.settings.sharing_images(seed);
        self
    }

    /// Up to how many bytes the medium can grow.
    pub fn growing_to(mut self, len: u64) -> Self {
        self.len_max = len;
        self.settings = self.settings.growing_to(len);
        self
    }

    /// By which instruction the program flushes; `clwb` by default.
    pub fn flushing_with(mut self, kind: FlushKind) -> Self {
        self.flush_kind = kind;
        self
    }

    /// Gives the program MOVDIR64B.
    pub fn with_atomic_line(mut self) -> Self {
        self.atomic_line = true;
        self.settings = self.settings.with_atomic_line();
        self
    }

    /// After how many operations on the medium, of all lanes together, a run of the program
    /// counts as endless; 4 million by default.
    pub fn program_ops_max(mut self, ops: u64) -> Self {
        self.program_ops_max = ops;
        self
    }

    /// After how many operations on the image a recovery counts as endless; by default a million,
    /// and 64 for each word of the medium.
    pub fn recovery_ops_max(mut self, ops: u64) -> Self {
        self.settings = self.settings.recovery_ops_max(ops);
        self
    }

    /// After how long a recovery with its oracle counts as endless; a minute by default.
    ///
    /// A recovery that goes on using its image is a finding. Code that touches no medium cannot
    /// be interrupted: one line on standard error names the crash, and the process ends with
    /// status 101.
    pub fn time_max(mut self, time: Duration) -> Self {
        self.time_max = time;
        self.settings = self.settings.recovery_time_max(time);
        self
    }

    /// Checks a program: `program` runs once on each lane, `recover` turns an image into a state
    /// (or says why it cannot), `oracle` says what is wrong with that state.
    ///
    /// `recover` may store to the image, and is crashed in turn. See [`Judge`](crate::memory::Judge) for
    /// what both may depend on. A panic or an endless loop of any of the three is a finding, and
    /// so is a crash point that cannot be checked.
    ///
    /// # Panics
    /// When there are more lanes than [`LANES_MAX`](outlast_pmem::schedule::LANES_MAX).
    pub fn run<S>(
        &self,
        program: impl Fn(LaneId, &Recorder) + Sync,
        recover: impl Fn(&ImageMedium) -> Result<S, String>,
        oracle: impl Fn(&S, &Crash<'_>) -> Result<(), Violation>,
    ) -> Report {
        self.run_with(|| (), |lane, medium, ()| program(lane, medium), recover, oracle)
    }

    /// As [`run`](Self::run), for lanes that share volatile state: locks, flags, an index. It is
    /// made by `share` for each run of the program, so that none begins with what another left.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn run_with<T: Sync, S>(
        &self,
        share: impl Fn() -> T + Sync,
        program: impl Fn(LaneId, &Recorder, &T) + Sync,
        recover: impl Fn(&ImageMedium) -> Result<S, String>,
        oracle: impl Fn(&S, &Crash<'_>) -> Result<(), Violation>,
    ) -> Report {
        let started = Instant::now();
        let mut report = Report::default();
        Watch::over(self.time_max, |watch| {
            let judge = judged_by(watch, &recover, &oracle);
            self.run_schedules(&Lanes { share, program }, &judge, &mut report);
        });
        report.elapsed = started.elapsed();
        report
    }

    /// Runs one named image again. Returns its violation.
    ///
    /// # Errors
    /// The violation, if it still shows; one that is [`Broken::NoSuchImage`] where the program has
    /// changed since, so that no crash of it leaves this image.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn reproduce<S>(
        &self,
        reproduction: &Reproduction,
        program: impl Fn(LaneId, &Recorder) + Sync,
        recover: impl Fn(&ImageMedium) -> Result<S, String>,
        oracle: impl Fn(&S, &Crash<'_>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let program = |lane: LaneId, medium: &Recorder, (): &()| program(lane, medium);
        self.reproduce_with(reproduction, || (), program, recover, oracle)
    }

    /// As [`reproduce`](Self::reproduce), for a finding of [`run_with`](Self::run_with).
    ///
    /// # Errors
    /// As [`reproduce`](Self::reproduce).
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn reproduce_with<T: Sync, S>(
        &self,
        reproduction: &Reproduction,
        share: impl Fn() -> T + Sync,
        program: impl Fn(LaneId, &Recorder, &T) + Sync,
        recover: impl Fn(&ImageMedium) -> Result<S, String>,
        oracle: impl Fn(&S, &Crash<'_>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        Watch::over(self.time_max, |watch| {
            let judge = judged_by(watch, &recover, &oracle);
            self.judge_again(reproduction, &Lanes { share, program }, &judge)
        })
    }
}

/// Recovery and oracle as one judge.
fn judged_by<S>(
    watch: &Watch,
    recover: &impl Fn(&ImageMedium) -> Result<S, String>,
    oracle: &impl Fn(&S, &Crash<'_>) -> Result<(), Violation>,
) -> impl Fn(&ImageMedium, &Crash<'_>) -> Result<(), Violation> {
    move |image, crash| {
        watch.recovery(crash, || {
            let state = recover(image).map_err(|why| Violation::new(Broken::Refused, why))?;
            oracle(&state, crash)
        })
    }
}
