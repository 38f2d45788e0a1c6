//! Acknowledgement: what has become of a commit when its client is answered.
//!
//! A commit is *logical* when its record is fenced: recovery will repeat it, whatever the cache
//! does. It is *physical* when the pool's floor has passed it: every line that it stored is
//! durable in place and its record is dead. A [`Ticket`] names a commit, so that a thread that waits
//! for the second can go on working meanwhile.
//!
//! An asynchronous commit is neither when it returns. An [`AsyncTicket`] names the batch with which
//! it becomes logical.

use std::fmt;
use std::str::FromStr;

use crate::seq::Seq;

/// When [`run`](crate::Runner::run) returns. Either way nothing that it acknowledged is lost, but under
/// the literal variants, which do as their paper says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Ack {
    /// When the commit is logical: its record is durable.
    #[default]
    Logical,
    /// When it is physical: its data is durable in place as well. The lane that waits sweeps the
    /// log itself, so that a client alone with its pool is answered too.
    Physical,
}

impl Ack {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Logical, Self::Physical];

    /// The name that commands and results use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Logical => "logical",
            Self::Physical => "physical",
        }
    }
}

impl fmt::Display for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no acknowledgement has.
#[derive(Debug, thiserror::Error)]
#[error("no acknowledgement is called '{0}'; there are logical, physical")]
pub struct UnknownAck(String);

impl FromStr for Ack {
    type Err = UnknownAck;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|ack| ack.name() == name);
        found.ok_or_else(|| UnknownAck(name.to_owned()))
    }
}

/// A commit's ticket: a commit of the same lane behind it, and one that has seen what it stored or
/// stores over it, have greater ones. It stays good when the pool is
/// opened again, where everything of earlier openings is physical. That of a transaction which
/// changed nothing is less than all others, and physical from the start.
///
/// ```
/// use outlast::{BlockKind, Pool, Scheme, Transact};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("tickets.pool");
/// let pool = Pool::options().scheme(Scheme::RedoArchapt).create(&path)?;
/// let mut lane = pool.lane()?;
///
/// let (block, first) = lane.run_ticketed(|tx| tx.alloc(64, BlockKind::General))?;
/// let ((), second) = lane.run_ticketed(|tx| tx.store_u64(block, 7))?;
/// assert!(first < second);
/// // Both are durable already; now they are in place as well.
/// lane.await_physical(second)?;
/// assert!(pool.is_physical(first) && pool.is_physical(second));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Ticket(Seq);

impl Ticket {
    /// Of a transaction that changed nothing.
    pub(crate) const NOTHING: Self = Self(Seq::from_bits(0));

    pub(crate) fn of(seq: Seq) -> Self {
        Self(seq)
    }

    pub(crate) fn seq(self) -> Seq {
        self.0
    }

    /// The ticket as a number, for other languages: in the same order, 0 for a transaction that
    /// changed nothing.
    pub fn to_bits(self) -> u64 {
        self.0.bits()
    }

    /// The ticket that is this number. A number that no pool has given is no harm:
    /// [`Pool::has_issued`](crate::Pool::has_issued) tells.
    pub fn from_bits(bits: u64) -> Self {
        Self(Seq::from_bits(bits))
    }
}

/// An asynchronous commit's ticket: what tells, and awaits, that the commit is durable. It is good
/// for the pool that gave it, until that is closed.
///
/// ```
/// use outlast::{BlockKind, Pool, Runner, Transact};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("batches.pool");
/// let pool = Pool::create(&path)?;
/// let mut lane = pool.lane()?;
/// let block = lane.run(|tx| tx.alloc(64, BlockKind::General))?;
///
/// let mut last = None;
/// for value in 0..64 {
///     let ((), ticket) = lane.run_async(|tx| tx.store_u64(block, value))?;
///     last = Some(ticket);
/// }
/// // A crash here may lose some of them, the last ones first.
/// let ticket = last.ok_or("nothing was stored")?;
/// pool.await_durable(ticket)?;
/// assert!(pool.is_durable(ticket));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct AsyncTicket {
    pub(crate) lane: u32,
    /// Counted from 1 in each lane.
    pub(crate) batch: u64,
}

impl AsyncTicket {
    /// Of a transaction that changed nothing, and of one that was durable when it returned.
    pub(crate) const DURABLE: Self = Self { lane: 0, batch: 0 };

    const LANE_SHIFT: u32 = 48;

    /// The ticket as a number, for other languages; 0 for a transaction that was durable when it
    /// returned.
    pub fn to_bits(self) -> u64 {
        u64::from(self.lane) << Self::LANE_SHIFT | self.batch
    }

    /// The ticket that is this number. A number that no pool has given is no harm:
    /// [`Pool::has_issued_async`](crate::Pool::has_issued_async) tells.
    pub fn from_bits(bits: u64) -> Self {
        let batch = bits & ((1 << Self::LANE_SHIFT) - 1);
        Self { lane: (bits >> Self::LANE_SHIFT) as u32, batch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for ack in Ack::ALL {
            assert_eq!(ack.to_string().parse::<Ack>().unwrap(), ack);
        }
        let error = "durable".parse::<Ack>().unwrap_err().to_string();
        assert!(error.contains("'durable'") && error.contains("physical"), "{error}");
    }
}
