//! The findings of a check, and their words.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::mutate::Mutant;
use super::plan::{Plan, Source, quoted, shown};
use crate::entry::{Entry, Tell};
use crate::finding::Finding;
use crate::formats;
use crate::order::Ordered;
use crate::page;
use crate::run::Run;
use crate::search::Coverage;
use crate::tree::{PAGE, Tree};

/// A finding with the directory that a crash leaves, and the file of the run to replay it from.
#[derive(Clone, Debug)]
pub struct Case {
    /// The finding.
    pub finding: Finding,
    /// The directory.
    pub tree: Tree,
    /// The run: the program's, or that of a recovery or of a failing call.
    pub run: Option<PathBuf>,
}

/// The findings of a check.
#[derive(Debug)]
pub struct Report {
    /// The check that was asked for.
    pub plan: Plan,
    /// The captured run.
    pub run: Run,
    /// The run under each model.
    pub ordered: Vec<Ordered>,
    /// How much was tried.
    pub coverage: Coverage,
    /// Distinct faults.
    pub cases: Vec<Case>,
    /// Syncs that were left out.
    pub mutants: Vec<Mutant>,
    /// The time of the capture.
    pub captured: Duration,
    /// The time of everything.
    pub took: Duration,
    /// Recoveries that wrote and were crashed.
    pub recoveries: usize,
    /// Runs in which a call failed.
    pub faults: usize,
}

impl Report {
    /// The distinct faults.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.cases.iter().map(|case| &case.finding)
    }

    /// Whether no state fails and everything was measured.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.cases.is_empty() && self.run.blind.is_empty()
    }

    /// Fails the test if a state fails, or if something that the verdict depends on was not measured.
    ///
    /// # Panics
    /// The check is not sound; the text is the report.
    #[track_caller]
    pub fn assert_sound(&self) {
        assert!(self.is_sound(), "\n{self}");
    }

    /// Fails the test if a sync was left out and the check stayed silent.
    ///
    /// # Panics
    /// Such a sync is there, or none was left out: [`Plan::mutate`] was not set.
    #[track_caller]
    pub fn assert_every_sync_is_needed(&self) {
        let silent = self.mutants.iter().find(|mutant| mutant.killed.is_none());
        assert!(!self.mutants.is_empty() && silent.is_none(), "\n{self}");
    }

    /// The program and its arguments.
    #[must_use]
    pub fn program(&self) -> String {
        self.plan.program()
    }

    /// The command that checks a case's state again and leaves its directory.
    #[must_use]
    pub fn replay(&self, case: &Case) -> Option<String> {
        let sector = match self.plan.grain.bytes {
            PAGE => String::new(),
            bytes => format!(" --sector {bytes}"),
        };
        let write = self.plan.write.as_ref().map(|text| format!(" --write {}", quoted(text)));
        Some(format!(
            "outlast check --run {}{sector} --state {} --keep state {}{}",
            quoted(&case.run.as_ref()?.display().to_string()),
            quoted(&case.finding.state),
            self.plan.check.option(),
            write.unwrap_or_default()
        ))
    }

    /// Writes the directory of a case to `folder`, which must not be there.
    ///
    /// # Errors
    /// Those of writing.
    pub fn keep(&self, case: &Case, folder: &Path) -> io::Result<()> {
        lay_out(folder, &case.tree)
    }

    /// The findings as every report shows them, each with the command that replays it.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |case: &Case| Entry { replay: self.replay(case), ..case.finding.entry() };
        self.cases.iter().map(entry).collect()
    }

    /// A test suite in JUnit's format.
    #[must_use]
    pub fn junit(&self) -> String {
        formats::junit(&self.program(), &self.entries(), self.took.as_secs_f64())
    }

    /// A SARIF log.
    #[must_use]
    pub fn sarif(&self) -> Value {
        formats::sarif(&self.entries())
    }

    /// A page with the findings, a time line and a crash explorer, in one file.
    #[must_use]
    pub fn html(&self) -> String {
        page::html(self)
    }

    /// Everything as one JSON document.
    #[must_use]
    pub fn json(&self) -> Value {
        let coverage = &self.coverage;
        let finding = |case: &Case| {
            let finding = &case.finding;
            json!({
                "class": finding.class.name(),
                "kind": finding.class.term().kind.name(),
                "wrong": finding.wrong,
                "models": finding.models,
                "lost": finding.lost.text,
                "lost_at": finding.lost.place,
                "lost_units": finding.lost_units,
                "kept": finding.kept.as_ref().map(|call| call.text.as_str()),
                "kept_at": finding.kept.as_ref().map(|call| call.place.as_str()),
                "issued": finding.issued,
                "acked": finding.acked,
                "remedy": finding.class.remedy(),
                "state": finding.state,
                "count": finding.count,
                "first_crash": finding.first_crash,
                "fault": finding.fault,
                "replay": self.replay(case),
            })
        };
        let mutant = |mutant: &Mutant| json!({"left_out": mutant.call, "wrong": mutant.killed});
        let mut document = self.plan.captured_json(&self.run);
        let found = json!({
            "part": self.plan.part.map(|part| part.to_string()),
            "states": coverage.states,
            "distinct": coverage.distinct,
            "moments": coverage.moments,
            "exhausted": coverage.exhausted,
            "cut_short": coverage.cut_short,
            "recoveries_crashed": self.recoveries,
            "faults_crashed": self.faults,
            "findings": self.cases.iter().map(finding).collect::<Vec<_>>(),
            "mutants": self.mutants.iter().map(mutant).collect::<Vec<_>>(),
        });
        if let (Value::Object(all), Value::Object(found)) = (&mut document, found) {
            all.extend(
                found.into_iter().filter(|(name, value)| name != "part" || !value.is_null()),
            );
        }
        document
    }
}

impl Plan {
    fn program(&self) -> String {
        match &self.source {
            Source::Program { words, .. } => shown(words),
            Source::Saved(file) => format!("the run in {}", file.display()),
        }
    }

    /// The head of each document: the captured run.
    #[must_use]
    pub(crate) fn captured_json(&self, run: &Run) -> Value {
        let (changes, syncs, acked) = run.counts();
        json!({
            "outlast": env!("CARGO_PKG_VERSION"),
            "command": format!("check {}", self.program()),
            "seed": self.seed,
            "ended": run.ended.to_string(),
            "changes": changes,
            "syncs": syncs,
            "acknowledged": acked,
            "not_measured": run.blind,
        })
    }
}

/// The report for a terminal.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (changes, syncs, acked) = self.run.counts();
        let coverage = &self.coverage;
        writeln!(
            f,
            "captured {changes} changes, {syncs} syncs, {acked} acknowledgements in {:.1} s ({})",
            self.captured.as_secs_f64(),
            self.run.ended
        )?;
        for blind in &self.run.blind {
            writeln!(f, "not measured: {blind}")?;
        }
        writeln!(
            f,
            "{} states of {} moments ({} of them exhausted), {} distinct ones checked{}",
            coverage.states,
            coverage.moments,
            coverage.exhausted,
            coverage.distinct,
            if coverage.cut_short { ", until the time was over (--budget)" } else { "" }
        )?;
        if self.plan.twice {
            writeln!(f, "{} recoveries that write were crashed", self.recoveries)?;
        }
        if self.plan.faults {
            writeln!(f, "{} runs in which a call fails were crashed", self.faults)?;
        }
        for entry in self.entries() {
            writeln!(f, "\n{entry}")?;
        }
        for mutant in &self.mutants {
            write!(f, "without {}: ", mutant.call)?;
            writeln!(
                f,
                "{}",
                mutant
                    .killed
                    .as_deref()
                    .unwrap_or("nothing fails; it is redundant in this run, or the check is blind")
            )?;
        }
        if self.cases.is_empty() {
            let names: Vec<&str> = self.plan.models.iter().map(|model| model.name).collect();
            writeln!(f, "no state fails under {}", names.join(", "))?;
        }
        Ok(())
    }
}

/// Writes `tree` to `folder`, which must not be there.
///
/// # Errors
/// Those of writing.
pub(crate) fn lay_out(folder: &Path, tree: &Tree) -> io::Result<()> {
    std::fs::create_dir(folder).map_err(|error| {
        let right = "a folder that is not there would be right";
        io::Error::other(format!("{}: {error}; {right}", folder.display()))
    })?;
    tree.write_to(folder)
}
