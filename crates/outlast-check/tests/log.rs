//! An append-only log in C with planted faults, each by its number, and a sound twin of each: every fault is found with its
//! class and both of its calls, and every twin is silent.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

/// A planted fault: a number of `log.c`, and one finding that tells it.
struct Planted {
    number: u32,
    class: &'static str,
    /// The beginning of the lost call.
    lost: &'static str,
    /// The beginning of the first kept call or acknowledgement after it.
    kept: &'static str,
    more: &'static [&'static str],
    /// Classes of other findings that the fault leads to.
    others: &'static [&'static str],
}

const fn planted(
    number: u32,
    class: &'static str,
    lost: &'static str,
    kept: &'static str,
) -> Planted {
    Planted { number, class, lost, kept, more: &[], others: &[] }
}

const RECORD: &str = "pwrite64 data/seg-";
const ACK: &str = "acknowledges ";
const RENAME: &str = "renameat data/MANIFEST.new to data/MANIFEST";
const CREATION: &str = "creation not restartable";

const PLANTED: &[Planted] = &[
    // No sync of a segment.
    planted(1, "file not synced", RECORD, ACK),
    // A record that is a name alone, without a sync of its directory.
    planted(2, "directory not synced", "openat data/mark-2 with O_CREAT", ACK),
    // The rename of the manifest may be lost, the unlinks of segments behind it kept.
    planted(3, "directory not synced", RENAME, "unlinkat data/seg-1"),
    // The sync comes after the acknowledgement.
    planted(4, "acknowledged too early", RECORD, ACK),
    // Record and valid length of the segment, one sync for both.
    planted(5, "data and commit mark under one sync", RECORD, "pwrite64 data/seg-1, 8 bytes at 0"),
    // The manifest gets its name before its content.
    Planted {
        others: &[CREATION],
        ..planted(6, "rename before sync", "pwrite64 data/MANIFEST.new", RENAME)
    },
    // A record's size without its content is refused.
    planted(7, "size without content", RECORD, RECORD),
    // A record without a checksum: a torn one is taken.
    planted(8, "data and commit mark under one sync", RECORD, RECORD),
    // Segments are unlinked, and the manifest names their base, before that is durable.
    Planted {
        others: &["directory not synced"],
        ..planted(9, "file not synced", "pwrite64 data/base-3", RENAME)
    },
    // Recovery replaces a segment by a copy that is not durable.
    Planted {
        more: &["--twice"],
        ..planted(
            10,
            "recovery not repeatable",
            "pwrite64 data/seg.new",
            "renameat data/seg.new to data/seg-",
        )
    },
    // The manifest of a new log names a segment that may not be there.
    planted(11, CREATION, "openat data/seg-1 with O_CREAT", RENAME),
    // A failed sync is ignored.
    Planted { more: &["--faults"], ..planted(12, "error not heeded", RECORD, ACK) },
    // The last segment's descriptor is synced instead of this one's.
    planted(13, "file not synced", RECORD, ACK),
    // `sync_file_range` in place of `fsync`.
    planted(14, "file not synced", RECORD, ACK),
    // `msync` with `MS_ASYNC`.
    planted(15, "file not synced", "stores through a mapping of data/seg-", ACK),
];

/// The log, compiled; a line says so if there is no compiler.
fn log(folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/log/log.c");
    let binary = folder.join("log");
    let compiled = Command::new("cc").arg("-O1").arg("-o").arg(&binary).arg(source).output();
    match compiled {
        Ok(output) if output.status.success() => Some(binary),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            eprintln!("left out: cc is missing ({error}; Debian: apt-get install gcc)");
            None
        }
    }
}

/// The findings of a run of the log; nothing if programs cannot be traced here.
fn findings(log: &Path, number: i32, sector: &str, more: &[&str]) -> Option<Vec<Value>> {
    let folder = TempDir::new().unwrap();
    let number = number.to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast-check"));
    command.current_dir(folder.path()).args(["--json", "--dir", "data", "--budget", "600"]);
    command.args(["--jobs", "1", "--sector", sector]).args(more);
    command.args(["--then", &format!("{} recover {number} {{}}", log.display()), "--"]);
    command.arg(log).args(["run", &number, "data"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("refuses to trace") {
        eprintln!("left out: {said}");
        return None;
    }
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(document["ended"], "status 0");
    assert_eq!(document["cut_short"], false, "{document}");
    assert_eq!(document["not_measured"].as_array().unwrap().len(), 0, "{document}");
    Some(document["findings"].as_array().unwrap().clone())
}

/// Runs `each` for all planted faults and both sizes of sectors, two at a time.
fn for_each(each: impl Fn(&Planted, &str) + Sync) {
    let mut work: Vec<(&Planted, &str)> =
        PLANTED.iter().flat_map(|fault| [(fault, "4096"), (fault, "512")]).collect();
    work.reverse();
    let work = Mutex::new(work);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = work.lock().unwrap().pop();
                    let Some((fault, sector)) = next else { return };
                    each(fault, sector);
                }
            });
        }
    });
}

#[test]
fn each_planted_fault_is_found_with_its_class_and_both_calls() {
    let folder = TempDir::new().unwrap();
    let Some(log) = log(folder.path()) else { return };
    for_each(|fault, sector| {
        let number = i32::try_from(fault.number).unwrap();
        let Some(found) = findings(&log, number, sector, fault.more) else { return };
        let begins = |finding: &Value, key: &str, text: &str| {
            finding[key].as_str().is_some_and(|call| call.starts_with(text))
        };
        assert!(
            found.iter().any(|finding| finding["class"] == fault.class
                && begins(finding, "lost", fault.lost)
                && begins(finding, "kept", fault.kept)),
            "{number}, {sector}: {found:#?}"
        );
        let expected =
            |class: &Value| class == fault.class || fault.others.iter().any(|other| class == other);
        assert!(
            found.iter().all(|finding| expected(&finding["class"])),
            "{number}, {sector}: {found:#?}"
        );
    });
}

#[test]
fn each_sound_twin_is_silent() {
    let folder = TempDir::new().unwrap();
    let Some(log) = log(folder.path()) else { return };
    for_each(|fault, sector| {
        let number = -i32::try_from(fault.number).unwrap();
        let Some(found) = findings(&log, number, sector, fault.more) else { return };
        assert!(found.is_empty(), "{number}, {sector}: {found:#?}");
    });
}
