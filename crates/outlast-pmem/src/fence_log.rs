//! The log of fences: what a fence makes durable goes to one place, in one piece.
//!
//! In the domain `page` a fence would write every page on which something was flushed, where those pages
//! lie. Here it writes the flushed *lines*, one behind the other, as an *entry* at the end of a log; the pages
//! they belong to stay in the page cache, for the system to write when it likes. So threads that fence
//! together share a page or two however far apart they store, and no page has to be made writable again after each
//! fence.
//!
//! After a loss of power the pages on the disk are of any age. Recovery puts the lines of the entries back,
//! oldest first: then each line is as its last fence left it, or newer where no entry has it. That a line is
//! older than what was on the disk already is allowed: nothing had made that durable.
//!
//! The log has two halves. A *run* of entries begins at the start of one, and goes on while it has room.
//!
//! * **FENCES-1** Entries have numbers without gaps. The run that has the newest of them is the one to put
//!   back, as far as its entries are whole and follow each other.
//! * **FENCES-2** A run is begun when every line of the run before is durable in place: from then on that one is
//!   not needed, and until the new one's first entry is whole it still holds.
//! * **FENCES-3** A fence with many lines writes them in place. Where the run has an older version of one of them,
//!   the fence begins another run, with an empty entry, before it returns.
//! * **FENCES-4** An opening begins with a number that no entry of before can have, whole or torn, and says so
//!   durably before its first fence. Before that all that the entries have is in place, durably: also where it
//!   seems to be so already, since a page cache outlives its process and shows what no disk has.
//! * **FENCES-5** An entry is begun when the one before is durable. So one whose number is two ahead of the
//!   last that was found says that something between them is damaged. One flipped bit is found by the entry's
//!   CRC and by what is in place, and put right; all else is an error.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use outlast_trace::{ByteRange, LINE_BYTES, LineAddr, PoolOffset};

use crate::crc::{crc32c_in_stripes, flipped_bits};
use crate::error::PAGE_BYTES;
use crate::medium::Medium;
use crate::overlay::Overlay;

/// Words of an entry's head: its number, words of its table, lines, and two checksums.
const HEAD_WORDS: usize = 8;
const LINE_WORDS: usize = LINE_BYTES as usize / 8;

/// Words of a head that its proof covers, and itself.
const PROVEN_WORDS: u64 = 5;

/// Lines in one word of the table at most.
const TOGETHER_MAX: u64 = (1 << TOGETHER_BITS) - 1;
const TOGETHER_BITS: u32 = 16;

/// Numbers are below this, and so are those of a next opening within 56 bits.
const NUMBER_MAX: u64 = (1 << 56) - 2;

/// Ranges of pages that the end of a run writes back, each with a flush of the device.
const WRITTEN_BACK_MAX: usize = 4;

/// Ranges that a fence with many lines writes in place.
const IN_PLACE_MAX: usize = 2;

/// The longest entry. More lines cost less where they lie: they are written once, and not copied.
const ENTRY_BYTES_MAX: u64 = 64 << 10;

/// Ranges of pages that are told apart meanwhile.
const RANGES_MAX: usize = 1024;

/// The bytes that a log has at least: a page for each half.
pub const FENCE_LOG_BYTES_MIN: u64 = 2 * PAGE_BYTES;

/// The pages of a medium, as far as a log of fences needs them.
pub(crate) trait Pages {
    /// A word as it stands.
    fn load_word(&self, at: PoolOffset) -> u64;

    /// Writes all dirty pages of some whole pages, and flushes the device.
    fn write_back(&self, bytes: Range<u64>) -> io::Result<()>;

    /// Stores bytes and makes them durable, with one flush of the device.
    fn write_through(&self, at: PoolOffset, bytes: &[u8]) -> io::Result<()>;

    /// A write has failed. When this returns, nothing that is stored later reaches the pages.
    fn fail(&self, error: &io::Error) {
        let _ = error;
    }
}

/// A way to break the log, for checks that can fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FenceLogBug {
    /// A run is begun while lines of the one before are not in place (FENCES-2).
    RunBegunEarly,
    /// A fence that wrote in place leaves a run as it is that has its lines (FENCES-3).
    OlderRunLeft,
    /// The last line of an entry is left out.
    LineLeftOut,
    /// An entry is not flushed.
    EntryUnflushed,
}

/// Where a log of fences lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FenceRegion {
    /// Its halves, from the start of a page on.
    pub halves: ByteRange,
    /// What entries of another pool do not have, nor bytes that a user stores: drawn by chance once.
    pub salt: u64,
}

/// The writing end.
pub(crate) struct FenceLog {
    region: FenceRegion,
    half: u64,
    /// Where the next entry goes, in its half.
    at: u64,
    number: u64,
    /// Lines that the run has, among others perhaps.
    lines: Vec<Range<u64>>,
    /// The entry under way.
    words: Vec<u64>,
    bug: Option<FenceLogBug>,
}

impl FenceLog {
    /// A log in that region, whose first entry has this number.
    pub fn new(region: FenceRegion, first: u64, bug: Option<FenceLogBug>) -> Self {
        let end = half_bytes(region.halves);
        Self { region, half: 1, at: end, number: first, lines: Vec::new(), words: Vec::new(), bug }
    }

    /// Makes lines durable: all of `noted`, or every dirty page from the first to the last of `pages` where it is
    /// not known which, or where there are too many.
    pub fn fence(
        &mut self,
        noted: Option<&[Range<u64>]>,
        pages: Range<u64>,
        to: &impl Pages,
    ) -> io::Result<()> {
        let half = half_bytes(self.region.halves);
        let entry_max = ENTRY_BYTES_MAX.min(half / 2);
        let Some(noted) = noted.filter(|noted| entry_bytes(noted) <= entry_max) else {
            return self.fence_in_place(noted, pages, to);
        };
        if self.at + entry_bytes(noted) > half {
            let run = std::mem::take(&mut self.lines);
            if self.bug != Some(FenceLogBug::RunBegunEarly) {
                write_back(self.pages_of_run(run), to)?;
            }
            self.begin_run();
        }
        self.append(noted, to)?;
        for range in noted {
            match self.lines.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => self.lines.push(range.clone()),
            }
        }
        if self.lines.len() > RANGES_MAX {
            bring_together(&mut self.lines, RANGES_MAX / 2);
        }
        Ok(())
    }

    /// The same where the lines lie.
    fn fence_in_place(
        &mut self,
        noted: Option<&[Range<u64>]>,
        pages: Range<u64>,
        to: &impl Pages,
    ) -> io::Result<()> {
        let is_in_run = match noted {
            Some(noted) => {
                tidy(&mut self.lines);
                self.lines.iter().any(|range| meets(range, noted))
            }
            None => !self.lines.is_empty(),
        };
        let mut ranges: Vec<_> = match noted {
            Some(noted) => noted.iter().map(|lines| pages_of(lines.clone())).collect(),
            None => vec![pages],
        };
        bring_together(&mut ranges, IN_PLACE_MAX);
        if !is_in_run {
            return write_back(ranges, to);
        }
        let run = std::mem::take(&mut self.lines);
        ranges.extend(self.pages_of_run(run));
        bring_together(&mut ranges, IN_PLACE_MAX + 1);
        write_back(ranges, to)?;
        if self.bug != Some(FenceLogBug::OlderRunLeft) {
            self.begin_run();
            self.append(&[], to)?;
        }
        Ok(())
    }

    /// The pages of a run's lines. In front of the log are lanes alone, whose pages are the run's as far as they are
    /// dirty: they are one range.
    fn pages_of_run(&self, run: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let log = page_of(self.region.halves.at.line().0);
        let pages = run.into_iter().map(pages_of);
        let (lanes, mut others): (Vec<_>, Vec<_>) = pages.partition(|pages| pages.end <= log);
        others.extend(lanes.into_iter().reduce(join));
        bring_together(&mut others, WRITTEN_BACK_MAX);
        others
    }

    /// Bytes of the entries whose lines are not known to be in place.
    pub fn used_bytes(&self) -> u64 {
        if self.lines.is_empty() { 0 } else { self.at }
    }

    fn begin_run(&mut self) {
        (self.half, self.at) = (1 - self.half, 0);
    }

    fn append(&mut self, noted: &[Range<u64>], to: &impl Pages) -> io::Result<()> {
        let at = half_at(self.region.halves, self.half).plus(self.at);
        self.words.clear();
        self.words.resize(HEAD_WORDS, 0);
        self.words.extend(noted.iter().flat_map(|range| pieces(range.clone())));
        let table = self.words.len() - HEAD_WORDS;
        self.words.resize(self.words.len().next_multiple_of(LINE_WORDS), 0);
        let lines: u64 = noted.iter().map(|range| range.end - range.start).sum();
        for line in noted.iter().flat_map(|range| range.clone()) {
            self.words.extend(load_line(to, LineAddr(line)));
        }
        if self.bug == Some(FenceLogBug::LineLeftOut) && lines > 0 {
            let from = self.words.len() - LINE_WORDS;
            self.words.copy_within(from - LINE_WORDS..from, from);
        }
        let front = [at.0 ^ self.region.salt, self.number];
        let body = crc32c_in_stripes(&front, &self.words[HEAD_WORDS..]);
        let head = [self.number, table as u64, lines, u64::from(body)];
        self.words[..head.len()].copy_from_slice(&head);
        self.words[head.len()] = head_proof(at, self.region.salt, &head);
        self.words.iter_mut().for_each(|word| *word = word.to_le());
        if self.bug != Some(FenceLogBug::EntryUnflushed) {
            to.write_through(at, bytemuck::cast_slice(&self.words))?;
        }
        self.at += 8 * self.words.len() as u64;
        self.number += 1;
        Ok(())
    }
}

/// A line to which words may be stored meanwhile: the last one is read first, as it is stored last.
fn load_line(from: &impl Pages, line: LineAddr) -> [u64; LINE_WORDS] {
    let mut words = [0; LINE_WORDS];
    for word in (0..LINE_WORDS).rev() {
        words[word] = from.load_word(line.start().plus(8 * word as u64));
    }
    words
}

/// The union of two spans, and what lies between.
pub(crate) fn join(a: Range<u64>, b: Range<u64>) -> Range<u64> {
    a.start.min(b.start)..a.end.max(b.end)
}

fn write_back(ranges: Vec<Range<u64>>, to: &impl Pages) -> io::Result<()> {
    ranges.into_iter().try_for_each(|pages| to.write_back(in_bytes(pages)))
}

/// Whether a range meets one of these, which are in order and apart.
fn meets(range: &Range<u64>, others: &[Range<u64>]) -> bool {
    let first = others.partition_point(|other| other.end <= range.start);
    others.get(first).is_some_and(|other| other.start < range.end)
}

fn page_of(line: u64) -> u64 {
    line * LINE_BYTES / PAGE_BYTES
}

/// The pages of a range of lines.
fn pages_of(lines: Range<u64>) -> Range<u64> {
    page_of(lines.start)..page_of(lines.end - 1) + 1
}

fn in_bytes(pages: Range<u64>) -> Range<u64> {
    pages.start * PAGE_BYTES..pages.end * PAGE_BYTES
}

/// Sorts ranges of lines, and joins those that touch.
pub(crate) fn tidy(ranges: &mut Vec<Range<u64>>) {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
}

/// The same, and joins those that are nearest to each other until there are at most `most`.
fn bring_together(ranges: &mut Vec<Range<u64>>, most: usize) {
    tidy(ranges);
    if ranges.len() <= most {
        return;
    }
    let mut gaps: Vec<u64> = ranges.windows(2).map(|pair| pair[1].start - pair[0].end).collect();
    // One gap less than ranges is left.
    let (_, least, _) = gaps.select_nth_unstable_by(most - 1, |a, b| b.cmp(a));
    let least = *least;
    ranges.dedup_by(|next, last| {
        let is_near = next.start - last.end <= least;
        if is_near {
            last.end = next.end;
        }
        is_near
    });
}

fn half_bytes(region: ByteRange) -> u64 {
    region.len / 2 / PAGE_BYTES * PAGE_BYTES
}

fn half_at(region: ByteRange, half: u64) -> PoolOffset {
    region.at.plus(half * half_bytes(region))
}

/// The words of the table that name a range of lines.
fn pieces(range: Range<u64>) -> impl Iterator<Item = u64> {
    let end = range.end;
    range.step_by(TOGETHER_MAX as usize).map(move |line| {
        let together = (end - line).min(TOGETHER_MAX);
        line << TOGETHER_BITS | together
    })
}

fn entry_bytes(noted: &[Range<u64>]) -> u64 {
    let table: u64 =
        noted.iter().map(|range| (range.end - range.start).div_ceil(TOGETHER_MAX)).sum();
    let lines: u64 = noted.iter().map(|range| range.end - range.start).sum();
    bytes_of(table, lines)
}

fn bytes_of(table: u64, lines: u64) -> u64 {
    (HEAD_WORDS as u64 * 8) + (table * 8).next_multiple_of(LINE_BYTES) + lines * LINE_BYTES
}

/// What proves a head, at its place.
fn head_proof(at: PoolOffset, salt: u64, head: &[u64; 4]) -> u64 {
    u64::from(crc32c_in_stripes(&[at.0 ^ salt, !0], head)) | 1 << 32
}

/// A log of fences as a crash has left it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FoundFences {
    /// The lines to put back, each as its last entry has it.
    pub lines: BTreeMap<LineAddr, [u64; LINE_WORDS]>,
    /// Entries that they are of.
    pub entries: u64,
    /// Bytes of those entries.
    pub bytes: u64,
    /// The number of the next opening's first entry (FENCES-4).
    pub next: u64,
    /// The byte with the flipped bit, where an entry was put right (FENCES-5).
    pub corrected: Option<PoolOffset>,
}

impl FoundFences {
    /// Whether all lines are in the medium as their last entries have them.
    fn is_in_place<M: Medium>(&self, medium: &M) -> bool {
        let is_in_place = |(line, words): (&LineAddr, &[u64; LINE_WORDS])| {
            (0..).zip(words).all(|(i, word)| medium.load_u64(line.start().plus(8 * i)) == *word)
        };
        self.lines.iter().all(is_in_place)
    }
}

/// Reads the log in a region, in which the opening's entries begin with number `first`. Nothing is stored.
///
/// # Errors
/// Where an entry is damaged by more than one flipped bit: its place (FENCES-5).
pub fn read_fences<M: Medium>(
    medium: &M,
    region: FenceRegion,
    first: u64,
) -> Result<FoundFences, PoolOffset> {
    let damaged = match read_undamaged(medium, region, first) {
        Ok(found) => return Ok(found),
        Err(at) => at,
    };
    let mut mended = Vec::new();
    for half in halves_of(region.halves) {
        let Ok((run, end)) = read_run(medium, region, half, first) else { continue };
        let is_next = |number: u64| match run.entries {
            0 => number >= first,
            _ => number + 1 == run.next,
        };
        for (at, bit) in find_flips(medium, region, (end, half.end()), is_next) {
            let view = Overlay::new(medium);
            view.store_u64(at, view.load_u64(at) ^ 1 << bit);
            let found = read_undamaged(&view, region, first);
            let corrected = Some(at.plus(bit / 8));
            mended.extend(found.map(|found| FoundFences { corrected, ..found }));
        }
    }
    // The stripes of a CRC do not tell their bits apart. Where that makes a difference, what is in place does.
    let agree =
        |mended: &[FoundFences]| mended.windows(2).all(|pair| pair[0].lines == pair[1].lines);
    if !agree(&mended) {
        mended.retain(|found| found.is_in_place(medium));
    }
    if agree(&mended) { mended.pop().ok_or(damaged) } else { Err(damaged) }
}

fn halves_of(halves: ByteRange) -> [ByteRange; 2] {
    [0, 1].map(|half| ByteRange::new(half_at(halves, half), half_bytes(halves)))
}

fn read_undamaged<M: Medium>(
    medium: &M,
    region: FenceRegion,
    first: u64,
) -> Result<FoundFences, PoolOffset> {
    let FenceRegion { halves, salt } = region;
    let mut found = FoundFences { next: first + 1, ..FoundFences::default() };
    for half in halves_of(halves) {
        let (run, _) = read_run(medium, region, half, first)?;
        if run.next > found.next || found.entries == 0 && run.entries > 0 {
            found = run;
        }
    }
    // Of the entry behind the last one a crash may have left any part.
    let is_damage = |head: Head| head.number >= found.next;
    let mut at = halves.at;
    while at.0 < half_at(halves, 2).0 {
        if Head::read(medium, at, salt).is_some_and(is_damage) {
            return Err(at);
        }
        at = at.plus(LINE_BYTES);
    }
    Ok(found)
}

/// The words, and which of their bits, without whose flip an entry of such a number is whole at a place, which
/// ends before `limit`.
fn find_flips<M: Medium>(
    medium: &M,
    region: FenceRegion,
    (at, limit): (PoolOffset, PoolOffset),
    is_number: impl Fn(u64) -> bool,
) -> Vec<(PoolOffset, u64)> {
    if at >= limit {
        return Vec::new();
    }
    let fits = |head: &Head| is_number(head.number) && head.entry_bytes() <= limit.0 - at.0;
    if let Some(head) = Head::read(medium, at, region.salt).filter(|head| fits(head)) {
        let (words, crc) = head.body_of(medium, at, region.salt);
        let bits = flipped_bits(words.len(), head.body as u32, crc).into_iter();
        let place = |bit| (at.plus((HEAD_WORDS as u64 + bit / 64) * 8), bit % 64);
        return bits.map(|bit| place(bit as u64)).collect();
    }
    let of_head = (0..PROVEN_WORDS * 64).map(|bit| (at.plus(bit / 64 * 8), bit % 64));
    let is_whole = |(word, bit): &(PoolOffset, u64)| {
        let view = Overlay::new(medium);
        view.store_u64(*word, view.load_u64(*word) ^ 1 << bit);
        Head::read(&view, at, region.salt).is_some_and(|head| {
            fits(&head) && u64::from(head.body_of(medium, at, region.salt).1) == head.body
        })
    };
    of_head.filter(is_whole).collect()
}

/// The whole entries from the start of a half on, and where they end.
fn read_run<M: Medium>(
    medium: &M,
    region: FenceRegion,
    half: ByteRange,
    first: u64,
) -> Result<(FoundFences, PoolOffset), PoolOffset> {
    let mut found = FoundFences::default();
    let mut at = half.at;
    while at.0 < half.end().0 {
        let Some(head) = Head::read(medium, at, region.salt) else { break };
        let follows = match found.entries {
            0 => head.number >= first,
            _ => head.number + 1 == found.next,
        };
        let bytes = head.entry_bytes();
        if !follows || bytes > half.end().0 - at.0 {
            break;
        }
        let (words, crc) = head.body_of(medium, at, region.salt);
        if u64::from(crc) != head.body {
            break;
        }
        let is_data = |line: u64| is_data(medium.len(), region.halves, line);
        if !head.put(&words, is_data, &mut found.lines) {
            return Err(at);
        }
        found.entries += 1;
        found.bytes += bytes;
        found.next = head.number + 2;
        at = at.plus(bytes);
    }
    Ok((found, at))
}

/// Whether a line is one that an entry may hold: none of the header, of the log itself, or beyond the medium.
fn is_data(medium_bytes: u64, halves: ByteRange, line: u64) -> bool {
    const HEADER_LINES: u64 = 2;
    let at = PoolOffset(line.saturating_mul(LINE_BYTES));
    let is_log = (halves.at.0..halves.end().0).contains(&at.0);
    (HEADER_LINES..medium_bytes / LINE_BYTES).contains(&line) && !is_log
}

/// An entry's first line.
struct Head {
    number: u64,
    table: u64,
    lines: u64,
    body: u64,
}

impl Head {
    /// One that proves itself there.
    fn read<M: Medium>(medium: &M, at: PoolOffset, salt: u64) -> Option<Self> {
        let mut words = [0u64; PROVEN_WORDS as usize];
        medium.load(at, bytemuck::bytes_of_mut(&mut words));
        let [number, table, lines, body, proof] = words.map(u64::from_le);
        let is_whole = proof >> 32 == 1
            && proof == head_proof(at, salt, &[number, table, lines, body])
            && number < NUMBER_MAX;
        is_whole.then_some(Self { number, table, lines, body })
    }

    /// What follows the head of an entry at that place that fits there, and its CRC.
    fn body_of<M: Medium>(&self, medium: &M, at: PoolOffset, salt: u64) -> (Vec<u64>, u32) {
        let mut words = vec![0; self.entry_bytes() as usize / 8 - HEAD_WORDS];
        medium.load(at.plus(HEAD_WORDS as u64 * 8), bytemuck::cast_slice_mut(&mut words));
        words.iter_mut().for_each(|word| *word = u64::from_le(*word));
        let crc = crc32c_in_stripes(&[at.0 ^ salt, self.number], &words);
        (words, crc)
    }

    /// More than any half has where the numbers are no entry's.
    fn entry_bytes(&self) -> u64 {
        let is_possible = self.table.max(self.lines) < 1 << 40;
        if is_possible { bytes_of(self.table, self.lines) } else { u64::MAX }
    }

    /// Adds the lines of an entry. `false` where its table is not one of these lines.
    fn put(
        &self,
        words: &[u64],
        is_data: impl Fn(u64) -> bool,
        lines: &mut BTreeMap<LineAddr, [u64; LINE_WORDS]>,
    ) -> bool {
        let (table, contents) = words.split_at((self.table as usize).next_multiple_of(LINE_WORDS));
        let mut contents = contents.as_chunks::<LINE_WORDS>().0.iter();
        for word in &table[..self.table as usize] {
            let (line, together) = (word >> TOGETHER_BITS, word & TOGETHER_MAX);
            for line in line..line + together {
                let Some(content) = contents.next().filter(|_| is_data(line)) else {
                    return false;
                };
                lines.insert(LineAddr(line), *content);
            }
        }
        contents.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::heap::Heap;
    use outlast_trace::Random;

    /// Memory, and a disk that has what was written through or back.
    struct Disk {
        memory: Heap,
        disk: Heap,
        flushes: Cell<u32>,
        entries: RefCell<Vec<ByteRange>>,
    }

    const REGION: FenceRegion = FenceRegion {
        halves: ByteRange { at: PoolOffset(PAGE_BYTES), len: 4 * PAGE_BYTES },
        salt: 0x5eed,
    };
    const DATA: Range<u64> = 5 * PAGE_BYTES / LINE_BYTES..16 * PAGE_BYTES / LINE_BYTES;

    impl Disk {
        fn new() -> Self {
            let medium = || Heap::new(16 * PAGE_BYTES);
            let (memory, disk) = (medium(), medium());
            Self { memory, disk, flushes: Cell::new(0), entries: RefCell::default() }
        }

        fn store(&self, line: u64, value: u64) {
            self.memory.store_words(LineAddr(line), !0, &[value; 8]);
        }

        /// The disk as recovery leaves it, or where the log is damaged.
        fn recovered(&self, first: u64) -> Result<(Heap, FoundFences), PoolOffset> {
            let medium = Heap::from_bytes(&self.disk.to_bytes());
            let found = read_fences(&medium, REGION, first)?;
            for (line, words) in &found.lines {
                medium.store_words(*line, !0, words);
            }
            Ok((medium, found))
        }
    }

    impl Pages for Disk {
        fn load_word(&self, at: PoolOffset) -> u64 {
            self.memory.load_u64(at)
        }

        fn write_back(&self, bytes: Range<u64>) -> io::Result<()> {
            self.flushes.set(self.flushes.get() + 1);
            let memory = self.memory.to_bytes();
            self.disk
                .store(PoolOffset(bytes.start), &memory[bytes.start as usize..bytes.end as usize]);
            Ok(())
        }

        fn write_through(&self, at: PoolOffset, bytes: &[u8]) -> io::Result<()> {
            self.flushes.set(self.flushes.get() + 1);
            self.memory.store(at, bytes);
            self.disk.store(at, bytes);
            self.entries.borrow_mut().push(ByteRange::new(at, bytes.len() as u64));
            Ok(())
        }
    }

    /// Some lines that are noted, and whether it is known which.
    fn fences() -> impl Strategy<Value = Vec<(Vec<Range<u64>>, bool)>> {
        let range = (DATA, 1..6u64).prop_map(|(from, len)| from..(from + len).min(DATA.end));
        let many = (DATA, 20..90u64).prop_map(|(from, len)| from..(from + len).min(DATA.end));
        let noted = prop_oneof![
            8 => vec(range, 1..4),
            1 => vec(many, 1..2),
        ];
        vec((noted, prop::bool::weighted(0.95)), 1..120)
    }

    fn fence(log: &mut FenceLog, disk: &Disk, noted: &[Range<u64>], is_known: bool) {
        let mut noted = noted.to_vec();
        tidy(&mut noted);
        let of = |line: u64| line * LINE_BYTES / PAGE_BYTES;
        let pages = of(noted[0].start)..of(noted.last().unwrap().end - 1) + 1;
        log.fence(is_known.then_some(&noted), pages, disk).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

        /// After each fence all lines are as they were at their last one, also where the system has written
        /// some of the pages; and after a second opening.
        #[test]
        #[cfg_attr(miri, ignore = "many images take minutes there")]
        fn lines_are_as_their_last_fence_left_them(fences in fences(), seed in any::<u64>()) {
            let (disk, mut first) = (Disk::new(), 1);
            let mut log = FenceLog::new(REGION, first, None);
            let mut fenced: BTreeMap<u64, u64> = BTreeMap::new();
            let mut random = Random::new(seed);
            for (turn, (noted, is_known)) in (1..).zip(&fences) {
                for line in noted.iter().flat_map(|range| range.clone()) {
                    disk.store(line, turn);
                    fenced.insert(line, turn);
                }
                fence(&mut log, &disk, noted, *is_known);
                let (medium, found) = disk.recovered(first).unwrap();
                for (line, value) in &fenced {
                    prop_assert_eq!(medium.load_u64(LineAddr(*line).start()), *value);
                }
                match random.below(16) {
                    // The system writes a page.
                    0..5 => {
                        let page = DATA.start * LINE_BYTES / PAGE_BYTES + random.below(11);
                        disk.write_back(in_bytes(page..page + 1)).unwrap();
                    }
                    // Power fails, and the pool is opened anew.
                    5 => {
                        disk.disk.store(PoolOffset(0), &medium.to_bytes());
                        disk.memory.store(PoolOffset(0), &medium.to_bytes());
                        first = found.next;
                        log = FenceLog::new(REGION, first, None);
                        let (_, found) = disk.recovered(first).unwrap();
                        prop_assert_eq!((found.entries, found.next), (0, first + 1));
                    }
                    _ => {}
                }
            }
        }

        /// Of the last entry nothing is put back where it is not whole. One before it that has a flipped bit is put
        /// right, or refused where its CRC leaves open which bit that is.
        #[test]
        #[cfg_attr(miri, ignore = "many images take minutes there")]
        fn an_entry_is_there_as_a_whole_or_not(
            count in 2usize..12,
            lost in any::<usize>(),
            flipped in any::<u64>(),
        ) {
            let disk = Disk::new();
            let mut log = FenceLog::new(REGION, 7, None);
            for turn in 0..count as u64 {
                disk.store(DATA.start + turn, turn + 1);
                disk.store(DATA.start + 20, turn + 1);
                let noted = [turn, 20].map(|line| DATA.start + line..DATA.start + line + 1);
                fence(&mut log, &disk, &noted, true);
            }
            let entries = disk.entries.borrow().clone();
            prop_assert_eq!(entries.len(), count);
            let lost = lost % count;
            let at = entries[lost].at.plus(flipped / 8 % entries[lost].len / 8 * 8);
            // The last words of a head are not used.
            prop_assume!(!matches!((at.0 - entries[lost].at.0) / 8, 5..8));
            disk.disk.store_u64(at, disk.disk.load_u64(at) ^ 1 << (flipped % 64));
            let left = disk.recovered(7);
            if lost + 1 == count {
                let (medium, found) = left.unwrap();
                prop_assert_eq!(found.entries as usize, count - 1);
                prop_assert_eq!(found.next, 7 + count as u64);
                let common = medium.load_u64(LineAddr(DATA.start + 20).start());
                prop_assert_eq!(common, count as u64 - 1);
            } else {
                if let Ok((medium, found)) = left {
                    prop_assert_eq!(found.entries as usize, count);
                    let common = medium.load_u64(LineAddr(DATA.start + 20).start());
                    prop_assert_eq!(common, count as u64);
                }
                // What is in place tells which of a few bits it was.
                let data = DATA.start * LINE_BYTES..DATA.end * LINE_BYTES;
                disk.write_back(data.clone()).unwrap();
                let (medium, found) = disk.recovered(7).unwrap();
                prop_assert_eq!(found.entries as usize, count);
                prop_assert!(found.corrected.is_some());
                let bytes = |heap: &Heap| heap.to_bytes()[data.start as usize..data.end as usize].to_vec();
                prop_assert!(bytes(&medium) == bytes(&disk.memory));
            }
        }
    }

    /// Entries of another pool, of numbers that none has, and of lines that are not a program's.
    #[test]
    #[cfg_attr(miri, ignore = "many images take minutes there")]
    fn what_no_fence_has_written_is_not_put_back() {
        let found = |region: FenceRegion, first: u64, line: u64| {
            let disk = Disk::new();
            let mut log = FenceLog::new(region, first, None);
            fence(&mut log, &disk, &[Range { start: line, end: line + 1 }], true);
            disk.recovered(7).map(|(_, found)| found.entries)
        };
        assert_eq!(found(REGION, 7, DATA.start), Ok(1));
        assert_eq!(found(FenceRegion { salt: 1, ..REGION }, 7, DATA.start), Ok(0));
        assert_eq!(found(REGION, NUMBER_MAX, DATA.start), Ok(0));
        assert_eq!(found(REGION, 6, DATA.start), Ok(0), "an older opening's");
        let halves = REGION.halves;
        for line in [0, 1, halves.at.line().0, halves.end().line().0 - 1] {
            assert_eq!(found(REGION, 7, line), Err(halves.at), "{line}");
        }
    }

    #[test]
    fn a_fence_is_one_flush_but_where_a_run_ends() {
        let disk = Disk::new();
        let mut log = FenceLog::new(REGION, 1, None);
        let small = |log: &mut FenceLog| {
            let before = disk.flushes.get();
            fence(log, &disk, &[Range { start: DATA.start, end: DATA.start + 2 }], true);
            disk.flushes.get() - before
        };
        // 256 bytes each: 32 in a half of two pages.
        let flushes: Vec<u32> = (0..100).map(|_| small(&mut log)).collect();
        let twice: Vec<usize> = (0..100).filter(|fence| flushes[*fence] == 2).collect();
        assert_eq!(twice, [32, 64, 96]);
        let before = disk.flushes.get();
        fence(&mut log, &disk, &[Range { start: DATA.start, end: DATA.start + 70 }], true);
        assert_eq!(disk.flushes.get() - before, 2, "in place, and an empty entry");
        let before = disk.flushes.get();
        fence(&mut log, &disk, &[Range { start: DATA.start, end: DATA.start + 70 }], true);
        assert_eq!(disk.flushes.get() - before, 1, "no older version is in the log");
        small(&mut log);
        let before = disk.flushes.get();
        fence(&mut log, &disk, &[Range { start: DATA.start + 2, end: DATA.start + 90 }], true);
        assert_eq!(disk.flushes.get() - before, 1, "the log has others");
    }

    #[test]
    fn ranges_are_joined_where_they_touch() {
        let mut ranges = vec![7..9, 1..3, 3..4, 8..12, 20..21];
        tidy(&mut ranges);
        assert_eq!(ranges, [1..4, 7..12, 20..21]);
        let mut ranges = vec![0..2, 4..5, 30..31, 33..40, 100..110];
        bring_together(&mut ranges, 3);
        assert_eq!(ranges, [0..5, 30..40, 100..110]);
        let words: Vec<u64> = pieces(5..5 + TOGETHER_MAX + 3).collect();
        assert_eq!(words, [5 << 16 | TOGETHER_MAX, (5 + TOGETHER_MAX) << 16 | 3]);
    }
}
