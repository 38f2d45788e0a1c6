//! The process's pool and its threads' sessions with it: a [`Session`] each, which keeps a share of the
//! pool until its lane is given back.
//!
//! **FFI-4** A forked child has a pool of its own, or none. The session that its thread has a copy of is
//! the parent's, and refused until the child opens a pool.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlast::medium::Mapped;
use outlast::{Abort, Ack, Pool, Session, Ticket, Tx};

use crate::error::{Failure, Kind};
use crate::per_process::{PerProcess, Table};

/// A pool, and when its clients are answered.
#[derive(Clone)]
pub(crate) struct Shared {
    pub pool: Arc<Pool>,
    pub ack: Ack,
}

type Place = Mutex<Option<Shared>>;

static POOL: PerProcess<Place> = PerProcess::new();

fn table() -> &'static Table<Place> {
    POOL.get(|_| Mutex::new(None))
}

/// The process's pool, if one is open. What it guards is whole at any time.
pub(crate) fn pool() -> MutexGuard<'static, Option<Shared>> {
    table().content.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process has no pool open.
pub(crate) fn not_open() -> Failure {
    // FFI-4.
    Failure::of(if table().is_forked { Kind::Forked } else { Kind::NotOpen })
}

/// A thread's session.
struct ThreadSession {
    session: Session,
    ack: Ack,
    /// Of a transaction that is committed and whose client is not answered yet.
    committed: Option<Ticket>,
}

thread_local! {
    static SESSION: RefCell<Option<ThreadSession>> = const { RefCell::new(None) };
    /// Of the thread's last commit.
    static TICKET: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The ticket of the thread's last commit; 0 before the first.
pub(crate) fn last_ticket() -> u64 {
    TICKET.try_with(std::cell::Cell::get).unwrap_or(0)
}

fn take_session() -> Result<ThreadSession, Failure> {
    let Shared { pool, ack } = pool().clone().ok_or_else(not_open)?;
    Ok(ThreadSession { session: Session::new(pool)?, ack, committed: None })
}

/// Works with the calling thread's session, which may be empty.
fn with<R>(
    work: impl FnOnce(&mut Option<ThreadSession>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let gone = |_| Failure::new(Kind::NoLane, "the thread is ending and has given up its lane");
    SESSION
        .try_with(|own| {
            let mut own = own.borrow_mut();
            if own.as_ref().is_some_and(|own| own.session.is_forked()) {
                // FFI-4. Dropped, it gives nothing back.
                if pool().is_none() {
                    return Err(not_open());
                }
                *own = None;
            }
            work(&mut own)
        })
        .map_err(gone)?
}

/// Works with the session that the calling thread has or takes.
fn in_session<R>(
    work: impl FnOnce(&mut ThreadSession) -> Result<R, Failure>,
) -> Result<R, Failure> {
    with(|own| match own {
        Some(own) => work(own),
        None => work(own.insert(take_session()?)),
    })
}

impl ThreadSession {
    /// Whether it has a transaction that is not committed.
    fn check_runs(&self) -> Result<(), Failure> {
        match self.committed {
            Some(_) => Err(Failure::new(
                Kind::NoTransaction,
                "the transaction is committed already: call Archapt_Tx_End",
            )),
            None if self.session.is_in_transaction() => Ok(()),
            None => Err(Failure::of(Kind::NoTransaction)),
        }
    }
}

/// Begins the thread's transaction.
pub(crate) fn start() -> Result<(), Failure> {
    in_session(|own| match own.committed {
        Some(_) => Err(Failure::of(Kind::InTransaction)),
        None => Ok(own.session.begin()?),
    })
}

/// Commits it, logically.
pub(crate) fn commit() -> Result<(), Failure> {
    open_session(|own| {
        own.check_runs()?;
        let ticket = own.session.commit()?;
        own.committed = Some(ticket);
        let _ = TICKET.try_with(|last| last.set(ticket.to_bits()));
        Ok(())
    })
}

/// Ends it: answers the client of one that is committed, undoes another.
pub(crate) fn end() -> Result<(), Failure> {
    open_session(|own| match own.committed.take() {
        Some(ticket) if own.ack == Ack::Physical => Ok(own.session.await_physical(ticket)?),
        Some(_) => Ok(()),
        None => {
            own.session.abort()?;
            Err(Failure::of(Kind::NotCommitted))
        }
    })
}

/// Undoes it.
pub(crate) fn abort() -> Result<(), Failure> {
    open_session(|own| {
        own.check_runs()?;
        Ok(own.session.abort()?)
    })
}

/// The session, for what makes sense only with a transaction.
fn open_session<R>(
    work: impl FnOnce(&mut ThreadSession) -> Result<R, Failure>,
) -> Result<R, Failure> {
    with(|own| match own {
        Some(own) => work(own),
        None if pool().is_none() => Err(not_open()),
        None => Err(Failure::of(Kind::NoTransaction)),
    })
}

/// Does something in the thread's transaction.
pub(crate) fn in_transaction<R>(
    work: impl FnOnce(&mut Tx<'_, Mapped>) -> Result<R, Abort>,
) -> Result<R, Failure> {
    checked_in_transaction(|tx| Ok(work(tx)?))
}

/// As [`in_transaction`], where more can fail than the runtime knows.
pub(crate) fn checked_in_transaction<R>(
    work: impl FnOnce(&mut Tx<'_, Mapped>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    open_session(|own| {
        own.check_runs()?;
        own.session.with_transaction(work)?
    })
}

/// Waits until the commit with that ticket is physical.
pub(crate) fn wait(ticket: Ticket) -> Result<(), Failure> {
    in_session(|own| {
        if !own.session.pool().has_issued(ticket) {
            return Err(Failure::of(Kind::UnknownTicket));
        }
        Ok(own.session.await_physical(ticket)?)
    })
}

/// Gives the thread's session back; it has none afterwards.
pub(crate) fn leave() -> Result<(), Failure> {
    with(|own| match own {
        Some(own) if own.committed.is_some() || own.session.is_in_transaction() => {
            Err(Failure::of(Kind::InTransaction))
        }
        _ => {
            *own = None;
            Ok(())
        }
    })
}

/// After a panic: undoes what is open, and gives the session back.
pub(crate) fn give_up() {
    let _ = SESSION.try_with(|own| own.try_borrow_mut().map(|mut own| *own = None));
}
