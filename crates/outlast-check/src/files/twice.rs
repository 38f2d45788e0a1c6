//! Crashes in recovery.

use super::CheckError;
use super::plan::{Keeper, Plan};
use super::report::Case;
use crate::capture::{self, marks::Marks};
use crate::finding::{Class, Reducer, same_fault};
use crate::order::Ordered;
use crate::run::Run;
use crate::search::{Coverage, Search, bases};

/// A run whose recoveries are crashed.
pub(super) struct Twice<'a> {
    pub plan: &'a Plan,
    pub run: &'a Run,
    pub models: &'a [Ordered],
}

impl Twice<'_> {
    /// Captures the recovery of each state that passed, crashes it wherever it writes, and returns how
    /// many did.
    pub fn crash(
        &self,
        search: &mut Search<'_>,
        cases: &mut Vec<Case>,
        news: &mut dyn FnMut(&Coverage, usize),
    ) -> Result<usize, CheckError> {
        let bases: Vec<_> = self.models.iter().map(|model| bases(self.run, model)).collect();
        let judge = search.judge()?;
        let mut recoveries = 0;
        for state in search.passed().to_vec() {
            if search.is_over() {
                search.coverage.cut_short = true;
                break;
            }
            let model = &self.models[state.model];
            let moment = &model.moments[state.moment];
            judge.lay_out(&bases[state.model][state.moment].tree(model, &state.kept))?;
            let (command, folder) = judge.words(moment.issued, moment.acked);
            let mut recovery = capture::capture(&capture::Options {
                dir: judge.place().to_owned(),
                command,
                folder: Some(folder.to_owned()),
                marks: Marks::default(),
                time: self.plan.check_time,
                reads: false,
                exact: false,
                fault: None,
            })?;
            if recovery.counts().0 == 0 {
                continue;
            }
            recoveries += 1;
            recovery.blind.clear();
            recovery.promised = (moment.issued, moment.acked);
            // The check of a replay finds the state where it finds those of the run.
            recovery.dir.clone_from(&self.run.dir);
            let ordered = self.plan.ordered(&recovery, None);
            let mut within = search.within(&recovery);
            let failures = within.search(&ordered, &|_, _| true, news, 1)?;
            let reducer = Reducer { run: &recovery, models: &ordered, grain: self.plan.grain };
            let mut found = reducer.findings(&mut within, &failures)?;
            search.end(within);
            let lost: Vec<String> = model
                .pending(moment)
                .iter()
                .filter(|unit| !state.kept.contains(unit))
                .map(ToString::to_string)
                .collect();
            let first = format!("{}@{}-{}", model.model.name, moment.event, lost.join(","));
            for finding in &mut found {
                finding.class = Class::RecoveryNotRepeatable;
                finding.first_crash = Some(first.clone());
            }
            found.retain(|finding| !cases.iter().any(|case| same_fault(&case.finding, finding)));
            cases.extend(Keeper { file: None }.cases(&recovery, &ordered, found));
        }
        Ok(recoveries)
    }
}
