use super::*;
use crate::record::{Kind, Verdict};

/// Synthetic work alone: what runs where there are no programs.
fn tiny(parts: &[Part]) -> Task {
    Task {
        divisor: 8192,
        single: (1, 2),
        mixed: (1, 1),
        swept_mixes: 1,
        with_programs: false,
        ..Task::new(parts, Size::Quick, 1)
    }
}

#[test]
fn a_tiny_reproduction_judges_every_claim_and_is_the_same_again() {
    let run = |parts: &[Part]| run(&tiny(parts), &mut |_| ()).unwrap();
    let records = run(&Part::ALL);
    let claims: Vec<_> = records.iter().filter(|record| record.kind == Kind::Claim).collect();
    assert_eq!(claims.len(), CLAIMS.len());
    for claim in &claims {
        let silent = claim.verdict == Some(Verdict::NotTestable) && claim.reason.is_none();
        assert!(claim.verdict.is_some() && !silent, "{}", claim.metric);
    }
    let is_measured = |id: &str| !id.contains("table3") && !id.contains("proto");
    let rtl = claims.iter().filter(|claim| !is_measured(&claim.metric));
    assert!(rtl.clone().count() > 10);
    for claim in rtl {
        assert!(claim.reason.as_deref().unwrap().contains("RTL"), "{}", claim.metric);
    }
    let few = [Part::Fig9, Part::Compression, Part::Wear];
    assert_eq!(run(&few), run(&few));
}

/// Each cell of Table II as the paper has it, and its reason from a run.
#[test]
fn features_are_as_runs_show_them() {
    let records = run(&tiny(&[Part::Table2, Part::Table4]), &mut |_| ()).unwrap();
    let claims: Vec<_> = records.iter().filter(|record| record.kind == Kind::Claim).collect();
    assert_eq!(claims.len(), judge::features_of_claims() + machine::TABLE4.len());
    for claim in claims {
        let why = claim.reason.as_deref().unwrap_or_default();
        assert_eq!(
            claim.verdict,
            Some(Verdict::Reached),
            "{} {:?}: {why}",
            claim.metric,
            claim.value
        );
    }
}
