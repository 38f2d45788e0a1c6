//! Mistakes of callers: each ends in an error that says so, and in nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{
    Abort, BlockKind, ByteRange, Pool, PoolError, PoolOffset, RootKind, Runner, Scheme, Transact,
};
use outlast_pmem::Heap;

use crate::common::sound_schemes;
use crate::watched::Watched;

const POOL_BYTES: u64 = 128 << 10;

fn pool_on(medium: Heap, scheme: Scheme) -> Pool<Heap> {
    let create = CreateOptions { lanes: 2, lane_bytes: 4096, ..CreateOptions::default() };
    let with_scheme = OpenOptions::with_scheme(scheme);
    let open = OpenOptions { lock_stripes: 1024, lock_always: true, ..with_scheme };
    Pool::create_on(medium, &create, &open).unwrap()
}

fn reopened(pool: Pool<Heap>) -> Pool<Heap> {
    let open = OpenOptions { lock_stripes: 1024, ..OpenOptions::with_scheme(pool.scheme()) };
    let recovered = UnrecoveredPool::open(pool.into_medium()).unwrap().recover().unwrap();
    recovered.start(&open).unwrap()
}

#[test]
fn a_swallowed_error_ends_the_transaction_with_that_error() {
    for scheme in sound_schemes() {
        let pool = pool_on(Heap::new(POOL_BYTES), scheme);
        let mut lane = pool.lane().unwrap();
        let mut runs = 0;
        let result = lane.run(|tx| {
            runs += 1;
            let _ = tx.alloc(u64::MAX, BlockKind::General);
            Ok(())
        });
        assert!(matches!(result, Err(Abort::TooLarge(_))), "{result:?}");
        assert_eq!(runs, 1, "only a conflict is worth another attempt");
        let result = lane.run(|tx| {
            let _ = tx.load(PoolOffset(1 << 40), &mut [0]);
            Ok(())
        });
        assert!(matches!(result, Err(Abort::BadAddress(_))), "{result:?}");
    }
}

/// An announcement that fails in the middle has locked some lines and not others. Stores after
/// it must not happen, for nothing would undo them.
#[test]
fn stores_after_a_swallowed_conflict_leave_no_trace() {
    for scheme in sound_schemes() {
        let pool = pool_on(Heap::new(POOL_BYTES), scheme);
        let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
        let block = one
            .run(|tx| {
                let block = tx.alloc(256, BlockKind::General)?;
                tx.store(block, &[1; 256])?;
                Ok(block)
            })
            .unwrap();
        one.run(|tx| {
            tx.store(block.plus(64), &[2; 64])?;
            let result = two.run(|tx| {
                // The second line is taken by the transaction outside.
                let conflict = tx.will_write(&[ByteRange::new(block, 128)]).is_err();
                let stored = tx.store(block, &[3; 64]);
                match (conflict, stored) {
                    (false, Ok(())) => assert!(
                        matches!(
                            scheme.name(),
                            "none" | "redo" | "redo-archapt" | "atlas" | "aof" | "swift"
                        ),
                        "it announces nothing"
                    ),
                    (_, stored) => assert!(stored.is_err()),
                }
                Err::<(), _>(Abort::cancelled("given up"))
            });
            assert!(matches!(result, Err(Abort::Cancelled(_))));
            Ok(())
        })
        .unwrap();
        let mut bytes = [0; 128];
        one.run(|tx| tx.load(block, &mut bytes)).unwrap();
        assert_eq!(bytes[..64], [1; 64], "{scheme}");
        assert_eq!(bytes[64..], [2; 64], "{scheme}");
    }
}

/// After many conflicts a transaction runs alone. A panic in it must let the others go on, also
/// while its lane is kept.
#[test]
fn a_panic_while_running_alone_locks_nobody_out() {
    let pool = pool_on(Heap::new(POOL_BYTES), Scheme::Undo);
    let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
    let mut attempts = 0;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        one.run(|_| -> Result<(), Abort> {
            attempts += 1;
            if attempts < 40 { Err(Abort::Conflict) } else { panic!("inside") }
        })
    }));
    assert!(panicked.is_err());
    two.run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
    one.run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
}

/// The directory's words inside a large block are those of free chunks.
#[test]
fn freeing_the_middle_of_a_large_block_frees_nothing() {
    for scheme in [Scheme::Undo, Scheme::Redo] {
        let pool = pool_on(Heap::new(POOL_BYTES), scheme);
        let large = pool.lane().unwrap().run(|tx| {
            let large = tx.alloc(60_000, BlockKind::General)?;
            tx.store(large, &vec![7; 60_000])?;
            Ok(large)
        });
        let large = large.unwrap();
        // Nothing of the heap has been read yet in the new pool.
        let pool = reopened(pool);
        let mut lane = pool.lane().unwrap();
        for inside in [4096, 8192, 30_000 / 4096 * 4096] {
            let result = lane.run(|tx| tx.free(large.plus(inside)));
            assert!(matches!(result, Err(Abort::BadAddress(_))), "{result:?}");
        }
        // All the space there is goes to others, and none of it is the block's.
        while let Ok(block) = lane.run(|tx| {
            let block = tx.alloc(4096, BlockKind::General)?;
            tx.store(block, &[9; 4096])?;
            Ok(block)
        }) {
            let inside = block.0 + 4096 > large.0 && block.0 < large.0 + 60_000;
            assert!(!inside, "{scheme}: {block} is inside the block at {large}");
        }
        let mut bytes = vec![0; 60_000];
        lane.run(|tx| tx.load(large, &mut bytes)).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 7));
    }
}

/// No run of chunks crosses the directory of the next zone, so growing would be in vain.
#[test]
#[cfg_attr(miri, ignore = "a zone has too many bytes")]
fn a_block_larger_than_any_is_refused_without_growth() {
    let chunk_bytes = Some(4096);
    let create = CreateOptions { lanes: 1, lane_bytes: 4096, chunk_bytes, ..Default::default() };
    let open = OpenOptions { grow_limit_bytes: u64::MAX, ..OpenOptions::default() };
    let pool = Pool::create_on(Watched::new(4 << 20), &create, &open).unwrap();
    let mut lane = pool.lane().unwrap();
    for (bytes, better) in [(511 * 4096 + 1, Some(8192)), (1 << 37, None), (u64::MAX, None)] {
        let Err(Abort::TooLarge(limit)) = lane.run(|tx| tx.alloc(bytes, BlockKind::General)) else {
            panic!("{bytes} bytes are more than a zone has")
        };
        assert_eq!((limit.asked, limit.largest), (bytes, 511 * 4096));
        assert_eq!(limit.chunk_bytes, better, "what would make room for {bytes}");
    }
    assert!(lane.run(|tx| tx.alloc(511 * 4096, BlockKind::General)).is_ok());
    assert_eq!(pool.medium().grown.load(Ordering::Relaxed), 0);
}

#[test]
fn what_is_no_block_cannot_become_root() {
    let pool = pool_on(Heap::new(POOL_BYTES), Scheme::Undo);
    let mut lane = pool.lane().unwrap();
    for bad in [PoolOffset(64), PoolOffset(POOL_BYTES), PoolOffset(1 << 52), PoolOffset(!15)] {
        let result = lane.run(|tx| tx.set_root(bad, RootKind::Words));
        assert!(matches!(result, Err(Abort::BadAddress(_))), "{bad}: {result:?}");
    }
    assert_eq!(pool.root().unwrap(), None);
}

#[test]
fn a_pool_opened_for_reading_runs_no_transactions() {
    let image = pool_on(Heap::new(POOL_BYTES), Scheme::Undo).into_medium();
    let recovered = UnrecoveredPool::open(image).unwrap().read_only().unwrap();
    assert!(matches!(recovered.start(&OpenOptions::default()), Err(PoolError::ReadOnly)));
}

#[test]
fn absurd_parameters_are_refused_in_words() {
    let refused = |create: CreateOptions, len: u64| match create.geometry(len) {
        Err(
            error @ (PoolError::Parameters(_)
            | PoolError::TooSmall { .. }
            | PoolError::TooLarge { .. }),
        ) => assert_eq!(error.to_string().lines().count(), 1),
        other => panic!("{create:?} at {len}: {other:?}"),
    };
    let default = CreateOptions::default();
    for len in [0, 4096, u64::MAX / 4096 * 4096, u64::MAX] {
        refused(default, len);
    }
    for lanes in [0, 1025, u32::MAX] {
        refused(CreateOptions { lanes, ..default }, 1 << 30);
    }
    for lane_bytes in [0, 1023, 1025, 1 << 31, u64::MAX, !63] {
        refused(CreateOptions { lane_bytes, lanes: u32::MAX, ..default }, 1 << 30);
        refused(CreateOptions { lane_bytes, ..default }, 1 << 30);
    }
    for chunk_bytes in [0, 1, 2048, 5000, 1 << 21, 1 << 63, u64::MAX] {
        refused(CreateOptions { chunk_bytes: Some(chunk_bytes), ..default }, 1 << 30);
    }
}
