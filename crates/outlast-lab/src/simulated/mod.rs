//! Runs of the timed machine, and what they say as records.

pub mod crash;
mod memory;
mod native;
mod prices;
mod runtime;
mod schemes;
pub mod work;

pub use memory::memory_records;
pub use native::{native_primitives, primitive_table};
pub use runtime::RuntimeRun;
use schemes::hwl_of_streams;
pub use schemes::{
    LITERAL, LOG_BUFFER, LOG_SLOTS, LogOptions, Measured, Prepared, SCAN_PERIOD, SimScheme,
    measure, memory_energy, records as scheme_records, with_cores,
};

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outlast_schemes::hwl::Hwl;
use outlast_sim::Domain;
use outlast_sim::timed::{
    CoreKind, Cycle, Ended, InTransactions, LaneOps, Lost, MachineConfig, MachineError,
    MemoryRequest, NonPers, Pattern, RunStats, Scheme, Setup, Source, Stream, System, Timeline,
    TraceSource, primitives, replay,
};
use outlast_trace::{ChampSimInstr, LaneId, LineAddr, Op, is_trace, read_trace};

use crate::clock::Stopwatch;
use crate::record::{Kind, Metric, Record};

/// What a machine runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    /// A stream made on the fly.
    Stream(Pattern),
    /// A trace: ChampSim's, or one of ours.
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

    /// One source for each core.
    fn sources(
        &self,
        seed: u64,
        in_transactions: bool,
    ) -> Result<Vec<Box<dyn Source>>, Box<dyn std::error::Error>> {
        Ok(match self {
            Work::Stream(pattern) if in_transactions => {
                vec![Box::new(InTransactions::new(Stream::new(*pattern, seed), TX_STORES))]
            }
            Work::Stream(pattern) => vec![Box::new(Stream::new(*pattern, seed))],
            Work::Trace(path) if is_trace(path) => {
                let log = Arc::new(read_trace(path)?);
                let last = log.iter().map(|(_, op)| last_byte(op)).max().unwrap_or(0);
                if last >= MEMORY_BYTES_MAX {
                    let path = path.display();
                    return Err(
                        format!("{path}: touches byte {last:#x}; below 1 TiB is possible").into()
                    );
                }
                let lanes = log.iter().map(|(lane, _)| lane.0).max().unwrap_or(0);
                let source = |lane| {
                    Box::new(LaneOps::new(Arc::clone(&log), LaneId(lane))) as Box<dyn Source>
                };
                (0..=lanes).map(source).collect()
            }
            Work::Trace(path) => vec![Box::new(TraceSource::open(path)?)],
        })
    }
}

/// Memory that a trace may reach.
const MEMORY_BYTES_MAX: u64 = 1 << 40;

/// The last byte that an operation touches.
fn last_byte(op: Op<'_>) -> u64 {
    match op {
        Op::Load { at, len, .. } => at.0.saturating_add(len.into()),
        Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
            at.0.saturating_add(bytes.len() as u64)
        }
        Op::Store64 { line, .. } | Op::Flush { line, .. } => line.0.saturating_mul(64),
        _ => 0,
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
    /// Keeps a timeline of some cycles.
    pub timeline: Option<TimelineRequest>,
    /// Under which scheme. Another one than `non-pers` takes a stream, which then runs as
    /// transactions of [`TX_STORES`] stores, and what becomes durable is kept.
    pub scheme: SimScheme,
}

/// Stores of a stream's transactions under a scheme.
pub const TX_STORES: u32 = 8;

/// A timeline that is wanted as a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimelineRequest {
    /// Where to.
    pub path: PathBuf,
    /// Cycles from the end of the warm-up: the first, and the first that is not in it.
    pub cycles: (u64, u64),
}

impl TimelineRequest {
    fn window(&self, now: Cycle) -> (Cycle, Cycle) {
        (now.plus(self.cycles.0), now.plus(self.cycles.1))
    }

    fn write(
        &self,
        timeline: &Timeline,
        machine: &MachineConfig,
        now: Cycle,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let json = timeline.to_json(machine.core.clock.period_fs(), now);
        let failed = |error| format!("{}: {error}", self.path.display());
        Ok(std::fs::write(&self.path, json).map_err(failed)?)
    }
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
        if core == CoreKind::InOrder {
            machine.core.threads = 1; // Two threads a core are for the other kind.
        }
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

/// The options of the command line that make this machine, kind of core included: a machine's name
/// is that of its preset or file with the options that changed it.
pub(crate) fn machine_options(machine: &MachineConfig) -> String {
    let mut parts = machine.name.split(", ");
    let config = parts.next().unwrap_or_default();
    let mut options = format!("--config {config}");
    if MachineConfig::named(config).is_ok_and(|preset| preset.core.kind != machine.core.kind) {
        options += &format!(" --core {}", machine.core.kind);
    }
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        options += &format!(" --set {key}='{value}'");
    }
    options
}

/// Runs it and returns what was counted behind the warm-up.
///
/// # Errors
/// When the trace cannot be read, the machine cannot be built or comes to a stop, or the trace
/// ends within the warm-up.
pub fn run(simulation: &Simulation) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    run_with(simulation, None)
}

/// Runs it, and writes the requests that its memory got behind the warm-up, one a line:
/// `0xADDRESS READ|WRITE CYCLE`, in cycles of the memory clock from a whole number of refresh
/// intervals on, so that refreshes fall on the same requests again.
///
/// # Errors
/// As [`run`], and when the file cannot be written.
pub fn run_exporting(
    simulation: &Simulation,
    requests: &Path,
) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let cannot = |error: std::io::Error| format!("{}: {error}", requests.display());
    let mut file = BufWriter::new(std::fs::File::create(requests).map_err(cannot)?);
    let records = run_with(simulation, Some(&mut file))?;
    file.flush().map_err(cannot)?;
    Ok(records)
}

/// Instructions after which exported requests are written out.
const EXPORT_INSTRUCTIONS: u64 = 1 << 20;

fn run_with(
    simulation: &Simulation,
    requests: Option<&mut dyn Write>,
) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let Simulation { work, scheme, .. } = simulation;
    match (scheme, work) {
        (SimScheme::NonPers, _) => run_under(simulation, NonPers, requests),
        (_, Work::Stream(pattern)) => {
            let log_at = LineAddr(pattern.bytes() / 64);
            let config = hwl_of_streams(*scheme, log_at, TX_STORES)?;
            run_under(simulation, Hwl::new(config)?, requests)
        }
        (_, Work::Trace(path)) => Err(format!(
            "{}: a trace runs under non-pers; {scheme} takes a stream or a program",
            path.display()
        )
        .into()),
    }
}

fn run_under<S: Scheme>(
    simulation: &Simulation,
    scheme: S,
    mut requests: Option<&mut dyn Write>,
) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let Simulation { machine, work, warm_up, instructions, seed, timeline, .. } = simulation;
    let is_plain = simulation.scheme == SimScheme::NonPers;
    let sources = work.sources(*seed, !is_plain)?;
    let mut machine = machine.clone();
    machine.core.count =
        machine.core.count.max((sources.len() as u32).div_ceil(machine.core.threads));
    let machine = &machine;
    let threads = sources.len() as u32;
    let journal = (!is_plain).then_some(Domain::Adr);
    let setup = Setup { seed: *seed, journal, ..Setup::default() };
    let mut system = System::new(machine, scheme, setup, sources)?;
    if system.run(*warm_up)? == Ended::Finished && *warm_up > 0 {
        let ran = system.take_stats().instructions();
        return Err(format!(
            "{}: ends after {ran} instructions, within the warm-up: take a smaller --warm-up",
            work.name()
        )
        .into());
    }
    system.take_stats();
    if let Some(request) = timeline {
        let (from, to) = request.window(system.now());
        system.keep_timeline(from, to);
    }
    let watch = Stopwatch::new();
    match &mut requests {
        None => {
            system.run(*instructions)?;
        }
        Some(file) => {
            let memory = &machine.memory;
            let interval = memory.t_refi.cycles(memory.clock.period_fs()).max(1);
            export(&mut system, *instructions, interval, *file)?;
        }
    }
    let elapsed = watch.elapsed();
    let seconds = elapsed.cpu.unwrap_or(elapsed.wall).as_secs_f64();
    let stats = system.take_stats();
    if let (Some(request), Some(timeline)) = (timeline, system.take_timeline()) {
        request.write(&timeline, machine, system.now())?;
    }
    Ok(records(&work.name(), simulation.scheme, machine, threads, &stats, seconds))
}

/// Runs, and writes the memory's requests as they come.
fn export<S: Scheme>(
    system: &mut System<S>,
    instructions: u64,
    interval: u64,
    file: &mut dyn Write,
) -> Result<(), Box<dyn std::error::Error>> {
    system.export_requests();
    let (mut left, mut first) = (instructions, None);
    while left > 0 {
        let part = left.min(EXPORT_INSTRUCTIONS);
        let ended = system.run(part)?;
        for mut request in system.take_requests() {
            request.at -= *first.get_or_insert(request.at - request.at % interval);
            writeln!(file, "{request}")?;
        }
        left = if ended == Ended::Finished { 0 } else { left - part };
    }
    Ok(())
}

/// What every run says of its cores: where their cycles went, and what the processor took.
fn core_records(
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

fn records(
    work: &str,
    scheme: SimScheme,
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
    records.push(record(Metric::PAGE_WALKS, core.0 as f64));
    records.push(record(Metric::MISPREDICTED, core.1 as f64));
    records.push(record(Metric::MEMORY_READS, caches.traffic.memory_reads as f64));
    records.extend(memory_records(machine, stats, record));
    records.extend(core_records(machine, stats, &record));
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
    let period_ns = machine.memory.clock.period_fs() as f64 / 1e6;
    let record = |metric, value: f64| {
        Record::new(Kind::Sim, &name, "non-pers", metric, value).config(&machine.name)
    };
    Ok(vec![
        record(Metric::READ_LATENCY, replay.read_latency_clocks * period_ns),
        record(Metric::READ_LATENCY, replay.held_latency_clocks * period_ns).class("from arrival"),
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
            let simulation = Simulation {
                machine,
                work,
                warm_up: 4000,
                instructions: 4000,
                seed: 1,
                timeline: None,
                scheme: SimScheme::NonPers,
            };
            let records = run(&simulation).unwrap();
            records.iter().find(|r| r.is(Metric::IPC)).unwrap().value.unwrap()
        };
        let (stream, trace) =
            (ipc(Work::Stream(Pattern::Friendly)), ipc(Work::Trace(file.path().to_owned())));
        assert!((stream / trace - 1.0).abs() < 0.1, "{stream} and {trace}");
    }

    #[test]
    fn exported_requests_take_as_long_on_the_memory_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut machine = MachineConfig::named("server").unwrap();
        machine.set_option("l2.size", "0 B").unwrap();
        machine.set_option("llc.size", "256 KiB").unwrap();
        let value = |records: &[Record], metric, class: Option<&str>| {
            let found = records.iter().find(|r| r.is(metric) && r.class.as_deref() == class);
            found.and_then(|record| record.value).unwrap()
        };
        // From the start the same requests meet the same queues; later, those under way differ.
        for (warm_up, requests_off, latency_off) in [(0, 0.0, 0.01), (20_000, 64.0, 0.1)] {
            let work = Work::Stream(Pattern::Random);
            let machine = machine.clone();
            let simulation = Simulation {
                machine,
                work,
                warm_up,
                instructions: 60_000,
                seed: 1,
                timeline: None,
                scheme: SimScheme::NonPers,
            };
            let ran = run_exporting(&simulation, file.path()).unwrap();
            let replayed = replay_requests(&simulation.machine, file.path()).unwrap();
            let off = |metric, classes: [Option<&str>; 2]| {
                let (ran, again) =
                    (value(&ran, metric, classes[0]), value(&replayed, metric, classes[1]));
                (ran, (again - ran).abs())
            };
            let (reads, reads_off) = off(Metric::MEMORY_READS, [None, None]);
            let (writes, writes_off) = off(Metric::MEMORY_WRITES, [Some("evicted"), None]);
            assert!(reads > 10_000.0 && writes > 1000.0, "{reads} and {writes}");
            let most = requests_off + 16.0; // A read or write may not have arrived at the end.
            assert!(reads_off <= most && writes_off <= most, "{reads_off} and {writes_off}");
            let (latency, apart) = off(Metric::READ_LATENCY, [None, None]);
            assert!(apart <= latency_off * latency, "{warm_up}: {apart} of {latency}");
        }
    }

    #[test]
    fn a_machine_is_said_as_options_that_make_it_again() {
        let set = ["l1.size=4 KiB".to_owned(), "memory.adr=false".to_owned()];
        let machine = machines("hwl", Some(CoreKind::InOrder), &set).unwrap().remove(0);
        let expected = "--config hwl --core inorder --set l1.size='4 KiB' --set memory.adr='false'";
        assert_eq!(machine_options(&machine), expected);
    }

    #[test]
    fn a_stream_runs_under_a_scheme_as_transactions() {
        let simulation = |scheme, work| Simulation {
            machine: MachineConfig::named("hwl").unwrap(),
            work,
            warm_up: 2000,
            instructions: 20_000,
            seed: 1,
            timeline: None,
            scheme,
        };
        let stream = || Work::Stream(Pattern::Friendly);
        let value = |scheme, class| {
            let records = run(&simulation(scheme, stream())).unwrap();
            let of = |r: &&Record| r.is(Metric::MEMORY_WRITES) && r.class.as_deref() == class;
            assert!(records.iter().all(|record| record.scheme == scheme.name()));
            records.iter().find(of).and_then(|record| record.value).unwrap_or(0.0)
        };
        // Eight stores to words of lines of their own, mostly, are three records or more.
        assert!(value(SimScheme::Fwb, Some("log")) > 3.0 * 20_000.0 / 80.0);
        assert_eq!(value(SimScheme::NonPers, Some("log")), 0.0);
        let error = run(&simulation(SimScheme::RedoClwb, stream())).unwrap_err().to_string();
        assert!(error.contains("streams run under non-pers, fwb"), "{error}");
        let trace = Work::Trace("some.trace".into());
        let error = run(&simulation(SimScheme::Fwb, trace)).unwrap_err().to_string();
        assert!(error.contains("some.trace: a trace runs under non-pers"), "{error}");
    }

    #[test]
    fn a_run_gives_its_records() {
        let simulation = Simulation {
            machine: MachineConfig::named("server").unwrap(),
            work: Work::Stream(Pattern::Friendly),
            warm_up: 2000,
            instructions: 5000,
            seed: 1,
            timeline: None,
            scheme: SimScheme::NonPers,
        };
        let records = run(&simulation).unwrap();
        let value = |metric: Metric| records.iter().find(|r| r.is(metric)).unwrap().value.unwrap();
        assert!(value(Metric::IPC) > 0.1 && value(Metric::SIM_SPEED) > 0.0);
        assert!(value(Metric::CACHE_HITS) > 1000.0);
        assert!(table(&records).starts_with("friendly on server (ooo)\n  sim_speed"));
    }
}
