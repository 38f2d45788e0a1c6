//! The two ways out: results on standard output, notes and bars on standard error.
//!
//! A result that cannot be written ends the command: quietly where its reader has gone, with one
//! line and status 1 where there is no room. Notes that cannot be written are left out.

use std::fmt;
use std::io::{self, Write};

#[cfg(feature = "lab")]
pub use crate::teller::Teller;

/// Standard output cannot be written.
#[derive(Debug)]
pub struct OutputFailed(pub io::Error);

impl OutputFailed {
    /// Whether the reader has gone, as `head` does: that is the reader's choice, and no failure.
    pub fn is_reader_gone(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

impl fmt::Display for OutputFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "standard output: {}", plain(&self.0))
    }
}

impl std::error::Error for OutputFailed {}

/// An error of the system in its own words, without the number that Rust adds.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

/// Writes to standard output.
pub fn put(text: fmt::Arguments<'_>) -> Result<(), OutputFailed> {
    io::stdout().write_fmt(text).map_err(OutputFailed)
}

/// Writes out what standard output still holds.
pub fn flush() -> Result<(), OutputFailed> {
    io::stdout().flush().map_err(OutputFailed)
}

/// Writes to standard error, if that can be written.
pub fn note(text: fmt::Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}

/// A line of a result.
macro_rules! outln {
    ($($text:tt)*) => {
        $crate::say::put(format_args!("{}\n", format_args!($($text)*)))?
    };
}

/// A part of a result.
#[cfg(feature = "lab")]
macro_rules! out {
    ($($text:tt)*) => {
        $crate::say::put(format_args!($($text)*))?
    };
}

/// A line beside the result.
macro_rules! noteln {
    ($($text:tt)*) => {
        $crate::say::note(format_args!("{}\n", format_args!($($text)*)))
    };
}

#[cfg(feature = "lab")]
pub(crate) use out;
pub(crate) use {noteln, outln};
