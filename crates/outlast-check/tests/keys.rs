//! Programs that say which keys each transaction writes: the oracle of keys with versions judges files.

use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// Writes versions of two keys into a file each, and renames both under one acknowledgement.
const TWO_FILES: &str = "mkdir -p data; for i in 1 2 3; do echo I $i a=$i b=$i; \
    echo $i >data/a.new; echo $i >data/b.new; sync data/a.new data/b.new; \
    mv data/a.new data/a; mv data/b.new data/b; sync data; echo A $i; done";

/// Writes both into one file, and renames that.
const ONE_FILE: &str = "mkdir -p data; for i in 1 2 3; do echo I $i a=$i b=$i; \
    printf 'key a %s\\nkey b %s\\n' $i $i >data/new; sync data/new; mv data/new data/all; sync data; echo A $i; done";

/// Lists the keys of either. The other check stays, and answers a line for each state.
const LIST: &str = "for k in a b; do [ ! -f $OUTLAST_DIR/$k ] || echo key $k $(cat $OUTLAST_DIR/$k); done; cat $OUTLAST_DIR/all 2>/dev/null; true";
const SERVER: &str = "while read -r dir rest; do echo keys $(cd $dir && for k in a b; do \
    [ ! -f $k ] || echo $k=$(cat $k); done); done";

/// Status, and what is wrong with each state found; none where no process can be traced.
fn check(program: &str, how: &str, check: &str) -> Option<(i32, Vec<String>)> {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast-check"));
    command.current_dir(folder.path()).args(["--json", "--dir", "data", "--model", "ext4", how]);
    let output = command.args([check, "--", "/bin/sh", "-c", program]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("refuses to trace") {
        eprintln!("left out: {said}");
        return None;
    }
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        let wrong = said.lines().last().unwrap_or_default().to_owned();
        serde_json::json!({"findings": [{"wrong": wrong}]})
    });
    let findings = document["findings"].as_array().unwrap().iter();
    let wrong = findings.map(|finding| finding["wrong"].as_str().unwrap().to_owned());
    Some((output.status.code().unwrap(), wrong.collect()))
}

#[test]
fn a_transaction_over_two_files_is_torn_between_their_renames() {
    for (how, list) in [("--then", LIST), ("--server", SERVER)] {
        let Some((status, wrong)) = check(TWO_FILES, how, list) else { return };
        assert_eq!(status, 1, "{wrong:?}");
        let is_torn = |text: &String| {
            text.starts_with("torn: transaction ")
                && text.ends_with(" is there in part: in a, missing in b")
        };
        assert!(wrong.iter().all(is_torn) && !wrong.is_empty(), "{how}: {wrong:?}");
    }
}

#[test]
fn a_transaction_within_one_file_is_whole() {
    assert!(check(ONE_FILE, "--then", LIST).is_none_or(|found| found == (0, Vec::new())));
}

#[test]
fn a_name_that_is_not_synced_loses_its_transaction() {
    let program = ONE_FILE.replace("; sync data; echo", "; echo");
    let Some((status, wrong)) = check(&program, "--then", LIST) else { return };
    let is_lost = |text: &String| {
        text.starts_with("lost: transaction ") && text.ends_with(" and is missing in a, b")
    };
    assert!(status == 1 && wrong.iter().all(is_lost) && !wrong.is_empty(), "{wrong:?}");
}

#[test]
fn marks_and_keys_that_do_not_fit_are_said_before_any_crash() {
    let twice = ONE_FILE.replace("echo I $i a=$i", "echo I $i a=1");
    let Some((status, wrong)) = check(&twice, "--then", LIST) else { return };
    assert_eq!(status, 2, "{wrong:?}");
    assert!(wrong[0].contains("transactions 1 and 2 both leave version 1 of a"), "{wrong:?}");
    let unnamed = ONE_FILE.replace(" a=$i b=$i", "");
    let (status, wrong) = check(&unnamed, "--then", LIST).unwrap();
    assert_eq!(status, 2, "{wrong:?}");
    assert!(wrong[0].contains("a holds version 3, and no mark names it"), "{wrong:?}");
}
