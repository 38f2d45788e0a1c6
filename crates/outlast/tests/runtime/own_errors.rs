//! Closures that fail with an error of the program's own, and transactions on a lane of their own.

use std::fmt::Debug;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use outlast::error::Reason;
use outlast::{Abort, BlockKind, Pool, PoolError, PoolOffset, Runner, Scheme, Transact};
use outlast_pmem::Heap;

use crate::common::{small_pool, sound_schemes};

#[derive(Debug)]
enum OwnError {
    Short { missing: u64 },
    Full,
    Pool(Abort),
}

impl From<Abort> for OwnError {
    fn from(abort: Abort) -> Self {
        Self::Pool(abort)
    }
}

fn block_of(pool: &Pool<Heap>, word: u64) -> PoolOffset {
    let made = pool.run(|tx| {
        let block = tx.alloc(64, BlockKind::General)?;
        tx.store_u64(block, word)?;
        Ok(block)
    });
    made.unwrap()
}

#[test]
fn an_own_error_undoes_everything_and_comes_back() {
    for scheme in sound_schemes() {
        let pool = small_pool(scheme, 64 << 10);
        let block = block_of(&pool, 20);
        let mut lane = pool.lane().unwrap();
        let mut withdraw = |amount: u64| {
            lane.try_run(|tx| {
                let balance = tx.load_u64(block)?;
                tx.store_u64(block, 0)?;
                let left = balance.checked_sub(amount);
                let left = left.ok_or_else(|| OwnError::Short { missing: amount - balance })?;
                tx.store_u64(block, left)?;
                Ok::<_, OwnError>(left)
            })
        };
        assert!(matches!(withdraw(70), Err(OwnError::Short { missing: 50 })), "{scheme}");
        assert_eq!(withdraw(5).unwrap(), 15, "{scheme}: the balance was as before");
    }
}

/// `?` has made an own error of the conflict, and the closure does not even return that one.
#[test]
fn a_conflict_inside_runs_again_whatever_the_closure_made_of_it() {
    let pool = small_pool(Scheme::Undo, 64 << 10);
    let block = block_of(&pool, 1);
    let (one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
    let mut in_the_way = Some(one.begin());
    in_the_way.as_mut().unwrap().store_u64(block, 2).unwrap();
    let mut attempts = 0;
    let loaded = two.try_run(|tx| {
        attempts += 1;
        if attempts == 3 {
            in_the_way = None;
        }
        match tx.load_u64(block) {
            Ok(word) => Ok(word),
            Err(_) if attempts == 1 => Err(OwnError::Full),
            Err(abort) => Err(OwnError::from(abort)),
        }
    });
    assert_eq!(loaded.unwrap(), 1);
    assert_eq!(attempts, 3);
}

#[test]
fn a_failure_that_the_closure_swallows_is_still_the_end() {
    let pool = small_pool(Scheme::Redo, 64 << 10);
    let block = block_of(&pool, 1);
    let swallowed = pool.try_run(|tx| {
        tx.store_u64(block, 2)?;
        let _ = tx.free(PoolOffset(3));
        Ok::<_, OwnError>(())
    });
    assert!(matches!(swallowed, Err(OwnError::Pool(Abort::BadAddress(_)))), "{swallowed:?}");
    let translated = pool.try_run(|tx| {
        let refused = tx.alloc(1 << 40, BlockKind::General);
        refused.map_err(|_| OwnError::Full)
    });
    assert!(matches!(translated, Err(OwnError::Full)), "{translated:?}");
    assert_eq!(pool.run(|tx| tx.load_u64(block)).unwrap(), 1);
}

/// With `Abort` as the error both forms are the same.
#[test]
fn cancelling_works_as_in_run() {
    let pool = small_pool(Scheme::Redo, 64 << 10);
    let cancelled = pool.try_run(|_| Err::<(), _>(Abort::Cancelled(Reason::default())));
    assert!(matches!(cancelled, Err(Abort::Cancelled(_))));
}

#[test]
fn a_transaction_waits_for_a_lane_and_says_so_when_none_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let options = Pool::options().lanes(1).lane_wait(Duration::from_millis(20));
    let pool = options.create(dir.path().join("pool")).unwrap();
    let lane = pool.lane().unwrap();
    let none = pool.run(|tx| tx.root());
    assert!(matches!(none, Err(Abort::NoLane { lanes: 1 })), "{none:?}");
    let none: Result<(), OwnError> = pool.try_run(|_| Ok(()));
    assert!(matches!(none, Err(OwnError::Pool(Abort::NoLane { .. }))), "{none:?}");
    drop(lane);
    assert!(pool.run(|tx| tx.root()).unwrap().is_none());
}

/// A function that opens a pool and runs transactions returns one type of error.
#[test]
fn a_pools_error_takes_that_of_a_transaction() {
    fn both(path: &std::path::Path) -> Result<u64, PoolError> {
        let pool = Pool::open_or_create(path)?;
        let block = pool.run(|tx| tx.alloc(64, BlockKind::General))?;
        Ok(pool.lane()?.run(|tx| tx.free(block).map(|()| 1))?)
    }
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(both(&dir.path().join("pool")).unwrap(), 1);
    let error = PoolError::from(Abort::damaged("a word"));
    assert!(error.is_damage());
    assert_eq!(
        error.to_string(),
        "the pool is damaged: a word; check it, and restore it from a copy"
    );
}

/// A handle that tasks can hold: a share of the pool, and no lane between transactions.
#[test]
fn a_share_of_a_pool_goes_to_any_thread() {
    fn is_a_handle<T: Clone + Debug + Send + Sync + 'static>() {}
    is_a_handle::<Arc<Pool>>();
    let dir = tempfile::tempdir().unwrap();
    let pool = Arc::new(Pool::options().lanes(2).create(dir.path().join("pool")).unwrap());
    let count = pool.run(|tx| {
        let block = tx.alloc(64, BlockKind::General)?;
        tx.store_u64(block, 0)?;
        Ok(block)
    });
    let count = count.unwrap();
    let add = move |pool: Arc<Pool>| {
        for _ in 0..20 {
            let added = pool.try_run(|tx| {
                let value = tx.load_u64(count)?;
                tx.store_u64(count, value + 1)?;
                Ok::<_, OwnError>(())
            });
            added.unwrap();
        }
    };
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || add(pool))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(pool.run(|tx| tx.load_u64(count)).unwrap(), 160);
}
