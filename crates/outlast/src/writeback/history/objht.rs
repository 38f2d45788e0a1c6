//! `ObjHT`: what is known of lines that were stored to or flushed lately.
//!
//! A table of fixed size that forgets: of the lines that share a bucket it keeps those accessed
//! last. What it does not know costs a flush more and nothing else, so it needs neither to grow
//! nor to keep a list of collisions, and finding a line costs one access to memory, of which the
//! address is known beforehand. What it *says* is exact: an entry is never taken for another
//! line's.
//!
//! There is no lock and no wait. An entry is one word, and every word ever stored says
//! something that was true when it was stored and stays so: *this line was flushed, and fenced, in
//! that step*. Of two threads that change an entry at a time one may undo what the other has told,
//! but only to something that was true as well. So loads and stores suffice.

use std::sync::atomic::AtomicU64;

use outlast_trace::LineAddr;

use crate::word::Word;

/// Entries of a bucket: as many as a cache line holds.
const WAYS: usize = 8;

const STEP_BITS: u32 = 20;
const TAG_BITS: u32 = 24;

/// The last step that entries can name.
pub(crate) const STEP_MAX: u64 = (1 << STEP_BITS) - 1;

/// Buckets there are at least, as a shift.
const BUCKET_BITS_MIN: u32 = 8;

/// Fibonacci hashing: an odd factor permutes the numbers of any width, and mixes the high bits
/// well.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// From the high bits: the step of the last access, that of the last flush, what tells the line
/// from others of its bucket. Steps count from one, so that no entry is zero.
#[derive(Clone, Copy)]
struct Entry(u64);

impl Entry {
    fn new(known: Known, tag: u64) -> Self {
        let Known { accessed, flushed } = known;
        debug_assert!(accessed <= STEP_MAX && flushed <= STEP_MAX);
        Self(accessed << (STEP_BITS + TAG_BITS) | flushed << TAG_BITS | tag)
    }

    fn tag(self) -> u64 {
        self.0 & ((1 << TAG_BITS) - 1)
    }

    fn known(self) -> Known {
        let accessed = self.0 >> (STEP_BITS + TAG_BITS);
        Known { accessed, flushed: self.0 >> TAG_BITS & STEP_MAX }
    }
}

/// In which step a line was accessed and flushed last; zero when that is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Known {
    pub accessed: u64,
    pub flushed: u64,
}

/// Lines and what is known of them.
pub(crate) struct ObjHt<W = AtomicU64> {
    /// Buckets of eight entries, behind what aligns them to lines of the cache.
    entries: Box<[W]>,
    first: usize,
    bucket_bits: u32,
}

impl<W: Word> ObjHt<W> {
    /// A table that remembers about `lines` lines.
    pub fn new(lines: usize) -> Self {
        Self::with_bucket_bits((2 * lines / WAYS).next_power_of_two().ilog2().max(BUCKET_BITS_MIN))
    }

    fn with_bucket_bits(bucket_bits: u32) -> Self {
        let entries = ((1 << bucket_bits) + 1) * WAYS;
        let entries: Box<[W]> = (0..entries).map(|_| W::new(0)).collect();
        let first = entries.as_ptr().align_offset(WAYS * size_of::<u64>()).min(WAYS);
        Self { entries, first, bucket_bits }
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val::<[W]>(&self.entries)
    }

    /// Where the line's bucket starts, and its tag there. `None` for a line so far behind that
    /// another one has the same: nothing is ever known of it.
    #[inline]
    fn place(&self, line: LineAddr) -> Option<(usize, u64)> {
        let bits = self.bucket_bits + TAG_BITS;
        let mixed = line.0.wrapping_mul(FACTOR) & ((1 << bits) - 1);
        let bucket = (mixed >> TAG_BITS) as usize;
        let tag = mixed & ((1 << TAG_BITS) - 1);
        (line.0 >> bits == 0).then_some((self.first + bucket * WAYS, tag))
    }

    /// Fetches the line's bucket.
    #[inline]
    pub fn prefetch(&self, line: LineAddr) {
        if let Some((bucket, _)) = self.place(line) {
            outlast_pmem::prefetch_write(&self.entries[bucket]);
        }
    }

    /// The entry of a line.
    #[inline]
    pub fn get(&self, line: LineAddr) -> Known {
        let Some((bucket, tag)) = self.place(line) else { return Known::default() };
        let mut ways = self.entries[bucket..bucket + WAYS].iter().map(|entry| Entry(entry.load()));
        // A free entry has no steps, whatever its tag.
        ways.find(|entry| entry.tag() == tag && entry.0 >> TAG_BITS != 0)
            .map_or(Known::default(), Entry::known)
    }

    /// Changes what is known of a line.
    #[inline]
    pub fn note(&self, line: LineAddr, change: impl FnOnce(&mut Known)) {
        let Some((bucket, tag)) = self.place(line) else { return };
        let ways = &self.entries[bucket..bucket + WAYS];
        let (mut way, mut oldest) = (None, (0, u64::MAX));
        for (index, entry) in ways.iter().enumerate() {
            let entry = entry.load();
            if Entry(entry).tag() == tag && entry >> TAG_BITS != 0 {
                way = Some((index, Entry(entry).known()));
                break;
            }
            // The step of the last access is in the highest bits.
            if entry < oldest.1 {
                oldest = (index, entry);
            }
        }
        let (index, mut known) = way.unwrap_or((oldest.0, Known::default()));
        change(&mut known);
        ways[index].store(Entry::new(known, tag).0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn what_it_says_is_true_of_that_line() {
        // Few buckets, so that much is forgotten; lines also beyond those it can tell apart.
        let table = ObjHt::<AtomicU64>::new(1);
        let mut model = HashMap::<u64, Known>::new();
        let (mut random, mut remembered) = (1u64, 0);
        for step in 1..40_000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let number = random >> 33 & 0xfff;
            let line = LineAddr(number | (random >> 20 & 3) << 31);
            let (known, truth) = (table.get(line), model.entry(line.0).or_default());
            if known != Known::default() {
                assert_eq!(known, *truth);
                remembered += 1;
            }
            let note = |known: &mut Known| match random >> 63 {
                0 => known.accessed = step,
                _ => known.flushed = step,
            };
            match known == Known::default() {
                true => {
                    // A forgotten line starts again from nothing.
                    *truth = Known { accessed: step, flushed: 0 };
                    table.note(line, |known| known.accessed = step);
                }
                false => {
                    note(truth);
                    table.note(line, note);
                }
            }
        }
        assert!(remembered > 2000, "{remembered}");
    }

    #[test]
    fn what_was_accessed_last_is_kept() {
        let table = ObjHt::<AtomicU64>::new(1000);
        for step in 1..=STEP_MAX.min(100_000) {
            table.note(LineAddr(step * 977), |known| known.accessed = step);
            for back in 0..4.min(step) {
                let line = LineAddr((step - back) * 977);
                assert_eq!(table.get(line).accessed, step - back);
            }
        }
    }

    /// Every interleaving of lanes that tell of the same lines, in one bucket: whatever the table says
    /// of a line was so, and its reader sees what the lane that told it had done before.
    #[test]
    #[cfg(not(miri))]
    fn what_it_says_is_true_of_every_lane() {
        use loom::sync::Arc;
        use loom::sync::atomic::{AtomicU64, Ordering};
        const STEPS: [u64; 2] = [5, 6];
        // With more preemptions it takes minutes, and finds nothing either.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let table = Arc::new(ObjHt::<AtomicU64>::with_bucket_bits(0));
            // The step whose flush of a line was fenced last.
            let fenced = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let judge = |table: &ObjHt<AtomicU64>, fenced: &[AtomicU64; 2]| {
                for (line, step) in STEPS.iter().enumerate() {
                    let Known { flushed, .. } = table.get(LineAddr(line as u64));
                    assert!(flushed == 0 || flushed == *step);
                    assert!(flushed <= fenced[line].load(Ordering::Relaxed));
                }
            };
            let lanes = [0, 1].map(|lane: usize| {
                let (table, fenced) = (table.clone(), fenced.clone());
                loom::thread::spawn(move || {
                    fenced[lane].store(STEPS[lane], Ordering::Relaxed);
                    table.note(LineAddr(lane as u64), |known| known.flushed = STEPS[lane]);
                    table.note(LineAddr(0), |known| known.accessed = STEPS[lane]);
                })
            });
            judge(&table, &fenced);
            lanes.into_iter().for_each(|lane| lane.join().unwrap());
            judge(&table, &fenced);
        });
    }
}
