//! Loading a workload's data, finding it again, and making workers for it.

use std::sync::Arc;

use outlast::collections::{ByteMap, ByteMapOptions, ByteTree, Dictionary, Queue, RbTree, Words};
use outlast::{Abort, RootKind, Runner, Transact};

use crate::content::{fill, stamp};
use crate::facts::Versions;
use crate::few_words::FewWordsWorker;
use crate::linkbench::{self, Graph, LinkbenchWorker};
use crate::pairs::{PairsWorker, initial_keys};
use crate::queue::{self, QueueWorker};
use crate::store::{Store, Structure};
use crate::swaps::{SwapsWorker, initial_word};
use crate::tpcc::{self, Shape, TpccWorker};
use crate::worker::{Program, Worker};
use crate::workload::{Kind, Swaps, Workload};
use crate::ycsb::{KeyName, YcsbWorker, fill_record, pack};
use crate::{InsertSequence, Random, Scale, Version};

/// Value bytes that the load phase stores in one transaction.
const LOAD_BATCH_BYTES: u64 = 16 << 10;

/// A workload's data in a pool, and what its workers share.
#[derive(Clone, Debug)]
pub struct Loaded {
    target: Target,
    /// Numbers for new records or nodes.
    sequence: Arc<InsertSequence>,
    graph: Option<Arc<Graph>>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Target {
    Store(Store),
    Words(Words),
    Queue(Queue),
    Tpcc(tpcc::Tables),
    Linkbench(linkbench::Tables),
}

impl Workload {
    /// Creates the workload's data in an empty pool, as its root object, in transactions of
    /// moderate size, and reports after each how many records of how many are there.
    ///
    /// # Errors
    /// Whatever a transaction fails with.
    ///
    /// # Panics
    /// When [`check`](Self::check) would refuse the scale.
    pub fn load<R: Runner>(
        &self,
        scale: &Scale,
        seed: u64,
        runner: &mut R,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Loaded, Abort> {
        self.check(scale).expect("the scale was checked");
        let graph = self.graph(scale);
        let mut next = scale.records.max(1);
        let target = match self.kind {
            Kind::Ycsb(_) => {
                let store = create_store(runner, scale.structure, scale.records, scale)?;
                let bytes = scale.stored_bytes() as usize;
                let mut values = vec![0; scale.record_bytes()];
                let mut stored = Vec::new();
                load_pairs(runner, store, 0..scale.records, bytes, progress, |n, value| {
                    fill_record(n, Version::LOADED, scale, &mut values);
                    value.copy_from_slice(pack(scale, &values, &mut stored));
                    KeyName::of(n)
                })?;
                Target::Store(store)
            }
            Kind::Pairs(structure) => {
                let store = create_store(runner, structure, scale.records / 2, scale)?;
                let mut keys = initial_keys(scale.records, seed);
                // Shares of the keys that never meet are not mixed in memory either.
                keys.sort_by_key(|key| scale.keys.share_of(*key, scale.records));
                let bytes = scale.value_bytes as usize;
                load_pairs(runner, store, keys.into_iter(), bytes, progress, |key, value| {
                    fill(key, Version::LOADED, value);
                    KeyBytes(key.to_be_bytes())
                })?;
                Target::Store(store)
            }
            Kind::Queue => Target::Queue(queue::load(scale, runner, progress)?),
            Kind::Swaps(_) => Target::Words(create_words(runner, scale.records, initial_word)?),
            Kind::FewWords => {
                let stride = self.stride(scale);
                let word = |i: u64| match i.is_multiple_of(stride) {
                    true => stamp(i / stride, Version::LOADED),
                    false => 0,
                };
                Target::Words(create_words(runner, scale.records * stride, word)?)
            }
            Kind::Tpcc => {
                let tables = runner.run(|tx| tpcc::Tables::create(tx, scale.placement))?;
                tpcc::load(runner, tables, Shape::of(scale), seed, progress)?;
                Target::Tpcc(tables)
            }
            Kind::Linkbench(_) => {
                let graph = graph.as_ref().expect("it has one");
                let tables = runner.run(|tx| linkbench::Tables::create(tx, scale.placement))?;
                linkbench::load(runner, tables, graph, seed, progress)?;
                next = graph.nodes() + 1;
                Target::Linkbench(tables)
            }
        };
        if let Target::Words(words) = target {
            progress(words.len(), words.len());
        }
        Ok(Loaded { target, sequence: Arc::new(InsertSequence::new(next)), graph })
    }

    /// Finds the workload's data in a pool where [`load`](Self::load) finished: what a program
    /// does after a crash.
    ///
    /// # Errors
    /// [`Abort::Damaged`] when the root is not what the workload left there, and whatever a
    /// transaction fails with.
    pub fn attach<R: Runner>(&self, scale: &Scale, runner: &mut R) -> Result<Loaded, Abort> {
        let kind = self.kind;
        let graph = self.graph(scale);
        runner.run(|tx| {
            let (root, root_kind) = tx.root()?.ok_or_else(|| no_root(self.name))?;
            let structure = match kind {
                Kind::Ycsb(_) => Some(scale.structure),
                Kind::Pairs(structure) => Some(structure),
                Kind::Queue | Kind::Swaps(_) | Kind::FewWords | Kind::Tpcc | Kind::Linkbench(_) => {
                    None
                }
            };
            let target = match (structure, root_kind) {
                (Some(Structure::HashMap), RootKind::HashMap) => {
                    Target::Store(Store::Map(ByteMap::open(tx, root)?))
                }
                (Some(Structure::BTree), RootKind::BTree) => {
                    Target::Store(Store::Tree(ByteTree::open(tx, root)?))
                }
                (Some(Structure::RbTree), RootKind::RbTree) => {
                    Target::Store(Store::Red(RbTree::open(tx, root)?))
                }
                (None, RootKind::Queue) if kind == Kind::Queue => {
                    Target::Queue(Queue::open(tx, root)?)
                }
                (None, RootKind::Trees) if kind == Kind::Tpcc => {
                    let tables = tpcc::Tables::open(tx, root)?;
                    Target::Tpcc(tables.ok_or_else(|| no_root(self.name))?)
                }
                (None, RootKind::Trees) if graph.is_some() => {
                    let tables = linkbench::Tables::open(tx, root)?;
                    Target::Linkbench(tables.ok_or_else(|| no_root(self.name))?)
                }
                (None, RootKind::Words) if matches!(kind, Kind::Swaps(_) | Kind::FewWords) => {
                    Target::Words(Words::open(tx, root)?)
                }
                _ => return Err(no_root(self.name)),
            };
            let mut next = scale.records.max(1);
            if let (Kind::Ycsb(_), Target::Store(store)) = (kind, target) {
                while store.find(tx, KeyName::of(next).bytes())?.is_some() {
                    next += 1;
                }
            }
            if let Target::Linkbench(tables) = target {
                next = linkbench::next_node(&tables, tx)?.max(next + 1);
            }
            let sequence = Arc::new(InsertSequence::new(next));
            Ok(Loaded { target, sequence, graph: graph.clone() })
        })
    }

    /// One thread's part. Workers differ by `id`, from 1 on; the same seed and id draw the same
    /// operations. A worker that goes on after a crash starts with the versions behind the
    /// `used` ones of its predecessor ([`Worker::used_versions`]).
    ///
    /// # Panics
    /// When the scale is not the one that the data was loaded with.
    pub fn worker(&self, scale: &Scale, loaded: &Loaded, seed: u64, id: u8, used: u64) -> Worker {
        assert!(id > 0, "worker 0 is the load phase");
        let random = Random::stream(seed, u64::from(id));
        let versions = Versions::new(id, used);
        let program = match (self.kind, loaded.target) {
            (Kind::Ycsb(letter), Target::Store(store)) => {
                let sequence = Arc::clone(&loaded.sequence);
                let worker = YcsbWorker::new(letter, scale, store, sequence, random, versions);
                Program::Ycsb(Box::new(worker))
            }
            (Kind::Pairs(_), Target::Store(store)) => {
                let keys = scale.keys.of(id, scale.records, 1);
                Program::Pairs(PairsWorker::new(scale, keys, store, random, versions))
            }
            (Kind::Queue, Target::Queue(queue)) => {
                Program::Queue(QueueWorker::new(queue, random, versions))
            }
            (Kind::Swaps(count), Target::Words(words)) => {
                let drawn = scale.keys.of(id, words.len(), 2);
                match count {
                    Swaps::One => Program::Swap(SwapsWorker::new(words, drawn, random, versions)),
                    Swaps::Eight => {
                        Program::Swaps(SwapsWorker::new(words, drawn, random, versions))
                    }
                }
            }
            (Kind::FewWords, Target::Words(words)) => {
                let stride = self.stride(scale);
                Program::FewWords(FewWordsWorker::new(words, stride, random, versions))
            }
            (Kind::Tpcc, Target::Tpcc(tables)) => {
                let worker = TpccWorker::new(tables, Shape::of(scale), random, versions);
                Program::Tpcc(Box::new(worker))
            }
            (Kind::Linkbench(mix), Target::Linkbench(tables)) => {
                let graph = loaded.graph.clone().expect("it was loaded with one");
                let sequence = Arc::clone(&loaded.sequence);
                let worker = LinkbenchWorker::new(mix, tables, graph, sequence, random, versions);
                Program::Linkbench(Box::new(worker))
            }
            _ => panic!("{} was not loaded into this pool", self.name),
        };
        Worker { program }
    }
}

impl Workload {
    /// The graph that LinkBench's data is one of.
    fn graph(&self, scale: &Scale) -> Option<Arc<Graph>> {
        matches!(self.kind, Kind::Linkbench(_)).then(|| Arc::new(Graph::new(scale.records)))
    }

    /// Checks what must hold of the data as a whole, in one transaction: every row by itself, the
    /// consistency conditions of TPC-C, the counts of LinkBench. Nothing of the other workloads,
    /// whose data has no more to it than an [`audit`](Self::audit) finds.
    ///
    /// # Errors
    /// [`Abort::Damaged`] with what does not hold, and whatever the transaction fails with.
    pub fn check_consistency<R: Runner>(
        &self,
        scale: &Scale,
        loaded: &Loaded,
        runner: &mut R,
    ) -> Result<(), Abort> {
        runner.run(|tx| match loaded.target {
            Target::Tpcc(tables) => tpcc::check(Shape::of(scale), &tables, tx),
            Target::Linkbench(tables) => {
                let graph = loaded.graph.as_ref().expect("it was loaded with one");
                linkbench::check(graph, &tables, tx)
            }
            Target::Store(_) | Target::Words(_) | Target::Queue(_) => Ok(()),
        })
    }
}

fn no_root(name: &str) -> Abort {
    Abort::damaged(format!("the pool holds no data of {name}"))
}

fn create_store<R: Runner>(
    runner: &mut R,
    structure: Structure,
    expected_keys: u64,
    scale: &Scale,
) -> Result<Store, Abort> {
    let placement = scale.placement;
    runner.run(|tx| {
        Ok(match structure {
            Structure::HashMap => {
                let options =
                    ByteMapOptions { expected_keys, placement, ..ByteMapOptions::default() };
                let map = ByteMap::create(tx, &options)?;
                tx.set_root(map.root(), RootKind::HashMap)?;
                Store::Map(map)
            }
            Structure::BTree => {
                let tree = ByteTree::create(tx, placement)?;
                tx.set_root(tree.root(), RootKind::BTree)?;
                Store::Tree(tree)
            }
            Structure::RbTree => {
                let tree = RbTree::create(tx, scale.value_bytes)?;
                tx.set_root(tree.root(), RootKind::RbTree)?;
                Store::Red(tree)
            }
        })
    })
}

fn create_words<R: Runner>(
    runner: &mut R,
    len: u64,
    initial: impl Fn(u64) -> u64,
) -> Result<Words, Abort> {
    runner.run(|tx| {
        let words = Words::create(tx, len, &initial)?;
        tx.set_root(words.root(), RootKind::Words)?;
        Ok(words)
    })
}

struct KeyBytes([u8; 8]);

impl AsRef<[u8]> for KeyBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for KeyName {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// Inserts a value for each of `numbers`, some in each transaction. `make` fills the value and
/// returns the key.
fn load_pairs<R: Runner, K: AsRef<[u8]>>(
    runner: &mut R,
    store: Store,
    numbers: impl ExactOrRange,
    value_bytes: usize,
    progress: &mut dyn FnMut(u64, u64),
    mut make: impl FnMut(u64, &mut [u8]) -> K,
) -> Result<(), Abort> {
    let batch_len = (LOAD_BATCH_BYTES / value_bytes as u64).clamp(1, 64) as usize;
    let total = numbers.total();
    let mut numbers = numbers.peekable();
    let mut value = vec![0; value_bytes];
    let mut batch = Vec::with_capacity(batch_len);
    let mut done = 0;
    while numbers.peek().is_some() {
        batch.clear();
        batch.extend(numbers.by_ref().take(batch_len));
        runner.run(|tx| {
            for &number in &batch {
                let key = make(number, &mut value);
                store.insert(tx, key.as_ref(), &value)?;
            }
            Ok(())
        })?;
        done += batch.len() as u64;
        progress(done, total);
    }
    Ok(())
}

/// An iterator over numbers that knows how many there are.
trait ExactOrRange: Iterator<Item = u64> {
    fn total(&self) -> u64;
}

impl ExactOrRange for std::ops::Range<u64> {
    fn total(&self) -> u64 {
        self.end - self.start
    }
}

impl ExactOrRange for std::vec::IntoIter<u64> {
    fn total(&self) -> u64 {
        self.len() as u64
    }
}
