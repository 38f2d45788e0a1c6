//! What a commit changes in the sums, as its lane writes it down.
//!
//! Old contents and new, in the order of the commits of one lane. All of it only adds up, so
//! neither the order of lanes nor that within a commit matters.

use outlast_trace::{LineAddr, PoolOffset};

/// A word that opens an entry: what it is in the two highest bits.
const KIND_SHIFT: u32 = 62;
const COMMIT: u64 = 0;
const WORDS: u64 = 1;
const TAKEN: u64 = 2;
const GIVEN_BACK: u64 = 3;

/// Bits for the mask of a line's words.
const MASK_BITS: u32 = 8;

/// Entries, one behind the other.
#[derive(Default)]
pub(crate) struct Deltas {
    words: Vec<u64>,
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delta<'a> {
    /// What follows belongs to the commit of this counter.
    Commit(u64),
    /// The words of the mask, each as it was and as it is.
    Words { line: LineAddr, mask: u8, pairs: &'a [[u64; 2]] },
    /// A block is taken, whose words are these.
    Taken { at: PoolOffset, words: &'a [u64] },
    /// A block is given back, whose words are these.
    GivenBack { at: PoolOffset, words: &'a [u64] },
}

impl Deltas {
    pub fn clear(&mut self) {
        if !self.words.is_empty() {
            self.words.clear();
        }
    }

    pub fn commit(&mut self, counter: u64) {
        self.words.push(COMMIT << KIND_SHIFT | counter);
    }

    /// The words of `mask` change; `old` and `new` are whole lines of which only those count.
    pub fn line(&mut self, line: LineAddr, mask: u8, old: &[u64; 8], new: &[u64; 8]) {
        self.words.push(WORDS << KIND_SHIFT | line.0 << MASK_BITS | u64::from(mask));
        for word in (0..8).filter(|word| mask >> word & 1 == 1) {
            self.words.extend([old[word], new[word]]);
        }
    }

    /// One word changes.
    pub fn word(&mut self, at: PoolOffset, old: u64, new: u64) {
        let mask = 1 << (at.in_line() / 8);
        self.words.extend([WORDS << KIND_SHIFT | at.line().0 << MASK_BITS | mask, old, new]);
    }

    /// A block is taken: `fill` gets room for its words.
    pub fn taken(&mut self, at: PoolOffset, bytes: u64, fill: impl FnOnce(&mut [u64])) {
        self.block(TAKEN, at, bytes, fill);
    }

    /// A block is given back: `fill` gets room for its words.
    pub fn given_back(&mut self, at: PoolOffset, bytes: u64, fill: impl FnOnce(&mut [u64])) {
        self.block(GIVEN_BACK, at, bytes, fill);
    }

    fn block(&mut self, kind: u64, at: PoolOffset, bytes: u64, fill: impl FnOnce(&mut [u64])) {
        self.words.extend([kind << KIND_SHIFT | at.0, bytes / 8]);
        let from = self.words.len();
        self.words.resize(from + (bytes / 8) as usize, 0);
        fill(&mut self.words[from..]);
    }

    /// Moves all entries of `other` behind these.
    pub fn append(&mut self, other: &mut Self) {
        self.words.append(&mut other.words);
    }

    pub fn iter(&self) -> impl Iterator<Item = Delta<'_>> {
        let mut rest = self.words.as_slice();
        std::iter::from_fn(move || {
            let (first, behind) = rest.split_first()?;
            let low = first & ((1 << KIND_SHIFT) - 1);
            let (delta, behind) = match first >> KIND_SHIFT {
                COMMIT => (Delta::Commit(low), behind),
                WORDS => {
                    let mask = low as u8;
                    let (pairs, behind) = behind.split_at(2 * mask.count_ones() as usize);
                    let line = LineAddr(low >> MASK_BITS);
                    (Delta::Words { line, mask, pairs: pairs.as_chunks().0 }, behind)
                }
                kind => {
                    let (count, behind) = behind.split_first().expect("a block has a length");
                    let (words, behind) = behind.split_at(*count as usize);
                    let at = PoolOffset(low);
                    let delta = if kind == TAKEN {
                        Delta::Taken { at, words }
                    } else {
                        Delta::GivenBack { at, words }
                    };
                    (delta, behind)
                }
            };
            rest = behind;
            Some(delta)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_in_order() {
        let mut deltas = Deltas::default();
        deltas.commit(7);
        deltas.line(LineAddr(1 << 36), 0b1000_0001, &[1; 8], &[2; 8]);
        deltas.taken(PoolOffset(4096), 16, |words| words.copy_from_slice(&[5, 6]));
        let mut other = Deltas::default();
        other.commit(8);
        other.given_back(PoolOffset(64), 8, |words| words[0] = 9);
        deltas.append(&mut other);
        assert_eq!(other.iter().next(), None);
        let all: Vec<_> = deltas.iter().collect();
        assert_eq!(
            all,
            [
                Delta::Commit(7),
                Delta::Words { line: LineAddr(1 << 36), mask: 0x81, pairs: &[[1, 2], [1, 2]] },
                Delta::Taken { at: PoolOffset(4096), words: &[5, 6] },
                Delta::Commit(8),
                Delta::GivenBack { at: PoolOffset(64), words: &[9] },
            ]
        );
    }
}
