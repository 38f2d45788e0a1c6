//! Measured values, as the verdicts look them up.

use super::{CACHE_BYTES, Task, reuse};
use crate::record::{Kind, Metric, Record};

/// The records of one run.
#[derive(Clone, Copy)]
pub(super) struct Evidence<'r> {
    records: &'r [Record],
    /// By which competition claims are judged.
    pub threads: u32,
    /// Nanoseconds added to each line written in the slower one.
    pub write_latency_ns: u64,
    /// By what the emulated cache is smaller than the paper's.
    pub cache_divisor: f64,
}

/// Which memory a native run was on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Memory {
    /// This machine's.
    Bare,
    /// With writes slowed down.
    Slow,
}

impl<'r> Evidence<'r> {
    pub fn new(task: &Task, records: &'r [Record]) -> Self {
        let (threads, write_latency_ns) = (task.judged_threads(), task.write_latency_ns);
        let cache_divisor = CACHE_BYTES as f64 / task.amount.cache_bytes as f64;
        Self { records, threads, write_latency_ns, cache_divisor }
    }

    /// A native value by workload and scheme, of the competition that counts.
    pub fn native(
        &self,
        memory: Memory,
        metric: Metric,
        workload: &str,
        scheme: &str,
        class: Option<&str>,
    ) -> Option<&'r Record> {
        let slow = memory == Memory::Slow;
        self.records.iter().find(|r| {
            r.kind == Kind::Native
                && r.is(metric)
                && r.workload == workload
                && r.scheme == scheme
                && r.class.as_deref() == class
                && r.write_latency_ns.is_some() == slow
                && r.threads.is_none_or(|threads| threads == self.threads)
        })
    }

    /// The same for several workloads; those that were not measured are left out.
    pub fn natives(
        &self,
        memory: Memory,
        metric: Metric,
        workloads: &[&'static str],
        scheme: &str,
        class: Option<&str>,
    ) -> Vec<(&'static str, f64)> {
        let value = |name: &&'static str| {
            Some((*name, self.native(memory, metric, name, scheme, class)?.value?))
        };
        workloads.iter().filter_map(value).collect()
    }

    /// Values of a metric of one scheme, whatever the number of threads: parts and flush kinds are
    /// measured with one.
    pub fn all(&self, metric: Metric, scheme: &str) -> Vec<(&'r str, f64)> {
        let mine = |r: &&Record| {
            r.kind == Kind::Native && r.is(metric) && r.scheme == scheme && r.class.is_none()
        };
        let values = self.records.iter().filter(mine);
        values.filter_map(|r| Some((r.workload.as_str(), r.value?))).collect()
    }

    /// A counted value.
    pub fn counted(&self, metric: Metric, workload: &str, scheme: &str) -> Option<f64> {
        self.counted_as(metric, workload, scheme, None)
    }

    /// A counted value of a class.
    pub fn counted_as(
        &self,
        metric: Metric,
        workload: &str,
        scheme: &str,
        class: Option<&str>,
    ) -> Option<f64> {
        let mine = |r: &&Record| {
            r.kind == Kind::Sim
                && r.is(metric)
                && r.workload == workload
                && r.scheme == scheme
                && r.class.as_deref() == class
        };
        self.records.iter().find(mine)?.value
    }

    /// The same for several workloads; those that were not measured are left out.
    pub fn counts_as(
        &self,
        metric: Metric,
        workloads: &[&'static str],
        scheme: &str,
        class: Option<&str>,
    ) -> Vec<f64> {
        workloads.iter().filter_map(|name| self.counted_as(metric, name, scheme, class)).collect()
    }

    /// The same for several workloads; those that were not measured are left out.
    pub fn counts(&self, metric: Metric, workloads: &[&'static str], scheme: &str) -> Vec<f64> {
        self.counts_as(metric, workloads, scheme, None)
    }

    /// Flushes per transaction, of data and log.
    pub fn flushes(&self, workload: &str, scheme: &str) -> Option<f64> {
        let data = self.counted(Metric::DATA_FLUSHES, workload, scheme)?;
        Some(data + self.counted(Metric::LOG_FLUSHES, workload, scheme)?)
    }

    /// The share of a workload's used blocks that have from `fewest` to `most` uses, in percent.
    pub fn uses(&self, workload: &str, fewest: u32, most: u32) -> Option<f64> {
        let inside = |class: &str| {
            let row = reuse::CLASSES.iter().find(|(name, _, _)| *name == class);
            row.is_some_and(|(_, low, high)| *low >= fewest && *high <= most)
        };
        let mine = |r: &&Record| {
            r.is(Metric::REUSE) && r.workload == workload && r.class.as_deref().is_some_and(inside)
        };
        let shares: Vec<f64> =
            self.records.iter().filter(mine).filter_map(|record| record.value).collect();
        (!shares.is_empty()).then(|| shares.iter().sum())
    }
}
