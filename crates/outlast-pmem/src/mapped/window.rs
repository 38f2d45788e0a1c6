//! Checked access to a mapping: the one place where offsets become pointers.
//!
//! Every method checks its range and then does what its name says with as few instructions as
//! there are. A window over a mapping for reading only has zero writable bytes, so that a store
//! through it fails the check that every store makes anyway; only then is the reason found out.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use outlast_trace::{FlushKind, LINE_BYTES, LineAddr, PoolOffset};

use super::os::Mapping;
use super::words;
use crate::cpu;
use crate::medium::check_bounds;

/// A mapping and the length up to which it may be accessed.
pub(crate) struct Window {
    mapping: Mapping,
    base: NonNull<u8>,
    /// Bytes that may be loaded. Grows only, and only after the bytes are mapped.
    len: AtomicU64,
    /// Bytes that may be stored to: `len`, or zero for good.
    writable_len: AtomicU64,
    writable: bool,
}

// SAFETY: `base` points into `mapping`, which may be used from any thread; everything behind it
// is accessed by atomics and by instructions that act like them.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// A window over a mapping whose first `len` bytes map a file of that length.
    pub fn new(mapping: Mapping, len: u64, writable: bool) -> Self {
        let base = mapping.base();
        let writable_len = AtomicU64::new(if writable { len } else { 0 });
        Self { mapping, base, len: AtomicU64::new(len), writable_len, writable }
    }

    /// Maps the file, which has grown to `len` bytes, and lets them be accessed. The caller
    /// holds a lock against other calls.
    pub fn extend(&self, file: &File, len: u64) -> io::Result<()> {
        self.mapping.extend(file, len)?;
        self.len.store(len, Ordering::Release);
        if self.writable {
            self.writable_len.store(len, Ordering::Release);
        }
        Ok(())
    }

    /// Maps zeros over holes of the file, so that to read them allocates nothing.
    pub fn cover_holes(&self, file: &File) -> io::Result<()> {
        self.mapping.cover_holes(file, self.len.load(Ordering::Relaxed))
    }

    /// What is stored from now on is seen by this process and reaches the file no more, as far as the
    /// system can do that.
    pub fn detach(&self, file: &File) {
        self.mapping.detach(file);
    }

    /// Writes the pages that hold `from..to` to the medium and waits for it.
    pub fn sync_pages(&self, file: &File, from: u64, to: u64) -> io::Result<()> {
        self.mapping.sync_pages(file, from, to)
    }

    /// Bytes that may be loaded.
    #[inline(always)]
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether stores are allowed at all.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Where the first byte is in this process.
    #[cfg(all(test, not(miri)))]
    pub fn base_address(&self) -> usize {
        self.base.addr().get()
    }

    #[inline(always)]
    pub fn load(&self, at: PoolOffset, out: &mut [u8]) {
        let src = self.readable(at, out.len() as u64);
        // SAFETY: the range was checked; the length is a multiple of 8, so the whole words at
        // both ends are inside as well.
        unsafe { words::copy_out(src, out) };
        // A version that is checked after an optimistic load must not be read before it.
        fence(Ordering::Acquire);
    }

    #[inline(always)]
    pub fn load_u64(&self, at: PoolOffset) -> u64 {
        if !is_word_inside(at, self.len()) {
            refuse_word(self.len(), at);
        }
        // SAFETY: aligned and inside.
        u64::from_le(unsafe { self.word(at) }.load(Ordering::Acquire))
    }

    #[inline(always)]
    pub fn store(&self, at: PoolOffset, bytes: &[u8]) {
        let dst = self.writable(at, bytes.len() as u64);
        // SAFETY: the range was checked.
        unsafe { words::copy_in(dst, bytes) };
    }

    #[inline(always)]
    pub fn store_u64(&self, at: PoolOffset, value: u64) {
        self.check_writable_word(at);
        // SAFETY: aligned and inside.
        unsafe { self.word(at) }.store(value.to_le(), Ordering::Release);
    }

    /// Stores words, each of which is checked against one reading of the length.
    #[inline(always)]
    pub fn store_u64_each(&self, words: impl Iterator<Item = (PoolOffset, u64)>) {
        let (base, len) = (self.base.as_ptr(), self.writable_len.load(Ordering::Relaxed));
        words.for_each(|(at, word)| {
            if !is_word_inside(at, len) {
                self.refuse_store(at, 8);
            }
            let to = base.wrapping_add(at.0 as usize).cast::<u64>();
            // SAFETY: aligned and inside; mapped words are accessed by atomics only, and live as long
            // as `self`.
            unsafe { AtomicU64::from_ptr(to) }.store(word.to_le(), Ordering::Release);
        });
    }

    #[inline(always)]
    pub fn store_words(&self, line: LineAddr, mask: u8, words: &[u64; 8]) {
        self.store_words_each([(line, mask, words)].into_iter());
    }

    /// Stores words of lines, each of which is checked against one reading of the length.
    #[inline(always)]
    pub fn store_words_each<'w>(&self, lines: impl Iterator<Item = (LineAddr, u8, &'w [u64; 8])>) {
        let (base, len) = (self.base.as_ptr(), self.writable_len.load(Ordering::Relaxed));
        lines.for_each(|(line, mut mask, words)| {
            if line.0 >= len / LINE_BYTES {
                self.refuse_store(line_start(line), LINE_BYTES);
            }
            let to = base.wrapping_add(line.start().0 as usize).cast::<u64>();
            while mask != 0 {
                let word = mask.trailing_zeros() as usize % 8;
                mask &= mask - 1;
                // SAFETY: the line was checked, and starts at a multiple of 64 from a page; mapped
                // words are accessed by atomics only, and live as long as `self`.
                unsafe { AtomicU64::from_ptr(to.add(word)) }
                    .store(words[word].to_le(), Ordering::Release);
            }
        });
    }

    #[inline(always)]
    pub fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.check_writable_word(at);
        // SAFETY: aligned and inside.
        let word = unsafe { self.word(at) };
        word.compare_exchange(current.to_le(), new.to_le(), Ordering::SeqCst, Ordering::SeqCst)
            .map(u64::from_le)
            .map_err(u64::from_le)
    }

    #[inline(always)]
    pub fn stream(&self, at: PoolOffset, bytes: &[u8]) {
        assert!(at.is_aligned(8) && bytes.len().is_multiple_of(8), "streams take whole words");
        let dst = self.writable(at, bytes.len() as u64);
        // SAFETY: the range and both alignments were checked.
        unsafe { cpu::stream(dst, bytes) };
    }

    #[inline(always)]
    pub fn stream_line(&self, line: LineAddr, words: &[u64; 8]) {
        let dst = self.writable_line(line);
        // SAFETY: the line was checked and is aligned, since the base is.
        unsafe { cpu::stream_line_words(dst, words) };
    }

    /// The caller knows from CPUID that the processor can store a line at once.
    #[inline(always)]
    pub fn store_line_atomic(&self, line: LineAddr, bytes: &[u8; 64]) {
        let dst = self.writable_line(line);
        // SAFETY: the line was checked and is aligned, since the base is.
        unsafe { cpu::store_line_atomic(dst, bytes) };
    }

    #[inline(always)]
    pub fn flush(&self, kind: FlushKind, line: LineAddr) {
        self.check_line(line);
        let at = self.base.as_ptr().wrapping_add(line.start().0 as usize);
        // SAFETY: the line was checked; the caller has `kind` from CPUID.
        unsafe { cpu::flush_line(kind, at) };
    }

    /// Flushes lines, each of which is checked against one reading of the length.
    #[inline(always)]
    pub fn flush_each(&self, kind: FlushKind, lines: impl Iterator<Item = LineAddr>) {
        let (base, len) = (self.base.as_ptr(), self.len());
        lines.for_each(|line| {
            if line.0 >= len / LINE_BYTES {
                refuse(len, line_start(line), LINE_BYTES);
            }
            let at = base.wrapping_add(line.start().0 as usize);
            // SAFETY: the line was checked; the caller has `kind` from CPUID.
            unsafe { cpu::flush_line(kind, at) };
        });
    }

    /// Flushes every line that the range touches, with one check.
    #[inline(always)]
    pub fn flush_range(&self, kind: FlushKind, at: PoolOffset, len: u64) {
        let first = self.readable(at, len);
        let mut line = first.wrapping_sub(at.in_line());
        let end = first.wrapping_add(len as usize);
        while len > 0 && line < end {
            // SAFETY: the line holds a byte of the range, which was checked, and the length is
            // a multiple of whole lines; the caller has `kind` from CPUID.
            unsafe { cpu::flush_line(kind, line) };
            line = line.wrapping_add(LINE_BYTES as usize);
        }
    }

    #[inline(always)]
    pub fn prefetch_write(&self, line: LineAddr) {
        cpu::prefetch_write(self.unchecked(line));
    }

    #[inline(always)]
    pub fn prefetch_read(&self, line: LineAddr) {
        cpu::prefetch_read(self.unchecked(line));
    }

    /// Where a line is, for a prefetch: that may name any address.
    #[inline(always)]
    fn unchecked(&self, line: LineAddr) -> *const u8 {
        self.base.as_ptr().wrapping_add(line.0.wrapping_mul(LINE_BYTES) as usize)
    }

    /// Where these bytes are; `None` outside the medium.
    pub fn address(&self, at: PoolOffset, len: u64) -> Option<usize> {
        let is_inside = at.0.checked_add(len).is_some_and(|end| end <= self.len());
        is_inside.then(|| self.base.as_ptr().wrapping_add(at.0 as usize).addr())
    }

    /// Panics if the line is not in the medium.
    #[inline(always)]
    pub fn check_line(&self, line: LineAddr) {
        if line.0 >= self.len() / LINE_BYTES {
            refuse(self.len(), line_start(line), LINE_BYTES);
        }
    }

    /// Panics if the range leaves the medium.
    #[inline(always)]
    pub fn check(&self, at: PoolOffset, len: u64) {
        self.readable(at, len);
    }

    #[inline(always)]
    fn readable(&self, at: PoolOffset, len: u64) -> *mut u8 {
        let limit = self.len();
        if at.0.saturating_add(len) > limit {
            refuse(limit, at, len);
        }
        self.base.as_ptr().wrapping_add(at.0 as usize)
    }

    #[inline(always)]
    fn writable(&self, at: PoolOffset, len: u64) -> *mut u8 {
        if at.0.saturating_add(len) > self.writable_len.load(Ordering::Relaxed) {
            self.refuse_store(at, len);
        }
        self.base.as_ptr().wrapping_add(at.0 as usize)
    }

    /// The first byte of a line: the length is a multiple of whole ones.
    #[inline(always)]
    fn writable_line(&self, line: LineAddr) -> *mut u8 {
        if line.0 >= self.writable_len.load(Ordering::Relaxed) / LINE_BYTES {
            self.refuse_store(line_start(line), LINE_BYTES);
        }
        self.base.as_ptr().wrapping_add((line.0 * LINE_BYTES) as usize)
    }

    #[inline(always)]
    fn check_writable_word(&self, at: PoolOffset) {
        if !is_word_inside(at, self.writable_len.load(Ordering::Relaxed)) {
            self.refuse_store(at, 8);
        }
    }

    /// # Safety
    /// `at` is a multiple of 8 below the length.
    #[inline(always)]
    unsafe fn word(&self, at: PoolOffset) -> &AtomicU64 {
        // SAFETY: the base is aligned to a page and the caller vouches for the offset; mapped
        // words are accessed by atomics only, and live as long as `self`.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at.0 as usize).cast()) }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn refuse_store(&self, at: PoolOffset, len: u64) -> ! {
        assert!(self.writable, "store of {len} bytes at {at} through a medium opened read-only");
        if len == 8 {
            refuse_word(self.len(), at);
        }
        refuse(self.len(), at, len)
    }
}

/// Whether `at` is a multiple of 8 below `len`, which is one itself, in one comparison: rotated,
/// the low bits that should be zero become the highest.
#[inline(always)]
fn is_word_inside(at: PoolOffset, len: u64) -> bool {
    at.0.rotate_right(3) < len / 8
}

/// The first byte of a line, or of the last line of all for a number beyond: that one fails its
/// check, where the product would wrap around.
#[inline(always)]
pub(crate) fn line_start(line: LineAddr) -> PoolOffset {
    LineAddr(line.0.min(u64::MAX / LINE_BYTES)).start()
}

#[cold]
#[inline(never)]
#[track_caller]
fn refuse_word(medium_len: u64, at: PoolOffset) -> ! {
    assert!(at.is_aligned(8), "a word at {at} is not aligned");
    refuse(medium_len, at, 8)
}

#[cold]
#[inline(never)]
#[track_caller]
fn refuse(medium_len: u64, at: PoolOffset, len: u64) -> ! {
    check_bounds(medium_len, at, len);
    unreachable!("access of {len} bytes at {at} was refused without a reason")
}
