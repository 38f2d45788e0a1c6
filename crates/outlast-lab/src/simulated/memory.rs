//! What a run's memory did, as records.

use outlast_sim::timed::{CycleHistogram, MachineConfig, QueueStats, RunStats};

use crate::record::{Metric, Record};

/// The records of a run's memory, where no class says `dram` of the persistent one; `record` makes one that says whose run it was.
pub fn memory_records(
    machine: &MachineConfig,
    stats: &RunStats,
    record: impl Fn(Metric, f64) -> Record,
) -> Vec<Record> {
    let mut records = Vec::new();
    for (_, name, count) in stats.reads.each() {
        if count > 0 {
            records.push(record(Metric::MEMORY_READS, count as f64).class(name));
        }
    }
    for (_, name, count) in stats.writes.each() {
        if count > 0 {
            records.push(record(Metric::MEMORY_WRITES, count as f64).class(name));
        }
    }
    if let Some(dram) = &stats.dram {
        records.push(record(Metric::MEMORY_READS, dram.reads as f64).class("dram"));
        records.push(record(Metric::MEMORY_WRITES, dram.writes as f64).class("dram"));
    }
    if stats.kept.lines_max > 0 {
        let mean = stats.kept.line_cycles as f64 / stats.cycles.max(1) as f64;
        for (class, lines) in [("mean", mean), ("max", stats.kept.lines_max as f64)] {
            records.push(record(Metric::DRAIN_LINES, lines).class(class));
            if let Some(line) = machine.memory.drain_line_nj() {
                records.push(record(Metric::DRAIN_ENERGY, lines * line).class(class));
            }
        }
    }
    for counter in &stats.counters {
        let metric = Metric { name: counter.name, unit: counter.unit };
        records.push(record(metric, counter.value));
    }
    let memory = &stats.memory;
    records.push(record(Metric::ROW_HITS, memory.row_hits as f64));
    records.push(record(Metric::ROW_MISSES, memory.row_misses as f64));
    records.push(record(Metric::ROW_CONFLICTS, memory.row_conflicts as f64));
    let period_ns = machine.core.clock.period_fs() as f64 / 1e6;
    let mut times = |metric, times: &CycleHistogram, of: &str| {
        if times.count() > 0 {
            let class = |part: &str| format!("{of}{}{part}", if of.is_empty() { "" } else { " " });
            let ns = |cycles: f64| record(metric, cycles * period_ns);
            let mean = ns(times.mean());
            records.push(if of.is_empty() { mean } else { mean.class(of) });
            records.push(ns(times.quantile(0.5) as f64).class(&class("p50")));
            records.push(ns(times.quantile(0.99) as f64).class(&class("p99")));
            records.push(ns(times.max() as f64).class(&class("max")));
        }
    };
    times(Metric::READ_LATENCY, &memory.read_times, "");
    times(Metric::WRITE_LATENCY, &memory.write_times, "");
    if let Some(dram) = &stats.dram {
        times(Metric::READ_LATENCY, &dram.read_times, "dram");
        times(Metric::WRITE_LATENCY, &dram.write_times, "dram");
    }
    for (cause, name, _) in stats.writes.each() {
        if let Some(of_cause) = stats.persist.of(cause) {
            times(Metric::PERSIST_LATENCY, of_cause, name);
        }
    }
    let cycles = stats.cycles.max(1) as f64;
    let mut queue = |queue: &QueueStats, name: &str| {
        let mean = queue.request_cycles as f64 / cycles;
        records.push(record(Metric::QUEUE_OCCUPANCY, mean).class(name));
        records.push(record(Metric::QUEUE_MAX, queue.max as f64).class(name));
        records.push(record(Metric::QUEUE_FULL_CYCLES, queue.full_cycles as f64).class(name));
    };
    queue(&memory.read_queue, "reads");
    queue(&memory.write_queue, "writes");
    if let Some(energy) = memory.energy(&machine.memory) {
        records.push(record(Metric::MEMORY_ENERGY, energy.total() / 1e3));
        for (part, picojoule) in energy.parts() {
            records.push(record(Metric::MEMORY_ENERGY, picojoule / 1e3).class(part));
        }
    }
    records
}
