//! The example of `outlast.hpp`, compiled and linked, killed again and again: no job is lost and none is done twice.
//! `OUTLAST_KILL_ROUNDS` and `OUTLAST_KILL_SEED` choose how often and when.
#![cfg(all(target_os = "linux", not(miri)))]

mod common;

use std::path::{Path, PathBuf};

fn built(directory: &Path) -> Option<PathBuf> {
    let cxx = common::compiler_of("CXX", "c++")?;
    let program = directory.join("queue");
    common::compile_as(&cxx, "c++17", &common::crate_file("examples/queue.cpp"), &program);
    Some(program)
}

fn says(queue: &Path, arguments: [&str; 2]) -> String {
    String::from_utf8(common::run(common::program(queue).args(arguments)).stdout).unwrap()
}

/// Jobs put in, waiting and done.
fn shown(queue: &Path, pool: &str) -> [u64; 3] {
    let text = says(queue, [pool, "show"]);
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |index: usize| words[index].parse::<u64>().unwrap();
    let (put, waiting, done, sum) = (number(1), number(3), number(5), number(7));
    assert_eq!(put, waiting + done, "{text}");
    assert_eq!(sum, done * (done + 1) / 2, "each was done once: {text}");
    [put, waiting, done]
}

#[test]
fn the_queue_outlasts_being_killed() {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let Some(queue) = built(dir.path()) else { return };
    let (rounds, seed) = common::rounds_and_seed(6);
    let pool = dir.path().join("queue.pool");
    let pool = pool.to_str().unwrap();
    let mut before = 0;
    for round in 0..rounds {
        println!("round {round}: OUTLAST_KILL_SEED={seed}");
        let patience = common::patience(seed, round).min(300);
        let reported = common::kill_one(&queue, &[pool, "work"], patience);
        let [_, _, done] = shown(&queue, pool);
        assert!(done >= reported, "{reported} was acknowledged, {done} are there");
        assert!(done > before, "it went on");
        before = done;
    }
}

#[test]
fn exceptions_undo_their_transactions() {
    let dir = tempfile::tempdir().unwrap();
    let Some(queue) = built(dir.path()) else { return };
    let pool = dir.path().join("queue.pool");
    let text = says(&queue, [pool.to_str().unwrap(), "try"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "enough: 0");
    assert!(lines[1].ends_with(": 0") && lines[1].contains("address"), "{text}");
    assert_eq!(lines[2], "async: 1, durable 1");
    assert!(lines[3].starts_with("15: ") && lines[3].contains("no/such.pool"), "{text}");
    assert_eq!(shown(&queue, pool.to_str().unwrap()), [1, 1, 0], "and the pool was closed");
    let output = common::program(&queue).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
