//! Errors. [`PoolError`] is that of a pool, [`Abort`] that of a transaction; this module also has
//! the parts of both.
//!
//! `PoolError` takes an `Abort` by `?`, so a program without errors of its own returns `PoolError` everywhere. An error of its own
//! needs one variant for both:
//!
//! ```
//! use outlast::typed::PVec;
//! use outlast::{Abort, Pool, PoolError};
//!
//! #[derive(Debug)]
//! enum ShopError {
//!     SoldOut,
//!     Pool(PoolError),
//! }
//!
//! impl<E: Into<PoolError>> From<E> for ShopError {
//!     fn from(error: E) -> Self {
//!         Self::Pool(error.into())
//!     }
//! }
//!
//! fn sell(pool: &Pool) -> Result<u64, ShopError> {
//!     pool.try_run_typed(|tx| {
//!         let goods = tx.root_or_new::<PVec<'_, u64>>()?.get(tx)?;
//!         goods.pop(tx)?.ok_or(ShopError::SoldOut)
//!     })
//! }
//!
//! # fn main() {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("shop.pool");
//! let sold = || sell(&Pool::open_or_create(&path)?);
//! assert!(matches!(sold(), Err(ShopError::SoldOut)));
//! # }
//! ```

use std::path::{Path, PathBuf};

pub use outlast_pmem::{GrowError, MapError, MediumFailure};
use outlast_trace::{ByteRange, PoolOffset};

use crate::abort::Abort;
pub use crate::abort::{BadAddress, GrowthError, Reason, Report, TooLarge};
pub use crate::ack::UnknownAck;
pub use crate::scheme::UnknownScheme;
pub use crate::session::SessionError;
pub use crate::versions::ReadError;

/// An error of a pool as a whole. Each is one line that names the thing and what would
/// be right; the file is as it was before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The first bytes are not a pool's.
    #[error(
        "{}not an Outlast pool: it does not begin with the bytes of one; name a pool, or create one in another file",
        path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default()
    )]
    NotAPool {
        /// The file, where the pool was to be in one.
        path: Option<PathBuf>,
    },
    /// Creation was cut short by a crash.
    #[error("not a whole pool: if its creation was cut short, delete the file and create it again")]
    Unfinished,
    /// A format that this code does not know.
    #[error(
        "pool format version {found}, and this Outlast reads version {expected}: open it with the Outlast that made it, or create it anew"
    )]
    Version {
        /// The header's value.
        found: u32,
        /// The value that this code reads.
        expected: u32,
    },
    /// A pool with something that this code does not know.
    #[error(
        "the pool's header has flags {found:#x}, of which this Outlast knows 0x1, checksums, and 0x3, those of literal variants: open it with the Outlast that made it"
    )]
    Flags {
        /// The header's value.
        found: u64,
    },
    /// A scheme that would not keep the pool's checksums.
    #[error(
        "the pool keeps checksums, and {given} does not: open it with undo-archapt or redo-archapt"
    )]
    KeepsChecksums {
        /// The scheme asked for.
        given: crate::Scheme,
    },
    /// Something of a scheme that is compiled with the feature `lab` only.
    #[error(
        "{what} of a scheme that needs the feature `lab` of the crate outlast: a baseline, or one as published"
    )]
    NeedsLab {
        /// The part of the pool, with its verb.
        what: &'static str,
    },
    /// A published variant on a pool that was not created for one.
    #[error(
        "{given} needs checksums of its own kind: create the pool under it, or with `outlast pool create --literal`"
    )]
    NotLiteral {
        /// The scheme asked for.
        given: crate::Scheme,
    },
    /// Another scheme on a pool that was created for a published variant.
    #[error(
        "the pool's checksums are those of a literal variant, and {given} keeps others: open it with undo-archapt:literal or redo-archapt:literal"
    )]
    Literal {
        /// The scheme asked for.
        given: crate::Scheme,
    },
    /// What a published variant believed to be written back was not, and its checksums cannot put it
    /// right.
    #[error("{}", uncorrectable(lines, blocks))]
    Uncorrectable {
        /// Lines that the checksums put right.
        corrected: Vec<PoolOffset>,
        /// Lines that may be stale.
        lines: Vec<PoolOffset>,
        /// The blocks that these belong to.
        blocks: Vec<ByteRange>,
    },
    /// Durable bytes are not what was written.
    #[error("damaged at {at}: {what}; restore the file from a copy")]
    Damaged {
        /// The line or word.
        at: PoolOffset,
        /// What about it.
        what: &'static str,
    },
    /// A line is not what its checksum says, and the log has changed what could correct it.
    #[error(
        "damaged at {at}, in the block of {bytes} bytes at {block}, and not correctable: restore the pool from a checkpoint"
    )]
    Fault {
        /// The line.
        at: PoolOffset,
        /// The block that it belongs to.
        block: PoolOffset,
        /// Bytes of that block.
        bytes: u64,
    },
    /// The file is shorter than the pool in it.
    #[error(
        "truncated: the pool is {expected} bytes long and the file {found}; restore the file from a copy"
    )]
    Truncated {
        /// Bytes that its header promises.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// Less space than the smallest pool of these parameters takes.
    #[error("{given} bytes are too few for a pool of these parameters: at least {least}")]
    TooSmall {
        /// Bytes given.
        given: u64,
        /// Bytes needed.
        least: u64,
    },
    /// More space than a pool's log can name.
    #[error("{given} bytes are too many for a pool: at most {most}", most = crate::layout::POOL_BYTES_MAX)]
    TooLarge {
        /// Bytes asked for.
        given: u64,
    },
    /// Parameters that no pool can have.
    #[error("{0}")]
    Parameters(&'static str),
    /// A pool opened for reading only has records that recovery would have to apply.
    #[error("{records} log records wait for recovery: open the pool for writing once")]
    NeedsRecovery {
        /// Live records found, and lines that the log of fences has newer.
        records: usize,
    },
    /// The pool can't be read beside the process that has it open for writing.
    #[error("no snapshot of the pool: {why}")]
    NoSnapshot {
        /// The reason.
        why: &'static str,
    },
    /// Transactions were to run on a pool that was opened for reading only.
    #[error("opened for reading only: open the pool for writing to run transactions")]
    ReadOnly,
    /// This process is a forked child of the one that opened the pool, which it must not use. Nothing
    /// was stored, and the parent's pool is as it was.
    #[error(
        "the pool was opened by the process that forked this one, and is that one's: close it there, then open it here"
    )]
    Forked,
    /// A write to the pool's file has failed, now or earlier: [`MediumFailure`] says what to do.
    #[error(transparent)]
    Medium(#[from] MediumFailure),
    /// All lanes are in use by other threads.
    #[error(
        "all {lanes} lanes are in use: give them back between transactions, wait longer (lane_timeout), or create the pool with more"
    )]
    NoLane {
        /// Lanes of the pool.
        lanes: u32,
    },
    /// A transaction's error, so that a function may open a pool and run transactions with one type of error.
    #[error(transparent)]
    Abort(#[from] Abort),
    /// The file could not be created, opened, locked or mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The medium could not be made larger.
    #[error("the pool cannot grow: {0}")]
    Grow(#[from] GrowError),
}

impl PoolError {
    /// With the name of the file that was to be opened, where the error has room for it and lacks it.
    pub(crate) fn of_file(self, file: &Path) -> Self {
        match self {
            Self::NotAPool { path: None } => Self::NotAPool { path: Some(file.to_owned()) },
            error => error,
        }
    }

    /// The file is a pool and not whole: what a check finds, and not a mistake of its caller.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Unfinished
                | Self::Damaged { .. }
                | Self::Fault { .. }
                | Self::Uncorrectable { .. }
                | Self::Truncated { .. }
                | Self::Abort(Abort::Damaged(_))
        )
    }
}

/// Names the first few objects.
fn uncorrectable(lines: &[PoolOffset], blocks: &[ByteRange]) -> String {
    const NAMED_MAX: usize = 8;
    let named = blocks.iter().take(NAMED_MAX);
    let named: Vec<_> =
        named.map(|block| format!("the block of {} bytes at {}", block.len, block.at)).collect();
    let more = match blocks.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "stale and not correctable: {} line{}, in {}{more}; restore the pool from a checkpoint",
        lines.len(),
        if lines.len() == 1 { "" } else { "s" },
        named.join(", "),
    )
}
