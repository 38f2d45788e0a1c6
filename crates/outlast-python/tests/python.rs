//! Runs the package's tests with the Python of this system: the module as it was just built, beside its Python files.

use std::path::Path;
use std::process::Command;

#[test]
fn the_package_passes_its_tests() {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().unwrap().join("lib_outlast.so");
    let has_python = Command::new("python3")
        .args(["-c", "import sys; assert sys.version_info >= (3, 11)"])
        .status();
    if !has_python.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no Python 3.11 (Debian: apt-get install python3)");
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("outlast");
    std::fs::create_dir(&package).unwrap();
    for file in std::fs::read_dir(source.join("python/outlast")).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            std::fs::copy(file.path(), package.join(file.file_name())).unwrap();
        }
    }
    std::fs::copy(&built, package.join("_outlast.abi3.so")).unwrap();
    // As it was built last, if it was.
    let command = own.ancestors().nth(2).unwrap().join("outlast");
    let run = |arguments: &[&str]| {
        let mut python = Command::new("python3");
        python.args(arguments).env("PYTHONPATH", folder.path()).current_dir(folder.path());
        python.env("MPLBACKEND", "Agg");
        if command.exists() {
            python.env("OUTLAST_COMMAND", &command);
        }
        let output = python.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stdout));
        println!("{text}");
    };
    let tests = ["pools", "hostile", "docs", "typed", "work", "lab", "notebooks"];
    for tests in tests.map(|name| source.join("tests").join(name).with_extension("py")) {
        run(&[tests.to_str().unwrap()]);
    }
}
