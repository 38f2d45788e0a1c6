//! Words that prove themselves and make no sense, and structures that lead astray: an error or a finding,
//! and neither a panic nor an endless loop.

use crate::common::{blocks_of_all_kinds, geometry_of};
use outlast::collections::{Queue, RbTree, Words, walk_root};
use outlast::inspect::{Finding, sealed_word};
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Abort, BlockKind, Pool, PoolOffset, Runner, Scheme, Transact};
use outlast_pmem::{Heap, Medium};

const STATE_CLASS: u64 = 1 << 48;
const STATE_LARGE: u64 = 2 << 48;

/// What a directory word says that no chunk can be, in a pool of chunks of 4 KiB.
fn impossible() -> impl Iterator<Item = u64> {
    let classes = (0..=255).map(|class| STATE_CLASS | class << 32).filter(|word| {
        // The smallest classes are possible.
        word >> 32 & 0xff > 20
    });
    let runs = [0, 60, 500, 512, 1 << 20, u32::MAX.into()].map(|chunks| STATE_LARGE | chunks);
    let others = [1, 5 << 40 | STATE_CLASS, 3 << 48, 0xff << 48, (1 << 56) - 1];
    classes.chain(runs).chain(others)
}

#[test]
fn directory_words_that_no_chunk_can_have_are_found_and_refused() {
    for checksums in [false, true] {
        let scheme = if checksums { Scheme::RedoArchapt } else { Scheme::Undo };
        let create = CreateOptions {
            lanes: 2,
            lane_bytes: 1024,
            chunk_bytes: Some(4096),
            checksums,
            ..CreateOptions::default()
        };
        let open = OpenOptions { lock_stripes: 64, ..OpenOptions::with_scheme(scheme) };
        let pool = Pool::create_on(Heap::new(256 << 10), &create, &open).unwrap();
        let mut lane = pool.lane().unwrap();
        for bytes in [16, 64, 300, 10_000] {
            lane.run(|tx| tx.alloc(bytes, BlockKind::General)).unwrap();
        }
        drop(lane);
        let image = pool.close().to_bytes();
        let geometry = geometry_of(&image);
        for chunk in [0, 1, 2, 4, 20] {
            let at = geometry.directory_at(chunk);
            for payload in impossible() {
                let heap = Heap::from_bytes(&image);
                heap.store_u64(at, sealed_word(payload, at));
                let pool = UnrecoveredPool::open(heap).unwrap().recover().unwrap();
                let damaged = |finding: &Finding| matches!(finding, Finding::Damaged { .. });
                let what = format!("chunk {chunk}, {payload:#x}");
                assert!(pool.check().findings.iter().any(damaged), "{what}");
                let pool = pool.start(&open).unwrap();
                let mut lane = pool.lane().unwrap();
                // A large block makes the heap read every word but those of directories.
                let taken = lane.run(|tx| tx.alloc(20_000, BlockKind::General));
                match taken {
                    Err(Abort::Damaged(_)) => {}
                    Ok(_) if chunk == 0 => {}
                    other => panic!("{what}: {other:?}"),
                }
                let found = lane.run(|tx| tx.block_at(geometry.chunk_at(chunk)).map(drop));
                assert!(found.is_err(), "{what}");
            }
        }
    }
}

/// A run over a chunk that says of itself that it is another's.
#[test]
fn a_run_over_other_blocks_is_found_and_refused() {
    let image = blocks_of_all_kinds();
    let geometry = geometry_of(&image);
    let at = geometry.directory_at(1);
    let heap = Heap::from_bytes(&image);
    heap.store_u64(at, sealed_word(STATE_LARGE | 4, at));
    let pool = UnrecoveredPool::open(heap).unwrap().recover().unwrap();
    assert!(!pool.check().findings.is_empty());
    let pool = pool.start(&OpenOptions::with_scheme(Scheme::Undo)).unwrap();
    let mut lane = pool.lane().unwrap();
    // Whichever of the two is looked at first, the other one does not become it.
    let second = lane.run(|tx| tx.free(geometry.chunk_at(2).plus(64)));
    let taken = lane.run(|tx| tx.alloc(20_000, BlockKind::General));
    assert!(second.is_err() || taken.is_err(), "{second:?}, {taken:?}");
}

fn pool() -> Pool<Heap> {
    let create = CreateOptions { lanes: 1, lane_bytes: 16 << 10, ..CreateOptions::default() };
    let open = OpenOptions { lock_stripes: 64, ..OpenOptions::with_scheme(Scheme::Undo) };
    Pool::create_on(Heap::new(512 << 10), &create, &open).unwrap()
}

/// Stores words over a structure, each alone, and lets `read` have it as damage leaves it.
fn each_damaged(root: PoolOffset, image: &[u8], words: u64, read: impl Fn(&Pool<Heap>, &str)) {
    let values = [0, 1, 16, 64, 1 << 20, 1 << 40, 1 << 63, u64::MAX, u64::MAX - 63, root.0];
    for word in 0..words {
        for value in values {
            let heap = Heap::from_bytes(image);
            heap.store_u64(root.plus(8 * word), value);
            let pool = UnrecoveredPool::open(heap).unwrap().recover().unwrap();
            let pool = pool.start(&OpenOptions::with_scheme(Scheme::Undo)).unwrap();
            read(&pool, &format!("word {word} is {value:#x}"));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of whole pools take minutes there")]
fn a_queue_whose_words_are_damaged_ends_no_program() {
    let pool = pool();
    let mut lane = pool.lane().unwrap();
    let queue = lane.run(|tx| Queue::create(tx, 8)).unwrap();
    for item in 0..1300u64 {
        lane.run(|tx| queue.enqueue(tx, &item.to_le_bytes())).unwrap();
    }
    lane.run(|tx| queue.dequeue(tx, &mut [0; 8])).unwrap();
    drop(lane);
    let root = queue.root();
    let image = pool.into_medium().to_bytes();
    let use_it = |pool: &Pool<Heap>, _: &str| {
        let mut lane = pool.lane().unwrap();
        let mut seen = 0u64;
        let _ = lane.run(|tx| {
            let queue = Queue::open(tx, root)?;
            queue.for_each(tx, |_, _, _| {
                seen += 1;
                Ok(())
            })
        });
        assert!(seen <= 8000, "{seen} items");
        for _ in 0..3 {
            let _ = lane.run(|tx| Queue::open(tx, root)?.dequeue(tx, &mut [0; 8]));
            let _ = lane.run(|tx| Queue::open(tx, root)?.enqueue(tx, &[7; 8]));
            let _ = lane.run(|tx| Queue::open(tx, root)?.len(tx));
        }
    };
    each_damaged(root, &image, 24, use_it);
    // The second block of the ring leads to the first, so that one is reached twice.
    let first = Heap::from_bytes(&image).load_u64(root.plus(72));
    let second = Heap::from_bytes(&image).load_u64(PoolOffset(first));
    for link in [first, second] {
        let heap = Heap::from_bytes(&image);
        heap.store_u64(PoolOffset(second), link);
        let mut read = |at: PoolOffset, out: &mut [u8]| {
            let inside = at.0 <= heap.len() && heap.len() - at.0 >= out.len() as u64;
            if inside {
                heap.load(at, out);
            }
            inside
        };
        let kind = outlast::RootKind::Queue;
        let walked = walk_root(kind, root, &mut read, |_, _| (), |_, _, _| Ok(()));
        assert!(walked.is_err(), "a block that is reached twice is found");
        let pool = UnrecoveredPool::open(heap).unwrap().recover().unwrap();
        let pool = pool.start(&OpenOptions::with_scheme(Scheme::Undo)).unwrap();
        let mut lane = pool.lane().unwrap();
        let result = lane.run(|tx| Queue::open(tx, root)?.for_each(tx, |_, _, _| Ok(())));
        assert!(matches!(result, Err(Abort::Damaged(_))), "{result:?}");
    }
}

/// An item size that is not the program's may be damage: an error, and no panic.
#[test]
fn items_of_another_length_are_an_error() {
    let pool = pool();
    let mut lane = pool.lane().unwrap();
    let queue = lane.run(|tx| Queue::create(tx, 8)).unwrap();
    let tree = lane.run(|tx| RbTree::create(tx, 8)).unwrap();
    let words = lane.run(|tx| Words::create(tx, 3, |word| word)).unwrap();
    lane.run(|tx| queue.enqueue(tx, &[1; 8])).unwrap();
    let damaged = |result: Result<(), Abort>| {
        assert!(matches!(result, Err(Abort::Damaged(_))), "{result:?}");
    };
    damaged(lane.run(|tx| queue.enqueue(tx, &[1; 16]).map(drop)));
    damaged(lane.run(|tx| queue.dequeue(tx, &mut [1; 16]).map(drop)));
    damaged(lane.run(|tx| queue.peek(tx, &mut []).map(drop)));
    damaged(lane.run(|tx| tree.insert(tx, 1, &[1; 9]).map(drop)));
    let outside = lane.run(|tx| words.get(tx, 3));
    assert!(matches!(outside, Err(Abort::BadAddress(_))), "{outside:?}");
    assert_eq!(lane.run(|tx| words.get(tx, 2)).unwrap(), 2);
}
