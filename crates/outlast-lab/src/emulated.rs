//! What a scheme flushes under a cache of a given size: run on an emulated cache, and counted.
//!
//! On a real machine nobody can tell whether a flush found a dirty line. Here a workload runs on
//! functional memory, and every load, store and flush also goes through a set-associative cache
//! of the simulator, which knows. Flushes are told apart by where the line lies: the lanes' rings
//! are the log, the heap is data, the header page is neither.
//!
//! *Dirtiness* is counted in two ways. Of every flushed line: the bytes stored to it since it was
//! flushed before, whatever the cache did meanwhile; that is what a program knows, and 1 minus it is
//! what it flushes for nothing. And of the lines that a flush finds dirty: the bytes that were
//! newer in the cache than in memory.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlast::{Abort, CreateOptions, OpenOptions, Pool, PoolError, Scheme, UnrecoveredPool};
use outlast_pmem::Recorder;
use outlast_sim::{Cache, CacheConfig, ConfigError, Contents};
use outlast_trace::{
    ByteRange, FlushKind, LINE_BYTES, LaneId, LineAddr, Op, PoolOffset, Sink, line_pieces,
};
use outlast_workloads::{Scale, Workload};

/// What is emulated.
#[derive(Clone, Copy, Debug)]
pub struct Emulation {
    /// Which workload.
    pub workload: &'static Workload,
    /// Under which scheme.
    pub scheme: Scheme,
    /// Whether the pool keeps checksums.
    pub checksums: bool,
    /// How much of it.
    pub scale: Scale,
    /// Transactions before the count begins, so that cache and log are as in the long run.
    pub warm_up: u64,
    /// Transactions counted.
    pub transactions: u64,
    /// The cache: one level, as the paper's estimate has it.
    pub cache: CacheConfig,
    /// Bytes of the cache that the scheme reckons with.
    pub reckoned_bytes: u64,
    /// Bytes of the lane's log.
    pub lane_bytes: u64,
    /// By which instruction lines are flushed.
    pub flush: FlushKind,
    /// The seed of everything drawn.
    pub seed: u64,
}

/// Flushes of one kind of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flushes {
    /// Issued.
    pub issued: u64,
    /// Those that found the line dirty, and so wrote it to memory.
    pub dirty: u64,
    /// Bytes of the flushed lines that were stored to since their last flush.
    pub stored_bytes: u64,
    /// Bytes that were newer in the cache than in memory.
    pub dirty_bytes: u64,
    /// How many flushes found so many words (rounded up) of stored bytes: 0 to 8.
    pub by_words: [u64; 9],
}

impl Flushes {
    /// Stored bytes over the bytes of all flushed lines; `None` without any.
    pub fn dirtiness(&self) -> Option<f64> {
        share(self.stored_bytes, self.issued * LINE_BYTES)
    }

    /// Dirty bytes over the bytes of the lines found dirty; `None` without any.
    pub fn dirtiness_found(&self) -> Option<f64> {
        share(self.dirty_bytes, self.dirty * LINE_BYTES)
    }

    fn since(&self, before: &Self) -> Self {
        let mut by_words = self.by_words;
        by_words.iter_mut().zip(before.by_words).for_each(|(now, was)| *now -= was);
        Self {
            issued: self.issued - before.issued,
            dirty: self.dirty - before.dirty,
            stored_bytes: self.stored_bytes - before.stored_bytes,
            dirty_bytes: self.dirty_bytes - before.dirty_bytes,
            by_words,
        }
    }

    fn count(&mut self, stored: u64, dirty: Option<u64>) {
        self.issued += 1;
        self.dirty += u64::from(dirty.is_some());
        self.stored_bytes += u64::from(stored.count_ones());
        self.dirty_bytes += u64::from(dirty.unwrap_or(0).count_ones());
        self.by_words[stored.count_ones().div_ceil(8) as usize] += 1;
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// What the cache saw while transactions were counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlushCounts {
    /// Lines of the heap but those of checksums.
    pub data: Flushes,
    /// Lines of checksums; only how many flushes, and how many found dirt.
    pub sums: Flushes,
    /// Lines of the lanes' rings.
    pub log: Flushes,
    /// Lines of the header page: floor, root, size.
    pub header: Flushes,
    /// Dirty lines of the heap that left the cache by themselves.
    pub data_evicted: u64,
    /// Fences.
    pub fences: u64,
    /// Bytes of memory that the scheme's history unit takes at the end; 0 if it has none.
    pub history_bytes: u64,
}

impl FlushCounts {
    /// Flushes of data and of its checksums.
    pub fn summed_issued(&self) -> u64 {
        self.data.issued + self.sums.issued
    }

    /// Those that found their lines dirty.
    pub fn summed_dirty(&self) -> u64 {
        self.data.dirty + self.sums.dirty
    }

    /// Flushes of whatever lines.
    pub fn all_issued(&self) -> u64 {
        self.summed_issued() + self.log.issued + self.header.issued
    }

    /// Those that found their lines dirty.
    pub fn all_dirty(&self) -> u64 {
        self.summed_dirty() + self.log.dirty + self.header.dirty
    }
}

/// An emulation that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum EmulationError {
    /// There is no such cache.
    #[error(transparent)]
    Cache(#[from] ConfigError),
    /// The pool could not be made.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A transaction failed.
    #[error("{workload} under {scheme}: {source}")]
    Abort {
        /// Which workload.
        workload: &'static str,
        /// Under which scheme.
        scheme: &'static str,
        /// Why.
        source: Abort,
    },
}

impl Emulation {
    /// Runs it.
    ///
    /// # Errors
    /// What could not be made or run.
    pub fn run(&self) -> Result<FlushCounts, EmulationError> {
        let Self { workload, scheme, scale, seed, lane_bytes, checksums, .. } = *self;
        let failed = |source| EmulationError::Abort {
            workload: workload.name,
            scheme: scheme.name(),
            source,
        };
        let create = CreateOptions { lanes: 1, lane_bytes, checksums, ..CreateOptions::default() };
        let heap_bytes = workload.heap_bytes(&scale);
        // A quarter of each page, and what blocks do not fill.
        let heap_bytes = if checksums { heap_bytes * 2 } else { heap_bytes };
        let bytes = (heap_bytes + lane_bytes + (64 << 20)).next_multiple_of(4096);
        let seen = Arc::new(Mutex::new(FlushCounts::default()));
        let by_line = Arc::new(Mutex::new(ByLine::default()));
        let mut sink = EmulatedCache::new(self.cache, 4096, 4096 + lane_bytes, Arc::clone(&seen))?;
        sink.by_line = checksums.then(|| Arc::clone(&by_line));
        let medium = Recorder::with_sink(vec![0; bytes as usize], sink)
            .recording_loads()
            .flushing_with(self.flush);
        let open = |scheme| OpenOptions {
            cache_bytes: Some(self.reckoned_bytes),
            sample_bits: 0,
            ..OpenOptions::with_scheme(scheme)
        };
        // What is loaded would stay in a log that nothing shortens.
        let loaded_under = if scheme == Scheme::Aof { Scheme::Redo } else { scheme };
        let mut pool = Pool::create_on(&medium, &create, &open(loaded_under))?;
        let loaded = {
            let mut lane = pool.lane()?;
            workload.load(&scale, seed, &mut lane, &mut |_, _| {}).map_err(failed)?
        };
        if loaded_under != scheme {
            pool.close();
            pool = UnrecoveredPool::open(&medium)?.recover(None)?.start(&open(scheme))?;
        }
        let mut lane = pool.lane()?;
        let mut worker = workload.worker(&scale, &loaded, seed, 1, 0);
        let total = self.warm_up + self.transactions;
        let mut before = FlushCounts::default();
        for done in 0..total {
            if done == self.warm_up {
                before = *lock(&seen);
                lock(&by_line).clear();
            }
            worker.draw();
            worker.step(&mut lane).map_err(failed)?;
        }
        drop(lane);
        let history_bytes = pool.history_bytes();
        let mut counts = FlushCounts { history_bytes, ..lock(&seen).since(&before) };
        if checksums {
            let by_line = std::mem::take(&mut *lock(&by_line));
            // Closed, so that also a literal variant's pool opens as it was.
            pool.close();
            let pool = UnrecoveredPool::open(&medium)?.recover(None)?;
            for line in pool.checksum_lines() {
                let (issued, dirty) = by_line.get(&line).copied().unwrap_or_default();
                counts.sums.issued += issued;
                counts.sums.dirty += dirty;
            }
            counts.data.issued -= counts.sums.issued;
            counts.data.dirty -= counts.sums.dirty;
        }
        Ok(counts)
    }
}

/// Flushes of each line of the heap: issued, and of these found dirty.
type ByLine = HashMap<LineAddr, (u64, u64), BuildHasherDefault<DefaultHasher>>;

impl FlushCounts {
    fn since(&self, before: &Self) -> Self {
        Self {
            data: self.data.since(&before.data),
            sums: self.sums.since(&before.sums),
            log: self.log.since(&before.log),
            header: self.header.since(&before.header),
            data_evicted: self.data_evicted - before.data_evicted,
            fences: self.fences - before.fences,
            history_bytes: self.history_bytes,
        }
    }
}

fn lock<T>(seen: &Mutex<T>) -> MutexGuard<'_, T> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cache of tags in front of memory that somebody else keeps.
struct EmulatedCache {
    cache: Cache,
    log_at: u64,
    heap_at: u64,
    /// By line, a bit for each byte stored to since the line was flushed.
    stored: Vec<u64>,
    /// By line, a bit for each byte that is newer in the cache than in memory.
    newer: Vec<u64>,
    seen: Arc<Mutex<FlushCounts>>,
    /// Where it matters which lines of the heap they are.
    by_line: Option<Arc<Mutex<ByLine>>>,
}

/// Nothing is known of the bytes, and nothing needs to be.
const BYTES: [u8; 64] = [0; 64];

impl EmulatedCache {
    fn new(
        config: CacheConfig,
        log_at: u64,
        heap_at: u64,
        seen: Arc<Mutex<FlushCounts>>,
    ) -> Result<Self, ConfigError> {
        let cache = Cache::new(config, 0)?;
        Ok(Self {
            cache,
            log_at,
            heap_at,
            stored: Vec::new(),
            newer: Vec::new(),
            seen,
            by_line: None,
        })
    }

    fn access(&mut self, line: LineAddr, dirty: bool) {
        match self.cache.access(line) {
            Some(slot) if dirty => self.cache.set_dirty(slot),
            Some(_) => {}
            None => {
                let contents = Contents { data: BYTES, dirty, owned: true, tag: () };
                let (_, evicted) = self.cache.install(line, &contents);
                if let Some(evicted) = evicted.filter(|evicted| evicted.contents.dirty) {
                    *bytes_of(&mut self.newer, evicted.line) = 0;
                    let is_data = evicted.line.start().0 >= self.heap_at;
                    lock(&self.seen).data_evicted += u64::from(is_data);
                }
            }
        }
    }

    fn store(&mut self, at: PoolOffset, len: usize) {
        for (piece, len) in line_pieces(at, len) {
            let line = piece.line();
            self.access(line, true);
            *bytes_of(&mut self.stored, line) |= bytes_mask(piece, len);
            *bytes_of(&mut self.newer, line) |= bytes_mask(piece, len);
        }
    }

    /// What goes past the cache takes the line out of it, and leaves nothing to flush.
    fn stream(&mut self, at: PoolOffset, len: usize) {
        for (piece, len) in line_pieces(at, len) {
            let line = piece.line();
            self.cache.remove(line);
            *bytes_of(&mut self.stored, line) &= !bytes_mask(piece, len);
            *bytes_of(&mut self.newer, line) = 0;
        }
    }

    fn flush(&mut self, kind: FlushKind, line: LineAddr) {
        let slot = self.cache.probe(line);
        let is_dirty = slot.is_some_and(|slot| self.cache.is_dirty(slot));
        match (slot, kind) {
            (Some(slot), FlushKind::Clwb) => self.cache.clean(slot, &BYTES),
            (Some(_), _) => drop(self.cache.remove(line)),
            (None, _) => {}
        }
        let stored = std::mem::take(bytes_of(&mut self.stored, line));
        let newer = std::mem::take(bytes_of(&mut self.newer, line));
        let mut counts = lock(&self.seen);
        let kind = match line.start().0 {
            at if at >= self.heap_at => &mut counts.data,
            at if at >= self.log_at => &mut counts.log,
            _ => &mut counts.header,
        };
        kind.count(stored, is_dirty.then_some(newer));
        if let Some(by_line) = self.by_line.as_ref().filter(|_| line.start().0 >= self.heap_at) {
            let mut by_line = lock(by_line);
            let (issued, dirty) = by_line.entry(line).or_default();
            *issued += 1;
            *dirty += u64::from(is_dirty);
        }
    }
}

/// The entry of a line in a table that grows as it needs.
fn bytes_of(table: &mut Vec<u64>, line: LineAddr) -> &mut u64 {
    let at = line.0 as usize;
    if at >= table.len() {
        table.resize((at + 1).next_multiple_of(1 << 16), 0);
    }
    &mut table[at]
}

/// A bit for each of `len` bytes of a line, from the one at `at` on.
fn bytes_mask(at: PoolOffset, len: usize) -> u64 {
    (u64::MAX >> (64 - len)) << at.in_line()
}

impl Sink for EmulatedCache {
    fn op(&mut self, _: LaneId, op: Op<'_>) {
        match op {
            Op::Load { at, len, .. } => {
                let range = ByteRange::new(at, u64::from(len));
                range.lines().for_each(|line| self.access(line, false));
            }
            Op::Store { at, bytes } | Op::Rmw { at, bytes } => self.store(at, bytes.len()),
            Op::StoreNt { at, bytes } => self.stream(at, bytes.len()),
            Op::Store64 { line, bytes } => self.stream(line.start(), bytes.len()),
            Op::Flush { kind, line } => self.flush(kind, line),
            Op::Sfence | Op::Mfence => lock(&self.seen).fences += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use outlast_workloads::Layout;

    use super::*;

    #[test]
    fn dirtiness_counts_bytes_since_the_last_flush_and_bytes_in_the_cache() {
        // Two lines of cache; line 0 is the header, line 1 the log, the heap begins with line 2.
        let seen = Arc::new(Mutex::new(FlushCounts::default()));
        let config = CacheConfig::new(128, 2);
        let mut cache = EmulatedCache::new(config, 64, 128, Arc::clone(&seen)).unwrap();
        let mut op = |op: Op<'_>| cache.op(LaneId(0), op);
        let store = |at, bytes| Op::Store { at: PoolOffset(at), bytes };
        let flush = |line| Op::Flush { kind: FlushKind::Clwb, line: LineAddr(line) };
        // Sixteen bytes, eight of them twice, then flushed twice: dirty and clean.
        op(store(128, &[1; 16]));
        op(store(136, &[2; 8]));
        op(flush(2));
        op(flush(2));
        let data = lock(&seen).data;
        assert_eq!((data.issued, data.dirty, data.stored_bytes, data.dirty_bytes), (2, 1, 16, 16));
        assert_eq!((data.dirtiness(), data.dirtiness_found()), (Some(0.125), Some(0.25)));
        assert_eq!((data.by_words[0], data.by_words[2]), (1, 1));
        // Across a line's end: eight bytes in line 2, four in line 3; two others push both out.
        op(store(184, &[3; 12]));
        op(Op::Load { at: PoolOffset(256), len: 1, depends: None });
        op(Op::Load { at: PoolOffset(320), len: 1, depends: None });
        assert_eq!(lock(&seen).data_evicted, 2);
        // Back in the cache with four more bytes: twelve since the flush, four in the cache.
        op(store(128, &[4; 4]));
        op(flush(2));
        op(flush(3));
        let data = lock(&seen).data.since(&data);
        assert_eq!((data.issued, data.dirty, data.stored_bytes, data.dirty_bytes), (2, 1, 16, 4));
        // What is streamed is not left to flush; log lines count apart.
        op(Op::StoreNt { at: PoolOffset(64), bytes: &[5; 8] });
        op(flush(1));
        let log = lock(&seen).log;
        assert_eq!((log.issued, log.dirty, log.stored_bytes), (1, 0, 0));
        // This flush takes the line out: the next store has to fetch it.
        op(store(128, &[6; 4]));
        op(Op::Flush { kind: FlushKind::ClflushOpt, line: LineAddr(2) });
        assert!(cache.cache.probe(LineAddr(2)).is_none());
    }

    fn counted(scheme: Scheme, reckoned_bytes: u64) -> FlushCounts {
        counted_on(scheme, reckoned_bytes, Layout::Plain, false)
    }

    fn counted_on(
        scheme: Scheme,
        reckoned_bytes: u64,
        layout: Layout,
        checksums: bool,
    ) -> FlushCounts {
        let workload = Workload::named("ycsb-a").unwrap();
        let scale = Scale { records: 2_000, ..workload.scale() };
        let emulation = Emulation {
            workload,
            scheme,
            checksums,
            scale: workload.laid_out(&scale, layout),
            warm_up: 4_000,
            transactions: 8_000,
            cache: CacheConfig::new(352 << 10, 11),
            reckoned_bytes,
            // Room for all that a log has which nothing shortens.
            lane_bytes: if scheme == Scheme::Aof { 8 << 20 } else { 512 << 10 },
            flush: FlushKind::Clwb,
            seed: 1,
        };
        emulation.run().unwrap()
    }

    #[test]
    fn data_flushed_by_age_is_mostly_clean_by_then() {
        let undo = counted(Scheme::Undo, 0);
        assert!(undo.data.issued > 8_000, "half of the transactions store to two or three lines");
        assert!(undo.data.dirty * 100 > undo.data.issued * 95, "just stored to, so dirty");
        for scheme in [Scheme::UndoArchapt, Scheme::RedoArchapt] {
            let aged = counted(scheme, 352 << 10);
            assert!(aged.data.issued < undo.data.issued);
            assert!(aged.data.dirty * 2 < undo.data.dirty, "{scheme}: {aged:?}");
        }
        // Reckoning with a far smaller cache than there is, flushes come too early.
        let early = counted(Scheme::RedoArchapt, 4 << 10);
        let aged = counted(Scheme::RedoArchapt, 352 << 10);
        assert!(early.data.dirty > aged.data.dirty);
    }

    /// Half of 8,000 transactions update one field of 100 bytes: two lines with its mark where they
    /// lie together, and with everything apart 2.5 for the value and one for the mark.
    #[test]
    fn coalescing_saves_the_lines_that_the_layout_says() {
        let updates = 4_000.0;
        let per_update =
            |layout| counted_on(Scheme::Undo, 0, layout, false).data.issued as f64 / updates;
        let (coalesced, scattered) = (per_update(Layout::Coalesced), per_update(Layout::Scattered));
        assert!((1.95..2.1).contains(&coalesced), "{coalesced}");
        assert!((3.3..3.65).contains(&scattered), "{scattered}");
    }

    #[test]
    fn checksums_are_counted_beside_the_data_that_they_cover() {
        for scheme in [Scheme::UndoArchapt, Scheme::RedoArchapt] {
            let plain = counted_on(scheme, 352 << 10, Layout::Coalesced, false);
            let summed = counted_on(scheme, 352 << 10, Layout::Coalesced, true);
            assert_eq!(plain.sums, Flushes::default());
            // An update of two lines changes their column, one or two rows and the spare line.
            assert!(summed.sums.issued > summed.data.issued / 2, "{summed:?}");
            assert!(summed.sums.dirty <= summed.sums.issued);
            let (with, without) = (summed.data.issued as f64, plain.data.issued as f64);
            assert!((0.5..2.0).contains(&(with / without)), "the data is the same: {summed:?}");
            assert_eq!(
                summed.all_issued(),
                summed.summed_issued() + summed.log.issued + summed.header.issued
            );
        }
    }

    #[test]
    fn a_log_that_nothing_shortens_counts_as_log() {
        let aof = counted_on(Scheme::Aof, 0, Layout::Coalesced, false);
        assert!(aof.log.issued > 4_000 && aof.data.issued < 100, "{aof:?}");
    }
}
