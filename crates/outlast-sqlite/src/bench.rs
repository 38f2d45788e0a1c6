//! Durable transactions of SQL, by pools and by SQLite's own journals, on one file system.
//!
//! A plain database is loaded once; every subject gets a copy of it, or a pool that it is imported into. Then they take
//! turns: a round is one turn of each, so that what disturbs the machine disturbs all. A figure is
//! the median over rounds, with the quartiles beside it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

use outlast::Scheme;
use outlast_measure::{Rounds, Spread, Times};
use outlast_workloads::tpcc_terminals::Shape;

use crate::client::{Client, ClientError, Sqlite};
use crate::options::DatabaseOptions;
use crate::plain::{self, MoveError};

mod tpcc;
mod ycsb;

/// A work of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// One row of some gets a new value.
    Update,
    /// A row is added.
    Insert,
    /// A thousand rows are added.
    Batch,
    /// One row of some is read.
    Read,
    /// YCSB's mix A: half reads of a row, half updates of one of its ten fields, by Zipf's law.
    YcsbA,
    /// TPC-C's five transactions, one warehouse, without thinking or keying.
    Tpcc,
}

impl Work {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Update, Self::Insert, Self::Batch, Self::Read, Self::YcsbA, Self::Tpcc];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Insert => "insert",
            Self::Batch => "batch",
            Self::Read => "read",
            Self::YcsbA => "ycsb-a",
            Self::Tpcc => "tpcc",
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no work has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no work is called '{0}'; there are {names}", names = Work::ALL.map(Work::name).join(", "))]
pub struct UnknownWork(String);

impl FromStr for Work {
    type Err = UnknownWork;

    fn from_str(name: &str) -> Result<Self, UnknownWork> {
        let found = Self::ALL.into_iter().find(|work| work.name() == name);
        found.ok_or_else(|| UnknownWork(name.to_owned()))
    }
}

/// How much is measured, and where.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the databases are made; they are removed afterwards.
    pub directory: PathBuf,
    /// Rows of the table before, for [`Work::Update`], [`Work::Read`] and [`Work::YcsbA`].
    pub rows: u64,
    /// Bytes of a row's value; YCSB has ten fields of a tenth, and rows that are added have a tenth.
    pub value_bytes: usize,
    /// The tables of [`Work::Tpcc`].
    pub shape: Shape,
    /// Transactions of a turn; of [`Work::Batch`] one in twenty.
    pub turn: usize,
    /// Turns of each subject.
    pub rounds: usize,
    /// The seed of everything drawn.
    pub seed: u64,
}

/// TPC-C's tables with one warehouse, as the specification has them.
pub const ONE_WAREHOUSE: Shape =
    Shape { warehouses: 1, districts: 10, customers: 3_000, items: 100_000 };

/// A measurement that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// SQLite.
    #[error("{subject}: {source}")]
    Client {
        /// The subject.
        subject: String,
        /// SQLite's error.
        source: ClientError,
    },
    /// The file system.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    /// A pool.
    #[error(transparent)]
    Import(#[from] MoveError),
    /// A subject's tables are not as its transactions leave them.
    #[error("{subject}: {what}")]
    Wrong {
        /// The subject.
        subject: String,
        /// The difference.
        what: String,
    },
}

/// A database and how it is made durable.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name in the table.
    pub name: String,
    place: Place,
    /// Statements for a new connection.
    pragmas: &'static str,
}

/// Where a database is.
#[derive(Clone, Debug)]
enum Place {
    /// In a pool under a scheme.
    Pool(DatabaseOptions),
    /// In a plain file.
    File,
    /// In volatile memory.
    Memory,
}

/// The name of the subject that others are related to.
pub const WAL: &str = "wal";

/// The name of the subject that protects nothing: a database in volatile memory, without a journal. Its time is
/// SQLite's own, and a bound for all others.
pub const UNPROTECTED: &str = "unprotected";

/// Everything that is compared: pools under these schemes, the first two also with exclusive locking, SQLite's
/// own journals, and [`UNPROTECTED`].
pub fn subjects(schemes: &[Scheme], domain: Option<outlast::Domain>) -> Vec<Subject> {
    let pool = |scheme: Scheme, suffix, pragmas| Subject {
        name: format!("pool {scheme}{suffix}"),
        place: Place::Pool(DatabaseOptions {
            scheme: Some(scheme),
            domain,
            ..DatabaseOptions::default()
        }),
        pragmas,
    };
    let own = |name: &str, pragmas| Subject { name: name.into(), place: Place::File, pragmas };
    let pools = schemes.iter().map(|scheme| pool(*scheme, "", "pragma synchronous=full"));
    let exclusive = "pragma synchronous=full; pragma locking_mode=exclusive";
    let journals = [
        own("delete", "pragma synchronous=full; pragma journal_mode=delete"),
        own("persist", "pragma synchronous=full; pragma journal_mode=persist"),
        own(WAL, "pragma synchronous=full; pragma journal_mode=wal"),
        own("wal normal", "pragma synchronous=normal; pragma journal_mode=wal"),
        own(
            "wal exclusive",
            "pragma synchronous=full; pragma locking_mode=exclusive; pragma journal_mode=wal",
        ),
        own("off", "pragma synchronous=full; pragma journal_mode=off"),
    ];
    let unprotected = Subject {
        name: UNPROTECTED.into(),
        place: Place::Memory,
        pragmas: "pragma journal_mode=off",
    };
    let first = schemes.iter().take(2).map(|scheme| pool(*scheme, " exclusive", exclusive));
    pools.chain(first).chain(journals).chain([unprotected]).collect()
}

/// The figures of a subject.
#[derive(Clone, Debug)]
pub struct Row {
    /// The subject.
    pub name: String,
    /// Transactions of a millisecond.
    pub rate: Spread,
    /// The rate over that of [`WAL`] in the same round, if it takes part.
    pub rate_of_wal: Option<Spread>,
    /// The median latency of a turn, in microseconds.
    pub p50: Spread,
    /// The 99th percentile of a turn's latencies, in microseconds.
    pub p99: Spread,
}

/// Statements with names, prepared together.
macro_rules! statements {
    ($(#[$doc:meta])* struct $name:ident { $($field:ident: $sql:expr,)* }) => {
        $(#[$doc])*
        struct $name<'c> {
            $($field: $crate::client::Statement<'c>,)*
        }

        impl<'c> $name<'c> {
            fn prepare(
                client: &'c $crate::client::Client<'c>,
            ) -> Result<Self, $crate::client::ClientError> {
                Ok(Self { $($field: client.prepare($sql)?,)* })
            }
        }
    };
}
use statements;

/// Transactions of one connection, drawn from a seed.
trait Terminal {
    /// Draws the next transaction.
    fn draw(&mut self);

    /// Runs it.
    fn run(&mut self) -> Result<(), ClientError>;
}

/// Measures a work on all subjects.
///
/// # Errors
/// [`BenchError`].
///
/// # Panics
/// When there are no rounds, or no transactions in a turn.
pub fn measure(
    sqlite: &Sqlite,
    plan: &Plan,
    work: Work,
    subjects: &[Subject],
) -> Result<Vec<Row>, BenchError> {
    let name = |number: usize| format!("outlast-{}-{number}.db", std::process::id());
    let files: Vec<PathBuf> =
        (0..=subjects.len()).map(|number| plan.directory.join(name(number))).collect();
    let _removed = Removed(&files);
    let (loaded, files) = files.split_first().expect("one is loaded");
    load(sqlite, plan, work, loaded).map_err(told_of("load"))?;
    let mut clients = Vec::new();
    for (subject, file) in subjects.iter().zip(files) {
        copy(loaded, file, subject)?;
        clients.push(connect(sqlite, subject, loaded, file).map_err(told_of(&subject.name))?);
    }
    let rounds = Rounds { count: plan.rounds as u32, warm_up: 1, seed: plan.seed };
    let turns = rounds.run(subjects.len(), |number, round| {
        let turn = turn(&clients[number], plan, work, round.into());
        turn.map_err(told_of(&subjects[number].name))
    })?;
    for (subject, client) in subjects.iter().zip(&clients) {
        let wrong = match work {
            Work::Tpcc => tpcc::inconsistency(client).map_err(told_of(&subject.name))?,
            Work::Insert | Work::Batch => {
                ycsb::missing_rows(client).map_err(told_of(&subject.name))?
            }
            Work::Update | Work::Read | Work::YcsbA => None,
        };
        if let Some(what) = wrong {
            return Err(BenchError::Wrong { subject: subject.name.clone(), what });
        }
    }
    let wal = subjects.iter().position(|subject| subject.name == WAL);
    let spread = |values: &mut dyn Iterator<Item = f64>| Spread::of(values).expect("no rounds");
    let rows = subjects.iter().zip(&turns).map(|(subject, own)| {
        let of = |value: &dyn Fn(&Times) -> f64| spread(&mut own.iter().map(value));
        let over = |wal: usize| {
            let pairs = own.iter().zip(&turns[wal]);
            spread(&mut pairs.map(|(own, wal)| own.per_second() / wal.per_second()))
        };
        Row {
            name: subject.name.clone(),
            rate: of(&|turn| turn.per_second() / 1e3),
            rate_of_wal: wal.map(over),
            p50: of(&|turn| turn.quantile_ns(0.5) / 1e3),
            p99: of(&|turn| turn.quantile_ns(0.99) / 1e3),
        }
    });
    Ok(rows.collect())
}

fn told_of(subject: &str) -> impl Fn(ClientError) -> BenchError {
    move |source| BenchError::Client { subject: subject.to_owned(), source }
}

/// Removes databases and what may lie beside them.
struct Removed<'f>(&'f [PathBuf]);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        for file in self.0 {
            for suffix in ["", "-journal", "-wal", "-shm"] {
                let mut name = file.clone().into_os_string();
                name.push(suffix);
                let _ = std::fs::remove_file(name);
            }
        }
    }
}

/// The plain database that all others are copies of.
fn load(sqlite: &Sqlite, plan: &Plan, work: Work, file: &Path) -> Result<(), ClientError> {
    let client = sqlite.open(&format!("file:{}?vfs=unix", file.display()))?;
    client.run("pragma synchronous=off; pragma journal_mode=memory; begin")?;
    match work {
        Work::Update | Work::Read => ycsb::load_values(&client, plan, plan.rows)?,
        Work::Insert | Work::Batch => ycsb::load_values(&client, plan, 0)?,
        Work::YcsbA => ycsb::load_users(&client, plan)?,
        Work::Tpcc => tpcc::load(&client, &plan.shape)?,
    }
    client.run("commit").map(drop)
}

fn copy(loaded: &Path, file: &Path, subject: &Subject) -> Result<(), BenchError> {
    match &subject.place {
        Place::Pool(options) => plain::import(loaded, file, options).map(drop)?,
        Place::File => std::fs::copy(loaded, file)
            .map(drop)
            .map_err(|error| BenchError::Io(file.display().to_string(), error))?,
        // Its connection fills it.
        Place::Memory => {}
    }
    Ok(())
}

fn connect<'s>(
    sqlite: &'s Sqlite,
    subject: &Subject,
    loaded: &Path,
    file: &Path,
) -> Result<Client<'s>, ClientError> {
    let parameters = match &subject.place {
        Place::Pool(options) => {
            let scheme = options.scheme.map_or_else(String::new, |name| format!("&scheme={name}"));
            let domain = options.domain.map_or_else(String::new, |name| format!("&domain={name}"));
            format!("vfs=outlast{scheme}{domain}")
        }
        Place::File => "vfs=unix".to_owned(),
        Place::Memory => "vfs=memdb".to_owned(),
    };
    let client = sqlite.open(&format!("file:{}?{parameters}", file.display()))?;
    if matches!(subject.place, Place::Memory) {
        client.copy_from(&sqlite.open(&format!("file:{}?vfs=unix", loaded.display()))?)?;
    }
    client.run(subject.pragmas)?;
    Ok(client)
}

fn turn(client: &Client<'_>, plan: &Plan, work: Work, round: u64) -> Result<Times, ClientError> {
    let mut terminal: Box<dyn Terminal + '_> = match work {
        Work::Update => Box::new(ycsb::Updates::new(client, plan, round)?),
        Work::Insert => Box::new(ycsb::Inserts::new(client, plan, round, 1)?),
        Work::Batch => Box::new(ycsb::Inserts::new(client, plan, round, 1_000)?),
        Work::Read => Box::new(ycsb::Reads::new(client, plan, round)?),
        Work::YcsbA => Box::new(ycsb::Users::new(client, plan, round)?),
        Work::Tpcc => Box::new(tpcc::Terminal::new(client, plan, round)?),
    };
    let transactions = match work {
        Work::Batch => (plan.turn / 20).max(1),
        _ => plan.turn,
    };
    let mut times = Vec::with_capacity(transactions);
    for _ in 0..transactions {
        terminal.draw();
        let start = Instant::now();
        terminal.run()?;
        times.push(start.elapsed().as_nanos() as u64);
    }
    Ok(Times::of(times))
}
