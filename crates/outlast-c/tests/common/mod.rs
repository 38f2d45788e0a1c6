//! A C compiler, and the libraries that cargo has built beside the tests.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What the static library of a Rust crate needs beside itself: `Libs.private` of the pc file.
pub fn private_libs() -> Vec<String> {
    let pc = std::fs::read_to_string(crate_file("outlast-archapt.pc.in")).unwrap();
    let line = pc.lines().find_map(|line| line.strip_prefix("Libs.private: ")).unwrap();
    line.split_whitespace().map(str::to_owned).collect()
}

pub fn crate_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The system's C compiler, or `None`, said in one line.
pub fn compiler() -> Option<String> {
    compiler_of("CC", "cc")
}

/// The compiler that a variable of the environment names, or that one.
pub fn compiler_of(variable: &str, usual: &str) -> Option<String> {
    let cc = std::env::var(variable).unwrap_or_else(|_| usual.to_owned());
    match Command::new(&cc).arg("--version").output() {
        Ok(output) if output.status.success() => Some(cc),
        _ => {
            println!("there is no compiler '{cc}': nothing is compiled");
            None
        }
    }
}

/// The newest library of that ending that cargo has built of this crate with this test's
/// profile: cargo makes all kinds of a library at once, for the test to link one of them.
pub fn library(ending: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().expect("a test lies in a directory");
    let mut found: Vec<_> = [deps, deps.parent().unwrap_or(deps)]
        .iter()
        .flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("liboutlast_c") && name.ends_with(ending)
        })
        .collect();
    found.sort_by_key(|path| std::fs::metadata(path).and_then(|data| data.modified()).ok());
    found.pop().unwrap_or_else(|| panic!("cargo has built no liboutlast_c{ending} beside {exe:?}"))
}

pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    output
}

/// Compiles a C program as strictly as can be, and links the static library.
pub fn compile(cc: &str, source: &Path, program: &Path) {
    compile_as(cc, "c11", source, program);
}

/// The same of another language.
pub fn compile_as(compiler: &str, standard: &str, source: &Path, program: &Path) {
    let mut command = Command::new(compiler);
    command
        .arg(format!("-std={standard}"))
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-o"])
        .arg(program)
        .arg("-I")
        .arg(crate_file("include"))
        .arg(source)
        .arg(library(".a"))
        .args(private_libs());
    run(&mut command);
}

/// A compiled program to start: behind `OUTLAST_RUNNER`, an emulator with its arguments, where it is for another
/// processor than this one.
pub fn program(path: &Path) -> Command {
    let runner = std::env::var("OUTLAST_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(path) };
    let mut command = Command::new(emulator);
    command.args(words).arg(path);
    command
}

/// Runs a program that reports `done NUMBER` line by line, and kills it after `patience` reports.
/// Returns the last number reported.
pub fn kill_one(path: &Path, arguments: &[&str], patience: u64) -> u64 {
    let mut child = program(path)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reports = BufReader::new(child.stdout.take().expect("piped"));
    let (mut line, mut seen, mut last) = (String::new(), 0, 0);
    // A line without an end was cut off by the kill: it reports nothing.
    while reports.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
        last = line.trim().strip_prefix("done ").and_then(|n| n.parse().ok()).expect("a report");
        seen += 1;
        if seen == patience {
            // It runs on while this loop reads, so this is no fixed point of its work.
            child.kill().unwrap();
        }
        line.clear();
    }
    let ended = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(seen >= patience, "{path:?} ended by itself after {seen} reports: {errors}");
    last
}

/// `OUTLAST_KILL_ROUNDS`, or so many, and `OUTLAST_KILL_SEED`.
pub fn rounds_and_seed(rounds: u64) -> (u64, u64) {
    let number = |name| std::env::var(name).map(|value| value.parse::<u64>().expect(name));
    let rounds = number("OUTLAST_KILL_ROUNDS").unwrap_or(rounds);
    (rounds, number("OUTLAST_KILL_SEED").unwrap_or(1))
}

/// A moment from 1 to 2000 reports, of a seed and a round.
pub fn patience(seed: u64, round: u64) -> u64 {
    let x = (seed << 32 | (round + 1)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    1 + (x ^ x >> 29) % 2000
}
