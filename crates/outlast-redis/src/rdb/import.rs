//! Moving in: a file that a redis-server has saved becomes the databases of a pool.
//!
//! The file is read twice. The first time nothing is stored: a file that is damaged, or has something that
//! there is no place for, changes nothing. The second time keys are stored in transactions of some dozens;
//! a large value grows, piece by piece, in a database that clients do not see, and is moved to its own when it is
//! whole. The root notes that an import runs. A pool in which it has not ended is not served; the next
//! import into it begins from nothing.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use outlast::medium::Mapped;
use outlast::{Abort, Lane, Pool, PoolError, Runner};

use super::file::{File, Item};
use super::value::{Value, store};
use super::{RdbError, Read};
use crate::store::mem::Mem;
use crate::store::table::Content;
use crate::store::{Changes, DATABASES, IMPORT_DATABASE, Keys, Root, garbage};
use outlast_workloads::Random;

/// Keys and bytes of one transaction.
const KEYS_MAX: usize = 64;
const BYTES_MAX: usize = 32 << 10;

/// Counts of the keys taken over.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Imported {
    /// Keys that are in the pool now.
    pub keys: u64,
    /// Keys whose deadline had passed: they were left out.
    pub expired: u64,
    /// Libraries of functions: they were left out.
    pub functions: u64,
}

/// Why a file was not taken over.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read, or is damaged. Nothing was changed.
    #[error("{path}: at byte {at}: {error}; nothing was changed")]
    File {
        /// The file.
        path: PathBuf,
        /// How far it was read.
        at: u64,
        /// The reason.
        error: RdbError,
    },
    /// The pool has keys.
    #[error("the pool has keys: import into a new one")]
    HasKeys,
    /// The pool gives no lane.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The pool could not take a key.
    #[error(
        "the key '{key}' of database {database}: {abort}; the pool is not served until an import \
         into it has ended: remove it, or import again with more room"
    )]
    Key {
        /// The key.
        key: String,
        /// Its database.
        database: u64,
        /// The reason.
        abort: Abort,
    },
    /// A transaction beside those of keys has failed.
    #[error(transparent)]
    Abort(#[from] Abort),
}

/// Reads a file as [`import`] does, and stores nothing: for a command that makes a pool only for a file
/// that can be taken over.
///
/// # Errors
/// [`ImportError::File`].
pub fn verify(path: &Path) -> Result<(), ImportError> {
    read(path, &mut |_| Ok(())).map(drop)
}

/// Takes over a file into a pool without keys.
///
/// # Errors
/// [`ImportError`]. Whatever happens, no pool with a part of the file is ever served.
pub fn import(pool: &Pool, path: &Path) -> Result<Imported, ImportError> {
    let mut lane = pool.lane()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let is_empty = lane.run(|tx| match tx_root(tx)? {
        None => Ok(true),
        Some(root) => Ok(root.is_importing(tx)? || count_keys(tx, root)? == 0),
    })?;
    if !is_empty {
        return Err(ImportError::HasKeys);
    }
    read(path, &mut |_| Ok(()))?;
    let root = lane.run(|tx| {
        let root = Root::open(tx)?;
        root.set_importing(tx, true)?;
        for database in 0..=IMPORT_DATABASE {
            with_keys(tx, root, database, now, |keys| keys.flush())?;
        }
        Ok(root)
    })?;
    let mut store =
        Store { lane, root, now, batch: Vec::new(), bytes: 0, done: Imported::default() };
    store.free_all()?;
    let functions = read(path, &mut |item| store.take(item))?;
    store.flush()?;
    store.lane.run(|tx| {
        with_keys(tx, root, IMPORT_DATABASE, now, |keys| keys.flush())?;
        root.set_importing(tx, false)
    })?;
    store.free_all()?;
    Ok(Imported { functions, ..store.done })
}

/// The root of a pool that has one.
fn tx_root(tx: &mut Mem<'_>) -> Result<Option<Root>, Abort> {
    match tx.root()? {
        None => Ok(None),
        Some(_) => Root::open(tx).map(Some),
    }
}

fn count_keys(tx: &mut Mem<'_>, root: Root) -> Result<u64, Abort> {
    let mut count = 0;
    for database in 0..DATABASES {
        count += with_keys(tx, root, database, 0, |keys| keys.len())?;
    }
    Ok(count)
}

fn with_keys<T>(
    tx: &mut Mem<'_>,
    root: Root,
    database: usize,
    now: u64,
    run: impl FnOnce(&mut Keys<'_>) -> Result<T, Abort>,
) -> Result<T, Abort> {
    let (mut changes, mut random) = (Changes::default(), Random::from_state(1));
    let (changes, random) = (&mut changes, &mut random);
    run(&mut Keys { mem: tx, root, database, now, changes, random })
}

/// Reads a file and hands on its keys. Returns how many libraries of functions it has.
fn read(
    path: &Path,
    take: &mut dyn FnMut(Item) -> Result<(), ImportError>,
) -> Result<u64, ImportError> {
    let failed = |at, error| ImportError::File { path: path.to_owned(), at, error };
    let inner = std::fs::File::open(path).map_err(|error| failed(0, error.into()))?;
    let mut file =
        File::open(BufReader::with_capacity(1 << 16, inner)).map_err(|error| failed(0, error))?;
    loop {
        let next = file.next().and_then(checked);
        match next.map_err(|error| failed(file.at(), error))? {
            Some(item) => take(item)?,
            None => return Ok(file.functions),
        }
    }
}

fn checked(item: Option<Item>) -> Read<Option<Item>> {
    match &item {
        Some(item) if item.database >= DATABASES as u64 => {
            super::bad(format!("database {}: there are {DATABASES}", item.database))
        }
        _ => Ok(item),
    }
}

/// Stores keys.
struct Store<'p> {
    lane: Lane<'p, Mapped>,
    root: Root,
    now: u64,
    batch: Vec<Item>,
    bytes: usize,
    done: Imported,
}

fn failed(item: &Item, abort: Abort) -> ImportError {
    let key = String::from_utf8_lossy(&item.key).escape_debug().to_string();
    ImportError::Key { key, database: item.database, abort }
}

impl Store<'_> {
    fn take(&mut self, item: Item) -> Result<(), ImportError> {
        if item.deadline.is_some_and(|deadline| deadline <= self.now) {
            self.done.expired += 1;
            return Ok(());
        }
        let Item { database, key, value, deadline } = item;
        let mut pieces = value.into_pieces();
        self.done.keys += 1;
        if let [_] = pieces[..]
            && let Some(value) = pieces.pop()
        {
            self.bytes += key.len() + value.bytes();
            self.batch.push(Item { database, key, value, deadline });
            if self.batch.len() >= KEYS_MAX || self.bytes >= BYTES_MAX {
                self.flush()?;
            }
            return Ok(());
        }
        self.flush()?;
        let whole = Item { database, key, value: Value::String(Vec::new()), deadline };
        self.grow(&whole, &pieces).map_err(|abort| failed(&whole, abort))
    }

    /// Stores keys whose values are small.
    fn flush(&mut self) -> Result<(), ImportError> {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        if batch.is_empty() {
            return Ok(());
        }
        let (root, now) = (self.root, self.now);
        let stored = self.lane.run(|tx| batch.iter().try_for_each(|item| put(tx, root, now, item)));
        match (stored, &batch[..]) {
            (Ok(()), _) => Ok(()),
            (Err(abort), [item]) => Err(failed(item, abort)),
            // One of them does not fit: each alone tells which.
            (Err(_), _) => batch.iter().try_for_each(|item| {
                let stored = self.lane.run(|tx| put(tx, root, now, item));
                stored.map_err(|abort| failed(item, abort))
            }),
        }
    }

    /// Builds a large value where clients cannot see it, and moves it to its key.
    fn grow(&mut self, whole: &Item, pieces: &[Value]) -> Result<(), Abort> {
        let (root, now, key) = (self.root, self.now, &whole.key);
        for piece in pieces {
            self.lane.run(|tx| {
                with_keys(tx, root, IMPORT_DATABASE, now, |keys| store(keys, key, piece))
            })?;
        }
        self.lane.run(|tx| {
            let moved = with_keys(tx, root, IMPORT_DATABASE, now, |keys| {
                let Some(found) = keys.find(key)? else { return Ok(None) };
                let entry = *found.entry();
                let value = entry.value(keys.mem)?;
                keys.unlink(key, found)?;
                Ok(Some((entry.kind, value)))
            })?;
            let Some((kind, value)) = moved else { return Ok(()) };
            with_keys(tx, root, whole.database as usize, now, |keys| {
                let content = Content { kind, value: &value, deadline: whole.deadline };
                keys.write(key, None, content).map(drop)
            })
        })
    }

    fn free_all(&mut self) -> Result<(), Abort> {
        let root = self.root;
        while self.lane.run(|tx| garbage::step(tx, &root))? {}
        Ok(())
    }
}

fn put(tx: &mut Mem<'_>, root: Root, now: u64, item: &Item) -> Result<(), Abort> {
    with_keys(tx, root, item.database as usize, now, |keys| {
        if let Some(found) = keys.find(&item.key)? {
            keys.remove(&item.key, found)?;
        }
        store(keys, &item.key, &item.value)?;
        if let Some(deadline) = item.deadline
            && let Some(found) = keys.find(&item.key)?
        {
            keys.set_deadline(&item.key, found, Some(deadline))?;
        }
        Ok(())
    })
}
