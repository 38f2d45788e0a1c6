//! `words`: a handful of words, several read and written in each transaction, for checkers that
//! look at every image.
//!
//! Each word is a [`stamp`](crate::content::stamp) of its index. A transaction reads one to four
//! words and overwrites one to three of those.

use outlast::collections::Words;
use outlast::{Abort, ByteRange, Runner, Transact};

use crate::content::{stamp, unstamp};
use crate::facts::Versions;
use crate::{OpKind, Random, State, Version, Witness};

/// Words of which a transaction reads and writes, at most.
const TOUCHED_MAX: usize = 4;

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

    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    pub(crate) fn draw(&mut self) {
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

    pub(crate) fn step<R: Runner, W: Witness>(
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
}
