//! A session with a pool that owns what it needs, for hosts that can hold neither a closure nor a borrow:
//! a C program, SQLite, a server, Python.
//!
//! A [`Session`] shares the pool and has a lane of it, with the transaction in progress. Where a
//! transaction of a [`Lane`] begins and ends in types, that of a session begins and ends in calls,
//! and what the types would refuse is an error.

use std::sync::Arc;

use outlast_pmem::{Mapped, Medium};

use crate::pool::{Lane, Pool, Running};
use crate::{Abort, AsyncTicket, PoolError, Ticket, Tx};

/// The state of a session's lane.
enum State<'p> {
    /// It waits for a transaction.
    Idle(Lane<'p, Mapped>),
    /// It runs one.
    Runs(Running<'p, Mapped>),
    /// A panic took it away between these two.
    Poisoned,
}

self_cell::self_cell!(
    /// A share of a pool, and a lane of it that is given back before the share.
    struct Owned {
        owner: Arc<Pool>,

        #[not_covariant]
        dependent: State,
    }
);

/// A call that a session does not allow as it is.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// This thread has a transaction of the pool open, here or on another lane: it would wait for
    /// itself.
    #[error("this thread has a transaction of the pool open: end it first")]
    InTransaction,
    /// There is no transaction to work in or to end.
    #[error("the session has no transaction: begin one first")]
    NoTransaction,
    /// A call of the session has panicked. Its transaction is undone, its lane given back.
    #[error("a call of the session has panicked: drop it and begin another one")]
    Poisoned,
    /// The transaction's end.
    #[error(transparent)]
    Abort(#[from] Abort),
}

/// An owned session with a pool. It keeps a lane and stays with its thread; dropping it undoes what is open. A task
/// that comes and goes holds an `Arc` of the pool in place of a session, and runs each transaction by [`Pool::run`].
///
/// In a forked child every call but the drop is [`Abort::Forked`].
///
/// ```
/// use std::sync::Arc;
///
/// use outlast::{BlockKind, Pool, Session, Transact};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("session.pool");
/// let pool = Pool::create(&path)?;
/// let mut session = Session::new(Arc::new(pool))?;
/// session.begin()?;
/// let block = session.in_transaction(|tx| {
///     let block = tx.alloc(64, BlockKind::General)?;
///     tx.store_u64(block, 7)?;
///     Ok(block)
/// })?;
/// session.commit()?;
///
/// session.begin()?;
/// assert_eq!(session.in_transaction(|tx| tx.load_u64(block))?, 7);
/// session.abort()?;
/// # Ok(())
/// # }
/// ```
pub struct Session {
    owned: Owned,
}

impl Session {
    /// Takes a lane of the pool that is free now: sessions keep theirs, so that waiting for one would
    /// mostly be in vain.
    ///
    /// # Errors
    /// [`PoolError::NoLane`] when all are taken, [`PoolError::Forked`] in a forked child.
    pub fn new(pool: Arc<Pool>) -> Result<Self, PoolError> {
        let owned = Owned::try_new(pool, |pool| pool.try_lane().map(State::Idle))?;
        Ok(Self { owned })
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        self.owned.borrow_owner()
    }

    /// Whether this process has a copy of the session, which is its parent's.
    #[inline]
    pub fn is_forked(&self) -> bool {
        self.pool().medium().is_forked()
    }

    /// Whether it has a transaction.
    pub fn is_in_transaction(&self) -> bool {
        self.owned.with_dependent(|_, state| matches!(state, State::Runs(_)))
    }

    /// Begins a transaction. After conflicts it is given more and more room, and in the end runs
    /// alone: a host that begins again gets there.
    ///
    /// # Errors
    /// [`SessionError::InTransaction`] when this thread has one of this pool, on whichever lane.
    pub fn begin(&mut self) -> Result<(), SessionError> {
        if !self.pool().medium().is_usable() {
            return Err(self.pool().refusal().into());
        }
        if self.pool().is_this_thread_inside() {
            return Err(SessionError::InTransaction);
        }
        self.change(|state| match state {
            State::Idle(lane) => (State::Runs(lane.begin()), Ok(())),
            State::Runs(running) => (State::Runs(running), Err(SessionError::InTransaction)),
            State::Poisoned => (State::Poisoned, Err(SessionError::Poisoned)),
        })
    }

    /// Works in the transaction. A failed operation does not end it; its commit will say so again.
    ///
    /// # Errors
    /// The error of `work`, and [`SessionError::NoTransaction`].
    #[inline]
    pub fn in_transaction<R>(
        &mut self,
        work: impl FnOnce(&mut Tx<'_, Mapped>) -> Result<R, Abort>,
    ) -> Result<R, SessionError> {
        Ok(self.with_transaction(work)??)
    }

    /// As [`in_transaction`](Self::in_transaction), for work with errors of its own.
    ///
    /// # Errors
    /// [`SessionError::NoTransaction`].
    #[inline]
    pub fn with_transaction<R>(
        &mut self,
        work: impl FnOnce(&mut Tx<'_, Mapped>) -> R,
    ) -> Result<R, SessionError> {
        if self.is_forked() {
            return Err(Abort::Forked.into());
        }
        self.owned.with_dependent_mut(|_, state| match state {
            State::Runs(running) => Ok(work(running)),
            State::Idle(_) => Err(SessionError::NoTransaction),
            State::Poisoned => Err(SessionError::Poisoned),
        })
    }

    /// Makes the transaction durable. After an error everything is undone, and the session has no
    /// transaction; the first operation that failed decides which error that is.
    ///
    /// # Errors
    /// [`Abort::Conflict`] above all: begin again.
    pub fn commit(&mut self) -> Result<Ticket, SessionError> {
        self.end(|running| running.commit())
    }

    /// Ends the transaction and returns before it is durable: see [`Lane::run_async`].
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_async(&mut self) -> Result<AsyncTicket, SessionError> {
        self.end(|running| running.commit_async())
    }

    /// Undoes the transaction and ends it.
    ///
    /// # Errors
    /// [`SessionError::NoTransaction`].
    pub fn abort(&mut self) -> Result<(), SessionError> {
        self.end(|running| (running.abort(), Ok(())))
    }

    /// Waits until the commit with that ticket is physical: see [`Lane::await_physical`].
    ///
    /// # Errors
    /// [`SessionError::InTransaction`]: it might be its own that it waits for.
    pub fn await_physical(&mut self, ticket: Ticket) -> Result<(), SessionError> {
        self.change(|state| match state {
            State::Idle(mut lane) => {
                let waited = lane.await_physical(ticket);
                (State::Idle(lane), waited.map_err(SessionError::from))
            }
            State::Runs(running) => (State::Runs(running), Err(SessionError::InTransaction)),
            State::Poisoned => (State::Poisoned, Err(SessionError::Poisoned)),
        })
    }

    fn end<R>(
        &mut self,
        how: impl for<'p> FnOnce(Running<'p, Mapped>) -> (Lane<'p, Mapped>, Result<R, Abort>),
    ) -> Result<R, SessionError> {
        if self.is_forked() {
            return Err(Abort::Forked.into());
        }
        self.change(|state| match state {
            State::Runs(running) => {
                let (lane, outcome) = how(running);
                (State::Idle(lane), outcome.map_err(SessionError::from))
            }
            State::Idle(lane) => (State::Idle(lane), Err(SessionError::NoTransaction)),
            State::Poisoned => (State::Poisoned, Err(SessionError::Poisoned)),
        })
    }

    /// Moves from one state to the next. A panic in between drops the lane, which undoes what is open
    /// and gives it back, and leaves the session poisoned.
    fn change<R>(&mut self, step: impl for<'p> FnOnce(State<'p>) -> (State<'p>, R)) -> R {
        self.owned.with_dependent_mut(|_, state| {
            let (next, outcome) = step(std::mem::replace(state, State::Poisoned));
            *state = next;
            outcome
        })
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("is_in_transaction", &self.is_in_transaction()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::{CreateOptions, MapOptions, OpenOptions};
    use crate::{BlockKind, PoolOffset, Transact};

    fn pool(directory: &tempfile::TempDir) -> Arc<Pool> {
        let path = directory.path().join("pool");
        let (create, open) = (CreateOptions::default(), OpenOptions::default());
        let pool = Pool::create_with(&path, 16 << 20, &create, &open, &MapOptions::default());
        Arc::new(pool.unwrap())
    }

    #[test]
    #[cfg_attr(miri, ignore = "no file mappings there")]
    fn a_session_outlives_every_borrow_and_gives_its_lane_back() {
        let directory = tempfile::tempdir().unwrap();
        let pool = pool(&directory);
        let mut sessions = Vec::new();
        while let Ok(session) = Session::new(Arc::clone(&pool)) {
            sessions.push(session);
        }
        assert!(sessions.len() > 1);
        assert!(matches!(Session::new(Arc::clone(&pool)), Err(PoolError::NoLane { .. })));
        drop(sessions.pop());
        let mut last = Session::new(pool).unwrap();
        last.begin().unwrap();
        assert!(last.is_in_transaction());
        let block = last.in_transaction(|tx| tx.alloc(64, BlockKind::General)).unwrap();
        last.in_transaction(|tx| tx.store_u64(block, 7)).unwrap();
        // Another lane of this thread would wait for this one.
        assert!(matches!(sessions[0].begin(), Err(SessionError::InTransaction)));
        last.commit().unwrap();
        sessions[0].begin().unwrap();
        assert_eq!(sessions[0].in_transaction(|tx| tx.load_u64(block)).unwrap(), 7);
        sessions[0].abort().unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "no file mappings there")]
    fn what_types_would_refuse_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let mut session = Session::new(pool(&directory)).unwrap();
        use SessionError::{InTransaction, NoTransaction};
        let load = session.in_transaction(|tx| tx.load_u64(PoolOffset(0)));
        assert!(matches!(load, Err(NoTransaction)));
        assert!(matches!(session.commit(), Err(NoTransaction)));
        assert!(matches!(session.abort(), Err(NoTransaction)));
        session.begin().unwrap();
        assert!(matches!(session.begin(), Err(InTransaction)));
        let failed = session.in_transaction(|tx| tx.free(PoolOffset(3)));
        assert!(matches!(failed, Err(SessionError::Abort(Abort::BadAddress(_)))));
        let commit = session.commit();
        assert!(
            matches!(commit, Err(SessionError::Abort(Abort::BadAddress(_)))),
            "the first decides"
        );
        assert!(!session.is_in_transaction());
    }

    #[test]
    #[cfg_attr(miri, ignore = "no file mappings there")]
    fn a_panic_between_two_states_poisons_and_undoes() {
        let directory = tempfile::tempdir().unwrap();
        let mut session = Session::new(pool(&directory)).unwrap();
        session.begin().unwrap();
        let panics = std::panic::AssertUnwindSafe(|| {
            session.change(|_| -> (State<'_>, ()) { panic!("in the middle") });
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(matches!(session.begin(), Err(SessionError::Poisoned)));
        assert!(matches!(session.commit(), Err(SessionError::Poisoned)));
        let mut other = Session::new(Arc::clone(session.pool())).unwrap();
        other.begin().unwrap();
        other.commit().unwrap();
    }
}
