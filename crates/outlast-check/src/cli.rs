//! The command: flags and glue.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use crate::capture::marks::{Marks, Pattern};
use crate::capture::{self, Fault, FaultKind, SECTOR};
use crate::finding::{Class, Finding, Reducer, same_fault};
use crate::formats;
use crate::judge::Checker;
use crate::models::{self, Model};
use crate::order::{Grain, Moment, Ordered};
use crate::run::{Change, Run, Step};
use crate::saved;
use crate::search::{Limits, Search, bases};
use crate::tree::{PAGE, Tree};

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
    /// What to do with a captured run.
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
    /// Checks one state alone, as a finding names it: 'ext4@117-32'.
    #[arg(long, value_name = "STATE", requires = "run")]
    pub state: Option<String>,
    /// The check, a command of the shell: status 0 if the state is right.
    #[arg(long, value_name = "CMD", required_unless_present = "server")]
    pub then: Option<String>,
    /// A check that stays: reads a line 'DIR ACKED ISSUED' (with tabs) a state, answers 'ok', 'recovered N'
    /// or 'bad TEXT'.
    #[arg(long, value_name = "CMD", conflicts_with = "then")]
    pub server: Option<String>,
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
    /// Crashes the recovery, too: each state whose recovery writes is one in which power fails again.
    #[arg(long)]
    pub twice: bool,

    /// Records each store through a mapping, not only differences between calls: slow, on x86-64 alone
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
    #[arg(long, value_name = "S", default_value_t = 600)]
    pub time: u64,
    /// Seconds for one run of the check.
    #[arg(long, value_name = "S", default_value_t = 10)]
    pub check_time: u64,
    /// Seconds for all checks.
    #[arg(long, value_name = "S", default_value_t = 120)]
    pub budget: u64,
    /// Checks at a time; as many as there are processors if not given.
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
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
    /// Failing states at which the search stops.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub failures: usize,
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

/// How a check ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// No state failed.
    Silent,
    /// Some states failed.
    Found,
    /// No state failed, but something was not measured.
    Blind,
}

/// Bad input, in one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadInput(pub String);

fn bad<T>(text: impl Into<String>) -> Result<T, Box<dyn std::error::Error>> {
    Err(Box::new(BadInput(text.into())))
}

/// A sync that was left out, and what the check said.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The sync's call.
    pub call: String,
    /// What the check says in a state that only its absence allows.
    pub killed: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// Bad input, in one line.
pub fn run(
    args: &CheckArgs,
    json: bool,
    seed: u64,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(String),
) -> Result<Ending, Box<dyn std::error::Error>> {
    if let Some(SavedCommand::Show { file }) = &args.saved {
        show(&load(file)?, out)?;
        return Ok(Ending::Silent);
    }
    let checked = models_of(args)?;
    let (checker, command) = checker_of(args)?;
    let marks = Marks { issued: Pattern::new(&args.issued)?, acked: Pattern::new(&args.acked)? };
    let began = Instant::now();
    let run = match (&args.run, &args.dir) {
        (Some(file), _) => load(file)?,
        (None, Some(dir)) => {
            progress(format!("runs {}", shown(&args.program)));
            capture::capture(&capture::Options {
                dir: dir.clone(),
                command: args.program.clone(),
                folder: None,
                marks,
                time: Duration::from_secs(args.time),
                reads: false,
                exact: args.exact,
                fault: None,
            })?
        }
        (None, None) => return bad("no directory: --dir DIR would be right"),
    };
    let captured = began.elapsed();
    if let Some(file) = &args.save {
        saved::save(&run, file)
            .map_err(|error| BadInput(format!("{}: {error}", file.display())))?;
    }
    let grain = Grain { bytes: args.sector };
    let ordered: Vec<Ordered> =
        checked.iter().map(|model| Ordered::new(&run, model, grain, None)).collect();
    let limits = Limits {
        time: Duration::from_secs(args.budget),
        check_time: Duration::from_secs(args.check_time),
        jobs: args
            .jobs
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(2, Into::into)),
        seed,
    };
    let mut search = Search::new(&run, &checker, &run.dir, limits);
    if let Some(state) = &args.state {
        return one_state(args, state, &run, &mut search, out);
    }
    without_a_crash(&run, &ordered, &mut search, &command)?;
    if !args.all_data {
        search.learn_reads(&ordered[0])?;
    }
    let mut last = Instant::now();
    let mut news = |coverage: &crate::search::Coverage, failures: usize| {
        if last.elapsed() > Duration::from_secs(2) {
            last = Instant::now();
            progress(format!("{} distinct states, {failures} fail", coverage.distinct));
        }
    };
    let failures = search.search(&ordered, &|_, _| true, &mut news, args.failures)?;
    let reducer = Reducer { run: &run, models: &ordered, grain };
    let mut findings = reducer.findings(&mut search, &failures)?;
    let mut recoveries = 0;
    if args.twice {
        let twice = Twice { run: &run, models: &ordered, checked: &checked, grain, args };
        recoveries = twice.crash(&mut search, &mut findings, &mut news)?;
    }
    let mut faults = 0;
    if args.faults {
        let failing = Failing { run: &run, checked: &checked, grain, args };
        faults = failing.run(&mut search, &mut findings, &mut news)?;
    }
    let mutants = match args.mutate {
        Some(_) if findings.is_empty() => {
            leave_out_syncs(&run, &checked, &ordered, grain, &mut search, &mut news)?
        }
        _ => Vec::new(),
    };
    if let (Some(folder), Some(first)) = (&args.keep, findings.first()) {
        keep(folder, &run, &ordered, first)?;
    }
    // Findings are to be replayed: their run is kept, wherever that may be.
    let file = match (&args.save, &args.run) {
        (Some(file), _) | (_, Some(file)) => Some(file.clone()),
        _ if findings.is_empty() => None,
        _ => {
            let file =
                std::env::temp_dir().join(format!("outlast-check-{}.run", std::process::id()));
            saved::save(&run, &file).ok().map(|()| file)
        }
    };
    let told = Told {
        file: file.as_deref(),
        args,
        run: &run,
        search: &search,
        findings: &findings,
        mutants: &mutants,
        captured,
        recoveries,
        faults,
    };
    told.files(began.elapsed())?;
    if json {
        told.json(out, seed)?
    } else {
        told.text(out)?
    }
    Ok(match (findings.is_empty(), run.blind.is_empty()) {
        (false, _) => Ending::Found,
        (true, false) => Ending::Blind,
        (true, true) => Ending::Silent,
    })
}

fn load(file: &Path) -> Result<Run, BadInput> {
    saved::load(file).map_err(|error| BadInput(format!("{}: {error}", file.display())))
}

/// Lists the steps of a run.
fn show(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} ({})", run.dir.display(), run.ended)?;
    let mut last = None;
    for (number, event) in run.events.iter().enumerate() {
        let call = &run.calls[event.call as usize];
        let step = match &event.step {
            Step::Change(Change::Data { offset, bytes, .. }) => {
                format!("data {offset}+{}", bytes.len())
            }
            Step::Change(Change::Size { from, to, .. }) => format!("size {from} to {to}"),
            Step::Change(Change::Cut { to, .. }) => format!("cut to {to}"),
            Step::Change(Change::Name { .. } | Change::Move { .. }) => "name".to_owned(),
            Step::Sync(_) => "sync".to_owned(),
            Step::Unsynced(_) => "failed sync".to_owned(),
            Step::Issued(_) | Step::Acked(_) | Step::Writes { .. } => "mark".to_owned(),
        };
        let text = if last == Some(event.call) { "" } else { call.text.as_str() };
        last = Some(event.call);
        writeln!(out, "{number:>6}  {step:<24} {text}")?;
        if !text.is_empty() && !call.place.is_empty() {
            writeln!(out, "{:32}   from {}", "", call.place)?;
        }
    }
    for blind in &run.blind {
        writeln!(out, "not measured: {blind}")?;
    }
    Ok(())
}

/// Checks one state, and keeps its directory where that is asked for.
fn one_state(
    args: &CheckArgs,
    text: &str,
    run: &Run,
    search: &mut Search<'_>,
    out: &mut dyn Write,
) -> Result<Ending, Box<dyn std::error::Error>> {
    let wrong = || {
        BadInput(format!(
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
        .collect::<Result<BTreeSet<usize>, _>>()?;
    let model = models::find(model).map_err(BadInput)?;
    let ordered = Ordered::new(run, model, Grain { bytes: args.sector }, None);
    let index = ordered.moments.partition_point(|moment| moment.event < event);
    let Some(moment) = ordered.moments.get(index) else {
        return bad(format!("--state '{text}': the run has {} steps", run.events.len()));
    };
    let then = ordered.until(run, moment, event);
    let kept = ordered.without(&then, &lost);
    let tree = bases(run, &ordered)[index].tree(&ordered, &kept);
    if let Some(folder) = &args.keep {
        lay_out(folder, &tree)?;
    }
    let mut judge = search.judge()?;
    match search.verdict(&mut judge, &tree, &then)? {
        Some(wrong) => {
            writeln!(out, "{text}: {wrong}")?;
            Ok(Ending::Found)
        }
        None => {
            writeln!(out, "{text}: the check passes")?;
            Ok(Ending::Silent)
        }
    }
}

fn models_of(args: &CheckArgs) -> Result<Vec<&'static Model>, Box<dyn std::error::Error>> {
    if args.sector != PAGE && args.sector != SECTOR {
        return bad(format!("--sector {}: 512 or 4096 would be right", args.sector));
    }
    let mut found: Vec<&'static Model> = Vec::new();
    for name in &args.model {
        let model = models::find(name).map_err(BadInput)?;
        if !found.iter().any(|known| known.name == model.name) {
            found.push(model);
        }
    }
    Ok(found)
}

fn checker_of(args: &CheckArgs) -> Result<(Checker, String), Box<dyn std::error::Error>> {
    let (checker, text) = match (&args.then, &args.server) {
        (Some(text), _) => (Checker::Command(text.clone()), text),
        (None, Some(text)) => return Ok((Checker::Server(text.clone()), text.clone())),
        (None, None) => return bad("no check: --then CMD or --server CMD would be right"),
    };
    let named = text.contains("{}")
        || text.contains("OUTLAST_DIR")
        || args.dir.iter().any(|dir| dir.is_relative() && text.contains(&*dir.to_string_lossy()))
        || args.run.is_some()
        || Path::new(text.split_whitespace().next().unwrap_or_default()).is_file();
    if !named {
        return bad(format!(
            "--then '{text}' names no directory: '{{}}' or $OUTLAST_DIR stands for the state"
        ));
    }
    Ok((checker, text.clone()))
}

/// The program's directory as it is must pass: else the check is wrong, or the program.
fn without_a_crash(
    run: &Run,
    ordered: &[Ordered],
    search: &mut Search<'_>,
    command: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let Some(moment) = ordered.first().and_then(|model| model.moments.last()) else {
        return Ok(());
    };
    let whole = Moment { ..moment.clone() };
    let mut judge = search.judge()?;
    match search.verdict(&mut judge, &run.whole(), &whole)? {
        Some(wrong) => bad(format!("the check fails without any crash ({command}): {wrong}")),
        None => Ok(()),
    }
}

/// Crashes in recovery.
struct Twice<'a> {
    run: &'a Run,
    models: &'a [Ordered],
    checked: &'a [&'static Model],
    grain: Grain,
    args: &'a CheckArgs,
}

impl Twice<'_> {
    /// Captures the recovery of each state that passed, crashes it wherever it writes, and returns how
    /// many did.
    fn crash(
        &self,
        search: &mut Search<'_>,
        findings: &mut Vec<Finding>,
        news: &mut dyn FnMut(&crate::search::Coverage, usize),
    ) -> Result<usize, Box<dyn std::error::Error>> {
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
                time: Duration::from_secs(self.args.check_time),
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
            let ordered: Vec<Ordered> = self
                .checked
                .iter()
                .map(|model| Ordered::new(&recovery, model, self.grain, None))
                .collect();
            let mut within = search.within(&recovery);
            let failures = within.search(&ordered, &|_, _| true, news, 1)?;
            let reducer = Reducer { run: &recovery, models: &ordered, grain: self.grain };
            let found = reducer.findings(&mut within, &failures)?;
            search.end(within);
            let numbers: Vec<String> = model
                .pending(moment)
                .iter()
                .filter(|unit| !state.kept.contains(unit))
                .map(ToString::to_string)
                .collect();
            let first = format!("{}@{}-{}", model.model.name, moment.event, numbers.join(","));
            for mut finding in found {
                finding.class = Class::RecoveryNotRepeatable;
                finding.first_crash = Some(first.clone());
                if !findings.iter().any(|known| same_fault(known, &finding)) {
                    findings.push(finding);
                }
            }
        }
        Ok(recoveries)
    }
}

/// Runs in which one call fails.
struct Failing<'a> {
    run: &'a Run,
    checked: &'a [&'static Model],
    grain: Grain,
    args: &'a CheckArgs,
}

impl Failing<'_> {
    /// Runs the program once for each call that may fail, in a copy of the directory, and crashes it.
    /// Returns how many runs there were.
    fn run(
        &self,
        search: &mut Search<'_>,
        findings: &mut Vec<Finding>,
        news: &mut dyn FnMut(&crate::search::Coverage, usize),
    ) -> Result<usize, Box<dyn std::error::Error>> {
        if !self.run.dir.is_relative() {
            return bad(
                "--faults runs the program again in a copy of its directory: --dir must be relative",
            );
        }
        let judge = search.judge()?;
        let mut runs = 0;
        for kind in FaultKind::ALL {
            for call in 0.. {
                if search.is_over() {
                    search.coverage.cut_short = true;
                    return Ok(runs);
                }
                judge.lay_out(&self.run.base)?;
                let run = capture::capture(&capture::Options {
                    dir: judge.place().to_owned(),
                    command: self.args.program.clone(),
                    folder: Some(judge.folder().to_owned()),
                    marks: Marks {
                        issued: Pattern::new(&self.args.issued)?,
                        acked: Pattern::new(&self.args.acked)?,
                    },
                    time: Duration::from_secs(self.args.time),
                    reads: false,
                    exact: self.args.exact,
                    fault: Some(Fault { kind, call }),
                })?;
                let Some(failed) = run.fault.clone() else { break };
                runs += 1;
                let ordered: Vec<Ordered> = self
                    .checked
                    .iter()
                    .map(|model| Ordered::new(&run, model, self.grain, None))
                    .collect();
                let mut within = search.within(&run);
                let failures = within.search(&ordered, &|_, _| true, news, 4)?;
                let reducer = Reducer { run: &run, models: &ordered, grain: self.grain };
                let found = reducer.findings(&mut within, &failures)?;
                search.end(within);
                for mut finding in found {
                    // Without the failing call it would be found as well.
                    if findings.iter().any(|known| same_fault(known, &finding)) {
                        continue;
                    }
                    finding.class = Class::ErrorNotHeeded;
                    finding.fault = Some(format!("{} from {failed}", kind.name()));
                    if !findings.iter().any(|known| same_fault(known, &finding)) {
                        findings.push(finding);
                    }
                }
            }
        }
        Ok(runs)
    }
}

/// Leaves out each sync in turn, and looks for a state that fails then.
fn leave_out_syncs(
    run: &Run,
    checked: &[&'static Model],
    ordered: &[Ordered],
    grain: Grain,
    search: &mut Search<'_>,
    news: &mut dyn FnMut(&crate::search::Coverage, usize),
) -> io::Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    let coverage = search.coverage;
    let mut last_call = None;
    for (event, step) in run.events.iter().enumerate() {
        if !matches!(step.step, Step::Sync(_)) || last_call == Some(step.call) {
            continue;
        }
        last_call = Some(step.call);
        let without: Vec<Ordered> =
            checked.iter().map(|model| Ordered::new(run, model, grain, Some(event))).collect();
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
    search.coverage = crate::search::Coverage { cut_short: search.coverage.cut_short, ..coverage };
    Ok(mutants)
}

fn keep(folder: &Path, run: &Run, ordered: &[Ordered], finding: &Finding) -> io::Result<()> {
    let state = &finding.example;
    let model = &ordered[state.model];
    lay_out(folder, &bases(run, model)[state.moment].tree(model, &state.kept))
}

fn lay_out(folder: &Path, tree: &Tree) -> io::Result<()> {
    std::fs::create_dir(folder).map_err(|error| {
        let right = "a folder that is not there would be right";
        io::Error::other(format!("{}: {error}; {right}", folder.display()))
    })?;
    tree.write_to(folder)
}

fn shown(words: &[OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./@,:=+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// What is told in the end.
struct Told<'a, 'r> {
    args: &'a CheckArgs,
    run: &'a Run,
    search: &'a Search<'r>,
    findings: &'a [Finding],
    mutants: &'a [Mutant],
    captured: Duration,
    /// Recoveries that wrote and were crashed.
    recoveries: usize,
    /// Runs in which a call failed.
    faults: usize,
    /// Where the run is kept.
    file: Option<&'a Path>,
}

impl Told<'_, '_> {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let (changes, syncs, acked) = self.run.counts();
        let coverage = &self.search.coverage;
        writeln!(
            out,
            "captured {changes} changes, {syncs} syncs, {acked} acknowledgements in {:.1} s ({})",
            self.captured.as_secs_f64(),
            self.run.ended
        )?;
        for blind in &self.run.blind {
            writeln!(out, "not measured: {blind}")?;
        }
        writeln!(
            out,
            "{} states of {} moments ({} of them exhausted), {} distinct ones checked{}",
            coverage.states,
            coverage.moments,
            coverage.exhausted,
            coverage.distinct,
            if coverage.cut_short { ", until the time was over (--budget)" } else { "" }
        )?;
        if self.args.twice {
            writeln!(out, "{} recoveries that write were crashed", self.recoveries)?;
        }
        if self.args.faults {
            writeln!(out, "{} runs in which a call fails were crashed", self.faults)?;
        }
        for finding in self.findings {
            self.finding(out, finding)?;
        }
        for mutant in self.mutants {
            match &mutant.killed {
                Some(wrong) => writeln!(out, "without {}: {wrong}", mutant.call)?,
                None => writeln!(
                    out,
                    "without {}: nothing fails; it is redundant in this run, or the check is blind",
                    mutant.call
                )?,
            }
        }
        if self.findings.is_empty() {
            writeln!(out, "no state fails under {}", self.args.model.join(", "))?;
        }
        Ok(())
    }

    fn finding(&self, out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
        writeln!(out, "\n{}: {}", finding.class.name(), finding.wrong)?;
        writeln!(out, "  allowed by  {}", finding.models.join(", "))?;
        for unit in finding.lost_units.iter().take(5) {
            writeln!(out, "  lost        {unit}")?;
        }
        if finding.lost_units.len() > 5 {
            writeln!(out, "              and {} more", finding.lost_units.len() - 5)?;
        }
        if !finding.lost.place.is_empty() {
            writeln!(out, "              from {}", finding.lost.place)?;
        }
        if let Some(kept) = &finding.kept {
            writeln!(out, "  kept        {}", kept.text)?;
            if !kept.place.is_empty() {
                writeln!(out, "              from {}", kept.place)?;
            }
        }
        if let Some(fault) = &finding.fault {
            writeln!(out, "  failing     {fault}")?;
        }
        if let Some(first) = &finding.first_crash {
            writeln!(out, "  recovering  from {first}")?;
        }
        writeln!(out, "  begun       {}, acknowledged {}", finding.issued, finding.acked)?;
        writeln!(out, "  remedy      {}", finding.class.remedy())?;
        writeln!(
            out,
            "  state       {} ({} failing states of this kind)",
            finding.state, finding.count
        )?;
        if let (Some(run), None) =
            (self.file, finding.first_crash.as_ref().or(finding.fault.as_ref()))
        {
            let sector = match self.args.sector {
                PAGE => String::new(),
                bytes => format!(" --sector {bytes}"),
            };
            writeln!(
                out,
                "  replay      outlast check --run {}{sector} --state {} --keep state {}",
                quoted(&run.display().to_string()),
                quoted(&finding.state),
                self.check()
            )?;
        }
        Ok(())
    }

    /// What CI systems read.
    fn files(&self, took: Duration) -> Result<(), BadInput> {
        let write = |file: &Option<PathBuf>, text: String| match file {
            Some(file) => std::fs::write(file, text)
                .map_err(|error| BadInput(format!("{}: {error}", file.display()))),
            None => Ok(()),
        };
        let program = shown(&self.args.program);
        write(&self.args.junit, formats::junit(&program, self.findings, took.as_secs_f64()))?;
        write(&self.args.sarif, format!("{:#}\n", formats::sarif(self.findings)))
    }

    /// The check as an option of a command.
    fn check(&self) -> String {
        match (&self.args.then, &self.args.server) {
            (Some(text), _) => format!("--then {}", quoted(text)),
            (_, Some(text)) => format!("--server {}", quoted(text)),
            _ => String::new(),
        }
    }

    fn json(&self, out: &mut dyn Write, seed: u64) -> io::Result<()> {
        let coverage = &self.search.coverage;
        let (changes, syncs, acked) = self.run.counts();
        let findings: Vec<_> = self
            .findings
            .iter()
            .map(|finding| {
                json!({
                    "class": finding.class.name(),
                    "wrong": finding.wrong,
                    "models": finding.models,
                    "lost": finding.lost.text,
                    "lost_units": finding.lost_units,
                    "kept": finding.kept.as_ref().map(|call| call.text.as_str()),
                    "issued": finding.issued,
                    "acked": finding.acked,
                    "remedy": finding.class.remedy(),
                    "state": finding.state,
                    "count": finding.count,
                    "first_crash": finding.first_crash,
                    "fault": finding.fault,
                })
            })
            .collect();
        let mutants: Vec<_> = self
            .mutants
            .iter()
            .map(|mutant| json!({"left_out": mutant.call, "wrong": mutant.killed}))
            .collect();
        let document = json!({
            "outlast": env!("CARGO_PKG_VERSION"),
            "command": format!("check {}", shown(&self.args.program)),
            "seed": seed,
            "ended": self.run.ended.to_string(),
            "changes": changes,
            "syncs": syncs,
            "acknowledged": acked,
            "not_measured": self.run.blind,
            "states": coverage.states,
            "distinct": coverage.distinct,
            "moments": coverage.moments,
            "exhausted": coverage.exhausted,
            "cut_short": coverage.cut_short,
            "recoveries_crashed": self.recoveries,
            "faults_crashed": self.faults,
            "findings": findings,
            "mutants": mutants,
        });
        writeln!(out, "{document:#}")
    }
}
