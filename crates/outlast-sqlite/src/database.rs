//! An open database: its pool, its file in there, the locks between connections, the journal.
//!
//! * **DATABASE-1** Only a connection at `EXCLUSIVE` has changes, and their end is the end of SQLite's
//!   journal. Others read what is stored, without a transaction of the pool: nothing stores there
//!   meanwhile.
//! * **DATABASE-2** A connection that lowers its lock leaves neither changes nor a journal: what it has not
//!   committed is undone by forgetting it.

use std::collections::TryReserveError;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use outlast::medium::{Mapped, Medium, Overlay};
use outlast::recover::RecoveredPool;
use outlast::{Abort, Pool, PoolError, PoolOffset, Runner, Session};
use outlast_pmem::MapError;

use crate::changes::{Base, Changes};
use crate::held::HeldSession;
use crate::journal::Journal;
use crate::locks::{Busy, Level, Locks};
use crate::options::DatabaseOptions;
use crate::store::{Scratch, Store, StoreError};
use crate::stub::Stub;

/// A database that could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file of SQLite's own.
    #[error(
        "{0}: a plain SQLite database, not a pool: `outlast sqlite import {0} POOL` makes a pool of it"
    )]
    Plain(String),
    /// There is no file, and none was to be created.
    #[error("{0}: there is no such file")]
    NotFound(String),
    /// Another process has it.
    #[error("{0}: the pool is open in another process; one at a time can have it")]
    InUse(String),
    /// This process is a forked child of the one that opened it.
    #[error("{0}: {forked}", forked = Abort::Forked)]
    Forked(String),
    /// A transaction over several databases is neither committed nor rolled back here.
    #[error("{0}: a transaction over several databases is to be settled: open it for writing once")]
    Unsettled(String),
    /// The pool has another root.
    #[error("{0}: {1}")]
    NoDatabase(String, StoreError),
    /// The pool.
    #[error("{0}: {1}")]
    Pool(String, PoolError),
    /// The file system.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
}

/// How a connection has asked for a database.
pub(crate) struct Request {
    pub path: PathBuf,
    pub options: DatabaseOptions,
    pub can_write: bool,
    pub creates: bool,
}

impl Request {
    /// Opens it, as [`open`] does.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&self) -> Result<(Arc<Database>, bool), OpenError> {
        open(&self.path, &self.options, self.can_write, self.creates)
    }
}

/// A write that failed.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The system has no memory for it.
    Memory(#[allow(dead_code)] TryReserveError),
    /// It was to be spilled into the pool.
    Abort(Abort),
}

/// The first bytes of a pool.
const POOL_MAGIC: &[u8; 7] = b"OUTLAST";

/// The first bytes of a plain SQLite database.
pub(crate) const PLAIN_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Where the bytes are.
enum Backing {
    /// A pool that runs transactions.
    Pool(Arc<Pool>),
    /// One that is only read, as recovery would leave it.
    Image(Box<RecoveredPool<Overlay<Mapped>>>),
    /// Closed.
    Closed,
}

/// An open database, which the connections of the process share.
pub struct Database {
    backing: Backing,
    store: RwLock<Store>,
    /// That of the store, for those who ask for nothing else.
    stored_len: AtomicU64,
    state: Mutex<State>,
    stub: Stub,
    spill_bytes: usize,
}

/// The part of a database that changes while a transaction of SQLite runs.
pub(crate) struct State {
    /// The session that commits, once one has.
    held: Option<HeldSession>,
    scratch: Scratch,
    /// Bytes of changes from which on they are spilled.
    spill_at: usize,
    /// Transactions over several databases that were prepared here.
    prepared: u64,
    /// Transactions that SQLite has handed over as batch-atomic writes.
    pub batches: u64,
    pub locks: Locks,
    pub changes: Changes,
    pub journal: Journal,
}

/// An open file of this process.
struct Entry {
    id: FileId,
    /// The names that it was opened by.
    names: Vec<PathBuf>,
    database: Weak<Database>,
}

/// The kind of a file, by its content.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

/// The databases that are open in this process.
static OPEN: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the database in a pool, or another connection to it. Without a file, or with an empty one, a
/// pool is created if that is wanted. `can_write` is whether the file is to be changed; what is
/// returned says whether it can be.
///
/// # Errors
/// [`OpenError`]; the file is as it was.
pub fn open(
    path: &Path,
    options: &DatabaseOptions,
    can_write: bool,
    creates: bool,
) -> Result<(Arc<Database>, bool), OpenError> {
    let mut open = lock(&OPEN);
    open.retain(|entry| entry.database.strong_count() > 0);
    let name = path.display().to_string();
    let id = match std::fs::metadata(path) {
        Ok(metadata) if metadata.len() > 0 || !metadata.is_file() => Some(FileId::of(&metadata)),
        Ok(_) => None,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(OpenError::Io(name, error)),
    };
    if let Some(entry) = open.iter_mut().find(|entry| Some(entry.id) == id)
        && let Some(database) = entry.database.upgrade()
    {
        if database.is_forked() {
            return Err(OpenError::Forked(name));
        }
        if !entry.names.iter().any(|other| other == path) {
            entry.names.push(path.to_owned());
        }
        if database.is_read_only() && can_write && is_writable(path) {
            // It was opened before by a connection that only reads.
            return Err(OpenError::InUse(name));
        }
        let can_write = can_write && !database.is_read_only();
        return Ok((database, can_write));
    }
    let database = match id {
        Some(_) if can_write && is_writable(path) => Database::open(path, options)?,
        Some(_) => Database::open_image(path, options)?,
        None if creates && can_write => Database::create(path, options)?,
        None => return Err(OpenError::NotFound(name)),
    };
    let metadata = std::fs::metadata(path).map_err(|error| OpenError::Io(name, error))?;
    let database = Arc::new(database);
    let id = FileId::of(&metadata);
    let can_write = can_write && !database.is_read_only();
    let names = vec![path.to_owned()];
    open.push(Entry { id, names, database: Arc::downgrade(&database) });
    Ok((database, can_write))
}

/// Ends a use of a database. The last one closes the pool, before anyone can find it missing among the open ones
/// and locked all the same.
pub(crate) fn close(database: Arc<Database>) {
    let _open = lock(&OPEN);
    drop(database);
}

/// Calls `body` with the open database whose file has that name, followed by `suffix`; `None` if there is none.
/// No database is opened or closed meanwhile.
pub(crate) fn with<R>(
    path: &[u8],
    suffix: &str,
    body: impl FnOnce(&Arc<Database>) -> R,
) -> Option<R> {
    let stem = path.strip_suffix(suffix.as_bytes())?;
    let open = lock(&OPEN);
    let is_it = |name: &PathBuf| name.as_os_str().as_encoded_bytes() == stem;
    let entry = open.iter().find(|entry| entry.names.iter().any(is_it))?;
    // Dropped before the lock is: if it is the last one, the pool is closed under it.
    entry.database.upgrade().map(|database| body(&database))
}

impl FileId {
    #[cfg(unix)]
    fn of(metadata: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(metadata.dev(), metadata.ino())
    }
}

fn is_writable(path: &Path) -> bool {
    std::fs::OpenOptions::new().write(true).open(path).is_ok()
}

/// A name beside that one, for a file that is not complete yet.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!("-outlast{}", std::process::id()));
    name.into()
}

/// Gives a whole file its name, durably. Another one of that name is replaced only if it is empty, and only by one process: the
/// empty file's lock is held meanwhile, and one that comes later finds another file under the name.
///
/// # Errors
/// `AlreadyExists` where there is a file that is not empty.
pub(crate) fn give_name(new: &Path, path: &Path) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0) {
        let empty = std::fs::File::open(path)?;
        empty.lock()?;
        let (known, found) = (empty.metadata()?, std::fs::metadata(path)?);
        if found.len() == 0 && FileId::of(&known) == FileId::of(&found) {
            std::fs::rename(new, path)?;
            return sync_directory_of(path);
        }
    }
    std::fs::hard_link(new, path)?;
    std::fs::remove_file(new)?;
    sync_directory_of(path)
}

/// Makes a file's name durable: commits sync the file alone, and data that no name leads to is lost.
#[cfg(unix)]
fn sync_directory_of(path: &Path) -> std::io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    std::fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// Elsewhere directories cannot be opened; the file system sees to names itself.
#[cfg(not(unix))]
fn sync_directory_of(_path: &Path) -> std::io::Result<()> {
    Ok(())
}

fn beginning<const BYTES: usize>(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    std::fs::File::open(path)?.take(BYTES as u64).read_to_end(&mut begin)?;
    Ok(begin)
}

fn is_plain(path: &Path) -> bool {
    beginning::<16>(path).is_ok_and(|begin| begin == PLAIN_MAGIC)
}

/// Whether a pool is there, or may be created.
pub(crate) fn may_be_a_pool(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => false,
        Ok(metadata) if metadata.len() == 0 => true,
        // What cannot be read gets an error of the pool's.
        Ok(_) => beginning::<7>(path).map_or(true, |begin| begin == POOL_MAGIC),
        Err(_) => true,
    }
}

fn why(path: &Path, error: PoolError) -> OpenError {
    let name = path.display().to_string();
    match error {
        PoolError::NotAPool { .. } if is_plain(path) => OpenError::Plain(name),
        PoolError::NotAPool { .. } => OpenError::Pool(name, PoolError::NotAPool { path: None }),
        PoolError::Map(MapError::AlreadyOpen { .. }) => OpenError::InUse(name),
        error => OpenError::Pool(name, error),
    }
}

/// Finds the file of a pool in one transaction.
fn find_store<R: Runner>(runner: &mut R) -> Result<Option<Store>, StoreError> {
    runner.run(|tx| match Store::open(tx) {
        Err(StoreError::Abort(abort)) => Err(abort),
        other => Ok(other),
    })?
}

/// Settles what waits for the end of a super-journal: as long as that is there, the transaction has not
/// committed.
fn settled<R: Runner>(runner: &mut R, mut store: Store, path: &Path) -> Result<Store, StoreError> {
    let was_prepared = store.is_prepared();
    store.settle(runner, |super_journal| {
        match Path::new(OsStr::from_bytes(super_journal)).symlink_metadata() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    })?;
    if was_prepared {
        Stub::of(path).remove();
    }
    Ok(store)
}

impl Database {
    fn of(backing: Backing, store: Store, path: &Path, options: &DatabaseOptions) -> Self {
        let spill_bytes = usize::try_from(options.spill_bytes).unwrap_or(usize::MAX);
        let state = State {
            held: None,
            scratch: Scratch::default(),
            spill_at: spill_bytes,
            prepared: 0,
            batches: 0,
            locks: Locks::default(),
            changes: Changes::default(),
            journal: Journal::default(),
        };
        Self {
            backing,
            stored_len: AtomicU64::new(store.len()),
            store: RwLock::new(store),
            state: Mutex::new(state),
            stub: Stub::of(path),
            spill_bytes,
        }
    }

    fn of_pool(pool: Pool, path: &Path, options: &DatabaseOptions) -> Result<Self, OpenError> {
        let store = pool.lane().map_err(|error| why(path, error)).and_then(|mut lane| {
            find_store(&mut lane)
                .and_then(|found| match found {
                    Some(store) => settled(&mut lane, store, path),
                    None => Ok(lane.run(Store::create)?),
                })
                .map_err(|error| OpenError::NoDatabase(path.display().to_string(), error))
        });
        match store {
            Ok(store) => Ok(Self::of(Backing::Pool(Arc::new(pool)), store, path, options)),
            Err(error) => {
                pool.close();
                Err(error)
            }
        }
    }

    fn open(path: &Path, options: &DatabaseOptions) -> Result<Self, OpenError> {
        let pool = Pool::open_with(path, &options.open(), &options.map());
        Self::of_pool(pool.map_err(|error| why(path, error))?, path, options)
    }

    pub(crate) fn open_image(path: &Path, options: &DatabaseOptions) -> Result<Self, OpenError> {
        let pool = RecoveredPool::open_overlaid(path, &options.map());
        let pool = pool.map_err(|error| why(path, error))?;
        let name = || path.display().to_string();
        match find_store(&mut pool.reader()) {
            Ok(Some(store)) if store.is_prepared() => {
                // What it says now depends on a super-journal, and only a writer can settle that.
                Err(OpenError::Unsettled(name()))
            }
            Ok(Some(store)) => Ok(Self::of(Backing::Image(Box::new(pool)), store, path, options)),
            Ok(None) => Err(OpenError::NoDatabase(name(), StoreError::NoDatabase)),
            Err(error) => Err(OpenError::NoDatabase(name(), error)),
        }
    }

    /// Creates a pool under a name beside, and renames it when it is whole: no other process finds a part of it.
    fn create(path: &Path, options: &DatabaseOptions) -> Result<Self, OpenError> {
        let new = beside(path);
        let pool = Pool::create_with(
            &new,
            options.size_bytes,
            &options.create(),
            &options.open(),
            &options.map(),
        );
        let database = Self::of_pool(pool.map_err(|error| why(path, error))?, path, options);
        let named = database.and_then(|database| {
            give_name(&new, path).map_err(|error| {
                let name = path.display().to_string();
                match error.kind() {
                    // Another process was faster.
                    std::io::ErrorKind::AlreadyExists => OpenError::InUse(name),
                    _ => OpenError::Io(name, error),
                }
            })?;
            Ok(database)
        });
        named.inspect_err(|_| _ = std::fs::remove_file(&new))
    }

    /// Whether nothing can be changed.
    pub fn is_read_only(&self) -> bool {
        !matches!(self.backing, Backing::Pool(_))
    }

    /// Whether this process is a forked child of the one that opened the pool. It has copies of the locks and of what
    /// was found in the pool, which its parent goes on changing.
    pub(crate) fn is_forked(&self) -> bool {
        matches!(&self.backing, Backing::Pool(pool) if pool.medium().is_forked())
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn load(&self, at: PoolOffset, out: &mut [u8]) {
        match &self.backing {
            Backing::Pool(pool) => pool.medium().load(at, out),
            Backing::Image(pool) => pool.medium().load(at, out),
            Backing::Closed => out.fill(0),
        }
    }

    /// Bytes of the file as the last transaction has left it.
    pub fn stored_len(&self) -> u64 {
        self.stored_len.load(Ordering::Acquire)
    }

    /// Reads what the last transaction has left; bytes behind the end are zeros. Returns the file's length.
    pub fn read_stored(&self, at: u64, out: &mut [u8]) -> u64 {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        store.read(at, out, |at, out| self.load(at, out));
        store.len()
    }

    /// Reads for the connection that writes. Returns the file's length.
    pub(crate) fn read_changed(&self, state: &State, at: u64, out: &mut [u8]) -> u64 {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        state.changes.read(at, out, store.len(), Stored { database: self, store: &store });
        state.changes.len(store.len())
    }

    /// Writes for the connection that writes. Where that makes too many changes for volatile memory, they are spilled.
    pub(crate) fn write(&self, state: &mut State, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
        {
            let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
            let base = Stored { database: self, store: &store };
            let written = state.changes.write(at, bytes, store.len(), base);
            written.map_err(WriteError::Memory)?;
        }
        if state.changes.bytes() < state.spill_at {
            return Ok(());
        }
        match self.spill(state) {
            // An update in place may have room where copies have none: the commit tells.
            Err(Abort::OutOfSpace { .. } | Abort::LogFull { .. }) => {
                state.spill_at = state.spill_at.max(state.changes.bytes()).saturating_mul(2);
                Ok(())
            }
            done => done.map_err(WriteError::Abort),
        }
    }

    /// Moves changes into the pool, where no table leads to them.
    fn spill(&self, state: &mut State) -> Result<(), Abort> {
        let Backing::Pool(pool) = &self.backing else { return Err(Abort::ReadOnly) };
        let mut held = held_session(pool, state)?;
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        let State { changes, scratch, .. } = state;
        let done = loop {
            match held.run(|tx| store.spill_some(tx, changes, scratch)) {
                Ok(Some((next, extents))) => {
                    store.adopt(next);
                    changes.spill(extents);
                }
                Ok(None) => break Ok(()),
                Err(abort) => break Err(abort),
            }
        };
        state.held = Some(held);
        done
    }

    /// Forgets all changes.
    pub(crate) fn forget(&self, state: &mut State) {
        state.changes.clear();
        state.spill_at = self.spill_bytes;
        // Prepared changes may lead to spilled extents; their end frees both.
        if self.has_spilled() && !self.is_prepared() {
            // The next commit or opening frees what an error leaves.
            let _ = self.free_spilled(state);
        }
    }

    fn free_spilled(&self, state: &mut State) -> Result<(), Abort> {
        let Backing::Pool(pool) = &self.backing else { return Err(Abort::ReadOnly) };
        let mut held = held_session(pool, state)?;
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        let done = loop {
            if !store.has_spilled() {
                break Ok(());
            }
            match held.run(|tx| store.free_list(tx)) {
                Ok(next) => store.adopt(next),
                Err(abort) => break Err(abort),
            }
        };
        state.held = Some(held);
        done
    }

    /// Writes to the journal. `true` when that ends its transaction.
    pub(crate) fn write_journal(
        &self,
        state: &mut State,
        at: u64,
        bytes: &[u8],
    ) -> Result<bool, TryReserveError> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        let base = Stored { database: self, store: &store };
        state.journal.write(at, bytes, |at, out| base.load_stored(at, out))
    }

    /// Reads from the journal; returns how many bytes there were.
    pub(crate) fn read_journal(&self, state: &State, at: u64, out: &mut [u8]) -> usize {
        state.journal.read(at, out, |at, out| _ = self.read_stored(at, out))
    }

    /// Makes the journal shorter or longer.
    pub(crate) fn set_journal_len(&self, state: &mut State, len: u64) {
        state.journal.set_len(len, |at, out| _ = self.read_stored(at, out));
    }

    pub(crate) fn set_len(&self, state: &mut State, len: u64) {
        let stored_len = self.stored_len();
        state.changes.set_len(len, stored_len);
    }

    /// Makes what was written durable, in one transaction of the pool. After an error it is undone, and the
    /// journal with it: SQLite has nothing to play back.
    pub(crate) fn commit(&self, state: &mut State) -> Result<(), Abort> {
        let was_prepared = self.is_prepared();
        if state.changes.is_empty() && !was_prepared {
            return Ok(());
        }
        let done = self.commit_changes(state);
        self.forget(state);
        if was_prepared && done.is_ok() {
            self.stub.remove();
        }
        if done.is_err() {
            state.journal.delete();
        }
        done
    }

    fn commit_changes(&self, state: &mut State) -> Result<(), Abort> {
        let Backing::Pool(pool) = &self.backing else { return Err(Abort::ReadOnly) };
        // A panic drops the session, which undoes its transaction.
        let mut held = held_session(pool, state)?;
        let State { changes, scratch, .. } = state;
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        let next = held.run(|tx| store.apply(tx, changes, scratch));
        state.held = Some(held);
        store.adopt(next?);
        self.stored_len.store(store.len(), Ordering::Release);
        Ok(())
    }

    /// Makes the changes durable without making them the file's: they wait for the end of a super-journal. If
    /// that is there after a crash they are forgotten, if not they become the file's.
    pub(crate) fn prepare(&self, state: &mut State, super_journal: &[u8]) -> Result<(), Abort> {
        if state.changes.is_empty() {
            return Ok(());
        }
        let Backing::Pool(pool) = &self.backing else { return Err(Abort::ReadOnly) };
        self.stub.write(super_journal).map_err(|error| Abort::peer(error.to_string()))?;
        let mut held = held_session(pool, state)?;
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        let next = held.run(|tx| store.prepare(tx, &state.changes, super_journal));
        state.held = Some(held);
        store.adopt(next?);
        state.prepared += 1;
        Ok(())
    }

    pub(crate) fn raise(&self, level: &mut Level, to: Level) -> Result<(), Busy> {
        self.state().locks.raise(level, to)
    }

    /// DATABASE-2.
    pub(crate) fn lower(&self, level: &mut Level, to: Level) {
        let mut state = self.state();
        if state.locks.lower(level, to) {
            if !state.changes.is_empty() {
                self.forget(&mut state);
                state.journal.delete();
            }
            if self.is_prepared() {
                // Only an error can have left it, and another one leaves it to the next opening.
                let _ = self.commit(&mut state);
            }
        }
    }

    fn has_spilled(&self) -> bool {
        self.store.read().unwrap_or_else(PoisonError::into_inner).has_spilled()
    }

    fn is_prepared(&self) -> bool {
        self.store.read().unwrap_or_else(PoisonError::into_inner).is_prepared()
    }

    /// A line about the pool.
    pub fn about(&self) -> String {
        match &self.backing {
            Backing::Pool(pool) => {
                let (prepared, batches) = {
                    let state = self.state();
                    (state.prepared, state.batches)
                };
                format!(
                    "scheme={} domain={} bytes={} commits={} prepared={prepared} batches={batches}",
                    pool.scheme(),
                    pool.medium().domain(),
                    pool.medium().len(),
                    pool.commits(),
                )
            }
            Backing::Image(pool) => format!("read-only bytes={}", pool.medium().len()),
            Backing::Closed => String::new(),
        }
    }
}

/// The stored database below changes.
struct Stored<'d> {
    database: &'d Database,
    store: &'d Store,
}

impl Base for Stored<'_> {
    fn load_stored(&self, at: u64, out: &mut [u8]) {
        self.store.read(at, out, |at, out| self.database.load(at, out));
    }

    fn load_block(&self, at: PoolOffset, out: &mut [u8]) {
        self.database.load(at, out);
    }
}

/// The session that commits. It comes back to the state when it is done.
fn held_session(pool: &Arc<Pool>, state: &mut State) -> Result<HeldSession, Abort> {
    if let Some(held) = state.held.take() {
        return Ok(held);
    }
    let session = Session::new(Arc::clone(pool));
    Ok(HeldSession::new(session.map_err(|error| Abort::peer(error.to_string()))?))
}

impl Drop for Database {
    /// Leaves an empty log, so that the pool can be read without recovery.
    fn drop(&mut self) {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).held = None;
        if let Backing::Pool(pool) = std::mem::replace(&mut self.backing, Backing::Closed)
            && let Some(pool) = Arc::into_inner(pool)
        {
            pool.close();
        }
    }
}

#[cfg(test)]
mod tests;
