//! Embedded databases and pools of ours on one disk: the same keys and values, each commit durable.
//!
//! Two data sets. *Updates*: 8-byte keys with values of 100 bytes, of which one is replaced in a
//! transaction, by one thread and by several. *Rows*: the shape of redb's published benchmark, 24-byte keys
//! with values of 150 bytes; single-row transactions and batches of new keys, random reads, range scans.
//!
//! In a round each engine does the same number of operations, in an order drawn by chance; results are
//! medians over rounds. The floor, an append and one `fdatasync`, takes part where something is
//! written: shares of it are of the same rounds. In the domain `page` mapped floors stand beside it.
//!
//! At last each database of the updates is opened after a kill: another process updates it, and is killed.

mod data;
mod killed;
pub mod overview;
mod race;

use std::fs;
use std::path::{Path, PathBuf};

use outlast::Scheme;
pub use outlast_peers::engines::PEERS;
use outlast_peers::engines::{Engine, EngineError, Floor, Ours, OursOptions, how_to_build, peers};
use outlast_pmem::Domain;

use self::data::{DataSet, ROWS, UPDATES};
pub use self::killed::update_until_killed;
use self::race::{Timed, Work, load, race};
use crate::native::ScratchDirectory;
use crate::progress::{Listener, Progress};
use crate::record::{Kind, Metric, Record};
use crate::stats::Spread;

/// What to measure.
#[derive(Clone, Debug)]
pub struct EnginesSetup {
    /// The pool's file; those of the others lie beside it. They are there for the time of the run.
    pub file: PathBuf,
    /// The persistence domain of our pools; `None` takes the one detected.
    pub domain: Option<Domain>,
    /// Our schemes.
    pub schemes: Vec<Scheme>,
    /// Keys of each data set.
    pub keys: u64,
    /// Rounds in which every engine has its turn.
    pub rounds: u32,
    /// Transactions of one turn where each writes one row.
    pub transactions: u64,
    /// Numbers of threads that update.
    pub threads: Vec<u32>,
    /// Everything random follows from it.
    pub seed: u64,
    /// The command `outlast`, which updates databases until it is killed; without it no opening after a kill is timed.
    pub program: Option<PathBuf>,
}

/// This process's program, if it is the command `outlast`.
pub fn own_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    (program.file_stem()? == "outlast").then_some(program)
}

/// A comparison that could not be made. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum EnginesError {
    /// The file's directory cannot be used.
    #[error("{}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A path without a file's name.
    #[error("{}: not the name of a file", .0.display())]
    NoFile(PathBuf),
    /// A scheme that keeps its log until the pool is opened again, or loses what it acknowledges.
    #[error("{0}: choose a scheme that is durable; `outlast schemes` lists them")]
    Scheme(Scheme),
    /// An engine refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The process that was to update an engine's database did not.
    #[error("{engine}, updated by another process: {why}")]
    Updating {
        /// Its name.
        engine: &'static str,
        /// Why.
        why: String,
    },
}

/// Measures engine by engine.
///
/// # Errors
/// [`EnginesError`].
pub fn measure(
    setup: &EnginesSetup,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, EnginesError> {
    if let Some(scheme) = setup.schemes.iter().find(|s| s.is_published() || **s == Scheme::None) {
        return Err(EnginesError::Scheme(*scheme));
    }
    let name = setup.file.file_name().ok_or_else(|| EnginesError::NoFile(setup.file.clone()))?;
    let parent = match setup.file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let unusable = |source| EnginesError::Directory { path: parent.to_owned(), source };
    let scratch = ScratchDirectory::new_in(parent).map_err(unusable)?;
    if let Some(line) = how_to_build() {
        listen(Progress::Note(line));
    }
    let single = Work::put("single row", 1, setup.transactions / 5);
    let batch = Work::put("batch of 1000 rows", 1000, (setup.transactions / 200).max(1));
    let reads = Work::get("100 random reads", 100, setup.transactions / 10);
    let scans = Work::scan("scan of 10 rows", 10, setup.transactions);
    let update = Work::update("update", setup.transactions);
    let updates = setup.threads.iter().map(|threads| update.by(*threads));
    let sets = [(UPDATES, updates.collect()), (ROWS, vec![single, batch, reads, scans])];

    let mut records = Vec::new();
    for (set, works) in sets {
        let folder = scratch.path().join(set.name);
        fs::create_dir(&folder).map_err(unusable)?;
        let engines = engines(setup, &set, &folder, name.as_ref())?;
        for engine in &engines {
            listen(Progress::Note(&format!("{}: {}", engine.name(), engine.settings())));
        }
        load(&set, setup, &engines)?;
        records.extend(sizes(&set, setup, &engines));
        for work in &works {
            let timed = race(&set, work, setup, &engines, &mut |done, total| {
                listen(Progress::Step { stage: work.name, done, total });
            })?;
            records.extend(told(&set, work, setup, &timed, &engines));
        }
        drop(engines);
        if let Some(program) = setup.program.as_ref().filter(|_| set.name == UPDATES.name) {
            let subjects = killed::subjects(setup, &folder, name.as_ref());
            let stage = "first opening after a kill";
            let openings =
                killed::first_openings(&set, setup, &subjects, program, &mut |done, total| {
                    listen(Progress::Step { stage, done, total });
                })?;
            records.extend(subjects.iter().zip(openings).map(|(subject, spread)| {
                let work = format!("{}: {stage}", set.name);
                let metric = Metric::FIRST_OPENING;
                Record::spread(Kind::Native, &work, subject.name, metric, spread).keys(setup.keys)
            }));
        }
        // The next set's files need the room.
        fs::remove_dir_all(&folder).map_err(unusable)?;
    }
    Ok(records)
}

/// Every engine, with a new database for this data set.
fn engines(
    setup: &EnginesSetup,
    set: &DataSet,
    directory: &Path,
    name: &Path,
) -> Result<Vec<Box<dyn Engine>>, EnginesError> {
    let mut engines: Vec<Box<dyn Engine>> = Vec::new();
    for scheme in &setup.schemes {
        let path = directory.join(name).with_extension(scheme.name());
        engines.push(Box::new(Ours::create(&path, ours_options(setup, set, *scheme))?));
    }
    engines.extend(peers(directory, set.bytes(setup.keys))?);
    engines.push(Box::new(Floor::create(&directory.join("floor"))?));
    for (name, apart) in [("mapped-floor", false), ("floor-apart", true)] {
        let is_told = !apart || setup.threads.iter().any(|threads| *threads > 1);
        if is_told && let Some(mapped) = Floor::mapped(&directory.join(name), setup.domain, apart)?
        {
            engines.push(Box::new(mapped));
        }
    }
    Ok(engines)
}

/// A pool of ours for a data set.
fn ours_options(setup: &EnginesSetup, set: &DataSet, scheme: Scheme) -> OursOptions {
    let threads = setup.threads.iter().copied().max().unwrap_or(1).max(1);
    let data_bytes = set.bytes(setup.keys);
    let lane_bytes = lane_bytes(data_bytes);
    OursOptions { scheme, domain: setup.domain, threads, lane_bytes, data_bytes }
}

/// A lane's log: as long as a quarter of the data at most. When it is full, each page of the data is written once
/// for the many updates that it has had meanwhile, in the order of the file.
fn lane_bytes(data_bytes: u64) -> u64 {
    (data_bytes / 4).next_power_of_two().clamp(64 << 10, 64 << 20)
}

fn record(set: &DataSet, workload: &str, scheme: &str, metric: Metric, value: f64) -> Record {
    let workload = format!("{}: {workload}", set.name);
    Record::new(Kind::Native, &workload, scheme, metric, value)
}

/// What the freshly loaded data takes on disk.
fn sizes(set: &DataSet, setup: &EnginesSetup, engines: &[Box<dyn Engine>]) -> Vec<Record> {
    let readable = engines.iter().filter(|engine| engine.reads());
    readable
        .flat_map(|engine| {
            let (all, log) = (engine.bytes_on_disk() as f64, engine.log_bytes() as f64);
            let data = set.bytes(setup.keys) as f64;
            let told = |metric, value| {
                record(set, "loaded", engine.name(), metric, value).keys(setup.keys)
            };
            [
                told(Metric::DISK_BYTES, all),
                told(Metric::DISK_LOG_BYTES, log),
                told(Metric::SPACE_RATIO, (all - log) / data),
                told(Metric::SPACE_RATIO_ALL, all / data),
            ]
        })
        .collect()
}

fn told(
    set: &DataSet,
    work: &Work,
    setup: &EnginesSetup,
    timed: &[Timed],
    engines: &[Box<dyn Engine>],
) -> Vec<Record> {
    let floor = timed.iter().zip(engines).find(|(_, engine)| !engine.reads());
    let floor = floor.filter(|_| work.writes()).map(|(timed, _)| timed);
    let mut records = Vec::new();
    for (timed, engine) in timed.iter().zip(engines) {
        let Some(rates) = Spread::of(timed.rates.iter().copied()) else { continue };
        let with = |metric, value: f64| {
            record(set, work.name, engine.name(), metric, value)
                .threads(work.threads)
                .keys(setup.keys)
                .config(&engine.settings())
        };
        let spread = |metric, spread: Spread| {
            let mut record = with(metric, spread.median);
            (record.p25, record.p75) = (Some(spread.p25), Some(spread.p75));
            record.rounds = Some(spread.rounds);
            record
        };
        records.push(spread(Metric::THROUGHPUT, rates));
        records.push(with(Metric::LATENCY_P50, timed.latencies.quantile_ns(0.5) as f64));
        records.push(with(Metric::LATENCY_P99, timed.latencies.quantile_ns(0.99) as f64));
        if let Some(syncs) = timed.syncs.filter(|_| work.writes()) {
            records.push(with(Metric::SYNCS, syncs));
        }
        let shares = floor.and_then(|floor| {
            Spread::of(timed.rates.iter().zip(&floor.rates).map(|(rate, floor)| rate / floor))
        });
        records.extend(shares.map(|shares| spread(Metric::FLOOR_SHARE, shares)));
    }
    records
}

#[cfg(test)]
mod tests;
