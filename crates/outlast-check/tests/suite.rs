//! The suite of programs of others: its rows are whole, and a few that are here keep their verdicts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines of a workload or a check, at most; a store is both.
const LINES: usize = 40;

fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("suite")
}

/// The rows, by name, each with its lines.
fn rows() -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(suite().join("programs.toml")).unwrap();
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            rows.push((name.to_owned(), Vec::new()));
        } else if let Some((_, lines)) = rows.last_mut() {
            lines.push(line.to_owned());
        }
    }
    rows
}

#[test]
fn each_row_has_a_version_verdicts_and_short_files() {
    let mut folders: BTreeSet<String> = fs::read_dir(suite())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir() && entry.file_name() != "lib")
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    let rows = rows();
    assert!(rows.len() >= 30, "{}", rows.len());
    let mut unused = folders.clone();
    for (name, lines) in rows {
        let has = |key: &str| lines.iter().any(|line| line.starts_with(&format!("{key} = ")));
        for key in ["program", "version", "kind", "linux", "ext4"] {
            assert!(has(key), "{name} has no '{key}'");
        }
        let found = lines.iter().any(|line| line.starts_with("linux = [\""));
        assert!(!found || has("judged"), "{name}: its findings are not judged");
        let folder = lines.iter().find_map(|line| line.strip_prefix("folder = \""));
        let folder = folder.map_or_else(
            || name.split('-').next().unwrap().to_owned(),
            |folder| folder.trim_end_matches('"').to_owned(),
        );
        assert!(folders.contains(&folder), "{name}: no folder '{folder}'");
        unused.remove(&folder);
    }
    assert!(unused.is_empty(), "folders without a row: {unused:?}");
    while let Some(folder) = folders.pop_first() {
        for entry in fs::read_dir(suite().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            let both = path.file_stem().is_some_and(|stem| stem == "store");
            let most = if both { 2 * LINES } else { LINES };
            assert!(lines <= most, "{}: {lines} lines", path.display());
        }
    }
}

#[test]
fn programs_that_are_here_keep_their_verdicts() {
    let named = Command::new("python3").args(["-c", "import tomllib"]).output();
    if !named.is_ok_and(|output| output.status.success()) {
        eprintln!("left out: no Python 3.11 (Debian: apt-get install python3)");
        return;
    }
    let output = Command::new(suite().join("run"))
        .args(["--sector", "4096", "replace", "sqlite-truncate-full", "sqlite-delete-full"])
        .env("OUTLAST_CHECK", env!("CARGO_BIN_EXE_outlast-check"))
        .env("SUITE_CACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("suite"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    if said.contains("refuses to trace") {
        eprintln!("left out: programs cannot be traced here");
        return;
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("replace-directory"), "{said}");
}
