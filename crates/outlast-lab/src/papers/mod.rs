//! The papers whose figures are measured again: each a folder and a line of [`PAPERS`].
//!
//! A folder has the paper's claims (`claims.csv`), what it runs, the rule by which each claim is
//! judged, and the views that show what came out.

pub mod archapt;
pub mod claim;
pub mod ehou;
pub mod fwb;
mod paper;
pub mod picl;
pub mod view;

pub use paper::{Card, Outcome, Paper, Request, Run};
pub(crate) use picl::PRESET as MACHINE_OF_CHECKPOINTS;

use crate::record::{Document, Kind, Record};
use claim::Judgement;

/// Every paper, in the order of the report.
pub const PAPERS: [&dyn Paper; 4] = [&archapt::Archapt, &fwb::Fwb, &ehou::Ehou, &picl::Picl];

/// The paper of that name on the command line.
pub fn named(name: &str) -> Option<&'static dyn Paper> {
    PAPERS.into_iter().find(|paper| paper.name() == name)
}

/// The records of each paper, and the rest: the project's own.
pub fn split(document: &Document) -> (Vec<(&'static dyn Paper, Document)>, Document) {
    let mut own = document.clone();
    let papers = PAPERS.map(|paper| {
        let (mine, rest) = own.split(paper.id());
        own = rest;
        (paper, mine)
    });
    (papers.into(), own)
}

/// Measures what a report shows of each paper. What was measured says for which, and stays apart
/// from the report's own competition.
///
/// # Errors
/// When something could not be measured.
pub(crate) fn for_report(
    paper: &dyn Paper,
    run: &dyn Run,
    listen: &mut crate::progress::Listener<'_>,
) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let mut records = run.run(listen)?.records;
    for record in records.iter_mut().filter(|record| record.paper.is_none()) {
        record.paper = Some(paper.id().to_owned());
    }
    records.extend(not_measured(paper, &records));
    Ok(records)
}

/// The claims of a paper without a verdict among these records: a report has the paper's whole list, and
/// says which of its claims another command measures.
fn not_measured(paper: &dyn Paper, records: &[Record]) -> Vec<Record> {
    let is_judged = |id: &str| records.iter().any(|r| r.kind == Kind::Claim && r.metric == id);
    let figures = paper.figures();
    let left = paper.claims().iter().filter(|claim| !is_judged(claim.id));
    let judged = left.map(|claim| {
        let figure = figures.iter().find(|(_, in_claims)| in_claims == claim.part);
        let figure = figure.map_or(String::new(), |(name, _)| format!(" --figure {name}"));
        let name = paper.name();
        let why = format!("this report did not measure it: outlast reproduce {name}{figure} does");
        Judgement::NotTestable(why).record(paper.id(), claim)
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn papers_have_names_of_their_own_and_views_in_order() {
        let mut seen = HashSet::new();
        for paper in PAPERS {
            assert!(seen.insert(paper.name()), "{}", paper.name());
            assert!(named(paper.name()).is_some());
            assert!(!paper.claims().is_empty() && !paper.views().is_empty());
            let figures: HashSet<_> = paper.figures().into_iter().collect();
            assert_eq!(figures.len(), paper.figures().len());
        }
        assert!(named("nothing").is_none());
    }

    /// The report's list of claims and the full one are the same, whatever the report measured.
    #[test]
    fn a_report_lists_every_claim_once() {
        for paper in PAPERS {
            let claims = paper.claims();
            let some = &claims[claims.len() / 2];
            let judged = Judgement::NotTestable("why".to_owned()).record(paper.id(), some);
            let left = not_measured(paper, std::slice::from_ref(&judged));
            let ids: HashSet<&str> = left.iter().map(|record| &*record.metric).collect();
            assert_eq!((ids.len(), left.len()), (claims.len() - 1, claims.len() - 1));
            assert!(!ids.contains(some.id) && left.iter().all(|record| record.value.is_none()));
            let command = format!("outlast reproduce {}", paper.name());
            assert!(
                left.iter().all(|r| r.reason.as_ref().is_some_and(|why| why.contains(&command)))
            );
        }
    }

    /// The other direction, a claim without a rule, panics where the folders' tests judge them all.
    #[test]
    fn no_rule_is_for_a_claim_that_no_paper_makes() {
        for paper in PAPERS {
            let claims = paper.claims();
            let known: HashSet<&str> = claims.iter().map(|claim| claim.name()).collect();
            let rows = (paper.card().rows)();
            assert!(!rows.is_empty(), "{}", paper.name());
            let mut seen = HashSet::new();
            for row in rows {
                assert!(known.contains(row), "{}: no claim is called {row}", paper.name());
                assert!(seen.insert(row), "{}: two rows for {row}", paper.name());
            }
        }
    }
}
