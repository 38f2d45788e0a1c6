//! What lies where in persistent memory, and what a block of the log is.
//!
//! ```text
//!  program's lines | registers, core by core | header | log: blocks, one behind the other
//!
//!  header                                          block of n entries: h = ⌈(4 + n) / 8⌉ lines, then n
//! +--------------+----------------+---------+--    +----------+------------+-------------+----------+--
//! | PersistedEID | first sequence | growths |      | sequence | base epoch | count, till | checksum |
//! +--------------+----------------+---------+--    +----------+------------+-------------+----------+--
//!                                                  | a word for each entry ...  | 64 bytes of each ... |
//!                                                  +----------------------------+----------------------+
//!  an entry's word: line in 34 bits, ValidFrom in 15, ValidTill in 15, both from the base epoch on
//! ```
//!
//! 28 entries fill 2 KB to the byte: four lines and 28. The base epoch is wide, so numbers in the log
//! never wrap; *till* is the greatest `ValidTill` of the block. The checksum covers all the rest, so a
//! block of which a part is missing is none. Blocks before the header's first sequence are none either:
//! a recovery has used them.

use outlast_sim::LineBytes;
use outlast_trace::LineAddr;

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

/// An undo entry: the content of a line for recovery to any epoch from `from` on and before `till`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The line.
    pub line: LineAddr,
    /// `ValidFrom`.
    pub from: u64,
    /// `ValidTill`.
    pub till: u64,
    /// The line's old bytes.
    pub data: LineBytes,
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
    /// Entries of a block.
    pub(super) entries: u64,
    /// Blocks that the operating system adds at a time, and how often it does behind the first.
    pub(super) chunk: u64,
    pub(super) growths: u64,
    /// Blocks of a super block.
    pub(super) super_blocks: u64,
}

/// Bytes of a block of so many entries.
pub(super) const fn block_bytes(entries: u64) -> u64 {
    64 * (entries + header_lines(entries))
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
        self.header().plus(1 + number * block_bytes(self.entries) / 64)
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
            *word = line.0 | short(from) << LINE_BITS | short(till) << (LINE_BITS + EPOCH_BITS);
        }
        words[3] = sum_of(&words, entries.iter().map(|entry| &entry.data));
        let mut lines: Vec<LineBytes> = words.chunks(8).map(line_of).collect();
        lines.extend(entries.iter().map(|entry| entry.data));
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
        let entry = |number: u64| {
            let word = words[(BLOCK_WORDS + number) as usize];
            Entry {
                line: LineAddr(word & ((1 << LINE_BITS) - 1)),
                from: epoch(word, LINE_BITS),
                till: epoch(word, LINE_BITS + EPOCH_BITS),
                data: *image.line(place.plus(head + number)),
            }
        };
        let entries: Vec<Entry> = (0..count).map(entry).collect();
        let till = base.wrapping_add(words[2] >> 32);
        let kept = std::mem::take(&mut words[3]);
        let is_whole = kept == sum_of(&words, entries.iter().map(|entry| &entry.data));
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

/// Of a block's header, whose own checksum is 0, and its data.
fn sum_of<'a>(words: &[u64], data: impl Iterator<Item = &'a LineBytes>) -> u64 {
    let data = data.flat_map(|line| line.as_chunks::<8>().0).map(|word| u64::from_le_bytes(*word));
    checksum(words.iter().copied().chain(data))
}
