//! `sps1` and `sps8`: swaps of words of a vector, one or eight in a transaction.
//!
//! A word is `version << 24 | content`. A swap exchanges the contents and marks both words with
//! the transaction's version; so the contents are a permutation of `0..n` at any time, and each
//! place has a chain of versions.

use outlast::collections::{Damage, ReadRaw, Words};
use outlast::{Abort, PoolOffset, RootKind, Runner, Transact};

use crate::audit::damage;
use crate::facts::Versions;
use crate::family::{Family, OnMachine, Thread, Unfit};
use crate::load::create_words;
use crate::workload::{keys_in_words, within};
use crate::{OpKind, Random, Scale, State, Version, Witness};

const CONTENT_BITS: u32 = 24;
/// Words in a vector, at most.
const WORDS_MAX: u64 = 1 << CONTENT_BITS;

/// The family: `SWAPS` swaps a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Swapping<const SWAPS: usize>;

impl<const SWAPS: usize> Family for Swapping<SWAPS> {
    type Data = Words;
    type Worker = SwapsWorker<SWAPS>;

    fn scale(self, common: Scale) -> Scale {
        Scale { records: 1_000_000, operations: 1_000_000, ..common }
    }

    fn describe(self, _name: &str, scale: &Scale) -> String {
        format!("sps: {} words{}", scale.records, keys_in_words(scale.keys))
    }

    fn check(self, scale: &Scale) -> Result<(), Unfit> {
        within("records", scale.records, 2..=WORDS_MAX, "2 to 16,777,216 words are possible")
    }

    fn keys_apart(self) -> Option<u64> {
        Some(2)
    }

    fn heap_bytes(self, scale: &Scale) -> u64 {
        (1 << 20) + 8 * scale.records
    }

    fn on_machine(self) -> OnMachine {
        OnMachine { footprint: 8 << 20, key_bytes: 8 }
    }

    fn load<R: Runner>(
        self,
        scale: &Scale,
        _seed: u64,
        runner: &mut R,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Words, Abort> {
        create_words(runner, scale.records, initial_word, progress)
    }

    fn attach<T: Transact>(
        self,
        _scale: &Scale,
        (root, kind): (PoolOffset, RootKind),
        tx: &mut T,
    ) -> Result<Option<Words>, Abort> {
        (kind == RootKind::Words).then(|| Words::open(tx, root)).transpose()
    }

    fn worker(
        self,
        scale: &Scale,
        words: &Words,
        seed: u64,
        id: u8,
        used: u64,
    ) -> SwapsWorker<SWAPS> {
        let drawn = scale.keys.of(id, words.len(), 2);
        let random = Random::stream(seed, u64::from(id));
        SwapsWorker::new(*words, drawn, random, Versions::new(id, used))
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
        let mut seen = vec![0u64; scale.records.div_ceil(64) as usize];
        let mut words = 0;
        Words::read_all(root, read, |i, word| {
            let (version, content) = part(word);
            let (place, bit) = ((content / 64) as usize, 1 << (content % 64));
            let fresh = content < scale.records && seen[place] & bit == 0;
            if !fresh {
                return Err(damage(root, "words that are no permutation"));
            }
            seen[place] |= bit;
            words += 1;
            visit(i, version);
            Ok(())
        })?;
        match words == scale.records {
            true => Ok(true),
            false => Err(damage(root, "a vector of another length")),
        }
    }

    fn initial(self, scale: &Scale, _seed: u64, visit: &mut dyn FnMut(u64, State)) {
        (0..scale.records).for_each(|key| visit(key, State::Holds(Version::LOADED)));
    }
}

#[inline]
fn join(version: Version, content: u64) -> u64 {
    version.0 << CONTENT_BITS | content
}

#[inline]
fn part(word: u64) -> (Version, u64) {
    (Version(word >> CONTENT_BITS), word & (WORDS_MAX - 1))
}

/// The swaps of one thread as they are drawn, `SWAPS` at a time. A worker and a loop without a
/// runtime have them in common.
pub struct SwapDraw<const SWAPS: usize> {
    first: u64,
    words: u64,
    random: Random,
    versions: Versions,
    pairs: [(u64, u64); SWAPS],
    version: Version,
}

/// The word at `place` before the first swap.
pub fn initial_word(place: u64) -> u64 {
    join(Version::LOADED, place)
}

impl<const SWAPS: usize> SwapDraw<SWAPS> {
    /// The draws of the worker with this seed and id.
    pub fn of(scale: &Scale, seed: u64, id: u8) -> Self {
        let random = Random::stream(seed, u64::from(id));
        let words = scale.keys.of(id, scale.records, 2);
        Self::new(words, random, Versions::new(id, 0))
    }

    fn new((first, words): (u64, u64), random: Random, versions: Versions) -> Self {
        let (pairs, version) = ([(0, 0); SWAPS], Version::LOADED);
        let mut draw = Self { first, words, random, versions, pairs, version };
        draw.next();
        draw
    }

    /// Draws the next transaction's.
    #[inline]
    pub fn next(&mut self) {
        let n = self.words;
        for pair in &mut self.pairs {
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
    pub fn pairs(&self) -> &[(u64, u64); SWAPS] {
        &self.pairs
    }

    /// The word with the content of `other`.
    #[inline]
    pub fn swapped(&self, other: u64) -> u64 {
        join(self.version, part(other).1)
    }
}

/// One thread of swaps, `SWAPS` in a transaction.
pub(crate) struct SwapsWorker<const SWAPS: usize> {
    words: Words,
    draw: SwapDraw<SWAPS>,
}

impl<const SWAPS: usize> SwapsWorker<SWAPS> {
    /// `drawn` are the first word to draw from and how many.
    pub(crate) fn new(words: Words, drawn: (u64, u64), random: Random, versions: Versions) -> Self {
        Self { words, draw: SwapDraw::new(drawn, random, versions) }
    }
}

impl<const SWAPS: usize> Thread for SwapsWorker<SWAPS> {
    #[inline]
    fn draw(&mut self) {
        self.draw.next();
    }

    fn step<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort> {
        let this = &*self;
        runner.run(|tx| {
            let Self { words, draw } = this;
            let (version, pairs) = (draw.version, draw.pairs());
            witness.restart();
            let ranges = pairs.map(|(a, b)| [words.range(a), words.range(b)]);
            tx.will_write(ranges.as_flattened())?;
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

    fn versions(&self) -> Option<&Versions> {
        Some(&self.draw.versions)
    }
}
