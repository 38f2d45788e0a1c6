//! Covering the log: a lane writes back what its own records have stored, between its commits.
//!
//! Data that the log covers is left to the cache. When commits have used some lines of the log, the
//! lane looks at as many old ones: what their records stored to is gathered, by segment while the
//! next commit waits for its record, and flushed until the next such step, by segment in parts, so that
//! no commit is held up by all of it. No lane waits for the flushes themselves: the fence of the
//! commit behind them is the one that counts, and they are done by then. When a quarter of the ring
//! is covered the floor passes it. So every commit does its share, and none stops for the others'.
//! Only where the ring runs full before, since other lanes hold the floor back, a sweep covers what
//! is left, of all lanes.
//!
//! Which records are old is a matter of the *order*:
//!
//! * *By segment* those on the other side of the newer half of the ring.
//! * *By age* ([`age`](super::age)) those of which what was touched at the same time has left the
//!   last-level cache, as far as the [history unit](super::history) can tell; and those that the ring
//!   has no more room for.
//!
//! * **DEFER-1** A record is *covered* when every line that it stored to was flushed after it was in
//!   place, by its lane's thread, and that thread has fenced since. `flushed` runs ahead without
//!   the fence: only that thread itself may count on it, and only behind a fence.
//! * **DEFER-2** A line is left out when the lane has flushed it already, at a time when the record was
//!   in place. Whether it was is a comparison of positions in the log, never a guess; a line that
//!   was forgotten is flushed again. A thread fences before it gives the lane back, so that the
//!   next one need not know whose flush it was.
//! * **DEFER-3** What the lane's thread has not covered when the floor is to pass it, the sweep
//!   flushes itself (SWEEP-1).

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::LineAddr;

use super::age::Aging;
use super::history::Access;
use super::installed::Installed;
use crate::io::{Io, Site};
use crate::plant::Plant;
use crate::pool::{LaneSlot, Pool};
use crate::seq::Seq;

/// Log lines after which a lane does its share: a batch of flushes is hidden behind the next
/// transaction as long as it is small.
pub(crate) const STEP_LINES_MAX: u64 = 8;

/// Batches of flushes from one step to the next where records are about a line: each
/// is another batch that a fence waits for.
const PARTS_OF_SHORT: u64 = 2;

/// Batches where they are longer, so that each commit issues one: the less waits for the
/// slowest, the closer that is to the others, and there are fewer commits in a step.
const PARTS_OF_LONG: u64 = STEP_LINES_MAX / 2;

/// Lines of a long ring.
const LONG_RING_LINES: u64 = 1 << 12;

/// So often a lane looks whether the floor moves while it might run through a part of its ring.
const LOOKS_IN_PART: u64 = 8;

/// Lines of which it is remembered when they were flushed.
const RECENT_MAX: usize = 1024;

/// Lines that are looked up before it is judged whether that pays.
const LOOKED_UP: usize = 1024;

/// Looking up pays where one line in this many was flushed already.
const SPARED_ONE_IN: usize = 64;

/// Where it does not, lines that are flushed without a look before it is tried again.
const UNSEEN: usize = 16 * 1024;

/// How far a lane is with what its log covers.
#[derive(Default)]
pub(crate) struct Deferred {
    /// Position behind the last record that was looked at.
    pub(super) gathered: u64,
    pub(super) batch: Batch,
    pub(super) installed: Installed,
    pub(super) aging: Aging,
    /// Whether the lane has flushed something since its last commit's fence.
    pub is_unfenced: bool,
    /// Whether the next step's share is to be gathered.
    is_gathering_due: bool,
    /// When the lane's log ends there or further on, a part of what has gathered is flushed.
    next_part: u64,
    /// From one part to the next, in log lines.
    part_every: u64,
    /// The floor is not looked at again before so much is flushed: other lanes hold it back.
    floor_moves_from: u64,
}

/// Lines to be flushed together, and which were so lately.
#[derive(Default)]
pub(super) struct Batch {
    lines: Vec<LineAddr>,
    /// How many of them, from the first on, are flushed.
    flushed: usize,
    /// By a hash of the line; the later of two forgets the earlier.
    recent: Option<Box<[Recent; RECENT_MAX]>>,
    /// Hardly a line was flushed already, so that none is looked up for a while.
    is_blind: bool,
    /// Lines since that was decided, and those of them that were left out.
    judged: usize,
    spared: usize,
}

/// A line was flushed when everything before `until` was in place.
#[derive(Clone, Copy, Default)]
struct Recent {
    line: LineAddr,
    until: u64,
}

impl Batch {
    /// The line is to be flushed for something that was in place at `since` already; it will be
    /// flushed for everything in place at `now`. Both grow with time.
    #[inline]
    pub fn add<M: Medium>(&mut self, io: Io<'_, M>, line: LineAddr, since: u64, now: u64) {
        self.add_each(io, [line].into_iter(), since, now);
    }

    /// The same of several lines.
    #[inline]
    fn add_each<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        lines: impl Iterator<Item = LineAddr>,
        since: u64,
        now: u64,
    ) {
        let Self { lines: gathered, recent, spared, .. } = self;
        let recent = recent.get_or_insert_with(|| Box::new([Recent::default(); RECENT_MAX]));
        for line in lines {
            let hash = line.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let recent = &mut recent[hash as usize % RECENT_MAX];
            let is_once = |io: Io<'_, M>| io.plants(Plant::FlushedOnceIsEnough);
            if recent.line == line && (recent.until >= since || is_once(io)) {
                *spared += 1;
            } else {
                *recent = Recent { line, until: now };
                gathered.push(line);
            }
        }
    }

    /// As [`add`](Self::add) of some lines, but without a look while that does not pay: they are flushed
    /// once more at worst, and what is remembered stays true.
    #[inline]
    fn add_watched<M: Medium>(&mut self, io: Io<'_, M>, lines: &[u64], since: u64, now: u64) {
        self.judged += lines.len();
        let lines = lines.iter().copied().map(LineAddr);
        match self.is_blind {
            true => self.lines.extend(lines),
            false => self.add_each(io, lines, since, now),
        }
    }

    /// Decides whether lines are looked up from now on, by those added so far.
    #[inline]
    fn judge(&mut self) {
        if self.judged >= if self.is_blind { UNSEEN } else { LOOKED_UP } {
            self.is_blind = !self.is_blind && self.spared * SPARED_ONE_IN < self.judged;
            (self.judged, self.spared) = (0, 0);
        }
    }

    /// The gathered lines.
    pub fn lines(&self) -> &[LineAddr] {
        &self.lines
    }

    /// Flushes what has gathered.
    pub fn flush<M: Medium>(&mut self, io: Io<'_, M>, site: Site) {
        self.flush_first(io, site, self.lines.len());
        self.lines.clear();
        self.flushed = 0;
    }

    /// Flushes the gathered lines up to this many, those flushed before included.
    fn flush_first<M: Medium>(&mut self, io: Io<'_, M>, site: Site, count: usize) {
        io.flush_each(site, self.lines[self.flushed..count].iter().copied());
        self.flushed = count;
    }
}

/// A lane has used more of its log: flushes its share of what is old, and moves the floor when
/// that frees enough. `accesses` are hints about what it touched, which are taken.
pub(crate) fn step<M: Medium>(
    pool: &Pool<M>,
    io: Io<'_, M>,
    own: usize,
    deferred: &mut Deferred,
    accesses: &mut Vec<Access>,
) {
    let slot = &pool.lanes[own];
    let shared = &slot.shared;
    // No commit has done it since.
    deferred.gather_ahead(pool, slot);
    deferred.installed.close_group();
    let tail = shared.tail.load(Ordering::Acquire);
    if pool.plan.history.is_some() {
        deferred.aging.before_flush(&deferred.batch, slot.ring.lines, deferred.is_unfenced);
    }
    deferred.is_unfenced |= !deferred.batch.lines().is_empty();
    deferred.batch.flush(io, pool.facts.covers_at());
    // A sweep may have covered more meanwhile, and the floor may have passed it.
    let own_way = deferred.aging.first_left().unwrap_or(deferred.gathered);
    let flushed = shared.flushed.load(Ordering::Relaxed).max(tail).max(own_way);
    shared.flushed.store(flushed, Ordering::Relaxed);
    if io.plants(Plant::CoveredUnfenced) {
        shared.fenced.store(flushed, Ordering::Release);
    }
    match &pool.plan.history {
        Some(history) => {
            let installed = shared.installed.load(Ordering::Relaxed);
            deferred.gathered = deferred.gathered.max(tail);
            // Steps tell when a line was flushed (AGE-2).
            deferred.next_part = u64::MAX;
            deferred.gather_by_age(pool, history, slot, accesses, tail, installed);
        }
        None => deferred.is_gathering_due = true,
    }
    let part = (slot.ring.lines / floor_moves(pool.facts.by_age, slot)).max(1);
    if flushed - tail >= part && flushed >= deferred.floor_moves_from {
        super::try_sweep(pool, own);
        // The positions that it reads are in the caches of the other lanes' cores.
        deferred.floor_moves_from = flushed + part / LOOKS_IN_PART;
    }
}

/// The lane leaves the newer half of its ring alone: what stands in the other one is flushed when the
/// ring is full. By age, where the ring is long, three quarters: each line that a record may wait there
/// longer is time in which the cache writes back what the record names.
pub(super) fn old_end(by_age: bool, lane: &LaneSlot, installed: u64) -> u64 {
    let lines = lane.ring.lines;
    let left_alone = if is_long(by_age, lane) { lines / 4 * 3 } else { lines / 2 };
    installed.saturating_sub(left_alone)
}

/// Into how many parts the moves of the floor cut a ring.
fn floor_moves(by_age: bool, lane: &LaneSlot) -> u64 {
    if is_long(by_age, lane) { 16 } else { 4 }
}

/// By age, and so long that moving the floor costs nothing against what it frees.
fn is_long(by_age: bool, lane: &LaneSlot) -> bool {
    by_age && lane.ring.lines >= LONG_RING_LINES
}

impl Deferred {
    /// The record before position `end` is being made, which stores to these lines, at most `most`.
    #[inline(always)]
    pub fn note_record(&mut self, end: u64, most: usize, lines: impl Iterator<Item = LineAddr>) {
        self.installed.note(end, most, lines);
    }

    /// As [`note_record`](Self::note_record), of a record that stores to each of these lines.
    #[inline(always)]
    pub fn note_lines(&mut self, end: u64, lines: impl ExactSizeIterator<Item = LineAddr>) {
        self.installed.note_all(end, lines);
    }

    /// As [`note_record`](Self::note_record) where only the log says which lines.
    pub fn note_record_in_log(&mut self, end: u64) {
        self.installed.note_in_log(end);
    }

    /// Gathers the next step's share, if that is still to be done. A commit does so while its record is
    /// flushed and its fence would wait: behind the fence all that is noted here would be stores
    /// that wait.
    #[inline]
    pub fn gather_ahead<M: Medium>(&mut self, pool: &Pool<M>, lane: &LaneSlot) {
        if self.is_gathering_due {
            self.is_gathering_due = false;
            self.gather_share(pool, lane);
        }
    }

    /// Whether a part of what has gathered is to be flushed when the lane's log ends at `head`.
    #[inline(always)]
    pub fn is_part_due(&self, head: u64) -> bool {
        head >= self.next_part
    }

    /// Flushes as much of what has gathered as the lane has used of the log lines from the last step to
    /// the next: `used`, up to `head`.
    #[inline(never)]
    pub fn flush_part<M: Medium>(&mut self, pool: &Pool<M>, io: Io<'_, M>, used: u64, head: u64) {
        let all = self.batch.lines.len();
        let part = (all as u64 * used).div_ceil(pool.plan.step_every).min(all as u64) as usize;
        self.next_part = head + self.part_every;
        if part > self.batch.flushed {
            self.batch.flush_first(io, pool.facts.covers_at(), part);
            self.is_unfenced = true;
        }
    }

    #[inline(never)]
    fn gather_share<M: Medium>(&mut self, pool: &Pool<M>, lane: &LaneSlot) {
        let installed = lane.shared.installed.load(Ordering::Relaxed);
        self.gathered = self.gathered.max(lane.shared.tail.load(Ordering::Acquire));
        let records =
            self.gather(pool, lane, old_end(pool.facts.by_age, lane, installed), installed);
        let are_long = records <= PARTS_OF_LONG;
        let parts = if are_long { PARTS_OF_LONG } else { PARTS_OF_SHORT };
        self.part_every = pool.plan.step_every / parts;
        self.next_part = installed + self.part_every;
    }

    /// Gathers what the lane's records up to `goal` have stored to: whole groups of them, maybe a little
    /// more. Returns how many records.
    fn gather<M: Medium>(
        &mut self,
        pool: &Pool<M>,
        lane: &LaneSlot,
        goal: u64,
        installed: u64,
    ) -> u64 {
        let (io, batch) = (pool.io(), &mut self.batch);
        let mut records = 0;
        batch.judge();
        while let Some(end) = self.installed.first_end() {
            // A group that ends before was covered by a sweep.
            if end > self.gathered && self.gathered >= goal {
                break;
            }
            let position = self.gathered;
            records += self.installed.first_records();
            self.gathered = self.installed.take_first(pool, lane, position, |lines| {
                batch.add_watched(io, lines, end, installed);
            });
        }
        records
    }
}

/// The number of the record at `position` of a lane, where it has one in place.
pub(super) fn number_at<M: Medium>(pool: &Pool<M>, lane: &LaneSlot, position: u64) -> Option<Seq> {
    let installed = lane.shared.installed.load(Ordering::Acquire);
    (position < installed).then(|| lane.place(position).head(&pool.medium).seq)
}

#[cfg(test)]
mod tests {
    use outlast_pmem::Heap;

    use super::*;

    /// Adds lines as a lane does that has installed each just now. Returns how many will be flushed.
    fn flushed(batch: &mut Batch, heap: &Heap, lines: impl Iterator<Item = u64>) -> usize {
        for (now, line) in (1..).zip(lines) {
            batch.judge();
            batch.add_watched(Io::new(heap), &[line], 0, now);
        }
        batch.lines.drain(..).count()
    }

    #[test]
    fn lines_are_looked_up_where_some_were_flushed_already() {
        let (heap, mut batch) = (Heap::new(64), Batch::default());
        let often = |batch: &mut Batch| flushed(batch, &heap, (0..100).map(|_| 7));
        assert_eq!(flushed(&mut batch, &heap, (0..50_000).map(|n| 1 + n % 9)), 9);
        assert_eq!(flushed(&mut batch, &heap, 100..4 * 1024), 4 * 1024 - 100, "none is twice");
        assert!(batch.is_blind);
        assert_eq!(often(&mut batch), 100, "without a look");
        flushed(&mut batch, &heap, 5_000..5_000 + UNSEEN as u64 - 2_500);
        assert_eq!(often(&mut batch), 1, "it is tried again");
        assert!(!batch.is_blind);
    }
}
