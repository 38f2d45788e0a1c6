//! The history unit: an estimate of what is in the cache, and what is still to be flushed.
//!
//! The log is the list of what is to be flushed: its records name every line that a commit stored
//! to. Three hands pass over it. The *first* takes records in soon after they were installed. The
//! *second*, by age, comes to a record when what was touched at the same time has left an
//! [LRU queue](queue) with the capacity of the last-level cache: a line that was not touched again
//! since has probably left the cache too, and is flushed at that moment, which then costs next to
//! nothing. If the estimate was wrong, it costs a flush. A line that was touched again is *left*,
//! since it is still in use. The *last* hand goes before the floor: it flushes what the second has
//! left, or has not come to because the log is too short. What is known of single lines is in
//! [`ObjHT`](objht), so that a line that many records name is flushed once for all of them. Nothing
//! is believed: only fenced flushes move the floor.
//!
//! Looking at every line touched would cost more than the flushes it can save. Therefore only a
//! *sample* of memory goes through the queue, in one part of it for as many parts of the capacity:
//! which of its accesses have left the queue tells the age of all others. And where the log is too
//! short for the second hand to come to anything, the first does not look at single lines.
//!
//! All of it goes in *steps*: everything that one step reads has that step's number.
//!
//! * **P1** What lines a commit stored to is read from its record in the log, by whoever steps
//!   the unit; lanes only leave hints about what they touched. A record counts as *drained* when
//!   it is part of the list that the hands pass over. The log is the durable list of what is
//!   pending, and nothing can be lost between a lane and the unit.
//! * **P2** A line is clean for a record when it was flushed in the step that drained the record,
//!   or a later one, and that flush was fenced. The step drains first; a commit that installs in
//!   between is drained by a later step. Nobody waits for what a step flushes: the lane's next
//!   commit fences it. Until it has, whoever moves the floor flushes these lines again, since one
//!   thread cannot fence what another one has flushed.
//! * **P3** The floor moves to `f` only when every record below `f` is drained and the second or
//!   the last hand has found each line that it names clean, or flushed it.

mod objht;
mod queue;

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::{LINE_BYTES, LineAddr, PoolOffset};

use crate::io::{Io, Site};
use crate::plant::Plant;
use crate::pool::{LaneSlot, Pool};
use objht::{Known, ObjHt, STEP_MAX};
pub(super) use queue::LruQueue;

/// Lines that are looked up together, so that their look-ups wait for memory together.
const LINES_AT_ONCE: usize = 64;

/// How far ahead of the line under work others are looked up.
const LINES_AHEAD: usize = 12;

/// So many eighths of a ring, the youngest, the last hand does not touch before the floor must
/// move. What stands behind them is flushed already when the ring is full.
const YOUNG_EIGHTHS: u64 = 5;

/// When the last hand has passed over so many times the lines of a ring and the second over
/// nothing, lines are no longer looked at before.
const UNAGED_RINGS: u64 = 2;

/// Ends of so many steps are remembered; of more, every second one is forgotten. Where nothing ever
/// leaves the queue, nothing else would drop them.
const ENDS_MAX: usize = 1 << 12;

/// A range of lines that a transaction touched: the first, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access(u64);

impl Access {
    const COUNT_BITS: u32 = 8;

    #[inline]
    pub fn new(first: LineAddr, lines: u64) -> Self {
        Self(first.0 << Self::COUNT_BITS | lines.min((1 << Self::COUNT_BITS) - 1))
    }

    /// The lines.
    pub fn lines(self) -> impl Iterator<Item = LineAddr> {
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

    /// The sample's part of so many.
    pub fn share_of(self, all: u64) -> u64 {
        all >> self.bits
    }

    /// Whether the region of this offset is in the sample.
    #[inline]
    pub fn has(self, at: PoolOffset) -> bool {
        let hash = (at.0 >> Self::REGION_SHIFT).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // A shift by all bits is none of them: then every region is in it.
        hash.checked_shr(u64::BITS - self.bits).unwrap_or(0) == 0
    }
}

/// What the unit knows.
pub(crate) struct History {
    queue: LruQueue,
    lines: ObjHt,
    /// The step under way, or the last one.
    step: u64,
    /// The step before the first that `lines` can name.
    step_base: u64,
    /// Steps from `aged_step` on, each with what the queue counted at its end. Not all of them: a
    /// step that is missing counts as the next one.
    ends: VecDeque<(u64, u64)>,
    /// Everything touched in steps before this one has left the queue.
    aged_step: u64,
    lanes: Vec<LaneHistory>,
    /// Log lines that the last hand has passed since the second found something to do.
    unaged: u64,
    /// Lines whose look-ups are under way.
    batch: Vec<LineAddr>,
    /// The lane that flushes and does not wait.
    flusher: Option<usize>,
    plant: Option<Plant>,
}

/// Records of a lane that one step has drained.
#[derive(Clone, Copy)]
struct Part {
    /// The position behind the last of them.
    end: u64,
    /// None of them has a smaller counter,
    first: u64,
    /// and none a greater one.
    last: u64,
    step: u64,
}

/// A line that is still to be flushed.
#[derive(Clone, Copy)]
struct Left {
    line: LineAddr,
    /// The floor does not pass this commit before.
    since: u64,
    /// It is clean if it was flushed in this step or later.
    step: u64,
}

/// How far the hands have come on a lane's log.
#[derive(Default)]
struct LaneHistory {
    /// Position behind the last drained record.
    drained: u64,
    /// No record behind that has a smaller counter.
    next_first: u64,
    /// Drained parts that are not below the floor.
    parts: VecDeque<Part>,
    /// So many of those the second hand has passed, up to this position.
    aged_parts: usize,
    aged: u64,
    /// What it left there, in order.
    left: VecDeque<Left>,
    /// Position behind the last record below the floor.
    swept: u64,
    /// What this lane's thread has flushed when its log stood at `unfenced_since` at the latest, and
    /// has fenced if it has fenced since.
    unfenced: Vec<LineAddr>,
    unfenced_since: u64,
}

impl History {
    /// A unit for rings of so many lines together.
    pub fn new(
        cache_bytes: u64,
        sample: Sample,
        lanes: usize,
        ring_lines: u64,
        plant: Option<Plant>,
    ) -> Self {
        let lines = (cache_bytes / LINE_BYTES).max(1);
        // What was last named by records that are gone is of no use; and a table that the caches near
        // the core hold forgets more and costs less.
        let remembered = lines.min(ring_lines);
        Self {
            queue: LruQueue::new((lines >> sample.bits).max(1) as usize),
            lines: ObjHt::new(remembered as usize),
            step: 0,
            step_base: 0,
            ends: VecDeque::new(),
            aged_step: 0,
            lanes: (0..lanes).map(|_| LaneHistory::default()).collect(),
            unaged: 0,
            batch: Vec::with_capacity(2 * LINES_AT_ONCE),
            flusher: None,
            plant,
        }
    }

    /// Bytes of memory that the queue, `ObjHT` and the lists of what is left take.
    pub fn memory_bytes(&self) -> usize {
        let lists = self.lanes.iter().map(|lane| {
            lane.left.capacity() * size_of::<Left>() + lane.parts.capacity() * size_of::<Part>()
        });
        self.queue.memory_bytes() + self.lines.memory_bytes() + lists.sum::<usize>()
    }

    /// Lines of the sample were touched.
    pub fn touch(&mut self, accesses: &[Access]) {
        let step = self.step - self.step_base;
        for line in accesses.iter().flat_map(|access| access.lines()) {
            self.lines.note(line, |known| known.accessed = step);
            self.queue.touch(line);
        }
    }

    /// P1: the next step looks at every record installed since the last one.
    pub fn drain<M: Medium>(&mut self, pool: &Pool<M>) {
        self.begin_step();
        for (id, lane) in pool.lanes.iter().enumerate() {
            self.drain_lane(pool, id, lane);
        }
    }

    fn begin_step(&mut self) {
        let now = self.queue.now();
        match self.ends.back_mut() {
            // Nothing of the sample was touched.
            Some((step, place)) if *place == now => *step = self.step,
            _ => self.ends.push_back((self.step, now)),
        }
        if self.ends.len() > ENDS_MAX {
            let mut keeps = false;
            self.ends.retain(|_| {
                keeps = !keeps;
                !keeps
            });
        }
        self.step += 1;
        if self.step - self.step_base > STEP_MAX {
            // What was known is only missed.
            self.lines.clear();
            self.step_base = self.step - 1;
        }
    }

    fn drain_lane<M: Medium>(&mut self, pool: &Pool<M>, id: usize, lane: &LaneSlot) {
        // A lane stores its counter, then its position. So what stands behind `end` has at least
        // the counter read before it, and what stands before it at most the one read behind.
        let next_first = lane.shared.last_installed.load(Ordering::Acquire);
        let end = lane.shared.installed.load(Ordering::Acquire);
        let last = lane.shared.last_installed.load(Ordering::Acquire);
        let LaneHistory { drained, parts, next_first: first, .. } = &mut self.lanes[id];
        let from = std::mem::replace(drained, end);
        if from == end {
            return;
        }
        let first = std::mem::replace(first, next_first);
        parts.push_back(Part { end, first, last, step: self.step });
        if self.unaged < UNAGED_RINGS * lane.ring.lines {
            super::for_each_installed(pool, lane, from, end, |range| {
                range.lines().for_each(|line| self.expect(line));
                if self.batch.len() >= LINES_AT_ONCE {
                    self.note_accesses();
                }
            });
            self.note_accesses();
        }
    }

    /// The line is looked up a little later.
    #[inline]
    fn expect(&mut self, line: LineAddr) {
        if self.batch.last() != Some(&line) {
            self.lines.prefetch(line);
            self.batch.push(line);
        }
    }

    fn note_accesses(&mut self) {
        let step = self.step - self.step_base;
        for line in self.batch.drain(..) {
            self.lines.note(line, |known| known.accessed = step);
        }
    }

    /// What is known of a line, in steps of the unit.
    fn known(&self, line: LineAddr) -> Known {
        let Known { accessed, flushed } = self.lines.get(line);
        let since_start = |step| if step == 0 { 0 } else { step + self.step_base };
        Known { accessed: since_start(accessed), flushed: since_start(flushed) }
    }

    /// The hands go on: the second over what has left the queue, the last over what stands in the
    /// older part of a ring. Little at a time, so that lines are written back while transactions
    /// run. What this flushes, the next commit of lane `own` fences (P2), or the next step if the lane
    /// only reads meanwhile.
    pub fn go_on<M: Medium>(&mut self, pool: &Pool<M>, own: usize) {
        if !self.has_fenced(pool, own) {
            pool.io().fence(Site::AgedOut);
        }
        self.lanes[own].unfenced.clear();
        self.flusher = Some(own);
        let horizon = self.queue.horizon();
        while let Some(&(step, _)) = self.ends.front().filter(|(_, place)| *place <= horizon) {
            self.ends.pop_front();
            self.aged_step = step + 1;
        }
        for (id, lane) in pool.lanes.iter().enumerate() {
            while let Some(part) = self.next_part(id).filter(|part| part.step < self.aged_step) {
                self.unaged = 0;
                self.pass(pool, id, part, Hand::Second);
            }
            let young = (lane.ring.lines * YOUNG_EIGHTHS).div_ceil(8);
            let old = self.lanes[id].drained.saturating_sub(young);
            while let Some(part) = self.next_part(id).filter(|part| part.end <= old) {
                self.pass(pool, id, part, Hand::Last);
            }
            let parts = &self.lanes[id].parts;
            let young = parts.get(parts.partition_point(|part| part.end <= old));
            let limit = young.map_or(u64::MAX, |part| part.first);
            self.flush_left_below(pool.io(), id, limit);
        }
        self.flusher = None;
        if !self.lanes[own].unfenced.is_empty() {
            let shared = &pool.lanes[own].shared;
            let now = shared.installed.load(Ordering::Relaxed);
            shared.flushed.store(now, Ordering::Relaxed);
            self.lanes[own].unfenced_since = now;
        }
    }

    /// Whether everything that a lane has flushed is fenced.
    fn has_fenced<M: Medium>(&self, pool: &Pool<M>, id: usize) -> bool {
        let fenced = pool.lanes[id].shared.fenced.load(Ordering::Acquire);
        self.lanes[id].unfenced.is_empty() || fenced >= self.lanes[id].unfenced_since
    }

    /// What other lanes have flushed and may not have fenced is flushed again. The fence is the
    /// caller's.
    pub fn flush_unfenced<M: Medium>(&mut self, pool: &Pool<M>, own: usize) {
        let io = pool.io();
        for id in (0..self.lanes.len()).filter(|id| *id != own) {
            if !self.has_fenced(pool, id) && !io.plants(Plant::SweepTrustsOtherFence) {
                self.lanes[id].unfenced.iter().for_each(|line| io.flush_line(Site::AgedOut, *line));
            }
        }
    }

    /// The first part of a lane that the second hand has not passed.
    fn next_part(&self, id: usize) -> Option<Part> {
        let lane = &self.lanes[id];
        lane.parts.get(lane.aged_parts).copied()
    }

    /// A hand passes over the records of the next part.
    fn pass<M: Medium>(&mut self, pool: &Pool<M>, id: usize, part: Part, hand: Hand) {
        let from = self.lanes[id].aged;
        if hand == Hand::Last {
            self.unaged += part.end - from;
        }
        super::for_each_installed(pool, &pool.lanes[id], from, part.end, |range| {
            range.lines().for_each(|line| self.expect(line));
            if self.batch.len() >= LINES_AT_ONCE {
                self.flush_batch(pool.io(), id, part, hand);
            }
        });
        self.flush_batch(pool.io(), id, part, hand);
        let lane = &mut self.lanes[id];
        lane.aged = part.end;
        lane.aged_parts += 1;
    }

    fn flush_batch<M: Medium>(&mut self, io: Io<'_, M>, id: usize, part: Part, hand: Hand) {
        let mut batch = std::mem::take(&mut self.batch);
        for line in batch.drain(..) {
            match hand {
                Hand::Second if self.known(line).accessed >= self.aged_step => {
                    let left = Left { line, since: part.first, step: part.step };
                    self.lanes[id].left.push_back(left);
                }
                Hand::Second if io.plants(Plant::AgedOutUnflushed) => {}
                Hand::Second => self.flush_for(io, Site::AgedOut, line, part.step),
                Hand::Last => self.flush_for(io, Site::SweepData, line, part.step),
            }
        }
        self.batch = batch;
    }

    /// P2: makes a line clean for records drained in that step.
    #[inline]
    fn flush_for<M: Medium>(&mut self, io: Io<'_, M>, site: Site, line: LineAddr, step: u64) {
        let (now, base) = (self.step - self.step_base, self.step_base);
        let mut is_clean = false;
        let drops = self.plant == Some(Plant::PendingSinceLast);
        self.lines.note(line, |known| {
            // Nothing is known of steps up to the base.
            is_clean = base + known.flushed >= step && known.flushed > 0;
            // A planted bug: the line counts as that of the last record that names it.
            is_clean |= drops && base + known.accessed > step;
            if !is_clean {
                known.flushed = now;
            }
        });
        if is_clean {
            return;
        }
        io.flush_line(site, line);
        if let Some(own) = self.flusher {
            self.lanes[own].unfenced.push(line);
        }
    }

    /// The last hand: flushes every line that is pending since a commit below `limit`. Their fence
    /// is the caller's, and no lane's next commit is waited for.
    pub fn flush_below<M: Medium>(&mut self, pool: &Pool<M>, own: usize, limit: u64) {
        let io = pool.io();
        for id in 0..self.lanes.len() {
            if io.plants(Plant::FloorPassesPending) && id != own {
                continue;
            }
            // A part whose last records stay is passed all the same.
            while let Some(part) = self.next_part(id).filter(|part| part.first < limit) {
                self.pass(pool, id, part, Hand::Last);
            }
            self.flush_left_below(io, id, limit);
        }
    }

    /// The last hand, over what the second has left.
    fn flush_left_below<M: Medium>(&mut self, io: Io<'_, M>, id: usize, limit: u64) {
        let mut left = std::mem::take(&mut self.lanes[id].left);
        while let Some(&Left { line, step, .. }) = left.front().filter(|left| left.since < limit) {
            left.pop_front();
            if let Some(ahead) = left.get(LINES_AHEAD) {
                self.lines.prefetch(ahead.line);
            }
            self.flush_for(io, Site::SweepData, line, step);
        }
        self.lanes[id].left = left;
    }

    /// Takes a line for clean. Only a planted bug does.
    pub fn forget(&mut self, line: LineAddr) {
        let step = self.step - self.step_base;
        self.lines.note(line, |known| known.flushed = step);
    }

    /// The smallest limit below which at least so many lines of a lane's ring would come free.
    pub fn limit_for(&self, lane: usize, lines: u64) -> Option<u64> {
        let LaneHistory { parts, swept, .. } = &self.lanes[lane];
        let enough = parts.partition_point(|part| part.end - swept < lines);
        parts.get(enough).map(|part| part.last + 1)
    }

    /// The floor is at `limit`: up to where each lane's records are below it.
    pub fn swept_below(&mut self, limit: u64) -> Vec<u64> {
        for lane in &mut self.lanes {
            while let Some(&part) = lane.parts.front().filter(|part| part.last < limit) {
                lane.swept = part.end;
                lane.parts.pop_front();
                // Only with a planted bug is one of them still before the hands.
                lane.aged_parts = lane.aged_parts.saturating_sub(1);
                lane.aged = lane.aged.max(part.end);
            }
        }
        self.lanes.iter().map(|lane| lane.swept).collect()
    }
}

/// A hand that flushes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hand {
    /// By age.
    Second,
    /// Before the floor.
    Last,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockKind, CreateOptions, OpenOptions, Runner, Scheme, Transact};
    use outlast_pmem::Heap;
    use outlast_trace::PoolOffset;

    /// A pool whose own history never steps, and blocks of a line each.
    fn pool(lanes: u32) -> (Pool<Heap>, Vec<PoolOffset>) {
        let create = CreateOptions { lanes, lane_bytes: 1 << 16, ..CreateOptions::default() };
        let open = OpenOptions {
            lock_stripes: 64,
            step_every: usize::MAX,
            ..OpenOptions::with_scheme(Scheme::RedoArchapt)
        };
        let pool = Pool::create_on(Heap::new(4 << 20), &create, &open).unwrap();
        let mut lane = pool.lane().unwrap();
        let alloc = |_| lane.run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
        let blocks = (0..40).map(alloc).collect();
        drop(lane);
        (pool, blocks)
    }

    fn history(lines: u64) -> History {
        History::new(lines * LINE_BYTES, Sample::one_in_two_to_the(0), 1, 1 << 10, None)
    }

    fn store(pool: &Pool<Heap>, block: PoolOffset) {
        pool.lane().unwrap().run(|tx| tx.store_u64(block, 7)).unwrap();
    }

    fn is_clean(history: &History, block: PoolOffset) -> bool {
        history.known(block.line()).flushed > 0
    }

    #[test]
    fn what_has_left_the_queue_is_flushed_and_what_was_touched_again_is_left() {
        let (pool, blocks) = pool(1);
        let mut history = history(8);
        history.drain(&pool);
        history.go_on(&pool, 0);
        let step = |history: &mut History, block| {
            store(&pool, block);
            history.drain(&pool);
            history.touch(&[Access::new(block.line(), 1)]);
            history.go_on(&pool, 0)
        };
        let [hot, cold] = [blocks[0], blocks[1]];
        step(&mut history, cold);
        assert!(!is_clean(&history, cold));
        for round in 0..12 {
            step(&mut history, hot);
            step(&mut history, blocks[2 + round]);
            assert!(!is_clean(&history, hot), "round {round}");
            // Eight lines fit: these two and those of six rounds.
            assert_eq!(is_clean(&history, cold), round >= 6, "round {round}");
        }
        let limit = pool.commits() + 1;
        assert!(!history.lanes[0].left.is_empty());
        history.flush_below(&pool, 0, limit);
        assert!(is_clean(&history, hot) && history.lanes[0].left.is_empty());
        let installed = pool.lanes[0].shared.installed.load(Ordering::Relaxed);
        assert_eq!(history.swept_below(limit), [installed]);
    }

    #[test]
    fn a_line_that_many_records_name_is_flushed_once() {
        let (pool, blocks) = pool(1);
        let mut history = history(1 << 20);
        (0..10).for_each(|_| store(&pool, blocks[0]));
        history.drain(&pool);
        history.go_on(&pool, 0);
        assert!(!is_clean(&history, blocks[0]), "everything fits the queue");
        let first = history.lanes[0].parts[0].first;
        history.flush_below(&pool, 0, first + 1);
        let flushed = history.known(blocks[0].line()).flushed;
        assert_eq!(flushed, history.step);
        // A later step finds it clean for all records drained before.
        history.begin_step();
        history.flush_below(&pool, 0, pool.commits() + 1);
        assert_eq!(history.known(blocks[0].line()).flushed, flushed);
        // And dirty for a later one.
        store(&pool, blocks[0]);
        history.drain(&pool);
        history.flush_below(&pool, 0, pool.commits() + 1);
        assert_eq!(history.known(blocks[0].line()).flushed, history.step);
    }

    /// Whatever runs for long leaves nothing behind: a writer whose lines never leave the queue,
    /// beside a lane that reads, steps the unit and never commits.
    #[test]
    fn nothing_grows_without_end() {
        let (pool, blocks) = pool(2);
        let mut history = History::new(1 << 20, Sample::one_in_two_to_the(0), 2, 1 << 10, None);
        let steps = 4 * ENDS_MAX;
        for step in 0..steps {
            if step % 8 == 0 {
                store(&pool, blocks[step / 8 % 40]);
            }
            history.drain(&pool);
            history.touch(&[Access::new(blocks[step % 40].line(), 1)]);
            history.go_on(&pool, 1);
            if step % 512 == 0 {
                let limit = pool.commits() + 1;
                history.flush_unfenced(&pool, 0);
                history.flush_below(&pool, 0, limit);
                history.swept_below(limit);
            }
        }
        assert_eq!(history.queue.horizon(), 0, "everything fits the queue");
        assert!(history.ends.len() <= ENDS_MAX);
        let lane = &history.lanes[1];
        assert!(lane.unfenced.capacity() <= 64, "{}", lane.unfenced.capacity());
        assert!(history.lanes.iter().all(|lane| lane.parts.len() <= 512 / 8));
    }

    /// Steps whose ends were forgotten age with the next one that was not.
    #[test]
    fn age_is_known_also_of_steps_that_were_forgotten() {
        let (pool, _) = pool(1);
        let mut history = history(100);
        let steps = 3 * ENDS_MAX as u64;
        for step in 0..steps {
            history.drain(&pool);
            history.touch(&[Access::new(LineAddr(step % 90), 1)]);
            history.go_on(&pool, 0);
        }
        assert_eq!(history.aged_step, 0, "ninety lines fit");
        for step in 0..101 {
            history.drain(&pool);
            history.touch(&[Access::new(LineAddr(1000 + step), 1)]);
            history.go_on(&pool, 0);
        }
        let behind = history.step - history.aged_step;
        // The queue may stand a block further than the hundred lines it has.
        assert!((99..100 + 16).contains(&behind), "{behind}");
    }

    #[test]
    fn steps_go_on_when_the_table_cannot_name_them() {
        let (pool, blocks) = pool(1);
        let mut history = history(1 << 10);
        history.drain(&pool);
        history.flush_below(&pool, 0, u64::MAX);
        history.swept_below(u64::MAX);
        history.step = STEP_MAX - 1;
        for _ in 0..4 {
            store(&pool, blocks[0]);
            history.drain(&pool);
            let step = history.lanes[0].parts[0].step;
            assert!(history.known(blocks[0].line()).flushed < step);
            history.flush_below(&pool, 0, u64::MAX);
            assert_eq!(history.known(blocks[0].line()).flushed, step);
            history.swept_below(u64::MAX);
        }
        assert!(history.step > STEP_MAX && history.step_base > 0);
    }
}
