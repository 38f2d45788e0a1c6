//! A file of one's own transactions as a scope: every image that any eviction allows.
//!
//! The search tells transactions by their numbers, so a store has its transaction's number in place of its value.
//! Lines that nothing touches are left out; words keep their places in the lines that are left.

use std::collections::BTreeSet;

use outlast_workloads::Workload;
use outlast_workloads::own::{OwnStep, OwnTransaction, OwnWork};

use super::Scope;
use super::script::Step;
use super::table;

/// Limits of an exhaustive search.
const LANES_MAX: u16 = 4;
const TRANSACTIONS_MAX: u64 = 8;
const LINES_MAX: usize = 8;
/// Words that a transaction stores to.
const STORED_MAX: usize = 16;

const LINE_WORDS: u64 = 8;

/// The scope of a workload that is a file's.
///
/// # Errors
/// What is too large to be searched, and how much is possible.
pub fn scope_of(workload: &'static Workload, work: &OwnWork) -> Result<Scope, String> {
    let name = workload.name;
    let refused = |is: u64, what: &str, most: u64| {
        Err(format!("{name}: --policy any takes up to {most} {what}, and the file has {is}"))
    };
    if work.lanes() > LANES_MAX {
        return refused(work.lanes().into(), "lanes", LANES_MAX.into());
    }
    if work.len() > TRANSACTIONS_MAX {
        return refused(work.len(), "transactions", TRANSACTIONS_MAX);
    }
    let lines: BTreeSet<u64> = work.transactions().iter().flat_map(touched).collect();
    if lines.len() > LINES_MAX {
        return refused(lines.len() as u64, "lines", LINES_MAX as u64);
    }
    let lines: Vec<u64> = lines.into_iter().collect();
    let cell = |word: u64| {
        let line = lines.binary_search(&(word / LINE_WORDS)).expect("it is touched");
        line as u64 * LINE_WORDS + word % LINE_WORDS
    };
    let mut scripts = vec![Vec::new(); usize::from(work.lanes())];
    for tx in work.transactions() {
        let steps: Vec<Step> = tx.steps.iter().flat_map(|step| steps_of(step, &cell)).collect();
        let written =
            |step: &Step| if let Step::Write(cells) = step { cells.clone() } else { Vec::new() };
        let stored: BTreeSet<u64> = steps.iter().flat_map(written).collect();
        if stored.len() > STORED_MAX {
            let words = "words stored to by a transaction";
            return refused(stored.len() as u64, words, STORED_MAX as u64);
        }
        scripts[usize::from(tx.lane)].push(steps);
    }
    let words = lines.len().max(1) as u64 * LINE_WORDS;
    Ok(table::of_words(name, workload.about, words, scripts))
}

/// The lines that a transaction touches.
fn touched(tx: &OwnTransaction) -> Vec<u64> {
    let lines = |step: &OwnStep| {
        let (first, count) = match step {
            OwnStep::Load { word, words } => (*word, *words),
            OwnStep::Store { word, values } => (*word, values.len() as u64),
            OwnStep::Think(_) => (0, 0),
        };
        let end = (first + count).div_ceil(LINE_WORDS);
        if count == 0 { 0..0 } else { first / LINE_WORDS..end }
    };
    tx.steps.iter().flat_map(lines).collect()
}

fn steps_of(step: &OwnStep, cell: &impl Fn(u64) -> u64) -> Vec<Step> {
    match step {
        OwnStep::Load { word, words } => {
            (*word..word + words).map(|w| Step::Read(cell(w))).collect()
        }
        OwnStep::Store { word, values } => {
            vec![Step::Write((*word..word + values.len() as u64).map(cell).collect())]
        }
        OwnStep::Think(_) => Vec::new(),
    }
}
