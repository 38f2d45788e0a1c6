//! The competition itself.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outlast::Abort;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::contestant::{Contestant, Lane};
use super::open::Arrivals;
use super::outcome::{OpenLoop, Outcome, PerTransaction, Round, Timing};
use crate::clock::{Elapsed, Stopwatch};
use crate::processors::Processors;
use crate::stats::Latencies;

/// How to compete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// How often every contestant runs. Five at least, for quartiles that mean something.
    pub rounds: u32,
    /// How long one contestant's turn is to take, on average over all.
    pub turn: Duration,
    /// Transactions per lane of the latency pass; 0 leaves it out.
    pub latency_transactions: u64,
    /// Arrivals per second of an open loop, all lanes together; `None` leaves it out.
    pub arrivals_per_s: Option<u64>,
    /// Transactions per lane in one turn at most, for workloads whose pools fill up.
    pub transactions_max: u64,
    /// Decides the order in each round.
    pub seed: u64,
}

/// How far a competition has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress<'a> {
    /// Turns finished.
    pub done: u64,
    /// Turns in all: calibration, rounds and the latency pass.
    pub total: u64,
    /// Whose turn it was.
    pub scheme: &'a str,
}

/// A contestant could not go on.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// One of its transactions aborted.
    #[error("{scheme}: {abort}")]
    Aborted {
        /// Whose.
        scheme: String,
        /// Why.
        abort: Abort,
    },
    /// Contestants with different numbers of threads cannot be compared.
    #[error("{scheme} has {lanes} threads, and the others {others}")]
    UnequalThreads {
        /// The odd one.
        scheme: String,
        /// Its threads.
        lanes: usize,
        /// Everybody else's.
        others: usize,
    },
}

/// Runs all contestants against each other, as the [module](super) describes.
///
/// # Errors
/// [`BenchError`]; a competition without one of its contestants is none.
///
/// # Panics
/// When there are no contestants or no rounds, or when a contestant panics.
pub fn compete(
    contestants: &mut [Contestant<'_>],
    plan: &Plan,
    progress: impl FnMut(Progress<'_>),
) -> Result<Outcome, BenchError> {
    assert!(!contestants.is_empty(), "nothing to compare");
    let threads = same_threads(contestants)? as u32;
    Ok(Outcome { threads, timings: race(contestants, plan, progress)? })
}

/// The same of contestants that may have different numbers of threads. For each of their lanes as many
/// transactions are run.
pub(crate) fn race(
    contestants: &mut [Contestant<'_>],
    plan: &Plan,
    mut progress: impl FnMut(Progress<'_>),
) -> Result<Vec<Timing>, BenchError> {
    assert!(!contestants.is_empty() && plan.rounds > 0, "nothing to compare");
    let passes = [plan.latency_transactions > 0, plan.arrivals_per_s.is_some()];
    let turns = u64::from(plan.rounds) + 1 + passes.map(u64::from).iter().sum::<u64>();
    let total = turns * contestants.len() as u64;
    let mut done = 0;
    let mut advance = |scheme: &str| {
        done += 1;
        progress(Progress { done, total, scheme });
    };

    let mut nanos_per_transaction = Vec::new();
    for contestant in &mut *contestants {
        nanos_per_transaction.push(calibrate(contestant, plan.turn / 10)?);
        advance(&contestant.scheme);
    }
    let mean = nanos_per_transaction.iter().sum::<f64>() / contestants.len() as f64;
    let per_lane =
        ((plan.turn.as_nanos() as f64 / mean) as u64).clamp(1, plan.transactions_max.max(1));

    let before: Vec<_> = contestants.iter().map(Contestant::count).collect();
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); contestants.len()];
    let mut rng = ChaCha8Rng::seed_from_u64(plan.seed);
    let mut order: Vec<usize> = (0..contestants.len()).collect();
    for _ in 0..plan.rounds {
        order.shuffle(&mut rng);
        for &index in &order {
            let contestant = &mut contestants[index];
            rounds[index].push(turn(contestant, per_lane)?);
            advance(&contestants[index].scheme);
        }
    }

    let mut timings = Vec::new();
    for ((contestant, before), rounds) in contestants.iter().zip(before).zip(rounds) {
        let counted = contestant.count().zip(before).map(|(now, then)| now - then);
        let transactions = rounds.iter().map(|round| round.transactions).sum();
        timings.push(Timing {
            scheme: contestant.scheme.clone(),
            rounds,
            latencies: None,
            p99_ns: Vec::new(),
            open: None,
            counters: counted.map(|counters| PerTransaction::of(counters, transactions)),
        });
    }
    if plan.latency_transactions > 0 {
        for (contestant, timing) in contestants.iter_mut().zip(&mut timings) {
            let latencies = latency_pass(contestant, plan.latency_transactions)?;
            timing.p99_ns.push(latencies.quantile_ns(0.99));
            timing.latencies = Some(latencies);
            advance(&contestant.scheme);
        }
    }
    if let Some(arrivals_per_s) = plan.arrivals_per_s {
        for (contestant, timing) in contestants.iter_mut().zip(&mut timings) {
            timing.open = Some(open_loop(contestant, arrivals_per_s, plan)?);
            advance(&contestant.scheme);
        }
    }
    Ok(timings)
}

/// What arrives in this time is an open loop's pass, if it is not more than latencies are wanted.
const OPEN_LOOP_S: u64 = 2;

fn open_loop(
    contestant: &mut Contestant<'_>,
    arrivals_per_s: u64,
    plan: &Plan,
) -> Result<OpenLoop, BenchError> {
    let scheme = &contestant.scheme;
    let aborted = |abort| BenchError::Aborted { scheme: scheme.clone(), abort };
    let lanes = contestant.lanes.len();
    let per_lane = arrivals_per_s as f64 / lanes as f64;
    let count = ((per_lane * OPEN_LOOP_S as f64) as u64).clamp(1, plan.latency_transactions.max(1));
    let next = AtomicU64::new(0);
    let (_, stints) = on_all(&mut contestant.lanes, |lane| {
        let stream = next.fetch_add(1, Ordering::Relaxed);
        let mut arrivals = Arrivals::new(per_lane, plan.seed, stream);
        let mut latencies = Latencies::default();
        lane.run_open(&mut arrivals, count, &mut latencies).map(|()| latencies)
    })
    .map_err(aborted)?;
    let wall = wall_time(&stints);
    Ok(OpenLoop { arrivals_per_s, latencies: merged(stints), wall })
}

fn same_threads(contestants: &[Contestant<'_>]) -> Result<usize, BenchError> {
    let others = contestants[0].lanes.len();
    match contestants.iter().find(|contestant| contestant.lanes.len() != others) {
        None => Ok(others),
        Some(odd) => Err(BenchError::UnequalThreads {
            scheme: odd.scheme.clone(),
            lanes: odd.lanes.len(),
            others,
        }),
    }
}

/// Runs ever more transactions until they take `enough`, twice in a row, since a busy machine may
/// hold up any of them once; returns nanoseconds of wall time per transaction of one lane. Warms the
/// contestant up, too.
fn calibrate(contestant: &mut Contestant<'_>, enough: Duration) -> Result<f64, BenchError> {
    let mut per_lane = 1;
    loop {
        let mut least = Duration::MAX;
        for _ in 0..2 {
            least = least.min(turn(contestant, per_lane)?.elapsed.wall);
            if least < enough {
                break;
            }
        }
        if least >= enough || per_lane >= 1 << 40 {
            return Ok(least.as_nanos().max(1) as f64 / per_lane as f64);
        }
        per_lane *= 2;
    }
}

/// So many times a lane that is as fast as the others takes of what is to be done in a turn.
const PARTS_PER_LANE: u64 = 64;

/// Runs so many transactions for each lane. Which lane runs how many is theirs: none stands idle while
/// others have some left, or the end of a turn would measure less threads than it is to.
pub(super) fn turn(contestant: &mut Contestant<'_>, per_lane: u64) -> Result<Round, BenchError> {
    let scheme = &contestant.scheme;
    let aborted = |abort| BenchError::Aborted { scheme: scheme.clone(), abort };
    let lanes = contestant.lanes.len() as u64;
    let part = if lanes == 1 { per_lane } else { per_lane.div_ceil(PARTS_PER_LANE) };
    let left = AtomicU64::new(per_lane * lanes);
    let next_part = || {
        let less = |left: u64| (left > 0).then(|| left.saturating_sub(part));
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).map(|had| had.min(part))
    };
    let (cpu, stints) = on_all(&mut contestant.lanes, |lane| {
        let mut share = 0;
        while let Ok(count) = next_part() {
            lane.run(count)?;
            share += count;
        }
        Ok(share)
    })
    .map_err(aborted)?;
    Ok(sum_up(stints, cpu))
}

/// A turn of which each lane did its share. A lane that came when everything was done, since another
/// program had its processor, has not made it longer.
pub(super) fn sum_up(mut stints: Vec<Stint<u64>>, cpu: Option<Duration>) -> Round {
    let transactions = stints.iter().map(|stint| stint.result).sum();
    let fewest = stints.iter().map(|stint| stint.result).min().unwrap_or_default();
    stints.retain(|stint| stint.result > 0);
    Round { transactions, fewest, elapsed: Elapsed { wall: wall_time(&stints), cpu } }
}

fn latency_pass(contestant: &mut Contestant<'_>, per_lane: u64) -> Result<Latencies, BenchError> {
    let scheme = &contestant.scheme;
    let aborted = |abort| BenchError::Aborted { scheme: scheme.clone(), abort };
    let (_, stints) = on_all(&mut contestant.lanes, |lane| {
        let mut latencies = Latencies::default();
        lane.run_timed(per_lane, &mut latencies).map(|()| latencies)
    })
    .map_err(aborted)?;
    Ok(merged(stints))
}

fn merged(stints: Vec<Stint<Latencies>>) -> Latencies {
    let mut all = Latencies::default();
    stints.iter().for_each(|stint| all.merge(&stint.result));
    all
}

/// What one lane did, and when.
pub(super) struct Stint<T> {
    pub start: Instant,
    pub end: Instant,
    pub result: T,
}

impl<T> Stint<T> {
    fn of(work: impl FnOnce() -> Result<T, Abort>) -> Result<Self, Abort> {
        let start = Instant::now();
        let result = work()?;
        Ok(Self { start, end: Instant::now(), result })
    }
}

/// From the first lane's start until the last one's end. How long threads take to start is not in it:
/// on a machine that has other things to do they wait milliseconds for a processor.
fn wall_time<T>(stints: &[Stint<T>]) -> Duration {
    let start = stints.iter().map(|stint| stint.start).min();
    let end = stints.iter().map(|stint| stint.end).max();
    start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start)
}

/// Does `work` on every lane at once, each on a thread of its own (the caller's, if there is
/// but one) and on a processor of its own as long as there are enough. None begins before all threads
/// are there. Also returns the CPU time, in which starting the threads is.
fn on_all<'a, T: Send>(
    lanes: &mut [Box<dyn Lane + 'a>],
    work: impl Fn(&mut (dyn Lane + 'a)) -> Result<T, Abort> + Sync,
) -> Result<(Option<Duration>, Vec<Stint<T>>), Abort> {
    let watch = Stopwatch::new();
    if let [lane] = lanes {
        let stint = Stint::of(|| work(lane.as_mut()))?;
        return Ok((watch.elapsed().cpu, vec![stint]));
    }
    let ready = Barrier::new(lanes.len());
    let (work, ready, processors) = (&work, &ready, &Processors::of_this_process());
    let stints = thread::scope(|scope| {
        let threads: Vec<_> = lanes
            .iter_mut()
            .enumerate()
            .map(|(number, lane)| {
                scope.spawn(move || {
                    processors.pin(number);
                    ready.wait();
                    Stint::of(|| work(lane.as_mut()))
                })
            })
            .collect();
        let stints = threads.into_iter().map(|t| t.join().expect("a contestant panicked"));
        // All of them, before one's abort ends it.
        let stints: Vec<_> = stints.collect();
        stints.into_iter().collect::<Result<_, _>>()
    })?;
    Ok((watch.elapsed().cpu, stints))
}
