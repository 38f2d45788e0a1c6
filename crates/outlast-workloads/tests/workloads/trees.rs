//! Operations of a tree on many pairs at once, and directories of trees.

use std::collections::BTreeMap;

use outlast::collections::{ByteTree, Damage, Dictionary, Placement, Reach, Trees, walk_root};
use outlast::{ByteRange, PoolOffset, RootKind, Runner, Transact};
use outlast_workloads::{Random, Volatile};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The blocks that a walk from the root reaches, and how many entries.
fn walk(pool: &Volatile) -> Result<(BTreeMap<PoolOffset, u64>, usize), Damage> {
    let (root, kind) = pool.root().unwrap();
    let (mut blocks, mut entries) = (BTreeMap::new(), 0);
    let mut read = |at: PoolOffset, out: &mut [u8]| pool.read(at, out);
    let reach = walk_root(
        kind,
        root,
        &mut read,
        |at, bytes| assert!(blocks.insert(at, bytes).is_none(), "{at} visited twice"),
        |_, _, _| {
            entries += 1;
            Ok(())
        },
    )?;
    assert_eq!(reach, Reach::Whole);
    Ok((blocks, entries))
}

/// A directory of `trees` trees, as the root object.
fn create(pool: &mut Volatile, trees: usize) -> Vec<ByteTree> {
    pool.run(|tx| {
        let trees = (0..trees).map(|_| ByteTree::create(tx, Placement::Together));
        let trees = trees.collect::<Result<Vec<_>, _>>()?;
        Trees::create(tx, &trees)?.set_root(tx)?;
        Ok(trees)
    })
    .unwrap()
}

fn contents(pool: &mut Volatile, tree: ByteTree) -> Model {
    let mut found = Model::new();
    pool.run(|tx| {
        found.clear();
        tree.for_each(tx, |tx, key, place: ByteRange| {
            let mut value = vec![0; place.len as usize];
            tx.load(place.at, &mut value)?;
            found.insert(key.to_vec(), value);
            Ok(())
        })
    })
    .unwrap();
    found
}

#[test]
fn ascending_pairs_are_added_as_one_by_one_and_announced_less_often() {
    let mut random = Random::new(11);
    for (key_bytes, keys) in [(8, 4_000), (8, 100), (20, 4_000)] {
        let mut pool = Volatile::checked(7, 1);
        let tree = create(&mut pool, 1)[0];
        let mut model = Model::new();
        let (mut pairs_added, mut announcements) = (0, 0);
        for round in 0..400u64 {
            let mut from = random.below(keys);
            let count = random.below(30);
            let mut batch = Model::new();
            for _ in 0..count {
                let mut key = vec![b'k'; key_bytes];
                key[key_bytes - 8..].copy_from_slice(&from.to_be_bytes());
                batch.insert(key, round.to_be_bytes().repeat(1 + random.below(4) as usize));
                from += 1 + random.below(3);
            }
            pool.take_footprint();
            let pairs = || batch.iter().map(|(key, value)| (&key[..], &value[..]));
            let added = pool.run(|tx| tree.add_ascending(tx, pairs())).unwrap();
            announcements += pool.take_footprint().announcements;
            let before = model.len();
            for (key, value) in batch {
                model.entry(key).or_insert(value);
            }
            assert_eq!(added as usize, model.len() - before);
            pairs_added += added;
            if round % 40 == 0 {
                assert_eq!(contents(&mut pool, tree), model);
                assert!(walk(&pool).unwrap().0.into_iter().eq(pool.live_blocks()));
            }
        }
        assert_eq!(contents(&mut pool, tree), model);
        assert!(announcements < pairs_added, "{announcements} for {pairs_added} pairs");
    }
}

#[test]
fn a_directory_reaches_all_its_trees_and_nothing_else() {
    let mut pool = Volatile::checked(1, 0);
    let trees = create(&mut pool, 3);
    for (nth, tree) in trees.iter().enumerate() {
        for i in 0..100 * nth {
            pool.run(|tx| tree.insert(tx, &i.to_be_bytes(), b"value")).unwrap();
        }
    }
    let (blocks, entries) = walk(&pool).unwrap();
    assert!(blocks.into_iter().eq(pool.live_blocks()));
    assert_eq!(entries, 300);
    let (root, kind) = pool.root().unwrap();
    assert_eq!(kind, RootKind::Trees);
    assert_eq!(pool.run(|tx| Trees::open(tx, root)).unwrap(), trees);

    let mut of_tree = [0; 3];
    let mut read = |at: PoolOffset, out: &mut [u8]| pool.read(at, out);
    let count = |_: &mut _, tree: usize, _: &[u8], _| {
        of_tree[tree] += 1;
        Ok(())
    };
    Trees::walk(root, &mut read, |_, _| {}, count).unwrap();
    assert_eq!(of_tree, [0, 100, 200]);
}

#[test]
fn damaged_directories_are_noticed() {
    let damaged = |change: fn(&mut outlast_workloads::VolatileTx, PoolOffset)| {
        let mut pool = Volatile::new();
        create(&mut pool, 2);
        let (root, _) = pool.root().unwrap();
        pool.run(|tx| {
            change(tx, root);
            Ok(())
        })
        .unwrap();
        let opened = pool.run(|tx| Trees::open(tx, root));
        assert!(opened.is_err() || opened.is_ok_and(|trees| trees.len() == 2));
        walk(&pool).unwrap_err().what
    };
    // The same tree twice, no directory, more trees than there can be, a tree out of the pool.
    let twice = damaged(|tx, root| {
        let first = tx.load_u64(root.plus(64)).unwrap();
        tx.store_u64(root.plus(72), first).unwrap();
    });
    assert_eq!(twice, "a block reached twice");
    let none = damaged(|tx, root| tx.store_u64(root, 1).unwrap());
    assert_eq!(none, "a header of another structure");
    let many = damaged(|tx, root| tx.store_u64(root.plus(8), 65).unwrap());
    assert_eq!(many, "a header with an impossible length");
    let outside = damaged(|tx, root| tx.store_u64(root.plus(64), 1 << 40).unwrap());
    assert_eq!(outside, "a pointer out of the pool");
}
