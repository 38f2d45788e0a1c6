//! Typed collections against those of the standard library: the same operations on both, in
//! transactions that commit, give up, or are crashed in the middle, between openings of the pool.
//!
//! A crash here leaves every store made so far, as if each line had left the cache at once;
//! `outlast-crash` goes through all other images.

#![cfg(not(miri))]

mod maps;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Debug;

use outlast::collections::ByteTree;
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::typed::{
    Ordered, PBytes, PHashMap, PMap, PPtr, PQueue, PString, PVec, Persist, RbWords, Structure,
    TypedTx,
};
use outlast::{Abort, Pool, Scheme, Transact};
use outlast_pmem::Heap;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// A standard collection, and the persistent one that is to do the same.
trait Model: Default + Clone + PartialEq + Debug {
    type Op: Clone + Debug;
    type Persistent<'id>: Persist<'id>;

    fn op() -> BoxedStrategy<Self::Op>;

    fn create<'id>(
        tx: &mut TypedTx<'id, '_, impl Transact>,
    ) -> Result<Self::Persistent<'id>, Abort>;

    /// Does it to both and compares what they say.
    fn apply<'id>(
        &mut self,
        it: Self::Persistent<'id>,
        tx: &mut TypedTx<'id, '_, impl Transact>,
        op: &Self::Op,
    ) -> Result<(), Abort>;

    fn load<'id>(
        it: Self::Persistent<'id>,
        tx: &mut TypedTx<'id, '_, impl Transact>,
    ) -> Result<Self, Abort>;
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Commit,
    Abort,
    /// The process dies with all operations done and nothing committed.
    Crash,
    /// It commits, and then the process dies.
    CrashBehind,
    /// It commits, and the pool is closed.
    Close,
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Commit),
        2 => Just(End::Abort),
        1 => Just(End::Crash),
        1 => Just(End::CrashBehind),
        1 => Just(End::Close),
    ]
}

type Script<M> = Vec<(Vec<<M as Model>::Op>, End)>;

fn open_options(scheme: Scheme) -> OpenOptions {
    OpenOptions { lock_stripes: 1024, ..OpenOptions::with_scheme(scheme) }
}

fn open(image: &[u8], scheme: Scheme) -> Pool<Heap> {
    let unrecovered = UnrecoveredPool::open(Heap::from_bytes(image)).unwrap();
    unrecovered.recover().unwrap().start(&open_options(scheme)).unwrap()
}

/// Runs transactions until the pool is closed or its process dies. Returns what is left of it.
fn session<M: Model>(
    pool: Pool<Heap>,
    model: &mut M,
    script: &mut dyn Iterator<Item = &(Vec<M::Op>, End)>,
) -> Option<Vec<u8>> {
    let image = pool.typed(|typed| {
        let mut lane = typed.lane().unwrap();
        let root: PPtr<'_, M::Persistent<'_>> =
            lane.run(|tx| tx.root_or_insert_with(|tx| M::create(tx))).unwrap();
        let found = lane.run(|tx| M::load(root.get(tx)?, tx)).unwrap();
        assert_eq!(found, *model, "after opening");
        for (ops, end) in script {
            let mut image = None;
            let result = lane.run(|tx| {
                let mut changed = model.clone();
                let it = root.get(tx)?;
                for op in ops {
                    changed.apply(it, tx, op)?;
                }
                assert_eq!(M::load(it, tx)?, changed, "inside the transaction");
                match end {
                    End::Abort => Err(Abort::cancelled("given up")),
                    End::Crash => {
                        image = Some(typed.pool().medium().to_bytes());
                        Err(Abort::cancelled("given up"))
                    }
                    End::Commit | End::CrashBehind | End::Close => Ok(changed),
                }
            });
            match result {
                Ok(changed) => *model = changed,
                Err(Abort::Cancelled(_)) => {}
                Err(other) => panic!("{other}"),
            }
            match end {
                End::CrashBehind => return Some(Some(typed.pool().medium().to_bytes())),
                End::Crash => return Some(image),
                End::Close => return Some(None),
                End::Commit | End::Abort => {
                    let found = lane.run(|tx| M::load(root.get(tx)?, tx)).unwrap();
                    assert_eq!(found, *model, "after {end:?}");
                }
            }
        }
        None
    })?;
    Some(image.unwrap_or_else(|| pool.close().to_bytes()))
}

fn run_script<M: Model>(scheme: Scheme, script: &Script<M>) {
    let create = CreateOptions { lanes: 2, lane_bytes: 16 << 10, ..CreateOptions::default() };
    let mut pool = Pool::create_on(Heap::new(2 << 20), &create, &open_options(scheme)).unwrap();
    let mut model = M::default();
    let mut rest = script.iter();
    let mut image = pool.medium().to_bytes();
    while let Some(left) = session(pool, &mut model, &mut rest) {
        pool = open(&left, scheme);
        image = left;
    }
    free_everything::<M>(&image, scheme);
}

/// What a collection takes is what freeing it gives back: then the root's own two blocks are left.
fn free_everything<M: Model>(image: &[u8], scheme: Scheme) {
    let pool = open(image, scheme);
    pool.typed(|pool| {
        let mut lane = pool.lane().unwrap();
        lane.run(|tx| {
            let root: PPtr<'_, M::Persistent<'_>> = tx.root_or_insert_with(|tx| M::create(tx))?;
            root.get(tx)?.free_owned(tx)
        })
        .unwrap();
    });
    let recovered = UnrecoveredPool::open(pool.close()).unwrap().recover().unwrap();
    let (report, blocks) = recovered.check_metadata();
    assert_eq!(report.findings, []);
    assert_eq!(blocks.len(), 2, "{scheme}: {blocks:?}");
}

/// Schemes that differ in when data is stored in place, and when it is flushed.
const SCHEMES: [Scheme; 5] =
    [Scheme::Undo, Scheme::Redo, Scheme::Swift, Scheme::UndoArchapt, Scheme::RedoArchapt];

fn check<M: Model>(ops_max: usize) {
    for (i, scheme) in SCHEMES.into_iter().enumerate() {
        let cases = if i < 3 { 24 } else { 8 };
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, seeded(i as u8));
        let script = vec((vec(M::op(), 0..ops_max), end()), 0..12);
        let done = runner.run(&script, |script| {
            run_script::<M>(scheme, &script);
            Ok(())
        });
        if let Err(failure) = done {
            panic!("{scheme}: {failure}");
        }
    }
}

fn seeded(seed: u8) -> proptest::test_runner::TestRng {
    use proptest::test_runner::{RngAlgorithm, TestRng};
    TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32])
}

/// An item of a vector or a queue, made from a number.
trait Item: for<'id> Persist<'id> + PartialEq + Debug + 'static {
    fn of(number: u64) -> Self;
}

impl Item for u64 {
    fn of(number: u64) -> Self {
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

impl Item for u8 {
    fn of(number: u64) -> Self {
        number as u8
    }
}

/// Five words: neither a part of a line nor a line.
#[derive(Clone, Copy, PartialEq, Debug, Persist)]
#[repr(C)]
struct Wide {
    number: u64,
    more: [u32; 8],
}

impl Item for Wide {
    fn of(number: u64) -> Self {
        Self { number, more: [number as u32; 8] }
    }
}

#[derive(Clone, Debug)]
enum VecOp {
    Push(u64),
    Pop,
    Get(u64),
    Set(u64, u64),
    Put(u64, u64),
    Range(u64, u64, usize),
    Retain(u64),
    Insert(u64, u64),
    Remove(u64),
    SwapRemove(u64),
    Swap(u64, u64),
    Extend(Vec<u64>),
    Truncate(u64),
    Clear,
}

#[derive(Clone, PartialEq, Debug)]
struct VecModel<T>(Vec<T>);

impl<T> Default for VecModel<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Item> Model for VecModel<T> {
    type Op = VecOp;
    type Persistent<'id> = PVec<'id, T>;

    fn op() -> BoxedStrategy<VecOp> {
        let any = any::<u64>;
        prop_oneof![
            6 => any().prop_map(VecOp::Push),
            2 => Just(VecOp::Pop),
            2 => any().prop_map(VecOp::Get),
            2 => (any(), any()).prop_map(|(i, item)| VecOp::Set(i, item)),
            1 => (any(), any()).prop_map(|(i, item)| VecOp::Put(i, item)),
            3 => (any(), any(), 0..9usize).prop_map(|(i, j, n)| VecOp::Range(i, j, n)),
            1 => any().prop_map(VecOp::Retain),
            2 => (any(), any()).prop_map(|(i, item)| VecOp::Insert(i, item)),
            2 => any().prop_map(VecOp::Remove),
            2 => any().prop_map(VecOp::SwapRemove),
            1 => (any(), any()).prop_map(|(i, j)| VecOp::Swap(i, j)),
            2 => vec(any(), 0..60).prop_map(VecOp::Extend),
            1 => any().prop_map(VecOp::Truncate),
            1 => Just(VecOp::Clear),
        ]
        .boxed()
    }

    fn create<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<PVec<'id, T>, Abort> {
        PVec::new(tx)
    }

    fn apply<'id>(
        &mut self,
        it: PVec<'id, T>,
        tx: &mut TypedTx<'id, '_, impl Transact>,
        op: &VecOp,
    ) -> Result<(), Abort> {
        let model = &mut self.0;
        let len = model.len() as u64;
        let within = |i: &u64| i.checked_rem(len);
        match op {
            VecOp::Push(item) => {
                it.push(tx, T::of(*item))?;
                model.push(T::of(*item));
            }
            VecOp::Pop => assert_eq!(it.pop(tx)?, model.pop()),
            VecOp::Get(i) => {
                let i = i % (len + 2);
                assert_eq!(it.get(tx, i)?, model.get(i as usize).copied());
                assert_eq!(it.first(tx)?, model.first().copied());
                assert_eq!(it.last(tx)?, model.last().copied());
            }
            VecOp::Set(i, item) => {
                let Some(i) = within(i) else { return Ok(()) };
                let old = std::mem::replace(&mut model[i as usize], T::of(*item));
                assert_eq!(it.set(tx, i, T::of(*item))?, old);
            }
            VecOp::Put(i, item) => {
                let Some(i) = within(i) else { return Ok(()) };
                it.put(tx, i, T::of(*item))?;
                model[i as usize] = T::of(*item);
            }
            VecOp::Range(i, j, n) => {
                let [i, j] = [i, j].map(|i| i % (len + 2));
                let (start, end) = (i.min(j), i.max(j).min(len));
                let part = model.get(start as usize..end as usize).unwrap_or_default();
                let found = it.range(tx, i.min(j)..i.max(j)).collect::<Result<Vec<_>, _>>()?;
                assert_eq!(found, part);
                let (mut found, mut expected) = (it.range(tx, start..end), part.iter());
                // Loads some items first, then passes over loaded ones and others.
                for n in [0, *n, 0, 40 * n] {
                    assert_eq!(found.nth(n).transpose()?, expected.nth(n).copied());
                    assert_eq!(found.nth_back(n).transpose()?, expected.nth_back(n).copied());
                }
            }
            VecOp::Retain(mask) => {
                let mut number = 0;
                let mut is_kept = || {
                    number += 1;
                    mask >> (number % 64) & 1 == 1
                };
                it.retain(tx, |_, _| Ok(is_kept()))?;
                number = 0;
                model.retain(|_| {
                    number += 1;
                    mask >> (number % 64) & 1 == 1
                });
            }
            VecOp::Insert(i, item) => {
                let i = i % (len + 1);
                it.insert(tx, i, T::of(*item))?;
                model.insert(i as usize, T::of(*item));
            }
            VecOp::Remove(i) => {
                let Some(i) = within(i) else { return Ok(()) };
                assert_eq!(it.remove(tx, i)?, model.remove(i as usize));
            }
            VecOp::SwapRemove(i) => {
                let Some(i) = within(i) else { return Ok(()) };
                assert_eq!(it.swap_remove(tx, i)?, model.swap_remove(i as usize));
            }
            VecOp::Swap(i, j) => {
                let (Some(i), Some(j)) = (within(i), within(j)) else { return Ok(()) };
                it.swap(tx, i, j)?;
                model.swap(i as usize, j as usize);
            }
            VecOp::Extend(items) => {
                it.extend(tx, items.iter().map(|item| T::of(*item)))?;
                model.extend(items.iter().map(|item| T::of(*item)));
            }
            VecOp::Truncate(keep) => {
                let keep = keep % (len + 2);
                it.truncate(tx, keep)?;
                model.truncate(keep as usize);
            }
            VecOp::Clear => {
                it.clear(tx)?;
                model.clear();
            }
        }
        assert_eq!(it.len(tx)?, model.len() as u64);
        assert_eq!(it.is_empty(tx)?, model.is_empty());
        Ok(())
    }

    fn load<'id>(
        it: PVec<'id, T>,
        tx: &mut TypedTx<'id, '_, impl Transact>,
    ) -> Result<Self, Abort> {
        let items = it.to_vec(tx)?;
        // From both ends in turn, until they meet.
        let (mut front, mut back) = (Vec::new(), Vec::new());
        let mut iter = it.iter(tx);
        while let Some(item) = iter.next() {
            front.push(item?);
            back.extend(iter.next_back().transpose()?);
        }
        front.extend(back.into_iter().rev());
        assert_eq!(front, items);
        Ok(Self(items))
    }
}

#[test]
fn a_vector_of_words_is_a_vector() {
    check::<VecModel<u64>>(10);
}

#[test]
fn a_vector_of_bytes_is_a_vector() {
    check::<VecModel<u8>>(10);
}

#[test]
fn a_vector_of_structs_is_a_vector() {
    check::<VecModel<Wide>>(10);
}

#[derive(Clone, Debug)]
enum QueueOp {
    Push(u8, u64),
    Pop(u8),
    Retain(u64),
    Clear,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct QueueModel(VecDeque<Wide>);

impl Model for QueueModel {
    type Op = QueueOp;
    type Persistent<'id> = PQueue<'id, Wide>;

    fn op() -> BoxedStrategy<QueueOp> {
        prop_oneof![
            8 => (0..30u8, any::<u64>()).prop_map(|(n, item)| QueueOp::Push(n, item)),
            8 => (0..30u8).prop_map(QueueOp::Pop),
            1 => (2..5u64).prop_map(QueueOp::Retain),
            1 => Just(QueueOp::Clear),
        ]
        .boxed()
    }

    fn create<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<PQueue<'id, Wide>, Abort> {
        PQueue::new(tx)
    }

    fn apply<'id>(
        &mut self,
        it: PQueue<'id, Wide>,
        tx: &mut TypedTx<'id, '_, impl Transact>,
        op: &QueueOp,
    ) -> Result<(), Abort> {
        match op {
            QueueOp::Push(times, first) => {
                for i in 0..u64::from(*times) {
                    let item = Wide::of(first.wrapping_add(i));
                    it.push_back(tx, item)?;
                    self.0.push_back(item);
                }
            }
            QueueOp::Pop(times) => {
                for _ in 0..*times {
                    assert_eq!(it.front(tx)?, self.0.front().copied());
                    assert_eq!(it.pop_front(tx)?, self.0.pop_front());
                }
            }
            QueueOp::Retain(n) => {
                it.retain(tx, |_, item| Ok(item.number % n != 0))?;
                self.0.retain(|item| item.number % n != 0);
            }
            QueueOp::Clear => {
                it.clear(tx)?;
                self.0.clear();
            }
        }
        assert_eq!(it.len(tx)?, self.0.len() as u64);
        assert_eq!(it.is_empty(tx)?, self.0.is_empty());
        Ok(())
    }

    fn load<'id>(
        it: PQueue<'id, Wide>,
        tx: &mut TypedTx<'id, '_, impl Transact>,
    ) -> Result<Self, Abort> {
        let items = it.to_vec(tx)?;
        assert_eq!(it.iter(tx).collect::<Result<Vec<_>, _>>()?, items);
        Ok(Self(items.into()))
    }
}

#[test]
fn a_queue_is_a_queue() {
    check::<QueueModel>(6);
}

#[derive(Clone, Debug)]
enum BytesOp {
    Set(Vec<u8>),
    Extend(Vec<u8>),
    Write(u64, Vec<u8>),
    Truncate(u64),
}

#[derive(Clone, PartialEq, Debug, Default)]
struct BytesModel(Vec<u8>);

impl Model for BytesModel {
    type Op = BytesOp;
    type Persistent<'id> = PBytes<'id>;

    fn op() -> BoxedStrategy<BytesOp> {
        let bytes = || prop_oneof![vec(any::<u8>(), 0..20), vec(any::<u8>(), 0..200)];
        prop_oneof![
            bytes().prop_map(BytesOp::Set),
            bytes().prop_map(BytesOp::Extend),
            (any::<u64>(), bytes()).prop_map(|(at, bytes)| BytesOp::Write(at, bytes)),
            any::<u64>().prop_map(BytesOp::Truncate),
        ]
        .boxed()
    }

    fn create<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<PBytes<'id>, Abort> {
        PBytes::new(tx, b"")
    }

    fn apply<'id>(
        &mut self,
        it: PBytes<'id>,
        tx: &mut TypedTx<'id, '_, impl Transact>,
        op: &BytesOp,
    ) -> Result<(), Abort> {
        let model = &mut self.0;
        match op {
            BytesOp::Set(bytes) => {
                it.set(tx, bytes)?;
                model.clone_from(bytes);
            }
            BytesOp::Extend(bytes) => {
                it.extend(tx, bytes)?;
                model.extend_from_slice(bytes);
            }
            BytesOp::Write(at, bytes) => {
                let at = (at % (model.len() as u64 + 1)) as usize;
                let len = bytes.len().min(model.len() - at);
                it.write(tx, at as u64, &bytes[..len])?;
                model[at..at + len].copy_from_slice(&bytes[..len]);
                let mut back = vec![0; len];
                it.read(tx, at as u64, &mut back)?;
                assert_eq!(back, bytes[..len]);
            }
            BytesOp::Truncate(len) => {
                let len = len % (model.len() as u64 + 2);
                it.truncate(tx, len)?;
                model.truncate(len as usize);
            }
        }
        assert_eq!(it.len(tx)?, model.len() as u64);
        Ok(())
    }

    fn load<'id>(it: PBytes<'id>, tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<Self, Abort> {
        it.to_vec(tx).map(Self)
    }
}

#[test]
fn bytes_are_bytes() {
    check::<BytesModel>(8);
}
