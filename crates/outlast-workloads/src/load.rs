//! Loading a workload's data, finding it again, and making workers for it.

use outlast::collections::{ByteMap, ByteMapOptions, ByteTree, Dictionary, RbTree, Words};
use outlast::{Abort, PoolOffset, RootKind, Runner, Transact};

use crate::Scale;
use crate::clrs::ClrsTree;
use crate::family::Data;
use crate::store::{Store, Structure};
use crate::worker::Worker;
use crate::workload::Workload;

/// Value bytes that the load phase stores in one transaction.
const LOAD_BATCH_BYTES: u64 = 16 << 10;

/// A workload's data in a pool, and what its workers share.
#[derive(Clone, Debug)]
pub struct Loaded {
    data: Data,
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
        Ok(Loaded { data: self.kind.load(scale, seed, runner, progress)? })
    }

    /// Finds the workload's data in a pool where [`load`](Self::load) finished: what a program
    /// does after a crash.
    ///
    /// # Errors
    /// [`Abort::Damaged`] when the root is not what the workload left there, and whatever a
    /// transaction fails with.
    pub fn attach<R: Runner>(&self, scale: &Scale, runner: &mut R) -> Result<Loaded, Abort> {
        runner.run(|tx| {
            let found = match tx.root()? {
                Some(root) => self.kind.attach(scale, root, tx)?,
                None => None,
            };
            let other = || Abort::damaged(format!("the pool holds no data of {}", self.name));
            Ok(Loaded { data: found.ok_or_else(other)? })
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
        let thread = self.kind.worker(scale, &loaded.data, seed, id, used);
        let thread =
            thread.unwrap_or_else(|| panic!("{} was not loaded into this pool", self.name));
        Worker { thread }
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
        runner.run(|tx| self.kind.check_consistency(scale, &loaded.data, tx))
    }
}

/// The dictionary at a root, where it is of this structure.
pub(crate) fn open_store<T: Transact>(
    tx: &mut T,
    structure: Structure,
    (root, kind): (PoolOffset, RootKind),
) -> Result<Option<Store>, Abort> {
    Ok(Some(match (structure, kind) {
        (Structure::HashMap, RootKind::HashMap) => Store::Map(ByteMap::open(tx, root)?),
        (Structure::BTree, RootKind::BTree) => Store::Tree(ByteTree::open(tx, root)?),
        (Structure::RbTree, RootKind::RbTree) => Store::Red(RbTree::open(tx, root)?),
        (Structure::ClrsTree, RootKind::Opaque) => match ClrsTree::open(tx, root)? {
            Some(tree) => Store::Clrs(tree),
            None => return Ok(None),
        },
        _ => return Ok(None),
    }))
}

/// An empty dictionary as the root object.
pub(crate) fn create_store<R: Runner>(
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
            Structure::ClrsTree => {
                let tree = ClrsTree::create(tx, scale.value_bytes)?;
                tx.set_root(tree.root(), RootKind::Opaque)?;
                Store::Clrs(tree)
            }
        })
    })
}

/// A vector of words as the root object.
pub(crate) fn create_words<R: Runner>(
    runner: &mut R,
    len: u64,
    initial: impl Fn(u64) -> u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Words, Abort> {
    let words = runner.run(|tx| {
        let words = Words::create(tx, len, &initial)?;
        tx.set_root(words.root(), RootKind::Words)?;
        Ok(words)
    })?;
    progress(len, len);
    Ok(words)
}

/// Inserts a value for each of `numbers`, some in each transaction. `make` fills the value and
/// returns the key.
pub(crate) fn load_pairs<R: Runner, K: AsRef<[u8]>>(
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
pub(crate) trait ExactOrRange: Iterator<Item = u64> {
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
