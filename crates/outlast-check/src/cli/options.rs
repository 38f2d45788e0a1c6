//! The options, and the plan that they make.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::capture::SECTOR;
use crate::capture::marks::{Marks, Pattern};
use crate::files::{Check, CheckError, Plan, Source};
use crate::judges::Named;
use crate::models::{self, Model};
use crate::order::Grain;
use crate::part::Part;
use crate::sys::MARKS_FD;
use crate::tree::PAGE;

/// Power failures of any program that writes files: capture, states, its own recovery, findings.
///
/// Runs PROGRAM once and records what it does to DIR. Then lays out each state that a loss of power
/// may leave under a model of a file system, and runs the check on it. Lines 'I n' and 'A n' on the
/// program's standard output (or descriptor 198) begin and acknowledge transaction n; the check finds
/// the highest in OUTLAST_ISSUED and OUTLAST_ACKED, and the state in OUTLAST_DIR, at '{}' in its text,
/// and, if DIR is relative, at DIR. It fails by its status, or prints 'recovered n' to be judged.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct CheckArgs {
    /// The action on a captured run.
    #[command(subcommand)]
    pub saved: Option<SavedCommand>,
    /// The directory that the program keeps its files in; made if it is missing.
    #[arg(long, value_name = "DIR", required_unless_present = "run")]
    pub dir: Option<PathBuf>,
    /// A run that was captured before, by --save.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dir", "program", "save"])]
    pub run: Option<PathBuf>,
    /// Keeps the captured run in this file.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Captures the run into the file of --save, with what the check is seen to read, and checks no state:
    /// for --run with --part.
    #[arg(long, requires = "save", conflicts_with = "run")]
    pub capture: bool,
    /// Checks one part of all states, 1/N to N/N: together they are the whole. For a run of --capture and
    /// the same check, models and seed.
    #[arg(long, value_name = "PART/PARTS", requires = "run", conflicts_with_all = ["faults", "mutate", "state"])]
    pub part: Option<Part>,
    /// Checks one state alone, as a finding names it: 'ext4@117-32'.
    #[arg(long, value_name = "STATE", requires = "run")]
    pub state: Option<String>,
    /// The check, a command of the shell: status 0 if the state is right.
    #[arg(long, value_name = "CMD", required_unless_present_any = ["server", "judge"])]
    pub then: Option<String>,
    /// A check that stays: reads a line 'DIR ACKED ISSUED' (with tabs) a state, answers 'ok', 'recovered N'
    /// or 'bad TEXT'.
    #[arg(long, value_name = "CMD", conflicts_with = "then")]
    pub server: Option<String>,
    /// A judge for a common case, in place of a check: sqlite, replace=FILE (a file replaced as a whole) or
    /// log=FILE (a file appended to).
    #[arg(long, value_name = "NAME", conflicts_with_all = ["then", "server"])]
    pub judge: Option<String>,
    /// Writes to each state that the check passes, a command of the shell, and checks it once more.
    #[arg(long, value_name = "CMD", conflicts_with = "judge")]
    pub write: Option<String>,
    /// Models of file systems, separated by commas.
    #[arg(long, value_name = "M[,M…]", default_value = "linux,ext4", value_delimiter = ',')]
    pub model: Vec<String>,
    /// Bytes that a disk writes whole: 4096, or 512.
    #[arg(long, value_name = "BYTES", default_value_t = PAGE)]
    pub sector: usize,
    /// Lines that begin transaction {}.
    #[arg(long, value_name = "PATTERN", default_value = "I {}")]
    pub issued: String,
    /// Lines that acknowledge transaction {}.
    #[arg(long, value_name = "PATTERN", default_value = "A {}")]
    pub acked: String,
    /// The program's descriptor for such lines, besides standard output; OUTLAST_MARKS names it there.
    #[arg(long, value_name = "N", default_value_t = MARKS_FD, value_parser = clap::value_parser!(i32).range(3..1024))]
    pub marks_fd: i32,
    /// Crashes the recovery, too: each state whose recovery writes is one in which power fails again.
    #[arg(long)]
    pub twice: bool,
    /// Records each store through a mapping, not only differences between calls: slow, on x86-64 alone.
    #[arg(long)]
    pub exact: bool,
    /// Runs the program again for each of its calls, which fails: a sync with EIO, a write with ENOSPC,
    /// EINTR or half of its bytes; then power fails.
    #[arg(long, conflicts_with = "run")]
    pub faults: bool,
    /// Leaves out each sync in turn; a check that stays silent means that it is redundant, or the check blind.
    #[arg(long, value_name = "fsync", value_parser = ["fsync"])]
    pub mutate: Option<String>,
    /// Seconds for the program.
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = seconds())]
    pub time: u64,
    /// Seconds for one run of the check.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = seconds())]
    pub check_time: u64,
    /// Seconds for all checks.
    #[arg(long, value_name = "S", default_value_t = 120, value_parser = seconds())]
    pub budget: u64,
    /// Checks at a time; as many as there are processors if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Takes data as read that the recovery from a dozen states did not read.
    #[arg(long)]
    pub all_data: bool,
    /// Writes the first finding's directory here.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Writes the findings here as a test suite in JUnit's format.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Writes the findings here as a SARIF log.
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// Writes a page here: findings, a time line of the calls, and a crash explorer.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Failing states at which the search stops.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub failures: u32,
    /// The program and its arguments.
    #[arg(last = true, required_unless_present = "run", value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Commands on a captured run.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum SavedCommand {
    /// List the steps of a captured run.
    Show {
        /// A file that --save has made.
        file: PathBuf,
    },
}

/// A time: up to a month.
fn seconds() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=31 * 24 * 3600)
}

fn bad<T>(text: impl Into<String>) -> Result<T, CheckError> {
    Err(CheckError::Input(text.into()))
}

impl CheckArgs {
    /// The check that the options ask for.
    ///
    /// # Errors
    /// One of them cannot be meant.
    pub fn plan(&self, seed: u64) -> Result<Plan, CheckError> {
        let models = self.models()?;
        let check = self.check()?;
        let source = match (&self.run, &self.dir) {
            (Some(file), _) => Source::Saved(file.clone()),
            (None, Some(dir)) => Source::Program { dir: dir.clone(), words: self.program.clone() },
            (None, None) => return bad("no directory: --dir DIR would be right"),
        };
        let pattern = |text: &str| Pattern::new(text).map_err(CheckError::Input);
        let defaults = Plan::new(source, check);
        Ok(Plan {
            models,
            grain: Grain { bytes: self.sector },
            marks: Marks {
                issued: pattern(&self.issued)?,
                acked: pattern(&self.acked)?,
                descriptor: self.marks_fd,
            },
            write: self.write.clone(),
            twice: self.twice,
            exact: self.exact,
            faults: self.faults,
            mutate: self.mutate.is_some(),
            time: Duration::from_secs(self.time),
            check_time: Duration::from_secs(self.check_time),
            budget: Duration::from_secs(self.budget),
            jobs: self.jobs.map_or(defaults.jobs, usize::from),
            seed,
            all_data: self.all_data,
            failures: self.failures as usize,
            save: self.save.clone(),
            part: self.part,
            ..defaults
        })
    }

    fn models(&self) -> Result<Vec<&'static Model>, CheckError> {
        if self.sector != PAGE && self.sector != SECTOR {
            return bad(format!("--sector {}: 512 or 4096 would be right", self.sector));
        }
        let mut found: Vec<&'static Model> = Vec::new();
        for name in &self.model {
            let model = models::find(name).map_err(CheckError::Input)?;
            if !found.iter().any(|known| known.name == model.name) {
                found.push(model);
            }
        }
        Ok(found)
    }

    fn check(&self) -> Result<Check, CheckError> {
        if let Some(judge) = &self.judge {
            return Ok(Check::Judge(Named::new(judge).map_err(CheckError::Input)?));
        }
        let text = match (&self.then, &self.server) {
            (Some(text), _) => text,
            (None, Some(text)) => return Ok(Check::Server(text.clone())),
            (None, None) => {
                return bad("no check: --then CMD, --server CMD or --judge NAME would be right");
            }
        };
        let names_dir = |dir: &PathBuf| dir.is_relative() && text.contains(&*dir.to_string_lossy());
        let named = text.contains("{}")
            || text.contains("OUTLAST_DIR")
            || self.dir.iter().any(names_dir)
            || self.run.is_some()
            || Path::new(text.split_whitespace().next().unwrap_or_default()).is_file();
        if !named {
            return bad(format!(
                "--then '{text}' names no directory: '{{}}' or $OUTLAST_DIR stands for the state"
            ));
        }
        Ok(Check::Then(text.clone()))
    }
}
