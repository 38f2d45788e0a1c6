//! The history unit: an estimate of what is in the cache, and what is still to be flushed.
//!
//! It keeps lines that transactions touched in an [LRU queue](queue) with the capacity of the
//! last-level cache. Lines that a commit stored to are *pending*, in [`ObjHT`](objht), since the
//! first such commit that no flush covers. When the last access of a pending line has left the
//! queue, the line has probably left the cache too. It is flushed at that moment, which then costs
//! next to nothing; if the estimate was wrong, it costs a flush. Nothing is believed: only fenced
//! flushes move the floor.
//!
//! Where looking at every line read would cost more than the flushes it can save, only a *sample*
//! of memory goes through the queue, in one part of it for as many parts of the capacity: which
//! of its accesses have left the queue tells the age of all others.
//!
//! * **P1** What lines a commit stored to is read from its record in the log, by whoever steps
//!   the unit; lanes only leave hints about what they read. A record counts as *drained* after
//!   that. The log is the durable list of what is pending, and nothing can be lost between a lane
//!   and the unit.
//! * **P2** A line is clean when it was flushed after every drained record that names it was
//!   installed, and that flush was fenced. Its flush comes after the drain, by the same thread,
//!   under the unit's lock; a commit that installs in between is drained later and makes it
//!   pending again.
//! * **P3** The floor moves to `f` only when every record below `f` is drained and no line is
//!   pending since a commit below `f`.

mod objht;
mod queue;

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::{LINE_BYTES, LineAddr, PoolOffset};

use crate::checksums::Keeper;
use crate::io::{Io, Site};
use crate::log::RecordKind;
use crate::plant::Plant;
use crate::pool::Pool;
use objht::ObjHt;
use queue::LruQueue;

/// Writes that are looked up together, so that their look-ups wait for memory together.
const WRITES_AT_ONCE: usize = 64;

/// How far ahead of the object under work others are fetched.
const OBJECTS_AHEAD: usize = 12;

/// With this many entries for each pending object, those that count for nothing are dropped.
const ENTRIES_PER_OBJECT_MAX: usize = 4;

/// A ring's drained records are remembered in at least so many parts.
const PARTS_PER_RING: u64 = 16;

/// A range of lines that a transaction read: the first, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access(u64);

impl Access {
    const COUNT_BITS: u32 = 8;

    #[inline]
    pub fn new(first: LineAddr, lines: u64) -> Self {
        Self(first.0 << Self::COUNT_BITS | lines.min((1 << Self::COUNT_BITS) - 1))
    }

    fn lines(self) -> impl Iterator<Item = LineAddr> {
        let first = self.0 >> Self::COUNT_BITS;
        (first..first + (self.0 & ((1 << Self::COUNT_BITS) - 1))).map(LineAddr)
    }
}

/// Which lines the queue sees: all, or those of one in so many regions of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// So many bits of a region's hash must be zero.
    bits: u32,
}

impl Sample {
    /// Bytes of a region, as a shift: a page.
    const REGION_SHIFT: u32 = 12;

    /// One in `1 << bits`.
    pub fn one_in_two_to_the(bits: u32) -> Self {
        Self { bits: bits.min(32) }
    }

    /// Whether the region of this offset is in the sample.
    #[inline]
    pub fn has(self, at: PoolOffset) -> bool {
        let hash = (at.0 >> Self::REGION_SHIFT).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // A shift by all bits is none of them: then every region is in it.
        hash.checked_shr(u64::BITS - self.bits).unwrap_or(0) == 0
    }
}

/// Neighbouring lines that are looked after together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Object(u64);

impl Object {
    /// Lines of an object, as a shift: most of what a transaction stores to in one place.
    const LINES_SHIFT: u32 = 2;

    fn of(line: LineAddr) -> (Self, u8) {
        (Self(line.0 >> Self::LINES_SHIFT), 1 << (line.0 & ((1 << Self::LINES_SHIFT) - 1)))
    }

    fn lines(self, mask: u8) -> impl Iterator<Item = LineAddr> {
        let first = self.0 << Self::LINES_SHIFT;
        (0..1 << Self::LINES_SHIFT)
            .filter(move |i| mask >> i & 1 == 1)
            .map(move |i| LineAddr(first + i))
    }
}

/// What is known of a pending object.
#[derive(Clone, Copy, Default)]
struct Pending {
    /// The first commit that stored to it since it was last flushed.
    since: u64,
    /// When it was accessed last, as the queue counts.
    place: u64,
    /// Which of its lines were stored to.
    lines: u8,
    /// Which of those hold checksums.
    sums: u8,
}

impl Pending {
    fn flush<M: Medium>(&self, io: Io<'_, M>, object: Object, site: Site) {
        for line in object.lines(self.lines & !self.sums) {
            io.flush_line(site, line);
        }
        object.lines(self.sums).for_each(|line| io.flush_line(Site::Sums, line));
    }
}

/// A store to some lines of an object.
struct Write {
    object: Object,
    lines: u8,
    /// They hold checksums.
    is_sums: bool,
    /// The commit.
    counter: u64,
}

/// What the unit knows.
pub(crate) struct History {
    sample: Sample,
    queue: LruQueue,
    pending: ObjHt<Pending>,
    /// Accesses to pending objects, in order.
    ageing: VecDeque<(u64, Object)>,
    lanes: Vec<LaneHistory>,
    /// Writes whose objects are being fetched.
    expected: Vec<Write>,
    /// Only for a planted bug.
    since_last: bool,
}

/// How far the records of a lane have been looked at.
#[derive(Default)]
struct LaneHistory {
    /// Position behind the last drained record.
    drained: u64,
    /// Objects in the order in which this lane's commits made them pending, with those commits:
    /// by what they stored, and by what that changed in checksums. Both are drained for
    /// themselves, so that each is in order.
    pending: [VecDeque<(u64, Object)>; 2],
    /// Parts of the ring: the last commit in it, and the position behind.
    parts: VecDeque<(u64, u64)>,
    /// Position behind the last record below the floor.
    swept: u64,
}

impl History {
    pub fn new(cache_bytes: u64, sample: Sample, lanes: usize, plant: Option<Plant>) -> Self {
        let capacity = (cache_bytes / LINE_BYTES) >> sample.bits;
        Self {
            sample,
            queue: LruQueue::new(capacity.max(1) as usize),
            pending: ObjHt::default(),
            ageing: VecDeque::new(),
            lanes: (0..lanes).map(|_| LaneHistory::default()).collect(),
            expected: Vec::with_capacity(WRITES_AT_ONCE + 16),
            since_last: plant == Some(Plant::PendingSinceLast),
        }
    }

    /// Bytes of memory that the queue and `ObjHT` take.
    pub fn memory_bytes(&self) -> usize {
        let ageing = self.ageing.capacity() * size_of::<(u64, Object)>();
        self.queue.memory_bytes() + self.pending.memory_bytes() + ageing
    }

    /// Lines of the sample were read.
    pub fn touch(&mut self, accesses: &[Access]) {
        for line in accesses.iter().flat_map(|access| access.lines()) {
            let (object, _) = Object::of(line);
            if let Some(pending) = self.pending.get_mut(object.0)
                && pending.place != self.queue.now()
            {
                pending.place = self.queue.now();
                self.ageing.push_back((pending.place, object));
            }
            self.queue.touch(line);
        }
    }

    /// P1: looks at every record installed since the last time.
    pub fn drain<M: Medium>(&mut self, pool: &Pool<M>) {
        for id in 0..pool.lanes.len() {
            self.drain_lane(pool, id);
        }
    }

    fn drain_lane<M: Medium>(&mut self, pool: &Pool<M>, id: usize) {
        let lane = &pool.lanes[id];
        let end = lane.shared.installed.load(Ordering::Acquire);
        let part = (lane.ring.lines / PARTS_PER_RING).max(1);
        let mut position = self.lanes[id].drained;
        let mut part_end = position + part;
        let mut last = None;
        while position < end {
            let line = position % lane.ring.lines;
            let head = super::installed_record(pool, lane, line);
            if head.kind == RecordKind::Wrap {
                position += lane.ring.lines - line;
            } else {
                position += head.lines;
                let counter = head.seq.counter();
                last = Some(counter);
                // What stands in place is told by the record behind the old words.
                if !matches!(head.kind, RecordKind::Before | RecordKind::BeforeElsewhere) {
                    super::for_each_target(pool, lane, line, |range| {
                        range.lines().for_each(|line| self.expect_write(line, counter, false));
                    });
                    if self.expected.len() >= WRITES_AT_ONCE {
                        self.note_writes(id);
                    }
                }
            }
            if let Some(counter) = last.filter(|_| position >= part_end || position >= end) {
                self.lanes[id].parts.push_back((counter, position));
                part_end = position + part;
                last = None;
            }
        }
        self.note_writes(id);
        self.lanes[id].drained = position;
    }

    /// What commits changed is added to the checksums, whose lines are pending from there on (K2).
    pub fn keep_sums<M: Medium>(&mut self, pool: &Pool<M>, keeper: &mut Keeper) {
        for (id, lane) in pool.lanes.iter().enumerate() {
            keeper.taken.append(&mut lane.deltas.lock(&pool.medium));
            keeper.add_up(pool.io(), |line, counter| {
                pool.checkpointer.changes.mark(line.start());
                self.expect_write(line, counter, true);
                if self.expected.len() >= WRITES_AT_ONCE {
                    self.note_writes(id);
                }
            });
            self.note_writes(id);
        }
    }

    /// A commit stored to a line. What is known of it is fetched, and changed a little later.
    fn expect_write(&mut self, line: LineAddr, counter: u64, is_sums: bool) {
        let (object, mask) = Object::of(line);
        let same = |last: &&mut Write| {
            last.object == object && last.counter == counter && last.is_sums == is_sums
        };
        match self.expected.last_mut().filter(same) {
            Some(last) => last.lines |= mask,
            None => {
                self.pending.prefetch(object.0);
                self.expected.push(Write { object, lines: mask, is_sums, counter });
            }
        }
        if self.sample.has(line.start()) {
            self.queue.touch(line);
        }
    }

    fn note_writes(&mut self, lane: usize) {
        let mut expected = std::mem::take(&mut self.expected);
        for write in expected.drain(..) {
            self.note_write(lane, &write);
        }
        self.expected = expected;
    }

    fn note_write(&mut self, lane: usize, write: &Write) {
        let Write { object, lines, is_sums, counter } = *write;
        let place = self.queue.now();
        let pending = self.pending.entry(object.0);
        pending.lines |= lines;
        pending.sums |= if is_sums { lines } else { 0 };
        if pending.place != place {
            pending.place = place;
            self.ageing.push_back((place, object));
        }
        // Lanes are drained one after the other, so an older commit may come later.
        if pending.since == 0 || counter < pending.since || self.since_last {
            pending.since = counter;
            self.lanes[lane].pending[usize::from(is_sums)].push_back((counter, object));
        }
    }

    /// Flushes pending lines whose last access has left the queue. `true` when there is something
    /// to be fenced.
    pub fn age_out<M: Medium>(&mut self, io: Io<'_, M>) -> bool {
        let mut flushed = false;
        let horizon = self.queue.horizon();
        while let Some(&(place, object)) = self.ageing.front().filter(|(p, _)| *p < horizon) {
            self.ageing.pop_front();
            if let Some((_, ahead)) = self.ageing.get(OBJECTS_AHEAD) {
                self.pending.prefetch(ahead.0);
            }
            let aged = self.pending.take_if(object.0, |pending| pending.place == place);
            if let Some(pending) = aged.filter(|_| !io.plants(Plant::AgedOutUnflushed)) {
                pending.flush(io, object, Site::AgedOut);
                flushed = true;
            }
        }
        // Entries of objects that were accessed again count for nothing; where nothing ever leaves
        // the queue, nothing else would drop them.
        if self.ageing.len() >= ENTRIES_PER_OBJECT_MAX * self.pending.len().max(64) {
            let pending = &self.pending;
            let counts =
                |place, object: Object| pending.get(object.0).map(|p| p.place) == Some(place);
            self.ageing.retain(|(place, object)| counts(*place, *object));
        }
        flushed
    }

    /// Flushes every line that is pending since a commit below `limit`. Their fence is the
    /// caller's.
    pub fn flush_below<M: Medium>(&mut self, io: Io<'_, M>, own: usize, limit: u64) {
        for (id, lane) in self.lanes.iter_mut().enumerate() {
            if io.plants(Plant::FloorPassesPending) && id != own {
                continue;
            }
            for order in &mut lane.pending {
                while let Some(&(since, object)) = order.front().filter(|(c, _)| *c < limit) {
                    order.pop_front();
                    if let Some((_, ahead)) = order.get(OBJECTS_AHEAD) {
                        self.pending.prefetch(ahead.0);
                    }
                    if let Some(pending) = self.pending.take_if(object.0, |p| p.since == since) {
                        pending.flush(io, object, Site::SweepData);
                    }
                }
            }
        }
    }

    /// Forgets that a line is pending. Only a planted bug does.
    pub fn forget(&mut self, line: LineAddr) {
        self.pending.take_if(Object::of(line).0.0, |_| true);
    }

    /// The smallest limit below which at least so many lines of a lane's ring would come free.
    pub fn limit_for(&self, lane: usize, lines: u64) -> Option<u64> {
        let lane = &self.lanes[lane];
        lane.parts.iter().find(|(_, end)| end - lane.swept >= lines).map(|(last, _)| last + 1)
    }

    /// The floor is at `limit`: up to where each lane's records are below it.
    pub fn swept_below(&mut self, limit: u64) -> Vec<u64> {
        for lane in &mut self.lanes {
            while let Some((_, end)) = lane.parts.front().filter(|(last, _)| *last < limit) {
                lane.swept = *end;
                lane.parts.pop_front();
            }
        }
        self.lanes.iter().map(|lane| lane.swept).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_pmem::Heap;

    /// A commit stores to a line beside which checksums stand that an earlier commit has changed,
    /// and those are drained later.
    #[test]
    fn what_is_drained_later_does_not_hide_what_is_pending() {
        let medium = Heap::new(1 << 16);
        let io = Io::new(&medium, None);
        let mut history = History::new(1 << 30, Sample::one_in_two_to_the(0), 1, None);
        let (mixed, other) = (LineAddr(48), LineAddr(400));
        for (line, counter, is_sums) in [(mixed, 10, false), (other, 12, false), (mixed, 5, true)] {
            history.expect_write(line, counter, is_sums);
            history.note_writes(0);
        }
        history.flush_below(io, 0, 11);
        let is_pending = |line| history.pending.get(Object::of(line).0.0).is_some();
        assert!(!is_pending(mixed) && is_pending(other));
    }

    #[test]
    fn objects_written_again_and_again_leave_nothing_behind() {
        let medium = Heap::new(64);
        let io = Io::new(&medium, None);
        // Everything fits the queue, so nothing ever ages.
        let mut history = History::new(1 << 30, Sample::one_in_two_to_the(0), 1, None);
        for counter in 1..50_000 {
            history.expect_write(LineAddr(counter % 100), counter, false);
            history.note_writes(0);
            assert!(!history.age_out(io));
        }
        assert_eq!(history.pending.len(), 25);
        assert!(history.ageing.len() <= ENTRIES_PER_OBJECT_MAX * 64);
        assert!((0..25).all(|key| {
            let place = history.pending.get(key).map(|pending| pending.place);
            history.ageing.iter().any(|(at, object)| object.0 == key && Some(*at) == place)
        }));
    }
}
