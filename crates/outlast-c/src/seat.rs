//! The process's pool and its threads' seats at it: a [`Session`] each, which keeps a share of the
//! pool until its lane is given back.
//!
//! **C4** A forked child has a pool of its own, or none. The seat that its thread has a copy of is
//! the parent's, and refused until the child opens a pool.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlast::{Abort, Ack, FilePool, Mapped, Session, SessionError, Ticket, Tx};

use crate::code::ArchaptCode::*;
use crate::code::Failure;
use crate::per_process::{PerProcess, Table};

/// A pool, and when its clients are answered.
#[derive(Clone)]
pub(crate) struct Shared {
    pub pool: Arc<FilePool>,
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
    // C4.
    Failure::of(if table().is_forked { ARCHAPT_FORKED } else { ARCHAPT_NOT_OPEN })
}

/// A thread's seat.
struct Seat {
    session: Session,
    ack: Ack,
    /// Of a transaction that is committed and whose client is not answered yet.
    committed: Option<Ticket>,
}

thread_local! {
    static SEAT: RefCell<Option<Seat>> = const { RefCell::new(None) };
    /// Of the thread's last commit.
    static TICKET: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The ticket of the thread's last commit; 0 before the first.
pub(crate) fn last_ticket() -> u64 {
    TICKET.try_with(std::cell::Cell::get).unwrap_or(0)
}

fn take_seat() -> Result<Seat, Failure> {
    let Shared { pool, ack } = pool().clone().ok_or_else(not_open)?;
    Ok(Seat { session: Session::new(pool)?, ack, committed: None })
}

/// Works with the calling thread's seat, which may be empty.
fn with<R>(work: impl FnOnce(&mut Option<Seat>) -> Result<R, Failure>) -> Result<R, Failure> {
    let gone = |_| Failure::new(ARCHAPT_NO_LANE, "the thread is ending and has given up its lane");
    SEAT.try_with(|seat| {
        let mut seat = seat.borrow_mut();
        if seat.as_ref().is_some_and(|seat| seat.session.is_forked()) {
            // C4. Dropped, it gives nothing back.
            if pool().is_none() {
                return Err(not_open());
            }
            *seat = None;
        }
        work(&mut seat)
    })
    .map_err(gone)?
}

/// Works with the seat that the calling thread has or takes.
fn seated<R>(work: impl FnOnce(&mut Seat) -> Result<R, Failure>) -> Result<R, Failure> {
    with(|seat| match seat {
        Some(seat) => work(seat),
        None => work(seat.insert(take_seat()?)),
    })
}

impl Seat {
    /// Whether it has a transaction that is not committed.
    fn check_runs(&self) -> Result<(), Failure> {
        match self.committed {
            Some(_) => Err(Failure::new(
                ARCHAPT_NO_TRANSACTION,
                "the transaction is committed already: call Archapt_Tx_End",
            )),
            None if self.session.is_in_transaction() => Ok(()),
            None => Err(Failure::of(ARCHAPT_NO_TRANSACTION)),
        }
    }
}

/// Begins the thread's transaction.
pub(crate) fn start() -> Result<(), Failure> {
    seated(|seat| match seat.committed {
        Some(_) => Err(Failure::of(ARCHAPT_IN_TRANSACTION)),
        None => Ok(seat.session.begin()?),
    })
}

/// Commits it, logically.
pub(crate) fn commit() -> Result<(), Failure> {
    open_seat(|seat| {
        seat.check_runs()?;
        let ticket = seat.session.commit()?;
        seat.committed = Some(ticket);
        let _ = TICKET.try_with(|last| last.set(ticket.to_bits()));
        Ok(())
    })
}

/// Ends it: answers the client of one that is committed, undoes another.
pub(crate) fn end() -> Result<(), Failure> {
    open_seat(|seat| match seat.committed.take() {
        Some(ticket) if seat.ack == Ack::Physical => Ok(seat.session.await_physical(ticket)?),
        Some(_) => Ok(()),
        None => {
            seat.session.abort()?;
            Err(Failure::of(ARCHAPT_NOT_COMMITTED))
        }
    })
}

/// Undoes it.
pub(crate) fn abort() -> Result<(), Failure> {
    open_seat(|seat| {
        seat.check_runs()?;
        Ok(seat.session.abort()?)
    })
}

/// The seat, for what makes sense only with a transaction.
fn open_seat<R>(work: impl FnOnce(&mut Seat) -> Result<R, Failure>) -> Result<R, Failure> {
    with(|seat| match seat {
        Some(seat) => work(seat),
        None if pool().is_none() => Err(not_open()),
        None => Err(Failure::of(ARCHAPT_NO_TRANSACTION)),
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
    open_seat(|seat| {
        seat.check_runs()?;
        seat.session.with_transaction(work)?
    })
}

/// Waits until the commit with that ticket is physical.
pub(crate) fn wait(ticket: Ticket) -> Result<(), Failure> {
    seated(|seat| {
        if !seat.session.pool().has_issued(ticket) {
            return Err(Failure::of(ARCHAPT_UNKNOWN_TICKET));
        }
        Ok(seat.session.await_physical(ticket)?)
    })
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::InTransaction => Self::of(ARCHAPT_IN_TRANSACTION),
            SessionError::NoTransaction => Self::of(ARCHAPT_NO_TRANSACTION),
            SessionError::Poisoned => Self::new(ARCHAPT_INTERNAL, error.to_string()),
            SessionError::Abort(abort) => abort.into(),
        }
    }
}

/// Gives the thread's seat back; it has none afterwards.
pub(crate) fn leave() -> Result<(), Failure> {
    with(|seat| match seat {
        Some(seat) if seat.committed.is_some() || seat.session.is_in_transaction() => {
            Err(Failure::of(ARCHAPT_IN_TRANSACTION))
        }
        _ => {
            *seat = None;
            Ok(())
        }
    })
}

/// After a panic: undoes what is open, and gives the seat back.
pub(crate) fn give_up() {
    let _ = SEAT.try_with(|seat| seat.try_borrow_mut().map(|mut seat| *seat = None));
}
