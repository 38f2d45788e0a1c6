//! An independent memory simulator beside ours, on the same requests: DRAMsim3 of the University
//! of Maryland, whose sources the crate `dramsim3` carries and builds.
//!
//! [`dramsim3`] writes DRAMsim3's configuration from one of our memories, so that geometry,
//! timings, address mapping and queues are the same numbers, and [`Streams`] makes lists of
//! requests over a wide range of localities, shares of reads and rates. [`compare`] plays a list
//! in both. Both players follow one rule: at most one request is sent in a clock, in the order of
//! the list, not before its cycle, and a request whose queue is full holds back those behind it.
//!
//! ```no_run
//! use outlast_peers::memory::{Streams, compare};
//! use outlast_sim::timed::MachineConfig;
//!
//! let memory = MachineConfig::named("server")?.memory;
//! for stream in Streams::coarse(20_000, 1) {
//!     println!("{}", compare(&memory, &stream)?);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod dramsim3;
mod streams;

pub use dramsim3::{PlayError, dramsim3};
pub use streams::{Arrivals, Locality, MemoryStream, Streams};

use outlast_sim::timed::{MemoryConfig, replay};
use std::fmt;

/// One simulator's result for a list of requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Played {
    /// Mean time from a read's being taken to its last data, in memory clocks; 0 without reads.
    pub read_latency: f64,
    /// Requests in a hundred memory clocks, until the last was taken and the last read was done.
    pub throughput: f64,
    /// Column commands that found their row open, in parts of all requests.
    pub row_hits: f64,
}

/// Ours and theirs.
#[derive(Clone, PartialEq, Debug)]
pub struct Compared {
    /// The list.
    pub name: String,
    /// The result of `outlast-sim`.
    pub ours: Played,
    /// The result of DRAMsim3.
    pub theirs: Played,
}

impl Compared {
    /// Our read latency over theirs; 1 when there were no reads.
    pub fn latency_ratio(&self) -> f64 {
        ratio(self.ours.read_latency, self.theirs.read_latency)
    }

    /// Our throughput over theirs.
    pub fn throughput_ratio(&self) -> f64 {
        ratio(self.ours.throughput, self.theirs.throughput)
    }

    /// The larger of the two differences, in parts.
    pub fn difference(&self) -> f64 {
        (self.latency_ratio() - 1.0).abs().max((self.throughput_ratio() - 1.0).abs())
    }

    /// The heads of the columns that `Display` prints.
    pub const HEAD: &'static str = "stream                                   latency: ours theirs ratio   \
                                    requests/100 clocks: ours theirs ratio   row hits: ours theirs";
}

fn ratio(ours: f64, theirs: f64) -> f64 {
    if theirs == 0.0 { 1.0 } else { ours / theirs }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ours, theirs) = (&self.ours, &self.theirs);
        write!(
            f,
            "{:<40} {:>14.1} {:>6.1} {:>5.3} {:>27.2} {:>6.2} {:>5.3} {:>16.3} {:>6.3}",
            self.name,
            ours.read_latency,
            theirs.read_latency,
            self.latency_ratio(),
            ours.throughput,
            theirs.throughput,
            self.throughput_ratio(),
            ours.row_hits,
            theirs.row_hits,
        )
    }
}

/// Plays a list in both simulators.
///
/// # Errors
/// When DRAMsim3 has no such memory, or its files cannot be written.
pub fn compare(memory: &MemoryConfig, stream: &MemoryStream) -> Result<Compared, PlayError> {
    let theirs = dramsim3(memory, &stream.requests)?;
    let replayed = replay(memory, &stream.requests);
    let requests = stream.requests.len() as f64;
    let ours = Played {
        read_latency: replayed.read_latency_clocks,
        throughput: 100.0 * requests / replayed.taken_clocks as f64,
        row_hits: replayed.stats.row_hits as f64 / requests,
    };
    Ok(Compared { name: stream.name.clone(), ours, theirs })
}
