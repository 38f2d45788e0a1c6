//! A C compiler, and the libraries that cargo has built beside the tests.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    match Command::new(&cc).arg("--version").output() {
        Ok(output) if output.status.success() => Some(cc),
        _ => {
            println!("there is no C compiler '{cc}': nothing is compiled");
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
    let mut command = Command::new(cc);
    command
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-o"])
        .arg(program)
        .arg("-I")
        .arg(crate_file("include"))
        .arg(source)
        .arg(library(".a"))
        .args(private_libs());
    run(&mut command);
}
