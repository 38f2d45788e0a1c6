//! Decides whether a recovered state is one that a scheme's guarantee allows after a crash.
//!
//! A *history* says what happened before: transactions with what each read and left, when each began
//! and was acknowledged, on which lane; or memory at the end of each epoch. A *found state* is what
//! recovery has left. The oracle lives in volatile memory and shares no code with what it judges.
//!
//! Each [`Guarantee`] has its predicate in a file of its own: `durable`, `buffered`, `replay` and
//! `none` of the set of whole transactions that explains the found state ([`Kept`]). `epoch`, of its
//! bytes, is in `outlast-crash`: epochs are the timed machine's. What differs between checks is only how that set is found, which is an index beneath the
//! predicates:
//!
//! - [`Oracle`]: no two transactions leave the same version of a key, so what a key holds says which
//!   of its writes survived. Exhaustive scopes, and a user's own program.
//! - [`keys`]: a state of a key may come back, so sets are searched: all that were acknowledged, with
//!   some of those in flight. Campaigns on the runtime.
//! - [`prefixes`]: transactions on one set of data follow each other, so a set is a number of them, found
//!   by the sum of all words. Campaigns on the timed machine.
//!
//! [`marked`] makes the first of them from what a program that writes files says of its transactions.

mod buffered;
mod durable;
pub mod keys;
pub mod marked;
mod none;
pub mod prefixes;
mod replay;
mod serial;
mod versions;
mod violation;

pub use serial::{Anomaly, Call, Cell, Edge, SerialHistory, Value};
pub use versions::{Fault, Key, OddHistory, Oracle, Transaction, Version};
pub use violation::{Broken, Violation};

use outlast_trace::Guarantee;

/// A set of whole transactions that leaves what a recovery has left. Each question is answered by the
/// first transaction with which something is wrong.
pub trait Kept {
    /// How something wrong is told.
    type Fault;

    /// One that was acknowledged and is not in the set.
    fn acknowledged_missing(&self) -> Option<Self::Fault>;

    /// One that an earlier recovery had kept and that is not in the set.
    fn recovered_missing(&self) -> Option<Self::Fault> {
        None
    }

    /// One in the set that saw what another one left which is not.
    fn not_closed(&self) -> Option<Self::Fault>;

    /// Some in the set that no order puts one after the other.
    fn without_order(&self) -> Option<Self::Fault> {
        None
    }

    /// One in the set that was executed behind one which is not.
    fn behind_gap(&self) -> Option<Self::Fault> {
        None
    }
}

/// Whether a guarantee allows this set.
///
/// # Errors
/// What is wrong with it.
///
/// # Panics
/// With [`Guarantee::Epoch`], which promises bytes and no transactions.
pub fn check<K: Kept>(guarantee: Guarantee, kept: &K) -> Result<(), K::Fault> {
    match guarantee {
        Guarantee::Durable => durable::check(kept),
        Guarantee::Buffered => buffered::check(kept),
        Guarantee::Replay => replay::check(kept),
        Guarantee::None => none::check(kept),
        Guarantee::Epoch => panic!("an epoch's image is judged by its bytes"),
    }
}

fn demand<F>(wrong: Option<F>) -> Result<(), F> {
    wrong.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests;
