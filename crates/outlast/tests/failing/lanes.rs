//! More threads than lanes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::{BlockKind, Pool, PoolError, RootKind, Runner, Session, Transact};
use outlast_pmem::{Heap, MapOptions, Mapped};

/// Longer than any machine takes.
const LONG: Duration = Duration::from_secs(600);

fn pool(lanes: u32, open: &OpenOptions) -> Pool {
    let directory = tempfile::tempdir().unwrap();
    let create = CreateOptions { lanes, ..CreateOptions::default() };
    let path = directory.path().join("pool");
    Pool::create_with(path, 4 << 20, &create, open, &MapOptions::default()).unwrap()
}

#[test]
fn threads_wait_for_lanes() {
    const THREADS: u64 = 64;
    let open = OpenOptions { lane_wait: LONG, ..OpenOptions::default() };
    let pool = pool(3, &open);
    let made = pool.lane().unwrap().run(|tx| {
        let block = tx.alloc(64, BlockKind::General)?;
        tx.store_u64(block, 0)?;
        tx.set_root(block, RootKind::Opaque)?;
        Ok(block)
    });
    let (block, inside) = (made.unwrap(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..5 {
                    let mut lane = pool.lane().unwrap();
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < 3);
                    lane.run(|tx| {
                        let value = tx.load_u64(block)?;
                        tx.store_u64(block, value + 1)
                    })
                    .unwrap();
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(pool.lane().unwrap().run(|tx| tx.load_u64(block)).unwrap(), THREADS * 5);
}

#[test]
fn a_wait_has_a_limit() {
    let open = OpenOptions { lane_wait: Duration::ZERO, ..OpenOptions::default() };
    let pool = pool(2, &open);
    let both = [pool.lane().unwrap(), pool.lane().unwrap()];
    let is_refused = |error: Option<PoolError>| {
        let error = error.expect("there is no lane");
        assert!(matches!(error, PoolError::NoLane { lanes: 2 }), "{error}");
        assert!(error.to_string().contains("lane_timeout"), "{error}");
    };
    is_refused(pool.lane().err());
    is_refused(pool.try_lane().err());
    let (limit, start) = (Duration::from_millis(30), Instant::now());
    is_refused(pool.lane_timeout(limit).err());
    assert!(start.elapsed() >= limit);
    std::thread::scope(|scope| {
        // It sleeps until the other thread, which has both, gives one back.
        let waits = scope.spawn(|| pool.lane_timeout(LONG).map(drop));
        std::thread::sleep(Duration::from_millis(20));
        drop(both);
        waits.join().unwrap().unwrap();
    });
}

#[test]
fn sessions_and_observed_media_do_not_wait() {
    let open = OpenOptions { lane_wait: LONG, ..OpenOptions::default() };
    let pool = std::sync::Arc::new(pool(1, &open));
    let _first = Session::new(std::sync::Arc::clone(&pool)).unwrap();
    let second = Session::new(std::sync::Arc::clone(&pool));
    assert!(matches!(second.err(), Some(PoolError::NoLane { lanes: 1 })));
    let create = CreateOptions { lanes: 1, ..CreateOptions::default() };
    let pool = Pool::create_on(outlast_pmem::Recorder::new(4 << 20), &create, &open).unwrap();
    let _lane = pool.lane().unwrap();
    assert!(matches!(pool.lane().err(), Some(PoolError::NoLane { lanes: 1 })));
}

#[test]
fn a_pool_is_shared_between_tasks() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Pool>();
    is_shared::<Pool<Heap>>();
    is_shared::<Mapped>();
}
