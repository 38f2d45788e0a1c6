//! The paper's workloads under Redis' and SQLite's front ends of the runtime, in process.
//!
//! Redis' YCSB mixes run as commands of data, each operation a transaction; SQLite runs updates, YCSB-A and TPC-C
//! through the system's library, beside its own rollback journal. Schemes take turns, one thread. What a
//! front end costs is the same under every scheme, so that schemes differ by less than over `Transact`.

use outlast::{Domain, Scheme};
use outlast_measure::{Spread, Times};
use outlast_redis::bench as redis;
use outlast_sqlite::bench as sqlite;
use outlast_sqlite::client::Sqlite;

use super::evidence::{Evidence, Memory};
use super::judge::Pair;
use super::{Task, timing};
use crate::papers::claim::Found;
use crate::progress::{Listener, Progress};
use crate::record::{Kind, Metric, Record};

/// Those that are compared.
const SCHEMES: [Scheme; 5] =
    [Scheme::Undo, Scheme::UndoArchapt, Scheme::Redo, Scheme::RedoArchapt, Scheme::Swift];

/// SQLite's own rollback journal, as its records call it.
pub(super) const ROLLBACK_JOURNAL: &str = "delete";

/// Redis' workloads, as the records call them.
const REDIS: [(&str, redis::Mix); 6] = [
    ("redis/ycsb-a", redis::Mix::A),
    ("redis/ycsb-b", redis::Mix::B),
    ("redis/ycsb-c", redis::Mix::C),
    ("redis/ycsb-d", redis::Mix::D),
    ("redis/ycsb-e", redis::Mix::E),
    ("redis/ycsb-f", redis::Mix::F),
];

/// SQLite's.
const SQLITE: [(&str, sqlite::Work); 3] = [
    ("sqlite/update", sqlite::Work::Update),
    ("sqlite/ycsb-a", sqlite::Work::YcsbA),
    ("sqlite/tpcc", sqlite::Work::Tpcc),
];

/// Bytes of a record of YCSB.
const RECORD_BYTES: usize = 1_000;

/// A front end that could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum FrontEndError {
    /// Redis' commands.
    #[error(transparent)]
    Redis(#[from] redis::BenchError),
    /// SQLite.
    #[error(transparent)]
    Sqlite(#[from] sqlite::BenchError),
}

/// The stage of [`measure`] in progress events.
pub(super) const STAGE: &str = "front ends";

/// Measures both; SQLite is left out, with a note, where the system has none.
///
/// # Errors
/// [`FrontEndError`].
pub fn measure(task: &Task, listen: &mut Listener<'_>) -> Result<Vec<Record>, FrontEndError> {
    let stage = STAGE;
    let total = (REDIS.len() + SQLITE.len()) as u64;
    let mut records = Vec::new();
    let turn = (task.amount.latency_transactions / 10).max(5) as usize;
    let rounds = task.amount.rounds as usize;
    let records_loaded = task.amount.keys.unwrap_or(100_000);
    // A scan reads some fifty records.
    let short = |name: &str| if name.ends_with("ycsb-e") { turn.div_ceil(10) } else { turn };
    for (done, (name, mix)) in (0..).zip(REDIS) {
        listen(Progress::Step { stage, done, total });
        let plan = redis::Plan {
            directory: task.directory.clone(),
            domain: domain(task),
            records: records_loaded,
            record_bytes: RECORD_BYTES,
            turn: short(name),
            rounds,
            seed: task.seed,
        };
        for (scheme, turns) in SCHEMES.iter().zip(redis::measure(&plan, mix, &SCHEMES)?) {
            let of = |metric, value: &dyn Fn(&Times) -> f64| {
                let spread = Spread::of(turns.iter().map(value)).expect("there are rounds");
                Record::spread(Kind::Native, name, scheme.name(), metric, spread)
            };
            records.push(of(Metric::THROUGHPUT, &Times::per_second));
            records.push(of(Metric::LATENCY_P99, &|turn| turn.quantile_ns(0.99)));
        }
    }
    match Sqlite::load() {
        Ok(library) => {
            for (done, (name, work)) in (REDIS.len() as u64..).zip(SQLITE) {
                listen(Progress::Step { stage, done, total });
                records.extend(measure_sqlite(task, &library, (name, work), turn)?);
            }
        }
        Err(error) => listen(Progress::Note(&format!("SQLite is left out: {error}"))),
    }
    listen(Progress::Step { stage, done: total, total });
    let derived = timing::derived(&records);
    let over_journal = over_journal(&records);
    records.extend(derived);
    records.extend(over_journal);
    Ok(records)
}

/// Persistent memory is emulated on file systems in memory, as in the paper.
fn domain(task: &Task) -> Option<Domain> {
    let is_memory = task.directory.starts_with(crate::native::default_directory());
    is_memory.then_some(Domain::Adr)
}

fn measure_sqlite(
    task: &Task,
    library: &Sqlite,
    (name, work): (&str, sqlite::Work),
    turn: usize,
) -> Result<Vec<Record>, FrontEndError> {
    let shape = match task.amount.keys {
        None => sqlite::ONE_WAREHOUSE,
        Some(keys) => outlast_workloads::tpcc_terminals::Shape {
            customers: (keys / 10).clamp(12, 3_000),
            items: keys.clamp(30, 100_000),
            ..sqlite::ONE_WAREHOUSE
        },
    };
    let plan = sqlite::Plan {
        directory: task.directory.clone(),
        rows: task.amount.keys.unwrap_or(100_000),
        value_bytes: RECORD_BYTES,
        shape,
        turn,
        rounds: task.amount.rounds as usize,
        seed: task.seed,
    };
    let is_wanted = |subject: &sqlite::Subject| {
        subject.name == ROLLBACK_JOURNAL || scheme_of(&subject.name).is_some()
    };
    let subjects: Vec<sqlite::Subject> =
        sqlite::subjects(&SCHEMES, domain(task)).into_iter().filter(is_wanted).collect();
    let mut records = Vec::new();
    for row in sqlite::measure(library, &plan, work, &subjects)? {
        let scheme = scheme_of(&row.name).unwrap_or(ROLLBACK_JOURNAL);
        let mut of = |metric, spread| {
            records.push(Record::spread(Kind::Native, name, scheme, metric, spread));
        };
        of(Metric::THROUGHPUT, row.rate.scaled(1e3));
        of(Metric::LATENCY_P99, row.p99.scaled(1e3));
    }
    Ok(records)
}

/// The scheme of a pool's subject.
fn scheme_of(subject: &str) -> Option<&'static str> {
    let name = subject.strip_prefix("pool ")?;
    name.parse::<Scheme>().ok().map(Scheme::name)
}

/// Archapt against SQLite's own rollback journal.
fn over_journal(records: &[Record]) -> Vec<Record> {
    let own = records.iter().filter(|r| r.scheme == "undo-archapt");
    let related = own.filter_map(|own| {
        let same = |r: &&Record| {
            r.scheme == ROLLBACK_JOURNAL && r.workload == own.workload && r.metric == own.metric
        };
        let (value, other) = (own.value?, records.iter().find(same)?.value?);
        let (metric, percent) = match own.is(Metric::THROUGHPUT) {
            true => (Metric::THROUGHPUT_GAIN, 100.0 * (value / other - 1.0)),
            false => (Metric::LATENCY_P99_SAVED, 100.0 * (1.0 - value / other)),
        };
        let record = Record::new(Kind::Native, &own.workload, &own.scheme, metric, percent);
        Some(record.class(ROLLBACK_JOURNAL))
    });
    related.collect()
}

const ALONE: &str = "one thread, in process, without sockets";

/// The paper's averages once more, over what ran under the front ends.
pub(super) fn found(evidence: &Evidence<'_>, metric: Metric, pairs: &[Pair]) -> Option<Found> {
    let mean = |workloads: &[&'static str]| {
        let gains =
            |(own, over): &Pair| evidence.natives(Memory::Bare, metric, workloads, own, Some(over));
        Found::mean(&pairs.iter().flat_map(gains).map(|(_, gain)| gain).collect::<Vec<f64>>())
    };
    let (redis, sqlite) = (REDIS.map(|(name, _)| name), SQLITE.map(|(name, _)| name));
    let parts: Vec<String> = [("Redis", mean(&redis)), ("SQLite", mean(&sqlite))]
        .into_iter()
        .filter_map(|(name, found)| Some(format!("{name} {:.1}", found?.value)))
        .collect();
    let found = mean(&[&redis[..], &sqlite[..]].concat())?;
    Some(found.noting(&format!("{}; {ALONE}", parts.join(", "))))
}
