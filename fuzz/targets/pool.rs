//! Pools whose bytes were damaged: opened, read only, checked, dumped, recovered, used, closed and repaired.
//! The first byte chooses the sound pool; edits follow.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use outlast::collections::{
    ByteMap, ByteMapOptions, ByteTree, Dictionary, Named, Names, Placement, Queue, RbTree, Trees,
    Words,
};
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Abort, BlockKind, Pool, PoolOffset, RootKind, Runner, Scheme, Transact, Tx};
use outlast_fuzz::{Image, seeds};
use outlast_pmem::Heap;

const POOL_BYTES: u64 = 128 << 10;
const KEYS: u64 = 60;
const SCHEMES: [Scheme; 5] =
    [Scheme::Swift, Scheme::Undo, Scheme::Redo, Scheme::RedoArchapt, Scheme::UndoArchapt];
const KINDS: [RootKind; 7] = [
    RootKind::Names,
    RootKind::HashMap,
    RootKind::BTree,
    RootKind::Words,
    RootKind::Trees,
    RootKind::RbTree,
    RootKind::Queue,
];

static BASES: LazyLock<Vec<(Scheme, Image)>> = LazyLock::new(|| {
    let bases = SCHEMES.into_iter().flat_map(|scheme| KINDS.map(|kind| (scheme, kind)));
    let bases = bases.enumerate();
    bases.map(|(number, (scheme, kind))| (scheme, base(scheme, kind, number % 2 == 0))).collect()
});

fn options(scheme: Scheme) -> OpenOptions {
    OpenOptions {
        lock_stripes: 64,
        cache_bytes: Some(64 << 10),
        ..OpenOptions::with_scheme(scheme)
    }
}

fn base(scheme: Scheme, kind: RootKind, is_closed: bool) -> Image {
    let create = CreateOptions {
        lanes: 2,
        lane_bytes: 8192,
        chunk_bytes: Some(4096),
        checksums: matches!(scheme, Scheme::RedoArchapt | Scheme::UndoArchapt),
        uuid: Some(Default::default()),
        ..CreateOptions::default()
    };
    let pool = Pool::create_on(Heap::new(POOL_BYTES), &create, &options(scheme))
        .expect("a pool of these options can be created");
    let mut lane = pool.lane().expect("a new pool has a lane");
    lane.run(|tx| fill(tx, kind)).expect("a new pool has room");
    lane.run(|tx| use_root(tx, 3)).expect("a sound pool can be changed");
    drop(lane);
    Image::new(if is_closed { pool.close() } else { pool.into_medium() }.to_bytes())
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn fill(tx: &mut Tx<'_, Heap>, kind: RootKind) -> Result<(), Abort> {
    let root = create(tx, kind)?;
    tx.set_root(root, kind)
}

/// A structure of a kind, with entries.
fn create(tx: &mut Tx<'_, Heap>, kind: RootKind) -> Result<PoolOffset, Abort> {
    let keys = 0..KEYS;
    Ok(match kind {
        RootKind::Names => {
            let names = Names::create(tx)?;
            for (name, kind) in
                ["a", "b", "c"].into_iter().zip(KINDS.into_iter().skip(1).step_by(2))
            {
                let named = Named::new(kind, create(tx, kind)?).with_note([2; 12]);
                names.set(tx, name, &named)?;
            }
            names.root()
        }
        RootKind::HashMap => {
            let options =
                ByteMapOptions { placement: Placement::Together, ..ByteMapOptions::default() };
            let map = ByteMap::create(tx, &options)?;
            keys.into_iter().try_for_each(|n| map.insert(tx, &key(n), &[1; 20]).map(drop))?;
            map.root()
        }
        RootKind::BTree => {
            let tree = ByteTree::create(tx, Placement::Together)?;
            keys.into_iter().try_for_each(|n| tree.insert(tx, &key(n), &[1; 20]).map(drop))?;
            tree.root()
        }
        RootKind::Words => Words::create(tx, 600, |_| 7)?.root(),
        RootKind::Trees => {
            let placement = Placement::Inline { key_bytes: 8, value_bytes: 8 };
            let trees = [ByteTree::create(tx, placement)?, ByteTree::create(tx, placement)?];
            keys.into_iter().try_for_each(|n| trees[1].insert(tx, &key(n), &[1; 8]).map(drop))?;
            Trees::create(tx, &trees)?.root()
        }
        RootKind::RbTree => {
            let tree = RbTree::create(tx, 24)?;
            keys.into_iter().try_for_each(|n| tree.insert(tx, n, &[1; 24]).map(drop))?;
            tree.root()
        }
        _ => {
            let queue = Queue::create(tx, 40)?;
            keys.into_iter().try_for_each(|_| queue.enqueue(tx, &[1; 40]).map(drop))?;
            queue.root()
        }
    })
}

fn use_dictionary(tx: &mut Tx<'_, Heap>, map: &impl Dictionary, n: u64) -> Result<(), Abort> {
    map.get(tx, &key(n), &mut Vec::new())?;
    map.insert(tx, &key(n ^ 1), &[3; 8])?;
    map.insert(tx, &key(n + KEYS), &[3; 8])?;
    map.remove(tx, &key(n))?;
    map.for_each(tx, |tx, _, value| tx.load(value.at, &mut [0; 1]))
}

/// Reads and changes what the root leads to.
fn use_root(tx: &mut Tx<'_, Heap>, n: u64) -> Result<(), Abort> {
    let Some((root, kind)) = tx.root()? else { return Ok(()) };
    use_structure(tx, root, kind, n)
}

fn use_structure(
    tx: &mut Tx<'_, Heap>,
    root: PoolOffset,
    kind: RootKind,
    n: u64,
) -> Result<(), Abort> {
    match kind {
        RootKind::Names => {
            let names = Names::open(tx, root)?;
            let mut all = Vec::new();
            names.for_each(tx, |_, name, named| {
                all.push((name.to_owned(), named));
                Ok(())
            })?;
            for (name, named) in all.iter().take(4) {
                // No name leads to other names, whatever its bytes are.
                assert!(named.kind != RootKind::Names);
                use_structure(tx, named.at, named.kind, n)?;
                names.get(tx, name)?;
            }
            let Some((name, named)) = all.get(n as usize % 4) else { return Ok(()) };
            if n % 2 == 0 {
                names.forget(tx, name)?;
                names.set(tx, "z", named)?;
                return Ok(());
            }
            names.free(tx, name).map(drop)
        }
        RootKind::HashMap => {
            let map = ByteMap::open(tx, root)?;
            use_dictionary(tx, &map, n)
        }
        RootKind::BTree => {
            let tree = ByteTree::open(tx, root)?;
            tree.scan(tx, &key(n), 50, |_, _, _| Ok(()))?;
            use_dictionary(tx, &tree, n)
        }
        RootKind::Words => {
            let words = Words::open(tx, root)?;
            if words.len() > 0 {
                let index = n % words.len();
                let old = words.get(tx, index)?;
                words.set(tx, words.len() - 1 - index, old)?;
            }
            Ok(())
        }
        RootKind::Trees => {
            let trees = Trees::open(tx, root)?;
            let Some(tree) = trees.get(1).copied() else { return Ok(()) };
            use_dictionary(tx, &tree, n)
        }
        RootKind::RbTree => {
            let tree = RbTree::open(tx, root)?;
            tree.get(tx, n, &mut Vec::new())?;
            tree.insert(tx, n + KEYS, &[1; 24])?;
            tree.remove(tx, n)?;
            tree.scan(tx, n, 50, |_, _, _| Ok(())).map(drop)
        }
        RootKind::Queue => {
            let queue = Queue::open(tx, root)?;
            queue.enqueue(tx, &[2; 40])?;
            queue.dequeue(tx, &mut [0; 40])?;
            queue.for_each(tx, |_, _, _| Ok(()))
        }
        _ => tx.load_u64(root).map(drop),
    }
}

fn try_pool(scheme: Scheme, image: &[u8]) {
    let open = || UnrecoveredPool::open(Heap::from_bytes(image));
    let Ok(unrecovered) = open() else { return };
    let _ = (unrecovered.info(), unrecovered.log_used_bytes(), unrecovered.harmless_damage());
    if let Ok(pool) = unrecovered.read_only() {
        let mut report = Default::default();
        pool.allocated_blocks(&mut report);
        let _ = pool.root();
    }
    let Ok(recovered) = open().and_then(UnrecoveredPool::recover) else { return };
    recovered.check();
    let _ = recovered.root();
    let Ok(pool) = recovered.start(&options(scheme)) else { return };
    if let Ok(mut lane) = pool.lane() {
        let blocks: Vec<PoolOffset> = [24, 100, 3000, 20_000]
            .into_iter()
            .filter_map(|bytes| lane.run(|tx| tx.alloc(bytes, BlockKind::General)).ok())
            .collect();
        for n in [0, 5, 77] {
            let _ = lane.run(|tx| use_root(tx, n));
        }
        for block in blocks {
            let _ = lane.run(|tx| tx.free(block));
        }
    }
    if let Ok(closed) = pool.try_close()
        && let Ok(pool) = UnrecoveredPool::open(closed).and_then(UnrecoveredPool::recover)
    {
        let _ = pool.repair();
    }
}

fuzz_target!(
    init: seeds((0..BASES.len() as u8).map(|base| [&[base][..], &[1; 22]].concat())),
    |input: &[u8]| {
        let Some((choice, edits)) = input.split_first() else { return };
        // A pool's bytes as they are, from its header on.
        if *choice == u8::MAX {
            let mut image = edits.to_vec();
            image.resize(POOL_BYTES as usize, 0);
            return try_pool(Scheme::default(), &image);
        }
        let (scheme, base) = &BASES[usize::from(*choice) % BASES.len()];
        try_pool(*scheme, &base.edited(edits));
    }
);
