//! What a run says, as records, and records as a table.

use super::*;

/// What every run says of its cores: where their cycles went, and what the processor took.
pub(super) fn core_records(
    machine: &MachineConfig,
    stats: &RunStats,
    record: &dyn Fn(Metric, f64) -> Record,
) -> Vec<Record> {
    let mut records = Vec::new();
    for (cause, name) in Lost::ALL {
        let cycles: u64 = stats.cores.iter().map(|core| core.lost.of(cause)).sum();
        if cycles > 0 {
            records.push(record(Metric::LOST_CYCLES, cycles as f64).class(name));
        }
    }
    let prefetches: u64 = stats.cores.iter().map(|core| core.prefetches).sum();
    if prefetches > 0 {
        records.push(record(Metric::PREFETCHES, prefetches as f64));
    }
    let energy = stats.processor_energy_pj(machine) as f64 / 1e3;
    records.push(record(Metric::PROCESSOR_ENERGY, energy).reason("a simple activity model"));
    records
}

pub(super) fn records(
    work: &str,
    scheme: MachineScheme,
    machine: &MachineConfig,
    threads: u32,
    stats: &RunStats,
    cpu_s: f64,
) -> Vec<Record> {
    let config = format!("{} ({})", machine.name, machine.core.kind);
    let record = |metric, value: f64| {
        Record::new(Kind::Sim, work, scheme.name(), metric, value).threads(threads).config(&config)
    };
    let instructions = stats.instructions() as f64;
    let per_instruction = |count: u64| count as f64 / instructions.max(1.0);
    let core = stats
        .cores
        .iter()
        .fold((0, 0), |sum, core| (sum.0 + core.walks, sum.1 + core.mispredicted));
    let mut records = vec![
        record(Metric::SIM_SPEED, instructions / cpu_s.max(1e-9)),
        record(Metric::IPC, stats.ipc()),
        record(Metric::INSTRUCTIONS, instructions),
        record(Metric::CYCLES, stats.cycles as f64),
    ];
    let caches = &stats.caches;
    for (level, cache) in [("l1", caches.l1), ("l2", caches.l2), ("llc", caches.llc)] {
        if cache.hits + cache.misses > 0 || level != "l2" {
            records.push(record(Metric::CACHE_HITS, cache.hits as f64).class(level));
            records.push(record(Metric::CACHE_MISSES, cache.misses as f64).class(level));
        }
    }
    if let Some(buffer) = caches.buffer {
        records.push(record(Metric::CACHE_HITS, buffer.hits as f64).class("buffer"));
        records.push(record(Metric::CACHE_MISSES, buffer.misses as f64).class("buffer"));
    }
    records.push(record(Metric::PAGE_WALKS, core.0 as f64));
    records.push(record(Metric::MISPREDICTED, core.1 as f64));
    records.push(record(Metric::MEMORY_READS, caches.traffic.memory_reads as f64));
    records.extend(memory_records(machine, stats, record));
    records.extend(core_records(machine, stats, &record));
    records.push(record(Metric::SIM_EVENTS, per_instruction(stats.events)));
    records.push(record(Metric::SIM_TICKS, per_instruction(stats.ticks())));
    records
}

/// When each of several programs had its instructions, in the order of the cores.
pub(super) fn program_records(
    paths: &[PathBuf],
    of_run: &Record,
    ends: impl Iterator<Item = Option<u64>>,
) -> Vec<Record> {
    let record = |(number, (path, cycles)): (usize, (&PathBuf, Option<u64>))| {
        let class = format!("{number} {}", program_name(path));
        let (metric, cycles) = (Metric::CYCLES, cycles? as f64);
        let record = Record::new(Kind::Sim, &of_run.workload, &of_run.scheme, metric, cycles);
        let record = Record { threads: of_run.threads, config: of_run.config.clone(), ..record };
        Some(record.class(&class))
    };
    paths.iter().zip(ends).enumerate().filter_map(record).collect()
}

/// The records of runs as a table: one line a value, one block a machine.
pub fn table(records: &[Record]) -> String {
    let mut text = String::new();
    let mut head = None;
    for record in records {
        let scheme = record.guarantee.as_ref().map(|_| record.scheme.clone());
        let workload = (record.metric != "primitive").then(|| record.workload.clone());
        let here = (record.config.clone(), scheme, workload);
        if head.as_ref() != Some(&here) {
            let of = here.2.as_deref().unwrap_or("primitives");
            text += &format!("{of} on {}", here.0.as_deref().unwrap_or("?"));
            if let (Some(scheme), Some(guarantee)) = (&here.1, &record.guarantee) {
                text += &format!(" under {scheme}, guarantee {guarantee}");
            }
            text.push('\n');
            head = Some(here);
        }
        let value = record.value.unwrap_or(f64::NAN);
        let shown = match record.unit.as_str() {
            "count" => format!("{value:.0}"),
            "instr/s" | "tx/s" => format!("{:.2} M", value / 1e6),
            "ns" => format!("{value:.1}"),
            _ => format!("{value:.3}"),
        };
        let (name, about) = match record.metric.as_str() {
            "primitive" => (record.workload.clone(), record.class.clone().unwrap_or_default()),
            metric => {
                let class =
                    record.class.as_ref().map_or(String::new(), |class| format!(" {class}"));
                (format!("{metric}{class}"), String::new())
            }
        };
        let unit = if record.unit == "count" { "" } else { &record.unit };
        let line = format!("  {name:<24} {shown:>14} {unit:<12} {about}");
        text += line.trim_end();
        text.push('\n');
    }
    text
}
