//! Runs of the timed machine, and what they say as records.

pub mod crash;
mod schemes;
pub mod work;

pub use schemes::{
    LITERAL, LOG_BUFFER, LOG_SLOTS, LogOptions, Measured, Prepared, SCAN_PERIOD, SimScheme,
    measure, memory_energy, records as scheme_records, with_cores,
};

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use outlast_sim::timed::{
    CoreKind, Ended, MachineConfig, MachineError, MemoryRequest, NonPers, Pattern, RunStats, Setup,
    Source, Stream, System, TraceSource, WritesByCause, primitives, replay,
};
use outlast_trace::ChampSimInstr;

use crate::clock::Stopwatch;
use crate::record::{Kind, Metric, Record};

/// What a machine runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    /// A stream made on the fly.
    Stream(Pattern),
    /// A ChampSim trace.
    Trace(PathBuf),
}

impl Work {
    /// Its name in records.
    pub fn name(&self) -> String {
        match self {
            Work::Stream(pattern) => Pattern::ALL
                .iter()
                .find(|row| row.0 == *pattern)
                .map_or(String::new(), |row| row.1.to_owned()),
            Work::Trace(path) => path.display().to_string(),
        }
    }

    fn source(&self, seed: u64) -> Result<Box<dyn Source>, Box<dyn std::error::Error>> {
        Ok(match self {
            Work::Stream(pattern) => Box::new(Stream::new(*pattern, seed)),
            Work::Trace(path) => Box::new(TraceSource::open(path)?),
        })
    }
}

/// One run.
#[derive(Clone, PartialEq, Debug)]
pub struct Simulation {
    /// The machine.
    pub machine: MachineConfig,
    /// What it runs.
    pub work: Work,
    /// Instructions before counting starts.
    pub warm_up: u64,
    /// Instructions that count; at the end of a trace fewer.
    pub instructions: u64,
    /// Feeds what is drawn.
    pub seed: u64,
}

/// Every machine that `--config`, `--core` and `--set key=value[,value…]` ask for: all
/// combinations, the last key's values changing fastest.
///
/// # Errors
/// When a machine, key or value is unknown, or the machine cannot be built.
pub fn machines(
    config: &str,
    core: Option<CoreKind>,
    options: &[String],
) -> Result<Vec<MachineConfig>, Box<dyn std::error::Error>> {
    let mut machine = MachineConfig::named(config)?;
    if let Some(core) = core {
        machine.core.kind = core;
    }
    let mut machines = vec![machine];
    for option in options {
        let (key, values) = option.split_once('=').ok_or_else(|| {
            format!("--set {option} is not right: give KEY=VALUE, as in core.rob=192,224")
        })?;
        let mut next = Vec::new();
        for machine in &machines {
            for value in values.split(',') {
                let mut machine = machine.clone();
                machine.set_option(key.trim(), value.trim())?;
                next.push(machine);
            }
        }
        machines = next;
    }
    machines.iter().try_for_each(|machine: &MachineConfig| -> Result<(), MachineError> {
        machine.validate()
    })?;
    Ok(machines)
}

/// Runs it and returns what was counted behind the warm-up.
///
/// # Errors
/// When the trace cannot be read, the machine cannot be built or comes to a stop, or the trace
/// ends within the warm-up.
pub fn run(simulation: &Simulation) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let Simulation { machine, work, warm_up, instructions, seed } = simulation;
    let sources = vec![work.source(*seed)?];
    let setup = Setup { seed: *seed, ..Setup::default() };
    let mut system = System::new(machine, NonPers, setup, sources)?;
    if system.run(*warm_up)? == Ended::Finished && *warm_up > 0 {
        let ran = system.take_stats().instructions();
        return Err(format!(
            "{}: ends after {ran} instructions, within the warm-up: take a smaller --warm-up",
            work.name()
        )
        .into());
    }
    system.take_stats();
    let watch = Stopwatch::new();
    system.run(*instructions)?;
    let elapsed = watch.elapsed();
    let seconds = elapsed.cpu.unwrap_or(elapsed.wall).as_secs_f64();
    Ok(records(&work.name(), machine, &system.take_stats(), seconds))
}

fn records(work: &str, machine: &MachineConfig, stats: &RunStats, cpu_s: f64) -> Vec<Record> {
    let config = format!("{} ({})", machine.name, machine.core.kind);
    let record = |metric, value: f64| {
        Record::new(Kind::Sim, work, "non-pers", metric, value).threads(1).config(&config)
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
    records.push(record(Metric::PAGE_WALKS, core.0 as f64));
    records.push(record(Metric::MISPREDICTED, core.1 as f64));
    records.push(record(Metric::MEMORY_READS, caches.traffic.memory_reads as f64));
    for (cause, name) in WritesByCause::CAUSES {
        let count = stats.writes.of(cause);
        if count > 0 {
            records.push(record(Metric::MEMORY_WRITES, count as f64).class(name));
        }
    }
    let memory = &stats.memory;
    records.push(record(Metric::ROW_HITS, memory.row_hits as f64));
    let queued = memory.reads - memory.forwarded_reads;
    if queued > 0 {
        let period_ns = machine.core.clock.period_fs() as f64 / 1e6;
        let ns = memory.read_cycles as f64 / queued as f64 * period_ns;
        records.push(record(Metric::READ_LATENCY, ns));
    }
    records.push(record(Metric::SIM_EVENTS, per_instruction(stats.events)));
    records.push(record(Metric::SIM_TICKS, per_instruction(stats.ticks())));
    records
}

/// What each primitive operation costs on a machine.
///
/// # Errors
/// When the machine cannot be built or comes to a stop.
pub fn cost_table(machine: &MachineConfig) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let config = format!("{} ({})", machine.name, machine.core.kind);
    let measured = primitives(machine)?;
    let record = |primitive: &outlast_sim::timed::Primitive| {
        Record::new(Kind::Sim, primitive.name, "non-pers", Metric::PRIMITIVE, primitive.ns)
            .config(&config)
            .class(primitive.about)
    };
    Ok(measured.iter().map(record).collect())
}

/// Replays a list of memory requests (`0xADDRESS READ|WRITE CYCLE`, cycles of the memory clock)
/// on a machine's memory alone.
///
/// # Errors
/// When the file cannot be read or a line of it is no request.
pub fn replay_requests(
    machine: &MachineConfig,
    path: &Path,
) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let name = path.display().to_string();
    let file = std::fs::File::open(path).map_err(|error| format!("{name}: {error}"))?;
    let mut requests = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| format!("{name}: {error}"))?;
        if !line.trim().is_empty() {
            let request = MemoryRequest::parse(&line);
            requests.push(request.map_err(|error| format!("{name}:{}: {error}", number + 1))?);
        }
    }
    if requests.is_empty() {
        return Err(format!("{name}: no requests in it: write 0xADDRESS READ|WRITE CYCLE").into());
    }
    let replay = replay(&machine.memory, &requests);
    let record = |metric, value: f64| {
        Record::new(Kind::Sim, &name, "non-pers", metric, value).config(&machine.name)
    };
    Ok(vec![
        record(Metric::READ_LATENCY, replay.read_latency_ns),
        record(Metric::BANDWIDTH, replay.bandwidth / 1e9),
        record(Metric::CYCLES, replay.clocks as f64).class("memory clock"),
        record(Metric::ROW_HITS, replay.stats.row_hits as f64),
        record(Metric::MEMORY_READS, replay.stats.reads as f64),
        record(Metric::MEMORY_WRITES, replay.stats.writes as f64),
    ])
}

/// Registers of a stream's instructions start here in its trace, above those that mean something.
const STREAM_REGISTERS: u8 = 64;
/// Addresses of a stream start here in its trace, where 0 means none.
const STREAM_ADDRESSES: u64 = 1 << 32;

/// Writes the first instructions of a stream as a ChampSim trace, uncompressed.
///
/// # Errors
/// When the file cannot be written.
pub fn save_trace(
    pattern: Pattern,
    seed: u64,
    instructions: u64,
    path: &Path,
) -> std::io::Result<()> {
    let register = |number: u8| if number == 0 { 0 } else { STREAM_REGISTERS + number };
    let mut stream = Stream::new(pattern, seed);
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    for _ in 0..instructions {
        let from = stream.next_instr();
        let mut to = ChampSimInstr {
            ip: from.pc,
            source_registers: from.sources.map(register),
            destination_registers: from.destinations.map(register),
            ..ChampSimInstr::default()
        };
        for (k, into) in to.source_memory.iter_mut().enumerate().take(from.loads.into()) {
            *into = STREAM_ADDRESSES + from.load_at[k];
        }
        for (k, into) in to.destination_memory.iter_mut().enumerate().take(from.stores.into()) {
            *into = STREAM_ADDRESSES + from.store_at[k];
        }
        file.write_all(&to.encode())?;
    }
    file.flush()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_make_every_combination() {
        let options = ["core.rob=64,128".to_owned(), "l1.latency=4 cycles,5 cycles".to_owned()];
        let machines = machines("server", Some(CoreKind::InOrder), &options).unwrap();
        let keys = |machine: &MachineConfig| {
            (machine.get("core.rob").unwrap(), machine.get("l1.latency").unwrap())
        };
        let expected = [("64", "4"), ("64", "5"), ("128", "4"), ("128", "5")]
            .map(|(rob, latency)| (rob.to_owned(), format!("{latency} cycles")));
        assert_eq!(machines.iter().map(keys).collect::<Vec<_>>(), expected);
        assert!(machines.iter().all(|machine| machine.core.kind == CoreKind::InOrder));
        assert!(super::machines("server", None, &["core.rob".to_owned()]).is_err());
    }

    #[test]
    fn a_stream_and_its_trace_run_alike() {
        let file = tempfile::NamedTempFile::new().unwrap();
        save_trace(Pattern::Friendly, 1, 8000, file.path()).unwrap();
        let ipc = |work| {
            let machine = MachineConfig::named("server").unwrap();
            let simulation =
                Simulation { machine, work, warm_up: 4000, instructions: 4000, seed: 1 };
            let records = run(&simulation).unwrap();
            records.iter().find(|r| r.is(Metric::IPC)).unwrap().value.unwrap()
        };
        let (stream, trace) =
            (ipc(Work::Stream(Pattern::Friendly)), ipc(Work::Trace(file.path().to_owned())));
        assert!((stream / trace - 1.0).abs() < 0.1, "{stream} and {trace}");
    }

    #[test]
    fn a_run_gives_its_records() {
        let simulation = Simulation {
            machine: MachineConfig::named("server").unwrap(),
            work: Work::Stream(Pattern::Friendly),
            warm_up: 2000,
            instructions: 5000,
            seed: 1,
        };
        let records = run(&simulation).unwrap();
        let value = |metric: Metric| records.iter().find(|r| r.is(metric)).unwrap().value.unwrap();
        assert!(value(Metric::IPC) > 0.1 && value(Metric::SIM_SPEED) > 0.0);
        assert!(value(Metric::CACHE_HITS) > 1000.0);
        assert!(table(&records).starts_with("friendly on server (ooo)\n  sim_speed"));
    }
}
