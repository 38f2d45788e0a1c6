//! The pages that wait for `msync`, in the domain `page`.
//!
//! A flush notes bytes, a fence writes back what is noted. The notes of all threads share one
//! list: a fence may take another thread's notes along. It therefore holds `syncing` from the
//! taking to the end of the writing, so that the other thread's own fence, which finds its notes
//! gone, waits until they are durable.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::error::PAGE_BYTES;

/// Clean pages between two noted ones that are cheaper to write along than a second `msync`,
/// which costs a round trip to the device.
const GAP_PAGES: u64 = 16;

/// When this many ranges wait, they are sorted and merged once before more are taken.
const RANGES_MAX: usize = 4096;

/// Page numbers noted by flushes and not yet written back.
#[derive(Default)]
pub(crate) struct PageNotes {
    noted: Mutex<Vec<Range<u64>>>,
    syncing: Mutex<()>,
}

impl PageNotes {
    /// Notes that `len` bytes from `at` on are to be durable after this thread's next fence.
    pub fn note(&self, at: u64, len: u64) {
        if len == 0 {
            return;
        }
        let pages = at / PAGE_BYTES..(at + len).div_ceil(PAGE_BYTES);
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        // Flushes come line after line: mostly the last range holds the page already.
        if let Some(last) = noted.last_mut()
            && pages.start >= last.start
            && pages.start <= last.end
        {
            last.end = last.end.max(pages.end);
            return;
        }
        if noted.len() >= RANGES_MAX && noted.len().is_power_of_two() {
            coalesce(&mut noted, 0);
        }
        noted.push(pages);
    }

    /// Passes every noted range, merged and in ascending order of its bytes, to `write_back`.
    /// When this returns, everything that this thread noted before is written back, by this
    /// thread or by another.
    ///
    /// # Panics
    /// When `write_back` fails, now or ever before: the system may have dropped the bytes and
    /// called the pages clean, so nothing could be promised any more.
    pub fn drain(&self, mut write_back: impl FnMut(Range<u64>) -> io::Result<()>) {
        let _syncing = self.syncing.lock().expect("an earlier write-back to the medium failed");
        let mut ranges =
            std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner));
        coalesce(&mut ranges, GAP_PAGES);
        for pages in ranges {
            if let Err(error) = write_back(pages.start * PAGE_BYTES..pages.end * PAGE_BYTES) {
                panic!("pages {pages:?} could not be written back, their content is lost: {error}");
            }
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// Sorts the ranges and merges those with at most `gap` pages between them.
fn coalesce(ranges: &mut Vec<Range<u64>>, gap: u64) {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, kept| {
        let merge = next.start <= kept.end + gap;
        if merge {
            kept.end = kept.end.max(next.end);
        }
        merge
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn drained(notes: &PageNotes) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        notes.drain(|range| {
            ranges.push(range);
            Ok(())
        });
        ranges
    }

    #[test]
    fn near_pages_are_written_together_and_far_ones_apart() {
        let notes = PageNotes::default();
        for at in [0, 64, 5000, 4096 * 100, 4096 * 40, 4095, 0] {
            notes.note(at, 64);
        }
        notes.note(123, 0);
        let page = PAGE_BYTES;
        assert_eq!(drained(&notes), [0..2 * page, 40 * page..41 * page, 100 * page..101 * page]);
        assert!(notes.is_empty());
        assert_eq!(drained(&notes), []);

        // A range inside an earlier one does not cut it short.
        for (at, pages) in [(0, 5), (100, 1), (1, 1)] {
            notes.note(at * page, pages * page);
        }
        assert_eq!(drained(&notes), [0..5 * page, 100 * page..101 * page]);
    }

    #[test]
    fn many_notes_of_few_pages_stay_few() {
        let notes = PageNotes::default();
        for i in 0..if cfg!(miri) { 5_000 } else { 100_000 } {
            notes.note((i % 2) * 4096 * 100, 64);
        }
        assert!(notes.noted.lock().unwrap().len() <= RANGES_MAX);
        assert_eq!(drained(&notes).len(), 2);
    }

    /// Thread A notes; B's fence takes the note and is still writing when A fences. A's fence
    /// must not return before B's write has ended.
    #[test]
    fn a_fence_waits_for_the_fence_that_took_its_notes() {
        let notes = PageNotes::default();
        let written = AtomicBool::new(false);
        let taken = Barrier::new(2);
        notes.note(0, 64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                notes.drain(|_| {
                    taken.wait();
                    // Long enough for the other thread to get into its fence.
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    written.store(true, Ordering::SeqCst);
                    Ok(())
                });
            });
            taken.wait();
            notes.drain(|_| panic!("nothing is left to write"));
            assert!(written.load(Ordering::SeqCst), "returned before the bytes were durable");
        });
    }

    #[test]
    fn after_a_failed_write_no_fence_succeeds() {
        let notes = PageNotes::default();
        notes.note(0, 64);
        let fence = |result: fn() -> io::Result<()>| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| notes.drain(|_| result())))
        };
        assert!(fence(|| Err(io::ErrorKind::Other.into())).is_err());
        assert!(fence(|| Ok(())).is_err());
    }
}
