//! Power failures of any program: of one that writes files, unmodified, and of one that stores through a
//! `Medium`.
//!
//! # Files
//!
//! A program is [captured](capture::capture()) into a [`Run`](run::Run): its changes, syncs and
//! acknowledgements in order. A [model](models) of a file system makes [units of persistence](order)
//! with their order of it. The [search](search::Search) lays out the states that a crash may leave and has the
//! program's own recovery [judged](judge::Judge); failures are [reduced](finding::Reducer) to findings.
//!
//! The program is a black box, so that any can be checked; the model is data, so that a file system is a
//! row; the recovery is the real one, so that nothing is assumed of it.
//!
//! ```
//! use outlast_check::{models, order::{Grain, Ordered}};
//!
//! # let run = outlast_check::run::Run::empty("data".into());
//! let ext4 = models::find("ext4")?;
//! let ordered = Ordered::new(&run, ext4, Grain { bytes: 4096 }, None);
//! assert_eq!(ordered.moments.len(), 1, "a run without syncs can be crashed at its end alone");
//! # Ok::<(), String>(())
//! ```
//!
//! # Memory
//!
//! [`memory`] checks a program over persistent memory the same way: [`memory::Check`] records its stores,
//! flushes and fences, and enumerates the images that a crash may leave by the rules of
//! `docs/fault-model.md`. Both have one [oracle] of keys with versions.
#![deny(missing_docs, unsafe_code)]

mod bounds;
pub mod capture;
pub mod caught;
pub mod cli;
pub mod entry;
pub mod explain;
pub mod files;
pub mod finding;
pub mod formats;
pub mod judge;
pub mod judges;
pub mod marks;
pub mod memory;
pub mod models;
pub mod oracle;
pub mod order;
pub mod page;
pub mod part;
pub mod run;
pub mod saved;
pub mod search;
pub mod serve;
mod server;
pub mod shell;
pub mod strata;
#[allow(unsafe_code)]
pub mod sys;
pub mod tree;

pub use files::{Program, Report, closure};
