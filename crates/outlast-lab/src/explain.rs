//! Explained crashes: the set that a report shows, and the view for a terminal. The page's view is
//! `html/explorer.rs`; both show the same [`Explanation`].

use std::fmt::Write as _;

use outlast::Scheme;
use outlast::lab::Plant;
use outlast_crash::explain::published::{self, Flaw};
use outlast_crash::explain::{Compared, Event, Explanation, Fate, Run};

use crate::crash::{CrashError, Work, deal, on_trial};
use crate::native::Size;
use crate::progress::Listener;

/// Columns of the view on a terminal.
const COLUMNS: usize = 100;

/// Planted bugs that are explained for each scheme of the runtime.
const PLANTS: usize = 2;

/// What a report explains.
enum Task {
    Flaw(Box<Flaw>),
    Planted(Plant, Scheme),
}

/// One explanation.
struct Job {
    task: Task,
    seed: u64,
}

/// What each takes of a processor, in milliseconds.
const EXPECTED_MS: u64 = 150;

impl Work for Job {
    /// Nothing where no crash shows it.
    type Result = Option<Explanation>;

    fn name(&self) -> String {
        match &self.task {
            Task::Flaw(flaw) => format!("{} in {}", flaw.name(), flaw.scheme()),
            Task::Planted(plant, scheme) => format!("{plant} in {scheme}"),
        }
    }

    fn expected_ms(&self) -> u64 {
        EXPECTED_MS
    }

    fn run(&self) -> Result<Option<Explanation>, CrashError> {
        match &self.task {
            // A flaw that cannot be run has nothing to show; the campaigns say why.
            Task::Flaw(flaw) => Ok(flaw.explain(self.seed).ok().flatten()),
            Task::Planted(plant, scheme) => published::planted_anywhere(*plant, *scheme)
                .map_err(|source| CrashError::TooWide { what: self.name(), source }),
        }
    }
}

/// Explains every published flaw that shows, and some planted bugs of each scheme of the runtime, on
/// all cores.
///
/// # Errors
/// When the checker cannot run or panics.
pub fn for_report(seed: u64, listen: &mut Listener<'_>) -> Result<Vec<Explanation>, CrashError> {
    let flaws = published::all().into_iter().map(|flaw| Task::Flaw(Box::new(flaw)));
    let of_scheme = |scheme: Scheme| {
        let plants = Plant::all().filter(move |plant| plant.applies_to(scheme));
        plants.take(PLANTS).map(move |plant| Task::Planted(plant, scheme))
    };
    let planted = on_trial(Size::Quick).flat_map(of_scheme);
    let jobs: Vec<Job> = flaws.chain(planted).map(|task| Job { task, seed }).collect();
    let told = deal("explained crashes", &jobs, listen)?;
    Ok(told.into_iter().flatten().collect())
}

/// An explanation for a terminal.
pub fn text(told: &Explanation) -> String {
    let mut text = format!("{}\n", told.title());
    let mut part = |title: &str, body: &str| {
        if !body.is_empty() {
            let indent =
                textwrap::Options::new(COLUMNS).initial_indent("  ").subsequent_indent("    ");
            let _ = write!(text, "\n{title}\n");
            for line in body.lines() {
                match line.starts_with(' ') {
                    true => text.push_str(line),
                    false => text.push_str(&textwrap::fill(line, &indent)),
                }
                text.push('\n');
            }
        }
    };
    part("What is wrong with it", &told.about);
    part("What ran", &program(told));
    for run in &told.runs {
        part(&format!("Time line of {} ({})", run.name, legend()), &time_line(run));
        part("Lines that it stored to, as the crash left them", &lines(run));
    }
    part("What recovery did", &recovery(told));
    part("What the oracle expected and found", &compared(&told.compared));
    part("Verdict", &told.verdict);
    part("Again", &told.replay);
    text
}

fn legend() -> String {
    Fate::ALL.map(|fate| format!("{} {fate}", fate.sign())).join(", ")
}

fn program(told: &Explanation) -> String {
    let mut text = format!("{}\nguarantee: {}\n", told.program, told.guarantee);
    for transaction in &told.transactions {
        let sign = if transaction.acknowledged { "acknowledged" } else { "not acknowledged" };
        let _ = writeln!(
            text,
            "transaction {} on lane {}, {sign}: {}",
            transaction.id, transaction.lane, transaction.does
        );
    }
    if !told.schedule.is_empty() {
        let _ = writeln!(text, "schedule: {}", told.schedule);
    }
    text
}

fn time_line(run: &Run) -> String {
    let mut text = String::new();
    if run.left_out > 0 {
        let _ = writeln!(text, "  … {} earlier ones are left out", run.left_out);
    }
    let crash = format!("  ────── crash before {} {} ──────\n", run.unit, run.crash_at);
    let mut has_crashed = false;
    for event in &run.events {
        if event.at >= run.crash_at && !has_crashed && event.fate.is_none() && is_behind(run, event)
        {
            text.push_str(&crash);
            has_crashed = true;
        }
        let sign = event.fate.map_or(" ", Fate::sign);
        let lane = event.lane.map(|lane| format!(" lane {lane}")).unwrap_or_default();
        let place = match event.place.as_str() {
            "" => String::new(),
            place => format!("  [{place}]"),
        };
        let _ = writeln!(text, "  {:>6}{lane} {sign} {}{place}", event.at, event.what);
    }
    if !has_crashed {
        text.push_str(&crash);
    }
    text
}

/// Whether an event stands behind the crash: what a lane had gone on to while a store waited.
fn is_behind(run: &Run, event: &Event) -> bool {
    run.unit == "operation" && event.at >= run.crash_at
}

fn lines(run: &Run) -> String {
    let mut text = String::new();
    for line in &run.lines {
        let _ =
            writeln!(text, "  {} {:#08x} {}: {}", line.fate.sign(), line.at, line.place, line.fate);
        for word in line.words.iter().filter(|_| line.fate != Fate::Durable) {
            let _ = writeln!(
                text,
                "      {:#08x}: {:#x} before, {:#x} in the image, {:#x} stored last",
                word.at, word.before, word.image, word.newest
            );
        }
    }
    if run.lines_left_out > 0 {
        let _ = writeln!(text, "  … and {} more", run.lines_left_out);
    }
    text
}

fn recovery(told: &Explanation) -> String {
    let mut text = String::new();
    if !told.recovery.read.is_empty() {
        let _ = writeln!(text, "read: {}", told.recovery.read.join(", "));
    }
    for (number, step) in (1..).zip(&told.recovery.steps) {
        let place = match step.place.as_str() {
            "" => String::new(),
            place => format!("  [{place}]"),
        };
        let _ = writeln!(text, "  {number:>6} {}{place}", step.what);
    }
    if told.recovery.left_out > 0 {
        let _ = writeln!(text, "  … and {} more steps", told.recovery.left_out);
    }
    let _ = writeln!(text, "came to: {}", told.recovery.outcome);
    text
}

fn compared(rows: &[Compared]) -> String {
    let mut text = String::new();
    for row in rows {
        let sign = if row.is_allowed { "✓" } else { "✗" };
        let _ =
            writeln!(text, "{sign} {}: expected {}; found {}", row.what, row.expected, row.found);
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use outlast_crash::explain::published::{named, planted};

    use super::*;

    /// Two small explanations: of the runtime and of the timed machine.
    pub(crate) fn examples() -> Vec<Explanation> {
        let names = ["ARC-3", "HWL-1"];
        let flaws = names.iter().map(|name| named(name).into_iter().next().unwrap());
        flaws.map(|flaw| flaw.explain(1).unwrap().unwrap()).collect()
    }

    #[test]
    fn the_text_has_every_part_and_keeps_to_its_columns() {
        for told in examples() {
            let text = text(&told);
            for part in [
                "What ran",
                "Time line of the program (● durable for certain",
                "crash before ",
                "Lines that it stored to",
                "What recovery did",
                "What the oracle expected and found\n  ✗ ",
                "Verdict",
                &format!("Again\n  {}", told.replay),
            ] {
                assert!(text.contains(part), "{part:?} is missing in\n{text}");
            }
        }
        let plant = "skip-flush:RedoRecord".parse().unwrap();
        let told = planted(plant, Scheme::Redo, "apart").unwrap().unwrap();
        let text = text(&told);
        assert!(text.contains("○ stores "), "{text}");
        assert!(text.contains("acknowledges transaction 257"), "{text}");
    }
}
