//! Testing somebody's own persistent program: findings, not just failures.
//!
//! [`Check`] runs a program on a recording medium, possibly on several lanes under many
//! schedules, enumerates what a crash may leave, runs the program's own recovery on each image
//! and asks its oracle. A failure is made small and explained: the same check runs again on
//! memory that is kinder in one respect, and the respect in which it must be kinder for the
//! failure to vanish is the class of the bug ([`Class`]).
//!
//! ```
//! use outlast_crash::{Check, Class, Crash, ImageMedium};
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

use std::time::{Duration, Instant};

use outlast_pmem::Recorder;
use outlast_pmem::schedule::{Plan, Scheduler};
use outlast_trace::{FlushKind, LaneId};

use crate::exhaustive::Exhaustive;
use crate::image::ImageMedium;
use crate::model::Model;
use crate::verdict::{Broken, Crash, Violation};

mod classify;
mod finding;
mod redundant;
mod report;
mod run;
mod search;

pub use finding::{Class, Finding, Place, Reproduction};
pub use report::Report;

/// Which interleavings of a program's lanes are tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Schedules {
    /// One.
    One(Plan),
    /// So many random ones; see [`Plan::Random`].
    Random {
        /// How many.
        count: u64,
        /// Of the first; the others follow.
        seed: u64,
        /// How sticky they are.
        stay: u8,
    },
    /// All with at most so many preemptions, up to a number of schedules.
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
    schedules: Schedules,
    settings: Exhaustive,
    flush_kind: FlushKind,
    atomic_line: bool,
    len_max: u64,
}

impl Check {
    /// A check on a medium of `len` zero bytes, with one lane, under the default fault model.
    pub fn new(len: u64) -> Self {
        Self::on_image(vec![0; len as usize])
    }

    /// A check on a medium that holds `bytes`.
    pub fn on_image(mut bytes: Vec<u8>) -> Self {
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        let model = Model::default();
        Self {
            len_max: bytes.len() as u64,
            base: bytes,
            lanes: 1,
            schedules: Schedules::One(Plan::default()),
            settings: Exhaustive::new(model),
            flush_kind: FlushKind::Clwb,
            atomic_line: false,
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

    /// Which interleavings are tried; without this only the one in which lanes follow each other.
    pub fn schedules(mut self, schedules: Schedules) -> Self {
        self.schedules = schedules;
        self
    }

    /// How many crashes may come one after the other; 2 by default.
    pub fn crashes(mut self, crashes: u32) -> Self {
        self.settings = self.settings.crashes(crashes);
        self
    }

    /// After how many executions of recovery a schedule is given up.
    pub fn images_max(mut self, images: u64) -> Self {
        self.settings = self.settings.images_max(images);
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

    /// Checks a program: `program` runs once on each lane, `recover` turns an image into a state
    /// (or says why it cannot), `oracle` says what is wrong with that state.
    ///
    /// `recover` may store to the image, and is crashed in turn. See [`Judge`] for what both may
    /// depend on.
    ///
    /// # Panics
    /// When the program itself panics, deadlocks, or is no function of its schedule; when it
    /// streams so much without a fence that one line has too many possible contents.
    pub fn run<S>(
        &self,
        program: impl Fn(LaneId, &Recorder) + Sync,
        recover: impl Fn(&ImageMedium) -> Result<S, String>,
        oracle: impl Fn(&S, &Crash<'_>) -> Result<(), Violation>,
    ) -> Report {
        let started = Instant::now();
        let judge = |image: &ImageMedium, crash: &Crash<'_>| {
            let state = recover(image).map_err(|why| Violation::new(Broken::Refused, why))?;
            oracle(&state, crash)
        };
        let mut report = Report {
            findings: Vec::new(),
            schedules: 0,
            images_verified: 0,
            complete: true,
            elapsed: Duration::ZERO,
        };
        self.run_schedules(&program, &judge, &mut report);
        report.elapsed = started.elapsed();
        report
    }

    /// Runs one named image again. Returns what is wrong with it.
    ///
    /// # Errors
    /// The violation, if it still shows.
    ///
    /// # Panics
    /// As [`run`](Self::run), and when the reproduction belongs to another program.
    pub fn reproduce<S>(
        &self,
        reproduction: &Reproduction,
        program: impl Fn(LaneId, &Recorder) + Sync,
        recover: impl Fn(&ImageMedium) -> Result<S, String>,
        oracle: impl Fn(&S, &Crash<'_>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let ran = self.record(Scheduler::new(&reproduction.plan), &reproduction.plan, &program);
        let judge = |image: &ImageMedium, crash: &Crash<'_>| {
            let state = recover(image).map_err(|why| Violation::new(Broken::Refused, why))?;
            oracle(&state, crash)
        };
        let replay = self.settings.replay(&self.base, &ran.log, &reproduction.witness, judge);
        replay.unwrap_or_else(|wide| panic!("{wide}")).verdict
    }
}
