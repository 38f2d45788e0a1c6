//! What a transaction promises while nothing crashes: its own stores, isolation, abort, space.

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Abort, BlockKind, ByteRange, Pool, PoolOffset, RootKind, Runner, Scheme, Transact};
use outlast_pmem::{Heap, MapOptions, Mapped};

use crate::common::sound_schemes;

fn small_pool(scheme: Scheme, lanes: u32, lane_bytes: u64, len: u64) -> Pool<Heap> {
    let create = CreateOptions { lanes, lane_bytes, ..CreateOptions::default() };
    let open = OpenOptions { lock_stripes: 1024, ..OpenOptions::with_scheme(scheme) };
    Pool::create_on(Heap::new(len), &create, &open).unwrap()
}

fn reopen(pool: Pool<Heap>, scheme: Scheme) -> Pool<Heap> {
    // What the medium holds while the pool runs is what a process leaves behind that dies now.
    let image = Heap::from_bytes(&pool.into_medium().to_bytes());
    let recovered = UnrecoveredPool::open(image).unwrap().recover().unwrap();
    recovered.start(&OpenOptions::with_scheme(scheme)).unwrap()
}

#[test]
fn what_is_committed_is_there_after_reopening_with_any_scheme() {
    for scheme in [Scheme::Undo, Scheme::Redo] {
        let pool = small_pool(scheme, 2, 4096, 1 << 20);
        let block = pool
            .lane()
            .unwrap()
            .run(|tx| {
                let block = tx.alloc(1000, BlockKind::General)?;
                tx.store(block.plus(3), b"outlast")?;
                tx.set_root(block, RootKind::Opaque)?;
                Ok(block)
            })
            .unwrap();
        for next in sound_schemes() {
            let pool = reopen(small_copy(&pool), next);
            assert_eq!(pool.root().unwrap(), Some((block, RootKind::Opaque)));
            let mut lane = pool.lane().unwrap();
            let mut text = [0; 7];
            lane.run(|tx| tx.load(block.plus(3), &mut text)).unwrap();
            assert_eq!(&text, b"outlast");
        }
    }
}

fn small_copy(pool: &Pool<Heap>) -> Pool<Heap> {
    let image = Heap::from_bytes(&pool.medium().to_bytes());
    let recovered = UnrecoveredPool::open(image).unwrap().recover().unwrap();
    recovered.start(&OpenOptions::default()).unwrap()
}

#[test]
fn an_abort_an_error_and_a_panic_leave_no_trace() {
    for scheme in sound_schemes() {
        let pool = small_pool(scheme, 1, 4096, 1 << 20);
        let mut lane = pool.lane().unwrap();
        let block = lane
            .run(|tx| {
                let block = tx.alloc(256, BlockKind::General)?;
                tx.store(block, &[1; 256])?;
                Ok(block)
            })
            .unwrap();
        let scribble = |tx: &mut outlast::Tx<'_, Heap>| {
            tx.will_write(&[ByteRange::new(block.plus(5), 100)])?;
            tx.store(block.plus(5), &[2; 100])?;
            let other = tx.alloc(64, BlockKind::Key)?;
            tx.store(other, &[3; 64])?;
            tx.free(block)
        };
        let cancelled: Result<(), _> = lane.run(|tx| {
            scribble(tx)?;
            Err(Abort::cancelled("given up"))
        });
        assert!(matches!(cancelled, Err(Abort::Cancelled(_))));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            lane.run(|tx| -> Result<(), Abort> {
                scribble(tx)?;
                panic!("inside");
            })
        }));
        assert!(panicked.is_err());
        let swallowed = lane.run(|tx| {
            scribble(tx)?;
            let _ = tx.load(PoolOffset(1 << 40), &mut [0]);
            Err::<(), _>(Abort::cancelled("given up"))
        });
        assert!(swallowed.is_err());
        let mut bytes = [0; 256];
        lane.run(|tx| tx.load(block, &mut bytes)).unwrap();
        assert_eq!(bytes, [1; 256], "{scheme}");
        drop(lane);
        let blocks = blocks_of(&pool);
        assert_eq!(blocks, [block], "{scheme}");
    }
}

fn blocks_of(pool: &Pool<Heap>) -> Vec<PoolOffset> {
    let image = Heap::from_bytes(&pool.medium().to_bytes());
    let recovered = UnrecoveredPool::open(image).unwrap().recover().unwrap();
    let (report, blocks) = recovered.check_metadata();
    assert_eq!(report.findings, []);
    blocks.into_keys().collect()
}

#[test]
fn a_transaction_sees_its_own_stores() {
    for scheme in sound_schemes() {
        let pool = small_pool(scheme, 1, 4096, 1 << 20);
        let mut lane = pool.lane().unwrap();
        lane.run(|tx| {
            let block = tx.alloc(4096, BlockKind::General)?;
            tx.store(block, &[7; 4096])?;
            Ok(block)
        })
        .and_then(|block| {
            lane.run(|tx| {
                tx.store(block.plus(61), &[1, 2, 3, 4, 5, 6])?;
                tx.store(block.plus(63), &[9])?;
                let mut bytes = [0; 10];
                tx.load(block.plus(59), &mut bytes)?;
                assert_eq!(bytes, [7, 7, 1, 2, 9, 4, 5, 6, 7, 7], "{scheme}");
                Ok(())
            })
        })
        .unwrap();
    }
}

#[test]
fn transactions_far_larger_than_the_log_commit_and_abort() {
    for scheme in sound_schemes() {
        for cancel in [false, true] {
            let pool = small_pool(scheme, 1, 1024, 8 << 20);
            let mut lane = pool.lane().unwrap();
            let blocks: Vec<PoolOffset> = (0..40)
                .map(|i| {
                    lane.run(|tx| {
                        let block = tx.alloc(20_000, BlockKind::General)?;
                        tx.store(block, &vec![i as u8; 20_000])?;
                        Ok(block)
                    })
                    .unwrap()
                })
                .collect();
            let result = lane.run(|tx| {
                for block in &blocks {
                    tx.store(*block, &[100; 20_000])?;
                }
                if cancel { Err(Abort::cancelled("given up")) } else { Ok(()) }
            });
            assert_eq!(result.is_err(), cancel, "{result:?}");
            drop(lane);
            let pool = if scheme == Scheme::None { pool } else { reopen(pool, scheme) };
            let mut lane = pool.lane().unwrap();
            for (i, block) in blocks.iter().enumerate() {
                let mut bytes = vec![0; 20_000];
                lane.run(|tx| tx.load(*block, &mut bytes)).unwrap();
                let want = if cancel { i as u8 } else { 100 };
                assert!(bytes.iter().all(|b| *b == want), "{scheme} block {i}");
            }
        }
    }
}

#[test]
fn a_full_pool_says_so_and_space_comes_back() {
    // An append-only log fills the pool itself, and nothing comes back before it is opened again.
    for scheme in sound_schemes().filter(|scheme| scheme.name() != "aof") {
        // Giving back needs a log too: one with room for whole pages.
        let lane_bytes = if scheme.name() == "rollback" { 64 << 10 } else { 4096 };
        let pool = small_pool(scheme, 1, lane_bytes, (252 << 10) + lane_bytes);
        let mut lane = pool.lane().unwrap();
        for _ in 0..3 {
            let mut blocks = Vec::new();
            let error = loop {
                match lane.run(|tx| tx.alloc(500, BlockKind::General)) {
                    Ok(block) => blocks.push(block),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, Abort::OutOfSpace { bytes: 500 }), "{error:?}");
            assert!(blocks.len() > 300, "{scheme}: {}", blocks.len());
            for block in blocks {
                lane.run(|tx| tx.free(block)).unwrap();
            }
            // The chunks are free for another size, too.
            let large = lane.run(|tx| tx.alloc(60_000, BlockKind::General)).unwrap();
            lane.run(|tx| tx.free(large)).unwrap();
        }
        drop(lane);
        assert_eq!(blocks_of(&pool), []);
    }
}

/// An append-only log takes what there is, says so, and gives it back when the pool is opened
/// again. What the last transactions left is there before and after.
#[test]
#[cfg(feature = "lab")]
fn a_log_that_only_grows_fills_the_pool_and_reopening_empties_it() {
    let mut pool = small_pool(Scheme::Aof, 1, 4096, 256 << 10);
    let block = pool.lane().unwrap().run(|tx| tx.alloc(4000, BlockKind::General)).unwrap();
    for round in 1..=3u64 {
        let mut lane = pool.lane().unwrap();
        let mut last = 0;
        let error = loop {
            match lane.run(|tx| tx.store(block, &[last as u8 + 1; 4000])) {
                Ok(()) => last = (last + 1) % 100,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Abort::LogFull { .. }), "{error:?}");
        drop(lane);
        pool = if round == 2 {
            let open = OpenOptions::with_scheme(Scheme::Aof);
            let closed = UnrecoveredPool::open(pool.close()).unwrap();
            assert_eq!(closed.info().unwrap().live_records, Some(0), "closing has emptied it");
            closed.recover().unwrap().start(&open).unwrap()
        } else {
            reopen(pool, Scheme::Aof)
        };
        let mut bytes = [0; 4000];
        pool.lane().unwrap().run(|tx| tx.load(block, &mut bytes)).unwrap();
        assert_eq!(bytes, [last as u8; 4000], "round {round}");
    }
}

/// What is announced to be read is a hint, alone and beside others.
#[test]
fn what_will_be_read_may_lie_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    for scheme in sound_schemes() {
        let path = dir.path().join(scheme.to_string());
        let create = CreateOptions { lanes: 2, ..CreateOptions::default() };
        let medium = Mapped::create(&path, 8 << 20, &MapOptions::default()).unwrap();
        let pool = Pool::create_on(medium, &create, &OpenOptions::with_scheme(scheme)).unwrap();
        let mut lane = pool.lane().unwrap();
        let block = lane.run(|tx| tx.alloc(128, BlockKind::General)).unwrap();
        let mut run = || {
            lane.run(|tx| {
                tx.store_u64(block, 7)?;
                for at in [0, 1, block.0, (8 << 20) - 1, 1 << 40, u64::MAX] {
                    let lens = [0, 1, 65, 1 << 30, u64::MAX];
                    tx.will_read(&lens.map(|len| ByteRange::new(PoolOffset(at), len)));
                }
                tx.load_u64(block)
            })
        };
        assert_eq!(run().unwrap(), 7, "{scheme}, alone");
        let _other = pool.lane().unwrap();
        assert_eq!(run().unwrap(), 7, "{scheme}, beside another");
    }
}

#[test]
fn freeing_what_is_no_block_is_an_error() {
    for scheme in sound_schemes() {
        let pool = small_pool(scheme, 1, 4096, 1 << 20);
        let mut lane = pool.lane().unwrap();
        let block = lane.run(|tx| tx.alloc(128, BlockKind::General)).unwrap();
        for bad in [block.plus(8), block.plus(128), PoolOffset(64), PoolOffset(1 << 30)] {
            let result = lane.run(|tx| tx.free(bad));
            assert!(matches!(result, Err(Abort::BadAddress(_))), "{bad}: {result:?}");
        }
        let twice = lane.run(|tx| tx.free(block).and_then(|()| tx.free(block)));
        assert!(matches!(twice, Err(Abort::BadAddress(_))));
        lane.run(|tx| tx.free(block)).unwrap();
        assert!(lane.run(|tx| tx.free(block)).is_err());
        let own = lane.run(|tx| {
            let own = tx.alloc(64, BlockKind::General)?;
            tx.free(own)
        });
        own.unwrap();
        drop(lane);
        assert_eq!(blocks_of(&pool), []);
    }
}

#[test]
fn two_threads_lose_no_increment_and_see_no_half() {
    for scheme in sound_schemes() {
        let pool = small_pool(scheme, 4, 1024, 1 << 20);
        let block = pool.lane().unwrap().run(|tx| {
            let block = tx.alloc(1024, BlockKind::General)?;
            tx.store(block, &[0; 1024])?;
            Ok(block)
        });
        let block = block.unwrap();
        let rounds = 2000;
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let pool = &pool;
                scope.spawn(move || {
                    let mut lane = pool.lane().unwrap();
                    for i in 0..rounds {
                        // Two words of different lines always carry the same count.
                        let (a, b) = if (i + thread) % 2 == 0 { (0, 640) } else { (640, 0) };
                        lane.run(|tx| {
                            let one = tx.load_u64(block.plus(a))?;
                            let two = tx.load_u64(block.plus(b))?;
                            assert_eq!(one, two, "a reader saw half a transaction");
                            tx.store_u64(block.plus(a), one + 1)?;
                            tx.store_u64(block.plus(b), one + 1)
                        })
                        .unwrap();
                    }
                });
            }
        });
        let total = pool.lane().unwrap().run(|tx| tx.load_u64(block)).unwrap();
        assert_eq!(total, 3 * rounds, "{scheme}");
    }
}

#[test]
fn lanes_run_out_and_come_back() {
    let pool = small_pool(Scheme::Undo, 2, 4096, 1 << 20);
    let (one, two) = (pool.lane().unwrap(), pool.lane().unwrap());
    assert!(pool.try_lane().is_err());
    drop(one);
    assert!(pool.lane().is_ok());
    drop(two);
}

/// What was read must still be so at the commit, however many numbers the transaction itself has
/// drawn before its view was renewed and others after.
#[test]
fn own_numbers_do_not_hide_what_others_have_changed() {
    // With a rollback journal a writer inside another would wait for it for ever.
    for scheme in Scheme::durable().filter(|scheme| scheme.name() != "rollback") {
        let pool = small_pool(scheme, 2, 4096, 1 << 20);
        let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
        let at = one.run(|tx| tx.alloc(512, BlockKind::General)).unwrap();
        let [x, y, w, z] = [0, 64, 128, 192].map(|offset| at.plus(offset));
        two.run(|tx| tx.store(at, &[0; 256])).unwrap();
        for own_stores in 0..4 {
            let mut attempts = 0;
            let seen = one.run(|tx| {
                attempts += 1;
                let seen = tx.load_u64(z)?;
                for place in [x, y, x.plus(8)].into_iter().take(own_stores) {
                    tx.store_u64(place, 1)?;
                }
                if attempts == 1 {
                    two.run(|tx| tx.store_u64(w, own_stores as u64 + 1))?;
                }
                tx.load_u64(w)?;
                if attempts == 1 {
                    two.run(|tx| tx.store_u64(z, own_stores as u64 + 1))?;
                }
                tx.store_u64(at.plus(320), seen)?;
                Ok(seen)
            });
            assert_eq!(seen.unwrap(), own_stores as u64 + 1, "{scheme}, {own_stores} stores");
            assert_eq!(attempts, 2, "{scheme}, {own_stores} stores: the first saw an old z");
        }
    }
}
