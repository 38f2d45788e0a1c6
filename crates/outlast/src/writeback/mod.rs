//! Write-back: when data that the log covers becomes durable, and when the log's lines are free.
//!
//! Redo stores in place after its record is durable. Commits do not wait for those stores: plain redo
//! starts their write-back at once, and the lane's next fence finds it done. Else they are left to
//! the cache and flushed later, by the lane itself, between its commits ([`deferred`]): by age when they
//! have probably left it, by segment when their part of the log is to be used again. The log's lines come free when the *floor* passes their record: one durable
//! number for all lanes, because of a case that a floor per lane gets wrong. T1 on lane A and then
//! T2 on lane B write X; B's data is durable and B forgets T2; recovery would find T1 on A and put
//! its old value over T2's.
//!
//! * **SWEEP-1** The floor moves to `f` only when every record below `f`, in all lanes, is in place
//!   and its lines are durable. A lane's own flushes count when its own thread has fenced them;
//!   therefore a lane fences before another thread can have it.
//! * **SWEEP-2** Nothing is stored over a record before the floor above it is durable.
//! * **SWEEP-3** A lane's tail moves after the floor, and its lines are used again after the tail is
//!   durable: recovery never starts to read in the middle of newer records.
//! * **SWEEP-4** The clock is read *before* the lanes' bounds: a commit that draws its number later
//!   has a number above that reading; one that drew it earlier shows its bound until its data is
//!   in place.

mod age;
mod deferred;
mod history;
mod installed;
mod plan;

pub(crate) use deferred::{Deferred, STEP_LINES_MAX, step as step_deferred};
pub(crate) use history::Access;
#[cfg(feature = "lab")]
pub(crate) use history::{LruQueue, Sample};
pub(crate) use plan::Plan;

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use outlast_pmem::Medium;
use outlast_trace::ByteRange;

use crate::barrier::before_flushes_of_others;
use crate::checksums::Updater;
use crate::events::event;
use crate::io::Site;
use crate::layout::{FLOOR_AT, Geometry, LANE_SEEN, LANE_TAIL};
use crate::log::record::{Head, Peeked};
use crate::log::{self, Place, RecordKind};
use crate::plant::Plant;
use crate::pool::{LaneShared, LaneSlot, LaneState, Pool, first_not_installed};
use crate::scheme::under;
use crate::sealed::seal_at;
use crate::seq::Seq;
use deferred::Batch;

/// The state of the thread that moves the floor.
#[derive(Default)]
pub(crate) struct Sweeper {
    /// Only where the pool keeps checksums.
    updater: Option<Updater>,
    #[cfg(feature = "lab")]
    pub published: Option<crate::scheme::published::Unit>,
    /// Lines that lanes have not flushed themselves, and the sweep that flushed them.
    batch: Batch,
    sweeps: u64,
}

impl Sweeper {
    pub fn new(geometry: &Geometry) -> Self {
        let has_sums = geometry.checksums && !geometry.literal;
        let updater = has_sums.then(|| Updater::new(*geometry));
        Self { updater, ..Self::default() }
    }

    /// SUMS-2: what commits have changed is added to the checksums, whose lines are flushed. Their
    /// fence is the caller's.
    fn keep_sums<M: Medium>(&mut self, pool: &Pool<M>) {
        if let Some(updater) = &mut self.updater {
            let changes = &pool.checkpointer.changes;
            updater.add_up(pool.io_of_sweep(), &pool.lanes, |line| changes.mark(line.start()));
        }
    }

    /// The same if the floor cannot pass to `limit` without.
    fn keep_sums_below<M: Medium>(&mut self, pool: &Pool<M>, limit: u64) {
        if self.updater.is_some() && Updater::lags(&pool.medium, &pool.lanes, limit) {
            self.keep_sums(pool);
        }
    }
}

/// Brings checksums up to date with everything installed, where the pool keeps some.
pub(crate) fn bring_sums_up<M: Medium>(pool: &Pool<M>) {
    if pool.matrices.is_some() {
        let mut sweeper = pool.sweeper.lock(&pool.medium);
        sweeper.keep_sums(pool);
        // The next sweeper cannot fence what this thread has flushed.
        pool.io_of_sweep().fence(Site::AgedOut);
    }
}

/// The last-level cache of this machine, as far as it tells.
pub(crate) fn cache_bytes() -> u64 {
    const UNKNOWN: u64 = 32 << 20;
    outlast_pmem::last_level_cache_bytes().unwrap_or(UNKNOWN)
}

/// How far a sweep goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// As far as the floor can move now.
    All,
    /// Until this many lines of the own ring are free, if that is known.
    Lines(u64),
    /// As `All`, unless the floor has passed this number already.
    Past(Seq),
    /// As far as lanes have flushed by themselves, if that frees everything the own one has.
    Flushed,
}

/// SUMS-2: brings checksums up to date, unless another lane is at it.
pub(crate) fn step_sums<M: Medium>(pool: &Pool<M>) {
    if let Some(mut sweeper) = pool.sweeper.try_lock() {
        sweeper.keep_sums(pool);
        pool.io_of_sweep().fence(Site::AgedOut);
    }
}

/// Moves the floor and frees the log lines and blocks below it. `own` is the lane of the calling
/// thread, whose flushes this thread's fence completes.
pub(crate) fn sweep<M: Medium>(pool: &Pool<M>, own: usize, reach: Reach) {
    let mut sweeper = pool.sweeper.lock(&pool.medium);
    if matches!(reach, Reach::Past(seq) if pool.floor() > seq) {
        // The sweep before has done it.
        return;
    }
    sweep_with(pool, &mut sweeper, own, reach);
}

/// As [`sweep`], as far as lanes have flushed by themselves, unless another lane sweeps.
fn try_sweep<M: Medium>(pool: &Pool<M>, own: usize) {
    if let Some(mut sweeper) = pool.sweeper.try_lock() {
        sweep_with(pool, &mut sweeper, own, Reach::Flushed);
    }
}

fn sweep_with<M: Medium>(pool: &Pool<M>, sweeper: &mut Sweeper, own: usize, reach: Reach) {
    let began = (!M::OBSERVED).then(Instant::now);
    if move_floor(pool, sweeper, own, reach) {
        let took = began.map_or(Duration::ZERO, |began| began.elapsed());
        pool.counts.swept(took);
        event!(DEBUG, "swept", lane = own as u64, micros = took.as_micros() as u64);
    }
}

/// One sweep. `false` where there was nothing to do.
fn move_floor<M: Medium>(pool: &Pool<M>, sweeper: &mut Sweeper, own: usize, reach: Reach) -> bool {
    let io = pool.io_of_sweep();
    // No record has the last counter, which the clock passes when numbers are used up.
    let mut limit = not_installed(pool).min(Seq::COUNTER_MAX);
    before_flushes_of_others();
    let swept = under!(pool.scheme(), D => D::flush_below(pool, sweeper, own, reach, &mut limit));
    let Some(mut swept) = swept else { return false };
    // A lane may show a bound from before the last sweep. It will draw a number above the floor all
    // the same, and what is dead stays so: a lane's tail may still stand before it.
    let mut floor = pool.seq(limit).max(pool.floor());
    if io.plants(Plant::RecycleByOwnLane) {
        for (id, lane) in pool.lanes.iter().enumerate().filter(|(id, _)| *id != own) {
            swept[id] = lane.shared.swept.load(Ordering::Relaxed);
        }
        floor = pool.seq(1);
    }
    // SWEEP-1: own flushes and those of the walk.
    io.fence(Site::SweepData);
    if let Some(LaneSlot { shared, .. }) = pool.lanes.get(own) {
        let flushed = shared.flushed.load(Ordering::Relaxed).max(swept[own]);
        shared.flushed.store(flushed, Ordering::Relaxed);
        shared.fenced.store(flushed, Ordering::Release);
    }

    let move_tails = || {
        for (id, (lane, swept)) in pool.lanes.iter().zip(&swept).enumerate() {
            lane.shared.swept.store(*swept, Ordering::Relaxed);
            if lane.shared.tail.load(Ordering::Relaxed) != *swept {
                let at = pool.header().geometry.lane_at(id);
                let (tail_at, seen_at) = (at.plus(LANE_TAIL), at.plus(LANE_SEEN));
                let tail = log::tail_at(lane.place(*swept));
                pool.medium.store_u64(tail_at, seal_at(tail, tail_at));
                pool.medium.store_u64(seen_at, seal_at(floor.bits(), seen_at));
                io.flush(Site::Tail, tail_at, 8);
            }
        }
        io.fence(Site::Tail);
    };
    if io.plants(Plant::TailBeforeFloor) {
        move_tails();
    }
    pool.medium.store_u64(FLOOR_AT, seal_at(floor.bits(), FLOOR_AT));
    io.flush(Site::Floor, FLOOR_AT, 8);
    io.fence(Site::Floor);
    // SWEEP-3.
    if !io.plants(Plant::TailBeforeFloor) {
        move_tails();
    }
    if !pool.medium.is_usable() {
        // None of this is durable. Transactions under way go on in memory until their commits say so.
        for (lane, swept) in pool.lanes.iter().zip(&swept) {
            lane.shared.free_to(*swept);
        }
        return true;
    }
    // SWEEP-2: only now are lines below the tails and blocks freed below the floor every lane's.
    for (lane, swept) in pool.lanes.iter().zip(&swept) {
        lane.shared.free_to(*swept);
    }
    pool.floor_raised(floor);
    pool.heap.lock(&pool.medium).floor_raised(floor);
    true
}

/// As a scheme's own ([`Discipline::flush_below`](crate::scheme::Discipline)): by what lanes cover, and by
/// walks over their records.
pub(crate) fn flush_below<M: Medium>(
    pool: &Pool<M>,
    sweeper: &mut Sweeper,
    own: usize,
    reach: Reach,
    limit: &mut u64,
) -> Option<Vec<u64>> {
    if pool.facts.covers {
        *limit = covered_limit(pool, own, reach, *limit)?;
        sweeper.keep_sums_below(pool, *limit);
    }
    sweeper.sweeps += 1;
    let floor = pool.seq(*limit);
    let lanes = pool.lanes.iter().enumerate();
    Some(lanes.map(|(id, lane)| walk(pool, sweeper, lane, floor, id == own)).collect())
}

/// SWEEP-4: the smallest counter whose record may not be in place yet.
fn not_installed<M: Medium>(pool: &Pool<M>) -> u64 {
    if pool.io().plants(Plant::SweepIgnoresInFlight) {
        return pool.newest() + 1;
    }
    let full_fence = || fence(Ordering::SeqCst);
    first_not_installed(&*pool.clock, pool.lanes.iter().map(|lane| &*lane.shared), full_fence)
}

/// By age, by segment: the limit that frees what the own lane has flushed, where that is anything and
/// enough. `None` when there is nothing to do.
fn covered_limit<M: Medium>(pool: &Pool<M>, own: usize, reach: Reach, limit: u64) -> Option<u64> {
    let number_behind = |lane: &LaneSlot, own: bool| {
        deferred::number_at(pool, lane, lane.shared.covered(own))
            .map_or(limit, Seq::counter)
            .min(limit)
    };
    let own_limit = || number_behind(&pool.lanes[own], true);
    match reach {
        Reach::All | Reach::Past(_) => Some(limit),
        Reach::Lines(_) => {
            let own_limit = own_limit();
            Some(if pool.seq(own_limit) > pool.floor() { own_limit } else { limit })
        }
        Reach::Flushed => {
            let own_limit = own_limit();
            let others = pool.lanes.iter().enumerate().filter(|(id, _)| *id != own);
            let all = others.map(|(_, lane)| number_behind(lane, false)).fold(limit, u64::min);
            (all >= own_limit && pool.seq(own_limit) > pool.floor()).then_some(own_limit)
        }
    }
}

/// Passes over a lane's records below the floor, starting the write-back of lines that its own
/// thread has not flushed, or not fenced as far as others know. Returns the position behind the
/// last of them, or an earlier one where that takes no walk.
fn walk<M: Medium>(
    pool: &Pool<M>,
    sweeper: &mut Sweeper,
    lane: &LaneSlot,
    floor: Seq,
    own: bool,
) -> u64 {
    let io = pool.io_of_sweep();
    let (end, last) = lane.shared.installed_and_last();
    let last = pool.seq(last);
    let covered = lane.shared.covered(own || io.plants(Plant::SweepTrustsOtherFence));
    // The usual cases need no look at each record.
    let mut position = if covered == end && last < floor {
        return end;
    } else if deferred::number_at(pool, lane, covered).is_some_and(|number| number <= floor) {
        covered
    } else if own || !pool.facts.covers {
        lane.shared.swept.load(Ordering::Relaxed)
    } else {
        // Everything below the floor is covered. That lane's own sweep will find out how far.
        return lane.shared.swept.load(Ordering::Relaxed);
    };
    let sweep = sweeper.sweeps;
    while position < end {
        let place = lane.place(position);
        let head = place.head(&pool.medium);
        if head.seq >= floor {
            break;
        }
        if position >= covered && (own || !io.plants(Plant::FloorPassesPending)) {
            // Whatever has a number below the floor was in place before this sweep began.
            for_each_target(pool, place, &head, |range| {
                for line in range.lines() {
                    sweeper.batch.add(io, line, sweep, sweep);
                }
            });
        }
        position += match head.kind {
            RecordKind::Wrap => lane.ring.lines - place.line,
            _ => head.lines,
        };
    }
    sweeper.batch.flush(io, Site::SweepData);
    position
}

/// Every range that a lane's installed records from one position to another put in place.
fn for_each_installed<M: Medium>(
    pool: &Pool<M>,
    lane: &LaneSlot,
    mut position: u64,
    to: u64,
    mut visit: impl FnMut(ByteRange),
) {
    while position < to {
        let place = lane.place(position);
        let head = place.head(&pool.medium);
        position += match head.kind {
            RecordKind::Wrap => lane.ring.lines - place.line,
            _ => head.lines,
        };
        for_each_target(pool, place, &head, &mut visit);
    }
}

/// Every range that an installed record says to be in place.
fn for_each_target<M: Medium>(
    pool: &Pool<M>,
    place: Place,
    head: &Head,
    mut visit: impl FnMut(ByteRange),
) {
    let medium = &pool.medium;
    if matches!(head.kind, RecordKind::Wrap | RecordKind::Before | RecordKind::BeforeElsewhere) {
        // The record behind the old words names the lines in place.
        return;
    }
    if head.kind != RecordKind::Detached {
        return place.for_each_target(medium, head, 0, visit);
    }
    // In a pool whose directory is damaged a region may lie over what others store to.
    let named = log::named_region(&place.first_words(medium), medium.len());
    let Some(region) = named else { return };
    let place = Place::sealed(region, 0);
    let Peeked::Head(head) = place.peek_if(pool.io(), &|_| true) else { return };
    if head.lines > region.lines {
        return;
    }
    let skip = usize::from(head.kind == RecordKind::RedoFinal);
    place.for_each_target(medium, &head, skip, |range| {
        if range.end().0 <= medium.len() {
            visit(range);
        }
    });
}

/// Waits until the lane has room for `lines` lines in one piece of its ring, from the head of its
/// log, or from the ring's start if there are fewer up to its end.
#[inline(always)]
pub(crate) fn reserve_lines<M: Medium>(
    pool: &Pool<M>,
    slot: &LaneSlot,
    lane: &mut LaneState,
    lines: u64,
) {
    let ring = slot.ring.lines;
    debug_assert!(lines <= slot.lines() / 2, "longer records go elsewhere");
    let needed = lane.log.lines_needed(slot, lines);
    let tail = slot.shared.tail.load(Ordering::Acquire);
    if ring - (lane.log.head - tail) < needed && !pool.io().plants(Plant::RingOverwritesLive) {
        make_room(pool, lane, lines);
    }
}

/// Makes the ring longer, or sweeps, until there is room for `lines` lines behind the head of the lane's ring.
#[cold]
fn make_room<M: Medium>(pool: &Pool<M>, lane: &mut LaneState, lines: u64) {
    let (own, slot) = (lane.id, &pool.lanes[lane.id]);
    let ring = slot.ring.lines;
    let mut tries = 0;
    let mut reach = None;
    let mut is_longer = slot.lines() == ring;
    loop {
        let (tail, head) = (slot.shared.tail.load(Ordering::Acquire), lane.log.head);
        let needed = lane.log.lines_needed(slot, lines);
        if ring - (head - tail) >= needed {
            return;
        }
        let mut lengthen = |lane: &mut LaneState, tail| {
            let is_of_use = !is_longer && lane.log.is_in_lap_of(slot, tail);
            is_longer |= is_of_use;
            is_of_use && pool.lengthen_ring(lane, lines)
        };
        if lengthen(lane, tail) {
            continue;
        }
        sweep(pool, own, reach.unwrap_or(Reach::Lines((ring / 4).max(needed))));
        reach = Some(Reach::All);
        // For later records: the lap that goes round the short ring is over.
        lengthen(lane, slot.shared.tail.load(Ordering::Acquire));
        if slot.shared.tail.load(Ordering::Acquire) == tail {
            // Another lane's commit is under way below; it does not wait for us.
            crate::spin::wait(&pool.medium, &mut tries);
        }
    }
}

/// Shows the sweeper that a commit is about to draw its number (SWEEP-4).
#[inline]
pub(crate) fn enter_commit<M: Medium>(pool: &Pool<M>, shared: &LaneShared) {
    shared.enter(&pool.clock);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::{CreateOptions, OpenOptions};
    use crate::{BlockKind, Runner, Scheme, Transact};
    use outlast_pmem::Heap;

    /// A lane that was interrupted between reading the clock and showing its bound shows an old
    /// one. Records that were dead must not come back to life by it.
    #[test]
    fn the_floor_never_falls() {
        for scheme in [Scheme::Redo, Scheme::UndoArchapt, Scheme::RedoArchapt, Scheme::Swift] {
            let create = CreateOptions { lanes: 2, lane_bytes: 4096, ..CreateOptions::default() };
            let open = OpenOptions { lock_stripes: 64, ..OpenOptions::with_scheme(scheme) };
            let pool = Pool::create_on(Heap::new(1 << 20), &create, &open).unwrap();
            let mut lane = pool.lane().unwrap();
            let block = lane.run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
            for value in 0..5 {
                lane.run(|tx| tx.store_u64(block, value)).unwrap();
            }
            sweep(&pool, 0, Reach::All);
            let raised = pool.medium.load_u64(FLOOR_AT);
            assert_eq!(raised, seal_at(pool.seq(pool.newest() + 1).bits(), FLOOR_AT));
            pool.lanes[1].shared.bound.store(1, Ordering::SeqCst);
            sweep(&pool, 0, Reach::All);
            assert_eq!(pool.medium.load_u64(FLOOR_AT), raised, "{scheme}");
        }
    }
}
