//! The file behind a mapping: found by its name, locked, and really allocated.
//!
//! * **F1** A mapped file has the name that it was opened by, at the moment it is locked. Whatever
//!   replaces a file by renaming another over it holds the lock of the one that has the name;
//!   so what is locked and named stays so until it is unlocked.
//! * **F2** A file opened for writing has no holes, or its user allocates them before it stores there: a store
//!   into one would need space that the file system may not have, and end in a signal.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{MapOptions, os};
use crate::error::MapError;
use crate::process::OwnerProcess;

/// Openings in a row that may find the file replaced. Each replacement copies a whole pool.
const REPLACED_MAX: u32 = 100;

/// A locked file. A writer unlocks it when dropped: a forked child holds the same lock, and would
/// keep it after the file is closed here. A reader leaves that to the last who closes the file,
/// since a child may go on reading.
pub(super) struct Locked {
    file: File,
    forgets_cached: AtomicBool,
    owner: OwnerProcess,
    read_only: bool,
}

impl Locked {
    pub fn new(file: File, owner: OwnerProcess, read_only: bool) -> Self {
        Self { file, forgets_cached: AtomicBool::new(false), owner, read_only }
    }

    /// Dropping it leaves locks alone.
    pub fn keep_locks(&mut self) {
        self.read_only = true;
    }

    /// A write has failed: whatever opens the file next is to see what the medium has.
    pub fn forget_cached_when_dropped(&self) {
        self.forgets_cached.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub fn get(&self) -> &File {
        &self.file
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if !self.read_only && self.owner.is_this_process() {
            if *self.forgets_cached.get_mut() {
                os::forget_cached(&self.file);
            }
            // Closing unlocks too, as far as no child has the file.
            let _ = self.file.unlock();
        }
    }
}

/// Opens the file that has this name when it is locked (F1).
pub(super) fn open_and_lock(path: &Path, options: &MapOptions) -> Result<File, MapError> {
    for _ in 0..REPLACED_MAX {
        let file = open(path, options)?;
        lock(path, &file, options)?;
        if crate::is_named(path, &file).map_err(|error| MapError::io(path, "find", error))? {
            return Ok(file);
        }
    }
    Err(MapError::Replaced { path: path.to_owned() })
}

/// Opens a regular file.
pub(super) fn open(path: &Path, options: &MapOptions) -> Result<File, MapError> {
    let what = if options.read_only { "read" } else { "read and write" };
    let failed = |error| MapError::io(path, what, error);
    // Asked before opening, because the opening of a pipe waits for its other end.
    let kind = fs::metadata(path).map_err(failed)?.file_type();
    if !kind.is_file() {
        let is = if kind.is_dir() { "a directory" } else { "a device or a pipe" };
        return Err(MapError::NotRegular { path: path.to_owned(), is });
    }
    OpenOptions::new().read(true).write(!options.read_only).open(path).map_err(failed)
}

/// A child that another thread forks has what this process closes meanwhile open for a moment, until
/// it runs its own program. Those who only read mostly have a file locked for moments, and a writer waits for them for
/// half a second.
pub(super) fn lock(path: &Path, file: &File, options: &MapOptions) -> Result<(), MapError> {
    const TRIES: u32 = 10;
    const TRIES_BESIDE_READERS: u32 = 250;
    const BETWEEN_TRIES: Duration = Duration::from_millis(2);
    let mut tries = 0;
    loop {
        let locked = if options.read_only { file.try_lock_shared() } else { file.try_lock() };
        tries += 1;
        match locked {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if tries < TRIES => std::thread::sleep(BETWEEN_TRIES),
            Err(TryLockError::WouldBlock)
                if tries < TRIES_BESIDE_READERS && file.try_lock_shared().is_ok() =>
            {
                file.unlock().map_err(|error| MapError::io(path, "unlock", error))?;
                std::thread::sleep(BETWEEN_TRIES);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(MapError::AlreadyOpen { path: path.to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(MapError::io(path, "lock", error)),
        }
    }
}

/// Makes the file `to` bytes long, every new block allocated; on failure it is `from` bytes
/// long, as before.
pub(super) fn allocate(path: &Path, file: &File, from: u64, to: u64) -> Result<(), MapError> {
    check_limit(path, to)?;
    let free = os::free_bytes(file);
    let no_space = |free| MapError::NoSpace { path: path.to_owned(), needed: to - from, free };
    // Asked first, so that a hopeless attempt does not fill the disk of others for a while.
    if free.is_some_and(|free| free < to - from) {
        return Err(no_space(free));
    }
    os::allocate(file, from, to).map_err(|error| {
        let _ = file.set_len(from);
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => no_space(free),
            _ => MapError::io(path, "allocate", error),
        }
    })
}

/// Allocates the holes in a part of the file (F2). Its content stays as it is.
pub(super) fn fill_holes(path: &Path, file: &File, part: Range<u64>) -> Result<(), MapError> {
    let failed = |error| MapError::io(path, "allocate the holes of", error);
    if part.is_empty() || !os::may_have_holes(file, part.clone()).map_err(failed)? {
        return Ok(());
    }
    // Blocks are counted for the whole file, so that a part of it may have no holes after all.
    let all = file.metadata().map_err(failed)?.len();
    let holes = os::hole_bytes(file, all).map_err(failed)?.min(part.end - part.start);
    let free = os::free_bytes(file);
    let no_space = || MapError::Holes { path: path.to_owned(), holes, free };
    if part == (0..all) && free.is_some_and(|free| free < holes) {
        return Err(no_space());
    }
    os::allocate_holes(file, part).map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => no_space(),
        _ => failed(error),
    })
}

/// A file past the process's limit ends the process with a signal, and leaves half a file.
pub(super) fn check_limit(path: &Path, len: u64) -> Result<(), MapError> {
    match crate::file_len_limit() {
        Some(limit) if limit < len => {
            Err(MapError::FileLimit { path: path.to_owned(), len, limit })
        }
        _ => Ok(()),
    }
}

/// Allocates by writing zeros, where nothing better is known.
#[cfg_attr(target_os = "linux", allow(dead_code))]
pub(super) fn write_zeros(mut file: &File, from: u64, to: u64) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(from))?;
    io::copy(&mut io::repeat(0).take(to - from), &mut file)?;
    Ok(())
}
