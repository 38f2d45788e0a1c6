//! Where operations run.
//!
//! An operation on a structure joins the transaction that its thread has open with the pool; without one it is a
//! transaction of its own, which runs again after each conflict. A reader's is a snapshot of its own, or the one that
//! `Reader.run` has taken. The interpreter's lock is not held while a transaction begins, works or
//! commits: one that waits for another thread's would else keep that thread from going on.

use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use outlast::error::SessionError;
use outlast::{Abort, BlockKind, ByteRange, PoolOffset, PoolReader, RootKind, Session, Transact};
use pyo3::prelude::*;

use crate::error::{closed, of_abort, of_pool, of_read, of_session};

/// A transaction of either kind.
pub struct AnyTx<'t>(pub &'t mut dyn Transact);

impl Transact for AnyTx<'_> {
    fn load(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        self.0.load(at, out)
    }

    fn will_write(&mut self, ranges: &[ByteRange]) -> Result<(), Abort> {
        self.0.will_write(ranges)
    }

    fn store(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        self.0.store(at, bytes)
    }

    fn alloc(&mut self, bytes: u64, kind: BlockKind) -> Result<PoolOffset, Abort> {
        self.0.alloc(bytes, kind)
    }

    fn free(&mut self, block: PoolOffset) -> Result<(), Abort> {
        self.0.free(block)
    }

    fn block_bytes(&mut self, block: PoolOffset) -> Result<Option<u64>, Abort> {
        self.0.block_bytes(block)
    }

    fn root(&mut self) -> Result<Option<(PoolOffset, RootKind)>, Abort> {
        self.0.root()
    }

    fn set_root(&mut self, block: PoolOffset, kind: RootKind) -> Result<(), Abort> {
        self.0.set_root(block, kind)
    }

    fn will_read(&mut self, ranges: &[ByteRange]) {
        self.0.will_read(ranges);
    }

    fn failure(&self) -> Option<&Abort> {
        self.0.failure()
    }

    fn load_u64(&mut self, at: PoolOffset) -> Result<u64, Abort> {
        self.0.load_u64(at)
    }

    fn store_u64(&mut self, at: PoolOffset, value: u64) -> Result<(), Abort> {
        self.0.store_u64(at, value)
    }
}

/// How long a thread waits for a session where all are in transactions.
const SESSION_WAIT: Duration = Duration::from_secs(5);

/// A pool that is open for writing.
pub struct Writer {
    state: Mutex<Option<Open>>,
    /// A session has become idle.
    given_back: Condvar,
}

/// An open pool and its sessions that no thread uses now.
struct Open {
    pool: Arc<outlast::Pool>,
    idle: Vec<(ThreadId, Session)>,
}

/// Locks whatever a panic has left: states are replaced whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    pub fn new(pool: outlast::Pool) -> Self {
        let open = Open { pool: Arc::new(pool), idle: Vec::new() };
        Self { state: Mutex::new(Some(open)), given_back: Condvar::new() }
    }

    /// The pool.
    pub fn pool(&self) -> PyResult<Arc<outlast::Pool>> {
        lock(&self.state).as_ref().map(|open| open.pool.clone()).ok_or_else(closed)
    }

    pub fn is_open(&self) -> bool {
        lock(&self.state).is_some()
    }

    /// A session for this thread: the one that it had last, a new one, or, where the pool has no more, another thread's that
    /// is not in use, waited for if need be. A session goes from thread to thread through the mutex, whose unlocking
    /// orders what was flushed before it on x86-64; elsewhere `run_alone` and `Home::end` leave nothing flushed behind.
    fn take(&self, py: Python<'_>) -> PyResult<Session> {
        py.detach(|| {
            let until = Instant::now() + SESSION_WAIT;
            let mut open = lock(&self.state);
            let here = thread::current().id();
            loop {
                let Open { pool, idle } = open.as_mut().ok_or_else(closed)?;
                if let Some(own) = idle.iter().position(|(thread, _)| *thread == here) {
                    return Ok(idle.swap_remove(own).1);
                }
                let error = match Session::new(pool.clone()) {
                    Ok(session) => return Ok(session),
                    Err(error) => error,
                };
                if let Some((_, session)) = idle.pop() {
                    return Ok(session);
                }
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || !matches!(error, outlast::PoolError::NoLane { .. }) {
                    return Err(of_pool(error));
                }
                open = self
                    .given_back
                    .wait_timeout(open, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        })
    }

    fn give_back(&self, session: Session) {
        if let Some(open) = &mut *lock(&self.state) {
            open.idle.push((thread::current().id(), session));
        }
        self.given_back.notify_one();
    }

    /// Closes the pool. `false` when a transaction or an array's view uses it.
    pub fn close(&self) -> PyResult<bool> {
        let mut state = lock(&self.state);
        let Some(Open { pool, idle }) = state.take() else { return Ok(true) };
        drop(idle);
        match Arc::try_unwrap(pool) {
            Ok(pool) => pool.try_close().map(|_| true).map_err(of_pool),
            Err(pool) => {
                *state = Some(Open { pool, idle: Vec::new() });
                Ok(false)
            }
        }
    }
}

/// A transaction that a thread has open: which pool's, and how to work in it.
enum Current {
    Session(Arc<Writer>, Session),
    /// On a snapshot, for as long as `Home::on_snapshot` runs further up on this thread's stack.
    Snapshot(Arc<Mutex<PoolReader>>, NonNull<dyn Transact>),
}

thread_local! {
    static OPEN: RefCell<Vec<Current>> = const { RefCell::new(Vec::new()) };
}

/// Where a structure's operations run.
#[derive(Clone)]
pub enum Home {
    Writer(Arc<Writer>),
    Reader(Arc<Mutex<PoolReader>>),
}

impl Home {
    fn has(&self, current: &Current) -> bool {
        match (self, current) {
            (Self::Writer(own), Current::Session(pool, _)) => Arc::ptr_eq(own, pool),
            (Self::Reader(own), Current::Snapshot(reader, _)) => Arc::ptr_eq(own, reader),
            _ => false,
        }
    }

    /// Whether this thread has a transaction of the pool open.
    pub fn is_inside(&self) -> bool {
        OPEN.with_borrow(|open| open.iter().any(|current| self.has(current)))
    }

    /// Works in the thread's transaction or snapshot, or in one for this work alone. `work` may run again.
    pub fn run<R: Send>(
        &self,
        py: Python<'_>,
        mut work: impl FnMut(&mut AnyTx<'_>) -> Result<R, Abort> + Send,
    ) -> PyResult<R> {
        let inside = OPEN.with_borrow_mut(|open| {
            let current = open.iter_mut().find(|current| self.has(current))?;
            Some(match current {
                Current::Session(_, session) => py
                    .detach(|| session.in_transaction(|tx| work(&mut AnyTx(tx))))
                    .map_err(of_session),
                Current::Snapshot(_, tx) => {
                    // SAFETY: `on_snapshot` has it on this thread's stack below, and lends it to nothing else.
                    let tx = unsafe { tx.as_mut() };
                    work(&mut AnyTx(tx)).map_err(of_abort)
                }
            })
        });
        if let Some(result) = inside {
            return result;
        }
        match self {
            Self::Writer(writer) => {
                let mut session = writer.take(py)?;
                let result = py.detach(|| run_alone(&mut session, &mut work));
                writer.give_back(session);
                result.map_err(of_session)
            }
            Self::Reader(reader) => {
                py.detach(|| lock(reader).run(|tx| work(&mut AnyTx(tx)))).map_err(of_read)
            }
        }
    }

    /// Begins a transaction of this thread.
    pub fn begin(&self, py: Python<'_>) -> PyResult<()> {
        let Self::Writer(writer) = self else { unreachable!("readers have snapshots") };
        let mut session = writer.take(py)?;
        let begun = py.detach(|| session.begin());
        if let Err(error) = begun {
            writer.give_back(session);
            return Err(of_session(error));
        }
        OPEN.with_borrow_mut(|open| open.push(Current::Session(writer.clone(), session)));
        Ok(())
    }

    /// Ends the transaction of this thread: makes it durable, or undoes it.
    pub fn end(&self, py: Python<'_>, commits: bool) -> PyResult<()> {
        let found = OPEN.with_borrow_mut(|open| {
            let place = open.iter().position(|current| self.has(current))?;
            Some(open.remove(place))
        });
        let Some(Current::Session(writer, mut session)) = found else {
            return Err(of_session(SessionError::NoTransaction));
        };
        let ended = py.detach(|| match commits {
            true => session.commit().map(drop),
            false => session.abort(),
        });
        writer.give_back(session);
        ended.map_err(of_session)
    }

    /// Calls `body` with one snapshot for all that it reads.
    pub fn on_snapshot<'py>(
        &self,
        mut body: impl FnMut() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Self::Reader(reader) = self else { unreachable!("writers have transactions") };
        if self.is_inside() {
            return body();
        }
        let Ok(mut locked) = reader.try_lock() else {
            return Err(crate::error::Error::new_err(
                "another thread reads by this reader: open one for each thread",
            ));
        };
        let result = locked.run(|tx| {
            let tx: NonNull<dyn Transact + '_> = NonNull::from(tx as &mut dyn Transact);
            // SAFETY: only the lifetime is another: it is taken from the list again before `tx` ends.
            let tx = unsafe {
                std::mem::transmute::<NonNull<dyn Transact + '_>, NonNull<dyn Transact>>(tx)
            };
            OPEN.with_borrow_mut(|open| open.push(Current::Snapshot(reader.clone(), tx)));
            let _taken = Taken;
            Ok(body())
        });
        result.map_err(of_read)?
    }
}

/// Takes the newest of the thread's transactions from the list when dropped.
struct Taken;

impl Drop for Taken {
    fn drop(&mut self) {
        OPEN.with_borrow_mut(Vec::pop);
    }
}

/// A transaction for this work alone.
fn run_alone<R>(
    session: &mut Session,
    work: &mut impl FnMut(&mut AnyTx<'_>) -> Result<R, Abort>,
) -> Result<R, SessionError> {
    loop {
        session.begin()?;
        let done = match session.in_transaction(|tx| work(&mut AnyTx(tx))) {
            Ok(result) => session.commit().map(|_| result),
            Err(error) => session.abort().and(Err(error)),
        };
        match done {
            Err(SessionError::Abort(Abort::Conflict)) => {}
            done => return done,
        }
    }
}
