use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

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
fn in_ascending_order_schedules_with_fewer_preemptions_come_first() {
    let plans = |explorer: Explorer| {
        let medium = Recorder::new(64);
        let make = || (0..2).map(|_| stores(&medium, 3)).collect();
        let mut plans = Vec::new();
        let ran = explorer.run_all(make, |plan, _: Run<()>| {
            plans.push(plan.to_string());
            Ok::<(), ScheduleError>(())
        });
        ran.unwrap();
        plans
    };
    let sorted = |mut plans: Vec<String>| {
        plans.sort();
        plans
    };
    let ascending = plans(Explorer::new(2).ascending());
    for fewer in 0..3 {
        let all = plans(Explorer::new(fewer));
        assert_eq!(sorted(ascending[..all.len()].to_vec()), sorted(all), "{fewer} preemptions");
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

/// A run whose lanes may stand still for less long than by default.
fn impatient(plan: &Plan) -> Scheduler {
    let mut scheduler = Scheduler::new(plan);
    scheduler.limits = watch::Limits {
        asleep: Duration::from_millis(100),
        unknown: Duration::from_millis(100),
        spinning: Duration::from_millis(100),
        period: Duration::from_millis(5),
        ..scheduler.limits
    };
    scheduler
}

/// Stores under a mutex of std; the one who holds it is suspended within.
fn stores_under_a_lock<'a>(medium: &'a Recorder, mutex: &'a Mutex<()>) -> impl FnOnce() + 'a {
    || {
        let _guard = mutex.lock();
        stores(medium, 3)();
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no /proc, and its clock stands still")]
fn a_lane_that_waits_for_a_lock_of_a_suspended_one_is_named() {
    let (medium, mutex) = (Recorder::new(64), Mutex::new(()));
    let plan = Plan::RoundRobin { operations: 1 };
    let lanes = (0..3).map(|_| stores_under_a_lock(&medium, &mutex)).collect();
    match impatient(&plan).run(lanes) {
        Err(ScheduleError::Blocked { lane, plan: named }) => {
            assert_eq!((lane, named), (LaneId(1), plan));
        }
        other => panic!("not blocked: {other:?}"),
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no /proc, and its clock stands still")]
fn a_lane_that_spins_outside_the_medium_is_named() {
    let (medium, flag) = (Recorder::new(64), AtomicBool::new(false));
    let lanes: Vec<Box<dyn FnOnce() + Send>> = vec![
        Box::new(|| {
            while !flag.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        }),
        Box::new(|| {
            struct SetsOnTheWayOut<'a>(&'a AtomicBool);
            impl Drop for SetsOnTheWayOut<'_> {
                fn drop(&mut self) {
                    self.0.store(true, Ordering::Release);
                }
            }
            let _sets = SetsOnTheWayOut(&flag);
            medium.store_u64(PoolOffset(0), 1);
            medium.store_u64(PoolOffset(0), 2);
        }),
    ];
    let plan: Plan = "switch 0:1 2:0".parse().unwrap();
    let result = impatient(&plan).run(lanes);
    assert!(matches!(result, Err(ScheduleError::Blocked { lane: LaneId(0), .. })), "{result:?}");
}

/// A lane that no unwinding of the others lets go on: the process says so and ends.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_lane_that_never_goes_on_ends_the_process_and_not_in_a_hang() {
    const CHILD: &str = "OUTLAST_TEST_LANE_BLOCKS_FOR_EVER";
    if std::env::var_os(CHILD).is_some() {
        let medium = Recorder::new(64);
        let lanes: Vec<Box<dyn FnOnce() + Send>> = vec![
            Box::new(|| {
                loop {
                    std::thread::park()
                }
            }),
            Box::new(stores(&medium, 3)),
        ];
        let mut scheduler = impatient(&"switch 0:1 2:0".parse().unwrap());
        scheduler.limits.ending = Duration::from_millis(100);
        let _ = scheduler.run(lanes);
        return;
    }
    let name = "schedule::tests::a_lane_that_never_goes_on_ends_the_process_and_not_in_a_hang";
    let child = crate::process::own_program()
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success());
    assert!(said.contains("lane 0 stands still outside the medium"), "{said}");
}

#[test]
fn a_lock_of_std_taken_by_way_of_the_scheduler_lets_every_lane_end() {
    let mut orders = BTreeSet::new();
    Explorer::new(1)
        .run_all(
            || {
                let shared = Arc::new((Recorder::new(64), Mutex::new(Vec::new())));
                let lane = |_| {
                    let shared = Arc::clone(&shared);
                    move || {
                        let mut order = lock(&shared.1).unwrap();
                        shared.0.store_u64(PoolOffset(0), 1);
                        order.push(current_lane().0);
                        shared.0.store_u64(PoolOffset(0), 2);
                        order.clone()
                    }
                };
                (0..2).map(lane).collect()
            },
            |_, run| {
                orders.insert(run.unwrap());
                Ok::<(), ScheduleError>(())
            },
        )
        .unwrap();
    let first = vec![vec![0], vec![0, 1]];
    let second = vec![vec![1, 0], vec![1]];
    assert_eq!(orders, BTreeSet::from([first, second]));
}
