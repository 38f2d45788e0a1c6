//! An explanation of a flaw of the machine's schemes says where it crashed and what was wrong.

use outlast_crash::explain::Fate;
use outlast_crash::explain::published::{Flaw, named};
use outlast_crash::machine::{Campaign, Points};
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

/// The image is memory before the run with the writes before the crash, and recovery's is the memory that the
/// oracle judged.
#[test]
fn a_crash_is_laid_open() {
    let plant = plants().find(|plant| plant.name == "HWL-1").unwrap();
    let campaign = Campaign::showing(plant, 1);
    let look = campaign.look().unwrap();
    let points = Points::One(look.at.entry);
    let again = Campaign { points, second_crash: false, resumes: 0, ..campaign };
    assert_eq!(again.run().unwrap().first, look.violation.clone().map(|wrong| (look.at, wrong)));
    let mut image = look.base.clone();
    for written in look.writes().filter(|written| written.is_in_image) {
        let at = written.words.line.start().plus(8 * written.words.first_word as u64);
        let bytes = written.words.words.as_flattened();
        image[at.0 as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    assert!(image == look.image);
    assert!(look.transactions().iter().all(|tx| !tx.lines.is_empty() && tx.acked.is_some()));
}

/// A crash that is asked for is shown though nothing is wrong: of the program, and of the rest behind it, for
/// schemes that move lines and those that keep epochs.
#[test]
fn a_sound_crash_is_laid_open_too() {
    let mut missing = 0;
    for name in ["fwb", "redu", "ssp", "picl", "thynvm"] {
        let small = Campaign::small(name.parse().unwrap(), "hash", 1);
        let campaign =
            Campaign { second_crash: false, resumes: 0, points: Points::Some(20), ..small };
        let refused = campaign.clone().look().err().unwrap().to_string();
        assert!(refused.contains("--crash-entry ENTRY names one"), "{refused}");
        let at = Campaign { points: Points::One(40), ..campaign };
        let look = at.look().unwrap();
        assert_eq!((look.at.entry, look.at.resumed, &look.violation), (40, None, &None));
        assert!(look.explanation.compared.iter().all(|row| row.is_allowed), "{name}");
        let words = look.lines().into_iter().flat_map(|line| line.words);
        missing += words.filter(|word| word.image != word.newest).count();
        let last = at.plan.footprint as usize;
        assert!(look.memory.as_ref().unwrap().len() >= last);
        let rest = Campaign { resumes: 1, resumed_points: Points::One(3), ..at.clone() };
        let rest = rest.look().unwrap();
        assert_eq!((rest.at.entry, rest.at.resumed, &rest.violation), (40, Some(3), &None));
        assert!(rest.explanation.replay.ends_with("--crash-entry 40 --resume-entry 3"), "{name}");
        assert!(rest.left().kept.is_some());
        let late = Campaign { points: Points::One(1 << 40), ..at };
        assert!(late.look().err().unwrap().to_string().contains("entries"));
    }
    assert!(missing > 0, "all that was acknowledged lay in its place at every crash");
}
