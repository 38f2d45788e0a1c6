//! A baton scheduler: threads that take turns at every operation, by a plan that can be replayed.
//!
//! Real threads run the lanes, but only the one that holds the baton moves. It may hand the baton
//! over before every operation of a [`Recorder`](crate::Recorder), and must when it says
//! [`pause`](crate::Medium::pause) and another lane can go on. Which lane comes next is decided
//! by a [`Plan`]: by a seed, in turn, or by an explicit list of [`Switch`]es. Every run reports
//! the switches that it made, so what a seed found is replayed, and shrunk, as an explicit plan;
//! [`Explorer`] walks through every plan up to a bound of preemptions.
//!
//! ```
//! use outlast_pmem::schedule::{self, Plan};
//! use outlast_pmem::{Medium, Recorder};
//! use outlast_trace::PoolOffset;
//!
//! let medium = Recorder::new(4096);
//! let add = || {
//!     let seen = medium.load_u64(PoolOffset(0));
//!     medium.store_u64(PoolOffset(0), seen + 1); // not atomic: another lane may come between
//! };
//! let plan: Plan = "seed 7 stay 128".parse().unwrap();
//! let run = schedule::run(&plan, vec![add, add]).unwrap();
//! assert!(run.lanes.iter().all(Result::is_ok));
//! assert!([1, 2].contains(&medium.load_u64(PoolOffset(0))));
//! ```
//!
//! A lane that neither ends nor touches the medium nor pauses cannot be interrupted: volatile
//! waiting must go through `pause`, and a mutex of std is taken by [`lock`]. A lane that waits
//! otherwise for one that is suspended ends the run, after a second, in [`ScheduleError::Blocked`].

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, LockResult, Mutex, MutexGuard, TryLockError};

use outlast_trace::LaneId;

mod baton;
mod explore;
mod plan;
#[cfg(test)]
mod tests;
mod watch;

use baton::{Baton, NOBODY, next_in_circle};
pub use explore::Explorer;
pub use plan::{ParsePlanError, Plan, Switch};
use watch::Limits;

/// Most lanes that one run can have.
pub const LANES_MAX: usize = 64;

/// Pauses in a row, by all lanes together and with no progress between, that count as a livelock.
const IDLE_MAX: u64 = 20_000;

/// Steps after which a run counts as endless, unless [`Scheduler::steps_max`] says otherwise.
const STEPS_MAX: u64 = 100_000_000;

/// Why a schedule could not be carried through. Each names the plan that replays it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ScheduleError {
    /// Every lane that has not ended waits for another one.
    #[error("every lane waits for another since step {step}; plan: {plan}")]
    Livelock {
        /// The step at which that was noticed.
        step: u64,
        /// The plan in force.
        plan: Plan,
    },
    /// The lanes did not end within the permitted number of steps.
    #[error("the lanes did not end within {steps} steps; plan: {plan}")]
    Endless {
        /// How many they took.
        steps: u64,
        /// The plan in force.
        plan: Plan,
    },
    /// An explicit plan names a lane that cannot run at that step: the program is not a function
    /// of its schedule, or the plan belongs to another program.
    #[error("lane {} cannot run at step {}; plan: {plan}", switch.lane.0, switch.step)]
    Diverged {
        /// The switch that could not be made.
        switch: Switch,
        /// The plan in force.
        plan: Plan,
    },
    /// A lane stands still where no scheduling point can interrupt it: for a second it slept
    /// while other lanes were suspended, or for a minute it ran.
    #[error(
        "lane {} stands still outside the medium while other lanes are suspended, waiting for a \
         lock or a channel of std perhaps; take a lock by `outlast_pmem::schedule::lock`, or say \
         `Medium::pause` while waiting; plan: {plan}", lane.0
    )]
    Blocked {
        /// The lane.
        lane: LaneId,
        /// The plan in force.
        plan: Plan,
    },
}

/// What came of a run.
#[derive(Debug)]
pub struct Run<R> {
    /// What each lane returned, or the payload of its panic.
    pub lanes: Vec<std::thread::Result<R>>,
    /// Where the lanes did otherwise than by default. As `Plan::Explicit` it replays the run.
    pub switches: Vec<Switch>,
    /// How many scheduling points there were.
    pub steps: u64,
    branches: Vec<Branch>,
}

impl<R> Run<R> {
    /// What each lane returned; goes on with the panic of the first lane that panicked.
    pub fn unwrap(self) -> Vec<R> {
        self.lanes
            .into_iter()
            .map(|lane| lane.unwrap_or_else(|payload| resume_unwind(payload)))
            .collect()
    }
}

/// A point at which another plan could have gone another way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Branch {
    step: u64,
    preempts: bool,
    alternatives: u64,
}

/// Runs `lanes` to their end under `plan`.
///
/// # Errors
/// See [`ScheduleError`]. A panicking lane is not an error: it ends, and the others go on.
///
/// # Panics
/// When there are more than [`LANES_MAX`] lanes.
pub fn run<R, F>(plan: &Plan, lanes: Vec<F>) -> Result<Run<R>, ScheduleError>
where
    R: Send,
    F: FnOnce() -> R + Send,
{
    Scheduler::new(plan).run(lanes)
}

/// The lane that the calling thread runs: set by a run, or by [`on_lane`], else lane 0.
#[inline]
pub fn current_lane() -> LaneId {
    LANE.get()
}

/// Runs `body` as `lane`, without any scheduler: lanes that take turns on one thread.
pub fn on_lane<R>(lane: LaneId, body: impl FnOnce() -> R) -> R {
    struct Restore(LaneId);
    impl Drop for Restore {
        fn drop(&mut self) {
            LANE.set(self.0);
        }
    }
    let _restore = Restore(LANE.replace(lane));
    body()
}

/// What a lane is about to do at a scheduling point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// Something that no waiting lane can be waiting for: a load, a flush.
    Look,
    /// Something that may let a waiting lane go on: a store, an unlock.
    Act,
    /// Nothing: it waits for another lane.
    Pause,
}

/// A scheduling point: the running lane may lose the baton here. Returns the lane, and at once
/// when the thread runs under no scheduler.
#[inline]
pub fn point(point: Point) -> LaneId {
    if SEATED.get() {
        pass(point);
    }
    LANE.get()
}

/// Whether the calling thread runs under a scheduler.
#[inline]
pub fn is_scheduled() -> bool {
    SEATED.get()
}

/// Takes a mutex of std. Under a scheduler the lane pauses while another one holds it, so that a
/// suspended holder can go on; elsewhere this is [`Mutex::lock`].
///
/// ```
/// use std::sync::Mutex;
/// use outlast_pmem::schedule::{self, Plan};
/// use outlast_pmem::{Medium, Recorder};
/// use outlast_trace::PoolOffset;
///
/// let (medium, mutex) = (Recorder::new(64), Mutex::new(()));
/// let add = || {
///     let _guard = schedule::lock(&mutex).unwrap();
///     let seen = medium.load_u64(PoolOffset(0));
///     medium.store_u64(PoolOffset(0), seen + 1);
/// };
/// schedule::run(&Plan::RoundRobin { operations: 1 }, vec![add, add]).unwrap().unwrap();
/// assert_eq!(medium.load_u64(PoolOffset(0)), 2);
/// ```
///
/// # Errors
/// When a holder has panicked, as [`Mutex::lock`].
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> LockResult<MutexGuard<'_, T>> {
    if !is_scheduled() {
        return mutex.lock();
    }
    point(Point::Look);
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
            Err(TryLockError::WouldBlock) => point(Point::Pause),
        };
    }
}

thread_local! {
    static LANE: Cell<LaneId> = const { Cell::new(LaneId(0)) };
    static SEATED: Cell<bool> = const { Cell::new(false) };
    static BATON: RefCell<Option<Arc<Baton>>> = const { RefCell::new(None) };
}

#[cold]
fn pass(point: Point) {
    let stop = BATON.with_borrow(|baton| {
        let baton = baton.as_ref().expect("a seated thread has a baton");
        baton.pass(LANE.get().0 as usize, point)
    });
    // A lane that unwinds already only has to come to its end.
    if stop && !std::thread::panicking() {
        resume_unwind(Box::new(Stopped));
    }
}

/// The payload with which lanes unwind after an error of the schedule.
struct Stopped;

/// A run being set up.
#[derive(Clone, Debug)]
pub struct Scheduler {
    plan: Plan,
    steps_max: u64,
    branches: bool,
    limits: Limits,
}

impl Scheduler {
    /// A run under `plan`.
    pub fn new(plan: &Plan) -> Self {
        let limits = Limits::default();
        Self { plan: plan.clone(), steps_max: STEPS_MAX, branches: false, limits }
    }

    /// After how many steps the run counts as endless; 100 million by default.
    pub fn steps_max(mut self, steps: u64) -> Self {
        self.steps_max = steps;
        self
    }

    /// The plan that the run will follow.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Keeps the branches that an explorer needs.
    fn branches(mut self) -> Self {
        self.branches = true;
        self
    }

    /// Runs `lanes` to their end.
    ///
    /// # Errors
    /// See [`ScheduleError`].
    ///
    /// # Panics
    /// When there are more than [`LANES_MAX`] lanes.
    pub fn run<R, F>(self, lanes: Vec<F>) -> Result<Run<R>, ScheduleError>
    where
        R: Send,
        F: FnOnce() -> R + Send,
    {
        assert!(lanes.len() <= LANES_MAX, "a schedule has at most {LANES_MAX} lanes");
        let limits = self.limits;
        let baton = Arc::new(Baton::new(self, lanes.len()));
        let results = std::thread::scope(|scope| {
            let handles: Vec<_> = lanes
                .into_iter()
                .enumerate()
                .map(|(lane, body)| {
                    let baton = Arc::clone(&baton);
                    scope.spawn(move || run_lane(baton, lane, body))
                })
                .collect();
            baton.start(handles.iter().map(|handle| handle.thread().clone()).collect());
            baton.watch(&limits);
            handles.into_iter().map(|handle| handle.join().flatten()).collect()
        });
        let mut state = baton.state();
        state.check_all_switched();
        match state.error.take() {
            Some(error) => Err(error),
            None => Ok(Run {
                lanes: results,
                switches: std::mem::take(&mut state.switches),
                steps: state.step,
                branches: std::mem::take(&mut state.branches),
            }),
        }
    }
}

fn run_lane<R>(baton: Arc<Baton>, lane: usize, body: impl FnOnce() -> R) -> std::thread::Result<R> {
    baton.tasks[lane].note();
    baton.await_turn(lane);
    LANE.set(LaneId(lane as u16));
    BATON.set(Some(Arc::clone(&baton)));
    SEATED.set(true);
    let result = if baton.state().error.is_some() {
        Err(Box::new(Stopped) as Box<dyn std::any::Any + Send>)
    } else {
        catch_unwind(AssertUnwindSafe(body))
    };
    SEATED.set(false);
    baton.end(lane);
    result
}
