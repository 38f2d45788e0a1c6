//! A page cache in user space, over a disk of which a power cut keeps what was synced.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use outlast_trace::{LineAddr, PoolOffset};

use crate::error::{MapError, MediumFailure, PAGE_BYTES, same_error};
use crate::fence_log::{FenceLog, FenceLogBug, FenceRegion, Pages};
use crate::heap::Heap;
use crate::mapped::pages::PageNotes;
use crate::medium::Medium;

/// Memory whose fences write pages to a disk, as the domain `page` has it, and a power cut that can
/// come between any two operations of any threads.
///
/// Flushes and fences are those of [`Mapped`](crate::Mapped) in that domain: a log of fences where there is
/// one, else one span of pages; one write for all threads that wait together. Only system calls are replaced, by a copy to a disk that is
/// a vector of bytes. [`cut`](Self::cut) gives what is on it then: all that was synced, and of the rest
/// any units of some bytes, since the system writes any page at any time and sectors tear.
///
/// ```
/// use outlast_pmem::{Medium, PageCache};
/// use outlast_trace::PoolOffset;
///
/// let medium = PageCache::new(8192);
/// medium.store_u64(PoolOffset(0), 7);
/// medium.store_u64(PoolOffset(4096), 8);
/// medium.flush_range(PoolOffset(0), 8);
/// medium.fence();
/// let image = medium.cut(512, || 0, || ()).1;
/// assert_eq!((image[0], image[4096]), (7, 0));
/// ```
pub struct PageCache {
    memory: Heap,
    disk: Mutex<Vec<u8>>,
    pages: PageNotes,
    /// Held by each operation, and alone by a power cut: it sees one moment of all threads.
    powered: RwLock<()>,
    planted: u16,
    bug: Option<FenceLogBug>,
    /// Flushes do nothing, as in the domain `process`.
    is_volatile: bool,
    cuts: Option<Mutex<Cuts>>,
    /// Writes to the disk so far, and the one that fails.
    writes: AtomicU64,
    failing: u64,
    failed: OnceLock<Failed>,
}

/// What a failed write has left.
struct Failed {
    failure: MediumFailure,
    /// The memory at that moment: later stores do not come to the disk.
    memory: Vec<u8>,
}

/// The name that errors give.
const NAME: &str = "the page cache";

/// The number of an error of input or output.
const EIO: i32 = 5;

/// Power cuts before each write to the disk.
struct Cuts {
    unit: usize,
    random: Box<dyn FnMut() -> u64 + Send>,
    images: Vec<Vec<u8>>,
}

impl PageCache {
    /// `len` zero bytes, durable, rounded up to whole pages.
    pub fn new(len: u64) -> Self {
        let len = len.next_multiple_of(PAGE_BYTES);
        Self {
            memory: Heap::new(len),
            disk: Mutex::new(vec![0; len as usize]),
            pages: PageNotes::default(),
            powered: RwLock::new(()),
            planted: 0,
            bug: None,
            is_volatile: false,
            cuts: None,
            writes: AtomicU64::new(0),
            failing: u64::MAX,
            failed: OnceLock::new(),
        }
    }

    /// A disk that holds these bytes, whole pages of them, and memory that has read them.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let cache = Self::new(bytes.len() as u64);
        cache.memory.store(PoolOffset(0), bytes);
        cache.disk()[..bytes.len()].copy_from_slice(bytes);
        cache
    }

    /// What the next process finds when this one dies and power stays: memory and disk as they are, and no
    /// flush that was under way.
    #[must_use]
    pub fn after_the_process(self) -> Self {
        let (pages, failed) = (PageNotes::default(), OnceLock::new());
        Self { pages, cuts: None, failing: u64::MAX, failed, ..self }
    }

    /// From now on flushes and fences do nothing, as in the domain `process`.
    #[must_use]
    pub fn in_process(self) -> Self {
        Self { is_volatile: true, ..self }
    }

    /// Carries the number of a bug ([`Medium::planted`]).
    #[must_use]
    pub fn planting(self, bug: u16) -> Self {
        Self { planted: bug, ..self }
    }

    /// The write to the disk of that number, counted from 0, fails, when half of its pages are
    /// written, and so does every later fence.
    #[must_use]
    pub fn failing_at(self, write: u64) -> Self {
        Self { failing: write, ..self }
    }

    /// How often something was to be written to the disk.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Breaks its log of fences.
    #[must_use]
    pub fn breaking(self, bug: FenceLogBug) -> Self {
        Self { bug: Some(bug), ..self }
    }

    /// What is on the disk when power fails now, between two operations of every thread, and what
    /// `witness` tells of that moment, which is asked just before it. Of what was stored and not
    /// synced, each unit of `unit` bytes is there if a number from `random` is odd.
    ///
    /// The threads run on: to them nothing has happened.
    pub fn cut<W>(
        &self,
        unit: usize,
        mut random: impl FnMut() -> u64,
        witness: impl FnOnce() -> W,
    ) -> (W, Vec<u8>) {
        let seen = witness();
        let _alone = self.powered.write().unwrap_or_else(PoisonError::into_inner);
        let mut image = self.disk().clone();
        let memory = match self.failed.get() {
            Some(failed) => failed.memory.clone(),
            None => self.memory.to_bytes(),
        };
        for (durable, stored) in image.chunks_mut(unit).zip(memory.chunks(unit)) {
            if durable != stored && random() % 2 == 1 {
                durable.copy_from_slice(stored);
            }
        }
        (seen, image)
    }

    /// Keeps what a [cut](Self::cut) would leave before each write to the disk: [`cuts`](Self::cuts).
    #[must_use]
    pub fn cut_at_each_sync(
        self,
        unit: usize,
        random: impl FnMut() -> u64 + Send + 'static,
    ) -> Self {
        let cuts = Cuts { unit, random: Box::new(random), images: Vec::new() };
        Self { cuts: Some(Mutex::new(cuts)), ..self }
    }

    /// What the cuts have left so far, of those that were not taken before.
    pub fn cuts(&self) -> Vec<Vec<u8>> {
        let cuts = self.cuts.iter().map(|cuts| cuts.lock().unwrap_or_else(PoisonError::into_inner));
        cuts.flat_map(|mut cuts| std::mem::take(&mut cuts.images)).collect()
    }

    fn cut_before_sync(&self) {
        let Some(cuts) = &self.cuts else { return };
        let mut cuts = cuts.lock().unwrap_or_else(PoisonError::into_inner);
        let Cuts { unit, random, images } = &mut *cuts;
        images.push(self.cut(*unit, random, || ()).1);
    }

    /// How often something was written to the disk.
    pub fn syncs(&self) -> u64 {
        self.pages.syncs()
    }

    fn disk(&self) -> MutexGuard<'_, Vec<u8>> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn powered(&self) -> RwLockReadGuard<'_, ()> {
        self.powered.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, at: PoolOffset, len: usize) {
        if !self.is_volatile {
            self.pages.note(at.0, len as u64);
        }
    }

    /// A page is written as it stands at one moment or another; power may fail between two of them.
    fn write_page(&self, at: u64) {
        let _powered = self.powered();
        let page = &mut self.disk()[at as usize..][..PAGE_BYTES as usize];
        self.memory.load(PoolOffset(at), page);
    }
}

impl Pages for PageCache {
    fn load_word(&self, at: PoolOffset) -> u64 {
        self.memory.load_u64(at)
    }

    fn write_back(&self, bytes: Range<u64>) -> io::Result<()> {
        self.cut_before_sync();
        // A disk writes pages in any order: here in both directions by turns.
        let mut pages = bytes.step_by(PAGE_BYTES as usize).collect::<Vec<_>>();
        if self.syncs().is_multiple_of(2) {
            pages.reverse();
        }
        let fails = self.writes.fetch_add(1, Ordering::Relaxed) == self.failing;
        if fails {
            pages.truncate(pages.len() / 2);
        }
        pages.into_iter().for_each(|page| self.write_page(page));
        if fails { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }

    fn fail(&self, error: &io::Error) {
        self.failed.get_or_init(|| {
            let _alone = self.powered.write().unwrap_or_else(PoisonError::into_inner);
            let failure = MediumFailure::new(Path::new(NAME), "sync", same_error(error));
            Failed { failure, memory: self.memory.to_bytes() }
        });
    }

    fn write_through(&self, at: PoolOffset, bytes: &[u8]) -> io::Result<()> {
        self.store(at, bytes);
        let page = |at: u64| at / PAGE_BYTES * PAGE_BYTES;
        self.write_back(page(at.0)..page(at.0 + bytes.len() as u64 - 1) + PAGE_BYTES)
    }
}

impl Medium for PageCache {
    const OBSERVED: bool = true;

    fn planted(&self) -> u16 {
        self.planted
    }

    fn has_atomic_line(&self) -> bool {
        false
    }

    fn is_paged(&self) -> bool {
        !self.is_volatile
    }

    fn len(&self) -> u64 {
        self.memory.len()
    }

    fn load(&self, at: PoolOffset, out: &mut [u8]) {
        self.memory.load(at, out);
    }

    fn load_u64(&self, at: PoolOffset) -> u64 {
        self.memory.load_u64(at)
    }

    /// Word by word: power may fail between any two.
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        let mut done = 0;
        for (piece, len) in outlast_trace::word_pieces(at, bytes.len()) {
            let _powered = self.powered();
            self.memory.store(piece, &bytes[done..done + len]);
            done += len;
        }
    }

    fn store_u64(&self, at: PoolOffset, value: u64) {
        let _powered = self.powered();
        self.memory.store_u64(at, value);
    }

    fn store_nt(&self, at: PoolOffset, bytes: &[u8]) {
        assert!(at.is_aligned(8) && bytes.len().is_multiple_of(8), "streams take whole words");
        self.store(at, bytes);
        self.note(at, bytes.len());
    }

    fn store_line(&self, line: LineAddr, bytes: &[u8; 64]) {
        self.store_nt(line.start(), bytes);
    }

    fn stream_from(&self, _: LineAddr, _: u64) -> u64 {
        u64::MAX
    }

    fn flush(&self, line: LineAddr) {
        self.memory.flush(line);
        self.note(line.start(), 64);
    }

    fn fence(&self) {
        let _ = self.try_fence();
    }

    fn try_fence(&self) -> bool {
        self.pages.drain(self)
    }

    fn failure(&self) -> Option<MediumFailure> {
        self.failed.get().map(|failed| failed.failure.clone())
    }

    fn begin_fence_log(&self, region: FenceRegion, first: u64) {
        if self.is_volatile {
            return;
        }
        self.pages.begin_log(FenceLog::new(region, first, self.bug));
    }

    fn fence_log_used_bytes(&self) -> u64 {
        self.pages.log_used_bytes()
    }

    fn write_in_place(&self) -> Result<(), MapError> {
        let written = match self.failed.get() {
            Some(_) => Err(io::Error::from_raw_os_error(EIO)),
            None => self.write_back(0..self.len()),
        };
        written.map_err(|error| {
            Pages::fail(self, &error);
            self.pages.fail();
            MapError::io(Path::new(NAME), "sync", error)
        })?;
        self.pages.end_log();
        Ok(())
    }

    /// Zeros, as a hole reads; a power cut may find the bytes of before.
    fn release(&self, at: PoolOffset, len: u64) {
        let pages = at.0.next_multiple_of(PAGE_BYTES)..(at.0 + len) / PAGE_BYTES * PAGE_BYTES;
        for page in pages.step_by(PAGE_BYTES as usize) {
            self.store(PoolOffset(page), &[0; PAGE_BYTES as usize]);
        }
    }

    fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.fence();
        let _powered = self.powered();
        self.memory.compare_exchange_u64(at, current, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_keeps_what_was_synced_and_any_units_of_the_rest() {
        let medium = PageCache::new(3 * PAGE_BYTES);
        let last = PoolOffset(2 * PAGE_BYTES + 512);
        for at in [PoolOffset(0), PoolOffset(PAGE_BYTES), last] {
            medium.store(at, &[1; 600]);
        }
        medium.flush(LineAddr(0));
        assert!(medium.cut(512, || 0, || ()).1.iter().all(|byte| *byte == 0), "nothing is synced");
        medium.fence();
        medium.fence();
        assert_eq!(medium.syncs(), 1, "the second fence found nothing");
        medium.store(PoolOffset(0), &[2; 600]);

        let at = |image: &[u8], at: u64| image[at as usize];
        let (seen, image) = medium.cut(512, || 0, || 5);
        assert_eq!((seen, at(&image, 0), at(&image, PAGE_BYTES), at(&image, last.0)), (5, 1, 0, 0));
        let mut turn = 0;
        let every_second = || {
            turn += 1;
            turn
        };
        let (_, image) = medium.cut(512, every_second, || ());
        let units = [0, 512, PAGE_BYTES, PAGE_BYTES + 512, last.0, last.0 + 512];
        assert_eq!(units.map(|unit| at(&image, unit)), [2, 1, 1, 0, 1, 0]);
        assert_eq!(at(&image, 64), 2, "a unit is there as a whole");
    }
}
