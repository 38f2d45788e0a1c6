//! What shadow sub-paging keeps in memory.
//!
//! ```text
//!  entry of the table, four in a line     record of the journal, three in a header
//! +-------------+-----------+---------+  +-------------+-------+---------+
//! | primary + 1 | other + 1 | bitmap  |  | page        | other | bitmap  |  of a transaction
//! +-------------+-----------+---------+  | page        | page  | 0       |  of a consolidation
//!   32            32          64         | 2^32 - 1    | 0     | number  |  of a fall-back
//!                                        +-------------+-------+---------+
//!                                          32            32      64
//! ```
//!
//! A bit of the bitmap says that a line is in the page's other physical page. An entry of zeroes is a
//! page at home; where the bitmap is 0 there is no other page, whatever the entry says. So each
//! physical page, home or shadow, is one page's primary, or another's other, or free.

use outlast_sim::LineBytes;
use outlast_trace::LineAddr;

use crate::image::Image;
use crate::shared::ring::{Rings, WORDS};

/// Lines of a page.
pub(super) const LINES: u64 = 64;
/// Entries of a line of the table.
const ENTRIES: u64 = 4;
/// Records of a header of the journal.
pub(super) const RECORDS: usize = WORDS / 2;
/// In a record's place of a page: it says that a transaction which fell back to logging has ended.
pub(super) const FELL_BACK: u32 = u32::MAX;
/// No physical page.
pub(super) const NONE: u32 = u32::MAX;

/// Where everything lies: shadow pages behind the program's, the journal, the table, then for each
/// lane a header and records of old lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// The program's pages.
    pub(super) pages: u64,
    /// Shadow pages.
    pub(super) shadows: u64,
    /// The journal: a ring for each lane, and one for consolidations.
    pub(super) journal: Rings,
    /// Old lines that each lane may log.
    pub(super) undo: u64,
}

impl Layout {
    /// The first line of what is no page.
    pub(super) fn journal_base(pages: u64, shadows: u64) -> LineAddr {
        LineAddr((pages + shadows) * LINES)
    }

    fn table(self) -> LineAddr {
        self.journal.base.plus(self.journal.lines())
    }

    /// The table's line with a page's entry.
    pub(super) fn table_line(self, page: u32) -> LineAddr {
        self.table().plus(u64::from(page) / ENTRIES)
    }

    /// The first page of that line.
    pub(super) fn first_of_line(page: u32) -> u32 {
        page - page % ENTRIES as u32
    }

    fn headers(self) -> LineAddr {
        self.table().plus(self.pages.div_ceil(ENTRIES))
    }

    /// Lanes.
    pub(super) fn lanes(self) -> u64 {
        self.journal.rings - 1
    }

    /// The ring of consolidations.
    pub(super) fn background(self) -> usize {
        self.lanes() as usize
    }

    /// A lane's header: its last transaction that fell back to logging and has ended.
    pub(super) fn header(self, lane: usize) -> LineAddr {
        self.headers().plus(lane as u64)
    }

    /// A lane's record of an old line; the line follows it.
    pub(super) fn old_line(self, lane: usize, number: u64) -> LineAddr {
        self.headers().plus(self.lanes() + 2 * (lane as u64 * self.undo + number))
    }

    /// Lines of all, the program's included.
    pub(super) fn lines(self) -> u64 {
        self.headers().0 + self.lanes() * (1 + 2 * self.undo)
    }

    /// A page's entry in an image.
    pub(super) fn entry(self, image: Image<'_>, page: u32) -> Entry {
        let line = self.table_line(page);
        let place = 2 * (u64::from(page) % ENTRIES);
        Entry::decode(page, image.word(line, place), image.word(line, place + 1))
    }
}

/// Where a page lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// The physical page of lines without a bit.
    pub(super) primary: u32,
    /// That of lines with one, or none.
    pub(super) other: u32,
    pub(super) bitmap: u64,
}

impl Entry {
    /// A page at home.
    pub(super) fn home(page: u32) -> Self {
        Self { primary: page, other: NONE, bitmap: 0 }
    }

    fn decode(page: u32, place: u64, bitmap: u64) -> Self {
        let of = |word: u32, none| if word == 0 { none } else { word - 1 };
        let primary = of(place as u32, page);
        let other = if bitmap == 0 { NONE } else { of((place >> 32) as u32, NONE) };
        Self { primary, other, bitmap }
    }

    /// Its words in the table.
    pub(super) fn encode(self) -> [u64; 2] {
        let other = if self.bitmap == 0 { 0 } else { self.other.wrapping_add(1) };
        [u64::from(self.primary + 1) | u64::from(other) << 32, self.bitmap]
    }

    /// Where a line of the page lies.
    #[inline]
    pub(super) fn place(self, line: LineAddr) -> LineAddr {
        let at = line.0 % LINES;
        let page = if self.bitmap >> at & 1 == 1 { self.other } else { self.primary };
        LineAddr(u64::from(page) * LINES + at)
    }
}

/// One record of the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) page: u32,
    pub(super) other: u32,
    pub(super) bitmap: u64,
}

impl Record {
    /// Records in the words of a header.
    pub(super) fn encode(records: &[Self]) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        for (place, record) in words.chunks_exact_mut(2).zip(records) {
            place[0] = u64::from(record.page) | u64::from(record.other) << 32;
            place[1] = record.bitmap;
        }
        words
    }

    /// The record with this number in the words of a header.
    pub(super) fn decode(words: &[u64; WORDS], number: usize) -> Self {
        let place = words[2 * number];
        Self { page: place as u32, other: (place >> 32) as u32, bitmap: words[2 * number + 1] }
    }
}

/// A line of these words.
pub(super) fn words(values: &[u64]) -> LineBytes {
    let mut line = [0; 64];
    for (place, value) in line.as_chunks_mut::<8>().0.iter_mut().zip(values) {
        *place = value.to_le_bytes();
    }
    line
}
