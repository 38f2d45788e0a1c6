//! What literal variants do otherwise: they drop a transaction's log when each of its objects was
//! flushed or *believed* to be written back, because it has left the LRU queue and has checksums.
//!
//! As published (section III of the paper on Archapt), with its flaws, of which the crash tests of
//! `outlast-crash` show one each (`trial::points`):
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

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LineAddr};
use std::sync::atomic::Ordering;

use super::{Sweeper, drop_tail};
use crate::io::Site;
use crate::layout::LANE_FLOOR;
use crate::pool::Pool;
use crate::scheme::Reading;
use crate::sealed::seal;
use crate::seq::Seq;

/// What a commit leaves in a line: its content, and whether older blocks were stored to.
pub(crate) type Rewrite = (LineAddr, [u64; 8]);

/// Flushes, and fences, what is pending of these bytes before somebody touches them.
pub(crate) fn finish_pending<M: Medium>(pool: &Pool<M>, bytes: ByteRange) {
    let mut sweeper = pool.sweeper.lock(&pool.medium);
    let Some(history) = sweeper.drain(pool) else { return };
    if history.finish(pool.io(), bytes.lines()) {
        pool.io().fence(Site::AgedOut);
    }
}

/// A block gets a new owner: whatever checksums know of its lines is nobody's.
pub(crate) fn forget_sums<M: Medium>(pool: &Pool<M>, block: ByteRange) {
    let mut sweeper = pool.sweeper.lock(&pool.medium);
    let Some(believed) = &mut sweeper.believed else { return };
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

/// Lines that are in checksums get those of what a commit leaves there. Their fence is the
/// caller's.
pub(crate) fn renew_sums<M: Medium>(pool: &Pool<M>, lines: impl Iterator<Item = Rewrite>) {
    let mut sweeper = pool.sweeper.lock(&pool.medium);
    let Some(believed) = &mut sweeper.believed else { return };
    let mut changed = Vec::new();
    for (line, content) in lines {
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
pub(crate) fn is_dropped<M: Medium>(pool: &Pool<M>, seq: Seq) -> bool {
    let mut sweeper = pool.sweeper.lock(&pool.medium);
    sweeper.drain(pool);
    sweeper.drop_logs(pool);
    sweeper.history.as_ref().is_some_and(|history| !history.is_logged(seq.counter()))
}

impl Sweeper {
    /// Believes what has left the queue to be written back.
    pub(super) fn believe<M: Medium>(&mut self, pool: &Pool<M>) {
        let (Some(history), Some(believed)) = (&mut self.history, &mut self.believed) else {
            return;
        };
        let io = pool.io();
        let aged = history.take_aged();
        let mut changed = Vec::new();
        for line in &aged {
            if believed.can_contain(io.medium, *line) {
                // An ordinary load: it finds the content wherever that is (ARC-16).
                let mut content = [0; 8];
                io.medium.load(line.start(), bytemuck::cast_slice_mut(&mut content));
                believed.set(io, *line, Some(&content), &mut changed);
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
    pub(super) fn drop_logs<M: Medium>(&mut self, pool: &Pool<M>) {
        let Some(history) = self.history.as_mut().filter(|_| pool.is_literal) else { return };
        let io = pool.io();
        for (id, lane) in pool.lanes.iter().enumerate() {
            let Some((counter, end)) = history.drop_resolved(id) else { continue };
            let at = pool.header().geometry.lane_at(id).plus(LANE_FLOOR);
            io.medium.store_u64(at, seal(pool.seq(counter).bits()));
            io.flush(Site::Floor, at, 8);
            io.fence(Site::Floor);
            // The tail moves after that, and lines are used again after the tail.
            lane.shared.swept.store(end, Ordering::Relaxed);
            drop_tail(pool, id, end);
            io.fence(Site::Tail);
            lane.shared.tail.store(end, Ordering::Release);
        }
    }
}

/// Whether a line that a commit has stored to keeps the checksums it has.
pub(crate) fn keeps_sums_on_rewrite<M: Medium>(pool: &Pool<M>) -> bool {
    pool.reading == Reading::NothingOnRewrite
}
