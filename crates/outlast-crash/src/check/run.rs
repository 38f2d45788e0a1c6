//! Runs of the program: one for each schedule, each recorded and then searched.

use outlast_pmem::schedule::{Explorer, Plan, Run, ScheduleError, Scheduler, Switch};
use outlast_pmem::{Recorder, Site};
use outlast_trace::{ByteRange, LaneId, LineAddr, Op, OpLog};

use super::finding::{Class, Finding, Place, Reproduction};
use super::{Check, Report, Schedules};
use crate::caught;
use crate::image::ImageMedium;
use crate::verdict::{Broken, Crash, Violation, panicked};
use crate::witness::Witness;

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
        program: &(impl Fn(LaneId, &Recorder) + Sync),
        judge: &(impl Fn(&ImageMedium, &Crash<'_>) -> Result<(), Violation> + Copy),
        report: &mut Report,
    ) {
        match self.schedules {
            Schedules::One(ref plan) => {
                let ran = self.record(Scheduler::new(plan), program);
                self.check_recorded(ran, program, judge, report);
            }
            Schedules::Random { count, seed, stay } => {
                for seed in (seed..).take(count as usize) {
                    let plan = Plan::Random { seed, stay };
                    let ran = self.record(Scheduler::new(&plan), program);
                    if self.check_recorded(ran, program, judge, report) {
                        return;
                    }
                }
            }
            Schedules::Preemptions { bound, schedules_max } => {
                let mut explorer = Explorer::new(bound).ascending();
                while let Some(scheduler) = explorer.next() {
                    if explorer.schedules() > schedules_max {
                        report.complete = false;
                        return;
                    }
                    let ran = self.record_with(scheduler, program, |run| explorer.ran(run));
                    if self.check_recorded(ran, program, judge, report) {
                        return;
                    }
                }
            }
        }
    }

    /// Checks one run, unless the program failed by itself. Returns whether anything failed.
    fn check_recorded(
        &self,
        ran: Result<Ran, Box<Finding>>,
        program: &(impl Fn(LaneId, &Recorder) + Sync),
        judge: &(impl Fn(&ImageMedium, &Crash<'_>) -> Result<(), Violation> + Copy),
        report: &mut Report,
    ) -> bool {
        report.schedules += 1;
        match ran {
            Ok(ran) => self.check_run(ran, program, judge, report),
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
        program: &(impl Fn(LaneId, &Recorder) + Sync),
        judge: impl Fn(&ImageMedium, &Crash<'_>) -> Result<(), Violation>,
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

    fn bodies<'a>(
        &self,
        program: &'a (impl Fn(LaneId, &Recorder) + Sync),
        medium: &'a Recorder,
    ) -> Vec<impl FnOnce() + Send + 'a> {
        let body = |lane| move || caught::note(|| program(LaneId(lane), medium));
        (0..self.lanes).map(body).collect()
    }

    /// Runs the program once.
    ///
    /// # Errors
    /// What is wrong with the program itself.
    pub(super) fn record(
        &self,
        scheduler: Scheduler,
        program: &(impl Fn(LaneId, &Recorder) + Sync),
    ) -> Result<Ran, Box<Finding>> {
        self.record_with(scheduler, program, |_| ())
    }

    fn record_with(
        &self,
        scheduler: Scheduler,
        program: &(impl Fn(LaneId, &Recorder) + Sync),
        ran: impl FnOnce(&Run<()>),
    ) -> Result<Ran, Box<Finding>> {
        let medium = self.recorder();
        let plan = scheduler.plan().clone();
        let scheduler = scheduler.steps_max(self.program_ops_max);
        let run = scheduler.run(self.bodies(program, &medium));
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
pub(super) fn lines_of(op: &Op<'_>) -> impl Iterator<Item = LineAddr> + use<> {
    let range = match *op {
        Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
            ByteRange::new(at, bytes.len() as u64)
        }
        Op::Store64 { line, .. } | Op::Flush { line, .. } => ByteRange::new(line.start(), 64),
        _ => ByteRange::default(),
    };
    range.lines()
}
