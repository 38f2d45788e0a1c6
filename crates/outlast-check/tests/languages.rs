//! Marks and checks that stay, in C and Python: each program under the checker, and alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outlast_check::{Program, Report};
use tempfile::TempDir;

/// Whether a tool is there; says so if not.
fn have(tool: &str) -> bool {
    let found = Command::new(tool)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        eprintln!("left out: no {tool}");
    }
    found
}

fn checked(program: Program) -> Option<Report> {
    match program.check() {
        Ok(report) => Some(report),
        Err(error) if error.to_string().contains("refuses to trace") => {
            eprintln!("left out: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Compiles a program of C that includes the header.
fn compiled(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&file, source).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let status = Command::new("cc")
        .args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-O1"])
        .arg("-I")
        .args([&include, &file])
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap();
    assert!(status.success());
    program
}

/// A log of numbers, synced or not; its check counts them, and crashes where it reads a zero byte.
const LOG: &str = r#"
#include "outlast_check.h"
#include <fcntl.h>
int main(int count, char **words) {
  int dir = open(words[1], O_RDONLY | O_DIRECTORY);
  int log = openat(dir, "log", O_CREAT | O_WRONLY | O_APPEND, 0600);
  fsync(dir);
  for (int i = 1; i <= 3; i++) {
    outlast_issued(i);
    if (dprintf(log, "%d\n", i) != 2) return 1;
    if (count < 3) fsync(log);
    outlast_acked(i);
  }
  return 0;
}
"#;
const COUNT: &str = r#"
#include "outlast_check.h"
static long long check(const char *dir, unsigned long long acked, unsigned long long issued, char why[256]) {
  char path[4096];
  snprintf(path, sizeof path, "%s/log", dir);
  FILE *log = fopen(path, "r");
  long long found = 0;
  for (int digit; log && (digit = fgetc(log)) != EOF;) {
    if (digit == 0) abort();
    if (digit != '0' + found + 1 || fgetc(log) != '\n') break;
    found++;
  }
  if (log) fclose(log);
  if (acked > issued) {
    strcpy(why, "more acknowledged than begun");
    return OUTLAST_BAD;
  }
  return found;
}
int main(void) { return outlast_serve(check); }
"#;

#[test]
fn marks_and_a_check_in_c() {
    if !have("cc") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let (log, count) =
        (compiled(folder.path(), "log", LOG), compiled(folder.path(), "count", COUNT));
    let program = |name: &str| {
        let data = folder.path().join(name);
        Program::new(&log).arg(&data).dir(data).server(count.display().to_string())
    };
    let Some(synced) = checked(program("synced").models(["prefix"])) else { return };
    synced.assert_sound();
    assert_eq!(synced.run.counts().2, 3);
    let lost = checked(program("lost").arg("unsynced").sector(512)).unwrap();
    let wrong: Vec<&str> = lost.findings().map(|finding| finding.wrong.as_str()).collect();
    assert!(wrong.iter().any(|wrong| wrong.starts_with("lost: ")), "{lost}");
    // Zeros where a size is kept without its data: a check that crashes is a verdict.
    assert!(wrong.contains(&"killed by SIGABRT"), "{lost}");
}

#[test]
fn marks_in_c_leave_files_at_the_descriptor_alone() {
    if !have("cc") {
        return;
    }
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    let log = compiled(folder.path(), "log", LOG);
    let run = |variable: &str| {
        let line = format!("{variable} exec '{}' data 198>precious", log.display());
        let status = Command::new("/bin/bash").args(["-c", &line]).current_dir(&folder).status();
        assert!(status.unwrap().success());
        assert_eq!(fs::read(folder.path().join("precious")).unwrap(), b"");
    };
    run("");
    run("OUTLAST_MARKS=198");
}

const LOG_PY: &str = r#"
import os, sys
import outlast_check
def run(folder, synced):
    log = os.open(folder + "/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.fsync(os.open(folder, os.O_RDONLY))
    for i in range(1, 4):
        outlast_check.issued(i)
        os.write(log, b"%d\n" % i)
        if synced: os.fsync(log)
        outlast_check.acked(i)
def check(folder, acked, issued):
    print("looks at", folder)
    if not os.path.exists(folder + "/log"): return 0
    text = open(folder + "/log", "rb").read()
    if b"\0" in text: os.abort()
    lines = text.decode().split("\n")
    assert lines.pop() == "", "a torn line"
    if lines != [str(i + 1) for i in range(len(lines))]: return "holes"
    return len(lines)
if sys.argv[1] == "check": outlast_check.serve(check)
else: run(sys.argv[1], len(sys.argv) == 2)
"#;

#[test]
fn marks_and_a_check_in_python() {
    if !have("python3") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("log.py");
    fs::write(&script, LOG_PY).unwrap();
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/outlast_check.py");
    fs::copy(module, folder.path().join("outlast_check.py")).unwrap();
    let check = format!("python3 -B {} check", script.display());
    let program = |name: &str| {
        let data = folder.path().join(name);
        let program = Program::new("python3").arg("-B").arg(&script).arg(&data).dir(data);
        program.server(&check)
    };
    let Some(synced) = checked(program("synced").models(["prefix"])) else { return };
    synced.assert_sound();
    assert_eq!(synced.run.counts().2, 3);
    let lost = checked(program("lost").arg("unsynced")).unwrap();
    let wrong: Vec<&str> = lost.findings().map(|finding| finding.wrong.as_str()).collect();
    assert!(wrong.iter().any(|wrong| wrong.starts_with("lost: ")), "{lost}");
    assert!(wrong.contains(&"killed by SIGABRT"), "{lost}");
    // Alone it writes no marks.
    let alone = Command::new("python3").arg("-B").arg(&script).arg(folder.path()).output().unwrap();
    assert!(alone.status.success() && alone.stdout.is_empty(), "{alone:?}");
}

#[test]
fn a_program_that_uses_the_descriptor_itself_gets_another() {
    let folder = TempDir::new().unwrap();
    let line = "cd \"$OUTLAST_HERE\"; mkdir -p data; echo $OUTLAST_MARKS; \
                echo I 1 >&$OUTLAST_MARKS; echo x >data/f; sync data/f data; echo A 1 >&$OUTLAST_MARKS";
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast-check"));
    command.current_dir(&folder).env("OUTLAST_HERE", folder.path());
    command.args(["--json", "--dir", "data", "--marks-fd", "9", "--then", "true {}"]);
    let output = command.args(["--", "/bin/sh", "-c", line]).output().unwrap();
    if String::from_utf8_lossy(&output.stderr).contains("refuses to trace") {
        return;
    }
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &told["acknowledged"]), (Some(0), &1.into()), "{told}");
}

/// Both files of Rust compile as crates of their own, with the standard library alone.
#[test]
fn marks_and_a_check_in_rust_can_be_copied() {
    if !have("rustc") {
        return;
    }
    let folder = TempDir::new().unwrap();
    for file in ["marks.rs", "serve.rs"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "--out-dir"]);
        assert!(rustc.arg(folder.path()).arg(path).status().unwrap().success(), "{file}");
    }
}
