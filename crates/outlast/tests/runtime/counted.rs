//! Counters against what the medium was asked for, and against what was done.

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::stats::{ABORT_CAUSES, Counters};
use outlast::{Abort, BlockKind, Pool, PoolOffset, Runner, Scheme, Transact};
use outlast_pmem::{Counted, Heap, Medium};

use crate::common::sound_schemes;

/// What a transaction does.
type Body<'b> = dyn FnMut(&mut outlast::Tx<'_, Counted<Heap>>) -> Result<(), Abort> + 'b;

fn counters<M: Medium>(pool: &Pool<M>) -> Counters {
    pool.stats().counters.expect("this process runs the pool")
}

fn aborts(counters: &Counters) -> Vec<(&'static str, u64)> {
    let all = ABORT_CAUSES.into_iter().zip(counters.aborts);
    all.filter(|(_, count)| *count > 0).collect()
}

fn new_pool(scheme: Scheme, lanes: u32) -> (Pool<Counted<Heap>>, PoolOffset) {
    let create = CreateOptions { lanes, lane_bytes: 4096, ..CreateOptions::default() };
    let with_scheme = OpenOptions::with_scheme(scheme);
    let open = OpenOptions { lock_stripes: 1024, step_every: 8, ..with_scheme };
    let medium = Counted::new(Heap::new(2 << 20));
    let pool = Pool::create_on(medium, &create, &open).unwrap();
    let block = pool.lane().unwrap().run(|tx| {
        let block = tx.alloc(4096, BlockKind::General)?;
        tx.store(block, &[1; 4096])?;
        Ok(block)
    });
    (pool, block.unwrap())
}

/// Every flush, streamed line and fence of transactions, of sweeps and of the allocator is counted, under each
/// scheme, by one lane and by two that take turns.
#[test]
fn what_the_medium_is_asked_for_is_counted() {
    for scheme in sound_schemes() {
        for lanes in [1, 2] {
            let (pool, block) = new_pool(scheme, lanes);
            let mut taken: Vec<_> = (0..lanes).map(|_| pool.lane().unwrap()).collect();
            let (before, asked_before) = (counters(&pool), pool.medium().counters());
            let mut blocks = Vec::new();
            for round in 0..120u64 {
                let lane = &mut taken[round as usize % lanes as usize];
                let more = lane.run(|tx| {
                    for word in 0..round % 9 {
                        tx.store_u64(block.plus((round * 7 + word * 64) % 4096 / 8 * 8), round)?;
                    }
                    let more = tx.alloc(48 + round * 40, BlockKind::Value)?;
                    tx.store(more, &[3; 40])?;
                    Ok(more)
                });
                blocks.push(more.unwrap());
                if round % 3 == 0 {
                    lane.run(|tx| tx.free(blocks[round as usize / 2])).unwrap();
                }
                if round % 10 == 9 {
                    let cancelled = lane.run(|tx| {
                        tx.store_u64(block, 5)?;
                        Err::<(), _>(Abort::cancelled("enough"))
                    });
                    assert!(cancelled.is_err());
                }
            }
            let (now, asked) = (counters(&pool), pool.medium().counters() - asked_before);
            let of = |now: u64, before: u64| now - before;
            assert_eq!(
                [
                    of(now.flushed_lines, before.flushed_lines),
                    of(now.streamed_lines, before.streamed_lines),
                    of(now.fences, before.fences),
                ],
                [asked.flushed_lines, asked.streamed_lines, asked.fences],
                "{scheme} on {lanes} lanes"
            );
            assert_eq!(now.commits - before.commits, 160, "{scheme} on {lanes} lanes");
            assert_eq!(now.records - before.records, 160, "{scheme} on {lanes} lanes");
            assert_eq!(aborts(&now), [("cancelled", 12)], "{scheme}");
            assert_eq!((now.lanes_taken, now.scheme), (lanes, Some(scheme)));
        }
    }
}

#[test]
fn aborts_are_counted_by_their_cause() {
    let (pool, block) = new_pool(Scheme::Swift, 2);
    let mut lane = pool.lane().unwrap();
    let mut fails = |body: &mut Body<'_>| {
        assert!(lane.run(|tx| body(tx)).is_err());
    };
    fails(&mut |_| Err(Abort::cancelled("first")));
    fails(&mut |_| Err(Abort::cancelled("second")));
    fails(&mut |tx| tx.alloc(1 << 21, BlockKind::General).map(drop));
    fails(&mut |tx| tx.store_u64(PoolOffset(1 << 40), 1));
    fails(&mut |_| Err(Abort::damaged("something")));
    let mut tries = 0;
    lane.run(|tx| {
        tries += 1;
        if tries < 4 { Err(Abort::Conflict) } else { tx.store_u64(block, 1) }
    })
    .unwrap();
    // One that is begun and ended by hand, and one that met a conflict and was given up.
    drop(lane.begin().abort());
    let now = counters(&pool);
    let causes = aborts(&now);
    let of = |cause: &str| causes.iter().find(|of| of.0 == cause).map_or(0, |of| of.1);
    assert_eq!((of("cancelled"), of("bad-address"), of("damaged")), (3, 1, 1), "{causes:?}");
    assert_eq!(of("out-of-space") + of("too-large"), 1, "{causes:?}");
    assert_eq!((now.conflicts, now.turns_alone), (3, 0));
    assert_eq!(now.aborted(), 6);
}

/// Commits that are put off are commits; their records are fewer.
#[test]
fn commits_that_are_put_off_are_counted() {
    let (pool, block) = new_pool(Scheme::Swift, 2);
    let before = counters(&pool);
    let mut lane = pool.lane().unwrap();
    for round in 0..10 {
        lane.run_async(|tx| tx.store_u64(block, round)).unwrap();
    }
    lane.run(|tx| tx.store_u64(block, 77)).unwrap();
    for round in 0..5 {
        lane.run_async(|tx| tx.store_u64(block, round)).unwrap();
    }
    drop(lane);
    pool.sync().unwrap();
    let now = counters(&pool);
    assert_eq!((now.commits - before.commits, now.put_off), (16, 15));
    assert_eq!(now.records - before.records, 2);
}

#[test]
fn sweeps_growth_and_recovery_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some.pool");
    let pool = Pool::options().size(4 << 20).lane_bytes(4096).scheme(Scheme::Redo).create(&path);
    let pool = pool.unwrap();
    let fresh = counters(&pool);
    assert_eq!((fresh.sweeps, fresh.growths, fresh.recovery.replayed), (0, 0, 0));
    let mut lane = pool.lane().unwrap();
    let block = lane.run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
    for round in 0..500 {
        lane.run(|tx| tx.store_u64(block, round)).unwrap();
    }
    for _ in 0..10 {
        lane.run(|tx| tx.alloc(1 << 19, BlockKind::General)).unwrap();
    }
    drop(lane);
    let stats = pool.stats();
    let now = stats.counters.unwrap();
    assert!(now.sweeps > 2 && now.sweep_time >= now.sweep_time_max, "{now:?}");
    assert!(now.sweep_time_max > std::time::Duration::ZERO);
    assert!(now.growths > 0);
    // What is behind the last whole chunk was there before.
    let grown = stats.pool_bytes - (4 << 20);
    assert!(now.grown_bytes.abs_diff(grown) < 1 << 16, "{} of {grown}", now.grown_bytes);
    assert_eq!(stats.domain, Some(pool.medium().domain()));
    drop(pool);
    let again = Pool::options().open(&path).unwrap().stats();
    let counters = again.counters.unwrap();
    assert!(counters.recovery.replayed > 0 && counters.recovery_time > std::time::Duration::ZERO);
    assert_eq!((counters.commits, counters.sweeps, again.generation), (0, 0, stats.generation + 1));
}
