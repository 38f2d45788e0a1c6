//! Runs of the program: one for each schedule, each recorded and then searched.

use std::backtrace::Backtrace;
use std::collections::BTreeMap;

use outlast_pmem::schedule::{Explorer, Plan, Run, ScheduleError, Scheduler, Switch};
use outlast_pmem::{Recorder, Site};
use outlast_trace::{ByteRange, LaneId, LineAddr, Op, OpLog};

use super::costs::Costs;
use super::finding::{Class, Finding, Place, Reproduction};
use super::program::{Program, Verify};
use super::{Check, Report, Schedules};
use crate::caught;
use crate::memory::verdict::{Broken, Violation, panicked};
use crate::memory::witness::Witness;

/// Schedules that several lanes are run under, unless told otherwise.
const SCHEDULES_MAX: u64 = 10_000;

/// One run of the program.
pub(crate) struct Ran {
    pub plan: Plan,
    pub log: OpLog,
    pub sites: Vec<Site>,
    pub switches: Vec<Switch>,
}

impl Check {
    pub(super) fn run_schedules(
        &self,
        program: &dyn Program,
        judge: Verify<'_>,
        report: &mut Report,
    ) {
        let mut costs = Costs::default();
        let mut check = |ran| self.check_recorded(ran, program, judge, report, &mut costs);
        match self.schedules.clone().unwrap_or_else(|| self.schedules_unless_given()) {
            Schedules::One(plan) => {
                check(self.record(Scheduler::new(&plan), program));
            }
            Schedules::Random { count, seed, stay } => {
                let plans = (seed..).take(count as usize).map(|seed| Plan::Random { seed, stay });
                let record = |plan| self.record(Scheduler::new(&plan), program);
                plans.map(record).find_map(|ran| check(ran).then_some(()));
            }
            Schedules::Preemptions { bound, schedules_max } => {
                let mut explorer = Explorer::new(bound).ascending();
                while let Some(scheduler) = explorer.next() {
                    if explorer.schedules() > schedules_max {
                        report.complete = false;
                        break;
                    }
                    if check(self.record_with(scheduler, program, &mut |run| explorer.ran(run))) {
                        break;
                    }
                }
            }
        }
        self.add_costs(&costs, program, report);
        self.add_callers(program, report);
    }

    /// Lanes that never interrupt each other show little of what they may do together.
    fn schedules_unless_given(&self) -> Schedules {
        match self.lanes {
            0 | 1 => Schedules::One(Plan::default()),
            _ => Schedules::Preemptions { bound: 1, schedules_max: SCHEDULES_MAX },
        }
    }

    /// Checks one run, unless the program failed by itself. Returns whether anything failed.
    fn check_recorded(
        &self,
        ran: Result<Ran, Box<Finding>>,
        program: &dyn Program,
        judge: Verify<'_>,
        report: &mut Report,
        costs: &mut Costs,
    ) -> bool {
        report.schedules += 1;
        match ran {
            Ok(ran) => {
                costs.note(&ran, self.settings.model());
                self.check_run(ran, program, judge, report, costs)
            }
            Err(finding) => {
                report.complete = false;
                report.findings.push(*finding);
                true
            }
        }
    }

    /// Judges the image that a reproduction names, or the program itself where it names none.
    pub(super) fn judge_again(
        &self,
        reproduction: &Reproduction,
        program: &dyn Program,
        judge: Verify<'_>,
    ) -> Result<(), Violation> {
        let nowhere = |why: String| {
            let why = format!("this image cannot exist here: {why}");
            Err(Violation::new(Broken::NoSuchImage, why))
        };
        let ran = match self.record(Scheduler::new(&reproduction.plan), program) {
            Ok(ran) => ran,
            Err(finding) => {
                let violation = finding.violation.expect("a failed run says why");
                return match violation.broken {
                    Broken::Strayed => nowhere(violation.detail),
                    _ => Err(violation),
                };
            }
        };
        match self.settings.replay(&self.base, &ran.log, &reproduction.witness, judge) {
            Ok(replay) => replay.impossible.map_or(replay.verdict, nowhere),
            Err(wide) => Err(Violation::new(Broken::Unchecked, wide.to_string())),
        }
    }

    pub(super) fn recorder(&self) -> Recorder {
        let medium = Recorder::from_image(self.base.clone())
            .growing_to(self.len_max)
            .flushing_with(self.flush_kind)
            .recording_sites();
        if self.atomic_line { medium.with_atomic_line() } else { medium }
    }

    /// Lets all lanes run, on shared state of their own.
    fn run_lanes(
        &self,
        scheduler: Scheduler,
        program: &dyn Program,
        medium: &Recorder,
    ) -> Result<Run<()>, ScheduleError> {
        let mut scheduler = Some(scheduler.steps_max(self.program_ops_max));
        let mut ran = None;
        program.run(medium, &mut |run| {
            let body = |lane| move || caught::note(|| run(LaneId(lane)));
            let lanes = (0..self.lanes).map(body).collect();
            ran = scheduler.take().map(|scheduler| scheduler.run(lanes));
        });
        ran.expect("a program runs its lanes once")
    }

    /// The stacks with which a run under `plan` comes to some of its operations, by their index.
    pub(super) fn traces(
        &self,
        plan: &Plan,
        program: &dyn Program,
        ops: impl IntoIterator<Item = usize>,
    ) -> BTreeMap<usize, (Site, Backtrace)> {
        let medium = self.recorder().tracing(ops);
        // It was run before: what is wrong with it has been said.
        let _ = self.run_lanes(Scheduler::new(plan), program, &medium);
        let sites = medium.sites();
        let traces = medium.take_traces().into_iter();
        traces.filter_map(|(op, trace)| Some((op, (*sites.get(op)?, trace)))).collect()
    }

    /// Runs the program once.
    ///
    /// # Errors
    /// Mistakes of the program itself.
    pub(super) fn record(
        &self,
        scheduler: Scheduler,
        program: &dyn Program,
    ) -> Result<Ran, Box<Finding>> {
        self.record_with(scheduler, program, &mut |_| ())
    }

    fn record_with(
        &self,
        scheduler: Scheduler,
        program: &dyn Program,
        ran: &mut dyn FnMut(&Run<()>),
    ) -> Result<Ran, Box<Finding>> {
        let medium = self.recorder();
        let plan = scheduler.plan().clone();
        let run = self.run_lanes(scheduler, program, &medium);
        let (sites, log) = (medium.sites(), medium.take_log());
        match run {
            Ok(run) => {
                ran(&run);
                let lane = run.lanes.iter().position(Result::is_err);
                let ran = Ran { plan, log, sites, switches: run.switches };
                match lane.map(|lane| (LaneId(lane as u16), &run.lanes[lane])) {
                    Some((lane, Err(payload))) => {
                        let plan = Plan::Explicit(ran.switches.clone());
                        let ran = Ran { plan, ..ran };
                        Err(ran.failed(Class::Panic, panicked(&**payload), Some(lane)))
                    }
                    _ => Ok(ran),
                }
            }
            Err(error) => {
                let (class, broken) = match error {
                    ScheduleError::Diverged { .. } => (Class::NotDeterministic, Broken::Strayed),
                    _ => (Class::Endless, Broken::Stuck),
                };
                let ran = Ran { plan, log, sites, switches: Vec::new() };
                Err(ran.failed(class, Violation::new(broken, error.to_string()), None))
            }
        }
    }
}

impl Ran {
    /// The finding that the program fails without any crash: at the last operation of `lane`, or
    /// of all lanes.
    fn failed(self, class: Class, violation: Violation, lane: Option<LaneId>) -> Box<Finding> {
        let is_last = |op: &usize| lane.is_none_or(|lane| self.log.get(*op).0 == lane);
        let last = (0..self.log.len()).rev().find(is_last);
        let place = last.map_or_else(Place::default, |op| self.place(op));
        let witness = Witness { crashes: Vec::new() };
        Box::new(Finding {
            violation: Some(violation),
            reproduction: Some(Reproduction { plan: self.plan, witness }),
            ..Finding::at(class, place)
        })
    }

    /// An operation of the program as a place.
    pub(super) fn place(&self, op: usize) -> Place {
        let (lane, what) = self.log.get(op);
        let site = self.sites.get(op).copied();
        Place { level: 1, op, lane, line: lines_of(&what).next(), site }
    }
}

/// The lines that an operation is about.
pub(crate) fn lines_of(op: &Op<'_>) -> impl Iterator<Item = LineAddr> + use<> {
    let range = match *op {
        Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
            ByteRange::new(at, bytes.len() as u64)
        }
        Op::Store64 { line, .. } | Op::Flush { line, .. } => ByteRange::new(line.start(), 64),
        _ => ByteRange::default(),
    };
    range.lines()
}
