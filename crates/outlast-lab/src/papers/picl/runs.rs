//! The runs of figures 9 to 18: each a work under a scheme with one thing varied.

use std::error::Error;

use super::machine::{LINKS, LLCS, WRITES};
use super::measured::{self, Row, Set};
use super::works::{Chosen, Origin, Works};
use super::{IDEAL, LONG_EPOCH, PICL, Part, SCHEMES, Task};
use crate::native::Size;
use crate::parallel::weighed;
use crate::progress::Listener;

/// Epochs that the scan stays behind (figure 18).
pub(super) const GAPS: [u64; 4] = [0, 1, 3, 8];

/// The schemes of figure 14.
const LONG: [&str; 4] = ["journaling", "shadow", "thynvm", PICL];

/// One run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub(super) work: &'a Chosen,
    pub(super) scheme: &'static str,
    pub(super) set: Set,
    /// Instructions of each core: before counting starts, and those that count.
    pub(super) window: (u64, u64),
}

impl Job<'_> {
    pub(super) fn instructions(&self) -> u64 {
        u64::from(self.work.cores) * (self.window.0 + self.window.1)
    }
}

impl Task {
    /// Whether any part wants programs.
    pub(super) fn runs_programs(&self) -> bool {
        let apart = [Part::Table2, Part::Table3, Part::Table4, Part::Frequency];
        self.with_programs && self.parts.iter().any(|part| !apart.contains(part))
    }

    /// Whether the RTL is mapped, or placed and routed, for a part. What takes so long is not done in passing.
    pub(super) fn synthesises(&self, part: Part) -> bool {
        let is_named = self.parts.len() < Part::ALL.len();
        self.wants(&[part]) && self.with_synthesis && (is_named || self.size == Size::Full)
    }

    pub(super) fn window(&self, (warm_up, counted): (u64, u64)) -> (u64, u64) {
        (warm_up * self.epoch(), counted * self.epoch())
    }

    /// Instructions that the figures' runs simulate.
    pub(super) fn instructions(&self, works: &Works) -> u64 {
        self.jobs(works).iter().map(Job::instructions).sum()
    }

    fn jobs<'a>(&self, works: &'a Works) -> Vec<Job<'a>> {
        let mut jobs = Vec::new();
        let swept = &works.mixed[..works.mixed.len().min(self.swept_mixes)];
        let mut mixed = |works: &'a [Chosen], schemes: &[&'static str], set| {
            for work in works.iter().step_by(self.mixed_every) {
                let job = |&scheme| Job { work, scheme, set, window: self.window(self.mixed) };
                jobs.extend(schemes.iter().map(job));
            }
        };
        if self.wants(&[Part::Fig10]) {
            mixed(&works.mixed, &SCHEMES, Set::Taken);
        } else if self.wants(&[Part::Fig15, Part::Fig16, Part::Fig17]) {
            mixed(swept, &SCHEMES, Set::Taken);
        }
        // Growth of the others' overhead is judged between the smallest and the largest.
        let of_sweep = |of: f64, all: &[f64]| -> &[&'static str] {
            let is_end = of == all[0] || of == all[all.len() - 1];
            let few = self.size == Size::Quick && !is_end;
            if few { &[IDEAL, PICL] } else { &SCHEMES }
        };
        if self.wants(&[Part::Fig15]) {
            LLCS.iter().for_each(|of| mixed(swept, of_sweep(*of, &LLCS), Set::Llc(*of)));
        }
        if self.wants(&[Part::Fig16]) {
            WRITES.iter().for_each(|of| mixed(swept, of_sweep(*of, &WRITES), Set::Write(*of)));
        }
        if self.wants(&[Part::Fig17]) {
            LINKS.iter().for_each(|of| mixed(swept, &[IDEAL, PICL], Set::Link(*of)));
        }
        let mut single = |schemes: &[&'static str], set: Set, window, every| {
            // What is varied has programs of one thread, or synthetic work if there is nothing else.
            let has_programs = works.singles[0].origin == Origin::Program;
            let is_taken = |work: &&'a Chosen| {
                let is_single = work.origin == Origin::Program && work.cores == 1;
                set == Set::Taken || !has_programs || is_single
            };
            for work in works.singles.iter().filter(is_taken).step_by(every) {
                // Streams are the same all the time, and the slowest to simulate.
                let window = match work.origin {
                    Origin::Synthetic => (self.epoch(), self.epoch()),
                    _ => window,
                };
                jobs.extend(schemes.iter().map(|&scheme| Job { work, scheme, set, window }));
            }
        };
        if self.wants(&[Part::Fig14]) {
            single(&LONG, Set::Long, (0, LONG_EPOCH / self.divisor), self.swept_every);
        }
        if self.wants(&[Part::Fig18]) {
            for gap in GAPS {
                let last = GAPS[GAPS.len() - 1];
                single(&[PICL], Set::Gap(gap), self.window((last + 2, 3)), self.swept_every);
            }
        }
        if self.wants(&[Part::Fig9, Part::Fig11, Part::Fig12, Part::Fig13, Part::Assumptions]) {
            single(&SCHEMES, Set::Taken, self.window(self.single), 1);
        }
        jobs
    }
}

/// The stage of [`run`] in progress events.
pub(super) const STAGE: &str = "figures, M instructions";

/// Runs what a task wants.
///
/// # Errors
/// When a run cannot be made or comes to a stop.
pub(super) fn run(
    task: &Task,
    works: &Works,
    listen: &mut Listener<'_>,
) -> Result<Vec<Row>, Box<dyn Error>> {
    let jobs = task.jobs(works);
    let millions = |job: &Job<'_>| job.instructions().div_ceil(1_000_000);
    Ok(weighed(&jobs, millions, usize::MAX, STAGE, listen, |job| one(task, works, job))?)
}

fn one(task: &Task, works: &Works, job: &Job<'_>) -> Result<Row, String> {
    let ready = works.ready(task, job.work, job.window.0 + job.window.1);
    let measured = ready.and_then(|ready| {
        let machine = task.machine(ready.cores(), job.set)?;
        let options = task.options(job.scheme, job.set);
        let chosen = measured::Chosen {
            scheme: job.scheme,
            machine: &machine,
            options: &options,
            window: job.window,
            until_all: task.size == Size::Full && job.work.origin.is_mix(),
        };
        measured::measure(task, &ready, &chosen)
    });
    let counts =
        measured.map_err(|error| format!("{} under {}: {error}", job.work.name, job.scheme))?;
    Ok(row(job, counts))
}

/// The row of a job.
pub(super) fn row(job: &Job<'_>, counts: measured::Counts) -> Row {
    let Job { work, scheme, set, .. } = *job;
    Row { work: work.name, origin: work.origin, scheme, set, counts }
}
