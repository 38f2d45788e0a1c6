//! Why transactions give up.

use std::error::Error;
use std::fmt::{self, Display};
use std::ops::Deref;
use std::sync::Arc;

use outlast_pmem::MediumFailure;
use outlast_trace::PoolOffset;

use crate::error::PoolError;

/// Why a transaction's closure gives up. `?` passes it on; the runner decides what follows.
///
/// It takes two words, and so do results of a word with it: they come back in registers. Larger
/// ones would be put together in memory, and behind a fence that memory waits for the fence.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Abort {
    /// Another transaction was in the way. The runner undoes everything and runs the closure
    /// again: a closure must therefore have no effect outside its transaction that a second
    /// run does not repeat harmlessly.
    #[error("another transaction was in the way: run this one again")]
    Conflict,
    /// The closure itself asked for it, and says why. Everything is undone; the runner reports it.
    /// [`Abort::cancelled`] makes one with a reason, `Reason::default()` one without.
    #[error("the transaction was cancelled by its own code{0}")]
    Cancelled(Reason),
    /// No block of this size is free.
    #[error("no space left in the pool for a block of {bytes} bytes: free some, or grow the pool")]
    OutOfSpace {
        /// The size asked for.
        bytes: u64,
    },
    /// Larger than any of its kind can be, however much space is left.
    #[error(transparent)]
    TooLarge(Box<TooLarge>),
    /// The log cannot take a transaction as large as this one.
    #[error(
        "the transaction's log needs {bytes} bytes and the pool has no room for it: make several transactions of it, or the pool larger"
    )]
    LogFull {
        /// Bytes that its log would need.
        bytes: u64,
    },
    /// An offset or a length that the pool cannot have: freed, never allocated, or outside.
    #[error(transparent)]
    BadAddress(Box<BadAddress>),
    /// Something durable that was read is not what was written there.
    #[error("the pool is damaged: {0}; check it, and restore it from a copy")]
    Damaged(Report),
    /// The transactions since the pool was opened have used up all numbers.
    #[error("the log's numbers are used up: close the pool and open it again")]
    NumbersUsedUp,
    /// All lanes were in use by other threads, for as long as the transaction was to wait for one.
    #[error(
        "all {lanes} lanes are in use: give them back between transactions, wait longer (lane_wait), or create the pool with more"
    )]
    NoLane {
        /// Lanes of the pool.
        lanes: u32,
    },
    /// This process is a forked child of the one that opened the pool, which it must not use.
    /// Nothing was stored, and the parent's pool is as it was.
    #[error(
        "the pool was opened by the process that forked this one, and is that one's: close it there, then open it here"
    )]
    Forked,
    /// The pool was to grow by itself and could not, for another reason than a full file system. It is
    /// as large as before and takes further transactions.
    #[error("{0}")]
    Growth(GrowthError),
    /// A write to the pool's file has failed, now or earlier: [`MediumFailure`] says what to do. Every
    /// transaction fails with this error until the pool is opened again. Whether the one under way
    /// when it failed is there then is open, but it is there whole or not at all; every transaction
    /// acknowledged before is.
    #[error(transparent)]
    Medium(#[from] MediumFailure),
    /// The pool's root is of another type than the program's.
    #[error(transparent)]
    Schema(Box<crate::typed::SchemaMismatch>),
    /// A change was to be made through a pool that is open for reading only.
    #[error("opened for reading only: open the pool for writing to change it")]
    ReadOnly,
    /// A peer's library reported an error.
    #[error("{0}")]
    Peer(Report),
}

const _: () = assert!(size_of::<Result<u64, Abort>>() == 16);

impl Abort {
    /// The closure gives up, for a reason: a text, or an error of the program's own, which
    /// [`Reason::downcast_ref`] gives back.
    ///
    /// ```
    /// use outlast::Abort;
    ///
    /// fn withdraw(balance: u64, amount: u64) -> Result<u64, Abort> {
    ///     balance.checked_sub(amount).ok_or_else(|| Abort::cancelled("the account is short"))
    /// }
    ///
    /// let Err(Abort::Cancelled(reason)) = withdraw(20, 70) else { panic!("20 are too few") };
    /// assert_eq!(reason.text(), "the account is short");
    /// ```
    #[cold]
    pub fn cancelled(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Cancelled(Reason(Some(Box::new(Arc::from(reason.into())))))
    }

    /// A length above the most that its kind can have.
    #[cold]
    pub(crate) fn too_large(what: &'static str, asked: u64, largest: u64) -> Self {
        Self::TooLarge(Box::new(TooLarge { what, asked, largest, chunk_bytes: None }))
    }

    /// The operation, its place, and its fault.
    #[cold]
    pub fn bad_address(what: &'static str, at: PoolOffset, why: &'static str) -> Self {
        Self::BadAddress(Box::new(BadAddress { what, at, why }))
    }

    /// Something durable is wrong.
    #[cold]
    pub fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged(Report::new(what))
    }

    /// A peer's library says so.
    #[cold]
    pub fn peer(what: impl Into<String>) -> Self {
        Self::Peer(Report::new(what))
    }
}

/// Why a pool did not grow. Clones share the cause.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct GrowthError(#[source] Arc<PoolError>);

impl GrowthError {
    pub(crate) fn new(cause: PoolError) -> Self {
        Self(Arc::new(cause))
    }

    /// The cause.
    pub fn cause(&self) -> &PoolError {
        &self.0
    }
}

/// An address that was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} at {at}: {why}")]
#[non_exhaustive]
pub struct BadAddress {
    /// The operation.
    pub what: &'static str,
    /// Where.
    pub at: PoolOffset,
    /// What is wrong with it.
    pub why: &'static str,
}

/// A size that was refused, with the largest that would not be.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TooLarge {
    /// The thing of that size.
    pub what: &'static str,
    /// Bytes asked for.
    pub asked: u64,
    /// Bytes of the largest.
    pub largest: u64,
    /// Blocks: the smallest chunks with which a pool has blocks of that size, if any pool has.
    pub chunk_bytes: Option<u64>,
}

impl Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, asked, largest, chunk_bytes } = self;
        write!(f, "{what} of {asked} bytes is too large: the largest has {largest}")?;
        match chunk_bytes {
            Some(bytes) => write!(
                f,
                "; a pool created with chunks of {bytes} bytes has larger ones \
                 (Pool::options().chunk_bytes, outlast pool create --chunk)"
            ),
            None => Ok(()),
        }
    }
}

impl Error for TooLarge {}

/// Why a closure cancelled its transaction. It takes one word, and none of the heap without a
/// reason; clones share the error.
#[derive(Clone, Debug, Default)]
pub struct Reason(Option<Box<Arc<dyn Error + Send + Sync>>>);

impl Reason {
    /// The error that the closure gave, if it is of this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.as_ref()?.downcast_ref()
    }

    /// The closure's reason, in words; empty if it gave none.
    pub fn text(&self) -> String {
        self.0.as_ref().map_or_else(String::new, ToString::to_string)
    }
}

/// As the end of a sentence: `": "` and the text, or nothing.
impl Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

/// A fault in words. It takes one word itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report(Box<Text>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Text(String);

impl Report {
    fn new(text: impl Into<String>) -> Self {
        Self(Box::new(Text(text.into())))
    }
}

impl Deref for Report {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.0
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_the_error_that_was_given() {
        #[derive(Debug, PartialEq, thiserror::Error)]
        #[error("{missing} are missing")]
        struct Short {
            missing: u64,
        }

        let abort = Abort::cancelled(Short { missing: 50 });
        assert_eq!(
            abort.to_string(),
            "the transaction was cancelled by its own code: 50 are missing"
        );
        let Abort::Cancelled(reason) = abort.clone() else { panic!("{abort:?}") };
        assert_eq!(reason.downcast_ref(), Some(&Short { missing: 50 }));
        assert!(reason.downcast_ref::<fmt::Error>().is_none());
        let none = Abort::Cancelled(Reason::default());
        assert_eq!(none.to_string(), "the transaction was cancelled by its own code");
    }

    #[test]
    fn a_refused_size_comes_with_the_largest_and_the_way_to_it() {
        let key = Abort::too_large("a key", 70_000, 65_535);
        assert_eq!(key.to_string(), "a key of 70000 bytes is too large: the largest has 65535");
        let block = TooLarge { what: "a block", asked: 9, largest: 8, chunk_bytes: Some(4096) };
        assert!(block.to_string().contains("chunks of 4096 bytes"), "{block}");
    }
}
