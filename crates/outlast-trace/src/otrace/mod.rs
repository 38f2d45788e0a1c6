//! Our own traces: operations with their sizes, values, lanes and marks, compressed.
//!
//! `docs/trace-format.md` has the layout. A file ends with how many operations it holds, so one
//! that was cut off is recognised; the compression's checksum finds damage.

mod read;
mod write;

pub use read::read_trace;
pub use write::{TraceWriter, write_trace};

use crate::LaneId;
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The first bytes of every trace.
pub(crate) const MAGIC: [u8; 8] = *b"OTRACE\r\n";
/// The version that is written. Those before it are read as well: they lack records, no more.
const VERSION: u16 = 2;
/// Bytes in front of the compressed records.
const HEADER_BYTES: usize = 16;
/// The longest store: more is damage.
const STORE_BYTES_MAX: u64 = 1 << 24;

/// Records. Numbers are part of the format.
mod code {
    pub const END: u8 = 0;
    pub const LANE: u8 = 1;
    pub const COMPUTE: u8 = 2;
    pub const LOAD: u8 = 3;
    pub const LOAD_DEPENDENT: u8 = 4;
    pub const STORE: u8 = 5;
    pub const STORE_NT: u8 = 6;
    pub const STORE_64: u8 = 7;
    pub const RMW: u8 = 8;
    pub const CLWB: u8 = 9;
    pub const CLFLUSHOPT: u8 = 10;
    pub const CLFLUSH: u8 = 11;
    pub const SFENCE: u8 = 12;
    pub const MFENCE: u8 = 13;
    pub const TX_BEGIN: u8 = 14;
    pub const TX_END: u8 = 15;
    pub const ACK: u8 = 16;
    pub const LOCK: u8 = 17;
    pub const UNLOCK: u8 = 18;
    pub const SIGNAL: u8 = 19;
    pub const WAIT: u8 = 20;
    pub const EPOCH: u8 = 21;
    pub const GROW: u8 = 22;
    /// From version 2 on.
    pub const TX_ABORT: u8 = 23;
}

/// A trace that cannot be written or read.
#[derive(Debug)]
pub struct TraceError {
    path: PathBuf,
    kind: ErrorKind,
}

#[derive(Debug)]
enum ErrorKind {
    Io(io::Error),
    NoTrace,
    Version(u16),
    CutOff(u64),
    Damaged(u64),
}

impl std::fmt::Display for TraceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        match &self.kind {
            ErrorKind::Io(error) => write!(f, "{path}: {error}"),
            ErrorKind::NoTrace => write!(f, "{path}: no trace of Outlast: it begins otherwise"),
            ErrorKind::Version(crate::PROGRAM_VERSION) => write!(
                f,
                "{path}: a trace of a program, where one of operations is needed: take a trace of \
                 --save-trace"
            ),
            ErrorKind::Version(version) => write!(
                f,
                "{path}: a trace of version {version}, where this program reads versions 1 to \
                 {VERSION}: take a newer one"
            ),
            ErrorKind::CutOff(ops) => {
                write!(f, "{path}: cut off after {ops} operations: copy or record it again")
            }
            ErrorKind::Damaged(ops) => {
                write!(f, "{path}: damaged after {ops} operations: copy or record it again")
            }
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// Whether a file begins as our traces do. Not being readable is no error here.
pub fn is_trace(path: &Path) -> bool {
    let mut magic = [0; 8];
    File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && magic == MAGIC
}

/// State that records leave out because it follows from those before.
#[derive(Default)]
struct State {
    lane: LaneId,
    /// The last address of any lane, from which the next counts.
    at: u64,
}

#[cfg(test)]
mod tests;
