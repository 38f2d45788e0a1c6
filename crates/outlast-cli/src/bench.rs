//! `outlast bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use outlast::scheme::SCHEMES;
use outlast::{Ack, Scheme};
use outlast_lab::engines::{self, EnginesSetup};
use outlast_lab::native::{
    self, Contender, Own, Setup, Sharing, Size, Usage, default_directory, floor, recovery, scaling,
};
use outlast_lab::record::Document;
use outlast_lab::table::summary;
use outlast_peers::Pmdk;
use outlast_pmem::Domain;
use outlast_workloads::{Workload, judged_workloads};

use crate::say::{Teller, out};
use crate::{CommandResult, Verdict, names, signals};

#[derive(Args)]
pub struct BenchArgs {
    /// Workloads, separated by commas (`outlast workloads` lists them), files FILE.work of transactions of
    /// one's own, `floor`, `recovery` (opening
    /// pools of 1 and 8 GiB that have crashed), `all` (workloads and the floor), or `engines`
    /// (embedded databases beside a pool of ours, on the disk of --file).
    #[arg(value_name = "WORKLOAD[,WORKLOAD...]|floor|recovery|all|engines")]
    what: String,
    /// Schemes, separated by commas (`outlast schemes` lists them); all if not given. Costs are
    /// relative to `none`.
    #[arg(long, value_delimiter = ',')]
    scheme: Vec<Contender>,
    /// Persistence domain: process, page, adr or eadr. If not given, the one that is detected;
    /// adr, emulated, where there is nothing but volatile memory.
    #[arg(long)]
    domain: Option<Domain>,
    /// Threads of each subject. Several numbers, separated by commas: each of our schemes against
    /// itself with the smallest of them.
    /// [default: 1; of a file of one's own transactions, its lanes]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: Vec<u32>,
    /// Which keys a subject's threads draw from: common (all of them), apart (each its own share)
    /// or one (the same one, or two where a swap needs them); not for every workload.
    #[arg(long, default_value = "common")]
    keys: Sharing,
    /// Records (YCSB), words (sps, words), keys (hash, btree), warehouses (tpcc) or nodes
    /// (linkbench).
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    records: Option<u64>,
    /// Rounds in which every subject runs once.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Milliseconds of one turn, on average over all subjects.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    turn_ms: u64,
    /// Where the pools are created for the time of the run.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// With `engines`: a file on the disk to measure. Files beside it are there for the time of the run.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Updates the database at --file until this process is killed: another run's part.
    #[arg(long, value_name = "ENGINE", hide = true)]
    updating: Option<String>,
    /// When a transaction is acknowledged, and latency ends: logical (its record is durable) or
    /// physical (its data is durable in place, for which a client that waits sweeps the log).
    #[arg(long, default_value_t)]
    ack: Ack,
    /// Also measures an open loop of TX/S arrivals a second, all threads together. Gaps are drawn
    /// from an exponential distribution; latency counts from the arrival.
    #[arg(long, value_name = "TX/S", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rate: Option<u64>,
    /// Nanoseconds added for each line written back, to emulate a slower medium.
    #[arg(long, default_value_t = 0, value_name = "NS",
        value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    write_latency: u64,
}

/// Embedded databases instead of workloads.
const ENGINES: &str = "engines";

/// Keys of the data that engines have.
const ENGINES_KEYS: u64 = 100_000;

/// Threads that update, where none are given.
const ENGINES_THREADS: [u32; 2] = [1, 4];

/// What is to be run.
struct Chosen {
    workloads: Vec<&'static Workload>,
    floor: bool,
    recovery: bool,
}

impl Chosen {
    fn parse(what: &str) -> Result<Self, String> {
        let all = || judged_workloads().collect::<Vec<_>>();
        let names: Vec<&str> = what.split(',').map(str::trim).collect();
        if names == ["all"] {
            return Ok(Self { workloads: all(), floor: true, recovery: false });
        }
        let is_extra = |name: &&&str| ["floor", "recovery"].contains(*name);
        let mut found = Vec::new();
        for name in names.iter().filter(|name| !is_extra(name)) {
            found.push(names::workload(name, &["floor", "recovery", "all"])?);
        }
        let has = |name| names.contains(&name);
        Ok(Self { workloads: found, floor: has("floor"), recovery: has("recovery") })
    }
}

/// Measures and prints.
pub fn run(args: &BenchArgs, as_json: bool, seed: u64) -> CommandResult {
    if args.what == ENGINES {
        return run_engines(args, as_json, seed);
    }
    if args.file.is_some() {
        return Err(format!("--file goes with `{ENGINES}`; --dir says where pools lie").into());
    }
    let Chosen { workloads, floor: with_floor, recovery: with_recovery } =
        Chosen::parse(&args.what)?;
    let mut threads = threads(&args.threads, &workloads)?;
    threads.sort_unstable();
    threads.dedup();
    let contenders = if args.scheme.is_empty() { Contender::all() } else { args.scheme.clone() };
    if contenders.iter().any(|contender| matches!(contender, Contender::Pmdk(_))) {
        // It may have to change the environment, which is safe before there are other threads;
        // a missing one is told by the measurement that needs it.
        let _ = Pmdk::load();
    }
    signals::clean_up_at_the_end()?;
    let setup = Setup {
        contenders,
        domain: args.domain,
        directory: args.dir.clone().unwrap_or_else(default_directory),
        threads: threads[0],
        records: args.records,
        sharing: args.keys,
        rounds: args.rounds,
        turn: Duration::from_millis(args.turn_ms),
        ack: args.ack,
        arrivals_per_s: args.rate,
        write_latency_ns: args.write_latency,
        ..Setup::new(workloads, Size::Quick, seed)
    };
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let teller = Teller::new();
    let records = &mut document.records;
    if with_floor {
        let options = floor::options(setup.size, seed);
        records.extend(floor::measure(&setup, &options, &mut |progress| teller.tell(progress))?);
    }
    if with_recovery {
        records.extend(recovery::measure(&setup, &mut |progress| teller.tell(progress))?);
    }
    if threads.len() > 1 {
        records.extend(scaling::measure(&setup, &threads, &mut |progress| teller.tell(progress))?);
    } else if !setup.workloads.is_empty() {
        records.extend(native::run(&setup, &mut |progress| teller.tell(progress))?);
        records.extend(floor::distances(records));
    }
    drop(teller);
    if as_json {
        out!("{}", document.to_json());
    } else {
        out!("{}", summary(&document));
    }
    Ok(Verdict::Good)
}

/// Threads of each subject: as given, or the lanes of a file.
fn threads(given: &[u32], workloads: &[&'static Workload]) -> Result<Vec<u32>, String> {
    let mut threads = given.to_vec();
    for workload in workloads {
        let Some(work) = workload.own() else { continue };
        let lanes = u32::from(work.lanes());
        if threads.is_empty() {
            threads.push(lanes);
        }
        if threads != [lanes] {
            return Err(format!(
                "{} has {lanes} lanes: it runs with --threads {lanes}",
                workload.name
            ));
        }
    }
    Ok(if threads.is_empty() { vec![1] } else { threads })
}

/// Databases beside ours, on the disk of a file.
fn run_engines(args: &BenchArgs, as_json: bool, seed: u64) -> CommandResult {
    let file = args.file.clone().ok_or("which disk? --file names a file on it")?;
    let keys = args.records.unwrap_or(ENGINES_KEYS);
    let setup = EnginesSetup {
        file,
        domain: args.domain,
        schemes: engine_schemes(&args.scheme)?,
        keys,
        rounds: args.rounds,
        transactions: (keys / 100).clamp(10, 1000),
        threads: match args.threads[..] {
            [] | [1] if args.updating.is_none() => ENGINES_THREADS.to_vec(),
            [] => vec![1],
            ref threads => threads.to_vec(),
        },
        seed,
        program: engines::own_program(),
    };
    if let Some(name) = &args.updating {
        let ours = SCHEMES.iter().map(|row| row.name);
        let known =
            ours.chain(engines::PEERS.iter().copied()).find(|known| *known == name.as_str());
        let name = known.ok_or_else(|| format!("no engine is called '{name}'"))?;
        match engines::update_until_killed(&setup, name, &mut std::io::stdout())? {}
    }
    signals::clean_up_at_the_end()?;
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let teller = Teller::new();
    document.records = engines::measure(&setup, &mut |progress| teller.tell(progress))?;
    drop(teller);
    if as_json {
        out!("{}", document.to_json());
    } else {
        out!("{}", summary(&document));
    }
    Ok(Verdict::Good)
}

/// Our schemes among those that were named.
fn engine_schemes(named: &[Contender]) -> Result<Vec<Scheme>, String> {
    if named.is_empty() {
        return Ok(vec![Scheme::default()]);
    }
    let scheme = |contender: &Contender| match contender {
        Contender::Own(Own { scheme, usage: Usage::Plain }) => Ok(*scheme),
        other => {
            Err(format!("{other}: `{ENGINES}` takes schemes of ours; --help says which peers"))
        }
    };
    named.iter().map(scheme).collect()
}
