//! The baton: whose turn it is, and what a plan has made of the run so far.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

use outlast_trace::LaneId;

use super::plan::{Choice, Decider};
use super::watch::Task;
use super::{Branch, IDLE_MAX, LANES_MAX, Plan, Point, ScheduleError, Scheduler, Switch};

/// No lane's turn.
pub(super) const NOBODY: usize = usize::MAX;

pub(super) struct Baton {
    pub(super) turn: AtomicUsize,
    pub(super) threads: OnceLock<Vec<Thread>>,
    /// Only the lane whose turn it is locks this, so it does not wait before the run is given up.
    pub(super) state: Mutex<State>,
    /// The lane that took the baton and has not handed it on.
    pub(super) busy: AtomicUsize,
    /// Scheduling points that were come to.
    pub(super) ticks: AtomicU64,
    /// Lanes that have not ended.
    pub(super) live: AtomicU64,
    /// The run was given up: turns no longer count.
    pub(super) stopped: AtomicBool,
    pub(super) tasks: Vec<Task>,
    /// The thread that watches the run.
    pub(super) watcher: Thread,
}

pub(super) struct State {
    pub(super) plan: Plan,
    pub(super) decider: Decider,
    pub(super) steps_max: u64,
    pub(super) step: u64,
    /// Lanes that have not ended.
    pub(super) live: u64,
    /// Lanes that paused and have seen no progress by another lane since.
    pub(super) waiting: u64,
    /// The running lane is past a point after which it acted.
    pub(super) acted: bool,
    pub(super) idle: u64,
    pub(super) switches: Vec<Switch>,
    pub(super) keep_branches: bool,
    pub(super) branches: Vec<Branch>,
    pub(super) error: Option<ScheduleError>,
}

impl Baton {
    pub(super) fn new(scheduler: Scheduler, lanes: usize) -> Self {
        let live = if lanes == LANES_MAX { u64::MAX } else { (1 << lanes) - 1 };
        let state = State {
            decider: Decider::new(&scheduler.plan),
            plan: scheduler.plan,
            steps_max: scheduler.steps_max,
            step: 0,
            live,
            waiting: 0,
            acted: false,
            idle: 0,
            switches: Vec::new(),
            keep_branches: scheduler.branches,
            branches: Vec::new(),
            error: None,
        };
        Self {
            turn: AtomicUsize::new(NOBODY),
            threads: OnceLock::new(),
            state: Mutex::new(state),
            busy: AtomicUsize::new(NOBODY),
            ticks: AtomicU64::new(0),
            live: AtomicU64::new(live),
            stopped: AtomicBool::new(false),
            tasks: (0..lanes).map(|_| Task::default()).collect(),
            watcher: std::thread::current(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn start(&self, threads: Vec<Thread>) {
        self.threads.set(threads).expect("a run starts once");
        let next = self.state().next_voluntary(None);
        self.hand_to(next);
    }

    pub(super) fn hand_to(&self, next: Option<usize>) {
        self.busy.store(NOBODY, Ordering::Release);
        if let Some(next) = next {
            self.turn.store(next, Ordering::Release);
            self.threads.get().expect("the run has started")[next].unpark();
        }
    }

    pub(super) fn await_turn(&self, me: usize) {
        while self.turn.load(Ordering::Acquire) != me && !self.stopped.load(Ordering::Acquire) {
            std::thread::park();
        }
        self.busy.store(me, Ordering::Release);
    }

    /// Returns whether the run was stopped.
    pub(super) fn pass(&self, me: usize, point: Point) -> bool {
        self.ticks.fetch_add(1, Ordering::Relaxed);
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

    pub(super) fn end(&self, me: usize) {
        let mut state = self.state();
        state.live &= !(1 << me);
        state.progress();
        let next = state.next_voluntary(Some(me));
        drop(state);
        self.hand_to(next);
        if self.live.fetch_and(!(1 << me), Ordering::AcqRel) == 1 << me {
            self.watcher.unpark();
        }
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

    pub(super) fn check_all_switched(&mut self) {
        if let Some(switch) = self.decider.leftover() {
            self.fail(ScheduleError::Diverged { switch, plan: self.plan.clone() });
        }
    }

    pub(super) fn fail(&mut self, error: ScheduleError) {
        self.error.get_or_insert(error);
    }
}

/// The first member of `lanes` after `me`, going round.
pub(super) fn next_in_circle(lanes: u64, me: usize) -> u32 {
    let above = if me + 1 == LANES_MAX { 0 } else { lanes & (u64::MAX << (me + 1)) };
    if above == 0 { lanes.trailing_zeros() } else { above.trailing_zeros() }
}
