//! Fair measurements: subjects side by side, in one process, interleaved.
//!
//! Every subject has one workload loaded and stays open for the whole competition. Once, it
//! is calibrated how many transactions take about the wished-for time on average over all; then
//! in every round every subject runs exactly that many, in an order shuffled by the seed, so
//! that what drifts (clock rates, neighbours on the machine, temperature) hits all alike. Values
//! are medians over rounds with their quartiles; comparisons are made round by round and only
//! then put together ([`cost`]). Latencies come from a pass of their own, since reading the
//! clock twice per transaction would weigh on throughput. They are of a closed loop, where a call
//! follows the answer to the one before, and of an [open] one if the plan has arrivals.
//!
//! What runs is any [`outlast::Runner`]: the harness knows of no pool, scheme or workload.

pub mod cost;
pub mod open;
mod outcome;
mod rounds;
mod subject;

pub use outcome::{OpenLoop, Outcome, PerTransaction, Round, Timing};
pub(crate) use rounds::race;
pub use rounds::{BenchError, Plan, Progress, compete};
pub use subject::{Counters, Lane, Subject, lane};

#[cfg(test)]
pub(crate) mod tests;
