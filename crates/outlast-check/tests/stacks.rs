//! Calls carry the functions that made them, in the languages of their programs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use outlast_check::capture::{Options, capture, marks::Marks};
use outlast_check::run::Step;

/// The place of the first write to a file that `command` makes in `dir`; none if the system does not let it be traced.
fn place_of_first_write(dir: &Path, command: &[&str]) -> Option<String> {
    let run = capture(&Options {
        dir: dir.to_owned(),
        command: command.iter().map(Into::into).collect(),
        folder: None,
        marks: Marks::default(),
        time: Duration::from_secs(60),
        reads: false,
        fault: None,
    });
    let run = match run {
        Ok(run) => run,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    let data = run
        .events
        .iter()
        .find(|event| matches!(event.step, Step::Change(outlast_check::run::Change::Data { .. })));
    let event = data.expect("the program writes");
    Some(run.calls[event.call as usize].place.clone())
}

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("missing: {program}, whose stacks are not looked at");
    }
    found
}

const C: &str = r#"
#include <fcntl.h>
#include <unistd.h>
static int file;
__attribute__((noinline)) static int append(const char *text, int length) {
    return write(file, text, length) == length ? 0 : 1;
}
__attribute__((noinline)) static int commit(void) { return append("text", 4) + 0; }
int main(int count, char **words) {
    file = open(words[1], O_CREAT | O_RDWR, 0644);
    int failed = commit();
    return failed + close(file);
}
"#;

#[test]
fn functions_of_c_have_names_and_lines() {
    if !is_there("cc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("log.c"), folder.path().join("log"));
    fs::write(&source, C).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-g", "-O1", "-fno-optimize-sibling-calls", "-o"]);
    assert!(compiled_with(&mut cc, &program, &source), "the program compiles");
    let dir = folder.path().join("data");
    fs::create_dir(&dir).unwrap();
    let file = dir.join("log");
    let words = [program.to_str().unwrap(), file.to_str().unwrap()];
    let Some(place) = place_of_first_write(&dir, &words) else { return };
    let order = ["append (log.c:6)", "commit (log.c:8)", "main (log.c:11)"];
    let at: Vec<_> = order.iter().map(|frame| place.find(frame)).collect();
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{place}");
}

fn compiled_with(command: &mut Command, program: &Path, source: &Path) -> bool {
    command.arg(program).arg(source).status().is_ok_and(|status| status.success())
}

const PYTHON: &str = "
import sys
def append(file):
    file.write(b'text')

def main():
    with open(sys.argv[1], 'wb', 0) as file:
        append(file)
main()
";

#[test]
fn functions_of_python_stand_in_place_of_its_interpreter() {
    let known = "import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))";
    if !is_there("python3")
        || !Command::new("python3").args(["-c", known]).status().unwrap().success()
    {
        println!("missing: python3 from 3.11 to 3.13, whose stacks are not looked at");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("log.py");
    fs::write(&script, PYTHON).unwrap();
    let dir = folder.path().join("data");
    fs::create_dir(&dir).unwrap();
    let file = dir.join("log");
    let words = ["python3", script.to_str().unwrap(), file.to_str().unwrap()];
    let Some(place) = place_of_first_write(&dir, &words) else { return };
    assert!(
        place.ends_with("append (log.py:4) < main (log.py:8) < <module> (log.py:9)"),
        "{place}"
    );
    assert!(!place.contains("_PyEval"), "{place}");
}

const GO: &str = r#"package main

import "os"

//go:noinline
func appendTo(file *os.File) {
	file.Write([]byte("text"))
}

func main() {
	file, _ := os.Create(os.Args[1])
	appendTo(file)
}
"#;

#[test]
fn functions_of_go_have_names_and_lines() {
    if Command::new("go").arg("version").output().is_err() {
        println!("missing: go, whose stacks are not looked at");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("log.go"), folder.path().join("log"));
    fs::write(&source, GO).unwrap();
    let mut go = Command::new("go");
    go.args(["build", "-o"]).env("GOFLAGS", "-mod=mod");
    if !compiled_with(&mut go, &program, &source) {
        println!("skipped: go does not build");
        return;
    }
    let dir = folder.path().join("data");
    fs::create_dir(&dir).unwrap();
    let file = dir.join("log");
    let words = [program.to_str().unwrap(), file.to_str().unwrap()];
    let Some(place) = place_of_first_write(&dir, &words) else { return };
    assert!(place.contains("main.appendTo (log.go:7) < main.main (log.go:12)"), "{place}");
}
