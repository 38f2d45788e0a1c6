//! `outlast sim`.

mod crash;

use std::path::PathBuf;

use clap::Args;
use outlast::Scheme;
use outlast::lab::Plant;
use outlast::scheme::SCHEMES;
use outlast_check::part::Part;
use outlast_crash::runtime::campaign::{LANE_BYTES_MAX, LANES_MAX, Points};
use outlast_crash::runtime::plants::planted_in;
use outlast_lab::points::are_points;
use outlast_lab::record::Document;
use outlast_lab::simulated::{self, RuntimeRun, Simulation, TimelineRequest, Work};
use outlast_schemes::MachineScheme;
use outlast_sim::instead_of;
use outlast_sim::timed::{DEFAULT_MACHINE, KEYS, MEMORY_PRESETS, MachineConfig, PRESETS, Pattern};
use outlast_trace::is_program_trace;
use outlast_workloads::machine::Plan;
use outlast_workloads::{Workload, workloads};

use crate::planted::Trials;
use crate::program::{CoreName, ProgramArgs};
use crate::say::{Teller, out, outln};
use crate::{CommandResult, Verdict, names, signals, size};

/// Most instructions of a run: weeks of it.
const INSTRUCTIONS_MAX: u64 = 1_000_000_000_000;

/// The last cycle of a timeline.
const CYCLES_MAX: u64 = 1_000_000_000_000;

#[derive(Args)]
pub struct SimArgs {
    /// A stream (friendly, stride, random); a workload for the runtime under software schemes, or a
    /// program under schemes of the machine (hash, rbtree, sps, tpcc, …); a file FILE.work of transactions
    /// of one's own, under all of them; `primitives` for the cost
    /// of operations, or `machines` for what --config and --set know.
    #[arg(value_name = "STREAM|WORKLOAD|primitives|machines", required_unless_present_any = ["trace", "requests", "plant"])]
    what: Option<String>,
    /// Runs a trace instead: a program's, ChampSim's, raw, .gz, .xz or .bz2, or one of --save-trace.
    /// A file of `outlast trace points` runs the windows that it names, with their own instructions
    /// and warm-ups, and tells what the whole trace would come to.
    /// Several programs' traces, separated by commas or each with a --trace, run together, each on
    /// cores and in memory of its own; each begins again at its end, until all have had --instructions.
    #[arg(long, value_name = "FILE", conflicts_with = "what")]
    trace: Vec<PathBuf>,
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
    /// Schemes, separated by commas: the runtime's for a workload, the machine's for any work
    /// (`outlast schemes` lists both). If none is given all of the machine's for a program, all of
    /// the runtime's for a workload that it has. One of the machine's for a stream, which is then cut
    /// into transactions of eight stores, what becomes durable being kept.
    #[arg(long, value_delimiter = ',')]
    scheme: Vec<String>,
    /// Bytes of each lane's log for a workload, as `256KiB`.
    #[arg(long, default_value = "256K", value_parser = size::within(1, LANE_BYTES_MAX))]
    lane_bytes: u64,
    #[command(flatten)]
    program: ProgramArgs,
    /// Crashes after N entries of the journal, drawn, or after `all`; recovers, judges, and crashes
    /// recoveries as well. A program is then not timed, threads of a workload keep the order of
    /// their fences, and `--config tiny` has caches of a few lines.
    #[arg(long, value_name = "N|all", value_parser = parse_points)]
    crash: Option<Points>,
    /// Crashes behind this entry alone: replays a failure.
    #[arg(long, value_name = "ENTRY", conflicts_with = "crash")]
    crash_entry: Option<usize>,
    /// Tries one part of the crash points, 1/N to N/N: together they are the whole. For schemes of the
    /// machine.
    #[arg(long, value_name = "PART/PARTS", requires = "crash")]
    part: Option<Part>,
    /// Runs the rest of a program on from N of the recovered images, drawn [default: 4]. Crashes
    /// that as well, recovers and judges.
    #[arg(long, value_name = "N", requires = "crash", conflicts_with = "crash_entry")]
    resume: Option<usize>,
    /// Crashes the rest, run on from what is recovered behind --crash-entry, behind this entry of its own
    /// journal alone: replays a failure.
    #[arg(long, value_name = "ENTRY", requires = "crash_entry")]
    resume_entry: Option<usize>,
    /// Writes one crash to a folder, as files: memory before, at and after it, the journal, and a page. It
    /// is the one of --crash-entry, or the first that fails.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["part", "csv"])]
    keep: Option<PathBuf>,
    /// Breaks the scheme or the machine on purpose in a crash run; `list` names all the ways for
    /// schemes of the machine, `outlast crash --plant list` those for the runtime's.
    #[arg(long)]
    plant: Option<String>,
    /// The kind of core, if not the machine's own.
    #[arg(long, value_enum)]
    core: Option<CoreName>,
    /// The machine: a preset's name or a TOML file (`outlast sim machines` lists them).
    #[arg(long, default_value = DEFAULT_MACHINE, value_name = "NAME|FILE.toml")]
    config: String,
    /// Changes the machine, or `scheme.KEY` what can be chosen of a scheme; several values run one
    /// machine each. May be repeated. `outlast sim machines` lists keys.
    #[arg(long = "set", value_name = "KEY=VALUE[,VALUE...]")]
    options: Vec<String>,
    /// Prints the records as CSV: a line a value, a column each key that --set names.
    #[arg(long)]
    csv: bool,
    /// Instructions before counting starts, of each program.
    #[arg(long, default_value_t = 5_000_000,
        value_parser = clap::value_parser!(u64).range(..=INSTRUCTIONS_MAX))]
    warm_up: u64,
    /// Instructions that count, of each program.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..=INSTRUCTIONS_MAX))]
    instructions: u64,
}

/// A span of cycles that is not empty.
fn cycles(text: &str) -> Result<(u64, u64), String> {
    let parsed = text.split_once("..").map(|(from, to)| (from.trim().parse(), to.trim().parse()));
    match parsed {
        Some((Ok(_), Ok(to))) if to > CYCLES_MAX => {
            Err(format!("'{text}' is out of range: take cycles up to {CYCLES_MAX}"))
        }
        Some((Ok(from), Ok(to))) if from < to => Ok((from, to)),
        _ => Err(format!("'{text}' is no span of cycles; write FROM..TO, as 0..100000")),
    }
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
    Transactions(Transactions),
}

/// Schemes of the machine on bare transactions of a program, schemes of the runtime on a workload.
struct Transactions {
    program: Option<(Plan, Vec<MachineScheme>)>,
    workload: Option<(&'static Workload, Vec<Scheme>)>,
}

impl Transactions {
    /// Each scheme on each machine is a run.
    fn schemes(&self) -> usize {
        let program = self.program.as_ref().map_or(0, |program| program.1.len());
        program + self.workload.as_ref().map_or(0, |workload| workload.1.len())
    }
}

fn task(args: &SimArgs, seed: u64) -> Result<Task, String> {
    if let Some(path) = &args.requests {
        return Ok(Task::Requests(path.clone()));
    }
    match args.what.as_deref() {
        Some("primitives") => Ok(Task::Primitives),
        what => match names::find_workload(what.unwrap_or_default())? {
            Some(workload) => transactions(args, workload, seed).map(Task::Transactions),
            None => work(args).map(Task::Run),
        },
    }
}

fn transactions(
    args: &SimArgs,
    workload: &'static Workload,
    seed: u64,
) -> Result<Transactions, String> {
    args.program.check(workload)?;
    let (mut hardware, mut software) = names::schemes(&args.scheme)?;
    if args.scheme.is_empty() && workload.stands_alone().is_some() {
        hardware = MachineScheme::all().collect();
    } else if args.scheme.is_empty() {
        software = SCHEMES.iter().map(|row| row.scheme).collect();
    }
    if !software.is_empty() && (args.program.abort_every > 0 || args.program.batch > 0) {
        return Err("--abort-every and --batch go with schemes of the machine".into());
    }
    let program = (!hardware.is_empty()).then(|| (args.program.plan(workload, seed), hardware));
    let workload = match software.is_empty() {
        true => None,
        false if args.program.threads_of(workload) > MAX_LANES => {
            let threads = args.program.threads_of(workload);
            return Err(format!("--threads {threads}: a workload takes 1 to {MAX_LANES}"));
        }
        false => Some((names::judged_workload(workload.name, &[])?, software)),
    };
    Ok(Transactions { program, workload })
}

/// The schemes of the machine that a task runs.
fn machine_schemes(task: &Task, scheme: MachineScheme) -> Vec<MachineScheme> {
    match task {
        Task::Run(_) => vec![scheme],
        Task::Transactions(Transactions { program: Some((_, schemes)), .. }) => schemes.clone(),
        _ => Vec::new(),
    }
}

/// Lanes that the oracle judges at once.
const MAX_LANES: u32 = LANES_MAX as u32;

/// The files that were named. A comma separates them where it is not in a file's own name.
fn traces(given: &[PathBuf]) -> Vec<PathBuf> {
    let of = |path: &PathBuf| match path.to_str() {
        Some(text) if text.contains(',') && !path.exists() => {
            text.split(',').map(PathBuf::from).collect()
        }
        _ => vec![path.clone()],
    };
    given.iter().flat_map(of).collect()
}

fn work(args: &SimArgs) -> Result<Work, String> {
    match &traces(&args.trace)[..] {
        [] => {}
        [path] if are_points(path) => return Ok(Work::Windows(path.clone())),
        [path] => return Ok(Work::Trace(path.clone())),
        several => {
            if let Some(points) = several.iter().find(|path| are_points(path)) {
                return Err(format!("{}: windows of one trace run alone", points.display()));
            }
            let is_other = |path: &&PathBuf| path.is_file() && !is_program_trace(path);
            if let Some(other) = several.iter().find(is_other) {
                let other = other.display();
                return Err(format!("{other}: only traces of `outlast trace` run together"));
            }
            return Ok(Work::Programs(several.to_vec()));
        }
    }
    let name = args.what.as_deref().unwrap_or_default();
    let known = Pattern::ALL.iter().find(|row| row.1 == name);
    known.map(|row| Work::Stream(row.0)).ok_or_else(|| {
        let streams = Pattern::ALL.iter().map(|row| row.1);
        let names = streams.chain(workloads().iter().map(|row| row.name));
        let mut names: Vec<_> = names.collect();
        names.extend(["primitives", "machines"]);
        let instead = instead_of(name, names);
        format!("no stream, workload or program is called '{name}'; {instead}")
    })
}

/// Runs and prints.
pub fn run(args: &SimArgs, as_json: bool, seed: u64) -> CommandResult {
    crate::one_format(args.csv, as_json)?;
    if args.what.as_deref() == Some("machines") {
        return machines(args, as_json, seed);
    }
    if args.plant.as_deref() == Some("list") {
        return crash::list_plants(as_json, seed);
    }
    signals::clean_up_at_the_end()?;
    let task = task(args, seed)?;
    let points = args.crash_entry.map(Points::One).or(args.crash);
    match (&task, points) {
        (
            Task::Transactions(Transactions { program: Some((plan, schemes)), workload }),
            Some(points),
        ) => {
            if workload.is_some() {
                return Err(
                    "--crash takes schemes of the machine or of the runtime, not both".into()
                );
            }
            return crash::program(args, plan, schemes, points, as_json, seed);
        }
        (Task::Transactions(_), Some(_)) if args.keep.is_some() => {
            return Err(
                "--keep takes schemes of the machine; `outlast crash --keep` those of the runtime"
                    .into(),
            );
        }
        (Task::Transactions(_), Some(_)) if args.part.is_some() => {
            return Err("--part takes schemes of the machine".into());
        }
        (Task::Transactions(_), Some(_)) if args.resume.or(args.resume_entry).is_some() => {
            return Err("--resume and --resume-entry take schemes of the machine".into());
        }
        (Task::Transactions(_), Some(_)) => {}
        (Task::Run(Work::Trace(path)), Some(points)) => {
            return crash::captured(args, path, points, as_json, seed);
        }
        (_, Some(_)) => {
            return Err(
                "--crash takes a workload with transactions (hash, rbtree, sps1, …), or one --trace \
                 of a captured program"
                    .into(),
            );
        }
        (_, None) if args.keep.is_some() => {
            return Err("--keep goes with --crash or --crash-entry".into());
        }
        (_, None) if args.plant.is_some() => {
            return Err("--plant goes with --crash or --crash-entry".into());
        }
        _ => {}
    }
    if let Some(path) = &args.save_trace {
        if let Task::Transactions(Transactions { program: None, workload: Some(workload) }) = &task
        {
            let (workload, schemes) = workload;
            let [scheme] = schemes[..] else {
                return Err("a trace is of one run: give one --scheme of the runtime".into());
            };
            let machine = MachineConfig::named(&args.config)?;
            runtime_run(args, &machine, workload, scheme, None, seed).save_trace(path)?;
            return Ok(Verdict::Good);
        }
        let Task::Run(Work::Stream(pattern)) = task else {
            return Err(
                "a stream can be saved as a trace, or a workload under one --scheme of the runtime"
                    .into(),
            );
        };
        let instructions = args.warm_up + args.instructions;
        simulated::save_trace(pattern, seed, instructions, path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        return Ok(Verdict::Good);
    }
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let scheme = match (&task, &args.scheme[..]) {
        (Task::Run(_), [scheme]) => scheme.parse()?,
        (Task::Run(_), [_, _, ..]) => {
            return Err("a stream or a trace runs under one scheme: give one --scheme".into());
        }
        _ => MachineScheme::plain(),
    };
    let schemes = machine_schemes(&task, scheme);
    let machines =
        simulated::settings(&args.config, CoreName::kind(args.core), &args.options, &schemes)?;
    if matches!(task, Task::Run(Work::Windows(_)))
        && (args.export_requests.is_some() || args.timeline.is_some())
    {
        return Err("--export-requests and --timeline take one run: give one window's trace".into());
    }
    if args.export_requests.is_some() && (machines.len() > 1 || !matches!(task, Task::Run(_))) {
        return Err("--export-requests takes one run of a stream or a trace on one machine".into());
    }
    let plant = args.plant.as_deref().map(names::plant).transpose()?;
    let (mut verdict, mut trials) = (Verdict::Good, Trials::default());
    let runs = match &task {
        Task::Transactions(transactions) => machines.len() * transactions.schemes(),
        Task::Run(_) => machines.len(),
        _ => 0,
    };
    let is_program = matches!(&task, Task::Transactions(Transactions { program: Some(_), .. }));
    if args.timeline.is_some() && (runs != 1 || is_program) {
        let message = "a timeline is of one run of a stream, a trace or a workload: give one \
                       machine, and one --scheme of the runtime";
        return Err(message.into());
    }
    for setting in machines {
        document.simulated.extend([setting.described()]);
        let machine = setting.machine.clone();
        let before = document.records.len();
        document.records.extend(match &task {
            Task::Primitives => simulated::cost_table(&machine)?,
            Task::Requests(path) => simulated::replay_requests(&machine, path)?,
            Task::Run(work) => {
                let simulation = Simulation {
                    machine,
                    work: work.clone(),
                    warm_up: args.warm_up,
                    instructions: args.instructions,
                    seed,
                    timeline: timeline(args),
                    scheme,
                    options: setting.options_of(scheme)?,
                };
                let mut found = match &args.export_requests {
                    Some(path) => simulated::run_exporting(&simulation, path)?,
                    None => {
                        let teller = Teller::new();
                        simulated::run_listening(&simulation, &mut |progress| {
                            teller.tell(progress)
                        })?
                    }
                };
                setting.mark(scheme, &mut found);
                found
            }
            Task::Transactions(Transactions { program, workload }) => {
                let mut records = Vec::new();
                if let Some((plan, schemes)) = program {
                    let work = plan.record()?;
                    for &scheme in schemes {
                        let options = setting.options_of(scheme)?;
                        let measured = simulated::measure(&machine, scheme, &work, &options)?;
                        let mut found = simulated::scheme_records(&machine, &work, &measured);
                        found.push(simulated::speed_record(&machine, &work, &measured));
                        setting.mark(scheme, &mut found);
                        records.extend(found);
                    }
                }
                if let Some((workload, schemes)) = workload {
                    let are_named = !args.scheme.is_empty();
                    let schemes = match plant {
                        Some(plant) => planted_in(plant, schemes, are_named)?,
                        None => schemes.clone(),
                    };
                    for scheme in schemes {
                        let before = Plant::times_met();
                        let run = runtime_run(args, &machine, workload, scheme, plant, seed);
                        let found = run.run()?;
                        let is_guilty = RuntimeRun::is_guilty(&found);
                        trials.note(scheme, before, is_guilty);
                        if is_guilty {
                            verdict = Verdict::Bad;
                        }
                        records.extend(found);
                    }
                }
                records
            }
        });
        setting.mark_machine(&mut document.records[before..]);
    }
    if matches!(task, Task::Primitives) {
        document.records.extend(simulated::native_primitives(seed)?);
    }
    if as_json {
        out!("{}", document.to_json());
    } else if args.csv {
        out!("{}", simulated::csv(&document.records));
    } else if matches!(task, Task::Primitives) {
        out!("{}", simulated::primitive_table(&document.records));
    } else {
        out!(
            "{}{}",
            simulated::table(&document.records),
            simulated::sweep_table(&document.records)
        );
    }
    Ok(verdict.and(plant.map(|plant| trials.verdict(plant))))
}

/// Runs some transactions of what a command asks for, on each machine and under each scheme. Returns how
/// many runs that were.
#[cfg(test)]
pub fn try_small(args: &SimArgs, seed: u64) -> Result<usize, Box<dyn std::error::Error>> {
    if args.what.as_deref() == Some("machines") || args.plant.as_deref() == Some("list") {
        return Ok(0);
    }
    // Files are examples, machines and transactions of one's own as well.
    if args.what.as_deref().is_some_and(Workload::is_file_name) {
        return Ok(0);
    }
    let config = if args.config.ends_with(".toml") { DEFAULT_MACHINE } else { &args.config };
    let task = task(args, seed)?;
    let scheme = match (&task, &args.scheme[..]) {
        (Task::Run(_), [scheme]) => scheme.parse()?,
        _ => MachineScheme::plain(),
    };
    let schemes = machine_schemes(&task, scheme);
    let settings = simulated::settings(config, CoreName::kind(args.core), &args.options, &schemes)?;
    let Task::Transactions(Transactions { program: Some((plan, schemes)), .. }) = task else {
        return Ok(0);
    };
    let small =
        Plan { warm_up: 0, transactions: 8, footprint: plan.footprint.min(1 << 18), ..plan };
    let work = small.record()?;
    for setting in &settings {
        for &scheme in &schemes {
            simulated::measure(&setting.machine, scheme, &work, &setting.options_of(scheme)?)?;
        }
    }
    Ok(settings.len() * schemes.len())
}

fn runtime_run(
    args: &SimArgs,
    machine: &MachineConfig,
    workload: &'static Workload,
    scheme: Scheme,
    plant: Option<Plant>,
    seed: u64,
) -> RuntimeRun {
    RuntimeRun {
        machine: machine.clone(),
        workload,
        scheme,
        keys: args.program.keys_of(workload),
        lanes: args.program.threads_of(workload) as u16,
        lane_bytes: args.lane_bytes,
        transactions: args.program.transactions_of(workload) as u32,
        points: args.crash_entry.map(Points::One).or(args.crash),
        plant,
        seed,
        work: RuntimeRun::NOT_COUNTED,
        timeline: timeline(args),
    }
}

fn timeline(args: &SimArgs) -> Option<TimelineRequest> {
    let path = args.timeline.clone()?;
    Some(TimelineRequest { path, cycles: args.timeline_cycles })
}

/// Lists machines, memories, and the keys with the values of the machine asked for.
fn machines(args: &SimArgs, as_json: bool, seed: u64) -> CommandResult {
    let schemes: Vec<_> = MachineScheme::all().collect();
    let settings =
        simulated::settings(&args.config, CoreName::kind(args.core), &args.options, &schemes)?;
    let [setting] = &settings[..] else {
        return Err("one machine has its keys listed: give each --set one value".into());
    };
    let machine = &setting.machine;
    let value = |key: &str| machine.get(key).unwrap_or_default();
    if as_json {
        let preset = |kind: &'static str| move |preset: &outlast_sim::timed::MachinePreset| serde_json::json!({"kind": kind, "name": preset.name, "description": preset.about});
        let keys = KEYS.iter().map(|(key, about)| {
            serde_json::json!({"kind": "key", "name": key, "description": about, "value": value(key)})
        });
        let records = PRESETS.iter().map(preset("machine"));
        let of_schemes = scheme_keys().into_iter().map(|(key, schemes)| {
            serde_json::json!({"kind": "key", "name": key.full_name(), "description": key.about, "value": key.show(key.default), "schemes": schemes})
        });
        let records = records.chain(MEMORY_PRESETS.iter().map(preset("memory"))).chain(keys);
        let records = records.chain(of_schemes);
        outln!("{}", crate::document("sim machines", seed, records.collect()));
        return Ok(Verdict::Good);
    }
    for preset in PRESETS {
        outln!("{:<24} {}", preset.name, preset.about);
    }
    outln!("");
    for preset in MEMORY_PRESETS {
        outln!("memory.preset={:<10} {}", preset.name, preset.about);
    }
    outln!("");
    for (key, about) in KEYS {
        outln!("{key:<24} {:<44} {about}", value(key));
    }
    outln!("");
    for (key, schemes) in scheme_keys() {
        let (name, value) = (key.full_name(), key.show(key.default));
        outln!("{name:<24} {value:<44} {} ({})", key.about, schemes.join(", "));
    }
    Ok(Verdict::Good)
}

/// What can be chosen of schemes, each with the names of those that have it.
fn scheme_keys() -> Vec<(outlast_schemes::Key, Vec<&'static str>)> {
    let mut keys: Vec<(outlast_schemes::Key, Vec<&'static str>)> = Vec::new();
    for scheme in MachineScheme::all() {
        for key in scheme.keys() {
            match keys.iter_mut().find(|(known, _)| *known == key) {
                Some((_, schemes)) => schemes.push(scheme.name()),
                None => keys.push((key, vec![scheme.name()])),
            }
        }
    }
    keys
}
