//! Tests of tests: each sync left out in turn.

use std::io;

use super::plan::Plan;
use crate::order::{Moment, Ordered};
use crate::run::{Run, Step};
use crate::search::{Coverage, Search};

/// A sync that was left out, and the check's verdict.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The sync's call.
    pub call: String,
    /// The check's verdict in a state that only its absence allows.
    pub killed: Option<String>,
}

/// Leaves out each sync in turn, and looks for a state that fails then.
pub(super) fn leave_out_syncs(
    plan: &Plan,
    run: &Run,
    ordered: &[Ordered],
    search: &mut Search<'_>,
    news: &mut dyn FnMut(&Coverage, usize),
) -> io::Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    let coverage = search.coverage;
    let mut last_call = None;
    for (event, step) in run.events.iter().enumerate() {
        if !matches!(step.step, Step::Sync(_)) || last_call == Some(step.call) {
            continue;
        }
        last_call = Some(step.call);
        let without = plan.ordered(run, Some(event));
        // Only moments at which something else is durable than before.
        let wanted = |model: usize, moment: &Moment| {
            let before =
                ordered[model].moments.iter().rev().find(|known| known.event <= moment.event);
            moment.event > event && before.is_none_or(|known| !moment.forces_all_of(known))
        };
        let failures = search.search(&without, &wanted, news, 1)?;
        let call = run.calls[step.call as usize].text.clone();
        mutants
            .push(Mutant { call, killed: failures.first().map(|failure| failure.wrong.clone()) });
        if search.coverage.cut_short {
            break;
        }
    }
    search.coverage = Coverage { cut_short: search.coverage.cut_short, ..coverage };
    Ok(mutants)
}
