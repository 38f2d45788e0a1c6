//! The red-black tree and the queue against the standard library's, on a pool that checks every
//! access, runs transactions again and aborts some, and on pools that die and are opened again;
//! and their walks against what the pool holds.

use std::collections::{BTreeMap, VecDeque};

use crate::common::{Walked, add_in_little_room, cases, walk};
use outlast::collections::{Queue, RbTree, load_value};
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Abort, Pool, PoolOffset, RootKind, Runner, Scheme, Transact};
use outlast_pmem::Heap;
use outlast_workloads::{Random, Volatile};
use proptest::prelude::*;

/// The contents of a structure: a tree by its keys, a queue by the numbers of its items.
type Model = BTreeMap<u64, Vec<u8>>;

/// The entries of a walk, with keys as numbers.
fn entries(walked: Walked) -> Model {
    let number = |key: Vec<u8>| u64::from_be_bytes(key.try_into().unwrap());
    let keys: Vec<_> =
        walked.entries.into_iter().map(|(key, value)| (number(key), value)).collect();
    assert!(keys.is_sorted_by_key(|(key, _)| *key), "the walk is in order");
    keys.into_iter().collect()
}

/// The walk reaches exactly the live blocks and finds exactly what the model has.
fn check_against(pool: &Volatile, model: &Model) {
    let walked = walk(pool.memory(), pool.root().unwrap()).unwrap();
    assert!(walked.blocks.clone().into_iter().eq(pool.live_blocks()));
    assert!(entries(walked) == *model, "the walk found other keys or values");
}

fn create_tree<R: Runner>(pool: &mut R, value_bytes: u64) -> RbTree {
    pool.run(|tx| {
        let tree = RbTree::create(tx, value_bytes)?;
        tx.set_root(tree.root(), RootKind::RbTree)?;
        Ok(tree)
    })
    .unwrap()
}

fn create_queue<R: Runner>(pool: &mut R, item_bytes: u64) -> Queue {
    pool.run(|tx| {
        let queue = Queue::create(tx, item_bytes)?;
        tx.set_root(queue.root(), RootKind::Queue)?;
        Ok(queue)
    })
    .unwrap()
}

fn bytes(start: u8, len: u64) -> Vec<u8> {
    (0..len).map(|i| start.wrapping_add(i as u8)).collect()
}

#[derive(Clone, Debug)]
enum TreeOp {
    Insert(u64, u8),
    Add(u64, u8),
    Remove(u64),
    Get(u64),
    Scan(u64, u64),
}

#[derive(Clone, Debug)]
enum QueueOp {
    Enqueue(u8),
    Dequeue,
    Peek,
    All,
}

/// The answer of an operation.
#[derive(PartialEq, Debug)]
enum Answer {
    Did(bool),
    Value(Option<Vec<u8>>),
    Number(u64),
    Range(Vec<(u64, Vec<u8>)>),
}

/// A structure that is compared with a model of it.
trait Subject: Copy {
    type Op: Clone + std::fmt::Debug;

    fn perform<T: Transact>(self, tx: &mut T, op: &Self::Op) -> Result<Answer, Abort>;
    fn perform_on(self, model: &mut Model, next: &mut u64, op: &Self::Op) -> Answer;
    fn open<T: Transact>(tx: &mut T) -> Result<Self, Abort>;
}

impl Subject for RbTree {
    type Op = TreeOp;

    fn perform<T: Transact>(self, tx: &mut T, op: &TreeOp) -> Result<Answer, Abort> {
        let value = |start| bytes(start, self.value_bytes());
        Ok(match *op {
            TreeOp::Insert(key, start) => Answer::Did(self.insert(tx, key, &value(start))?),
            TreeOp::Add(key, start) => Answer::Did(self.add(tx, key, &value(start))?),
            TreeOp::Remove(key) => Answer::Did(self.remove(tx, key)?),
            TreeOp::Get(key) => {
                let mut out = Vec::new();
                Answer::Value(self.get(tx, key, &mut out)?.then_some(out))
            }
            TreeOp::Scan(from, limit) => {
                let mut range = Vec::new();
                self.scan(tx, from, limit, |tx, key, place| {
                    let mut value = Vec::new();
                    load_value(tx, place, &mut value)?;
                    range.push((key, value));
                    Ok(())
                })?;
                Answer::Range(range)
            }
        })
    }

    fn perform_on(self, model: &mut Model, _: &mut u64, op: &TreeOp) -> Answer {
        let value = |start| bytes(start, self.value_bytes());
        match *op {
            TreeOp::Insert(key, start) => Answer::Did(model.insert(key, value(start)).is_some()),
            TreeOp::Add(key, start) => {
                let absent = !model.contains_key(&key);
                model.entry(key).or_insert_with(|| value(start));
                Answer::Did(absent)
            }
            TreeOp::Remove(key) => Answer::Did(model.remove(&key).is_some()),
            TreeOp::Get(key) => Answer::Value(model.get(&key).cloned()),
            TreeOp::Scan(from, limit) => {
                let range = model.range(from..).take(limit as usize);
                Answer::Range(range.map(|(key, value)| (*key, value.clone())).collect())
            }
        }
    }

    fn open<T: Transact>(tx: &mut T) -> Result<Self, Abort> {
        let (root, kind) = tx.root()?.expect("a root was set");
        assert_eq!(kind, RootKind::RbTree);
        RbTree::open(tx, root)
    }
}

impl Subject for Queue {
    type Op = QueueOp;

    fn perform<T: Transact>(self, tx: &mut T, op: &QueueOp) -> Result<Answer, Abort> {
        let mut out = vec![0; self.item_bytes() as usize];
        Ok(match *op {
            QueueOp::Enqueue(start) => {
                Answer::Number(self.enqueue(tx, &bytes(start, self.item_bytes()))?)
            }
            QueueOp::Dequeue => Answer::Value(self.dequeue(tx, &mut out)?.then_some(out)),
            QueueOp::Peek => Answer::Value(self.peek(tx, &mut out)?.then_some(out)),
            QueueOp::All => {
                let mut all = Vec::new();
                self.for_each(tx, |tx, number, place| {
                    let mut item = Vec::new();
                    load_value(tx, place, &mut item)?;
                    all.push((number, item));
                    Ok(())
                })?;
                assert_eq!(self.len(tx)?, all.len() as u64);
                assert_eq!(self.is_empty(tx)?, all.is_empty());
                Answer::Range(all)
            }
        })
    }

    fn perform_on(self, model: &mut Model, next: &mut u64, op: &QueueOp) -> Answer {
        match *op {
            QueueOp::Enqueue(start) => {
                model.insert(*next, bytes(start, self.item_bytes()));
                *next += 1;
                Answer::Number(*next - 1)
            }
            QueueOp::Dequeue => Answer::Value(model.pop_first().map(|(_, item)| item)),
            QueueOp::Peek => Answer::Value(model.values().next().cloned()),
            QueueOp::All => Answer::Range(model.clone().into_iter().collect()),
        }
    }

    fn open<T: Transact>(tx: &mut T) -> Result<Self, Abort> {
        let (root, kind) = tx.root()?.expect("a root was set");
        assert_eq!(kind, RootKind::Queue);
        Queue::open(tx, root)
    }
}

/// Runs operations in transactions of `size`, every fifth of which gives up at its end; `after`
/// each it is looked whether the pool holds what the model does.
fn run_script<R: Runner, S: Subject>(
    runner: &mut R,
    subject: S,
    (model, next): (&mut Model, &mut u64),
    (script, size): (&[S::Op], usize),
    mut after: impl FnMut(&R, &Model),
) {
    for (i, batch) in script.chunks(size).enumerate() {
        let give_up = i % 5 == 4;
        let mut answers = Vec::new();
        let outcome = runner.run(|tx| {
            answers.clear();
            for op in batch {
                answers.push(subject.perform(tx, op)?);
            }
            if give_up { Err(Abort::cancelled("given up")) } else { Ok(()) }
        });
        let (mut changed, mut number) = (model.clone(), *next);
        let expected: Vec<_> =
            batch.iter().map(|op| subject.perform_on(&mut changed, &mut number, op)).collect();
        assert_eq!(answers, expected);
        match outcome {
            Ok(()) => (*model, *next) = (changed, number),
            Err(Abort::Cancelled(_)) if give_up => {}
            Err(abort) => panic!("{abort}"),
        }
        after(runner, model);
    }
}

/// The same on a real pool, which dies without being closed after each of the scripts.
fn run_on_pools<S: Subject>(
    scheme: Scheme,
    create: impl Fn(&mut outlast::Lane<'_, Heap>) -> S,
    scripts: &[Vec<S::Op>],
) {
    let options = OpenOptions { lock_stripes: 1 << 12, ..OpenOptions::with_scheme(scheme) };
    let sizes = CreateOptions { lanes: 1, lane_bytes: 16 << 10, ..CreateOptions::default() };
    let mut pool = Pool::create_on(Heap::new(8 << 20), &sizes, &options).unwrap();
    create(&mut pool.lane().unwrap());
    let (mut model, mut next) = (Model::new(), 0);
    for script in scripts {
        let mut lane = pool.lane().unwrap();
        let subject = lane.run(S::open).unwrap();
        run_script(&mut lane, subject, (&mut model, &mut next), (script, 3), |_, _| {});
        drop(lane);
        let recovered = UnrecoveredPool::open(pool.into_medium()).unwrap().recover().unwrap();
        let root = recovered.root().unwrap().unwrap();
        let walked = walk(&recovered.medium().to_bytes(), root).unwrap();
        assert!(entries(walked) == model, "{scheme}");
        assert_eq!(recovered.check().findings, [], "{scheme}");
        pool = recovered.start(&options).unwrap();
    }
}

fn tree_op() -> impl Strategy<Value = TreeOp> {
    let key = || prop_oneof![6 => 0u64..80, 1 => any::<u64>(), 1 => u64::MAX - 3..=u64::MAX];
    prop_oneof![
        4 => (key(), any::<u8>()).prop_map(|(key, start)| TreeOp::Insert(key, start)),
        3 => (key(), any::<u8>()).prop_map(|(key, start)| TreeOp::Add(key, start)),
        6 => key().prop_map(TreeOp::Remove),
        1 => key().prop_map(TreeOp::Get),
        1 => (key(), 0u64..30).prop_map(|(key, limit)| TreeOp::Scan(key, limit)),
    ]
}

/// Stretches of more enqueues than dequeues and the other way round, so that blocks fill, wait
/// and are given back.
fn queue_script() -> impl Strategy<Value = Vec<QueueOp>> {
    let op = |enqueues: u32| {
        prop_oneof![
            enqueues => any::<u8>().prop_map(QueueOp::Enqueue),
            10 - enqueues => Just(QueueOp::Dequeue),
            1 => Just(QueueOp::Peek),
            1 => Just(QueueOp::All),
        ]
    };
    let stretch = prop_oneof![
        prop::collection::vec(op(8), 0..60),
        prop::collection::vec(op(5), 0..60),
        prop::collection::vec(op(2), 0..60),
    ];
    prop::collection::vec(stretch, 0..6).prop_map(|stretches| stretches.concat())
}

fn scheme() -> impl Strategy<Value = Scheme> {
    prop::sample::select(vec![Scheme::Undo, Scheme::Redo, Scheme::Swift])
}

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn a_red_black_tree_does_what_the_model_does(
        value_bytes in prop::sample::select(vec![0u64, 1, 8, 32, 33, 300]),
        script in prop::collection::vec(tree_op(), 0..250),
        size in 1usize..6,
        seed in any::<u64>(),
    ) {
        let mut pool = Volatile::checked(seed, 5);
        let tree = create_tree(&mut pool, value_bytes);
        pool.take_footprint();
        let (mut model, mut next) = (Model::new(), 0);
        run_script(&mut pool, tree, (&mut model, &mut next), (&script, size), check_against);
        prop_assert_eq!(pool.take_footprint().unannounced_stores, 0);
        for op in &script {
            pool.take_footprint();
            pool.run(|tx| tree.perform(tx, op)).unwrap();
            let footprint = pool.take_footprint();
            prop_assert!(footprint.announcements <= footprint.runs, "{:?}", op);
        }
    }

    #[test]
    fn a_queue_does_what_the_model_does(
        item_bytes in prop::sample::select(vec![0u64, 1, 8, 700, 1500]),
        script in queue_script(),
        size in 1usize..6,
        seed in any::<u64>(),
    ) {
        let mut pool = Volatile::checked(seed, 5);
        let queue = create_queue(&mut pool, item_bytes);
        pool.take_footprint();
        let (mut model, mut next) = (Model::new(), 0);
        run_script(&mut pool, queue, (&mut model, &mut next), (&script, size), check_against);
        prop_assert_eq!(pool.take_footprint().unannounced_stores, 0);
        for op in &script {
            pool.take_footprint();
            pool.run(|tx| queue.perform(tx, op)).unwrap();
            let footprint = pool.take_footprint();
            prop_assert!(footprint.announcements <= footprint.runs, "{:?}", op);
        }
    }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn a_red_black_tree_is_found_again(
        scheme in scheme(),
        scripts in prop::collection::vec(prop::collection::vec(tree_op(), 0..150), 1..4),
    ) {
        run_on_pools(scheme, |lane| create_tree(lane, 8), &scripts);
    }

    #[test]
    fn a_queue_is_found_again(
        scheme in scheme(),
        scripts in prop::collection::vec(queue_script(), 1..4),
    ) {
        run_on_pools(scheme, |lane| create_queue(lane, 700), &scripts);
    }
}

#[test]
fn a_red_black_tree_grows_to_many_keys_and_empties() {
    const KEYS: u64 = 50_000;
    let mut pool = Volatile::checked(7, 0);
    let tree = create_tree(&mut pool, 8);
    let mut model = Model::new();
    for n in 0..KEYS {
        // Ascending keys first, the dearest for a tree without balance.
        let key = if n < KEYS / 2 { n } else { n.wrapping_mul(0x9E37_79B9_7F4A_7C15) };
        let value = n.to_le_bytes();
        let replaced = pool.run(|tx| tree.insert(tx, key, &value)).unwrap();
        assert_eq!(replaced, model.insert(key, value.to_vec()).is_some());
    }
    check_against(&pool, &model);
    assert_eq!(pool.run(|tx| tree.len(tx)).unwrap(), model.len() as u64);
    let mut random = Random::new(3);
    let mut left: Vec<_> = model.keys().copied().collect();
    while !left.is_empty() {
        let key = left.swap_remove(random.below(left.len() as u64) as usize);
        assert!(pool.run(|tx| tree.remove(tx, key)).unwrap());
        model.remove(&key);
        if left.len().is_multiple_of(KEYS as usize / 8) {
            check_against(&pool, &model);
        }
    }
    assert_eq!(pool.live_blocks().count(), 1, "a header");
    assert_eq!(pool.take_footprint().unannounced_stores, 0);
}

/// A queue of a length that hardly changes takes no blocks and gives none back, and one that
/// shrinks keeps no more than one that waits.
#[test]
fn a_queue_uses_its_blocks_again() {
    let mut pool = Volatile::checked(7, 0);
    let queue = create_queue(&mut pool, 8);
    let mut model = VecDeque::new();
    let mut item = [0; 8];
    let mut next = 0u64;
    let mut put = |pool: &mut Volatile, model: &mut VecDeque<u64>| {
        pool.run(|tx| queue.enqueue(tx, &next.to_le_bytes())).unwrap();
        model.push_back(next);
        next += 1;
    };
    let mut take = |pool: &mut Volatile, model: &mut VecDeque<u64>| {
        assert!(pool.run(|tx| queue.dequeue(tx, &mut item)).unwrap());
        assert_eq!(Some(u64::from_le_bytes(item)), model.pop_front());
    };
    (0..5_000).for_each(|_| put(&mut pool, &mut model));
    for _ in 0..2_000 {
        put(&mut pool, &mut model);
        take(&mut pool, &mut model);
    }
    pool.take_footprint();
    let blocks: Vec<_> = pool.live_blocks().collect();
    for _ in 0..20_000 {
        put(&mut pool, &mut model);
        take(&mut pool, &mut model);
    }
    let footprint = pool.take_footprint();
    assert_eq!(footprint.allocations, 0);
    assert!(pool.live_blocks().eq(blocks));
    let per = |n: u64| n as f64 / 40_000.0;
    assert!(per(footprint.announced_bytes) <= 12.1, "{}", per(footprint.announced_bytes));
    assert!(per(footprint.dirty_lines) <= 1.51, "{}", per(footprint.dirty_lines));
    while !model.is_empty() {
        take(&mut pool, &mut model);
    }
    assert!(!pool.run(|tx| queue.dequeue(tx, &mut item)).unwrap());
    assert_eq!(pool.live_blocks().count(), 3, "a header, a block, one that waits");
}

/// The cost of an operation on a tree in the steady state, as upper bounds close above the
/// measured cost: a change that makes it dearer should be noticed.
#[test]
fn tree_operations_announce_little_and_dirty_few_lines() {
    let mut pool = Volatile::checked(5, 0);
    let tree = create_tree(&mut pool, 8);
    let mut random = Random::new(9);
    for n in 0..20_000u64 {
        pool.run(|tx| tree.insert(tx, 2 * n, &n.to_be_bytes())).unwrap();
    }
    pool.take_footprint();
    let mut effective = 0u64;
    for _ in 0..20_000 {
        let (key, add) = (random.below(40_000), random.below(2) == 0);
        let did = pool.run(|tx| match add {
            true => tree.add(tx, key, &key.to_be_bytes()),
            false => tree.remove(tx, key),
        });
        effective += u64::from(did.unwrap());
    }
    let footprint = pool.take_footprint();
    let per = |n: u64| n as f64 / effective as f64;
    println!("{footprint:?} for {effective} effective operations");
    assert!(per(footprint.announced_bytes) <= 45.0, "{}", per(footprint.announced_bytes));
    assert!(per(footprint.dirty_lines) <= 5.0, "{}", per(footprint.dirty_lines));
}

#[test]
fn a_failed_allocation_leaves_everything_as_it_was() {
    let mut pool = Volatile::checked(1, 0);
    let tree = create_tree(&mut pool, 24);
    let model = add_in_little_room(&mut pool, 3_000, 20, 100, |pool, n| {
        let key = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        pool.run(|tx| tree.insert(tx, key, &[1; 24])).map(|_| (key, vec![1; 24]))
    });
    check_against(&pool, &model);

    let mut pool = Volatile::checked(1, 0);
    let queue = create_queue(&mut pool, 900);
    let model = add_in_little_room(&mut pool, 300, 1000, 20, |pool, n| {
        let item = vec![n as u8; 900];
        pool.run(|tx| queue.enqueue(tx, &item)).map(|number| (number, item.clone()))
    });
    check_against(&pool, &model);
}

#[test]
fn values_and_items_that_are_too_long_are_refused() {
    use outlast::collections::{QUEUE_ITEM_BYTES_MAX, RB_VALUE_BYTES_MAX, Words};
    let mut pool = Volatile::new();
    let refused = pool.run(|tx| RbTree::create(tx, RB_VALUE_BYTES_MAX + 1));
    assert!(matches!(refused, Err(Abort::TooLarge(_))));
    let refused = pool.run(|tx| Queue::create(tx, QUEUE_ITEM_BYTES_MAX + 1));
    assert!(matches!(refused, Err(Abort::TooLarge(_))));
    let refused = pool.run(|tx| Words::create(tx, u64::MAX, |_| 0));
    assert!(matches!(refused, Err(Abort::TooLarge(_))));
    let tree = create_tree(&mut pool, RB_VALUE_BYTES_MAX);
    let value = |n: u8| bytes(n, RB_VALUE_BYTES_MAX);
    for n in 0..3 {
        pool.run(|tx| tree.insert(tx, n, &value(n as u8))).unwrap();
    }
    // The value of the middle node's successor moves.
    assert!(pool.run(|tx| tree.remove(tx, 1)).unwrap());
    let mut found = Vec::new();
    assert!(pool.run(|tx| tree.get(tx, 2, &mut found)).unwrap());
    assert_eq!(found, value(2));
}

/// One wrong word for each invariant, and where the walk says so.
#[test]
fn walks_name_the_invariant_that_is_broken() {
    let broken = |make: fn(&mut Volatile),
                  at: fn(&mut outlast_workloads::VolatileTx) -> PoolOffset,
                  word: u64| {
        let mut pool = Volatile::new();
        make(&mut pool);
        pool.run(|tx| {
            let at = at(tx);
            tx.store_u64(at, word)
        })
        .unwrap();
        walk(pool.memory(), pool.root().unwrap()).unwrap_err().what
    };
    let tree: fn(&mut Volatile) = |pool| {
        let tree = create_tree(pool, 8);
        for key in [20, 10, 30, 40] {
            pool.run(|tx| tree.insert(tx, key, &[0; 8])).unwrap();
        }
    };
    // The root is 20 with the black children 10 and 30; 40 is red.
    fn node(tx: &mut outlast_workloads::VolatileTx, key: u64) -> PoolOffset {
        let (root, _) = tx.root().unwrap().unwrap();
        let tree = RbTree::open(tx, root).unwrap();
        PoolOffset(tree.find(tx, key).unwrap().unwrap().at.0 - 32)
    }
    assert!(broken(tree, |tx| node(tx, 10).plus(24), 25).ends_with("(invariant 1)"));
    assert!(broken(tree, |tx| node(tx, 30).plus(16), 64).ends_with("(invariant 2)"));
    assert!(broken(tree, |tx| node(tx, 20).plus(8), 0).ends_with("(invariant 4)"));
    let red_root = |tx: &mut outlast_workloads::VolatileTx| node(tx, 20).plus(16);
    assert!(broken(tree, red_root, 1).ends_with("(invariant 3)"));

    let queue: fn(&mut Volatile) = |pool| {
        let queue = create_queue(pool, 700);
        for n in 0..10 {
            pool.run(|tx| queue.enqueue(tx, &[n; 700])).unwrap();
        }
    };
    fn header(tx: &mut outlast_workloads::VolatileTx) -> PoolOffset {
        tx.root().unwrap().unwrap().0
    }
    assert!(broken(queue, |tx| header(tx).plus(64), 11).ends_with("(invariant 1)"));
    assert!(broken(queue, |tx| header(tx).plus(128), 3).ends_with("(invariant 2)"));
    let first_block = |tx: &mut outlast_workloads::VolatileTx| {
        let at = header(tx).plus(72);
        PoolOffset(tx.load_u64(at).unwrap())
    };
    assert_eq!(broken(queue, first_block, 0), "a pointer to no block");
    let last_block = |tx: &mut outlast_workloads::VolatileTx| {
        let at = header(tx).plus(136);
        PoolOffset(tx.load_u64(at).unwrap())
    };
    assert!(broken(queue, last_block, 64).ends_with("(invariant 3)"));
    assert_eq!(broken(queue, last_block, 1 << 40), "a pointer out of the pool");
}

/// Bytes flipped anywhere in the live blocks are found, or harmless; neither a walk nor any
/// operation panics, hangs or reads outside the pool.
#[test]
fn damaged_images_never_panic_or_hang() {
    let mut found = [0; 2];
    let mut torment =
        |subject: usize, pool: &mut Volatile, perform: &mut dyn FnMut(&mut Volatile, u64)| {
            let root = pool.root().unwrap();
            let blocks: Vec<_> = pool.live_blocks().collect();
            for seed in 0..400 {
                let mut random = Random::stream(seed, subject as u64);
                let flips: Vec<_> = (0..=random.below(3))
                    .map(|_| {
                        let (at, bytes) = blocks[random.below(blocks.len() as u64) as usize];
                        (at.plus(random.below(bytes.min(64))), 1 << random.below(8))
                    })
                    .collect();
                pool.flip(&flips);
                found[subject] += u64::from(walk(pool.memory(), root).is_err());
                (0..12).for_each(|_| perform(pool, random.next_u64()));
                pool.flip(&flips);
            }
        };
    let mut pool = Volatile::new();
    let tree = create_tree(&mut pool, 8);
    for n in 0..300 {
        pool.run(|tx| tree.insert(tx, n, &[0; 8])).unwrap();
    }
    torment(0, &mut pool, &mut |pool, random| {
        let key = random % 300;
        let op = match random >> 62 {
            0 => TreeOp::Insert(key + 300, 1),
            1 => TreeOp::Remove(key),
            2 => TreeOp::Get(key),
            _ => TreeOp::Scan(key, 40),
        };
        let _ =
            pool.run(|tx| tree.perform(tx, &op).and(Err::<(), _>(Abort::cancelled("given up"))));
    });
    let mut pool = Volatile::new();
    let queue = create_queue(&mut pool, 700);
    for n in 0..50 {
        pool.run(|tx| queue.enqueue(tx, &[n; 700])).unwrap();
    }
    torment(1, &mut pool, &mut |pool, random| {
        let op = match random >> 62 {
            0 => QueueOp::Enqueue(1),
            1 | 2 => QueueOp::Dequeue,
            _ => QueueOp::Peek,
        };
        let _ =
            pool.run(|tx| queue.perform(tx, &op).and(Err::<(), _>(Abort::cancelled("given up"))));
    });
    assert!(found[0] > 200 && found[1] > 70, "{found:?} of 400 damaged images were noticed");
}
