//! The history unit: an estimate of what is in the last-level cache.
//!
//! An [LRU queue](queue) with the capacity of that cache takes in what transactions touched; what has
//! left the queue has probably left the cache. [`ObjHT`](objht) knows of single lines when they were
//! touched and flushed last. Looking at every line touched would cost more than the flushes it can
//! save. Therefore only a *sample* of memory goes through the queue, in one part of it for as many
//! parts of the capacity: which of its accesses have left the queue tells the age of all others.
//!
//! Lanes share the unit. They leave hints about what they touched, and take numbers for their
//! *steps*, under which everything is remembered. `ObjHT` has no lock, the queue has one that is
//! seldom waited for, and a lane that finds it held keeps its hints for the next time.
//!
//! The consequences of the estimate are the business of [write-back by age](super::age).

mod objht;
mod queue;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outlast_pmem::Medium;
use outlast_trace::{LINE_BYTES, LineAddr, PoolOffset};

use crate::spin::SpinLock;
use objht::{Known, ObjHt, STEP_MAX};
pub(crate) use queue::LruQueue;

/// The size of the queue in caches. A cache has sets, so that it keeps lines longer
/// than others that were used later. With room for one cache up to three flushes of ten by age find
/// their lines dirty, with room for two next to none.
const QUEUE_CACHES: u64 = 2;

/// Hints with which a lane waits for the queue.
const HINTS_MAX: usize = 1 << 10;

/// Steps whose ends are remembered; of more, every second one is forgotten. Where nothing ever
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

/// The logs of all lanes, and the cache that data is to leave by itself while the logs cover it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rings {
    pub bytes: u64,
    pub cache_bytes: u64,
}

impl Rings {
    /// Whether a record may still be there when something that was touched with it has left the
    /// cache. For each line that a transaction logs it touches some more, ten to a hundred on YCSB;
    /// where not even that fills the cache before the ring, hints would say nothing.
    pub fn outlive_some(self) -> bool {
        self.bytes.saturating_mul(16) >= self.cache_bytes
    }

    /// Whether everything that records name has left the cache before they go, whatever else is
    /// touched.
    pub fn outlive_all(self) -> bool {
        self.bytes >= self.cache_bytes
    }
}

/// Which lines the queue sees: all, or those of a sample of regions of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// One in `1 << bits`.
    bits: u32,
    /// The hash of a region in the sample is not above this.
    hash_max: u64,
}

impl Sample {
    /// Bytes of a region, as a shift: a page.
    const REGION_SHIFT: u32 = 12;

    /// One in `1 << bits`.
    pub fn one_in_two_to_the(bits: u32) -> Self {
        let bits = bits.min(32);
        Self { bits, hash_max: u64::MAX >> bits }
    }

    /// The sample's part of `count`.
    pub fn share_of(self, all: u64) -> u64 {
        all >> self.bits
    }

    /// Whether the region of this offset is in the sample.
    #[inline]
    pub fn has(self, at: PoolOffset) -> bool {
        (at.0 >> Self::REGION_SHIFT).wrapping_mul(0x9e37_79b9_7f4a_7c15) <= self.hash_max
    }
}

/// Knowledge that lanes share.
pub(crate) struct History {
    era: SpinLock<Arc<Era>>,
    ages: SpinLock<Ages>,
    /// As [`Ages::aged_step`].
    aged_step: AtomicU64,
    /// Lines that an era remembers.
    remembered: usize,
}

/// A table of lines, with as many steps as its entries can tell apart.
pub(crate) struct Era {
    /// The last step before it.
    base: u64,
    /// Steps taken in it.
    steps: AtomicU64,
    lines: ObjHt,
}

/// The queue, and when it has moved on how far.
struct Ages {
    queue: LruQueue,
    /// Steps from `aged_step` on, each with what the queue counted at its end. Not all of them: a
    /// step that is missing counts as the next one.
    ends: VecDeque<(u64, u64)>,
    /// Everything touched in steps before this one has left the queue.
    aged_step: u64,
}

impl History {
    /// A unit for rings that have `ring_lines` lines together.
    pub fn new(cache_bytes: u64, sample: Sample, ring_lines: u64) -> Self {
        let lines = (QUEUE_CACHES * cache_bytes / LINE_BYTES).max(1);
        // Lines last named by records that are gone are of no use; and a table that the caches near
        // the core hold forgets more and costs less.
        let remembered = lines.min(ring_lines) as usize;
        Self {
            era: SpinLock::new(Arc::new(Era::new(0, remembered))),
            ages: SpinLock::new(Ages::new(sample.share_of(lines).max(1) as usize)),
            aged_step: AtomicU64::new(0),
            remembered,
        }
    }

    /// Bytes of memory that the queue and `ObjHT` take.
    pub fn memory_bytes<M: Medium>(&self, medium: &M) -> u64 {
        let table = self.era.lock(medium).lines.memory_bytes();
        (self.ages.lock(medium).queue.memory_bytes() + table) as u64
    }

    /// A step's number, greater than all drawn before, by whatever lane. Everything that the lane of
    /// a smaller number had done before it drew that is seen by the lane of a greater one. `mine`
    /// is the lane's era, which may end here.
    pub fn next_step<M: Medium>(&self, medium: &M, mine: &mut Option<Arc<Era>>) -> u64 {
        loop {
            let era = mine.get_or_insert_with(|| self.era.lock(medium).clone());
            let step = era.steps.fetch_add(1, Ordering::AcqRel) + 1;
            if step <= STEP_MAX {
                return era.base + step;
            }
            let mut current = self.era.lock(medium);
            if Arc::ptr_eq(&current, era) {
                // A lost entry costs a flush.
                *current = Arc::new(Era::new(era.base + STEP_MAX, self.remembered));
            }
            *mine = Some(current.clone());
        }
    }

    /// Everything touched in steps before this one has probably left the cache.
    pub fn aged_step(&self) -> u64 {
        self.aged_step.load(Ordering::Relaxed)
    }

    /// Takes a lane's hints about what it touched in a step, unless others are at it.
    pub fn touch<M: Medium>(&self, medium: &M, era: &Era, step: u64, accesses: &mut Vec<Access>) {
        if accesses.is_empty() {
            return;
        }
        let ages = match self.ages.try_lock() {
            None if accesses.len() >= HINTS_MAX => Some(self.ages.lock(medium)),
            ages => ages,
        };
        let Some(mut ages) = ages else { return };
        for line in accesses.drain(..).flat_map(Access::lines) {
            era.note_accessed(line, step);
            ages.queue.touch(line);
        }
        ages.end_step(step);
        self.aged_step.store(ages.aged_step, Ordering::Relaxed);
    }

    /// Takes a line for clean, for ever. Only a planted bug does.
    #[cold]
    pub fn forget<M: Medium>(&self, medium: &M, line: LineAddr) {
        self.era.lock(medium).lines.note(line, |known| known.flushed = STEP_MAX);
    }
}

impl Era {
    fn new(base: u64, lines: usize) -> Self {
        Self { base, steps: AtomicU64::new(0), lines: ObjHt::new(lines) }
    }

    /// Fetches what is known of a line.
    #[inline]
    pub fn prefetch(&self, line: LineAddr) {
        self.lines.prefetch(line);
    }

    /// The entry of a line: steps, or zero.
    #[inline]
    pub fn known(&self, line: LineAddr) -> Known {
        let Known { accessed, flushed } = self.lines.get(line);
        let since_start = |step| if step == 0 { 0 } else { step + self.base };
        Known { accessed: since_start(accessed), flushed: since_start(flushed) }
    }

    /// The line was touched in this step.
    #[inline]
    pub fn note_accessed(&self, line: LineAddr, step: u64) {
        let step = step.saturating_sub(self.base);
        self.lines.note(line, |known| known.accessed = known.accessed.max(step));
    }

    /// The line was flushed in this step or later, and that flush is fenced.
    #[inline]
    pub fn note_flushed(&self, line: LineAddr, step: u64) {
        let step = step.saturating_sub(self.base);
        self.lines.note(line, |known| known.flushed = known.flushed.max(step));
    }
}

impl Ages {
    fn new(lines: usize) -> Self {
        Self { queue: LruQueue::new(lines), ends: VecDeque::new(), aged_step: 0 }
    }

    /// Lines touched in this step, and before, are in the queue.
    fn end_step(&mut self, step: u64) {
        let now = self.queue.now();
        match self.ends.back_mut() {
            // Lanes come here in any order.
            Some((last, place)) if *last >= step => *place = now,
            Some((last, place)) if *place == now => *last = step,
            _ => self.ends.push_back((step, now)),
        }
        if self.ends.len() > ENDS_MAX {
            let mut keeps = false;
            self.ends.retain(|_| {
                keeps = !keeps;
                !keeps
            });
        }
        let horizon = self.queue.horizon();
        while let Some(&(step, _)) = self.ends.front().filter(|(_, place)| *place <= horizon) {
            self.ends.pop_front();
            self.aged_step = step + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_pmem::Heap;

    fn history(lines: u64) -> (Heap, History) {
        let cache_bytes = lines * LINE_BYTES / QUEUE_CACHES;
        let history = History::new(cache_bytes, Sample::one_in_two_to_the(0), 1 << 10);
        (Heap::new(64), history)
    }

    #[test]
    fn what_has_left_the_queue_is_aged() {
        let (medium, history) = history(8);
        let mut era = None;
        for line in 0..20 {
            let step = history.next_step(&medium, &mut era);
            assert_eq!(step, line + 1);
            let mut hints = vec![Access::new(LineAddr(line), 1), Access::new(LineAddr(100), 1)];
            history.touch(&medium, era.as_ref().unwrap(), step, &mut hints);
            assert!(hints.is_empty());
            // Eight lines fit: that one and those of seven steps; and a step is over with its last line.
            assert_eq!(history.aged_step(), if line < 8 { 0 } else { line - 6 });
            assert_eq!(era.as_ref().unwrap().known(LineAddr(100)).accessed, step);
        }
    }

    /// Nothing grows where nothing ever leaves the queue; and steps whose ends were forgotten age with
    /// the next one that was not.
    #[test]
    fn ends_are_forgotten_not_gathered() {
        let mut ages = Ages::new(100);
        for step in 0..4 * ENDS_MAX as u64 {
            ages.queue.touch(LineAddr(step % 90));
            ages.end_step(step);
            assert!(ages.ends.len() <= ENDS_MAX);
        }
        assert_eq!(ages.aged_step, 0, "ninety lines fit");
        let first = 4 * ENDS_MAX as u64;
        for step in 0..101 {
            ages.queue.touch(LineAddr(1000 + step));
            ages.end_step(first + step);
        }
        let behind = first + 101 - ages.aged_step;
        assert!((99..100 + 16).contains(&behind), "{behind}");
    }

    /// Lanes may end their steps in another order than they began them.
    #[test]
    fn a_late_lane_does_not_make_others_older() {
        let mut ages = Ages::new(2);
        ages.queue.touch(LineAddr(1));
        ages.end_step(7);
        ages.queue.touch(LineAddr(2));
        ages.end_step(5);
        ages.queue.touch(LineAddr(3));
        ages.end_step(8);
        assert_eq!(ages.aged_step, 0, "line 2 is in the queue, under step 7");
        ages.queue.touch(LineAddr(4));
        ages.end_step(9);
        assert_eq!(ages.aged_step, 8);
    }

    #[test]
    fn steps_go_on_when_the_table_cannot_name_them() {
        let (medium, history) = history(1 << 10);
        let (mut one, mut other) = (None, None);
        let first = history.next_step(&medium, &mut one);
        history.next_step(&medium, &mut other);
        one.as_ref().unwrap().note_flushed(LineAddr(3), first);
        assert_eq!(one.as_ref().unwrap().known(LineAddr(3)).flushed, first);
        let old = one.clone().unwrap();
        old.steps.store(STEP_MAX, Ordering::Relaxed);
        let next = history.next_step(&medium, &mut one);
        assert_eq!(next, STEP_MAX + 1);
        let new = one.as_ref().unwrap();
        assert_eq!(new.known(LineAddr(3)).flushed, 0, "what was known is missed");
        // Flushes of the old era are not told to the new one.
        new.note_flushed(LineAddr(4), STEP_MAX);
        assert_eq!(new.known(LineAddr(4)).flushed, 0);
        // The other lane comes to the same era.
        assert_eq!(history.next_step(&medium, &mut other), STEP_MAX + 2);
        assert!(Arc::ptr_eq(one.as_ref().unwrap(), other.as_ref().unwrap()));
        new.note_flushed(LineAddr(3), next);
        assert_eq!(other.unwrap().known(LineAddr(3)).flushed, next);
    }
}
