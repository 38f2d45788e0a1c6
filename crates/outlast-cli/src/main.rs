//! `outlast`: flags and glue. What the commands do lives in the crates that own it.
#![forbid(unsafe_code)]
// These panic where their text cannot be written: `say` has what does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[cfg(feature = "lab")]
mod bench;
mod check;
#[cfg(feature = "lab")]
mod compare;
mod crash;
#[cfg(all(test, feature = "lab"))]
mod documented;
#[cfg(feature = "lab")]
mod list;
mod names;
mod planted;
#[cfg(feature = "lab")]
mod pool;
#[cfg(feature = "lab")]
mod program;
#[cfg(feature = "lab")]
mod report;
#[cfg(feature = "lab")]
mod reproduce;
mod say;
#[cfg(feature = "lab")]
mod serve;
#[cfg(feature = "lab")]
mod signals;
#[cfg(feature = "lab")]
mod sim;
#[cfg(feature = "lab")]
mod size;
#[cfg(feature = "lab")]
mod sqlite;
#[cfg(feature = "lab")]
mod suite;
#[cfg(feature = "lab")]
mod teller;
#[cfg(feature = "lab")]
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::say::{OutputFailed, noteln};

/// How a command ended that was not stopped by bad input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// Everything is as it should be.
    Good,
    /// A check found damage or a loss: exit status 1.
    Bad,
}

impl Verdict {
    /// Itself, once its findings are printed. A reader that went away does not change what was found.
    fn after(self, printed: Result<(), OutputFailed>) -> CommandResult {
        match printed {
            Err(error) if self == Self::Good || !error.is_reader_gone() => Err(error.into()),
            _ => Ok(self),
        }
    }

    /// Good if both are.
    fn and(self, other: Option<Self>) -> Self {
        if other == Some(Self::Bad) { Self::Bad } else { self }
    }
}

/// Refuses two formats of one result.
#[cfg(feature = "lab")]
fn one_format(csv: bool, json: bool) -> Result<(), &'static str> {
    match csv && json {
        true => Err("--csv and --json each print the whole result: give one of them"),
        false => Ok(()),
    }
}

/// Any of the crates' errors: one line, exit status 2.
type CommandResult = Result<Verdict, Box<dyn std::error::Error>>;

/// Durable transactions on persistent memory, and a laboratory for crash consistency.
///
/// Exit status: 0 for success; 1 where a check found damage or a loss, a planted bug went unnoticed,
/// or standard output has no room; 2 for bad input, with one line that says what would be right; 141
/// where the reader of standard output went away before the end.
#[derive(Parser)]
#[command(name = "outlast", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print one JSON document on standard output, and nothing else there.
    #[arg(long, global = true)]
    json: bool,
    /// Everything drawn at random follows from this number.
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
}

#[derive(Subcommand)]
enum Command {
    /// Create pool files and look after them.
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Pool(pool::PoolCommand),
    /// Move SQLite databases into pools and out of them.
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Sqlite(sqlite::SqliteCommand),
    /// Measure schemes against each other, and against what the machine allows.
    #[cfg(feature = "lab")]
    Bench(bench::BenchArgs),
    /// Crash the runtime on models of caches, recover, and judge.
    Crash(crash::CrashArgs),
    /// Measure and crash everything; write a page and all results.
    #[cfg(feature = "lab")]
    Report(report::ReportArgs),
    /// Crash any program that writes files at a loss of power, and have it recover.
    Check(outlast_check::cli::CheckArgs),
    /// Run the timed machine: streams, traces of real programs, the cost of operations.
    #[cfg(feature = "lab")]
    Sim(sim::SimArgs),
    /// Capture a trace of a real program, or look into one.
    #[cfg(feature = "lab")]
    Trace(trace::TraceArgs),
    /// Put every scheme that applies side by side on the same work.
    #[cfg(feature = "lab")]
    Compare(compare::CompareArgs),
    /// The papers' figures again: claimed, measured, judged.
    #[cfg(feature = "lab")]
    Reproduce(reproduce::ReproduceArgs),
    /// Serve a pool to clients of the Redis protocol; what is acknowledged is durable.
    #[cfg(feature = "lab")]
    Serve(serve::ServeArgs),
    /// List the schemes, with what each promises.
    #[cfg(feature = "lab")]
    Schemes,
    /// List the workloads.
    #[cfg(feature = "lab")]
    Workloads,
}

fn main() -> ExitCode {
    #[cfg(feature = "lab")]
    if let Err(error) = signals::limit_is_an_error() {
        noteln!("outlast: {error}");
        return ExitCode::from(2);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    ended(run(&cli))
}

fn run(cli: &Cli) -> CommandResult {
    let verdict = match &cli.command {
        #[cfg(feature = "lab")]
        Command::Pool(command) => pool::run(command, cli.json, cli.seed),
        #[cfg(feature = "lab")]
        Command::Sqlite(command) => sqlite::run(command, cli.json, cli.seed),
        #[cfg(feature = "lab")]
        Command::Bench(args) => bench::run(args, cli.json, cli.seed),
        Command::Crash(args) => crash::run(args, cli.json, cli.seed),
        Command::Check(args) => check::run(args, cli.json, cli.seed),
        #[cfg(feature = "lab")]
        Command::Report(args) => report::run(args, cli.json, cli.seed),
        #[cfg(feature = "lab")]
        Command::Sim(args) => sim::run(args, cli.json, cli.seed),
        #[cfg(feature = "lab")]
        Command::Trace(args) => trace::run(args, cli.json, cli.seed),
        #[cfg(feature = "lab")]
        Command::Compare(args) => compare::run(args, cli.json, cli.seed),
        #[cfg(feature = "lab")]
        Command::Reproduce(args) => reproduce::run(args, cli.json, cli.seed),
        #[cfg(feature = "lab")]
        Command::Serve(args) => serve::run(args),
        #[cfg(feature = "lab")]
        Command::Schemes => list::schemes(cli.json, cli.seed),
        #[cfg(feature = "lab")]
        Command::Workloads => list::workloads(cli.json, cli.seed),
    }?;
    verdict.after(say::flush())
}

/// What a shell reports of a program that SIGPIPE has ended.
const READER_GONE: u8 = 141;

/// The exit status: 0, 1 for what a check found and for results without room, 2 for bad input. Where
/// the reader of the output has gone, nothing is said, and what is unknown is no success.
fn ended(result: CommandResult) -> ExitCode {
    let error = match result {
        Ok(Verdict::Good) => return ExitCode::SUCCESS,
        Ok(Verdict::Bad) => return ExitCode::from(1),
        Err(error) => error,
    };
    let output = error.downcast_ref::<OutputFailed>();
    if output.is_some_and(OutputFailed::is_reader_gone) {
        return ExitCode::from(READER_GONE);
    }
    noteln!("outlast: {error}");
    ExitCode::from(if output.is_some() { 1 } else { 2 })
}

/// Help and versions as clap prints them; a mistake as one line that says what would be right.
fn usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::{
        DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion,
    };
    match error.kind() {
        DisplayHelp | DisplayVersion => ended(help(error)),
        DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => {
            let text = error.to_string();
            let words: Vec<&str> = text
                .lines()
                .map(str::trim)
                .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
                .filter(|line| !line.is_empty())
                .collect();
            noteln!("outlast: {}", words.join(" ").trim_start_matches("error: "));
            ExitCode::from(2)
        }
    }
}

fn help(error: &clap::Error) -> CommandResult {
    error.print().map_err(OutputFailed)?;
    say::flush()?;
    Ok(Verdict::Good)
}

/// What was asked for, as documents state it.
#[cfg(feature = "lab")]
fn command_line() -> String {
    let arguments =
        std::env::args().skip(1).map(|argument| outlast_crash::shell::word(&argument).into_owned());
    std::iter::once("outlast".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// One JSON document as all commands print it.
#[cfg(feature = "lab")]
fn document(command: &str, seed: u64, records: Vec<serde_json::Value>) -> String {
    let document = serde_json::json!({
        "outlast": env!("CARGO_PKG_VERSION"),
        "command": command,
        "machine": outlast_lab::machine::Machine::this(),
        "seed": seed,
        "records": records,
    });
    format!("{document:#}")
}
