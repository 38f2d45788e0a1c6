//! Write-back by log segment: data is left to the cache until the part of the log that covers it is
//! to be used again.
//!
//! A lane leaves the newer half of its ring alone. When commits have used some lines of the log, as
//! many old ones on the other side of that half are looked at, between two commits: what their
//! records stored to is gathered, and flushed at the next such step. Nobody waits for that: the
//! fence of the next commit is the one that counts, and the flushes are done by then. When a quarter
//! of the ring is covered the floor passes it. So every commit does its share, and none stops for
//! the others'. Only where the ring runs full before, since other lanes hold the floor back, a sweep
//! covers what is left, of all lanes.
//!
//! * **B1** A record is *covered* when every line that it stored to was flushed after it was in
//!   place, by its lane's thread, and that thread has fenced since. `flushed` runs ahead without
//!   the fence: only that thread itself may count on it, and only behind a fence.
//! * **B2** A line is left out when the lane has flushed it already, at a time when the record was
//!   in place. Whether it was is a comparison of positions in the log, never a guess; a line that
//!   was forgotten is flushed again. A thread fences before it gives the lane back, so that the
//!   next one need not know whose flush it was.
//! * **B3** What the lane's thread has not covered when the floor is to pass it, the sweep
//!   flushes itself (W1).

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::LineAddr;

use super::{for_each_target, installed_record};
use crate::io::{Io, Site};
use crate::log::RecordKind;
use crate::plant::Plant;
use crate::pool::{LaneSlot, Pool};
use crate::seq::Seq;

/// A lane does its share after so many log lines: a batch of flushes is hidden behind the next
/// transaction as long as it is small.
pub(crate) const SEGMENT_STEP_LINES_MAX: usize = 8;

/// Lines of which it is remembered when they were flushed.
const RECENT_MAX: usize = 1024;

/// How far a lane is with what its log covers.
#[derive(Default)]
pub(crate) struct Segment {
    /// Position behind the last record whose lines are in the batch, or flushed.
    gathered: u64,
    batch: Batch,
    installed: Installed,
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
    pub fn add<M: Medium>(&mut self, io: Io<'_, M>, line: LineAddr, since: u64, now: u64) {
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
    }

    /// Flushes what has gathered.
    pub fn flush<M: Medium>(&mut self, io: Io<'_, M>, site: Site) {
        for line in self.lines.drain(..) {
            io.flush_line(site, line);
        }
    }
}

/// A lane has used more of its log: does its share of covering what is old, and moves the floor when
/// that frees enough.
pub(crate) fn step<M: Medium>(pool: &Pool<M>, own: usize, segment: &mut Segment) {
    let io = pool.io();
    let slot = &pool.lanes[own];
    let shared = &slot.shared;
    let installed = shared.installed.load(Ordering::Relaxed);
    let tail = shared.tail.load(Ordering::Acquire);
    segment.batch.flush(io, Site::SegmentData);
    // A sweep may have covered more meanwhile, and the floor may have passed it.
    let flushed = shared.flushed.load(Ordering::Relaxed).max(tail).max(segment.gathered);
    shared.flushed.store(flushed, Ordering::Relaxed);
    if io.plants(Plant::CoveredUnfenced) {
        shared.fenced.store(flushed, Ordering::Release);
    }
    let goal = installed.saturating_sub(slot.ring.lines / 2);
    segment.gathered = segment.gather(pool, slot, flushed, goal, installed);
    if flushed - tail >= (slot.ring.lines / 4).max(1) {
        super::try_sweep(pool, own);
    }
}

/// What a lane's records have stored to that are not gathered yet: for each its head, then lines.
/// The log says the same; this is read faster.
#[derive(Default)]
struct Installed(VecDeque<u64>);

impl Installed {
    /// Set in the head of a record, which is else the position behind it.
    const HEAD: u64 = 1 << 63;
    /// Also set when its lines are not listed.
    const IN_LOG: u64 = 1 << 62;

    /// The next line of the record whose head was taken last.
    #[inline]
    fn next_line(&mut self) -> Option<LineAddr> {
        let line = *self.0.front().filter(|word| **word & Self::HEAD == 0)?;
        self.0.pop_front();
        Some(LineAddr(line))
    }
}

impl Segment {
    /// The record before position `end` is being made. The lines that it stores to follow, or are
    /// to be read from the log.
    #[inline]
    pub fn note_record(&mut self, end: u64, in_log: bool) {
        let in_log = if in_log { Installed::IN_LOG } else { 0 };
        self.installed.0.push_back(Installed::HEAD | in_log | end);
    }

    /// The record noted last stores to this line.
    #[inline]
    pub fn note_line(&mut self, line: LineAddr) {
        self.installed.0.push_back(line.0);
    }

    /// Gathers what the lane's records from `position` to `goal` have stored to: whole records,
    /// maybe a little more. Returns the position behind the last of them.
    fn gather<M: Medium>(
        &mut self,
        pool: &Pool<M>,
        lane: &LaneSlot,
        mut position: u64,
        goal: u64,
        installed: u64,
    ) -> u64 {
        let io = pool.io();
        while let Some(&head) = self.installed.0.front() {
            let end = head & !(Installed::HEAD | Installed::IN_LOG);
            // What ends before was covered by a sweep.
            if end > position && position >= goal {
                break;
            }
            self.installed.0.pop_front();
            let is_covered = end <= position;
            if !is_covered && head & Installed::IN_LOG != 0 {
                gather_from_log(pool, lane, &mut self.batch, position, end, installed);
            }
            let mut forgets = io.plants(Plant::LineForgotten);
            while let Some(line) = self.installed.next_line() {
                if !is_covered && !std::mem::take(&mut forgets) {
                    self.batch.add(io, line, end, installed);
                }
            }
            position = position.max(end);
        }
        position
    }
}

/// As [`Segment::gather`], for records of which only the log says what they stored to.
#[cold]
fn gather_from_log<M: Medium>(
    pool: &Pool<M>,
    lane: &LaneSlot,
    batch: &mut Batch,
    mut position: u64,
    end: u64,
    installed: u64,
) {
    let io = pool.io();
    while position < end {
        let line = position % lane.ring.lines;
        let head = installed_record(pool, lane, line);
        if head.kind == RecordKind::Wrap {
            position += lane.ring.lines - line;
            continue;
        }
        position += head.lines;
        for_each_target(pool, lane, line, &head, |range| {
            for line in range.lines() {
                batch.add(io, line, position, installed);
            }
        });
    }
}

/// The number of the record at `position` of a lane, where it has one in place.
pub(super) fn number_at<M: Medium>(pool: &Pool<M>, lane: &LaneSlot, position: u64) -> Option<Seq> {
    let installed = lane.shared.installed.load(Ordering::Acquire);
    (position < installed).then(|| installed_record(pool, lane, position % lane.ring.lines).seq)
}
