//! What more threads bring: one scheme with several numbers of threads, side by side.
//!
//! A pool for each number, each with the same workload, and every round has a turn of each, so that
//! ratios are of one run. Pools are made anew several times, as in the other competitions.

use outlast_measure::Rounds;
use outlast_workloads::Workload;

use super::directory::PoolDirectory;
use super::{NativeError, Own, Session, Setup};
use crate::bench::{Round, Subject, Timing, race};
use crate::progress::{Listener, Progress};
use crate::record::{Kind, Metric, Record};
use crate::stats::Spread;

/// Measures the setup's workloads under its own schemes with each of these numbers of threads,
/// related to the first.
///
/// # Errors
/// [`NativeError`], as for one number.
///
/// # Panics
/// When no number is given.
pub fn measure(
    setup: &Setup,
    threads: &[u32],
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, NativeError> {
    assert!(!threads.is_empty(), "no numbers of threads");
    let setups: Vec<Setup> =
        threads.iter().map(|&threads| Setup { threads, ..setup.clone() }).collect();
    setups.iter().try_for_each(Setup::check)?;
    let directory = PoolDirectory::new(setup)?;
    listen(Progress::Note(&format!(
        "domain {}: {}",
        directory.description(),
        directory.domain().promise()
    )));
    let own = setup.own_schemes();
    if own.len() < setup.contenders.len() {
        listen(Progress::Note("peers and bare loops are left out: they have one thread"));
    }
    let mut records = Vec::new();
    for workload in &setup.workloads {
        for &scheme in &own {
            records.extend(of_one(&setups, &directory, workload, scheme, listen)?);
        }
    }
    Ok(records)
}

/// One scheme on one workload.
fn of_one(
    setups: &[Setup],
    directory: &PoolDirectory,
    workload: &'static Workload,
    scheme: Own,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, NativeError> {
    let sessions: Vec<Session<'_>> = setups
        .iter()
        .map(|setup| {
            let scale = setup.scale(workload);
            Session { setup, directory, workload, scale, peers: &[], bare: Vec::new() }
        })
        .collect();
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); sessions.len()];
    for order in Rounds::new(setups[0].placements(), setups[0].seed).orders(sessions.len()) {
        for (number, timing) in order.iter().zip(race_once(&sessions, &order, scheme, listen)?) {
            rounds[*number].extend(timing.rounds);
        }
    }
    let told = sessions.iter().zip(&rounds).flat_map(|(session, own)| {
        let threads = session.setup.threads;
        let records = told(scheme.name(), workload.name, threads, own, &rounds[0]);
        records.into_iter().map(move |record| session.with_conditions(record.threads(threads)))
    });
    Ok(told.collect())
}

/// A race on pools made in this order, whose timings come in the same.
fn race_once(
    sessions: &[Session<'_>],
    order: &[usize],
    scheme: Own,
    listen: &mut Listener<'_>,
) -> Result<Vec<Timing>, NativeError> {
    let workload = sessions[0].workload;
    let pools = order
        .iter()
        .map(|&number| {
            let session = &sessions[number];
            session.directory.pool(session, scheme, session.setup.threads, &|mapped| mapped)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut subjects = Vec::new();
    for (&number, pool) in order.iter().zip(&pools) {
        subjects.push(Subject::new(scheme.name(), pool.lanes(&sessions[number], 0)?));
    }
    // The one with most threads fills its pool first.
    let largest = sessions.iter().max_by_key(|session| session.setup.threads);
    let largest = largest.expect("there are sessions");
    let mut plan = largest.setup.plan(workload, &largest.scale, 1);
    plan.latency_transactions = 0;
    plan.arrivals_per_s = None;
    let stage = format!("{}: threads", workload.name);
    race(&mut subjects, &plan, |turn| {
        listen(Progress::Step { stage: &stage, done: turn.done, total: turn.total });
    })
    .map_err(|source| NativeError::Bench { workload: workload.name, source })
}

/// How fast, how much faster than `base`, if that is another, in the same rounds, and how evenly.
fn told(
    scheme: &str,
    workload: &str,
    threads: u32,
    rounds: &[Round],
    base: &[Round],
) -> Vec<Record> {
    let ratio = |of: fn(&Round) -> Option<f64>| {
        if std::ptr::eq(rounds, base) {
            return None;
        }
        let ratios = rounds.iter().zip(base).map(|(own, base)| Some(of(base)? / of(own)?));
        Spread::of(ratios.collect::<Option<Vec<f64>>>()?)
    };
    let share =
        |round: &Round| round.fewest as f64 * f64::from(threads) / round.transactions as f64;
    let least = (threads > 1).then(|| Spread::of(rounds.iter().map(share))).flatten();
    let spreads = [
        (Metric::THROUGHPUT, Spread::of(rounds.iter().map(|round| 1e9 / round.tx_ns()))),
        (Metric::SCALING, ratio(|round| Some(round.tx_ns()))),
        (Metric::SCALING_CPU, ratio(Round::tx_cpu_ns)),
        (Metric::LEAST_SHARE, least),
    ];
    let record = |(metric, spread): (Metric, Option<Spread>)| {
        Some(Record::spread(Kind::Native, workload, scheme, metric, spread?))
    };
    spreads.into_iter().filter_map(record).collect()
}
