//! Programs whose behaviour at a loss of power is known, each with the findings that must come out, and no others.
//! Workloads and checks are scripts of the shell, in the words that a user would write.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// The findings of a run of `outlast-check`.
struct Found {
    status: i32,
    document: Value,
}

impl Found {
    /// Class and fault, for findings that `model` allows.
    fn under(&self, model: &str) -> Vec<(String, String)> {
        let findings = self.document["findings"].as_array().unwrap();
        let allowed = findings.iter().filter(|finding| {
            finding["models"].as_array().unwrap().iter().any(|name| name == model)
        });
        let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
        allowed.map(|finding| (text(finding, "class"), text(finding, "wrong"))).collect()
    }

    fn is_silent(&self) -> bool {
        self.status == 0 && self.document["findings"].as_array().unwrap().is_empty()
    }
}

/// Whether programs can be traced here; says so if not.
fn can_trace() -> bool {
    let folder = TempDir::new().unwrap();
    let output = command(folder.path(), "true", "true {}").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("refuses to trace") {
        eprintln!("left out: {said}");
        return false;
    }
    true
}

fn command(folder: &Path, program: &str, check: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast-check"));
    command.current_dir(folder).args(["--json", "--dir", "data", "--budget", "600"]);
    command.args(["--then", check, "--", "/bin/sh", "-c", program]);
    command
}

fn check_with(program: &str, check: &str, more: &[&str]) -> Found {
    let folder = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast-check"));
    command.current_dir(folder.path()).args(["--json", "--dir", "data", "--budget", "600"]);
    command.args(more).args(["--then", check, "--", "/bin/sh", "-c", program]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {said}{}", String::from_utf8_lossy(&output.stdout))
    });
    let found = Found { status: output.status.code().unwrap(), document };
    assert_eq!(found.document["not_measured"].as_array().unwrap().len(), 0, "{}", found.document);
    assert_eq!(found.document["cut_short"], false, "{}", found.document);
    found
}

fn check(program: &str, check: &str) -> Found {
    check_with(program, check, &[])
}

/// Replaces a file by a new one, three times; `@` marks the places of syncs.
fn replacing(before_rename: &str, after_rename: &str) -> String {
    format!(
        "for i in 1 2 3; do echo I $i; seq -f \"$i %g\" 1 400 >data/new; {before_rename}; \
         mv data/new data/file; {after_rename}; echo A $i; done"
    )
}

/// Every line has the number of the file's version, and there are 400.
const VERSION: &str = "[ -e data/file ] || { echo recovered 0; exit; }; read n rest <data/file; \
    [ \"$(grep -c \"^$n \" data/file)\" = 400 ] || { echo torn; exit 1; }; echo recovered $n";

#[test]
fn a_file_replaced_without_any_sync_is_torn_and_lost() {
    if !can_trace() {
        return;
    }
    let found = check(&replacing(":", ":"), VERSION);
    assert_eq!(found.status, 1);
    let linux = found.under("linux");
    assert!(linux.iter().any(|(_, wrong)| wrong == "torn"), "{linux:?}");
    // ext4 writes the new file out before it replaces an old one: what is torn has a new name.
    let ext4 = found.under("ext4");
    assert!(
        ext4.iter().all(|(class, wrong)| wrong != "torn"
            || class != "rename before sync"
            || found.document["findings"]
                .as_array()
                .unwrap()
                .iter()
                .any(|finding| finding["acked"].as_u64().unwrap() <= 1)),
        "{ext4:?}"
    );
    assert!(ext4.iter().any(|(_, wrong)| wrong.starts_with("lost")), "{ext4:?}");
}

#[test]
fn a_file_replaced_after_its_sync_is_lost_until_the_directory_is_synced() {
    if !can_trace() {
        return;
    }
    let found = check(&replacing("sync data/new", ":"), VERSION);
    for model in ["linux", "ext4"] {
        let found = found.under(model);
        assert!(!found.is_empty(), "{model}");
        assert!(
            found
                .iter()
                .all(|(class, wrong)| class == "directory not synced" && wrong.starts_with("lost")),
            "{found:?}"
        );
    }
    assert!(check(&replacing("sync data/new", "sync data"), VERSION).is_silent());
}

#[test]
fn each_sync_of_a_sound_replacement_is_needed() {
    if !can_trace() {
        return;
    }
    let found =
        check_with(&replacing("sync data/new", "sync data"), VERSION, &["--mutate", "fsync"]);
    assert!(found.is_silent(), "{}", found.document);
    let mutants = found.document["mutants"].as_array().unwrap();
    assert_eq!(mutants.len(), 6);
    assert!(mutants.iter().all(|mutant| mutant["wrong"].is_string()), "{mutants:?}");
}

/// Appends records of two lines to a log.
fn appending(sync: &str) -> String {
    format!(
        "for i in 1 2 3 4; do echo I $i; printf 'r%s\\nend\\n' $i >>data/log; {sync}; echo A $i; done"
    )
}

/// A log ends at the first record that is not whole; zeros are none.
const LOG: &str = "[ -e data/log ] || { echo recovered 0; exit; }; n=0; \
    while read a && read b; do [ \"$a $b\" = \"r$((n + 1)) end\" ] || break; n=$((n + 1)); done \
    <data/log 2>/dev/null; echo recovered $n";

#[test]
fn an_append_only_log_keeps_what_was_synced() {
    if !can_trace() {
        return;
    }
    let sound = check(&appending("sync data/log"), LOG);
    assert!(sound.is_silent(), "{}", sound.document);
    let lost = check(&appending(":"), LOG);
    assert_eq!(lost.status, 1);
    assert!(lost.under("ext4").iter().any(|(_, wrong)| wrong.starts_with("lost")));
}

#[test]
fn a_log_that_refuses_zeros_is_found() {
    if !can_trace() {
        return;
    }
    // Sync comes after each second record only, and only that one is acknowledged.
    let program = "for i in 1 2 3 4 5 6; do echo I $i; printf 'r%s\\nend\\n' $i >>data/log; \
        [ $((i % 2)) = 1 ] || { sync data/log; echo A $i; }; done";
    let refuses = format!(
        "[ ! -e data/log ] || [ \"$(tr -d '\\0' <data/log | wc -c)\" = \"$(wc -c <data/log)\" ] || {{ echo zeros; exit 1; }}; {LOG}"
    );
    let found = check(program, &refuses);
    let ext4 = found.under("ext4");
    assert!(
        ext4.iter().any(|(class, wrong)| class == "size without content" && wrong == "zeros"),
        "{ext4:?}"
    );
    assert!(found.under("xfs").iter().all(|(_, wrong)| wrong != "zeros"), "xfs has no zero tails");
    assert!(check(program, LOG).is_silent());
}

/// A program that keeps what it is about to write in an intent file, which its recovery carries out. `sync`
/// stands between the carrying out and the removal of the intent.
fn with_intent(sync: &str) -> (String, String) {
    let carry_out = format!("cat data/intent >data/file; {sync}; rm data/intent; sync data");
    let program = format!(
        "for i in 1 2 3; do echo I $i; seq -f \"$i %g\" 1 400 >data/new; sync data/new; \
         mv data/new data/intent; sync data; echo A $i; {carry_out}; done"
    );
    (program, format!("[ ! -e data/intent ] || {{ {carry_out}; }}; {VERSION}"))
}

#[test]
fn a_crash_in_recovery_is_one_more_crash() {
    if !can_trace() {
        return;
    }
    // Sound while it runs, but recovery does not sync what it repairs.
    let (program, _) = with_intent("sync data/file");
    let (_, careless) = with_intent(":");
    let once = check(&program, &careless);
    assert!(once.is_silent(), "{}", once.document);
    let twice = check_with(&program, &careless, &["--twice"]);
    assert_eq!(twice.status, 1, "{}", twice.document);
    let found = twice.under("linux");
    assert!(found.iter().all(|(class, _)| class == "recovery not repeatable"), "{found:?}");
    assert!(twice.document["findings"][0]["first_crash"].is_string());
    let (program, careful) = with_intent("sync data/file");
    let sound = check_with(&program, &careful, &["--twice", "--model", "ext4"]);
    assert!(sound.is_silent(), "{}", sound.document);
    assert!(sound.document["recoveries_crashed"].as_u64().unwrap() > 0);
}

#[test]
fn a_sync_that_fails_is_to_be_heeded() {
    if !can_trace() {
        return;
    }
    // One sync covers two records; a failed one is tried again, as if that would write its pages.
    let program = |fails: &str| {
        format!(
            "for i in 1 2 3; do echo I $i; printf 'r%s\\nend\\n' $i >>data/log; \
             sync data/log 2>/dev/null || {fails}; echo A $i; done"
        )
    };
    let again = check_with(&program("sync data/log"), LOG, &["--faults"]);
    assert_eq!(again.status, 1, "{}", again.document);
    let findings = again.document["findings"].as_array().unwrap();
    assert!(
        findings.iter().any(|finding| finding["class"] == "error not heeded"
            && finding["fault"].as_str().unwrap().starts_with("EIO from fsync")),
        "{findings:?}"
    );
    let stops = check_with(&program("exit 1"), LOG, &["--faults"]);
    assert!(
        stops.document["findings"]
            .as_array()
            .unwrap()
            .iter()
            .all(|finding| { !finding["fault"].as_str().unwrap().starts_with("EIO") }),
        "{}",
        stops.document
    );
    assert!(stops.document["faults_crashed"].as_u64().unwrap() >= 6);
}

#[test]
fn a_finding_is_replayed_by_its_command_and_a_run_is_kept_and_shown() {
    if !can_trace() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlast-check"));
        let output = command.current_dir(folder.path()).args(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    let program = replacing("sync data/new", ":");
    let (status, told, _) = run(&[
        "--dir",
        "data",
        "--save",
        "it is.run",
        "--junit",
        "j.xml",
        "--sarif",
        "s.json",
        "--then",
        VERSION,
        "--",
        "/bin/sh",
        "-c",
        &program,
    ]);
    assert_eq!(status, 1, "{told}");
    let replay = told.lines().find_map(|line| line.trim().strip_prefix("replay")).unwrap();
    let replay = replay.trim().replacen("outlast check", env!("CARGO_BIN_EXE_outlast-check"), 1);
    let output =
        Command::new("/bin/sh").current_dir(folder.path()).args(["-c", &replay]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        output.status.code(),
        Some(1),
        "{replay}: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.contains("lost: "), "{said}");
    assert!(folder.path().join("state").is_dir());
    let junit = fs::read_to_string(folder.path().join("j.xml")).unwrap();
    assert!(junit.contains("<failure type=\"directory not synced\" message=\"lost: "), "{junit}");
    let sarif: Value =
        serde_json::from_slice(&fs::read(folder.path().join("s.json")).unwrap()).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "directory-not-synced");
    // Shown, and searched again without the program.
    let (status, shown, _) = run(&["show", "it is.run"]);
    assert_eq!(status, 0);
    assert!(shown.contains("rename") && shown.contains("acknowledges 3"), "{shown}");
    let (status, again, _) = run(&["--run", "it is.run", "--then", VERSION]);
    assert_eq!(status, 1);
    assert!(again.contains("directory not synced"), "{again}");
    // Every byte counts.
    let file = folder.path().join("it is.run");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let (status, _, said) = run(&["show", "it is.run"]);
    assert_eq!(status, 2);
    assert!(said.contains("damaged captured run"), "{said}");
}

/// Content that recovery reads counts, also where no size tells of it; content that it does not read needs
/// no states.
#[test]
fn states_are_of_what_recovery_reads() {
    if !can_trace() {
        return;
    }
    let program = "printf '0\\n' >data/v; printf '0\\n' >data/notes; sync data/v data/notes data; \
        for i in 1 2 3; do echo I $i; printf '%s\\n' $i | dd of=data/notes conv=notrunc status=none; \
        printf '%s\\n' $i | dd of=data/v conv=notrunc status=none; echo A $i; done";
    let check =
        "[ -e data/v ] || { echo recovered 0; exit; }; read n <data/v; echo recovered ${n:-0}";
    let found = check_with(program, check, &[]);
    assert!(
        found.under("ext4").iter().any(|(_, wrong)| wrong.starts_with("lost: ")),
        "{}",
        found.document
    );
    let all = check_with(program, check, &["--all-data"]);
    let distinct = |found: &Found| found.document["distinct"].as_u64().unwrap();
    assert!(distinct(&found) < distinct(&all), "{} of {}", distinct(&found), distinct(&all));
}

/// Runs SQLite with a journal mode and a setting of `synchronous`; none where it is missing.
fn sqlite(mode: &str, synchronous: &str, more: &[&str]) -> Option<Found> {
    let there = Command::new("sqlite3").arg("--version").output().is_ok()
        && Command::new("stdbuf").arg("--version").output().is_ok();
    if !there {
        eprintln!("left out: sqlite3 or stdbuf is missing (apt-get install sqlite3 coreutils)");
        return None;
    }
    if !can_trace() {
        return None;
    }
    let mut script = format!(
        "pragma journal_mode={mode};\npragma synchronous={synchronous};\n\
         create table if not exists t(k integer primary key, v integer);\n"
    );
    for number in 1..=2 {
        script += &format!(
            ".print I {number}\nbegin;\ninsert or replace into t values (0,{number}),(1,{number});\n\
             insert into t values ({}, {number});\ncommit;\n.print A {number}\n",
            1000 + number
        );
    }
    let program = format!("stdbuf -oL sqlite3 -batch data/t.db <<'END'\n{script}END\n");
    // Each transaction is whole: its number stands in both first rows and in a row of its own.
    let check_text = "[ -e data/t.db ] || { echo recovered 0; exit; }; \
        r=$(sqlite3 -batch data/t.db 'pragma integrity_check' 2>&1) || { echo unopenable; exit 1; }; \
        [ \"$r\" = ok ] || { echo malformed; exit 1; }; \
        t=$(sqlite3 -batch data/t.db 'select count(*) from sqlite_master'); \
        [ \"$t\" = 1 ] || { echo recovered 0; exit; }; \
        sqlite3 -batch data/t.db \"select case when count(distinct case when k < 1000 then v end) > 1 \
        or count(case when k >= 1000 then 1 end) <> coalesce(max(v), 0) then 'torn' \
        else 'recovered ' || coalesce(max(v), 0) end from t\" | grep recovered";
    Some(check_with(&program, check_text, more))
}

#[test]
fn sqlite_with_all_its_syncs_loses_nothing() {
    for (mode, synchronous, more) in [
        ("delete", "extra", &[][..]),
        ("truncate", "full", &[]),
        ("wal", "full", &["--sector", "512", "--model", "ext4"]),
    ] {
        let Some(found) = sqlite(mode, synchronous, more) else { return };
        assert!(found.is_silent(), "{mode} {synchronous}: {}", found.document);
    }
}

#[test]
fn sqlite_full_may_lose_the_last_transaction_with_its_journal() {
    let Some(found) = sqlite("delete", "full", &[]) else { return };
    for model in ["linux", "ext4"] {
        let found = found.under(model);
        assert!(!found.is_empty());
        assert!(
            found
                .iter()
                .all(|(class, wrong)| class == "directory not synced" && wrong.starts_with("lost")),
            "{model}: {found:?}"
        );
    }
}

#[test]
fn sqlite_off_may_leave_a_broken_database() {
    let Some(found) = sqlite("delete", "off", &["--failures", "60"]) else { return };
    for model in ["linux", "ext4"] {
        let found = found.under(model);
        assert!(
            found.iter().any(|(_, wrong)| wrong == "malformed" || wrong == "unopenable"),
            "{found:?}"
        );
    }
}

#[test]
fn bad_input_is_one_line_and_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlast-check"));
        let output = command.current_dir(folder.path()).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = said.lines().last().unwrap_or_default().to_owned();
        (output.status.code().unwrap(), last)
    };
    for (arguments, right) in [
        (&["--dir", "d", "--then", "true {}", "--", "no-such-program-here"][..], "no program"),
        (&["--dir", "d", "--then", "true {}", "--model", "zfs", "--", "true"], "no model 'zfs'"),
        (&["--dir", "d", "--then", "true {}", "--sector", "8", "--", "true"], "512 or 4096"),
        (&["--dir", "d", "--then", "true", "--", "true"], "names no directory"),
        (&["--dir", "d", "--then", "true {}", "--acked", "A", "--", "true"], "needs one {}"),
    ] {
        let (status, said) = run(arguments);
        assert_eq!(status, 2, "{arguments:?}: {said}");
        assert!(said.contains(right), "{arguments:?}: {said}");
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "{arguments:?} left a file");
    }
    if can_trace() {
        let (status, said) = run(&["--dir", "d", "--then", "false {}", "--", "touch", "d/x"]);
        assert_eq!(status, 2);
        assert!(said.contains("fails without any crash"), "{said}");
    }
}

/// The programs append a number to a log in two steps, the sound one with a sync behind them.
#[test]
fn parts_of_a_check_are_together_the_whole() {
    if !can_trace() {
        return;
    }
    let program = |sync: &str| {
        format!(
            "for n in 1 2; do echo I $n; printf '%s\\n' $n >> data/log; printf x >> data/{sync}; sync data/log; echo A $n; done"
        )
    };
    let check = "n=$(grep -c . data/log 2>/dev/null); [ ${n:-0} -ge $OUTLAST_ACKED ] && [ $(cat data/side | wc -c) -ge $OUTLAST_ACKED ]";
    for (program, fails) in [(program("side"), true), (program("side; sync data/side"), false)] {
        let folder = TempDir::new().unwrap();
        let run = |more: &[&str], program: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_outlast-check"));
            command
                .current_dir(folder.path())
                .args(["--json", "--then", check])
                .args(more)
                .args(program);
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let document: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|error| panic!("{error}: {said}"));
            document
        };
        let program = ["--", "/bin/sh", "-c", &program];
        let captured = run(&["--dir", "data", "--save", "run", "--capture"], &program);
        assert_eq!(captured["acknowledged"], 2, "{captured}");
        let faults = |documents: &[Value]| {
            let mut all: Vec<(String, String)> = Vec::new();
            for finding in documents.iter().flat_map(|found| found["findings"].as_array().unwrap())
            {
                let text = |key: &str| finding[key].as_str().unwrap().to_owned();
                // One fault of several records is told of any of them.
                let lost = text("lost").replace(|letter: char| letter.is_ascii_digit(), "#");
                all.push((text("class"), lost));
            }
            all.sort();
            all.dedup();
            all
        };
        let whole = run(&["--run", "run"], &[]);
        assert_eq!(!faults(std::slice::from_ref(&whole)).is_empty(), fails, "{whole}");
        for of in [1, 3] {
            let parts: Vec<Value> = (1..=of)
                .map(|nth| run(&["--run", "run", "--part", &format!("{nth}/{of}")], &[]))
                .collect();
            let sum = |key: &str| parts.iter().map(|part| part[key].as_u64().unwrap()).sum::<u64>();
            assert_eq!(sum("states"), whole["states"].as_u64().unwrap(), "{of} parts");
            assert_eq!(parts[0]["moments"], whole["moments"]);
            assert_eq!(faults(&parts), faults(std::slice::from_ref(&whole)), "{of} parts");
            // Where something fails, making findings small checks further states.
            if !fails {
                assert_eq!(sum("distinct"), whole["distinct"].as_u64().unwrap(), "{of} parts");
            }
        }
    }
}
