//! A check of a program from a test or from the command line: capture, search, phases, report.
//!
//! [`Program`] runs a binary, [`Closure`] two closures in copies of the running test. Both make a
//! [`Plan`], which is plain data and runs to a [`Report`].
//!
//! ```
//! use outlast_check::files::Program;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let data = folder.path().join("data");
//! // Replaces a file: its sync, the rename, the directory's sync.
//! let program = "echo I 1; echo one >$0/new; sync $0/new; mv $0/new $0/file; sync $0; echo A 1";
//! let check = "[ $OUTLAST_ACKED = 0 ] || grep -qx one $OUTLAST_DIR/file";
//! # let checked =
//! Program::new("/bin/sh").args(["-c", program]).arg(&data).dir(&data).then(check).check();
//! # if checked.as_ref().is_err_and(|error| error.to_string().contains("refuses to trace")) {
//! #     return Ok(());
//! # }
//! # checked?.assert_sound();
//! # Ok(())
//! # }
//! ```

mod closure;
mod faults;
mod mutate;
mod plan;
mod program;
mod report;
mod twice;

use std::io;

use crate::capture::CaptureError;

pub(crate) use plan::{load, quoted};
pub(crate) use report::lay_out;

pub use closure::{Closure, closure};
pub use mutate::Mutant;
pub use plan::{Check, Plan, Progress, Source};
pub use program::Program;
pub use report::{Case, Report};

/// A check that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Something asked for cannot be done; the text says what could.
    #[error("{0}")]
    Input(String),
    /// The program cannot be captured.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A state cannot be laid out, or a file cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
}

fn bad<T>(text: impl Into<String>) -> Result<T, CheckError> {
    Err(CheckError::Input(text.into()))
}
