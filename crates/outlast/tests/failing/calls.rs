//! System calls that fail, each in turn, in a process that works on a pool in the domain `page`; and
//! processes that are killed before each call of a creation.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use outlast::medium::{CreateOptions, MapOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Abort, BlockKind, Domain, Pool, PoolOffset, RootKind, Runner, Scheme, Transact};

use crate::injector::{self, DURABLE, Ended, Fate, Fault, MAKING};
use crate::{sound_schemes, step};

const POOL: &str = "OUTLAST_FAILING_POOL";
const SCHEME: &str = "OUTLAST_FAILING_SCHEME";
const THREADS: &str = "OUTLAST_FAILING_THREADS";
const SHARED: &str = "OUTLAST_FAILING_SHARED";

const POOL_BYTES: u64 = 384 << 10;
const COUNTS: u64 = 6;
const CELLS: u64 = 2;
const CELL_BYTES: u64 = 4096;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const ENOSPC: i32 = 28;

/// What others may read shares memory, and makes calls for that which may fail unnoticed.
fn map() -> MapOptions {
    let alone = std::env::var_os(SHARED).is_none();
    MapOptions { domain: Some(Domain::Page), max_len: 64 << 20, alone, ..MapOptions::default() }
}

fn open(scheme: Scheme) -> OpenOptions {
    let with_scheme = OpenOptions::with_scheme(scheme);
    OpenOptions { lock_stripes: 1024, grow_limit_bytes: 8 << 20, ..with_scheme }
}

fn create(path: &Path, scheme: Scheme) -> Result<Pool, outlast::PoolError> {
    let (lanes, lane_bytes) = (4, 4096);
    let chunk_bytes = Some(16 << 10);
    let fence_log_bytes = Some(32 << 10);
    let create = CreateOptions {
        lanes,
        lane_bytes,
        chunk_bytes,
        fence_log_bytes,
        ..CreateOptions::default()
    };
    Pool::create_with(path, POOL_BYTES, &create, &open(scheme), &map())
}

fn cell(block: PoolOffset, thread: u64, index: u64) -> PoolOffset {
    block.plus((thread * CELLS + index) * CELL_BYTES)
}

/// Tells the parent, a line with one write.
fn tell(line: &str) {
    static LINES: Mutex<()> = Mutex::new(());
    let _one_at_a_time = LINES.lock();
    println!("{line}");
}

/// A step that was refused. When the medium has failed, so is every later transaction.
fn refused(pool: &Pool, step: &str, error: &dyn std::fmt::Display) {
    tell(&format!("refused {step}: {error}"));
    if let Some(failure) = pool.failure() {
        if let Ok(mut lane) = pool.lane() {
            let again = lane.run(|tx| tx.root()).unwrap_err();
            assert_eq!(again.to_string(), failure.to_string());
        }
        assert_eq!(pool.sync().unwrap_err().to_string(), failure.to_string());
    }
}

fn count(pool: &Pool, block: PoolOffset, thread: u64) {
    let mut lane = match pool.lane() {
        Ok(lane) => lane,
        Err(error) => return refused(pool, "lane", &error),
    };
    for value in 1..=COUNTS {
        tell(&format!("tried {thread} {value}"));
        let store = |tx: &mut outlast::Tx<'_, _>| {
            (0..CELLS).try_for_each(|index| tx.store_u64(cell(block, thread, index), value))
        };
        let done = match value % 3 {
            0 => lane.run_later(store).and_then(|()| lane.sync()),
            _ => lane.run(store),
        };
        match done {
            Ok(()) => tell(&format!("acked {thread} {value}")),
            Err(abort) => {
                assert!(matches!(abort, Abort::Medium(_)), "{abort}");
                return refused(pool, "commit", &abort);
            }
        }
    }
}

fn work(path: &Path, scheme: Scheme, threads: u64) {
    let pool = match create(path, scheme) {
        Ok(pool) => pool,
        Err(error) => return tell(&format!("refused create: {error}")),
    };
    let cells = pool.lane().map(|mut lane| {
        let made = lane.run(|tx| {
            let block = tx.alloc(threads * CELLS * CELL_BYTES, BlockKind::General)?;
            for thread in 0..threads {
                (0..CELLS).try_for_each(|index| tx.store_u64(cell(block, thread, index), 0))?;
            }
            tx.set_root(block, RootKind::Opaque)?;
            Ok(block)
        });
        made.map_err(|abort| refused(&pool, "cells", &abort)).ok()
    });
    match cells {
        Ok(Some(block)) => std::thread::scope(|scope| {
            for thread in 0..threads {
                let pool = &pool;
                scope.spawn(move || count(pool, block, thread));
            }
        }),
        Ok(None) => {}
        Err(error) => refused(&pool, "lane", &error),
    }
    // Growth when it is asked for, and by itself.
    if let Err(error) = pool.grow(POOL_BYTES + (64 << 10)) {
        refused(&pool, "grow", &error);
    }
    let grown = pool.lane().map(|mut lane| {
        let taken = lane
            .run(|tx| (0..40).try_for_each(|_| tx.alloc(12 << 10, BlockKind::General).map(|_| ())));
        taken.map_err(|abort| refused(&pool, "alloc", &abort))
    });
    if let Err(error) = grown {
        refused(&pool, "lane", &error);
    }
    for _ in 0..2 {
        if let Err(error) = pool.checkpoint(outlast::checkpoint::checkpoint_path(path)) {
            refused(&pool, "checkpoint", &error);
        }
    }
    let has_failed = pool.failure().is_some();
    if let Err(error) = pool.try_close() {
        tell(&format!("refused close: {error}"));
    } else {
        assert!(!has_failed, "it has failed before");
    }
    match Pool::open_with(path, &open(scheme), &map()) {
        Err(error) => tell(&format!("refused open: {error}")),
        Ok(pool) => drop(pool),
    }
}

/// Only as the child of the tests below.
#[test]
fn child_that_works_on_a_pool() {
    let Some(path) = std::env::var_os(POOL) else { return };
    let variable = |name| std::env::var(name).unwrap();
    let threads: u64 = variable(THREADS).parse().unwrap();
    let (path, scheme) = (Path::new(&path), variable(SCHEME).parse().unwrap());
    match threads {
        0 => drop(create(path, scheme).unwrap()),
        _ => work(path, scheme, threads),
    }
}

fn child(path: &Path, scheme: Scheme, threads: u64) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "calls::child_that_works_on_a_pool", "--nocapture"]);
    child.env(POOL, path).env(SCHEME, scheme.name()).env(THREADS, threads.to_string());
    child
}

/// Runs one child. `None` where it cannot be traced.
fn run(
    scheme: Scheme,
    threads: u64,
    is_shared: bool,
    fault: Fault<'_>,
    context: &str,
) -> Option<Ended> {
    let (directory, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = directory.path().join("pool");
    let mut child = child(&path, scheme, threads);
    if is_shared {
        child.env(SHARED, "1");
    }
    let ended = injector::run(&mut child, fault, scratch.path())?;
    assert_eq!(ended.code, Some(0), "{context}: {ended:?}");
    assert!(!ended.stderr.contains("panicked"), "{context}: {ended:?}");
    let refusals: Vec<_> =
        ended.stdout.lines().filter(|line| line.starts_with("refused")).collect();
    if is_shared && refusals.is_empty() {
        // It was a call for shared memory, without which the pool does.
    } else if ended.was_hit {
        let Fate::Fails(error) = fault.fate else { unreachable!("nothing is killed here") };
        let first = refusals.first().unwrap_or_else(|| panic!("{context}: not told: {ended:?}"));
        let is_told = first.contains(&format!("(os error {error})"))
            && first.contains(&directory.path().display().to_string());
        let is_full =
            error == ENOSPC && (first.contains("do not fit") || first.contains("no space"));
        assert!(is_told || is_full, "{context}: {first}");
    } else {
        assert!(refusals.is_empty(), "{context}: {refusals:?}");
    }
    let names: Vec<_> = std::fs::read_dir(directory.path()).unwrap().flatten().collect();
    let checkpoint = outlast::checkpoint::checkpoint_path(&path);
    let is_known = |name: &std::fs::DirEntry| name.path() == path || name.path() == checkpoint;
    assert!(names.iter().all(is_known), "{context}: {names:?}");
    if refusals.first().is_some_and(|line| line.starts_with("refused create")) {
        assert!(!path.exists(), "{context}");
        drop(create(&path, scheme).unwrap_or_else(|error| panic!("{context}: {error}")));
    } else {
        judge(&path, scheme, threads, &ended, context);
    }
    Some(ended)
}

/// What was acknowledged is there.
fn judge(path: &Path, scheme: Scheme, threads: u64, ended: &Ended, context: &str) {
    let recovered = UnrecoveredPool::open_file(path, &map()).and_then(UnrecoveredPool::recover);
    let recovered = recovered.unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(recovered.check().findings.len(), 0, "{context}");
    let pool = recovered.start(&open(scheme)).unwrap();
    let Some((block, _)) = pool.root().unwrap() else {
        assert!(!ended.stdout.contains("acked"), "{context}: {ended:?}");
        return;
    };
    let mut lane = pool.lane().unwrap();
    let mut told: HashMap<(&str, u64), u64> = HashMap::new();
    for line in ended.stdout.lines() {
        if let [what @ ("acked" | "tried"), thread, value] = line.split(' ').collect::<Vec<_>>()[..]
        {
            told.insert((what, thread.parse().unwrap()), value.parse().unwrap());
        }
    }
    for thread in 0..threads {
        let cells = lane.run(|tx| {
            let cells = (0..CELLS).map(|index| tx.load_u64(cell(block, thread, index)));
            cells.collect::<Result<Vec<_>, _>>()
        });
        let cells = cells.unwrap();
        let told = |what| told.get(&(what, thread)).copied().unwrap_or(0);
        let is_kept = (told("acked")..=told("tried")).contains(&cells[0]);
        let is_whole = cells.iter().all(|value| *value == cells[0]);
        assert!(is_whole && (is_kept || scheme == Scheme::None), "{context}: {cells:?}, {ended:?}");
    }
}

/// Fails calls of each kind, one a run, `step` apart.
fn fail_each(scheme: Scheme, threads: u64, is_shared: bool, first: u64, step: u64) {
    let errors = [EIO, ENOSPC, EAGAIN];
    let mut runs = 0;
    for (name, kind) in DURABLE {
        let mut number = first;
        loop {
            let error = errors[(number + kind + first) as usize % errors.len()];
            let context = format!("{scheme}, {threads} threads, {name} {number}, error {error}");
            let fault = Fault { kinds: &[*kind], number, fate: Fate::Fails(error) };
            let Some(ended) = run(scheme, threads, is_shared, fault, &context) else {
                return println!("this process may not trace another: skipped");
            };
            runs += 1;
            if !ended.was_hit {
                break;
            }
            number += step;
        }
    }
    println!("{scheme}: {runs} runs");
}

#[test]
fn each_system_call_that_fails_is_an_error_under_every_scheme() {
    for (first, scheme) in (0..).zip(sound_schemes()) {
        let step = step(7);
        fail_each(scheme, 1, false, first % step, step);
    }
}

#[test]
fn each_system_call_that_fails_is_an_error_to_every_thread() {
    for (first, scheme) in (0..).zip(sound_schemes()) {
        let step = step(19);
        fail_each(scheme, 3, false, first % step, step);
    }
}

/// Where others may read, too.
#[test]
fn each_system_call_that_fails_leaves_a_pool_that_others_may_read_whole() {
    fail_each(Scheme::Swift, 3, true, 0, step(3));
}

#[test]
fn a_creation_that_is_killed_leaves_the_name_free_or_a_pool() {
    let scheme = Scheme::default();
    for number in 0.. {
        let (directory, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = directory.path().join("pool");
        let fault = Fault { kinds: MAKING, number, fate: Fate::Kills };
        let ended = injector::run(&mut child(&path, scheme, 0), fault, scratch.path());
        let Some(ended) = ended else {
            return println!("this process may not trace another: skipped");
        };
        if path.exists() {
            Pool::open_with(&path, &open(scheme), &map()).unwrap().close();
        } else {
            create(&path, scheme).unwrap_or_else(|error| panic!("call {number}: {error}")).close();
        }
        let left = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 1, "call {number}: something is left beside the pool");
        if !ended.was_hit {
            assert!(number > 20, "a creation makes more than {number} calls");
            return;
        }
    }
}
