//! The example of `outlast.h`, compiled and linked, killed again and again: what it printed is
//! there, nothing is there in part, and no block is lost. `OUTLAST_KILL_ROUNDS` and
//! `OUTLAST_KILL_SEED` choose how often and when.
#![cfg(all(target_os = "linux", not(miri)))]

mod common;

use std::path::{Path, PathBuf};

const KEPT: u64 = 16;

fn built(cc: &str, directory: &Path) -> PathBuf {
    let program = directory.join("ledger");
    common::compile(cc, &common::crate_file("examples/ledger.c"), &program);
    program
}

fn says(ledger: &Path, arguments: &[&str]) -> String {
    let output = common::run(common::program(ledger).args(arguments));
    String::from_utf8(output.stdout).unwrap()
}

/// What the pool says: how many entries there were, and that those which are kept are the last.
fn shown(ledger: &Path, pool: &str) -> u64 {
    let text = says(ledger, &[pool, "show"]);
    let mut lines = text.lines();
    let entries = lines.next().and_then(|line| line.strip_prefix("entries ")).unwrap();
    let entries: u64 = entries.parse().unwrap();
    let first = entries.saturating_sub(KEPT) + 1;
    let expected: Vec<String> = (first..=entries)
        .map(|number| {
            let amounts = (1..=6).map(|i| format!(" {}", number * i)).collect::<String>();
            format!("entry {number}{amounts}")
        })
        .collect();
    assert_eq!(lines.collect::<Vec<_>>(), expected);
    entries
}

#[test]
fn the_ledger_outlasts_being_killed() {
    let Some(cc) = common::compiler() else { return };
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let ledger = built(&cc, dir.path());
    let schemes = ["swift", "redo", "undo", "redo-archapt", "atlas"];
    let (rounds, seed) = common::rounds_and_seed(10);
    let pool = dir.path().join("ledger.pool");
    let pool = pool.to_str().unwrap();
    let mut before = 0;
    for (round, scheme) in (0..rounds).zip(schemes.iter().cycle()) {
        println!("round {round}: {scheme}, OUTLAST_KILL_SEED={seed}");
        let reported = common::kill_one(&ledger, &[pool, scheme], common::patience(seed, round));
        assert_eq!(says(&ledger, &[pool, "check"]), "0 findings\n", "{scheme}");
        let entries = shown(&ledger, pool);
        assert!(entries >= reported, "{scheme}: {reported} was acknowledged");
        assert!(entries <= reported + 1, "{scheme}: reported one by one");
        assert!(entries > before, "{scheme}: it went on");
        before = entries;
    }
}

#[test]
fn the_ledger_says_what_is_wrong_and_what_there_is() {
    let Some(cc) = common::compiler() else { return };
    let dir = tempfile::tempdir().unwrap();
    let ledger = built(&cc, dir.path());
    let no_pool = dir.path().join("text");
    std::fs::write(&no_pool, [b'x'; 1 << 16]).unwrap();
    let refuses = |arguments: &[&str]| {
        let output = common::program(&ledger).args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let no_pool = no_pool.to_str().unwrap();
    assert!(refuses(&[no_pool]).contains("not an Outlast pool"));
    assert!(refuses(&[no_pool, "check"]).contains("not an Outlast pool"));
    let missing = dir.path().join("missing");
    assert!(refuses(&[missing.to_str().unwrap(), "show"]).contains("no such file"));
    assert!(refuses(&[missing.to_str().unwrap(), "swiftt"]).contains("'swiftt'"));
    assert!(!missing.exists(), "nothing was made of it");
    assert!(refuses(&[]).contains(env!("CARGO_PKG_VERSION")));
    let schemes = says(&ledger, &["schemes"]);
    assert!(schemes.lines().count() >= 9 && schemes.contains("swift: "), "{schemes}");
}
