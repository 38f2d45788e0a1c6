//! The built-in judges: sound programs are silent, and each fault is told in the file's own words.

use std::process::Command;

use outlast_check::{Program, Report};
use tempfile::TempDir;

/// The report of a shell program in `$0`; none where no process can be traced.
fn checked(script: &str, judge: &str, more: impl FnOnce(Program) -> Program) -> Option<Report> {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let program = Program::new("/bin/sh").args(["-c", script]).arg(&data).dir(&data).judge(judge);
    match more(program).check() {
        Ok(report) => Some(report),
        Err(error) if error.to_string().contains("refuses to trace") => {
            eprintln!("left out: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn refused(script: &str, judge: &str) -> String {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let program = Program::new("/bin/sh").args(["-c", script]).arg(&data).dir(&data).judge(judge);
    program.check().unwrap_err().to_string()
}

fn wrongs(report: &Report) -> Vec<String> {
    report.findings().map(|finding| finding.wrong.clone()).collect()
}

/// Replaces a file three times.
fn replacing(sync: &str, sync_dir: &str) -> String {
    format!(
        "for i in 1 2 3; do echo I $i; seq -f \"$i %g\" 1 900 >$0/new; {sync}; mv $0/new $0/file; \
         {sync_dir}; echo A $i; done"
    )
}

#[test]
fn an_atomic_replacement() {
    let sound = replacing("sync $0/new", "sync $0");
    let Some(report) = checked(&sound, "replace=file", |p| p.mutate()) else { return };
    report.assert_sound();
    report.assert_every_sync_is_needed();
    let torn = wrongs(&checked(&replacing(":", "sync $0"), "replace=file", |p| p).unwrap());
    let half = |wrong: &String| wrong.starts_with("file is torn: ") || wrong == "file is empty";
    assert!(torn.iter().any(half), "{torn:?}");
    let lost = wrongs(&checked(&replacing("sync $0/new", ":"), "replace=file", |p| p).unwrap());
    assert!(lost.iter().all(|wrong| wrong.starts_with("lost: ")) && !lost.is_empty(), "{lost:?}");
}

#[test]
fn a_replacement_without_marks_is_whole() {
    let sound = "for i in 1 2; do seq $i 900 >$0/new; sync $0/new; mv $0/new $0/file; done";
    let Some(report) = checked(sound, "replace=file", |p| p) else { return };
    report.assert_sound();
    let torn = "for i in 1 2; do seq $i 900 >$0/new; mv $0/new $0/file; done";
    assert!(!checked(torn, "replace=file", |p| p).unwrap().is_sound());
    // In place nothing is replaced at once.
    let place = "for i in 1 2; do echo I $i; seq $i 900 >$0/file; sync $0/file; echo A $i; done";
    assert!(!checked(place, "replace=file", |p| p).unwrap().is_sound());
}

#[test]
fn contents_that_come_again_are_told_apart_by_what_was_acknowledged() {
    let script = |sync: &str| {
        format!(
            "for i in 1 2 3 4; do echo I $i; echo $((i % 2)) >$0/new; sync $0/new; \
             mv $0/new $0/file; {sync}; echo A $i; done"
        )
    };
    let Some(sound) = checked(&script("sync $0"), "replace=file", |p| p) else { return };
    sound.assert_sound();
    let lost = checked(&script(":"), "replace=file", |p| p).unwrap();
    assert!(wrongs(&lost).iter().any(|wrong| wrong.starts_with("lost: ")), "{lost}");
}

fn appending(sync: &str) -> String {
    format!(
        "sync $0; for i in 1 2 3; do echo I $i; seq -f \"$i %g\" 1 300 >>$0/log; {sync}; echo A $i; done"
    )
}

#[test]
fn an_append_only_log() {
    let sound = appending("sync $0/log $0");
    let Some(report) = checked(&sound, "log=log", |p| p.sector(512)) else { return };
    // Torn records behind the acknowledged ones are the log's own to refuse.
    report.assert_sound();
    let lost = wrongs(&checked(&appending(":"), "log=log", |p| p).unwrap());
    assert!(lost.iter().any(|wrong| wrong.starts_with("lost: ")), "{lost:?}");
    let cut = "for i in 1 2; do echo I $i; echo $i >$0/log; sync $0/log $0; echo A $i; done";
    assert!(refused(cut, "log=log").contains("not only appended to: transaction 2"));
    assert!(refused("echo x >$0/log", "log=log").contains("acknowledges no transaction"));
    assert!(refused(&sound, "log=lgo").contains("never has a file 'lgo'"));
    assert!(refused(&sound, "logs").contains("sqlite, replace=FILE or log=FILE"));
}

/// A log that does not heed a failed sync has another history in each of the runs with a fault.
#[test]
fn a_judge_of_the_run_judges_runs_with_faults() {
    let script = "f=$0/log; sync $0; for i in 1 2; do echo I $i; echo $i >>$f; sync $f $0 2>&-; echo A $i; done";
    let Some(report) = checked(script, "log=log", |p| p.faults()) else { return };
    let failing: Vec<_> = report.findings().filter_map(|finding| finding.fault.clone()).collect();
    assert!(failing.iter().any(|fault| fault.starts_with("EIO")), "{report}");
}

/// A commit log in SQLite, with its numbers in a table of marks if that is wanted.
fn sqlite(sync: &str, marks: &str) -> Option<String> {
    if Command::new("sqlite3").arg("-version").output().is_err() {
        eprintln!("left out: no sqlite3");
        return None;
    }
    let commit = format!("INSERT INTO t VALUES ('$i'); {marks} COMMIT;");
    Some(format!(
        "exec 2>&1; d() {{ sqlite3 $0/db \"PRAGMA journal_mode = DELETE; PRAGMA synchronous = {sync}; $1\" >/dev/null; }}; \
         d 'CREATE TABLE t (x); CREATE TABLE {} (n);'; \
         for i in 1 2; do echo I $i; d \"BEGIN; {commit}\"; echo A $i; done",
        if marks.is_empty() { "other" } else { "outlast_marks" }
    ))
}

#[test]
fn databases_of_sqlite() {
    let Some(extra) = sqlite("EXTRA", "INSERT INTO outlast_marks VALUES ($i);") else { return };
    let Some(report) = checked(&extra, "sqlite", |p| p) else { return };
    report.assert_sound();
    let full = sqlite("FULL", "INSERT INTO outlast_marks VALUES ($i);").unwrap();
    let lost = checked(&full, "sqlite", |p| p).unwrap();
    assert!(wrongs(&lost).iter().any(|wrong| wrong.starts_with("lost: ")), "{lost}");
    // Without a table of marks the last transaction may be lost unseen, but the file is whole or it is not.
    checked(&sqlite("FULL", "").unwrap(), "sqlite", |p| p).unwrap().assert_sound();
    let off = wrongs(&checked(&sqlite("OFF", "").unwrap(), "sqlite", |p| p).unwrap());
    assert!(off.iter().any(|wrong| wrong.starts_with("db: ")), "{off:?}");
    assert!(refused("echo x >$0/file", "sqlite").contains("leaves no SQLite database"));
}
