//! Representative windows of the suite's traces, each beside the whole run that they stand for.

use std::fmt::Write;
use std::path::Path;

use outlast_schemes::MachineScheme;
use outlast_sim::timed::MachineConfig;
use outlast_trace::Program;
use serde_json::{Value, json};

use super::{MACHINE, Scale, Suite};
use crate::points::{Choice, choose_for};
use crate::progress::{Listener, Progress};
use crate::record::{Metric, Record};
use crate::simulated::{Simulation, Work, run_listening};

/// Intervals into which a trace is divided.
const INTERVALS: u64 = 100;
/// The most windows of a trace.
const WINDOWS_MAX: usize = 20;

/// The most by which the weighted CPI of windows may differ from the whole run's.
pub const ERROR_MAX: f64 = 0.05;

/// One trace as a whole, and by its windows.
#[derive(Clone, PartialEq, Debug)]
pub struct Windowed {
    /// The trace.
    pub name: String,
    /// How many windows stand for it.
    pub windows: usize,
    /// Their share of its instructions.
    pub share: f64,
    /// Cycles for an instruction of the whole run.
    pub whole: f64,
    /// The same by weighted windows.
    pub weighted: f64,
}

impl Windowed {
    /// By how much the windows are off.
    pub fn error(&self) -> f64 {
        self.weighted / self.whole - 1.0
    }

    /// Whether they stand for the whole.
    pub fn is_right(&self) -> bool {
        self.error().abs() <= ERROR_MAX
    }

    /// As a record of a JSON document.
    pub fn to_json(&self) -> Value {
        let Self { name, windows, share, whole, weighted } = self;
        json!({
            "kind": "windows",
            "name": name,
            "machine": MACHINE,
            "windows": windows,
            "share": share,
            "cpi": whole,
            "cpi_by_windows": weighted,
            "error": self.error(),
        })
    }
}

/// Runs the trace of each program of the suite as a whole and by its windows. Traces that cannot be had
/// are told and left out.
///
/// # Errors
/// When the machine comes to a stop.
pub fn windowed(
    suite: &Suite,
    names: &[&'static str],
    scale: Scale,
    listen: &mut Listener<'_>,
) -> Result<Vec<Windowed>, Box<dyn std::error::Error>> {
    let mut all = Vec::new();
    for name in names {
        match suite.trace(name, scale, listen) {
            Ok(trace) => all.push(windows_of(name, &trace, listen)?),
            Err(missing) => listen(Progress::Note(&missing.to_string())),
        }
    }
    Ok(all)
}

/// One trace as a whole and by its windows.
///
/// # Errors
/// When it cannot be read, or the machine comes to a stop.
pub fn windows_of(
    name: &str,
    trace: &Path,
    listen: &mut Listener<'_>,
) -> Result<Windowed, Box<dyn std::error::Error>> {
    let program = Program::open(trace)?;
    let interval = (program.instructions()? / INTERVALS).max(1000);
    let place = tempfile::tempdir()?;
    let out = place.path().join("windows.points");
    let choice = Choice { interval, windows_max: WINDOWS_MAX, warm_up: interval, seed: 1 };
    let points = choose_for(&MachineConfig::named(MACHINE)?, &program, &choice, &out)?;
    let mut run = |work: Work| {
        let simulation = Simulation {
            machine: MachineConfig::named(MACHINE)?,
            work,
            warm_up: 0,
            instructions: 1 << 50,
            seed: 1,
            timeline: None,
            scheme: MachineScheme::plain(),
            options: Default::default(),
        };
        run_listening(&simulation, listen)
    };
    let whole = run(Work::Trace(trace.to_owned()))?;
    let by_windows = run(Work::Windows(out.clone()))?;
    let weighted = out.display().to_string();
    let cpi = |records: &[Record], of: Option<&str>| {
        let of = |metric| {
            let is_it =
                |record: &&Record| record.is(metric) && of.is_none_or(|of| record.workload == of);
            records.iter().find(is_it).and_then(|record| record.value).unwrap_or(f64::NAN)
        };
        of(Metric::CYCLES) / of(Metric::INSTRUCTIONS)
    };
    let ran: u64 = points.windows.iter().map(|window| window.instructions).sum();
    Ok(Windowed {
        name: name.to_owned(),
        windows: points.windows.len(),
        share: ran as f64 / points.instructions as f64,
        whole: cpi(&whole, None),
        weighted: cpi(&by_windows, Some(&weighted)),
    })
}

/// As a table in Markdown.
pub fn windowed_table(all: &[Windowed]) -> String {
    let mut text = String::from(
        "| program | windows | of all instructions | CPI | CPI by windows | error |\n\
         |---|---|---|---|---|---|\n",
    );
    for one in all {
        let Windowed { name, windows, share, whole, weighted } = one;
        let _ = writeln!(
            text,
            "| {name} | {windows} | {:.1} % | {whole:.3} | {weighted:.3} | {:+.1} % |",
            100.0 * share,
            100.0 * one.error()
        );
    }
    text
}
