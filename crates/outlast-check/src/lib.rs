//! Power failures of any program that writes files.
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
#![deny(missing_docs)]

mod bounds;
pub mod capture;
pub mod cli;
pub mod files;
pub mod finding;
pub mod formats;
pub mod judge;
pub mod judges;
pub mod marks;
pub mod models;
pub mod order;
pub mod page;
pub mod run;
pub mod saved;
pub mod search;
pub mod serve;
#[allow(unsafe_code)]
pub mod sys;
pub mod tree;

pub use files::{Program, Report, closure};
