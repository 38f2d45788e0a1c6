//! A file of one's own transactions wherever a workload is named.

mod common;

use common::{command, directory, good, json, outlast, path, refused, text};

const TRANSFER: &str = "\
outlast-work 1
memory 0x2000
lanes 2
init 0x40 100 100
tx 0
  load 0x40 2
  think 20
  store 0x40 90 110
end
tx 1
  load 0x1000
  store 0x1000 1 2
end
tx 0
  load 0x40 2
  store 0x40 80 120
end
";

fn file(directory: &tempfile::TempDir, content: &str) -> String {
    let path = path(directory, "mine.work");
    std::fs::write(&path, content).unwrap();
    path
}

fn schemes_of(document: &serde_json::Value, metric: &str) -> Vec<String> {
    let records = document["records"].as_array().unwrap().iter();
    let of_metric = records.filter(|record| record["metric"] == metric);
    let mut schemes: Vec<_> =
        of_metric.map(|record| record["scheme"].as_str().unwrap().to_owned()).collect();
    schemes.sort();
    schemes.dedup();
    schemes
}

#[test]
fn it_is_measured_simulated_crashed_and_compared() {
    let directory = directory();
    let mine = &file(&directory, TRANSFER);
    let bench = json(&[
        "bench",
        mine,
        "--scheme",
        "swift,undo",
        "--rounds",
        "2",
        "--turn-ms",
        "1",
        "--dir",
        &path(&directory, ""),
    ]);
    assert_eq!(schemes_of(&bench, "throughput"), ["swift", "undo"]);
    let record = &bench["records"][0];
    assert_eq!((record["workload"].as_str(), record["threads"].as_u64()), (Some(&**mine), Some(2)));
    let sim = json(&["sim", mine, "--scheme", "swift,fwb,picl", "--config", "tiny"]);
    assert_eq!(schemes_of(&sim, "throughput"), ["fwb", "picl", "swift"]);
    for record in sim["records"].as_array().unwrap() {
        assert_eq!(
            (record["transactions"].as_u64(), record["threads"].as_u64()),
            (Some(3), Some(2))
        );
    }
    for scheme in ["fwb,ehou,picl", "swift,undo"] {
        let all = ["sim", mine, "--scheme", scheme, "--config", "tiny", "--crash", "40"];
        good(&all);
    }
    let crash = json(&["crash", mine, "--scheme", "undo,swift", "--points", "40"]);
    assert_eq!(schemes_of(&crash, "lost"), ["swift", "undo"]);
    let any = good(&["crash", mine, "--scheme", "swift", "--policy", "any"]);
    assert!(any.contains("covered (100 %)"), "{any}");
    let page = path(&directory, "page");
    let compared =
        json(&["compare", mine, "--scheme", "fwb,swift", "--config", "tiny", "--out", &page]);
    let schemes = schemes_of(&compared, "throughput");
    assert!(["fwb", "swift"].iter().all(|name| schemes.iter().any(|s| s == name)), "{schemes:?}");
}

#[test]
fn a_planted_bug_is_found_with_it_and_the_line_replays_it() {
    let directory = directory();
    let mine = &file(&directory, TRANSFER);
    let plant = ["crash", mine, "--scheme", "undo", "--points", "200", "--plant"];
    let output = outlast(&[&plant[..], &["skip-flush:UndoData"]].concat());
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let replay = errors.split("outlast crash ").nth(1).expect("a command that replays it");
    let words: Vec<&str> = replay.lines().next().unwrap().split_whitespace().collect();
    let again = command(&[&["crash"][..], &words].concat()).output().unwrap();
    assert_eq!(again.status.code(), Some(1), "{}: {}", replay, text(&again.stderr));
    good(&[&plant[..], &["flush-twice"]].concat());
    let output = outlast(&[
        "crash",
        mine,
        "--scheme",
        "undo",
        "--policy",
        "any",
        "--plant",
        "skip-flush:UndoData",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn what_is_wrong_is_one_line() {
    let directory = directory();
    let mine = &file(&directory, TRANSFER);
    let cases: [(&[&str], &str); 9] = [
        (&["crash", mine, "--lanes", "3"], "--lanes does not apply"),
        (&["crash", mine, "--keys", "100"], "--keys does not apply"),
        (&["sim", mine, "--scheme", "swift", "--threads", "4"], "--threads does not apply"),
        (&["sim", mine, "--scheme", "fwb", "--shared"], "--shared does not apply"),
        (&["compare", mine, "--footprint", "4096"], "--footprint does not apply"),
        (&["bench", mine, "--threads", "1,2"], "has 2 lanes: it runs with --threads 2"),
        (&["bench", mine, "--records", "7"], "its file says how much memory there is"),
        (
            &["crash", mine, "--policy", "any", "--transactions", "2"],
            "--transactions does not apply",
        ),
        (&["sim", "other.work"], "other.work: No such file"),
    ];
    for (arguments, says) in cases {
        let line = refused(arguments);
        assert!(line.contains(says), "{arguments:?}: {line}");
    }
    std::fs::write(mine, TRANSFER.replace("think 20", "thing 20")).unwrap();
    for verb in ["bench", "sim", "crash", "compare"] {
        let line = refused(&[verb, mine]);
        let says = format!("{mine}:7: expected `load`, `store`, `think` or `end`, found 'thing'");
        assert!(line.contains(&says), "{line}");
    }
}

/// The page's example is a file that runs.
#[test]
fn the_example_of_the_page_is_one() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/own-work.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = page.split("```").find(|part| part.contains("outlast-work 1\n")).unwrap();
    let example = example.trim_start_matches("text");
    let directory = directory();
    let mine = &file(&directory, example.trim_start());
    good(
        &["sim", mine, "--scheme", "swift,fwb", "--config", "tiny", "--crash", "20"]
            .map(|word| if word == "swift,fwb" { "swift" } else { word }),
    );
    good(&["crash", mine, "--scheme", "swift", "--policy", "any"]);
}
