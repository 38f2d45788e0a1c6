//! The runtime behind other programs' interfaces, beside those programs: SQLite's journals, the real
//! Redis, embedded databases. Small runs for a report; each has a command of its own that runs more.

use std::path::{Path, PathBuf};
use std::process::Command;

use outlast::{Domain, Scheme};
use outlast_measure::Rounds;
use outlast_peers::engines::how_to_build;
use outlast_redis::beside::{self as redis, Running, SUBJECTS};
use outlast_sqlite::bench as sqlite;
use outlast_sqlite::client::Sqlite;
use serde::{Deserialize, Serialize};

use crate::engines::{self, EnginesError, EnginesSetup};
use crate::progress::{Listener, Progress};
use crate::record::{Kind, Metric, Record};
use crate::stats::Spread;

/// What was measured, and what could not be.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Beside {
    /// Works begin with the [`Part`] that they belong to.
    pub records: Vec<Record>,
    /// A line each.
    pub left_out: Vec<String>,
}

impl Beside {
    /// Whether a document has nothing of it to keep.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.left_out.is_empty()
    }

    /// The records of a part.
    pub fn of(&self, part: Part) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| part.is_of(record))
    }
}

/// Programs that the runtime stands beside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// SQLite on a pool beside its own journals.
    Sqlite,
    /// The server beside the real Redis.
    Redis,
    /// Pools beside embedded databases, on a disk.
    Engines,
}

impl Part {
    /// All of them, in the order of a report.
    pub const ALL: [Self; 3] = [Self::Sqlite, Self::Redis, Self::Engines];

    /// How it is called in the names of works.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Redis => "redis",
            Self::Engines => "engines",
        }
    }

    /// Whether a record is one of its works.
    fn is_of(self, record: &Record) -> bool {
        record.workload.split('/').next() == Some(self.name())
    }

    /// The command that measures more of it.
    pub fn command(self, seed: u64) -> String {
        match self {
            Self::Sqlite => format!(
                "outlast sqlite bench --work update,ycsb-a --scheme swift,redo --rows {ROWS} --turn {TURN} \
                 --rounds {ROUNDS} --domain adr --seed {seed}"
            ),
            Self::Redis => format!(
                "cargo run --release -p outlast-redis --example bench -- {REDIS_ROUNDS} {}",
                COMMANDS / 4
            ),
            Self::Engines => {
                format!("outlast bench engines --file FILE --seed {seed}")
            }
        }
    }
}

/// Where it is measured.
pub struct Setup<'s> {
    /// Pools and databases in memory.
    pub memory: PathBuf,
    /// A folder on a disk, for the databases that promise to keep data there.
    pub disk: PathBuf,
    /// The command that serves a pool by the Redis protocol.
    pub serve: &'s redis::Serve<'s>,
    /// What is drawn follows from it.
    pub seed: u64,
}

/// The schemes of pools under SQLite and beside databases.
const POOLS: [Scheme; 2] = [Scheme::Swift, Scheme::Redo];

/// Rows of SQLite's table, of 1 KiB each; transactions of a turn; turns.
const ROWS: u64 = 10_000;
const TURN: usize = 1_000;
const ROUNDS: usize = 5;
const VALUE_BYTES: usize = 1 << 10;

/// Works of SQLite; TPC-C takes long to load.
const SQLITE: [sqlite::Work; 2] = [sqlite::Work::Update, sqlite::Work::YcsbA];

/// Works of Redis, in pipelines: else the kernel takes most of the time.
const REDIS: [(&str, redis::Work); 2] = [
    ("SET of 100 bytes", redis::Work { test: "set", bytes: 100, pipeline: 16 }),
    ("GET of 100 bytes", redis::Work { test: "get", bytes: 100, pipeline: 16 }),
];

/// Commands of one turn: the system counts CPU time in hundredths of a second, so a turn has to have many
/// of them; turns.
const COMMANDS: u32 = 60_000;
const REDIS_ROUNDS: u32 = 3;

/// Keys, transactions, rounds and threads of the databases: each commit waits for a disk.
const KEYS: u64 = 100_000;
const TRANSACTIONS: u64 = 400;
const ENGINE_ROUNDS: u32 = 3;
const ENGINE_THREADS: [u32; 2] = [1, 4];

/// Measures each part that this machine and this build have. The rest is left out with a line, and so is a
/// part whose other program fails: a report has more to show.
pub fn measure(setup: &Setup<'_>, listen: &mut Listener<'_>) -> Beside {
    let mut beside = Beside::default();
    let mut keep =
        |name: &str, part: Result<Vec<Record>, String>, listen: &mut Listener<'_>| match part {
            Ok(records) => beside.records.extend(records),
            Err(why) => {
                let line = format!("{name} left out: {why}");
                listen(Progress::Note(&line));
                beside.left_out.push(line);
            }
        };
    let sqlite = match Sqlite::load() {
        Ok(library) => of_sqlite(setup, &library, listen).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    keep("SQLite is", sqlite, listen);
    let redis = match redis::missing() {
        None => of_redis(setup, listen).map_err(|error| error.to_string()),
        Some(program) => Err(format!("{program} is not installed")),
    };
    keep("Redis is", redis, listen);
    let engines = of_engines(setup, listen).map_err(|error| error.to_string());
    keep("Databases are", engines, listen);
    if let Some(line) = how_to_build() {
        keep("More databases are", Err(line.to_owned()), listen);
    }
    beside
}

fn record(part: Part, work: &str, subject: &str, metric: Metric, spread: Spread) -> Record {
    let work = format!("{}/{work}", part.name());
    Record::spread(Kind::Native, &work, subject, metric, spread)
}

fn of_sqlite(
    setup: &Setup<'_>,
    library: &Sqlite,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, sqlite::BenchError> {
    let plan = sqlite::Plan {
        directory: setup.memory.clone(),
        rows: ROWS,
        value_bytes: VALUE_BYTES,
        shape: sqlite::ONE_WAREHOUSE,
        turn: TURN,
        rounds: ROUNDS,
        seed: setup.seed,
    };
    let subjects = sqlite::subjects(&POOLS, Some(Domain::Adr));
    let config = format!(
        "SQLite {}, one connection, synchronous=FULL, {ROWS} rows of {VALUE_BYTES} bytes in memory",
        library.version()
    );
    let mut records = Vec::new();
    for (done, work) in (0..).zip(SQLITE) {
        listen(Progress::Step { stage: "SQLite", done, total: SQLITE.len() as u64 });
        for row in sqlite::measure(library, &plan, work, &subjects)? {
            let mut add = |metric, spread| {
                let record = record(Part::Sqlite, work.name(), &row.name, metric, spread);
                records.push(record.config(&config).domain("adr"));
            };
            add(Metric::THROUGHPUT, row.rate.scaled(1e3));
            add(Metric::LATENCY_P99, row.p99.scaled(1e3));
            if let Some(over) = row.rate_of_wal {
                add(Metric::SPEED_OVER_WAL, over);
            }
        }
    }
    Ok(records)
}

fn of_redis(
    setup: &Setup<'_>,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, redis::BesideError> {
    let total = (REDIS.len() * SUBJECTS.len()) as u64 * u64::from(REDIS_ROUNDS);
    let mut done = 0;
    let mut records = Vec::new();
    for (name, work) in REDIS {
        let turns = Rounds::new(REDIS_ROUNDS, setup.seed).run(SUBJECTS.len(), |subject, _| {
            listen(Progress::Step { stage: "Redis", done, total });
            done += 1;
            let running = Running::start(&SUBJECTS[subject], &setup.memory, setup.serve)?;
            running.turn(COMMANDS, work)
        })?;
        for (subject, turns) in SUBJECTS.iter().zip(&turns) {
            let mut add = |metric, of: &dyn Fn(&redis::Turn) -> f64| {
                let spread = Spread::of(turns.iter().map(of)).expect("there are rounds");
                let config = format!("8 clients, pipelines of {}, files in memory", work.pipeline);
                records
                    .push(record(Part::Redis, name, subject.name, metric, spread).config(&config));
            };
            add(Metric::SERVER_CPU, &redis::Turn::cpu_us);
            add(Metric::COMMANDS, &|turn| turn.rate);
        }
    }
    Ok(records)
}

fn of_engines(setup: &Setup<'_>, listen: &mut Listener<'_>) -> Result<Vec<Record>, EnginesError> {
    let engines = EnginesSetup {
        file: setup.disk.join("engines.pool"),
        domain: None,
        schemes: vec![Scheme::Swift],
        keys: KEYS,
        rounds: ENGINE_ROUNDS,
        transactions: TRANSACTIONS,
        threads: ENGINE_THREADS.to_vec(),
        seed: setup.seed,
        program: engines::own_program(),
    };
    let shown = [Metric::THROUGHPUT, Metric::SPACE_RATIO_ALL, Metric::FIRST_OPENING];
    let is_shown = |record: &Record| shown.iter().any(|metric| record.is(*metric));
    // The settings of each engine stand in its records.
    let mut quiet = |progress: Progress<'_>| {
        if matches!(progress, Progress::Step { .. }) {
            listen(progress);
        }
    };
    let mut records = engines::measure(&engines, &mut quiet)?;
    records.retain(is_shown);
    for record in &mut records {
        record.workload = format!("{}/{}", Part::Engines.name(), record.workload);
    }
    Ok(records)
}

/// Serves a pool by this program's own `serve`.
pub fn serve_by(program: &Path) -> impl Fn(&Path, u16, &str) -> Command + use<'_> {
    move |pool, port, scheme| {
        let mut command = Command::new(program);
        command.arg("serve").arg(pool).args(["--port", &port.to_string(), "--scheme", scheme]);
        command.args(["--domain", "adr"]);
        command
    }
}

/// What a part compares first: its metric, and a subject of ours with the one of theirs that keeps as much
/// through a crash.
struct Pair {
    metric: Metric,
    ours: &'static str,
    theirs: &'static str,
}

impl Part {
    fn pair(self) -> Pair {
        let pair = |metric, ours, theirs| Pair { metric, ours, theirs };
        match self {
            Self::Sqlite => pair(Metric::THROUGHPUT, "pool swift", sqlite::WAL),
            Self::Redis => pair(Metric::SERVER_CPU, "outlast swift", "redis always"),
            Self::Engines => pair(Metric::THROUGHPUT, "swift", "fjall"),
        }
    }

    /// The metric that its figure shows.
    pub fn metric(self) -> Metric {
        self.pair().metric
    }
}

/// One work in a line.
#[derive(Clone, PartialEq, Debug)]
pub struct Line<'b> {
    /// What ran.
    pub work: &'b str,
    /// Ours.
    pub ours: &'b Record,
    /// The subject of theirs that it stands beside.
    pub theirs: &'b Record,
}

impl Beside {
    /// A line for each work of which both sides were measured.
    pub fn lines(&self) -> Vec<Line<'_>> {
        let of_part = |part: Part| {
            let Pair { metric, ours, theirs } = part.pair();
            let of = move |name: &'static str| {
                self.of(part).filter(move |record| record.is(metric) && record.scheme == name)
            };
            of(ours).filter_map(move |ours| {
                let is_same = |theirs: &&Record| {
                    theirs.workload == ours.workload && theirs.threads == ours.threads
                };
                let theirs = of(theirs).find(is_same)?;
                Some(Line { work: &ours.workload, ours, theirs })
            })
        };
        Part::ALL.into_iter().flat_map(of_part).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What a report could have measured, without the engines.
    pub(crate) fn made_up() -> Beside {
        let spread =
            |median: f64| Spread { median, p25: 0.9 * median, p75: 1.1 * median, rounds: 5 };
        let mut records = Vec::new();
        for (work, scale) in SQLITE.into_iter().zip([1.0, 0.7]) {
            for (subject, value) in [("pool swift", 60e3), ("pool redo", 50e3), (sqlite::WAL, 30e3)]
            {
                let value = spread(scale * value);
                let work = work.name();
                records.push(record(Part::Sqlite, work, subject, Metric::THROUGHPUT, value));
            }
        }
        for (subject, value) in
            [("outlast swift", 1.5), ("redis no aof", 1.6), ("redis always", 2.0)]
        {
            let work = "SET of 100 bytes";
            records.push(record(Part::Redis, work, subject, Metric::SERVER_CPU, spread(value)));
        }
        Beside { records, left_out: vec!["redb is not built in".to_owned()] }
    }

    #[test]
    fn each_work_has_a_line_where_both_sides_were_measured() {
        let mut beside = made_up();
        let told = |beside: &Beside| -> Vec<String> {
            let lines = beside.lines();
            let told = lines.iter().map(|line| {
                let ratio = line.ours.value.unwrap() / line.theirs.value.unwrap();
                format!("{} {} {} {ratio:.2}", line.work, line.ours.scheme, line.theirs.scheme)
            });
            told.collect()
        };
        assert_eq!(
            told(&beside),
            [
                "sqlite/update pool swift wal 2.00",
                "sqlite/ycsb-a pool swift wal 2.00",
                "redis/SET of 100 bytes outlast swift redis always 0.75",
            ]
        );
        beside.records.retain(|record| record.scheme != sqlite::WAL);
        assert_eq!(told(&beside).len(), 1);
    }

    /// The real programs, where they are installed: what a report runs, but for its length.
    #[test]
    fn sqlite_is_measured_where_it_is_installed() {
        let Ok(library) = Sqlite::load() else {
            println!("skipped: no SQLite is installed");
            return;
        };
        let directory = tempfile::tempdir_in(crate::native::default_directory()).unwrap();
        let serve =
            |_: &Path, _: u16, _: &str| -> Command { unreachable!("no server is asked for") };
        let setup = Setup {
            memory: directory.path().to_owned(),
            disk: directory.path().to_owned(),
            serve: &serve,
            seed: 1,
        };
        let records = of_sqlite(&setup, &library, &mut |_| ()).unwrap();
        let beside = Beside { records, left_out: Vec::new() };
        assert_eq!(beside.lines().len(), SQLITE.len());
        assert!(beside.records.iter().all(|record| record.value.is_some_and(|value| value > 0.0)));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
    }
}
