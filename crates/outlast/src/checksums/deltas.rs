//! What commits change in the sums, as their lane writes it down.
//!
//! Line by line: by how much each of its words grows, and the CRC-8 of what is flipped in it. All
//! of it only adds up, so neither the order of lanes nor that within a commit matters.

use outlast_matrix::{Line, Vector};
use outlast_trace::{LINE_BYTES, LineAddr, PoolOffset, line_pieces};

use crate::layout::POOL_BYTES_MAX;
use crate::lines::{runs, word_mask};

/// A word that opens an entry: what it is in the two highest bits, then the line, the CRC-8, and
/// the mask of the line's words that follow, from the lowest bit on.
const KIND_SHIFT: u32 = 62;
const LINE_SHIFT: u32 = 16;
const CRC_SHIFT: u32 = 8;
const _: () = assert!(POOL_BYTES_MAX / LINE_BYTES <= 1 << (KIND_SHIFT - LINE_SHIFT));

/// What an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Words change.
    Change,
    /// A block is taken: its words come into the sums, on a line that becomes a member.
    Joins,
    /// A block is given back: its words leave the sums, on a line that is a member no more.
    Leaves,
    /// The same on a line that other blocks may share.
    LeavesInPart,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Change, Self::Joins, Self::Leaves, Self::LeavesInPart];
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delta<'a> {
    pub kind: Kind,
    /// CRC-8 of the line's old words, as far as they are in the sums, exclusive-or the new ones.
    pub crc: u8,
    mask: u8,
    words: &'a [u64],
}

impl Delta<'_> {
    /// Adds the growth of each word to a sum of such.
    #[inline]
    pub fn add_to(&self, sum: &mut Line) {
        let mut rest = self.words;
        for (first, count) in runs(self.mask) {
            let (run, behind) = rest.split_at(count as usize);
            for (sum, word) in sum[first as usize..].iter_mut().zip(run) {
                *sum = sum.wrapping_add(*word);
            }
            rest = behind;
        }
    }
}

/// Entries, one behind the other.
#[derive(Default)]
pub(crate) struct Deltas {
    words: Vec<u64>,
    /// The first commit of which there is an entry.
    since: Option<u64>,
    /// Entries whose CRC is not there yet, and what is flipped in their lines: CRCs are computed
    /// together, and later than what they are of was stored, which a vector would wait for.
    open: Vec<usize>,
    flipped: Vec<Line>,
    crcs: Vec<u8>,
}

impl Deltas {
    pub fn is_clear(&self) -> bool {
        self.since.is_none() && self.words.is_empty() && self.open.is_empty()
    }

    pub fn clear(&mut self) {
        if self.is_clear() {
            return;
        }
        self.words.clear();
        self.open.clear();
        self.flipped.clear();
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
    #[inline]
    pub fn line(&mut self, line: LineAddr, mask: u8, old: &Line, new: &Line) {
        self.entry(Kind::Change, line, mask, old, new);
    }

    /// One word changes.
    pub fn word(&mut self, at: PoolOffset, old: u64, new: u64) {
        let word = at.in_line() / 8;
        let only = |content: u64| std::array::from_fn(|i| if i == word { content } else { 0 });
        self.entry(Kind::Change, at.line(), 1 << word, &only(old), &only(new));
    }

    /// A block is taken; `load` reads its words from that offset on.
    pub fn taken(&mut self, at: PoolOffset, bytes: u64, load: impl Fn(PoolOffset, &mut [u64])) {
        for_each_line(at, bytes, load, |line, mask, content| {
            self.entry(Kind::Joins, line, mask, &[0; 8], content);
        });
    }

    /// A block is given back; `load` reads its words from that offset on.
    pub fn given_back(
        &mut self,
        at: PoolOffset,
        bytes: u64,
        load: impl Fn(PoolOffset, &mut [u64]),
    ) {
        for_each_line(at, bytes, load, |line, mask, content| {
            let kind = if mask == 0xff { Kind::Leaves } else { Kind::LeavesInPart };
            self.entry(kind, line, mask, content, &[0; 8]);
        });
    }

    /// Words of `mask` that stay what they were take no room, and none at all only where the line's
    /// membership changes.
    #[inline]
    fn entry(&mut self, kind: Kind, line: LineAddr, mask: u8, old: &Line, new: &Line) {
        let (mut growth, mut flipped, mut changed) = ([0; 8], [0; 8], 0);
        for word in 0..8 {
            let counts = u64::from(mask >> word & 1).wrapping_neg();
            growth[word] = new[word].wrapping_sub(old[word]) & counts;
            flipped[word] = (new[word] ^ old[word]) & counts;
            changed |= u8::from(flipped[word] != 0) << word;
        }
        if changed == 0 && matches!(kind, Kind::Change | Kind::LeavesInPart) {
            return;
        }
        self.open.push(self.words.len());
        self.flipped.push(flipped);
        let head = (kind as u64) << KIND_SHIFT | line.0 << LINE_SHIFT | u64::from(changed);
        let mut entry = [head; 9];
        let mut len = 1;
        for (first, count) in runs(changed) {
            let (first, count) = (first as usize, count as usize);
            entry[len..len + count].copy_from_slice(&growth[first..first + count]);
            len += count;
        }
        self.words.extend_from_slice(&entry[..len]);
    }

    /// Moves all entries of `other`, of later commits, behind these.
    pub fn append(&mut self, other: &mut Self) {
        other.compute_crcs();
        self.words.append(&mut other.words);
        self.since = self.since.or(other.since.take());
        other.since = None;
    }

    fn compute_crcs(&mut self) {
        self.crcs.resize(self.flipped.len(), 0);
        Vector::best().crc8_each(&self.flipped, &mut self.crcs);
        for (at, crc) in self.open.drain(..).zip(&self.crcs) {
            self.words[at] |= u64::from(*crc) << CRC_SHIFT;
        }
        self.flipped.clear();
    }

    /// The line of every entry, and where the entry stands.
    pub fn places(&self) -> impl Iterator<Item = (LineAddr, usize)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let head = *self.words.get(at)?;
            let line = head & ((1 << KIND_SHIFT) - 1);
            let place = (LineAddr(line >> LINE_SHIFT), at);
            at += 1 + (head as u8).count_ones() as usize;
            Some(place)
        })
    }

    /// The entry that stands there, of those that were appended.
    #[inline]
    pub fn get(&self, place: usize) -> Delta<'_> {
        let head = self.words[place];
        let mask = head as u8;
        let words = &self.words[place + 1..][..mask.count_ones() as usize];
        let kind = Kind::ALL[(head >> KIND_SHIFT) as usize];
        Delta { kind, crc: (head >> CRC_SHIFT) as u8, mask, words }
    }
}

/// Each line that a block covers, with the mask and the content of its words there.
fn for_each_line(
    at: PoolOffset,
    bytes: u64,
    load: impl Fn(PoolOffset, &mut [u64]),
    mut visit: impl FnMut(LineAddr, u8, &Line),
) {
    for (piece, len) in line_pieces(at, bytes as usize) {
        let mut content = [0; 8];
        load(piece, &mut content[piece.in_line() / 8..][..len / 8]);
        visit(piece.line(), word_mask(piece.in_line(), piece.in_line() + len), &content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_matrix::crc8;

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
        deltas.taken(PoolOffset(576), 64, |_, words| words.fill(0));
        let mut all = Deltas::default();
        all.append(&mut deltas);
        let mut deltas = all;
        let mut other = Deltas::default();
        other.commit(8);
        other.given_back(PoolOffset(64), 72, |_, words| words.fill(9));
        other.word(PoolOffset(208), 4, 5);
        deltas.append(&mut other);
        assert_eq!((other.places().next(), other.since()), (None, None));
        assert_eq!(deltas.since(), Some(7));

        let found: Vec<_> = deltas
            .places()
            .map(|(line, place)| {
                let delta = deltas.get(place);
                let mut growth = [0; 8];
                delta.add_to(&mut growth);
                (line.0, delta.kind, growth, delta.crc)
            })
            .collect();
        let with = |words: &[(usize, u64)]| {
            let mut line = [0; 8];
            words.iter().for_each(|(word, content)| line[*word] = *content);
            line
        };
        let (zero, minus) = ([0; 8], 9u64.wrapping_neg());
        let right = [
            (1 << 36, Kind::Change, with(&[(0, 1), (7, 2)]), crc8(&with(&[(0, 3), (7, 2)]))),
            (64, Kind::Joins, with(&[(7, 4152)]), crc8(&with(&[(7, 4152)]))),
            (65, Kind::Joins, with(&[(0, 4160)]), crc8(&with(&[(0, 4160)]))),
            (9, Kind::Joins, zero, 0),
            (1, Kind::Leaves, [minus; 8], crc8(&[9; 8])),
            (2, Kind::LeavesInPart, with(&[(0, minus)]), crc8(&with(&[(0, 9)]))),
            (3, Kind::Change, with(&[(2, 1)]), crc8(&with(&[(2, 1)]))),
        ];
        assert_eq!(found, right);
        deltas.clear();
        assert_eq!((deltas.places().next(), deltas.since()), (None, None));
    }
}
