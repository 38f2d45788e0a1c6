//! Real programs in place of the papers' benchmarks, which cannot be had: for each program of SPEC
//! CPU2006 that a paper names, one of Debian's for the same purpose, what it works on, and the windows
//! of its run that are traced.
//!
//! * [`PROGRAMS`] is the table, [`MIXES`] the mixes of eight after PiCL's Table V;
//! * [`Suite`] is the folder with the traces: [`Suite::trace`] captures what is not there yet;
//! * [`windowed()`] sets representative windows beside the whole runs that they stand for;
//! * [`measure()`] sets misses and write-backs beside what was published of the originals.
//!
//! A trace counts as there if all it comes from is the same: command, inputs, window, versions of
//! packages, and the program's own digest. That is in its file's name.
//!
//! ```no_run
//! use outlast_lab::suite::{self, Scale};
//!
//! let file = suite::trace("bzip2", Scale::Quick)?;
//! println!("{}", file.display());
//! # Ok::<(), suite::Missing>(())
//! ```

mod cache;
mod inputs;
mod list;
mod measure;
mod mixes;
mod packages;
mod programs;
mod windowed;

use std::path::{Path, PathBuf};

use outlast_sim::instead_of;
use outlast_tracer::CaptureError;

pub use cache::{Made, Suite};
pub use list::{list, table};
pub use measure::{Behaviour, MACHINE, SOURCE, behaviour_table, measure};
pub use mixes::{MIXES, Mix};
pub use packages::{install, missing_packages};
pub use programs::PROGRAMS;
pub use windowed::{ERROR_MAX, Windowed, windowed, windowed_table, windows_of};

/// How much of each program is traced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scale {
    /// Some ten million instructions.
    Quick,
    /// Hundreds of millions.
    Full,
}

impl Scale {
    /// As command lines and files name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// A part of a run, in instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Those before it: the program's start, and reading its input.
    pub skip: u64,
    /// Those in it.
    pub count: u64,
}

/// A program of the papers.
#[derive(Debug)]
pub struct Entry {
    /// Its name in SPEC CPU2006, without the number.
    pub name: &'static str,
    /// What stands for it, or why nothing does.
    pub counterpart: Result<Counterpart, &'static str>,
}

/// A program of Debian's.
#[derive(Debug)]
pub struct Counterpart {
    /// What it is.
    pub about: &'static str,
    /// Where its parts come from; the first has the program.
    pub packages: &'static [Package],
    /// The program by path, and its arguments. It runs in a folder of its own, where its inputs are.
    pub command: &'static [&'static str],
    /// The input that is its standard input, which then stays open: some end what they do where it ends.
    pub stdin: Option<&'static str>,
    /// What it works on.
    pub inputs: &'static [Input],
    /// Commands that run before, not traced.
    pub before: &'static [&'static [&'static str]],
    /// Quick scale's part of the run.
    pub quick: Window,
    /// Full scale's.
    pub full: Window,
}

impl Counterpart {
    /// The part of the run that a scale has.
    pub fn window(&self, scale: Scale) -> Window {
        match scale {
            Scale::Quick => self.quick,
            Scale::Full => self.full,
        }
    }
}

/// A package, and the file by which it is known to be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Package {
    /// Its name.
    pub name: &'static str,
    /// A file of it that is needed.
    pub has: &'static str,
}

/// A file that a program works on, made from a fixed seed.
#[derive(Debug)]
pub struct Input {
    /// Its name.
    pub name: &'static str,
    /// Makes it.
    pub make: fn() -> Vec<u8>,
}

impl Missing {
    /// The packages that have to be installed, if it is that.
    pub fn packages(&self) -> Vec<&str> {
        match self {
            Self::Packages(_, names) => names.split(' ').collect(),
            Self::Capture(_, CaptureError::NoQemu) => vec!["qemu-user"],
            _ => Vec::new(),
        }
    }
}

/// A trace that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// No paper has it.
    #[error("no program or mix of the suite is called '{0}'; {1}")]
    Unknown(String, String),
    /// Nothing stands for it.
    #[error("{0} has no counterpart: {1}")]
    NoCounterpart(&'static str, &'static str),
    /// It is not installed.
    #[error("{0}: missing {1} (apt-get install {1})")]
    Packages(&'static str, String),
    /// What is done before the capture failed, or the trace is not what it should be.
    #[error("{0}: {1}")]
    Before(&'static str, String),
    /// The capture failed.
    #[error("{0}: {1}")]
    Capture(&'static str, CaptureError),
    /// The folder cannot be used.
    #[error("{folder}: {error}", folder = .0.display(), error = .1)]
    Io(PathBuf, std::io::Error),
}

/// The program of that name.
///
/// # Errors
/// When there is none.
pub fn program(name: &str) -> Result<&'static Entry, Missing> {
    PROGRAMS.iter().find(|entry| entry.name == name).ok_or_else(|| {
        Missing::Unknown(name.to_owned(), instead_of(name, PROGRAMS.iter().map(|row| row.name)))
    })
}

/// The programs that have a counterpart.
pub fn counterparts() -> impl Iterator<Item = (&'static Entry, &'static Counterpart)> {
    PROGRAMS.iter().filter_map(|entry| Some((entry, entry.counterpart.as_ref().ok()?)))
}

/// Writes what a program's counterpart works on into a folder.
///
/// # Errors
/// When there is no such program, or the folder cannot be written to.
pub fn write_inputs(name: &str, folder: &Path) -> Result<(), Missing> {
    let failed = |error| Missing::Io(folder.to_owned(), error);
    let Ok(counterpart) = &program(name)?.counterpart else { return Ok(()) };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let write = |input: &Input| std::fs::write(folder.join(input.name), (input.make)());
    counterpart.inputs.iter().try_for_each(write).map_err(failed)
}

/// The trace of a program's counterpart in the usual folder, captured now if it is not there.
///
/// # Errors
/// When it is not there and cannot be captured.
pub fn trace(name: &str, scale: Scale) -> Result<PathBuf, Missing> {
    Suite::usual()?.trace(name, scale, &mut |_| {})
}

#[cfg(test)]
mod tests;
