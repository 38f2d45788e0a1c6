//! One record: how it is laid out in lines, written, and read back.

use outlast_pmem::{Medium, crc32c_in_stripes};
use outlast_trace::{LINE_BYTES, PoolOffset};

use crate::error::PoolError;
use crate::io::{Io, Site};
pub(crate) use crate::layout::TAG_AT;
use crate::log::item::{Payload, SPARE_WORDS};
use crate::plant::Plant;
use crate::sealed::crc8;
use crate::seq::Seq;

/// Words of payload in a header line and in a continuation line.
pub(crate) const HEADER_WORDS: usize = 6;
pub(crate) const CONTINUATION_WORDS: usize = 7;

/// A tag of no record and of no lap. A blank line has it in each of its words, so that rings of both
/// forms find nothing there; a line of zeros is damage in both.
pub(crate) const BLANK: u64 = (NO_NUMBER as u64) << 56;

/// Exclusive-or'd into the check of a tag beside the CRC, so that zero is no tag. It has an odd number of bits:
/// the tag of a lap, too.
pub(crate) const NO_NUMBER: u8 = 0x6b;

/// Exclusive-or'd into the check of a header's tag as well.
const OF_HEADER: u8 = 0x55;

/// Bit 63 of a tag: this line is a record's first.
const TAG_HEADER: u64 = 1 << 63;

/// Most payload words in a record: 24 bits of its header.
pub(crate) const PAYLOAD_WORDS_MAX: usize = (1 << 24) - 1;

/// The kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum RecordKind {
    Undo = 1,
    Redo = 2,
    RedoPart = 3,
    RedoFinal = 4,
    Detached = 5,
    Continued = 6,
    Wrap = 7,
    Witnesses = 8,
    Before = 9,
    BeforeElsewhere = 10,
    Journal = 11,
    Pages = 12,
    Onward = 13,
}

impl RecordKind {
    fn from_bits(bits: u64) -> Option<Self> {
        use RecordKind::*;
        let both = [Undo, Redo, RedoPart, RedoFinal, Detached, Continued, Wrap, Witnesses];
        both.into_iter()
            .chain([Before, BeforeElsewhere, Journal, Pages, Onward])
            .find(|kind| *kind as u64 == bits)
    }
}

/// A run of lines that holds records: a lane's ring, or a stretch of the heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    pub at: PoolOffset,
    pub lines: u64,
    /// In the heap, not a lane's ring.
    pub is_elsewhere: bool,
}

impl Region {
    /// No line.
    pub const NONE: Self = Self { at: PoolOffset(0), lines: 0, is_elsewhere: false };

    /// The first byte of a line of this region.
    pub fn line(self, index: u64) -> PoolOffset {
        debug_assert!(index < self.lines);
        self.at.plus(index * LINE_BYTES)
    }
}

/// Lines from which on a ring has two halves for undo records.
const HALVED_LINES_MIN: u64 = 8;

impl Region {
    /// How many parts of a ring take turns in holding an undo transaction's records (UNDO-5).
    pub fn undo_parts(self) -> usize {
        if self.lines < HALVED_LINES_MIN { 1 } else { 2 }
    }

    /// Such a part.
    pub fn undo_part(self, index: usize) -> Self {
        let lines = self.lines / self.undo_parts() as u64;
        Self { at: self.at.plus(index as u64 * lines * LINE_BYTES), lines, ..self }
    }
}

/// Lines that a record with `words` words of payload takes.
pub(crate) const fn lines_for(words: usize) -> u64 {
    1 + words.saturating_sub(HEADER_WORDS).div_ceil(CONTINUATION_WORDS) as u64
}

/// Words that `lines` lines of a record, at least one, have room for.
const fn words_of(lines: u64) -> usize {
    HEADER_WORDS + (lines as usize - 1) * CONTINUATION_WORDS
}

/// Payload words that a record of `lines` lines can hold, one less than the most, since a final
/// part gets a word in front.
pub(crate) const fn words_in(lines: u64) -> usize {
    if lines == 0 {
        return 0;
    }
    let words = words_of(lines);
    if words < PAYLOAD_WORDS_MAX { words } else { PAYLOAD_WORDS_MAX - 1 }
}

/// The tag of a line: 56 bits of number, 7 that prove it, and whether it is a header.
///
/// The tag is one word, so it is never torn: one that does not prove itself was damaged.
#[inline]
fn tag(seq: Seq, header: bool) -> u64 {
    tags(seq)[usize::from(!header)]
}

/// The tags of a header line and of a continuation line.
#[inline]
fn tags(seq: Seq) -> [u64; 2] {
    let crc = crc8(seq.bits());
    let folded = u64::from((crc ^ crc >> 7) & 0x7f);
    let folded = folded ^ u64::from(NO_NUMBER);
    [seq.bits() | (folded ^ u64::from(OF_HEADER)) << 56 | TAG_HEADER, seq.bits() | folded << 56]
}

/// The number in a tag and whether it is a header's; `None` when the tag is damaged.
#[inline]
pub(crate) fn untag(word: u64) -> Option<(Seq, bool)> {
    let seq = Seq::from_bits(word & ((1 << 56) - 1));
    let header = word & TAG_HEADER != 0;
    (tag(seq, header) == word).then_some((seq, header))
}

/// The header word: `3..0` kind, `27..4` payload words, `35..28` a CRC-8 of those two, `63..36`
/// a CRC-32C (28 bits of it) of what the record claims to be and of the payload, in stripes.
///
/// The claim has its own seal because a wrong length would make a complete record look
/// unfinished, which is no damage but the ordinary trace of a crash.
#[inline(always)]
pub(crate) fn header_word(kind: RecordKind, seq: Seq, payload: &[u64]) -> u64 {
    let claim = claim_of(kind, payload.len());
    sealed_claim(claim, crc32c_in_stripes(&[seq.bits(), claim], payload))
}

/// The claim of a header word: its kind and how many words it has.
const CLAIM_MASK: u64 = (1 << 28) - 1;

#[inline]
fn claim_of(kind: RecordKind, words: usize) -> u64 {
    kind as u64 | (words as u64) << 4
}

#[inline]
fn sealed_claim(claim: u64, crc: u32) -> u64 {
    let claim = claim & CLAIM_MASK;
    claim | u64::from(crc8(claim)) << 28 | u64::from(crc) << 36
}

/// The kind and the payload words that a header word claims, if the claim proves itself.
pub(crate) fn claim(word: u64) -> Option<(RecordKind, usize)> {
    let claim = word & CLAIM_MASK;
    if u64::from(crc8(claim)) != word >> 28 & 0xff {
        return None;
    }
    Some((RecordKind::from_bits(claim & 0xf)?, (claim >> 4) as usize))
}

/// A record that is to be written.
pub(crate) struct Record<'w> {
    header: u64,
    seq: Seq,
    /// The payload's words, and maybe zeros that fill up the last line.
    words: &'w [u64],
}

impl<'w> Record<'w> {
    #[inline]
    pub fn new(kind: RecordKind, seq: Seq, payload: &'w [u64]) -> Self {
        Self { header: header_word(kind, seq, payload), seq, words: payload }
    }

    /// Of all that a payload has: its lines are whole.
    #[inline]
    pub fn of_all(kind: RecordKind, seq: Seq, payload: &'w mut Payload) -> Self {
        let count = payload.len();
        let padded = words_of(lines_for(count));
        let words = &payload.with_spare_and_zeros(SPARE_WORDS + padded)[SPARE_WORDS..];
        Self { header: header_word(kind, seq, &words[..count]), seq, words }
    }

    /// Lines that it takes.
    #[inline]
    fn lines(&self) -> u64 {
        lines_for(self.words.len())
    }
}

/// Stores a record and starts the write-back of its lines. The fence is the caller's. Returns
/// the lines that it takes.
#[inline]
pub(crate) fn append<M: Medium>(
    io: Io<'_, M>,
    site: Site,
    region: Region,
    first: u64,
    record: Record<'_>,
) -> u64 {
    let lines = record.lines();
    let flush = |from: u64, lines: u64| io.flush(site, region.line(from), lines * LINE_BYTES);
    if io.plants(Plant::FlushBeforeStore) {
        flush(first, lines);
        write(io, region, first, &record);
        return lines;
    }
    write(io, region, first, &record);
    if io.plants(Plant::RecordFirstLineUnflushed) && lines > 1 {
        flush(first + 1, lines - 1);
    } else if io.plants(Plant::RecordLastLineUnflushed) && lines > 1 {
        flush(first, lines - 1);
    } else if !(io.plants(Plant::RegionUnflushed) && region.is_elsewhere) {
        flush(first, lines);
    }
    lines
}

/// Stores a record from line `first` of `region` on: lines in order, in each the tag last (LOG-1).
/// Neither flushes nor fences.
#[inline]
pub(crate) fn write<M: Medium>(io: Io<'_, M>, region: Region, first: u64, record: &Record<'_>) {
    let &Record { header, seq, words } = record;
    assert!(words.len() <= words_of(lines_for(PAYLOAD_WORDS_MAX)));
    assert!(first + record.lines() <= region.lines, "a record stays inside its region");
    let [first_tag, tag] = tags(seq);
    let (head, rest) = words.split_at(words.len().min(HEADER_WORDS));
    let [a, b, c, d, e, f] = whole(head);
    store_line(io, region.line(first), &[header, a, b, c, d, e, f, first_tag]);
    let mut line = region.line(first);
    let mut store = |[a, b, c, d, e, f, g]: [u64; CONTINUATION_WORDS]| {
        line = line.plus(LINE_BYTES);
        store_line(io, line, &[a, b, c, d, e, f, g, tag]);
    };
    let (lines, rest) = rest.as_chunks::<CONTINUATION_WORDS>();
    lines.iter().for_each(|words| store(*words));
    if !rest.is_empty() {
        store(whole(rest));
    }
}

/// The words, and zeros behind them.
#[inline]
fn whole<const N: usize>(words: &[u64]) -> [u64; N] {
    match words.first_chunk() {
        Some(all) => *all,
        None => std::array::from_fn(|index| words.get(index).copied().unwrap_or(0)),
    }
}

/// A line that is a complete record of the log, for tests in which a user's bytes look like one:
/// number `counter` of `generation` puts `word` at `at`, as undo or as redo.
pub fn forged_line(
    undo: bool,
    generation: u64,
    counter: u64,
    at: PoolOffset,
    word: u64,
) -> [u64; 8] {
    let (kind, seq) =
        (if undo { RecordKind::Undo } else { RecordKind::Redo }, Seq::new(generation, counter));
    let mut payload = Payload::default();
    payload.words(at, 1)[0] = word;
    let payload = payload.as_words();
    [header_word(kind, seq, payload), payload[0], payload[1], 0, 0, 0, 0, tag(seq, true)]
}

#[inline]
fn store_line<M: Medium>(io: Io<'_, M>, at: PoolOffset, words: &[u64; 8]) {
    if io.plants(Plant::TagFirst) {
        io.medium.store_u64(at.plus(TAG_AT), words[7]);
        io.medium.store(at, bytemuck::cast_slice(&words[..7]));
    } else if io.plants(Plant::StreamedRecordStoredTag) {
        io.medium.store_nt(at, bytemuck::cast_slice(&words[..7]));
        io.medium.store_u64(at.plus(TAG_AT), words[7]);
    } else {
        io.medium.store(at, bytemuck::bytes_of(words));
    }
}

/// The content of a line where a record may start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A complete record, its payload in the caller's buffer.
    Record { kind: RecordKind, seq: Seq, lines: u64 },
    /// No header line, or the header of a dead record.
    Nothing,
    /// A live record of which at least one line is missing.
    Unfinished { seq: Seq },
    /// Something that no crash leaves behind.
    Damaged { line: PoolOffset, why: &'static str },
}

pub(crate) const HEADER_UNPROVEN: &str = "the header of a log record does not prove itself";

/// Something in a log that no crash leaves behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogDamage {
    pub line: PoolOffset,
    pub why: &'static str,
}

impl LogDamage {
    /// The cause where a live record is that of a baseline, and none is compiled.
    pub const OF_LAB: &str = "the pool's log is that";
}

impl From<LogDamage> for PoolError {
    fn from(LogDamage { line, why }: LogDamage) -> Self {
        if why == LogDamage::OF_LAB {
            return Self::NeedsLab { what: why };
        }
        Self::Damaged { at: line, what: why }
    }
}

/// The header of a record that is known to be complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub kind: RecordKind,
    pub seq: Seq,
    pub lines: u64,
    /// Words of payload.
    pub words: usize,
}

/// The result of [`peek_if`].
pub(crate) enum Peeked {
    /// The header of a record.
    Head(Head),
    /// A header by its tag, under content that is not that header's: a line of a dead record
    /// that was being used again.
    Header(Seq),
    /// Anything else.
    Other,
}

/// Reads just the header of the record at line `first`, if one whose number is `wanted` starts
/// there.
pub(crate) fn peek_if<M: Medium>(
    medium: &M,
    region: Region,
    first: u64,
    wanted: &dyn Fn(Seq) -> bool,
) -> Peeked {
    let at = region.line(first);
    match untag(medium.load_u64(at.plus(TAG_AT))) {
        Some((seq, true)) if wanted(seq) => match claim(medium.load_u64(at)) {
            Some((kind, count)) => {
                Peeked::Head(Head { kind, seq, lines: lines_for(count), words: count })
            }
            None => Peeked::Header(seq),
        },
        _ => Peeked::Other,
    }
}

/// The words of a line's bytes.
pub(crate) fn words_of_line(line: &[u8]) -> [u64; 8] {
    let (words, _) = line.as_chunks::<8>();
    std::array::from_fn(|index| u64::from_le_bytes(words[index]))
}

/// Whether a line is the first of a record whose number is `wanted`.
pub(crate) fn begins(line: &[u8], wanted: &dyn Fn(Seq) -> bool) -> bool {
    let words = words_of_line(line);
    matches!(untag(words[7]), Some((seq, true)) if wanted(seq)) && claim(words[0]).is_some()
}

/// Where word `index` of the payload of a record at line `first` stands.
pub(crate) fn payload_at(region: Region, first: u64, index: usize) -> PoolOffset {
    match index.checked_sub(HEADER_WORDS) {
        None => region.line(first).plus((1 + index) as u64 * 8),
        Some(rest) => {
            let (line, word) = (rest / CONTINUATION_WORDS, rest % CONTINUATION_WORDS);
            region.line(first + 1 + line as u64).plus(word as u64 * 8)
        }
    }
}

/// Reads the record at line `first` of `region`, if a live one is complete there.
pub(crate) fn read<M: Medium>(
    io: Io<'_, M>,
    region: Region,
    first: u64,
    is_live: &dyn Fn(Seq) -> bool,
    payload: &mut Vec<u64>,
) -> Found {
    let medium = io.medium;
    payload.clear();
    if first >= region.lines {
        return Found::Nothing;
    }
    let at = region.line(first);
    let damaged = |line, why| Found::Damaged { line, why };
    let Some((seq, header)) = untag(medium.load_u64(at.plus(TAG_AT))) else {
        return damaged(at, "the tag of a log line does not prove itself");
    };
    if !header || !is_live(seq) {
        return Found::Nothing;
    }
    let mut words = [0u64; 8];
    medium.load(at, bytemuck::bytes_of_mut(&mut words));
    let Some((kind, count)) = claim(words[0]) else {
        return match words[0] == BLANK && medium.is_paged() {
            true => Found::Unfinished { seq },
            false => damaged(at, HEADER_UNPROVEN),
        };
    };
    let lines = lines_for(count);
    if first + lines > region.lines {
        return damaged(at, "a log record is longer than its region");
    }
    let split = count.min(HEADER_WORDS);
    payload.reserve_exact(count);
    payload.extend_from_slice(&words[1..=split]);
    let mut rest = words[1 + split..7].iter().fold(0, |all, word| all | word);
    for index in 1..lines {
        let at = region.line(first + index);
        let word = medium.load_u64(at.plus(TAG_AT));
        match untag(word) {
            None => return damaged(at, "the tag of a log line does not prove itself"),
            Some(_) if io.plants(Plant::ContinuationsBelieved) => {}
            Some((number, header)) if number != seq || header => {
                return Found::Unfinished { seq };
            }
            Some(_) => {}
        }
        let mut content = [0u64; CONTINUATION_WORDS];
        medium.load(at, bytemuck::bytes_of_mut(&mut content));
        let want = CONTINUATION_WORDS.min(count - payload.len());
        payload.extend_from_slice(&content[..want]);
        rest |= content[want..].iter().fold(0, |all, word| all | word);
    }
    let why = if rest != 0 {
        "the rest of a log record is not zero"
    } else if header_word(kind, seq, payload) != words[0] {
        "a complete log record fails its CRC"
    } else {
        return Found::Record { kind, seq, lines };
    };
    match is_torn(medium, region, first, lines) {
        true => Found::Unfinished { seq },
        false => damaged(at, why),
    }
}

/// LOG-10: whether a word of the lines of a record that fails its CRC is as it was before the record, on a
/// medium that tears lines.
#[cold]
fn is_torn<M: Medium>(medium: &M, region: Region, first: u64, lines: u64) -> bool {
    let is_blank = |line: u64| {
        let mut words = [0u64; 8];
        medium.load(region.line(line), bytemuck::bytes_of_mut(&mut words));
        words.map(u64::from_le).contains(&BLANK)
    };
    medium.is_paged() && (first..first + lines).any(is_blank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_pmem::Heap;

    const REGION: Region = Region { at: PoolOffset(128), lines: 16, is_elsewhere: false };
    const SEQ: Seq = Seq::new(3, 77);

    fn written(words: usize) -> (Heap, Vec<u64>, u64) {
        let medium = Heap::new(4096);
        let payload: Vec<u64> = (0..words as u64).map(|i| i * 0x0101_0101 + 1).collect();
        let record = Record::new(RecordKind::Redo, SEQ, &payload);
        write(Io::new(&medium), REGION, 2, &record);
        let lines = record.lines();
        (medium, payload, lines)
    }

    fn read_back(medium: &Heap) -> (Found, Vec<u64>) {
        let mut payload = Vec::new();
        let found = read(Io::new(medium), REGION, 2, &|seq| seq >= SEQ, &mut payload);
        (found, payload)
    }

    #[test]
    fn records_of_every_length_come_back() {
        for words in 0..40 {
            let (medium, payload, lines) = written(words);
            let (found, read) = read_back(&medium);
            assert_eq!(found, Found::Record { kind: RecordKind::Redo, seq: SEQ, lines });
            assert_eq!(read, payload);
        }
    }

    #[test]
    fn a_whole_payload_is_written_as_its_words_are() {
        let [word_by_word, at_once] = [Heap::new(4096), Heap::new(4096)];
        let mut payload = Payload::default();
        // Lines of a longer record before are no part of a shorter one.
        for words in (0..40).rev() {
            payload.clear();
            (0..words).for_each(|word| payload.set_bit(PoolOffset(8 * word), 7));
            let io = Io::new(&word_by_word);
            let copy = payload.as_words().to_vec();
            write(io, REGION, 2, &Record::new(RecordKind::Redo, SEQ, &copy));
            let io = Io::new(&at_once);
            write(io, REGION, 2, &Record::of_all(RecordKind::Redo, SEQ, &mut payload));
            assert_eq!(word_by_word.to_bytes(), at_once.to_bytes(), "{words} words");
            assert_eq!(payload.as_words(), copy);
        }
    }

    #[test]
    fn a_tag_proves_itself_against_every_single_flip() {
        for header in [false, true] {
            for bit in 0..64 {
                assert_eq!(untag(tag(SEQ, header) ^ 1 << bit), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn any_flipped_bit_of_a_complete_record_is_damage() {
        let (medium, _, lines) = written(12);
        let bytes = medium.to_bytes();
        let from = REGION.line(2).0 as usize;
        for bit in (0..lines as usize * 512).step_by(if cfg!(miri) { 37 } else { 1 }) {
            let mut flipped = bytes.clone();
            flipped[from + bit / 8] ^= 1 << (bit % 8);
            let (found, _) = read_back(&Heap::from_bytes(&flipped));
            assert!(matches!(found, Found::Damaged { .. }), "bit {bit}: {found:?}");
        }
    }

    #[test]
    fn a_record_without_one_of_its_lines_is_unfinished() {
        let (medium, _, lines) = written(30);
        for missing in 1..lines {
            let bytes = medium.to_bytes();
            let medium = Heap::from_bytes(&bytes);
            // An older record's line stands there instead.
            medium.store_u64(REGION.line(2 + missing).plus(TAG_AT), tag(Seq::new(3, 76), false));
            assert_eq!(read_back(&medium).0, Found::Unfinished { seq: SEQ });
        }
    }

    #[test]
    fn a_dead_record_and_a_continuation_line_are_nothing() {
        let (medium, _, _) = written(12);
        let mut payload = Vec::new();
        let io = Io::new(&medium);
        assert_eq!(read(io, REGION, 2, &|seq| seq > SEQ, &mut payload), Found::Nothing);
        assert_eq!(read(io, REGION, 3, &|_| true, &mut payload), Found::Nothing);
        medium.store_u64(REGION.line(9).plus(TAG_AT), BLANK);
        assert_eq!(read(io, REGION, 9, &|_| true, &mut payload), Found::Nothing);
        // A line that was never written, not even blank, is damage.
        let zeros = read(io, REGION, 10, &|_| true, &mut payload);
        assert!(matches!(zeros, Found::Damaged { .. }), "{zeros:?}");
    }
}
