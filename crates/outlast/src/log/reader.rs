//! Reads the live records of one lane, as recovery and `check` do.

use outlast_pmem::Medium;
use outlast_trace::{LINE_BYTES, PoolOffset};

use crate::io::Io;
use crate::layout::CHUNK_BYTES_MIN;
use crate::log::place::Place;
use crate::log::record::{self, Found, Head, LogDamage, Peeked, RecordKind, Region};
use crate::log::streamed;
use crate::plant::Plant;
use crate::seq::Seq;

/// A complete live record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LiveRecord {
    pub kind: RecordKind,
    pub seq: Seq,
    pub payload: Vec<u64>,
}

/// The region that a `Detached` or `Continued` record names.
pub(crate) fn named_region(payload: &[u64], pool_len: u64) -> Option<Region> {
    let &[at, lines] = payload else { return None };
    let bytes = lines.checked_mul(LINE_BYTES)?;
    let inside = at.is_multiple_of(LINE_BYTES) && lines > 0 && at.checked_add(bytes)? <= pool_len;
    inside.then_some(Region { at: PoolOffset(at), lines, is_elsewhere: true })
}

/// A record's state by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    /// Recovery applies it.
    Live,
    /// The pool's floor has passed it in this generation. Live records may follow: the tail moves
    /// only after the floor, and other lanes commit meanwhile (SWEEP-3).
    Passed,
    /// Of an older generation, or of a finished undo transaction. Nothing live follows.
    Dead,
}

/// Appends the lane's complete live records to `out`, oldest first, `Detached`, `Continued` and
/// `Wrap` followed and left out. Records that the floor has passed are read over; reading stops
/// at the first other place without a live record. With `proves_end`, what lies behind is looked at
/// (LOG-8). `ends_by_wrap` says that each lap does, which keeps a line for that.
pub(crate) fn read_lane<M: Medium>(
    io: Io<'_, M>,
    tail: Place,
    (proves_end, ends_by_wrap): (bool, bool),
    life: &dyn Fn(Seq) -> Life,
    out: &mut Vec<LiveRecord>,
) -> Result<(), LogDamage> {
    let medium = io.medium;
    let ring = tail.region;
    let mut place = tail;
    // Whether the ring is read from its start again.
    let mut is_around = false;
    // Regions lead from one to the next, and a pool has no more than chunks.
    let mut regions_left = medium.len() / CHUNK_BYTES_MIN;
    let mut lines_left = ring.lines;
    let mut last = Seq::default();
    // The number of the oldest live record.
    let mut first = None;
    let mut payload = Vec::new();
    loop {
        if place.region == ring && place.line == ring.lines {
            // The record before ended with the ring.
            place = place.next_lap();
            is_around = true;
        }
        let end = |last| {
            let behind = Behind { tail, end: place, is_around, first, ends_by_wrap };
            behind.is_empty(io, &|seq| proves_end && life(seq) == Life::Live, last)
        };
        let is_live = |seq| life(seq) == Life::Live && seq >= last;
        let (kind, seq, lines) = match place.read(io, &is_live, &mut payload) {
            Found::Record { kind, seq, lines } => (kind, seq, lines),
            Found::Nothing if place.region == ring => {
                let is_passed = |seq| life(seq) == Life::Passed && seq >= last;
                match place.peek_if(io, &is_passed) {
                    // Without a live record the reader may come around to what it has seen.
                    Peeked::Head(head) if head.lines <= lines_left.min(ring.lines - place.line) => {
                        lines_left -= head.lines;
                        last = head.seq;
                        match head.kind {
                            RecordKind::Wrap => (place, is_around) = (place.next_lap(), true),
                            _ => place.line += head.lines,
                        }
                        continue;
                    }
                    // The line of a dead record, half stored over when the crash came. It lies
                    // behind everything that lives, but a damaged one may not: one line on.
                    Peeked::Header(seq) if lines_left > 0 => {
                        lines_left -= 1;
                        last = seq;
                        place.line += 1;
                        continue;
                    }
                    _ => return end(last),
                }
            }
            Found::Nothing => return end(last),
            Found::Unfinished { seq } => return end(seq),
            Found::Damaged { line, why } => return Err(LogDamage { line, why }),
        };
        last = seq;
        first = first.or(Some(seq));
        let here = place.region.line(place.line);
        // A ring of live records is read once around at most; the bound matters only if the
        // floor was damaged in a way that makes everything look alive.
        if place.region == ring {
            if lines > lines_left {
                return Err(LogDamage { line: here, why: "live records fill more than the ring" });
            }
            lines_left -= lines;
        }
        place.line += lines;
        let misplaced = LogDamage { line: here, why: "a record names a region outside the pool" };
        match kind {
            RecordKind::Journal | RecordKind::Onward if !cfg!(feature = "lab") => {
                return Err(LogDamage { line: here, why: LogDamage::OF_LAB });
            }
            RecordKind::Wrap => (place, is_around) = (place.next_lap(), true),
            RecordKind::Continued
            | RecordKind::Onward
            | RecordKind::Detached
            | RecordKind::BeforeElsewhere
                if io.plants(Plant::RegionsNotFollowed) => {}
            RecordKind::BeforeElsewhere => {
                let elsewhere = named_region(&payload, medium.len()).ok_or(misplaced)?;
                last = read_before(io, elsewhere, seq, life, out)?;
            }
            RecordKind::Journal => return read_journal(io, ring, &payload, seq, out),
            RecordKind::Continued | RecordKind::Onward => {
                regions_left =
                    regions_left.checked_sub(1).ok_or(LogDamage { line: here, why: ENDLESS })?;
                let region = named_region(&payload, medium.len()).ok_or(misplaced)?;
                place = Place::sealed(region, 0);
            }
            RecordKind::Detached => {
                let elsewhere = named_region(&payload, medium.len()).ok_or(misplaced)?;
                match record::read(io, elsewhere, 0, &|number| number == seq, &mut payload) {
                    Found::Record { kind, seq, .. } => {
                        out.push(LiveRecord { kind, seq, payload: std::mem::take(&mut payload) });
                    }
                    Found::Nothing | Found::Unfinished { .. } => {
                        place.line -= lines;
                        let behind = Behind { tail, end: place, is_around, first, ends_by_wrap };
                        return behind.is_empty(
                            io,
                            &|seq| proves_end && life(seq) == Life::Live,
                            last,
                        );
                    }
                    Found::Damaged { line, why } => return Err(LogDamage { line, why }),
                }
            }
            _ => out.push(LiveRecord { kind, seq, payload: std::mem::take(&mut payload) }),
        }
    }
}

/// Where a lane's log ends, and what of its region can lie behind.
struct Behind {
    tail: Place,
    end: Place,
    /// The end is in the lap behind that of the tail.
    is_around: bool,
    /// The number of the first live record that was read.
    first: Option<Seq>,
    /// Each lap keeps a line for a `Wrap`.
    ends_by_wrap: bool,
}

impl Behind {
    /// LOG-8, LOG-9. `is_live` knows the numbers of live records; `last` is that of the last one read.
    fn is_empty<M: Medium>(
        &self,
        io: Io<'_, M>,
        is_live: &dyn Fn(Seq) -> bool,
        last: Seq,
    ) -> Result<(), LogDamage> {
        let Self { tail, end, is_around, first, .. } = *self;
        let is_earlier = |seq| first.is_some_and(|first| seq < first);
        let is_left_out = |seq| is_live(seq) && (seq > last || is_earlier(seq));
        let in_ring = end.region == tail.region;
        let stop = if in_ring && is_around { tail.line } else { end.region.lines };
        let same_lap = (end.line + 1..stop).map(|line| Place { line, ..end });
        let next_lap = if in_ring && !is_around { 0..tail.line } else { 0..0 };
        let next_lap = next_lap.map(|line| Place { line, ..end.next_lap() });
        let mut excused = None;
        let mut payload = Vec::new();
        for place in same_lap.chain(next_lap) {
            if in_ring && !end.region.is_elsewhere && place.is_behind_line(io, is_live) {
                let line = place.region.line(place.line);
                return Err(LogDamage { line, why: streamed::LATER });
            }
            let Some(head) = place.head_if(io, &is_left_out) else { continue };
            // A journal's pages stay where they are, and undo records that were once committed.
            let stays = match head.kind {
                RecordKind::Journal | RecordKind::Pages => true,
                RecordKind::Undo | RecordKind::Continued | RecordKind::Witnesses => {
                    is_earlier(head.seq)
                }
                _ => false,
            };
            let is_whole =
                || matches!(place.read(io, &is_left_out, &mut payload), Found::Record { .. });
            if stays || !{ is_whole }() {
                continue;
            }
            if is_earlier(head.seq) {
                let why = "older live records lie before a lane's tail, which is older than it was";
                return Err(LogDamage { line: place.region.line(place.line), why });
            }
            let is_other = excused.is_some_and(|number| number != head.seq);
            if is_other || !self.shares_fence(io, place, head, &payload) {
                let why = "a log line is older than it was: live records lie behind it";
                return Err(LogDamage { line: end.region.at.plus(end.line * LINE_BYTES), why });
            }
            excused = Some(head.seq);
        }
        Ok(())
    }

    /// Whether a whole live record behind the end may share the fence of what lacks there: that is a part of
    /// the same record, or the `Wrap` that it needed. `payload` is the record's.
    fn shares_fence<M: Medium>(
        &self,
        io: Io<'_, M>,
        place: Place,
        head: Head,
        payload: &[u64],
    ) -> bool {
        let parts_before = match head.kind {
            RecordKind::Continued | RecordKind::Onward => return true,
            RecordKind::Detached => match parts_before(io, head.seq, payload) {
                Some(parts) => parts,
                None => return true,
            },
            _ => 0,
        };
        let Some(first) = place.line.checked_sub(parts_before) else { return false };
        let lines = match head.kind {
            RecordKind::Detached => parts_before + 1,
            _ => head.lines,
        };
        let Self { end, ends_by_wrap, .. } = self;
        let rest = end.region.lines - u64::from(*ends_by_wrap) - end.line;
        match place.line > end.line {
            true => first <= end.line,
            false => first == 0 && lines > rest,
        }
    }
}

/// How many lines like it stand before one that names the last part of a record; `None` where it
/// names another part, or one that is not whole.
fn parts_before<M: Medium>(io: Io<'_, M>, seq: Seq, named: &[u64]) -> Option<u64> {
    let region = named_region(named, io.medium.len())?;
    let mut payload = Vec::new();
    match record::read(io, region, 0, &|number| number == seq, &mut payload) {
        Found::Record { kind: RecordKind::Redo, .. } => Some(0),
        Found::Record { kind: RecordKind::RedoFinal, .. } => payload.first().copied(),
        _ => None,
    }
}

const ENDLESS: &str = "regions of the log lead to each other without end";

/// Appends the old pages that the header of a hot journal counts. They were fenced before it, so
/// none can be missing; nothing follows them.
fn read_journal<M: Medium>(
    io: Io<'_, M>,
    ring: Region,
    header: &[u64],
    seq: Seq,
    out: &mut Vec<LiveRecord>,
) -> Result<(), LogDamage> {
    let damaged = |line, why| LogDamage { line, why };
    let misplaced = damaged(PoolOffset(0), "a journal's header names no region of the pool");
    let &[mut left, ref place @ ..] = header else { return Err(misplaced) };
    let mut region = named_region(place, io.medium.len()).ok_or(misplaced)?;
    if io.plants(Plant::RegionsNotFollowed) && region.at != ring.at.plus(LINE_BYTES) {
        return Ok(());
    }
    let (mut line, mut payload) = (0, Vec::new());
    let mut regions_left = io.medium.len() / CHUNK_BYTES_MIN;
    while left > 0 {
        let here = region.at.plus(line * LINE_BYTES);
        match record::read(io, region, line, &|number| number == seq, &mut payload) {
            Found::Record { kind: RecordKind::Pages, lines, .. } => {
                let payload = std::mem::take(&mut payload);
                out.push(LiveRecord { kind: RecordKind::Pages, seq, payload });
                (line, left) = (line + lines, left - 1);
            }
            Found::Record { kind: RecordKind::Continued, .. } => {
                regions_left = regions_left.checked_sub(1).ok_or(damaged(here, ENDLESS))?;
                let why = "a record names a region outside the pool";
                region = named_region(&payload, io.medium.len()).ok_or(damaged(here, why))?;
                line = 0;
            }
            Found::Damaged { line, why } => return Err(damaged(line, why)),
            _ => return Err(damaged(here, "a hot journal lacks pages that its header counts")),
        }
    }
    Ok(())
}

/// Appends the records of old words in a region of the heap, and in those that it names. Returns
/// the last number.
fn read_before<M: Medium>(
    io: Io<'_, M>,
    mut region: Region,
    mut last: Seq,
    life: &dyn Fn(Seq) -> Life,
    out: &mut Vec<LiveRecord>,
) -> Result<Seq, LogDamage> {
    let mut line = 0;
    let mut payload = Vec::new();
    loop {
        let is_live = |seq| life(seq) == Life::Live && seq > last;
        match record::read(io, region, line, &is_live, &mut payload) {
            Found::Record { kind: RecordKind::Before, seq, lines } => {
                let payload = std::mem::take(&mut payload);
                out.push(LiveRecord { kind: RecordKind::Before, seq, payload });
                (last, line) = (seq, line + lines);
            }
            Found::Record { kind: RecordKind::BeforeElsewhere, seq, .. } => {
                let misplaced = "a record names a region outside the pool";
                region = named_region(&payload, io.medium.len())
                    .ok_or(LogDamage { line: region.line(line), why: misplaced })?;
                (last, line) = (seq, 0);
            }
            Found::Record { .. } => {
                let why = "a region for old words holds another record";
                return Err(LogDamage { line: region.line(line), why });
            }
            Found::Nothing | Found::Unfinished { .. } => {
                let end = Place::sealed(region, line);
                let behind =
                    Behind { tail: end, end, is_around: false, first: None, ends_by_wrap: false };
                behind.is_empty(io, &|seq| life(seq) == Life::Live, last)?;
                return Ok(last);
            }
            Found::Damaged { line, why } => return Err(LogDamage { line, why }),
        }
    }
}

/// The complete live records of an undo lane's last transaction that has any; none where the
/// lane's live records are not undo's.
pub(crate) fn read_undo<M: Medium>(
    io: Io<'_, M>,
    ring: Region,
    life: &dyn Fn(Seq) -> Life,
) -> Result<Vec<LiveRecord>, LogDamage> {
    let is_live = |seq| life(seq) == Life::Live;
    let mut parts = Vec::new();
    let mut of_undo = false;
    for part in (0..ring.undo_parts()).map(|index| ring.undo_part(index)) {
        match record::peek_if(io.medium, part, 0, &is_live) {
            Peeked::Head(head) => {
                of_undo |= matches!(head.kind, RecordKind::Undo | RecordKind::Continued);
                parts.push((head.seq, part));
            }
            // Half stored over, or damaged: if it is the last one written, reading it will tell.
            Peeked::Header(seq) => parts.push((seq, part)),
            Peeked::Other => {
                // A tag is one word: no crash leaves half of it.
                let tag = io.medium.load_u64(part.line(0).plus(record::TAG_AT));
                if record::untag(tag).is_none() {
                    let why = "the tag of a log line does not prove itself";
                    return Err(LogDamage { line: part.line(0), why });
                }
            }
        }
    }
    parts.sort_by_key(newest);
    let mut records = Vec::new();
    for (_, part) in parts.into_iter().filter(|_| of_undo) {
        if records.is_empty() {
            read_lane(io, Place::sealed(part, 0), (true, false), life, &mut records)?;
        }
    }
    Ok(records)
}

fn newest(part: &(Seq, Region)) -> std::cmp::Reverse<Seq> {
    std::cmp::Reverse(part.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_pmem::Heap;

    const RING: Region = Region { at: PoolOffset(64), lines: 15, is_elsewhere: false };
    const ELSEWHERE: Region = Region { at: PoolOffset(2048), lines: 8, is_elsewhere: true };

    /// A medium whose lines are blank.
    fn blank() -> Heap {
        Heap::from_bytes(&record::BLANK.to_le_bytes().repeat(512))
    }

    fn read_all(medium: &Heap, tail: u64, floor: u64) -> Vec<(RecordKind, u64, usize)> {
        let mut out = Vec::new();
        let floor = Seq::new(1, floor);
        let life = |seq: Seq| match seq >= floor {
            true => Life::Live,
            false if seq.generation() == 1 => Life::Passed,
            false => Life::Dead,
        };
        let tail = Place::sealed(RING, tail);
        read_lane(Io::new(medium), tail, (true, false), &life, &mut out).unwrap();
        out.iter().map(|r| (r.kind, r.seq.counter(), r.payload.len())).collect()
    }

    fn put(medium: &Heap, region: Region, line: u64, kind: RecordKind, n: u64, payload: &[u64]) {
        let record = record::Record::new(kind, Seq::new(1, n), payload);
        record::write(Io::new(medium), region, line, &record);
    }

    #[test]
    fn wraps_and_regions_are_followed() {
        let medium = blank();
        put(&medium, RING, 10, RecordKind::Redo, 5, &[1; 12]);
        put(&medium, RING, 12, RecordKind::Detached, 6, &[ELSEWHERE.at.0, ELSEWHERE.lines]);
        put(&medium, ELSEWHERE, 0, RecordKind::Redo, 6, &[1; 30]);
        put(&medium, RING, 13, RecordKind::Wrap, 7, &[]);
        put(&medium, RING, 0, RecordKind::Redo, 7, &[2; 3]);
        let redo = RecordKind::Redo;
        assert_eq!(read_all(&medium, 10, 5), [(redo, 5, 12), (redo, 6, 30), (redo, 7, 3)]);
        assert_eq!(read_all(&medium, 12, 6), [(redo, 6, 30), (redo, 7, 3)]);
        assert_eq!(read_all(&medium, 10, 6), [(redo, 6, 30), (redo, 7, 3)], "5 is passed over");
        assert_eq!(read_all(&medium, 10, 7), [(redo, 7, 3)]);
        assert_eq!(read_all(&medium, 10, 8), []);
    }

    #[test]
    fn a_record_behind_the_last_line_of_the_ring_is_at_its_start() {
        let medium = blank();
        put(&medium, RING, 13, RecordKind::Redo, 5, &[1; 12]);
        put(&medium, RING, 0, RecordKind::Redo, 6, &[2; 3]);
        let redo = RecordKind::Redo;
        assert_eq!(read_all(&medium, 13, 5), [(redo, 5, 12), (redo, 6, 3)]);
        assert_eq!(read_all(&medium, 13, 6), [(redo, 6, 3)]);
    }

    #[test]
    fn what_was_passed_ends_where_numbers_fall_or_the_ring_was_read_once() {
        let medium = blank();
        // One lap of dead records: from any tail on nothing is live, and the reader comes back.
        for line in 0..RING.lines {
            put(&medium, RING, line, RecordKind::Redo, 20 + line, &[1]);
        }
        for tail in 0..RING.lines {
            assert_eq!(read_all(&medium, tail, 100), []);
        }
        // A live record behind numbers that fall is not of this lap, and no crash leaves one (LOG-8).
        put(&medium, RING, 3, RecordKind::Redo, 5, &[1]);
        put(&medium, RING, 4, RecordKind::Redo, 100, &[1]);
        assert_eq!(damage_of(&medium, 2, 100), Some(RING.line(3)));
        assert_eq!(read_all(&medium, 3, 100).len(), 1);
    }

    /// A crash leaves such a line where a dead record was being stored over: it is no damage.
    #[test]
    fn a_passed_header_over_anothers_content_is_one_line_to_read_over() {
        let medium = blank();
        put(&medium, RING, 0, RecordKind::Redo, 5, &[1]);
        medium.store_u64(RING.at, medium.load_u64(RING.at) ^ 1 << 9);
        assert_eq!(read_all(&medium, 0, 6), []);
        put(&medium, RING, 1, RecordKind::Redo, 6, &[1]);
        assert_eq!(read_all(&medium, 0, 6), [(RecordKind::Redo, 6, 1)]);
    }

    #[test]
    fn a_detached_record_that_is_not_there_ends_the_lane() {
        let medium = blank();
        put(&medium, RING, 0, RecordKind::Redo, 5, &[1]);
        put(&medium, RING, 1, RecordKind::Detached, 6, &[ELSEWHERE.at.0, ELSEWHERE.lines]);
        put(&medium, ELSEWHERE, 0, RecordKind::Redo, 4, &[1; 30]);
        put(&medium, RING, 2, RecordKind::Detached, 6, &[ELSEWHERE.at.0, ELSEWHERE.lines]);
        assert_eq!(read_all(&medium, 0, 1), [(RecordKind::Redo, 5, 1)]);
        // Another number would have been fenced after it.
        put(&medium, RING, 3, RecordKind::Redo, 7, &[1]);
        assert_eq!(damage_of(&medium, 0, 1), Some(RING.line(1)));
    }

    /// The line at which a log is damaged.
    fn damage_of(medium: &Heap, tail: u64, floor: u64) -> Option<PoolOffset> {
        let life = |seq: Seq| if seq >= Seq::new(1, floor) { Life::Live } else { Life::Passed };
        let tail = Place::sealed(RING, tail);
        read_lane(Io::new(medium), tail, (true, false), &life, &mut Vec::new())
            .err()
            .map(|e| e.line)
    }

    /// LOG-8.
    #[test]
    fn live_records_behind_the_end_are_damage_unless_they_share_its_fence() {
        let redo = |medium: &Heap, line, n| put(medium, RING, line, RecordKind::Redo, n, &[1]);
        let medium = blank();
        redo(&medium, 0, 5);
        redo(&medium, 1, 6);
        redo(&medium, 2, 7);
        assert_eq!(damage_of(&medium, 0, 1), None);
        // The middle one is an older version: blank, dead, passed or half of it.
        for n in [None, Some(2)] {
            let medium = Heap::from_bytes(&medium.to_bytes());
            match n {
                None => medium.store(RING.line(1), &record::BLANK.to_le_bytes().repeat(8)),
                Some(n) => redo(&medium, 1, n),
            }
            assert_eq!(damage_of(&medium, 0, 1), Some(RING.line(1)), "{n:?}");
        }
        // The last one may never have arrived.
        medium.store(RING.line(2), &record::BLANK.to_le_bytes().repeat(8));
        assert_eq!(damage_of(&medium, 0, 1), None);
        // Dead ones of the lap before are nothing.
        let medium = blank();
        (0..RING.lines).for_each(|line| redo(&medium, line, 20 + line));
        redo(&medium, 3, 50);
        assert_eq!(damage_of(&medium, 3, 40), None);

        // A record at the ring's start shares its fence with the wrap before it, and no other does.
        let medium = blank();
        redo(&medium, 12, 5);
        put(&medium, RING, 0, RecordKind::Redo, 6, &[1; 24]);
        assert_eq!(damage_of(&medium, 12, 1), None);
        redo(&medium, 4, 7);
        assert_eq!(damage_of(&medium, 12, 1), Some(RING.line(13)));
        // It would have fitted where the wrap should be.
        let medium = blank();
        redo(&medium, 12, 5);
        redo(&medium, 0, 6);
        assert_eq!(damage_of(&medium, 12, 1), Some(RING.line(13)));
    }

    /// LOG-8.
    #[test]
    fn a_line_that_names_a_whole_record_excuses_only_what_belongs_to_it() {
        let detached = |medium: &Heap, line, to: Region| {
            put(medium, RING, line, RecordKind::Detached, 6, &[to.at.0, to.lines]);
        };
        let start = || {
            let medium = blank();
            put(&medium, RING, 0, RecordKind::Redo, 5, &[1]);
            detached(&medium, 2, ELSEWHERE);
            medium
        };
        // Behind the lost line stands one record that is whole: the line was of an earlier fence.
        let medium = start();
        put(&medium, ELSEWHERE, 0, RecordKind::Redo, 6, &[1; 9]);
        assert_eq!(damage_of(&medium, 0, 1), Some(RING.line(1)));
        // Or its last part, before which as many are as lie between, or fewer.
        for (parts, damage) in [(1, None), (0, Some(RING.line(1)))] {
            let medium = start();
            put(&medium, ELSEWHERE, 0, RecordKind::RedoFinal, 6, &[parts, 1]);
            assert_eq!(damage_of(&medium, 0, 1), damage, "{parts}");
        }
        // It did not arrive itself.
        assert_eq!(damage_of(&start(), 0, 1), None);
    }

    #[test]
    fn regions_that_lead_to_each_other_are_damage() {
        let medium = blank();
        for region in [RING, ELSEWHERE] {
            put(&medium, region, 0, RecordKind::Onward, 5, &[ELSEWHERE.at.0, ELSEWHERE.lines]);
        }
        assert!(damage_of(&medium, 0, 1).is_some());
    }

    #[test]
    fn a_region_outside_the_pool_is_damage() {
        let medium = blank();
        put(&medium, RING, 0, RecordKind::Continued, 5, &[4096, 1]);
        let mut out = Vec::new();
        let tail = Place::sealed(RING, 0);
        assert!(
            read_lane(Io::new(&medium), tail, (true, false), &|_| Life::Live, &mut out).is_err()
        );
    }
}
