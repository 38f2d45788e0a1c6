//! The program as a user meets it: exit codes, one line about each mistake, one JSON document.

use std::path::Path;
use std::process::{Command, Output};

fn outlast(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outlast"))
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("the program was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// Runs what must succeed; standard output.
fn good(arguments: &[&str]) -> String {
    let output = outlast(arguments);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    text(&output.stdout)
}

/// Runs what must be refused; the one line that says why.
fn refused(arguments: &[&str]) -> String {
    let output = outlast(arguments);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    assert_eq!(errors.lines().count(), 1, "{arguments:?}: {errors}");
    assert!(errors.starts_with("outlast: "), "{errors}");
    errors
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let arguments = [arguments, &["--json"]].concat();
    let stdout = good(&arguments);
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

/// A directory in memory where there is one.
fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(parent).expect("a directory")
}

fn path(directory: &tempfile::TempDir, name: &str) -> String {
    directory.path().join(name).to_str().expect("a UTF-8 path").to_owned()
}

#[test]
fn a_pool_is_created_described_checked_listed_and_grown() {
    let directory = directory();
    let pool = &path(&directory, "p");
    good(&["pool", "create", pool, "--size", "8M", "--lanes", "3"]);
    assert!(good(&["pool", "info", pool]).contains("lanes           3 with"));
    assert!(good(&["pool", "check", pool]).contains("0 findings"));
    assert_eq!(good(&["pool", "dump", pool]), "", "a new pool has no blocks");
    let before = json(&["pool", "info", pool]);
    good(&["pool", "grow", pool, "--size", "16M"]);
    let after = json(&["pool", "info", pool]);
    assert_eq!(before["records"][0]["uuid"], after["records"][0]["uuid"]);
    assert!(after["records"][0]["bytes"].as_u64() >= Some(16 << 20));
    assert!(good(&["pool", "check", pool]).contains("0 findings"));
}

#[test]
fn every_json_is_one_document_with_the_machine_and_the_seed() {
    let directory = directory();
    let pool = &path(&directory, "p");
    let dir = directory.path().to_str().unwrap();
    let tiny = ["--rounds", "2", "--turn-ms", "1", "--records", "100", "--dir", dir];
    let bench = [&["bench", "words", "--scheme", "none,redo", "--seed", "9"], &tiny[..]].concat();
    let commands: [&[&str]; 6] = [
        &["pool", "create", pool, "--seed", "9"],
        &["pool", "check", pool, "--seed", "9"],
        &["pool", "dump", pool, "--seed", "9"],
        &["schemes", "--seed", "9"],
        &["workloads", "--seed", "9"],
        &bench,
    ];
    for command in commands {
        let document = json(command);
        assert_eq!(document["seed"], 9, "{command:?}");
        assert!(document["machine"]["cores"].as_u64() > Some(0), "{command:?}");
        assert!(document["records"].is_array(), "{command:?}");
        assert!(document["outlast"].is_string(), "{command:?}");
    }
    let document = json(&bench);
    let has = |metric: &str| {
        let records = document["records"].as_array().unwrap();
        records.iter().any(|record| record["metric"] == metric && record["scheme"] == "redo")
    };
    for metric in ["throughput", "persistence_cost", "flushed_lines", "fences", "time_log"] {
        assert!(has(metric), "{metric}");
    }
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 1, "only the pool is left");
}

#[test]
fn a_benchmark_says_which_domain_is_in_force_and_prints_tables() {
    let directory = directory();
    let dir = directory.path().to_str().unwrap();
    let output = outlast(&[
        "bench",
        "sps1",
        "--scheme",
        "undo,none",
        "--records",
        "100",
        "--rounds",
        "2",
        "--turn-ms",
        "1",
        "--domain",
        "process",
        "--dir",
        dir,
    ]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("domain process"), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("none a power failure"), "what it promises");
    let stdout = text(&output.stdout);
    assert!(stdout.contains("Throughput, tx/s") && stdout.contains("sps1"), "{stdout}");
}

#[test]
fn wrong_names_are_told_the_right_ones() {
    let names = |arguments: &[&str], known: &[&str]| {
        let line = refused(arguments);
        known.iter().for_each(|name| assert!(line.contains(name), "{line}"));
    };
    names(&["bench", "ycsb-z"], &["'ycsb-z'", "ycsb-a", "btree", "floor", "all"]);
    names(&["bench", "sps1", "--scheme", "redoo"], &["'redoo'", "undo", "redo", "pmdk-word"]);
    names(&["bench", "sps1", "--domain", "adr2"], &["`adr2`", "process", "eadr"]);
    names(&["report", "--scale", "huge"], &["huge", "quick", "full"]);
    names(&["pool", "create", "x", "--size", "12q"], &["12q", "64M"]);
}

#[test]
fn mistakes_end_in_one_line_and_status_2() {
    let directory = directory();
    let dir = directory.path().to_str().unwrap();
    let pool = &path(&directory, "p");
    good(&["pool", "create", pool]);
    let absent = &path(&directory, "absent");
    let inside_absent = &path(&directory, "absent/report");
    let text_file = &path(&directory, "text");
    std::fs::write(text_file, vec![b'x'; 8192]).unwrap();
    let inside_file = &path(&directory, "text/report");
    let cases: [&[&str]; 15] = [
        &["pool", "create", pool],
        &["pool", "create", inside_absent],
        &["pool", "create", absent, "--size", "1K"],
        &["pool", "create", absent, "--lanes", "0"],
        &["pool", "info", absent],
        &["pool", "check", text_file],
        &["pool", "dump", dir],
        &["pool", "grow", text_file, "--size", "1M"],
        &["bench", "sps1", "--rounds", "0"],
        &["bench", "sps1", "--threads", "0"],
        &["bench", "sps1", "--records", "1"],
        &["bench", "sps1", "--turn-ms", "0"],
        &["bench", "sps1", "--dir", absent],
        &["report", "--out", inside_file],
        &["bench", "sps1", "--no-such-flag"],
    ];
    for case in cases {
        refused(case);
    }
    assert!(!Path::new(absent).exists(), "nothing was created on the way");
}

#[test]
fn lists_have_every_scheme_and_workload() {
    let schemes = good(&["schemes"]);
    for name in ["none", "undo", "redo", "pmdk", "pmdk-word"] {
        assert!(schemes.lines().any(|line| line.starts_with(&format!("{name} "))), "{schemes}");
    }
    let workloads = good(&["workloads"]);
    for name in ["ycsb-a", "ycsb-f", "sps1", "sps8", "hash", "btree", "words"] {
        assert!(workloads.lines().any(|line| line.starts_with(name)), "{workloads}");
    }
}
