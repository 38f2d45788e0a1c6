//! Power failures of programs that store through [`Medium`](outlast_pmem::Medium): every image that a
//! crash may leave, recovered and judged.
//!
//! A program runs on a [`Recorder`](outlast_pmem::Recorder), which writes down its stores,
//! flushes and fences. From that, the [`History`] has at each point the stores that must be durable and
//! those that may be, by the rules of `docs/fault-model.md`. [`Exhaustive`] enumerates every image
//! that a crash could leave and runs the program's own recovery on each (an [`ImageMedium`]). It lets
//! a [`Judge`] decide, and crashes the recovery too. Every failure names its image by a
//! [`Witness`], one line that replays it.
//!
//! [`Check`] does all that for a program of the user's and names the class of each bug. An
//! [`Oracle`](crate::oracle::Oracle) judges a recovered state by the versions of keys alone.

pub mod brute;
mod check;
mod count;
mod exhaustive;
mod history;
mod image;
mod model;
mod sample;
mod verdict;
mod witness;

pub use check::{
    Acknowledged, Caller, Check, Class, Finding, Held, Line, Place, Report, Reproduction, Schedules,
};
pub(crate) use check::{lines_of, stored_bytes, stored_words};
pub use count::Count;
pub use exhaustive::{
    Coverage, Exhaustive, Failure, Level, OpenUnit, Outcome, Replay, ReplayedCrash, Seen,
    Unchecked, Widest,
};
pub use history::{History, ImageRefused, TooWide};
pub use image::{ImageMedium, Stuck, draw, mix};
pub use model::{Clflush, Domain, Model, Tear, UnknownTear, Wide};
pub use sample::Sampled;
pub use verdict::{Broken, Crash, Judge, Violation, panicked};
pub use witness::{CrashPoint, ParseWitnessError, Pick, Witness};
