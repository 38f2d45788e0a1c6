//! Everything that a check needs, and its phases in order.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::faults::Failing;
use super::mutate::leave_out_syncs;
use super::report::{Case, Report};
use super::twice::Twice;
use super::{CheckError, bad};
use crate::bounds;
use crate::capture::marks::Marks;
use crate::capture::{self, SECTOR};
use crate::finding::{Finding, Reducer};
use crate::judge::Checker;
use crate::judges::Named;
use crate::models::{self, Model};
use crate::order::{Grain, Moment, Ordered};
use crate::part::Part;
use crate::run::{Ended, Run};
use crate::saved::{self, Learned};
use crate::search::{Base, Coverage, Limits, Search, bases};
use crate::shell;
use crate::tree::{PAGE, Tree};

/// Where the captured run comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A program is run.
    Program {
        /// The directory that it keeps its files in.
        dir: PathBuf,
        /// The program and its arguments.
        words: Vec<OsString>,
    },
    /// A run that was captured before.
    Saved(PathBuf),
}

/// The judge of a state.
#[derive(Clone, Debug)]
pub enum Check {
    /// A command of the shell, once a state.
    Then(String),
    /// A command of the shell that stays.
    Server(String),
    /// A judge of this crate.
    Judge(Named),
}

impl Check {
    /// The check as an option of the command.
    #[must_use]
    pub fn option(&self) -> String {
        match self {
            Self::Then(text) => format!("--then {}", quoted(text)),
            Self::Server(text) => format!("--server {}", quoted(text)),
            Self::Judge(judge) => format!("--judge {}", quoted(&judge.text())),
        }
    }

    fn command(&self) -> String {
        match self {
            Self::Then(text) | Self::Server(text) => text.clone(),
            Self::Judge(judge) => judge.text(),
        }
    }

    /// The check of states of `run`.
    pub(super) fn checker(&self, run: &Run) -> Result<Checker, CheckError> {
        match self {
            Self::Then(text) => Ok(Checker::Command(text.clone())),
            Self::Server(text) => Ok(Checker::Server(text.clone())),
            Self::Judge(judge) => judge.checker(run).map_err(CheckError::Input),
        }
    }

    /// Whether what is right depends on the run.
    pub(super) fn is_of_run(&self) -> bool {
        matches!(self, Self::Judge(Named::Replace(_) | Named::Log(_)))
    }
}

/// A check of a program as plain data: [`Plan::run`] carries it out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The run.
    pub source: Source,
    /// The judge of a state.
    pub check: Check,
    /// Models of file systems.
    pub models: Vec<&'static Model>,
    /// The unit that a disk writes whole.
    pub grain: Grain,
    /// How the program names its transactions.
    pub marks: Marks,
    /// A command of the shell that writes to a recovered state, which is then checked once more.
    pub write: Option<String>,
    /// Whether recoveries are crashed, too.
    pub twice: bool,
    /// Whether each store through a mapping is recorded.
    pub exact: bool,
    /// Whether each call is made to fail in turn.
    pub faults: bool,
    /// Whether each sync is left out in turn.
    pub mutate: bool,
    /// The time for the program.
    pub time: Duration,
    /// The time for one run of the check.
    pub check_time: Duration,
    /// The time for all checks.
    pub budget: Duration,
    /// Checks at a time.
    pub jobs: usize,
    /// The seed of everything drawn.
    pub seed: u64,
    /// Whether states differ in data that recovery was not seen to read.
    pub all_data: bool,
    /// Failing states at which the search stops.
    pub failures: usize,
    /// Where the captured run is kept.
    pub save: Option<PathBuf>,
    /// The part of all states that is checked. Parts of a saved run that [`Plan::capture`] made, with
    /// the same check and seed, are together what the whole is.
    pub part: Option<Part>,
}

/// Hears how far a check has come, in lines.
pub type Progress<'a> = dyn FnMut(String) + 'a;

impl Plan {
    /// A plan with the default models and limits.
    #[must_use]
    pub fn new(source: Source, check: Check) -> Self {
        Self {
            source,
            check,
            models: ["linux", "ext4"].iter().filter_map(|name| models::find(name).ok()).collect(),
            grain: Grain { bytes: PAGE },
            marks: Marks::default(),
            write: None,
            twice: false,
            exact: false,
            faults: false,
            mutate: false,
            time: Duration::from_secs(600),
            check_time: Duration::from_secs(10),
            budget: Duration::from_secs(120),
            jobs: std::thread::available_parallelism().map_or(2, Into::into),
            seed: 1,
            all_data: false,
            failures: 200,
            save: None,
            part: None,
        }
    }

    /// Captures the run, or loads it with what was learned of it.
    fn captured(&self, progress: &mut Progress<'_>) -> Result<(Run, Option<Learned>), CheckError> {
        match &self.source {
            Source::Saved(file) => load_learned(file),
            Source::Program { dir, words } => {
                progress(format!("runs {}", shown(words)));
                let mut run = capture::capture(&capture::Options {
                    dir: dir.clone(),
                    command: words.clone(),
                    folder: None,
                    marks: self.marks.clone(),
                    time: self.time,
                    reads: false,
                    exact: self.exact,
                    fault: None,
                })?;
                if run.ended == Ended::OutOfTime {
                    let time = self.time.as_secs_f64();
                    let text = "what the program does later: it was stopped after";
                    run.blind.push(format!("{text} {time} s (--time)"));
                }
                Ok((run, None))
            }
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            time: self.budget,
            check_time: self.check_time,
            jobs: self.jobs.max(1),
            seed: self.seed,
            write: self.write.clone(),
        }
    }

    /// A run under the plan's models.
    pub(super) fn ordered(&self, run: &Run, skipped: Option<usize>) -> Vec<Ordered> {
        self.models.iter().map(|model| Ordered::new(run, model, self.grain, skipped)).collect()
    }

    fn is_meant(&self) -> Result<(), CheckError> {
        if self.grain.bytes != PAGE && self.grain.bytes != SECTOR {
            return bad(format!(
                "a sector of {} bytes: 512 or 4096 would be right",
                self.grain.bytes
            ));
        }
        if self.models.is_empty() {
            return bad("no model of a file system");
        }
        if self.part.is_some() && (self.faults || self.mutate) {
            return bad("runs with failing calls and without syncs are not divided into parts");
        }
        if let (Some(_), Check::Judge(judge)) = (&self.write, &self.check) {
            return bad(format!(
                "a command that writes goes with a check of one's own, and the check is the judge {}",
                judge.text()
            ));
        }
        Ok(())
    }

    /// Carries the check out.
    ///
    /// # Errors
    /// See [`CheckError`]. No process that was started is left running.
    pub fn run(&self, progress: &mut Progress<'_>) -> Result<Report, CheckError> {
        self.run_to(None, progress)
    }

    /// [`Plan::run`] where the program must have ended in a certain way, or the test of a name is at fault.
    pub(super) fn run_to(
        &self,
        expected: Option<(Ended, &str)>,
        progress: &mut Progress<'_>,
    ) -> Result<Report, CheckError> {
        self.is_meant()?;
        let _end = EndStrays;
        let began = Instant::now();
        let (run, learned) = self.captured(progress)?;
        let captured = began.elapsed();
        if expected.is_none() {
            self.has_done_its_work(&run)?;
        }
        if let Some((_, test)) = expected.filter(|(ended, _)| *ended != run.ended) {
            return bad(format!(
                "the first closure ended with {}: it has failed, or the test '{test}' alone does not come to it",
                run.ended
            ));
        }
        self.search(run, learned, began, captured, progress)
    }

    /// Captures the run, holds it against the check without any crash, learns from some states what
    /// recoveries read, and keeps all that in a file: every part of its search begins there.
    ///
    /// # Errors
    /// As [`Plan::run`].
    pub fn capture(&self, file: &Path, progress: &mut Progress<'_>) -> Result<Run, CheckError> {
        self.is_meant()?;
        let _end = EndStrays;
        let (run, _) = self.captured(progress)?;
        self.has_done_its_work(&run)?;
        let checker = self.check.checker(&run)?;
        let ordered = self.ordered(&run, None);
        let mut search = Search::new(&run, &checker, &run.dir, self.limits());
        self.without_a_crash(&run, &ordered, &mut search)?;
        if !self.all_data {
            search.learn_reads(&ordered[0])?;
        }
        let learned = Learned { check: self.check.option(), read: search.reads().clone() };
        drop(search);
        saved::save_learned(&run, Some(&learned), file)
            .map_err(|error| CheckError::Input(format!("{}: {error}", file.display())))?;
        Ok(run)
    }

    /// Nothing that a program promises could be lost where it failed: more likely it could not do its
    /// work.
    fn has_done_its_work(&self, run: &Run) -> Result<(), CheckError> {
        if let (Ended::Status(status @ 1..), Source::Program { .. }) = (run.ended, &self.source)
            && run.counts().2 == 0
        {
            return bad(format!(
                "the program ended with status {status} and acknowledged nothing: run it by itself first"
            ));
        }
        Ok(())
    }

    /// The phases behind the capture.
    fn search(
        &self,
        run: Run,
        learned: Option<Learned>,
        began: Instant,
        captured: Duration,
        progress: &mut Progress<'_>,
    ) -> Result<Report, CheckError> {
        if let Some(file) = &self.save {
            save(&run, file)?;
        }
        let checker = self.check.checker(&run)?;
        let ordered = self.ordered(&run, None);
        let search = Search::new(&run, &checker, &run.dir, self.limits());
        let mut search = search.part(self.part);
        self.without_a_crash(&run, &ordered, &mut search)?;
        match learned.filter(|learned| learned.check == self.check.option()) {
            _ if self.all_data => {}
            Some(learned) => search.set_reads(learned.read),
            None => search.learn_reads(&ordered[0])?,
        }
        search.discount(&run.whole());
        let mut last = Instant::now();
        let mut news = |coverage: &Coverage, failures: usize| {
            if last.elapsed() > Duration::from_secs(2) {
                last = Instant::now();
                progress(format!("{} distinct states, {failures} fail", coverage.distinct));
            }
        };
        let failures = search.search(&ordered, &|_, _| true, &mut news, self.failures)?;
        let reducer = Reducer { run: &run, models: &ordered, grain: self.grain };
        let found = reducer.findings(&mut search, &failures)?;
        let keeper = Keeper { file: self.save.as_ref().or(self.source.file()).cloned() };
        let mut cases = keeper.cases(&run, &ordered, found);
        let mut recoveries = 0;
        if self.twice {
            let twice = Twice { plan: self, run: &run, models: &ordered };
            recoveries = twice.crash(&mut search, &mut cases, &mut news)?;
        }
        let mut faults = 0;
        if self.faults {
            faults = Failing { plan: self, run: &run }.run(&mut search, &mut cases, &mut news)?;
        }
        let mutants = match self.mutate {
            true if cases.is_empty() => {
                leave_out_syncs(self, &run, &ordered, &mut search, &mut news)?
            }
            _ => Vec::new(),
        };
        let coverage = search.coverage;
        drop(search);
        Ok(Report {
            plan: self.clone(),
            run,
            ordered,
            coverage,
            cases,
            mutants,
            captured,
            took: began.elapsed(),
            recoveries,
            faults,
        })
    }

    /// The program's directory as it is must pass: else the check is wrong, or the program.
    fn without_a_crash(
        &self,
        run: &Run,
        ordered: &[Ordered],
        search: &mut Search<'_>,
    ) -> Result<(), CheckError> {
        let Some(moment) = ordered.first().and_then(|model| model.moments.last()) else {
            return Ok(());
        };
        let mut judge = search.judge()?;
        match search.verdict(&mut judge, &run.whole(), moment)? {
            Some(wrong) => {
                let command = self.check.command();
                bad(format!("the check fails without any crash ({command}): {wrong}"))
            }
            None => Ok(()),
        }
    }

    /// Checks one state, as a finding names it: what is wrong with it, and its directory.
    ///
    /// # Errors
    /// The run has no such state, or it cannot be checked.
    pub fn one_state(&self, text: &str) -> Result<(Option<String>, Tree), CheckError> {
        self.is_meant()?;
        let _end = EndStrays;
        let (run, _) = self.captured(&mut |_| {})?;
        let wrong = || {
            CheckError::Input(format!(
                "--state '{text}': MODEL@STEP-UNITS would be right, as a finding names it"
            ))
        };
        let (model, rest) = text.split_once('@').ok_or_else(wrong)?;
        let (event, units) = rest.split_once('-').ok_or_else(wrong)?;
        let event: usize = event.parse().map_err(|_| wrong())?;
        let lost = units
            .split(',')
            .filter(|unit| !unit.is_empty())
            .map(|unit| unit.parse().map_err(|_| wrong()))
            .collect::<Result<_, _>>()?;
        let model = models::find(model).map_err(CheckError::Input)?;
        let ordered = Ordered::new(&run, model, self.grain, None);
        let index = ordered.moments.partition_point(|moment| moment.event < event);
        let Some(moment) = ordered.moments.get(index) else {
            return bad(format!("--state '{text}': the run has {} steps", run.events.len()));
        };
        let then: Moment = ordered.until(&run, moment, event);
        let kept = ordered.without(&then, &lost);
        let tree = bases(&run, &ordered)[index].tree(&ordered, &kept);
        let checker = self.check.checker(&run)?;
        let mut search = Search::new(&run, &checker, &run.dir, self.limits());
        let mut judge = search.judge()?;
        Ok((search.verdict(&mut judge, &tree, &then)?, tree))
    }
}

/// Ends processes that checks have left running, however a check ends.
struct EndStrays;

impl Drop for EndStrays {
    fn drop(&mut self) {
        bounds::end_strays();
    }
}

impl Source {
    fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::Saved(file) => Some(file),
            Self::Program { .. } => None,
        }
    }
}

/// Makes cases of findings: each with its directory, and a file of the run to replay it from.
pub(super) struct Keeper {
    /// Where the run is kept already.
    pub file: Option<PathBuf>,
}

impl Keeper {
    /// Cases of `findings` in `run`, which is kept if it has any.
    pub fn cases(&self, run: &Run, ordered: &[Ordered], findings: Vec<Finding>) -> Vec<Case> {
        if findings.is_empty() {
            return Vec::new();
        }
        let file = match &self.file {
            Some(file) => Some(file.clone()),
            None => {
                let file = new_file();
                saved::save(run, &file).ok().map(|()| file)
            }
        };
        let bases: Vec<Vec<Base>> = ordered.iter().map(|model| bases(run, model)).collect();
        let case = |finding: Finding| {
            let state = &finding.example;
            let tree = bases[state.model][state.moment].tree(&ordered[state.model], &state.kept);
            Case { finding, tree, run: file.clone() }
        };
        findings.into_iter().map(case).collect()
    }
}

/// A file of its own for a run.
fn new_file() -> PathBuf {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("outlast-check-{}-{number}.run", std::process::id()))
}

/// Reads a captured run.
///
/// # Errors
/// The file is no such run.
pub(crate) fn load(file: &Path) -> Result<Run, CheckError> {
    load_learned(file).map(|(run, _)| run)
}

fn load_learned(file: &Path) -> Result<(Run, Option<Learned>), CheckError> {
    saved::load_learned(file)
        .map_err(|error| CheckError::Input(format!("{}: {error}", file.display())))
}

fn save(run: &Run, file: &Path) -> Result<(), CheckError> {
    saved::save(run, file)
        .map_err(|error| CheckError::Input(format!("{}: {error}", file.display())))
}

/// Words of a command line for people.
pub(crate) fn shown(words: &[OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    shell::word(word).into_owned()
}
