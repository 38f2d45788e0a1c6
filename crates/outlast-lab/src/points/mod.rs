//! Representative windows of a program's trace, as SimPoint picks them (Sherwood, Perelman, Hamerly and
//! Calder, ASPLOS'02).
//!
//! A trace is cut into intervals of equal length. Each has a vector: for every basic block the
//! instructions that it ran there. `vectors` projects them at random to few dimensions, `clusters`
//! groups them by k-means and chooses the number of groups by BIC. Blocks do not tell which intervals
//! miss: `costs` passes the trace through a machine's caches without time, and groups are divided by
//! what their intervals may cost. Of each part one interval is a window, which stands for the part's
//! share of all instructions.
//!
//! [`Points`] is the file that names the windows and their weights; `outlast sim --trace` runs them.

mod clusters;
mod costs;
mod vectors;

use std::path::{Path, PathBuf};

use outlast_sim::timed::MachineConfig;
use outlast_trace::{Part, Program, cut_parts, write_whole};
use serde::{Deserialize, Serialize};

use clusters::cluster;
use vectors::{Interval, vectors};

use crate::suite::MACHINE;

/// How windows are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Instructions of an interval, and so of a window.
    pub interval: u64,
    /// The most windows.
    pub windows_max: usize,
    /// Instructions before each window, which warm caches up and do not count.
    pub warm_up: u64,
    /// Feeds projection and the first centres.
    pub seed: u64,
}

/// Windows of a trace.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Points {
    /// The command that was traced.
    pub command: String,
    /// The whole trace, from the folder of the file of windows. Files of older versions have none.
    #[serde(default)]
    pub trace: Option<PathBuf>,
    /// Instructions of the whole trace, all threads together.
    pub instructions: u64,
    /// Intervals that were compared.
    pub intervals: u64,
    /// The windows, in the order of the trace.
    pub windows: Vec<Window>,
}

/// One of them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// Its trace, beside the file of the windows.
    pub file: PathBuf,
    /// Instructions of the whole trace before it.
    pub begins_at: u64,
    /// Instructions of its trace before those that count.
    pub warm_up: u64,
    /// Instructions that count.
    pub instructions: u64,
    /// The share of the whole trace's instructions that it stands for.
    pub weight: f64,
}

/// The extension of a file of windows.
pub const EXTENSION: &str = "points";

/// Whether a file's name is that of windows.
pub fn are_points(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

/// Chooses windows of a trace for [the suite's machine](MACHINE); see [`choose_for`].
///
/// # Errors
/// As there.
pub fn choose(
    program: &Program,
    choice: &Choice,
    out: &Path,
) -> Result<Points, Box<dyn std::error::Error>> {
    choose_for(&MachineConfig::named(MACHINE)?, program, choice, out)
}

/// Chooses windows of a trace, writes the trace of each beside `out`, and last that file. The machine
/// says what intervals may cost; the windows may be run on others, too.
///
/// # Errors
/// When the trace cannot be read or is shorter than an interval, or a file cannot be written.
pub fn choose_for(
    machine: &MachineConfig,
    program: &Program,
    choice: &Choice,
    out: &Path,
) -> Result<Points, Box<dyn std::error::Error>> {
    let mut intervals = vectors(program, choice.interval, choice.seed)?;
    let instructions: u64 = intervals.iter().map(|interval| interval.instructions).sum();
    if instructions < choice.interval {
        let why = format!(
            "the trace has {instructions} instructions: take an --interval of at most as many"
        );
        return Err(why.into());
    }
    costs::cost(&mut intervals, program.path(), machine, choice.seed)?;
    // The other half is for differences of cost.
    let clusters = cluster(&intervals, choice.windows_max.div_ceil(2), choice.seed);
    let stem = out.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let windows: Vec<Window> = clusters
        .windows(&intervals, choice.windows_max)
        .into_iter()
        .enumerate()
        .map(|(number, (interval, weight))| {
            let Interval { begins_at, instructions, .. } = intervals[interval];
            let file = format!("{stem}.{}.otrace", number + 1).into();
            let warm_up = choice.warm_up.min(begins_at);
            Window { file, begins_at, warm_up, instructions, weight }
        })
        .collect();
    let part = |window: &Window| Part {
        skip: window.begins_at - window.warm_up,
        count: window.warm_up + window.instructions,
        out: out.with_file_name(&window.file),
    };
    cut_parts(program, &windows.iter().map(part).collect::<Vec<_>>())?;
    let command = program.about().command.join(" ");
    let trace = Some(beside(out, program.path()));
    let intervals = intervals.len() as u64;
    let points = Points { command, trace, instructions, intervals, windows };
    let json = serde_json::to_string_pretty(&points)? + "\n";
    write_whole(out, json).map_err(|error| format!("{}: {error}", out.display()))?;
    Ok(points)
}

/// A trace's name in a file of windows: its own, where both are in one folder, or else all of its path.
fn beside(out: &Path, trace: &Path) -> PathBuf {
    let folder = |path: &Path| std::path::absolute(path).ok()?.parent().map(Path::to_owned);
    match trace.file_name() {
        Some(name) if folder(out) == folder(trace) => name.into(),
        _ => std::path::absolute(trace).unwrap_or_else(|_| trace.to_owned()),
    }
}

impl Points {
    /// The whole trace of the windows in `file`: what runs before each window warms the caches.
    ///
    /// # Errors
    /// When it is not there.
    pub fn trace_of(&self, file: &Path) -> Result<PathBuf, String> {
        let shown = file.display();
        let Some(trace) = &self.trace else {
            return Err(format!(
                "{shown}: names no whole trace: make the windows anew by `outlast trace points`"
            ));
        };
        let path = file.parent().unwrap_or(Path::new("")).join(trace);
        if !path.is_file() {
            let path = path.display();
            return Err(format!("{shown}: {path} is missing, the whole trace of these windows"));
        }
        Ok(path)
    }

    /// Reads a file of windows.
    ///
    /// # Errors
    /// When it cannot be read, or is none.
    pub fn open(path: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
        let points: Self = serde_json::from_str(&text).map_err(|error| {
            format!("{shown}: no windows of a trace ({error}): make them by `outlast trace points`")
        })?;
        let weights: f64 = points.windows.iter().map(|window| window.weight).sum();
        let are_weights = points.windows.iter().all(|window| window.weight > 0.0);
        if !are_weights || (weights - 1.0).abs() > 1e-6 {
            return Err(
                format!("{shown}: weights of {weights} altogether, where 1 is right").into()
            );
        }
        Ok(points)
    }
}
