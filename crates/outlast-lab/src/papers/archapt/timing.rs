//! Figures 1, 2, 7 and 8: what schemes cost and gain on this machine.
//!
//! One competition for each number of threads on the bare mapping, all schemes in it, so that
//! every figure compares what ran side by side; the one with the fewest threads takes transactions
//! apart, too. Then one more with writes slowed down. More threads than cores take turns on them,
//! and their records say so.

use std::thread;
use std::time::Duration;

use outlast::Scheme;

use super::{Part, SCHEMES, Task, WORKLOADS, available, workload};
use crate::native::{self, Contender, NativeError, Own, Setup, Usage};
use crate::progress::{Listener, Progress, as_part};
use crate::record::{Kind, Metric, Record};

/// The time of a transaction beyond that of `none` has to be more than this share of it, or its
/// parts are noise.
const COST_SHARE_MIN: f64 = 0.03;

/// The name of `redo-archapt` where no data has to be flushed.
pub(super) const UNSWEPT: &str = "redo-archapt-unswept";

/// The stage of [`measure`] and [`flush_kinds`] in progress events.
pub(super) const STAGE: &str = "competitions on this machine";
pub(super) const FLUSH_KINDS: &str = "clwb beside clflushopt";

/// Runs the competitions and derives losses, gains and shares.
///
/// # Errors
/// [`NativeError`].
pub fn measure(task: &Task, listen: &mut Listener<'_>) -> Result<Vec<Record>, NativeError> {
    let compares = task.wants(&[Part::Fig7, Part::Fig8]);
    let names: &[&str] = if compares { &SCHEMES } else { &["undo", "redo"] };
    let schemes: Vec<Scheme> = [Scheme::None].into_iter().chain(available(names, listen)).collect();
    let fewest = task.threads.iter().copied().min();
    let mut records = Vec::new();
    let all = task.wants(&[Part::Fig1, Part::Fig7, Part::Fig8]);
    let threads = task.threads.iter().copied();
    let threads: Vec<u32> = threads.filter(|threads| all || Some(*threads) == fewest).collect();
    let mut setups: Vec<Setup> = Vec::new();
    for threads in threads {
        let parts = task.wants(&[Part::Fig2]) && Some(threads) == fewest;
        setups.push(setup(task, &schemes, threads, 0, parts));
    }
    if compares && task.write_latency_ns > 0 {
        let (threads, ns) = (task.judged_threads(), task.write_latency_ns);
        setups.push(setup(task, &schemes, threads, ns, false));
    }
    for (number, setup) in (0..).zip(&setups) {
        records.extend(run(setup, &mut as_part(STAGE, (number, setups.len() as u64), listen))?);
    }
    let derived = derived(&records);
    records.extend(derived);
    Ok(records)
}

/// `clwb` against `clflushopt`.
///
/// # Errors
/// [`NativeError`].
pub fn flush_kinds(task: &Task, listen: &mut Listener<'_>) -> Result<Vec<Record>, NativeError> {
    let schemes = available(&["undo", "redo", "undo-archapt", "redo-archapt"], listen);
    let mut tell = as_part(FLUSH_KINDS, (0, 1), listen);
    native::run_flush_kinds(&setup(task, &schemes, 1, 0, false), &mut tell)
}

fn run(setup: &Setup, listen: &mut Listener<'_>) -> Result<Vec<Record>, NativeError> {
    let threads = setup.threads;
    let medium = match setup.write_latency_ns {
        0 => String::new(),
        ns => format!(", {ns} ns added per line written"),
    };
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let crowded = if threads > cores { format!(" on {cores} cores") } else { String::new() };
    listen(Progress::Note(&format!("threads: {threads}{crowded}{medium}")));
    let crowding = |record: Record| {
        if threads <= cores {
            return record;
        }
        let config = record.config.clone().unwrap_or_default();
        record.config(&format!("{config}; {threads} threads{crowded}, taking turns"))
    };
    Ok(native::run(setup, listen)?.into_iter().map(crowding).collect())
}

fn setup(
    task: &Task,
    schemes: &[Scheme],
    threads: u32,
    write_latency_ns: u64,
    parts: bool,
) -> Setup {
    let workloads = WORKLOADS.map(workload).to_vec();
    Setup {
        contenders: match write_latency_ns {
            0 => contenders(schemes, Usage::Summed, threads == task.judged_threads()),
            _ => contenders(schemes, Usage::Unswept, true),
        },
        directory: task.directory.clone(),
        threads,
        keys: task.amount.keys,
        rounds: task.amount.rounds,
        turn: Duration::from_millis(task.amount.turn_ms),
        latency_transactions: match task.wants(&[Part::Fig8]) {
            true => task.amount.latency_transactions,
            false => 0,
        },
        write_latency_ns,
        parts,
        counting: false,
        ..Setup::new(workloads, task.size, task.seed)
    }
}

/// These schemes, and those of them once more that can be used in this way, if asked for.
fn contenders(schemes: &[Scheme], usage: Usage, again: bool) -> Vec<Contender> {
    let can = |scheme: &&Scheme| match usage {
        Usage::Summed => matches!(scheme, Scheme::UndoArchapt | Scheme::RedoArchapt),
        Usage::Unswept => **scheme == Scheme::RedoArchapt,
        Usage::Plain | Usage::Later | Usage::Streamed | Usage::Flushed | Usage::Locking => false,
    };
    let used = schemes.iter().filter(can).map(|scheme| Own { scheme: *scheme, usage });
    let own = schemes.iter().map(|scheme| Own::plain(*scheme));
    own.chain(used.filter(|_| again)).map(Contender::Own).collect()
}

/// Records that follow from the measured values of one competition.
pub(super) fn derived(records: &[Record]) -> Vec<Record> {
    let mut derived = Vec::new();
    for own in records.iter().filter(|r| r.kind == Kind::Native) {
        if own.is(Metric::THROUGHPUT) {
            derived.extend(gains(records, own));
        } else if own.is(Metric::LATENCY_P99) {
            derived.extend(against_each(records, own, Metric::LATENCY_P99_SAVED, |own, other| {
                1.0 - own / other
            }));
        } else if own.is(Metric::TIME_LOG) {
            derived.extend(persistence_share(records, own));
        }
    }
    derived
}

fn gains(records: &[Record], own: &Record) -> Vec<Record> {
    let mut found =
        against_each(records, own, Metric::THROUGHPUT_GAIN, |own, other| own / other - 1.0);
    let none = beside(records, own, &own.metric, Scheme::None.name());
    if let (Some(own_rate), Some(bound)) = (own.value, none)
        && own.scheme != Scheme::None.name()
    {
        let loss = 100.0 * (1.0 - own_rate / bound);
        found.push(like(own, Metric::THROUGHPUT_LOSS, loss));
    }
    found
}

/// The same work under another scheme in the same competition.
fn beside(records: &[Record], own: &Record, metric: &str, scheme: &str) -> Option<f64> {
    let same = |r: &&Record| {
        r.kind == Kind::Native
            && r.metric == metric
            && r.workload == own.workload
            && r.scheme == scheme
            && (r.threads, r.write_latency_ns) == (own.threads, own.write_latency_ns)
    };
    records.iter().find(same)?.value
}

/// An archapt variant against each scheme that it could replace, and Atlas against undo.
fn against_each(
    records: &[Record],
    own: &Record,
    metric: Metric,
    relate: impl Fn(f64, f64) -> f64,
) -> Vec<Record> {
    let others: &[&str] = match own.scheme.as_str() {
        "undo-archapt" | "redo-archapt" => &["undo", "redo", "aof", "rollback", "atlas"],
        "undo-archapt+sums" => &["undo-archapt"],
        "redo-archapt+sums" => &["redo-archapt"],
        UNSWEPT => &["undo"],
        "atlas" => &["undo", "undo-archapt"],
        _ => &[],
    };
    let mut found = Vec::new();
    for other in others {
        if let (Some(own_value), Some(value)) =
            (own.value, beside(records, own, &own.metric, other))
        {
            found.push(like(own, metric, 100.0 * relate(own_value, value)).class(other));
        }
    }
    found
}

/// The part of flushes and fences in what a scheme adds, where that is more than noise.
fn persistence_share(records: &[Record], log: &Record) -> Option<Record> {
    let part = |metric: Metric, scheme: &str| beside(records, log, metric.name, scheme);
    let waiting = part(Metric::TIME_FLUSH, &log.scheme)? + part(Metric::TIME_FENCE, &log.scheme)?;
    let rest = part(Metric::TIME_REST, &log.scheme)?;
    let cost = log.value? + waiting;
    let share = 100.0 * waiting / cost;
    (cost > COST_SHARE_MIN * rest).then(|| like(log, Metric::PERSISTENCE_SHARE, share))
}

/// A value that follows from this one and others beside it.
fn like(own: &Record, metric: Metric, value: f64) -> Record {
    let mut record = Record::new(Kind::Native, &own.workload, &own.scheme, metric, value);
    record.threads = own.threads;
    record.write_latency_ns = own.write_latency_ns;
    record.config.clone_from(&own.config);
    record.domain.clone_from(&own.domain);
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(scheme: &str, metric: Metric, value: f64) -> Record {
        Record::new(Kind::Native, "ycsb-a", scheme, metric, value).threads(1)
    }

    #[test]
    fn gains_losses_and_shares_follow_from_one_competition() {
        let records = [
            native("none", Metric::THROUGHPUT, 200.0),
            native("undo", Metric::THROUGHPUT, 100.0),
            native("undo-archapt", Metric::THROUGHPUT, 120.0),
            // Another competition: nothing is related to it.
            native("redo", Metric::THROUGHPUT, 1.0).write_latency_ns(150),
            native("undo", Metric::LATENCY_P99, 1000.0),
            native("undo-archapt", Metric::LATENCY_P99, 920.0),
            native("undo", Metric::TIME_LOG, 10.0),
            native("undo", Metric::TIME_FLUSH, 20.0),
            native("undo", Metric::TIME_FENCE, 10.0),
            native("undo", Metric::TIME_REST, 100.0),
        ];
        let found: Vec<_> = derived(&records)
            .into_iter()
            .map(|r| (r.metric, r.scheme, r.class, r.value.unwrap().round()))
            .collect();
        let row = |metric: &str, scheme: &str, class: Option<&str>, value| {
            (metric.to_owned(), scheme.to_owned(), class.map(str::to_owned), value)
        };
        assert_eq!(
            found,
            [
                row("throughput_loss", "undo", None, 50.0),
                row("throughput_gain", "undo-archapt", Some("undo"), 20.0),
                row("throughput_loss", "undo-archapt", None, 40.0),
                row("latency_p99_saved", "undo-archapt", Some("undo"), 8.0),
                row("persistence_share", "undo", None, 75.0),
            ]
        );
    }

    #[test]
    fn parts_lost_in_noise_have_no_share() {
        let records = [
            native("undo", Metric::TIME_LOG, 1.0),
            native("undo", Metric::TIME_FLUSH, 0.0),
            native("undo", Metric::TIME_FENCE, 1.0),
            native("undo", Metric::TIME_REST, 100.0),
        ];
        assert_eq!(derived(&records), []);
    }
}
