//! The differences that commits make to the sums, as their lane writes them down.
//!
//! Line by line: by how much each of its words grows, and the CRC-8 of what is flipped in it. All
//! of it only adds up, so neither the order of lanes nor that within a commit matters.

use outlast_matrix::{Line, Vector};
use outlast_trace::{LINE_BYTES, LineAddr, PoolOffset, line_pieces};

use crate::layout::POOL_BYTES_MAX;
use crate::lines::word_mask;

/// A word that opens an entry: what it is in the two highest bits, then the line, the CRC-8, and
/// the mask of the line's words that follow, from the lowest bit on.
const KIND_SHIFT: u32 = 62;
const LINE_SHIFT: u32 = 16;
const CRC_SHIFT: u32 = 8;
const _: () = assert!(POOL_BYTES_MAX / LINE_BYTES <= 1 << (KIND_SHIFT - LINE_SHIFT));

/// Words of the longest entry. Behind the last one there is always room for what it does not have.
const ENTRY_WORDS: usize = 9;

/// Bytes of a lane's differences with which they are added up, whatever the floor does.
const GATHERED_BYTES_MAX: usize = 1 << 20;

/// The word without CRC and mask.
fn head(kind: Kind, line: LineAddr) -> u64 {
    (kind as u64) << KIND_SHIFT | line.0 << LINE_SHIFT
}

/// The kind of an entry.
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
    /// Which words grow.
    pub mask: u8,
    /// By how much, one behind the other.
    pub growth: &'a Line,
}

/// Entries, one behind the other.
#[derive(Default)]
pub(crate) struct Deltas {
    words: Vec<u64>,
    /// How many of them are entries.
    len: usize,
    /// The first commit of which there is an entry.
    since: Option<u64>,
    // The fields below are kept for their memory.
    heads: Vec<u64>,
    loaded: Vec<Line>,
}

/// Which end of a change is to be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loads {
    Old,
    New,
}

impl Deltas {
    pub fn clear(&mut self) {
        self.len = 0;
        self.since = None;
    }

    /// Entries from here on belong to the commit of this counter, which is above those before.
    pub fn commit(&mut self, counter: u64) {
        self.since.get_or_insert(counter);
    }

    /// The first commit of which there is an entry, or may be one.
    pub fn since(&self) -> Option<u64> {
        self.since
    }

    /// Whether there is enough to be added up without need.
    pub fn is_much(&self) -> bool {
        self.len * size_of::<u64>() > GATHERED_BYTES_MAX
    }

    /// Words of lines change, those of a mask. One end of it, whole lines of which only these words
    /// count, is at hand; the other one is loaded.
    #[inline]
    pub fn lines(
        &mut self,
        changes: impl Iterator<Item = (LineAddr, u8)>,
        at_hand: &[Line],
        loads: Loads,
        load: impl Fn(LineAddr, &mut Line),
    ) {
        self.heads.clear();
        if self.loaded.len() < at_hand.len() {
            self.loaded.resize(at_hand.len(), [0; 8]);
        }
        for ((line, mask), content) in changes.zip(&mut self.loaded[..at_hand.len()]) {
            if mask != 0 {
                load(line, content);
            }
            self.heads.push(head(Kind::Change, line) | u64::from(mask));
        }
        let need = self.len + self.heads.len() * ENTRY_WORDS;
        if self.words.len() < need {
            self.make_room(need);
        }
        let loaded = &self.loaded[..self.heads.len()];
        let (old, new) = match loads {
            Loads::Old => (loaded, at_hand),
            Loads::New => (at_hand, loaded),
        };
        let out = &mut self.words[self.len..];
        self.len += Vector::best().pack_each(&self.heads, old, new, out);
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
        if self.words.len() < self.len + ENTRY_WORDS {
            self.make_room(self.len + ENTRY_WORDS);
        }
        let Some([first, growth @ ..]) = self.words[self.len..].first_chunk_mut::<ENTRY_WORDS>()
        else {
            return;
        };
        let (changed, crc) = Vector::best().difference(old, new, mask, growth);
        if changed == 0 && matches!(kind, Kind::Change | Kind::LeavesInPart) {
            return;
        }
        *first = head(kind, line) | u64::from(crc) << CRC_SHIFT | u64::from(changed);
        self.len += 1 + changed.count_ones() as usize;
    }

    #[cold]
    fn make_room(&mut self, words: usize) {
        const WORDS_FIRST: usize = 512;
        self.words.resize(words.next_power_of_two().max(WORDS_FIRST), 0);
    }

    /// The line of every entry, and where the entry stands.
    pub fn places(&self) -> impl Iterator<Item = (LineAddr, usize)> + '_ {
        let (words, mut at) = (&self.words[..self.len], 0);
        std::iter::from_fn(move || {
            let head = *words.get(at)?;
            let line = head & ((1 << KIND_SHIFT) - 1);
            let place = (LineAddr(line >> LINE_SHIFT), at);
            at += 1 + (head as u8).count_ones() as usize;
            Some(place)
        })
    }

    /// The entry that stands there.
    #[inline]
    pub fn get(&self, place: usize) -> Delta<'_> {
        let entry = self.words[place..].first_chunk::<ENTRY_WORDS>();
        let [head, growth @ ..] = entry.expect("room for a whole entry behind each");
        let kind = Kind::ALL[(head >> KIND_SHIFT) as usize];
        Delta { kind, crc: (head >> CRC_SHIFT) as u8, mask: *head as u8, growth }
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
        let changes = [(LineAddr(1 << 36), 0b1001_0001), (LineAddr(3), 0b0111_0000)];
        deltas.lines(changes.into_iter(), &[new; 2], Loads::Old, |_, content| *content = old);
        let change = [(LineAddr(5), 0b1)].into_iter();
        deltas.lines(change, &[old], Loads::New, |_, content| *content = new);
        deltas.taken(PoolOffset(4096 + 56), 16, |at, words| words.fill(at.0));
        deltas.taken(PoolOffset(576), 64, |_, words| words.fill(0));
        deltas.commit(8);
        deltas.given_back(PoolOffset(64), 72, |_, words| words.fill(9));
        deltas.word(PoolOffset(208), 4, 5);
        assert_eq!(deltas.since(), Some(7));

        let found: Vec<_> = deltas
            .places()
            .map(|(line, place)| {
                let delta = deltas.get(place);
                let [mut one, mut other] = [[0; 8]; 2];
                let vector = Vector::best();
                vector.add_packed([&mut one, &mut other], delta.mask, delta.growth);
                (line.0, delta.kind, one, delta.crc)
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
            (5, Kind::Change, with(&[(0, 1)]), crc8(&with(&[(0, 3)]))),
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
