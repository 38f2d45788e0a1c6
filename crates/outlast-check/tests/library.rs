//! The check from a test: binaries and closures, with what they are told.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use outlast_check::files::CheckError;
use outlast_check::serve::State;
use outlast_check::{Program, Report, closure, marks};
use tempfile::TempDir;

/// The report, or none where no process can be traced.
fn checked(result: Result<Report, CheckError>) -> Option<Report> {
    match result {
        Ok(report) => Some(report),
        Err(error) if error.to_string().contains("refuses to trace") => {
            eprintln!("left out: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Appends three records to a log, each synced if that is wanted.
fn appending(dir: &Path, synced: bool) -> io::Result<()> {
    let mut log = File::options().append(true).create(true).open(dir.join("log"))?;
    File::open(dir)?.sync_all()?;
    for number in 1..=3 {
        marks::issued(number);
        writeln!(log, "record {number}")?;
        if synced {
            log.sync_data()?;
        }
        marks::acked(number);
    }
    Ok(())
}

/// The whole records at the front of a log.
fn records(state: &State) -> u64 {
    let text = fs::read_to_string(state.dir.join("log")).unwrap_or_default();
    let whole = |(index, line): &(usize, &str)| *line == format!("record {}", index + 1);
    text.lines().enumerate().take_while(whole).count() as u64
}

#[test]
fn a_binary_in_three_lines() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let append = "for i in 1 2; do echo I $i; echo r$i >>$0/log; sync $0/log $0; echo A $i; done";
    let count = "echo recovered $(grep -c r $OUTLAST_DIR/log)";
    let program = Program::new("/bin/sh").args(["-c", append]).arg(&data).dir(&data).then(count);
    let Some(report) = checked(program.clone().mutate().check()) else { return };
    report.assert_sound();
    assert_eq!(report.run.counts().2, 2);
    assert_eq!(report.json()["acknowledged"], 2);
    assert!(report.junit().contains("failures=\"0\""));
    assert!(!report.mutants.is_empty());
    let wrong = program.models(["linux", "ext5"]).check().unwrap_err().to_string();
    assert!(wrong.contains("no model 'ext5'"), "{wrong}");
}

#[test]
fn a_finding_has_a_command_that_replays_it() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let append = "for i in 1 2; do echo I $i; echo r$i >>$0/log; echo A $i; done";
    let count = "echo recovered $(cat $OUTLAST_DIR/log | grep -c r)";
    let program = Program::new("/bin/sh").args(["-c", append]).arg(&data).dir(&data).then(count);
    let Some(report) = checked(program.save(folder.path().join("kept.run")).check()) else {
        return;
    };
    assert!(!report.is_sound());
    let case = &report.cases[0];
    let kept = folder.path().join("state");
    report.keep(case, &kept).unwrap();
    let replay = report.replay(case).unwrap().replace("--keep state", "--keep again");
    let replay = replay.replace("outlast check", env!("CARGO_BIN_EXE_outlast-check"));
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", &replay])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(&case.finding.wrong), "{said}");
    let log = |folder: &Path| fs::read(folder.join("log")).ok();
    assert_eq!(log(&folder.path().join("again")), log(&kept));
    assert_eq!(report.sarif()["runs"][0]["results"].as_array().unwrap().len(), report.cases.len());
}

#[test]
fn closures_in_copies_of_the_test() {
    let lost = closure(|dir: &Path| appending(dir, false), records).check();
    let Some(lost) = checked(lost) else { return };
    assert!(lost.findings().any(|finding| finding.wrong.starts_with("lost")), "{lost}");
    assert_eq!(lost.run.counts().2, 3, "marks come from the copy");
}

#[test]
fn each_call_of_a_test_has_its_own_copies() {
    let whole = closure(|dir: &Path| appending(dir, true), records).check();
    let Some(whole) = checked(whole) else { return };
    whole.assert_sound();
    let torn = closure(|dir: &Path| appending(dir, true), records)
        .with(|program| program.mutate().sector(512).models(["linux", "xfs"]))
        .check();
    let torn = checked(torn).unwrap();
    torn.assert_sound();
    assert_eq!(torn.ordered.len(), 2);
    // A sync of each record; that of the directory keeps the name, which `fdatasync` of a new file keeps, too.
    let needed = torn.mutants.iter().filter(|mutant| mutant.killed.is_some()).count();
    assert_eq!((needed, torn.mutants.len()), (3, 4), "{torn}");
}

#[test]
fn a_check_that_panics_says_so() {
    let check = |state: &State| {
        let text = fs::read_to_string(state.dir.join("log")).unwrap_or_default();
        assert!(!text.contains('\0'), "zeros in the log");
    };
    let Some(report) = checked(closure(|dir: &Path| appending(dir, true), check).check()) else {
        return;
    };
    let wrong: Vec<&str> = report.findings().map(|finding| finding.wrong.as_str()).collect();
    assert!(wrong.iter().any(|wrong| wrong.contains("panicked: zeros in the log")), "{wrong:?}");
}

#[test]
fn faults_and_recoveries_of_closures_are_crashed() {
    let heedless = |dir: &Path| {
        let mut log = File::options().append(true).create(true).open(dir.join("log"))?;
        File::open(dir)?.sync_all()?;
        for number in 1..=2 {
            marks::issued(number);
            writeln!(log, "record {number}")?;
            let _ = log.sync_data();
            marks::acked(number);
        }
        Ok::<(), io::Error>(())
    };
    let repairing = |state: &State| {
        let found = records(state);
        let text: String = (1..=found).map(|number| format!("record {number}\n")).collect();
        fs::write(state.dir.join("new"), text)?;
        File::open(state.dir.join("new"))?.sync_all()?;
        fs::rename(state.dir.join("new"), state.dir.join("log"))?;
        Ok::<u64, io::Error>(found)
    };
    let checked_twice =
        closure(heedless, repairing).with(|program| program.faults().twice()).check();
    let Some(report) = checked(checked_twice) else { return };
    assert!(report.faults > 0 && report.recoveries > 0, "{report}");
    let failing: Vec<_> = report.findings().filter_map(|finding| finding.fault.clone()).collect();
    assert!(failing.iter().any(|fault| fault.starts_with("EIO")), "{report}");
}

#[test]
fn a_closure_that_fails_is_told() {
    let run = |_: &Path| Err::<(), _>(io::Error::other("no such luck"));
    let error = closure(run, |_: &State| ()).check().err().map(|error| error.to_string());
    let error = error.unwrap_or_default();
    assert!(error.contains("the first closure ended with status 1"), "{error}");
    let elsewhere =
        closure(|_: &Path| Ok::<(), io::Error>(()), |_: &State| ()).named("no_such_test");
    let error = elsewhere.check().unwrap_err().to_string();
    assert!(error.contains("'no_such_test' alone does not come to it"), "{error}");
}

#[test]
fn marks_outside_of_the_checker_are_silent() {
    // A file at the place of the descriptor is none of ours.
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("precious");
    fs::write(&file, "bytes").unwrap();
    marks::issued(1);
    marks::acked(1);
    assert_eq!(fs::read_to_string(file).unwrap(), "bytes");
}

/// The first opening of a state harms what the second one needs.
#[test]
fn each_state_is_opened_twice() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("data");
    let check = "[ -e {}/b ] && exit 0; [ -e {}/opened ] && exit 1; touch {}/opened";
    let checked = outlast_check::Program::new("sh")
        .args(["-c", "echo a >$0/a; echo b >$0/b"])
        .arg(dir.as_os_str())
        .dir(&dir)
        .then(check)
        .check();
    match checked {
        Ok(report) => {
            let twice = "opened a second time: status 1";
            assert!(report.findings().any(|finding| finding.wrong == twice), "{report}");
        }
        Err(error) => {
            assert!(error.to_string().contains("refuses to trace"), "{error}");
            println!("skipped: {error}");
        }
    }
}

/// A state whose recovery is right, and in which the next record harms.
#[test]
fn each_recovered_state_is_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("data");
    let program = outlast_check::Program::new("sh")
        .args(["-c", "echo a >$0/a; echo b >$0/b"])
        .arg(dir.as_os_str())
        .dir(&dir)
        .write("[ -e {}/b ] || touch {}/harmed");
    let judged = program.clone().judge("log=a").check().unwrap_err().to_string();
    assert!(judged.contains("goes with a check of one's own"), "{judged}");
    match program.then("[ ! -e {}/harmed ]").check() {
        Ok(report) => {
            let found = report.findings().any(|finding| finding.wrong == "written to: status 1");
            assert!(found, "{report}");
        }
        Err(error) => {
            assert!(error.to_string().contains("refuses to trace"), "{error}");
            println!("skipped: {error}");
        }
    }
}
