//! Crash-consistency checking: every image that a crash may leave, recovered and judged.
//!
//! A program runs on a [`Recorder`](outlast_pmem::Recorder), which writes down its stores,
//! flushes and fences. From that, the [`History`] has at each point the stores that must be durable and
//! those that may be, by the rules of `docs/fault-model.md`. [`Exhaustive`] enumerates every image
//! that a crash could leave and runs the program's own recovery on each (an [`ImageMedium`]). It lets
//! a [`Judge`] decide, and crashes the recovery too. Every failure names its image by a
//! [`Witness`], one line that replays it.
//!
//! What a failing image looks like, and what recovery made of it, an
//! [`Explanation`](explain::Explanation) tells.
//!
//! Whether threads saw each other's transactions whole and in one order is a question without a crash:
//! [`SerialHistory`] answers it.
//!
//! [`Check`] does all that for a program of the user's and names the class of each bug. An [`Oracle`]
//! judges a recovered state by the versions of keys alone. Programs come in as closures over a
//! `Medium`; only [`runtime`] knows our own, and [`machine`] schemes of the timed machine.
#![forbid(unsafe_code)]

pub mod brute;
mod caught;
mod check;
mod count;
pub mod damage;
mod exhaustive;
pub mod explain;
mod history;
mod image;
pub mod machine;
mod model;
mod oracle;
pub mod runtime;
mod sample;
mod serial;
pub mod shell;
mod verdict;
mod witness;

pub use check::{
    Acknowledged, Caller, Check, Class, Finding, Held, Line, Place, Report, Reproduction, Schedules,
};
pub use count::Count;
pub use exhaustive::{
    Coverage, Exhaustive, Failure, Level, OpenUnit, Outcome, Replay, ReplayedCrash, Unchecked,
    Widest,
};
pub use history::{History, ImageRefused, TooWide};
pub use image::ImageMedium;
pub use model::{Clflush, Domain, Model, Tear, UnknownTear, Wide};
pub use oracle::epoch::{End as EpochEnd, Epochs as EpochOracle};
pub use oracle::{Fault, Key, OddHistory, Oracle, Transaction, Version};
pub use sample::Sampled;
pub use serial::{Anomaly, Call, Cell, Edge, SerialHistory, Value};
pub use verdict::{Broken, Crash, Judge, Violation};
pub use witness::{CrashPoint, ParseWitnessError, Pick, Witness};
