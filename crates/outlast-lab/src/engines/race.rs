//! Equal work for each engine, round by round.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use outlast_measure::Rounds;
use outlast_peers::engines::{Engine, EngineError, Pair, Session};
use outlast_trace::mix;

use super::EnginesSetup;
use super::data::DataSet;
use crate::stats::Latencies;

/// Rows of a transaction that loads.
const LOADED_AT_ONCE: u64 = 1000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    /// Replaces values of keys that are there.
    Update,
    /// Adds keys.
    Put,
    Get,
    Scan,
}

/// What an engine does in a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub name: &'static str,
    operation: Operation,
    /// Rows of a transaction.
    rows: usize,
    /// Transactions of a turn, all threads together.
    transactions: u64,
    pub threads: u32,
}

impl Work {
    fn new(name: &'static str, operation: Operation, rows: usize, transactions: u64) -> Self {
        Self { name, operation, rows, transactions: transactions.max(1), threads: 1 }
    }

    pub fn update(name: &'static str, transactions: u64) -> Self {
        Self::new(name, Operation::Update, 1, transactions)
    }

    pub fn put(name: &'static str, rows: usize, transactions: u64) -> Self {
        Self::new(name, Operation::Put, rows, transactions)
    }

    pub fn get(name: &'static str, rows: usize, transactions: u64) -> Self {
        Self::new(name, Operation::Get, rows, transactions)
    }

    pub fn scan(name: &'static str, rows: usize, transactions: u64) -> Self {
        Self::new(name, Operation::Scan, rows, transactions)
    }

    /// The same by several threads.
    pub fn by(self, threads: u32) -> Self {
        Self { threads, ..self }
    }

    /// Whether it waits for the device.
    pub fn writes(&self) -> bool {
        matches!(self.operation, Operation::Update | Operation::Put)
    }
}

/// An engine's turns.
#[derive(Default)]
pub(super) struct Timed {
    /// Transactions per second, round by round; empty where it does not take part.
    pub rates: Vec<f64>,
    pub latencies: Latencies,
    /// Per transaction.
    pub syncs: Option<f64>,
}

/// Loads the data set into each engine.
pub(super) fn load(
    set: &DataSet,
    setup: &EnginesSetup,
    engines: &[Box<dyn Engine>],
) -> Result<(), EngineError> {
    for engine in engines.iter().filter(|engine| engine.reads()) {
        let mut session = engine.session()?;
        for first in (0..setup.keys).step_by(LOADED_AT_ONCE as usize) {
            put(&mut *session, set, first..(first + LOADED_AT_ONCE).min(setup.keys), 0)?;
        }
    }
    Ok(())
}

fn put(
    session: &mut dyn Session,
    set: &DataSet,
    keys: impl Iterator<Item = u64>,
    version: u64,
) -> Result<(), EngineError> {
    let rows: Vec<_> = keys.map(|n| (set.key(n), set.value(n, version))).collect();
    let rows: Vec<Pair<'_>> = rows.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    session.put(&rows)
}

/// Runs the rounds.
pub(super) fn race(
    set: &DataSet,
    work: &Work,
    setup: &EnginesSetup,
    engines: &[Box<dyn Engine>],
    advance: &mut dyn FnMut(u64, u64),
) -> Result<Vec<Timed>, EngineError> {
    let mut timed: Vec<Timed> = engines.iter().map(|_| Timed::default()).collect();
    let takes_part = |index: &usize| engines[*index].reads() || work.writes();
    let indexes: Vec<usize> = (0..engines.len()).filter(takes_part).collect();
    let rounds = Rounds { count: setup.rounds, warm_up: 1, seed: setup.seed };
    let total = u64::from(setup.rounds + 1) * indexes.len() as u64;
    let mut done = 0;
    let turns = rounds.run(indexes.len(), |subject, round| {
        let engine = &*engines[indexes[subject]];
        let before = engine.syncs();
        let (seconds, latencies) = turn(set, work, setup, engine, round.into())?;
        let syncs = engine.syncs().zip(before).map(|(now, before)| now - before);
        done += 1;
        advance(done, total);
        Ok::<_, EngineError>((seconds, latencies, syncs))
    })?;
    let transactions = (work.transactions * u64::from(setup.rounds)) as f64;
    for (index, turns) in indexes.into_iter().zip(turns) {
        let timed = &mut timed[index];
        let syncs: Option<u64> = turns.iter().map(|(.., syncs)| *syncs).sum();
        timed.syncs = syncs.map(|syncs| syncs as f64 / transactions);
        for (seconds, latencies, _) in turns {
            timed.rates.push(work.transactions as f64 / seconds);
            timed.latencies.merge(&latencies);
        }
    }
    Ok(timed)
}

/// One engine's turn: how long it took, and each of its transactions.
fn turn(
    set: &DataSet,
    work: &Work,
    setup: &EnginesSetup,
    engine: &dyn Engine,
    round: u64,
) -> Result<(f64, Latencies), EngineError> {
    let threads = u64::from(work.threads);
    let ready = Barrier::new(work.threads as usize + 1);
    let run = |thread: u64| {
        let session = engine.session();
        ready.wait();
        let mut session = session?;
        let mut latencies = Latencies::default();
        // Thread by thread, so that the sum is exact.
        let own =
            (work.transactions * (thread + 1) / threads) - work.transactions * thread / threads;
        for n in 0..own {
            let number = (round * threads + thread) * work.transactions + n;
            let rows = rows(work, setup, number);
            let keys: Vec<_> = rows.clone().map(|row| set.key(row)).collect();
            let values: Vec<_> = match work.writes() {
                true => rows.map(|row| set.value(row, number)).collect(),
                false => Vec::new(),
            };
            let start = Instant::now();
            match work.operation {
                Operation::Update | Operation::Put => {
                    let rows = keys.iter().zip(&values).map(|(key, value)| (&key[..], &value[..]));
                    session.put(&rows.collect::<Vec<Pair<'_>>>())?;
                }
                Operation::Get => {
                    session.get(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
                }
                Operation::Scan => {
                    session.scan(&keys[0], work.rows)?;
                }
            }
            latencies.add(start.elapsed());
        }
        Ok(latencies)
    };
    let run = &run;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        ready.wait();
        let start = Instant::now();
        let mut all = Latencies::default();
        let mut result = Ok(());
        for worker in workers {
            match worker.join().expect("a worker reports its errors") {
                Ok(latencies) => all.merge(&latencies),
                Err(error) => result = Err(error),
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        result.map(|()| (seconds, all))
    })
}

/// The numbers of a transaction's keys.
fn rows(
    work: &Work,
    setup: &EnginesSetup,
    number: u64,
) -> impl Iterator<Item = u64> + Clone + use<> {
    let (rows, keys, seed) = (work.rows as u64, setup.keys, setup.seed);
    // New keys of different works must not be the same.
    let fresh = (rows << 40) + keys + number * rows;
    let is_new = work.operation == Operation::Put;
    (0..rows).map(move |row| match is_new {
        true => fresh + row,
        false => mix(seed ^ (number * rows + row)) % keys,
    })
}
