//! A check of a binary, built up word by word.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::plan::{Check, Plan, Source};
use super::report::Report;
use super::{CheckError, bad};
use crate::capture::marks::Pattern;
use crate::judges::Named;
use crate::models::{self, Model};
use crate::order::Grain;

/// A program that is to be checked: its words, its directory, and what judges a state. Options have the
/// names and defaults of those of the command.
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `check`"]
pub struct Program {
    words: Vec<OsString>,
    dir: Option<PathBuf>,
    check: Option<Check>,
    plan: Plan,
    /// The first thing that was asked for and cannot be.
    wrong: Option<String>,
}

impl Program {
    /// A program by its path, or by its name if it is in `PATH`.
    pub fn new(program: impl Into<OsString>) -> Self {
        let source = Source::Program { dir: PathBuf::new(), words: Vec::new() };
        Self {
            words: vec![program.into()],
            dir: None,
            check: None,
            plan: Plan::new(source, Check::Then(String::new())),
            wrong: None,
        }
    }

    /// One more argument.
    pub fn arg(mut self, word: impl Into<OsString>) -> Self {
        self.words.push(word.into());
        self
    }

    /// More arguments.
    pub fn args<W: Into<OsString>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// The directory that it keeps its files in.
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.dir = Some(dir.as_ref().to_owned());
        self
    }

    /// The check: a command of the shell, once a state, that fails by its status.
    pub fn then(mut self, command: impl Into<String>) -> Self {
        self.check = Some(Check::Then(command.into()));
        self
    }

    /// A check that stays and answers a line a state, as [`crate::serve`] does.
    pub fn server(mut self, command: impl Into<String>) -> Self {
        self.check = Some(Check::Server(command.into()));
        self
    }

    /// A judge of this crate, as `--judge` names it: `sqlite`, `replace=FILE`, `log=FILE`.
    pub fn judge(mut self, name: &str) -> Self {
        match Named::new(name) {
            Ok(judge) => self.check = Some(Check::Judge(judge)),
            Err(error) => self.wrong = self.wrong.or(Some(error)),
        }
        self
    }

    /// A command of the shell that writes to a recovered state, which is then checked once more.
    pub fn write(mut self, command: impl Into<String>) -> Self {
        self.plan.write = Some(command.into());
        self
    }

    /// Models of file systems by their names.
    pub fn models<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        match names.into_iter().map(models::find).collect::<Result<Vec<&'static Model>, _>>() {
            Ok(models) => self.plan.models = models,
            Err(error) => self.wrong = self.wrong.or(Some(error)),
        }
        self
    }

    /// The unit that a disk writes whole: 4096 bytes, or 512.
    pub fn sector(mut self, bytes: usize) -> Self {
        self.plan.grain = Grain { bytes };
        self
    }

    /// Patterns of lines that begin and acknowledge transaction `{}`.
    pub fn marks(mut self, issued: &str, acked: &str) -> Self {
        match (Pattern::new(issued), Pattern::new(acked)) {
            (Ok(issued), Ok(acked)) => {
                self.plan.marks.issued = issued;
                self.plan.marks.acked = acked;
            }
            (Err(error), _) | (_, Err(error)) => self.wrong = self.wrong.or(Some(error)),
        }
        self
    }

    /// Crashes recoveries as well.
    pub fn twice(mut self) -> Self {
        self.plan.twice = true;
        self
    }

    /// Records each store through a mapping, not only differences between calls: slow, on x86-64 alone.
    pub fn exact(mut self) -> Self {
        self.plan.exact = true;
        self
    }

    /// Lets each call fail in turn as well.
    pub fn faults(mut self) -> Self {
        self.plan.faults = true;
        self
    }

    /// Leaves out each sync in turn as well: [`Report::assert_every_sync_is_needed`].
    pub fn mutate(mut self) -> Self {
        self.plan.mutate = true;
        self
    }

    /// The time for the program.
    pub fn time(mut self, time: Duration) -> Self {
        self.plan.time = time;
        self
    }

    /// The time for one run of the check.
    pub fn check_time(mut self, time: Duration) -> Self {
        self.plan.check_time = time;
        self
    }

    /// The time for all checks.
    pub fn budget(mut self, time: Duration) -> Self {
        self.plan.budget = time;
        self
    }

    /// Checks at a time.
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.plan.jobs = jobs;
        self
    }

    /// The seed of everything drawn.
    pub fn seed(mut self, seed: u64) -> Self {
        self.plan.seed = seed;
        self
    }

    /// Keeps the captured run in `file`.
    pub fn save(mut self, file: impl Into<PathBuf>) -> Self {
        self.plan.save = Some(file.into());
        self
    }

    /// The plan that [`Program::check`] carries out.
    ///
    /// # Errors
    /// A directory or a check is missing, or an option cannot be meant.
    pub fn plan(self) -> Result<Plan, CheckError> {
        if let Some(wrong) = self.wrong {
            return bad(wrong);
        }
        let Some(dir) = self.dir else { return bad("no directory: Program::dir names it") };
        let Some(check) = self.check else {
            return bad("no check: Program::then, Program::server or Program::judge gives one");
        };
        Ok(Plan { source: Source::Program { dir, words: self.words }, check, ..self.plan })
    }

    /// Runs the program and checks it.
    ///
    /// # Errors
    /// See [`CheckError`]; a state that fails is none, but a part of the report.
    pub fn check(self) -> Result<Report, CheckError> {
        self.plan()?.run(&mut |_| {})
    }
}
