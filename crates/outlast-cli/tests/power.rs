//! A pool of ours as an unmodified program: no loss of power harms it, and each sync that is left out is missed.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use outlast::medium::MapOptions;
use outlast::{Domain, Pool};
use serde_json::Value;
use tempfile::TempDir;

const NAME: &str = "a_pool_in_domain_page_survives_every_loss_of_power";

/// Says which part of the test a process of it plays.
const PART: &str = "OUTLAST_TEST_POWER";

/// A line on standard output, which the harness of tests shares.
fn say(text: &str) {
    let mut output = std::io::stdout();
    output.write_all(format!("\n{text}\n").as_bytes()).unwrap();
    output.flush().unwrap();
}

fn open(path: &Path, domain: Option<Domain>) -> Result<Pool, Box<dyn Error>> {
    let (create, open) = Default::default();
    let map = MapOptions { domain, ..Default::default() };
    Ok(match path.exists() {
        true => Pool::open_with(path, &open, &map)?,
        false => Pool::create_with(path, 4 << 20, &create, &open, &map)?,
    })
}

/// Transactions begun in the pool so far are a number in its root; the next one counts it up.
fn count(pool: &Pool, up: bool) -> Result<u64, Box<dyn Error>> {
    pool.typed(|pool| {
        let mut lane = pool.lane()?;
        Ok(lane.run(|tx| {
            let root = tx.root_or_insert_with(|_| Ok(0_u64))?;
            let counted = root.get(tx)?;
            if up {
                root.set(tx, counted + 1)?;
            }
            Ok(counted + u64::from(up))
        })?)
    })
}

fn play(part: &str) -> Result<(), Box<dyn Error>> {
    let dir = std::env::var_os("OUTLAST_DIR");
    let place = dir.as_deref().map_or(Path::new("data"), Path::new).join("pool");
    if part == "check" {
        let pool = open(&place, None)?;
        say(&format!("recovered {}", count(&pool, false)?));
        return Ok(());
    }
    let pool = open(&place, Some(Domain::Page))?;
    if part == "make" {
        count(&pool, false)?;
        return Ok(());
    }
    for number in 1..=2 {
        say(&format!("I {number}"));
        count(&pool, true)?;
        say(&format!("A {number}"));
    }
    Ok(())
}

#[test]
fn a_pool_in_domain_page_survives_every_loss_of_power() {
    if let Ok(part) = std::env::var(PART) {
        play(&part).unwrap_or_else(|error| {
            say(&error.to_string());
            std::process::exit(1);
        });
        return;
    }
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let own = std::env::current_exe().unwrap();
    let again = ["--exact", NAME, "--nocapture"];
    // The pool is there before: losses while it is made are the suite's.
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let made = Command::new(&own).args(again).env(PART, "make").current_dir(folder.path()).output();
    assert!(made.unwrap().status.success());
    let check = format!("{PART}=check {} {}", own.display(), again.join(" "));
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    command.current_dir(folder.path()).args(["--json", "check", "--dir", "data"]);
    command.args(["--mutate", "fsync", "--budget", "300", "--then"]);
    command.arg(format!("{check} # {{}}")).arg("--").arg(&own).args(again);
    let output = command.env(PART, "run").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("refuses to trace") {
        eprintln!("left out: {said}");
        return;
    }
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {said}{}", String::from_utf8_lossy(&output.stdout))
    });
    assert_eq!(document["findings"].as_array().unwrap().len(), 0, "{document:#}");
    assert_eq!(document["acknowledged"], 2, "{document:#}");
    assert_eq!(document["cut_short"], false, "{document:#}");
    let mutants = document["mutants"].as_array().unwrap();
    let missed = mutants.iter().filter(|mutant| mutant["wrong"].is_string()).count();
    assert!(missed >= 2, "each transaction has a sync that is missed: {document:#}");
}
