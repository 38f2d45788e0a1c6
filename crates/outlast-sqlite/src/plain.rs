//! Plain database files into pools and out of them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use outlast::{Pool, PoolError, Runner};

use crate::changes::Changes;
use crate::database::{self, Database, OpenError, PLAIN_MAGIC};
use crate::options::DatabaseOptions;
use crate::store::Store;

/// Bytes that one transaction moves.
const STEP_BYTES: usize = 4 << 20;

/// Bytes of the header of a database file.
const HEADER_BYTES: usize = 100;

/// In the header: the versions that say whether the file wants a write-ahead log, one byte each.
const VERSIONS: std::ops::Range<usize> = 18..20;

/// The version of a file with a rollback journal.
const ROLLBACK: u8 = 1;

/// A file that could not be moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// Not a database of SQLite.
    #[error("{}: no SQLite database: it does not begin with `SQLite format 3`", .0.display())]
    NotPlain(PathBuf),
    /// It has a log.
    #[error(
        "{}: its write-ahead log is not empty: `sqlite3 {} 'pragma wal_checkpoint(truncate)'` first",
        .0.display(),
        .0.display()
    )]
    Log(PathBuf),
    /// It has a journal.
    #[error(
        "{}: a transaction is to be rolled back, or under way: end its programs, then `sqlite3 {} 'pragma schema_version'`",
        .0.display(),
        .0.display()
    )]
    Journal(PathBuf),
    /// A writer.
    #[error("{}: was changed while it was read: end its programs first", .0.display())]
    Changed(PathBuf),
    /// Nothing is overwritten.
    #[error("{}: exists already and is not overwritten; remove it or take another name", .0.display())]
    Exists(PathBuf),
    /// The file system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The pool.
    #[error("{}: {source}", path.display())]
    Pool {
        /// The pool's file.
        path: PathBuf,
        /// Why.
        source: PoolError,
    },
    /// The pool as a database.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A transaction of the pool.
    #[error("{}: {source}", path.display())]
    Abort {
        /// The pool's file.
        path: PathBuf,
        /// Why.
        source: outlast::Abort,
    },
}

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, MoveError> {
    result.map_err(|source| MoveError::Io { path: path.to_owned(), source })
}

fn refuse_existing(path: &Path) -> Result<(), MoveError> {
    match path.symlink_metadata() {
        Ok(_) => Err(MoveError::Exists(path.to_owned())),
        Err(_) => Ok(()),
    }
}

fn named_with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A new file under a name beside its own, removed unless it was completed.
struct Unfinished {
    new: PathBuf,
}

impl Unfinished {
    fn of(path: &Path) -> Self {
        Self { new: database::beside(path) }
    }

    /// Gives the file its name, durably.
    fn complete(self, path: &Path) -> Result<(), MoveError> {
        at(path, database::give_name(&self.new, path))?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        at(directory, File::open(directory).and_then(|directory| directory.sync_all()))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.new);
    }
}

/// Makes a pool of a plain database file, which stays as it is. Returns the database's bytes.
///
/// # Errors
/// [`MoveError`]; there is no pool then.
pub fn import(plain: &Path, pool: &Path, options: &DatabaseOptions) -> Result<u64, MoveError> {
    refuse_existing(pool)?;
    let mut file = at(plain, File::open(plain))?;
    let before = state_of(plain, &mut file)?;
    let unfinished = Unfinished::of(pool);
    let options = DatabaseOptions {
        // Room for the tables, and to change something.
        size_bytes: options.size_bytes.max(before.len + before.len / 8 + (8 << 20)),
        limit_bytes: options.limit_bytes.max(4 * before.len),
        ..options.clone()
    };
    fill(plain, &mut file, before.len, &unfinished.new, &options)?;
    if state_of(plain, &mut file)? != before {
        return Err(MoveError::Changed(plain.to_owned()));
    }
    unfinished.complete(pool)?;
    Ok(before.len)
}

/// The marks by which a change of a plain file is seen.
#[derive(PartialEq, Eq)]
struct PlainState {
    len: u64,
    modified: Option<std::time::SystemTime>,
    header: Vec<u8>,
}

fn state_of(plain: &Path, file: &mut File) -> Result<PlainState, MoveError> {
    let metadata = at(plain, file.metadata())?;
    let mut header = Vec::new();
    at(plain, file.seek(SeekFrom::Start(0)))?;
    at(plain, (&*file).take(HEADER_BYTES as u64).read_to_end(&mut header))?;
    // An empty file is an empty database.
    if !header.is_empty() && (!header.starts_with(PLAIN_MAGIC) || header.len() < HEADER_BYTES) {
        return Err(MoveError::NotPlain(plain.to_owned()));
    }
    let is_there = |suffix: &str| {
        let mut first = [0];
        let journal = File::open(named_with(plain, suffix));
        journal.and_then(|mut journal| journal.read_exact(&mut first)).is_ok_and(|()| first != [0])
    };
    if is_there("-wal") {
        return Err(MoveError::Log(plain.to_owned()));
    }
    if is_there("-journal") {
        return Err(MoveError::Journal(plain.to_owned()));
    }
    at(plain, file.seek(SeekFrom::Start(0)))?;
    Ok(PlainState { len: metadata.len(), modified: metadata.modified().ok(), header })
}

fn fill(
    plain: &Path,
    file: &mut File,
    len: u64,
    new: &Path,
    options: &DatabaseOptions,
) -> Result<(), MoveError> {
    let failed = |source| MoveError::Pool { path: new.to_owned(), source };
    let create = options.create();
    let pool = Pool::create_with(new, options.size_bytes, &create, &options.open(), &options.map());
    let pool = pool.map_err(failed)?;
    let moved = pool.lane().map_err(failed).and_then(|mut lane| {
        let aborted = |source| MoveError::Abort { path: new.to_owned(), source };
        let mut store = lane.run(Store::create).map_err(aborted)?;
        let mut bytes = vec![0; STEP_BYTES];
        while store.len() < len {
            let from = store.len();
            let part = &mut bytes[..(len - from).min(STEP_BYTES as u64) as usize];
            at(plain, file.read_exact(part))?;
            if from == 0 {
                // The VFS has no write-ahead log.
                part[VERSIONS].fill(ROLLBACK);
            }
            let mut changes = Changes::default();
            let taken = changes.write(from, part, from, |_, out: &mut [u8]| out.fill(0));
            at(new, taken.map_err(|_| io::ErrorKind::OutOfMemory.into()))?;
            store.commit(&mut lane, &changes).map_err(aborted)?;
        }
        Ok(())
    });
    pool.close();
    moved
}

/// Copies the database of a pool into a plain file; the pool stays as it is. Returns the database's bytes.
///
/// # Errors
/// [`MoveError`]; there is no file then.
pub fn export(pool: &Path, plain: &Path, options: &DatabaseOptions) -> Result<u64, MoveError> {
    refuse_existing(plain)?;
    let database = Database::open_image(pool, options)?;
    let unfinished = Unfinished::of(plain);
    let mut file = at(plain, File::create_new(&unfinished.new))?;
    let len = database.stored_len();
    let mut bytes = vec![0; STEP_BYTES];
    for from in (0..len).step_by(STEP_BYTES) {
        let part = &mut bytes[..(len - from).min(STEP_BYTES as u64) as usize];
        database.read_stored(from, part);
        at(plain, file.write_all(part))?;
    }
    at(plain, file.sync_all())?;
    unfinished.complete(plain)?;
    Ok(len)
}
