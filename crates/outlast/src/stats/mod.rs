//! What a pool is doing: [`Pool::stats`], and the same as text, as Prometheus' text, and as words for another process.
//!
//! [`Stats`] has what the file tells, and [`Counters`] what the process counts that runs the pool, from its opening on.
//! Counters are read without a lock, each by itself: beside transactions they are of about this moment.
//!
//! ```
//! use outlast::{BlockKind, Pool, Runner, Transact};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("some.pool");
//! let pool = Pool::open_or_create(&path)?;
//! pool.lane()?.run(|tx| tx.alloc(64, BlockKind::General))?;
//! let stats = pool.stats();
//! let counters = stats.counters.expect("this process runs the pool");
//! assert_eq!(counters.commits, 1);
//! println!("{}", stats.to_text());
//! # Ok(())
//! # }
//! ```

pub(crate) mod counts;
mod rows;
mod words;

pub use rows::{Kind, Row, Value};
pub use words::STATS_WORDS;

use std::sync::atomic::Ordering;
use std::time::Duration;

use outlast_pmem::{Domain, Medium};

use crate::pool::{Pool, PoolInfo, Space};
use crate::recover::RecoveryReport;
use crate::scheme::Scheme;
use counts::CAUSES;

/// The causes of aborts, in the order of their counters.
pub const ABORT_CAUSES: [&str; CAUSES] = [
    "cancelled",
    "out-of-space",
    "log-full",
    "too-large",
    "bad-address",
    "damaged",
    "medium",
    "other",
];

/// The state of a pool and its work.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes of the pool.
    pub pool_bytes: u64,
    /// Transactions that can run at the same time.
    pub lanes: u32,
    /// How often it was opened for writing, modulo 4094.
    pub generation: u64,
    /// The failures that it survives, where that is known.
    pub domain: Option<Domain>,
    /// How full it is; `None` where another process writes it and tells nothing.
    pub space: Option<Space>,
    /// The work since the opening; `None` of a pool that no process runs, or one that tells nothing.
    pub counters: Option<Counters>,
}

/// The work of the process that runs a pool, since it opened it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// How commits are made durable.
    pub scheme: Option<Scheme>,
    /// Lanes that threads have.
    pub lanes_taken: u32,
    /// Transactions that have stored something and were committed.
    pub commits: u64,
    /// Records of commits. Those of commits that were put off share one.
    pub records: u64,
    /// Commits that returned before they were durable.
    pub put_off: u64,
    /// Times that a transaction began again because another was in the way.
    pub conflicts: u64,
    /// Conflict storms: all other transactions waited for one that had met conflict upon conflict.
    pub turns_alone: u64,
    /// Transactions that ended without a commit, by [`ABORT_CAUSES`].
    pub aborts: [u64; CAUSES],
    /// Lines whose write-back was asked for by a flush.
    pub flushed_lines: u64,
    /// Lines stored past the caches.
    pub streamed_lines: u64,
    /// Fences.
    pub fences: u64,
    /// System calls that made pages of the file durable; 0 in domains without them.
    pub syncs: u64,
    /// Sweeps: they free the lines of the logs.
    pub sweeps: u64,
    /// The time that they took together.
    pub sweep_time: Duration,
    /// The longest.
    pub sweep_time_max: Duration,
    /// Times that the pool has grown.
    pub growths: u64,
    /// Bytes that it has grown by.
    pub grown_bytes: u64,
    /// What recovery did at the opening.
    pub recovery: RecoveryReport,
    /// How long it took.
    pub recovery_time: Duration,
    /// A write to the file has failed, and the pool takes no transactions any more.
    pub has_failed: bool,
}

impl Stats {
    /// Free bytes outside the longest free run, as a share of all free bytes.
    pub fn fragmentation(&self) -> Option<f64> {
        let space = self.space.filter(|space| space.free_bytes > 0)?;
        Some(1.0 - space.largest_free_bytes as f64 / space.free_bytes as f64)
    }

    /// The share of the logs that is in use.
    pub fn log_fill(&self) -> Option<f64> {
        let space = self.space.filter(|space| space.log_bytes > 0)?;
        Some(space.log_used_bytes as f64 / space.log_bytes as f64)
    }
}

impl PoolInfo {
    /// What the file of a pool tells that this process does not run.
    pub fn stats(&self, space: Option<Space>, domain: Option<Domain>) -> Stats {
        Stats {
            pool_bytes: self.len,
            lanes: self.header.geometry.lanes,
            generation: self.generation,
            domain,
            space,
            counters: None,
        }
    }
}

impl Counters {
    /// A count for each commit; `None` before the first.
    fn each(&self, count: u64) -> Option<f64> {
        (self.commits > 0).then(|| count as f64 / self.commits as f64)
    }

    /// Transactions that ended without a commit.
    pub fn aborted(&self) -> u64 {
        self.aborts.iter().sum()
    }
}

impl<M: Medium> Pool<M> {
    /// The pool's state and its work since it was opened. Reads what [`space`](Pool::space) does, and a few words of each
    /// lane.
    pub fn stats(&self) -> Stats {
        self.stats_beside(self.space())
    }

    /// As [`stats`](Self::stats), with a look at the heap that was taken a moment ago.
    pub fn stats_beside(&self, space: Space) -> Stats {
        Stats {
            pool_bytes: self.medium.len(),
            lanes: self.header().geometry.lanes,
            generation: self.generation,
            domain: self.medium.persistence(),
            space: Some(space),
            counters: Some(self.counters()),
        }
    }

    /// The part of [`stats`](Self::stats) that takes no look at the heap.
    pub fn counters(&self) -> Counters {
        let counts = &self.counts;
        let mut all = Counters {
            scheme: Some(self.scheme()),
            syncs: self.medium.sync_count(),
            sweeps: counts.sweeps.get(),
            sweep_time: Duration::from_nanos(counts.sweep_nanos.get()),
            sweep_time_max: Duration::from_nanos(counts.sweep_nanos_max()),
            growths: counts.growths.get(),
            grown_bytes: counts.grown_bytes.get(),
            recovery: self.recovery.0,
            recovery_time: self.recovery.1,
            has_failed: self.medium.failure().is_some(),
            ..Counters::default()
        };
        let of_lanes = self.lanes.iter().map(|lane| &lane.counts.io);
        let others = [&counts.of_sweeps, &counts.of_groups, &counts.of_marks, &counts.of_the_rest];
        for io in of_lanes.chain(others) {
            all.flushed_lines += io.flushed_lines.get();
            all.streamed_lines += io.streamed_lines.get();
            all.fences += io.fences.get();
        }
        let mut failed = 0;
        let mut batches = 0;
        for lane in &self.lanes {
            all.lanes_taken += u32::from(!lane.is_free(&self.medium));
            all.records += lane.shared.drawn.load(Ordering::Relaxed);
            let counts = &lane.counts;
            all.put_off += counts.put_off.get();
            all.conflicts += counts.conflicts.get();
            all.turns_alone += counts.turns_alone.get();
            failed += counts.in_vain.get();
            batches += counts.batches.get();
            for (sum, count) in all.aborts.iter_mut().zip(counts.aborts()) {
                *sum += count;
            }
        }
        all.records = all.records.saturating_sub(failed);
        all.commits = (all.records + all.put_off).saturating_sub(batches);
        all
    }
}
