//! Transactions without a closure, for callers that cannot give one: other languages, and
//! programs whose transactions begin in one place and end in another.

use std::fmt;
use std::ops::{Deref, DerefMut};

use outlast_pmem::{Call, Mapped, Mark, Medium};

use crate::abort::Reason;
use crate::ack::{AsyncTicket, Ticket};
use crate::bias::NO_LANE;
use crate::pool::lanes::{Attempt, LIVES, Turn};
use crate::pool::{Lane, Pool};
use crate::transact::Abort;
use crate::tx::Tx;

impl<'p, M: Medium> Lane<'p, M> {
    /// Begins a transaction that [`Running::commit`] or [`Running::abort`] ends, which give the
    /// lane back. Nothing is run again by itself: after [`Abort::Conflict`] the caller ends the
    /// transaction and begins again, here with a pause that grows; after many conflicts in a row
    /// the transaction runs alone. In a forked child each operation and the commit of what this
    /// returns is [`Abort::Forked`], after a write to the file has failed [`Abort::Medium`].
    ///
    /// # Panics
    /// When this thread has a transaction open on another lane that runs alone. Waiting for
    /// it would never end.
    pub fn begin(mut self) -> Running<'p, M> {
        let tx = self.tx.as_mut().expect(LIVES);
        let conflicts = tx.lane.conflicts;
        if !tx.pool.medium.is_usable() {
            tx.refuse_all(tx.pool.refusal());
            return Running { lane: Some(self), turn: None };
        }
        tx.pool.medium.mark(Mark::TxBegin);
        tx.pool.medium.mark(Mark::Call(Call::Begin));
        tx.give_way(conflicts);
        let mut turn = Turn::new(tx);
        if turn.wait(conflicts) {
            tx.begins_turn_alone(conflicts);
        }
        // BIAS-4.
        tx.pool.bias.rely_on_none(tx.lane.id, true);
        tx.begin();
        tx.lane.buffers.bias_of = NO_LANE;
        Running { lane: Some(self), turn: Some(turn) }
    }
}

/// A running transaction that holds its lane. It is a [`Tx`] to work with.
///
/// Dropping it undoes everything and gives the lane back to the pool. It stays with its thread,
/// as its lane does.
///
/// ```
/// use outlast::{Abort, BlockKind, Pool, Transact};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("running.pool");
/// let pool = Pool::create(&path)?;
/// let mut lane = pool.lane()?;
/// let block = loop {
///     let mut running = lane.begin();
///     let block = running.alloc(64, BlockKind::General)?;
///     running.store_u64(block, 7)?;
///     let (given_back, outcome) = running.commit();
///     lane = given_back;
///     match outcome {
///         Ok(_ticket) => break block,
///         Err(Abort::Conflict) => continue,
///         Err(other) => return Err(other.into()),
///     }
/// };
/// let mut running = lane.begin();
/// running.store_u64(block, 8)?;
/// let mut running = running.abort().begin();
/// assert_eq!(running.load_u64(block)?, 7);
/// # Ok(())
/// # }
/// ```
pub struct Running<'p, M: Medium = Mapped> {
    /// `None` only when the transaction has ended.
    lane: Option<Lane<'p, M>>,
    turn: Option<Turn<'p, M>>,
}

const RUNS: &str = "it has its lane until it ends";

impl<'p, M: Medium> Running<'p, M> {
    /// Makes it durable, and waits as long as the pool's acknowledgement asks for. After an error
    /// everything is undone; the first operation that failed decides which error that is.
    pub fn commit(mut self) -> (Lane<'p, M>, Result<Ticket, Abort>) {
        let mut lane = self.lane.take().expect(RUNS);
        let outcome = end(&mut lane, |attempt| attempt.commit());
        self.turn = None;
        let outcome = outcome.and_then(|ticket| lane.acknowledge(ticket).map(|()| ticket));
        lane.pool().medium.mark(Mark::TxEnd);
        (lane, outcome)
    }

    /// Ends it, and returns before it is durable: see [`Lane::run_async`]. After an error everything
    /// is undone.
    pub fn commit_async(mut self) -> (Lane<'p, M>, Result<AsyncTicket, Abort>) {
        let mut lane = self.lane.take().expect(RUNS);
        let outcome = end(&mut lane, |attempt| attempt.commit_later());
        self.turn = None;
        lane.pool().medium.mark(Mark::TxEnd);
        (lane, outcome)
    }

    /// Undoes everything.
    pub fn abort(mut self) -> Lane<'p, M> {
        let mut lane = self.lane.take().expect(RUNS);
        undo(&mut lane);
        lane
    }
}

fn undo<M: Medium>(lane: &mut Lane<'_, M>) {
    let _cancelled = end(lane, |_| Err::<Ticket, _>(Abort::Cancelled(Reason::default())));
    lane.pool().medium.mark(Mark::TxEnd);
}

/// Ends the lane's transaction as `how` does, and counts its conflicts.
fn end<'p, M: Medium, T>(
    lane: &mut Lane<'p, M>,
    how: impl FnOnce(Attempt<'_, 'p, M>) -> Result<T, Abort>,
) -> Result<T, Abort> {
    let tx = lane.tx.as_mut().expect(LIVES);
    let _relies_again = ReliesAgain { pool: tx.pool, id: tx.lane.id };
    let outcome = how(Attempt::begun(tx));
    let is_conflict = matches!(outcome, Err(Abort::Conflict)) || tx.met_conflict();
    tx.lane.conflicts = if is_conflict { tx.lane.conflicts.saturating_add(1) } else { 0 };
    match &outcome {
        Ok(_) => {}
        Err(_) if is_conflict => tx.counts.count_abort(&Abort::Conflict),
        Err(abort) => tx.counts.count_abort(abort),
    }
    outcome
}

/// When dropped, the lane has ended a transaction that relied on no bias.
struct ReliesAgain<'p, M: Medium> {
    pool: &'p Pool<M>,
    id: usize,
}

impl<M: Medium> Drop for ReliesAgain<'_, M> {
    fn drop(&mut self) {
        self.pool.bias.rely_on_none(self.id, false);
    }
}

impl<M: Medium> Drop for Running<'_, M> {
    fn drop(&mut self) {
        if let Some(mut lane) = self.lane.take() {
            undo(&mut lane);
        }
    }
}

impl<M: Medium> fmt::Debug for Running<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("lane", &self.lane).finish_non_exhaustive()
    }
}

impl<'p, M: Medium> Deref for Running<'p, M> {
    type Target = Tx<'p, M>;

    fn deref(&self) -> &Self::Target {
        self.lane.as_ref().and_then(|lane| lane.tx.as_ref()).expect(RUNS)
    }
}

impl<M: Medium> DerefMut for Running<'_, M> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.lane.as_mut().and_then(|lane| lane.tx.as_mut()).expect(RUNS)
    }
}
