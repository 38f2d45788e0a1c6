//! What lies where in persistent memory, and what its words mean.
//!
//! ```text
//!  blocks of the program | spare blocks | map: a word for each of both, eight a line
//!  a header for each lane | reclaim lists, lane by lane | overflow logs, lane by lane
//!
//!  word of the map          the block that this one's data lies in (or, of a spare one, the block
//!                           that is free in its stead), exclusive-or its own number; all ones: taken
//! +----------------+----------------+
//! | begun          | ended          |  header: transactions whose commit is durable, and that ended
//! +----------------+----------------+
//! | tx     | block | slot   | new   |  record of a reclaim list or log: four to a line, 32-bit numbers
//! +----------------+----------------+
//! ```
//!
//! Zeroed memory is a map with every block at home and every spare one free.

use outlast_sim::LineBytes;
use outlast_trace::LineAddr;

/// Words of the map in a line.
pub(super) const WORDS: u64 = 8;
/// Records in a line.
pub(super) const RECORDS: u64 = 4;
/// A spare block's word when what it names is in use by a transaction that runs.
pub(super) const TAKEN: u64 = u64::MAX;

/// Places of everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// The first line behind the program's.
    pub(super) end: LineAddr,
    /// Lines of a block.
    pub(super) block_lines: u64,
    /// Blocks of the program and spare ones, both in whole lines of the map.
    pub(super) blocks: u64,
    pub(super) spares: u64,
    pub(super) lanes: u64,
    /// Records of each lane's reclaim list and overflow log, in whole lines.
    pub(super) reclaimed: u64,
    pub(super) logged: u64,
}

impl Layout {
    /// Blocks that there are.
    pub(super) fn all(self) -> u64 {
        self.blocks + self.spares
    }

    /// The line of the map with a block's word.
    pub(super) fn map_line(self, block: u64) -> LineAddr {
        LineAddr(self.all() * self.block_lines + block / WORDS)
    }

    /// A lane's header.
    pub(super) fn header(self, lane: u64) -> LineAddr {
        LineAddr(self.all() * self.block_lines + self.all() / WORDS + lane)
    }

    /// The line of a lane's reclaim list with this record.
    pub(super) fn reclaim_line(self, lane: u64, record: u64) -> LineAddr {
        let lists = self.header(self.lanes);
        lists.plus(lane * (self.reclaimed / RECORDS) + record / RECORDS)
    }

    /// The line of a lane's overflow log with this record.
    pub(super) fn log_line(self, lane: u64, record: u64) -> LineAddr {
        let logs = self.reclaim_line(self.lanes, 0);
        logs.plus(lane * (self.logged / RECORDS) + record / RECORDS)
    }

    /// Lines in all.
    pub(super) fn lines(self) -> u64 {
        self.log_line(self.lanes, 0).0
    }

    /// The block of a program's line.
    #[inline]
    pub(super) fn block_of(self, line: LineAddr) -> u64 {
        line.0 / self.block_lines
    }

    /// A line of a block as it lies in another one.
    #[inline]
    pub(super) fn line_in(self, block: u64, line: LineAddr) -> LineAddr {
        LineAddr(block * self.block_lines + line.0 % self.block_lines)
    }
}

/// What a transaction that runs has put where: of a block, the new one, and the spare block whose
/// word named that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) tx: u32,
    pub(super) block: u32,
    pub(super) slot: u32,
    pub(super) new: u32,
}

impl Record {
    pub(super) fn words(self) -> [u64; 2] {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        [pair(self.tx, self.block), pair(self.slot, self.new)]
    }

    pub(super) fn from_words([first, second]: [u64; 2]) -> Self {
        Self {
            tx: (first >> 32) as u32,
            block: first as u32,
            slot: (second >> 32) as u32,
            new: second as u32,
        }
    }

    /// The words of its line that it takes, and the line with them.
    pub(super) fn in_line(self, record: u64) -> (u8, LineBytes) {
        words_in_line(2 * (record % RECORDS), &self.words())
    }
}

/// A line with some words from this one on, and which they are.
pub(super) fn words_in_line(first: u64, words: &[u64]) -> (u8, LineBytes) {
    let (mut mask, mut data): (u8, LineBytes) = (0, [0; 64]);
    for (place, word) in (first as usize..).zip(words) {
        mask |= 1 << place;
        data[8 * place..][..8].copy_from_slice(&word.to_le_bytes());
    }
    (mask, data)
}
