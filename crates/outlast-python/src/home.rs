//! Where operations run.
//!
//! An operation on a structure joins the transaction that its thread has open with the pool; without one it is a
//! transaction of its own, which runs again after each conflict. A reader's is a snapshot of its own, or the one that
//! the thread holds. The interpreter's lock is not held while a transaction begins, works or
//! commits: one that waits for another thread's would else keep that thread from going on.
//!
//! No frame of this module lies below one of the interpreter: a thread that is left over when the interpreter ends is
//! unwound in a way that Rust does not take. `run` is written in Python for that reason.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use outlast::error::SessionError;
use outlast::medium::Medium;
use outlast::{Abort, BlockKind, ByteRange, PoolOffset, PoolReader, RootKind, Session, Transact};
use pyo3::prelude::*;

use crate::error::{Conflict, Error, closed, of_abort, of_pool, of_read, of_session};
use crate::scope::{Generation, Scope};

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

/// How long a thread waits for a session or a reader where others have all.
const WAIT: Duration = Duration::from_secs(5);

/// After this time of waiting Python's signals have their turn: Ctrl-C ends it.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// A lock that a forked child does not wait for: the thread that had it is its parent's.
struct Guarded<T> {
    mutex: Mutex<T>,
    process: u32,
}

impl<T> Guarded<T> {
    fn new(value: T) -> Self {
        Self { mutex: Mutex::new(value), process: std::process::id() }
    }

    /// Locks it; a panic leaves nothing half done there.
    fn lock(&self) -> PyResult<MutexGuard<'_, T>> {
        match self.mutex.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(error)) => Ok(error.into_inner()),
            Err(TryLockError::WouldBlock) if std::process::id() != self.process => {
                Err(of_abort(Abort::Forked))
            }
            Err(TryLockError::WouldBlock) => {
                Ok(self.mutex.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }
}

/// A pool that is open for writing.
pub struct Writer {
    state: Guarded<Option<Open>>,
    /// A session has become idle.
    given_back: Condvar,
    pub generation: Generation,
    /// How many views there are of the array at a place.
    views: Guarded<HashMap<PoolOffset, usize>>,
}

/// An open pool and its sessions that no thread uses now.
struct Open {
    pool: Arc<outlast::Pool>,
    idle: Vec<(ThreadId, Session)>,
    /// Threads that wait for one.
    waiting: usize,
}

impl Open {
    fn new(pool: Arc<outlast::Pool>) -> Self {
        Self { pool, idle: Vec::new(), waiting: 0 }
    }
}

impl Writer {
    pub fn new(pool: outlast::Pool) -> Self {
        Self {
            state: Guarded::new(Some(Open::new(Arc::new(pool)))),
            given_back: Condvar::new(),
            generation: Generation::default(),
            views: Guarded::new(HashMap::new()),
        }
    }

    /// The pool.
    pub fn pool(&self) -> PyResult<Arc<outlast::Pool>> {
        self.state.lock()?.as_ref().map(|open| open.pool.clone()).ok_or_else(closed)
    }

    pub fn is_open(&self) -> bool {
        self.state.lock().is_ok_and(|open| open.is_some())
    }

    /// A session for this thread: the one that it had last, a new one, or, where the pool has no more, another thread's that
    /// is not in use, waited for if need be. A session goes from thread to thread through the mutex, whose unlocking
    /// orders what was flushed before it on x86-64; elsewhere `run_alone` and `Home::end` leave nothing flushed behind.
    fn take(&self, py: Python<'_>) -> PyResult<Session> {
        let here = thread::current().id();
        let own = |open: &mut Open| {
            let own = open.idle.iter().position(|(thread, _)| *thread == here);
            own.map(|own| open.idle.swap_remove(own).1)
        };
        if let Some(session) = own(self.state.lock()?.as_mut().ok_or_else(closed)?) {
            return Ok(session);
        }
        let until = Instant::now() + WAIT;
        loop {
            if let Some(session) = py.detach(|| self.wait_for_session(until))? {
                return Ok(session);
            }
            py.check_signals()?;
        }
    }

    /// A new session, or one that is idle; `None` after [`PATIENCE`], and the error when the time is over.
    fn wait_for_session(&self, until: Instant) -> PyResult<Option<Session>> {
        let pause = until.min(Instant::now() + PATIENCE);
        let mut open = self.state.lock()?;
        loop {
            let Open { pool, idle, waiting } = open.as_mut().ok_or_else(closed)?;
            let error = match Session::new(pool.clone()) {
                Ok(session) => return Ok(Some(session)),
                Err(error) => error,
            };
            if let Some((_, session)) = idle.pop() {
                return Ok(Some(session));
            }
            let now = Instant::now();
            if now >= until || !matches!(error, outlast::PoolError::NoLane { .. }) {
                return Err(of_pool(error));
            }
            if now >= pause {
                return Ok(None);
            }
            *waiting += 1;
            let waited = self.given_back.wait_timeout(open, pause - now);
            open = waited.unwrap_or_else(PoisonError::into_inner).0;
            if let Some(open) = &mut *open {
                open.waiting = open.waiting.saturating_sub(1);
            }
        }
    }

    fn give_back(&self, session: Session) {
        let Ok(mut state) = self.state.lock() else { return };
        let Some(open) = &mut *state else { return };
        open.idle.push((thread::current().id(), session));
        if open.waiting > 0 {
            self.given_back.notify_one();
        }
    }

    /// Closes the pool. `false` when a transaction or an array's view uses it.
    pub fn close(&self) -> PyResult<bool> {
        let mut state = self.state.lock()?;
        let Some(mut open) = state.take() else { return Ok(true) };
        if open.pool.medium().is_forked() {
            *state = Some(open);
            return Err(of_abort(Abort::Forked));
        }
        open.idle.clear();
        match Arc::try_unwrap(open.pool) {
            Ok(pool) => pool.try_close().map(|_| true).map_err(of_pool),
            Err(pool) => {
                *state = Some(Open::new(pool));
                Ok(false)
            }
        }
    }

    /// Closes the pool, or leaves it to the views of its arrays where nothing else uses it: it is closed with the last.
    pub fn leave(&self) -> PyResult<bool> {
        if self.close()? {
            return Ok(true);
        }
        let mut state = self.state.lock()?;
        let views = self.views.lock()?.values().sum::<usize>();
        let is_left = state.as_ref().is_some_and(|open| Arc::strong_count(&open.pool) == 1 + views);
        if is_left {
            *state = None;
        }
        Ok(is_left)
    }

    /// There is one more view of the array at a place.
    pub fn add_view(&self, at: PoolOffset) {
        if let Ok(mut views) = self.views.lock() {
            *views.entry(at).or_default() += 1;
        }
    }

    /// There is one view less.
    pub fn remove_view(&self, at: PoolOffset) {
        if let Ok(mut views) = self.views.lock()
            && let Some(count) = views.get_mut(&at)
        {
            *count -= 1;
            if *count == 0 {
                views.remove(&at);
            }
        }
    }

    /// Whether an array has views.
    pub fn is_viewed(&self, at: PoolOffset) -> bool {
        self.views.lock().is_ok_and(|views| views.contains_key(&at))
    }

    /// Commits. The order: SCOPE-2, the generation, the views of what it removed, and then the commit itself.
    fn commit(&self, session: &mut Session, scope: &mut Scope) -> Result<(), SessionError> {
        let is_overtaken = scope.is_overtaken(&self.generation);
        scope.end(&self.generation);
        if is_overtaken || scope.removed.iter().any(|at| self.is_viewed(*at)) {
            session.abort()?;
            return Err(Abort::Conflict.into());
        }
        session.commit()?;
        scope.publish();
        Ok(())
    }

    fn undo(&self, session: &mut Session, scope: &Scope) -> Result<(), SessionError> {
        scope.end(&self.generation);
        session.abort()
    }

    /// Works in the session's transaction.
    fn work<R>(
        &self,
        session: &mut Session,
        scope: &mut Scope,
        work: &mut impl FnMut(&mut AnyTx<'_>, &mut Scope) -> Result<R, Abort>,
    ) -> Result<R, SessionError> {
        let done = session.in_transaction(|tx| work(&mut AnyTx(tx), scope));
        // What it read may have been of a structure that is gone.
        match done {
            Err(_) if scope.is_overtaken(&self.generation) => Err(Abort::Conflict.into()),
            done => done,
        }
    }

    /// A transaction for this work alone. A conflict is its result where others have been in the way for [`PATIENCE`].
    fn run_alone<R>(
        &self,
        session: &mut Session,
        work: &mut impl FnMut(&mut AnyTx<'_>, &mut Scope) -> Result<R, Abort>,
    ) -> Result<R, SessionError> {
        let mut until = None;
        loop {
            let mut scope = Scope::default();
            session.begin()?;
            let done = match self.work(session, &mut scope, work) {
                Ok(result) => self.commit(session, &mut scope).map(|()| result),
                Err(error) => self.undo(session, &scope).and(Err(error)),
            };
            match done {
                Err(SessionError::Abort(Abort::Conflict))
                    if Instant::now() < *until.get_or_insert_with(|| Instant::now() + PATIENCE) => {
                }
                done => return done,
            }
        }
    }
}

/// A pool that is open for reading. Each thread reads by a reader of its own, opened when no other is idle.
pub struct Readers {
    path: PathBuf,
    /// `None` once it is closed.
    #[expect(clippy::vec_box, reason = "they go in and out, and are large")]
    idle: Guarded<Option<Vec<Box<PoolReader>>>>,
}

impl Readers {
    pub fn new(path: PathBuf, first: PoolReader) -> Self {
        Self { path, idle: Guarded::new(Some(vec![Box::new(first)])) }
    }

    fn take(&self, py: Python<'_>) -> PyResult<Box<PoolReader>> {
        if let Some(reader) = self.idle.lock()?.as_mut().ok_or_else(closed)?.pop() {
            return Ok(reader);
        }
        py.detach(|| {
            let until = Instant::now() + WAIT;
            loop {
                let error = match outlast::Pool::read(&self.path) {
                    Ok(reader) => return Ok(Box::new(reader)),
                    Err(error) => error,
                };
                // Mostly as many as can be.
                if let Some(reader) = self.idle.lock()?.as_mut().ok_or_else(closed)?.pop() {
                    return Ok(reader);
                }
                if Instant::now() >= until {
                    return Err(of_pool(error));
                }
                thread::sleep(Duration::from_millis(1));
            }
        })
    }

    fn give_back(&self, reader: Box<PoolReader>) {
        if let Ok(mut idle) = self.idle.lock()
            && let Some(idle) = &mut *idle
        {
            idle.push(reader);
        }
    }

    /// Closes it; snapshots that threads hold go on.
    pub fn close(&self) -> PyResult<()> {
        *self.idle.lock()? = None;
        Ok(())
    }

    pub fn is_open(&self) -> bool {
        self.idle.lock().is_ok_and(|idle| idle.is_some())
    }

    /// Works with a reader that is idle.
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut PoolReader) -> R + Send,
    ) -> PyResult<R> {
        let mut reader = self.take(py)?;
        let result = py.detach(|| work(&mut reader));
        self.give_back(reader);
        Ok(result)
    }
}

/// A transaction or a snapshot that a thread has open.
struct Current {
    of: Of,
    /// Set when the object that would end it is gone.
    is_left: Arc<AtomicBool>,
}

enum Of {
    Writer(Arc<Writer>, Session, Scope),
    Readers(Arc<Readers>, Box<PoolReader>),
}

thread_local! {
    static OPEN: RefCell<Vec<Current>> = const { RefCell::new(Vec::new()) };
}

/// Where a structure's operations run.
#[derive(Clone)]
pub enum Home {
    Writer(Arc<Writer>),
    Readers(Arc<Readers>),
}

impl Home {
    fn has(&self, current: &Current) -> bool {
        match (self, &current.of) {
            (Self::Writer(own), Of::Writer(writer, ..)) => Arc::ptr_eq(own, writer),
            (Self::Readers(own), Of::Readers(readers, _)) => Arc::ptr_eq(own, readers),
            _ => false,
        }
    }

    /// Undoes a transaction of this thread that was left. Nothing while an operation of the thread is under way.
    pub fn end_left(&self, py: Python<'_>) {
        if OPEN.try_with(|open| open.try_borrow_mut().is_ok()).unwrap_or(false) {
            self.is_inside(py);
        }
    }

    /// Whether this thread has a transaction of the pool open.
    pub fn is_inside(&self, py: Python<'_>) -> bool {
        let mut left = None;
        let is_inside = OPEN.with_borrow_mut(|open| {
            let Some(place) = open.iter().position(|current| self.has(current)) else {
                return false;
            };
            let is_left = open[place].is_left.load(Ordering::Acquire);
            left = is_left.then(|| open.remove(place));
            !is_left
        });
        if let Some(left) = left {
            let _ = left.end(py, false);
        }
        is_inside
    }

    /// Works in the thread's transaction or snapshot, or in one for this work alone. `work` may run again.
    pub fn run<R: Send>(
        &self,
        py: Python<'_>,
        mut work: impl FnMut(&mut AnyTx<'_>, &mut Scope) -> Result<R, Abort> + Send,
    ) -> PyResult<R> {
        if self.is_inside(py) {
            return OPEN.with_borrow_mut(|open| {
                let current = open.iter_mut().find(|current| self.has(current));
                match &mut current.expect("it is inside").of {
                    Of::Writer(writer, session, scope) => {
                        py.detach(|| writer.work(session, scope, &mut work)).map_err(of_session)
                    }
                    Of::Readers(_, reader) => {
                        let scope = &mut Scope::default();
                        py.detach(|| reader.in_held(|tx| work(&mut AnyTx(tx), scope)))
                            .map_err(of_read)
                    }
                }
            });
        }
        match self {
            Self::Writer(writer) => loop {
                let mut session = writer.take(py)?;
                let result = py.detach(|| writer.run_alone(&mut session, &mut work));
                writer.give_back(session);
                match result {
                    Err(SessionError::Abort(Abort::Conflict)) => py.check_signals()?,
                    result => return result.map_err(of_session),
                }
            },
            Self::Readers(readers) => {
                let scope = &mut Scope::default();
                readers
                    .with(py, |reader| reader.run(|tx| work(&mut AnyTx(tx), scope)))?
                    .map_err(of_read)
            }
        }
    }

    /// Begins a transaction of this thread, or takes a snapshot. When the flag that it returns is set, the thread's next
    /// operation undoes it.
    pub fn begin(&self, py: Python<'_>) -> PyResult<Arc<AtomicBool>> {
        if self.is_inside(py) {
            return Err(Error::new_err(
                "this thread has a transaction of the pool open, and they do not nest: work in that one, as `run` does, or end it first",
            ));
        }
        let of = match self {
            Self::Writer(writer) => {
                let mut session = writer.take(py)?;
                if let Err(error) = py.detach(|| session.begin()) {
                    writer.give_back(session);
                    return Err(of_session(error));
                }
                Of::Writer(writer.clone(), session, Scope::default())
            }
            Self::Readers(readers) => {
                let mut reader = readers.take(py)?;
                if let Err(error) = py.detach(|| reader.hold()) {
                    readers.give_back(reader);
                    return Err(of_read(error));
                }
                Of::Readers(readers.clone(), reader)
            }
        };
        let is_left = Arc::new(AtomicBool::new(false));
        OPEN.with_borrow_mut(|open| open.push(Current { of, is_left: is_left.clone() }));
        Ok(is_left)
    }

    /// Ends the transaction of this thread: makes it durable, or undoes it. Ends its snapshot.
    pub fn end(&self, py: Python<'_>, commits: bool) -> PyResult<()> {
        let found = OPEN.with_borrow_mut(|open| {
            let place = open.iter().position(|current| self.has(current))?;
            Some(open.remove(place))
        });
        found.ok_or_else(|| of_session(SessionError::NoTransaction))?.end(py, commits)
    }
}

impl Current {
    fn end(self, py: Python<'_>, commits: bool) -> PyResult<()> {
        match self.of {
            Of::Writer(writer, mut session, mut scope) => {
                let ended = py.detach(|| match commits {
                    true => writer.commit(&mut session, &mut scope),
                    false => writer.undo(&mut session, &scope),
                });
                writer.give_back(session);
                ended.map_err(of_session)
            }
            Of::Readers(readers, mut reader) => {
                let is_whole = py.detach(|| reader.release());
                readers.give_back(reader);
                is_whole.then_some(()).ok_or_else(|| {
                    Conflict::new_err(
                        "the snapshot was overtaken by its writer: read again, or less at a time",
                    )
                })
            }
        }
    }
}
