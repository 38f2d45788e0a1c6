//! Streamed records: written past the caches, where each word becomes durable by itself.
//!
//! The bytes are ruled in `docs/format.md`. A line carries seven words of a record, 56 bits of each
//! in a word of its own and the bytes that are left in the eighth; above them, in each of the eight
//! words, stands the tag of its *lap*: how often the lane has gone round its ring.
//!
//! * **LOG-5** What a word held before belongs to one of the 126 laps before, or is blank. Each lap
//!   writes every line that it comes by, also those at the ring's end that no record needs; an opening
//!   begins two laps on, which no word of a record that a crash tore can have; and an opening that
//!   would begin another *era* of 32 laps, or the last lap of its own, makes the ring blank before.
//!   So an era that is not begun so is begun by a lap that came by every line.
//! * **LOG-6** Tags of 127 laps in a row differ, and none is blank, or zero: a line of which all eight words
//!   carry the lap that is being read is wholly there, whatever order they became durable in.
//!   By LOG-5 a word of the ring is at most two eras behind the lap that is read there: one whose tag is that of
//!   a later lap was written under a newer tail, so the tail is an older version of its line.
//! * **LOG-7** A line's lap follows from the lane's durable tail, which says its own lap: the head is
//!   never a ring ahead of it (SWEEP-3).

use outlast_pmem::{Medium, tagged_line};
use outlast_trace::{LINE_BYTES, LineAddr, PoolOffset};

use crate::io::{Io, Site};
use crate::log::item::Payload;
use crate::log::record::{
    self, BLANK, CONTINUATION_WORDS, Found, HEADER_UNPROVEN, Head, NO_NUMBER, Peeked, RecordKind,
    Region,
};
use crate::plant::Plant;
use crate::sealed::{seal, unseal};
use crate::seq::Seq;

/// Words of a record on each of its lines.
const LINE_WORDS: usize = CONTINUATION_WORDS;

/// Words in front of the payload: the header and the sealed number.
const FRONT_WORDS: usize = crate::log::item::SPARE_WORDS;

const TAG_SHIFT: u32 = 56;
const TAG_BYTE: usize = TAG_SHIFT as usize / 8;
const CONTENT_MASK: u64 = (1 << TAG_SHIFT) - 1;

/// Laps after which their tags come again.
pub(crate) const TAGS: u64 = 127;

/// Laps in which each older word is written or made blank (LOG-5).
const ERA: u64 = 32;

/// Laps are counted modulo this, in which both come out even.
pub(crate) const LAPS: u64 = TAGS * ERA;

/// A byte of odd parity, other for each number up to [`TAGS`]; that of zero is blank.
const fn odd(number: u8) -> u8 {
    let bits = number ^ NO_NUMBER;
    bits | (bits.count_ones() as u8 & 1 ^ 1) << 7
}

const _: () = assert!(odd(0) == (BLANK >> TAG_SHIFT) as u8);

/// Whether that byte is the tag of a lap, or of none. No single flipped bit makes another of one, and
/// zero is none.
fn is_tag(byte: u8) -> bool {
    !byte.count_ones().is_multiple_of(2)
}

/// Which time round the ring it is, modulo [`LAPS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lap {
    number: u16,
    tag: u8,
}

impl Lap {
    pub fn numbered(number: u64) -> Self {
        let number = (number % LAPS) as u16;
        Self { number, tag: odd(1 + (u64::from(number) % TAGS) as u8) }
    }

    /// The lap that comes `laps` later.
    #[inline]
    pub fn after(self, laps: u64) -> Self {
        Self::numbered(u64::from(self.number) + laps)
    }

    pub fn number(self) -> u64 {
        self.number.into()
    }

    /// The lap with which the next opening begins, and whether it makes the ring blank (LOG-5).
    pub fn of_next_opening(self) -> (Self, bool) {
        let next = self.after(2);
        (next, next.after(1).number() / ERA != self.number() / ERA)
    }

    #[inline]
    pub fn tag(self) -> u8 {
        self.tag
    }

    /// The lap of a tag, as far as that tells.
    fn of_tag(tag: u8) -> Option<Self> {
        let number = tag & 0x7f ^ NO_NUMBER;
        (is_tag(tag) && number > 0).then(|| Self::numbered(u64::from(number) - 1))
    }

    /// Whether a word with that tag is of a later lap than this one (LOG-6).
    fn is_behind(self, tag: u8) -> bool {
        const AHEAD_MAX: u64 = TAGS - 2 * ERA;
        let ahead = |lap: Self| (TAGS + lap.number() - self.number() % TAGS) % TAGS;
        Self::of_tag(tag).is_some_and(|lap| (1..=AHEAD_MAX).contains(&ahead(lap)))
    }

    /// Whether a line that is written in this lap may hold a word with that tag, before or behind it.
    fn may_follow(self, tag: u8) -> bool {
        let behind = |lap: Self| (TAGS + self.number() % TAGS - lap.number()) % TAGS;
        let is_recent = |lap| behind(lap) <= ERA + self.number() % ERA;
        u64::from(tag) == BLANK >> TAG_SHIFT || Self::of_tag(tag).is_some_and(is_recent)
    }
}

/// Where a streamed record begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct At {
    pub ring: Region,
    pub line: u64,
    pub lap: Lap,
}

impl At {
    /// The lines from here on, as far as the ring's last lap goes.
    fn lines(self, count: u64) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        let lines = self.line as usize..(self.line + count) as usize;
        lines.map(move |line| Self { line: line as u64, ..self })
    }

    fn start(self) -> PoolOffset {
        self.ring.line(self.line)
    }
}

/// Lines that a record with `words` words of payload takes.
#[inline]
#[expect(clippy::manual_div_ceil, reason = "one division less, and the sum is far from overflow")]
pub(crate) const fn lines_for(words: usize) -> u64 {
    // A division of 32 bits is shorter. More words than they hold are none of a record.
    let words = if words > u32::MAX as usize / 2 { u32::MAX / 2 } else { words as u32 };
    ((FRONT_WORDS as u32 + words + LINE_WORDS as u32 - 1) / LINE_WORDS as u32) as u64
}

/// Payload words that a record of `lines` lines can hold.
pub(crate) const fn words_in(lines: u64) -> usize {
    (lines as usize * LINE_WORDS).saturating_sub(FRONT_WORDS)
}

/// Word `index` of a line again.
#[inline]
fn unpack(word: u64, last: u64, index: usize) -> u64 {
    word & CONTENT_MASK | (last >> (8 * index) & 0xff) << TAG_SHIFT
}

/// Streams a record that is `payload` to the lines from `at` on, or stores and flushes it if it
/// is shorter than `stream_from` lines: words that prove themselves may take either way, and a cache
/// writes a line's words back in fewer orders than they go past it. The fence is the caller's. It takes
/// `lines` lines.
#[inline(always)]
pub(crate) fn append<M: Medium>(
    io: Io<'_, M>,
    site: Site,
    at: At,
    (kind, seq, lines): (RecordKind, Seq, u64),
    payload: &mut Payload,
    stream_from: u64,
) {
    let count = payload.len();
    debug_assert!(lines == lines_for(count));
    let all = payload.with_spare_and_zeros(lines as usize * LINE_WORDS);
    let header = record::header_word(kind, seq, &all[FRONT_WORDS..FRONT_WORDS + count]);
    (all[0], all[1]) = (header, seal(seq.bits()));
    write(io, site, at, lines, all, stream_from);
}

/// The same of words that have nothing before or behind them.
pub(crate) fn append_words<M: Medium>(
    io: Io<'_, M>,
    site: Site,
    at: At,
    kind: RecordKind,
    seq: Seq,
    words: &[u64],
    stream_from: u64,
) -> u64 {
    let front = [record::header_word(kind, seq, words), seal(seq.bits())];
    let word = |index: usize| match index.checked_sub(FRONT_WORDS) {
        None => front[index],
        Some(index) => words.get(index).copied().unwrap_or(0),
    };
    let lines = lines_for(words.len());
    let all: Vec<_> = (0..lines as usize * LINE_WORDS).map(word).collect();
    write(io, site, at, lines, &all, stream_from);
    lines
}

/// Writes `lines` lines, which are all of `words`.
#[inline(always)]
fn write<M: Medium>(
    io: Io<'_, M>,
    site: Site,
    at: At,
    lines: u64,
    words: &[u64],
    stream_from: u64,
) {
    debug_assert!(words.len() == lines as usize * LINE_WORDS);
    assert!(at.line + lines <= at.ring.lines, "a record stays inside its region");
    let (tag, mut rest, first) = (at.lap.tag(), words, at.start().line());
    // Not in chunks, of which the number would be a division.
    let tagged = std::iter::from_fn(|| {
        let (words, behind) = rest.split_first_chunk()?;
        rest = behind;
        Some(tagged_line(words, tag))
    });
    if lines < stream_from {
        flush_before(io, site, at, lines);
        let mut line = first;
        for words in tagged {
            io.medium.store_words(line, !0, &words);
            line = LineAddr(line.0 + 1);
        }
        return flush_lines(io, site, at, lines);
    }
    let planted = [
        Plant::RecordFlushedBackwards,
        Plant::FlushBeforeStore,
        Plant::RecordFirstLineUnflushed,
        Plant::RecordLastLineUnflushed,
    ];
    match planted.into_iter().any(|plant| io.plants(plant)) {
        true => write_planted(io, site, at, words),
        false => io.stream_lines(site, (first, lines), tagged),
    }
}

/// A planted bug.
#[cold]
fn write_planted<M: Medium>(io: Io<'_, M>, site: Site, at: At, words: &[u64]) {
    let (all_words, _) = words.as_chunks::<LINE_WORDS>();
    let (lines, tag) = (all_words.len() as u64, at.lap.tag());
    if io.plants(Plant::RecordFlushedBackwards) {
        let each = at.lines(lines).zip(all_words).rev();
        return each.for_each(|(at, words)| write_line(io, site, at, words, tag));
    }
    let (first, last) = (at.line, at.line + lines - 1);
    for (at, words) in at.lines(lines).zip(all_words) {
        if io.plants(Plant::FlushBeforeStore)
            || io.plants(Plant::RecordFirstLineUnflushed) && at.line == first && lines > 1
            || io.plants(Plant::RecordLastLineUnflushed) && at.line == last && lines > 1
        {
            io.medium.store(at.start(), bytemuck::bytes_of(&tagged_line(words, tag)));
        } else {
            write_line(io, site, at, words, tag);
        }
    }
}

/// Starts the write-back of a record that was stored.
#[inline]
fn flush_lines<M: Medium>(io: Io<'_, M>, site: Site, at: At, lines: u64) {
    let left_out = lines > 1 && io.plants(Plant::RecordFirstLineUnflushed);
    let first = u64::from(left_out);
    let left_out = lines > 1 && io.plants(Plant::RecordLastLineUnflushed);
    let end = lines - u64::from(left_out);
    if !io.plants(Plant::FlushBeforeStore) {
        io.flush(site, at.start().plus(first * LINE_BYTES), (end - first) * LINE_BYTES);
    }
}

/// A planted bug.
#[inline]
fn flush_before<M: Medium>(io: Io<'_, M>, site: Site, at: At, lines: u64) {
    if io.plants(Plant::FlushBeforeStore) {
        io.flush(site, at.start(), lines * LINE_BYTES);
    }
}

#[inline]
fn write_line<M: Medium>(io: Io<'_, M>, site: Site, at: At, words: &[u64; LINE_WORDS], tag: u8) {
    io.stream_line(site, at.start(), &tagged_line(words, tag));
}

/// A `Wrap`, and a line of nothing for each that is left of the ring (LOG-5).
pub(crate) fn append_wrap<M: Medium>(io: Io<'_, M>, site: Site, at: At, seq: Seq) {
    append_words(io, site, at, RecordKind::Wrap, seq, &[], 1);
    if io.plants(Plant::RestOfLapUnwritten) {
        return;
    }
    for at in at.lines(at.ring.lines - at.line).skip(1) {
        write_line(io, site, at, &[0; LINE_WORDS], at.lap.tag());
    }
}

/// The reading of a line.
enum Line {
    /// It is wholly of this lap.
    Whole([u64; LINE_WORDS]),
    /// At least one of its words is of another.
    Missing,
    /// A word is of a later lap, which does not begin before the tail has passed the line (LOG-7).
    Later,
    /// A word has the tag of no lap, which no crash leaves behind.
    Damaged,
}

/// Reads a line, on a medium that observes no further than decides.
fn read_line<M: Medium>(io: Io<'_, M>, at: At) -> Line {
    let (medium, lap, at) = (io.medium, at.lap, at.start());
    let mut words = [0u64; 8];
    if !M::OBSERVED {
        medium.load(at, bytemuck::bytes_of_mut(&mut words));
    }
    for (i, word) in (0..).zip(&mut words) {
        if M::OBSERVED {
            *word = medium.load_u64(at.plus(8 * i));
        }
        let tag = (*word >> TAG_SHIFT) as u8;
        if tag != lap.tag() && !(i > 0 && io.plants(Plant::FirstWordBelieved)) {
            return match is_tag(tag) {
                true if lap.is_behind(tag) => Line::Later,
                true => Line::Missing,
                false => Line::Damaged,
            };
        }
    }
    Line::Whole(std::array::from_fn(|i| unpack(words[i], words[LINE_WORDS], i)))
}

/// The head that a record's first line gives.
fn head_of(words: &[u64; LINE_WORDS]) -> Result<Head, &'static str> {
    let (kind, count) = record::claim(words[0]).ok_or(HEADER_UNPROVEN)?;
    let number = unseal(words[1]).ok_or("the number of a log record does not prove itself")?;
    Ok(Head { kind, seq: Seq::from_bits(number), lines: lines_for(count), words: count })
}

/// Reads just the header of a record, if one whose number is `wanted` is there.
pub(crate) fn peek_if<M: Medium>(io: Io<'_, M>, at: At, wanted: &dyn Fn(Seq) -> bool) -> Peeked {
    match read_line(io, at) {
        Line::Whole(words) => match head_of(&words) {
            Ok(head) if wanted(head.seq) => Peeked::Head(head),
            _ => Peeked::Other,
        },
        Line::Missing | Line::Later | Line::Damaged => Peeked::Other,
    }
}

/// Whether a line is the first of a record of that lap whose number is `wanted`.
pub(crate) fn begins(line: &[u8], lap: Lap, wanted: &dyn Fn(Seq) -> bool) -> bool {
    let words = record::words_of_line(line);
    let is_whole = words.iter().all(|word| (word >> TAG_SHIFT) as u8 == lap.tag());
    let words = std::array::from_fn(|i| unpack(words[i], words[LINE_WORDS], i));
    is_whole && head_of(&words).is_ok_and(|head| wanted(head.seq))
}

/// The damage of a lane whose ring has a later lap than its tail.
pub(crate) const LATER: &str = "a log line is ahead of its lane's tail, which is older than it was";

/// The lap of a line, all of whose words carry the tag of one.
pub(crate) fn lap_of(line: &[u8]) -> Option<Lap> {
    let [first, rest @ ..] = record::words_of_line(line).map(|word| (word >> TAG_SHIFT) as u8);
    Lap::of_tag(first).filter(|_| rest.iter().all(|tag| *tag == first))
}

/// Whether all of a line is of a later lap than `lap`.
pub(crate) fn is_ahead(line: &[u8], lap: Lap) -> bool {
    lap_of(line).is_some_and(|found| lap.is_behind(found.tag()))
}

/// Word `index` of the payload of a complete record.
pub(crate) fn word<M: Medium>(medium: &M, at: At, index: usize) -> u64 {
    let index = FRONT_WORDS + index;
    let line = at.ring.line(at.line + (index / LINE_WORDS) as u64);
    load_word(medium, line, index % LINE_WORDS)
}

/// Word `index` of a line, whatever lap it is of.
fn load_word<M: Medium>(medium: &M, line: PoolOffset, index: usize) -> u64 {
    let load = |word: usize| medium.load_u64(line.plus(8 * word as u64));
    unpack(load(index), load(LINE_WORDS), index)
}

/// Reads the record, if a live one is complete there.
pub(crate) fn read<M: Medium>(
    io: Io<'_, M>,
    at: At,
    is_live: &dyn Fn(Seq) -> bool,
    payload: &mut Vec<u64>,
) -> Found {
    payload.clear();
    let damaged = |at: At, why| Found::Damaged { line: at.start(), why };
    const TAG_UNPROVEN: &str = "a word of a log line carries the tag of no lap";
    let words = match read_line(io, at) {
        Line::Whole(words) => words,
        Line::Missing => return Found::Nothing,
        Line::Later => return damaged(at, LATER),
        Line::Damaged => return damaged(at, TAG_UNPROVEN),
    };
    let Head { kind, seq, lines, words: count } = match head_of(&words) {
        Ok(head) => head,
        Err(why) => return damaged(at, why),
    };
    if !is_live(seq) {
        return Found::Nothing;
    }
    if at.line + lines > at.ring.lines {
        return damaged(at, "a log record is longer than its region");
    }
    payload.reserve_exact(lines as usize * LINE_WORDS - FRONT_WORDS);
    payload.extend_from_slice(&words[FRONT_WORDS..]);
    for at in at.lines(lines).skip(1) {
        match read_line(io, at) {
            Line::Whole(words) => payload.extend_from_slice(&words),
            Line::Missing if io.plants(Plant::ContinuationsBelieved) => {
                payload.extend((0..LINE_WORDS).map(|i| load_word(io.medium, at.start(), i)));
            }
            Line::Missing => return Found::Unfinished { seq },
            Line::Later => return damaged(at, LATER),
            Line::Damaged => return damaged(at, TAG_UNPROVEN),
        }
    }
    if payload[count..].iter().any(|word| *word != 0) {
        return damaged(at, "the rest of a log record is not zero");
    }
    payload.truncate(count);
    if record::header_word(kind, seq, payload) != words[0] {
        return damaged(at, "a complete log record fails its CRC");
    }
    Found::Record { kind, seq, lines }
}

/// Makes a ring blank, for the first lap of a lane or for records of another form.
pub(crate) fn blank<M: Medium>(io: Io<'_, M>, site: Site, ring: Region) {
    const LINE: [u64; 8] = [BLANK.to_le(); 8];
    let mut page = [0u8; 4096];
    let (mut at, end) = (ring.at, ring.at.plus(ring.lines * LINE_BYTES));
    while at.0 < end.0 {
        let part = &mut page[..(end.0 - at.0).min(4096) as usize];
        io.medium.load(at, part);
        for (line, bytes) in (0..).zip(part.as_chunks::<64>().0) {
            if bytes != bytemuck::bytes_of(&LINE) {
                io.stream_line(site, at.plus(line * LINE_BYTES), &LINE);
            }
        }
        at = at.plus(part.len() as u64);
    }
}

/// Whether a word of a ring carries the tag of that lap.
#[cfg(all(test, feature = "lab"))]
pub(crate) fn carries(word: u64, lap: Lap) -> bool {
    (word >> TAG_SHIFT) as u8 == lap.tag()
}

/// Damage of a ring's line that no record can have left: a word with the tag of no lap, or of one that is
/// neither of this era nor of the last (LOG-5). `lap` is the line's, as the lane's tail has it.
///
/// Recovery has refused the words behind the last record; here, too, they are only checked.
pub(crate) fn is_damaged<M: Medium>(medium: &M, ring: Region, line: u64, lap: Lap) -> bool {
    let has_tags = |bytes: &[u8]| bytes.chunks_exact(8).all(|word| lap.may_follow(word[TAG_BYTE]));
    !medium.verify(ring.line(line), LINE_BYTES, has_tags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seq::Seq;
    use outlast_pmem::Heap;

    const REGION: Region = Region { at: PoolOffset(128), lines: 16, is_elsewhere: false };
    const SEQ: Seq = Seq::new(3, 77);

    fn io(medium: &Heap) -> Io<'_, Heap> {
        Io::new(medium)
    }

    fn payload(words: u64) -> Payload {
        let mut payload = Payload::default();
        (0..words).for_each(|word| payload.set_bit(PoolOffset(8 * word), 7));
        payload
    }

    /// Short ones are flushed.
    fn write(medium: &Heap, first: u64, lap: Lap, seq: Seq, words: u64) -> u64 {
        let at = At { ring: REGION, line: first, lap };
        let (mut payload, lines) = (payload(words), lines_for(words as usize));
        let record = (RecordKind::Redo, seq, lines);
        append(io(medium), Site::RedoRecord, at, record, &mut payload, 3);
        lines
    }

    fn read_back(medium: &Heap, first: u64, lap: Lap) -> (Found, Vec<u64>) {
        let mut words = Vec::new();
        let at = At { ring: REGION, line: first, lap };
        let found = read(io(medium), at, &|seq| seq >= SEQ, &mut words);
        (found, words)
    }

    #[test]
    #[cfg_attr(miri, ignore = "pure arithmetic, and minutes of it there")]
    fn tags_of_so_many_laps_in_a_row_differ_from_each_other_and_from_blank_and_zero() {
        for first in 0..LAPS {
            let blank = (BLANK >> TAG_SHIFT) as u8;
            let tags = (first..first + TAGS).map(|lap| Lap::numbered(lap).tag()).chain([blank]);
            let tags: std::collections::BTreeSet<u8> = tags.collect();
            assert_eq!(tags.len() as u64, TAGS + 1);
            assert!(tags.into_iter().all(is_tag) && !is_tag(0));
        }
        assert_eq!(Lap::numbered(LAPS - 1).after(1), Lap::numbered(0));
    }

    #[test]
    fn records_of_every_length_come_back() {
        for words in 0..60 {
            for lap in [0, 1, TAGS - 1, TAGS, LAPS - 1].map(Lap::numbered) {
                let medium = Heap::new(4096);
                let lines = write(&medium, 2, lap, SEQ, words);
                assert_eq!(lines, lines_for(words as usize));
                assert!(
                    words_in(lines) as u64 >= words && (words_in(lines - 1) as u64) < words.max(1)
                );
                let (found, read) = read_back(&medium, 2, lap);
                assert_eq!(found, Found::Record { kind: RecordKind::Redo, seq: SEQ, lines });
                assert_eq!(read, payload(words).as_words());
                for (index, expected) in read.iter().enumerate() {
                    assert_eq!(word(&medium, At { ring: REGION, line: 2, lap }, index), *expected);
                }
                assert_eq!(read_back(&medium, 2, lap.after(1)).0, Found::Nothing);
            }
        }
    }

    #[test]
    fn a_record_that_lacks_any_of_its_words_is_none() {
        let (old, new) = (Lap::numbered(LAPS - 1), Lap::numbered(0));
        for before in [None, Some(old)] {
            let medium = Heap::from_bytes(&BLANK.to_le_bytes().repeat(512));
            if let Some(lap) = before {
                write(&medium, 2, lap, Seq::new(3, 70), 40);
            }
            let stale = medium.to_bytes();
            let lines = write(&medium, 2, new, SEQ, 30);
            let whole = medium.to_bytes();
            for missing in 0..lines as usize * 8 {
                let mut torn = whole.clone();
                let at = REGION.line(2).0 as usize + missing * 8;
                torn[at..at + 8].copy_from_slice(&stale[at..at + 8]);
                let found = read_back(&Heap::from_bytes(&torn), 2, new).0;
                let expected = match missing {
                    0..8 => Found::Nothing,
                    _ => Found::Unfinished { seq: SEQ },
                };
                assert_eq!(found, expected, "word {missing}");
            }
        }
    }

    #[test]
    fn any_flipped_bit_of_a_complete_record_is_damage() {
        let medium = Heap::new(4096);
        let lines = write(&medium, 2, Lap::numbered(3), SEQ, 12);
        let bytes = medium.to_bytes();
        let from = REGION.line(2).0 as usize;
        for bit in (0..lines as usize * 512).step_by(if cfg!(miri) { 37 } else { 1 }) {
            let mut flipped = bytes.clone();
            flipped[from + bit / 8] ^= 1 << (bit % 8);
            let medium = Heap::from_bytes(&flipped);
            let found = read_back(&medium, 2, Lap::numbered(3)).0;
            assert!(matches!(found, Found::Damaged { .. }), "bit {bit}: {found:?}");
            let in_a_tag = bit / 8 % 8 == 7;
            let line = 2 + bit as u64 / 512;
            assert_eq!(is_damaged(&medium, REGION, line, Lap::numbered(3)), in_a_tag, "bit {bit}");
        }
    }

    /// LOG-5.
    #[test]
    fn words_are_of_this_era_or_the_last() {
        for number in [0, 5, ERA, 2 * ERA - 1, TAGS, LAPS - 1] {
            let lap = Lap::numbered(number);
            let allowed = (0..TAGS).filter(|behind| {
                let older = Lap::numbered(LAPS + number - behind);
                lap.may_follow(older.tag())
            });
            assert!(allowed.eq(0..=ERA + number % ERA), "{number}");
            assert!(lap.may_follow((BLANK >> TAG_SHIFT) as u8) && !lap.may_follow(0));
        }
    }

    /// LOG-7: lines are a lap ahead only of a tail that is older than it was.
    #[test]
    fn a_line_of_the_next_lap_is_damage() {
        for lap in [0, 1, TAGS - 1, LAPS - 1].map(Lap::numbered) {
            let medium = Heap::from_bytes(&BLANK.to_le_bytes().repeat(512));
            let lines = write(&medium, 2, lap, SEQ, 30);
            write(&medium, 3, lap.after(1), SEQ, 1);
            for line in [2, 3] {
                let (found, _) = read_back(&medium, line, lap);
                let at = REGION.line(3);
                assert!(matches!(found, Found::Damaged { line, .. } if line == at), "{found:?}");
            }
            write(&medium, 2, lap, SEQ, 30);
            write(&medium, 3, lap.after(LAPS - 1), SEQ, 1);
            assert_eq!(read_back(&medium, 2, lap).0, Found::Unfinished { seq: SEQ });
            assert!(lines > 2);
        }
    }

    #[test]
    fn a_wrap_writes_all_that_is_left_of_the_ring() {
        let (medium, lap) = (Heap::new(4096), Lap::numbered(9));
        append_wrap(io(&medium), Site::RedoRecord, At { ring: REGION, line: 12, lap }, SEQ);
        for line in 12..REGION.lines {
            let at = At { ring: REGION, line, lap };
            assert!(matches!(read_line(io(&medium), at), Line::Whole(_)), "{line}");
        }
        let lines = 1;
        let wrap = Found::Record { kind: RecordKind::Wrap, seq: SEQ, lines };
        assert_eq!(read_back(&medium, 12, lap).0, wrap);
    }

    #[test]
    fn a_ring_is_made_blank_and_nothing_else_is() {
        let medium = Heap::new(128 + 70 * LINE_BYTES + 64);
        let ring = Region { at: PoolOffset(128), lines: 70, is_elsewhere: false };
        medium.store(PoolOffset(0), &vec![7; medium.len() as usize]);
        blank(io(&medium), Site::Ring, ring);
        let bytes = medium.to_bytes();
        let (before, rest) = bytes.split_at(128);
        let (blank, behind) = rest.split_at(70 * 64);
        assert!(before.iter().chain(behind).all(|byte| *byte == 7));
        assert!(blank.chunks(8).all(|word| *word == BLANK.to_le_bytes()));
    }
}
