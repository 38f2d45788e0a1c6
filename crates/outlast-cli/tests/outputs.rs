//! Every command with every file that it writes or reads closed, full, missing, a directory, or
//! another program's. Whatever happens it ends by itself, says one line, and leaves nothing behind.
#![cfg(unix)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{command, directory, good, one_line, outlast, path, text};
use tempfile::TempDir;

/// A pool with a checkpoint, a copy of it, and room for what commands write.
struct Place {
    directory: TempDir,
    pool: String,
    dir: String,
}

impl Place {
    fn new() -> Self {
        let directory = directory();
        let (pool, dir) = (path(&directory, "pool"), path(&directory, "work"));
        fs::create_dir(&dir).unwrap();
        good(&["pool", "create", &pool, "--size", "8M", "--checksums"]);
        good(&["pool", "checkpoint", &pool]);
        Self { directory, pool, dir }
    }

    fn path(&self, name: &str) -> String {
        path(&self.directory, name)
    }

    /// Every command that ends soon, with a result on standard output.
    fn commands(&self) -> Vec<Vec<String>> {
        let pool = &self.pool;
        let (new, out) = (self.path("new"), self.path("out"));
        let few = "--warm-up 100 --instructions 500";
        let commands = [
            "--help".to_owned(),
            "--version".to_owned(),
            "crash --help".to_owned(),
            "schemes".to_owned(),
            "workloads".to_owned(),
            "sim machines".to_owned(),
            "sim --plant list".to_owned(),
            "crash --plant list".to_owned(),
            format!("sim friendly {few}"),
            "sim sps --footprint 64K --transactions 50 --scheme fwb".to_owned(),
            "sim hash --keys 100 --transactions 20 --scheme undo".to_owned(),
            "sim hash --config tiny --footprint 2K --transactions 9 --scheme fwb --crash 5"
                .to_owned(),
            "crash hash --keys 50 --transactions 10 --points 5 --scheme undo".to_owned(),
            "crash words --policy any --transactions 1 --keys 1 --lanes 1 --scheme undo".to_owned(),
            format!("reproduce fwb --figure table1 --out {out}"),
            format!("pool create {new} --size 8M"),
            format!("pool info {pool}"),
            format!("pool check {pool}"),
            format!("pool repair {pool}"),
            format!("pool grow {pool} --size 8M"),
            format!("pool checkpoint {pool}"),
            format!("pool restore {pool}"),
        ];
        commands.iter().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    /// Makes it as it was.
    fn tidy(&self) {
        let _ = fs::remove_file(self.path("new"));
        let _ = fs::remove_dir_all(self.path("out"));
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn as_strs(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// What a shell reports of a program that SIGPIPE has ended.
const READER_GONE: i32 = 141;

/// A reader that goes away does not make a damaged pool a sound one.
#[test]
fn a_check_that_nobody_reads_still_ends_in_1() {
    let place = Place::new();
    let mut bytes = fs::read(&place.pool).unwrap();
    bytes[4096] ^= 1; // the first lane's tail
    fs::write(&place.pool, bytes).unwrap();
    for arguments in
        [&["pool", "check", &place.pool][..], &["pool", "check", &place.pool, "--json"]]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(arguments).stdout(writer).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(!errors.contains("outlast: "), "{arguments:?}: {errors}");
    }
}

/// Where a result has no room, that is the one line that is added. Where its reader has gone, or
/// notes have no room, no line is.
#[test]
fn a_standard_output_that_is_full_or_closed_ends_every_command_in_order() {
    let place = Place::new();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let is_full = |arguments: &[&str]| {
        let output = command(arguments).stdout(full()).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        let last = errors.lines().last().unwrap_or_default();
        let said = "outlast: standard output: No space left on device";
        assert_eq!(last, said, "{arguments:?}: {errors}");
        assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
        place.tidy();
    };
    for words in place.commands() {
        for (more, is_json) in [(&[][..], false), (&["--json"], true)] {
            let arguments = [as_strs(&words), more.to_vec()].concat();
            is_full(&arguments);
            if is_json {
                let output = command(&arguments).stderr(full()).output().unwrap();
                assert_eq!(output.status.code(), Some(0), "{arguments:?}");
                assert!(!output.stdout.is_empty(), "{arguments:?}");
                place.tidy();
                continue;
            }
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let output = command(&arguments).stdout(writer).output().unwrap();
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(READER_GONE), "{arguments:?}: {errors}");
            assert!(!errors.contains("outlast: "), "{arguments:?}: {errors}");
            place.tidy();
        }
    }
    let bench = ["bench", "words", "--scheme", "none", "--rounds", "1", "--turn-ms", "1"];
    is_full(&[&bench[..], &["--records", "64", "--dir", &place.dir]].concat());
    assert!(names(Path::new(&place.dir)).is_empty(), "no pool is left");
}

/// A command under test with its file arguments: `IN` is read, `OUT` is a file written, `DIR` a
/// directory written to.
const FILES: [(&str, &str); 15] = [
    ("IN", "pool info IN"),
    ("IN", "pool dump IN"),
    ("IN", "pool repair IN"),
    ("IN", "pool grow IN --size 16M"),
    ("IN", "pool checkpoint IN"),
    ("IN", "pool restore POOL --from IN"),
    ("IN", "sim --trace IN"),
    ("IN", "sim --requests IN"),
    ("IN", "sim friendly --config IN"),
    ("OUT", "sim friendly --warm-up 0 --instructions 5000 --save-trace OUT"),
    ("OUT", "sim hash --keys 100 --transactions 900 --scheme undo --save-trace OUT"),
    ("OUT", "sim friendly --warm-up 0 --instructions 120000 --export-requests OUT"),
    ("OUT", "sim friendly --warm-up 0 --instructions 5000 --timeline OUT"),
    ("DIR", "reproduce fwb --figure table1 --out DIR"),
    ("DIR", "bench words --scheme undo --rounds 1 --turn-ms 1 --records 64 --dir DIR"),
];

/// The command with a path in the place of its file.
fn with(place: &Place, kind: &str, line: &str, at: &str) -> Vec<String> {
    let put = |word: &str| match word {
        "POOL" => place.pool.clone(),
        word if word == kind => at.to_owned(),
        word => word.to_owned(),
    };
    line.split(' ').map(put).collect()
}

fn said_of(words: &[String], output: &Output) -> String {
    let errors = text(&output.stderr);
    assert!(!errors.contains("panicked"), "{words:?}: {errors}");
    // Which domain is in force, and how long a run takes, are notes and no mistakes.
    let is_note = |line: &str| {
        line.starts_with("domain ") || line.contains(", scale ") || line.contains(" left: ")
    };
    let lines = errors.lines().filter(|line| !is_note(line));
    let errors: Vec<&str> = lines.collect();
    // A pool or checkpoint that is damaged is not bad input.
    let is_refused = match output.status.code() {
        Some(2) => true,
        Some(1) => words[0] == "pool",
        _ => false,
    };
    assert!(is_refused, "{words:?}: {} {errors:?}", output.status);
    assert_eq!(errors.len(), 1, "{words:?}: {errors:?}");
    assert!(errors[0].starts_with("outlast: "), "{words:?}: {errors:?}");
    errors[0].to_owned()
}

#[test]
fn files_that_are_missing_or_directories_or_of_another_kind_are_refused_by_name() {
    let place = Place::new();
    let (words, empty, absent) = (place.path("words"), place.path("empty"), place.path("no/such"));
    fs::write(&words, "It was a dark and stormy night; the pools were full.\n".repeat(99)).unwrap();
    fs::write(&empty, "").unwrap();
    let before = names(place.directory.path());
    for (kind, line) in FILES {
        // A directory is made where one is missing, as far as that can be.
        let under_a_file = format!("{words}/out");
        let wrong: &[&str] = match kind {
            // An empty machine file changes nothing of the default machine.
            "IN" if line.contains("--config") => &[&absent, &place.dir, &words],
            "IN" => &[&absent, &place.dir, &words, &empty],
            "OUT" => &[&absent, &place.dir, &under_a_file, "/dev/full"],
            _ => &[&words, &under_a_file],
        };
        for at in wrong {
            let arguments = with(&place, kind, line, at);
            let said = said_of(&arguments, &outlast(&as_strs(&arguments)));
            assert!(said.contains(at), "{arguments:?}: {said}");
            assert_eq!(names(place.directory.path()), before, "{arguments:?}");
        }
    }
    good(&["pool", "check", &place.pool]);
}

/// Runs as a user whose files these are not; `None` where the test has not the right to.
fn as_somebody_else(words: &[String]) -> Option<Output> {
    const NOBODY: u32 = 65534;
    let is_root = Command::new("id").arg("-u").output().ok()?.stdout == b"0\n";
    if !is_root {
        return None;
    }
    let mut command = command(&as_strs(words));
    match command.uid(NOBODY).gid(NOBODY).output() {
        Ok(output) => Some(output),
        // The program lies in a folder that other users may not enter.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn files_of_somebody_else_are_refused_and_stay() {
    let place = Place::new();
    fs::set_permissions(place.directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let theirs = place.path("theirs");
    fs::write(&theirs, "0x0 READ 0\n").unwrap();
    fs::set_permissions(&theirs, PermissionsExt::from_mode(0o600)).unwrap();
    fs::set_permissions(&place.pool, PermissionsExt::from_mode(0o600)).unwrap();
    fs::set_permissions(&place.dir, PermissionsExt::from_mode(0o700)).unwrap();
    let before = names(place.directory.path());
    for (kind, line) in FILES {
        let at = match kind {
            "DIR" => &place.dir,
            _ if line.starts_with("pool") => &place.pool,
            _ => &theirs,
        };
        let words = with(&place, kind, line, at);
        let Some(output) = as_somebody_else(&words) else { return };
        let said = said_of(&words, &output);
        assert!(said.contains("ermission"), "{words:?}: {said}");
        assert_eq!(fs::read(&theirs).unwrap(), b"0x0 READ 0\n", "{words:?}");
        assert_eq!(names(place.directory.path()), before, "{words:?}");
    }
}

/// Runs with a limit on the size of files: writing beyond it fails as on a full disk.
fn limited(words: &[String], blocks: u64) -> Output {
    let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_outlast")]);
    shell.args(words).stdin(Stdio::null()).output().unwrap()
}

/// What does not fit leaves the place as it was: nothing where nothing was, the old file where
/// there was one.
#[test]
fn a_file_that_does_not_fit_is_not_left_empty_or_half() {
    let place = Place::new();
    let (new, old) = (place.path("new"), place.path("old"));
    fs::write(&old, "what was there").unwrap();
    let before = names(place.directory.path());
    for (kind, line) in FILES.into_iter().filter(|row| row.0 == "OUT") {
        for at in [&new, &old] {
            let words = with(&place, kind, line, at);
            let said = said_of(&words, &limited(&words, 8));
            assert!(said.contains(at.as_str()) && said.contains("File too large"), "{said}");
            assert_eq!(names(place.directory.path()), before, "{words:?}");
            assert_eq!(fs::read(&old).unwrap(), b"what was there");
        }
        let words = with(&place, kind, line, &new);
        good(&as_strs(&words));
        // Shells count in blocks of 512 or 1024 bytes.
        assert!(fs::metadata(&new).unwrap().len() > 8 * 512, "{words:?}: the limit was not met");
        fs::remove_file(&new).unwrap();
    }
    let report = place.path("report");
    let words = with(&place, "DIR", "reproduce fwb --figure table1 --out DIR", &report);
    let said = said_of(&words, &limited(&words, 1));
    assert!(said.contains("File too large"), "{said}");
    assert_eq!(names(Path::new(&report)), Vec::<String>::new());
}

/// The option that writes a trace does not write it over a pool.
#[test]
fn a_pool_is_not_written_over() {
    let place = Place::new();
    let before = fs::read(&place.pool).unwrap();
    let checkpoint = format!("{}.checkpoint", place.pool);
    for (kind, line) in FILES.into_iter().filter(|row| row.0 == "OUT") {
        for at in [&place.pool, &checkpoint] {
            let words = with(&place, kind, line, at);
            let said = one_line(&as_strs(&words), &outlast(&as_strs(&words)));
            assert!(said.contains("not written over"), "{said}");
        }
    }
    assert!(fs::read(&place.pool).unwrap() == before);
    good(&["pool", "check", &place.pool]);
}
