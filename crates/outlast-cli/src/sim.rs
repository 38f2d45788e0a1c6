//! `outlast sim`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use outlast_lab::record::Document;
use outlast_lab::simulated::{self, SimScheme, Simulation, Swaps, Work};
use outlast_sim::timed::{CoreKind, KEYS, MEMORY_PRESETS, MachineConfig, PRESETS, Pattern};

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
    /// A stream (friendly, stride, random), `swaps` for transactions under schemes, `primitives`
    /// for the cost of operations, or `machines` for what --config and --set know.
    #[arg(value_name = "STREAM|swaps|primitives|machines", required_unless_present_any = ["trace", "requests"])]
    what: Option<String>,
    /// Runs a ChampSim trace instead: raw, .gz, .xz or .bz2.
    #[arg(long, value_name = "FILE", conflicts_with = "what")]
    trace: Option<PathBuf>,
    /// Replays memory requests on the machine's memory alone: lines of 0xADDRESS READ|WRITE CYCLE,
    /// cycles of the memory clock.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["what", "trace"])]
    requests: Option<PathBuf>,
    /// Writes the stream's instructions as a ChampSim trace instead of running them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "requests"])]
    save_trace: Option<PathBuf>,
    /// Writes the requests that a stream's or trace's run sends to memory, for --requests,
    /// DRAMsim3 or Ramulator: lines of 0xADDRESS READ|WRITE CYCLE.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["requests", "save_trace"])]
    export_requests: Option<PathBuf>,
    /// Schemes for `swaps`, separated by commas; all if not given.
    #[arg(long, value_delimiter = ',')]
    scheme: Vec<SimScheme>,
    /// Threads of `swaps`, each on a core of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// Words of the vector that `swaps` uses.
    #[arg(long, default_value_t = 1 << 22)]
    words: u64,
    /// Transactions of each thread of `swaps` that count; a quarter more runs before.
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

/// What is to be done with a machine.
enum Task {
    Run(Work),
    Primitives,
    Requests(PathBuf),
    Swaps(Swaps, Vec<SimScheme>),
}

fn task(args: &SimArgs, seed: u64) -> Result<Task, String> {
    match (&args.requests, args.what.as_deref()) {
        (Some(path), _) => Ok(Task::Requests(path.clone())),
        (None, Some("primitives")) => Ok(Task::Primitives),
        (None, Some("swaps")) => {
            let SimArgs { words, transactions, threads, .. } = *args;
            let swaps = Swaps { words, warm_up: transactions / 4, transactions, threads, seed };
            let all = || SimScheme::ALL.iter().map(|row| row.0).collect();
            let schemes = if args.scheme.is_empty() { all() } else { args.scheme.clone() };
            Ok(Task::Swaps(swaps, schemes))
        }
        (None, _) => work(args).map(Task::Run),
    }
}

fn work(args: &SimArgs) -> Result<Work, String> {
    if let Some(path) = &args.trace {
        return Ok(Work::Trace(path.clone()));
    }
    let name = args.what.as_deref().unwrap_or_default();
    let known = Pattern::ALL.iter().find(|row| row.1 == name);
    known.map(|row| Work::Stream(row.0)).ok_or_else(|| {
        let names: Vec<_> = Pattern::ALL.iter().map(|row| row.1).collect();
        format!(
            "no stream is called '{name}'; there are {}, swaps, primitives, machines",
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
        let Task::Run(Work::Stream(pattern)) = task else {
            return Err("only a stream can be saved as a trace: friendly, stride or random".into());
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
                };
                match &args.export_requests {
                    Some(path) => simulated::run_exporting(&simulation, path)?,
                    None => simulated::run(&simulation)?,
                }
            }
        });
    }
    if as_json {
        print!("{}", document.to_json());
    } else {
        print!("{}", simulated::table(&document.records));
    }
    Ok(Verdict::Good)
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
