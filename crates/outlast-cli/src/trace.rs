//! `outlast trace`: capture, suite, info, stat, check, cut, points, convert.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use outlast_lab::points::{self, Choice, Window};
use outlast_lab::progress::Progress;
use outlast_lab::simulated;
use outlast_trace::{
    ChampSimReader, Ending, Facts, Loss, Part, Program, RequestFormat, RequestList, RequestOptions,
    champsim_of_drmemtrace, check_program, cut_program, from_champsim, from_drmemtrace,
    is_drmemtrace, is_program_trace, is_trace, read_trace, to_champsim, to_drmemtrace, write_whole,
};
use outlast_tracer::{CapturedFile, ProgramOutput, Request, capture};
use outlast_workloads::own;
use serde_json::json;

use crate::say::{Teller, noteln, outln};
use crate::suite::{self, SuiteArgs};
use crate::{CommandResult, Verdict, signals};

/// Most instructions of a window: weeks of it.
const INSTRUCTIONS_MAX: u64 = 1_000_000_000_000;

const STATUSES_OF_SUITE: &str = "\
Exit status:
  0  all traces are there
  1  some are not: each has a line that says why
  2  wrong use: no such program, or a folder that cannot be used";

const STATUSES_OF_CHECK: &str = "\
Exit status:
  0  the trace is right
  1  it is not: each finding is a line, or stands in the JSON document (--json)
  2  wrong use: no such file, no trace, cut off or damaged";

/// Captures a trace of a real program, or looks into one: `outlast trace -- PROGRAM ARGS…`.
///
/// Any program for x86-64 Linux runs as it is, under QEMU's user mode (Debian's package qemu-user) with a
/// plugin of ours. The trace has each load and store with its bytes, instructions, branches, system
/// calls, and what memory held before and afterwards; `outlast sim --trace` replays it. Children of fork
/// get files of their own (FILE.1.otrace, …), and so do the programs that they become with exec.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TraceArgs {
    #[command(subcommand)]
    command: Option<TraceCommand>,
    /// The trace [default: the program's name with .otrace, in this directory].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Instructions that run before the capture starts.
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u64).range(..=INSTRUCTIONS_MAX))]
    skip: u64,
    /// Captures N instructions, and ends the program.
    #[arg(long, value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=INSTRUCTIONS_MAX))]
    count: Option<u64>,
    /// Starts, or starts to skip, where this function of the program begins for the first time. The
    /// program has to have its symbols.
    #[arg(long, value_name = "SYMBOL")]
    start_at: Option<String>,
    /// The program, by path or as the shell finds it, and its arguments.
    #[arg(last = true, value_name = "PROGRAM ARGS")]
    program: Vec<OsString>,
}

/// What to do with a trace.
#[derive(Subcommand)]
enum TraceCommand {
    /// Capture a suite of real programs of Debian's, in place of the papers' benchmarks.
    ///
    /// For each program of SPEC CPU2006 that the papers name there is one for the same purpose. Traces that
    /// are there and come from the same command, inputs, window and versions are kept. A package that is
    /// missing is named, and the rest goes on. docs/trace.md has the table.
    #[command(after_help = STATUSES_OF_SUITE)]
    Suite(SuiteArgs),
    /// Say where a trace comes from, how large it is, and what `check` says of it; status as there.
    Info(FileArgs),
    /// Count what a program's trace holds: instructions, accesses, branches, lines, calls.
    Stat(FileArgs),
    /// Prove a program's trace: read all of it, apply its stores, and compare with what the program's
    /// memory held at its end, byte by byte.
    #[command(after_help = STATUSES_OF_CHECK)]
    Check(FileArgs),
    /// Write a part of a program's trace, with what memory held then.
    ///
    /// Instructions are counted over all threads, in their one order. Numbers of threads and the order of
    /// their stores stay.
    Cut(CutArgs),
    /// Choose representative windows of a program's trace, as SimPoint does, and write their traces.
    ///
    /// The trace is divided into intervals. Those that run the same basic blocks as often, and may cost as
    /// much by what the caches of the suite's machine miss, are a group; of each group one interval stands
    /// for all, with their share as its weight. `outlast sim --trace FILE.points` runs them and tells what the
    /// whole trace would come to.
    Points(PointsArgs),
    /// Make a trace in another format: of programs, of one's own transactions, of memory requests.
    ///
    /// A program's trace becomes ChampSim's, or the file of the transactions that it marks (--to work); such a file,
    /// or one of ChampSim's or drmemtrace's, a program's. Lists of memory requests of DRAMsim3, Ramulator and gem5 become
    /// each other. docs/trace.md has what each holds; what would be lost of a list or of transactions is refused
    /// unless --lose names it.
    Convert(ConvertArgs),
}

#[derive(Args)]
struct FileArgs {
    /// The trace.
    file: PathBuf,
}

#[derive(Args)]
struct CutArgs {
    /// The trace.
    file: PathBuf,
    /// The part's file.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Instructions before the part.
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,
    /// Instructions of the part; it ends with a whole block.
    #[arg(long, value_name = "N", default_value_t = INSTRUCTIONS_MAX,
        value_parser = clap::value_parser!(u64).range(1..=INSTRUCTIONS_MAX))]
    count: u64,
}

#[derive(Args)]
struct PointsArgs {
    /// The trace.
    file: PathBuf,
    /// The file that names the windows [default: the trace's name with .points]. Their traces lie
    /// beside it (FILE.1.otrace, …).
    #[arg(long, value_name = "FILE.points")]
    out: Option<PathBuf>,
    /// Instructions of an interval, and of a window.
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1000..=INSTRUCTIONS_MAX))]
    interval: u64,
    /// The most windows.
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=100))]
    windows: u64,
    /// Instructions before each window, which do not count.
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(..=INSTRUCTIONS_MAX))]
    warm_up: u64,
}

#[derive(Args)]
struct ConvertArgs {
    /// The trace: a program's; ChampSim's, raw, .gz, .xz or .bz2; drmemtrace's of one thread, raw, .gz or .zip;
    /// or a list of requests: DRAMsim3's, Ramulator's, gem5's packets.
    file: PathBuf,
    /// The other one. ChampSim's, drmemtrace's or gem5's is compressed if its name ends in .gz.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The other format [default: otrace, and champsim of an otrace].
    #[arg(long, value_enum)]
    to: Option<TraceFormat>,
    /// Leaves out what the other format cannot hold: times, sizes, fields (gem5's program counters, numbers and
    /// flags), commands (gem5's packets other than reads and writes), outside (all outside of transactions).
    #[arg(long, value_name = "WHAT[,WHAT...]", value_delimiter = ',')]
    lose: Vec<Loss>,
    /// The memory's clock, between DRAMsim3's cycles and gem5's ticks.
    #[arg(long, value_name = "MHZ", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    clock: Option<u64>,
    /// Cycles from one request to the next, of a list without times.
    #[arg(long, value_name = "CYCLES", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    every: Option<u64>,
    /// The thread whose instructions a trace of ChampSim's or drmemtrace's gets.
    #[arg(long, value_name = "N", default_value_t = 0)]
    thread: u16,
}

/// Formats that a trace can be converted to.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TraceFormat {
    /// A program's trace.
    Otrace,
    /// ChampSim's.
    Champsim,
    /// drmemtrace's, of one thread.
    Drmemtrace,
    /// Transactions of one's own (docs/own-work.md).
    Work,
    /// DRAMsim3's requests.
    Dramsim3,
    /// Requests for Ramulator's mode `dram`.
    Ramulator,
    /// Loads and stores for Ramulator 2.
    Ramulator2,
    /// gem5's packets.
    Gem5,
}

impl TraceFormat {
    fn requests(self) -> Option<RequestFormat> {
        Some(match self {
            Self::Dramsim3 => RequestFormat::Dramsim3,
            Self::Ramulator => RequestFormat::Ramulator,
            Self::Ramulator2 => RequestFormat::Ramulator2,
            Self::Gem5 => RequestFormat::Gem5,
            Self::Otrace | Self::Champsim | Self::Drmemtrace | Self::Work => return None,
        })
    }
}

/// Does what was asked for.
pub fn run(args: &TraceArgs, as_json: bool, seed: u64) -> CommandResult {
    match &args.command {
        None => captured(args, as_json, seed),
        Some(TraceCommand::Suite(args)) => suite::run(args, as_json, seed),
        Some(TraceCommand::Info(args)) => info(&args.file, as_json, seed),
        Some(TraceCommand::Stat(args)) => stat(&args.file, as_json, seed),
        Some(TraceCommand::Check(args)) => check(&args.file, as_json, seed),
        Some(TraceCommand::Cut(args)) => cut(args, as_json, seed),
        Some(TraceCommand::Points(args)) => points(args, as_json, seed),
        Some(TraceCommand::Convert(args)) => convert(args, as_json, seed),
    }
}

fn captured(args: &TraceArgs, as_json: bool, seed: u64) -> CommandResult {
    if args.program.is_empty() {
        return Err("no program is given: outlast trace -- PROGRAM ARGS…, or one of suite, info, stat, check, cut, \
                    points, convert"
            .into());
    }
    signals::clean_up_but_for_interrupts()?;
    let file = match &args.out {
        Some(out) => out.clone(),
        None => {
            let name = args.program.first().map(Path::new).and_then(Path::file_name);
            let mut name = name.unwrap_or_default().to_owned();
            name.push(".otrace");
            name.into()
        }
    };
    let request = Request {
        skip: args.skip,
        count: args.count,
        start_at: args.start_at.clone(),
        // Standard output is the document's.
        output: if as_json { ProgramOutput::Aside } else { ProgramOutput::Ours },
        ..Request::new(file, args.program.iter().cloned())
    };
    let teller = Teller::new();
    let captured = capture(&request, &mut |progress| {
        let mega = progress.words >> 20;
        teller.tell(Progress::Step { stage: "capturing, million events", done: mega, total: mega });
    })?;
    drop(teller);
    let wrong = captured.files.iter().map(|file| wrong_with(&file.path)).collect::<Vec<_>>();
    let verdict = match wrong.iter().all(Option::is_none) {
        true => Verdict::Good,
        false => Verdict::Bad,
    };
    if !captured.status.success() && args.count.is_none() {
        noteln!("outlast: the program ended with {}", captured.status);
    }
    if as_json {
        let record = |(file, wrong): (&CapturedFile, &Option<String>)| {
            json!({
                "kind": "trace",
                "file": file.path.display().to_string(),
                "bytes": file.bytes,
                "whole": file.ending == Ending::Whole,
                "notes": file.notes,
                "wrong": wrong,
            })
        };
        let records = captured.files.iter().zip(&wrong).map(record).collect();
        outln!("{}", crate::document("trace", seed, records));
        return Ok(verdict);
    }
    for (file, wrong) in captured.files.iter().zip(&wrong) {
        let ending = match file.ending {
            Ending::Whole => "",
            Ending::Killed => {
                ", up to some thousand instructions before the process was killed, or where it became \
                 another program"
            }
        };
        noteln!("outlast: {}: {} bytes{ending}", file.path.display(), file.bytes);
        file.notes.iter().for_each(|note| noteln!("outlast: {note}"));
        wrong.iter().for_each(|wrong| noteln!("outlast: the trace is wrong: {wrong}"));
    }
    noteln!("outlast: programs find a processor without AVX, and take their paths for it");
    Ok(verdict)
}

/// What `check` finds wrong with a trace, if anything, in one line.
fn wrong_with(path: &Path) -> Option<String> {
    match Program::open(path).and_then(|program| check_program(&program)) {
        Ok(checked) if checked.count == 0 => None,
        Ok(checked) => {
            Some(format!("{} findings, the first: {}", checked.count, checked.findings[0]))
        }
        Err(error) => Some(error.to_string()),
    }
}

fn info(path: &Path, as_json: bool, seed: u64) -> CommandResult {
    let mut lines: Vec<(&str, serde_json::Value)> = Vec::new();
    let mut verdict = Verdict::Good;
    if is_program_trace(path) {
        let program = Program::open(path)?;
        let about = program.about();
        let events: u64 = (0..program.threads()).map(|thread| program.events(thread)).sum();
        lines.extend([
            ("format", json!("program's trace, version 3")),
            ("command", json!(about.command.join(" "))),
            ("digest", json!(about.digest)),
            ("tools", json!(about.tools)),
            ("window", json!(about.window)),
            ("process", json!(about.process)),
            ("threads", json!(program.threads())),
            ("blocks", json!(program.blocks())),
            ("pages", json!(program.pages()?.len())),
            ("events", json!(events)),
            ("whole", json!(program.ending() == Ending::Whole)),
            ("bytes", json!(program.bytes())),
        ]);
        let wrong = wrong_with(path);
        if wrong.is_some() {
            verdict = Verdict::Bad;
        }
        lines.push(("check", json!(wrong.unwrap_or_else(|| "right".to_owned()))));
    } else if is_trace(path) {
        let log = read_trace(path)?;
        let lanes = log.iter().map(|(lane, _)| lane.0).max().map_or(0, |last| last + 1);
        lines.extend([
            ("format", json!("operations")),
            ("operations", json!(log.len())),
            ("lanes", json!(lanes)),
        ]);
    } else {
        let mut reader = ChampSimReader::open(path)?;
        while reader.read(|_| {})? {}
        lines.extend([
            ("format", json!("ChampSim's")),
            ("instructions", json!(reader.instructions())),
        ]);
    }
    show("trace info", &lines, as_json, seed).map(|_| verdict)
}

/// Prints lines of a name and a value, or a record of them.
fn show(
    command: &str,
    lines: &[(&str, serde_json::Value)],
    as_json: bool,
    seed: u64,
) -> CommandResult {
    if as_json {
        let fields = lines.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let record = serde_json::Value::Object(fields.collect());
        outln!("{}", crate::document(command, seed, vec![record]));
        return Ok(Verdict::Good);
    }
    for (name, value) in lines {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        outln!("{name:<22} {text}");
    }
    Ok(Verdict::Good)
}

fn facts(facts: &Facts, bytes: u64) -> Vec<(&'static str, serde_json::Value)> {
    let accesses = facts.accesses();
    let per_access = if accesses > 0 { bytes as f64 / accesses as f64 } else { 0.0 };
    let per_thousand = |n: u64| {
        let instructions = facts.instructions.max(1) as f64;
        (n as f64 * 1e5 / instructions).round() / 100.0
    };
    vec![
        ("threads", json!(facts.threads)),
        ("instructions", json!(facts.instructions)),
        ("loads", json!(facts.loads)),
        ("loaded_bytes", json!(facts.loaded_bytes)),
        ("stores", json!(facts.stores)),
        ("stored_bytes", json!(facts.stored_bytes)),
        ("loads_per_1000", json!(per_thousand(facts.loads))),
        ("stores_per_1000", json!(per_thousand(facts.stores))),
        ("crossing_lines", json!(facts.crossing_lines)),
        ("crossing_pages", json!(facts.crossing_pages)),
        ("conditional_branches", json!(facts.conditional_branches)),
        ("other_branches", json!(facts.other_branches)),
        ("locked", json!(facts.locked)),
        ("fences", json!(facts.fences)),
        ("flushes", json!(facts.flushes)),
        ("calls", json!(facts.calls)),
        ("system_bytes", json!(facts.system_bytes)),
        ("signals", json!(facts.signals)),
        ("lines", json!(facts.lines)),
        ("pages", json!(facts.pages)),
        ("bytes_per_access", json!((per_access * 1000.0).round() / 1000.0)),
    ]
}

fn stat(path: &Path, as_json: bool, seed: u64) -> CommandResult {
    let program = Program::open(path)?;
    let checked = check_program(&program)?;
    show("trace stat", &facts(&checked.facts, program.bytes()), as_json, seed)
}

fn check(path: &Path, as_json: bool, seed: u64) -> CommandResult {
    let program = Program::open(path)?;
    let checked = check_program(&program)?;
    let verdict = if checked.count == 0 { Verdict::Good } else { Verdict::Bad };
    let is_whole = program.ending() == Ending::Whole;
    if as_json {
        let record = json!({
            "findings": checked.findings,
            "count": checked.count,
            "pages_compared": checked.compared,
            "instructions": checked.facts.instructions,
            "accesses": checked.facts.accesses(),
            "threads": checked.facts.threads,
            "whole": is_whole,
        });
        outln!("{}", crate::document("trace check", seed, vec![record]));
        return Ok(verdict);
    }
    for finding in &checked.findings {
        outln!("{finding}");
    }
    let compared = match is_whole {
        true => format!("{} pages compared with the program's at its end", checked.compared),
        false => "what memory held at the end is not known".to_owned(),
    };
    outln!(
        "{} findings; {} instructions, {} accesses, {} threads; {compared}",
        checked.count,
        checked.facts.instructions,
        checked.facts.accesses(),
        checked.facts.threads
    );
    Ok(verdict)
}

fn cut(args: &CutArgs, as_json: bool, seed: u64) -> CommandResult {
    signals::clean_up_at_the_end()?;
    let program = Program::open(&args.file)?;
    let part = Part { skip: args.skip, count: args.count, out: args.out.clone() };
    let cut =
        cut_program(&program, part).map_err(|error| format!("{}: {error}", args.file.display()))?;
    show("trace cut", &[("instructions", json!(cut))], as_json, seed)
}

fn points(args: &PointsArgs, as_json: bool, seed: u64) -> CommandResult {
    signals::clean_up_at_the_end()?;
    let out = args.out.clone().unwrap_or_else(|| args.file.with_extension(points::EXTENSION));
    if !points::are_points(&out) {
        let out = out.display();
        return Err(format!("--out {out}: a file of windows ends in .{}", points::EXTENSION).into());
    }
    let program = Program::open(&args.file)?;
    let PointsArgs { interval, warm_up, windows, .. } = *args;
    let choice = Choice { interval, windows_max: windows as usize, warm_up, seed };
    let found = points::choose(&program, &choice, &out)
        .map_err(|error| format!("{}: {error}", args.file.display()))?;
    if as_json {
        let record = serde_json::to_value(&found)?;
        outln!("{}", crate::document("trace points", seed, vec![record]));
        return Ok(Verdict::Good);
    }
    outln!("{:>14} {:>13} {:>8}  trace", "begins at", "instructions", "weight");
    for window in &found.windows {
        let Window { begins_at, instructions, weight, .. } = window;
        let file = out.with_file_name(&window.file);
        outln!("{begins_at:>14} {instructions:>13} {weight:>8.4}  {}", file.display());
    }
    let (windows, intervals) = (found.windows.len(), found.intervals);
    outln!("{windows} windows for {intervals} intervals: {}", out.display());
    Ok(Verdict::Good)
}

fn convert(args: &ConvertArgs, as_json: bool, seed: u64) -> CommandResult {
    signals::clean_up_at_the_end()?;
    if let Some(format) = args.to.and_then(TraceFormat::requests) {
        return convert_requests(args, format, as_json, seed);
    }
    let file = args.file.display();
    let is_program = is_program_trace(&args.file);
    if args.file.extension().is_some_and(|extension| extension == own::EXTENSION) {
        return match args.to {
            None | Some(TraceFormat::Otrace) => {
                let instructions = simulated::trace_of_work(&args.file, &args.out)?;
                show("trace convert", &[("instructions", json!(instructions))], as_json, seed)
            }
            _ => Err(format!("{file}: transactions of one's own become an otrace first").into()),
        };
    }
    let to =
        args.to.unwrap_or(if is_program { TraceFormat::Champsim } else { TraceFormat::Otrace });
    let (converted, note) = match to {
        TraceFormat::Work => return convert_work(args, as_json, seed),
        TraceFormat::Champsim | TraceFormat::Drmemtrace if is_program => {
            let program = Program::open(&args.file)?;
            if args.thread >= program.threads() {
                let threads = program.threads();
                return Err(format!(
                    "{file}: --thread {}: it has {threads}, from 0 on",
                    args.thread
                )
                .into());
            }
            match to {
                TraceFormat::Drmemtrace => {
                    let converted = to_drmemtrace(&program, args.thread, &args.out)?;
                    (
                        converted,
                        "registers, values, what memory held and the system's work are lost",
                    )
                }
                _ => {
                    let converted = to_champsim(&program, args.thread, &args.out)?;
                    (converted, "sizes, values, what memory held and the system's work are lost")
                }
            }
        }
        _ if is_program => return Err(format!("{file}: it is a program's trace already").into()),
        _ if is_trace(&args.file) => {
            return Err(format!("{file}: a trace of operations, which has no instructions").into());
        }
        TraceFormat::Drmemtrace => {
            return Err(format!(
                "{file}: only an otrace becomes a trace of drmemtrace's: convert it to one first"
            )
            .into());
        }
        to if is_drmemtrace(&args.file) => match to {
            TraceFormat::Champsim => {
                let converted = champsim_of_drmemtrace(&args.file, &args.out)?;
                (converted, "sizes, prefetches, encodings and markers are lost")
            }
            _ => {
                let converted = from_drmemtrace(&args.file, &args.out)?;
                (converted, "sizes and values are made up: aligned words, each store its number")
            }
        },
        _ if RequestList::open(&args.file)?.is_some() => {
            return Err(format!("{file}: a list of requests, which has no instructions").into());
        }
        TraceFormat::Champsim => {
            // One that is ChampSim's has a magic number as little as any other file.
            let mut reader = ChampSimReader::open(&args.file)?;
            reader.read(|_| {})?;
            return Err(format!("{file}: it is ChampSim's already").into());
        }
        _ => {
            let converted = from_champsim(&args.file, &args.out)?;
            (converted, "sizes and values are made up: aligned words, each store its number")
        }
    };
    if !as_json {
        noteln!("outlast: {note}");
    }
    let lines = [
        ("instructions", json!(converted.instructions)),
        ("lost_accesses", json!(converted.lost_accesses)),
    ];
    show("trace convert", &lines, as_json, seed)
}

/// Makes a list of requests of another one.
fn convert_requests(
    args: &ConvertArgs,
    to: RequestFormat,
    as_json: bool,
    seed: u64,
) -> CommandResult {
    let list = RequestList::open(&args.file)?.ok_or_else(|| {
        format!(
            "{}: no list of requests: of other traces a run has them (outlast sim --export-requests)",
            args.file.display()
        )
    })?;
    let (lose, every) = (args.lose.clone(), args.every);
    let clock_hz = args.clock.map(|mega| mega * 1_000_000);
    let from = list.format();
    let requests = list.convert(to, &args.out, &RequestOptions { lose, clock_hz, every })?;
    let lines = [("from", json!(from.to_string())), ("requests", json!(requests))];
    show("trace convert", &lines, as_json, seed)
}

/// Makes a file of the transactions that a program marks.
fn convert_work(args: &ConvertArgs, as_json: bool, seed: u64) -> CommandResult {
    let listed = simulated::listed_work(&args.file, &args.lose)?;
    write_whole(&args.out, listed.work.to_string())
        .map_err(|error| format!("{}: {error}", args.out.display()))?;
    let lines = [
        ("transactions", json!(listed.work.len())),
        ("memory", json!(listed.work.memory_bytes())),
        ("lost_stores", json!(listed.stores_outside)),
        ("lost_instructions", json!(listed.instructions_outside)),
    ];
    show("trace convert", &lines, as_json, seed)
}
