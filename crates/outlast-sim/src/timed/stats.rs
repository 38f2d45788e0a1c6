//! Counts of the timed machine: one struct per component.

use super::causes::{ReadsByCause, WritesByCause};
use super::memory_stats::{CycleHistogram, PersistTimes, QueueStats};
use super::ports::KeptStats;
use crate::stats::HierarchyStats;

/// Why a core retired nothing in a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lost {
    /// A scheme held a store, or a transaction's end, back.
    Log,
    /// A fence waited for flushes and streamed lines to be acknowledged.
    Flush,
    /// A fence or locked instruction waited for older stores to be visible.
    Fence,
    /// The store buffer was full.
    StoreBuffer,
    /// The oldest instruction was a load.
    Load,
    /// The oldest instruction was a load that found no miss register free.
    QueueFull,
    /// A branch was predicted wrongly, and the reorder buffer was empty for it.
    Branch,
    /// The oldest instruction's address was being translated by a walk.
    Walk,
    /// Another core had to come first: a lock or a signal.
    Order,
    /// Instructions took their time, or there were none yet.
    #[default]
    Work,
    /// The instructions were at their end.
    Idle,
    /// A scheme let no core begin an instruction.
    Stop,
}

impl Lost {
    /// Every cause with its name in results.
    pub const ALL: [(Lost, &'static str); 12] = [
        (Lost::Log, "log"),
        (Lost::Flush, "flush"),
        (Lost::Fence, "fence"),
        (Lost::StoreBuffer, "store buffer"),
        (Lost::Load, "load"),
        (Lost::QueueFull, "queue full"),
        (Lost::Branch, "branch"),
        (Lost::Walk, "walk"),
        (Lost::Order, "order"),
        (Lost::Work, "work"),
        (Lost::Idle, "idle"),
        (Lost::Stop, "stop"),
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Cycles in which a core retired nothing, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LostCycles {
    cycles: [u64; Lost::ALL.len()],
}

impl LostCycles {
    pub(crate) fn add(&mut self, cause: Lost, cycles: u64) {
        self.cycles[cause as usize] += cycles;
    }

    /// Those of one cause.
    pub fn of(&self, cause: Lost) -> u64 {
        self.cycles[cause as usize]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.cycles.iter().sum()
    }
}

/// Counters of one core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CoreStats {
    /// Instructions retired.
    pub instructions: u64,
    /// Stores retired that a scheme had named, beside the instructions.
    pub injected: u64,
    /// Loads performed, those of page walks not included.
    pub loads: u64,
    /// Stores drained into the caches.
    pub stores: u64,
    /// Loads that got their value from the store queue.
    pub forwarded: u64,
    /// Loads and stores that joined a miss under way.
    pub merged_misses: u64,
    /// Conditional branches.
    pub branches: u64,
    /// Those predicted wrongly.
    pub mispredicted: u64,
    /// Flush instructions.
    pub flushes: u64,
    /// Fences, and instructions that fence.
    pub fences: u64,
    /// Cycles in which the oldest instruction was a fence that waited.
    pub fence_cycles: u64,
    /// Translations that the first level of the TLB had not.
    pub tlb_misses: u64,
    /// Translations that neither level had.
    pub walks: u64,
    /// Calls of the core's tick.
    pub ticks: u64,
    /// Cycles in which something retired.
    pub busy_cycles: u64,
    /// The others. Together they are all cycles, but for an in-order core's instruction under way.
    pub lost: LostCycles,
    /// Lines that the stride prefetcher asked for.
    pub prefetches: u64,
    /// Loads and stores that waited for a bank of the first level.
    pub bank_conflicts: u64,
}

/// Counters of the memory controller and its devices. Cycles are the core's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemoryStats {
    /// Reads that arrived.
    pub reads: u64,
    /// Writes that arrived.
    pub writes: u64,
    /// Reads answered from the write queue.
    pub forwarded_reads: u64,
    /// Reads that were answered with another one of their line.
    pub joined_reads: u64,
    /// Writes that replaced an older one of their line in the queue.
    pub replaced_writes: u64,
    /// Reads that found their queue full.
    pub reads_delayed: u64,
    /// Writes that found their queue full.
    pub writes_delayed: u64,
    /// Column commands that needed no activate of their own.
    pub row_hits: u64,
    /// Those of them that were writes.
    pub row_hit_writes: u64,
    /// Requests that found their row's bank closed.
    pub row_misses: u64,
    /// Requests for which another row had to be closed first.
    pub row_conflicts: u64,
    /// Rows opened.
    pub activates: u64,
    /// Refreshes.
    pub refreshes: u64,
    /// Of reads that the devices answered, the time from arrival to last data.
    pub read_times: CycleHistogram,
    /// Of writes, the time from arrival to written cells.
    pub write_times: CycleHistogram,
    /// How full the read queues were.
    pub read_queue: QueueStats,
    /// How full the write queues were.
    pub write_queue: QueueStats,
}

/// Everything that one run, or one part of it, counted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunStats {
    /// Core cycles that passed.
    pub cycles: u64,
    /// Events that the queue delivered.
    pub events: u64,
    /// Each core's counters.
    pub cores: Vec<CoreStats>,
    /// The caches'.
    pub caches: HierarchyStats,
    /// The memory's.
    pub memory: MemoryStats,
    /// The volatile memory's, where there is one.
    pub dram: Option<MemoryStats>,
    /// Reads that went to memory, by cause.
    pub reads: ReadsByCause,
    /// How long lines took to become durable.
    pub persist: PersistTimes,
    /// Writes that became durable or went to memory, by cause.
    pub writes: WritesByCause,
    /// For each transaction acknowledged, the cycles since it began: from the retirement of its
    /// first mark to that of its acknowledgement.
    pub tx_cycles: Vec<u64>,
    /// Lines that the scheme kept outside the array.
    pub kept: KeptStats,
    /// The scheme's own counts.
    pub counters: Vec<Counter>,
}

/// A figure of a scheme's own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Counter {
    /// Its name in results.
    pub name: &'static str,
    /// Its unit in results.
    pub unit: &'static str,
    /// The figure.
    pub value: f64,
}

impl RunStats {
    /// Instructions that all cores retired.
    pub fn instructions(&self) -> u64 {
        self.cores.iter().map(|core| core.instructions).sum()
    }

    /// Instructions per cycle, of all cores together.
    pub fn ipc(&self) -> f64 {
        self.instructions() as f64 / self.cycles.max(1) as f64
    }

    /// Calls of all cores' ticks.
    pub fn ticks(&self) -> u64 {
        self.cores.iter().map(|core| core.ticks).sum()
    }
}
