//! What a scheme flushes under a cache of a given size: run on an emulated cache, and counted.
//!
//! A real machine does not tell whether a flush found a dirty line. Here a workload runs on
//! functional memory, and every load, store and flush also goes through a set-associative cache
//! of the simulator, which knows. Flushes are told apart by where the line lies: the lanes' rings
//! are the log, the heap is data, the header page is neither.
//!
//! *Dirtiness* is counted in two ways. Of every flushed line: the bytes stored to it since it was
//! flushed before, whatever the cache did meanwhile; that is what a program knows, and 1 minus it is
//! what it flushes for nothing. And of the lines that a flush finds dirty: the bytes that were
//! newer in the cache than in memory.

mod cache;

use std::sync::{Arc, Mutex};

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Abort, Pool, PoolError, Scheme};
use outlast_pmem::Recorder;
use outlast_sim::{CacheConfig, ConfigError};
use outlast_trace::{FlushKind, LINE_BYTES, Sink};
use outlast_workloads::{Scale, Workload};

use self::cache::{EmulatedCache, Seen, lock};

/// Functional memory and what observes it. The runtime and all workloads are compiled for each type of
/// medium, hence one for all observers.
pub(crate) type Observed = Recorder<Box<dyn Sink + Send>>;

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
    /// Flushes by the words (rounded up) of stored bytes that they found: 0 to 8.
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
        let seen = Arc::new(Mutex::new(Seen::new(checksums)));
        let sink = EmulatedCache::new(self.cache, 4096, 4096 + lane_bytes, Arc::clone(&seen))?;
        let medium = Observed::with_sink(vec![0; bytes as usize], Box::new(sink))
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
            pool = UnrecoveredPool::open(&medium)?.recover()?.start(&open(scheme))?;
        }
        let mut lane = pool.lane()?;
        let mut worker = workload.worker(&scale, &loaded, seed, 1, 0);
        let total = self.warm_up + self.transactions;
        let mut before = FlushCounts::default();
        for done in 0..total {
            if done == self.warm_up {
                before = lock(&seen).begin();
            }
            worker.draw();
            worker.step(&mut lane).map_err(failed)?;
        }
        drop(lane);
        let history_bytes = pool.history_bytes();
        let mut counts = FlushCounts { history_bytes, ..lock(&seen).counts.since(&before) };
        // Closing flushes too, and that is not counted.
        let by_line = lock(&seen).by_line.take();
        // Closed, so that also a literal variant's pool opens as it was.
        pool.close();
        if let Some(by_line) = by_line {
            let of_lines: u64 = by_line.iter().map(|(issued, _)| u64::from(*issued)).sum();
            debug_assert_eq!(of_lines, counts.data.issued, "both count the same flushes");
            let pool = UnrecoveredPool::open(&medium)?.recover()?;
            for line in pool.checksum_lines() {
                let (issued, dirty) = by_line.get(line.0 as usize).copied().unwrap_or_default();
                counts.sums.issued += u64::from(issued);
                counts.sums.dirty += u64::from(dirty);
            }
            counts.data.issued -= counts.sums.issued;
            counts.data.dirty -= counts.sums.dirty;
        }
        Ok(counts)
    }
}

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

#[cfg(test)]
mod tests {
    use outlast_workloads::Layout;

    use super::*;

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
