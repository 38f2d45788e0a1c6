//! Write-back by log segment: data is left to the cache until the part of the log that covers it is
//! to be used again.
//!
//! A lane's ring is swept half by half. When half of it holds records that nobody has covered, its
//! own thread begins with the older ones: between its commits it reads so many of their log lines
//! as it has used new ones, twice over, and flushes what they stored to. Nobody waits for that;
//! the fence of the next commit is the one that counts. By the time the ring is three quarters
//! full the half is covered, and the floor can pass it. A stop for more than a share of it comes
//! only where the ring runs full before: then one sweep covers what is left, of all lanes.
//!
//! * **B1** A record is *covered* when every line that it stored to was flushed after it was in
//!   place, by its lane's thread, and that thread has fenced since. `flushed` runs ahead without
//!   the fence: only that thread itself may count on it, and only behind a fence.
//! * **B2** A line is left out when the same thread has flushed it already, at a time when the
//!   record was in place. Whether it was is a comparison of positions in the log, never a guess;
//!   a line that was forgotten is flushed again.
//! * **B3** What the lane's thread has not covered when the floor is to pass it, the sweep covers
//!   itself (W1).

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::LineAddr;

use super::{for_each_target, installed_record};
use crate::io::{Io, Site};
use crate::log::RecordKind;
use crate::plant::Plant;
use crate::pool::{LaneSlot, Pool};
use crate::seq::Seq;

/// Log lines after which a lane does its next share: longer shares would only lengthen the
/// slowest commits.
pub(crate) const SEGMENT_STEP_LINES_MAX: usize = 64;

/// So many old log lines are covered for each one that is used.
const PACE: u64 = 2;

/// Lines that are fetched together, and then flushed together.
const LINES_AT_ONCE: usize = 64;

/// Lines of which it is remembered when they were flushed.
const RECENT_MAX: usize = 4096;

/// How far a lane is with what its log covers.
#[derive(Default)]
pub(crate) struct Segment {
    /// Position up to which the half goes that is being covered.
    end: u64,
    batch: Batch,
}

/// Lines to be flushed together, and which were so lately.
#[derive(Default)]
pub(super) struct Batch {
    lines: Vec<LineAddr>,
    /// By a hash of the line; the later of two forgets the earlier.
    recent: Box<[Recent]>,
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
    pub fn add<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        site: Site,
        line: LineAddr,
        since: u64,
        now: u64,
    ) {
        if self.recent.is_empty() {
            self.recent = vec![Recent::default(); RECENT_MAX].into();
        }
        let hash = line.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let recent = &mut self.recent[hash as usize % RECENT_MAX];
        if recent.line == line && (recent.until >= since || io.plants(Plant::FlushedOnceIsEnough)) {
            return;
        }
        *recent = Recent { line, until: now };
        self.lines.push(line);
        if self.lines.len() >= LINES_AT_ONCE {
            self.flush(io, site);
        }
    }

    /// Flushes what has gathered.
    pub fn flush<M: Medium>(&mut self, io: Io<'_, M>, site: Site) {
        for line in self.lines.drain(..) {
            io.flush_line(site, line);
        }
    }
}

/// A lane has used `lines` more lines of its log: does its share of covering what is old, and moves
/// the floor when a half is done.
pub(crate) fn step<M: Medium>(pool: &Pool<M>, own: usize, segment: &mut Segment, lines: u64) {
    let slot = &pool.lanes[own];
    let shared = &slot.shared;
    let ring = slot.ring.lines;
    let installed = shared.installed.load(Ordering::Relaxed);
    let tail = shared.tail.load(Ordering::Acquire);
    // Others may have covered more meanwhile, and the floor may have passed it.
    let flushed = shared.flushed.load(Ordering::Relaxed).max(tail);
    if flushed >= segment.end && (installed - flushed) * 2 >= ring {
        segment.end = flushed + (ring / 2).max(1).min(installed - flushed);
    }
    if flushed < segment.end {
        let goal = segment.end.min(flushed + lines * PACE);
        let position = cover(pool, slot, &mut segment.batch, flushed, goal, installed);
        shared.flushed.store(position, Ordering::Relaxed);
        if pool.io().plants(Plant::CoveredUnfenced) {
            shared.fenced.store(position, Ordering::Release);
        }
    } else if flushed > tail {
        super::try_sweep(pool, own);
    }
}

/// Flushes what a lane's records from `position` to `goal` have stored to, or a little more: whole
/// records. Returns the position behind the last of them.
fn cover<M: Medium>(
    pool: &Pool<M>,
    lane: &LaneSlot,
    batch: &mut Batch,
    mut position: u64,
    goal: u64,
    installed: u64,
) -> u64 {
    let io = pool.io();
    while position < goal {
        let line = position % lane.ring.lines;
        let head = installed_record(pool, lane, line);
        if head.kind == RecordKind::Wrap {
            position += lane.ring.lines - line;
            continue;
        }
        position += head.lines;
        let mut first = true;
        for_each_target(pool, lane, line, |range| {
            if !(std::mem::take(&mut first) && io.plants(Plant::LineForgotten)) {
                for line in range.lines() {
                    batch.add(io, Site::SegmentData, line, position, installed);
                }
            }
        });
    }
    batch.flush(io, Site::SegmentData);
    position
}

/// The number of the record at `position` of a lane, where it has one in place.
pub(super) fn number_at<M: Medium>(pool: &Pool<M>, lane: &LaneSlot, position: u64) -> Option<Seq> {
    let installed = lane.shared.installed.load(Ordering::Acquire);
    (position < installed).then(|| installed_record(pool, lane, position % lane.ring.lines).seq)
}
