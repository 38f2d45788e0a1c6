//! libpmemobj behind `Transact` when its process is killed.
//!
//! A test binary of its own: a child process inherits every open pool, and its lock with it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use outlast::{BlockKind, ByteRange, PoolOffset, RootKind, Runner, Transact};
use outlast_peers::{Granularity, Pmdk, PmdkPool};

const CHILD: &str = "OUTLAST_PEERS_TEST_POOL";

/// Counts two words on different lines upwards, together, reporting each step, until killed.
/// Only runs as the child of the next test.
#[test]
fn child_that_counts_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let pmdk = Pmdk::load().expect("the parent loaded it");
    let mut pool = PmdkPool::open(pmdk, Path::new(&path), Granularity::Range).unwrap();
    let (block, _) = pool.run(|tx| tx.root()).unwrap().expect("the parent made a root");
    let mut out = std::io::stderr();
    loop {
        let count = pool
            .run(|tx| {
                let count = tx.load_u64(block)? + 1;
                tx.will_write(&[ByteRange::new(block, 8), ByteRange::new(block.plus(640), 8)])?;
                tx.store_u64(block, count)?;
                tx.store_u64(block.plus(640), count)?;
                let fresh = tx.alloc(200, BlockKind::Value)?;
                tx.store_u64(fresh, count)?;
                let old = tx.load_u64(block.plus(1280))?;
                if old != 0 {
                    tx.free(PoolOffset(old))?;
                }
                tx.store_u64(block.plus(1280), fresh.0)?;
                Ok(count)
            })
            .unwrap();
        out.write_all(format!("count {count}\n").as_bytes()).unwrap();
    }
}

#[test]
fn acknowledged_transactions_survive_a_killed_process() {
    let pmdk = match Pmdk::load() {
        Ok(pmdk) => pmdk,
        Err(missing) => return eprintln!("not tested: {missing}"),
    };
    let dir = tempfile::tempdir_in("/dev/shm").expect("/dev/shm can be written to");
    let path = dir.path().join("test.pmdk");
    let mut pool = PmdkPool::create(pmdk, &path, 64 << 20, Granularity::Range).unwrap();
    let block = pool
        .run(|tx| {
            let block = tx.alloc(2048, BlockKind::General)?;
            tx.store(block, &[0; 2048])?;
            tx.set_root(block, RootKind::Words)?;
            Ok(block)
        })
        .unwrap();
    drop(pool);
    let mut acknowledged = 0;
    for round in 0..12u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_counts_until_it_is_killed", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut reports = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        for seen in 0.. {
            line.clear();
            // A line without an end was cut off by the kill: it reports nothing.
            if reports.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
                break;
            }
            if let Some(count) = line.trim_end().strip_prefix("count ") {
                acknowledged = count.parse().unwrap();
            }
            // Not a fixed point in the child's work: it runs on while this loop reads.
            if seen == 40 + round * 97 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();

        let mut pool = PmdkPool::open(pmdk, &path, Granularity::Word).unwrap();
        let (first, second, fresh) = pool
            .run(|tx| {
                let fresh = PoolOffset(tx.load_u64(block.plus(1280))?);
                Ok((tx.load_u64(block)?, tx.load_u64(block.plus(640))?, tx.load_u64(fresh)?))
            })
            .unwrap();
        assert_eq!((first, first), (second, fresh), "round {round}: all or nothing");
        assert!(first >= acknowledged, "round {round}: {acknowledged} was acknowledged");
        assert!(first <= acknowledged + 1, "round {round}: reported one by one");
        drop(pool);
        assert!(PmdkPool::check(pmdk, &path).unwrap(), "round {round}");
    }
    assert!(acknowledged > 12 * 40, "the child did work: {acknowledged}");
}
