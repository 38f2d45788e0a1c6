//! libpmemobj behind `Transact`: contents, aborts, alignment, bad input.
//!
//! Where libpmemobj is not installed each test says so and passes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use outlast::{Abort, BlockKind, ByteRange, PoolOffset, RootKind, Runner, Transact};
use outlast_peers::{Granularity, Pmdk, PmdkError, PmdkPool};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const BOTH: [Granularity; 2] = [Granularity::Range, Granularity::Word];

fn pmdk() -> Option<Pmdk> {
    Pmdk::load().inspect_err(|missing| eprintln!("not tested: {missing}")).ok()
}

/// A directory in memory that is removed with the value.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("/dev/shm can be written to")
}

fn pool_in(dir: &Path) -> PathBuf {
    dir.join("test.pmdk")
}

fn create(pmdk: Pmdk, dir: &Path, granularity: Granularity) -> PmdkPool {
    PmdkPool::create(pmdk, &pool_in(dir), 64 << 20, granularity).expect("a new pool")
}

/// Makes `len` zero bytes the root.
fn with_root(pool: &mut PmdkPool, len: u64) -> PoolOffset {
    pool.run(|tx| {
        let block = tx.alloc(len, BlockKind::General)?;
        tx.store(block, &vec![0; len as usize])?;
        tx.set_root(block, RootKind::Words)?;
        Ok(block)
    })
    .expect("a root object")
}

fn bytes_at(pool: &mut PmdkPool, at: PoolOffset, len: usize) -> Vec<u8> {
    pool.run(|tx| {
        let mut out = vec![0; len];
        tx.load(at, &mut out)?;
        Ok(out)
    })
    .expect("a load")
}

#[test]
fn what_was_committed_is_there_after_reopening() {
    let Some(pmdk) = pmdk() else { return };
    for granularity in BOTH {
        let dir = directory();
        let mut pool = create(pmdk, dir.path(), granularity);
        assert_eq!(pool.run(|tx| tx.root()).unwrap(), None);
        let block = with_root(&mut pool, 4096);
        pool.run(|tx| {
            tx.will_write(&[ByteRange::new(block.plus(100), 300)])?;
            tx.store(block.plus(100), &[7; 300])?;
            tx.store(block.plus(1001), &[8; 13])
        })
        .unwrap();
        drop(pool);
        assert!(PmdkPool::check(pmdk, &pool_in(dir.path())).unwrap());

        let mut pool = PmdkPool::open(pmdk, &pool_in(dir.path()), granularity).unwrap();
        assert_eq!(pool.run(|tx| tx.root()).unwrap(), Some((block, RootKind::Words)));
        let mut expected = vec![0; 4096];
        expected[100..400].fill(7);
        expected[1001..1014].fill(8);
        assert_eq!(bytes_at(&mut pool, block, 4096), expected);
    }
}

#[test]
fn aborts_and_panics_restore_everything() {
    let Some(pmdk) = pmdk() else { return };
    for granularity in BOTH {
        let dir = directory();
        let mut pool = create(pmdk, dir.path(), granularity);
        let block = with_root(&mut pool, 1024);
        let body = |tx: &mut <PmdkPool as Runner>::Tx| {
            tx.will_write(&[ByteRange::new(block, 64)])?;
            tx.store(block.plus(3), &[1; 50])?;
            tx.store(block.plus(500), &[2; 77])?;
            let other = tx.alloc(64, BlockKind::General)?;
            tx.set_root(other, RootKind::Opaque)?;
            tx.free(block)?;
            assert_eq!(tx.load_u64(block.plus(16))?, u64::from_le_bytes([1; 8]), "own stores");
            Ok::<(), Abort>(())
        };
        let cancelled = pool.run(|tx| body(tx).and(Err::<(), _>(Abort::cancelled("given up"))));
        assert!(matches!(cancelled, Err(Abort::Cancelled(_))));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            pool.run(|tx| -> Result<(), Abort> {
                body(tx)?;
                panic!("in the middle of a transaction")
            })
        }));
        assert!(panicked.is_err());

        assert_eq!(bytes_at(&mut pool, block, 1024), vec![0; 1024]);
        assert_eq!(pool.run(|tx| tx.root()).unwrap(), Some((block, RootKind::Words)));
        drop(pool);
        assert!(PmdkPool::check(pmdk, &pool_in(dir.path())).unwrap());
    }
}

#[test]
fn a_conflict_runs_the_closure_again_on_a_clean_slate() {
    let Some(pmdk) = pmdk() else { return };
    let dir = directory();
    let mut pool = create(pmdk, dir.path(), Granularity::Range);
    let block = with_root(&mut pool, 64);
    let mut runs = 0;
    pool.run(|tx| {
        runs += 1;
        let seen = tx.load_u64(block)?;
        tx.store_u64(block, seen + 1)?;
        if runs < 3 { Err(Abort::Conflict) } else { Ok(()) }
    })
    .unwrap();
    assert_eq!(runs, 3);
    assert_eq!(pool.run(|tx| tx.load_u64(block)).unwrap(), 1);
}

#[test]
fn words_and_ranges_leave_the_same_content() {
    let Some(pmdk) = pmdk() else { return };
    const LEN: u64 = 2048;
    let contents = BOTH.map(|granularity| {
        let dir = directory();
        let mut pool = create(pmdk, dir.path(), granularity);
        let block = with_root(&mut pool, LEN);
        let mut rng = ChaCha8Rng::seed_from_u64(42);
        for _ in 0..200 {
            let stores: Vec<(u64, Vec<u8>)> = (0..1 + rng.random_range(0..6))
                .map(|_| {
                    let len = 1 + rng.random_range(0..90);
                    (rng.random_range(0..LEN - len), vec![rng.random(); len as usize])
                })
                .collect();
            let announced = rng.random_bool(0.5);
            let commits = rng.random_bool(0.75);
            let result = pool.run(|tx| {
                if announced {
                    let ranges: Vec<_> = stores
                        .iter()
                        .map(|(at, bytes)| ByteRange::new(block.plus(*at), bytes.len() as u64))
                        .collect();
                    tx.will_write(&ranges)?;
                }
                for (at, bytes) in &stores {
                    tx.store(block.plus(*at), bytes)?;
                }
                if commits { Ok(()) } else { Err(Abort::cancelled("given up")) }
            });
            assert_eq!(result.is_ok(), commits);
        }
        bytes_at(&mut pool, block, LEN as usize)
    });
    assert!(contents[0].iter().any(|byte| *byte != 0));
    assert_eq!(contents[0], contents[1]);
}

#[test]
fn blocks_are_aligned_apart_and_given_back() {
    let Some(pmdk) = pmdk() else { return };
    let dir = directory();
    let mut pool = create(pmdk, dir.path(), Granularity::Range);
    let sizes = [
        1,
        16,
        24,
        40,
        48,
        49,
        63,
        64,
        65,
        100,
        128,
        500,
        1000,
        1064,
        4096,
        9000,
        300_000,
        1 << 20,
        1_200_000,
    ];
    for round in 0..40 {
        let blocks: Vec<(u64, u64)> = pool
            .run(|tx| {
                let mut blocks = Vec::new();
                for &bytes in &sizes {
                    let block = tx.alloc(bytes, BlockKind::Value)?;
                    assert!(block.is_aligned(if bytes >= 64 { 64 } else { 16 }), "{bytes} {block}");
                    tx.store(block, &vec![round; bytes as usize])?;
                    blocks.push((block.0, bytes));
                }
                Ok(blocks)
            })
            .unwrap();
        let mut sorted = blocks.clone();
        sorted.sort_unstable();
        for pair in sorted.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?} overlap");
        }
        // Forty rounds of these sizes only fit when what is freed comes back.
        pool.run(|tx| blocks.iter().try_for_each(|(block, _)| tx.free(PoolOffset(*block))))
            .unwrap();
    }
    drop(pool);
    assert!(PmdkPool::check(pmdk, &pool_in(dir.path())).unwrap());
}

#[test]
fn a_full_pool_is_an_error_and_stays_usable() {
    let Some(pmdk) = pmdk() else { return };
    let dir = directory();
    let mut pool = PmdkPool::create(pmdk, &pool_in(dir.path()), 1, Granularity::Range).unwrap();
    let block = with_root(&mut pool, 64);
    let full = pool.run(|tx| {
        tx.store_u64(block, 9)?;
        loop {
            tx.alloc(100_000, BlockKind::General)?;
        }
        #[allow(unreachable_code, reason = "gives the closure its type")]
        Ok(())
    });
    assert!(matches!(full, Err(Abort::OutOfSpace { bytes: 100_000 })), "{full:?}");
    let ignored = pool.run(|tx| {
        tx.store_u64(block, 9)?;
        while tx.alloc(100_000, BlockKind::General).is_ok() {}
        Ok(())
    });
    assert!(matches!(ignored, Err(Abort::Peer(_))), "a failed call dooms its transaction");
    assert_eq!(pool.run(|tx| tx.load_u64(block)).unwrap(), 0);
    pool.run(|tx| tx.alloc(100_000, BlockKind::General)).expect("everything was given back");
}

#[test]
fn what_no_program_may_do_is_refused() {
    let Some(pmdk) = pmdk() else { return };
    let dir = directory();
    let mut pool = create(pmdk, dir.path(), Granularity::Range);
    let block = with_root(&mut pool, 64);
    let far = PoolOffset(1 << 40);
    let bad = |result: Result<(), Abort>| {
        assert!(matches!(result, Err(Abort::BadAddress(_))), "{result:?}");
    };
    bad(pool.run(|tx| tx.load(far, &mut [0])));
    bad(pool.run(|tx| tx.load(PoolOffset(u64::MAX), &mut [0; 8])));
    bad(pool.run(|tx| tx.store(far, &[0])));
    bad(pool.run(|tx| tx.will_write(&[ByteRange::new(block, 1 << 40)])));
    bad(pool.run(|tx| tx.free(block.plus(1))));
    bad(pool.run(|tx| tx.free(block).and_then(|()| tx.free(block))));
    // The start of the pool is the library's own.
    let own = pool.run(|tx| tx.store(PoolOffset(0), &[0; 8]));
    assert!(matches!(own, Err(Abort::Peer(_))), "{own:?}");
    let too_big = pool.run(|tx| tx.alloc(1 << 50, BlockKind::General));
    assert!(matches!(too_big, Err(Abort::OutOfSpace { .. })), "{too_big:?}");
}

#[test]
fn a_transaction_inside_another_is_refused() {
    let Some(pmdk) = pmdk() else { return };
    let (outer_dir, inner_dir) = (directory(), directory());
    let mut outer = create(pmdk, outer_dir.path(), Granularity::Range);
    let mut inner = create(pmdk, inner_dir.path(), Granularity::Range);
    let at = with_root(&mut outer, 64);
    let within = with_root(&mut inner, 64);
    outer
        .run(|tx| {
            tx.store_u64(at, 5)?;
            let nested = inner.run(|tx| tx.store_u64(within, 6));
            assert!(matches!(nested, Err(Abort::Peer(_))), "{nested:?}");
            Ok(())
        })
        .unwrap();
    inner.run(|tx| tx.store_u64(within, 6)).unwrap();
    assert_eq!(outer.run(|tx| tx.load_u64(at)).unwrap(), 5);
}

#[test]
fn files_that_are_no_pools_are_refused_in_one_line() {
    let Some(pmdk) = pmdk() else { return };
    let dir = directory();
    let path = pool_in(dir.path());
    let one_line = |result: Result<PmdkPool, PmdkError>| {
        let text = result.expect_err("must be refused").to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    };
    one_line(PmdkPool::open(pmdk, &path, Granularity::Range));
    std::fs::write(&path, vec![1; 9 << 20]).unwrap();
    one_line(PmdkPool::open(pmdk, &path, Granularity::Range));
    one_line(PmdkPool::create(pmdk, &path, 9 << 20, Granularity::Range));
    assert_eq!(std::fs::read(&path).unwrap(), vec![1; 9 << 20], "the file is untouched");
    let nowhere = Path::new("/proc/no-such-place/x");
    one_line(PmdkPool::create(pmdk, nowhere, 9 << 20, Granularity::Range));
    if std::env::var("PMEM_IS_PMEM_FORCE").is_ok_and(|value| value == "1") {
        let on_disk = PmdkPool::create(pmdk, Path::new("/proc/x"), 9 << 20, Granularity::Range);
        assert!(matches!(on_disk, Err(PmdkError::NotMemory(_))), "{on_disk:?}");
    }
}
