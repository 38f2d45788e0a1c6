//! Runs of the program: one for each schedule, each recorded and then searched.

use outlast_pmem::schedule::{Explorer, Plan, ScheduleError, Scheduler, Switch};
use outlast_pmem::{Recorder, Site};
use outlast_trace::{LaneId, OpLog};

use super::{Check, Report, Schedules};
use crate::image::ImageMedium;
use crate::verdict::{Crash, Violation};

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
                let ran = self.record(Scheduler::new(plan), plan, program);
                self.check_run(ran, program, judge, report);
            }
            Schedules::Random { count, seed, stay } => {
                for seed in (seed..).take(count as usize) {
                    let plan = Plan::Random { seed, stay };
                    let ran = self.record(Scheduler::new(&plan), &plan, program);
                    if self.check_run(ran, program, judge, report) {
                        return;
                    }
                }
            }
            Schedules::Preemptions { bound, schedules_max } => {
                let mut explorer = Explorer::new(bound);
                while let Some(scheduler) = explorer.next() {
                    if explorer.schedules() > schedules_max {
                        report.complete = false;
                        return;
                    }
                    let medium = self.recorder();
                    let plan = scheduler.plan().clone();
                    let run = scheduler.run(self.bodies(program, &medium));
                    let run = run.unwrap_or_else(|error| panic!("{error}"));
                    explorer.ran(&run);
                    let ran = Self::finish(&medium, plan, run.switches.clone());
                    run.unwrap();
                    if self.check_run(ran, program, judge, report) {
                        return;
                    }
                }
            }
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
        (0..self.lanes).map(|lane| move || program(LaneId(lane), medium)).collect()
    }

    pub(super) fn record(
        &self,
        scheduler: Scheduler,
        plan: &Plan,
        program: &(impl Fn(LaneId, &Recorder) + Sync),
    ) -> Ran {
        self.try_record(scheduler, plan, program).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(super) fn try_record(
        &self,
        scheduler: Scheduler,
        plan: &Plan,
        program: &(impl Fn(LaneId, &Recorder) + Sync),
    ) -> Result<Ran, ScheduleError> {
        let medium = self.recorder();
        let run = scheduler.run(self.bodies(program, &medium))?;
        let ran = Self::finish(&medium, plan.clone(), run.switches.clone());
        run.unwrap();
        Ok(ran)
    }

    fn finish(medium: &Recorder, plan: Plan, switches: Vec<Switch>) -> Ran {
        let sites = medium.sites();
        Ran { plan, sites, log: medium.take_log(), switches }
    }
}
