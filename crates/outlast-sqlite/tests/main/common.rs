//! Clients as their distributions build them: the shell and Python, with the extension of this build.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The extension that cargo has built beside this test.
pub fn extension() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its file");
    let built = exe.with_file_name("liboutlast_sqlite.so");
    assert!(built.is_file(), "cargo builds {} for this test", built.display());
    built
}

/// Whether the shell is there; says so in a line if not.
pub fn has_shell() -> bool {
    let found = Command::new("sqlite3").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: no `sqlite3` here (Debian: apt-get install sqlite3)");
    }
    found
}

/// A Python whose `sqlite3` loads extensions; says so in a line if there is none.
pub fn python() -> Option<&'static str> {
    let loads = |python: &&str| {
        let script = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)";
        let status = Command::new(python).args(["-c", script]).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let found = ["/usr/bin/python3", "python3"].into_iter().find(loads);
    if found.is_none() {
        eprintln!(
            "skipped: no Python whose sqlite3 loads extensions (Debian: apt-get install python3)"
        );
    }
    found
}

/// The shell, with this script behind the loading of the extension.
pub fn shell_output(script: &str) -> Output {
    shell_by(Command::new("sqlite3"), script)
}

/// The shell that a command starts when the shell's arguments are added to its own.
pub fn shell_by(mut command: Command, script: &str) -> Output {
    command.arg("-batch").arg("-cmd").arg(format!(".load {}", extension().display()));
    output_of(&mut command, script)
}

/// The output of a command for this input.
pub fn output_of(command: &mut Command, input: &str) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("it starts");
    child.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

/// The shell's output; it must not complain.
pub fn shell(script: &str) -> String {
    let output = shell_output(script);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(complaints.is_empty() && output.status.success(), "{complaints}\n{script}");
    String::from_utf8(output.stdout).expect("text")
}

/// A script of Python behind a preamble: it connects to pools with `open(name, parameters)`.
pub fn python_script(script: &str) -> String {
    let extension = extension();
    format!(
        "import sqlite3, sys\n\
         loader = sqlite3.connect(':memory:')\n\
         loader.enable_load_extension(True)\n\
         loader.load_extension({:?})\n\
         def open(path, parameters='', **others):\n\
         \x20   uri = f'file:{{path}}?vfs=outlast{{parameters}}'\n\
         \x20   others.setdefault('isolation_level', None)\n\
         \x20   return sqlite3.connect(uri, uri=True, **others)\n\
         {script}",
        extension.display().to_string()
    )
}

/// Python's output; it must not complain.
pub fn run_python(python: &str, script: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(python);
    command.arg("-").args(arguments);
    let output = output_of(&mut command, &python_script(script));
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}\n{script}");
    String::from_utf8(output.stdout).expect("text")
}
