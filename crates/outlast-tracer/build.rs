//! Compiles the plugin, so that the driver carries it: a program that is one file finds it always.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=plugin");
    println!("cargo:rerun-if-changed=src/words.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let plugin = PathBuf::from(variable("OUT_DIR")).join("plugin.so");
    let is_here = variable("CARGO_CFG_TARGET_OS") == "linux"
        && variable("CARGO_CFG_TARGET_ARCH") == "x86_64"
        && variable("TARGET") == variable("HOST");
    if !is_here {
        // There `outlast trace` says that it takes another machine.
        std::fs::write(&plugin, []).expect("a build script may write there");
        return;
    }
    let status = Command::new(variable("RUSTC"))
        .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "outlast_plugin"])
        .args(["-C", "opt-level=3", "-C", "codegen-units=1", "-C", "panic=abort"])
        .args(["-C", "strip=symbols", "--cap-lints", "allow", "-o"])
        .arg(&plugin)
        .arg("plugin/lib.rs")
        .status()
        .expect("the compiler runs");
    assert!(status.success(), "the plugin was not compiled");
}
