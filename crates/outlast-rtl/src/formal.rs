//! Bounded model checking of the undo log under any environment (`rtl/formal.sv`), by Yosys' SAT solver.
//!
//! yosys-smtbmc with Debian's Z3 does not get past the first cycle of the same model in minutes, and
//! Debian has no Yices; the solver inside Yosys takes seconds.

use std::process::Command;

use crate::verilate::{BuildError, run, write_sources};

/// What a bounded check has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bounded {
    /// No run up to the bound of cycles breaks an assertion.
    Holds,
    /// One does.
    Broken,
}

/// Checks all runs of `cycles` cycles. `bug` is the number of a planted defect in `rtl/top.sv`; 0
/// for none.
///
/// # Errors
/// When Yosys is missing or fails.
pub fn check(bug: u8, cycles: u32) -> Result<Bounded, BuildError> {
    let folder = tempfile::tempdir()?;
    let sources = write_sources(folder.path())?;
    let parts = ["formal.sv", "undo_log.sv", "bloom.sv", "checksum.sv", "log_space.sv", "ram.sv"];
    let named = sources.iter().filter(|path| parts.iter().any(|part| path.ends_with(part)));
    let names: Vec<String> = named.map(|path| path.display().to_string()).collect();
    let script = format!(
        "read_verilog -sv -formal -DFORMAL {}; chparam -set BUG {bug} formal; \
         prep -top formal -flatten; memory_map; opt -full; async2sync; dffunmap; opt_clean; \
         sat -verify -tempinduct-baseonly -maxsteps {cycles} -prove-asserts -set-at 1 rst 1",
        names.join(" "),
    );
    match run("yosys", "apt-get install yosys", Command::new("yosys").args(["-q", "-p", &script])) {
        Ok(_) => Ok(Bounded::Holds),
        Err(BuildError::Failed { message, .. }) if message.contains("proof did fail") => {
            Ok(Bounded::Broken)
        }
        Err(error) => Err(error),
    }
}
