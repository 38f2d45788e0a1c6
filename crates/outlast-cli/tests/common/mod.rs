//! The program as a test runs it.
#![allow(dead_code)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program with these arguments, and nothing on standard input.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    command.args(arguments).stdin(Stdio::null());
    command
}

pub fn outlast(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program was built")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

/// Runs what must succeed; standard output.
pub fn good(arguments: &[&str]) -> String {
    let output = outlast(arguments);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    text(&output.stdout)
}

/// Runs what must be refused; the one line that says why.
pub fn refused(arguments: &[&str]) -> String {
    one_line(arguments, &outlast(arguments))
}

/// The one line that says why this was refused.
pub fn one_line(arguments: &[&str], output: &Output) -> String {
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    assert_eq!(errors.lines().count(), 1, "{arguments:?}: {errors}");
    assert!(errors.starts_with("outlast: "), "{errors}");
    errors
}

pub fn json(arguments: &[&str]) -> serde_json::Value {
    let arguments = [arguments, &["--json"]].concat();
    let stdout = good(&arguments);
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

/// A directory in memory where there is one.
pub fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(parent).expect("a directory")
}

pub fn path(directory: &tempfile::TempDir, name: &str) -> String {
    directory.path().join(name).to_str().expect("a UTF-8 path").to_owned()
}
