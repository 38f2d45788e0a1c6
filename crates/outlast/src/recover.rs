//! Recovery: what a crash left in the log decides what happens to the data.
//!
//! ```text
//!      found in a lane, read from its tail                     done
//!  a   nothing, or the header of a dead record                 the lane is read; but records
//!                                                              that the floor passed are read over
//!  b   an unfinished record                                    ignored: nothing depends on it; the lane is read
//!  c   complete `Undo` records                                 their transaction had not committed: put back
//!  c'  complete `Undo` records and `Witnesses` that all agree  committed: nothing to do
//!  d   a complete `Redo` record                                committed: replayed
//!  d'  complete `Before` records, then a complete `Redo`       committed: replayed, old words ignored
//!  d"  complete `Before` records behind the lane's last `Redo` not committed: put back first
//!  i   `Before` records of a literal variant               not physically committed: put back, newest
//!                                                              number first over all lanes
//!  i'  the same behind an empty one or at the start, then an   aborted: ignored
//!      empty `Redo`
//!  e   `RedoPart`s and their `RedoFinal`, all there            committed: replayed
//!  f   `RedoPart`s without a `RedoFinal`, or too few           not committed: ignored
//!  h   the header of a journal and the `Pages` it counts       not committed: put back
//!  g   a sealed line that contradicts itself                   damage: an error, nothing is touched
//! ```
//!
//! Order: all lanes are read first. Then undo records are put back, newest first within a lane
//! (lanes hold locks on disjoint lines), then redo transactions are replayed in the order of
//! their numbers over all lanes. Everything is flushed and fenced (RECOVER-1); then one store moves the
//! floor into a new generation and thereby declares every record dead (RECOVER-2); then tails go back to the
//! start of their rings (RECOVER-3).
//!
//! * **CLOSE-1** Closing leaves a floor above every number. Then no record is live, and a lane whose header line or
//!   log does not prove itself begins anew, with a blank ring.
//!
//! A crash anywhere in between finds the same records and does the same again: putting back and
//! replaying are idempotent, and the floor moves only after their fence.

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LINE_BYTES, LineAddr, PoolOffset};

use crate::alloc::{clear_bit, load_bitmap, set_bit};
use crate::checksums::{Commit, Rebuild, Undone};
use crate::error::PoolError;
use crate::io::{Io, Site};
use crate::layout::{FLOOR_AT, Geometry, LANE_FLOOR, LANE_SEEN, LANE_TAIL, ROOT_AT};
use crate::log::record::LogDamage;
use crate::log::{Item, Life, LiveRecord, RecordKind};
use crate::log::{items, place_of_tail, read_lane, read_undo};
use crate::plant::Plant;
use crate::pool::{
    LANE_FLOOR_UNPROVEN, LANE_SEEN_UNPROVEN, LANE_TAIL_UNPROVEN, blank, load_sealed, ring_in_use,
};
pub use crate::pool::{Reader, RecoveredPool, UnrecoveredPool};
use crate::scheme::undo::witness;
use crate::scheme::{SCHEMES, archapt, under};
use crate::sealed::seal_at;
use crate::seq::{GENERATION_LAST, Seq};
use trial::Trial;

mod trial;
mod words;

/// Recovery's findings and repairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Records of unfinished transactions that were put back.
    pub undone: usize,
    /// Committed transactions that were replayed.
    pub replayed: usize,
    /// Literal variants: lines that checksums put right, or were thought to.
    pub corrected: usize,
}

/// The live records of every lane.
pub(crate) struct LiveLog {
    floor: Seq,
    lanes: Vec<Vec<LiveRecord>>,
    /// Lanes whose tails are not at the start of their rings, where lines have tags.
    tails_moved: Vec<usize>,
    /// Lanes of a closed pool whose header lines or logs do not prove themselves.
    unproven: Vec<usize>,
}

impl LiveLog {
    /// Reads all lanes. Nothing is stored.
    pub fn read<M: Medium>(io: Io<'_, M>, geometry: &Geometry) -> Result<Self, PoolError> {
        let medium = io.medium;
        let floor =
            Seq::from_bits(load_sealed(medium, FLOOR_AT, "the floor does not prove itself")?);
        let mut log =
            Self { floor, lanes: Vec::new(), tails_moved: Vec::new(), unproven: Vec::new() };
        for lane in 0..geometry.lanes as usize {
            let at = geometry.lane_at(lane);
            if is_closed(floor) && !is_lane_proven(medium, geometry, lane) {
                log.unproven.push(lane);
                log.lanes.push(Vec::new());
                continue;
            }
            let tail = load_sealed(medium, at.plus(LANE_TAIL), LANE_TAIL_UNPROVEN)?;
            let undo_floor = load_sealed(medium, at.plus(LANE_FLOOR), LANE_FLOOR_UNPROVEN)?;
            let undo_floor = Seq::from_bits(undo_floor);
            let seen = load_sealed(medium, at.plus(LANE_SEEN), LANE_SEEN_UNPROVEN)?;
            // RECOVER-4. No number of a lane is of an opening that has not been yet.
            if Seq::from_bits(seen) > floor || undo_floor.generation() > floor.generation() {
                let what = "the floor is older than what a lane has seen of it";
                return Err(PoolError::Damaged { at: FLOOR_AT, what });
            }
            let ring = ring_in_use(medium, geometry, lane)?;
            let Some(tail) = place_of_tail(ring, tail) else {
                let what = "a lane's tail lies outside its ring";
                return Err(PoolError::Damaged { at: at.plus(LANE_TAIL), what });
            };
            if tail.line != 0 && tail.lap.is_none() {
                log.tails_moved.push(lane);
            }
            let life = |seq: Seq| match seq.generation() == floor.generation() {
                true if seq >= floor && seq > undo_floor => Life::Live,
                // A literal variant drops records lane by lane, and moves the tail after that.
                true if seq < floor || geometry.literal => Life::Passed,
                _ => Life::Dead,
            };
            let dropped = io.plants(Plant::OtherLanesDropped) && lane > 0;
            if dropped && log.lanes.iter().any(Vec::is_empty) {
                continue;
            }
            let mut records = Vec::new();
            let undo = match tail.lap {
                None => read_undo(io, ring, &life),
                Some(_) => Ok(Vec::new()),
            };
            let read = undo.and_then(|undo| {
                records = undo;
                // Literal variants drop records as they like.
                match records.is_empty() {
                    true => {
                        let ends_by_wrap = ring.lines < geometry.ring_lines();
                        let ends = (!geometry.literal, ends_by_wrap);
                        read_lane(io, tail, ends, &life, &mut records)
                    }
                    false => Ok(()),
                }
            });
            match read {
                Ok(()) => {}
                Err(_) if is_closed(floor) => {
                    log.unproven.push(lane);
                    log.lanes.push(Vec::new());
                    continue;
                }
                Err(damage) => return Err(damage.into()),
            }
            witness::drop_witnessed(io, geometry, &mut records)?;
            log.lanes.push(records);
        }
        Ok(log)
    }

    /// Number of live records.
    pub fn len(&self) -> usize {
        self.lanes.iter().map(Vec::len).sum()
    }

    /// Bytes that they hold.
    pub fn bytes(&self) -> u64 {
        self.lanes.iter().flatten().map(|record| record.payload.len() as u64 * 8).sum()
    }

    /// Rows c to f: which records are put back and which transactions replayed, each in order.
    fn decide<M: Medium>(
        &self,
        io: Io<'_, M>,
        geometry: &Geometry,
    ) -> (Vec<&LiveRecord>, Vec<Replay<'_>>) {
        // Each lane's unfinished transaction.
        let mut unfinished: Vec<Vec<&LiveRecord>> = Vec::new();
        let mut redo: Vec<Replay<'_>> = Vec::new();
        for (lane, records) in self.lanes.iter().enumerate() {
            let mut parts: Vec<&LiveRecord> = Vec::new();
            let mut undo = Vec::new();
            for record in records {
                match record.kind {
                    RecordKind::Undo | RecordKind::Before | RecordKind::Pages => {
                        undo.push(record);
                    }
                    RecordKind::Redo => {
                        archapt::seal_off(&mut undo);
                        let payloads = vec![record.payload.as_slice()];
                        redo.push(Replay { seq: record.seq, lane, payloads });
                    }
                    RecordKind::RedoPart => {
                        parts.retain(|part| part.seq == record.seq);
                        parts.push(record);
                    }
                    RecordKind::RedoFinal => {
                        parts.retain(|part| part.seq == record.seq);
                        let (count, last) = record.payload.split_first().unwrap_or((&0, &[]));
                        if *count == parts.len() as u64 {
                            archapt::seal_off(&mut undo);
                            let mut all: Vec<_> =
                                parts.iter().map(|part| part.payload.as_slice()).collect();
                            all.push(last);
                            redo.push(Replay { seq: record.seq, lane, payloads: all });
                        }
                        parts.clear();
                    }
                    RecordKind::Detached
                    | RecordKind::Continued
                    | RecordKind::BeforeElsewhere
                    | RecordKind::Wrap
                    | RecordKind::Journal
                    | RecordKind::Onward
                    | RecordKind::Witnesses => unreachable!("the reader follows these"),
                }
            }
            if !io.plants(Plant::LoggedTwice) {
                undo.reverse();
            }
            unfinished.push(undo);
        }
        for row in SCHEMES {
            under!(row.scheme, D => D::order_unfinished(io, geometry, &mut unfinished));
        }
        if !io.plants(Plant::RedoLaneByLane) {
            redo.sort_by_key(Replay::seq);
        }
        if io.plants(Plant::RedoNewestFirst) {
            redo.reverse();
        }
        (unfinished.concat(), redo)
    }

    /// Applies what was read, makes it durable, and empties the log. Returns the new generation.
    pub fn apply<M: Medium>(
        &self,
        io: Io<'_, M>,
        geometry: &Geometry,
    ) -> Result<(u64, RecoveryReport), PoolError> {
        let (undo, redo) = self.decide(io, geometry);
        // Whatever is found damaged is found before anything is stored.
        let all = undo.iter().map(|record| record.payload.as_slice());
        for payload in all.chain(redo.iter().flat_map(|replay| replay.payloads.iter().copied())) {
            items(payload).try_for_each(|item| check_item(io, geometry, item).map(|_| ()))?;
        }
        let rebuild = prove(io, geometry, &undo, &redo)?;
        let report = RecoveryReport { undone: undo.len(), replayed: redo.len(), corrected: 0 };
        if io.plants(Plant::FloorBeforeApplying) {
            raise_floor(io, self.floor.generation() + 1);
        }
        let mut touched = Vec::new();
        let has_words = put_in_place(io, geometry, &undo, &redo, &mut touched)?;
        if let Some(rebuild) = rebuild {
            touched.extend(rebuild.make(io)?);
        }
        if has_words || !touched.is_empty() {
            touched.sort_unstable();
            touched.dedup();
            for line in touched {
                io.flush_line(Site::RecoverData, line);
            }
            // RECOVER-1: what was put in place is durable before anything says that the log is dead.
            if !io.plants(Plant::FloorBeforeRepairs) {
                io.fence(Site::RecoverData);
            }
        }
        self.unproven.iter().for_each(|lane| begin_lane_anew(io, geometry, *lane));
        let mut generation = self.floor.generation();
        // The last generation is never written with: found here, it is the trace of a crash while
        // logs were scrubbed.
        if generation < GENERATION_LAST && !io.plants(Plant::GenerationNotBumped) {
            generation += 1;
            raise_floor(io, generation);
        }
        self.reset_tails(io, geometry, Seq::new(generation, 1));
        if generation == GENERATION_LAST {
            generation = scrub(io, geometry);
        }
        Ok((generation, report))
    }

    /// RECOVER-3. The log is empty, so a crash between two tails changes nothing. Where records are streamed
    /// the lane does it itself, when it is taken (LOG-5). The first lane sees the new floor in any case
    /// (RECOVER-4).
    fn reset_tails<M: Medium>(&self, io: Io<'_, M>, geometry: &Geometry, floor: Seq) {
        let moved = self.tails_moved.iter().copied();
        for lane in moved {
            let at = geometry.lane_at(lane).plus(LANE_TAIL);
            io.medium.store_u64(at, seal_at(0, at));
            io.flush(Site::RecoverTail, at, 8);
        }
        let at = geometry.lane_at(0).plus(LANE_SEEN);
        io.medium.store_u64(at, seal_at(floor.bits(), at));
        io.flush(Site::RecoverTail, at, 8);
        io.fence(Site::RecoverTail);
    }
}

/// CLOSE-1: the floor of a pool that was closed is above every number, so that no record is live.
pub(crate) fn is_closed(floor: Seq) -> bool {
    floor.counter() == Seq::COUNTER_MAX
}

/// Whether a lane's header line makes sense.
fn is_lane_proven<M: Medium>(medium: &M, geometry: &Geometry, lane: usize) -> bool {
    let at = geometry.lane_at(lane);
    let words =
        [LANE_TAIL, LANE_FLOOR, LANE_SEEN].map(|word| load_sealed(medium, at.plus(word), ""));
    words.iter().all(Result::is_ok) && ring_in_use(medium, geometry, lane).is_ok()
}

/// The lane has no live record: its ring is made blank, and then its header says so.
#[cold]
fn begin_lane_anew<M: Medium>(io: Io<'_, M>, geometry: &Geometry, lane: usize) {
    let (at, ring) = (geometry.lane_at(lane), geometry.ring_at(lane));
    let end = geometry.ring_behind(lane, geometry.ring_lines_first()).at;
    blank::store(io, Site::RecoverData, geometry, ring, end);
    io.fence(Site::RecoverData);
    blank::store(io, Site::RecoverData, geometry, at, at.plus(LINE_BYTES));
    io.fence(Site::RecoverData);
}

/// A transaction that is to be replayed.
struct Replay<'l> {
    seq: Seq,
    lane: usize,
    payloads: Vec<&'l [u64]>,
}

impl Replay<'_> {
    fn seq(&self) -> Seq {
        self.seq
    }
}

/// Puts back and replays. Whether words were stored whose lines are flushed and need a fence; other
/// lines stored to come into `touched`.
fn put_in_place<M: Medium>(
    io: Io<'_, M>,
    geometry: &Geometry,
    undo: &[&LiveRecord],
    redo: &[Replay<'_>],
    touched: &mut Vec<LineAddr>,
) -> Result<bool, PoolError> {
    for record in undo {
        apply_payload(io, geometry, &record.payload, touched)?;
    }
    let payloads = || redo.iter().flat_map(|replay| replay.payloads.iter().copied());
    let replayed = || payloads().flat_map(items);
    for item in replayed().filter(|item| !matches!(item, Ok(Item::Words { .. }))) {
        apply_item(io, geometry, item, touched)?;
    }
    Ok(words::store(io, || replayed().flatten().flat_map(Item::new_words)))
}

/// SUMS-7: where the pool keeps checksums, tries recovery without storing anything, and proves what it
/// leaves. Returns which checksums are to be made anew.
fn prove<M: Medium>(
    io: Io<'_, M>,
    geometry: &Geometry,
    undo: &[&LiveRecord],
    redo: &[Replay<'_>],
) -> Result<Option<Rebuild>, PoolError> {
    let Some(mut rebuild) = Rebuild::new(geometry).filter(|_| !io.plants(Plant::SumsNotRebuilt))
    else {
        return Ok(None);
    };
    let trial = Trial::over(io.medium);
    put_in_place(Io::new(&trial), geometry, undo, redo, &mut Vec::new())?;
    let undone = undo.iter().map(|record| record.payload.as_slice());
    for payload in undone.chain(redo.iter().flat_map(|replay| replay.payloads.iter().copied())) {
        rebuild.note(&trial, payload);
    }
    let commit = |replay| {
        let Replay { seq, lane, payloads }: &Replay<'_> = replay;
        Commit { seq: *seq, lane: *lane, payloads }
    };
    let commits: Vec<_> = redo.iter().map(commit).collect();
    let undone = undo.iter().map(|record| Undone { seq: record.seq, payload: &record.payload });
    rebuild.follow(&trial, &undone.collect::<Vec<_>>(), &commits)?;
    rebuild.prove(&trial, &commits)?;
    Ok(Some(rebuild))
}

/// Whether transactions change these bytes: the heap's, or the root word, the only one outside.
pub(crate) fn is_changeable(geometry: &Geometry, len: u64, range: ByteRange) -> bool {
    (range.at.0 >= geometry.heap_at || range.at == ROOT_AT) && range.end().0 <= len
}

/// RECOVER-2. One word: before it every record is as live as it was, after it none is.
fn raise_floor<M: Medium>(io: Io<'_, M>, generation: u64) {
    io.medium.store_u64(FLOOR_AT, seal_at(Seq::new(generation, 1).bits(), FLOOR_AT));
    io.flush(Site::RecoverFloor, FLOOR_AT, 8);
    io.fence(Site::RecoverFloor);
}

/// The last generation is never written with: every line of every log is made blank, then generations start
/// again from 1. A crash on the way finds the last generation and scrubs again.
#[cold]
fn scrub<M: Medium>(io: Io<'_, M>, geometry: &Geometry) -> u64 {
    let lanes = 0..geometry.lanes as usize;
    let blank = |at: PoolOffset, bytes: u64| {
        blank::store(io, Site::RecoverData, geometry, at, at.plus(bytes));
    };
    let ring_bytes = geometry.ring_lines_first() * LINE_BYTES;
    lanes.clone().for_each(|lane| blank(geometry.ring_at(lane), ring_bytes));
    io.fence(Site::RecoverData);
    // The tail says how the ring is to be read, so it comes after.
    lanes.for_each(|lane| blank(geometry.lane_at(lane), LINE_BYTES));
    io.fence(Site::RecoverData);
    raise_floor(io, 1);
    1
}

/// Applies the items of one record, which was checked.
fn apply_payload<M: Medium>(
    io: Io<'_, M>,
    geometry: &Geometry,
    payload: &[u64],
    touched: &mut Vec<LineAddr>,
) -> Result<(), PoolError> {
    items(payload).try_for_each(|item| apply_item(io, geometry, item, touched))
}

/// The range of an item about a lock.
const NOWHERE: ByteRange = ByteRange { at: PoolOffset(0), len: 0 };

/// The item, with the bytes that it changes or speaks of, if it is one that a transaction writes.
fn check_item<'a, M: Medium>(
    io: Io<'_, M>,
    geometry: &Geometry,
    item: Result<Item<'a>, ()>,
) -> Result<(Item<'a>, ByteRange), PoolError> {
    let damaged = |at, what| PoolError::Damaged { at, what };
    let item = item.map_err(|()| damaged(PoolOffset(0), "a log record holds no items"))?;
    let range = match item {
        Item::Words { at, words } => ByteRange::new(at, words.len() as u64 * 8),
        Item::SetBit { at, .. } | Item::ClearBit { at, .. } => ByteRange::new(at, 8),
        Item::Acquired { .. } | Item::Released { .. } if !cfg!(feature = "lab") => {
            return Err(PoolError::NeedsLab { what: LogDamage::OF_LAB });
        }
        Item::Acquired { .. } | Item::Released { .. } => return Ok((item, NOWHERE)),
        Item::Old { at, words } => ByteRange::new(at, words.len() as u64 * 8),
        Item::Taken { at, words, .. } => ByteRange::new(at, words as u64 * 8),
    };
    if !is_changeable(geometry, io.medium.len(), range) {
        return Err(damaged(range.at, "a log record names a place outside the heap"));
    }
    if let Item::SetBit { at, .. } | Item::ClearBit { at, .. } = item {
        if at.0 < geometry.heap_at {
            return Err(damaged(at, "a log record names a bitmap outside the heap"));
        }
        load_bitmap(io.medium, at).map_err(|what| damaged(at, what))?;
    }
    Ok((item, range))
}

fn apply_item<M: Medium>(
    io: Io<'_, M>,
    geometry: &Geometry,
    item: Result<Item<'_>, ()>,
    touched: &mut Vec<LineAddr>,
) -> Result<(), PoolError> {
    let medium = io.medium;
    let (item, range) = check_item(io, geometry, item)?;
    let damaged = |what| PoolError::Damaged { at: range.at, what };
    match item {
        Item::Acquired { .. } | Item::Released { .. } | Item::Old { .. } | Item::Taken { .. } => {
            return Ok(());
        }
        Item::Words { at, words } => medium.store(at, bytemuck::cast_slice(words)),
        Item::SetBit { at, bit } | Item::ClearBit { at, bit } if io.plants(Plant::BitsToggled) => {
            let set = load_bitmap(medium, at).map_err(damaged)? >> bit & 1 == 1;
            if set { clear_bit(medium, at, bit) } else { set_bit(medium, at, bit) }
                .map_err(damaged)?;
        }
        Item::SetBit { at, bit } => set_bit(medium, at, bit).map_err(damaged)?,
        Item::ClearBit { at, bit } => clear_bit(medium, at, bit).map_err(damaged)?,
    }
    touched.extend(range.lines());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::{CreateOptions, OpenOptions};
    use crate::recover::UnrecoveredPool;
    use crate::{Pool, Runner, Scheme, Transact};
    use outlast_pmem::Heap;

    fn floor_of(medium: &Heap) -> Seq {
        Seq::from_bits(load_sealed(medium, FLOOR_AT, "the floor").unwrap())
    }

    fn options(scheme: Scheme) -> OpenOptions {
        OpenOptions { lock_stripes: 64, ..OpenOptions::with_scheme(scheme) }
    }

    fn opened(medium: Heap, scheme: Scheme) -> Pool<Heap> {
        let recovered = UnrecoveredPool::open(medium).unwrap().recover().unwrap();
        recovered.start(&options(scheme)).unwrap()
    }

    /// Runs one transaction and returns what it leaves on the medium.
    fn worked(pool: Pool<Heap>) -> Heap {
        pool.lane()
            .unwrap()
            .run(|tx| {
                let block = tx.alloc(8, crate::BlockKind::General)?;
                tx.store_u64(block, 1)
            })
            .unwrap();
        pool.into_medium()
    }

    #[test]
    #[cfg_attr(miri, ignore = "a dozen whole pools take minutes there")]
    fn generations_start_again_after_the_last_also_when_that_crashes() {
        for scheme in [Scheme::Undo, Scheme::Redo] {
            let create = CreateOptions { lanes: 2, lane_bytes: 1024, ..CreateOptions::default() };
            let open = options(scheme);
            let pool = Pool::create_on(Heap::new(64 << 10), &create, &open).unwrap();
            let at_last = |generation| {
                let medium = Heap::from_bytes(&pool.medium().to_bytes());
                medium.store_u64(FLOOR_AT, seal_at(Seq::new(generation, 1).bits(), FLOOR_AT));
                medium
            };
            for generation in [GENERATION_LAST - 1, GENERATION_LAST] {
                // A crash may have left any part of the logs scrubbed; here it is none.
                let pool = opened(at_last(generation), scheme);
                assert_eq!(floor_of(pool.medium()), Seq::new(1, 1));
                let pool = opened(worked(pool), scheme);
                assert_eq!(pool.generation, 2);
                worked(pool);
            }
            assert_eq!(
                opened(at_last(GENERATION_LAST - 2), scheme).generation,
                GENERATION_LAST - 1
            );
        }
    }

    /// SUMS-10.
    #[test]
    #[cfg_attr(miri, ignore = "whole pools take minutes there")]
    fn a_lost_record_is_damage_where_another_lane_has_built_upon_it() {
        for scheme in [Scheme::RedoArchapt, Scheme::UndoArchapt] {
            let create = CreateOptions {
                lanes: 2,
                lane_bytes: 4096,
                checksums: true,
                ..CreateOptions::default()
            };
            let pool = Pool::create_on(Heap::new(256 << 10), &create, &options(scheme)).unwrap();
            let (mut first, mut second) = (pool.lane().unwrap(), pool.lane().unwrap());
            let block = first.run(|tx| {
                let block = tx.alloc(64, crate::BlockKind::General)?;
                tx.store_u64(block, 1)?;
                Ok(block)
            });
            let block = block.unwrap();
            second.run(|tx| tx.store_u64(block, 2)).unwrap();
            let before = pool.medium().to_bytes();
            first.run(|tx| tx.store_u64(block, 3)).unwrap();
            let between = pool.medium().to_bytes();
            second.run(|tx| tx.store_u64(block, 4)).unwrap();
            let after = pool.medium().to_bytes();
            // Where the record of 3 ends.
            let geometry = pool.header().geometry;
            let ring = geometry.ring_at(0).0..geometry.lane_at(1).0;
            let lines = ring.step_by(64).map(|at| at as usize..at as usize + 64);
            let changed = lines.filter(|line| before[line.clone()] != between[line.clone()]);
            let lost = changed.last().expect("a record");
            let recovered = |image: &[u8], is_lost: bool| {
                let mut image = image.to_vec();
                if is_lost {
                    image[lost.clone()].copy_from_slice(&before[lost.clone()]);
                }
                let pool = UnrecoveredPool::open(Heap::from_bytes(&image)).unwrap().recover();
                pool.map(|pool| pool.into_medium().load_u64(block))
            };
            assert_eq!(recovered(&between, false).unwrap(), 3, "{scheme}");
            // As if its fence had not completed.
            assert_eq!(recovered(&between, true).unwrap(), 2, "{scheme}");
            assert_eq!(recovered(&after, false).unwrap(), 4, "{scheme}");
            let lost = recovered(&after, true);
            let is_found = matches!(lost, Err(PoolError::Damaged { at, .. }) if at == block);
            assert!(is_found, "{scheme}: {lost:?}");
        }
    }

    #[test]
    fn numbers_that_are_used_up_are_an_error_that_reopening_cures() {
        use std::sync::atomic::Ordering;
        let create = CreateOptions { lanes: 1, lane_bytes: 1024, ..CreateOptions::default() };
        let open = options(Scheme::Redo);
        let pool = Pool::create_on(Heap::new(64 << 10), &create, &open).unwrap();
        pool.clock.store(Seq::COUNTER_MAX - 30, Ordering::SeqCst);
        let mut lane = pool.lane().unwrap();
        let mut commits = 0;
        let error = loop {
            match lane.run(|tx| tx.alloc(16, crate::BlockKind::General)) {
                Ok(_) => commits += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(commits, 29);
        assert!(matches!(error, crate::Abort::NumbersUsedUp), "{error:?}");
        // Sweeping still works, though the clock has passed every number.
        for _ in 0..3 {
            assert!(lane.run(|tx| tx.alloc(16, crate::BlockKind::General)).is_err());
            crate::writeback::sweep(&pool, 0, crate::writeback::Reach::All);
        }
        drop(lane);
        worked(opened(pool.into_medium(), Scheme::Redo));
    }
}
