//! An explanation of a flaw of the machine's schemes says where it crashed and what was wrong.

use outlast_crash::explain::Fate;
use outlast_crash::explain::published::{Flaw, named};
use outlast_crash::machine::Campaign;
use outlast_schemes::plants;

fn explained(name: &str) -> outlast_crash::explain::Explanation {
    let flaw = named(name).into_iter().next().unwrap();
    flaw.explain(1).unwrap().unwrap_or_else(|| panic!("{name} does not show"))
}

#[test]
fn flaws_of_three_papers_are_told_with_their_crash_their_recovery_and_what_is_wrong() {
    for (name, scheme) in [("HWL-1", "fwb"), ("EHOU-2", "ehou"), ("PICL-1", "picl")] {
        let told = explained(name);
        assert_eq!(told.flaw, name);
        assert!(told.scheme.starts_with(scheme), "{}", told.scheme);
        let run = &told.runs[0];
        assert!(!run.events.is_empty() && run.events.iter().all(|event| event.at <= run.crash_at));
        assert!(!run.lines.is_empty(), "{name}: no line is shown");
        assert!(!told.recovery.read.is_empty() && !told.recovery.outcome.is_empty(), "{told:#?}");
        assert!(told.compared.iter().any(|row| !row.is_allowed), "{told:#?}");
        assert!(told.replay.contains(name), "{}", told.replay);
    }
}

/// What the campaign finds first is what is explained, whether or not its recovery has to crash.
#[test]
fn what_is_explained_is_what_a_campaign_finds() {
    let plant = plants().find(|plant| plant.name == "HWL-1").unwrap();
    let campaign = Campaign { resumes: 0, second_crash: false, ..Campaign::showing(plant, 1) };
    let report = campaign.run().unwrap();
    let (at, violation) = report.first.unwrap();
    let told = campaign.explain().unwrap().unwrap();
    assert_eq!(told.runs[0].crash_at, at.entry as u64);
    assert_eq!(told.verdict, violation.to_string());
}

/// What recovery leaves behind shows when the program has gone on from it and crashes again: both runs are
/// told.
#[test]
fn a_flaw_that_shows_behind_a_recovery_is_told_with_the_run_that_went_on() {
    let told = explained("PICL-8");
    let (first, last) = (&told.runs[0], told.runs.last().unwrap());
    assert!(told.compared.iter().any(|row| !row.is_allowed), "{told:#?}");
    assert!(!told.recovery.outcome.is_empty() && told.replay.contains("PICL-8"), "{told:#?}");
    assert_eq!((&*first.name, &*last.name), ("the program", "the rest of the program"));
    assert!(last.events[0].what.starts_with("goes on: recovery kept "), "{told:#?}");
}

#[test]
fn a_sound_scheme_has_nothing_to_explain() {
    let plant = plants().find(|plant| plant.name == "HWL-1").unwrap();
    let campaign = Campaign { plant: None, ..Campaign::showing(plant, 1) };
    let campaign = Campaign { second_crash: false, ..campaign };
    assert_eq!(campaign.explain().unwrap(), None);
}

/// Data that acknowledged transactions wrote and that the crash left in the cache is shown as missing.
#[test]
fn lines_that_were_still_in_the_cache_are_told_from_those_in_memory() {
    let told = explained("EHOU-9");
    let fates: Vec<Fate> = told.runs[0].lines.iter().map(|line| line.fate).collect();
    assert!(fates.iter().any(|fate| *fate != Fate::Durable), "{fates:?}");
    assert!(matches!(named("EHOU-9")[0], Flaw::Machine(_)));
}
