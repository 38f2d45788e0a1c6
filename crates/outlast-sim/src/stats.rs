//! Counts of the caches.

use std::ops::AddAssign;

/// Counters of one cache, or the sum over several of one level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStats {
    /// Lookups for a load or a store that found the line.
    pub hits: u64,
    /// Lookups for a load or a store that did not.
    pub misses: u64,
    /// Lines put into the cache.
    pub fills: u64,
    /// Lines that left because their set was full.
    pub evictions: u64,
    /// Those of the evicted lines that were dirty, here or above, and went down.
    pub write_backs: u64,
    /// Lines removed because a level below evicted them, or another lane stored to them.
    pub invalidations: u64,
}

impl AddAssign for CacheStats {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.fills += other.fills;
        self.evictions += other.evictions;
        self.write_backs += other.write_backs;
        self.invalidations += other.invalidations;
    }
}

/// Counters of a whole hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HierarchyStats {
    /// All first levels together.
    pub l1: CacheStats,
    /// All second levels together.
    pub l2: CacheStats,
    /// The shared level.
    pub llc: CacheStats,
    /// The buffer in front of memory, if there is one.
    pub buffer: Option<CacheStats>,
    /// Traffic between and below the levels.
    pub traffic: Traffic,
}

/// Counters that belong to no single cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Lines read from memory.
    pub memory_reads: u64,
    /// Lines written to memory because they were evicted.
    pub memory_evictions: u64,
    /// Lines written to memory because they were flushed.
    pub memory_flushes: u64,
    /// Lines written to memory that no program had asked for.
    pub memory_unasked: u64,
    /// Lines that left a write-combining buffer.
    pub memory_streams: u64,
    /// Lines that one lane got from another lane's private caches.
    pub transfers: u64,
    /// Flushes that found nothing to write back.
    pub flushes_clean: u64,
}

impl AddAssign for HierarchyStats {
    fn add_assign(&mut self, other: Self) {
        self.l1 += other.l1;
        self.l2 += other.l2;
        self.llc += other.llc;
        if let Some(other) = other.buffer {
            *self.buffer.get_or_insert_default() += other;
        }
        self.traffic += other.traffic;
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.memory_reads += other.memory_reads;
        self.memory_evictions += other.memory_evictions;
        self.memory_flushes += other.memory_flushes;
        self.memory_unasked += other.memory_unasked;
        self.memory_streams += other.memory_streams;
        self.transfers += other.transfers;
        self.flushes_clean += other.flushes_clean;
    }
}
