//! `outlast sim`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use outlast::{Plant, Scheme};
use outlast_lab::record::Document;
use outlast_lab::simulated::{
    self, RuntimeRun, SimScheme, Simulation, Swaps, TimelineRequest, Work,
};
use outlast_sim::timed::{CoreKind, KEYS, MEMORY_PRESETS, MachineConfig, PRESETS, Pattern};

use outlast_workloads::{Workload, workloads};

use crate::{CommandResult, Verdict};

#[derive(Clone, Copy, ValueEnum)]
enum CoreName {
    /// Out of order.
    Ooo,
    /// In order.
    Inorder,
}

#[derive(Args)]
pub struct SimArgs {
    /// A stream (friendly, stride, random), a workload for the runtime under software schemes,
    /// `swaps` for bare transactions under schemes, `primitives` for the cost of operations, or
    /// `machines` for what --config and --set know.
    #[arg(value_name = "STREAM|WORKLOAD|swaps|primitives|machines", required_unless_present_any = ["trace", "requests"])]
    what: Option<String>,
    /// Runs a trace instead: ChampSim's, raw, .gz, .xz or .bz2, or one of --save-trace.
    #[arg(long, value_name = "FILE", conflicts_with = "what")]
    trace: Option<PathBuf>,
    /// Replays memory requests on the machine's memory alone: lines of 0xADDRESS READ|WRITE CYCLE,
    /// cycles of the memory clock.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["what", "trace"])]
    requests: Option<PathBuf>,
    /// Writes the stream's instructions as a ChampSim trace, or a workload's operations under one
    /// scheme as an Outlast trace, instead of running them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "requests"])]
    save_trace: Option<PathBuf>,
    /// Writes the requests that a stream's or trace's run sends to memory, for --requests,
    /// DRAMsim3 or Ramulator: lines of 0xADDRESS READ|WRITE CYCLE.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["requests", "save_trace"])]
    export_requests: Option<PathBuf>,
    /// Writes what happens in some cycles as a Chrome trace, which Perfetto opens.
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["requests", "save_trace"])]
    timeline: Option<PathBuf>,
    /// The cycles of the timeline, counted from the end of the warm-up.
    #[arg(long, value_name = "FROM..TO", default_value = "0..100000", value_parser = cycles)]
    timeline_cycles: (u64, u64),
    /// Schemes, separated by commas: for a workload those of `outlast schemes`, for `swaps` those
    /// of the machine; all if not given.
    #[arg(long, value_delimiter = ',')]
    scheme: Vec<String>,
    /// Keys in the pool of a workload at first.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(4..=1 << 22))]
    keys: u64,
    /// Bytes of each lane's log for a workload, as `256KiB`.
    #[arg(long, default_value = "256K", value_parser = crate::size::parse)]
    lane_bytes: u64,
    /// Crashes a workload at so many places of the machine's journal, recovers and judges.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    crash_points: u32,
    /// Switches a planted bug on in a workload that is crashed.
    #[arg(long, requires = "crash_points")]
    plant: Option<Plant>,
    /// Threads of a workload or of `swaps`, each on a core of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// Words of the vector that `swaps` uses.
    #[arg(long, default_value_t = 1 << 22)]
    words: u64,
    /// Transactions that count, of each thread of `swaps`, of all threads of a workload; a quarter
    /// more runs before.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    transactions: u64,
    /// The kind of core, if not the machine's own.
    #[arg(long, value_enum)]
    core: Option<CoreName>,
    /// The machine: a preset's name or a TOML file (`outlast sim machines` lists them).
    #[arg(long, default_value = "server", value_name = "NAME|FILE.toml")]
    config: String,
    /// Changes the machine; several values run one machine each. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE[,VALUE...]")]
    options: Vec<String>,
    /// Instructions before counting starts.
    #[arg(long, default_value_t = 5_000_000)]
    warm_up: u64,
    /// Instructions that count.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    instructions: u64,
}

/// A span of cycles that is not empty.
fn cycles(text: &str) -> Result<(u64, u64), String> {
    let parsed = text.split_once("..").map(|(from, to)| (from.trim().parse(), to.trim().parse()));
    match parsed {
        Some((Ok(from), Ok(to))) if from < to => Ok((from, to)),
        _ => Err(format!("'{text}' is no span of cycles; write FROM..TO, as 0..100000")),
    }
}

/// What is to be done with a machine.
enum Task {
    Run(Work),
    Primitives,
    Requests(PathBuf),
    Swaps(Swaps, Vec<SimScheme>),
    Runtime(&'static Workload, Vec<Scheme>),
}

fn task(args: &SimArgs, seed: u64) -> Result<Task, String> {
    match (&args.requests, args.what.as_deref()) {
        (Some(path), _) => Ok(Task::Requests(path.clone())),
        (None, Some("primitives")) => Ok(Task::Primitives),
        (None, Some("swaps")) => {
            let SimArgs { words, transactions, threads, .. } = *args;
            let swaps = Swaps { words, warm_up: transactions / 4, transactions, threads, seed };
            let all = || SimScheme::ALL.iter().map(|row| row.0).collect();
            let schemes = if args.scheme.is_empty() { all() } else { schemes(args)? };
            Ok(Task::Swaps(swaps, schemes))
        }
        (None, Some(name)) if let Some(workload) = Workload::named(name) => {
            let all = || outlast::SCHEMES.iter().map(|row| row.scheme).collect();
            let schemes = if args.scheme.is_empty() { all() } else { schemes(args)? };
            if args.threads > MAX_LANES {
                return Err(format!(
                    "--threads {}: a workload takes 1 to {MAX_LANES}",
                    args.threads
                ));
            }
            Ok(Task::Runtime(workload, schemes))
        }
        (None, _) => work(args).map(Task::Run),
    }
}

/// Lanes that the oracle judges at once.
const MAX_LANES: u32 = outlast_crash::campaign::LANES_MAX as u32;

fn schemes<S: std::str::FromStr<Err: ToString>>(args: &SimArgs) -> Result<Vec<S>, String> {
    let parse = |name: &String| name.parse().map_err(|error: S::Err| error.to_string());
    args.scheme.iter().map(parse).collect()
}

fn work(args: &SimArgs) -> Result<Work, String> {
    if let Some(path) = &args.trace {
        return Ok(Work::Trace(path.clone()));
    }
    let name = args.what.as_deref().unwrap_or_default();
    let known = Pattern::ALL.iter().find(|row| row.1 == name);
    known.map(|row| Work::Stream(row.0)).ok_or_else(|| {
        let streams = Pattern::ALL.iter().map(|row| row.1);
        let names: Vec<_> = streams.chain(workloads().iter().map(|row| row.name)).collect();
        format!(
            "no stream or workload is called '{name}'; there are {}, swaps, primitives, machines",
            names.join(", ")
        )
    })
}

/// Runs and prints.
pub fn run(args: &SimArgs, as_json: bool, seed: u64) -> CommandResult {
    if args.what.as_deref() == Some("machines") {
        return machines(args, as_json, seed);
    }
    let task = task(args, seed)?;
    if let Some(path) = &args.save_trace {
        if let Task::Runtime(workload, schemes) = &task {
            let [scheme] = schemes[..] else {
                return Err("a trace is of one run: give one --scheme".into());
            };
            let machine = MachineConfig::named(&args.config)?;
            runtime_run(args, &machine, workload, scheme, seed).save_trace(path)?;
            return Ok(Verdict::Good);
        }
        let Task::Run(Work::Stream(pattern)) = task else {
            return Err("only a stream or a workload can be saved as a trace".into());
        };
        let instructions = args.warm_up + args.instructions;
        simulated::save_trace(pattern, seed, instructions, path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        return Ok(Verdict::Good);
    }
    let core = args.core.map(|core| match core {
        CoreName::Ooo => CoreKind::OutOfOrder,
        CoreName::Inorder => CoreKind::InOrder,
    });
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let machines = simulated::machines(&args.config, core, &args.options)?;
    if args.export_requests.is_some() && (machines.len() > 1 || !matches!(task, Task::Run(_))) {
        return Err("--export-requests takes one run of a stream or a trace on one machine".into());
    }
    let mut verdict = Verdict::Good;
    let runs = match &task {
        Task::Runtime(_, schemes) => machines.len() * schemes.len(),
        Task::Run(_) => machines.len(),
        _ => 0,
    };
    if args.timeline.is_some() && runs != 1 {
        let message = "a timeline is of one run of a stream, a trace or a workload: give one \
                       machine, and one --scheme";
        return Err(message.into());
    }
    for machine in machines {
        document.records.extend(match &task {
            Task::Primitives => simulated::cost_table(&machine)?,
            Task::Requests(path) => simulated::replay_requests(&machine, path)?,
            Task::Swaps(swaps, schemes) => {
                let mut records = Vec::new();
                for &scheme in schemes {
                    records.extend(simulated::run_swaps(&machine, scheme, swaps)?);
                }
                records
            }
            Task::Run(work) => {
                let simulation = Simulation {
                    machine,
                    work: work.clone(),
                    warm_up: args.warm_up,
                    instructions: args.instructions,
                    seed,
                    timeline: timeline(args),
                };
                match &args.export_requests {
                    Some(path) => simulated::run_exporting(&simulation, path)?,
                    None => simulated::run(&simulation)?,
                }
            }
            Task::Runtime(workload, schemes) => {
                let mut records = Vec::new();
                for &scheme in schemes {
                    let run = runtime_run(args, &machine, workload, scheme, seed);
                    let found = run.run()?;
                    if RuntimeRun::is_guilty(&found) {
                        verdict = Verdict::Bad;
                    }
                    records.extend(found);
                }
                records
            }
        });
    }
    if matches!(task, Task::Primitives) {
        document.records.extend(simulated::native_primitives(seed)?);
    }
    if as_json {
        print!("{}", document.to_json());
    } else if matches!(task, Task::Primitives) {
        print!("{}", simulated::primitive_table(&document.records));
    } else {
        print!("{}", simulated::table(&document.records));
    }
    Ok(verdict)
}

fn runtime_run(
    args: &SimArgs,
    machine: &MachineConfig,
    workload: &'static Workload,
    scheme: Scheme,
    seed: u64,
) -> RuntimeRun {
    RuntimeRun {
        machine: machine.clone(),
        workload,
        scheme,
        keys: args.keys,
        lanes: args.threads as u16,
        lane_bytes: args.lane_bytes,
        transactions: args.transactions as u32,
        points: args.crash_points as usize,
        plant: args.plant,
        seed,
        timeline: timeline(args),
    }
}

fn timeline(args: &SimArgs) -> Option<TimelineRequest> {
    let path = args.timeline.clone()?;
    Some(TimelineRequest { path, cycles: args.timeline_cycles })
}

/// Lists machines, memories, and the keys with the values of the machine asked for.
fn machines(args: &SimArgs, as_json: bool, seed: u64) -> CommandResult {
    let machine = MachineConfig::named(&args.config)?;
    let value = |key: &str| machine.get(key).unwrap_or_default();
    if as_json {
        let preset = |kind: &'static str| move |preset: &outlast_sim::timed::MachinePreset| serde_json::json!({"kind": kind, "name": preset.name, "description": preset.about});
        let keys = KEYS.iter().map(|(key, about)| {
            serde_json::json!({"kind": "key", "name": key, "description": about, "value": value(key)})
        });
        let records = PRESETS.iter().map(preset("machine"));
        let records = records.chain(MEMORY_PRESETS.iter().map(preset("memory"))).chain(keys);
        println!("{}", crate::document("sim machines", seed, records.collect()));
        return Ok(Verdict::Good);
    }
    for preset in PRESETS {
        println!("{:<24} {}", preset.name, preset.about);
    }
    println!();
    for preset in MEMORY_PRESETS {
        println!("memory.preset={:<10} {}", preset.name, preset.about);
    }
    println!();
    for (key, about) in KEYS {
        println!("{key:<24} {:<44} {about}", value(key));
    }
    Ok(Verdict::Good)
}
