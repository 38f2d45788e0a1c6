//! Which pages have changed since the last checkpoint: a volatile bitmap.
//!
//! A lane marks the pages of what it stored to *after* its stores (CHECKPOINT-1); the checkpointer clears
//! a page's bit *before* it copies the page (CHECKPOINT-2). A full fence lies between the two steps on both
//! sides, so either the copy has the stores or the bit is set again. The lane's side tests a bit
//! before it sets it, and the fence between its stores and the test is paid by the checkpointer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use outlast_pmem::PAGE_BYTES;
use outlast_trace::{ByteRange, LINE_BYTES, LineAddr, PoolOffset};

use crate::barrier::Barrier;
use crate::layout::POOL_BYTES_MAX;

/// Pages of one part of the bitmap, which is allocated when its first bit is set.
const PART_PAGES: u64 = 1 << 18;

type Part = OnceLock<Box<[AtomicU64]>>;

/// The changed pages. Nothing is marked before [`switch_on`](Self::switch_on).
pub(crate) struct Changes {
    barrier: Barrier,
    parts: OnceLock<Box<[Part]>>,
}

impl Changes {
    pub fn new() -> Self {
        Self { barrier: Barrier::new(), parts: OnceLock::new() }
    }

    /// Whether changes are marked.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.parts.get().is_some()
    }

    /// From here on changes are marked. No transaction is under way.
    pub fn switch_on(&self) {
        self.parts.get_or_init(|| {
            (0..POOL_BYTES_MAX / PAGE_BYTES / PART_PAGES).map(|_| Part::new()).collect()
        });
    }

    /// CHECKPOINT-1: something in this page was stored to.
    #[inline]
    pub fn mark(&self, at: PoolOffset) {
        if let Some(parts) = self.parts.get() {
            self.barrier.light();
            set(parts, at.0 / PAGE_BYTES);
        }
    }

    /// CHECKPOINT-1: something in these pages was stored to.
    pub fn mark_range(&self, range: ByteRange) {
        if self.is_on() && range.len > 0 {
            let last = (range.end().0 - 1) / PAGE_BYTES;
            let pages = range.at.0 / PAGE_BYTES..=last;
            pages.for_each(|page| self.mark(PoolOffset(page * PAGE_BYTES)));
        }
    }

    /// CHECKPOINT-1: these lines were stored to.
    #[inline]
    pub fn mark_lines(&self, lines: impl Iterator<Item = LineAddr>) {
        let Some(parts) = self.parts.get() else { return };
        self.barrier.light();
        let mut last = u64::MAX;
        for line in lines {
            let page = line.0 / (PAGE_BYTES / LINE_BYTES);
            if page != last {
                set(parts, page);
                last = page;
            }
        }
    }

    /// CHECKPOINT-2: all marked pages, ascending, which are marked no more. What is loaded of them after this
    /// has all stores whose marks were taken.
    pub fn take(&self) -> Vec<u64> {
        let pages = self.marked(|word| match word.load(Ordering::Relaxed) {
            0 => 0,
            _ => word.swap(0, Ordering::AcqRel),
        });
        self.barrier.heavy();
        pages
    }

    /// How many pages are marked.
    pub fn count(&self) -> usize {
        self.marked(|word| word.load(Ordering::Relaxed)).len()
    }

    fn marked(&self, look: impl Fn(&AtomicU64) -> u64) -> Vec<u64> {
        let mut pages = Vec::new();
        for (part, words) in self.parts.get().into_iter().flatten().enumerate() {
            for (index, word) in words.get().into_iter().flatten().enumerate() {
                let mut bits = look(word);
                while bits != 0 {
                    let bit = u64::from(bits.trailing_zeros());
                    pages.push(part as u64 * PART_PAGES + index as u64 * 64 + bit);
                    bits &= bits - 1;
                }
            }
        }
        pages
    }
}

#[inline]
fn set(parts: &[Part], page: u64) {
    let part = &parts[(page / PART_PAGES) as usize];
    let words = part.get_or_init(|| (0..PART_PAGES / 64).map(|_| AtomicU64::new(0)).collect());
    let word = &words[(page % PART_PAGES / 64) as usize];
    let bit = 1 << (page % 64);
    // Most pages are marked already; looking costs no exclusive access to the line.
    if word.load(Ordering::Relaxed) & bit == 0 {
        word.fetch_or(bit, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn marked_pages_are_taken_once_in_order() {
        let changes = Changes::new();
        changes.mark(PoolOffset(0));
        assert!(!changes.is_on() && changes.take().is_empty(), "nothing is marked before");
        changes.switch_on();
        let far = PoolOffset((3 * PART_PAGES + 70) * PAGE_BYTES + 4095);
        for at in [far, PoolOffset(4096), PoolOffset(4097), PoolOffset(64 * 4096)] {
            changes.mark(at);
        }
        changes.mark_lines([LineAddr(63), LineAddr(64), LineAddr(127), LineAddr(0)].into_iter());
        assert_eq!(changes.count(), 4);
        assert_eq!(changes.take(), [0, 1, 64, 3 * PART_PAGES + 70]);
        assert_eq!(changes.count(), 0);
    }

    /// The last value that a writer stored is in the last copy, or its page is marked.
    #[test]
    fn no_store_is_lost_between_clearing_and_copying() {
        let changes = Changes::new();
        changes.switch_on();
        let (memory, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let mut copied = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for value in 1..if cfg!(miri) { 50 } else { 300_000 } {
                    memory.store(value, Ordering::Release);
                    changes.mark(PoolOffset(0));
                }
                over.store(true, Ordering::Release);
            });
            while !over.load(Ordering::Acquire) {
                if !changes.take().is_empty() {
                    copied = memory.load(Ordering::Relaxed);
                }
            }
        });
        if changes.take().is_empty() {
            assert_eq!(copied, memory.load(Ordering::Relaxed));
        }
    }
}
