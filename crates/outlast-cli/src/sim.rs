//! `outlast sim`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use outlast_lab::record::Document;
use outlast_lab::simulated::crash::{self, Campaign, PLANTS, Plant, Points};
use outlast_lab::simulated::work::{Bench, Plan, benches};
use outlast_lab::simulated::{self, LogOptions, SimScheme, Simulation, Work};
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
    /// A stream (friendly, stride, random), a program under schemes (hash, rbtree, sps, tpcc, …),
    /// `primitives` for the cost of operations, or `machines` for what --config and --set know.
    #[arg(value_name = "STREAM|PROGRAM|primitives|machines", required_unless_present_any = ["trace", "requests", "plant"])]
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
    /// Schemes for a program, separated by commas; all if not given.
    #[arg(long, value_delimiter = ',')]
    scheme: Vec<SimScheme>,
    /// Threads of a program, each on a core of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// Bytes of a program's data, all threads together [default: an eighth of the published].
    #[arg(long, value_parser = crate::size::parse)]
    footprint: Option<u64>,
    /// Transactions of a program that count, all threads together; a quarter more runs before.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    transactions: u64,
    /// All threads of a program on one set of data, under one lock.
    #[arg(long)]
    shared: bool,
    /// Another thread runs on the same core in the middle of every N-th transaction.
    #[arg(long, default_value_t = 0, value_name = "N")]
    switch_every: u64,
    /// Slots of the hardware log.
    #[arg(long, default_value_t = simulated::LOG_SLOTS)]
    log_slots: u64,
    /// How often the hardware log may grow to twice its size.
    #[arg(long, default_value_t = 0)]
    log_growths: u8,
    /// Records of the hardware log's buffer.
    #[arg(long, default_value_t = simulated::LOG_BUFFER)]
    log_buffer: usize,
    /// Cycles from one scan of `fwb` to the next.
    #[arg(long, default_value_t = simulated::SCAN_PERIOD)]
    scan_period: u64,
    /// Log records that the largest transaction may need, declared instead of counted.
    #[arg(long)]
    max_tx_records: Option<u64>,
    /// Crashes a program instead of timing it, after so many entries of its journal, drawn, or
    /// `all`; recovers, judges, and crashes recoveries as well. `--config tiny` has caches of a
    /// few lines.
    #[arg(long, value_name = "N|all", value_parser = parse_points)]
    crash: Option<Points>,
    /// Crashes behind this entry alone: replays a failure.
    #[arg(long, value_name = "ENTRY", conflicts_with = "crash")]
    crash_entry: Option<usize>,
    /// Breaks the scheme or the machine on purpose in a crash run; `list` names all the ways.
    #[arg(long)]
    plant: Option<String>,
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

fn parse_points(text: &str) -> Result<Points, String> {
    match text {
        "all" => Ok(Points::All),
        number => number
            .parse()
            .ok()
            .filter(|n| *n > 0)
            .map(Points::Some)
            .ok_or_else(|| "expected how many crash points, at least 1, or `all`".to_owned()),
    }
}

/// What is to be done with a machine.
enum Task {
    Run(Work),
    Primitives,
    Requests(PathBuf),
    Program(Plan, LogOptions, Vec<SimScheme>),
}

fn task(args: &SimArgs, seed: u64) -> Result<Task, String> {
    match (&args.requests, args.what.as_deref()) {
        (Some(path), _) => Ok(Task::Requests(path.clone())),
        (None, Some("primitives")) => Ok(Task::Primitives),
        (None, Some(name)) if Bench::named(name).is_ok() => {
            let bench = Bench::named(name)?;
            let plan = Plan {
                bench,
                footprint: args.footprint.unwrap_or(bench.footprint / 8),
                threads: args.threads as u16,
                warm_up: args.transactions / 4,
                transactions: args.transactions,
                shared: args.shared,
                switch_every: args.switch_every,
                seed,
            };
            let options = LogOptions {
                slots: args.log_slots,
                growths: args.log_growths,
                buffer: args.log_buffer,
                scan_period: args.scan_period,
                tx_records_max: args.max_tx_records,
                ..LogOptions::scaled(1)
            };
            let all = || SimScheme::ALL.iter().map(|row| row.0).collect();
            let schemes = if args.scheme.is_empty() { all() } else { args.scheme.clone() };
            Ok(Task::Program(plan, options, schemes))
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
        let names = Pattern::ALL.iter().map(|row| row.1);
        let names: Vec<_> = names.chain(benches().map(|bench| bench.name)).collect();
        format!(
            "no stream or program is called '{name}'; there are {}, primitives, machines",
            names.join(", ")
        )
    })
}

/// Runs and prints.
pub fn run(args: &SimArgs, as_json: bool, seed: u64) -> CommandResult {
    if args.what.as_deref() == Some("machines") {
        return machines(args, as_json, seed);
    }
    if args.plant.as_deref() == Some("list") {
        return list_plants(as_json, seed);
    }
    let task = task(args, seed)?;
    let points = args.crash_entry.map(Points::One).or(args.crash);
    match (&task, points) {
        (Task::Program(plan, options, schemes), Some(points)) => {
            return crash_programs(args, plan, options, schemes, points, as_json, seed);
        }
        (_, Some(_)) => return Err("--crash needs a program: hash, rbtree, sps, …".into()),
        (_, None) if args.plant.is_some() => {
            return Err("--plant goes with --crash or --crash-entry".into());
        }
        _ => {}
    }
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
    for machine in simulated::machines(&args.config, core, &args.options)? {
        document.records.extend(match &task {
            Task::Primitives => simulated::cost_table(&machine)?,
            Task::Requests(path) => simulated::replay_requests(&machine, path)?,
            Task::Program(plan, options, schemes) => {
                let work = plan.work()?;
                let mut records = Vec::new();
                for &scheme in schemes {
                    let measured = simulated::measure(&machine, scheme, &work, options)?;
                    records.extend(simulated::scheme_records(&machine, &work, &measured));
                }
                records
            }
            Task::Run(work) => simulated::run(&Simulation {
                machine,
                work: work.clone(),
                warm_up: args.warm_up,
                instructions: args.instructions,
                seed,
            })?,
        });
    }
    if as_json {
        print!("{}", document.to_json());
    } else {
        print!("{}", simulated::table(&document.records));
    }
    Ok(Verdict::Good)
}

/// Crashes a program under each scheme, on each machine.
fn crash_programs(
    args: &SimArgs,
    plan: &Plan,
    options: &LogOptions,
    schemes: &[SimScheme],
    points: Points,
    as_json: bool,
    seed: u64,
) -> CommandResult {
    let plant = args.plant.as_deref().map(str::parse::<Plant>).transpose()?;
    let machines = match args.config.as_str() {
        "tiny" => vec![MachineConfig::from_toml("tiny", crash::TINY)?],
        config => simulated::machines(config, None, &args.options)?,
    };
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let mut verdict = Verdict::Good;
    for machine in machines {
        for &scheme in schemes {
            let campaign = Campaign {
                scheme,
                plan: Plan { warm_up: 0, ..*plan },
                options: *options,
                machine: machine.clone(),
                plant,
                points,
                second_crash: true,
            };
            let report = campaign.run()?;
            document.records.extend(campaign.records(&report));
            if !as_json {
                println!(
                    "{} under {scheme}, guarantee {}: {} images of {} entries, {} lost, {} torn",
                    plan.bench.name,
                    scheme.guarantee(),
                    report.images,
                    report.entries,
                    report.lost,
                    report.torn
                );
            }
            if report.is_guilty(scheme) {
                verdict = Verdict::Bad;
                eprintln!("outlast: {scheme} fails; {}", campaign.command(report.first));
            }
        }
    }
    if as_json {
        print!("{}", document.to_json());
    }
    Ok(verdict)
}

/// Lists what can be broken on purpose, with the scheme that shows it.
fn list_plants(as_json: bool, seed: u64) -> CommandResult {
    if as_json {
        let record = |plant: &Plant| serde_json::json!({"kind": if plant.is_control { "control" } else { "plant" }, "name": plant.name, "scheme": plant.scheme.name(), "description": plant.about});
        let records = PLANTS.iter().map(record).collect();
        println!("{}", crate::document("sim --plant list", seed, records));
        return Ok(Verdict::Good);
    }
    for plant in PLANTS {
        let kind = if plant.is_control { "control" } else { "plant" };
        println!("{:<12} {kind:<8} {:<14} {}", plant.name, plant.scheme.name(), plant.about);
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
