//! The cost of a check. `cost [ROUNDS]` runs a program that writes 10,000 pages with a sync each ten, plain and
//! captured in turns, in a folder below the one that `TMPDIR` gives.
//!
//! `cost server [ROUNDS]` crashes 50 transactions of SQLite in WAL mode and has each state judged by one server that
//! opens it, asks for its integrity and its rows, and has the same server open the same states in a loop, in turns, both
//! on one processor's worth of checks. It wants `python3` with SQLite. Medians are printed with their quartiles.

use std::error::Error;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use outlast_check::capture::{Options, capture, marks::Marks};
use outlast_check::judge::{Checker, scratch};
use outlast_check::models;
use outlast_check::order::{Grain, Ordered};
use outlast_check::search::{Limits, Search, bases};
use outlast_measure::{Rounds, Spread};

const WRITES: u64 = 10_000;
const WRITES_A_SYNC: u64 = 10;
const PAGES: u64 = 2_000;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    if let [_, word, file] = &words[..]
        && word == "write"
    {
        return write(Path::new(file));
    }
    if let [_, word, rest @ ..] = &words[..]
        && word == "server"
    {
        return server(rest.first().map_or(Ok(5), |word| word.parse())?);
    }
    let rounds: u32 = words.get(1).map_or(Ok(7), |word| word.parse())?;
    let program = std::env::current_exe()?;
    let millis = Rounds::new(rounds, 1).run(2, |captured, _| -> Result<f64, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("data");
        let command = vec![program.clone().into(), "write".into(), file.into()];
        let began = Instant::now();
        if captured == 1 {
            let run = capture(&options(folder.path(), command))?;
            assert!(run.calls.len() as u64 > WRITES, "calls are missing");
        } else {
            let status = Command::new(&command[0]).args(&command[1..]).status()?;
            assert!(status.success(), "the program has failed: {status}");
        }
        Ok(began.elapsed().as_secs_f64() * 1e3)
    })?;
    let [plain, captured] = &millis[..] else { unreachable!("two subjects") };
    print(&[("captured", captured), ("plain", plain)], " ms");
    Ok(())
}

/// The spread of each, and of the ratio of the first to the second, round by round.
fn print(turns: &[(&str, &[f64])], unit: &str) {
    let spread = |values: &mut dyn Iterator<Item = f64>| Spread::of(values).expect("no rounds");
    for (name, turns) in turns {
        println!("{name:9} {:.0}{unit}", spread(&mut turns.iter().copied()));
    }
    let mut ratios = turns[0].1.iter().zip(turns[1].1).map(|(first, second)| first / second);
    println!("ratio     {:.2}", spread(&mut ratios));
}

fn write(file: &Path) -> Result<(), Box<dyn Error>> {
    let file = OpenOptions::new().create(true).write(true).truncate(true).open(file)?;
    let mut page = [0; 4096];
    for number in 0..WRITES {
        page.fill(number as u8);
        file.write_all_at(&page, number % PAGES * page.len() as u64)?;
        if number % WRITES_A_SYNC == WRITES_A_SYNC - 1 {
            file.sync_all()?;
        }
    }
    Ok(())
}

const TRANSACTIONS: u32 = 50;

const WRITER: &str = r#"
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1] + "/db", isolation_level=None)
database.execute("pragma journal_mode=wal")
database.execute("pragma synchronous=full")
database.execute("create table rows (number integer primary key, text)")
for number in range(1, int(sys.argv[2]) + 1):
    print("I", number, flush=True)
    database.execute("insert into rows values (?, ?)", (number, "row %d" % number * 20))
    print("A", number, flush=True)
os._exit(0)
"#;

const OPENER: &str = r#"
import sqlite3, sys
def recovered(folder):
    database = sqlite3.connect(folder + "/db")
    if database.execute("pragma integrity_check").fetchone()[0] != "ok":
        return "bad integrity"
    if not database.execute("select 1 from sqlite_master").fetchone():
        return "recovered 0"
    count, last = database.execute("select count(*), max(number) from rows").fetchone()
    database.close()
    return "recovered %d" % count if count == (last or 0) else "bad rows are missing"
for line in sys.stdin:
    try:
        print(recovered(line.rstrip("\n").split("\t")[0]), flush=True)
    except sqlite3.Error as error:
        print("bad", error, flush=True)
"#;

fn server(rounds: u32) -> Result<(), Box<dyn Error>> {
    let sqlite = Command::new("python3").args(["-c", "import sqlite3"]).status();
    if !sqlite.is_ok_and(|status| status.success()) {
        println!("missing: python3 with SQLite");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let (writer, opener) = (folder.path().join("writer.py"), folder.path().join("opener.py"));
    fs::write(&writer, WRITER)?;
    fs::write(&opener, OPENER)?;
    let dir = folder.path().join("data");
    let count = TRANSACTIONS.to_string();
    let run = capture(&options(
        &dir,
        vec!["python3".into(), writer.into(), dir.clone().into(), count.into()],
    ))?;
    let grain = Grain { bytes: 4096 };
    let model = |name| models::find(name).map(|model| Ordered::new(&run, model, grain, None));
    let ordered = [model("linux")?, model("ext4")?];
    let checker = Checker::Server(format!("python3 {}", opener.display()));
    let limits = Limits {
        time: Duration::from_secs(600),
        check_time: Duration::from_secs(60),
        jobs: 1,
        seed: 0,
        write: None,
    };
    let (mut ours, mut plain, mut asked) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut search = Search::new(&run, &checker, &dir, limits.clone());
        search.learn_reads(&ordered[0])?;
        let began = Instant::now();
        let failures = search.search(&ordered, &|_, _| true, &mut |_, _| {}, usize::MAX)?;
        assert!(failures.is_empty(), "SQLite loses nothing: {failures:?}");
        ours.push(search.coverage.distinct as f64 / began.elapsed().as_secs_f64());

        // The same states, laid out before the clock starts.
        let states = tempfile::tempdir_in(scratch())?;
        let bases: Vec<_> = ordered.iter().map(|model| bases(&run, model)).collect();
        let mut list_of = String::new();
        for (number, state) in search.passed().iter().enumerate() {
            let place = states.path().join(number.to_string());
            fs::create_dir(&place)?;
            bases[state.model][state.moment]
                .tree(&ordered[state.model], &state.kept)
                .write_to(&place)?;
            list_of.push_str(&format!("{}\t0\t0\n", place.display()));
        }
        let list = folder.path().join("list");
        fs::write(&list, list_of)?;
        let began = Instant::now();
        let mut child = Command::new("python3")
            .arg(&opener)
            .stdin(fs::File::open(&list)?)
            .stdout(Stdio::null())
            .spawn()?;
        assert!(child.wait()?.success(), "the loop has failed");
        plain.push(search.passed().len() as f64 / began.elapsed().as_secs_f64());

        // Once more as left by the loop would be less work: laid out anew.
        let states = tempfile::tempdir_in(scratch())?;
        let place = states.path().join("state");
        let mut child = Command::new("python3")
            .arg(&opener)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the server has no pipes".into());
        };
        let mut output = BufReader::new(output);
        let mut time = Duration::ZERO;
        for state in search.passed() {
            fs::create_dir(&place)?;
            bases[state.model][state.moment]
                .tree(&ordered[state.model], &state.kept)
                .write_to(&place)?;
            let began = Instant::now();
            writeln!(input, "{}\t0\t0", place.display())?;
            output.read_line(&mut String::new())?;
            time += began.elapsed();
            fs::remove_dir_all(&place)?;
        }
        drop(input);
        assert!(child.wait()?.success(), "the server has failed");
        asked.push(search.passed().len() as f64 / time.as_secs_f64());
    }
    println!("states of {TRANSACTIONS} transactions of SQLite in WAL mode, a second");
    print(&[("judged", &ours), ("opened", &plain), ("asked", &asked)], "");
    Ok(())
}

fn options(dir: &Path, command: Vec<OsString>) -> Options {
    Options {
        dir: dir.to_owned(),
        command,
        folder: None,
        marks: Marks::default(),
        time: Duration::from_secs(600),
        reads: false,
        exact: false,
        fault: None,
    }
}
