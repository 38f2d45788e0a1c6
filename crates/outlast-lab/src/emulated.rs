//! What a scheme flushes under a cache of a given size: run on an emulated cache, and counted.
//!
//! On a real machine nobody can tell whether a flush found a dirty line. Here a workload runs on
//! functional memory, and every load, store and flush also goes through a set-associative cache
//! of the simulator, which knows. Flushes are told apart by where the line lies: the lanes' rings
//! are the log, the heap is data, the header page is neither.

use std::sync::{Arc, Mutex, PoisonError};

use outlast::{Abort, CreateOptions, OpenOptions, Pool, PoolError, Scheme};
use outlast_pmem::Recorder;
use outlast_sim::{Cache, CacheConfig, ConfigError, Contents};
use outlast_trace::{ByteRange, LaneId, LineAddr, Op, Sink};
use outlast_workloads::{Scale, Workload};

/// What is emulated.
#[derive(Clone, Copy, Debug)]
pub struct Emulation {
    /// Which workload.
    pub workload: &'static Workload,
    /// Under which scheme.
    pub scheme: Scheme,
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
}

/// What the cache saw while transactions were counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlushCounts {
    /// Lines of the heap.
    pub data: Flushes,
    /// Lines of the lanes' rings.
    pub log: Flushes,
    /// Lines of the header page: floor, root, size.
    pub header: Flushes,
    /// Dirty lines of the heap that left the cache by themselves.
    pub data_evicted: u64,
    /// Fences.
    pub fences: u64,
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
    /// Runs it. `progress` hears how many transactions are done, of how many.
    ///
    /// # Errors
    /// What could not be made or run.
    pub fn run(&self, mut progress: impl FnMut(u64, u64)) -> Result<FlushCounts, EmulationError> {
        let Self { workload, scheme, scale, seed, lane_bytes, .. } = *self;
        let failed = |source| EmulationError::Abort {
            workload: workload.name,
            scheme: scheme.name(),
            source,
        };
        let create = CreateOptions { lanes: 1, lane_bytes, ..CreateOptions::default() };
        let bytes = (workload.heap_bytes(&scale) + lane_bytes + (64 << 20)).next_multiple_of(4096);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let sink = EmulatedCache::new(self.cache, 4096, 4096 + lane_bytes, Arc::clone(&seen))?;
        let medium = Recorder::with_sink(vec![0; bytes as usize], sink).recording_loads();
        let open = OpenOptions {
            cache_bytes: Some(self.reckoned_bytes),
            sample_bits: 0,
            ..OpenOptions::with_scheme(scheme)
        };
        let pool = Pool::create_on(&medium, &create, &open)?;
        let mut lane = pool.lane()?;
        let loaded = workload.load(&scale, seed, &mut lane, &mut |_, _| {}).map_err(failed)?;
        let mut worker = workload.worker(&scale, &loaded, seed, 1, 0);
        let total = self.warm_up + self.transactions;
        let mut before = FlushCounts::default();
        for done in 0..total {
            if done == self.warm_up {
                before = read(&seen).counts;
            }
            worker.draw();
            worker.step(&mut lane).map_err(failed)?;
            if done % 4096 == 0 {
                progress(done, total);
            }
        }
        Ok(read(&seen).counts.since(&before))
    }
}

impl FlushCounts {
    fn since(&self, before: &Self) -> Self {
        let of = |now: Flushes, was: Flushes| Flushes {
            issued: now.issued - was.issued,
            dirty: now.dirty - was.dirty,
        };
        Self {
            data: of(self.data, before.data),
            log: of(self.log, before.log),
            header: of(self.header, before.header),
            data_evicted: self.data_evicted - before.data_evicted,
            fences: self.fences - before.fences,
        }
    }
}

#[derive(Default)]
struct Seen {
    counts: FlushCounts,
}

fn read(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cache of tags in front of memory that somebody else keeps.
struct EmulatedCache {
    cache: Cache,
    log_at: u64,
    heap_at: u64,
    seen: Arc<Mutex<Seen>>,
}

/// Nothing is known of the bytes, and nothing needs to be.
const BYTES: [u8; 64] = [0; 64];

impl EmulatedCache {
    fn new(
        config: CacheConfig,
        log_at: u64,
        heap_at: u64,
        seen: Arc<Mutex<Seen>>,
    ) -> Result<Self, ConfigError> {
        Ok(Self { cache: Cache::new(config, 0)?, log_at, heap_at, seen })
    }

    fn access(&mut self, line: LineAddr, dirty: bool) {
        match self.cache.access(line) {
            Some(slot) if dirty => self.cache.set_dirty(slot),
            Some(_) => {}
            None => {
                let contents = Contents { data: BYTES, dirty, owned: true };
                let (_, evicted) = self.cache.install(line, &contents);
                let lost = evicted.filter(|e| e.contents.dirty && self.is_data(e.line));
                read(&self.seen).counts.data_evicted += u64::from(lost.is_some());
            }
        }
    }

    fn is_data(&self, line: LineAddr) -> bool {
        line.start().0 >= self.heap_at
    }

    fn flush(&mut self, line: LineAddr) {
        let slot = self.cache.probe(line);
        let dirty = slot.is_some_and(|slot| self.cache.is_dirty(slot));
        if let Some(slot) = slot {
            self.cache.clean(slot, &BYTES);
        }
        let mut seen = read(&self.seen);
        let counts = &mut seen.counts;
        let kind = match line.start().0 {
            at if at >= self.heap_at => &mut counts.data,
            at if at >= self.log_at => &mut counts.log,
            _ => &mut counts.header,
        };
        kind.issued += 1;
        kind.dirty += u64::from(dirty);
    }
}

impl Sink for EmulatedCache {
    fn op(&mut self, _: LaneId, op: Op<'_>) {
        match op {
            Op::Load { at, len, .. } => {
                let range = ByteRange::new(at, u64::from(len));
                range.lines().for_each(|line| self.access(line, false));
            }
            Op::Store { at, bytes } | Op::Rmw { at, bytes } => {
                let range = ByteRange::new(at, bytes.len() as u64);
                range.lines().for_each(|line| self.access(line, true));
            }
            Op::StoreNt { at, bytes } => {
                for line in ByteRange::new(at, bytes.len() as u64).lines() {
                    self.cache.remove(line);
                }
            }
            Op::Store64 { line, .. } => {
                self.cache.remove(line);
            }
            Op::Flush { line, .. } => self.flush(line),
            Op::Sfence | Op::Mfence => read(&self.seen).counts.fences += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(scheme: Scheme, reckoned_bytes: u64) -> FlushCounts {
        let workload = Workload::named("ycsb-a").unwrap();
        let emulation = Emulation {
            workload,
            scheme,
            scale: Scale { records: 2_000, ..workload.scale() },
            warm_up: 4_000,
            transactions: 8_000,
            cache: CacheConfig::new(352 << 10, 11),
            reckoned_bytes,
            lane_bytes: 512 << 10,
            seed: 1,
        };
        emulation.run(|_, _| ()).unwrap()
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
}
