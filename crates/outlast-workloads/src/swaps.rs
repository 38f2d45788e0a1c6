//! `sps1` and `sps8`: swaps of words of a vector, one or eight in a transaction.
//!
//! A word is `version << 24 | content`. A swap exchanges the contents and marks both words with
//! the transaction's version; so the contents are a permutation of `0..n` at any time, and each
//! place has a chain of versions.

use outlast::collections::Words;
use outlast::{Abort, ByteRange, Runner, Transact};

use crate::facts::Versions;
use crate::workload::Kind;
use crate::{OpKind, Random, Scale, State, Version, Witness, Workload};

/// Swaps in one transaction, at most.
pub const SWAPS_MAX: usize = 8;
const CONTENT_BITS: u32 = 24;
/// Words in a vector, at most.
pub(crate) const WORDS_MAX: u64 = 1 << CONTENT_BITS;

#[inline]
pub(crate) fn join(version: Version, content: u64) -> u64 {
    version.0 << CONTENT_BITS | content
}

#[inline]
pub(crate) fn part(word: u64) -> (Version, u64) {
    (Version(word >> CONTENT_BITS), word & (WORDS_MAX - 1))
}

/// The swaps of one thread as they are drawn, whoever makes them: what a loop without a runtime
/// has in common with a worker.
pub struct SwapDraw {
    first: u64,
    words: u64,
    count: usize,
    random: Random,
    versions: Versions,
    pairs: [(u64, u64); SWAPS_MAX],
    version: Version,
}

impl SwapDraw {
    /// The draws of the worker with this seed and id; `None` when the workload does not swap.
    pub fn of(workload: &Workload, scale: &Scale, seed: u64, id: u8) -> Option<Self> {
        let Kind::Swaps(count) = workload.kind else { return None };
        let random = Random::stream(seed, u64::from(id));
        let words = scale.keys.of(id, scale.records, 2);
        Some(Self::new(words, count, random, Versions::new(id, 0)))
    }

    fn new((first, words): (u64, u64), count: usize, random: Random, versions: Versions) -> Self {
        let (pairs, version) = ([(0, 0); SWAPS_MAX], Version::LOADED);
        let mut draw = Self { first, words, count, random, versions, pairs, version };
        draw.next();
        draw
    }

    /// Draws the next transaction's.
    #[inline]
    pub fn next(&mut self) {
        let n = self.words;
        for pair in &mut self.pairs[..self.count] {
            let first = self.random.below(n);
            // The second is any other.
            let behind = first + 1 + self.random.below(n - 1);
            let second = if behind < n { behind } else { behind - n };
            *pair = (self.first + first, self.first + second);
        }
        self.version = self.versions.next();
    }

    /// The words to be swapped, pair after pair: their places in the vector, two that differ in
    /// each pair. A place may be in several.
    #[inline]
    pub fn pairs(&self) -> &[(u64, u64)] {
        &self.pairs[..self.count]
    }

    /// What a word becomes that gets the content of `other`.
    #[inline]
    pub fn swapped(&self, other: u64) -> u64 {
        join(self.version, part(other).1)
    }

    /// The word at `place` before anybody swapped any.
    pub fn initial(place: u64) -> u64 {
        join(Version::LOADED, place)
    }
}

/// One thread of swaps.
pub(crate) struct SwapsWorker {
    words: Words,
    draw: SwapDraw,
    /// Those of the words to be swapped.
    ranges: [ByteRange; 2 * SWAPS_MAX],
}

impl SwapsWorker {
    /// `drawn` are the first word to draw from and how many.
    pub(crate) fn new(
        words: Words,
        drawn: (u64, u64),
        count: usize,
        random: Random,
        versions: Versions,
    ) -> Self {
        let draw = SwapDraw::new(drawn, count, random, versions);
        let mut worker = Self { words, draw, ranges: [ByteRange::default(); 2 * SWAPS_MAX] };
        worker.name_words();
        worker
    }

    pub(crate) fn versions(&self) -> &Versions {
        &self.draw.versions
    }

    #[inline]
    pub(crate) fn draw(&mut self) {
        self.draw.next();
        self.name_words();
    }

    #[inline]
    fn name_words(&mut self) {
        let ranges = self.ranges.as_chunks_mut::<2>().0;
        for (range, &(a, b)) in ranges.iter_mut().zip(self.draw.pairs()) {
            *range = [self.words.range(a), self.words.range(b)];
        }
    }

    pub(crate) fn step<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort> {
        let this = &*self;
        runner.run(|tx| {
            let Self { words, draw, ranges } = this;
            let (version, pairs) = (draw.version, draw.pairs());
            witness.restart();
            tx.will_write(&ranges[..2 * pairs.len()])?;
            for &(a, b) in pairs {
                let (old_a, old_b) = (words.get(tx, a)?, words.get(tx, b)?);
                words.set(tx, a, draw.swapped(old_b))?;
                words.set(tx, b, draw.swapped(old_a))?;
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
