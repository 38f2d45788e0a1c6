//! The search through one run: its failures, the smallest of them, its explanation.

use outlast_pmem::schedule::{Plan, Scheduler};
use outlast_trace::OpLog;

use super::costs::Costs;
use super::finding::{Class, Finding, Place, Reproduction};
use super::program::{Program, Verify};
use super::run::Ran;
use super::{Check, Report, classify};
use crate::memory::exhaustive::{Failure, Outcome, Unchecked};
use crate::memory::verdict::{Broken, Violation};
use crate::memory::witness::Witness;

/// How often an image is recovered again to see whether it comes out the same.
const REPEATS: u32 = 3;

/// In how many schedules that is looked at where nothing else is found.
const REPEATED_SCHEDULES: u64 = 16;

impl Check {
    /// Checks one run. Returns whether it failed.
    pub(super) fn check_run(
        &self,
        ran: Ran,
        program: &dyn Program,
        judge: Verify<'_>,
        report: &mut Report,
        costs: &mut Costs,
    ) -> bool {
        let outcome = self.search(&ran.log, judge, report);
        costs.looked.add(&outcome.looked);
        let Some(failure) = outcome.failures.into_iter().next() else {
            if let Some(unchecked) = outcome.unchecked.first() {
                report.findings.push(too_wide(&ran, unchecked));
                return true;
            }
            let is_early = report.schedules <= REPEATED_SCHEDULES;
            let unlike = is_early.then(|| self.unlike_itself(&ran.log, judge)).flatten();
            if let Some(failure) = unlike {
                report.findings.push(not_deterministic(&ran, &failure));
                return true;
            }
            return false;
        };
        if failure.violation.broken == Broken::Strayed || !self.shows(&ran.log, &failure, judge) {
            report.findings.push(not_deterministic(&ran, &failure));
            return true;
        }
        let (ran, failure) = self.with_fewer_switches(ran, failure, program, judge);
        let failure =
            self.settings.shrink(&self.base, &ran.log, &failure, judge).unwrap_or(failure);
        report.findings.push(classify::explain(&self.settings, &self.base, &ran, &failure, judge));
        true
    }

    /// Searches for a failure with as few crashes as one needs.
    fn search(&self, log: &OpLog, judge: Verify<'_>, report: &mut Report) -> Outcome {
        let mut crashes = 1;
        let mut used = 0;
        loop {
            // What fewer crashes do not use is left for more of them.
            let runs = u64::from(self.settings.crashes - crashes + 1);
            let images = self.settings.images_left_for(runs, used);
            let settings = self.settings.clone().crashes(crashes).images_max(images);
            let outcome = settings.run_all(&self.base, log, judge);
            used += outcome.images_verified();
            if crashes == self.settings.crashes || !outcome.failures.is_empty() {
                report.images_verified += used;
                report.coverage.add(&outcome.coverage);
                report.complete &= outcome.complete;
                return outcome;
            }
            crashes += 1;
        }
    }

    /// Whether this failure shows each time that its image is recovered.
    fn shows(&self, log: &OpLog, failure: &Failure, judge: Verify<'_>) -> bool {
        (0..REPEATS).all(|_| {
            let replay = self.settings.replay(&self.base, log, &failure.witness, judge);
            replay.is_ok_and(|replay| {
                let violation = replay.verdict.err();
                violation.is_some_and(|violation| violation.broken == failure.violation.broken)
            })
        })
    }

    /// Whether the whole run is recovered in different ways: with other stores, or with another
    /// verdict.
    fn unlike_itself(&self, log: &OpLog, judge: Verify<'_>) -> Option<Failure> {
        let witness = Witness::at_end_of(log);
        let point = &witness.crashes[0];
        let recover = || self.settings.recover_once(&self.base, log, point, &mut { judge });
        let first = recover()?;
        (0..REPEATS).find_map(|_| recover().filter(|again| *again != first)).map(|_| {
            let why = "recovered from the same image, it stored something else than before";
            Failure { violation: Violation::new(Broken::Strayed, why), witness: witness.clone() }
        })
    }

    /// Leaves out what switches of the schedule the failure does not need.
    fn with_fewer_switches(
        &self,
        ran: Ran,
        failure: Failure,
        program: &dyn Program,
        judge: Verify<'_>,
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
            let shorter = self.record(Scheduler::new(&plan), program).ok();
            let failing = shorter.and_then(|ran| {
                let crashes = best.1.witness.crashes.len() as u32;
                let settings = self.settings.clone().crashes(crashes);
                let outcome = settings.run_all(&self.base, &ran.log, judge);
                Some((ran, outcome.failures.into_iter().next()?))
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

/// That a crash point was not checked, for one line has too many contents there.
fn too_wide(ran: &Ran, unchecked: &Unchecked) -> Finding {
    let last = unchecked.op.saturating_sub(1).min(ran.log.len() - 1);
    let why = format!("a crash before operation {}: {}", unchecked.op, unchecked.why);
    let place = Place { line: Some(unchecked.why.line()), ..ran.place(last) };
    Finding {
        violation: Some(Violation::new(Broken::Unchecked, why)),
        ..Finding::at(Class::TooWide, place)
    }
}

/// That recovery is no function of its image.
fn not_deterministic(ran: &Ran, failure: &Failure) -> Finding {
    let Failure { violation, witness } = failure.clone();
    let last = witness.crashes.first().map_or(0, |crash| crash.op).saturating_sub(1);
    let detail = match violation.broken {
        Broken::Strayed => violation.detail,
        _ => format!("recovered again from the same image, it is not always {violation}"),
    };
    let place = if last < ran.log.len() { ran.place(last) } else { Place::default() };
    Finding {
        violation: Some(Violation::new(Broken::Strayed, detail)),
        reproduction: Some(Reproduction { plan: ran.plan.clone(), witness }),
        ..Finding::at(Class::NotDeterministic, place)
    }
}
