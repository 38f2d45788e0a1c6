//! The harness on runners that only count.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlast::{Abort, BlockKind, ByteRange, PoolOffset, RootKind, Runner, Transact};

use super::rounds::{LaneTurn, sum_up, turn};
use super::*;
use crate::clock::Elapsed;
use crate::record::Metric;

/// A runner over nothing.
struct Idle;

impl Transact for Idle {
    fn load(&mut self, _at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        out.fill(0);
        Ok(())
    }
    fn will_write(&mut self, _ranges: &[ByteRange]) -> Result<(), Abort> {
        Ok(())
    }
    fn store(&mut self, _at: PoolOffset, _bytes: &[u8]) -> Result<(), Abort> {
        Ok(())
    }
    fn alloc(&mut self, _bytes: u64, _kind: BlockKind) -> Result<PoolOffset, Abort> {
        Ok(PoolOffset(64))
    }
    fn free(&mut self, _block: PoolOffset) -> Result<(), Abort> {
        Ok(())
    }
    fn root(&mut self) -> Result<Option<(PoolOffset, RootKind)>, Abort> {
        Ok(None)
    }
    fn set_root(&mut self, _block: PoolOffset, _kind: RootKind) -> Result<(), Abort> {
        Ok(())
    }
}

impl Runner for Idle {
    type Tx = Idle;

    fn run<R, F>(&mut self, mut body: F) -> Result<R, Abort>
    where
        F: for<'t> FnMut(&mut Idle) -> Result<R, Abort>,
    {
        body(&mut Idle)
    }
}

const PLAN: Plan = Plan {
    rounds: 8,
    turn: Duration::from_millis(1),
    latency_transactions: 100,
    arrivals_per_s: None,
    transactions_max: u64::MAX,
    seed: 5,
};

#[test]
fn everybody_runs_as_many_transactions_in_shuffled_rounds() {
    let turns = Mutex::new(Vec::new());
    let names = ["a", "b", "c"];
    let counts = names.map(|_| AtomicU64::new(0));
    let mut subjects: Vec<_> = names
        .iter()
        .zip(&counts)
        .map(|(name, count)| {
            let step = |idle: &mut Idle| {
                count.fetch_add(1, Ordering::Relaxed);
                idle.run(|tx| tx.store_u64(PoolOffset(0), 1))
            };
            let counters = || Counters {
                flushed_lines: 3 * count.load(Ordering::Relaxed),
                fences: 2 * count.load(Ordering::Relaxed),
                streamed_lines: 0,
            };
            Subject::new(name, vec![lane(Idle, step)]).counted(counters)
        })
        .collect();
    let mut last = (0, 0);
    let outcome = compete(&mut subjects, &PLAN, |progress| {
        last = (progress.done, progress.total);
        turns.lock().unwrap().push(progress.scheme.to_owned());
    })
    .unwrap();
    drop(subjects);

    assert_eq!(last, (30, 30), "calibration, eight rounds, latencies");
    let turns = turns.into_inner().unwrap();
    let rounds: Vec<&[String]> = turns[3..27].chunks(3).collect();
    for round in &rounds {
        let mut sorted = round.to_vec();
        sorted.sort();
        assert_eq!(sorted, names, "everybody once per round");
    }
    assert!(rounds.windows(2).any(|pair| pair[0] != pair[1]), "not always in the same order");

    let transactions = outcome.timings[0].rounds[0].transactions;
    for timing in &outcome.timings {
        assert_eq!(timing.rounds.len(), 8);
        assert!(timing.rounds.iter().all(|round| round.transactions == transactions));
        assert_eq!(timing.latencies.as_ref().unwrap().len(), 100);
        let counters = timing.counters.unwrap();
        assert_eq!((counters.flushed_lines, counters.fences), (3.0, 2.0));
    }
}

#[test]
fn a_transaction_that_was_held_up_does_not_make_the_turns_short() {
    let count = AtomicU64::new(0);
    let step = |_: &mut Idle| {
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    };
    let mut subjects = [Subject::new("held up", vec![lane(Idle, step)])];
    let outcome = compete(&mut subjects, &PLAN, |_| ()).unwrap();
    let transactions = outcome.timings[0].rounds[0].transactions;
    assert!(transactions >= 10, "{transactions} in a turn of a millisecond");
}

#[test]
fn threads_share_the_work_of_a_turn() {
    let (by_the_slow, by_the_fast) = (AtomicU64::new(0), AtomicU64::new(0));
    let started = Instant::now();
    // Not for ever, should the fast one not do more than its half.
    let await_count = move |counter: &AtomicU64, count| {
        while counter.load(Ordering::Relaxed) < count && started.elapsed() < Duration::from_secs(5)
        {
            std::thread::yield_now();
        }
    };
    let lane_runner = |own, other, until| {
        let (own, other): (&AtomicU64, &AtomicU64) = (own, other);
        lane(Idle, move |_: &mut Idle| {
            own.fetch_add(1, Ordering::Relaxed);
            await_count(other, until);
            Ok(())
        })
    };
    let lane_runners = vec![
        lane_runner(&by_the_slow, &by_the_fast, 1200),
        lane_runner(&by_the_fast, &by_the_slow, 1),
    ];
    let round = turn(&mut Subject::new("uneven", lane_runners), 1000).unwrap();
    assert_eq!(round.transactions, 2000, "1000 for each lane");
    let (slow, fast) = (by_the_slow.into_inner(), by_the_fast.into_inner());
    assert!(fast >= 1200, "{fast}: who is faster does more");
    assert_eq!((round.fewest, slow + fast), (slow, 2000));
}

#[test]
fn a_thread_that_came_too_late_does_not_make_its_turn_longer() {
    let moment = Instant::now();
    let part = |start_ms, end_ms, result| {
        let at = |ms| moment + Duration::from_millis(ms);
        LaneTurn { start: at(start_ms), end: at(end_ms), result }
    };
    let round = sum_up(vec![part(2, 12, 3), part(1, 10, 5), part(20, 20, 0)], None);
    assert_eq!((round.transactions, round.fewest), (8, 0));
    assert_eq!(round.elapsed.wall, Duration::from_millis(11));
}

#[test]
fn the_same_seed_gives_the_same_order() {
    let order = |seed| {
        let mut subjects: Vec<_> = ["a", "b", "c", "d"]
            .map(|name| Subject::new(name, vec![lane(Idle, |_: &mut Idle| Ok(()))]))
            .into();
        let mut order = Vec::new();
        let plan = Plan { seed, ..PLAN };
        compete(&mut subjects, &plan, |p| order.push(p.scheme.to_owned())).unwrap();
        order
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn threads_run_at_the_same_time_and_all_count() {
    // A lane waits once for the other, and not for ever, should that one find everything done.
    let (inside, have_met) = (AtomicU64::new(0), AtomicBool::new(false));
    let started = Instant::now();
    let meet = |_: &mut Idle| {
        inside.fetch_add(1, Ordering::SeqCst);
        while !have_met.load(Ordering::SeqCst) && started.elapsed() < Duration::from_secs(5) {
            if inside.load(Ordering::SeqCst) == 2 {
                have_met.store(true, Ordering::SeqCst);
            }
            std::thread::yield_now();
        }
        inside.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    };
    let lanes = |_| lane(Idle, meet);
    let mut subjects = vec![Subject::new("both", (0..2).map(lanes).collect())];
    let plan = Plan { rounds: 2, latency_transactions: 10, ..PLAN };
    let outcome = compete(&mut subjects, &plan, |_| ()).unwrap();
    assert_eq!(outcome.threads, 2);
    assert!(have_met.load(Ordering::SeqCst), "one after the other");
    let timing = &outcome.timings[0];
    assert!(timing.rounds[0].transactions.is_multiple_of(2));
    assert_eq!(timing.latencies.as_ref().unwrap().len(), 20);
}

#[test]
fn an_abort_names_its_scheme_and_unequal_threads_are_refused() {
    let fine = || lane(Idle, |_: &mut Idle| Ok(()));
    let mut left = 10;
    let failing = lane(Idle, move |_: &mut Idle| {
        left -= 1;
        if left > 0 { Ok(()) } else { Err(Abort::OutOfSpace { bytes: 7 }) }
    });
    let mut subjects =
        vec![Subject::new("good", vec![fine()]), Subject::new("full", vec![failing])];
    let error = compete(&mut subjects, &PLAN, |_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "full: no space left in the pool for a block of 7 bytes: free some, or grow the pool"
    );

    let mut subjects =
        vec![Subject::new("one", vec![fine()]), Subject::new("two", vec![fine(), fine()])];
    let error = compete(&mut subjects, &PLAN, |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "two has 2 threads, and the others 1");
}

/// An outcome of given nanoseconds per transaction, by scheme and round.
pub(crate) fn outcome(nanos: &[(&str, &[u64])]) -> Outcome {
    let round = |tx_ns: &u64| Round {
        transactions: 1000,
        fewest: 1000,
        elapsed: Elapsed {
            wall: Duration::from_nanos(tx_ns * 1000),
            cpu: Some(Duration::from_nanos(tx_ns * 2000)),
        },
    };
    let timing = |(scheme, nanos): &(&str, &[u64])| Timing {
        scheme: (*scheme).to_owned(),
        rounds: nanos.iter().map(round).collect(),
        latencies: None,
        p99_ns: Vec::new(),
        open: None,
        counters: None,
    };
    Outcome { threads: 1, timings: nanos.iter().map(timing).collect() }
}

#[test]
fn costs_are_formed_round_by_round_against_the_better_peer() {
    // A machine that slows down by half in the middle round changes no ratio.
    let outcome = outcome(&[
        ("none", &[100, 150, 100]),
        ("undo", &[300, 450, 300]),
        ("pmdk", &[600, 900, 600]),
        ("pmdk-word", &[1100, 1650, 1100]),
    ]);
    let costs = cost::costs(&outcome, cost::Clock::Wall, "none", &["pmdk", "pmdk-word"]);
    let schemes: Vec<_> = costs.iter().map(|cost| cost.scheme.as_str()).collect();
    assert_eq!(schemes, ["undo", "pmdk", "pmdk-word"]);
    assert_eq!((costs[0].nanos.median, costs[0].nanos.p75), (200.0, 250.0));
    let ratio = costs[0].ratio.as_ref().unwrap();
    assert_eq!(ratio.peer, "pmdk");
    assert_eq!((ratio.spread.p25, ratio.spread.median, ratio.spread.p75), (0.4, 0.4, 0.4));
    assert_eq!(costs[1].ratio.as_ref().unwrap().spread.median, 1.0);
    // These CPUs are twice as slow as their clock, and that changes no ratio either.
    let by_cpu = cost::costs(&outcome, cost::Clock::Cpu, "none", &["pmdk", "pmdk-word"]);
    assert_eq!(by_cpu[0].nanos.median, 400.0);
    assert_eq!(by_cpu[0].ratio.as_ref().unwrap().spread.median, 0.4);
}

#[test]
fn costs_that_cannot_be_formed_are_left_out() {
    let without_bound = outcome(&[("undo", &[300]), ("pmdk", &[600])]);
    assert!(cost::costs(&without_bound, cost::Clock::Wall, "none", &["pmdk"]).is_empty());
    let without_peer = outcome(&[("none", &[100]), ("undo", &[300])]);
    assert_eq!(cost::costs(&without_peer, cost::Clock::Wall, "none", &["pmdk"])[0].ratio, None);
    let free_peer = outcome(&[("none", &[100]), ("undo", &[300]), ("pmdk", &[90])]);
    assert_eq!(cost::costs(&free_peer, cost::Clock::Wall, "none", &["pmdk"])[0].ratio, None);
}

#[test]
fn records_carry_medians_quartiles_and_the_peer() {
    let outcome = outcome(&[("none", &[100, 100]), ("undo", &[200, 400]), ("pmdk", &[500, 500])]);
    let records = outcome.records("sps1", "none", &["pmdk"]);
    let find = |scheme: &str, metric: Metric| {
        records.iter().find(|r| r.scheme == scheme && r.is(metric)).unwrap()
    };
    let throughput = find("undo", Metric::THROUGHPUT);
    assert_eq!((throughput.p25, throughput.p75), (Some(3_125_000.0), Some(4_375_000.0)));
    assert_eq!((throughput.rounds, throughput.threads), (Some(2), Some(1)));
    assert_eq!(find("undo", Metric::THROUGHPUT_CPU).value, Some(1_875_000.0));
    let ratio = find("undo", Metric::PERSISTENCE_COST_RATIO);
    assert_eq!(ratio.value, Some(0.5));
    assert_eq!(ratio.config.as_deref(), Some("relative to pmdk"));
}
