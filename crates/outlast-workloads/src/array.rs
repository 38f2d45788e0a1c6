//! `array-stream` and `array-random`: transactions that overwrite items of an array.
//!
//! An item is a line. `array-stream` goes through the array in order and begins again, each worker
//! at its own place; `array-random` draws items evenly, those of a transaction all different. The
//! first word of an item is its version's stamp, the others follow from it, so that an item torn at
//! any word is recognised ([`content`](crate::content)).

use std::collections::HashSet;

use outlast::collections::{Damage, ReadRaw, Words};
use outlast::medium::LINE_BYTES;
use outlast::{Abort, ByteRange, PoolOffset, RootKind, Runner, Transact};

use crate::audit::{TORN, damage};
use crate::content::{fill, version_of};
use crate::facts::Versions;
use crate::family::{Family, OnMachine, Thread, Unfit};
use crate::load::create_words;
use crate::workload::within;
use crate::{OpKind, Random, Scale, State, Version, Witness};

/// Bytes and words of an item.
const ITEM_BYTES: usize = LINE_BYTES as usize;
const ITEM_WORDS: u64 = LINE_BYTES / 8;
/// Items that a transaction overwrites where nothing else is asked for.
const BATCH: u64 = 8;
/// The most of them.
const BATCH_MAX: u64 = 1 << 16;

/// In which order items are overwritten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// One behind the other.
    Stream,
    /// At random.
    Random,
}

/// The family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Array(pub(crate) Order);

impl Family for Array {
    type Data = Words;
    type Worker = ArrayWorker;

    fn scale(self, common: Scale) -> Scale {
        // 32 MB: four times the last-level cache of the papers' machines.
        let records = (32 << 20) / LINE_BYTES;
        Scale { records, operations: records, batch: BATCH, ..common }
    }

    fn describe(self, name: &str, scale: &Scale) -> String {
        let Scale { records, batch, .. } = scale;
        format!("{name}: {records} items of {ITEM_BYTES} bytes, {batch} a transaction")
    }

    fn check(self, scale: &Scale) -> Result<(), Unfit> {
        within("records", scale.records, 1..=1 << 24, "1 to 16,777,216 items are possible")?;
        let possible = 1..=BATCH_MAX.min(scale.records);
        within("items of a transaction", scale.batch, possible, "1 to 65,536, or all, are possible")
    }

    fn scale_of(self, keys: u64, published: Scale) -> Scale {
        Scale { records: keys, batch: published.batch.min(keys), ..published }
    }

    fn has_batches(self) -> bool {
        true
    }

    fn heap_bytes(self, scale: &Scale) -> u64 {
        (1 << 20) + scale.records * LINE_BYTES
    }

    fn on_machine(self) -> OnMachine {
        OnMachine { footprint: 32 << 20, key_bytes: LINE_BYTES }
    }

    fn load<R: Runner>(
        self,
        scale: &Scale,
        _seed: u64,
        runner: &mut R,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Words, Abort> {
        let word = |i: u64| {
            let mut item = [0; ITEM_BYTES];
            fill(i / ITEM_WORDS, Version::LOADED, &mut item);
            u64::from_le_bytes(item.as_chunks().0[(i % ITEM_WORDS) as usize])
        };
        create_words(runner, scale.records * ITEM_WORDS, word, progress)
    }

    fn attach<T: Transact>(
        self,
        _scale: &Scale,
        (root, kind): (PoolOffset, RootKind),
        tx: &mut T,
    ) -> Result<Option<Words>, Abort> {
        (kind == RootKind::Words).then(|| Words::open(tx, root)).transpose()
    }

    fn worker(self, scale: &Scale, words: &Words, seed: u64, id: u8, used: u64) -> ArrayWorker {
        let items = words.len() / ITEM_WORDS;
        let mut random = Random::stream(seed, u64::from(id));
        let next = random.below(items);
        let mut worker = ArrayWorker {
            order: self.0,
            words: *words,
            items,
            random,
            versions: Versions::new(id, used),
            next,
            batch: vec![0; scale.batch as usize],
            drawn: HashSet::new(),
            ranges: Vec::new(),
            version: Version::LOADED,
        };
        worker.draw();
        worker
    }

    fn audit<R: ReadRaw>(
        self,
        scale: &Scale,
        (root, kind): (PoolOffset, RootKind),
        read: &mut R,
        visit: &mut dyn FnMut(u64, Version),
    ) -> Result<bool, Damage> {
        if kind != RootKind::Words {
            return Ok(false);
        }
        let mut item = [0; ITEM_BYTES];
        let mut words = 0;
        Words::read_all(root, read, |i, word| {
            words += 1;
            let at = (i % ITEM_WORDS) as usize;
            item[8 * at..][..8].copy_from_slice(&word.to_le_bytes());
            if at + 1 == ITEM_WORDS as usize {
                let number = i / ITEM_WORDS;
                visit(number, version_of(number, &item).ok_or(damage(root, TORN))?);
            }
            Ok(())
        })?;
        match words == scale.records * ITEM_WORDS {
            true => Ok(true),
            false => Err(damage(root, "an array of another length")),
        }
    }

    fn initial(self, scale: &Scale, _seed: u64, visit: &mut dyn FnMut(u64, State)) {
        (0..scale.records).for_each(|key| visit(key, State::Holds(Version::LOADED)));
    }
}

/// One thread that overwrites items.
pub(crate) struct ArrayWorker {
    order: Order,
    words: Words,
    items: u64,
    random: Random,
    versions: Versions,
    /// Where the stream goes on.
    next: u64,
    /// The items of the transaction.
    batch: Vec<u64>,
    /// Those of them that are drawn.
    drawn: HashSet<u64>,
    /// Where they lie, to announce them.
    ranges: Vec<ByteRange>,
    version: Version,
}

impl ArrayWorker {
    fn range(&self, item: u64) -> ByteRange {
        ByteRange::new(self.words.range(item * ITEM_WORDS).at, LINE_BYTES)
    }
}

impl Thread for ArrayWorker {
    fn draw(&mut self) {
        self.version = self.versions.next();
        match self.order {
            Order::Stream => {
                for item in &mut self.batch {
                    *item = self.next;
                    self.next = (self.next + 1) % self.items;
                }
            }
            Order::Random => {
                self.drawn.clear();
                let start = self.random.below(self.items);
                // Where nearly all are wanted a start is drawn alone, or it would not end soon.
                let is_dense = 2 * self.batch.len() as u64 > self.items;
                for (item, k) in self.batch.iter_mut().zip(0..) {
                    *item = match is_dense {
                        true => (start + k) % self.items,
                        false => loop {
                            let item = self.random.below(self.items);
                            if self.drawn.insert(item) {
                                break item;
                            }
                        },
                    };
                }
            }
        }
        self.ranges = self.batch.iter().map(|item| self.range(*item)).collect();
    }

    fn step<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort> {
        let Self { batch, ranges, version, .. } = self;
        runner.run(|tx| {
            witness.restart();
            tx.will_write(ranges)?;
            let mut bytes = [0; ITEM_BYTES];
            for (item, range) in batch.iter().zip(ranges.iter()) {
                if W::WATCHES {
                    tx.load(range.at, &mut bytes)?;
                    let seen = version_of(*item, &bytes).ok_or_else(|| torn(*item))?;
                    witness.read(*item, State::Holds(seen));
                    witness.write(*item, State::Holds(*version));
                }
                fill(*item, *version, &mut bytes);
                tx.store(range.at, &bytes)?;
            }
            Ok(())
        })?;
        Ok(OpKind::Overwrite)
    }

    fn versions(&self) -> Option<&Versions> {
        Some(&self.versions)
    }
}

#[cold]
fn torn(item: u64) -> Abort {
    Abort::damaged(format!("item {item} is no version of it"))
}
