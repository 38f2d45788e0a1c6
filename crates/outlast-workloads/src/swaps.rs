//! `sps1` and `sps8`: swaps of words of a vector, one or eight in a transaction.
//!
//! A word is `version << 24 | content`. A swap exchanges the contents and marks both words with
//! the transaction's version; so the contents are a permutation of `0..n` at any time, and each
//! place has a chain of versions.

use outlast::collections::Words;
use outlast::{Abort, ByteRange, Runner, Transact};

use crate::facts::Versions;
use crate::{OpKind, Random, State, Version, Witness};

/// Swaps in one transaction, at most.
pub(crate) const SWAPS_MAX: usize = 8;
const CONTENT_BITS: u32 = 24;
/// Words in a vector, at most.
pub(crate) const WORDS_MAX: u64 = 1 << CONTENT_BITS;

pub(crate) fn join(version: Version, content: u64) -> u64 {
    version.0 << CONTENT_BITS | content
}

pub(crate) fn part(word: u64) -> (Version, u64) {
    (Version(word >> CONTENT_BITS), word & (WORDS_MAX - 1))
}

/// One thread of swaps.
pub(crate) struct SwapsWorker {
    words: Words,
    count: usize,
    random: Random,
    versions: Versions,
    pairs: [(u64, u64); SWAPS_MAX],
    version: Version,
}

impl SwapsWorker {
    pub(crate) fn new(words: Words, count: usize, random: Random, versions: Versions) -> Self {
        let (pairs, version) = ([(0, 0); SWAPS_MAX], Version::LOADED);
        let mut worker = Self { words, count, random, versions, pairs, version };
        worker.draw();
        worker
    }

    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    pub(crate) fn draw(&mut self) {
        let n = self.words.len();
        for pair in &mut self.pairs[..self.count] {
            let first = self.random.below(n);
            // The second is any other.
            let second = (first + 1 + self.random.below(n - 1)) % n;
            *pair = (first, second);
        }
        self.version = self.versions.next();
    }

    pub(crate) fn step<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort> {
        let (words, version) = (self.words, self.version);
        let pairs = &self.pairs[..self.count];
        let mut ranges = [ByteRange::default(); 2 * SWAPS_MAX];
        for (range, &(a, b)) in ranges.chunks_exact_mut(2).zip(pairs) {
            range.copy_from_slice(&[words.range(a), words.range(b)]);
        }
        runner.run(|tx| {
            witness.restart();
            tx.will_write(&ranges[..2 * pairs.len()])?;
            for &(a, b) in pairs {
                let (old_a, old_b) = (words.get(tx, a)?, words.get(tx, b)?);
                words.set(tx, a, join(version, part(old_b).1))?;
                words.set(tx, b, join(version, part(old_a).1))?;
                if W::WATCHES {
                    for (index, old) in [(a, old_a), (b, old_b)] {
                        // A word that an earlier swap of this transaction moved is known.
                        let (seen, _) = part(old);
                        if seen != version {
                            witness.read(index, State::Holds(seen));
                            witness.write(index, State::Holds(version));
                        }
                    }
                }
            }
            Ok(())
        })?;
        Ok(OpKind::Swap)
    }
}
