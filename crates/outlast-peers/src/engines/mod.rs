//! Embedded databases behind one small interface: keys and values of bytes, in the order of keys,
//! durable when a call returns.
//!
//! A peer is set as its authors recommend for durable commits; [`Engine::settings`] says how. Ours
//! ([`Ours`]) and the machine's floor ([`Floor`]) are always there; redb and fjall come with the feature
//! `rust-engines`, LMDB and SQLite with `engines`, since they compile C.

#[cfg(feature = "rust-engines")]
mod fjall;
mod floor;
#[cfg(feature = "engines")]
mod lmdb;
mod ours;
#[cfg(feature = "rust-engines")]
mod redb;
#[cfg(feature = "engines")]
mod sqlite;
#[cfg(all(feature = "engines", target_os = "linux"))]
mod syncs;

use std::fmt;
use std::path::{Path, PathBuf};

pub use floor::Floor;
pub use ours::{Ours, OursOptions};

/// A key and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// An open database. Each thread has a session of its own.
pub trait Engine: Sync {
    /// The name that results use.
    fn name(&self) -> &'static str;

    /// What makes its commits durable, and sizes that were chosen, in words.
    fn settings(&self) -> String;

    /// Whether it can be read: the floor only appends.
    fn reads(&self) -> bool {
        true
    }

    /// A session for the calling thread.
    ///
    /// # Errors
    /// [`EngineError`].
    fn session(&self) -> Result<Box<dyn Session + '_>, EngineError>;

    /// Calls so far that waited for the device, where they can be counted: by the engine itself, or by
    /// the process as a whole.
    fn syncs(&self) -> Option<u64>;

    /// Bytes of its files that are allocated on the file system.
    fn bytes_on_disk(&self) -> u64;

    /// How many of them its log takes, where that is of a fixed size.
    fn log_bytes(&self) -> u64 {
        0
    }
}

/// A thread's use of a database.
pub trait Session {
    /// Sets these pairs in one transaction, which is durable when this returns.
    ///
    /// # Errors
    /// [`EngineError`].
    fn put(&mut self, pairs: &[Pair<'_>]) -> Result<(), EngineError>;

    /// Reads the values of these keys in one transaction; how many bytes they have together.
    ///
    /// # Errors
    /// [`EngineError`], also when a key is not there.
    fn get(&mut self, keys: &[&[u8]]) -> Result<u64, EngineError>;

    /// Reads up to `limit` pairs from a key on, in order; how many bytes they have together.
    ///
    /// # Errors
    /// [`EngineError`].
    fn scan(&mut self, from: &[u8], limit: usize) -> Result<u64, EngineError>;
}

/// An engine refused.
#[derive(Debug, thiserror::Error)]
#[error("{engine}: {what}")]
pub struct EngineError {
    engine: &'static str,
    what: String,
}

impl EngineError {
    pub(crate) fn new(engine: &'static str, what: impl fmt::Display) -> Self {
        Self { engine, what: what.to_string() }
    }

    /// For `map_err`.
    pub(crate) fn of<E: fmt::Display>(engine: &'static str) -> impl Fn(E) -> Self + Copy {
        move |error| Self::new(engine, error)
    }
}

/// The peers that are built in.
pub const PEERS: &[&str] = &[
    #[cfg(feature = "rust-engines")]
    redb::NAME,
    #[cfg(feature = "rust-engines")]
    fjall::NAME,
    #[cfg(feature = "engines")]
    lmdb::NAME,
    #[cfg(feature = "engines")]
    sqlite::NAME,
];

/// Opens a peer's database in a folder, or makes one in an empty folder. `data_bytes` is about the size of its data.
///
/// # Errors
/// [`EngineError`], also of a peer that is not built in.
pub fn open_peer(
    name: &str,
    folder: &Path,
    data_bytes: u64,
) -> Result<Box<dyn Engine>, EngineError> {
    let _ = (folder, data_bytes);
    match name {
        #[cfg(feature = "rust-engines")]
        redb::NAME => Ok(Box::new(redb::Redb::open(folder)?)),
        #[cfg(feature = "rust-engines")]
        fjall::NAME => Ok(Box::new(fjall::Fjall::open(folder)?)),
        #[cfg(feature = "engines")]
        lmdb::NAME => Ok(Box::new(lmdb::Lmdb::open(folder, data_bytes)?)),
        #[cfg(feature = "engines")]
        sqlite::NAME => Ok(Box::new(sqlite::Sqlite::open(folder)?)),
        _ => Err(EngineError::new("engines", format!("{name} is not built in"))),
    }
}

/// The peers that are built in, each with a new database in a folder of its name below `directory`.
/// `data_bytes` is about the size of the data of each.
///
/// # Errors
/// [`EngineError`].
pub fn peers(directory: &Path, data_bytes: u64) -> Result<Vec<Box<dyn Engine>>, EngineError> {
    let create = |name: &&'static str| {
        let folder = directory.join(name);
        std::fs::create_dir(&folder).map_err(EngineError::of(name))?;
        open_peer(name, &folder, data_bytes)
    };
    PEERS.iter().map(create).collect()
}

/// One line that says how to get the other peers, where they are not built in.
pub fn how_to_build() -> Option<&'static str> {
    (!cfg!(feature = "engines")).then_some(
        "LMDB and SQLite are not built in: cargo build --release -p outlast-cli --features engines",
    )
}

/// Syncs of the whole process so far, where they are counted.
#[cfg(feature = "rust-engines")]
fn process_syncs() -> Option<u64> {
    #[cfg(all(feature = "engines", target_os = "linux"))]
    return Some(syncs::count());
    #[cfg(not(all(feature = "engines", target_os = "linux")))]
    None
}

/// Allocated bytes of a file, or of all files of a folder.
fn allocated(path: &Path) -> u64 {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return 0 };
    if !metadata.is_dir() {
        #[cfg(unix)]
        return std::os::unix::fs::MetadataExt::blocks(&metadata) * 512;
        #[cfg(not(unix))]
        return metadata.len();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| allocated(&entry.path())).sum()
}

/// The files of an engine.
struct Files(PathBuf);

impl Files {
    fn bytes(&self) -> u64 {
        allocated(&self.0)
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
