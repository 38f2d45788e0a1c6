//! Runs in which one call fails.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::plan::{Keeper, Plan, Source};
use super::report::Case;
use super::{CheckError, bad};
use crate::capture::{self, Fault, FaultKind};
use crate::finding::{Class, Reducer, same_fault};
use crate::run::Run;
use crate::search::{Coverage, Search};

/// A program each of whose calls fails once.
pub(super) struct Failing<'a> {
    pub plan: &'a Plan,
    pub run: &'a Run,
}

impl Failing<'_> {
    /// Runs the program once for each call that may fail, in a copy of the directory, and crashes it.
    /// Returns how many runs there were.
    pub fn run(
        &self,
        search: &mut Search<'_>,
        cases: &mut Vec<Case>,
        news: &mut dyn FnMut(&Coverage, usize),
    ) -> Result<usize, CheckError> {
        let Source::Program { dir, words } = &self.plan.source else {
            return bad("faults need the program: a captured run cannot be run again");
        };
        let judge = search.judge()?;
        let words = match in_copy(words, dir, judge.place()) {
            Some(words) => words,
            None => {
                return bad(
                    "--faults runs the program again in a copy of its directory: --dir must be relative, or stand among the program's arguments",
                );
            }
        };
        let mut runs = 0;
        for kind in FaultKind::ALL {
            for call in 0.. {
                if search.is_over() {
                    search.coverage.cut_short = true;
                    return Ok(runs);
                }
                judge.lay_out(&self.run.base)?;
                let mut run = capture::capture(&capture::Options {
                    dir: judge.place().to_owned(),
                    command: words.clone(),
                    folder: Some(judge.folder().to_owned()),
                    marks: self.plan.marks.clone(),
                    time: self.plan.time,
                    reads: false,
                    exact: self.plan.exact,
                    fault: Some(Fault { kind, call }),
                })?;
                let Some(failed) = run.fault.clone() else { break };
                runs += 1;
                run.dir.clone_from(&self.run.dir);
                let ordered = self.plan.ordered(&run, None);
                let reducer = Reducer { run: &run, models: &ordered, grain: self.plan.grain };
                let mut found = if self.plan.check.is_of_run() {
                    // The file has another history here: verdicts of the first run do not hold.
                    let Ok(checker) = self.plan.check.checker(&run) else { continue };
                    let mut apart = Search::new(&run, &checker, &run.dir, self.plan.limits());
                    let failures = apart.search(&ordered, &|_, _| true, news, 4)?;
                    search.coverage.distinct += apart.coverage.distinct;
                    reducer.findings(&mut apart, &failures)?
                } else {
                    let mut within = search.within(&run);
                    let failures = within.search(&ordered, &|_, _| true, news, 4)?;
                    let found = reducer.findings(&mut within, &failures)?;
                    search.end(within);
                    found
                };
                // Without the failing call it would be found as well.
                found
                    .retain(|finding| !cases.iter().any(|case| same_fault(&case.finding, finding)));
                for finding in &mut found {
                    finding.class = Class::ErrorNotHeeded;
                    finding.fault = Some(format!("{} from {failed}", kind.name()));
                }
                found
                    .retain(|finding| !cases.iter().any(|case| same_fault(&case.finding, finding)));
                cases.extend(Keeper { file: None }.cases(&run, &ordered, found));
            }
        }
        Ok(runs)
    }
}

/// The words that run the program in `copy` instead of `dir`; none if they do not name an absolute `dir`.
fn in_copy(words: &[OsString], dir: &Path, copy: &Path) -> Option<Vec<OsString>> {
    if dir.is_relative() {
        return Some(words.to_vec());
    }
    let words: Vec<(OsString, bool)> =
        words.iter().map(|word| replaced(word, dir.as_os_str(), copy.as_os_str())).collect();
    let named = words.iter().any(|(_, named)| *named);
    named.then(|| words.into_iter().map(|(word, _)| word).collect())
}

/// `word` with `copy` for each `dir` in it, and whether there was one.
fn replaced(word: &OsStr, dir: &OsStr, copy: &OsStr) -> (OsString, bool) {
    let (mut rest, dir) = (word.as_bytes(), dir.as_bytes());
    let mut told = Vec::new();
    let mut named = false;
    while let Some(at) = rest.windows(dir.len().max(1)).position(|part| part == dir) {
        told.extend_from_slice(&rest[..at]);
        told.extend_from_slice(copy.as_bytes());
        rest = &rest[at + dir.len()..];
        named = true;
    }
    told.extend_from_slice(rest);
    (OsString::from_vec(told), named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_the_copy() {
        let words: Vec<OsString> = ["sh", "-c", "cd /d/x && ls /d/x/y"].map(Into::into).into();
        let told = in_copy(&words, Path::new("/d/x"), Path::new("/copy")).unwrap();
        assert_eq!(told[2], "cd /copy && ls /copy/y");
        assert!(in_copy(&words, Path::new("/d/z"), Path::new("/copy")).is_none());
        assert_eq!(in_copy(&words, Path::new("x"), Path::new("/copy")).unwrap(), words);
    }
}
