//! What the typed API refuses at compile time, each with its message.
//!
//! The messages that are the compiler's own belong to the toolchain that they were written with;
//! `TRYBUILD=overwrite cargo test -p outlast --test typed_refusals` writes them anew. With another
//! toolchain only that everything is refused is checked.
#![cfg(not(miri))]

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::Command;

/// Whose messages stand beside the programs.
const TOOLCHAIN: &str = "rustc 1.95.";

const PROGRAMS: &str = "tests/refusals";

#[test]
fn every_refusal_names_what_is_wrong() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8_lossy(&version);
    if version.starts_with(TOOLCHAIN) {
        trybuild::TestCases::new().compile_fail(format!("{PROGRAMS}/*.rs"));
        return;
    }
    eprintln!("messages are not compared: they are those of {TOOLCHAIN}, this is {version}");
    // A program without an expected message beside it must be refused with any message. The actual
    // messages go into a temporary folder.
    let copies = tempfile::tempdir().unwrap();
    for program in fs::read_dir(PROGRAMS).unwrap() {
        let program = program.unwrap().path();
        if program.extension().is_some_and(|extension| extension == "rs") {
            fs::copy(&program, copies.path().join(program.file_name().unwrap())).unwrap();
        }
    }
    let had_messages = Path::new("wip").exists();
    let all = copies.path().join("*.rs");
    let told = catch_unwind(|| trybuild::TestCases::new().compile_fail(all));
    if !had_messages {
        let _ = fs::remove_dir_all("wip");
    }
    // All were refused when nothing is wrong but that messages are new.
    let told = told.expect_err("messages are missing");
    let told = told.downcast_ref::<String>().expect("a panic has a message");
    assert!(told.starts_with("successfully created new stderr files"), "{told}");
}
