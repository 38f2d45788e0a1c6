//! `words`: a handful of words, several read and written in each transaction, for checkers that
//! look at every image.
//!
//! Each word is a [`stamp`](crate::content::stamp) of its index. A transaction reads one to four
//! words and overwrites one to three of those.

use outlast::collections::{Damage, ReadRaw, Words};
use outlast::medium::LINE_BYTES;
use outlast::{Abort, ByteRange, PoolOffset, RootKind, Runner, Transact};

use crate::audit::{TORN, damage};
use crate::content::{stamp, unstamp};
use crate::facts::Versions;
use crate::family::{Family, OnMachine, Thread, Unfit};
use crate::load::create_words;
use crate::workload::within;
use crate::{OpKind, Random, Scale, State, Version, Witness};

/// Words of which a transaction reads and writes, at most.
const TOUCHED_MAX: usize = 4;

/// The family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FewWords;

/// The distance between words in use.
fn stride(scale: &Scale) -> u64 {
    LINE_BYTES / 8 / scale.words_per_line
}

impl Family for FewWords {
    type Data = Words;
    type Worker = FewWordsWorker;

    fn scale(self, common: Scale) -> Scale {
        Scale { records: 4, operations: 4, ..common }
    }

    fn describe(self, _name: &str, scale: &Scale) -> String {
        format!("{} words", scale.records)
    }

    fn check(self, scale: &Scale) -> Result<(), Unfit> {
        within("records", scale.records, 1..=1 << 20, "1 to 1,048,576 words are possible")?;
        match scale.words_per_line {
            1 | 2 | 4 | 8 => Ok(()),
            other => Err(("words per line", other, "1, 2, 4 or 8 are possible")),
        }
    }

    fn heap_bytes(self, scale: &Scale) -> u64 {
        (1 << 20) + 8 * scale.records * stride(scale)
    }

    fn on_machine(self) -> OnMachine {
        OnMachine { footprint: 256, key_bytes: 8 }
    }

    fn load<R: Runner>(
        self,
        scale: &Scale,
        _seed: u64,
        runner: &mut R,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Words, Abort> {
        let stride = stride(scale);
        let word = |i: u64| match i.is_multiple_of(stride) {
            true => stamp(i / stride, Version::LOADED),
            false => 0,
        };
        create_words(runner, scale.records * stride, word, progress)
    }

    fn attach<T: Transact>(
        self,
        _scale: &Scale,
        (root, kind): (PoolOffset, RootKind),
        tx: &mut T,
    ) -> Result<Option<Words>, Abort> {
        (kind == RootKind::Words).then(|| Words::open(tx, root)).transpose()
    }

    fn worker(self, scale: &Scale, words: &Words, seed: u64, id: u8, used: u64) -> FewWordsWorker {
        let random = Random::stream(seed, u64::from(id));
        FewWordsWorker::new(*words, stride(scale), random, Versions::new(id, used))
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
        let stride = stride(scale);
        let mut words = 0;
        Words::read_all(root, read, |i, word| {
            words += 1;
            if i.is_multiple_of(stride) {
                let version = unstamp(i / stride, word).ok_or(damage(root, TORN))?;
                visit(i / stride, version);
            }
            Ok(())
        })?;
        match words == scale.records * stride {
            true => Ok(true),
            false => Err(damage(root, "a vector of another length")),
        }
    }

    fn initial(self, scale: &Scale, _seed: u64, visit: &mut dyn FnMut(u64, State)) {
        (0..scale.records).for_each(|key| visit(key, State::Holds(Version::LOADED)));
    }
}

/// One thread of read-modify-writes.
pub(crate) struct FewWordsWorker {
    words: Words,
    stride: u64,
    random: Random,
    versions: Versions,
    touched: [u64; TOUCHED_MAX],
    reads: usize,
    writes: usize,
    version: Version,
}

impl FewWordsWorker {
    /// `stride` is the distance of the words in use in the vector.
    pub(crate) fn new(words: Words, stride: u64, random: Random, versions: Versions) -> Self {
        let mut worker = Self {
            words,
            stride,
            random,
            versions,
            touched: [0; TOUCHED_MAX],
            reads: 0,
            writes: 0,
            version: Version::LOADED,
        };
        worker.draw();
        worker
    }
}

impl Thread for FewWordsWorker {
    fn draw(&mut self) {
        let n = self.words.len() / self.stride;
        self.reads = 1 + self.random.below(n.min(TOUCHED_MAX as u64)) as usize;
        self.writes = 1 + self.random.below(self.reads.min(TOUCHED_MAX - 1) as u64) as usize;
        let mut drawn = 0;
        while drawn < self.reads {
            let index = self.random.below(n);
            if !self.touched[..drawn].contains(&index) {
                self.touched[drawn] = index;
                drawn += 1;
            }
        }
        self.version = self.versions.next();
    }

    fn step<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort> {
        let (words, stride, version) = (self.words, self.stride, self.version);
        let touched = &self.touched[..self.reads];
        let written = &touched[..self.writes];
        let mut ranges = [ByteRange::default(); TOUCHED_MAX];
        for (range, index) in ranges.iter_mut().zip(written) {
            *range = words.range(index * stride);
        }
        runner.run(|tx| {
            witness.restart();
            tx.will_write(&ranges[..written.len()])?;
            for &index in touched {
                let word = words.get(tx, index * stride)?;
                let seen = unstamp(index, word).ok_or_else(|| {
                    Abort::damaged(format!("word {index} is {word:#x}, no version of it"))
                })?;
                witness.read(index, State::Holds(seen));
            }
            for &index in written {
                words.set(tx, index * stride, stamp(index, version))?;
                witness.write(index, State::Holds(version));
            }
            Ok(())
        })?;
        Ok(OpKind::Words)
    }

    fn versions(&self) -> Option<&Versions> {
        Some(&self.versions)
    }
}
