//! Outlast's laboratory: measuring fairly, and showing what came out.
//!
//! * [`mod@bench`] runs subjects against each other, interleaved, on equal work;
//! * [`record`] is what every command reports, one tidy record per value, with the [`machine`];
//! * [`suite`] has traces of real programs in place of the papers' benchmarks;
//! * [`stats`] makes medians, quartiles and latency histograms of many measurements;
//! * [`table`] shows a run on a terminal, [`html`] as one self-contained page with the figures
//!   of [`plot`], both made from records and nothing else.
//!
//! Nothing here knows a scheme or a pool: what competes is any [`outlast::Runner`].
//!
//! ```
//! use outlast_lab::record::{Document, Kind, Metric, Record};
//!
//! let mut document = Document::new("0.2.0", "outlast bench sps1", 7, None);
//! document.records.push(
//!     Record::new(Kind::Native, "sps1", "undo", Metric::THROUGHPUT, 2.5e6).threads(1),
//! );
//! assert!(outlast_lab::table::summary(&document).contains("2.50 M"));
//! assert!(outlast_lab::html::page(&document).contains("<svg"));
//! ```
#![forbid(unsafe_code)]

pub mod answer;
pub mod bench;
pub mod beside;
pub mod clock;
pub mod compare;
pub mod crash;
pub mod emulated;
pub mod engines;
pub mod explain;
pub mod format;
pub mod front;
pub mod goals;
pub mod html;
pub mod machine;
pub mod native;
pub mod papers;
pub mod parallel;
pub mod pivot;
pub mod plot;
pub mod points;
pub mod power;
mod processors;
pub mod progress;
pub mod record;
pub mod report;
pub mod simulated;
pub mod stats;
pub mod suite;
pub mod table;
