//! The competition itself.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outlast::Abort;
use outlast_measure::Rounds;

use super::open::Arrivals;
use super::outcome::{OpenLoop, Outcome, PerTransaction, Round, Timing};
use super::subject::{Lane, Subject};
use crate::clock::{Elapsed, Stopwatch};
use crate::processors::Processors;
use crate::stats::Latencies;

/// How to compete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// How often every subject runs. Five at least, for quartiles that mean something.
    pub rounds: u32,
    /// How long one subject's turn is to take, on average over all.
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

/// A subject could not go on.
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
    /// Subjects with different numbers of threads cannot be compared.
    #[error("{scheme} has {lanes} threads, and the others {others}")]
    UnequalThreads {
        /// The odd one.
        scheme: String,
        /// Its threads.
        lanes: usize,
        /// Those of the others.
        others: usize,
    },
}

/// Runs all subjects against each other, as the [module](super) describes.
///
/// # Errors
/// [`BenchError`]; a competition without one of its subjects is none.
///
/// # Panics
/// When there are no subjects or no rounds, or when a subject panics.
pub fn compete(
    subjects: &mut [Subject<'_>],
    plan: &Plan,
    progress: impl FnMut(Progress<'_>),
) -> Result<Outcome, BenchError> {
    assert!(!subjects.is_empty(), "nothing to compare");
    let threads = same_threads(subjects)? as u32;
    Ok(Outcome { threads, timings: race(subjects, plan, progress)? })
}

/// The same of subjects that may have different numbers of threads. For each of their lanes as many
/// transactions are run.
pub(crate) fn race(
    subjects: &mut [Subject<'_>],
    plan: &Plan,
    mut progress: impl FnMut(Progress<'_>),
) -> Result<Vec<Timing>, BenchError> {
    assert!(!subjects.is_empty() && plan.rounds > 0, "nothing to compare");
    let passes = [plan.latency_transactions > 0, plan.arrivals_per_s.is_some()];
    let turns = u64::from(plan.rounds) + 1 + passes.map(u64::from).iter().sum::<u64>();
    let total = turns * subjects.len() as u64;
    let mut done = 0;
    let mut advance = |scheme: &str| {
        done += 1;
        progress(Progress { done, total, scheme });
    };

    let mut nanos_per_transaction = Vec::new();
    for subject in &mut *subjects {
        nanos_per_transaction.push(calibrate(subject, plan.turn / 10)?);
        advance(&subject.scheme);
    }
    let mean = nanos_per_transaction.iter().sum::<f64>() / subjects.len() as f64;
    let per_lane =
        ((plan.turn.as_nanos() as f64 / mean) as u64).clamp(1, plan.transactions_max.max(1));

    let before: Vec<_> = subjects.iter().map(Subject::count).collect();
    let rounds = Rounds::new(plan.rounds, plan.seed).run(subjects.len(), |index, _| {
        let round = turn(&mut subjects[index], per_lane)?;
        advance(&subjects[index].scheme);
        Ok(round)
    })?;

    let mut timings = Vec::new();
    for ((subject, before), rounds) in subjects.iter().zip(before).zip(rounds) {
        let counted = subject.count().zip(before).map(|(now, then)| now - then);
        let transactions = rounds.iter().map(|round| round.transactions).sum();
        timings.push(Timing {
            scheme: subject.scheme.clone(),
            rounds,
            latencies: None,
            p99_ns: Vec::new(),
            open: None,
            counters: counted.map(|counters| PerTransaction::of(counters, transactions)),
        });
    }
    if plan.latency_transactions > 0 {
        for (subject, timing) in subjects.iter_mut().zip(&mut timings) {
            let latencies = latency_pass(subject, plan.latency_transactions)?;
            timing.p99_ns.push(latencies.quantile_ns(0.99));
            timing.latencies = Some(latencies);
            advance(&subject.scheme);
        }
    }
    if let Some(arrivals_per_s) = plan.arrivals_per_s {
        for (subject, timing) in subjects.iter_mut().zip(&mut timings) {
            timing.open = Some(open_loop(subject, arrivals_per_s, plan)?);
            advance(&subject.scheme);
        }
    }
    Ok(timings)
}

/// What arrives in this time is an open loop's pass, if it is not more than latencies are wanted.
const OPEN_LOOP_S: u64 = 2;

fn open_loop(
    subject: &mut Subject<'_>,
    arrivals_per_s: u64,
    plan: &Plan,
) -> Result<OpenLoop, BenchError> {
    let scheme = &subject.scheme;
    let aborted = |abort| BenchError::Aborted { scheme: scheme.clone(), abort };
    let lanes = subject.lanes.len();
    let per_lane = arrivals_per_s as f64 / lanes as f64;
    let count = ((per_lane * OPEN_LOOP_S as f64) as u64).clamp(1, plan.latency_transactions.max(1));
    let next = AtomicU64::new(0);
    let (_, lane_turns) = on_all(&mut subject.lanes, |lane| {
        let stream = next.fetch_add(1, Ordering::Relaxed);
        let mut arrivals = Arrivals::new(per_lane, plan.seed, stream);
        let mut latencies = Latencies::default();
        lane.run_open(&mut arrivals, count, &mut latencies).map(|()| latencies)
    })
    .map_err(aborted)?;
    let wall = wall_time(&lane_turns);
    Ok(OpenLoop { arrivals_per_s, latencies: merged(lane_turns), wall })
}

fn same_threads(subjects: &[Subject<'_>]) -> Result<usize, BenchError> {
    let others = subjects[0].lanes.len();
    match subjects.iter().find(|subject| subject.lanes.len() != others) {
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
/// subject up, too.
fn calibrate(subject: &mut Subject<'_>, enough: Duration) -> Result<f64, BenchError> {
    let mut per_lane = 1;
    loop {
        let mut least = Duration::MAX;
        for _ in 0..2 {
            least = least.min(turn(subject, per_lane)?.elapsed.wall);
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

/// Parts of a turn's transactions that a lane takes if it is as fast as the others.
const PARTS_PER_LANE: u64 = 64;

/// Runs `per_lane` transactions for each lane. Faster lanes run more of them: no lane stands idle
/// while others have some left, or the end of a turn would measure fewer threads than it is to.
pub(super) fn turn(subject: &mut Subject<'_>, per_lane: u64) -> Result<Round, BenchError> {
    let scheme = &subject.scheme;
    let aborted = |abort| BenchError::Aborted { scheme: scheme.clone(), abort };
    let lanes = subject.lanes.len() as u64;
    let part = if lanes == 1 { per_lane } else { per_lane.div_ceil(PARTS_PER_LANE) };
    let left = AtomicU64::new(per_lane * lanes);
    let next_part = || {
        let less = |left: u64| (left > 0).then(|| left.saturating_sub(part));
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).map(|had| had.min(part))
    };
    let (cpu, lane_turns) = on_all(&mut subject.lanes, |lane| {
        let mut share = 0;
        while let Ok(count) = next_part() {
            lane.run(count)?;
            share += count;
        }
        Ok(share)
    })
    .map_err(aborted)?;
    Ok(sum_up(lane_turns, cpu))
}

/// A turn of which each lane did its share. A lane that came when everything was done, since another
/// program had its processor, has not made it longer.
pub(super) fn sum_up(mut lane_turns: Vec<LaneTurn<u64>>, cpu: Option<Duration>) -> Round {
    let transactions = lane_turns.iter().map(|lane_turn| lane_turn.result).sum();
    let fewest = lane_turns.iter().map(|lane_turn| lane_turn.result).min().unwrap_or_default();
    lane_turns.retain(|lane_turn| lane_turn.result > 0);
    Round { transactions, fewest, elapsed: Elapsed { wall: wall_time(&lane_turns), cpu } }
}

fn latency_pass(subject: &mut Subject<'_>, per_lane: u64) -> Result<Latencies, BenchError> {
    let scheme = &subject.scheme;
    let aborted = |abort| BenchError::Aborted { scheme: scheme.clone(), abort };
    let (_, lane_turns) = on_all(&mut subject.lanes, |lane| {
        let mut latencies = Latencies::default();
        lane.run_timed(per_lane, &mut latencies).map(|()| latencies)
    })
    .map_err(aborted)?;
    Ok(merged(lane_turns))
}

fn merged(lane_turns: Vec<LaneTurn<Latencies>>) -> Latencies {
    let mut all = Latencies::default();
    lane_turns.iter().for_each(|lane_turn| all.merge(&lane_turn.result));
    all
}

/// What one lane did, and when.
pub(super) struct LaneTurn<T> {
    pub start: Instant,
    pub end: Instant,
    pub result: T,
}

impl<T> LaneTurn<T> {
    fn of(work: impl FnOnce() -> Result<T, Abort>) -> Result<Self, Abort> {
        let start = Instant::now();
        let result = work()?;
        Ok(Self { start, end: Instant::now(), result })
    }
}

/// From the first lane's start until the last one's end. How long threads take to start is not in it:
/// on a machine that has other things to do they wait milliseconds for a processor.
fn wall_time<T>(lane_turns: &[LaneTurn<T>]) -> Duration {
    let start = lane_turns.iter().map(|lane_turn| lane_turn.start).min();
    let end = lane_turns.iter().map(|lane_turn| lane_turn.end).max();
    start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start)
}

/// Does `work` on every lane at once, each on a thread of its own (the caller's, if there is
/// but one) and on a processor of its own as long as there are enough. None begins before all threads
/// are there. Also returns the CPU time, in which starting the threads is.
fn on_all<'a, T: Send>(
    lanes: &mut [Box<dyn Lane + 'a>],
    work: impl Fn(&mut (dyn Lane + 'a)) -> Result<T, Abort> + Sync,
) -> Result<(Option<Duration>, Vec<LaneTurn<T>>), Abort> {
    let watch = Stopwatch::new();
    if let [lane] = lanes {
        let lane_turn = LaneTurn::of(|| work(lane.as_mut()))?;
        return Ok((watch.elapsed().cpu, vec![lane_turn]));
    }
    let ready = Barrier::new(lanes.len());
    let (work, ready, processors) = (&work, &ready, &Processors::of_this_process());
    let lane_turns = thread::scope(|scope| {
        let threads: Vec<_> = lanes
            .iter_mut()
            .enumerate()
            .map(|(number, lane)| {
                scope.spawn(move || {
                    processors.pin(number);
                    ready.wait();
                    LaneTurn::of(|| work(lane.as_mut()))
                })
            })
            .collect();
        let lane_turns = threads.into_iter().map(|t| t.join().expect("a subject panicked"));
        // All of them, before one's abort ends it.
        let lane_turns: Vec<_> = lane_turns.collect();
        lane_turns.into_iter().collect::<Result<_, _>>()
    })?;
    Ok((watch.elapsed().cpu, lane_turns))
}
