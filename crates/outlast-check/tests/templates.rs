//! The template projects: each passes as it is, and fails where a sync is left out.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const TOOL: &str = env!("CARGO_BIN_EXE_outlast-check");

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn have(tool: &str, word: &str) -> bool {
    let mut command = Command::new(tool);
    command.arg(word).stdout(Stdio::null()).stderr(Stdio::null());
    let found = command.status().is_ok_and(|status| status.success());
    if !found {
        eprintln!("left out: no {tool}");
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Runs a template by `command`: sound, and with `line` of `file` left out.
fn both(template: &str, file: &str, line: &str, command: impl Fn(&Path) -> Command) {
    let folder = TempDir::new().unwrap();
    let project = folder.path().join(template);
    copy(&here().join("templates").join(template), &project);
    copy(&here().join("python"), &project);
    let mut sound = command(&project);
    let output = sound.current_dir(&project).env("OUTLAST_CHECK", TOOL).output().unwrap();
    if said(&output).contains("refuses to trace") {
        eprintln!("left out: no ptrace");
        return;
    }
    assert!(output.status.success(), "{}", said(&output));
    let source = fs::read_to_string(project.join(file)).unwrap();
    assert_eq!(source.matches(line).count(), 1, "{line}");
    fs::write(project.join(file), source.replace(line, "")).unwrap();
    let mut broken = command(&project);
    let output = broken.current_dir(&project).env("OUTLAST_CHECK", TOOL).output().unwrap();
    let said = said(&output);
    assert!(!output.status.success() && said.contains("rename before sync"), "{said}");
}

#[test]
fn pytest() {
    if have("python3", "--version") && have("pytest", "--version") {
        both("pytest", "engine.py", "        os.fsync(file.fileno())\n", |_| {
            let mut command = Command::new("pytest");
            command.args(["-q", "-p", "no:cacheprovider"]).env("PYTHONDONTWRITEBYTECODE", "1");
            command
        });
    }
}

#[test]
fn go_test() {
    if have("go", "version") {
        let sync = "\tif err := file.Sync(); err != nil {\n\t\treturn err\n\t}\n";
        both("go", "engine.go", sync, |_| {
            let mut command = Command::new("go");
            command.args(["test", "-count=1", "./..."]).env("GOFLAGS", "-mod=mod");
            command.env("GOPROXY", "off");
            command
        });
    }
}

/// The template of cargo is compiled with this crate's own objects: no package is fetched.
#[test]
fn cargo_test() {
    let objects = Path::new(TOOL).parent().unwrap();
    if !have("rustc", "--version") {
        return;
    }
    // The newest one is of this build.
    let made = std::fs::read_dir(objects.join("deps")).unwrap().map(|entry| entry.unwrap().path());
    let library = made
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("liboutlast_check-") && name.ends_with(".rlib")
        })
        .max_by_key(|path| path.metadata().and_then(|file| file.modified()).unwrap())
        .expect("the library is built before its tests");
    both(
        "cargo",
        "src/lib.rs",
        "    File::open(dir.join(\"count.new\"))?.sync_all()?;\n",
        |project| {
            let rustc = |words: &[&str]| {
                let mut rustc = Command::new("rustc");
                rustc
                    .current_dir(project)
                    .args(["--edition", "2024", "--out-dir", "."])
                    .args(words);
                assert!(rustc.status().unwrap().success());
            };
            rustc(&["--crate-type", "rlib", "--crate-name", "my_engine", "src/lib.rs"]);
            let dependencies = format!("dependency={}", objects.join("deps").display());
            let library = format!("outlast_check={}", library.display());
            let words = ["--test", "--crate-name", "power", "tests/power.rs", "-L", &dependencies];
            let externs = ["--extern", &library, "--extern", "my_engine=libmy_engine.rlib"];
            rustc(&[&words[..], &externs].concat());
            let mut command = Command::new(project.join("power"));
            command.arg("--nocapture");
            command
        },
    );
}
