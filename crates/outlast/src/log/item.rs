//! The payload of a record: items, each with a place and its new content.
//!
//! ```text
//! item word:  63..60 kind | 59..40 words or bit number | 39..0 word index (offset ÷ 8)
//! Words:      followed by that many words of content
//! SetBit, ClearBit: nothing follows; a bit of a sealed bitmap word
//! Acquired, Released: a lock instead of a word index; followed by a number
//! Old: as Words, what stood there before; Taken: followed by a hash of that many words
//! ```

use outlast_trace::{ByteRange, LineAddr, PoolOffset};

use crate::lines::{LineEntry, runs};
#[cfg(feature = "lab")]
use crate::lock::Stripe;
use crate::log::record::words_in;

const KIND_SHIFT: u32 = 60;
const COUNT_SHIFT: u32 = 40;
const COUNT_MAX: usize = (1 << 20) - 1;
const INDEX_MASK: u64 = (1 << 40) - 1;

const WORDS: u64 = 1;
const SET_BIT: u64 = 2;
const CLEAR_BIT: u64 = 3;
const ACQUIRED: u64 = 4;
const RELEASED: u64 = 5;
const OLD: u64 = 6;
const TAKEN: u64 = 7;

/// One thing that a record does when it is applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Item<'a> {
    /// Puts these words from `at` on.
    Words { at: PoolOffset, words: &'a [u64] },
    /// Sets bit `bit` of the sealed bitmap word at `at`. Logical, not the whole word: other
    /// transactions own its other bits.
    SetBit { at: PoolOffset, bit: u32 },
    /// Clears such a bit.
    ClearBit { at: PoolOffset, bit: u32 },
    /// Changes nothing: a lock was taken that the section of that number, or none, had released.
    Acquired { stripe: u64, after: u64 },
    /// Changes nothing: a lock was released by the section of that number, which has these items.
    Released { stripe: u64, by: u64 },
    /// Changes nothing: these words stood there before. For the checksums (SUMS-9).
    Old { at: PoolOffset, words: &'a [u64] },
    /// Changes nothing: a new block of `words` words, whose content the record leaves out, has that
    /// hash. For the checksums (SUMS-9).
    Taken { at: PoolOffset, words: usize, hash: u64 },
}

impl<'a> Item<'a> {
    /// The words that it puts, each with its place; none where it puts none.
    pub fn new_words(self) -> impl Iterator<Item = (PoolOffset, u64)> + use<'a> {
        match self {
            Self::Words { at, words } => placed(at, words),
            _ => placed(PoolOffset(0), &[]),
        }
    }

    /// The words that stood there before, as far as it says.
    pub fn old_words(self) -> impl Iterator<Item = (PoolOffset, u64)> + use<'a> {
        match self {
            Self::Old { at, words } => placed(at, words),
            _ => placed(PoolOffset(0), &[]),
        }
    }

    /// Words of a payload that it takes.
    fn len(self) -> usize {
        match self {
            Self::Words { words, .. } | Self::Old { words, .. } => 1 + words.len(),
            Self::SetBit { .. } | Self::ClearBit { .. } => 1,
            Self::Acquired { .. } | Self::Released { .. } | Self::Taken { .. } => 2,
        }
    }
}

fn placed(at: PoolOffset, words: &[u64]) -> impl Iterator<Item = (PoolOffset, u64)> + use<'_> {
    (0..).zip(words).map(move |(n, word)| (at.plus(n * 8), *word))
}

/// Words that a line's items take at most: each word is one of its own.
const LINE_WORDS_MAX: usize = 2 * 8;

const _: () = assert!(SPARE_WORDS.is_multiple_of(2), "single words are found by pairs");

/// Words in front of a payload, for what a streamed record begins with.
pub(crate) const SPARE_WORDS: usize = 2;

/// A payload in the making.
#[derive(Debug)]
pub(crate) struct Payload {
    /// Spare words, those of the payload, and room for more.
    words: Vec<u64>,
    /// Where the payload ends.
    end: usize,
    /// Where the last item starts, if it is a run of words, and the word index behind that run;
    /// [`NO_RUN`](Self::NO_RUN) if it is not.
    last_run: usize,
    run_end: u64,
}

impl Default for Payload {
    fn default() -> Self {
        Self { words: Vec::new(), end: SPARE_WORDS, last_run: 0, run_end: Self::NO_RUN }
    }
}

impl Payload {
    /// No word of a pool has that index, nor is the one behind the last.
    const NO_RUN: u64 = u64::MAX;
    const ROOM_MIN: usize = 256;

    /// Most zeros behind a payload.
    pub const ZEROS_MAX: usize = 8;

    #[inline]
    pub fn clear(&mut self) {
        self.end = SPARE_WORDS;
        self.run_end = Self::NO_RUN;
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.end == SPARE_WORDS
    }

    #[inline]
    pub fn as_words(&self) -> &[u64] {
        self.words.get(SPARE_WORDS..self.end).unwrap_or_default()
    }

    /// Puts a word at `at` as item `number` of a payload of single words, in which items have two words each and
    /// none is beside the one before. `false` where there is no room yet.
    #[inline(always)]
    pub fn put_single(&mut self, number: usize, at: PoolOffset, word: u64) -> bool {
        let (items, _) = self.words.as_chunks_mut::<2>();
        match items.get_mut(SPARE_WORDS / 2 + number) {
            Some(item) => {
                *item = [WORDS << KIND_SHIFT | 1 << COUNT_SHIFT | (at.0 / 8), word];
                true
            }
            None => false,
        }
    }

    /// Room for `count` single words.
    pub fn make_room_for_singles(&mut self, count: usize) {
        self.make_room(2 * count);
    }

    /// The place and the content of single word `number`.
    #[inline(always)]
    pub fn single(&self, number: usize) -> (PoolOffset, u64) {
        let (items, _) = self.words.as_chunks::<2>();
        let [item, word] = items[SPARE_WORDS / 2 + number];
        (PoolOffset((item & INDEX_MASK) * 8), word)
    }

    /// The first `count` of them.
    #[inline(always)]
    pub fn singles(&self, count: usize) -> impl ExactSizeIterator<Item = (PoolOffset, u64)> {
        let (items, _) = self.words.as_chunks::<2>();
        let items = items.get(SPARE_WORDS / 2..SPARE_WORDS / 2 + count).unwrap_or_default();
        items.iter().map(|[item, word]| (PoolOffset((item & INDEX_MASK) * 8), *word))
    }

    /// The payload is those.
    #[inline(always)]
    pub fn take_singles(&mut self, count: usize) {
        debug_assert!(self.is_empty());
        self.end = SPARE_WORDS + 2 * count;
    }

    /// How many words it has.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - SPARE_WORDS
    }

    /// The same behind the spare words, which are the caller's, and before zeros that make it `len` words, at
    /// most [`ZEROS_MAX`](Self::ZEROS_MAX).
    #[inline]
    pub fn with_spare_and_zeros(&mut self, len: usize) -> &mut [u64] {
        if self.words.is_empty() {
            self.grow(0);
        }
        // A count that is known and small takes no call.
        let all = &mut self.words[..self.end + Self::ZEROS_MAX];
        *all.last_chunk_mut().expect("more than the zeros") = [0; Self::ZEROS_MAX];
        &mut all[..len]
    }

    /// Room for `words` words, and behind them for the most zeros.
    #[inline]
    fn make_room(&mut self, more: usize) {
        if self.words.len() < self.end + more + Self::ZEROS_MAX {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        let len = (self.end + more + Self::ZEROS_MAX).max(2 * self.words.len()).max(Self::ROOM_MIN);
        self.words.resize(len, 0);
    }

    #[inline]
    fn push(&mut self, word: u64) {
        self.make_room(1);
        self.words[self.end] = word;
        self.end += 1;
    }

    fn extend(&mut self, words: &[u64]) {
        self.make_room(words.len());
        self.words[self.end..self.end + words.len()].copy_from_slice(words);
        self.end += words.len();
    }

    /// Starts an item of `count` words at `at` and returns the place for its content.
    pub fn words(&mut self, at: PoolOffset, count: usize) -> &mut [u64] {
        self.start_run(at, count);
        self.make_room(count);
        let from = self.end;
        self.end += count;
        let words = &mut self.words[from..from + count];
        words.fill(0);
        words
    }

    /// As [`words`](Self::words), with that content.
    #[inline]
    pub fn append_run(&mut self, at: PoolOffset, words: &[u64]) {
        self.start_run(at, words.len());
        self.extend(words);
    }

    #[inline]
    fn start_run(&mut self, at: PoolOffset, count: usize) {
        assert!(at.is_aligned(8) && count <= COUNT_MAX);
        self.last_run = self.end;
        self.run_end = at.0 / 8 + count as u64;
        self.push(WORDS << KIND_SHIFT | (count as u64) << COUNT_SHIFT | (at.0 / 8));
    }

    /// Appends the words that each entry names of its line, whose content has the same index.
    /// Adjacent ones share an item of at most `most` words.
    #[inline(always)]
    pub fn append_lines(&mut self, entries: &[LineEntry], contents: &[[u64; 8]], most: usize) {
        self.make_room(LINE_WORDS_MAX * entries.len());
        let mut done = 0;
        loop {
            done += self.append_single_words(&entries[done..], &contents[done..]);
            let (Some(entry), Some(content)) = (entries.get(done), contents.get(done)) else {
                return;
            };
            self.append_line(entry.line, entry.words, content, most);
            done += 1;
        }
    }

    /// Appends an item for each of the first lines that hold one word with no other one of the record beside it,
    /// as most lines do. Returns how many those are. There is room for them.
    #[inline(always)]
    fn append_single_words(&mut self, entries: &[LineEntry], contents: &[[u64; 8]]) -> usize {
        let (mut run_end, mut done) = (self.run_end, 0);
        let (items, _) = self.words[self.end..].as_chunks_mut::<2>();
        for ((item, entry), content) in items.iter_mut().zip(entries).zip(contents) {
            let first = entry.words.trailing_zeros() as usize % 8;
            let index = entry.line.0 * 8 + first as u64;
            if !entry.words.is_power_of_two() || index == run_end {
                break;
            }
            *item = [WORDS << KIND_SHIFT | 1 << COUNT_SHIFT | index, content[first]];
            run_end = index + 1;
            done += 1;
        }
        if done > 0 {
            self.end += 2 * done;
            (self.last_run, self.run_end) = (self.end - 2, run_end);
        }
        done
    }

    /// Appends the words of a line that a mask names, for which there is room: each run of them is an
    /// item, or goes on with the last one.
    #[inline(never)]
    fn append_line(&mut self, line: LineAddr, mask: u8, content: &[u64; 8], most: usize) {
        let (mut end, mut mask) = (self.end, u32::from(mask));
        let room = &mut self.words[..];
        while mask != 0 {
            let first = mask.trailing_zeros() as usize % 8;
            let index = line.0 * 8 + first as u64;
            let behind = mask + (1 << first);
            let count = behind.trailing_zeros() as usize - first;
            mask &= behind;
            if index == self.run_end && count_of(room[self.last_run]) + count <= most {
                room[self.last_run] += (count as u64) << COUNT_SHIFT;
            } else {
                self.last_run = end;
                room[end] = WORDS << KIND_SHIFT | (count as u64) << COUNT_SHIFT | index;
                end += 1;
            }
            for (to, word) in room[end..].iter_mut().zip(&content[first..]).take(count) {
                *to = *word;
            }
            end += count;
            self.run_end = index + count as u64;
        }
        self.end = end;
    }

    /// Appends words at `at`, to the last item if they continue it and it would not get more than
    /// `most`.
    pub fn append_words(&mut self, at: PoolOffset, words: &[u64], most: usize) {
        if !self.extend_last(at, words, most) {
            self.append_run(at, words);
        }
    }

    /// Adds words to the last item, if that is a run of words which ends at `at` and would not
    /// get more than `most`. `false` when it is not.
    pub fn extend_last(&mut self, at: PoolOffset, words: &[u64], most: usize) -> bool {
        if self.run_end != at.0 / 8 {
            return false;
        }
        let header = &mut self.words[self.last_run];
        if count_of(*header) + words.len() > most {
            return false;
        }
        *header += (words.len() as u64) << COUNT_SHIFT;
        self.run_end += words.len() as u64;
        self.extend(words);
        true
    }

    pub fn set_bit(&mut self, at: PoolOffset, bit: u32) {
        self.run_end = Self::NO_RUN;
        self.push(SET_BIT << KIND_SHIFT | u64::from(bit) << COUNT_SHIFT | (at.0 / 8));
    }

    /// Notes that a lock was taken, and which section had released it last; 0 for none.
    #[cfg(feature = "lab")]
    pub fn acquired(&mut self, stripe: Stripe, after: u64) {
        self.run_end = Self::NO_RUN;
        self.extend(&[ACQUIRED << KIND_SHIFT | u64::from(stripe.0), after]);
    }

    /// Notes that a lock is released by the section of that number.
    #[cfg(feature = "lab")]
    pub fn released(&mut self, stripe: Stripe, by: u64) {
        self.run_end = Self::NO_RUN;
        self.extend(&[RELEASED << KIND_SHIFT | u64::from(stripe.0), by]);
    }

    pub fn clear_bit(&mut self, at: PoolOffset, bit: u32) {
        self.run_end = Self::NO_RUN;
        self.push(CLEAR_BIT << KIND_SHIFT | u64::from(bit) << COUNT_SHIFT | (at.0 / 8));
    }

    /// Notes old words: those that each entry names of its line, as `contents` has them.
    pub fn append_old_lines(
        &mut self,
        entries: impl Iterator<Item = (LineAddr, u8)>,
        contents: &[[u64; 8]],
    ) {
        self.run_end = Self::NO_RUN;
        for ((line, mask), content) in entries.zip(contents) {
            for (first, count) in runs(mask) {
                let (from, count) = (first as usize, count as usize);
                let index = line.start().0 / 8 + from as u64;
                self.push(OLD << KIND_SHIFT | (count as u64) << COUNT_SHIFT | index);
                self.extend(&content[from..from + count]);
            }
        }
    }

    /// Loads the words of all old items anew: they were noted before their lines were locked.
    pub fn reload_old(&mut self, load: impl Fn(PoolOffset, &mut [u64])) {
        let mut at = SPARE_WORDS;
        while at < self.end {
            let word = self.words[at];
            let len = len_of(word);
            if word >> KIND_SHIFT == OLD {
                let from = PoolOffset((word & INDEX_MASK) * 8);
                load(from, &mut self.words[at + 1..at + len]);
            }
            at += len;
        }
    }

    /// Notes the content of a new block, which the record leaves out.
    pub fn taken(&mut self, at: PoolOffset, words: usize, hash: u64) {
        self.run_end = Self::NO_RUN;
        self.extend(&[TAKEN << KIND_SHIFT | (words as u64) << COUNT_SHIFT | (at.0 / 8), hash]);
    }
}

/// Words that an item takes, by its first one.
fn len_of(word: u64) -> usize {
    match word >> KIND_SHIFT {
        WORDS | OLD => 1 + count_of(word),
        ACQUIRED | RELEASED | TAKEN => 2,
        _ => 1,
    }
}

#[inline]
fn count_of(header: u64) -> usize {
    (header >> COUNT_SHIFT) as usize & COUNT_MAX
}

/// The range that an item of a proven record changes, by its first word, and the item's words.
pub(crate) fn place(word: u64) -> (ByteRange, usize) {
    let at = PoolOffset((word & INDEX_MASK) * 8);
    let bytes = match word >> KIND_SHIFT {
        WORDS => count_of(word) as u64 * 8,
        SET_BIT | CLEAR_BIT => 8,
        _ => 0,
    };
    (ByteRange::new(at, bytes), len_of(word))
}

/// The words of the longest run of whole items that `payload` starts with and a record of
/// `lines` lines can hold.
pub(crate) fn prefix_within(payload: &[u64], lines: u64) -> usize {
    let room = words_in(lines);
    if payload.len() <= room {
        return payload.len();
    }
    let mut end = 0;
    for item in items(payload) {
        let words = item.map_or(1, Item::len);
        if end + words > room {
            break;
        }
        end += words;
    }
    end
}

/// The items of a payload in order; `Err` at a word that is no item.
pub(crate) fn items(payload: &[u64]) -> impl Iterator<Item = Result<Item<'_>, ()>> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        let (&word, tail) = rest.split_first()?;
        let at = PoolOffset((word & INDEX_MASK) * 8);
        let count = (word >> COUNT_SHIFT) as usize & COUNT_MAX;
        rest = tail;
        Some(match word >> KIND_SHIFT {
            WORDS if count <= tail.len() => {
                let (words, tail) = tail.split_at(count);
                rest = tail;
                Ok(Item::Words { at, words })
            }
            OLD if count <= tail.len() => {
                let (words, tail) = tail.split_at(count);
                rest = tail;
                Ok(Item::Old { at, words })
            }
            TAKEN if !tail.is_empty() => {
                rest = &tail[1..];
                Ok(Item::Taken { at, words: count, hash: tail[0] })
            }
            SET_BIT if count < 56 => Ok(Item::SetBit { at, bit: count as u32 }),
            CLEAR_BIT if count < 56 => Ok(Item::ClearBit { at, bit: count as u32 }),
            kind @ (ACQUIRED | RELEASED) if count == 0 && !tail.is_empty() => {
                rest = &tail[1..];
                let (stripe, number) = (word & INDEX_MASK, tail[0]);
                Ok(match kind {
                    ACQUIRED => Item::Acquired { stripe, after: number },
                    _ => Item::Released { stripe, by: number },
                })
            }
            _ => {
                rest = &[];
                Err(())
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_in_order() {
        let mut payload = Payload::default();
        payload.words(PoolOffset(64), 2).copy_from_slice(&[7, 8]);
        payload.set_bit(PoolOffset(4096), 55);
        payload.clear_bit(PoolOffset(4104), 0);
        let read: Vec<_> = items(payload.as_words()).collect();
        assert_eq!(
            read,
            [
                Ok(Item::Words { at: PoolOffset(64), words: &[7, 8] }),
                Ok(Item::SetBit { at: PoolOffset(4096), bit: 55 }),
                Ok(Item::ClearBit { at: PoolOffset(4104), bit: 0 }),
            ]
        );
    }

    #[test]
    fn what_is_for_the_checksums_alone_changes_nothing() {
        let mut payload = Payload::default();
        payload.words(PoolOffset(64), 1).copy_from_slice(&[7]);
        payload.append_old_lines(
            [(LineAddr(1), 0b1000_0011)].into_iter(),
            &[[1, 2, 3, 4, 5, 6, 7, 8]],
        );
        payload.taken(PoolOffset(4096), 40, 99);
        payload.set_bit(PoolOffset(8192), 3);
        let old = |at, words| Ok(Item::Old { at: PoolOffset(at), words });
        let read: Vec<_> = items(payload.as_words()).collect();
        assert_eq!(read[1..3], [old(64, &[1, 2][..]), old(120, &[8][..])]);
        assert_eq!(read[3], Ok(Item::Taken { at: PoolOffset(4096), words: 40, hash: 99 }));
        let mut index = 0;
        let mut changed = Vec::new();
        while let Some(word) = payload.as_words().get(index) {
            let (range, words) = place(*word);
            changed.extend((range.len > 0).then_some(range.at.0));
            index += words;
        }
        assert_eq!(changed, [64, 8192]);
        payload.reload_old(|at, words| words.fill(at.0));
        let read: Vec<_> = items(payload.as_words()).collect();
        assert_eq!(read[0], Ok(Item::Words { at: PoolOffset(64), words: &[7] }));
        assert_eq!(read[1..3], [old(64, &[64, 64][..]), old(120, &[120][..])]);
    }

    #[test]
    fn runs_that_continue_each_other_share_an_item() {
        let mut payload = Payload::default();
        payload.words(PoolOffset(64), 2).copy_from_slice(&[7, 8]);
        assert!(payload.extend_last(PoolOffset(80), &[9], 3));
        assert!(!payload.extend_last(PoolOffset(88), &[10], 3), "longer than allowed");
        assert!(!payload.extend_last(PoolOffset(96), &[10], 9), "not adjacent");
        let read: Vec<_> = items(payload.as_words()).collect();
        assert_eq!(read, [Ok(Item::Words { at: PoolOffset(64), words: &[7, 8, 9] })]);
        payload.set_bit(PoolOffset(0), 1);
        assert!(!payload.extend_last(PoolOffset(88), &[10], 9), "a bit is no run");
    }

    #[test]
    fn a_prefix_ends_where_an_item_does() {
        let mut payload = Payload::default();
        for i in 0..10 {
            payload.words(PoolOffset(i * 64), 4);
        }
        // Two lines hold 13 words: two items of five.
        assert_eq!(prefix_within(payload.as_words(), 2), 10);
        assert_eq!(prefix_within(payload.as_words(), 0), 0);
        assert_eq!(prefix_within(payload.as_words(), 100), 50);
    }

    #[test]
    fn nonsense_is_refused_once() {
        let cut_short = [WORDS << KIND_SHIFT | 5 << COUNT_SHIFT, 1, 2];
        assert_eq!(items(&cut_short).collect::<Vec<_>>(), [Err(())]);
        assert_eq!(items(&[0, 0]).collect::<Vec<_>>(), [Err(())]);
        assert_eq!(items(&[SET_BIT << KIND_SHIFT | 56 << COUNT_SHIFT]).next(), Some(Err(())));
    }
}
