//! Pools that are open for reading only, or whose header alone is read: collections and types work,
//! changes are refused, and no other process that has the pool open is disturbed.
#![cfg(not(miri))]

use std::path::{Path, PathBuf};

use outlast::collections::{ByteMap, ByteTree, Dictionary, Placement, Queue, RbTree, Words};
use outlast::inspect::PoolInfo;
use outlast::medium::{CreateOptions, MapOptions, OpenOptions};
use outlast::recover::{RecoveredPool, UnrecoveredPool};
use outlast::typed::{PBTreeMap, PHashMap, PQueue, PString, PVec, Persist};
use outlast::{
    Abort, BlockKind, Domain, Pool, PoolError, PoolOffset, RootKind, Runner, Scheme, Transact,
};

fn map() -> MapOptions {
    MapOptions { domain: Some(Domain::Process), ..MapOptions::default() }
}

fn created(dir: &Path) -> (PathBuf, Pool) {
    let path = dir.join("read.pool");
    let pool =
        Pool::create_with(&path, 4 << 20, &CreateOptions::default(), &Default::default(), &map());
    (path, pool.unwrap())
}

fn read_only(path: &Path) -> RecoveredPool<outlast_pmem::Mapped> {
    RecoveredPool::open_read_only(path, &map()).unwrap()
}

#[test]
fn collections_are_read_without_a_lane() {
    let dir = tempfile::tempdir().unwrap();
    let (path, pool) = created(dir.path());
    let [map, tree, red, queue, words] = pool
        .lane()
        .unwrap()
        .run(|tx| {
            let (map, tree) = (
                ByteMap::create(tx, &Default::default())?,
                ByteTree::create(tx, Placement::Together)?,
            );
            map.insert(tx, b"one", b"1")?;
            tree.insert(tx, b"two", b"22")?;
            let red = RbTree::create(tx, 8)?;
            red.insert(tx, 3, &[3; 8])?;
            let queue = Queue::create(tx, 4)?;
            queue.enqueue(tx, b"four")?;
            let words = Words::create(tx, 5, |i| i * i)?;
            tx.set_root(map.root(), RootKind::HashMap)?;
            Ok([map.root(), tree.root(), red.root(), queue.root(), words.root()])
        })
        .unwrap();
    pool.close();

    let pool = read_only(&path);
    let mut reader = pool.reader();
    reader
        .run(|tx| {
            assert_eq!(tx.root()?, Some((map, RootKind::HashMap)));
            let mut value = Vec::new();
            assert!(ByteMap::open(tx, map)?.get(tx, b"one", &mut value)?);
            assert!(ByteTree::open(tx, tree)?.get(tx, b"two", &mut value)?);
            assert_eq!(value, b"22");
            assert_eq!(RbTree::open(tx, red)?.len(tx)?, 1);
            assert_eq!(Queue::open(tx, queue)?.len(tx)?, 1);
            assert_eq!(Words::open(tx, words)?.get(tx, 4)?, 16);
            assert!(!ByteMap::open(tx, map)?.get(tx, b"none", &mut value)?);
            Ok(())
        })
        .unwrap();

    // Whatever would change the pool is refused, and decides the end of its transaction.
    let refused =
        |done: Result<(), Abort>| assert!(matches!(done, Err(Abort::ReadOnly)), "{done:?}");
    refused(reader.run(|tx| ByteMap::open(tx, map)?.insert(tx, b"two", b"2").map(drop)));
    refused(reader.run(|tx| ByteMap::open(tx, map)?.remove(tx, b"one").map(drop)));
    refused(reader.run(|tx| Queue::open(tx, queue)?.dequeue(tx, &mut [0; 4]).map(drop)));
    refused(reader.run(|tx| tx.alloc(8, BlockKind::General).map(drop)));
    refused(reader.run(|tx| tx.free(map)));
    refused(reader.run(|tx| tx.set_root(tree, RootKind::BTree)));
    refused(reader.run(|tx| {
        let _ = tx.store_u64(map, 0);
        Ok(())
    }));
    let outside = reader.run(|tx| tx.load(PoolOffset(u64::MAX - 3), &mut [0; 8]));
    assert!(matches!(outside, Err(Abort::BadAddress(_))), "{outside:?}");
    assert!(reader.run(|tx| tx.root()).is_ok(), "a failure does not outlive its transaction");
}

/// On a disk fences go to a log. What it holds is in place unless power has failed.
#[test]
fn a_closed_pool_with_a_log_of_fences_is_read_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let map = MapOptions { domain: Some(Domain::Page), max_len: 8 << 20, ..MapOptions::default() };
    let (create, open) = (CreateOptions::default(), OpenOptions::with_scheme(Scheme::Swift));
    let pool = Pool::create_with(&path, 4 << 20, &create, &open, &map).unwrap();
    assert!(pool.header().geometry.fence_log_bytes() >= 32 << 10);
    let words = pool.lane().unwrap().run(|tx| Words::create(tx, 10, |n| n)).unwrap();
    drop(pool.close());
    let pool = RecoveredPool::open_read_only(&path, &map).unwrap();
    assert_eq!(pool.reader().run(|tx| words.get(tx, 7)).unwrap(), 7);
    drop(pool);

    // A line of the first page that is older than its last fence has left it, in a pool that was not closed.
    let pool = Pool::open_with(&path, &open, &map).unwrap();
    pool.lane().unwrap().run(|tx| words.set(tx, 3, 33)).unwrap();
    drop(pool);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[128..192].copy_from_slice(&[0; 64]);
    std::fs::write(&path, &bytes).unwrap();
    let refused = RecoveredPool::open_read_only(&path, &map).err().unwrap();
    assert!(matches!(refused, PoolError::NeedsRecovery { .. }), "{refused}");
    let info = UnrecoveredPool::open_file(&path, &map).unwrap().info().unwrap();
    assert!(info.live_records.is_some_and(|records| records > 0));
    let pool = Pool::open_with(&path, &open, &map).unwrap();
    assert_eq!(pool.lane().unwrap().run(|tx| words.get(tx, 9)).unwrap(), 9);
    drop(pool);

    // One word of its head may be damaged. Without its copy nothing is guessed.
    let at = pool_head(&bytes);
    bytes[at] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let pool = Pool::open_with(&path, &open, &map).unwrap();
    assert_eq!(pool.lane().unwrap().run(|tx| words.get(tx, 3)).unwrap(), 33);
    drop(pool);
    bytes[at + 64] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let refused = Pool::open_with(&path, &open, &map).err().unwrap();
    assert!(refused.to_string().contains("the log of fences"), "{refused}");
    for fence_log_bytes in [Some(0), Some(8 << 10)] {
        let create = CreateOptions { fence_log_bytes, ..create };
        let path = dir.path().join(format!("{fence_log_bytes:?}"));
        let pool = Pool::create_with(&path, 4 << 20, &create, &open, &map).unwrap();
        let has = pool.header().geometry.fence_log_bytes();
        assert_eq!(has > 0, fence_log_bytes != Some(0), "{has}");
    }
    let few = CreateOptions { fence_log_bytes: Some(4096), ..create };
    let refused = Pool::create_with(dir.path().join("few"), 4 << 20, &few, &open, &map);
    assert!(matches!(refused, Err(PoolError::Parameters(_))));
}

/// Where the head of the log of fences stands: behind the lanes, on a page of its own.
fn pool_head(bytes: &[u8]) -> usize {
    let geometry = crate::common::geometry_of(bytes);
    (geometry.heap_at - geometry.fence_log_bytes()) as usize
}

/// A program that died leaves work for recovery, which needs no permission to write.
#[test]
fn a_pool_that_was_not_closed_is_read_through_an_overlay() {
    let dir = tempfile::tempdir().unwrap();
    let (path, pool) = created(dir.path());
    let words = pool.lane().unwrap().run(|tx| Words::create(tx, 100, |_| 0)).unwrap();
    for n in 0..100 {
        pool.lane().unwrap().run(|tx| words.set(tx, n, n + 1)).unwrap();
    }
    drop(pool);
    let before = std::fs::read(&path).unwrap();
    let direct = RecoveredPool::open_read_only(&path, &map()).err().unwrap();
    assert!(matches!(direct, PoolError::NeedsRecovery { .. }), "{direct}");
    let readers = [(); 2].map(|()| RecoveredPool::open_overlaid(&path, &map()).unwrap());
    for pool in &readers {
        let sum =
            pool.reader().run(|tx| (0..100).map(|n| words.get(tx, n)).sum::<Result<u64, _>>());
        assert_eq!(sum.unwrap(), 5050);
    }
    // What it would store would not last.
    for pool in readers {
        assert!(matches!(pool.repair(), Err(PoolError::ReadOnly)));
        assert!(matches!(pool.start(&OpenOptions::default()).err(), Some(PoolError::ReadOnly)));
    }
    assert!(std::fs::read(&path).unwrap() == before);
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Shelf<'id> {
    books: PVec<'id, u64>,
    title: PString<'id>,
    by_name: PHashMap<'id, str, u64>,
    by_number: PBTreeMap<'id, u64, u64>,
    waiting: PQueue<'id, u64>,
}

#[test]
fn types_are_read_without_a_lane() {
    let dir = tempfile::tempdir().unwrap();
    let (path, pool) = created(dir.path());
    pool.typed(|pool| {
        let filled = pool.lane().unwrap().run(|tx| {
            let shelf = Shelf {
                books: PVec::new(tx)?,
                title: PString::new(tx, "novels")?,
                by_name: PHashMap::new(tx)?,
                by_number: PBTreeMap::new(tx)?,
                waiting: PQueue::new(tx)?,
            };
            shelf.books.extend(tx, [1, 2, 3])?;
            shelf.by_name.insert(tx, "Emma", 5)?;
            shelf.by_number.insert(tx, &9, 6)?;
            shelf.waiting.push_back(tx, 7)?;
            tx.set_root(shelf).map(drop)
        });
        filled.unwrap();
    });
    pool.close();

    read_only(&path).typed(|mut reader| {
        let read = reader.run(|tx| {
            let shelf = tx.root::<Shelf<'_>>()?.expect("it was set").get(tx)?;
            assert_eq!(shelf.title.to_string(tx)?, "novels");
            assert_eq!(shelf.books.iter(tx).collect::<Result<Vec<_>, _>>()?, [1, 2, 3]);
            assert_eq!(shelf.by_name.get(tx, "Emma")?, Some(5));
            assert_eq!(shelf.by_number.get(tx, &9)?, Some(6));
            assert_eq!(shelf.waiting.front(tx)?, Some(7));
            Ok(shelf)
        });
        let shelf = read.unwrap();
        let pushed = reader.run(|tx| shelf.books.push(tx, 4));
        assert!(matches!(pushed, Err(Abort::ReadOnly)), "{pushed:?}");
        let other = reader.run(|tx| tx.root::<PVec<'_, u64>>().map(drop));
        assert!(matches!(other, Err(Abort::Schema(_))), "{other:?}");
    });
}

#[test]
fn the_header_is_read_beside_a_user_of_the_pool() {
    let dir = tempfile::tempdir().unwrap();
    let (path, pool) = created(dir.path());
    let map = pool.lane().unwrap().run(|tx| {
        let map = ByteMap::create(tx, &Default::default())?;
        tx.set_root(map.root(), RootKind::HashMap)?;
        Ok(map)
    });
    let info = PoolInfo::peek(&path).unwrap();
    assert_eq!(info.header, *pool.header());
    assert_eq!((info.len, info.generation, info.live_records), (4 << 20, 2, None));
    assert_eq!(info.root, Some((map.unwrap().root(), RootKind::HashMap)));
    pool.grow(6 << 20).unwrap();
    assert!(PoolInfo::peek(&path).unwrap().chunks > info.chunks);
    // The pool is not disturbed.
    pool.lane().unwrap().run(|tx| tx.alloc(64, BlockKind::General)).unwrap();

    assert!(matches!(PoolInfo::peek(dir.path()), Err(PoolError::Map(_))));
    std::fs::write(dir.path().join("text"), "no pool").unwrap();
    assert!(matches!(PoolInfo::peek(dir.path().join("text")), Err(PoolError::NotAPool { .. })));
}

/// What a pool was created with need not be said again when it is opened.
#[test]
#[cfg(feature = "lab")]
fn the_defaults_open_every_pool() {
    use outlast::Scheme;
    let dir = tempfile::tempdir().unwrap();
    let plain = OpenOptions::default();
    for (name, checksums, scheme, opened_with) in [
        ("plain", false, None, Scheme::Swift),
        ("undo", false, Some(Scheme::Undo), Scheme::Swift),
        ("sums", true, None, Scheme::RedoArchapt),
        ("undo-sums", true, Some(Scheme::UndoArchapt), Scheme::RedoArchapt),
        ("literal", true, Some(Scheme::UndoArchaptLiteral), Scheme::RedoArchaptLiteral),
    ] {
        let path = dir.path().join(name);
        let create = CreateOptions { checksums, ..CreateOptions::default() };
        let open = OpenOptions { scheme, ..plain };
        let pool = Pool::create_with(&path, 4 << 20, &create, &open, &map()).unwrap();
        pool.lane().unwrap().run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
        drop(pool);
        let pool = Pool::open_with(&path, &plain, &map()).unwrap();
        assert_eq!(pool.scheme(), opened_with, "{name}");
        pool.lane().unwrap().run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
        drop(pool);
        // A scheme that is named and does not suit is refused all the same.
        let wrong = if checksums { Scheme::Swift } else { Scheme::RedoArchaptLiteral };
        let error = Pool::open_with(&path, &OpenOptions::with_scheme(wrong), &map()).err().unwrap();
        let is_named = match error {
            PoolError::KeepsChecksums { given } => given == wrong,
            PoolError::NotLiteral { given } | PoolError::Literal { given } => given == wrong,
            _ => false,
        };
        assert!(is_named, "{name}: {error}");
    }
}

/// One block, or one key, that fits into an empty pool is not refused for where it lies.
#[test]
fn one_block_takes_most_of_an_empty_pool() {
    let dir = tempfile::tempdir().unwrap();
    for (mib, bytes) in [(2, 1 << 20), (3, 9 << 18), (6, 5 << 20), (12, 11 << 20), (15, 14 << 20)] {
        let (len, path) = (mib << 20, dir.path().join(format!("{mib}.pool")));
        let create = CreateOptions { lanes: 2, ..CreateOptions::default() };
        let pool = Pool::create_with(&path, len, &create, &Default::default(), &map()).unwrap();
        let mut lane = pool.lane().unwrap();
        let block = lane.run(|tx| tx.alloc(bytes, BlockKind::General));
        assert!(block.is_ok(), "{bytes} bytes of {len}: {block:?}");
        let geometry = pool.header().geometry;
        assert!(geometry.block_bytes_max() + geometry.heap_at + geometry.chunk_bytes >= len);
    }
    // The heap decides, not the logs before it: chunks are no larger than it takes.
    let geometry = CreateOptions::default().geometry((2 << 20) + (16 << 10)).unwrap();
    assert_eq!(geometry.chunk_bytes, 4096);
}
