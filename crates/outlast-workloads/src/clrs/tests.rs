use std::collections::BTreeMap;

use outlast::{Abort, PoolOffset, RootKind, Runner, Transact};
use proptest::prelude::*;

use super::{ClrsTree, Node};
use crate::{Random, Volatile};

type Model = BTreeMap<u64, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u8),
    Add(u64, u8),
    Remove(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few keys are met again and again, many make the tree high.
    prop_oneof![Just(12u64), Just(60), Just(400)].prop_flat_map(|keys| {
        let step = (0..keys, any::<u8>(), 0..9u8).prop_map(|(key, byte, kind)| match kind {
            0..4 => Step::Add(key, byte),
            4 => Step::Insert(key, byte),
            _ => Step::Remove(key),
        });
        proptest::collection::vec(step, 1..400)
    })
}

fn create(pool: &mut Volatile, value_bytes: u64) -> ClrsTree {
    pool.run(|tx| {
        let tree = ClrsTree::create(tx, value_bytes)?;
        tx.set_root(tree.root(), RootKind::Opaque)?;
        Ok(tree)
    })
    .unwrap()
}

/// The walk reaches exactly the live blocks and finds exactly what the model has.
fn check_against(pool: &Volatile, model: &Model) {
    let (mut blocks, mut found) = (BTreeMap::new(), Vec::new());
    let mut read = |at: PoolOffset, out: &mut [u8]| pool.read(at, out);
    let is_tree = ClrsTree::walk(
        pool.root().unwrap().0,
        &mut read,
        |at, bytes| assert!(blocks.insert(at, bytes).is_none(), "{at} visited twice"),
        |_, key, place| {
            let mut value = vec![0; place.len as usize];
            assert!(pool.read(place.at, &mut value));
            found.push((key, value));
            Ok(())
        },
    );
    assert_eq!(is_tree, Ok(true));
    assert!(blocks.into_iter().eq(pool.live_blocks()), "the walk reached other blocks");
    assert!(found.into_iter().eq(model.clone()), "the walk found other keys or values");
}

fn apply(pool: &mut Volatile, tree: ClrsTree, model: &mut Model, step: &Step, bytes: usize) {
    let done = |pool: &mut Volatile| -> Result<bool, Abort> {
        pool.run(|tx| match *step {
            Step::Insert(key, byte) => tree.insert(tx, key, &vec![byte; bytes]),
            Step::Add(key, byte) => tree.add(tx, key, &vec![byte; bytes]),
            Step::Remove(key) => tree.remove(tx, key),
        })
    };
    let expected = match *step {
        Step::Insert(key, byte) => model.insert(key, vec![byte; bytes]).is_some(),
        Step::Add(key, _) if model.contains_key(&key) => false,
        Step::Add(key, byte) => model.insert(key, vec![byte; bytes]).is_none(),
        Step::Remove(key) => model.remove(&key).is_some(),
    };
    assert_eq!(done(pool).unwrap(), expected, "{step:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_standard_librarys_does(
        steps in steps(),
        bytes in prop_oneof![Just(8usize), Just(13), Just(100)],
        seed: u64,
    ) {
        let mut pool = Volatile::checked(seed, 5);
        let tree = create(&mut pool, bytes as u64);
        let mut model = Model::new();
        for step in &steps {
            apply(&mut pool, tree, &mut model, step, bytes);
            let (Step::Insert(key, _) | Step::Add(key, _) | Step::Remove(key)) = *step;
            let found = pool.run(|tx| {
                let Some(place) = tree.find(tx, key)? else { return Ok(None) };
                let mut value = vec![0; place.len as usize];
                tx.load(place.at, &mut value)?;
                Ok(Some(value))
            });
            prop_assert_eq!(found.unwrap(), model.get(&key).cloned());
        }
        check_against(&pool, &model);
        prop_assert_eq!(pool.take_footprint().unannounced_stores, 0);
        let mut visited = Vec::new();
        pool.run(|tx| {
            visited.clear();
            tree.for_each(tx, |_, key, _| {
                visited.push(key);
                Ok(())
            })
        })
        .unwrap();
        prop_assert!(visited.iter().eq(model.keys()));
        // Emptied in the order of keys, it gives all but its header and a leaf back.
        for key in model.keys().copied().collect::<Vec<_>>() {
            apply(&mut pool, tree, &mut model, &Step::Remove(key), bytes);
        }
        check_against(&pool, &model);
        prop_assert_eq!(pool.live_blocks().count(), 2);
    }
}

#[test]
fn inner_nodes_hold_values_and_thousands_of_keys_come_and_go() {
    let mut pool = Volatile::new();
    let tree = create(&mut pool, 8);
    let (mut model, mut random) = (Model::new(), Random::new(3));
    for round in 0..12_000u64 {
        // Grows to thousands of keys, then shrinks.
        let (key, adds) =
            (random.below(6_000), random.below(10) < if round < 8_000 { 9 } else { 2 });
        let step = if adds { Step::Add(key, round as u8) } else { Step::Remove(key) };
        apply(&mut pool, tree, &mut model, &step, 8);
        if round % 1_000 == 0 {
            check_against(&pool, &model);
        }
        if round == 8_000 {
            let top = pool
                .run(|tx| {
                    let top = PoolOffset(tx.load_u64(tree.root().plus(super::TOP_AT))?);
                    Ok(Node::decode(top, tx.load_u64(top)?).unwrap())
                })
                .unwrap();
            assert!((3..6).contains(&top.height) && model.len() > 3_000, "{top:?}");
            // The key of the top node is nowhere below it.
            let key = pool.run(|tx| tx.load_u64(top.key(0))).unwrap();
            let place = pool.run(|tx| tree.find(tx, key)).unwrap().unwrap();
            assert_eq!(place, tree.value(&top, 0));
        }
    }
    check_against(&pool, &model);
}

#[test]
fn a_tree_that_is_refused_memory_stays_as_it_was() {
    let mut pool = Volatile::checked(1, 0);
    let tree = create(&mut pool, 8);
    let (mut model, mut refused) = (Model::new(), 0);
    for key in 0..600u64 {
        let key = key * 7 % 601;
        pool.set_capacity(pool.len() + if key % 3 == 0 { 64 } else { 4096 });
        match pool.run(|tx| tree.add(tx, key, &[7; 8])) {
            Ok(_) => drop(model.insert(key, vec![7; 8])),
            Err(Abort::OutOfSpace { .. }) => refused += 1,
            Err(abort) => panic!("{abort}"),
        }
    }
    assert!(refused > 10 && model.len() > 100, "{refused} refused");
    check_against(&pool, &model);
}

#[test]
fn damage_is_noticed_and_harms_nothing_else() {
    let mut pool = Volatile::new();
    let tree = create(&mut pool, 8);
    let value = |key: u64| key.to_le_bytes();
    for key in 0..500 {
        pool.run(|tx| tree.add(tx, key, &value(key))).unwrap();
    }
    let blocks: Vec<_> = pool.live_blocks().collect();
    let mut random = Random::new(9);
    let (mut noticed, mut silent) = (0, 0);
    for _ in 0..2_000 {
        let (at, bytes) = blocks[random.below(blocks.len() as u64) as usize];
        let flip = [(at.plus(random.below(bytes)), 1 << random.below(8))];
        pool.flip(&flip);
        let (mut read, mut keys) = (|at: PoolOffset, out: &mut [u8]| pool.read(at, out), 0);
        let found = ClrsTree::walk(
            tree.root(),
            &mut read,
            |_, _| {},
            |read, key, place| {
                let mut bytes = [0; 8];
                assert!(read(place.at, &mut bytes));
                keys += u64::from(bytes == value(key));
                Ok(())
            },
        );
        match found == Ok(true) && keys == 500 {
            true => silent += 1,
            false => noticed += 1,
        }
        // A transaction ends, whatever it finds.
        let key = random.below(500);
        let before = pool.memory().to_vec();
        let _ = pool.run(|tx| {
            tree.remove(tx, key)?;
            tree.add(tx, key + 500, &value(key))?;
            Err::<(), _>(Abort::cancelled("nothing of it is to stay"))
        });
        assert!(pool.memory()[..before.len()] == before, "an abort leaves all as it was");
        pool.flip(&flip);
    }
    // Harmless are bytes of places that no key takes.
    assert!(noticed > 800, "{noticed} noticed, {silent} not");
}

#[test]
fn values_of_another_length_and_other_roots_are_refused() {
    let mut pool = Volatile::new();
    let tree = create(&mut pool, 8);
    assert!(matches!(pool.run(|tx| tree.add(tx, 1, b"short")), Err(Abort::Damaged { .. })));
    pool.run(|tx| tx.store_u64(tree.root(), 1)).unwrap();
    assert!(pool.run(|tx| ClrsTree::open(tx, tree.root())).unwrap().is_none());
}
