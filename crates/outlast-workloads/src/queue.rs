//! `queue`: a queue under one enqueue or one dequeue per transaction.
//!
//! Operations are drawn in pairs, one of each, in either order: so both are as frequent, and the
//! queue's length stays within one item of what it was, for each worker. A dequeue that finds
//! nothing changes nothing and counts all the same.
//!
//! Facts are of the items, by their numbers, and of both ends: each is a key whose version is the
//! number of items that have passed it, so that an item that came and went is not forgotten.

use outlast::collections::{Damage, QUEUE_ITEM_BYTES_MAX, Queue, ReadRaw};
use outlast::{Abort, ByteRange, PoolOffset, RootKind, Runner, Transact};

use crate::content::{VALUE_BYTES_MIN, fill, version_of};
use crate::facts::Versions;
use crate::family::{Family, OnMachine, Thread, Unfit};
use crate::workload::within;
use crate::ycsb::judge;
use crate::{OpKind, Random, Scale, State, Version, Witness};

/// The keys of the two ends, and of the first item.
const HEAD: u64 = 0;
const TAIL: u64 = 1;
const FIRST: u64 = 2;

/// The key that the contents of all items are of: who prepares one does not know its number yet.
const CONTENT: u64 = 0;

/// Items that the load phase puts in with one transaction.
const LOAD_BATCH: u64 = 64;

/// The family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Items;

impl Family for Items {
    type Data = Queue;
    type Worker = QueueWorker;

    fn scale(self, common: Scale) -> Scale {
        Scale { records: 1_000, operations: 1_000, ..common }
    }

    fn describe(self, name: &str, scale: &Scale) -> String {
        format!("{name}: {} items, {} bytes each", scale.records, scale.value_bytes)
    }

    fn check(self, scale: &Scale) -> Result<(), Unfit> {
        within("records", scale.records, 1..=1 << 32, "1 to 4,294,967,296 are possible")?;
        let possible = VALUE_BYTES_MIN as u64..=QUEUE_ITEM_BYTES_MAX;
        within("value bytes", scale.value_bytes, possible, "8 to 65,536 are possible")
    }

    fn heap_bytes(self, scale: &Scale) -> u64 {
        // Blocks that are not full, and places that are longer than their items.
        (1 << 20) + 2 * (scale.records + 16) * (scale.value_bytes + 64)
    }

    fn on_machine(self) -> OnMachine {
        OnMachine { footprint: 1 << 18, key_bytes: 64 }
    }

    fn load<R: Runner>(
        self,
        scale: &Scale,
        _seed: u64,
        runner: &mut R,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Queue, Abort> {
        load(scale, runner, progress)
    }

    fn attach<T: Transact>(
        self,
        _scale: &Scale,
        (root, kind): (PoolOffset, RootKind),
        tx: &mut T,
    ) -> Result<Option<Queue>, Abort> {
        (kind == RootKind::Queue).then(|| Queue::open(tx, root)).transpose()
    }

    fn worker(self, _scale: &Scale, queue: &Queue, seed: u64, id: u8, used: u64) -> QueueWorker {
        let random = Random::stream(seed, u64::from(id));
        QueueWorker::new(*queue, random, Versions::new(id, used))
    }

    fn audit<R: ReadRaw>(
        self,
        scale: &Scale,
        (root, kind): (PoolOffset, RootKind),
        read: &mut R,
        visit: &mut dyn FnMut(u64, Version),
    ) -> Result<bool, Damage> {
        if kind != RootKind::Queue {
            return Ok(false);
        }
        audit(scale, root, read, visit).map(|()| true)
    }

    fn initial(self, scale: &Scale, _seed: u64, visit: &mut dyn FnMut(u64, State)) {
        visit(HEAD, State::Holds(Version(0)));
        visit(TAIL, State::Holds(Version(scale.records)));
        (FIRST..FIRST + scale.records).for_each(|key| visit(key, State::Holds(Version::LOADED)));
    }
}

/// One thread of enqueues and dequeues.
pub(crate) struct QueueWorker {
    queue: Queue,
    random: Random,
    versions: Versions,
    /// The version of the item to put in; `None` takes one out.
    puts: Option<Version>,
    /// Whether the second operation of a pair puts in.
    second: Option<bool>,
    item: Vec<u8>,
    seen: Vec<u8>,
}

impl QueueWorker {
    pub(crate) fn new(queue: Queue, random: Random, versions: Versions) -> Self {
        let item = vec![0; queue.item_bytes() as usize];
        let (puts, second, seen) = (None, None, item.clone());
        let mut worker = Self { queue, random, versions, puts, second, item, seen };
        worker.draw();
        worker
    }
}

impl Thread for QueueWorker {
    fn draw(&mut self) {
        let puts = self.second.take().unwrap_or_else(|| {
            let first = self.random.next_u64() >> 63 == 0;
            self.second = Some(!first);
            first
        });
        self.puts = puts.then(|| self.versions.next());
        if let Some(version) = self.puts {
            fill(CONTENT, version, &mut self.item);
        }
    }

    fn step<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort> {
        let queue = self.queue;
        let ends = |number| State::Holds(Version(number));
        let Some(version) = self.puts else {
            let seen = &mut self.seen;
            runner.run(|tx| {
                witness.restart();
                match queue.dequeue_numbered(tx, seen)? {
                    Some(number) if W::WATCHES => {
                        witness.read(HEAD, ends(number));
                        witness.read(FIRST + number, State::Holds(judge(CONTENT, seen)?));
                        witness.write(HEAD, ends(number + 1));
                        witness.write(FIRST + number, State::Absent);
                    }
                    None if W::WATCHES => {
                        let numbers = queue.numbers(tx)?;
                        witness.read(HEAD, ends(numbers.start));
                        witness.read(TAIL, ends(numbers.end));
                    }
                    _ => {}
                }
                Ok(())
            })?;
            return Ok(OpKind::Dequeue);
        };
        let item = &self.item;
        runner.run(|tx| {
            witness.restart();
            let number = queue.enqueue(tx, item)?;
            if W::WATCHES {
                witness.read(TAIL, ends(number));
                witness.read(FIRST + number, State::Absent);
                witness.write(TAIL, ends(number + 1));
                witness.write(FIRST + number, State::Holds(version));
            }
            Ok(())
        })?;
        Ok(OpKind::Enqueue)
    }

    fn versions(&self) -> Option<&Versions> {
        Some(&self.versions)
    }
}

/// Creates the queue with its first items, as the root object.
fn load<R: Runner>(
    scale: &Scale,
    runner: &mut R,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Queue, Abort> {
    let queue = runner.run(|tx| {
        let queue = Queue::create(tx, scale.value_bytes)?;
        tx.set_root(queue.root(), RootKind::Queue)?;
        Ok(queue)
    })?;
    let mut item = vec![0; scale.value_bytes as usize];
    fill(CONTENT, Version::LOADED, &mut item);
    for first in (0..scale.records).step_by(LOAD_BATCH as usize) {
        let count = (scale.records - first).min(LOAD_BATCH);
        runner.run(|tx| (0..count).try_for_each(|_| queue.enqueue(tx, &item).map(drop)))?;
        progress(first + count, scale.records);
    }
    Ok(queue)
}

/// The state of every key of the queue at `root`.
fn audit<R: ReadRaw>(
    scale: &Scale,
    root: PoolOffset,
    read: &mut R,
    mut visit: impl FnMut(u64, Version),
) -> Result<(), Damage> {
    let mut item = vec![0; scale.value_bytes as usize];
    let entry = |read: &mut R, number: &[u8], place: ByteRange| {
        let damage = |what| Damage { at: place.at, what };
        let number = number.try_into().map(u64::from_be_bytes).expect("a number is a word");
        if place.len != item.len() as u64 {
            return Err(damage("an item of another length"));
        }
        let inside = read.read(place.at, &mut item);
        let version = version_of(CONTENT, &item).filter(|_| inside);
        visit(FIRST + number, version.ok_or(damage("an item that no worker put in"))?);
        Ok(())
    };
    Queue::walk(root, read, |_, _| {}, entry)?;
    let numbers = Queue::read_numbers(root, read)?;
    visit(HEAD, Version(numbers.start));
    visit(TAIL, Version(numbers.end));
    Ok(())
}
