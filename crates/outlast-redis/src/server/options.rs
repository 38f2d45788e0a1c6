//! Options of a server, and the errors for which it does not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use outlast::{Abort, PoolError};

/// How to serve a pool.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses to listen on.
    pub addresses: Vec<SocketAddr>,
    /// A socket of the file system to listen on.
    pub unix: Option<PathBuf>,
    /// The password that clients have to give before anything else.
    pub password: Option<String>,
    /// Where metrics are to be fetched from, in Prometheus' format.
    pub metrics: Option<SocketAddr>,
    /// Most clients at a time.
    pub clients_max: usize,
    /// The longest word of a request, and so the longest string.
    pub bulk_bytes_max: usize,
    /// Bytes that a client may have sent without its command being whole.
    pub query_bytes_max: usize,
    /// How long a script may run, in ms.
    pub script_ms_max: u64,
    /// The file of `SAVE` and `BGSAVE`.
    pub checkpoint: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            unix: None,
            password: None,
            metrics: None,
            clients_max: 10_000,
            bulk_bytes_max: 512 << 20,
            query_bytes_max: 1 << 30,
            script_ms_max: 5000,
            checkpoint: PathBuf::from("dump.checkpoint"),
        }
    }
}

/// Why a server cannot begin, or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address that others can reach, and no password.
    #[error(
        "{0} can be reached by others: set a password, or listen on a loopback address such as 127.0.0.1"
    )]
    Unprotected(SocketAddr),
    /// Nothing to listen on.
    #[error("nothing to listen on: name a port or a socket of the file system")]
    Nowhere,
    /// A place that cannot be listened on.
    #[error("cannot listen on {place}: {error}")]
    Listen {
        /// The address or path.
        place: String,
        /// The system's reason.
        error: io::Error,
    },
    /// The pool gives no lane.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The data cannot be used.
    #[error(transparent)]
    Abort(#[from] Abort),
    /// The system's event queue.
    #[error("the event loop: {0}")]
    Poll(#[from] io::Error),
}
