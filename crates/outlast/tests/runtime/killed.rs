//! Pools whose process is killed, again and again, in the middle of the work of several threads.
//!
//! A child process (this test binary, run once more) works on a mapped pool and reports each
//! acknowledged transaction through a pipe. The parent kills it at a moment chosen by a seed,
//! recovers the pool with the production code, and judges: every acknowledged transaction is
//! there, none is there in part, and the allocator agrees with what the root reaches. The next
//! round goes on with the same pool.
//!
//! What a killed process loses is what it had not stored; what a power failure may lose beyond
//! that is the business of the crash emulator.
//!
//! `OUTLAST_KILL_ROUNDS` and `OUTLAST_KILL_SEED` choose how often and when.
#![cfg(not(miri))]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use outlast::collections::{ByteMap, ByteMapOptions, Dictionary};
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Abort, Pool, RootKind, Runner, Scheme, Transact};
use outlast_pmem::{Domain, MapOptions};
use outlast_trace::mix;

use super::own_program::own_program;

pub(super) const CHILD_POOL: &str = "OUTLAST_KILLED_CHILD_POOL";
pub(super) const CHILD_SCHEME: &str = "OUTLAST_KILLED_CHILD_SCHEME";

pub(super) const THREADS: u64 = 3;
/// Values of each thread that are in the map at the same time.
pub(super) const KEPT: u64 = 8;

pub(super) fn map_options() -> MapOptions {
    let domain = if cfg!(target_arch = "x86_64") { Domain::Adr } else { Domain::Process };
    MapOptions { domain: Some(domain), max_len: 256 << 20, ..MapOptions::default() }
}

pub(super) fn open_options(scheme: Scheme) -> OpenOptions {
    OpenOptions { grow_limit_bytes: 64 << 20, ..OpenOptions::with_scheme(scheme) }
}

/// The value that the thread's transaction of that count stores: up to several log lanes long.
pub(super) fn value_of(thread: u64, count: u64) -> Vec<u8> {
    let random = mix(thread << 32 | count);
    let len = match random % 16 {
        0 => 20_000,
        1..4 => 3000,
        _ => 200,
    };
    vec![random as u8; (random >> 8) as usize % len + 1]
}

pub(super) fn value_key(thread: u64, count: u64) -> Vec<u8> {
    format!("value {thread} {count}").into_bytes()
}

pub(super) fn count_key(thread: u64) -> Vec<u8> {
    format!("count {thread}").into_bytes()
}

pub(super) fn number<T: Transact>(map: ByteMap, tx: &mut T, key: &[u8]) -> Result<u64, Abort> {
    let mut value = Vec::new();
    let found = map.get(tx, key, &mut value)?;
    Ok(if found { u64::from_le_bytes(value.try_into().expect("8 bytes")) } else { 0 })
}

/// One transaction: the thread's count and the total go up by one, a value comes and one goes.
pub(super) fn step<T: Transact>(map: ByteMap, tx: &mut T, thread: u64) -> Result<u64, Abort> {
    let count = number(map, tx, &count_key(thread))? + 1;
    let total = number(map, tx, b"total")? + 1;
    map.insert(tx, &count_key(thread), &count.to_le_bytes())?;
    map.insert(tx, &value_key(thread, count), &value_of(thread, count))?;
    if count > KEPT {
        map.remove(tx, &value_key(thread, count - KEPT))?;
    }
    map.insert(tx, b"total", &total.to_le_bytes())?;
    Ok(count)
}

/// Works until it is killed. Only runs as the child of the tests below.
#[test]
fn child_that_works_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD_POOL) else { return };
    let scheme = std::env::var(CHILD_SCHEME).unwrap().parse().unwrap();
    let pool = Pool::open_with(path, &open_options(scheme), &map_options()).unwrap();
    let (root, _) = pool.root().unwrap().expect("the parent made a root");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let pool = &pool;
            scope.spawn(move || {
                let mut lane = pool.lane().unwrap();
                loop {
                    let step = |tx: &mut _| step(ByteMap::open(tx, root)?, tx, thread);
                    let count = lane.run(step).unwrap();
                    // One short write, so that lines of several threads do not mix.
                    let line = format!("count {thread} {count}\n");
                    std::io::stderr().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

/// Lets a child work until it has reported `patience` transactions, and kills it. Raises
/// `acknowledged` to what each thread has reported.
fn kill_one(path: &Path, scheme: Scheme, patience: u64, acknowledged: &mut [u64]) {
    let mut child = own_program()
        .args(["--exact", "killed::child_that_works_until_it_is_killed", "--nocapture"])
        .env(CHILD_POOL, path)
        .env(CHILD_SCHEME, scheme.name())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reports = BufReader::new(child.stderr.take().expect("piped"));
    let mut other = String::new();
    let mut line = String::new();
    let mut seen = 0;
    // A line without an end was cut off by the kill: it reports nothing.
    while reports.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("count"), Some(thread), Some(count)) => {
                acknowledged[thread.parse::<usize>().unwrap()] = count.parse().unwrap();
                seen += 1;
                if seen == patience {
                    // It runs on while this loop reads, so this is no fixed point of its work.
                    child.kill().unwrap();
                }
            }
            _ => other.push_str(&line),
        }
        line.clear();
    }
    child.wait().unwrap();
    assert!(seen >= patience, "the child ended by itself after {seen} transactions: {other}");
}

/// Recovers the pool and judges it against what was acknowledged.
pub(super) fn judge(path: &Path, acknowledged: &mut [u64]) {
    let recovered = UnrecoveredPool::open_file(path, &map_options()).unwrap().recover().unwrap();
    let report = recovered.check();
    assert_eq!(report.findings, []);
    assert!(report.reachable.is_some());

    let pool = recovered.start(&open_options(Scheme::Undo)).unwrap();
    let (root, _) = pool.root().unwrap().expect("it had a root");
    let mut lane = pool.lane().unwrap();
    let map = lane.run(|tx| ByteMap::open(tx, root)).unwrap();
    let mut keys = 1;
    let mut total = 0;
    for (thread, acknowledged) in (0..).zip(acknowledged) {
        let count = lane.run(|tx| number(map, tx, &count_key(thread))).unwrap();
        assert!(count >= *acknowledged, "thread {thread}: {acknowledged} was acknowledged");
        assert!(count <= *acknowledged + 1, "thread {thread}: reported one by one");
        for kept in (0..KEPT.min(count)).map(|back| count - back) {
            let mut value = Vec::new();
            lane.run(|tx| map.get(tx, &value_key(thread, kept), &mut value)).unwrap();
            assert!(value == value_of(thread, kept), "thread {thread}: value {kept} of {count}");
        }
        keys += 1 + KEPT.min(count);
        total += count;
        *acknowledged = count;
    }
    assert_eq!(lane.run(|tx| number(map, tx, b"total")).unwrap(), total);
    assert_eq!(lane.run(|tx| map.len(tx)).unwrap(), keys, "nothing else is there");
}

/// A pool with a map in which all threads have counted to 0.
pub(super) fn create(path: &Path) {
    let create =
        CreateOptions { lanes: THREADS as u32, lane_bytes: 4096, ..CreateOptions::default() };
    let open = open_options(Scheme::Undo);
    let pool = Pool::create_with(path, 1 << 20, &create, &open, &map_options()).unwrap();
    pool.lane()
        .unwrap()
        .run(|tx| {
            let map = ByteMap::create(tx, &ByteMapOptions::default())?;
            map.insert(tx, b"total", &0u64.to_le_bytes())?;
            for thread in 0..THREADS {
                map.insert(tx, &count_key(thread), &0u64.to_le_bytes())?;
            }
            tx.set_root(map.root(), RootKind::HashMap)
        })
        .unwrap();
}

fn killed_again_and_again(schemes: &[Scheme]) {
    let number = |name| std::env::var(name).map(|value| value.parse::<u64>().expect(name));
    let rounds = number("OUTLAST_KILL_ROUNDS").unwrap_or(12);
    let seed = number("OUTLAST_KILL_SEED").unwrap_or(1);
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = dir.path().join("killed.pool");
    create(&path);
    let mut acknowledged = [0; THREADS as usize];
    for (round, scheme) in (0..rounds).zip(schemes.iter().cycle()) {
        println!("round {round}: {scheme}, OUTLAST_KILL_SEED={seed}");
        let patience = 1 + mix(seed << 32 | round) % 2000;
        kill_one(&path, *scheme, patience, &mut acknowledged);
        judge(&path, &mut acknowledged);
    }
}

#[test]
fn undo_survives_its_process() {
    killed_again_and_again(&[Scheme::Undo]);
}

#[test]
fn redo_survives_its_process() {
    killed_again_and_again(&[Scheme::Redo]);
}

#[test]
fn schemes_that_take_turns_survive_their_process() {
    killed_again_and_again(&[Scheme::Redo, Scheme::Undo]);
}
