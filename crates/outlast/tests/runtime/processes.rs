//! Readers in other processes than the writer's, and processes that write in turn.
//!
//! The writer is the child of [`killed`](super::killed): threads that count, and put values of all sizes into a map and take
//! them out again. Each snapshot of a reader is judged: every acknowledged transaction is there, the total is the
//! sum of all counts, every value is the right one, and the allocator agrees with what the root reaches.
//!
//! `OUTLAST_PROCESS_ROUNDS` and `OUTLAST_PROCESS_SEED` choose how many processes are killed, and when.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlast::collections::{ByteMap, Dictionary};
use outlast::error::{MapError, ReadError};
use outlast::medium::OpenOptions;
use outlast::{Abort, Pool, PoolError, PoolReader, Runner, Scheme, Transact};
use outlast_trace::mix;

use super::killed::{
    CHILD_POOL, CHILD_SCHEME, KEPT, THREADS, count_key, create, judge, map_options, number,
    open_options, value_key, value_of,
};
use super::own_program::own_program;

const CHILD_ROLE: &str = "OUTLAST_PROCESSES_CHILD";

/// Reports of a writer.
#[derive(Default)]
struct Reports {
    counts: [AtomicU64; THREADS as usize],
    seen: AtomicU64,
}

fn child(test: &str, path: &Path, variables: &[(&str, &str)]) -> Child {
    own_program()
        .args(["--exact", test, "--nocapture"])
        .env(CHILD_POOL, path)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A writer, which is killed when it is dropped.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A writer, and what it reports.
fn writer(path: &Path, scheme: Scheme) -> (Writer, ChildStderr) {
    let test = "killed::child_that_works_until_it_is_killed";
    let mut child = child(test, path, &[(CHILD_SCHEME, scheme.name())]);
    let reports = child.stderr.take().expect("piped");
    (Writer(child), reports)
}

/// Follows a writer's reports until it ends.
fn follow(lines: ChildStderr, reports: &Reports) {
    let mut lines = BufReader::new(lines);
    let mut line = String::new();
    while lines.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
        let mut words = line.split_whitespace();
        if let (Some("count"), Some(thread), Some(count)) =
            (words.next(), words.next(), words.next())
        {
            let thread: usize = thread.parse().unwrap();
            reports.counts[thread].store(count.parse().unwrap(), Ordering::SeqCst);
            reports.seen.fetch_add(1, Ordering::SeqCst);
        }
        line.clear();
    }
}

/// Judges one snapshot against what was reported before it; returns the total.
fn judge_snapshot(reader: &mut PoolReader, reports: &Reports) -> Result<u64, ReadError> {
    let before: Vec<u64> =
        reports.counts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    reader.run(|tx| {
        let (root, _) = tx.root()?.expect("the parent made a root");
        let map = ByteMap::open(tx, root)?;
        let mut sum = 0;
        for (thread, before) in (0..).zip(&before) {
            let count = number(map, tx, &count_key(thread))?;
            assert!(
                count >= *before,
                "thread {thread}: {before} was acknowledged, {count} is there"
            );
            for kept in (0..KEPT.min(count)).map(|back| count - back) {
                let mut value = Vec::new();
                map.get(tx, &value_key(thread, kept), &mut value)?;
                assert!(
                    value == value_of(thread, kept),
                    "thread {thread}: value {kept} of {count}"
                );
            }
            sum += count;
        }
        assert_eq!(number(map, tx, b"total")?, sum);
        Ok(sum)
    })
}

/// How far each thread has counted.
fn counts(reader: &mut PoolReader) -> Result<[u64; THREADS as usize], ReadError> {
    reader.run(|tx| {
        let (root, _) = tx.root()?.expect("the parent made a root");
        let map = ByteMap::open(tx, root)?;
        let mut counts = [0; THREADS as usize];
        for (thread, count) in (0..).zip(&mut counts) {
            *count = number(map, tx, &count_key(thread))?;
        }
        Ok(counts)
    })
}

fn check(reader: &mut PoolReader) {
    let report = reader.on_snapshot(|pool| Ok(pool.check())).unwrap();
    assert_eq!(report.findings, []);
    assert!(report.reachable.is_some());
}

/// A pool, its directory, and a number from the environment.
fn new_pool() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = dir.path().join("shared.pool");
    create(&path);
    (dir, path)
}

fn of_environment(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |value| value.parse().expect(name))
}

fn read_beside(scheme: Scheme) {
    let (_dir, path) = new_pool();
    let (reports, is_over) = (Reports::default(), AtomicBool::new(false));
    let different = [const { AtomicU64::new(0) }; 2];
    std::thread::scope(|scope| {
        let (writer, lines) = writer(&path, scheme);
        let follower = scope.spawn(|| follow(lines, &reports));
        while reports.seen.load(Ordering::SeqCst) < 10 {
            assert!(!follower.is_finished(), "the writer has ended");
            std::thread::yield_now();
        }
        let two = different.each_ref().map(|different| {
            let (path, reports, is_over) = (&path, &reports, &is_over);
            scope.spawn(move || {
                let mut reader = Pool::read(path).unwrap();
                assert!(reader.is_beside_writer());
                let (mut snapshots, mut last) = (0, 0);
                while !is_over.load(Ordering::SeqCst) {
                    let total = judge_snapshot(&mut reader, reports).unwrap();
                    assert!(total >= last, "a later snapshot is not an older one");
                    different.fetch_add(u64::from(total > last), Ordering::SeqCst);
                    (last, snapshots) = (total, snapshots + 1);
                    if snapshots % 16 == 0 {
                        check(&mut reader);
                    }
                }
            })
        });
        let is_enough = || {
            reports.seen.load(Ordering::SeqCst) > 4000
                && different.iter().all(|count| count.load(Ordering::SeqCst) > 20)
        };
        let until = Instant::now() + Duration::from_secs(30);
        while !is_enough()
            && Instant::now() < until
            && !two.iter().any(|reader| reader.is_finished())
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        is_over.store(true, Ordering::SeqCst);
        for reader in two {
            reader.join().unwrap();
        }
        assert!(is_enough(), "{different:?} different snapshots");
        drop(writer);
        follower.join().unwrap();
    });
}

#[test]
fn readers_beside_swift_see_whole_transactions() {
    read_beside(Scheme::Swift);
}

#[test]
fn readers_beside_redo_see_whole_transactions() {
    read_beside(Scheme::Redo);
}

#[test]
fn a_scheme_that_stores_in_place_lets_nobody_read() {
    let (_dir, path) = new_pool();
    let pool = Pool::open_with(&path, &open_options(Scheme::Undo), &map_options()).unwrap();
    let refused = Pool::read(&path).err().unwrap();
    assert!(refused.to_string().contains("stores in place before it commits"), "{refused}");
    pool.close();
    let mut reader = Pool::read(&path).unwrap();
    assert!(!reader.is_beside_writer());
    assert_eq!(judge_snapshot(&mut reader, &Reports::default()).unwrap(), 0);
}

/// A reader follows the pool from one writer to the next, and is there while there is none.
#[test]
fn a_reader_outlives_writers() {
    let (_dir, path) = new_pool();
    let mut reader = PoolReader::open(&path, &map_options()).unwrap();
    let mut total = 0;
    for _ in 0..3 {
        let pool = Pool::open_with(&path, &open_options(Scheme::Swift), &map_options()).unwrap();
        let (root, _) = pool.root().unwrap().unwrap();
        for _ in 0..50 {
            let mut lane = pool.lane().unwrap();
            lane.run(|tx| super::killed::step(ByteMap::open(tx, root)?, tx, 0)).unwrap();
            total += 1;
            assert_eq!(judge_snapshot(&mut reader, &Reports::default()).unwrap(), total);
            assert!(reader.is_beside_writer());
        }
        drop(pool);
        // It looks for its writer every millisecond.
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(judge_snapshot(&mut reader, &Reports::default()).unwrap(), total);
        assert!(!reader.is_beside_writer());
    }
    check(&mut reader);
}

/// What lies in a part of the pool that it has grown by since the reader has mapped it is read.
#[test]
fn a_reader_sees_what_has_grown() {
    let (_dir, path) = new_pool();
    let pool = Pool::open_with(&path, &open_options(Scheme::Swift), &map_options()).unwrap();
    let (root, _) = pool.root().unwrap().unwrap();
    let mut reader = PoolReader::open(&path, &map_options()).unwrap();
    let before = reader.stats().unwrap().pool_bytes;
    let key = |number: u32| format!("grown {number}").into_bytes();
    for number in 0..80 {
        let value = vec![number as u8; 50_000];
        pool.run(|tx| ByteMap::open(tx, root)?.insert(tx, &key(number), &value).map(drop)).unwrap();
        let seen = reader.run(|tx| {
            let mut seen = Vec::new();
            ByteMap::open(tx, root)?.get(tx, &key(number), &mut seen)?;
            Ok(seen)
        });
        assert!(seen.unwrap() == value, "value {number}");
    }
    check(&mut reader);
    let after = reader.stats().unwrap().pool_bytes;
    assert!(after > 2 * before, "{before} bytes, then {after}");
}

/// A reader reads the file that has the name, also where another one has got it meanwhile.
#[test]
fn a_reader_follows_the_name() {
    let (dir, path) = new_pool();
    let (_other_dir, other) = new_pool();
    let count = |path: &Path, scheme| {
        let pool = Pool::open_with(path, &open_options(scheme), &map_options()).unwrap();
        let (root, _) = pool.root().unwrap().unwrap();
        pool.run(|tx| super::killed::step(ByteMap::open(tx, root)?, tx, 0)).unwrap();
        pool
    };
    let mut reader = PoolReader::open(&path, &map_options()).unwrap();
    for total in [1, 2] {
        // Once without a writer, and once beside one.
        let _old = (total == 2).then(|| count(&path, Scheme::Swift));
        judge_snapshot(&mut reader, &Reports::default()).unwrap();
        let copy = dir.path().join("copy");
        drop(count(&other, Scheme::Swift).close());
        std::fs::copy(&other, &copy).unwrap();
        std::fs::rename(&copy, &path).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(judge_snapshot(&mut reader, &Reports::default()).unwrap(), total);
    }
}

/// Reads until it is killed. Only runs as a child.
#[test]
fn child_that_reads_until_it_is_killed() {
    if std::env::var_os(CHILD_ROLE).is_none() {
        return;
    }
    let path = std::env::var_os(CHILD_POOL).unwrap();
    loop {
        let read = PoolReader::open(&path, &map_options()).map_err(ReadError::from).and_then(
            |mut reader| {
                for _ in 0..200 {
                    judge_snapshot(&mut reader, &Reports::default())?;
                    std::io::stdout().write_all(b".").unwrap();
                }
                Ok(())
            },
        );
        match read {
            Ok(()) | Err(ReadError::Pool(PoolError::NoSnapshot { .. } | PoolError::Map(_))) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Writers and readers are killed at random moments; a new one takes over. Nothing is lost, and none waits for
/// a dead one.
#[test]
fn killed_processes_leave_nothing_behind() {
    let (rounds, seed) =
        (of_environment("OUTLAST_PROCESS_ROUNDS", 12), of_environment("OUTLAST_PROCESS_SEED", 1));
    let (_dir, path) = new_pool();
    let reader = || {
        child("processes::child_that_reads_until_it_is_killed", &path, &[(CHILD_ROLE, "reader")])
    };
    let mut readers = [reader(), reader()];
    let mut here = PoolReader::open(&path, &map_options()).unwrap();
    let mut acknowledged = [0; THREADS as usize];
    for round in 0..rounds {
        println!("round {round}: OUTLAST_PROCESS_SEED={seed}");
        let random = mix(seed << 32 | round);
        let scheme = [Scheme::Swift, Scheme::Redo][round as usize % 2];
        let reports = Reports::default();
        for (count, before) in reports.counts.iter().zip(&acknowledged) {
            count.store(*before, Ordering::SeqCst);
        }
        std::thread::scope(|scope| {
            let (writer, lines) = writer(&path, scheme);
            let follower = scope.spawn(|| follow(lines, &reports));
            let patience = 1 + random % 1500;
            while reports.seen.load(Ordering::SeqCst) < patience {
                assert!(!follower.is_finished(), "the writer has ended by itself");
                // A writer that has just begun is waited for.
                judge_snapshot(&mut here, &reports).unwrap();
            }
            if random >> 20 & 1 == 1 {
                let one = &mut readers[(random >> 21 & 1) as usize];
                one.kill().unwrap();
                one.wait().unwrap();
                *one = reader();
                judge_snapshot(&mut here, &reports).unwrap();
            }
            drop(writer);
            follower.join().unwrap();
        });
        judge_snapshot(&mut here, &reports).unwrap();
        // Each kill may leave one that was not reported.
        acknowledged = counts(&mut here).unwrap();
        if round % 4 == 3 {
            judge(&path, &mut acknowledged);
        }
    }
    for mut reader in readers {
        assert!(reader.try_wait().unwrap().is_none(), "{}", text_of(&mut reader));
        reader.kill().unwrap();
        let mut read = Vec::new();
        reader.stdout.take().unwrap().read_to_end(&mut read).unwrap();
        reader.wait().unwrap();
    }
    drop(here);
    judge(&path, &mut acknowledged);
    // The next one who writes removes what dead ones have left.
    Pool::open_with(&path, &open_options(Scheme::Swift), &map_options()).unwrap().close();
    assert_eq!(side_files(&path), [""; 0], "nothing is left in shared memory");
}

fn text_of(child: &mut Child) -> String {
    let mut text = String::new();
    let _ = child.stderr.take().unwrap().read_to_string(&mut text);
    text
}

/// Names of what is in shared memory of a pool.
fn side_files(path: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).unwrap();
    let end = format!("-{:x}-{:x}", found.dev(), found.ino());
    let names = std::fs::read_dir("/dev/shm").unwrap().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("outlast-") && name.contains(&end)).collect()
}

/// A reader that was stopped keeps nothing for itself: the writer goes on, and the reader afterwards too.
#[test]
fn a_stopped_reader_stops_nobody() {
    let (_dir, path) = new_pool();
    let pool = Pool::open_with(&path, &open_options(Scheme::Swift), &map_options()).unwrap();
    let mut reader = PoolReader::open(&path, &map_options()).unwrap();
    let (root, _) = pool.root().unwrap().unwrap();
    let mut lane = pool.lane().unwrap();
    let mut runs = 0;
    let seen = reader.run(|tx| {
        runs += 1;
        let map = ByteMap::open(tx, root)?;
        let before = number(map, tx, b"total")?;
        if runs < 3 {
            // More lines than the ring has room for.
            for _ in 0..4000 {
                (0..THREADS).try_for_each(|thread| {
                    lane.run(|tx| super::killed::step(ByteMap::open(tx, root)?, tx, thread))
                        .map(drop)
                })?;
            }
        }
        let after = number(map, tx, b"total");
        if let Ok(after) = after {
            assert_eq!(after, before, "a snapshot does not change");
        }
        after
    });
    assert_eq!(runs, 3, "overtaken twice");
    assert_eq!(seen.unwrap(), 2 * 4000 * THREADS);
}

/// A held snapshot stays as it was while the writer goes on, tells when it was overtaken, and without a writer keeps one away.
#[test]
fn a_held_snapshot_is_of_one_moment() {
    let (_dir, path) = new_pool();
    let open = || Pool::open_with(&path, &open_options(Scheme::Swift), &map_options());
    let pool = open().unwrap();
    let (root, _) = pool.root().unwrap().unwrap();
    let mut reader = PoolReader::open(&path, &map_options()).unwrap();
    let step = |times| {
        let mut lane = pool.lane().unwrap();
        for _ in 0..times {
            lane.run(|tx| super::killed::step(ByteMap::open(tx, root)?, tx, 0)).unwrap();
        }
    };
    let total = |reader: &mut PoolReader| {
        reader.in_held(|tx| {
            let map = ByteMap::open(tx, root)?;
            number(map, tx, b"total")
        })
    };
    let is_refused = |read| matches!(read, Err(ReadError::Abort(Abort::Cancelled(_))));
    assert!(is_refused(total(&mut reader)), "none is held");
    reader.hold().unwrap();
    let before = total(&mut reader).unwrap();
    step(3);
    assert_eq!(total(&mut reader).unwrap(), before);
    assert!(reader.release());
    assert!(is_refused(total(&mut reader)), "it was released");
    reader.hold().unwrap();
    assert_eq!(total(&mut reader).unwrap(), before + 3);
    // More lines than the ring has room for.
    step(4000 * THREADS);
    let _ = total(&mut reader);
    assert!(!reader.release(), "overtaken");
    pool.close();

    reader.hold().unwrap();
    assert_eq!(total(&mut reader).unwrap(), before + 3 + 4000 * THREADS);
    assert!(open().is_err(), "the file is locked");
    assert!(reader.release());
    open().unwrap();
}

/// Adds one for each line of its standard input. Only runs as a child.
#[test]
fn child_that_takes_turns() {
    if std::env::var_os(CHILD_ROLE).is_none() {
        return;
    }
    let path = std::env::var_os(CHILD_POOL).unwrap();
    let mut turns = Pool::options().wait(Duration::from_secs(60)).turns(path);
    for _ in 0..300 {
        let step = |pool: &Pool| -> Result<u64, Abort> {
            let (root, _) = pool.root().unwrap().unwrap();
            pool.lane().unwrap().run(|tx| super::killed::step(ByteMap::open(tx, root)?, tx, 0))
        };
        turns.with(step).unwrap().unwrap();
        println!("turn");
    }
    turns.close().unwrap();
}

#[test]
fn processes_write_in_turn() {
    let (_dir, path) = new_pool();
    let mut children = [(); 3]
        .map(|()| child("processes::child_that_takes_turns", &path, &[(CHILD_ROLE, "turns")]));
    for child in &mut children {
        let status = child.wait().unwrap();
        assert!(status.success(), "{}", text_of(child));
    }
    let mut reader = Pool::read(&path).unwrap();
    assert_eq!(judge_snapshot(&mut reader, &Reports::default()).unwrap(), 900);
    let opened = Pool::open_with(&path, &OpenOptions::default(), &map_options()).unwrap();
    let wait = Duration::from_millis(30);
    let refused = Pool::options().wait(wait).open(&path).expect_err("it is open");
    assert!(matches!(refused, PoolError::Map(MapError::AlreadyOpen { .. })));
    std::thread::scope(|scope| {
        let waits = Pool::options().wait(Duration::from_secs(60));
        let next = scope.spawn(move || waits.open(&path).map(Pool::close));
        while !opened.is_wanted() {
            assert!(!next.is_finished(), "it waits until the pool is closed");
            std::thread::sleep(Duration::from_millis(1));
        }
        opened.close();
        next.join().unwrap().unwrap();
    });
}
