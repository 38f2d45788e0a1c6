//! Asynchronous commit: which lanes see pending data, when it is durable, and that no lane waits
//! for ever.

use std::sync::atomic::{AtomicBool, Ordering};

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{
    Abort, AsyncTicket, BlockKind, Lane, Pool, PoolOffset, RootKind, Runner, Scheme, Transact,
};
use outlast_pmem::{Counted, Counters, Heap};
use outlast_trace::Random;

const POOL_BYTES: u64 = 4 << 20;
const CELLS: u64 = 256;

/// Schemes that can commit later, and one that cannot.
const TRIED: [Scheme; 4] = [Scheme::Swift, Scheme::Redo, Scheme::RedoArchapt, Scheme::Undo];

type Counting = Counted<Heap>;

fn open_options(scheme: Scheme, lock_always: bool) -> OpenOptions {
    OpenOptions { lock_stripes: 1024, lock_always, ..OpenOptions::with_scheme(scheme) }
}

/// A pool whose root has `CELLS` cells, a line each, at zero.
fn pool(scheme: Scheme, lane_bytes: u64, lock_always: bool) -> (Pool<Counting>, PoolOffset) {
    let create = CreateOptions { lanes: 4, lane_bytes, ..CreateOptions::default() };
    let medium = Counted::new(Heap::new(POOL_BYTES));
    let pool = Pool::create_on(medium, &create, &open_options(scheme, lock_always)).unwrap();
    let root = pool
        .lane()
        .unwrap()
        .run(|tx| {
            let root = tx.alloc(CELLS * 64, BlockKind::General)?;
            tx.store(root, &[0; CELLS as usize * 64])?;
            tx.set_root(root, RootKind::Opaque)?;
            Ok(root)
        })
        .unwrap();
    (pool, root)
}

fn cell(root: PoolOffset, number: u64) -> PoolOffset {
    root.plus(number * 64)
}

fn reopened(pool: Pool<Counting>, scheme: Scheme) -> Pool<Counting> {
    let recovered = UnrecoveredPool::open(pool.into_medium()).unwrap().recover().unwrap();
    recovered.start(&open_options(scheme, false)).unwrap()
}

fn value(pool: &Pool<Counting>, at: PoolOffset) -> u64 {
    pool.lane().unwrap().run(|tx| tx.load_u64(at)).unwrap()
}

fn spent<R>(pool: &Pool<Counting>, what: impl FnOnce() -> R) -> (Counters, R) {
    let before = pool.medium().counters();
    let result = what();
    (pool.medium().counters() - before, result)
}

#[test]
fn a_batch_takes_one_record_and_one_fence() {
    for lock_always in [false, true] {
        let (pool, root) = pool(Scheme::Swift, 64 << 10, lock_always);
        let mut lane = pool.lane().unwrap();
        let (batched, ()) = spent(&pool, || {
            for number in 0..64 {
                lane.run_later(|tx| tx.store_u64(cell(root, number), number + 1)).unwrap();
            }
        });
        assert_eq!((batched.fences, batched.flushed_lines, batched.stored_bytes), (0, 0, 0));
        let (synced, ()) = spent(&pool, || pool.sync().unwrap());
        assert_eq!(synced.fences, 1);
        // Two words for each word, seven in a line of log.
        assert!(synced.flushed_lines <= 64 * 2 / 7 + 1, "{synced:?}");
        let (again, ()) = spent(&pool, || pool.sync().unwrap());
        assert_eq!(again.fences, 0, "there is nothing left");
    }
}

#[test]
fn one_fence_makes_several_lanes_durable() {
    let (pool, root) = pool(Scheme::Swift, 64 << 10, true);
    let mut lanes: Vec<_> = (0..4).map(|_| pool.lane().unwrap()).collect();
    let mut tickets = Vec::new();
    for (lane, number) in lanes.iter_mut().zip(0..) {
        let store = |tx: &mut outlast::Tx<'_, _>| tx.store_u64(cell(root, number), number + 7);
        tickets.push(lane.run_async(store).unwrap().1);
    }
    assert!(tickets.iter().all(|ticket| !pool.is_durable(*ticket)));
    let (synced, ()) = spent(&pool, || pool.sync().unwrap());
    assert_eq!(synced.fences, 1);
    assert!(tickets.iter().all(|ticket| pool.is_durable(*ticket)));
    drop(lanes);
    let pool = reopened(pool, Scheme::Swift);
    (0..4).for_each(|number| assert_eq!(value(&pool, cell(root, number)), number + 7));
}

/// A pool that ends without its lanes being given back stands for one that was killed.
#[test]
fn what_is_pending_is_its_lanes_alone_until_it_is_durable() {
    for scheme in TRIED {
        for lock_always in [false, true] {
            let (pool, root) = pool(scheme, 64 << 10, lock_always);
            let mut lane = pool.lane().unwrap();
            let put = |lane: &mut outlast::Lane<'_, _>, at, value| {
                lane.run_async(|tx| tx.store_u64(cell(root, at), value)).unwrap().1
            };
            let first = put(&mut lane, 0, 5);
            pool.await_durable(first).unwrap();
            assert!(pool.is_durable(first));
            let second = put(&mut lane, 1, 6);
            // A store to half a word that is pending keeps the other half.
            let half = |tx: &mut outlast::Tx<'_, _>| tx.store(cell(root, 1).plus(4), &[9; 4]);
            let third = lane.run_async(half).unwrap().1;
            assert_eq!(second, third, "one batch");
            let mut both = [0; 72];
            lane.run_later(|tx| tx.load(cell(root, 0), &mut both)).unwrap();
            let later = scheme != Scheme::Undo;
            assert_eq!(pool.is_durable(second), !later, "{scheme}");
            assert_eq!((both[0], both[64], both[68]), (5, 6, 9));
            let cancelled = lane.run(|tx| {
                tx.store_u64(cell(root, 1), 1)?;
                Err::<(), _>(Abort::cancelled("given up"))
            });
            assert!(matches!(cancelled, Err(Abort::Cancelled(_))));
            std::mem::forget(lane);
            let pool = reopened(pool, scheme);
            assert_eq!(value(&pool, cell(root, 0)), 5);
            let kept = if later { 0 } else { 6 | 0x0909_0909 << 32 };
            assert_eq!(value(&pool, cell(root, 1)), kept, "{scheme}");
        }
    }
}

#[test]
fn whoever_needs_what_is_pending_gets_it_durable() {
    for scheme in [Scheme::Swift, Scheme::Redo, Scheme::RedoArchapt] {
        for lock_always in [false, true] {
            let (pool, root) = pool(scheme, 64 << 10, lock_always);
            let mut lane = pool.lane().unwrap();
            let mut put =
                |at, value| lane.run_async(|tx| tx.store_u64(cell(root, at), value)).unwrap().1;
            // Another lane reads it, or begins beside one that ran alone.
            let read = put(0, 5);
            assert_eq!(value(&pool, cell(root, 0)), 5);
            assert!(pool.is_durable(read), "{scheme}");
            // Another lane wants to store there.
            let stored = put(0, 6);
            pool.lane().unwrap().run(|tx| tx.store_u64(cell(root, 0), 7)).unwrap();
            assert!(pool.is_durable(stored));
            // The own lane reads it and promises something.
            let seen = put(1, 8);
            assert!(!pool.is_durable(seen));
            assert_eq!(lane.run(|tx| tx.load_u64(cell(root, 2))).unwrap(), 0);
            assert!(!pool.is_durable(seen), "that was another cell");
            assert_eq!(lane.run(|tx| tx.load_u64(cell(root, 1))).unwrap(), 8);
            assert!(pool.is_durable(seen));
            // The own lane commits something that waits.
            let before = lane.run_async(|tx| tx.store_u64(cell(root, 3), 9)).unwrap().1;
            lane.run(|tx| tx.store_u64(cell(root, 4), 10)).unwrap();
            assert!(pool.is_durable(before));
            // The lane is given back.
            let last = lane.run_async(|tx| tx.store_u64(cell(root, 5), 11)).unwrap().1;
            drop(lane);
            assert!(pool.is_durable(last));
            let pool = reopened(pool, scheme);
            let found: Vec<u64> = (0..6).map(|number| value(&pool, cell(root, number))).collect();
            assert_eq!(found, [7, 8, 0, 9, 10, 11]);
        }
    }
}

/// A commit that fails has made its record already; the next one, of the same batch, makes another.
#[test]
fn what_failed_is_in_no_later_record() {
    for scheme in [Scheme::Swift, Scheme::Redo, Scheme::RedoArchapt] {
        let (pool, root) = pool(scheme, 64 << 10, true);
        let (mut lane, mut other) = (pool.lane().unwrap(), pool.lane().unwrap());
        lane.run_later(|tx| tx.store_u64(cell(root, 0), 5)).unwrap();
        let mut running = lane.begin();
        running.load_u64(cell(root, 1)).unwrap();
        running.store_u64(cell(root, 0), 6).unwrap();
        running.store_u64(cell(root, 2), 7).unwrap();
        other.run(|tx| tx.store_u64(cell(root, 1), 8)).unwrap();
        let (mut lane, outcome) = running.commit();
        assert!(matches!(outcome, Err(Abort::Conflict)), "{outcome:?}");
        lane.run(|tx| tx.store_u64(cell(root, 3), 9)).unwrap();
        std::mem::forget((lane, other));
        let pool = reopened(pool, scheme);
        let found: Vec<u64> = (0..4).map(|number| value(&pool, cell(root, number))).collect();
        assert_eq!(found, [5, 8, 0, 9], "{scheme}");
    }
}

#[test]
fn batches_end_when_they_are_full_and_large_transactions_commit_at_once() {
    for lock_always in [false, true] {
        // Fifteen lines of ring, so seven of a batch.
        let (pool, root) = pool(Scheme::Swift, 1024, lock_always);
        let mut lane = pool.lane().unwrap();
        let mut tickets = Vec::new();
        for number in 0..1000 {
            // Far enough apart that batches end between them.
            let cells = if number % 100 == 99 { 60 } else { 1 };
            let store = |tx: &mut outlast::Tx<'_, _>| {
                (0..cells).try_for_each(|i| tx.store_u64(cell(root, i), number))
            };
            tickets.push(lane.run_async(store).unwrap().1);
            let cell_0 = lane.run_async(|tx| tx.load_u64(cell(root, 0))).unwrap().0;
            assert_eq!(cell_0, number);
            if cells > 1 {
                assert!(tickets.iter().all(|ticket| pool.is_durable(*ticket)), "{number}");
            }
        }
        drop(lane);
        let pool = reopened(pool, Scheme::Swift);
        assert_eq!((value(&pool, cell(root, 0)), value(&pool, cell(root, 59))), (999, 999));
    }
}

/// Puts off a transaction that stores to the first `cells` cells.
fn put_off(lane: &mut Lane<'_, Counting>, root: PoolOffset, cells: u64) -> AsyncTicket {
    let store = |tx: &mut outlast::Tx<'_, _>| {
        (0..cells).try_for_each(|number| tx.store_u64(cell(root, number), cells))
    };
    lane.run_async(store).unwrap().1
}

#[test]
fn what_would_gain_nothing_by_waiting_does_not() {
    for lock_always in [false, true] {
        let (pool, root) = pool(Scheme::Swift, 64 << 10, lock_always);
        let mut lane = pool.lane().unwrap();
        let small = put_off(&mut lane, root, 12);
        assert!(!pool.is_durable(small));
        let (counters, large) = spent(&pool, || put_off(&mut lane, root, 13));
        assert!(pool.is_durable(small) && pool.is_durable(large), "it changes many lines");
        assert_eq!(counters.fences, 1, "with what was pending before");
        assert!(!pool.is_durable(put_off(&mut lane, root, 1)));
    }
    // Seven lines of a batch: of these one at a time.
    let (pool, root) = pool(Scheme::Swift, 1024, false);
    let mut lane = pool.lane().unwrap();
    assert!(!pool.is_durable(put_off(&mut lane, root, 12)));
    let mut runs = 0;
    let again = lane.run_async(|tx| {
        runs += 1;
        (12..34).try_for_each(|number| tx.store_u64(cell(root, number), 1))
    });
    assert!(pool.is_durable(again.unwrap().1) && runs == 2, "it does not fit behind the other");
    let mut is_at_once = || {
        let ticket = put_off(&mut lane, root, 1);
        pool.is_durable(ticket)
    };
    let at_once = (0..100).filter(|_| is_at_once()).count();
    assert_eq!(at_once, 63, "with the one that ran again 64: more of the kind may come");
}

#[test]
fn blocks_come_and_go_within_a_batch() {
    for scheme in TRIED {
        let (pool, root) = pool(scheme, 64 << 10, false);
        let mut lane = pool.lane().unwrap();
        for bytes in [48, 200, 3000] {
            let make = |tx: &mut outlast::Tx<'_, _>| {
                let block = tx.alloc(bytes, BlockKind::General)?;
                tx.store(block, &vec![7; bytes as usize])?;
                tx.store_u64(cell(root, 0), block.0)?;
                Ok(block)
            };
            let (block, _) = lane.run_async(make).unwrap();
            // Changed by a later transaction of the batch.
            lane.run_later(|tx| tx.store(block.plus(8), &[8; 8])).unwrap();
            let (kept, _) = lane.run_async(make).unwrap();
            assert_ne!(kept, block);
            lane.run_later(|tx| tx.store(kept.plus(16), &[9; 8])).unwrap();
            lane.run_later(|tx| tx.free(block)).unwrap();
            let twice = lane.run_later(|tx| tx.free(block));
            assert!(matches!(twice, Err(Abort::BadAddress(_))), "{scheme}: {twice:?}");
            pool.sync().unwrap();
            let mut content = vec![0; bytes as usize];
            lane.run(|tx| tx.load(kept, &mut content)).unwrap();
            let nines = content.iter().filter(|byte| **byte == 9).count();
            let sevens = content.iter().filter(|byte| **byte == 7).count();
            assert_eq!((sevens, nines), (bytes as usize - 8, 8), "{scheme}");
            lane.run(|tx| tx.free(kept)).unwrap();
        }
        drop(lane);
        let pool = reopened(pool, scheme);
        let report = pool.into_medium();
        let recovered = UnrecoveredPool::open(report).unwrap().recover().unwrap();
        let mut check = outlast::inspect::CheckReport::default();
        let blocks = recovered.allocated_blocks(&mut check);
        assert!(check.findings.is_empty() && blocks.keys().eq([&root]), "{scheme}: {blocks:?}");
    }
}

/// A transaction that gives up takes back what it has changed of its batch, and nothing else.
#[test]
fn what_gives_up_leaves_its_batch_as_it_was() {
    for scheme in TRIED {
        for lock_always in [false, true] {
            let (pool, root) = pool(scheme, 64 << 10, lock_always);
            let mut lane = pool.lane().unwrap();
            // One block that is logged, one whose contents are stored in place at once.
            let blocks = [200, 3000].map(|bytes| {
                let make = |tx: &mut outlast::Tx<'_, _>| {
                    let block = tx.alloc(bytes, BlockKind::General)?;
                    tx.store(block, &vec![7; bytes as usize])?;
                    Ok(block)
                };
                lane.run_async(make).unwrap().0
            });
            lane.run_later(|tx| tx.store_u64(cell(root, 0), 5)).unwrap();
            let give_up = lane.run_later(|tx| {
                tx.store_u64(cell(root, 0), 6)?;
                tx.store_u64(cell(root, 1), 6)?;
                blocks.iter().try_for_each(|block| tx.store(block.plus(8), &[9; 24]))?;
                tx.alloc(48, BlockKind::General)?;
                tx.free(blocks[0])?;
                Err::<(), _>(Abort::cancelled("given up"))
            });
            assert!(matches!(give_up, Err(Abort::Cancelled(_))));
            // Who else is there meets the locks of the batch still, and waits.
            let mut other = pool.lane().unwrap();
            other.run(|tx| tx.store_u64(cell(root, 0), 8)).unwrap();
            let read = |lane: &mut outlast::Lane<'_, _>| {
                lane.run(|tx| {
                    let mut bytes = [0; 40];
                    for block in blocks {
                        tx.load(block, &mut bytes)?;
                        assert_eq!(bytes, [7; 40], "{scheme}");
                    }
                    Ok((tx.load_u64(cell(root, 0))?, tx.load_u64(cell(root, 1))?))
                })
                .unwrap()
            };
            assert_eq!(read(&mut lane), (8, 0), "{scheme}");
            lane.run_later(|tx| tx.free(blocks[0])).unwrap();
            lane.run_later(|tx| tx.free(blocks[1])).unwrap();
            drop((lane, other));
            let recovered = reopened(pool, scheme).into_medium();
            let recovered = UnrecoveredPool::open(recovered).unwrap().recover().unwrap();
            let mut check = outlast::inspect::CheckReport::default();
            let blocks = recovered.allocated_blocks(&mut check);
            assert!(check.findings.is_empty() && blocks.keys().eq([&root]), "{scheme}: {blocks:?}");
        }
    }
}

/// Transfers between few cells by lanes that wait and lanes that do not, beside one that syncs.
#[test]
fn what_failed_is_forgotten_when_another_lane_ends_the_batch() {
    for scheme in TRIED {
        let (pool, root) = pool(scheme, 64 << 10, true);
        let (mut lane, mut other) = (pool.lane().unwrap(), pool.lane().unwrap());
        for round in 0..3 {
            lane.run_async(|tx| tx.store_u64(cell(root, 0), round)).unwrap();
            let outside = lane.run_later(|tx| tx.store_u64(PoolOffset(!7), 1));
            assert!(matches!(outside, Err(Abort::BadAddress { .. })), "{scheme}: {outside:?}");
            other.run(|tx| tx.store_u64(cell(root, 0), 100 + round)).unwrap();
            lane.run(|tx| tx.store_u64(cell(root, 1), round)).unwrap();
        }
    }
}

#[test]
fn threads_that_run_freely_lose_nothing_and_end() {
    const HOT: u64 = 6;
    for scheme in TRIED {
        for hot in [HOT, CELLS] {
            let (pool, root) = pool(scheme, 16 << 10, false);
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let workers: Vec<_> = (0..3u64)
                    .map(|worker| {
                        let pool = &pool;
                        scope.spawn(move || {
                            let mut lane = pool.lane().unwrap();
                            let mut draw = Random::new(worker + 1);
                            for number in 0..if cfg!(miri) { 20 } else { 4000u64 } {
                                let [from, to] = [(); 2].map(|()| cell(root, draw.below(hot)));
                                let transfer = |tx: &mut outlast::Tx<'_, _>| {
                                    let less = tx.load_u64(from)?.wrapping_sub(1);
                                    tx.store_u64(from, less)?;
                                    let more = tx.load_u64(to)?.wrapping_add(1);
                                    tx.store_u64(to, more)
                                };
                                match (number + worker) % 8 {
                                    0 => lane.run(transfer).unwrap(),
                                    _ => lane.run_later(transfer).unwrap(),
                                }
                            }
                        })
                    })
                    .collect();
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        pool.sync().unwrap();
                        std::thread::yield_now();
                    }
                });
                workers.into_iter().for_each(|worker| worker.join().unwrap());
                over.store(true, Ordering::Relaxed);
            });
            let pool = reopened(pool, scheme);
            let sum = (0..hot).map(|number| value(&pool, cell(root, number)));
            assert_eq!(sum.fold(0, u64::wrapping_add), 0, "{scheme}");
        }
    }
}

#[test]
fn transactions_without_a_closure_commit_later_too() {
    let (pool, root) = pool(Scheme::Swift, 64 << 10, false);
    let mut running = pool.lane().unwrap().begin();
    running.store_u64(cell(root, 0), 5).unwrap();
    let (lane, ticket) = running.commit_async();
    let ticket = ticket.unwrap();
    assert!(!pool.is_durable(ticket));
    let mut running = lane.begin();
    assert_eq!(running.load_u64(cell(root, 0)).unwrap(), 5);
    running.store_u64(cell(root, 1), 6).unwrap();
    let (lane, outcome) = running.commit();
    outcome.unwrap();
    assert!(pool.is_durable(ticket));
    drop(lane);
    assert_eq!(value(&pool, cell(root, 1)), 6);
}

#[test]
#[should_panic(expected = "waits for what its own lane has pending")]
fn a_transaction_does_not_wait_for_its_own_lane() {
    let (pool, root) = pool(Scheme::Swift, 64 << 10, false);
    let mut lane = pool.lane().unwrap();
    lane.run_later(|tx| tx.store_u64(cell(root, 0), 5)).unwrap();
    lane.run(|_| {
        pool.sync().unwrap();
        Ok(())
    })
    .unwrap();
}

#[test]
#[should_panic(expected = "ticket of another pool")]
fn a_ticket_of_another_pool_is_not_waited_for() {
    let (one, root) = pool(Scheme::Swift, 64 << 10, false);
    let (other, _) = pool(Scheme::Swift, 64 << 10, false);
    let mut lane = one.lane().unwrap();
    let ((), ticket) = lane.run_async(|tx| tx.store_u64(cell(root, 0), 5)).unwrap();
    other.await_durable(ticket).unwrap();
}

/// What an asynchronous commit has read another lane may store to before the batch has a number.
/// Whichever of the two counts as the first, the other one has seen what it left.
#[test]
fn a_transaction_that_overlaps_an_asynchronous_one_is_before_it_or_behind_it() {
    for scheme in TRIED {
        let (pool, root) = pool(scheme, 64 << 10, true);
        let (x, y) = (cell(root, 0), cell(root, 1));
        let (mut early, mut late) = (pool.lane().unwrap(), pool.lane().unwrap());
        let mut is_first = true;
        late.run(|tx| {
            let seen = tx.load_u64(y)?;
            if std::mem::take(&mut is_first) {
                early.run_later(|tx| {
                    let seen = tx.load_u64(x)?;
                    tx.store_u64(y, seen + 1)
                })?;
            }
            tx.store_u64(x, seen + 1)
        })
        .unwrap();
        pool.sync().unwrap();
        assert_eq!((value(&pool, x), value(&pool, y)), (2, 1), "{scheme}");
    }
}
