//! Counts what a program asks of its medium: flushes, fences, streams, and how much of what was
//! flushed was dirty at all.

use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use outlast_trace::{ByteRange, LINE_BYTES, LineAddr, PoolOffset, line_pieces};

use crate::layer::{Access, Layer};
use crate::medium::Medium;

/// What a medium was asked to do. Differences of two readings belong to what ran in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Lines flushed, each as often as it was.
    pub flushed_lines: u64,
    /// Flushes of a line without a single byte stored since it was flushed before.
    pub clean_flushes: u64,
    /// Bytes that were dirty in the flushed lines.
    pub dirty_bytes: u64,
    /// Fences.
    pub fences: u64,
    /// Lines touched by each store past the caches.
    pub streamed_lines: u64,
    /// Bytes stored, through the caches and past them.
    pub stored_bytes: u64,
}

impl Counters {
    /// Dirty bytes ÷ bytes of the flushed lines, between 0 and 1; `None` without any flush.
    pub fn dirtiness(&self) -> Option<f64> {
        let flushed_bytes = self.flushed_lines * LINE_BYTES;
        (flushed_bytes > 0).then(|| self.dirty_bytes as f64 / flushed_bytes as f64)
    }
}

impl Sub for Counters {
    type Output = Self;

    /// What was counted after `earlier` was read. Saturates at zero across a reset.
    fn sub(self, earlier: Self) -> Self {
        Self {
            flushed_lines: self.flushed_lines.saturating_sub(earlier.flushed_lines),
            clean_flushes: self.clean_flushes.saturating_sub(earlier.clean_flushes),
            dirty_bytes: self.dirty_bytes.saturating_sub(earlier.dirty_bytes),
            fences: self.fences.saturating_sub(earlier.fences),
            streamed_lines: self.streamed_lines.saturating_sub(earlier.streamed_lines),
            stored_bytes: self.stored_bytes.saturating_sub(earlier.stored_bytes),
        }
    }
}

/// A medium that counts what it passes on. Any number of threads may use it.
///
/// Counting costs tens of nanoseconds per store: count in one run, time in another.
pub struct Counted<M> {
    inner: M,
    counts: bool,
    dirty: DirtyBytes,
    flushed_lines: AtomicU64,
    clean_flushes: AtomicU64,
    dirty_bytes: AtomicU64,
    fences: AtomicU64,
    streamed_lines: AtomicU64,
    stored_bytes: AtomicU64,
}

impl<M> Counted<M> {
    /// Counts what `inner` is asked from now on; all of its bytes count as clean.
    pub fn new(inner: M) -> Self {
        Self {
            inner,
            counts: true,
            dirty: DirtyBytes::default(),
            flushed_lines: AtomicU64::new(0),
            clean_flushes: AtomicU64::new(0),
            dirty_bytes: AtomicU64::new(0),
            fences: AtomicU64::new(0),
            streamed_lines: AtomicU64::new(0),
            stored_bytes: AtomicU64::new(0),
        }
    }

    /// Passes on without counting, for code that is compiled once for media that count and media that do not.
    pub fn idle(inner: M) -> Self {
        Self { counts: false, ..Self::new(inner) }
    }

    /// The counts so far. While other threads count, each is exact at some moment of the call.
    pub fn counters(&self) -> Counters {
        Counters {
            flushed_lines: self.flushed_lines.load(Ordering::Relaxed),
            clean_flushes: self.clean_flushes.load(Ordering::Relaxed),
            dirty_bytes: self.dirty_bytes.load(Ordering::Relaxed),
            fences: self.fences.load(Ordering::Relaxed),
            streamed_lines: self.streamed_lines.load(Ordering::Relaxed),
            stored_bytes: self.stored_bytes.load(Ordering::Relaxed),
        }
    }

    /// Sets every count to zero. Bytes that are dirty stay so: a later flush finds them.
    pub fn reset(&self) {
        let counters = [
            &self.flushed_lines,
            &self.clean_flushes,
            &self.dirty_bytes,
            &self.fences,
            &self.streamed_lines,
            &self.stored_bytes,
        ];
        counters.into_iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }

    /// The medium below.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// The medium below, no longer counted.
    pub fn into_inner(self) -> M {
        self.inner
    }

    fn count(&self, access: Access) {
        match access {
            Access::Store { at, len } => self.count_store(at, len as usize),
            Access::Words { line, mask } => {
                let words = (0..8).filter(|word| mask >> word & 1 == 1);
                let stored = words.fold(0u64, |bytes, word| bytes | 0xff << (8 * word));
                add(&self.stored_bytes, u64::from(stored.count_ones()));
                self.dirty.with(line, |mask| mask.fetch_or(stored, SEEN));
            }
            Access::Stream { at, len } => self.count_stream(at, len as usize),
            Access::Flush { at, len } => {
                ByteRange::new(at, len).lines().for_each(|line| self.count_flush(line));
            }
            Access::Fence => add(&self.fences, 1),
            Access::Exchange { at, stored: true } => self.count_store(at, 8),
            Access::Exchange { stored: false, .. } => {}
        }
    }

    fn count_store(&self, at: PoolOffset, len: usize) {
        add(&self.stored_bytes, len as u64);
        for (piece, len) in line_pieces(at, len) {
            self.dirty.with(piece.line(), |mask| mask.fetch_or(bytes_mask(piece, len), SEEN));
        }
    }

    fn count_stream(&self, at: PoolOffset, len: usize) {
        add(&self.stored_bytes, len as u64);
        for (piece, len) in line_pieces(at, len) {
            add(&self.streamed_lines, 1);
            // What went past the caches is not dirty in them any more.
            self.dirty.with(piece.line(), |mask| mask.fetch_and(!bytes_mask(piece, len), SEEN));
        }
    }

    fn count_flush(&self, line: LineAddr) {
        let dirty = self.dirty.with(line, |mask| mask.swap(0, SEEN)).count_ones();
        add(&self.flushed_lines, 1);
        add(&self.dirty_bytes, u64::from(dirty));
        add(&self.clean_flushes, u64::from(dirty == 0));
    }
}

impl<M: Medium + Sync> Layer for Counted<M> {
    type Inner = M;

    fn inner(&self) -> &M {
        &self.inner
    }

    #[inline]
    fn after(&self, access: Access) {
        if self.counts {
            self.count(access);
        }
    }

    fn divide(&self, parts: usize, work: &(dyn Fn(&Self, usize) + Sync)) {
        self.share_out_below(parts, work);
    }
}

/// Counts are sums of independent events; nothing else is ordered by them.
const SEEN: Ordering = Ordering::Relaxed;

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, SEEN);
}

/// The bits of `len` bytes from `at` on, all in one line; bit 0 is the line's first byte.
fn bytes_mask(at: PoolOffset, len: usize) -> u64 {
    (u64::MAX >> (64 - len)) << at.in_line()
}

/// Lines whose masks are allocated together: those of 4 MiB.
const CHUNK_LINES: u64 = 1 << 16;

type Chunk = OnceLock<Box<[AtomicU64]>>;

/// One bit for each byte that was stored and not flushed, allocated where there are stores.
#[derive(Default)]
struct DirtyBytes {
    chunks: RwLock<Vec<Chunk>>,
}

impl DirtyBytes {
    /// Passes the mask of `line` to `change`.
    fn with<R>(&self, line: LineAddr, change: impl Fn(&AtomicU64) -> R) -> R {
        let index = (line.0 / CHUNK_LINES) as usize;
        loop {
            let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(chunk) = chunks.get(index) {
                let masks = chunk.get_or_init(|| (0..CHUNK_LINES).map(|_| 0.into()).collect());
                return change(&masks[(line.0 % CHUNK_LINES) as usize]);
            }
            drop(chunks);
            let mut chunks = self.chunks.write().unwrap_or_else(PoisonError::into_inner);
            if chunks.len() <= index {
                chunks.resize_with(index + 1, Chunk::new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Heap;

    #[test]
    fn every_operation_is_counted_once() {
        let medium = Counted::new(Heap::new(4096));
        medium.store(PoolOffset(60), &[1; 8]);
        medium.store_u64(PoolOffset(64), 2);
        medium.store(PoolOffset(130), &[9; 4]);
        medium.store_nt(PoolOffset(128), &[3; 128]);
        medium.store_line(LineAddr(4), &[4; 64]);
        assert_eq!(medium.compare_exchange_u64(PoolOffset(512), 0, 5), Ok(0));
        assert_eq!(medium.compare_exchange_u64(PoolOffset(512), 0, 6), Err(5));
        medium.flush_range(PoolOffset(60), 8);
        medium.flush(LineAddr(2));
        medium.fence();
        let counted = Counters {
            // Lines 0 and 1 have 4 and 8 dirty bytes; line 2 was stored to, then
            // streamed, and is clean.
            flushed_lines: 3,
            clean_flushes: 1,
            dirty_bytes: 12,
            fences: 1,
            streamed_lines: 3,
            stored_bytes: 8 + 8 + 4 + 128 + 64 + 8,
        };
        assert_eq!(medium.counters(), counted);
        assert_eq!(medium.counters().dirtiness(), Some(12.0 / 192.0));
    }

    #[test]
    fn a_byte_is_dirty_until_it_is_flushed_however_often_it_is_stored() {
        let medium = Counted::new(Heap::new(4096));
        assert_eq!(medium.counters().dirtiness(), None);
        for _ in 0..3 {
            medium.store(PoolOffset(0), &[7; 64]);
        }
        medium.reset();
        assert_eq!(medium.counters(), Counters::default());
        medium.flush(LineAddr(0));
        assert_eq!(medium.counters().dirtiness(), Some(1.0));
        let before = medium.counters();
        medium.flush(LineAddr(0));
        let again = medium.counters() - before;
        let clean = Counters { flushed_lines: 1, clean_flushes: 1, ..Counters::default() };
        assert_eq!(again, clean);
    }

    #[test]
    fn what_the_medium_refuses_is_not_counted() {
        let medium = Counted::new(Heap::new(64));
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            medium.store(PoolOffset(60), &[0; 8]);
        }));
        assert!(refused.is_err());
        assert_eq!(medium.counters(), Counters::default());
    }

    #[test]
    fn several_threads_lose_no_count() {
        const LINES: u64 = if cfg!(miri) { 8 } else { 1000 };
        let medium = Counted::new(Heap::new(8 * LINES * 64));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let medium = &medium;
                scope.spawn(move || {
                    for i in 0..LINES {
                        let line = LineAddr(thread * LINES + i);
                        medium.store_u64(line.start(), i);
                        medium.flush(line);
                        medium.fence();
                    }
                });
            }
        });
        let counters = medium.counters();
        assert_eq!((counters.flushed_lines, counters.fences), (4 * LINES, 4 * LINES));
        assert_eq!((counters.dirty_bytes, counters.clean_flushes), (4 * LINES * 8, 0));
    }
}
