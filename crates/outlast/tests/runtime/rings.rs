//! Links that damage has tied into rings: every walk and every iterator comes to an end.

use outlast::collections::{
    ByteMap, ByteMapOptions, ByteTree, Dictionary, Placement, Queue, RbTree,
};
use outlast::inspect::CheckReport;
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::typed::{PBTreeMap, PHashMap, PQueue, PRbMap, PVec, Persist, TypedTx};
use outlast::{Abort, Lane, Pool, PoolOffset, Runner, Scheme, Transact};
use outlast_pmem::{Heap, Medium};

const ITEMS: u64 = 300;

/// More than any walk sees of `ITEMS` items, rings included, before it notices.
const SEEN_MAX: usize = 40 * ITEMS as usize;

/// A number of items that ends nothing.
const FAR: u64 = 1 << 40;

fn pool() -> Pool<Heap> {
    let create = CreateOptions { lanes: 1, lane_bytes: 64 << 10, ..CreateOptions::default() };
    let open = OpenOptions { lock_stripes: 64, ..OpenOptions::with_scheme(Scheme::Undo) };
    Pool::create_on(Heap::new(512 << 10), &create, &open).unwrap()
}

/// Each link of the pool's blocks with each other value that leads to a block, or to its own line.
fn rings(pool: &Pool<Heap>, mut each: impl FnMut(PoolOffset, u64)) {
    let heap = Heap::from_bytes(&pool.medium().to_bytes());
    let copy = UnrecoveredPool::open(heap).unwrap().recover().unwrap();
    let blocks = copy.allocated_blocks(&mut CheckReport::default());
    let is_inside = |word: u64| {
        let before = blocks.range(..=PoolOffset(word)).next_back();
        before.is_some_and(|(at, bytes)| word - at.0 < *bytes)
    };
    // Entries are smaller, and have no links.
    let targets: Vec<u64> =
        blocks.iter().filter(|(_, bytes)| **bytes >= 64).map(|(at, _)| at.0).collect();
    let nth = (targets.len() / 8).max(1);
    let mut links = 0;
    for (block, bytes) in &blocks {
        for at in (0..*bytes).step_by(8).map(|byte| block.plus(byte)) {
            let word = copy.medium().load_u64(at);
            if word < 4096 || !is_inside(word & !63) {
                continue;
            }
            links += 1;
            let own = [at.0 / 64 * 64, block.0];
            for target in own.into_iter().chain(targets.iter().copied().step_by(nth)) {
                each(at, target | word & 15);
            }
        }
    }
    assert!(links > 3, "{links} links");
}

/// Ties each link in turn, and lets `read` count what it comes by.
fn each_ring(pool: &Pool<Heap>, read: impl Fn(&mut Lane<'_, Heap>) -> usize) {
    let sound = read(&mut pool.lane().unwrap());
    assert!(sound >= ITEMS as usize, "{sound} of {ITEMS}");
    rings(pool, |at, link| {
        let right = pool.medium().load_u64(at);
        pool.medium().store_u64(at, link);
        let seen = read(&mut pool.lane().unwrap());
        assert!(seen < SEEN_MAX, "the link at {at} is {link:#x}");
        pool.medium().store_u64(at, right);
    });
}

/// Counts one thing more, unless there are too many.
fn one_more(seen: &mut usize) -> Result<(), Abort> {
    *seen += 1;
    if *seen < SEEN_MAX { Ok(()) } else { Err(Abort::cancelled("too many")) }
}

fn fill<T>(
    pool: &Pool<Heap>,
    mut put: impl FnMut(&mut outlast::Tx<'_, Heap>, u64) -> Result<T, Abort>,
) {
    let mut lane = pool.lane().unwrap();
    for item in 0..ITEMS {
        lane.run(|tx| put(tx, item)).unwrap();
    }
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of walks take hours there")]
fn walks_of_a_damaged_map_end() {
    let pool = pool();
    let map = |tx: &mut outlast::Tx<'_, Heap>| ByteMap::create(tx, &ByteMapOptions::default());
    let map = pool.lane().unwrap().run(map).unwrap();
    fill(&pool, |tx, item| map.insert(tx, &item.to_le_bytes(), b"value"));
    each_ring(&pool, |lane| {
        let mut seen = 0;
        let _ = lane.run(|tx| map.for_each(tx, |_, _, _| one_more(&mut seen)));
        let _ = lane.run(|tx| map.find(tx, b"a key that is not there"));
        seen
    });
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of walks take hours there")]
fn walks_of_a_damaged_tree_end() {
    let pool = pool();
    let tree = pool.lane().unwrap().run(|tx| ByteTree::create(tx, Placement::default())).unwrap();
    fill(&pool, |tx, item| tree.insert(tx, &item.to_be_bytes(), b"value"));
    each_ring(&pool, |lane| {
        let mut seen = 0;
        let _ = lane.run(|tx| tree.for_each(tx, |_, _, _| one_more(&mut seen)));
        seen
    });
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of walks take hours there")]
fn walks_of_a_damaged_red_black_tree_end() {
    let pool = pool();
    let tree = pool.lane().unwrap().run(|tx| RbTree::create(tx, 8)).unwrap();
    fill(&pool, |tx, item| tree.insert(tx, item, &[7; 8]));
    each_ring(&pool, |lane| {
        let mut seen = 0;
        let _ = lane.run(|tx| tree.for_each(tx, |_, _, _| one_more(&mut seen)));
        seen
    });
}

#[test]
#[cfg_attr(miri, ignore = "tens of thousands of walks take hours there")]
fn walks_of_a_damaged_queue_end() {
    let pool = pool();
    let queue = pool.lane().unwrap().run(|tx| Queue::create(tx, 200)).unwrap();
    fill(&pool, |tx, _| queue.enqueue(tx, &[7; 200]));
    let tail = queue.root().plus(128);
    let sound = pool.medium().load_u64(tail);
    assert_eq!(sound, ITEMS, "the tail's count");
    let walk = |lane: &mut Lane<'_, Heap>| {
        let mut seen = 0;
        let _ = lane.run(|tx| queue.for_each(tx, |_, _, _| one_more(&mut seen)));
        seen
    };
    each_ring(&pool, walk);
    pool.medium().store_u64(tail, FAR);
    each_ring(&pool, walk);
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Shelf<'id> {
    numbers: PVec<'id, u64>,
    jobs: PQueue<'id, u64>,
    by_key: PBTreeMap<'id, u64, u64>,
    by_number: PRbMap<'id, u64, u64>,
    by_name: PHashMap<'id, str, u64>,
}

fn new_shelf<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<Shelf<'id>, Abort> {
    Ok(Shelf {
        numbers: PVec::new(tx)?,
        jobs: PQueue::new(tx)?,
        by_key: PBTreeMap::new(tx)?,
        by_number: PRbMap::new(tx)?,
        by_name: PHashMap::new(tx)?,
    })
}

/// How many items an iterator has, errors included, up to too many.
fn count<T>(items: impl Iterator<Item = Result<T, Abort>>) -> usize {
    items.take(SEEN_MAX).count()
}

/// Where the number of items stands: no item is as large.
fn place_of_count(pool: &Pool<Heap>) -> PoolOffset {
    let words = (0..pool.medium().len() / 8).map(|word| PoolOffset(8 * word));
    let mut found = words.filter(|at| pool.medium().load_u64(*at) == ITEMS);
    found.next_back().expect("a queue")
}

/// The typed ones, both ways where there are two. One kind is filled at a time.
#[test]
#[cfg_attr(miri, ignore = "tens of thousands of walks take hours there")]
fn typed_iterators_over_damaged_structures_end() {
    for (kind, is_far) in [(0, false), (1, false), (1, true), (2, false), (3, false), (4, false)] {
        let pool = pool();
        pool.typed(|pool| {
            let mut lane = pool.lane().unwrap();
            let root = lane.run(|tx| tx.root_or_insert_with(new_shelf)).unwrap();
            for item in 0..ITEMS {
                let put = lane.run(|tx| {
                    let shelf = root.get(tx)?;
                    match kind {
                        0 => shelf.numbers.push(tx, item),
                        1 => shelf.jobs.push_back(tx, item),
                        2 => shelf.by_key.insert(tx, &item, item).map(drop),
                        3 => shelf.by_number.insert(tx, &item, item).map(drop),
                        _ => shelf.by_name.insert(tx, &*item.to_string(), item).map(drop),
                    }
                });
                put.unwrap();
            }
        });
        let read = || {
            pool.typed(|pool| {
                let mut lane = pool.lane().unwrap();
                let mut most = 0;
                let _ = lane.run(|tx| {
                    let Some(root) = tx.root::<Shelf<'_>>()? else { return Ok(()) };
                    let shelf = root.get(tx)?;
                    most = match kind {
                        0 => count(shelf.numbers.iter(tx)),
                        1 => count(shelf.jobs.iter(tx)),
                        2 => count(shelf.by_key.iter(tx)),
                        3 => count(shelf.by_number.iter(tx)),
                        _ => count(shelf.by_name.iter(tx)),
                    };
                    let backwards = match kind {
                        0 => count(shelf.numbers.iter(tx).rev()),
                        2 => count(shelf.by_key.iter(tx).rev()),
                        3 => count(shelf.by_number.iter(tx).rev()),
                        _ => 0,
                    };
                    most = most.max(backwards);
                    Ok(())
                });
                most
            })
        };
        let sound = read();
        assert_eq!(sound, ITEMS as usize, "kind {kind}");
        if is_far {
            pool.medium().store_u64(place_of_count(&pool), FAR);
            assert!(read() < SEEN_MAX, "a queue that ends before its items");
        }
        rings(&pool, |at, link| {
            let right = pool.medium().load_u64(at);
            pool.medium().store_u64(at, link);
            let seen = read();
            assert!(seen < SEEN_MAX, "kind {kind}: the link at {at} is {link:#x}");
            pool.medium().store_u64(at, right);
        });
    }
}
