//! Where copies, the directory and the commit record lie, and what their words say.
//!
//! ```text
//!  record          directory: an entry a word          copies of lines    copies of pages
//! +--------+----+ +----------+----------+-- ... --+   +---------+-- ---+ +---------+-- ---+
//! | commit | 0s | | entry 0  | entry 1  |         |   | 64 B    | ...  | | 4 KiB   | ...  |
//! +--------+----+ +----------+----------+-- ... --+   +---------+-- ---+ +---------+-- ---+
//!
//!  commit:  63        24 23        0      entry:  63    62     40 39          0
//!          +------------+-----------+            +-----+---------+-------------+
//!          | epoch      | entries   |            | page | slot   | home        |
//!          +------------+-----------+            +-----+---------+-------------+
//! ```
//!
//! A commit is one word, so that no torn write of its line shows half of it. Homes and slots are
//! numbers of lines, or of pages where the first bit is set.

use outlast_trace::LineAddr;

/// Lines of a page.
pub(crate) const PAGE_LINES: u64 = 64;

/// Words of a line, and entries of a directory's.
pub(super) const WORDS: u64 = 8;

const HOME_BITS: u32 = 40;
const SLOT_BITS: u32 = 23;
const ENTRIES_BITS: u32 = 24;

/// Copies that there may be.
pub(crate) const SLOTS_MAX: u64 = 1 << SLOT_BITS;

/// What a copy is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grain {
    Line,
    Page,
}

/// A copy and its home, each by its number among lines or pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) grain: Grain,
    pub(crate) slot: u32,
    pub(crate) home: u64,
}

impl Entry {
    pub(crate) fn line(line: LineAddr, slot: u32) -> Self {
        Self { grain: Grain::Line, slot, home: line.0 }
    }

    pub(crate) fn page(page: u64, slot: u32) -> Self {
        Self { grain: Grain::Page, slot, home: page }
    }

    pub(super) fn to_word(self) -> u64 {
        debug_assert!(self.home < 1 << HOME_BITS && u64::from(self.slot) < 1 << SLOT_BITS);
        let is_page = u64::from(self.grain == Grain::Page);
        is_page << 63 | u64::from(self.slot) << HOME_BITS | self.home
    }

    pub(super) fn from_word(word: u64) -> Self {
        let grain = if word >> 63 == 0 { Grain::Line } else { Grain::Page };
        let slot = (word >> HOME_BITS) as u32 & ((1 << SLOT_BITS) - 1);
        Self { grain, slot, home: word & ((1 << HOME_BITS) - 1) }
    }

    /// The first line of its home.
    pub(super) fn home_line(self) -> LineAddr {
        LineAddr(self.home * self.lines())
    }

    /// Its lines.
    pub(super) fn lines(self) -> u64 {
        match self.grain {
            Grain::Line => 1,
            Grain::Page => PAGE_LINES,
        }
    }
}

/// What the record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Commit {
    /// The last epoch that has committed.
    pub(super) epoch: u64,
    /// Its copies that may not be in their homes.
    pub(super) entries: u64,
}

impl Commit {
    pub(super) fn to_word(self) -> u64 {
        debug_assert!(self.entries < 1 << ENTRIES_BITS && self.epoch < 1 << HOME_BITS);
        self.epoch << ENTRIES_BITS | self.entries
    }

    pub(super) fn from_word(word: u64) -> Self {
        Self { epoch: word >> ENTRIES_BITS, entries: word & ((1 << ENTRIES_BITS) - 1) }
    }
}

/// The lines of a scheme with redo copies, behind those that it makes checkpoints of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// The first of them, at the begin of a page.
    base: LineAddr,
    /// Copies of lines and of pages.
    line_slots: u64,
    page_slots: u64,
}

impl Layout {
    /// Behind the lines up to `end`.
    pub(crate) fn behind(end: LineAddr, line_slots: u64, page_slots: u64) -> Self {
        let base = LineAddr(end.0.next_multiple_of(PAGE_LINES));
        Self { base, line_slots, page_slots }
    }

    pub(super) fn record(self) -> LineAddr {
        self.base
    }

    /// Entries that the directory has room for.
    pub(super) fn entries(self) -> u64 {
        self.line_slots + self.page_slots
    }

    /// A line of the directory.
    pub(super) fn directory(self, number: u64) -> LineAddr {
        self.base.plus(1 + number)
    }

    /// A line's copy.
    #[inline]
    pub(crate) fn line_slot(self, slot: u32) -> LineAddr {
        debug_assert!(u64::from(slot) < self.line_slots, "copy {slot} of a line");
        self.directory(self.entries().div_ceil(WORDS)).plus(slot.into())
    }

    /// The first line of a page's copy.
    #[inline]
    pub(crate) fn page_slot(self, slot: u32) -> LineAddr {
        debug_assert!(u64::from(slot) < self.page_slots, "copy {slot} of a page");
        self.pages().plus(PAGE_LINES * u64::from(slot))
    }

    fn pages(self) -> LineAddr {
        let behind = self.directory(self.entries().div_ceil(WORDS)).plus(self.line_slots);
        LineAddr(behind.0.next_multiple_of(PAGE_LINES))
    }

    /// The first line of an entry's copy.
    pub(super) fn copy(self, entry: Entry) -> LineAddr {
        match entry.grain {
            Grain::Line => self.line_slot(entry.slot),
            Grain::Page => self.page_slot(entry.slot),
        }
    }

    /// Whether an entry is one that the scheme may have written.
    pub(super) fn has(self, entry: Entry) -> bool {
        let slots = match entry.grain {
            Grain::Line => self.line_slots,
            Grain::Page => self.page_slots,
        };
        u64::from(entry.slot) < slots && entry.home_line().plus(entry.lines()).0 <= self.base.0
    }

    /// The first line behind all of them.
    pub(crate) fn end(self) -> LineAddr {
        self.pages().plus(PAGE_LINES * self.page_slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_was_put_into_them() {
        for entry in [
            Entry::line(LineAddr(0), 0),
            Entry::line(LineAddr((1 << 40) - 1), (1 << 23) - 1),
            Entry::page(1 << 30, 4095),
        ] {
            assert_eq!(Entry::from_word(entry.to_word()), entry);
        }
        let commit = Commit { epoch: (1 << 40) - 1, entries: (1 << 24) - 1 };
        assert_eq!(Commit::from_word(commit.to_word()), commit);
        assert_eq!(Commit::from_word(0), Commit { epoch: 0, entries: 0 });
    }

    #[test]
    fn nothing_lies_upon_anything_else() {
        let layout = Layout::behind(LineAddr(100), 20, 3);
        assert_eq!(layout.record(), LineAddr(128));
        assert_eq!(layout.directory(2), LineAddr(131), "23 entries have three lines");
        assert_eq!((layout.line_slot(0), layout.line_slot(19)), (LineAddr(132), LineAddr(151)));
        assert_eq!((layout.page_slot(0), layout.page_slot(2)), (LineAddr(192), LineAddr(320)));
        assert_eq!(layout.end(), LineAddr(384));
        assert!(layout.has(Entry::page(1, 2)) && layout.has(Entry::line(LineAddr(127), 19)));
        for wrong in [Entry::page(2, 0), Entry::page(0, 3), Entry::line(LineAddr(128), 0)] {
            assert!(!layout.has(wrong), "{wrong:?}");
        }
    }
}
