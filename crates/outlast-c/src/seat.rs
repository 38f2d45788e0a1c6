//! The process's pool and its threads' seats at it.
//!
//! * **C1** Whoever has a seat has a share of the pool, and gives the lane back before the share.
//!   So the pool outlives its lanes, and is closed only when nobody has one.
//! * **C2** A lane never leaves its seat but into its own transaction and back. While it moves,
//!   the seat says so, and keeps its share of the pool.
//! * **C4** A forked child has a pool of its own, or none. The seat that its thread has a copy of is
//!   the parent's, and refused until the child opens a pool.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlast::{Abort, Ack, FilePool, Lane, Running, Ticket, Tx};
use outlast_pmem::{Mapped, Medium};

use crate::code::ArchaptCode::*;
use crate::code::Failure;
use crate::per_process::{PerProcess, Table};

/// A pool, and when its clients are answered.
pub(crate) struct Shared {
    pub pool: FilePool,
    pub ack: Ack,
}

type Place = Mutex<Option<Arc<Shared>>>;

static POOL: PerProcess<Place> = PerProcess::new();

fn table() -> &'static Table<Place> {
    POOL.get(|_| Mutex::new(None))
}

/// The process's pool, if one is open. What it guards is whole at any time.
pub(crate) fn pool() -> MutexGuard<'static, Option<Arc<Shared>>> {
    table().content.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process has no pool open.
pub(crate) fn not_open() -> Failure {
    // C4.
    Failure::of(if table().is_forked { ARCHAPT_FORKED } else { ARCHAPT_NOT_OPEN })
}

/// A thread's seat. The fields are dropped in this order (C1).
struct Seat {
    state: State,
    shared: Arc<Shared>,
}

/// What a thread's lane does.
enum State {
    /// It waits for a transaction.
    Idle(Lane<'static, Mapped>),
    /// It runs one.
    Runs(Running<'static, Mapped>),
    /// It has committed one, and its client is not answered yet.
    Committed(Lane<'static, Mapped>, Ticket),
    /// It is on its way from one of these to the other.
    Moves,
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
    let shared = pool().clone().ok_or_else(not_open)?;
    let pool = &raw const shared.pool;
    // SAFETY: the pool lies behind an `Arc` that the seat keeps until its lane is gone (C1), also
    // while the lane moves (C2), and nobody has it by `&mut` or moves it while shares are left.
    let pool: &'static FilePool = unsafe { &*pool };
    Ok(Seat { state: State::Idle(pool.lane()?), shared })
}

/// Works with the calling thread's seat, which may be empty.
fn with<R>(work: impl FnOnce(&mut Option<Seat>) -> Result<R, Failure>) -> Result<R, Failure> {
    let gone = |_| Failure::new(ARCHAPT_NO_LANE, "the thread is ending and has given up its lane");
    SEAT.try_with(|seat| {
        let mut seat = seat.borrow_mut();
        if seat.as_ref().is_some_and(|seat| seat.shared.pool.medium().is_forked()) {
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
    fn running(&mut self) -> Result<&mut Running<'static, Mapped>, Failure> {
        match &mut self.state {
            State::Runs(running) => Ok(running),
            State::Committed(..) => Err(Failure::new(
                ARCHAPT_NO_TRANSACTION,
                "the transaction is committed already: call Archapt_Tx_End",
            )),
            State::Idle(_) | State::Moves => Err(Failure::of(ARCHAPT_NO_TRANSACTION)),
        }
    }

    fn take_running(&mut self) -> Result<Running<'static, Mapped>, Failure> {
        self.running()?;
        match std::mem::replace(&mut self.state, State::Moves) {
            State::Runs(running) => Ok(running),
            _ => unreachable!("it was just looked at"),
        }
    }
}

/// Begins the thread's transaction.
pub(crate) fn start() -> Result<(), Failure> {
    seated(|seat| match std::mem::replace(&mut seat.state, State::Moves) {
        State::Idle(lane) => {
            seat.state = State::Runs(lane.begin());
            Ok(())
        }
        other => {
            seat.state = other;
            Err(Failure::of(ARCHAPT_IN_TRANSACTION))
        }
    })
}

/// Commits it, logically.
pub(crate) fn commit() -> Result<(), Failure> {
    open_seat(|seat| {
        let (lane, outcome) = seat.take_running()?.commit();
        match outcome {
            Ok(ticket) => {
                seat.state = State::Committed(lane, ticket);
                let _ = TICKET.try_with(|last| last.set(ticket.to_bits()));
                Ok(())
            }
            Err(abort) => {
                seat.state = State::Idle(lane);
                Err(abort.into())
            }
        }
    })
}

/// Ends it: answers the client of one that is committed, undoes another.
pub(crate) fn end() -> Result<(), Failure> {
    open_seat(|seat| match std::mem::replace(&mut seat.state, State::Moves) {
        State::Committed(mut lane, ticket) => {
            let answered = match seat.shared.ack {
                Ack::Physical => lane.await_physical(ticket),
                Ack::Logical => Ok(()),
            };
            seat.state = State::Idle(lane);
            Ok(answered?)
        }
        State::Runs(running) => {
            seat.state = State::Idle(running.abort());
            Err(Failure::of(ARCHAPT_NOT_COMMITTED))
        }
        other => {
            seat.state = other;
            Err(Failure::of(ARCHAPT_NO_TRANSACTION))
        }
    })
}

/// Undoes it.
pub(crate) fn abort() -> Result<(), Failure> {
    open_seat(|seat| {
        seat.state = State::Idle(seat.take_running()?.abort());
        Ok(())
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
    work: impl FnOnce(&mut Tx<'static, Mapped>) -> Result<R, Abort>,
) -> Result<R, Failure> {
    open_seat(|seat| Ok(work(seat.running()?)?))
}

/// As [`in_transaction`], where more can fail than the runtime knows.
pub(crate) fn checked_in_transaction<R>(
    work: impl FnOnce(&mut Tx<'static, Mapped>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    open_seat(|seat| work(seat.running()?))
}

/// Waits until the commit with that ticket is physical.
pub(crate) fn wait(ticket: Ticket) -> Result<(), Failure> {
    seated(|seat| {
        if !seat.shared.pool.has_issued(ticket) {
            return Err(Failure::of(ARCHAPT_UNKNOWN_TICKET));
        }
        match &mut seat.state {
            State::Idle(lane) | State::Committed(lane, _) => Ok(lane.await_physical(ticket)?),
            // It might be its own transaction that it waits for.
            State::Runs(_) | State::Moves => Err(Failure::of(ARCHAPT_IN_TRANSACTION)),
        }
    })
}

/// Gives the thread's seat back; it has none afterwards.
pub(crate) fn leave() -> Result<(), Failure> {
    with(|seat| match seat {
        Some(Seat { state: State::Runs(_) | State::Committed(..), .. }) => {
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
