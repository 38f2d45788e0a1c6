//! Runs of the timed machine, and what they say as records.

mod captured;
mod costs;
mod listed;
mod memory;
mod native;
mod programs;
mod real;
mod records;
mod requests;
mod runtime;
mod settings;
mod sweep;
mod windows;

pub use captured::{captured_work, name_records, no_transactions};
pub use listed::{Listed, listed_work, trace_of_work};
pub use memory::memory_records;
pub use native::{native_primitives, primitive_table};
pub use programs::{
    Measured, crash_records, failed_points, measure, memory_energy, records as scheme_records,
    speed_record,
};
pub(crate) use programs::{Timed, of_plan, sources, time};
pub use real::{
    RealProgram, RealPrograms, ReplayedMemory, replay as replay_program,
    replay_together as replay_programs,
};
pub(crate) use real::{busy_threads, plain_machine};
use records::core_records;
pub use records::table;
use requests::export;
pub use requests::{replay_requests, save_trace};
pub use runtime::RuntimeRun;
pub use settings::{Setting, settings};
pub use sweep::{csv, sweep_table};

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outlast_crash::machine::with_cores;
use outlast_schemes::{MachineScheme, Options, Prepared, Streams};
use outlast_sim::Domain;
use outlast_sim::timed::{
    Cycle, Ended, InTransactions, Lost, Machine, MachineConfig, MemoryRequest, Pattern, RunStats,
    Setup, Source, Stream, Timeline, TraceSource, primitives, replay,
};
use outlast_trace::{
    ChampSimInstr, LineAddr, Op, WholeFile, is_program_trace, is_trace, read_trace, write_whole,
};

use crate::clock::Stopwatch;
use crate::progress::{Estimate, Listener};
use crate::record::{Kind, Metric, Record};

/// What a machine runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    /// A stream made on the fly.
    Stream(Pattern),
    /// A trace: ChampSim's, or one of ours.
    Trace(PathBuf),
    /// Traces of real programs, each on cores and in memory of its own. Each begins again at its end,
    /// until all have had their instructions.
    Programs(Vec<PathBuf>),
    /// Representative windows of a trace: each has instructions and a warm-up of its own.
    Windows(PathBuf),
}

impl Work {
    /// Its name in records.
    pub fn name(&self) -> String {
        match self {
            Work::Stream(pattern) => Pattern::ALL
                .iter()
                .find(|row| row.0 == *pattern)
                .map_or(String::new(), |row| row.1.to_owned()),
            Work::Trace(path) | Work::Windows(path) => path.display().to_string(),
            Work::Programs(paths) => {
                paths.iter().map(|path| program_name(path)).collect::<Vec<_>>().join("+")
            }
        }
    }

    /// What its cores run, as schemes take it.
    pub(crate) fn for_schemes(
        &self,
        is_plain: bool,
        real: Option<&RealPrograms>,
    ) -> Result<outlast_schemes::Work, Box<dyn std::error::Error>> {
        let (streams, end, lanes) = match (self, real) {
            (Work::Stream(pattern), _) => {
                let streams = Streams::Generated { tx_stores: TX_STORES };
                (streams, LineAddr(pattern.bytes() / 64), 1)
            }
            (_, Some(real)) => {
                let streams = Streams::Generated { tx_stores: 0 };
                (streams, LineAddr(real.lines()), real.threads())
            }
            (Work::Trace(path), None) if is_trace(path) => {
                let log = Arc::new(read_trace(path)?);
                let last = log.iter().map(|(_, op)| last_byte(op)).max().unwrap_or(0);
                let (limit, words) = match is_plain {
                    true => (MEMORY_BYTES_MAX, "1 TiB"),
                    false => (JOURNAL_BYTES_MAX, "255 GiB"),
                };
                if last >= limit {
                    let path = path.display();
                    return Err(format!(
                        "{path}: touches byte {last:#x}; below {words} is possible"
                    )
                    .into());
                }
                let last_lane = log.iter().map(|(lane, _)| lane.0).max().unwrap_or(0);
                let lanes = last_lane.saturating_add(1);
                (Streams::Recorded(vec![log]), LineAddr(last / 64 + 1), lanes)
            }
            (Work::Trace(_) | Work::Programs(_) | Work::Windows(_), None) => {
                (Streams::Generated { tx_stores: 0 }, LineAddr(0), 1)
            }
        };
        Ok(outlast_schemes::Work {
            streams,
            image: Arc::default(),
            end,
            lanes,
            is_nested: false,
            whole: None,
        })
    }

    /// Whether this is a trace without transactions.
    pub(crate) fn lacks_transactions(&self, of_schemes: &outlast_schemes::Work) -> bool {
        let has_any =
            |log: &Arc<outlast_trace::OpLog>| log.iter().any(|(_, op)| matches!(op, Op::TxBegin));
        matches!(self, Work::Trace(_)) && !of_schemes.recorded().iter().any(has_any)
    }

    /// The programs of which this is a trace, if it is of real programs.
    pub(crate) fn real(&self) -> Result<Option<RealPrograms>, Box<dyn std::error::Error>> {
        match self {
            Work::Trace(path) if is_program_trace(path) => {
                RealPrograms::open(std::slice::from_ref(path), false).map(Some)
            }
            Work::Programs(paths) => RealPrograms::open(paths, true).map(Some),
            _ => Ok(None),
        }
    }

    /// One source for each core, of what a scheme has made of the work.
    fn sources(
        &self,
        prepared: &dyn Prepared,
        lanes: u16,
        seed: u64,
        in_transactions: bool,
        real: Option<&RealPrograms>,
    ) -> Result<Vec<Box<dyn Source>>, Box<dyn std::error::Error>> {
        if !prepared.streams().is_empty() {
            return Ok(sources(prepared, lanes));
        }
        Ok(match self {
            Work::Stream(pattern) if in_transactions => {
                vec![Box::new(InTransactions::new(Stream::new(*pattern, seed), TX_STORES))]
            }
            Work::Stream(pattern) => vec![Box::new(Stream::new(*pattern, seed))],
            Work::Trace(path) => match real {
                Some(real) => real.sources(),
                None => vec![Box::new(TraceSource::open(path)?)],
            },
            Work::Programs(_) | Work::Windows(_) => real.map_or(Vec::new(), RealPrograms::sources),
        })
    }
}

/// The program of a trace, as its file's name has it.
fn program_name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    stem.split('-').next().unwrap_or_default().to_owned()
}

/// Memory that a trace may reach.
const MEMORY_BYTES_MAX: u64 = 1 << 40;
/// The same where what becomes durable is kept, a scheme's own lines behind it.
const JOURNAL_BYTES_MAX: u64 = 255 << 30;

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
    /// Instructions before counting starts; of several programs, those of each.
    pub warm_up: u64,
    /// Instructions that count; at the end of a trace fewer. Of several programs, those of each: it ends
    /// when all have had as many.
    pub instructions: u64,
    /// Feeds what is drawn.
    pub seed: u64,
    /// Keeps a timeline of some cycles.
    pub timeline: Option<TimelineRequest>,
    /// Under which scheme. Another one than plain memory takes a stream, which then runs as
    /// transactions of [`TX_STORES`] stores, and what becomes durable is kept.
    pub scheme: MachineScheme,
    /// Options of the scheme.
    pub options: Options,
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
        Ok(write_whole(&self.path, json).map_err(failed)?)
    }
}

/// Runs it and returns what was counted behind the warm-up.
///
/// # Errors
/// When the trace cannot be read, the machine cannot be built or comes to a stop, or the trace
/// ends within the warm-up.
pub fn run(simulation: &Simulation) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    run_listening(simulation, &mut |_| {})
}

/// As [`run`], and says how far it is and how long the rest will take.
///
/// # Errors
/// As [`run`].
pub fn run_listening(
    simulation: &Simulation,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    match &simulation.work {
        Work::Windows(file) => windows::run(simulation, file, listen),
        _ => run_with(simulation, None, listen),
    }
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
    let mut file = WholeFile::create(requests).map_err(cannot)?;
    let records = run_with(simulation, Some(&mut file), &mut |_| {})?;
    file.finish().map_err(cannot)?;
    Ok(records)
}

/// Instructions after which exported requests are written out.
const EXPORT_INSTRUCTIONS: u64 = 1 << 20;

fn run_with(
    simulation: &Simulation,
    mut requests: Option<&mut dyn Write>,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let Simulation { machine, work, warm_up, instructions, seed, timeline, scheme, options } =
        simulation;
    let is_plain = *scheme == MachineScheme::plain();
    let real = work.real()?;
    let of_schemes = work.for_schemes(is_plain, real.as_ref())?;
    let prepared = scheme.prepare(&of_schemes, options, None);
    if let Work::Trace(path) = work
        && !is_plain
        && prepared.as_ref().map_or(0, |prepared| prepared.epoch_lines()) == 0
        && work.lacks_transactions(&of_schemes)
    {
        // A scheme of transactions.
        return match real {
            Some(_) if requests.is_none() && timeline.is_none() => captured::run(simulation, path),
            _ => Err(no_transactions(path, *scheme).into()),
        };
    }
    let prepared = prepared.map_err(|error| format!("{}: {error}", work.name()))?;
    if let Work::Trace(path) = work
        && !is_plain
        && prepared.epoch_lines() == 0
        && work.lacks_transactions(&of_schemes)
    {
        // A scheme of transactions.
        return match real {
            Some(_) if requests.is_none() && timeline.is_none() => captured::run(simulation, path),
            _ => Err(no_transactions(path, *scheme).into()),
        };
    }
    let lanes = of_schemes.lanes;
    let sources = work.sources(prepared.as_ref(), lanes, *seed, !is_plain, real.as_ref())?;
    let machine = &with_cores(machine, sources.len() as u16);
    let threads = sources.len() as u32;
    let journal = (!is_plain).then_some(Domain::Adr);
    let base = real.as_ref().map_or(Vec::new(), RealPrograms::base);
    let setup = Setup { seed: *seed, journal, base, ..Setup::default() };
    let mut system = prepared.machine(machine, setup, sources)?;
    let programs = real.as_ref().map_or(1, |real| real.programs().len()) as u64;
    let stage = format!("{} under {}, million instructions", work.name(), scheme.name());
    let all = programs * (warm_up + instructions);
    let mut estimate = Estimate::new(&stage, all / MILLION);
    let mut tell = |done: u64| estimate.tell(done / MILLION, listen);
    if warm_up_ends(system.as_mut(), work, real.as_ref(), *warm_up, &mut tell)? {
        let ran = system.take_stats().instructions();
        return Err(format!(
            "{}: ends after {ran} instructions, within the warm-up: take a smaller --warm-up",
            work.name()
        )
        .into());
    }
    system.take_stats();
    let began = system.now();
    if let Some(request) = timeline {
        let (from, to) = request.window(system.now());
        system.keep_timeline(from, to);
    }
    let watch = Stopwatch::new();
    let mut ends = Vec::new();
    match (&mut requests, &real) {
        (Some(file), _) => {
            let memory = &machine.memory;
            let interval = memory.t_refi.cycles(memory.clock.period_fs()).max(1);
            export(system.as_mut(), *instructions, interval, *file)?;
        }
        (None, Some(real)) if matches!(work, Work::Programs(_)) => {
            let mut told = |done| tell(programs * warm_up + done);
            ends = real.run(system.as_mut(), *instructions, &mut told)?;
        }
        (None, _) => run_telling(system.as_mut(), *instructions, &mut |done| tell(warm_up + done))?,
    }
    let elapsed = watch.elapsed();
    let seconds = elapsed.cpu.unwrap_or(elapsed.wall).as_secs_f64();
    let stats = system.take_stats();
    if let (Some(request), Some(timeline)) = (timeline, system.take_timeline()) {
        request.write(&timeline, machine, system.now())?;
    }
    let mut found = records::records(&work.name(), *scheme, machine, threads, &stats, seconds);
    if let Work::Programs(paths) = work {
        let ends = ends.iter().map(|end| end.map(|at: Cycle| at.since(began)));
        found.extend(records::program_records(paths, &found[0], ends));
    }
    Ok(found)
}

const MILLION: u64 = 1_000_000;

/// Runs the warm-up; whether the work ends within it.
fn warm_up_ends(
    system: &mut dyn Machine,
    work: &Work,
    real: Option<&RealPrograms>,
    warm_up: u64,
    tell: &mut dyn FnMut(u64),
) -> Result<bool, Box<dyn std::error::Error>> {
    match (work, real) {
        (Work::Programs(_), Some(real)) => real.run(system, warm_up, tell).map(|_| false),
        _ => Ok(system.run(warm_up)? == Ended::Finished && warm_up > 0),
    }
    .map_err(Into::into)
}

/// Runs `instructions` instructions, or to the end.
fn run_telling(
    system: &mut dyn Machine,
    instructions: u64,
    tell: &mut dyn FnMut(u64),
) -> Result<(), Box<dyn std::error::Error>> {
    let mut left = instructions;
    while left > 0 {
        let step = left.min(TELL_INSTRUCTIONS);
        if system.run(step)? == Ended::Finished {
            break;
        }
        left -= step;
        tell(instructions - left);
    }
    Ok(())
}

/// Instructions after which is told how far a run is.
const TELL_INSTRUCTIONS: u64 = 1 << 20;

/// What each primitive operation costs on a machine.
///
/// # Errors
/// When the machine cannot be built or comes to a stop.
pub fn cost_table(machine: &MachineConfig) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let config = format!("{} ({})", machine.name, machine.core.kind);
    let measured = primitives(machine)?;
    let record = |primitive: &outlast_sim::timed::Primitive| {
        let scheme = MachineScheme::plain().name();
        Record::new(Kind::Sim, primitive.name, scheme, Metric::PRIMITIVE, primitive.ns)
            .config(&config)
            .class(primitive.about)
    };
    Ok(measured.iter().map(record).collect())
}

/// Registers of a stream's instructions start here in its trace, above those that mean something.
const STREAM_REGISTERS: u8 = 64;
/// Addresses of a stream start here in its trace, where 0 means none.
const STREAM_ADDRESSES: u64 = 1 << 32;

#[cfg(test)]
mod tests;
