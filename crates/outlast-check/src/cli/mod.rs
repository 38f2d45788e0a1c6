//! The command: flags and glue.

mod options;
mod show;

use std::io::Write;
use std::path::Path;

pub use self::options::{CheckArgs, SavedCommand};
use crate::bounds;
use crate::files::{CheckError, Report, lay_out, load};

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
        show::show(&load(file)?, out)?;
        return Ok(Ending::Silent);
    }
    let plan = args.plan(seed)?;
    bounds::tidy_at_interrupts();
    if let Some(state) = &args.state {
        let (wrong, tree) = plan.one_state(state)?;
        if let Some(folder) = &args.keep {
            lay_out(folder, &tree)?;
        }
        let told = wrong.as_deref().unwrap_or("the check passes");
        writeln!(out, "{state}: {told}")?;
        return Ok(if wrong.is_some() { Ending::Found } else { Ending::Silent });
    }
    if let (true, Some(file)) = (args.capture, &args.save) {
        let run = plan.capture(file, progress)?;
        let (changes, syncs, acked) = run.counts();
        let (name, ended) = (file.display(), run.ended);
        match json {
            true => writeln!(out, "{:#}", plan.captured_json(&run))?,
            false => writeln!(
                out,
                "captured {changes} changes, {syncs} syncs, {acked} acknowledgements in {name} ({ended})"
            )?,
        }
        return Ok(Ending::Silent);
    }
    let report = plan.run(progress)?;
    if let (Some(folder), Some(first)) = (&args.keep, report.cases.first()) {
        report.keep(first, folder)?;
    }
    files(args, &report)?;
    if json {
        writeln!(out, "{:#}", report.json())?
    } else {
        write!(out, "{report}")?
    }
    Ok(match (report.cases.is_empty(), report.run.blind.is_empty()) {
        (false, _) => Ending::Found,
        (true, false) => Ending::Blind,
        (true, true) => Ending::Silent,
    })
}

/// The reports for CI systems and people.
fn files(args: &CheckArgs, report: &Report) -> Result<(), CheckError> {
    let write = |file: &Path, text: String| {
        std::fs::write(file, text)
            .map_err(|error| CheckError::Input(format!("{}: {error}", file.display())))
    };
    if let Some(file) = &args.junit {
        write(file, report.junit())?;
    }
    if let Some(file) = &args.html {
        write(file, report.html())?;
    }
    if let Some(file) = &args.sarif {
        write(file, format!("{:#}\n", report.sarif()))?;
    }
    Ok(())
}
