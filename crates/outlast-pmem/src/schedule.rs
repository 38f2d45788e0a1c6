//! A baton scheduler: threads that take turns at every operation, by a plan that can be replayed.
//!
//! Real threads run the lanes, but only the one that holds the baton moves. It may hand the baton
//! over before every operation of a [`Recorder`](crate::Recorder), and must when it says
//! [`pause`](crate::Medium::pause) and another lane can go on. Which lane comes next is decided
//! by a [`Plan`]: by a seed, in turn, or by an explicit list of [`Switch`]es. Every run reports
//! the switches that it made, so what a seed found is replayed, and shrunk, as an explicit plan;
//! [`Explorer`] walks through every plan with at most so many preemptions.
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
//! waiting must go through `pause`.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

use outlast_trace::LaneId;

mod explore;
mod plan;
#[cfg(test)]
mod tests;

pub use explore::Explorer;
use plan::{Choice, Decider};
pub use plan::{ParsePlanError, Plan, Switch};

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
}

impl Scheduler {
    /// A run under `plan`.
    pub fn new(plan: &Plan) -> Self {
        Self { plan: plan.clone(), steps_max: STEPS_MAX, branches: false }
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

/// Nobody's turn.
const NOBODY: usize = usize::MAX;

struct Baton {
    turn: AtomicUsize,
    threads: OnceLock<Vec<Thread>>,
    /// Only the lane whose turn it is locks this, so it never waits.
    state: Mutex<State>,
}

struct State {
    plan: Plan,
    decider: Decider,
    steps_max: u64,
    step: u64,
    /// Lanes that have not ended.
    live: u64,
    /// Lanes that paused and have seen no progress by another lane since.
    waiting: u64,
    /// The running lane is past a point after which it acted.
    acted: bool,
    idle: u64,
    switches: Vec<Switch>,
    keep_branches: bool,
    branches: Vec<Branch>,
    error: Option<ScheduleError>,
}

impl Baton {
    fn new(scheduler: Scheduler, lanes: usize) -> Self {
        let state = State {
            decider: Decider::new(&scheduler.plan),
            plan: scheduler.plan,
            steps_max: scheduler.steps_max,
            step: 0,
            live: if lanes == LANES_MAX { u64::MAX } else { (1 << lanes) - 1 },
            waiting: 0,
            acted: false,
            idle: 0,
            switches: Vec::new(),
            keep_branches: scheduler.branches,
            branches: Vec::new(),
            error: None,
        };
        Self { turn: AtomicUsize::new(NOBODY), threads: OnceLock::new(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, threads: Vec<Thread>) {
        self.threads.set(threads).expect("a run starts once");
        let next = self.state().next_voluntary(None);
        self.hand_to(next);
    }

    fn hand_to(&self, next: Option<usize>) {
        if let Some(next) = next {
            self.turn.store(next, Ordering::Release);
            self.threads.get().expect("the run has started")[next].unpark();
        }
    }

    fn await_turn(&self, me: usize) {
        while self.turn.load(Ordering::Acquire) != me {
            std::thread::park();
        }
    }

    /// Returns whether the run was stopped.
    fn pass(&self, me: usize, point: Point) -> bool {
        let mut state = self.state();
        // After an error each lane unwinds at its next point. One that unwinds already may wait
        // for another in a destructor, so it must still be able to hand over.
        let unwinding = std::thread::panicking() && point == Point::Pause;
        if state.error.is_some() && !unwinding {
            return true;
        }
        let next = state.next_at(me, point);
        if next == me || (state.error.is_some() && !unwinding) {
            return state.error.is_some();
        }
        drop(state);
        self.hand_to(Some(next));
        self.await_turn(me);
        self.state().error.is_some()
    }

    fn end(&self, me: usize) {
        let mut state = self.state();
        state.live &= !(1 << me);
        state.progress();
        let next = state.next_voluntary(Some(me));
        drop(state);
        self.hand_to(next);
    }
}

impl State {
    fn progress(&mut self) {
        self.waiting = 0;
        self.idle = 0;
        self.acted = false;
    }

    fn next_at(&mut self, me: usize, point: Point) -> usize {
        if self.acted {
            self.progress();
        }
        match point {
            Point::Pause => self.waiting |= 1 << me,
            Point::Act => self.acted = true,
            Point::Look => {}
        }
        if point == Point::Pause {
            self.next_voluntary(Some(me)).unwrap_or(me)
        } else {
            self.next_preemptive(me)
        }
    }

    /// The running lane could go on: another one comes only if the plan says so.
    fn next_preemptive(&mut self, me: usize) -> usize {
        let others = self.live & !self.waiting & !(1 << me);
        self.decide(Choice { step: self.step, default: me, others, preempts: true })
    }

    /// The running lane cannot go on, or there is none: by default the next one in the circle.
    fn next_voluntary(&mut self, me: Option<usize>) -> Option<usize> {
        let mine = me.map_or(0, |me| 1u64 << me);
        let mut able = self.live & !self.waiting & !mine;
        if able == 0 && self.live != 0 {
            // All of them wait. Perhaps for something that no scheduling point showed, so each
            // gets another look, in turn; `idle` counts how often that was in vain.
            self.idle += 1;
            self.waiting = mine & self.live;
            able = self.live & !mine;
            if self.idle > IDLE_MAX {
                self.fail(ScheduleError::Livelock { step: self.step, plan: self.plan.clone() });
            }
        }
        if able == 0 {
            return me.filter(|me| self.live & (1 << me) != 0);
        }
        let default = me.map_or(able.trailing_zeros(), |me| next_in_circle(able, me)) as usize;
        let others = able & !(1 << default);
        Some(self.decide(Choice { step: self.step, default, others, preempts: false }))
    }

    fn decide(&mut self, choice: Choice) -> usize {
        self.step += 1;
        if self.step > self.steps_max {
            self.fail(ScheduleError::Endless { steps: self.steps_max, plan: self.plan.clone() });
        }
        if self.error.is_some() {
            return choice.default;
        }
        let chosen = match self.decider.decide(&choice) {
            Ok(lane) => lane,
            Err(switch) => {
                self.fail(ScheduleError::Diverged { switch, plan: self.plan.clone() });
                return choice.default;
            }
        };
        if chosen != choice.default {
            self.switches.push(Switch { step: choice.step, lane: LaneId(chosen as u16) });
        }
        if self.keep_branches && choice.others != 0 {
            self.branches.push(Branch {
                step: choice.step,
                preempts: choice.preempts,
                alternatives: choice.others,
            });
        }
        chosen
    }

    fn check_all_switched(&mut self) {
        if let Some(switch) = self.decider.leftover() {
            self.fail(ScheduleError::Diverged { switch, plan: self.plan.clone() });
        }
    }

    fn fail(&mut self, error: ScheduleError) {
        self.error.get_or_insert(error);
    }
}

/// The first member of `lanes` after `me`, going round.
fn next_in_circle(lanes: u64, me: usize) -> u32 {
    let above = if me + 1 == LANES_MAX { 0 } else { lanes & (u64::MAX << (me + 1)) };
    if above == 0 { lanes.trailing_zeros() } else { above.trailing_zeros() }
}
