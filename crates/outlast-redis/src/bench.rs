//! YCSB's mixes by commands of data, each operation a transaction, on pools of several schemes.
//!
//! The commands are those of YCSB's binding: a record is a hash of ten fields, and a sorted set of all keys serves scans.
//! They run in process, as a round of the server runs them, without sockets. Schemes take turns on pools
//! of their own: what disturbs the machine disturbs all.

use std::path::{Path, PathBuf};
use std::time::Instant;

use outlast::medium::{CreateOptions, MapOptions, Mapped, OpenOptions};
use outlast::{Abort, Domain, Lane, Pool, PoolError, Runner, Scheme};
use outlast_measure::{Rounds, Times};
use outlast_workloads::Random;
use outlast_workloads::tpcc_terminals::letters;
use outlast_workloads::zipf::{Latest, ScrambledZipfian, fnv_hash};

use crate::Engine;

/// One of YCSB's mixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Half reads, half updates.
    A,
    /// Reads, and one update in twenty.
    B,
    /// Reads only.
    C,
    /// Reads of the latest, and one insertion in twenty.
    D,
    /// Scans, and one insertion in twenty.
    E,
    /// Half reads, half updates of what was read.
    F,
}

impl Mix {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];
}

/// How much is measured, and where.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the pools are made; they are removed afterwards.
    pub directory: PathBuf,
    /// The pools' domain; `None` for the one that is detected.
    pub domain: Option<Domain>,
    /// Records at first.
    pub records: u64,
    /// Bytes of a record's ten fields together.
    pub record_bytes: usize,
    /// Operations of a turn.
    pub turn: usize,
    /// Turns of each scheme.
    pub rounds: usize,
    /// The seed of everything drawn.
    pub seed: u64,
}

/// A measurement that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A transaction.
    #[error(transparent)]
    Abort(#[from] Abort),
    /// A command was refused.
    #[error("a command was answered with {0}")]
    Refused(String),
}

/// Fields of a record.
const FIELDS: usize = 10;
/// The sorted set of all keys.
const INDEX: &[u8] = b"_indices";
/// Records that a scan reads, at most.
const SCAN_MAX: u64 = 100;
/// Records that one transaction loads.
const LOADED_AT_ONCE: u64 = 100;

/// One operation.
enum Operation {
    Read(u64),
    Update { record: u64, field: usize, value: Vec<u8>, reads: bool },
    Insert { record: u64, values: Vec<u8> },
    Scan { record: u64, count: u64 },
}

/// Draws the operations of a mix.
struct Draw {
    mix: Mix,
    random: Random,
    scattered: ScrambledZipfian,
    latest: Latest,
    /// Records inserted so far.
    records: u64,
    record_bytes: usize,
}

impl Draw {
    fn new(plan: &Plan, mix: Mix) -> Self {
        Self {
            mix,
            random: Random::new(plan.seed),
            scattered: ScrambledZipfian::new(plan.records),
            latest: Latest::new(plan.records),
            records: plan.records,
            record_bytes: plan.record_bytes,
        }
    }

    fn text(&mut self, bytes: usize) -> Vec<u8> {
        let mut text = vec![0; bytes];
        letters(&mut self.random, &mut text);
        text
    }

    fn insert(&mut self) -> Operation {
        let (record, values) = (self.records, self.text(self.record_bytes));
        self.records += 1;
        Operation::Insert { record, values }
    }

    fn next(&mut self) -> Operation {
        let share = self.random.below(100);
        let record = match self.mix {
            Mix::D => self.latest.draw(self.records, &mut self.random) - 1,
            _ => self.scattered.draw(&mut self.random),
        };
        let reads = match self.mix {
            Mix::A | Mix::F => share < 50,
            Mix::B | Mix::D | Mix::E => share < 95,
            Mix::C => true,
        };
        match (self.mix, reads) {
            (Mix::E, true) => Operation::Scan { record, count: 1 + self.random.below(SCAN_MAX) },
            (_, true) => Operation::Read(record),
            (Mix::D | Mix::E, false) => self.insert(),
            (mix, false) => {
                let field = self.random.below(FIELDS as u64) as usize;
                let value = self.text(self.record_bytes / FIELDS);
                Operation::Update { record, field, value, reads: mix == Mix::F }
            }
        }
    }
}

fn key(record: u64) -> Vec<u8> {
    format!("user{:019}", fnv_hash(record)).into_bytes()
}

/// A place in the order of scans.
fn score(record: u64) -> Vec<u8> {
    (fnv_hash(record) >> 12).to_string().into_bytes()
}

fn field(number: usize) -> Vec<u8> {
    format!("field{number}").into_bytes()
}

/// The commands that an operation begins with.
fn commands(operation: &Operation) -> Vec<Vec<Vec<u8>>> {
    let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
    match operation {
        Operation::Read(record) => vec![words(&[b"HGETALL", &key(*record)])],
        Operation::Update { record, field: number, value, reads } => {
            let key = key(*record);
            let read = reads.then(|| words(&[b"HGETALL", &key]));
            let update = words(&[b"HSET", &key, &field(*number), value]);
            read.into_iter().chain([update]).collect()
        }
        Operation::Insert { record, values } => {
            let key = key(*record);
            let mut insert = words(&[b"HSET", &key]);
            for (number, value) in values.chunks(values.len() / FIELDS).take(FIELDS).enumerate() {
                insert.extend([field(number), value.to_vec()]);
            }
            vec![insert, words(&[b"ZADD", INDEX, &score(*record), &key])]
        }
        Operation::Scan { record, count } => {
            let count = count.to_string();
            let (from, count) = (score(*record), count.as_bytes());
            vec![words(&[b"ZRANGEBYSCORE", INDEX, &from, b"+inf", b"LIMIT", b"0", count])]
        }
    }
}

/// The words of an array of bulk strings.
fn items(answer: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut lines = answer.split(|byte| *byte == b'\n').skip(2).step_by(2);
    std::iter::from_fn(move || lines.next().map(|line| line.strip_suffix(b"\r").unwrap_or(line)))
}

/// A pool under a scheme, with the databases in it.
struct Subject<'p> {
    lane: Lane<'p, Mapped>,
    engine: Engine,
}

impl Subject<'_> {
    /// Runs operations in one transaction.
    fn run(&mut self, operations: &[Operation]) -> Result<(), BenchError> {
        let commands: Vec<Vec<Vec<Vec<u8>>>> = operations.iter().map(commands).collect();
        let engine = &mut self.engine;
        let refused = self.lane.run(|tx| {
            for (operation, commands) in operations.iter().zip(&commands) {
                for words in commands {
                    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    let answer = engine.run(tx, &words)?;
                    if answer.first() == Some(&b'-') {
                        return Ok(Some(answer));
                    }
                    if let Operation::Scan { .. } = operation {
                        for key in items(&answer) {
                            engine.run(tx, &[b"HGETALL", key])?;
                        }
                    }
                }
            }
            Ok(None)
        })?;
        match refused {
            Some(answer) => Err(BenchError::Refused(String::from_utf8_lossy(&answer).into_owned())),
            None => Ok(()),
        }
    }
}

/// Files that are removed in the end.
struct Removed(Vec<PathBuf>);

impl Drop for Removed {
    fn drop(&mut self) {
        for file in &self.0 {
            let _ = std::fs::remove_file(file);
        }
    }
}

fn create(path: &Path, plan: &Plan, scheme: Scheme) -> Result<Pool, PoolError> {
    let grow_limit_bytes = 16 << 30;
    let open = OpenOptions { grow_limit_bytes, ..OpenOptions::with_scheme(scheme) };
    let map =
        MapOptions { domain: plan.domain, max_len: grow_limit_bytes, ..MapOptions::default() };
    let bytes = (32 << 20) + plan.records * 2 * plan.record_bytes as u64;
    Pool::create_with(path, bytes, &CreateOptions::default(), &open, &map)
}

/// Measures a mix under schemes; returns the turns of each.
///
/// # Errors
/// [`BenchError`].
pub fn measure(plan: &Plan, mix: Mix, schemes: &[Scheme]) -> Result<Vec<Vec<Times>>, BenchError> {
    let name = |number: usize| format!("outlast-redis-{}-{number}.pool", std::process::id());
    let files = (0..schemes.len()).map(|number| plan.directory.join(name(number))).collect();
    let removed = Removed(files);
    let pools: Vec<Pool> = removed
        .0
        .iter()
        .zip(schemes)
        .map(|(file, scheme)| create(file, plan, *scheme))
        .collect::<Result<_, _>>()?;
    let mut subjects = Vec::new();
    for pool in &pools {
        let mut lane = pool.lane()?;
        let engine = lane.run(|tx| Engine::open_with(tx, (plan.seed, 1)))?;
        let mut subject = Subject { lane, engine };
        load(plan, &mut subject)?;
        subjects.push((subject, Draw::new(plan, mix)));
    }
    let rounds = Rounds { count: plan.rounds as u32, warm_up: 1, seed: plan.seed };
    rounds.run(subjects.len(), |number, _| {
        let (subject, draw) = &mut subjects[number];
        turn(plan, subject, draw)
    })
}

fn load(plan: &Plan, subject: &mut Subject<'_>) -> Result<(), BenchError> {
    let mut draw = Draw { records: 0, ..Draw::new(plan, Mix::C) };
    while draw.records < plan.records {
        let count = LOADED_AT_ONCE.min(plan.records - draw.records);
        let operations: Vec<Operation> = (0..count).map(|_| draw.insert()).collect();
        subject.run(&operations)?;
    }
    Ok(())
}

fn turn(plan: &Plan, subject: &mut Subject<'_>, draw: &mut Draw) -> Result<Times, BenchError> {
    let mut times = Vec::with_capacity(plan.turn);
    for _ in 0..plan.turn {
        let operation = [draw.next()];
        let start = Instant::now();
        subject.run(&operation)?;
        times.push(start.elapsed().as_nanos() as u64);
    }
    Ok(Times::of(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mix_runs_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let plan = Plan {
            directory: directory.path().to_owned(),
            domain: Some(Domain::Process),
            records: 150,
            record_bytes: 200,
            turn: 60,
            rounds: 2,
            seed: 1,
        };
        for mix in Mix::ALL {
            let turns = measure(&plan, mix, &[Scheme::Swift, Scheme::UndoArchapt]).unwrap();
            assert_eq!(turns.len(), 2);
            for turns in turns {
                assert!(turns.iter().all(|turn| turn.per_second() > 0.0) && turns.len() == 2);
            }
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_scan_reads_the_records_behind_its_key() {
        assert_eq!(items(b"*2\r\n$1\r\na\r\n$2\r\nbc\r\n").collect::<Vec<_>>(), [&b"a"[..], b"bc"]);
        assert_eq!(items(b"*0\r\n").count(), 0);
    }
}
