//! A lane's ring: how much of it is in use, and its preparation before its first record of an opening.
//!
//! In the domain `page` a ring begins short. Lines behind the part in use take no space on the file system. A lap
//! ends with a `Wrap` in that part; so readers need to know nothing of it, and positions count laps of the whole ring.
//!
//! * **RING-1** The lane's header line says how many lines are in use, durably. Each of them holds a record of a lap
//!   or is blank (LOG-5); those behind hold nothing, and nothing reads them.
//! * **RING-2** A ring grows between two records of its lane: space is taken from the file system, then the lines that
//!   are added become blank, durably, then the header line says so, durably; then a record may go there. A crash in
//!   between leaves the ring as long as it was. Without space it stays so, and the lane sweeps.
//! * **RING-3** A ring becomes short when its pool is closed and no record is live (CLOSE-1): the tail goes into the part
//!   that stays, in its lap, then the header line says how long that is, then the rest goes back to the file
//!   system; each step is durable before the next.

use std::sync::atomic::{AtomicUsize, Ordering};

use outlast_pmem::{MapError, Medium};
use outlast_trace::LINE_BYTES;

use crate::error::PoolError;
use crate::io::{Io, Site};
use crate::layout::{Geometry, LANE_LINES, LANE_TAIL};
use crate::log::{self, Region};
use crate::plant::Plant;
use crate::pool::{LANE_LINES_UNPROVEN, LaneSlot, LaneState, Pool, load_sealed};
use crate::scheme::Facts;
use crate::sealed::{seal_at, unseal_at};

/// A lane's ring grows up to such a part of the heap: where data grows, and all lanes' rings together where it has its size.
/// A longer ring is swept less often.
const OF_GROWING_HEAP: u64 = 16;
const OF_SETTLED_HEAP: u64 = 4;

/// The part of a lane's ring that is in use (RING-1).
pub(crate) fn ring_in_use<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    lane: usize,
) -> Result<Region, PoolError> {
    let all = geometry.ring_lines();
    let lines = if geometry.has_short_rings {
        let at = geometry.lane_at(lane).plus(LANE_LINES);
        let lines = load_sealed(medium, at, LANE_LINES_UNPROVEN)?;
        if !(1..=all).contains(&lines) {
            return Err(PoolError::Damaged { at, what: "a lane's ring is longer than its lane" });
        }
        lines
    } else {
        all
    };
    Ok(Region { at: geometry.ring_at(lane), lines, is_elsewhere: false })
}

/// Whether rings may stay short: records go round, and their lanes sweep when there is no room.
pub(super) fn stay_short<M: Medium>(medium: &M, geometry: &Geometry, facts: &Facts) -> bool {
    let goes_round = facts.commits_by_record && !facts.by_age && !geometry.checksums;
    geometry.has_short_rings && medium.is_paged() && goes_round
}

/// Makes `lines` lines of a lane's ring usable, where `from` are (RING-2).
pub(super) fn lengthen<M: Medium>(
    io: Io<'_, M>,
    geometry: &Geometry,
    lane: usize,
    from: u64,
    lines: u64,
) -> Result<(), MapError> {
    let ring = Region { at: geometry.ring_at(lane), lines, is_elsewhere: false };
    let added = Region { at: ring.line(from), lines: lines - from, ..ring };
    io.medium.allocate(added.at, added.lines * LINE_BYTES)?;
    let blank = || {
        if !io.plants(Plant::RingNotZeroed) {
            log::blank(io, Site::Ring, added);
            io.fence(Site::Ring);
        }
    };
    let is_planted = io.plants(Plant::RingLongerFirst);
    if !is_planted {
        blank();
    }
    let at = geometry.lane_at(lane).plus(LANE_LINES);
    io.medium.store_u64(at, seal_at(lines, at));
    io.flush(Site::FirstLap, at, 8);
    io.fence(Site::FirstLap);
    if is_planted {
        blank();
    }
    Ok(())
}

/// Takes space for the parts of rings that are in use, as far as a loss of power has left them without.
pub(super) fn allocate<M: Medium>(medium: &M, geometry: &Geometry) -> Result<(), MapError> {
    for lane in (0..geometry.lanes as usize).filter(|_| geometry.has_short_rings) {
        if let Ok(ring) = ring_in_use(medium, geometry, lane) {
            medium.allocate(ring.at, ring.lines * LINE_BYTES)?;
        }
    }
    Ok(())
}

/// The facts by which lanes share the space for their rings.
#[derive(Default)]
pub(crate) struct Rings {
    /// Lanes that were taken in this opening.
    taken: AtomicUsize,
}

impl<M: Medium> Pool<M> {
    /// LOG-5: before its first record of this opening a lane says by its tail where that goes and in
    /// which lap, durably; where the ring is to be made blank it is so before. What stands there is of an
    /// older generation, so a crash in between changes nothing.
    pub(super) fn lay_out(&self, lane: &mut LaneState) {
        let slot = &self.lanes[lane.id];
        if std::mem::replace(&mut lane.log.is_laid_out, true) {
            return;
        }
        self.rings.taken.fetch_add(1, Ordering::Relaxed);
        if !slot.streams() && !slot.is_blanked_first {
            return;
        }
        let io = self.io();
        if slot.is_blanked_first && !io.plants(Plant::RingNotZeroed) {
            log::blank(io, Site::Ring, Region { lines: slot.lines(), ..slot.ring });
            io.fence(Site::Ring);
        }
        let at = self.header.geometry.lane_at(lane.id).plus(LANE_TAIL);
        self.medium.store_u64(at, seal_at(log::tail_at(slot.first), at));
        io.flush(Site::FirstLap, at, 8);
        io.fence(Site::FirstLap);
    }

    /// Makes a lane's ring longer, if it may be and there is space, for a record of `record` lines at least.
    /// Whether it has become longer.
    #[cold]
    pub(crate) fn lengthen_ring(&self, lane: &mut LaneState, record: u64) -> bool {
        let slot = &self.lanes[lane.id];
        let (now, all) = (slot.lines(), slot.ring.lines);
        let heap_bytes = self.medium.len() - self.header.geometry.heap_at;
        let takings = self.heap.lock(&self.medium).takings;
        let log = &mut lane.log;
        // Data grows in steps, between which much may be logged. About as much as the ring has was logged since the last
        // look.
        log.lines_since_growth += now;
        if std::mem::replace(&mut log.heap_takings, takings) != takings {
            log.lines_since_growth = 0;
        }
        let is_settled = log.lines_since_growth * LINE_BYTES > heap_bytes / OF_SETTLED_HEAP;
        let part = match is_settled {
            true => OF_SETTLED_HEAP * self.rings.taken.load(Ordering::Relaxed).max(1) as u64,
            false => OF_GROWING_HEAP,
        };
        let most = (heap_bytes / part / LINE_BYTES).max(4 * record).min(all);
        let lines = most.min((4 * now + 3).max(4 * record));
        if lines <= now {
            return false;
        }
        let is_longer = lengthen(self.io(), &self.header.geometry, lane.id, now, lines).is_ok();
        if is_longer && self.medium.is_usable() {
            slot.end_lap_at(lines);
        }
        is_longer
    }

    /// RING-3, of a pool that is closed.
    pub(super) fn shorten_rings(&self) {
        let (io, geometry) = (self.io(), &self.header.geometry);
        let first = geometry.ring_lines_first();
        let is_long = |lane: &usize| self.lanes[*lane].lines() > first;
        let lanes: Vec<usize> = (0..self.lanes.len()).filter(is_long).collect();
        for lane in &lanes {
            let at = geometry.lane_at(*lane).plus(LANE_TAIL);
            let tail = unseal_at(self.medium.load_u64(at), at);
            let tail = tail.and_then(|tail| log::place_of_tail(self.lanes[*lane].ring, tail));
            // An unproven lane begins anew at the next opening.
            if let Some(tail) = tail.filter(|tail| tail.line >= first) {
                let tail = log::tail_at(log::Place { line: 0, ..tail });
                self.medium.store_u64(at, seal_at(tail, at));
                io.flush(Site::RecoverTail, at, 8);
            }
        }
        if lanes.is_empty() || !io.try_fence(Site::RecoverTail) {
            return;
        }
        for lane in &lanes {
            let at = geometry.lane_at(*lane).plus(LANE_LINES);
            self.medium.store_u64(at, seal_at(first, at));
            io.flush(Site::RecoverTail, at, 8);
        }
        if !io.try_fence(Site::RecoverTail) {
            return;
        }
        for lane in lanes {
            let behind = geometry.ring_behind(lane, first);
            self.medium.release(behind.at, behind.len);
        }
    }
}

impl LaneSlot {
    /// Lines of the ring that are in use.
    pub fn lines(&self) -> u64 {
        let end = self.end.load(Ordering::Relaxed);
        if end == self.ring.lines { end } else { end + 1 }
    }

    /// Lines of the longest record that goes to the ring.
    #[inline]
    pub fn longest_record(&self) -> u64 {
        self.longest.load(Ordering::Relaxed)
    }

    /// This number of lines is in use from now on. In front of the whole ring's end there is room for a `Wrap`.
    pub fn end_lap_at(&self, lines: u64) {
        let end = if lines == self.ring.lines { lines } else { lines - 1 };
        self.end.store(end, Ordering::Relaxed);
        self.longest.store(lines / 2, Ordering::Relaxed);
    }
}

#[cfg(all(test, feature = "lab"))]
mod tests {
    use super::*;
    use crate::medium::{CreateOptions, OpenOptions};
    use crate::recover::UnrecoveredPool;
    use crate::{BlockKind, PoolOffset, Runner, Scheme, Transact};
    use outlast_pmem::Recorder;

    /// Lines of a ring, and words of a transaction whose records leave several of them over: two of six
    /// lines and four, or, sealed, six of three and two.
    fn lines_and_words(scheme: Scheme) -> (u64, u64) {
        if scheme == Scheme::UndoArchapt { (20, 9) } else { (16, 19) }
    }

    fn options(scheme: Scheme) -> OpenOptions {
        OpenOptions { lock_stripes: 64, ..OpenOptions::with_scheme(scheme) }
    }

    fn created(scheme: Scheme, plant: Option<Plant>) -> (Pool<Recorder>, PoolOffset) {
        let lane_bytes = (lines_and_words(scheme).0 + 1) * 64;
        let create = CreateOptions { lanes: 1, lane_bytes, ..CreateOptions::default() };
        let medium = Recorder::from_image(vec![0; 64 << 10]).planting(Plant::code_of(plant));
        let pool = Pool::create_on(medium, &create, &options(scheme)).unwrap();
        let block = pool.lane().unwrap().run(|tx| tx.alloc(512, BlockKind::General)).unwrap();
        (pool, block)
    }

    /// `None` where recovery refuses what it finds.
    fn opened(bytes: Vec<u8>, scheme: Scheme, plant: Option<Plant>) -> Option<Pool<Recorder>> {
        let medium = Recorder::from_image(bytes).planting(Plant::code_of(plant));
        let recovered = UnrecoveredPool::open(medium).unwrap();
        Some(recovered.recover().ok()?.start(&options(scheme)).unwrap())
    }

    /// Stores to `words` words, in one transaction.
    fn commit(pool: &Pool<Recorder>, block: PoolOffset, words: u64, value: u64) {
        let store = |tx: &mut crate::Tx<'_, Recorder>| {
            (0..words).try_for_each(|word| tx.store_u64(block.plus(16 * word), value))
        };
        pool.lane().unwrap().run(store).unwrap();
        pool.medium().take_log();
    }

    /// A line of the ring of which a word carries the tag of the lap that will be written there
    /// next: what a crash leaves of that could not be told from it.
    fn mistakable(pool: &Pool<Recorder>) -> Option<u64> {
        let slot = &pool.lanes[0];
        let head = slot.place(slot.shared.installed.load(std::sync::atomic::Ordering::Relaxed));
        let carries = |line: u64, lap: log::streamed::Lap| {
            let at = slot.ring.line(line);
            (0..8)
                .any(|word| log::streamed::carries(pool.medium().load_u64(at.plus(8 * word)), lap))
        };
        (0..slot.ring.lines).find(|line| {
            let place = if *line < head.line { head.next_lap() } else { head };
            carries(*line, place.lap.unwrap())
        })
    }

    /// Hundreds of laps of one opening, each leaving the same lines over.
    fn after_many_laps(scheme: Scheme, plant: Option<Plant>) -> Option<u64> {
        let (pool, block) = created(scheme, plant);
        (0..3000).find_map(|value| {
            commit(&pool, block, lines_and_words(scheme).1, value);
            mistakable(&pool)
        })
    }

    /// Hundreds of openings, each after a crash in the middle of a record.
    fn after_many_openings(scheme: Scheme, plant: Option<Plant>) -> Option<u64> {
        let (mut pool, block) = created(scheme, plant);
        let mut random = 88_172_645_463_325_252u64;
        for value in 0..600u64 {
            // What is done to the ring before is fenced.
            drop(pool.lane().unwrap());
            let before = pool.medium().to_bytes();
            // Now and then much of the ring, mostly a line of it.
            let words = if value % 200 < 3 { 1 + value % 200 * 9 } else { 1 };
            commit(&pool, block, words, value);
            let line = mistakable(&pool);
            if line.is_some() {
                return line;
            }
            // Any of the ring's words may not have arrived. Where a commit takes two fences that is more
            // than a crash can leave, and may be refused; then all have arrived.
            let whole = pool.medium().to_bytes();
            let mut left = whole.clone();
            let ring = pool.lanes[0].ring;
            for at in (ring.at.0..ring.at.0 + ring.lines * 64).step_by(8).map(|at| at as usize) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                if random.is_multiple_of(3) {
                    left[at..at + 8].copy_from_slice(&before[at..at + 8]);
                }
            }
            let torn = opened(left, scheme, plant);
            let Some(next) = torn.or_else(|| opened(whole, scheme, plant)) else {
                // Recovery takes a word of long ago for one of a later lap (LOG-9).
                return Some(value);
            };
            pool = next;
        }
        None
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of transactions take minutes there")]
    fn no_word_of_the_ring_is_ever_mistaken_for_one_of_the_lap_to_come() {
        let [rest, zeroes] = [Plant::RestOfLapUnwritten, Plant::RingNotZeroed].map(Some);
        for scheme in [Scheme::Swift, Scheme::UndoArchapt] {
            assert_eq!(after_many_laps(scheme, None), None, "{scheme}");
            assert_eq!(after_many_openings(scheme, None), None, "{scheme}");
            assert!(after_many_laps(scheme, rest).is_some(), "{scheme}");
            assert!(after_many_openings(scheme, zeroes).is_some(), "{scheme}");
        }
        assert_eq!(
            Plant::shown_in(crate::plant::Shows::Laps).count(),
            2,
            "every one of them is planted here"
        );
    }

    /// A ring that held records of the other form is made blank before the first of this one, both ways.
    #[test]
    fn a_pool_goes_from_one_form_of_log_to_the_other_and_back() {
        let (pool, block) = created(Scheme::Swift, None);
        let mut bytes = pool.medium().to_bytes();
        let schemes = [Scheme::Swift, Scheme::Undo, Scheme::UndoArchapt, Scheme::Redo];
        for value in 0..40u64 {
            let scheme = schemes[value as usize % 4];
            let recovered = UnrecoveredPool::open(Recorder::from_image(bytes)).unwrap();
            let recovered = recovered.recover().unwrap();
            assert_eq!(recovered.check_metadata().0.findings, []);
            let last = recovered.medium().load_u64(block);
            assert_eq!(last, value.saturating_sub(1));
            let pool = recovered.start(&options(scheme)).unwrap();
            (0..=value % 7).for_each(|_| commit(&pool, block, 1 + value % 3, value));
            bytes = pool.medium().to_bytes();
        }
    }
}
