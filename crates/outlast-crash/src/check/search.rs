//! The search through one run: its failures, the smallest of them, its explanation.

use outlast_pmem::Recorder;
use outlast_pmem::schedule::{Plan, Scheduler};
use outlast_trace::{LaneId, OpLog};

use super::run::Ran;
use super::{Check, Class, Report, classify, redundant};
use crate::exhaustive::{Exhaustive, Failure, Outcome};
use crate::image::ImageMedium;
use crate::verdict::{Crash, Judge, Violation};

impl Check {
    /// Checks one run. Returns whether it failed.
    pub(super) fn check_run(
        &self,
        ran: Ran,
        program: &(impl Fn(LaneId, &Recorder) + Sync),
        judge: &(impl Fn(&ImageMedium, &Crash<'_>) -> Result<(), Violation> + Copy),
        report: &mut Report,
    ) -> bool {
        let outcome = self.enumerate(&self.settings, &ran.log, judge);
        report.schedules += 1;
        report.images_verified += outcome.images_verified();
        report.complete &= outcome.complete;
        let failed = outcome.failures.first().cloned();
        if report.schedules == 1 && failed.is_none() {
            report.findings.extend(redundant::flushes(&ran));
        }
        let Some(failure) = failed else { return false };
        let (ran, failure) = self.with_fewer_switches(ran, failure, program, judge);
        let failure = self
            .settings
            .shrink(&self.base, &ran.log, &failure, judge)
            .unwrap_or_else(|wide| panic!("{wide}"));
        let finding = classify::explain(&self.settings, &self.base, &ran, &failure, judge);
        report.findings.retain(|finding| finding.class != Class::RedundantFlush);
        report.findings.push(finding);
        report.findings.extend(redundant::flushes(&ran));
        true
    }

    fn enumerate(&self, settings: &Exhaustive, log: &OpLog, judge: impl Judge) -> Outcome {
        settings.run(&self.base, log, judge).unwrap_or_else(|wide| panic!("{wide}"))
    }

    /// Leaves out what switches of the schedule the failure does not need.
    fn with_fewer_switches(
        &self,
        ran: Ran,
        failure: Failure,
        program: &(impl Fn(LaneId, &Recorder) + Sync),
        judge: &(impl Fn(&ImageMedium, &Crash<'_>) -> Result<(), Violation> + Copy),
    ) -> (Ran, Failure) {
        let mut best = (ran, failure);
        if self.lanes < 2 {
            return best;
        }
        let mut tries = 60;
        let mut at = 0;
        while at < best.0.switches.len() && tries > 0 {
            tries -= 1;
            let mut fewer = best.0.switches.clone();
            // Later switches first: leaving out one moves all that follow it.
            let dropped = fewer.len() - 1 - at;
            fewer.remove(dropped);
            let plan = Plan::Explicit(fewer);
            let shorter = self.try_record(Scheduler::new(&plan), &plan, program).ok();
            let failing = shorter.and_then(|ran| {
                let failure = self.enumerate(&self.settings, &ran.log, judge).failures.pop()?;
                Some((ran, failure))
            });
            match failing {
                Some(smaller) => best = smaller,
                None => at += 1,
            }
        }
        best.0.plan = Plan::Explicit(best.0.switches.clone());
        best
    }
}
