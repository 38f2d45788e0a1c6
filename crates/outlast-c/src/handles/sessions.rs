//! The process's pools, and each thread's lanes: a [`Session`] each, which keeps a share of its pool
//! until its lane is given back. So a pool outlives its lanes, and is closed only when it has none.
//!
//! * **FFI-3** Numbers of handles grow and are never used again: one that is no longer good is no other's.
//! * **FFI-4** A forked child has pools of its own. Handles up to the number that its parent had given
//!   out are the parent's, and refused as such.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlast::medium::Mapped;
use outlast::{Abort, AsyncTicket, Pool, Session, Tx};

use crate::error::{Failure, Kind};
use crate::per_process::PerProcess;

/// The last number given to a handle (FFI-3).
static NUMBERS: AtomicU64 = AtomicU64::new(0);

static POOLS: PerProcess<Pools> = PerProcess::new();

/// The pools that this process has opened.
struct Pools {
    open: Mutex<BTreeMap<u64, Arc<Pool>>>,
    /// FFI-4: the last number that its parent had given out; 0 without one.
    number_of_parent: u64,
}

fn table() -> &'static Pools {
    let number = |is_forked| if is_forked { NUMBERS.load(Ordering::Relaxed) } else { 0 };
    let new = |is_forked| Pools { open: Mutex::default(), number_of_parent: number(is_forked) };
    &POOLS.get(new).content
}

/// The low bits of a lane's handle: which of its thread's sessions.
const SESSION_BITS: u32 = 16;

fn pools() -> MutexGuard<'static, BTreeMap<u64, Arc<Pool>>> {
    table().open.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn next_number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed) + 1
}

/// A share of the pool with that handle.
pub(super) fn pool(handle: u64) -> Result<Arc<Pool>, Failure> {
    pools().get(&handle).cloned().ok_or_else(|| no_pool(handle))
}

#[cold]
fn no_pool(handle: u64) -> Failure {
    no_handle("pool", handle)
}

/// Nothing of this kind is open by that number.
#[cold]
pub(super) fn no_handle(kind: &str, handle: u64) -> Failure {
    // FFI-4.
    if (1..=table().number_of_parent).contains(&handle) {
        return Failure::of(Kind::Forked);
    }
    Failure::new(Kind::NotOpen, format!("no open {kind} has the handle {handle}"))
}

/// Keeps a pool and gives it a handle.
pub(super) fn keep_pool(pool: Pool) -> u64 {
    let handle = next_number();
    pools().insert(handle, Arc::new(pool));
    handle
}

/// Takes a pool whose lanes are all given back out of the table.
pub(super) fn take_pool(handle: u64) -> Result<Pool, Failure> {
    let mut pools = pools();
    let shared = pools.remove(&handle).ok_or_else(|| no_pool(handle))?;
    Arc::try_unwrap(shared).map_err(|shared| {
        let lanes = Arc::strong_count(&shared) - 1;
        pools.insert(handle, shared);
        Failure::new(Kind::Busy, format!("{lanes} lanes of the pool are not given back"))
    })
}

/// A thread's lane.
struct ThreadSession {
    session: Session,
    handle: u64,
}

thread_local! {
    static SESSIONS: RefCell<Vec<Option<ThreadSession>>> = const { RefCell::new(Vec::new()) };
}

/// Works with the calling thread's sessions.
fn with<R>(
    work: impl FnOnce(&mut Vec<Option<ThreadSession>>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let gone = |_| Failure::new(Kind::NotOpen, "the thread is ending and has given up its lanes");
    SESSIONS.try_with(|sessions| work(&mut sessions.borrow_mut())).map_err(gone)?
}

/// Works with one of them.
#[inline]
fn in_session<R>(
    lane: u64,
    work: impl FnOnce(&mut ThreadSession) -> Result<R, Failure>,
) -> Result<R, Failure> {
    with(|sessions| {
        let index = (lane & ((1 << SESSION_BITS) - 1)) as usize;
        match sessions.get_mut(index) {
            Some(Some(own)) if own.handle == lane && !own.session.is_forked() => work(own),
            _ => Err(no_lane(lane)),
        }
    })
}

#[cold]
fn no_lane(lane: u64) -> Failure {
    // FFI-4.
    if (1..=table().number_of_parent).contains(&(lane >> SESSION_BITS)) {
        return Failure::of(Kind::Forked);
    }
    let text = format!("the thread has no lane with the handle {lane}");
    Failure::new(Kind::NotOpen, text)
}

/// Takes a lane of a pool for the calling thread. Returns its handle.
pub(super) fn take_lane(handle: u64) -> Result<u64, Failure> {
    let shared = pool(handle)?;
    with(|sessions| {
        let index = sessions.iter().position(Option::is_none).unwrap_or(sessions.len());
        if index >> SESSION_BITS != 0 {
            return Err(Failure::new(Kind::NoLane, "a thread has 65,536 lanes at most"));
        }
        let session = Session::new(shared)?;
        let handle = next_number() << SESSION_BITS | index as u64;
        let own = Some(ThreadSession { session, handle });
        match sessions.get_mut(index) {
            Some(place) => *place = own,
            None => sessions.push(own),
        }
        Ok(handle)
    })
}

/// Gives a lane back that has no transaction.
pub(super) fn give_back(lane: u64) -> Result<(), Failure> {
    with(|sessions| {
        let mut places = sessions.iter_mut();
        let place = places.find(|own| matches!(own, Some(own) if own.handle == lane));
        match place {
            None => Err(no_lane(lane)),
            Some(Some(own)) if own.session.is_forked() => Err(no_lane(lane)),
            Some(Some(own)) if own.session.is_in_transaction() => {
                Err(Failure::of(Kind::InTransaction))
            }
            Some(place) => {
                *place = None;
                Ok(())
            }
        }
    })
}

/// Begins a lane's transaction.
pub(super) fn begin(lane: u64) -> Result<(), Failure> {
    in_session(lane, |own| Ok(own.session.begin()?))
}

/// Commits it.
pub(super) fn commit(lane: u64) -> Result<(), Failure> {
    in_session(lane, |own| Ok(own.session.commit().map(drop)?))
}

/// Commits it without waiting until it is durable. Returns its ticket.
pub(super) fn commit_async(lane: u64) -> Result<AsyncTicket, Failure> {
    in_session(lane, |own| Ok(own.session.commit_async()?))
}

/// A pool, where this thread waits for no transaction of its own.
pub(super) fn pool_to_wait_for(handle: u64) -> Result<Arc<Pool>, Failure> {
    let pool = pool(handle)?;
    if pool.is_this_thread_inside() {
        return Err(Failure::of(Kind::InTransaction));
    }
    Ok(pool)
}

/// Undoes it.
pub(super) fn abort(lane: u64) -> Result<(), Failure> {
    in_session(lane, |own| Ok(own.session.abort()?))
}

/// Does something in a lane's transaction.
#[inline]
pub(super) fn in_transaction<R>(
    lane: u64,
    work: impl FnOnce(&mut Tx<'_, Mapped>) -> Result<R, Abort>,
) -> Result<R, Failure> {
    in_session(lane, |own| Ok(own.session.in_transaction(work)?))
}

/// After a panic: undoes what is open, and gives the thread's lanes back.
pub(super) fn give_up() {
    let _ = SESSIONS
        .try_with(|sessions| sessions.try_borrow_mut().map(|mut sessions| sessions.clear()));
}
