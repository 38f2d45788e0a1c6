//! Every scheme that applies, side by side on the same work.
//!
//! Each run is timed with its journal kept: what became durable says how memory wears, and crashes
//! drawn from it are recovered, so that recovery's time and traffic are those of real images. A small
//! campaign of the same program, crashed everywhere, says which guarantee the oracle saw.
//!
//! - `measure` times a scheme and draws what the journal says;
//! - `software` times and crashes the runtime's schemes;
//! - `recovery` executes recoveries;
//! - `wear` counts writes of each line;
//! - `rows` derives what a reader compares, for terminal and page alike;
//! - `page` is that as a table to sort and filter;
//! - `report` is the comparison that a report makes.

mod measure;
mod page;
mod recovery;
mod report;
mod rows;
mod software;
mod wear;

pub(crate) use page::by_guarantee;
pub use page::page;
pub(crate) use report::for_report;
pub use rows::table;
pub(crate) use wear::Wear;

use std::path::PathBuf;

use outlast::Scheme;
use outlast_crash::machine::{Campaign, work_of};
use outlast_schemes::MachineScheme;
use outlast_trace::is_program_trace;
use outlast_workloads::machine::Plan;

use crate::parallel::in_parallel;
use crate::progress::Listener;
use crate::record::{Metric, Record};
use crate::simulated::{self, Setting, Work, captured_work};
use measure::Subject;

/// What is compared.
#[derive(Clone, Debug)]
pub enum Compared {
    /// A workload as bare transactions.
    Program(Plan),
    /// A trace of ours with transactions; a quarter of its instructions is warm-up.
    Trace(PathBuf),
}

/// Instructions of a captured program that are compared at most.
const CAPTURED_INSTRUCTIONS_MAX: u64 = 20_000_000;

/// The program whose small campaign stands for a trace's.
const CRASHED_FOR_TRACES: &str = "hash-toggle";

/// The program of a report's comparison: a table of hashes whose transactions set and clear entries,
/// small and hard on logs.
const REPORTED: &str = "hash-toggle";

/// A comparison that is to be made.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The work.
    pub work: Compared,
    /// The machines, with what was chosen of schemes.
    pub settings: Vec<Setting>,
    /// The schemes of the machine.
    pub schemes: Vec<MachineScheme>,
    /// The schemes of the runtime.
    pub software: Vec<Scheme>,
    /// Feeds what is drawn.
    pub seed: u64,
}

/// What a scheme's row came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was measured.
    pub records: Vec<Record>,
    /// Schemes that cannot take the work, with the reason.
    pub left_out: Vec<String>,
}

/// Keys of a machine that decide what a crash leaves.
const PERSISTENCE: [&str; 3] = ["adr.drain_lines", "memory.adr", "memory.row_durable"];
/// Behind it, a crash record has the name of the machine whose keys of these a campaign had.
const AS_ON: &str = ", as on ";

/// One job: independent of all others.
enum Job {
    Measure(usize, MachineScheme),
    MeasureSoftware(usize, Scheme),
    Crash(usize, MachineScheme),
    CrashSoftware(Scheme),
}

impl Comparison {
    /// Runs everything, on all processors.
    ///
    /// # Errors
    /// When the work cannot be had, a machine comes to a stop, or no scheme can take the work.
    pub fn run(&self, listen: &mut Listener<'_>) -> Result<Outcome, Box<dyn std::error::Error>> {
        let subject = self.subject()?;
        let mut jobs = Vec::new();
        for number in 0..self.settings.len() {
            jobs.extend(self.schemes.iter().map(|&scheme| Job::Measure(number, scheme)));
        }
        // What a crash leaves depends on what of a machine persists: a campaign for each of that.
        for number in (0..self.settings.len()).filter(|&number| self.first_alike(number) == number)
        {
            jobs.extend(self.schemes.iter().map(|&scheme| Job::Crash(number, scheme)));
        }
        let refused = self.refused_software();
        if refused.is_none() {
            for number in 0..self.settings.len() {
                let software = self.software.iter();
                jobs.extend(software.map(|&scheme| Job::MeasureSoftware(number, scheme)));
            }
            jobs.extend(self.software.iter().map(|&scheme| Job::CrashSoftware(scheme)));
        }
        let run = |job: &Job| self.run_one(&subject, job).map_err(|error| error.to_string());
        let results = in_parallel(&jobs, usize::MAX, "compare", listen, run)?;
        let (mut records, mut left_out) = (Vec::new(), Vec::from_iter(refused));
        let plain = |number: usize| -> Option<f64> {
            let of_plain = |job: &&Job| matches!(job, Job::Measure(n, scheme) if *n == number && *scheme == MachineScheme::plain());
            let at = jobs.iter().position(|job| of_plain(&job))?;
            throughput(results[at].as_ref().ok()?)
        };
        let over_plain: Vec<Option<f64>> = (0..self.settings.len()).map(plain).collect();
        for (job, result) in jobs.iter().zip(results) {
            match result {
                Ok(found) if matches!(job, Job::Crash(..)) => {
                    let Job::Crash(of, _) = *job else { unreachable!("it was matched") };
                    records.extend(self.for_all_alike(of, &found));
                }
                Ok(mut found) => {
                    if let Job::Measure(number, _) | Job::MeasureSoftware(number, _) = job {
                        let ratio = throughput(&found).zip(over_plain[*number]);
                        let like = found.first().cloned().zip(ratio);
                        found.extend(like.map(|(like, (mine, plain))| Record {
                            metric: Metric::SPEED_OVER_PLAIN.name.to_owned(),
                            unit: Metric::SPEED_OVER_PLAIN.unit.to_owned(),
                            value: Some(mine / plain),
                            ..like
                        }));
                    }
                    records.extend(found);
                }
                Err(why) if left_out.contains(&why) => {}
                Err(why) => left_out.push(why),
            }
        }
        if records.is_empty() {
            return Err(left_out.join("; ").into());
        }
        Ok(Outcome { records, left_out })
    }

    /// What of a setting's machine decides what a crash leaves.
    fn persists(&self, number: usize) -> [String; PERSISTENCE.len()] {
        let machine = &self.settings[number].machine;
        PERSISTENCE.map(|key| machine.get(key).expect("every machine has it"))
    }

    /// The first setting on whose machine the same persists.
    fn first_alike(&self, number: usize) -> usize {
        let same = |other: &usize| self.persists(*other) == self.persists(number);
        (0..number).find(same).unwrap_or(number)
    }

    /// The records of a campaign, for each setting of which they hold if not for all.
    fn for_all_alike(&self, first: usize, found: &[Record]) -> Vec<Record> {
        let all = 0..self.settings.len();
        if all.clone().all(|number| self.first_alike(number) == 0) {
            return found.to_vec();
        }
        let alike = all.filter(|number| self.first_alike(*number) == first);
        let mut names: Vec<&str> =
            alike.map(|number| &*self.settings[number].machine.name).collect();
        names.dedup();
        let mut records = Vec::new();
        for name in names {
            records.extend(found.iter().cloned().map(|mut record| {
                let config = record.config.get_or_insert_default();
                *config += &format!("{AS_ON}{name}");
                record
            }));
        }
        records
    }

    /// Why no scheme of the runtime takes the work, if some were asked for.
    fn refused_software(&self) -> Option<String> {
        match &self.work {
            _ if self.software.is_empty() => None,
            Compared::Program(plan) => software::refusal(plan),
            Compared::Trace(_) => Some("the runtime's schemes: they take workloads".to_owned()),
        }
    }

    /// The records of a job, or why the scheme cannot take it.
    fn run_one(
        &self,
        subject: &Subject,
        job: &Job,
    ) -> Result<Result<Vec<Record>, String>, Box<dyn std::error::Error>> {
        match *job {
            Job::Measure(number, scheme) => {
                let setting = &self.settings[number];
                let options = setting.options_of(scheme)?;
                let prepared = match scheme.prepare(&subject.work, &options, None) {
                    Ok(prepared) => prepared,
                    Err(why) => return Ok(Err(why.to_string())),
                };
                let mut found = subject.measure(&setting.machine, scheme, prepared.as_ref())?;
                setting.mark(scheme, &mut found);
                Ok(Ok(found))
            }
            Job::MeasureSoftware(number, scheme) => {
                let Compared::Program(plan) = &self.work else { unreachable!("they were refused") };
                let setting = &self.settings[number];
                Ok(software::measure(subject, plan, &setting.machine, scheme))
            }
            Job::CrashSoftware(scheme) => {
                let Compared::Program(plan) = &self.work else { unreachable!("they were refused") };
                Ok(software::crash(subject, plan, scheme))
            }
            Job::Crash(number, scheme) => {
                let program = match &self.work {
                    Compared::Program(plan) => plan.workload.name,
                    Compared::Trace(_) => CRASHED_FOR_TRACES,
                };
                let mut campaign = Campaign::small(scheme, program, self.seed);
                for (key, value) in PERSISTENCE.into_iter().zip(self.persists(number)) {
                    if campaign.machine.get(key).as_ref() != Some(&value) {
                        campaign.machine.set_option(key, &value)?;
                    }
                }
                match campaign.run() {
                    Ok(report) => Ok(Ok(simulated::crash_records(&campaign, &report))),
                    Err(why) => Ok(Err(format!("{scheme} was not crashed: {why}"))),
                }
            }
        }
    }

    fn subject(&self) -> Result<Subject, Box<dyn std::error::Error>> {
        match &self.work {
            Compared::Program(plan) => Ok(Subject::of_program(&plan.record()?)),
            Compared::Trace(path) => {
                let opened = std::fs::File::open(path);
                opened.map_err(|error| format!("{}: {error}", path.display()))?;
                let work = Work::Trace(path.clone());
                let of_schemes = match is_program_trace(path) {
                    true => work_of(&captured_work(path, CAPTURED_INSTRUCTIONS_MAX, self.seed)?),
                    false => work.for_schemes(false, None)?,
                };
                if work.lacks_transactions(&of_schemes) {
                    let path = path.display();
                    return Err(format!(
                        "{path}: a comparison is of transactions, and this is no trace that has \
                         any: take one of `outlast sim WORK --scheme SCHEME --save-trace FILE`, \
                         or a captured program that marks its own (docs/trace.md)"
                    )
                    .into());
                }
                Ok(Subject::of_trace(work.name(), of_schemes, self.seed))
            }
        }
    }
}

fn throughput(records: &[Record]) -> Option<f64> {
    records.iter().find(|record| record.is(Metric::THROUGHPUT)).and_then(|record| record.value)
}

#[cfg(test)]
mod tests;
