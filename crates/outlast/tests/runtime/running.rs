//! Transactions without a closure: begun in one place, ended in another.

use std::panic::{AssertUnwindSafe, catch_unwind};

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::{Abort, Ack, BlockKind, Pool, PoolOffset, Runner, Scheme, Transact};
use outlast_pmem::Heap;

use crate::common::sound_schemes;

fn pool_of(scheme: Scheme, lanes: u32) -> (Pool<Heap>, PoolOffset) {
    let create = CreateOptions { lanes, lane_bytes: 4096, ..CreateOptions::default() };
    let open = OpenOptions { lock_stripes: 1024, ..OpenOptions::with_scheme(scheme) };
    let pool = Pool::create_on(Heap::new(1 << 20), &create, &open).unwrap();
    let block = pool
        .lane()
        .unwrap()
        .run(|tx| {
            let block = tx.alloc(256, BlockKind::Key)?;
            tx.store(block, &[0; 256])?;
            Ok(block)
        })
        .unwrap();
    (pool, block)
}

fn word(pool: &Pool<Heap>, at: PoolOffset) -> u64 {
    pool.lane().unwrap().run(|tx| tx.load_u64(at)).unwrap()
}

#[test]
fn it_commits_what_it_did_and_aborts_what_it_did_not() {
    for scheme in sound_schemes() {
        let (pool, block) = pool_of(scheme, 1);
        let mut running = pool.lane().unwrap().begin();
        running.store_u64(block, 1).unwrap();
        assert_eq!(running.load_u64(block).unwrap(), 1);
        let (lane, first) = running.commit();
        let mut running = lane.begin();
        running.store_u64(block, 2).unwrap();
        let taken = running.alloc(64, BlockKind::Value).unwrap();
        running.store_u64(taken, 3).unwrap();
        let mut running = running.abort().begin();
        assert_eq!(running.load_u64(block).unwrap(), 1, "{scheme}");
        running.store_u64(block, 4).unwrap();
        let (lane, second) = running.commit();
        assert!(first.unwrap() < second.unwrap(), "{scheme}");
        drop(lane);
        assert_eq!(word(&pool, block), 4, "{scheme}");
    }
}

#[test]
fn dropped_in_the_middle_it_gives_back_everything() {
    for scheme in sound_schemes() {
        let (pool, block) = pool_of(scheme, 1);
        let mut running = pool.lane().unwrap().begin();
        running.store_u64(block, 1).unwrap();
        assert!(pool.try_lane().is_err(), "{scheme}: it holds the only lane");
        drop(running);
        assert_eq!(word(&pool, block), 0, "{scheme}");
    }
}

#[test]
fn a_panic_in_the_middle_gives_back_everything() {
    for scheme in sound_schemes() {
        let (pool, block) = pool_of(scheme, 2);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut running = pool.lane_at(0).unwrap().begin();
            running.store_u64(block, 1).unwrap();
            panic!("inside");
        }));
        assert!(panicked.is_err());
        let mut other = pool.lane_at(1).unwrap();
        other.run(|tx| tx.store_u64(block, 5)).unwrap();
        assert_eq!(word(&pool, block), 5, "{scheme}");
    }
}

#[test]
fn the_first_failure_decides_and_the_lane_goes_on() {
    for scheme in sound_schemes() {
        let (pool, block) = pool_of(scheme, 1);
        let mut running = pool.lane().unwrap().begin();
        running.store_u64(block, 1).unwrap();
        running.load(PoolOffset(1 << 40), &mut [0]).unwrap_err();
        assert!(running.store_u64(block, 2).is_err(), "{scheme}");
        let (lane, outcome) = running.commit();
        assert!(matches!(outcome, Err(Abort::BadAddress(_))), "{scheme}: {outcome:?}");
        let (_, outcome) = lane.begin().commit();
        assert!(outcome.is_ok(), "{scheme}");
        assert_eq!(word(&pool, block), 0, "{scheme}");
    }
}

/// A conflict comes to the caller, who begins again; with patience every thread gets there.
#[test]
fn conflicts_come_to_the_caller() {
    for scheme in sound_schemes() {
        let (pool, block) = pool_of(scheme, 2);
        // Neither lane is alone from here on.
        let (mut one, two) = (pool.lane().unwrap(), pool.lane().unwrap());
        one.run(|tx| tx.store_u64(block, 0)).unwrap();
        let mut late = two.begin().abort().begin();
        let mut running = one.begin();
        assert_eq!(late.load_u64(block).unwrap(), 0);
        running.store_u64(block, 1).unwrap();
        let (_, outcome) = running.commit();
        outcome.unwrap();
        // Where lines are locked store by store it is in the way already.
        let stored = late.store_u64(block, 2);
        assert!(matches!(stored, Ok(()) | Err(Abort::Conflict)), "{scheme}");
        let (lane, outcome) = late.commit();
        assert!(matches!(outcome, Err(Abort::Conflict)), "{scheme}");
        let mut again = lane.begin();
        again.store_u64(block, 2).unwrap();
        again.commit().1.unwrap();
        assert_eq!(word(&pool, block), 2, "{scheme}");
    }
}

#[test]
fn threads_that_begin_again_after_conflicts_all_get_there() {
    let rounds = if cfg!(miri) { 2 } else { 200 };
    for scheme in sound_schemes() {
        let (pool, block) = pool_of(scheme, 3);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut lane = pool.lane().unwrap();
                    let mut done = 0;
                    while done < rounds {
                        let mut running = lane.begin();
                        let sum = running.load_u64(block);
                        let stored = sum.and_then(|sum| running.store_u64(block, sum + 1));
                        let (given_back, outcome) = running.commit();
                        assert!(stored.is_ok() || outcome.is_err());
                        match outcome {
                            Ok(_) => done += 1,
                            Err(Abort::Conflict) => {}
                            Err(other) => panic!("{other}"),
                        }
                        lane = given_back;
                    }
                });
            }
        });
        assert_eq!(word(&pool, block), 3 * rounds, "{scheme}");
    }
}

/// What a closure may not do, this may not either: it is told, and nothing is broken by it.
#[test]
fn a_second_transaction_of_the_same_thread_is_refused_while_the_first_runs_alone() {
    let (pool, block) = pool_of(Scheme::Redo, 2);
    let mut running = pool.lane().unwrap().begin();
    running.store_u64(block, 1).unwrap();
    let second = pool.lane().unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| second.begin())).is_err());
    let (lane, outcome) = running.commit();
    outcome.unwrap();
    drop(lane);
    let mut two = pool.lane_at(1).unwrap();
    two.run(|tx| tx.store_u64(block, 2)).unwrap();
    assert_eq!(word(&pool, block), 2);
}

#[test]
fn physical_acknowledgement_holds_for_it_too() {
    let open = OpenOptions {
        ack: Ack::Physical,
        lock_stripes: 1024,
        ..OpenOptions::with_scheme(Scheme::RedoArchapt)
    };
    let create = CreateOptions { lanes: 1, lane_bytes: 4096, ..CreateOptions::default() };
    let pool = Pool::create_on(Heap::new(1 << 20), &create, &open).unwrap();
    let mut running = pool.lane().unwrap().begin();
    let block = running.alloc(64, BlockKind::Log).unwrap();
    running.store_u64(block, 1).unwrap();
    assert_eq!(running.block_at(block).unwrap(), (64, BlockKind::Log));
    assert!(running.block_at(block.plus(16)).is_err());
    let (lane, outcome) = running.commit();
    assert!(pool.is_physical(outcome.unwrap()));
    let mut running = lane.begin();
    assert_eq!(running.block_at(block).unwrap(), (64, BlockKind::Log));
    assert_eq!(running.block_bytes_for(60), 64);
}
