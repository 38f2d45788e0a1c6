//! Directories that are only there for a time.
//!
//! A run removes its own when it ends, and when it is told to end ([`Scratch`]). A run that was
//! killed cannot: the next one in the same place sweeps what it left. Who lives holds a lock on
//! its directory, which the system lets go of with the process.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use outlast_trace::Scratch;
use tempfile::TempDir;

/// What the names of all of them begin with.
const PREFIX: &str = "outlast-run-";

/// A directory of its own, removed with everything in it when dropped.
#[derive(Debug)]
pub(crate) struct ScratchDirectory {
    directory: TempDir,
    _registered: Scratch,
    /// Locked for as long as this lives.
    _lock: Option<File>,
}

impl ScratchDirectory {
    /// Makes one, and removes those of runs that were killed.
    ///
    /// # Errors
    /// When the parent cannot be written to.
    pub fn new_in(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        loop {
            let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let lock = lock(directory.path());
            // Another run may have swept it before it was locked.
            if directory.path().is_dir() {
                let registered = Scratch::register(directory.path());
                return Ok(Self { directory, _registered: registered, _lock: lock });
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Locks a directory; `None` where directories have no locks.
fn lock(directory: &Path) -> Option<File> {
    let file = File::open(directory).ok()?;
    file.lock().ok().map(|()| file)
}

/// Removes the directories of runs that live no more. What cannot be removed stays: it may be
/// another user's.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let is_ours =
        |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.starts_with(PREFIX));
    for entry in entries.flatten().filter(|entry| is_ours(&entry.file_name())) {
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let Some(file) = File::open(&path).ok().filter(|_| is_directory) else { continue };
        if file.try_lock().is_ok() {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_run_is_swept_and_a_living_one_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let killed = parent.path().join(format!("{PREFIX}killed"));
        fs::create_dir(&killed).unwrap();
        fs::write(killed.join("pool"), [0; 4096]).unwrap();
        let foreign = parent.path().join("outlast-notes");
        fs::create_dir(&foreign).unwrap();

        let first = ScratchDirectory::new_in(parent.path()).unwrap();
        fs::write(first.path().join("pool"), [0; 4096]).unwrap();
        assert!(!killed.exists() && foreign.exists());
        let second = ScratchDirectory::new_in(parent.path()).unwrap();
        assert!(first.path().join("pool").exists(), "its run lives");
        let (a, b) = (first.path().to_owned(), second.path().to_owned());
        drop((first, second));
        assert!(!a.exists() && !b.exists() && foreign.exists());
    }
}
