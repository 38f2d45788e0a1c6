//! A medium over another one: stores stay in volatile memory, page by page, and the medium
//! underneath is only ever read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlast_trace::{LineAddr, PoolOffset};

use crate::error::PAGE_BYTES;
use crate::medium::{Medium, check_bounds};

/// What a page holds once something was stored to it.
type Page = Box<[u8; PAGE_BYTES as usize]>;

/// Copy on write over any medium: recovery, or a whole program, works on it and leaves what is
/// underneath as it was. It takes memory for the pages that were stored to, and a bit for each other.
///
/// Nothing becomes durable, so flushes and fences do nothing. Accesses to changed pages take a lock.
///
/// ```
/// use outlast_pmem::{Heap, Medium, Overlay};
/// use outlast_trace::PoolOffset;
///
/// let below = Heap::from_bytes(&[7; 8192]);
/// let above = Overlay::new(&below);
/// above.store_u64(PoolOffset(4096), 1);
/// assert_eq!(above.load_u64(PoolOffset(4096)), 1);
/// assert_eq!(below.load_u64(PoolOffset(4096)), 0x0707_0707_0707_0707);
/// assert_eq!(above.changed_bytes(), 4096);
/// ```
pub struct Overlay<M> {
    below: M,
    /// A bit for each page that `pages` has: most accesses are to others, and need no lock.
    changed: Box<[AtomicU64]>,
    pages: Mutex<HashMap<u64, Page>>,
}

impl<M: Medium> Overlay<M> {
    /// Nothing is changed yet.
    pub fn new(below: M) -> Self {
        let words = below.len().div_ceil(PAGE_BYTES).div_ceil(64);
        let changed = (0..words).map(|_| AtomicU64::new(0)).collect();
        Self { below, changed, pages: Mutex::new(HashMap::new()) }
    }

    /// Bytes of the pages that were stored to.
    pub fn changed_bytes(&self) -> u64 {
        self.pages().len() as u64 * PAGE_BYTES
    }

    /// The medium underneath, to read.
    pub fn below(&self) -> &M {
        &self.below
    }

    /// The medium underneath, as it was given.
    pub fn into_below(self) -> M {
        self.below
    }

    fn pages(&self) -> MutexGuard<'_, HashMap<u64, Page>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_changed(&self, page: u64) -> bool {
        self.changed[(page / 64) as usize].load(Ordering::Acquire) >> (page % 64) & 1 == 1
    }

    /// The page, copied from underneath if it was not yet.
    fn page<'a>(&self, pages: &'a mut HashMap<u64, Page>, page: u64) -> &'a mut Page {
        let copied = pages.entry(page).or_insert_with(|| {
            let mut copy = Box::new([0; PAGE_BYTES as usize]);
            let at = page * PAGE_BYTES;
            let bytes = PAGE_BYTES.min(self.below.len() - at);
            self.below.load(PoolOffset(at), &mut copy[..bytes as usize]);
            copy
        });
        self.changed[(page / 64) as usize].fetch_or(1 << (page % 64), Ordering::Release);
        copied
    }
}

/// The parts of a range of bytes that lie in one page each: the page, the first byte in it, and the
/// part's length.
fn parts(at: PoolOffset, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let from = at.0 + done as u64;
        let inside = (from % PAGE_BYTES) as usize;
        let bytes = (len - done).min(PAGE_BYTES as usize - inside);
        done += bytes;
        (bytes > 0).then_some((from / PAGE_BYTES, inside, bytes))
    })
}

/// The word at this place of a page.
fn word(page: &Page, inside: usize) -> u64 {
    u64::from_le_bytes(page[inside..inside + 8].try_into().expect("8 bytes"))
}

impl<M: Medium> Medium for Overlay<M> {
    const OBSERVED: bool = false;

    fn has_atomic_line(&self) -> bool {
        false
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn is_forked(&self) -> bool {
        self.below.is_forked()
    }

    fn failure(&self) -> Option<crate::MediumFailure> {
        self.below.failure()
    }

    fn is_usable(&self) -> bool {
        self.below.is_usable()
    }

    fn is_paged(&self) -> bool {
        self.below.is_paged()
    }

    fn load(&self, at: PoolOffset, out: &mut [u8]) {
        check_bounds(self.len(), at, out.len() as u64);
        let mut done = 0;
        for (page, inside, bytes) in parts(at, out.len()) {
            let out = &mut out[done..done + bytes];
            match self.is_changed(page).then(|| self.pages()) {
                Some(pages) => out.copy_from_slice(&pages[&page][inside..inside + bytes]),
                None => self.below.load(at.plus(done as u64), out),
            }
            done += bytes;
        }
    }

    fn load_u64(&self, at: PoolOffset) -> u64 {
        assert!(at.is_aligned(8), "a word at {at} is not aligned");
        check_bounds(self.len(), at, 8);
        let (page, inside) = (at.0 / PAGE_BYTES, (at.0 % PAGE_BYTES) as usize);
        match self.is_changed(page).then(|| self.pages()) {
            Some(pages) => word(&pages[&page], inside),
            None => self.below.load_u64(at),
        }
    }

    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        check_bounds(self.len(), at, bytes.len() as u64);
        let mut pages = self.pages();
        let mut done = 0;
        for (page, inside, len) in parts(at, bytes.len()) {
            self.page(&mut pages, page)[inside..inside + len]
                .copy_from_slice(&bytes[done..done + len]);
            done += len;
        }
    }

    fn store_u64(&self, at: PoolOffset, value: u64) {
        assert!(at.is_aligned(8), "a word at {at} is not aligned");
        self.store(at, &value.to_le_bytes());
    }

    fn store_nt(&self, at: PoolOffset, bytes: &[u8]) {
        assert!(at.is_aligned(8) && bytes.len().is_multiple_of(8), "streams take whole words");
        self.store(at, bytes);
    }

    fn store_line(&self, line: LineAddr, bytes: &[u8; 64]) {
        self.store(line.start(), bytes);
    }

    fn flush(&self, line: LineAddr) {
        check_bounds(self.len(), line.start(), 64);
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        assert!(at.is_aligned(8), "a word at {at} is not aligned");
        check_bounds(self.len(), at, 8);
        let (page, inside) = (at.0 / PAGE_BYTES, (at.0 % PAGE_BYTES) as usize);
        let mut pages = self.pages();
        let page = self.page(&mut pages, page);
        let found = word(page, inside);
        if found != current {
            return Err(found);
        }
        page[inside..inside + 8].copy_from_slice(&new.to_le_bytes());
        Ok(found)
    }

    fn prefetch_read(&self, line: LineAddr) {
        self.below.prefetch_read(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Heap;

    /// Whatever is stored, an overlay reads as a copy would, and nothing changes underneath.
    #[test]
    fn it_is_a_copy_that_takes_only_the_pages_that_change() {
        let bytes: Vec<u8> = (0..5 * PAGE_BYTES - 64).map(|i| (i * 7 + i / 256) as u8).collect();
        let below = Heap::from_bytes(&bytes);
        let (above, copy) = (Overlay::new(&below), Heap::from_bytes(&bytes));
        let last = bytes.len() as u64;
        for (at, new) in [(PAGE_BYTES - 3, &[9; 6][..]), (last - 5, &[8; 5]), (64, &[])] {
            above.store(PoolOffset(at), new);
            copy.store(PoolOffset(at), new);
        }
        above.use_words();
        copy.use_words();
        assert_eq!(above.changed_bytes(), 3 * PAGE_BYTES);
        for (at, len) in [(0, last), (PAGE_BYTES - 10, 2 * PAGE_BYTES), (last - 70, 70), (9, 1)] {
            let (mut a, mut b) = (vec![0; len as usize], vec![0; len as usize]);
            above.load(PoolOffset(at), &mut a);
            copy.load(PoolOffset(at), &mut b);
            assert!(a == b, "{len} bytes at {at}");
        }
        assert!(below.to_bytes() == bytes);
    }

    trait UseWords {
        fn use_words(&self);
    }

    impl<M: Medium> UseWords for M {
        fn use_words(&self) {
            let (at, never) = (PoolOffset(PAGE_BYTES + 16), PoolOffset(3 * PAGE_BYTES));
            self.store_u64(at, 5);
            assert_eq!(self.compare_exchange_u64(at, 5, 6), Ok(5));
            assert_eq!(self.compare_exchange_u64(at, 5, 7), Err(6));
            assert_eq!(self.load_u64(at), 6);
            self.store_line(LineAddr(2), &[3; 64]);
            self.store_nt(PoolOffset(256), &[4; 16]);
            self.flush_range(PoolOffset(0), 512);
            self.fence();
            assert_ne!(self.load_u64(never), 0);
        }
    }

    #[test]
    #[should_panic(expected = "leaves a medium of 4096 bytes")]
    fn an_access_past_the_end_panics() {
        Overlay::new(Heap::new(4096)).store(PoolOffset(4090), &[0; 8]);
    }
}
