//! What commits change in the sums, as their lane writes it down.
//!
//! Old contents and new, line by line. All of it only adds up, so neither the order of lanes nor
//! that within a commit matters.

use outlast_matrix::Line;
use outlast_trace::{LineAddr, PoolOffset, line_pieces};

use crate::lines::{runs, word_mask};

/// A word that opens an entry: what it is in the two highest bits, the line below them, the mask
/// of its words in the lowest eight.
const KIND_SHIFT: u32 = 62;
const MASK_BITS: u32 = 8;

/// What an entry is; its words follow, old ones before new ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Words change: old ones and new ones.
    Change,
    /// A block is taken: words that come into the sums, on a line that becomes a member.
    Joins,
    /// A block is given back: words that leave the sums, on a line that is a member no more.
    Leaves,
    /// The same on a line that other blocks may share.
    LeavesInPart,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Change, Self::Joins, Self::Leaves, Self::LeavesInPart];

    fn of(head: u64) -> Self {
        Self::ALL[(head >> KIND_SHIFT) as usize]
    }

    fn head(self, line: LineAddr, mask: u8) -> u64 {
        (self as u64) << KIND_SHIFT | line.0 << MASK_BITS | u64::from(mask)
    }

    /// Words of an entry with this mask, its head among them.
    fn words(self, mask: u8) -> usize {
        let contents = if self == Self::Change { 2 } else { 1 };
        1 + contents * mask.count_ones() as usize
    }
}

/// One entry. Words that it does not speak of are zero in both contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delta {
    pub kind: Kind,
    pub old: Line,
    pub new: Line,
}

/// Entries, one behind the other.
#[derive(Default)]
pub(crate) struct Deltas {
    words: Vec<u64>,
    /// The first commit of which there is an entry.
    since: Option<u64>,
}

impl Deltas {
    pub fn clear(&mut self) {
        self.words.clear();
        self.since = None;
    }

    /// What follows belongs to the commit of this counter, which is above those before.
    pub fn commit(&mut self, counter: u64) {
        self.since.get_or_insert(counter);
    }

    /// The first commit of which there is an entry, or may be one.
    pub fn since(&self) -> Option<u64> {
        self.since
    }

    /// Bytes of all entries.
    pub fn bytes(&self) -> usize {
        size_of_val(self.words.as_slice())
    }

    /// The words of `mask` change; `old` and `new` are whole lines of which only those count.
    /// A word that stays what it was takes no room.
    #[inline]
    pub fn line(&mut self, line: LineAddr, mask: u8, old: &Line, new: &Line) {
        let differs = (0..8).fold(0, |bits, word| bits | u8::from(old[word] != new[word]) << word);
        let mask = mask & differs;
        if mask != 0 {
            self.words.push(Kind::Change.head(line, mask));
            self.push_words(mask, old);
            self.push_words(mask, new);
        }
    }

    /// One word changes.
    pub fn word(&mut self, at: PoolOffset, old: u64, new: u64) {
        let mask = 1 << (at.in_line() / 8);
        self.words.extend([Kind::Change.head(at.line(), mask), old, new]);
    }

    /// A block is taken; `load` reads its words from that offset on.
    pub fn taken(&mut self, at: PoolOffset, bytes: u64, load: impl Fn(PoolOffset, &mut [u64])) {
        self.block(at, bytes, |_| Kind::Joins, load);
    }

    /// A block is given back; `load` reads its words from that offset on.
    pub fn given_back(
        &mut self,
        at: PoolOffset,
        bytes: u64,
        load: impl Fn(PoolOffset, &mut [u64]),
    ) {
        let kind = |mask| if mask == 0xff { Kind::Leaves } else { Kind::LeavesInPart };
        self.block(at, bytes, kind, load);
    }

    fn block(
        &mut self,
        at: PoolOffset,
        bytes: u64,
        kind: impl Fn(u8) -> Kind,
        load: impl Fn(PoolOffset, &mut [u64]),
    ) {
        for (piece, len) in line_pieces(at, bytes as usize) {
            let mask = word_mask(piece.in_line(), piece.in_line() + len);
            self.words.push(kind(mask).head(piece.line(), mask));
            let from = self.words.len();
            self.words.resize(from + len / 8, 0);
            load(piece, &mut self.words[from..]);
        }
    }

    #[inline]
    fn push_words(&mut self, mask: u8, content: &Line) {
        for (first, words) in runs(mask) {
            let (from, to) = (first as usize, (first + words) as usize);
            self.words.extend_from_slice(&content[from..to]);
        }
    }

    /// Moves all entries of `other`, of later commits, behind these.
    pub fn append(&mut self, other: &mut Self) {
        self.words.append(&mut other.words);
        self.since = self.since.or(other.since.take());
        other.since = None;
    }

    /// The line of every entry, and where the entry stands.
    pub fn places(&self) -> impl Iterator<Item = (LineAddr, usize)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let head = *self.words.get(at)?;
            let place = (LineAddr(head << 2 >> (2 + MASK_BITS)), at);
            at += Kind::of(head).words(head as u8);
            Some(place)
        })
    }

    /// The entry that stands there.
    #[inline]
    pub fn get(&self, place: usize) -> Delta {
        let head = self.words[place];
        let (kind, mask) = (Kind::of(head), head as u8);
        let words = &self.words[place + 1..place + kind.words(mask)];
        let (old, new) = match kind {
            Kind::Change => words.split_at(words.len() / 2),
            Kind::Joins => (&[][..], words),
            Kind::Leaves | Kind::LeavesInPart => (words, &[][..]),
        };
        Delta { kind, old: spread(mask, old), new: spread(mask, new) }
    }
}

/// Puts words where the mask says, if there are any.
#[inline]
fn spread(mask: u8, words: &[u64]) -> Line {
    if let Ok(whole) = words.try_into() {
        return whole;
    }
    let mut line = [0; 8];
    let mut rest = words;
    for (first, count) in runs(mask) {
        let Some((run, behind)) = rest.split_at_checked(count as usize) else { break };
        line[first as usize..][..run.len()].copy_from_slice(run);
        rest = behind;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stand_where_their_places_say() {
        let mut deltas = Deltas::default();
        assert_eq!(deltas.since(), None);
        deltas.commit(7);
        let old = [1; 8];
        let new = [2, 2, 2, 2, 1, 1, 1, 3];
        deltas.line(LineAddr(1 << 36), 0b1001_0001, &old, &new);
        deltas.line(LineAddr(3), 0b0111_0000, &old, &new);
        deltas.taken(PoolOffset(4096 + 56), 16, |at, words| words.fill(at.0));
        let mut other = Deltas::default();
        other.commit(8);
        other.given_back(PoolOffset(64), 72, |_, words| words.fill(9));
        other.word(PoolOffset(208), 4, 5);
        deltas.append(&mut other);
        assert_eq!((other.places().next(), other.since()), (None, None));
        assert_eq!(deltas.since(), Some(7));

        let with = |words: &[(usize, u64)]| {
            let mut line = [0; 8];
            words.iter().for_each(|(at, word)| line[*at] = *word);
            line
        };
        let all: Vec<_> =
            deltas.places().map(|(line, place)| (line.0, deltas.get(place))).collect();
        let delta = |kind, old, new| Delta { kind, old, new };
        assert_eq!(
            all,
            [
                (1 << 36, delta(Kind::Change, with(&[(0, 1), (7, 1)]), with(&[(0, 2), (7, 3)]))),
                (64, delta(Kind::Joins, [0; 8], with(&[(7, 4152)]))),
                (65, delta(Kind::Joins, [0; 8], with(&[(0, 4160)]))),
                (1, delta(Kind::Leaves, [9; 8], [0; 8])),
                (2, delta(Kind::LeavesInPart, with(&[(0, 9)]), [0; 8])),
                (3, delta(Kind::Change, with(&[(2, 4)]), with(&[(2, 5)]))),
            ]
        );
        deltas.clear();
        assert_eq!((deltas.places().next(), deltas.since()), (None, None));
    }
}
