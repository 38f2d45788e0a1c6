//! The counters of a running pool.
//!
//! Each is stored to by one thread at a time, so counting is a load, an addition and a store, without a locked
//! instruction, which would wait for all stores before it. Those of a lane are its thread's, on lines of their own;
//! those of sweeps and of groups of commits are stored to under the lock of what they count.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::abort::Abort;

/// A counter with one writer at a time.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Requests to the medium.
#[derive(Default)]
pub(crate) struct IoCounts {
    pub flushed_lines: Count,
    pub streamed_lines: Count,
    pub fences: Count,
}

impl IoCounts {
    pub const fn new() -> Self {
        Self { flushed_lines: Count::new(), streamed_lines: Count::new(), fences: Count::new() }
    }
}

/// Takes the counts that nothing reads: of opening, recovery and repair.
pub(crate) static UNCOUNTED: IoCounts = IoCounts::new();

/// Causes of aborts, by the places of their counters.
pub(crate) const CAUSES: usize = 8;

/// The place of an abort's counter; `None` for a conflict, which is counted by itself.
fn cause_of(abort: &Abort) -> Option<usize> {
    Some(match abort {
        Abort::Conflict => return None,
        Abort::Cancelled(_) => 0,
        Abort::OutOfSpace { .. } => 1,
        Abort::LogFull { .. } => 2,
        Abort::TooLarge(_) => 3,
        Abort::BadAddress(_) => 4,
        Abort::Damaged(_) | Abort::Schema(_) => 5,
        Abort::Medium(_) => 6,
        _ => 7,
    })
}

/// The counters of one lane.
#[derive(Default)]
pub(crate) struct LaneCounts {
    pub io: IoCounts,
    /// Transactions whose commits were put off.
    pub put_off: Count,
    /// Numbers that were drawn for batches of those alone.
    pub batches: Count,
    /// Numbers that were drawn for commits which then failed.
    pub in_vain: Count,
    pub conflicts: Count,
    /// Turns to run alone, after conflict upon conflict.
    pub turns_alone: Count,
    aborts: [Count; CAUSES],
}

impl LaneCounts {
    /// A transaction has ended so.
    #[cold]
    #[inline(never)]
    pub fn count_abort(&self, abort: &Abort) {
        match cause_of(abort) {
            None => self.conflicts.add(1),
            Some(cause) => self.aborts[cause].add(1),
        }
    }

    pub fn aborts(&self) -> [u64; CAUSES] {
        std::array::from_fn(|cause| self.aborts[cause].get())
    }
}

/// The counters of a pool beside those of its lanes.
#[derive(Default)]
pub(crate) struct PoolCounts {
    /// Under the sweeper's lock.
    pub of_sweeps: IoCounts,
    pub sweeps: Count,
    pub sweep_nanos: Count,
    sweep_nanos_max: AtomicU64,
    /// Under the lock of those that lead groups.
    pub of_groups: IoCounts,
    /// Under the lock of those that make up for other lanes' marks.
    pub of_marks: IoCounts,
    /// Under the heap's lock, and while a pool is opened or closed.
    pub of_the_rest: IoCounts,
    pub growths: Count,
    pub grown_bytes: Count,
    /// The failure of the medium was told.
    pub told_failure: AtomicBool,
}

impl PoolCounts {
    /// A sweep has ended, under its lock.
    pub fn swept(&self, took: Duration) {
        let nanos = took.as_nanos() as u64;
        self.sweeps.add(1);
        self.sweep_nanos.add(nanos);
        self.sweep_nanos_max.fetch_max(nanos, Ordering::Relaxed);
    }

    pub fn sweep_nanos_max(&self) -> u64 {
        self.sweep_nanos_max.load(Ordering::Relaxed)
    }
}
