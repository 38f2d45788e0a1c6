//! Write-back: when data that the log covers becomes durable, and when the log's lines are free.
//!
//! Redo stores in place after its record is durable and starts the write-back of those lines at
//! once, without waiting. The lane's next fence finds it done. The log's lines come free when
//! the *floor* passes their record: one durable number for all lanes, because of a case that a
//! floor per lane gets wrong. T1 on lane A and then T2 on lane B write X; B's data is durable
//! and B forgets T2; recovery would find T1 on A and put its old value over T2's.
//!
//! * **W1** The floor moves to `f` only when every record below `f`, in all lanes, is in place
//!   and its lines are durable. A lane's own flushes count when its own thread has fenced them;
//!   therefore a lane fences before another thread can have it.
//! * **W2** Nothing is stored over a record before the floor above it is durable.
//! * **W3** A lane's tail moves after the floor, and its lines are used again after the tail is
//!   durable: recovery never starts to read in the middle of newer records.
//! * **W4** The clock is read *before* the lanes' bounds: a commit that draws its number later
//!   has a number above that reading; one that drew it earlier shows its bound until its data is
//!   in place.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::ByteRange;

use crate::io::Site;
use crate::layout::{FLOOR_AT, LANE_TAIL};
use crate::log::{self, Item, RecordKind};
use crate::plant::Plant;
use crate::pool::{LaneShared, LaneSlot, Pool};
use crate::sealed::seal;
use crate::seq::Seq;

/// Moves the floor as far as it goes and frees the log lines and blocks below it. `own` is the
/// lane of the calling thread, whose flushes this thread's fence completes.
pub(crate) fn sweep<M: Medium>(pool: &Pool<M>, own: usize) {
    let _sweeping = pool.sweep.lock(&pool.medium);
    let io = pool.io();
    // No record has the last counter, which the clock passes when numbers are used up.
    let mut floor = pool.seq(first_not_installed(pool).min(Seq::COUNTER_MAX));

    let mut swept = Vec::with_capacity(pool.lanes.len());
    for (id, lane) in pool.lanes.iter().enumerate() {
        swept.push(walk(pool, lane, floor, id == own));
    }
    if io.plants(Plant::RecycleByOwnLane) {
        for (id, lane) in pool.lanes.iter().enumerate().filter(|(id, _)| *id != own) {
            swept[id] = lane.shared.swept.load(Ordering::Relaxed);
        }
        floor = pool.seq(1);
    }
    // W1: own flushes and those of the walk.
    io.fence(Site::SweepData);

    let move_tails = || {
        for (id, (lane, swept)) in pool.lanes.iter().zip(&swept).enumerate() {
            lane.shared.swept.store(*swept, Ordering::Relaxed);
            if lane.shared.tail.load(Ordering::Relaxed) != *swept {
                let at = pool.header().geometry.lane_at(id).plus(LANE_TAIL);
                pool.medium.store_u64(at, seal(swept % lane.ring.lines));
                io.flush(Site::Tail, at, 8);
            }
        }
        io.fence(Site::Tail);
    };
    if io.plants(Plant::TailBeforeFloor) {
        move_tails();
    }
    pool.medium.store_u64(FLOOR_AT, seal(floor.bits()));
    io.flush(Site::Floor, FLOOR_AT, 8);
    io.fence(Site::Floor);
    // W3.
    if !io.plants(Plant::TailBeforeFloor) {
        move_tails();
    }
    // W2: only now are lines below the tails and blocks freed below the floor anybody's.
    for (lane, swept) in pool.lanes.iter().zip(&swept) {
        lane.shared.tail.store(*swept, Ordering::Release);
    }
    pool.heap.lock(&pool.medium).floor_raised(floor);
}

/// W4: the smallest counter whose record may not be in place yet.
fn first_not_installed<M: Medium>(pool: &Pool<M>) -> u64 {
    let clock = pool.clock.load(Ordering::SeqCst);
    if pool.io().plants(Plant::SweepIgnoresInFlight) {
        return clock + 1;
    }
    let bounds = pool.lanes.iter().map(|lane| lane.shared.bound.load(Ordering::SeqCst));
    bounds.fold(clock, u64::min) + 1
}

/// Passes over a lane's records below the floor, starting the write-back of lines that only the
/// lane itself has flushed so far. Returns the position behind the last of them.
fn walk<M: Medium>(pool: &Pool<M>, lane: &LaneSlot, floor: Seq, own: bool) -> u64 {
    let io = pool.io();
    let end = lane.shared.installed.load(Ordering::Acquire);
    let fenced = pool.seq(lane.shared.fenced.load(Ordering::Acquire));
    let last = pool.seq(lane.shared.last_installed.load(Ordering::Acquire));
    if last < floor && (own || last <= fenced) {
        // The usual case needs no look at each record.
        return end;
    }
    let mut position = lane.shared.swept.load(Ordering::Relaxed);
    let mut payload = Vec::new();
    while position < end {
        let line = position % lane.ring.lines;
        let Some(head) = log::record::peek(&pool.medium, lane.ring, line) else {
            unreachable!("an installed record is complete")
        };
        if head.seq >= floor {
            break;
        }
        position += match head.kind {
            RecordKind::Wrap => lane.ring.lines - line,
            _ => head.lines,
        };
        if !own && head.seq > fenced && !io.plants(Plant::SweepTrustsOtherFence) {
            flush_targets(pool, lane, line, head.seq, &mut payload);
        }
    }
    position
}

/// Starts the write-back of every line that a record put in place.
fn flush_targets<M: Medium>(
    pool: &Pool<M>,
    lane: &LaneSlot,
    line: u64,
    seq: Seq,
    payload: &mut Vec<u64>,
) {
    let medium = &pool.medium;
    let kind = match log::record::read(pool.io(), lane.ring, line, |s| s == seq, payload) {
        log::record::Found::Record { kind: RecordKind::Detached, .. } => {
            let region = log::named_region(payload, medium.len()).expect("we wrote it");
            match log::record::read(pool.io(), region, 0, |s| s == seq, payload) {
                log::record::Found::Record { kind, .. } => kind,
                found => unreachable!("an installed record is complete: {found:?}"),
            }
        }
        log::record::Found::Record { kind, .. } => kind,
        found => unreachable!("an installed record is complete: {found:?}"),
    };
    let skip = usize::from(kind == RecordKind::RedoFinal);
    for item in log::items(&payload[skip.min(payload.len())..]) {
        let range = match item.expect("we wrote it") {
            Item::Words { at, words } => ByteRange::new(at, words.len() as u64 * 8),
            Item::SetBit { at, .. } | Item::ClearBit { at, .. } => ByteRange::new(at, 8),
        };
        pool.io().flush(Site::SweepData, range.at, range.len);
    }
}

/// Waits until the lane has room for `lines` lines in one piece of its ring. Returns the line
/// where they start, and whether the ring wraps there, from the lane's `head`.
pub(crate) fn reserve_lines<M: Medium>(
    pool: &Pool<M>,
    own: usize,
    head: u64,
    lines: u64,
) -> RingSpace {
    let slot = &pool.lanes[own];
    let ring = slot.ring.lines;
    debug_assert!(lines <= ring / 2, "longer records go elsewhere");
    let line = head % ring;
    let to_end = ring - line;
    let wraps = to_end < lines;
    let needed = if wraps { to_end + lines } else { lines };
    let mut tries = 0;
    loop {
        let tail = slot.shared.tail.load(Ordering::Acquire);
        if ring - (head - tail) >= needed || pool.io().plants(Plant::RingOverwritesLive) {
            break;
        }
        sweep(pool, own);
        if slot.shared.tail.load(Ordering::Acquire) == tail {
            // Another lane's commit is under way below; it does not wait for us.
            crate::spin::wait(&pool.medium, &mut tries);
        }
    }
    RingSpace { line: if wraps { 0 } else { line }, wrap_at: (wraps && to_end > 0).then_some(line) }
}

/// Where a record goes in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingSpace {
    /// The record's first line.
    pub line: u64,
    /// The line that takes a `Wrap` before it.
    pub wrap_at: Option<u64>,
}

/// Shows the sweeper that a commit is about to draw its number (W4).
pub(crate) fn enter_commit<M: Medium>(pool: &Pool<M>, shared: &LaneShared) {
    shared.bound.store(pool.clock.load(Ordering::SeqCst), Ordering::SeqCst);
}
