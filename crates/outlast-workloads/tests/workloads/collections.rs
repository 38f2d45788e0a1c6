//! Both dictionaries against the standard library's, on a pool that checks every access, runs
//! transactions again and aborts some; and their walks against what the pool holds.

use std::collections::BTreeMap;

use crate::common::{add_in_little_room, cases, walk};
use outlast::collections::{ByteMap, ByteMapOptions, ByteTree, Dictionary, Placement, load_value};
use outlast::{Abort, ByteRange, RootKind, Runner, Transact};
use outlast_workloads::{Random, Volatile};
use proptest::prelude::*;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Either dictionary.
#[derive(Clone, Copy, Debug)]
enum Any {
    Map(ByteMap),
    Tree(ByteTree),
}

#[derive(Clone, Copy, Debug)]
enum Make {
    /// A map, and the most bits that its directory takes.
    Map(Placement, u32),
    Tree(Placement),
}

macro_rules! with {
    ($any:expr, $d:ident => $body:expr) => {
        match $any {
            Any::Map($d) => $body,
            Any::Tree($d) => $body,
        }
    };
}

fn create(pool: &mut Volatile, make: Make) -> Any {
    pool.run(|tx| {
        Ok(match make {
            Make::Map(placement, depth_max) => {
                let options = ByteMapOptions { placement, ..ByteMapOptions::default() };
                let map = ByteMap::create_with_depth(tx, &options, depth_max)?;
                tx.set_root(map.root(), RootKind::HashMap)?;
                Any::Map(map)
            }
            Make::Tree(placement) => {
                let tree = ByteTree::create(tx, placement)?;
                tx.set_root(tree.root(), RootKind::BTree)?;
                Any::Tree(tree)
            }
        })
    })
    .unwrap()
}

/// The walk reaches exactly the live blocks and finds exactly what the model has.
fn check_against(pool: &Volatile, any: Any, model: &Model) {
    let mut walked = walk(pool.memory(), pool.root().unwrap()).unwrap();
    let live: BTreeMap<_, _> = pool.live_blocks().collect();
    assert_eq!(walked.blocks, live);
    if let Any::Map(_) = any {
        walked.entries.sort();
    }
    let expected: Vec<_> = model.clone().into_iter().collect();
    assert!(walked.entries == expected, "the walk found other keys or values");
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(Vec<u8>, Vec<u8>),
    Add(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    Get(Vec<u8>),
    Update(Vec<u8>, u64, Vec<u8>),
    Scan(Vec<u8>, u64),
}

/// The answer of an operation.
#[derive(PartialEq, Debug)]
enum Answer {
    Did(bool),
    Value(Option<Vec<u8>>),
    Range(Vec<(Vec<u8>, Vec<u8>)>),
}

fn perform<T: Transact>(tx: &mut T, any: Any, op: &Operation) -> Result<Answer, Abort> {
    Ok(match op {
        Operation::Insert(key, value) => Answer::Did(with!(any, d => d.insert(tx, key, value)?)),
        Operation::Add(key, value) => Answer::Did(with!(any, d => d.add(tx, key, value)?)),
        Operation::Remove(key) => Answer::Did(with!(any, d => d.remove(tx, key)?)),
        Operation::Get(key) => {
            let mut out = Vec::new();
            let there = with!(any, d => d.get(tx, key, &mut out)?);
            Answer::Value(there.then_some(out))
        }
        Operation::Update(key, offset, bytes) => {
            match with!(any, d => d.update_value(tx, key, *offset, bytes)) {
                Ok(did) => Answer::Did(did),
                Err(Abort::BadAddress(_)) => Answer::Value(None),
                Err(abort) => return Err(abort),
            }
        }
        Operation::Scan(from, limit) => {
            let mut range = Vec::new();
            let mut visit = |tx: &mut T, key: &[u8], value: ByteRange| {
                let mut bytes = Vec::new();
                load_value(tx, value, &mut bytes)?;
                range.push((key.to_vec(), bytes));
                Ok(())
            };
            match any {
                Any::Tree(tree) => tree.scan(tx, from, *limit, &mut visit)?,
                Any::Map(map) => {
                    map.for_each(tx, &mut visit)?;
                    range.sort();
                }
            }
            Answer::Range(range)
        }
    })
}

fn perform_on_model(model: &mut Model, any: Any, op: &Operation) -> Answer {
    match op {
        Operation::Insert(key, value) => {
            Answer::Did(model.insert(key.clone(), value.clone()).is_some())
        }
        Operation::Add(key, value) => {
            let absent = !model.contains_key(key);
            model.entry(key.clone()).or_insert_with(|| value.clone());
            Answer::Did(absent)
        }
        Operation::Remove(key) => Answer::Did(model.remove(key).is_some()),
        Operation::Get(key) => Answer::Value(model.get(key).cloned()),
        Operation::Update(key, offset, bytes) => match model.get_mut(key) {
            None => Answer::Did(false),
            Some(value) => {
                let from = *offset as usize;
                match value.get_mut(from..from + bytes.len()) {
                    None => Answer::Value(None),
                    Some(part) => {
                        part.copy_from_slice(bytes);
                        Answer::Did(true)
                    }
                }
            }
        },
        Operation::Scan(from, limit) => {
            let all = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
            Answer::Range(match any {
                Any::Map(_) => model.iter().map(all).collect(),
                Any::Tree(_) => {
                    model.range(from.clone()..).take(*limit as usize).map(all).collect()
                }
            })
        }
    }
}

/// Keys that meet: short ones over few bytes, long ones with long common starts.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::collection::vec(0u8..3, 0..4),
        3 => (0u64..60).prop_map(|n| n.to_be_bytes().to_vec()),
        2 => (0u32..60).prop_map(|n| format!("user{:019}", n * 0x0101_0101).into_bytes()),
        2 => (prop::sample::select(vec![7usize, 8, 9, 60, 260, 290]), 0u8..6, 0u8..3).prop_map(
            |(len, last, tail)| {
                let mut key = vec![b'k'; len];
                key.push(last);
                key.extend(vec![0; tail as usize]);
                key
            }
        ),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![
        4 => Just(8usize), 2 => 0usize..40, 1 => 200usize..300, 1 => Just(1000), 1 => 0usize..5000
    ];
    (len, any::<u8>())
        .prop_map(|(len, start)| (0..len).map(|i| start.wrapping_add(i as u8)).collect())
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        5 => (key(), value()).prop_map(|(k, v)| Operation::Insert(k, v)),
        2 => (key(), value()).prop_map(|(k, v)| Operation::Add(k, v)),
        5 => key().prop_map(Operation::Remove),
        2 => key().prop_map(Operation::Get),
        3 => (key(), 0u64..60, prop::collection::vec(any::<u8>(), 0..50))
            .prop_map(|(k, o, b)| Operation::Update(k, o, b)),
        1 => (key(), 0u64..30).prop_map(|(k, n)| Operation::Scan(k, n)),
    ]
}

/// Keys and values of a word each, in the nodes.
const WORDS: Placement = Placement::Inline { key_bytes: 8, value_bytes: 8 };

/// The script with the lengths that the placement takes. Keys that are only looked for keep theirs.
fn fitted(make: Make, mut script: Vec<Operation>) -> Vec<Operation> {
    let (Make::Map(placement, _) | Make::Tree(placement)) = make;
    let Placement::Inline { key_bytes, value_bytes } = placement else { return script };
    for op in &mut script {
        match op {
            Operation::Insert(key, value) | Operation::Add(key, value) => {
                key.resize(key_bytes.into(), 0);
                value.resize(value_bytes.into(), 9);
            }
            Operation::Remove(key) | Operation::Get(key) if key.len() % 4 == 0 => {
                key.resize(key_bytes.into(), 0);
            }
            Operation::Update(key, offset, bytes) => {
                key.resize(key_bytes.into(), 0);
                bytes.truncate(usize::from(value_bytes) / 2 + 1);
                *offset %= u64::from(value_bytes);
            }
            Operation::Remove(_) | Operation::Get(_) | Operation::Scan(..) => {}
        }
    }
    script
}

fn make() -> impl Strategy<Value = Make> {
    let placement =
        prop::sample::select(vec![Placement::Together, Placement::Apart, Placement::Scattered]);
    let inline = prop::sample::select(vec![WORDS, Placement::of_lengths(3, 2)]);
    let placement = prop_oneof![placement, inline];
    prop_oneof![
        (placement.clone(), prop::sample::select(vec![0u32, 1, 32]))
            .prop_map(|(p, depth)| Make::Map(p, depth)),
        placement.prop_map(Make::Tree),
    ]
}

/// Where keys and values come to lie under each placement: what the layouts promise.
#[test]
fn placements_put_values_where_they_say() {
    for placement in [Placement::Together, Placement::Apart, Placement::Scattered] {
        for make in [Make::Map(placement, 32), Make::Tree(placement)] {
            for value_bytes in [24u64, 64, 100, 1360] {
                let mut pool = Volatile::checked(0, 0);
                let any = create(&mut pool, make);
                let value = vec![7; value_bytes as usize];
                let mut places = Vec::new();
                for n in 0..400u64 {
                    let placed = pool.run(|tx| {
                        with!(any, d => d.insert(tx, &n.to_be_bytes(), &value))?;
                        with!(any, d => d.find(tx, &n.to_be_bytes()))
                    });
                    places.push(placed.unwrap().unwrap().at);
                }
                let begins = |offset| places.iter().filter(|at| at.in_line() == offset).count();
                match placement {
                    Placement::Together if value_bytes >= 64 => assert_eq!(begins(16), 400),
                    Placement::Apart if value_bytes >= 64 => assert_eq!(begins(0), 400),
                    Placement::Scattered if value_bytes >= 64 => {
                        for offset in [0, 16, 32, 48] {
                            let share = begins(offset);
                            assert!((80..=120).contains(&share), "{share} begin at {offset}");
                        }
                    }
                    _ => assert!(places.iter().all(|at| at.is_aligned(8))),
                }
                // Replaced by longer ones and removed, nothing is left or freed twice.
                let longer = vec![8; value_bytes as usize + 300];
                for n in 0..400u64 {
                    pool.run(|tx| with!(any, d => d.insert(tx, &n.to_be_bytes(), &longer)))
                        .unwrap();
                }
                let model = (0..400u64).map(|n| (n.to_be_bytes().to_vec(), longer.clone()));
                check_against(&pool, any, &model.collect());
                for n in 0..400u64 {
                    assert!(
                        pool.run(|tx| with!(any, d => d.remove(tx, &n.to_be_bytes()))).unwrap()
                    );
                }
                check_against(&pool, any, &Model::new());
            }
        }
    }
}

/// Runs operations in transactions of `size`, every fifth of which gives up at its end.
fn run_script(pool: &mut Volatile, any: Any, script: &[Operation], size: usize) -> Model {
    let mut model = Model::new();
    for (i, batch) in script.chunks(size).enumerate() {
        let before = pool.memory().to_vec();
        let give_up = i % 5 == 4;
        let mut answers = Vec::new();
        let outcome = pool.run(|tx| {
            answers.clear();
            for op in batch {
                answers.push(perform(tx, any, op)?);
            }
            if give_up { Err(Abort::cancelled("given up")) } else { Ok(()) }
        });
        let mut after = model.clone();
        let expected: Vec<_> =
            batch.iter().map(|op| perform_on_model(&mut after, any, op)).collect();
        assert_eq!(answers, expected);
        match outcome {
            Ok(()) => model = after,
            Err(Abort::Cancelled(_)) if give_up => {
                let root = pool.root().unwrap();
                assert_eq!(walk(&before, root), walk(pool.memory(), root));
            }
            Err(abort) => panic!("{abort}"),
        }
        check_against(pool, any, &model);
    }
    model
}

proptest! {
    #![proptest_config(cases(160))]

    #[test]
    fn dictionaries_do_what_the_model_does(
        make in make(),
        script in prop::collection::vec(operation(), 0..220),
        size in 1usize..5,
        seed in any::<u64>(),
    ) {
        let mut pool = Volatile::checked(seed, 5);
        let script = fitted(make, script);
        let any = create(&mut pool, make);
        pool.take_footprint();
        run_script(&mut pool, any, &script, size);
        prop_assert_eq!(pool.take_footprint().unannounced_stores, 0);
    }

    #[test]
    fn an_operation_announces_once(
        make in make(),
        script in prop::collection::vec(operation(), 0..200),
    ) {
        let mut pool = Volatile::checked(0, 0);
        let script = fitted(make, script);
        let any = create(&mut pool, make);
        for op in &script {
            pool.take_footprint();
            pool.run(|tx| perform(tx, any, op)).unwrap();
            prop_assert!(pool.take_footprint().announcements <= 1, "{:?}", op);
        }
    }
}

fn number(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Grows to many keys, checks, removes all in another order, checks that nothing is left.
fn grow_and_shrink(make: Make, keys: u64, key: impl Fn(u64) -> Vec<u8>) {
    let mut pool = Volatile::checked(7, 0);
    let any = create(&mut pool, make);
    let mut model = Model::new();
    for n in 0..keys {
        let scattered = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % keys;
        let key = key(scattered);
        let value = n.to_le_bytes().to_vec();
        let replaced = pool.run(|tx| with!(any, d => d.insert(tx, &key, &value))).unwrap();
        assert_eq!(replaced, model.insert(key, value).is_some());
    }
    check_against(&pool, any, &model);
    let len = pool.run(|tx| with!(any, d => d.len(tx))).unwrap();
    assert_eq!(len, model.len() as u64);
    let mut random = Random::new(3);
    let mut left: Vec<_> = model.keys().cloned().collect();
    while !left.is_empty() {
        let key = left.swap_remove(random.below(left.len() as u64) as usize);
        assert!(pool.run(|tx| with!(any, d => d.remove(tx, &key))).unwrap());
        model.remove(&key);
        if left.len().is_multiple_of(keys as usize / 4) {
            check_against(&pool, any, &model);
        }
    }
    assert_eq!(pool.run(|tx| with!(any, d => d.len(tx))).unwrap(), 0);
    if let Any::Tree(_) = any {
        assert_eq!(pool.live_blocks().count(), 2, "a header and an empty leaf");
    }
    assert_eq!(pool.take_footprint().unannounced_stores, 0);
}

#[test]
fn a_map_grows_to_many_keys_and_empties() {
    grow_and_shrink(Make::Map(Placement::Together, 32), 200_000, |n| number(n).to_vec());
}

#[test]
fn a_map_whose_directory_cannot_grow_takes_lines_from_outside() {
    grow_and_shrink(Make::Map(Placement::Apart, 2), 4_000, |n| format!("key{n}").into_bytes());
}

#[test]
fn a_tree_grows_to_many_keys_and_empties() {
    grow_and_shrink(Make::Tree(Placement::Together), 60_000, |n| number(n).to_vec());
}

#[test]
fn a_tree_of_long_keys_grows_and_empties() {
    let key = |n: u64| format!("{:0>40}{n:06}", "").into_bytes();
    grow_and_shrink(Make::Tree(Placement::Apart), 12_000, key);
}

#[test]
fn a_map_of_pairs_grows_to_many_keys_and_empties() {
    grow_and_shrink(Make::Map(WORDS, 32), 100_000, |n| number(n).to_vec());
}

#[test]
fn a_map_of_pairs_whose_directory_cannot_grow_takes_lines_from_outside() {
    grow_and_shrink(Make::Map(WORDS, 2), 4_000, |n| number(n << 40).to_vec());
}

#[test]
fn a_tree_of_pairs_grows_to_many_keys_and_empties() {
    grow_and_shrink(Make::Tree(WORDS), 60_000, |n| number(n).to_vec());
}

#[test]
fn pairs_of_other_lengths_are_refused_and_never_found() {
    let short = Placement::of_lengths(3, 2);
    for make in [Make::Map(short, 32), Make::Tree(short)] {
        let mut pool = Volatile::new();
        let any = create(&mut pool, make);
        assert!(!pool.run(|tx| with!(any, d => d.insert(tx, b"abc", b"12"))).unwrap());
        for (key, value) in [(&b"ab"[..], &b"12"[..]), (b"abcd", b"12"), (b"abd", b"1"), (b"", b"")]
        {
            let refused = pool.run(|tx| with!(any, d => d.insert(tx, key, value)));
            assert!(matches!(refused, Err(Abort::BadAddress(_))), "{key:?}: {refused:?}");
        }
        for key in [&b"ab"[..], b"abc\0", b"", b"abcdefgh\0"] {
            assert!(pool.run(|tx| with!(any, d => d.find(tx, key))).unwrap().is_none());
            assert!(!pool.run(|tx| with!(any, d => d.remove(tx, key))).unwrap());
        }
        check_against(&pool, any, &Model::from([(b"abc".to_vec(), b"12".to_vec())]));
    }
    let long = Placement::Inline { key_bytes: 9, value_bytes: 8 };
    assert_eq!(Placement::of_lengths(9, 8), Placement::Together);
    let mut pool = Volatile::new();
    let tree = pool.run(|tx| ByteTree::create(tx, long).map(drop));
    assert!(matches!(tree, Err(Abort::Cancelled(_))), "{tree:?}");
}

#[test]
fn ascending_keys_fill_a_trees_leaves() {
    let mut pool = Volatile::new();
    let any = create(&mut pool, Make::Tree(Placement::Together));
    let Any::Tree(tree) = any else { unreachable!() };
    for n in 0..15_000 {
        pool.run(|tx| tree.insert(tx, &number(n), b"v")).unwrap();
    }
    let walked = walk(pool.memory(), pool.root().unwrap()).unwrap();
    let leaves = walked.blocks.values().filter(|&&bytes| bytes == 256).count();
    assert_eq!(leaves, 1000);
}

/// The cost of an operation on a map and on a tree of u64 keys in the steady state, as upper
/// bounds close above the measured cost: a change that makes them dearer should be noticed.
#[test]
fn operations_announce_little_and_dirty_few_lines() {
    let cost = |make, update: bool| {
        let mut pool = Volatile::checked(5, 0);
        let any = create(&mut pool, make);
        let mut random = Random::new(9);
        for n in (0..40_000).step_by(2) {
            pool.run(|tx| with!(any, d => d.insert(tx, &number(n), &number(n)))).unwrap();
        }
        pool.take_footprint();
        let mut effective = 0u64;
        for _ in 0..20_000 {
            let key = number(random.below(40_000));
            let add = random.below(2) == 0;
            let did = pool.run(|tx| {
                with!(any, d => match (update, add) {
                    (true, _) => d.update_value(tx, &key, 0, &[7; 8]),
                    (false, true) => d.add(tx, &key, &key),
                    (false, false) => d.remove(tx, &key),
                })
            });
            effective += u64::from(did.unwrap());
        }
        let footprint = pool.take_footprint();
        let per = |n: u64| n as f64 / effective as f64;
        println!("{make:?} update {update}: {footprint:?} for {effective} effective operations");
        (per(footprint.announced_bytes), per(footprint.dirty_lines))
    };
    let map = Make::Map(Placement::Together, 32);
    let tree = Make::Tree(Placement::Together);
    let (map_of_pairs, tree_of_pairs) = (Make::Map(WORDS, 32), Make::Tree(WORDS));
    let bounds = [
        (map, true, 8.0, 1.0),
        (map, false, 9.0, 2.0),
        (tree, true, 8.0, 1.0),
        (tree, false, 36.0, 3.0),
        (map_of_pairs, true, 8.0, 1.0),
        (map_of_pairs, false, 25.0, 1.3),
        (tree_of_pairs, true, 8.0, 1.0),
        (tree_of_pairs, false, 36.0, 2.9),
    ];
    for (make, update, bytes_max, lines_max) in bounds {
        let (bytes, lines) = cost(make, update);
        assert!(bytes <= bytes_max, "{make:?}: {bytes} announced bytes per operation");
        assert!(lines <= lines_max, "{make:?}: {lines} dirty lines per operation");
    }
}

#[test]
fn a_failed_allocation_leaves_everything_as_it_was() {
    for make in [Make::Map(Placement::Apart, 32), Make::Tree(Placement::Together)] {
        let mut pool = Volatile::checked(1, 0);
        let any = create(&mut pool, make);
        let model = add_in_little_room(&mut pool, 3_000, 400, 100, |pool, n| {
            let key = number(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_vec();
            pool.run(|tx| with!(any, d => d.insert(tx, &key, &[1; 24])))
                .map(|_| (key.clone(), vec![1; 24]))
        });
        check_against(&pool, any, &model);
    }
}

#[test]
fn keys_and_values_that_are_too_long_are_refused() {
    for make in [Make::Map(Placement::Together, 32), Make::Tree(Placement::Apart)] {
        let mut pool = Volatile::new();
        let any = create(&mut pool, make);
        let longest = vec![7; outlast::collections::KEY_BYTES_MAX];
        let longer = vec![7; outlast::collections::KEY_BYTES_MAX + 1];
        assert!(!pool.run(|tx| with!(any, d => d.insert(tx, &longest, b"v"))).unwrap());
        let refused = pool.run(|tx| with!(any, d => d.insert(tx, &longer, b"v")));
        assert!(matches!(refused, Err(Abort::TooLarge(_))));
        let model = Model::from([(longest, b"v".to_vec())]);
        check_against(&pool, any, &model);
    }
}

/// Bytes flipped anywhere in the live blocks are found, or harmless; neither a walk nor any
/// operation panics, hangs or reads outside the pool.
#[test]
fn damaged_images_never_panic_or_hang() {
    let makes = [
        Make::Map(Placement::Together, 32),
        Make::Map(Placement::Apart, 1),
        Make::Map(Placement::Scattered, 1),
        Make::Tree(Placement::Together),
        Make::Tree(Placement::Apart),
        Make::Tree(Placement::Scattered),
        Make::Map(WORDS, 1),
        Make::Tree(WORDS),
    ];
    let mut found = 0;
    for (i, make) in makes.into_iter().enumerate() {
        let mut pool = Volatile::new();
        let any = create(&mut pool, make);
        for n in 0..300u64 {
            let is_short = n % 2 == 0 || matches!(make, Make::Map(WORDS, _) | Make::Tree(WORDS));
            let key = if is_short { number(n).to_vec() } else { format!("a long key, {n}").into() };
            pool.run(|tx| with!(any, d => d.insert(tx, &key, &number(n)))).unwrap();
        }
        let root = pool.root().unwrap();
        let blocks: Vec<_> = pool.live_blocks().collect();
        for seed in 0..400 {
            let mut random = Random::stream(seed, i as u64);
            let flips: Vec<_> = (0..=random.below(3))
                .map(|_| {
                    // Nodes and headers are a few of many blocks; they get half of the flips.
                    let (at, bytes) = loop {
                        let block = blocks[random.below(blocks.len() as u64) as usize];
                        if block.1 >= 64 || random.below(16) == 0 {
                            break block;
                        }
                    };
                    (at.plus(random.below(bytes)), 1 << random.below(8))
                })
                .collect();
            pool.flip(&flips);
            found += u64::from(walk(pool.memory(), root).is_err());
            for n in 0..12 {
                let key = number(2 * random.below(150)).to_vec();
                let op = match n % 4 {
                    0 => Operation::Insert(key, vec![1; 16]),
                    1 => Operation::Remove(key),
                    2 => Operation::Get(format!("a long key, {}", random.below(300)).into()),
                    _ => Operation::Scan(key, 40),
                };
                // Whatever it answers, it answers; and the next flips meet the first image.
                let _ = pool.run(|tx| {
                    perform(tx, any, &op).and(Err::<(), _>(Abort::cancelled("given up")))
                });
            }
            pool.flip(&flips);
        }
    }
    assert!(found > 700, "only {found} of 1,600 damaged images were noticed");
}
