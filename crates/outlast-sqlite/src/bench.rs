//! Durable updates of one row, by pools and by SQLite's own journals, on one file system.
//!
//! Every subject has a database of its own, and they take turns: a round is one turn of each, so
//! that what disturbs the machine disturbs all. A figure is the median over rounds, with the quartiles
//! beside it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::client::{Client, ClientError, Sqlite};

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the databases are made; they are removed afterwards.
    pub directory: PathBuf,
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of a row's value.
    pub value_bytes: usize,
    /// Transactions of a turn.
    pub turn: usize,
    /// Turns of each subject.
    pub rounds: usize,
    /// The pools' domain; `None` for the one that is detected.
    pub domain: Option<outlast::Domain>,
}

/// Rows that one transaction inserts before the measurement.
const ROWS_LOADED_AT_ONCE: u64 = 500;

/// A database and how it is made durable.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name in the table.
    pub name: String,
    /// Parameters of its URI.
    uri: String,
    /// What is said to a new connection.
    pragmas: &'static str,
}

/// Everything that is compared.
pub fn subjects(domain: Option<outlast::Domain>) -> Vec<Subject> {
    let domain = domain.map_or_else(String::new, |domain| format!("&domain={domain}"));
    let pool = |scheme: &str| Subject {
        name: format!("pool {scheme}"),
        uri: format!("?vfs=outlast&scheme={scheme}{domain}"),
        pragmas: "pragma synchronous=full",
    };
    let own = |name: &str, pragmas| Subject { name: name.into(), uri: String::new(), pragmas };
    let pools = ["swift", "undo", "redo", "undo-archapt", "redo-archapt"].into_iter().map(pool);
    let journals = [
        own("delete", "pragma synchronous=full; pragma journal_mode=delete"),
        own("persist", "pragma synchronous=full; pragma journal_mode=persist"),
        own("wal", "pragma synchronous=full; pragma journal_mode=wal"),
        own(
            "wal exclusive",
            "pragma synchronous=full; pragma locking_mode=exclusive; pragma journal_mode=wal",
        ),
        own("off", "pragma synchronous=full; pragma journal_mode=off"),
    ];
    let exclusive = Subject {
        name: "pool swift exclusive".into(),
        uri: format!("?vfs=outlast&scheme=swift{domain}"),
        pragmas: "pragma synchronous=full; pragma locking_mode=exclusive",
    };
    pools.chain([exclusive]).chain(journals).collect()
}

/// A middle and the quartiles around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The median over rounds.
    pub median: f64,
    /// A quarter of the rounds is below.
    pub low: f64,
    /// A quarter of the rounds is above.
    pub high: f64,
}

impl Figure {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[(share * (values.len() - 1) as f64).round() as usize];
        Self { median: at(0.5), low: at(0.25), high: at(0.75) }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.median, self.low, self.high)
    }
}

/// What a subject took, in microseconds.
#[derive(Clone, Debug)]
pub struct Row {
    /// The subject.
    pub name: String,
    /// The median of a turn.
    pub p50: Figure,
    /// What one in a hundred of a turn exceeds.
    pub p99: Figure,
}

/// A generator of numbers (SplitMix64): the same rows for every subject.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.chunks_mut(8).for_each(|part| {
            let word = self.next().to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        });
    }
}

/// Measures 1-row updates of all subjects.
///
/// # Errors
/// [`ClientError`].
pub fn measure(
    sqlite: &Sqlite,
    plan: &Plan,
    subjects: &[Subject],
) -> Result<Vec<Row>, ClientError> {
    let files: Vec<PathBuf> = (0..subjects.len())
        .map(|number| plan.directory.join(format!("outlast-{}-{number}.db", std::process::id())))
        .collect();
    let _removed = Removed(&files);
    let mut clients = Vec::new();
    for (subject, file) in subjects.iter().zip(&files) {
        clients.push(prepared(sqlite, plan, subject, file)?);
    }
    let mut turns = vec![(Vec::new(), Vec::new()); subjects.len()];
    // The first round only warms up.
    for round in 0..=plan.rounds {
        for (client, (p50, p99)) in clients.iter().zip(&mut turns) {
            let mut times = turn(client, plan, round as u64)?;
            times.sort_unstable();
            let at = |share: f64| times[(share * (times.len() - 1) as f64) as usize] as f64 / 1e3;
            if round > 0 {
                p50.push(at(0.5));
                p99.push(at(0.99));
            }
        }
    }
    let rows = subjects.iter().zip(turns).map(|(subject, (p50, p99))| Row {
        name: subject.name.clone(),
        p50: Figure::of(p50),
        p99: Figure::of(p99),
    });
    Ok(rows.collect())
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

fn prepared<'s>(
    sqlite: &'s Sqlite,
    plan: &Plan,
    subject: &Subject,
    file: &Path,
) -> Result<Client<'s>, ClientError> {
    let client = sqlite.open(&format!("file:{}{}", file.display(), subject.uri))?;
    client.run(subject.pragmas)?;
    client.run("create table t(id integer primary key, v blob); begin")?;
    let mut insert = client.prepare("insert into t values (?, ?)")?;
    let (mut numbers, mut value) = (Numbers(1), vec![0; plan.value_bytes]);
    for row in 0..plan.rows {
        numbers.fill(&mut value);
        insert.bind_int(1, row as i64)?;
        insert.bind_blob(2, &value)?;
        insert.run()?;
        if row % ROWS_LOADED_AT_ONCE == 0 {
            client.run("commit; begin")?;
        }
    }
    drop(insert);
    client.run("commit")?;
    Ok(client)
}

/// Nanoseconds of each transaction of a turn.
fn turn(client: &Client<'_>, plan: &Plan, round: u64) -> Result<Vec<u64>, ClientError> {
    let mut update = client.prepare("update t set v = ?2 where id = ?1")?;
    let (mut numbers, mut value) = (Numbers(round << 32), vec![0; plan.value_bytes]);
    let mut times = Vec::with_capacity(plan.turn);
    for _ in 0..plan.turn {
        numbers.fill(&mut value);
        update.bind_int(1, (numbers.next() % plan.rows) as i64)?;
        update.bind_blob(2, &value)?;
        let start = Instant::now();
        update.run()?;
        times.push(start.elapsed().as_nanos() as u64);
    }
    Ok(times)
}
