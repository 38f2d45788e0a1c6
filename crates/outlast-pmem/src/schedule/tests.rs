use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use outlast_trace::{LaneId, Op, PoolOffset};

use super::*;
use crate::{Medium, Recorder};

/// A lane's stores of one value to one word, so that a recorded order shows the schedule.
fn stores(medium: &Recorder, times: u64) -> impl FnOnce() + Send + '_ {
    move || {
        for _ in 0..times {
            medium.store_u64(PoolOffset(0), u64::from(current_lane().0));
        }
    }
}

fn lanes_in_order(medium: &Recorder) -> Vec<u16> {
    medium.take_log().iter().map(|(lane, _)| lane.0).collect()
}

fn order_under(plan: &Plan, lanes: usize, times: u64) -> Vec<u16> {
    let medium = Recorder::new(64);
    let bodies = (0..lanes).map(|_| stores(&medium, times)).collect();
    run(plan, bodies).unwrap().unwrap();
    lanes_in_order(&medium)
}

#[test]
fn by_default_lanes_run_one_after_the_other() {
    assert_eq!(order_under(&Plan::default(), 3, 2), [0, 0, 1, 1, 2, 2]);
}

#[test]
fn round_robin_takes_turns() {
    assert_eq!(order_under(&Plan::RoundRobin { operations: 1 }, 2, 3), [0, 1, 0, 1, 0, 1]);
    assert_eq!(order_under(&Plan::RoundRobin { operations: 2 }, 2, 4), [0, 0, 1, 1, 0, 0, 1, 1]);
}

#[test]
fn a_seed_gives_the_same_schedule_again_and_seeds_differ() {
    let order = |seed| order_under(&Plan::Random { seed, stay: 128 }, 3, 20);
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn the_switches_of_a_random_run_replay_it() {
    for seed in 0..20 {
        let medium = Recorder::new(64);
        let bodies = |m| (0..3).map(|_| stores(m, 10)).collect();
        let first = run(&Plan::Random { seed, stay: 100 }, bodies(&medium)).unwrap();
        let order = lanes_in_order(&medium);
        let text = Plan::Explicit(first.switches.clone()).to_string();
        let again = run(&text.parse().unwrap(), bodies(&medium)).unwrap();
        assert_eq!(lanes_in_order(&medium), order);
        assert_eq!(again.switches, first.switches);
    }
}

#[test]
fn plans_are_written_and_read_back() {
    for text in ["seed 7 stay 200", "every 3", "switch", "switch 3:1 9:0"] {
        assert_eq!(text.parse::<Plan>().unwrap().to_string(), text);
    }
    for text in ["", "every 0", "seed x stay 1", "switch 9:0 3:1", "switch 9", "seed 1 stay 256"] {
        assert!(text.parse::<Plan>().is_err(), "{text}");
    }
}

/// All interleavings of two lanes of `n` operations with at most `k` preemptions, counted by
/// hand: a brute-force walk over lane sequences.
fn interleavings(
    left: [u32; 2],
    last: Option<usize>,
    budget: u32,
    prefix: &mut Vec<u16>,
) -> BTreeSet<Vec<u16>> {
    if left == [0, 0] {
        return BTreeSet::from([prefix.clone()]);
    }
    let mut all = BTreeSet::new();
    for lane in 0..2 {
        let preempts = last.is_some_and(|last| last != lane && left[last] > 0);
        if left[lane] == 0 || (preempts && budget == 0) {
            continue;
        }
        let mut left = left;
        left[lane] -= 1;
        prefix.push(lane as u16);
        all.extend(interleavings(left, Some(lane), budget - u32::from(preempts), prefix));
        prefix.pop();
    }
    all
}

#[test]
fn the_explorer_runs_every_schedule_within_its_bound_once() {
    for preemptions in 0..=3 {
        let medium = Recorder::new(64);
        let mut seen = Vec::new();
        let make = || (0..2).map(|_| stores(&medium, 4)).collect();
        let count = Explorer::new(preemptions)
            .run_all(make, |_, run| {
                run.unwrap();
                seen.push(lanes_in_order(&medium));
                Ok::<(), ScheduleError>(())
            })
            .unwrap();
        let distinct: BTreeSet<Vec<u16>> = seen.iter().cloned().collect();
        assert_eq!(distinct, interleavings([4, 4], None, preemptions, &mut Vec::new()));
        // A switch at a lane's first operation is a different schedule of the same operations,
        // so orders may repeat; plans may not, and the count says so.
        assert_eq!(count, seen.len() as u64);
        assert!(count >= distinct.len() as u64);
    }
}

#[test]
fn pausing_hands_over_and_all_lanes_may_take_over() {
    let first_after_pause = |plan: &Plan| {
        let medium = Recorder::new(64);
        let flag = AtomicBool::new(false);
        let lanes: Vec<Box<dyn FnOnce() + Send>> = vec![
            Box::new(|| {
                while !flag.load(Ordering::Relaxed) {
                    medium.pause();
                }
                medium.store_u64(PoolOffset(0), 1);
            }),
            Box::new(|| medium.store_u64(PoolOffset(0), 1)),
            Box::new(|| {
                medium.store_u64(PoolOffset(0), 1);
                flag.store(true, Ordering::Relaxed);
            }),
        ];
        run(plan, lanes).unwrap().unwrap();
        lanes_in_order(&medium)
    };
    assert_eq!(first_after_pause(&Plan::default()), [1, 2, 0]);
    assert_eq!(first_after_pause(&"switch 1:2".parse().unwrap()), [2, 0, 1]);
}

#[test]
fn lanes_that_wait_for_each_other_are_found_out() {
    let medium = Recorder::new(64);
    let wait = || {
        while medium.load_u64(PoolOffset(8)) == 0 {
            medium.pause();
        }
    };
    let plan = Plan::Random { seed: 3, stay: 10 };
    match run(&plan, vec![wait, wait]) {
        Err(ScheduleError::Livelock { plan: named, .. }) => assert_eq!(named, plan),
        other => panic!("not a livelock: {other:?}"),
    }
}

#[test]
fn a_lane_that_runs_for_ever_is_stopped() {
    let medium = Recorder::new(64);
    let spin = || loop {
        medium.store_u64(PoolOffset(8), 0);
    };
    let result =
        Scheduler::new(&Plan::RoundRobin { operations: 1 }).steps_max(1000).run(vec![spin, spin]);
    assert!(matches!(result, Err::<Run<()>, _>(ScheduleError::Endless { steps: 1000, .. })));
}

#[test]
fn a_panic_ends_its_lane_only() {
    let medium = Recorder::new(64);
    let lanes: Vec<Box<dyn FnOnce() -> u64 + Send>> = vec![
        Box::new(|| std::panic::resume_unwind(Box::new("gone"))),
        Box::new(|| medium.load_u64(PoolOffset(0)) + 5),
    ];
    let run = run(&Plan::RoundRobin { operations: 1 }, lanes).unwrap();
    assert!(run.lanes[0].is_err());
    assert_eq!(*run.lanes[1].as_ref().unwrap(), 5);
}

#[test]
fn a_plan_for_another_program_is_refused() {
    let medium = Recorder::new(64);
    let bodies = || (0..2).map(|_| stores(&medium, 2)).collect();
    for text in ["switch 1:7", "switch 500:1"] {
        let result = run(&text.parse().unwrap(), bodies());
        assert!(matches!(result, Err(ScheduleError::Diverged { .. })), "{text}: {result:?}");
    }
}

#[test]
fn only_one_lane_moves_at_a_time() {
    let medium = Recorder::new(64);
    let inside = AtomicUsize::new(0);
    let body = || {
        for _ in 0..200 {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            inside.fetch_sub(1, Ordering::SeqCst);
            medium.store_u64(PoolOffset(0), 1);
        }
    };
    run(&Plan::Random { seed: 1, stay: 0 }, vec![body, body, body]).unwrap().unwrap();
    assert_eq!(
        medium.take_log().iter().filter(|(_, op)| matches!(op, Op::Store { .. })).count(),
        600
    );
}

#[test]
fn sixty_four_lanes_fit() {
    let order = order_under(&Plan::RoundRobin { operations: 1 }, 64, 1);
    assert_eq!(order.len(), 64);
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 64);
    assert_eq!(current_lane(), LaneId(0));
}
