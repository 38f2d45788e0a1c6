//! Writes that entered the persistence domain, in order, and the crash images that follow from them.
//!
//! A crash leaves the base image with the first so-many entries of the [`Journal`] applied. One
//! run therefore gives every crash image of its schedule under its cache policy, and an
//! [`ImageCursor`] walks through thousands of them for the price of applying each entry once.
//!
//! An entry holds only the words that changed, from the first to the last, so a run of ten
//! million operations stays in memory; it was still atomic as a whole line (rule 2).

use crate::hierarchy::Cause;
use outlast_trace::{LINE_BYTES, LineAddr};

/// Everything that became durable during one run, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Journal {
    entries: Vec<Entry>,
    words: Vec<[u8; 8]>,
    ops: u32,
    image_lines: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    op: u32,
    line: u32,
    words_at: u32,
    first_word: u8,
    words: u8,
    cause: Cause,
}

const _: () = assert!(size_of::<Entry>() == 16, "ten million entries are to fit in memory");

/// One entry of a [`Journal`]: bytes that became durable together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Persisted<'a> {
    /// The operation, counted from 0, during which it happened.
    pub op: usize,
    /// The line.
    pub line: LineAddr,
    /// The first word of it that changed, 0 to 7.
    pub first_word: usize,
    /// That word and those behind it, up to the last that changed.
    pub words: &'a [[u8; 8]],
    /// Why it happened.
    pub cause: Cause,
}

impl Journal {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing became durable.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of operations that the run had. What the driver wrote back after the last of
    /// them, at an orderly end, carries this number as its operation.
    pub fn ops(&self) -> usize {
        self.ops as usize
    }

    /// The length that an image must have: that of the base image, or more where the run stored
    /// behind its end. Bytes in between start as zero.
    pub fn image_bytes(&self) -> u64 {
        self.image_lines * LINE_BYTES
    }

    /// The entry at `index`.
    ///
    /// # Panics
    /// When `index` is not below [`len`](Self::len).
    #[inline]
    pub fn get(&self, index: usize) -> Persisted<'_> {
        let entry = &self.entries[index];
        Persisted {
            op: entry.op as usize,
            line: LineAddr(u64::from(entry.line)),
            first_word: usize::from(entry.first_word),
            words: &self.words[entry.words_at as usize..][..usize::from(entry.words)],
            cause: entry.cause,
        }
    }

    /// All entries, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Persisted<'_>> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    /// How many entries were there once the first `ops` operations were complete.
    pub fn entries_after(&self, ops: usize) -> usize {
        self.entries.partition_point(|entry| (entry.op as usize) < ops)
    }

    /// A cursor that stands before the first entry: at the base image.
    pub fn cursor(&self) -> ImageCursor<'_> {
        ImageCursor { journal: self, next: 0 }
    }

    /// Counts an operation; entries from here on carry the next number.
    ///
    /// # Panics
    /// When the run has 2^32 operations.
    #[inline]
    pub(crate) fn next_op(&mut self) {
        self.ops = self.ops.checked_add(1).expect("a journal numbers fewer than 2^32 operations");
    }

    /// Notes that images are at least this long.
    pub(crate) fn extend_images(&mut self, lines: u64) {
        self.image_lines = self.image_lines.max(lines);
    }

    /// Appends an entry of the line's words from `first` on.
    ///
    /// # Panics
    /// When the line is not below 2^32 (256 GiB), or the journal holds 2^32 words (32 GiB).
    #[inline]
    pub(crate) fn push(&mut self, line: LineAddr, first: usize, words: &[[u8; 8]], cause: Cause) {
        let words_at = u32::try_from(self.words.len()).expect("a journal holds under 32 GiB");
        self.words.extend_from_slice(words);
        self.entries.push(Entry {
            op: self.ops,
            line: u32::try_from(line.0).expect("a journal covers pools below 256 GiB"),
            words_at,
            first_word: first as u8,
            words: words.len() as u8,
            cause,
        });
    }
}

/// Walks through the crash images of a [`Journal`] in ascending order, on an image that the
/// caller keeps: it starts as the base image, and only the cursor may change it.
#[derive(Clone, Debug)]
pub struct ImageCursor<'j> {
    journal: &'j Journal,
    next: usize,
}

impl<'j> ImageCursor<'j> {
    /// How many entries the image has.
    pub fn entries(&self) -> usize {
        self.next
    }

    /// The entry that comes next, if there is one.
    pub fn peek(&self) -> Option<Persisted<'j>> {
        (self.next < self.journal.len()).then(|| self.journal.get(self.next))
    }

    /// Turns the image into that of a crash right after the first `ops` operations, and calls
    /// `touched` with each line that changed, once for each entry. An acknowledgement at
    /// operation `n` counts from `ops = n + 1` on.
    ///
    /// # Panics
    /// When the image is shorter than [`Journal::image_bytes`], or the cursor is past that
    /// point already.
    pub fn advance_to(&mut self, ops: usize, image: &mut [u8], touched: impl FnMut(LineAddr)) {
        let end = self.journal.entries_after(ops);
        self.advance_to_entry(end, image, touched);
    }

    /// Turns the image into that of a crash right after the first `entries` entries, which may
    /// be in the middle of an operation, and calls `touched` as
    /// [`advance_to`](Self::advance_to) does.
    ///
    /// # Panics
    /// As `advance_to`, and when there are fewer entries.
    pub fn advance_to_entry(
        &mut self,
        entries: usize,
        image: &mut [u8],
        mut touched: impl FnMut(LineAddr),
    ) {
        assert!(self.next <= entries, "a cursor moves forward: {entries} is behind {}", self.next);
        assert!(
            image.len() as u64 >= self.journal.image_bytes(),
            "an image of {} bytes is too short: the journal writes up to {}",
            image.len(),
            self.journal.image_bytes()
        );
        for index in self.next..entries {
            let persisted = self.journal.get(index);
            let at = persisted.line.start().0 as usize + 8 * persisted.first_word;
            let bytes = persisted.words.as_flattened();
            image[at..at + bytes.len()].copy_from_slice(bytes);
            touched(persisted.line);
        }
        self.next = entries;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_stops_between_operations_or_between_entries() {
        let mut journal = Journal::default();
        journal.extend_images(3);
        journal.push(LineAddr(1), 0, &[[1; 8]], Cause::Evicted);
        journal.next_op();
        journal.push(LineAddr(2), 6, &[[2; 8], [3; 8]], Cause::Flushed);
        journal.push(LineAddr(1), 0, &[[4; 8]], Cause::Streamed);
        journal.next_op();
        journal.next_op();

        let mut image = vec![0; 192];
        let mut cursor = journal.cursor();
        let mut touched = Vec::new();
        cursor.advance_to(0, &mut image, |line| touched.push(line));
        assert_eq!(touched, [], "nothing is durable before the first operation");
        cursor.advance_to(1, &mut image, |line| touched.push(line));
        assert_eq!(touched, [LineAddr(1)]);
        assert_eq!(image[64..72], [1; 8]);
        cursor.advance_to_entry(2, &mut image, |_| {});
        assert_eq!((&image[176..184], &image[184..]), (&[2; 8][..], &[3; 8][..]));
        assert_eq!(image[64..72], [1; 8], "the entry after the stop is not applied");
        assert_eq!(cursor.peek().unwrap().cause, Cause::Streamed);
        cursor.advance_to(3, &mut image, |_| {});
        assert_eq!(image[64..72], [4; 8]);
        assert_eq!((cursor.peek(), cursor.entries(), journal.ops()), (None, 3, 3));
    }

    #[test]
    #[should_panic(expected = "moves forward")]
    fn a_cursor_does_not_go_back() {
        let mut journal = Journal::default();
        journal.push(LineAddr(0), 0, &[[1; 8]], Cause::Evicted);
        journal.next_op();
        journal.extend_images(1);
        let mut cursor = journal.cursor();
        cursor.advance_to(1, &mut [0; 64], |_| {});
        cursor.advance_to(0, &mut [0; 64], |_| {});
    }
}
