//! Sweeps beyond the paper's: sizes, latencies and granularity; and how memory wears.

use std::error::Error;

use outlast_schemes::{MachineScheme, Options, Work};
use outlast_sim::Domain;
use outlast_sim::timed::{MachineConfig, Setup};

use super::views::{AIT, GRANULARITY, LATENCY, SIZE, WEAR_METRICS};
use super::{COPIES, Part, Task, WORKS, scheme};
use crate::compare::Wear;
use crate::parallel::in_parallel;
use crate::progress::Listener;
use crate::record::{Kind, Metric, Record};
use crate::simulated::{measure, of_plan, sources, time};
use outlast_crash::machine::work_of;
use outlast_workloads::machine::{Plan, Recorded};

/// The work of the sweeps of tables and memory.
const SWEPT: (&str, u64) = WORKS[1];

/// Lines of a transaction: from one to more than the cache that they run on holds.
const SIZES: [u64; 7] = [1, 4, 16, 64, 128, 256, 512];
/// Sets of that cache, of two ways: 256 entries for four copies.
const SIZED_SETS: u64 = 128;

/// One run of a sweep.
struct Job {
    metric: &'static str,
    /// The varied value, as records have it.
    value: f64,
    scheme: MachineScheme,
    machine: MachineConfig,
    options: Options,
    work: usize,
}

/// Runs the sweeps that a task wants.
///
/// # Errors
/// When a run cannot be made or comes to a stop.
pub(super) fn run(
    task: &Task,
    machine: &MachineConfig,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, Box<dyn Error>> {
    let mut works: Vec<Plan> = Vec::new();
    let mut jobs: Vec<Job> = Vec::new();
    let lines = |of: &'static [(&str, &str)]| of.iter().map(|(metric, name)| (*metric, *name));
    let plan = task.plan(SWEPT);
    if task.wants(&[Part::Ait, Part::Latency, Part::Granularity]) {
        works.push(plan);
    }
    let job = |metric, value, name, options: Options| Job {
        metric,
        value,
        scheme: scheme(name),
        machine: machine.clone(),
        options,
        work: 0,
    };
    if task.wants(&[Part::Ait]) {
        let usual = super::AIT_SETS / task.divisor;
        for sets in [usual / 64, usual / 16, usual / 4, usual, 4 * usual, 16 * usual] {
            let sets = sets.max(1);
            let options = task.options().with("ait.sets", sets);
            let entries = (sets * 16) as f64;
            jobs.extend(
                lines(AIT).map(|(metric, name)| job(metric, entries, name, options.clone())),
            );
        }
    }
    if task.wants(&[Part::Latency]) {
        for ns in [75u64, 150, 300, 600, 1200] {
            let mut slower = machine.clone();
            slower.set_option("memory.tWR", &format!("{} ns", ns - READ_NS))?;
            let at = |(metric, name)| Job {
                machine: slower.clone(),
                ..job(metric, ns as f64, name, task.options())
            };
            jobs.extend(lines(LATENCY).map(at));
        }
    }
    if task.wants(&[Part::Granularity]) {
        for bytes in [64u64, 256] {
            let options = task.options().with("ait.granularity", bytes);
            let at = |(metric, name)| job(metric, bytes as f64, name, options.clone());
            jobs.extend(lines(GRANULARITY).map(at));
        }
    }
    if task.wants(&[Part::Size]) {
        for lines_of in SIZES {
            let count = (task.transactions * 4 / lines_of).clamp(16, task.transactions);
            let each = count.div_ceil(u64::from(COPIES)).max(2);
            let transactions = each * u64::from(COPIES);
            let sized = Plan { warm_up: transactions / 4, transactions, batch: lines_of, ..plan };
            works.push(sized);
            let options = task.options().with("ait.sets", SIZED_SETS).with("ait.ways", 2);
            let number = works.len() - 1;
            let at = |(metric, name)| Job {
                work: number,
                ..job(metric, lines_of as f64, name, options.clone())
            };
            jobs.extend(lines(SIZE).map(at));
        }
    }
    let works: Vec<Recorded> = works.iter().map(Plan::record).collect::<Result<_, _>>()?;
    let results = in_parallel(&jobs, usize::MAX, super::SWEEPS_STAGE, listen, |job| {
        one(job, &works[job.work])
            .map_err(|error| format!("{} {} under {}: {error}", job.metric, job.value, job.scheme))
    })?;
    let mut records = Vec::new();
    for (job, throughput) in jobs.iter().zip(results) {
        let Some(throughput) = throughput else { continue };
        let metric = Metric { name: job.metric, unit: "tx/s" };
        let record = Record::new(Kind::Sim, SWEPT.0, job.scheme.name(), metric, throughput)
            .threads(COPIES.into())
            .class(&job.value.to_string())
            .config(&format!("{} ({})", machine.name, machine.core.kind))
            .guarantee(job.scheme.guarantee().name());
        records.push(record);
    }
    if task.wants(&[Part::Wear]) {
        records.extend(wear(task, machine, listen)?);
    }
    Ok(records)
}

/// Nanoseconds of a read on the paper's memory, and of a write before its cells are written.
const READ_NS: u64 = 48;

/// Transactions per second of a run; nothing where the scheme cannot take it.
fn one(job: &Job, work: &Recorded) -> Result<Option<f64>, Box<dyn Error>> {
    if job.scheme.prepare(&work_of(work), &job.options, None).is_err() {
        return Ok(None);
    }
    Ok(Some(measure(&job.machine, job.scheme, work, &job.options)?.throughput()))
}

/// Durable writes of each line, under every scheme of the figures.
fn wear(
    task: &Task,
    machine: &MachineConfig,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, Box<dyn Error>> {
    let plan = task.plan(WORKS[2]);
    let work = work_of(&plan.record()?);
    let run = |name: &&str| -> Result<Vec<Record>, String> {
        let found = worn(task, machine, &work, scheme(name)).map_err(|error| error.to_string())?;
        let Some(wear) = found else { return Ok(Vec::new()) };
        let record = |metric, value: f64| {
            of_plan(Record::new(Kind::Sim, plan.workload.name, name, metric, value), &plan)
                .config(&format!("{} ({})", machine.name, machine.core.kind))
                .guarantee(scheme(name).guarantee().name())
        };
        Ok(vec![record(WEAR_METRICS[0], wear.max as f64), record(WEAR_METRICS[1], wear.gini)])
    };
    let all = in_parallel(&super::SCHEMES[1..], usize::MAX, super::WEAR_STAGE, listen, run)?;
    Ok(all.into_iter().flatten().collect())
}

fn worn(
    task: &Task,
    machine: &MachineConfig,
    work: &Work,
    scheme: MachineScheme,
) -> Result<Option<Wear>, Box<dyn Error>> {
    let prepared = scheme.prepare(work, &task.options(), None)?;
    let base = work.image.to_vec();
    let setup = Setup { seed: task.seed, base, journal: Some(Domain::Adr), ..Setup::default() };
    let sources = sources(prepared.as_ref(), work.lanes);
    let timed = time(machine, prepared.as_ref(), setup, sources, (0, task.transactions))?;
    let journal = timed.machine.journal().expect("it was asked for");
    Ok(Wear::of(journal.journal(), 0))
}
