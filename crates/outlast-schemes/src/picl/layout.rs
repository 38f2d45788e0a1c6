//! What lies where in persistent memory, and what a block of the log is.
//!
//! ```text
//!  program's lines | registers, core by core | header | log: blocks, one behind the other
//!
//!  header                                          block of n entries: h = ⌈(4 + n) / 8⌉ lines, then data
//! +--------------+----------------+---------+--    +----------+------------+-------------+----------+--
//! | PersistedEID | first sequence | growths |      | sequence | base epoch | count, till | checksum |
//! +--------------+----------------+---------+--    +----------+------------+-------------+----------+--
//!                                                  | a word for each entry ...  | old bytes of each .. |
//!                                                  +----------------------------+----------------------+
//!  an entry's word: granule in 34 bits, ValidFrom in 15, ValidTill in 15, both from the base epoch on
//! ```
//!
//! A granule is what an EID speaks of: a line, or a quarter of one. 28 entries of lines fill 2 KB to the
//! byte, four lines and 28; so do 84 of quarters, 11 lines and 21. The base epoch is wide, so numbers in the log
//! never wrap; *till* is the greatest `ValidTill` of the block. The checksum covers all the rest, so a
//! block of which a part is missing is none. Blocks before the header's first sequence are none either:
//! a recovery has used them.

use outlast_sim::LineBytes;
use outlast_trace::{LineAddr, PoolOffset};

use crate::image::Image;
use crate::shared::checksum;
use crate::shared::epoch::Registers;

/// Words of a block before those of its entries.
const BLOCK_WORDS: u64 = 4;
/// Bits of an entry's word that name the line, and one of its epochs.
const LINE_BITS: u32 = 34;
const EPOCH_BITS: u32 = 15;

/// Words of the header.
pub(super) const PERSISTED: u64 = 0;
pub(super) const FIRST: u64 = 1;
pub(super) const GROWTHS: u64 = 2;

/// What an EID speaks of, and an undo entry has the old bytes of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Granule {
    Line,
    Quarter,
}

/// Quarters of a line.
pub(super) const QUARTERS: usize = 4;

impl Granule {
    /// Those of a line.
    pub(super) const fn of_line(self) -> u64 {
        match self {
            Self::Line => 1,
            Self::Quarter => QUARTERS as u64,
        }
    }

    const fn bytes(self) -> u64 {
        64 / self.of_line()
    }

    /// The words of a line's granule of this number.
    pub(super) const fn words(self, number: u64) -> u8 {
        match self {
            Self::Line => u8::MAX,
            Self::Quarter => 0b11 << (2 * number),
        }
    }

    /// The number in its line of the granule with this byte.
    #[inline]
    pub(super) const fn number_of(self, at: PoolOffset) -> usize {
        match self {
            Self::Line => 0,
            Self::Quarter => (at.0 % 64 / 16) as usize,
        }
    }

    /// Entries of a block of 2 KB.
    pub(super) const fn usual_entries(self) -> u64 {
        match self {
            Self::Line => 28,
            Self::Quarter => 84,
        }
    }
}

/// An undo entry: the content of a line for recovery to any epoch from `from` on and before `till`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The line.
    pub line: LineAddr,
    /// The words of it that this is the content of, as bits: all, or those of a quarter.
    pub words: u8,
    /// `ValidFrom`.
    pub from: u64,
    /// `ValidTill`.
    pub till: u64,
    /// The line's old bytes; of other words than those, anything.
    pub data: LineBytes,
}

impl Entry {
    /// The granule's number in its line.
    fn number(&self) -> u64 {
        u64::from(self.words.trailing_zeros() / 2)
    }
}

/// A block as recovery reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Block {
    pub(super) sequence: u64,
    /// The greatest `till` of its entries.
    pub(super) till: u64,
    /// In the order in which they were made.
    pub(super) entries: Vec<Entry>,
}

/// The scheme's own lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) registers: Registers,
    pub(super) granule: Granule,
    /// Entries of a block.
    pub(super) entries: u64,
    /// Blocks that the operating system adds at a time, and how often it does behind the first.
    pub(super) chunk: u64,
    pub(super) growths: u64,
    /// Blocks of a super block.
    pub(super) super_blocks: u64,
}

/// Bytes of a block of `entries` entries.
pub(super) const fn block_bytes(granule: Granule, entries: u64) -> u64 {
    64 * (entries.div_ceil(granule.of_line()) + header_lines(entries))
}

const fn header_lines(entries: u64) -> u64 {
    (BLOCK_WORDS + entries).div_ceil(8)
}

impl Layout {
    pub(super) fn header(&self) -> LineAddr {
        self.registers.end()
    }

    pub(super) fn lines(&self) -> u64 {
        self.place(self.chunk * (1 + self.growths)).0
    }

    /// The first line of a block's place.
    pub(super) fn place(&self, number: u64) -> LineAddr {
        self.header().plus(1 + number * self.block_bytes() / 64)
    }

    pub(super) fn header_lines(&self) -> u64 {
        header_lines(self.entries)
    }

    pub(super) fn block_bytes(&self) -> u64 {
        block_bytes(self.granule, self.entries)
    }

    /// The lines of a block with these entries, one at least and no more than it holds.
    pub(super) fn encode(&self, sequence: u64, entries: &[Entry]) -> Vec<LineBytes> {
        let base = entries.iter().map(|entry| entry.from).min().unwrap_or(0);
        let till = entries.iter().map(|entry| entry.till).max().unwrap_or(0);
        let short = |epoch: u64| {
            let short = epoch - base;
            assert!(short >> EPOCH_BITS == 0, "epoch {epoch} is too far from {base}");
            short
        };
        let head = header_lines(self.entries) as usize;
        let mut words = vec![0; 8 * head];
        words[0] = sequence;
        words[1] = base;
        words[2] = entries.len() as u64 | short(till) << 32;
        for (word, entry) in words[BLOCK_WORDS as usize..].iter_mut().zip(entries) {
            let Entry { line, from, till, .. } = *entry;
            let granule = line.0 * self.granule.of_line() + entry.number();
            *word = granule | short(from) << LINE_BITS | short(till) << (LINE_BITS + EPOCH_BITS);
        }
        let bytes = self.granule.bytes() as usize;
        let mut data = vec![[0; 64]; entries.len().div_ceil(self.granule.of_line() as usize)];
        let places = data.as_flattened_mut().chunks_exact_mut(bytes);
        for (place, entry) in places.zip(entries) {
            place.copy_from_slice(&entry.data[entry.number() as usize * bytes..][..bytes]);
        }
        words[3] = checksum(&words, &data);
        let mut lines: Vec<LineBytes> = words.chunks(8).map(line_of).collect();
        lines.extend(data);
        lines
    }

    /// The block at a place, and whether it is whole. Nothing where its header cannot be one's.
    pub(super) fn decode(&self, image: Image<'_>, number: u64) -> Option<(Block, bool)> {
        let place = self.place(number);
        let head = header_lines(self.entries);
        let sequence = image.word(place, 0);
        let count = image.word(place, 2) & u64::from(u32::MAX);
        if sequence == 0 || count == 0 || count > self.entries {
            return None;
        }
        let mut words: Vec<u64> =
            (0..8 * head).map(|word| image.word(place.plus(word / 8), word % 8)).collect();
        let base = words[1];
        let epoch = |word: u64, by: u32| base.wrapping_add(word >> by & ((1 << EPOCH_BITS) - 1));
        let (of_line, bytes) = (self.granule.of_line(), self.granule.bytes() as usize);
        let held: Vec<LineBytes> = (0..count.div_ceil(of_line))
            .map(|number| *image.line(place.plus(head + number)))
            .collect();
        let entry = |number: u64| {
            let word = words[(BLOCK_WORDS + number) as usize];
            let granule = word & ((1 << LINE_BITS) - 1);
            let (line, part) = (LineAddr(granule / of_line), granule % of_line);
            let mut data = [0; 64];
            data[part as usize * bytes..][..bytes]
                .copy_from_slice(&held.as_flattened()[number as usize * bytes..][..bytes]);
            Entry {
                line,
                words: self.granule.words(part),
                from: epoch(word, LINE_BITS),
                till: epoch(word, LINE_BITS + EPOCH_BITS),
                data,
            }
        };
        let entries: Vec<Entry> = (0..count).map(entry).collect();
        let till = base.wrapping_add(words[2] >> 32);
        let kept = std::mem::take(&mut words[3]);
        // Its own checksum counts as 0.
        let is_whole = kept == checksum(&words, &held);
        Some((Block { sequence, till, entries }, is_whole))
    }
}

fn line_of(words: &[u64]) -> LineBytes {
    let mut line = [0; 64];
    for (place, word) in line.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    line
}
