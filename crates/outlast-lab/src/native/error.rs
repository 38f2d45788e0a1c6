//! Why a measurement could not be made.

use std::io;
use std::path::PathBuf;

use outlast::{Abort, PoolError};
use outlast_peers::PmdkError;
use outlast_pmem::MapError;
use outlast_workloads::BadScale;

use crate::bench::BenchError;

/// A measurement could not be made. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// The directory for the pools cannot be used.
    #[error("{}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A workload cannot have this many records.
    #[error(transparent)]
    Scale(#[from] BadScale),
    /// A file cannot be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A pool cannot be made, or has no lane left.
    #[error("{scheme}: {source}")]
    Pool {
        /// Whose.
        scheme: &'static str,
        /// Why.
        source: PoolError,
    },
    /// A peer's pool cannot be made.
    #[error(transparent)]
    Peer(#[from] PmdkError),
    /// A workload's data could not be loaded, or its transactions not counted.
    #[error("{scheme}: {workload}: {abort}")]
    Transaction {
        /// Whose.
        scheme: &'static str,
        /// Of what.
        workload: &'static str,
        /// Why.
        abort: Abort,
    },
    /// The competition failed.
    #[error("{workload}: {source}")]
    Bench {
        /// Of what.
        workload: &'static str,
        /// Why.
        source: BenchError,
    },
    /// A number that makes no sense.
    #[error("{0}")]
    Setup(&'static str),
}
