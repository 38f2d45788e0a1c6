//! Files that are replaced whole: what checkpoints need of a file system, so that a test can cut
//! it short anywhere.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::checkpoint::error::CheckpointError;

type Result<T> = std::result::Result<T, CheckpointError>;

/// A file under way. What was written is durable after the next [`sync`](Self::sync).
pub(super) trait Volume {
    /// Bytes of the file.
    fn len(&self) -> io::Result<u64>;
    /// Fills `out` with what is at `at`.
    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes there; what lies between the file's end and `at` becomes zero.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file off.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Makes durable what was written and cut off before.
    fn sync(&self) -> io::Result<()>;
}

/// The place of one file, which is made new beside it and then put in its place.
pub(super) trait Shelf {
    type File: Volume;
    /// The name of the file, for messages.
    fn path(&self) -> &Path;
    /// The file, if there is one, for this caller alone.
    fn open(&self) -> Result<Option<Self::File>>;
    /// An empty file beside it.
    fn create(&self) -> Result<Self::File>;
    /// Puts a file that was made beside it, and made durable, in its place, durably.
    fn put_in_place(&self, file: &Self::File) -> Result<()>;
    /// Gives up a file that was made beside it.
    fn discard(&self, file: Self::File);
}

impl Volume for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let mut file = self;
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(out)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = self;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(bytes)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }
}

/// A path in a file system.
pub(super) struct Place {
    path: PathBuf,
    /// The file that is made new lies here until it is whole.
    beside: PathBuf,
}

impl Place {
    /// `suffix` tells what the file made beside it is for.
    pub fn new(path: &Path, suffix: &str) -> Self {
        Self { path: path.to_owned(), beside: with_suffix(path, suffix) }
    }
}

/// The path with something appended to its last component.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Nobody else reads or writes the file while this one is open.
pub(super) fn lock(path: &Path, file: &File) -> Result<()> {
    locked(path, file.try_lock())
}

/// Nobody else writes the file while this one is open.
pub(super) fn lock_shared(path: &Path, file: &File) -> Result<()> {
    locked(path, file.try_lock_shared())
}

fn locked(path: &Path, result: std::result::Result<(), TryLockError>) -> Result<()> {
    result.map_err(|error| match error {
        TryLockError::WouldBlock => CheckpointError::InUse { path: path.to_owned() },
        TryLockError::Error(error) => CheckpointError::io(path, "lock")(error),
    })
}

/// Opens what is there, and refuses what is no file: a pipe would wait for its other end.
pub(super) fn open_file(path: &Path, writable: bool) -> Result<Option<File>> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(CheckpointError::NotAFile { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CheckpointError::io(path, "open")(error)),
    }
    let file = OpenOptions::new().read(true).write(writable).open(path);
    file.map(Some).map_err(CheckpointError::io(path, "open"))
}

impl Shelf for Place {
    type File = File;

    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> Result<Option<File>> {
        let Some(file) = open_file(&self.path, true)? else { return Ok(None) };
        lock(&self.path, &file)?;
        Ok(Some(file))
    }

    fn create(&self) -> Result<File> {
        // What a crash has left there is nobody's, unless it is locked.
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file =
            options.open(&self.beside).map_err(CheckpointError::io(&self.beside, "create"))?;
        lock(&self.beside, &file)?;
        file.set_len(0).map_err(CheckpointError::io(&self.beside, "empty"))?;
        Ok(file)
    }

    fn put_in_place(&self, _file: &File) -> Result<()> {
        std::fs::rename(&self.beside, &self.path)
            .map_err(CheckpointError::io(&self.path, "replace"))?;
        let directory = match self.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        sync_directory(directory).map_err(CheckpointError::io(directory, "make durable"))
    }

    fn discard(&self, file: File) {
        // The error that is reported is the one that made the file useless.
        let _ = std::fs::remove_file(&self.beside);
        drop(file);
    }
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Elsewhere directories cannot be opened; the file system sees to renames itself.
#[cfg(not(unix))]
fn sync_directory(_directory: &Path) -> io::Result<()> {
    Ok(())
}
