//! Captures traces of real programs.
//!
//! [`capture`] runs a program under QEMU's user mode with a plugin of ours, which this crate carries
//! in itself. The plugin tells what was not expected of the program's accesses in chunks of shared
//! memory; here they become the program's trace, on another core. A child of fork has a trace of its
//! own.
//!
//! ```no_run
//! use outlast_tracer::{Request, capture};
//!
//! let request = Request::new("/tmp/bzip2.otrace", ["bzip2", "-k", "file"]);
//! let captured = capture(&request, &mut |_| {})?;
//! println!("{} bytes in {}", captured.files[0].bytes, captured.files[0].path.display());
//! # Ok::<(), outlast_tracer::CaptureError>(())
//! ```
#![forbid(unsafe_code)]

mod capture;
mod code;
mod connection;
#[allow(dead_code)]
mod words;

pub use capture::{
    CaptureError, Captured, CapturedFile, Place, ProgramOutput, Progress, Request, capture, digest,
    qemu_version,
};
