//! Why transactions give up.

use std::fmt::{self, Display};
use std::ops::Deref;

use outlast_trace::PoolOffset;

/// Why a transaction's closure gives up. `?` passes it on; the runner decides what follows.
///
/// It takes two words, and so do results of a word with it: they come back in registers. Larger
/// ones would be put together in memory, and behind a fence that memory waits for the fence.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Abort {
    /// Another transaction was in the way. The runner undoes everything and runs the closure
    /// again: a closure must therefore have no effect outside its transaction that a second
    /// run does not repeat harmlessly.
    #[error("another transaction was in the way")]
    Conflict,
    /// The closure itself asked for it. Everything is undone; the runner reports it.
    #[error("the transaction was cancelled by its own code")]
    Cancelled,
    /// No block of this size is free.
    #[error("no space left in the pool for a block of {bytes} bytes")]
    OutOfSpace {
        /// The size asked for.
        bytes: u64,
    },
    /// The log cannot take a transaction as large as this one.
    #[error("the transaction's log needs {bytes} bytes and the pool has no room for it")]
    LogFull {
        /// What its log would need.
        bytes: u64,
    },
    /// An offset or a length that the pool cannot have: freed, never allocated, or outside.
    #[error(transparent)]
    BadAddress(Box<BadAddress>),
    /// Something durable that was read is not what was written there.
    #[error("the pool is damaged: {0}")]
    Damaged(Report),
    /// So many transactions ran since the pool was opened that there is no number left.
    #[error("the log's numbers are used up: close the pool and open it again")]
    NumbersUsedUp,
    /// The pool's root is of another type than the program's.
    #[error(transparent)]
    Schema(Box<crate::typed::SchemaMismatch>),
    /// A peer's library reported an error.
    #[error("{0}")]
    Peer(Report),
}

const _: () = assert!(size_of::<Result<u64, Abort>>() == 16);

impl Abort {
    /// What was attempted, where, and what is wrong with it.
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

/// An address that was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} at {at}: {why}")]
pub struct BadAddress {
    /// What was attempted.
    pub what: &'static str,
    /// Where.
    pub at: PoolOffset,
    /// What is wrong with it.
    pub why: &'static str,
}

/// What is wrong, in words. It takes one word itself.
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
