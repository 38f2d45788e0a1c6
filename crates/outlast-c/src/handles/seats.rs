//! The process's pools, and each thread's lanes.
//!
//! * **C1** Whoever has a lane has a share of its pool, and gives the lane back before the share.
//!   So a pool outlives its lanes, and is closed only when nobody has one.
//! * **C2** A lane never leaves its seat but into its own transaction and back. While it moves,
//!   the seat says so, and keeps its share of the pool.
//! * **C3** Numbers of handles grow and are never used again, so a handle that is no longer good
//!   is nobody else's.
//! * **C4** A forked child has pools of its own. Handles up to the number that its parent had given
//!   out are the parent's, and refused as such.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlast::{Abort, AsyncTicket, FilePool, Lane, Running, Tx};
use outlast_pmem::{Mapped, Medium};

use super::code::Failure;
use super::code::outlast_code::*;
use crate::per_process::PerProcess;

/// The last number given to a handle (C3).
static NUMBERS: AtomicU64 = AtomicU64::new(0);

static POOLS: PerProcess<Pools> = PerProcess::new();

/// The pools that this process has opened.
struct Pools {
    open: Mutex<BTreeMap<u64, Arc<FilePool>>>,
    /// C4: the last number that its parent had given out; 0 without one.
    number_of_parent: u64,
}

fn table() -> &'static Pools {
    let number = |is_forked| if is_forked { NUMBERS.load(Ordering::Relaxed) } else { 0 };
    let new = |is_forked| Pools { open: Mutex::default(), number_of_parent: number(is_forked) };
    &POOLS.get(new).content
}

/// The low bits of a lane's handle: which of its thread's seats.
const SEAT_BITS: u32 = 16;

fn pools() -> MutexGuard<'static, BTreeMap<u64, Arc<FilePool>>> {
    table().open.lock().unwrap_or_else(PoisonError::into_inner)
}

fn next_number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed) + 1
}

/// A share of the pool with that handle.
pub(super) fn pool(handle: u64) -> Result<Arc<FilePool>, Failure> {
    pools().get(&handle).cloned().ok_or_else(|| no_pool(handle))
}

#[cold]
fn no_pool(handle: u64) -> Failure {
    // C4.
    if (1..=table().number_of_parent).contains(&handle) {
        return Failure::of(OUTLAST_FORKED);
    }
    Failure::new(OUTLAST_BAD_HANDLE, format!("no open pool has the handle {handle}"))
}

/// Keeps a pool and gives it a handle.
pub(super) fn keep_pool(pool: FilePool) -> u64 {
    let handle = next_number();
    pools().insert(handle, Arc::new(pool));
    handle
}

/// Takes a pool whose lanes are all given back out of the table.
pub(super) fn take_pool(handle: u64) -> Result<FilePool, Failure> {
    let mut pools = pools();
    let shared = pools.remove(&handle).ok_or_else(|| no_pool(handle))?;
    Arc::try_unwrap(shared).map_err(|shared| {
        let lanes = Arc::strong_count(&shared) - 1;
        pools.insert(handle, shared);
        Failure::new(OUTLAST_BUSY, format!("{lanes} lanes of the pool are not given back"))
    })
}

/// A thread's lane. The fields are dropped in this order (C1).
struct Seat {
    state: State,
    shared: Arc<FilePool>,
    handle: u64,
}

/// What a lane does.
enum State {
    /// It waits for a transaction.
    Idle(Lane<'static, Mapped>),
    /// It runs one.
    Runs(Running<'static, Mapped>),
    /// It is on its way from one of these to the other.
    Moves,
}

thread_local! {
    static SEATS: RefCell<Vec<Option<Seat>>> = const { RefCell::new(Vec::new()) };
}

/// Works with the calling thread's seats.
fn with<R>(work: impl FnOnce(&mut Vec<Option<Seat>>) -> Result<R, Failure>) -> Result<R, Failure> {
    let gone =
        |_| Failure::new(OUTLAST_BAD_HANDLE, "the thread is ending and has given up its lanes");
    SEATS.try_with(|seats| work(&mut seats.borrow_mut())).map_err(gone)?
}

/// Works with one of them.
#[inline]
fn seated<R>(lane: u64, work: impl FnOnce(&mut Seat) -> Result<R, Failure>) -> Result<R, Failure> {
    with(|seats| {
        let index = (lane & ((1 << SEAT_BITS) - 1)) as usize;
        match seats.get_mut(index) {
            Some(Some(seat)) if seat.handle == lane && seat.is_forked() => Err(no_lane(lane)),
            Some(Some(seat)) if seat.handle == lane => work(seat),
            _ => Err(no_lane(lane)),
        }
    })
}

#[cold]
fn no_lane(lane: u64) -> Failure {
    // C4.
    if (1..=table().number_of_parent).contains(&(lane >> SEAT_BITS)) {
        return Failure::of(OUTLAST_FORKED);
    }
    let text = format!("the thread has no lane with the handle {lane}");
    Failure::new(OUTLAST_BAD_HANDLE, text)
}

/// Takes a lane of a pool for the calling thread. Returns its handle.
pub(super) fn take_lane(handle: u64) -> Result<u64, Failure> {
    let shared = pool(handle)?;
    with(|seats| {
        let index = seats.iter().position(Option::is_none).unwrap_or(seats.len());
        if index >> SEAT_BITS != 0 {
            return Err(Failure::new(OUTLAST_NO_LANE, "a thread has 65,536 lanes at most"));
        }
        let pool = &raw const *shared;
        // SAFETY: the pool lies behind an `Arc` that the seat keeps until its lane is gone (C1),
        // also while the lane moves (C2), and nobody has it by `&mut` or moves it while shares
        // are left.
        let pool: &'static FilePool = unsafe { &*pool };
        let state = State::Idle(pool.lane()?);
        let handle = next_number() << SEAT_BITS | index as u64;
        let seat = Some(Seat { state, shared, handle });
        match seats.get_mut(index) {
            Some(place) => *place = seat,
            None => seats.push(seat),
        }
        Ok(handle)
    })
}

/// Gives a lane back that has no transaction.
pub(super) fn give_back(lane: u64) -> Result<(), Failure> {
    with(|seats| {
        let mut places = seats.iter_mut();
        let place = places.find(|seat| matches!(seat, Some(seat) if seat.handle == lane));
        match place {
            None => Err(no_lane(lane)),
            Some(Some(seat)) if seat.is_forked() => Err(no_lane(lane)),
            Some(Some(Seat { state: State::Runs(_), .. })) => {
                Err(Failure::of(OUTLAST_IN_TRANSACTION))
            }
            Some(place) => {
                *place = None;
                Ok(())
            }
        }
    })
}

impl Seat {
    /// Whether this process has a copy of the seat, which is its parent's.
    #[inline]
    fn is_forked(&self) -> bool {
        self.shared.medium().is_forked()
    }

    #[inline]
    fn running(&mut self) -> Result<&mut Running<'static, Mapped>, Failure> {
        match &mut self.state {
            State::Runs(running) => Ok(running),
            State::Idle(_) | State::Moves => Err(Failure::of(OUTLAST_NO_TRANSACTION)),
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

/// Begins a lane's transaction.
pub(super) fn begin(lane: u64) -> Result<(), Failure> {
    let pool = seated(lane, |seat| Ok(Arc::as_ptr(&seat.shared)))?;
    // One of another lane of the thread could be what it waits for.
    let runs = |seat: &Seat| {
        matches!(seat.state, State::Runs(_)) && std::ptr::eq(Arc::as_ptr(&seat.shared), pool)
    };
    if with(|seats| Ok(seats.iter().flatten().any(runs)))? {
        return Err(Failure::of(OUTLAST_IN_TRANSACTION));
    }
    seated(lane, |seat| match std::mem::replace(&mut seat.state, State::Moves) {
        State::Idle(lane) => {
            seat.state = State::Runs(lane.begin());
            Ok(())
        }
        other => {
            seat.state = other;
            Err(Failure::of(OUTLAST_IN_TRANSACTION))
        }
    })
}

/// Commits it.
pub(super) fn commit(lane: u64) -> Result<(), Failure> {
    seated(lane, |seat| {
        let (lane, outcome) = seat.take_running()?.commit();
        seat.state = State::Idle(lane);
        outcome.map(drop).map_err(Failure::from)
    })
}

/// Commits it without waiting until it is durable. Returns its ticket.
pub(super) fn commit_async(lane: u64) -> Result<AsyncTicket, Failure> {
    seated(lane, |seat| {
        let (lane, outcome) = seat.take_running()?.commit_async();
        seat.state = State::Idle(lane);
        outcome.map_err(Failure::from)
    })
}

/// A pool, where this thread waits for no transaction of its own.
pub(super) fn pool_to_wait_for(handle: u64) -> Result<Arc<FilePool>, Failure> {
    let pool = pool(handle)?;
    if pool.is_this_thread_inside() {
        return Err(Failure::of(OUTLAST_IN_TRANSACTION));
    }
    Ok(pool)
}

/// Undoes it.
pub(super) fn abort(lane: u64) -> Result<(), Failure> {
    seated(lane, |seat| {
        seat.state = State::Idle(seat.take_running()?.abort());
        Ok(())
    })
}

/// Does something in a lane's transaction.
#[inline]
pub(super) fn in_transaction<R>(
    lane: u64,
    work: impl FnOnce(&mut Tx<'static, Mapped>) -> Result<R, Abort>,
) -> Result<R, Failure> {
    seated(lane, |seat| work(seat.running()?).map_err(Failure::from))
}

/// After a panic: undoes what is open, and gives the thread's lanes back.
pub(super) fn give_up() {
    let _ = SEATS.try_with(|seats| seats.try_borrow_mut().map(|mut seats| seats.clear()));
}
