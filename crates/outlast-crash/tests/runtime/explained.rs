//! An explanation of a failing scope says what ran, what had reached memory, and what the oracle
//! missed.

use outlast::Scheme;
use outlast::lab::Plant;
use outlast::scheme::Site;
use outlast_crash::explain::published::{named, planted};
use outlast_crash::explain::{Explanation, Fate};

fn point(name: &str) -> Explanation {
    let flaw = named(name).into_iter().next().unwrap();
    flaw.explain(1).unwrap().unwrap_or_else(|| panic!("{name} does not show"))
}

#[test]
fn a_missing_flush_is_a_store_that_was_acknowledged_and_stayed_in_the_cache() {
    let plant = Plant::SkipFlush(Site::RedoRecord);
    let told = planted(plant, Scheme::Redo, "apart").unwrap();
    let told = told.expect("the scope notices it");
    let run = &told.runs[0];
    let missing = |event: &&outlast_crash::explain::Event| event.fate == Some(Fate::Missing);
    let lost: Vec<_> = run.events.iter().filter(missing).collect();
    assert!(lost.iter().any(|event| event.place.starts_with("cell ")), "{told:#?}");
    let lines = run.lines.iter().filter(|line| line.fate == Fate::Missing);
    let words = lines.flat_map(|line| &line.words);
    assert!(words.clone().count() > 0 && words.clone().all(|word| word.image != word.newest));
    let wrong: Vec<_> = told.compared.iter().filter(|row| !row.is_allowed).collect();
    assert!(!wrong.is_empty() && wrong.iter().all(|row| row.what.starts_with("cell ")));
    assert!(told.transactions.iter().any(|transaction| transaction.acknowledged), "{told:#?}");
    assert_eq!(
        told.replay,
        format!("outlast crash apart --policy any --scheme redo --plant {plant} --explain")
    );
}

#[test]
fn points_of_the_published_protocol_are_told() {
    let refused = point("ARC-3");
    assert_eq!((refused.flaw.as_str(), refused.schedule.as_str()), ("ARC-3", ""));
    assert!(refused.verdict.starts_with("refused: "), "{}", refused.verdict);
    assert!(refused.recovery.read.iter().any(|place| place.contains("log of lane 0")));
    assert!(refused.compared.iter().all(|row| row.found == "no pool to look into"));

    let lost = point("ARC-7");
    assert!(lost.verdict.starts_with("lost: "), "{}", lost.verdict);
    assert!(lost.recovery.outcome.contains("lines corrected"), "{}", lost.recovery.outcome);

    let stuck = point("ARC-1 physical");
    assert!(stuck.runs.is_empty() && stuck.verdict.starts_with("stuck: "), "{stuck:#?}");
}

#[test]
fn a_sound_scheme_has_nothing_to_explain() {
    let control = Plant::controls().next().unwrap();
    assert_eq!(planted(control, Scheme::Undo, "apart").unwrap(), None);
}
