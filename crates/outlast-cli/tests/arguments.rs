//! Arguments that cannot be meant: absurd numbers, names with a letter too many, bugs planted where
//! they change nothing. Each is refused in one line that says what would be right.

mod common;

use common::{directory, good, json, outlast, path, refused, text};

/// Runs what finds something: exit status 1.
fn found(arguments: &[&str]) -> (String, String) {
    let output = outlast(arguments);
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {told}{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    (told, errors)
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Every option with a number: a command that it goes with, and what is out of its range.
const NUMBERS: &[(&str, &str, &[&str])] = &[
    ("pool create NEW", "--size", &["0", "1", "99999T"]),
    ("pool create NEW", "--lanes", &["0", "4294967295"]),
    ("pool create NEW", "--log", &["0", "99999T"]),
    ("pool create NEW", "--fence-log", &["1", "8191", "99999T", "18446744073709551615"]),
    ("pool create NEW", "--chunk", &["1", "99999T"]),
    ("pool grow POOL", "--size", &["99999T"]),
    ("serve NEW", "--port", &["-1", "65536"]),
    ("serve NEW", "--metrics-port", &["0", "65536"]),
    ("serve NEW", "--size", &["0", "99999T"]),
    ("serve NEW", "--grow-to", &["0", "99999T"]),
    ("serve NEW", "--clients", &["0", "18446744073709551615"]),
    ("bench words --scheme undo", "--threads", &["0", "65", "4294967295"]),
    ("bench words --scheme undo", "--records", &["0", "18446744073709551615"]),
    ("bench words --scheme undo", "--rounds", &["0", "4294967295"]),
    ("bench words --scheme undo", "--turn-ms", &["0", "18446744073709551615"]),
    ("bench words --scheme undo", "--rate", &["0", "18446744073709551615"]),
    ("bench words --scheme undo", "--write-latency", &["18446744073709551615"]),
    ("crash hash", "--points", &["0", "-1", "1e9"]),
    ("crash hash", "--keys", &["0", "3", "18446744073709551615"]),
    ("crash words --policy any", "--keys", &["0", "17", "18446744073709551615"]),
    ("crash hash", "--lanes", &["0", "9", "65535"]),
    ("check --run POOL --then {}", "--sector", &["0", "1", "1024", "18446744073709551616"]),
    ("check --run POOL --then {}", "--marks-fd", &["-1", "2", "1024", "18446744073709551615"]),
    ("check --run POOL --then {}", "--time", &["0", "-1", "18446744073709551615"]),
    ("check --run POOL --then {}", "--check-time", &["0", "18446744073709551615"]),
    ("check --run POOL --then {}", "--budget", &["0", "18446744073709551615"]),
    ("check --run POOL --then {}", "--jobs", &["0", "1025", "18446744073709551615"]),
    ("check --run POOL --then {}", "--failures", &["0", "18446744073709551615"]),
    ("crash hash", "--lane-bytes", &["0", "1", "65M", "100G", "99999T"]),
    ("crash hash", "--transactions", &["0", "4294967295"]),
    ("crash words --policy any", "--transactions", &["0", "9"]),
    ("crash hash --lanes 1 --caches server", "--warm-up", &["0", "4294967295"]),
    ("crash hash", "--sync-every", &["0", "4294967296"]),
    ("reproduce archapt --figure table4", "--crashes", &["0", "4294967295"]),
    ("reproduce archapt --figure 1", "--threads", &["0", "65", "4294967295"]),
    ("reproduce archapt --figure 1", "--write-latency", &["18446744073709551615"]),
    ("sim hash --scheme undo", "--threads", &["0", "9", "4294967295"]),
    ("sim hash --scheme undo", "--keys", &["0", "3", "18446744073709551615"]),
    ("sim hash --scheme undo", "--lane-bytes", &["0", "1", "100G"]),
    ("sim hash --scheme undo", "--transactions", &["0", "18446744073709551615"]),
    ("sim sps --scheme fwb", "--footprint", &["0", "5G", "99999T"]),
    ("sim sps --scheme fwb", "--switch-every", &["18446744073709551615"]),
    ("sim sps --scheme fwb", "--abort-every", &["18446744073709551615"]),
    ("sim array-random --scheme fwb", "--batch", &["65537", "18446744073709551615"]),
    ("compare sps --scheme fwb", "--threads", &["0", "65", "4294967295"]),
    ("compare hash --scheme fwb", "--keys", &["0", "3", "18446744073709551615"]),
    ("compare sps --scheme fwb", "--footprint", &["0", "5G", "99999T"]),
    ("compare hash --scheme fwb", "--transactions", &["0", "18446744073709551615"]),
    ("compare sps --scheme fwb", "--switch-every", &["18446744073709551615"]),
    ("compare sps --scheme fwb", "--abort-every", &["18446744073709551615"]),
    ("compare array-random --scheme fwb", "--batch", &["65537"]),
    (
        "sim sps --scheme fwb",
        "--set",
        &[
            "scheme.log_slots=0",
            "scheme.log_slots=18446744073709551616",
            "scheme.log_growths=8",
            "scheme.log_buffer=4097 records",
            "scheme.scan_period=1",
            "scheme.tx_records=-1",
            "scheme.forces=1",
        ],
    ),
    ("sim sps --scheme fwb", "--crash", &["0", "-1"]),
    ("sim sps --scheme fwb --crash 5", "--resume", &["-1", "18446744073709551616"]),
    ("sim friendly", "--warm-up", &["18446744073709551615"]),
    ("sim friendly", "--instructions", &["0", "18446744073709551615"]),
    ("sim friendly", "--timeline-cycles", &["5..5", "0..18446744073709551615"]),
    ("sim friendly", "--set", &["llc.size=65536 MiB", "memory.tCL=900000 us", "core.rob=0"]),
];

#[test]
fn absurd_numbers_are_refused_by_name() {
    let directory = directory();
    let (new, pool) = (path(&directory, "new"), path(&directory, "pool"));
    good(&["pool", "create", &pool, "--size", "8M"]);
    for (line, option, values) in NUMBERS {
        for value in *values {
            let value = format!("{option}={value}");
            let mut arguments = words(line);
            for word in &mut arguments {
                *word = match *word {
                    "NEW" => &new,
                    "POOL" => &pool,
                    word => word,
                };
            }
            arguments.push(&value);
            let output = outlast(&arguments);
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
            // A note on the domain may come before.
            let said = errors.lines().last().unwrap_or_default();
            assert!(said.starts_with("outlast: "), "{arguments:?}: {errors}");
            assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
            assert!(!std::path::Path::new(&new).exists(), "{arguments:?}");
        }
    }
    good(&["pool", "check", &pool]);
}

/// The table above has every option that takes a number.
#[test]
fn every_option_with_a_number_is_tried() {
    let not_numbers = ["--seed", "--crash-op", "--crash-entry"];
    let numeric = |help: &str| -> Vec<String> {
        let lines = help.lines().map(str::trim_start);
        let of = |line: &str| {
            let (option, rest) = line.split_once(' ')?;
            let value = rest.strip_prefix('<')?.split('>').next()?;
            let named = option.trim_start_matches("--").to_uppercase().replace('-', "_");
            let is_number =
                value == named || ["NS", "N", "S", "BYTES", "N|all", "TX/S"].contains(&value);
            (option.starts_with("--") && is_number).then(|| option.to_owned())
        };
        lines.filter_map(of).collect()
    };
    // Values that are names, or lists of them, or paths.
    let names = [
        "--domain",
        "--scheme",
        "--keys",
        "--dir",
        "--ack",
        "--policy",
        "--caches",
        "--scale",
        "--layout",
        "--plant",
        "--out",
        "--figure",
        "--workload",
        "--core",
        "--bind",
        "--unix",
        "--ait",
        "--password-file",
        "--checkpoint",
        "--state",
    ];
    let commands = ["bench", "check", "crash", "reproduce", "sim", "compare", "report", "serve"];
    for command in commands.into_iter().chain(["pool create", "pool grow"]) {
        let help = good(&[words(command), vec!["--help"]].concat());
        for option in numeric(&help) {
            let is_known = NUMBERS.iter().any(|row| row.0.starts_with(command) && row.1 == option);
            let is_other = names.contains(&option.as_str()) || not_numbers.contains(&&*option);
            assert!(is_known || is_other, "{command} {option} is in no list");
        }
    }
}

#[test]
fn small_sizes_that_can_be_are_taken() {
    let sim = ["sim", "rbtree-string", "--transactions", "20", "--scheme", "fwb"];
    good(&[&sim[..], &["--footprint", "64"]].concat());
    good(&[&sim[..], &["--set", "scheme.scan_period=1000", "--footprint", "4K"]].concat());
}

#[test]
fn requests_beyond_every_memory_and_time_are_refused_by_line() {
    let directory = directory();
    let list = &path(&directory, "requests");
    for (wrong, says) in [
        ("0xfffffffffffffe00 READ 100", "the address is 0xfffffffffffffe00: take 0x0 to"),
        ("0x40 READ 10000000000000", "the cycle is 10000000000000: take 0 to"),
        ("0x40 READ 18446744073709551615", "the cycle is 18446744073709551615: take 0 to"),
    ] {
        std::fs::write(list, format!("0x0 READ 0\n{wrong}\n")).unwrap();
        let said = refused(&["sim", "--requests", list]);
        assert!(said.contains("requests:2: ") && said.contains(says), "{said}");
    }
    std::fs::write(list, "0x0 READ 0\n0xffffffffc0 WRITE 10000000000\n").unwrap();
    good(&["sim", "--requests", list]);
    std::fs::write(list, "x".repeat(100_000)).unwrap();
    assert!(refused(&["sim", "--requests", list]).contains("requests:1: a line of"));
}

/// A name with few letters wrong is told the right one, another one all there are.
#[test]
fn names_are_told_the_nearest_or_all() {
    let near = [
        ("bench words --scheme undoo", "did you mean 'undo'?"),
        ("bench wrods", "did you mean 'words'?"),
        ("crash hash --scheme rdeo", "did you mean 'redo'?"),
        ("crash hsah", "did you mean 'hash'?"),
        ("crash hash --policy adversarail", "did you mean 'adversarial'?"),
        ("crash hash --caches sever", "did you mean 'server'?"),
        ("crash hash --plant skip-flush:UndoDate", "did you mean 'skip-flush:UndoData'?"),
        ("crash wodrs --policy any", "did you mean 'words'?"),
        ("reproduce archapt --figure table4 --workload ycsb-aa", "did you mean 'ycsb-a'?"),
        ("reproduce archapt --figure 9 --scheme undo-archpat", "did you mean 'undo-archapt'?"),
        ("sim hash --scheme redo-clbw", "did you mean 'redo-clwb'?"),
        ("sim hash --scheme switf", "did you mean 'swift'?"),
        ("sim friendyl", "did you mean 'friendly'?"),
        ("sim friendly --config severr", "did you mean 'server'?"),
        ("sim friendly --set memory.preset=ddr4-320", "did you mean 'ddr4-3200'?"),
        ("sim friendly --set memory.tRDC=4", "did you mean 'memory.tRCD'?"),
        ("sim sps --scheme fwb --set scheme.log_slot=9", "did you mean 'scheme.log_slots'?"),
        ("sim sps --scheme non-pers --set scheme.log_slots=9", "there are ait.on"),
        ("sim hash --scheme fwb --crash 5 --plant H01", "did you mean 'H1' or 'H10' or 'H11'?"),
        ("check --run x --then {} --model etx4", "no model 'etx4': there are linux, ext4,"),
        ("check --run x --judge sqllite", "no judge 'sqllite': sqlite, replace=FILE or log=FILE"),
        ("shcemes", "'schemes'"),
    ];
    for (line, says) in near {
        let said = refused(&words(line));
        assert!(said.contains(says), "{line}: {said}");
    }
    let far: [(&str, &[&str]); 12] = [
        ("bench words --scheme mine", &["none", "undo", "redo-archapt:literal", "pmdk-word"]),
        ("bench mine", &["ycsb-a", "linkbench", "floor", "recovery", "all"]),
        ("crash hash --scheme mine", &["undo", "aof", "redo-archapt:literal"]),
        ("crash mine", &["hash", "ycsb-f", "all"]),
        ("crash hash --policy mine", &["lru", "plru", "bip", "random", "adversarial", "any"]),
        ("crash hash --caches mine", &["tiny", "tiny-exclusive", "small", "server-16th"]),
        ("crash hash --plant mine", &["outlast crash --plant list"]),
        ("crash mine --policy any", &["words", "lifecycle", "ARC-2"]),
        ("sim mine", &["friendly", "hash", "ssca2-string", "primitives", "machines"]),
        ("sim hash --scheme mine", &["non-pers", "fwb:literal", "undo", "swift"]),
        ("sim friendly --config mine", &["server", "hwl", "ehou", "picl", "archapt", "tiny"]),
        ("sim friendly --set memory.preset=mine", &["ddr4-3200", "optane-like", "cxl-pm"]),
    ];
    for (line, all) in far {
        let said = refused(&words(line));
        assert!(all.iter().all(|name| said.contains(name)), "{line}: {said}");
    }
}

#[test]
fn a_wrong_figure_is_told_all_that_there_are_and_the_help_has_them() {
    let help = good(&["reproduce", "--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
    for paper in ["archapt", "fwb", "ehou", "picl"] {
        let said = refused(&["reproduce", paper, "--figure", "99"]);
        let (_, all) = said.trim_end().split_once("there are ").expect("a list");
        assert!(all.split(", ").count() >= 7, "{said}");
        for figure in all.split(", ") {
            assert!(help.contains(figure), "the help lacks {figure}");
        }
    }
}

/// What a scheme does is seen in runs of small programs, and no trace is needed for it.
#[test]
fn features_of_checkpoints_come_from_runs() {
    let directory = directory();
    let out = &path(&directory, "picl");
    let said = good(&["reproduce", "picl", "--figure", "table2", "--out", out]);
    let row = |name: &str| {
        let line = said.lines().find(|line| line.trim_start().starts_with(name)).expect("a row");
        let words: Vec<&str> = line.split_whitespace().rev().take(4).collect();
        words.into_iter().rev().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("Multi-commit overlap"), "no no no yes");
    assert_eq!(row("Undo coalescing"), "no n/a n/a yes");
}

#[test]
fn help_is_wrapped() {
    for command in
        ["", "pool", "pool create", "bench", "check", "crash", "report", "sim", "reproduce"]
    {
        let arguments = words(command).into_iter().filter(|word| !word.is_empty());
        let help = good(&arguments.chain(["--help"]).collect::<Vec<_>>());
        let longest = help.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(longest.chars().count() <= 100, "{command}: {longest}");
    }
}

/// What changes one value of the default machine needs no base.
#[test]
fn a_machine_file_without_a_base_starts_from_the_default() {
    let directory = directory();
    let file = &path(&directory, "mine.toml");
    std::fs::write(file, "[core]\nrob = 64\n").unwrap();
    let few = ["--warm-up", "1000", "--instructions", "2000"];
    let ipc = |more: &[&str]| {
        let run = json(&[&["sim", "random"], &few[..], more].concat());
        let records = run["records"].as_array().unwrap();
        records.iter().find(|r| r["metric"] == "ipc").unwrap()["value"].clone()
    };
    assert_eq!(ipc(&["--config", file]), ipc(&["--set", "core.rob=64"]));
}

/// What is no trace is refused, packed or not.
#[test]
fn a_file_that_is_no_trace_is_refused_with_the_instruction() {
    let directory = directory();
    let file = &path(&directory, "file");
    for content in [
        "It was a dark and stormy night. ".repeat(200).into_bytes(),
        vec![0; 64 * 100],
        std::fs::read(env!("CARGO_BIN_EXE_outlast")).unwrap()[..64_000].to_vec(),
    ] {
        std::fs::write(file, content).unwrap();
        let said = refused(&["sim", "--trace", file]);
        assert!(said.contains("no ChampSim trace: of instruction "), "{said}");
    }
}

/// A bug where its code does not run, and a run that does not come to it, look like a sound
/// program; they are told apart.
#[test]
fn a_planted_bug_that_goes_unnoticed_is_no_sound_program() {
    let small = "--keys 50 --transactions 20 --points 10 --lanes 1";
    let crash = |more: &str| format!("crash hash {small} {more}");
    // Growth is not among what this workload does.
    let (_, errors) = found(&words(&crash("--scheme undo --plant size-before-file")));
    let says = "size-before-file is planted in undo, not reached here; see scope 'lifecycle': outlast \
                crash lifecycle --policy any --scheme undo --plant size-before-file";
    assert!(errors.contains(says), "{errors}");
    let (_, errors) =
        found(&words("crash lifecycle --policy any --scheme undo --plant size-before-file"));
    assert!(!errors.contains("not reached"), "{errors}");

    let control = crash("--scheme undo --plant flush-twice");
    good(&words(&control));

    let said = refused(&words(&crash("--scheme undo --plant journal-ended-early")));
    let says = "journal-ended-early changes nothing in undo: it can be planted in rollback";
    assert!(said.contains(says), "{said}");
    refused(&words(&crash("--scheme undo,redo --plant skip-flush:UndoData")));
    let said = refused(&words("sim hash --scheme undo-clwb --crash 5 --plant H2"));
    assert!(said.contains("H2 changes nothing in undo-clwb: it can be planted in fwb"), "{said}");
    let said = refused(&words("sim hash --scheme redo --crash 5 --plant skip-flush:UndoData"));
    assert!(said.contains("changes nothing in redo"), "{said}");

    // Not asked for by name, only the schemes are crashed that have what it breaks.
    let (told, _) = found(&words(
        "crash hash --keys 50 --transactions 20 --points 40 --plant skip-flush:UndoData",
    ));
    assert!(told.contains("hash, undo,") && !told.contains("hash, redo,"), "{told}");

    let unnoticed =
        "sim hash --scheme fwb --config tiny --footprint 2K --transactions 5 --crash 3 --plant H10";
    let (_, errors) = found(&words(unnoticed));
    assert!(
        errors.contains("nothing was noticed here; see outlast sim hash-toggle --scheme fwb"),
        "{errors}"
    );
    let (_, errors) = found(&words(
        "sim hash --scheme undo --keys 50 --transactions 5 --crash 3 --plant size-before-file",
    ));
    assert!(errors.contains("not reached here; see scope 'lifecycle'"), "{errors}");
}

#[test]
fn the_list_of_plants_says_what_each_breaks() {
    let list = good(&["crash", "--plant", "list"]);
    assert!(
        list.contains("This flush is left out. Undo: data in place, before the record is dead")
    );
    assert!(list.contains("in undo"), "{list}");
    let document = json(&["crash", "--plant", "list"]);
    let records = document["records"].as_array().unwrap();
    let has = |key: &str, least: usize| {
        records.iter().all(|record| record[key].as_str().is_some_and(|text| text.len() >= least))
    };
    assert!(has("description", 20) && has("schemes", 3) && has("kind", 5), "{document}");
}

#[test]
fn crash_points_that_a_run_does_not_have_are_errors() {
    let crash = ["crash", "hash", "--keys", "50", "--transactions", "20", "--scheme", "undo"];
    let one = ["--policy", "lru", "--caches", "tiny"];
    let at = |point: &str| refused(&[&crash[..], &one, &["--crash-op", point]].concat());
    let said = at("999999999");
    assert!(said.contains("--crash-op 999999999: the run has "), "{said}");
    let said = at("5+100");
    assert!(said.contains("--crash-op 5+100: the operation after 5 makes "), "{said}");
    assert!(at("five").contains("`five` is no crash point"));
    let everywhere = [&crash[..], &["--crash-op", "5+100"]].concat();
    assert!(refused(&everywhere).contains("lines durable"), "under every policy");
    good(&[&crash[..], &one, &["--crash-op", "5"]].concat());

    for scheme in ["undo", "fwb"] {
        let sim = ["sim", "hash", "--scheme", scheme, "--keys", "50", "--transactions", "9"];
        let small = ["--config", "tiny", "--footprint", "2K", "--crash-entry"];
        let said = refused(&[&sim[..], &small, &["999999999"]].concat());
        assert!(said.contains("--crash-entry 999999999: the run's journal has "), "{said}");
        good(&[&sim[..], &small, &["3"]].concat());
    }
}

#[test]
fn after_a_failure_other_policies_are_not_run() {
    let planted = "crash hash --keys 50 --transactions 40 --points 40 --scheme undo --plant skip-flush:UndoData";
    let (told, _) = found(&words(planted));
    assert_eq!(told.lines().filter(|line| line.ends_with("  not run")).count(), 4, "{told}");
}

/// One crash of the machine's schemes is kept: as files that say where it was, with a folder for each scheme.
#[test]
fn a_crash_of_the_machine_is_kept_as_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("kept");
    let small = "sim hash --config tiny --footprint 2K --transactions 20";
    let keep = |more: &str| format!("{small} {more} --keep {}", at.display());
    for (more, says) in [
        ("--scheme fwb", "--keep goes with --crash or --crash-entry"),
        ("--scheme undo --crash all", "`outlast crash --keep` those of the runtime"),
        ("--scheme fwb --crash-entry 99999", "the run's journal has"),
        ("--scheme fwb --crash 3", "no crash point fails here: --crash-entry ENTRY names one"),
    ] {
        let errors = refused(&words(&keep(more)));
        assert!(errors.contains(says) && !at.exists(), "{more}: {errors}");
    }
    good(&words(&keep("--scheme fwb,picl --crash-entry 12")));
    for scheme in ["fwb", "picl"] {
        let text = std::fs::read_to_string(at.join(scheme).join("journal.json")).unwrap();
        assert!(text.contains("\"crash_entry\":12"), "{text}");
        let length = |name| std::fs::metadata(at.join(scheme).join(name)).unwrap().len();
        assert_eq!(length("before.bin"), length("recovered.bin"));
        assert!(length("memory.bin") > 0 && length("index.html") > 0);
    }
}
