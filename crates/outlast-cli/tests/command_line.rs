//! The program as a user meets it: exit codes, one line about each mistake, one JSON document.

mod common;

use std::path::Path;

use common::{directory, good, json, outlast, path, refused, text};
use outlast::medium::OpenOptions;
use outlast::{Pool, Scheme};

#[test]
fn a_pool_is_created_described_checked_listed_and_grown() {
    let directory = directory();
    let pool = &path(&directory, "p");
    good(&["pool", "create", pool, "--size", "8M", "--lanes", "3"]);
    assert!(good(&["pool", "info", pool]).contains("lanes           3 with"));
    assert!(good(&["pool", "check", pool]).contains("0 findings"));
    assert_eq!(good(&["pool", "dump", pool]), "", "a new pool has no blocks");
    let before = json(&["pool", "info", pool]);
    good(&["pool", "grow", pool, "--size", "16M"]);
    refused(&["pool", "grow", pool, "--size", "15M"]);
    let after = json(&["pool", "info", pool]);
    assert_eq!(before["records"][0]["uuid"], after["records"][0]["uuid"]);
    assert!(after["records"][0]["bytes"].as_u64() >= Some(16 << 20));
    assert!(good(&["pool", "check", pool]).contains("0 findings"));
}

#[test]
fn every_json_is_one_document_with_the_machine_and_the_seed() {
    let directory = directory();
    let pool = &path(&directory, "p");
    let dir = directory.path().to_str().unwrap();
    let tiny = ["--rounds", "2", "--turn-ms", "1", "--records", "100", "--dir", dir];
    let bench = [&["bench", "words", "--scheme", "none,redo", "--seed", "9"], &tiny[..]].concat();
    let commands: [&[&str]; 6] = [
        &["pool", "create", pool, "--seed", "9"],
        &["pool", "check", pool, "--seed", "9"],
        &["pool", "dump", pool, "--seed", "9"],
        &["schemes", "--seed", "9"],
        &["workloads", "--seed", "9"],
        &bench,
    ];
    for command in commands {
        let document = json(command);
        assert_eq!(document["seed"], 9, "{command:?}");
        assert!(document["machine"]["cores"].as_u64() > Some(0), "{command:?}");
        assert!(document["records"].is_array(), "{command:?}");
        assert!(document["outlast"].is_string(), "{command:?}");
    }
    let document = json(&bench);
    let has = |metric: &str| {
        let records = document["records"].as_array().unwrap();
        records.iter().any(|record| record["metric"] == metric && record["scheme"] == "redo")
    };
    for metric in ["throughput", "persistence_cost", "flushed_lines", "fences", "time_log"] {
        assert!(has(metric), "{metric}");
    }
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 1, "only the pool is left");
}

#[test]
fn a_benchmark_says_which_domain_is_in_force_and_prints_tables() {
    let directory = directory();
    let dir = directory.path().to_str().unwrap();
    let output = outlast(&[
        "bench",
        "sps1",
        "--scheme",
        "undo,none",
        "--records",
        "100",
        "--rounds",
        "2",
        "--turn-ms",
        "1",
        "--domain",
        "process",
        "--dir",
        dir,
    ]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("domain process"), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("none a power failure"), "what it promises");
    let stdout = text(&output.stdout);
    assert!(stdout.contains("Throughput, tx/s") && stdout.contains("sps1"), "{stdout}");
}

#[test]
fn latency_is_measured_under_the_acknowledgement_that_was_asked_for() {
    let directory = directory();
    let dir = directory.path().to_str().unwrap();
    let run = |ack: &str, rate: &[&str]| {
        let bench = ["bench", "hash", "--scheme", "undo,redo-archapt", "--records", "200"];
        let tiny = ["--rounds", "2", "--turn-ms", "1", "--dir", dir, "--ack", ack, "--json"];
        let output = outlast(&[&bench[..], &tiny[..], rate].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (document["records"].as_array().unwrap().clone(), text(&output.stderr))
    };
    let of = |records: &[serde_json::Value], metric: &str, scheme: &str| {
        let mine = |r: &&serde_json::Value| r["metric"] == metric && r["scheme"] == scheme;
        records.iter().find(mine).cloned()
    };
    let (records, told) = run("physical", &["--rate", "2000"]);
    assert!(records.iter().all(|record| record["ack"] == "physical"));
    assert!(told.contains("physical when they commit, so nothing to wait for: undo"), "{told}");
    for metric in ["open_latency_p50", "open_latency_p99", "open_throughput"] {
        for scheme in ["undo", "redo-archapt"] {
            let record = of(&records, metric, scheme).unwrap_or_else(|| panic!("{metric}"));
            assert_eq!(record["arrivals_per_s"], 2000);
            assert!(record["value"].as_f64() > Some(0.0));
        }
    }
    // A sweep for every transaction flushes and fences more than one for many.
    let (logical, told) = run("logical", &[]);
    assert!(!told.contains("nothing to wait for"), "{told}");
    assert!(of(&logical, "open_latency_p50", "undo").is_none());
    let fences = |records: &[_]| of(records, "fences", "redo-archapt").unwrap()["value"].as_f64();
    assert!(fences(&records) > fences(&logical), "{:?}", fences(&records));
    assert_eq!(
        of(&records, "fences", "undo").unwrap()["value"],
        of(&logical, "fences", "undo").unwrap()["value"]
    );
}

/// What stands beside engines that are not built in, ours among them, and the floor of the disk.
#[test]
fn engines_are_measured_on_the_disk_of_a_file() {
    let directory = directory();
    let file = directory.path().join("pool");
    let bench = ["bench", "engines", "--file", file.to_str().unwrap(), "--domain", "page"];
    let tiny = ["--records", "200", "--rounds", "1", "--threads", "2", "--json"];
    let output = outlast(&[&bench[..], &tiny[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let records = document["records"].as_array().unwrap();
    for (metric, scheme) in
        [("floor_share", "swift"), ("syncs", "swift"), ("space_ratio", "swift"), ("syncs", "floor")]
            .into_iter()
            .chain(["swift", "redb", "fjall"].map(|engine| ("first_opening", engine)))
    {
        let wanted = |r: &&serde_json::Value| r["metric"] == metric && r["scheme"] == scheme;
        let record = records.iter().find(wanted).unwrap_or_else(|| panic!("{metric}, {scheme}"));
        assert!(record["value"].as_f64() > Some(0.0), "{record}");
    }
    assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none());
}

#[test]
fn wrong_names_are_told_the_right_ones() {
    let names = |arguments: &[&str], known: &[&str]| {
        let line = refused(arguments);
        known.iter().for_each(|name| assert!(line.contains(name), "{line}"));
    };
    names(&["bench", "ycsb-z"], &["'ycsb-z'", "did you mean 'ycsb-a' or"]);
    names(&["bench", "sps1", "--scheme", "redoo"], &["'redoo'", "did you mean 'redo'?"]);
    names(&["bench", "sps1", "--domain", "adr2"], &["`adr2`", "process", "eadr"]);
    names(&["bench", "sps1", "--ack", "soon"], &["'soon'", "logical", "physical"]);
    names(&["bench", "sps1", "--rate", "0"], &["0", "1..=100000000"]);
    names(&["bench", "sps1", "--rate", "fast"], &["'fast'", "--rate"]);
    names(&["bench", "engines"], &["--file"]);
    names(&["bench", "sps1", "--file", "pool"], &["--file", "engines", "--dir"]);
    names(&["bench", "engines", "--file", "/no/such/pool"], &["/no/such"]);
    names(&["bench", "engines", "--file", "pool", "--scheme", "pmdk"], &["pmdk", "ours"]);
    names(&["crash", "hash", "--ack", "never"], &["'never'", "logical", "physical"]);
    names(&["crash", "hash", "--scale", "full"], &["--scale", "all", "--points"]);
    names(&["crash", "all", "--points", "7"], &["--points", "all", "--scale"]);
    names(&["bench", "sps1", "--keys", "hot"], &["'hot'", "common", "apart", "one"]);
    names(&["bench", "ycsb-a", "--keys", "one"], &["ycsb-a", "sps8", "hash"]);
    names(&["crash", "hash", "--layout", "dense"], &["'dense'", "coalesced", "scattered"]);
    names(
        &["crash", "words", "--policy", "any", "--layout", "coalesced"],
        &["--layout", "random campaigns"],
    );
    names(&["crash", "ARC-99", "--explain"], &["'ARC-99'", "did you mean 'ARC-9'?"]);
    names(&["crash", "hash", "--explain", "--policy", "lru"], &["--explain", "--policy any"]);
    let other = ["crash", "ARC-2", "--explain", "--scheme", "swift"];
    names(&other, &["ARC-2", "swift", "undo-archapt:literal or redo-archapt:literal"]);
    names(&["report", "--scale", "huge"], &["huge", "quick", "full"]);
    names(&["reproduce", "archapt", "--figure", "4"], &["'4'", "1, 2", "table1", "clwb"]);
    names(&["reproduce", "archapd"], &["archapd", "archapt"]);
    names(&["pool", "create", "x", "--size", "12q"], &["12q", "64M"]);
}

/// Flaws of the runtime's literal schemes, of the timed machine's schemes, and a planted bug: each is
/// told whole, and the command that ends it tells the same.
#[test]
fn an_explained_crash_is_told_again_by_its_command() {
    for asked in [
        &["crash", "ARC-7", "--explain", "--scheme", "redo-archapt:literal"][..],
        &["crash", "HWL-1", "--explain"],
        &["crash", "--plant", "skip-flush:RedoRecord", "--scheme", "redo", "--explain"],
    ] {
        let told = good(asked);
        for part in ["Time line of the program", "crash before", "What recovery did", "\n  ✗ "] {
            assert!(told.contains(part), "{asked:?}: {part:?} is missing in\n{told}");
        }
        let (_, again) = told.rsplit_once("Again\n  outlast ").expect("it ends with a command");
        let words: Vec<&str> =
            again.split_whitespace().map(|word| word.trim_matches('\'')).collect();
        assert_eq!(good(&words), told, "{again}");
    }
    let document = json(&["crash", "PICL-1", "--explain"]);
    assert_eq!(document["explained"][0]["flaw"], "PICL-1");
}

/// The runtime keeps what it promises, and one that is broken on purpose is found out: exit
/// status 1, and the one command that shows that very crash again.
#[test]
fn a_table_of_crashes_ends_in_1_with_a_replay_where_something_is_lost() {
    let directory = directory();
    let out = &path(&directory, "out");
    let table: [&str; 10] = [
        "reproduce",
        "archapt",
        "--figure",
        "table4",
        "--workload",
        "ycsb-a",
        "--scheme",
        "undo-archapt",
        "--out",
        out,
    ];
    let sound = good(&[&table[..], &["--crashes", "2"]].concat());
    assert!(sound.contains("ycsb-a, Redis YCSB-A") && sound.contains("✓ undo-archapt"), "{sound}");

    let bug = ["--crashes", "20", "--plant", "pending-since-last"];
    let output = outlast(&[&table[..], &bug].concat());
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let failure = errors.lines().find(|line| line.contains("replay: ")).expect("a failure");
    let (_, replay) = failure.split_once("replay: outlast ").expect("a command");
    let again = outlast(&replay.split(' ').collect::<Vec<_>>());
    assert_eq!(again.status.code(), Some(1), "{replay}");
    let same = text(&again.stderr);
    let same = same.trim_end().split_once(": ");
    assert_eq!(same, failure.split_once(": "), "the same violation");

    let line = refused(&["reproduce", "archapt", "--figure", "9", "--crashes", "5"]);
    assert!(line.contains("--figure table4"), "{line}");
    let line = refused(&["reproduce", "archapt", "--figure", "table4", "--workload", "hash"]);
    assert!(line.contains("'hash'") && line.contains("linkbench-archapt"), "{line}");
    refused(&["reproduce", "archapt", "--figure", "table4", "--crashes", "0"]);
    let line = refused(&["reproduce", "archapt", "--figure", "9", "--workload", "ycsb-c"]);
    assert!(line.contains("'ycsb-c'") && line.contains("linkbench-archapt"), "{line}");
    let line = refused(&["reproduce", "archapt", "--figure", "10", "--scheme", "swift"]);
    assert!(line.contains("'swift'") && line.contains("redo-archapt:literal"), "{line}");
    let line = refused(&["reproduce", "archapt", "--figure", "3", "--workload", "ycsb-a"]);
    assert!(line.contains("table1"), "{line}");
    refused(&["crash", "ycsb-a", "--warm-up", "10"]);
}

#[test]
fn mistakes_end_in_one_line_and_status_2() {
    let directory = directory();
    let dir = directory.path().to_str().unwrap();
    let pool = &path(&directory, "p");
    good(&["pool", "create", pool]);
    let absent = &path(&directory, "absent");
    let inside_absent = &path(&directory, "absent/report");
    let text_file = &path(&directory, "text");
    std::fs::write(text_file, vec![b'x'; 8192]).unwrap();
    let inside_file = &path(&directory, "text/report");
    let cases: [&[&str]; 17] = [
        &["pool", "create", pool],
        &["pool", "create", inside_absent],
        &["pool", "create", absent, "--size", "1K"],
        &["pool", "create", absent, "--lanes", "0"],
        &["pool", "info", absent],
        &["pool", "check", text_file],
        &["pool", "dump", dir],
        &["pool", "grow", text_file, "--size", "1M"],
        &["bench", "sps1", "--rounds", "0"],
        &["bench", "sps1", "--threads", "0"],
        &["bench", "sps1", "--records", "1"],
        &["bench", "sps1", "--turn-ms", "0"],
        &["bench", "sps1", "--dir", absent],
        &["report", "--out", inside_file],
        &["bench", "sps1", "--no-such-flag"],
        &["reproduce", "archapt", "--out", inside_file],
        &["reproduce", "archapt", "--figure", "1", "--threads", "0", "--out", dir],
    ];
    for case in cases {
        refused(case);
    }
    assert!(!Path::new(absent).exists(), "nothing was created on the way");
}

#[test]
fn lists_have_every_scheme_and_workload() {
    let schemes = good(&["schemes"]);
    for name in ["none", "undo", "redo", "pmdk", "pmdk-word"] {
        assert!(schemes.lines().any(|line| line.starts_with(&format!("{name} "))), "{schemes}");
    }
    assert!(schemes.contains("fwb                  durable  "), "{schemes}");
    let workloads = good(&["workloads"]);
    for name in ["ycsb-a", "ycsb-f", "sps1", "sps8", "hash", "btree", "words", "vacation"] {
        assert!(workloads.lines().any(|line| line.starts_with(name)), "{workloads}");
    }
}

/// A failed check: one line, exit status 1.
fn failed(arguments: &[&str]) -> String {
    let output = outlast(arguments);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    assert_eq!(errors.lines().count(), 1, "{arguments:?}: {errors}");
    errors
}

/// Stores a word to a pool's root block, which is made at the first call; what was there.
fn stored(pool: &str, value: u64) -> u64 {
    use outlast::{BlockKind, Pool, RootKind, Runner, Transact};
    let pool = Pool::open_with(pool, &Default::default(), &Default::default()).unwrap();
    let mut lane = pool.lane().unwrap();
    let stored = lane.run(|tx| {
        let root = match tx.root()? {
            Some((root, _)) => root,
            None => {
                let root = tx.alloc(64, BlockKind::General)?;
                tx.store_u64(root, 0)?;
                tx.set_root(root, RootKind::Opaque)?;
                root
            }
        };
        let was = tx.load_u64(root)?;
        tx.store_u64(root, value)?;
        Ok(was)
    });
    stored.unwrap()
}

#[test]
fn a_pool_with_checksums_is_repaired_or_its_damage_named() {
    use outlast::medium::OpenOptions;
    use outlast::{BlockKind, Pool, RootKind, Runner, Scheme, Transact};
    use std::io::{Seek, SeekFrom, Write};
    let directory = directory();
    let (pool, plain) = (&path(&directory, "p"), &path(&directory, "plain"));
    good(&["pool", "create", pool, "--size", "8M", "--checksums"]);
    assert!(good(&["pool", "info", pool]).contains("checksums       kept"));
    let open = OpenOptions::with_scheme(Scheme::RedoArchapt);
    let opened = Pool::open_with(pool, &open, &Default::default()).unwrap();
    let block = opened.lane().unwrap().run(|tx| {
        let block = tx.alloc(3000, BlockKind::General)?;
        tx.store(block, &[7; 3000])?;
        tx.set_root(block, RootKind::Opaque)?;
        Ok(block)
    });
    let block = block.unwrap();
    opened.close();
    good(&["pool", "grow", pool, "--size", "9M"]);
    good(&["pool", "checkpoint", pool]);
    assert!(good(&["pool", "check", pool]).contains("0 findings"));

    let damage = |at: u64, bytes: &[u8]| {
        let mut file = std::fs::OpenOptions::new().write(true).open(pool).unwrap();
        file.seek(SeekFrom::Start(block.0 + at)).unwrap();
        file.write_all(bytes).unwrap();
    };
    let found = |arguments: &[&str]| {
        let output = outlast(arguments);
        assert_eq!(output.status.code(), Some(1));
        text(&output.stdout)
    };
    damage(640, &[0; 50]);
    assert!(found(&["pool", "check", pool]).contains(&format!("bytes at {block}; correctable")));
    assert!(good(&["pool", "repair", pool]).contains("1 lines repaired"));
    assert!(good(&["pool", "check", pool]).contains("0 findings"));

    let noise: Vec<u8> = (0..2500u32).map(|i| ((i * i) >> 3) as u8).collect();
    damage(0, &noise);
    let left = found(&["pool", "repair", pool]);
    assert!(left.contains(&format!("bytes at {block}; not correctable")), "{left}");
    good(&["pool", "restore", pool]);
    assert!(good(&["pool", "check", pool]).contains("0 findings"));

    good(&["pool", "create", plain, "--size", "8M"]);
    assert!(refused(&["pool", "repair", plain]).contains("keeps no checksums"));
    let wrong = Pool::open_with(pool, &OpenOptions::with_scheme(Scheme::Undo), &Default::default());
    assert!(wrong.err().unwrap().to_string().contains("open it with undo-archapt or redo-archapt"));
}

#[test]
fn a_pool_goes_back_to_its_last_checkpoint() {
    let directory = directory();
    let pool = &path(&directory, "p");
    let elsewhere = &path(&directory, "elsewhere");
    good(&["pool", "create", pool, "--size", "8M"]);
    assert!(good(&["pool", "info", pool]).contains("checkpoint      none"));
    stored(pool, 1);
    let first = json(&["pool", "checkpoint", pool]);
    assert_eq!(first["records"][0]["number"], 1);
    assert!(
        good(&["pool", "info", pool]).contains("checkpoint      number 1, of generation 4 after 0")
    );
    assert_eq!(stored(pool, 2), 1);
    let second = good(&["pool", "checkpoint", pool]);
    assert!(second.contains("p.checkpoint: checkpoint 2, 2 pages written"), "{second}");
    good(&["pool", "checkpoint", pool, "--to", elsewhere]);
    assert_eq!(stored(pool, 3), 2);
    good(&["pool", "restore", pool]);
    assert!(good(&["pool", "check", pool]).contains("0 findings"));
    assert_eq!(stored(pool, 4), 2);
    let info = json(&["pool", "info", pool]);
    assert_eq!(info["records"][0]["checkpoint"]["number"], 2);

    // Damaged or gone, it comes back from the checkpoint that is named.
    let mut zeroed = std::fs::read(pool).unwrap();
    zeroed[..64].fill(0);
    for damage in [zeroed, Vec::new()] {
        std::fs::write(pool, damage).unwrap();
        assert!(refused(&["pool", "restore", pool]).contains("--from"));
        good(&["pool", "restore", pool, "--from", elsewhere]);
        assert_eq!(stored(pool, 5), 2);
    }
    std::fs::remove_file(pool).unwrap();
    assert!(refused(&["pool", "restore", pool]).contains("there is no such pool"));
    good(&["pool", "restore", pool, "--from", elsewhere, "--json"]);
    assert_eq!(stored(pool, 6), 2);
}

#[test]
fn what_cannot_be_restored_leaves_the_pool_alone() {
    let directory = directory();
    let (pool, other) = (&path(&directory, "p"), &path(&directory, "other"));
    for pool in [pool, other] {
        good(&["pool", "create", pool, "--size", "8M"]);
        stored(pool, 1);
    }
    assert!(refused(&["pool", "restore", pool]).contains("there is no such checkpoint"));
    good(&["pool", "checkpoint", other]);
    let of_other = &format!("{other}.checkpoint");
    let before = std::fs::read(pool).unwrap();
    assert!(refused(&["pool", "restore", pool, "--from", of_other]).contains("UUID"));
    assert!(refused(&["pool", "restore", pool, "--from", pool]).contains("p: is "));
    assert!(std::fs::read(pool).unwrap() == before);
    assert!(refused(&["pool", "checkpoint", pool, "--to", of_other]).contains("UUID"));
    assert!(refused(&["pool", "checkpoint", pool, "--to", "/dev/null"]).contains("regular file"));
    let text = &path(&directory, "text");
    std::fs::write(text, "dear diary").unwrap();
    for command in [
        &["pool", "restore", text, "--from", of_other][..],
        &["pool", "restore", other, "--from", text],
        &["pool", "checkpoint", other, "--to", text],
        &["pool", "info", text],
    ] {
        assert!(refused(command).contains("text: "), "{command:?}");
        assert_eq!(std::fs::read(text).unwrap(), b"dear diary");
    }
    std::fs::remove_file(text).unwrap();
    good(&["pool", "checkpoint", pool]);
    let checkpoint = &format!("{pool}.checkpoint");
    let mut bytes = std::fs::read(checkpoint).unwrap();
    bytes[700] ^= 1;
    std::fs::write(checkpoint, &bytes).unwrap();
    let now = std::fs::read(pool).unwrap();
    let error = failed(&["pool", "restore", pool]);
    assert!(error.contains("damaged at byte 512: a page fails its CRC"), "{error}");
    bytes[700] ^= 1;
    bytes.truncate(bytes.len() - 1);
    std::fs::write(checkpoint, &bytes).unwrap();
    assert!(failed(&["pool", "restore", pool]).contains("no whole checkpoint"));
    assert!(std::fs::read(pool).unwrap() == now);
    let names = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 4, "and nothing is left lying about");
}

/// What the published protocol loses is told and is no failure; its pools are no other scheme's.
#[test]
fn losses_of_a_literal_variant_are_a_result() {
    let any =
        ["crash", "ARC-2", "--policy", "any", "--scheme", "redo-archapt,redo-archapt:literal"];
    let output = outlast(&any);
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(told.contains("losses as the paper's protocol has them"), "{told}");
    let guilt: Vec<&str> = errors.lines().filter(|line| line.contains("not correctable")).collect();
    assert!(guilt.len() == 1 && guilt[0].contains("redo-archapt:literal"), "{errors}");
    assert!(good(&["schemes"]).contains("undo-archapt:literal none"));

    let directory = directory();
    let pool = &path(&directory, "p");
    good(&["pool", "create", pool, "--size", "8M", "--literal"]);
    assert!(good(&["pool", "info", pool]).contains("of a literal variant"));
    assert!(good(&["pool", "check", pool]).contains("0 findings"));
    let open =
        |scheme| Pool::open_with(pool, &OpenOptions::with_scheme(scheme), &Default::default());
    let wrong = open(Scheme::RedoArchapt).err().unwrap().to_string();
    assert!(wrong.contains("open it with undo-archapt:literal or redo-archapt:literal"), "{wrong}");
    assert!(open(Scheme::UndoArchaptLiteral).is_ok());
}

#[test]
fn the_machine_runs_streams_traces_and_requests() {
    let directory = directory();
    let few = ["--warm-up", "2000", "--instructions", "3000"];
    let value = |document: &serde_json::Value, metric: &str| -> f64 {
        let records = document["records"].as_array().expect("records");
        let record = records.iter().find(|record| record["metric"] == metric);
        record.unwrap_or_else(|| panic!("no {metric}"))["value"].as_f64().expect("a number")
    };
    let run = json(&[["sim", "friendly", "--core", "inorder"].as_slice(), &few].concat());
    assert!(value(&run, "sim_speed") > 0.0 && value(&run, "ipc") > 0.0);
    assert!(value(&run, "instructions") >= 3000.0);

    let trace = &path(&directory, "stride.trace");
    good(&[["sim", "stride", "--save-trace", trace].as_slice(), &few].concat());
    assert_eq!(std::fs::metadata(trace).expect("it was written").len(), 5000 * 64);
    let sweep = ["sim", "--trace", trace, "--set", "core.rob=64,128"];
    let run = json(&[sweep.as_slice(), &few].concat());
    let ipc = |record: &&serde_json::Value| record["metric"] == "ipc";
    assert_eq!(run["records"].as_array().expect("records").iter().filter(ipc).count(), 2);

    let requests = &path(&directory, "requests");
    std::fs::write(requests, "0x0 READ 0\n0x40 READ 100\n0x4000000 WRITE 200\n").expect("written");
    let run = json(&["sim", "--requests", requests]);
    assert!(value(&run, "read_latency") > 10.0);
    assert!(good(&["sim", "primitives", "--config", "hwl"]).contains("persist_1_resident"));
    assert!(good(&["sim", "machines"]).contains("memory.tRCD"));
    let swaps = ["sim", "sps", "--config", "hwl", "--transactions", "200", "--footprint", "64K"];
    let run = json(&[swaps.as_slice(), &["--scheme", "non-pers,fwb"]].concat());
    assert!(value(&run, "throughput") > 0.0 && value(&run, "memory_energy") > 0.0);
    assert_eq!(run["records"][0]["guarantee"], "none");
    let both = ["sim", "hash", "--transactions", "200", "--footprint", "64K", "--keys", "200"];
    let run = json(&[both.as_slice(), &["--scheme", "fwb,swift"]].concat());
    let scheme = |scheme: &str| {
        let records = run["records"].as_array().expect("records");
        records.iter().any(|r| r["scheme"] == scheme && r["metric"] == "throughput")
    };
    assert!(scheme("fwb") && scheme("swift"));
}

#[test]
fn schemes_are_compared_on_a_page_and_in_records() {
    let directory = directory();
    let out = &path(&directory, "compared");
    let small = ["--footprint", "64K", "--keys", "200", "--transactions", "100", "--config", "hwl"];
    let run = ["compare", "hash", "--scheme", "fwb", "--out", out];
    let run = json(&[run.as_slice(), &small].concat());
    let records = run["records"].as_array().expect("records");
    for scheme in ["non-pers", "fwb"] {
        let of_scheme =
            |metric: &str| records.iter().any(|r| r["scheme"] == scheme && r["metric"] == metric);
        for metric in ["throughput", "speed_over_plain", "recovery_reads", "wear_gini", "torn"] {
            let may_lack = scheme == "non-pers" && metric == "wear_gini";
            assert!(may_lack || of_scheme(metric), "{scheme} has no {metric}");
        }
    }
    let page = std::fs::read_to_string(format!("{out}/index.html")).expect("written");
    assert!(page.contains("outlast compare hash") && page.contains("<script>"));
    assert!(std::fs::metadata(format!("{out}/results.json")).is_ok());
}

/// Keys of a sweep are columns, for a reader and for a program, and each record names its machine.
#[test]
fn a_sweep_has_its_keys_as_columns() {
    let sweep = ["sim", "friendly", "--warm-up", "0", "--instructions", "5000"];
    let sweep = [&sweep[..], &["--set", "core.rob=64,128", "--set", "l1.mshrs=8"]].concat();
    let table = good(&sweep);
    let head = table.lines().find(|line| line.contains("core.rob ")).expect("a table of the sweep");
    assert!(head.contains("IPC") && !head.contains("l1.mshrs"), "{table}");
    let csv = good(&[&sweep[..], &["--csv"]].concat());
    // Commas within quotes are part of a value.
    let unquoted = |line: &str| {
        let parts = line.split('"').enumerate();
        parts
            .map(|(n, part)| if n % 2 == 1 { part.replace(',', ";") } else { part.to_owned() })
            .collect::<String>()
    };
    let csv: Vec<String> = csv.lines().map(unquoted).collect();
    let mut lines = csv.iter().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    let at = |name: &str| head.iter().position(|head| *head == name).expect("a column");
    let (rob, mshrs, machine) = (at("core.rob"), at("l1.mshrs"), at("machine"));
    let rows: Vec<_> = lines.filter(|row| row[at("metric")] == "ipc").collect();
    let of = |column: usize| rows.iter().map(|row| row[column]).collect::<Vec<_>>();
    assert_eq!(
        (of(rob), of(mshrs), of(machine)),
        (vec!["64", "128"], vec!["8"; 2], vec!["server"; 2])
    );
    let run = json(&sweep);
    let record = &run["records"][0];
    assert_eq!((&record["machine"], &record["set"]["core.rob"]), (&"server".into(), &"64".into()));
    let machines = run["simulated"].as_object().expect("machines");
    assert_eq!(machines.len(), 2);
    assert_eq!(machines["server, core.rob=64, l1.mshrs=8"]["core.rob"], "64");
    refused(&[&sweep[..], &["--csv", "--json"]].concat());
}

/// A reproduction says beforehand how long it is expected to take.
#[test]
fn a_reproduction_announces_its_time() {
    let directory = directory();
    let out = &path(&directory, "fwb");
    let output = outlast(&["reproduce", "fwb", "--figure", "table1", "--out", out]);
    let told = text(&output.stderr);
    assert!(told.contains("HWL and FWB, scale quick: up to a minute on two processors"), "{told}");
}

#[test]
fn the_machine_runs_the_runtime_and_its_traces() {
    let directory = directory();
    let (trace, timeline) = (&path(&directory, "run.otrace"), &path(&directory, "timeline.json"));
    let small = ["sim", "hash", "--keys", "200", "--transactions", "100", "--scheme"];
    let run = json(&[small.as_slice(), &["undo,swift", "--crash", "40"]].concat());
    let records = run["records"].as_array().expect("records");
    let of = |metric: &str| -> Vec<f64> {
        let here = records.iter().filter(|record| record["metric"] == metric);
        here.map(|record| record["value"].as_f64().expect("a number")).collect()
    };
    assert!(of("throughput").iter().all(|value| *value > 0.0), "{run}");
    assert_eq!(of("lost"), [0.0, 0.0]);
    assert!(of("crash_points").iter().all(|points| *points >= 40.0));
    let planted = ["undo", "--crash", "40", "--plant", "skip-flush:UndoData"];
    assert_eq!(outlast(&[small.as_slice(), &planted].concat()).status.code(), Some(1));

    good(&[small.as_slice(), &["swift", "--save-trace", trace]].concat());
    let again = ["sim", "--trace", trace, "--warm-up", "0", "--timeline", timeline];
    assert!(good(&again).contains("lost_cycles"));
    let text = std::fs::read_to_string(timeline).expect("it was written");
    let timeline: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert!(timeline["traceEvents"].as_array().expect("events").len() > 50);
    let bytes = std::fs::read(trace).expect("it was written");
    std::fs::write(trace, &bytes[..bytes.len() / 2]).expect("written");
    let message = refused(&["sim", "--trace", trace]);
    assert!(message.contains("cut off after"), "{message}");
}

#[test]
fn mistakes_about_the_machine_are_told_in_one_line() {
    let directory = directory();
    let (cut, empty, words) =
        (&path(&directory, "cut"), &path(&directory, "empty"), &path(&directory, "words"));
    let mut instruction = [0; 100];
    instruction[0] = 0x40;
    std::fs::write(cut, instruction).expect("written");
    std::fs::write(empty, "").expect("written");
    std::fs::write(words, "0x0 READ 0\nnonsense\n").expect("written");
    for (arguments, says) in [
        (["sim", "friendlyy"].as_slice(), "did you mean 'friendly'?"),
        (&["sim"], "<STREAM"),
        (&["sim", "friendly", "--set", "core.robb=3"], "did you mean 'core.rob'"),
        (&["sim", "friendly", "--set", "core.rob=0"], "take 1 to 4096"),
        (&["sim", "friendly", "--set", "l1.latency=4"], "4 cycles"),
        (&["sim", "friendly", "--config", "nothing"], "server, hwl, ehou, picl"),
        (&["sim", "--trace", cut], "36 bytes follow instruction 1"),
        (&["sim", "--trace", empty], "empty"),
        (&["sim", "--trace", "/no/such/trace"], "/no/such/trace"),
        (&["sim", "hash", "--scheme", "undoo"], "undo"),
        (&["sim", "hash", "--scheme", "undo", "--threads", "9"], "takes 1 to 8"),
        (&["sim", "hash", "--scheme", "undo,fwb", "--crash", "5"], "not both"),
        (&["sim", "vacation", "--scheme", "swift"], "no oracle can judge"),
        (&["crash", "vacation"], "do not say which transaction stored them"),
        (&["sim", "sps", "--batch", "3"], "those that do are array-stream, array-random"),
        (&["sim", "hash", "--scheme", "undo", "--abort-every", "2"], "schemes of the machine"),
        (&["sim", "hash", "--plant", "H1"], "--crash"),
        (&["sim", "hash", "--scheme", "undo,redo", "--save-trace", empty], "give one --scheme"),
        (&["sim", "hash", "--save-trace", empty], "--scheme of the runtime"),
        (&["sim", "friendly", "--timeline", empty, "--timeline-cycles", "9..3"], "FROM..TO"),
        (&["sim", "primitives", "--timeline", empty], "a timeline is of one run"),
        (&["sim", "friendly", "--set", "core.threads=3"], "take 1 to 2"),
        (&["sim", "--requests", words], "words:2:"),
        (&["sim", "--requests", empty], "no requests"),
        (&["sim", "sps", "--scheme", "fwd"], "did you mean 'fwb'?"),
        (&["compare"], "<WORK"),
        (&["compare", "hashh"], "did you mean 'hash'?"),
        (&["compare", "hash", "--scheme", "fwd"], "did you mean 'fwb'?"),
        (&["compare", "hash", "--set", "scheme.log_slot=3"], "did you mean"),
        (&["compare", "--trace", "/no/such/trace"], "/no/such/trace"),
        (&["compare", "--trace", words], "no trace that has any"),
        (&["compare", "--trace", words, "--threads", "2"], "--threads"),
        (&["compare", "--trace", words, "--keys", "20"], "--keys"),
        (&["compare", "hash", "--out", empty], "empty"),
    ] {
        let message = refused(arguments);
        assert!(message.contains(says), "{arguments:?}: {message}");
    }
}
