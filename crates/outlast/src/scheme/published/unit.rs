//! The history unit as published: it drops a transaction's log when each of its objects was
//! flushed or *believed* to be written back, because it has left the LRU queue and has checksums.
//!
//! As published (section III of the paper on Archapt), with its flaws, of which the crash tests of
//! `outlast-crash` show one each (`runtime::scopes::points`):
//!
//! * An object that leaves the queue while it is pending is put into the checksums of its page, which
//!   are flushed and fenced; its data is not. Lines without checksums, bitmaps and what lies outside
//!   of blocks, are flushed.
//! * An object that is touched while it is pending is flushed at that moment, before what touches it
//!   goes on.
//! * A transaction without pending objects is physically committed: its log is dropped. One word
//!   says so, the lane's floor. A ring drops its transactions in order.
//! * A ring that is full, a full heap and the end of the pool flush what is pending, as the sound
//!   variant does: the paper's log has no end.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LineAddr};

use super::objects::Objects;
use super::sums::Believed;
use crate::barrier::before_flushes_of_others;
use crate::io::Site;
use crate::layout::{LANE_FLOOR, LANE_TAIL};
use crate::pool::{OpenOptions, Pool, RecoveredPool};
use crate::scheme::Reading;
use crate::sealed::seal_at;
use crate::seq::Seq;
use crate::writeback::{Access, Reach, Sample, cache_bytes, sweep};

/// The unit, and the checksums that it relies on.
pub(crate) struct Unit {
    objects: Objects,
    believed: Believed,
    reading: Reading,
}

impl Unit {
    pub fn new<M: Medium>(pool: &RecoveredPool<M>, options: &OpenOptions) -> Self {
        let (geometry, reading) = (pool.header().geometry, options.reading);
        let cache_bytes = options.cache_bytes.unwrap_or_else(cache_bytes);
        let sample = Sample::one_in_two_to_the(options.sample_bits);
        let rows_once_built = reading == Reading::RowsOnceBuilt;
        Self {
            objects: Objects::new(cache_bytes, sample, geometry.lanes as usize),
            believed: Believed::new(geometry, pool.believed_contents(), rows_once_built),
            reading,
        }
    }

    /// Bytes of memory that queue and objects take.
    pub fn history_bytes(&self) -> u64 {
        self.objects.memory_bytes() as u64
    }

    /// Takes the hints, believes what has left the queue to be written back, and drops logs.
    fn step<M: Medium>(&mut self, pool: &Pool<M>, reads: &[Access]) {
        self.objects.drain(pool);
        self.objects.touch(reads);
        self.believe(pool);
        self.drop_logs(pool);
    }

    fn believe<M: Medium>(&mut self, pool: &Pool<M>) {
        let io = pool.io();
        let aged = self.objects.take_aged();
        before_flushes_of_others();
        let mut changed = Vec::new();
        for line in &aged {
            if self.believed.can_contain(io.medium, *line) {
                // An ordinary load: it finds the content wherever that is (ARC-16).
                let mut content = [0; 8];
                io.medium.load(line.start(), bytemuck::cast_slice_mut(&mut content));
                self.believed.set(io, *line, Some(&content), &mut changed);
            } else {
                io.flush_line(Site::AgedOut, *line);
            }
        }
        flush_sums(pool, changed);
        if !aged.is_empty() {
            io.fence(Site::AgedOut);
        }
    }

    /// Drops the logs of transactions without pending objects, lane by lane.
    fn drop_logs<M: Medium>(&mut self, pool: &Pool<M>) {
        let io = pool.io();
        for (id, lane) in pool.lanes.iter().enumerate() {
            let Some((counter, end)) = self.objects.drop_resolved(id) else { continue };
            let at = pool.header().geometry.lane_at(id);
            let floor_at = at.plus(LANE_FLOOR);
            io.medium.store_u64(floor_at, seal_at(pool.seq(counter).bits(), floor_at));
            io.flush(Site::Floor, floor_at, 8);
            io.fence(Site::Floor);
            // The tail moves after that, and lines are used again after the tail.
            lane.shared.swept.store(end, Ordering::Relaxed);
            let tail_at = at.plus(LANE_TAIL);
            io.medium.store_u64(tail_at, seal_at(end % lane.ring.lines, tail_at));
            io.flush(Site::Tail, tail_at, 8);
            io.fence(Site::Tail);
            lane.shared.tail.store(end, Ordering::Release);
        }
    }

    /// A sweep's part: flushes what the floor at `limit`, or at as much as is needed, would pass.
    /// Their fence is the caller's. Returns up to where each lane's records are below it.
    pub fn flush_below<M: Medium>(
        &mut self,
        pool: &Pool<M>,
        own: usize,
        reach: Reach,
        limit: &mut u64,
    ) -> Vec<u64> {
        self.objects.drain(pool);
        if let Reach::Lines(lines) = reach {
            *limit = self.objects.limit_for(own, lines).map_or(*limit, |enough| enough.min(*limit));
        }
        self.objects.flush_below(pool.io(), *limit);
        self.objects.dropped_below(*limit)
    }
}

/// Lets the unit catch up, and makes room when the lane's ring is nearly
/// full. Does nothing while another lane is at it.
pub fn step<M: Medium>(pool: &Pool<M>, own: usize, accesses: &mut Vec<Access>) {
    {
        let Some(mut sweeper) = pool.sweeper.try_lock() else { return };
        let Some(unit) = &mut sweeper.published else { return };
        unit.step(pool, accesses);
        accesses.clear();
    }
    let slot = &pool.lanes[own];
    let used =
        slot.shared.installed.load(Ordering::Relaxed) - slot.shared.tail.load(Ordering::Relaxed);
    if used * 4 > slot.ring.lines * 3 {
        sweep(pool, own, Reach::Lines(slot.ring.lines / 4));
    }
}

/// Flushes, and fences, what is pending of these bytes before a transaction touches them.
pub fn finish_pending<M: Medium>(pool: &Pool<M>, bytes: ByteRange) {
    let mut sweeper = pool.sweeper.lock(&pool.medium);
    let Some(Unit { objects, .. }) = &mut sweeper.published else { return };
    objects.drain(pool);
    if objects.finish(pool.io(), bytes.lines()) {
        pool.io().fence(Site::AgedOut);
    }
}

/// A block gets a new owner: the checksums forget its lines.
pub fn forget_sums<M: Medium>(pool: &Pool<M>, block: ByteRange) {
    let mut sweeper = pool.sweeper.lock(&pool.medium);
    let Some(Unit { believed, .. }) = &mut sweeper.published else { return };
    let mut changed = Vec::new();
    let whole =
        |line: &LineAddr| block.at <= line.start() && line.start().plus(64).0 <= block.end().0;
    for line in block.lines().filter(whole) {
        if believed.contains(&pool.medium, line) {
            believed.set(pool.io(), line, None, &mut changed);
        }
    }
    if flush_sums(pool, changed) {
        pool.io().fence(Site::AgedOut);
    }
}

/// Lines that are in checksums get those of what a commit leaves there: the lines with their
/// contents, by the reading of the paper. Their fence is the caller's.
pub fn renew_sums<M: Medium, I: Iterator<Item = (LineAddr, [u64; 8])>>(
    pool: &Pool<M>,
    lines: impl FnOnce(Reading) -> I,
) {
    let mut sweeper = pool.sweeper.lock(&pool.medium);
    let Some(Unit { believed, reading, .. }) = &mut sweeper.published else { return };
    let mut changed = Vec::new();
    for (line, content) in lines(*reading) {
        if believed.contains(&pool.medium, line) {
            believed.set(pool.io(), line, Some(&content), &mut changed);
        }
    }
    flush_sums(pool, changed);
}

/// `true` when there is something to be fenced.
fn flush_sums<M: Medium>(pool: &Pool<M>, mut changed: Vec<LineAddr>) -> bool {
    changed.sort_unstable();
    changed.dedup();
    for line in &changed {
        pool.checkpointer.changes.mark(line.start());
        pool.io().flush_line(Site::Sums, *line);
    }
    !changed.is_empty()
}

/// Whether the log of that commit was dropped.
pub fn is_dropped<M: Medium>(pool: &Pool<M>, seq: Seq) -> bool {
    let mut sweeper = pool.sweeper.lock(&pool.medium);
    let Some(unit) = &mut sweeper.published else { return false };
    unit.objects.drain(pool);
    unit.drop_logs(pool);
    !unit.objects.is_logged(seq.counter())
}
