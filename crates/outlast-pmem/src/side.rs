//! Small files in shared memory, by which processes that use the same file find each other.
//!
//! They lie in `/dev/shm`, so they are gone when the system is, and no disk writes them. Their name has the user, the
//! device and the number of the file that they belong to; a user's processes share them, others' do not.
//!
//! * **SIDE-1** A side file is made, renewed and removed under its lock, and a process that has waited for the lock
//!   asks then whether the file still has its name. So no two processes use two files of one name.
//! * **SIDE-2** A place is a file that is locked as long as its owner lives. The system lets go of the lock when the
//!   process ends, however it ends: another process that gets the lock knows that the place is free.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{MapError, PAGE_BYTES};
use crate::mapped::Mapped;
use crate::medium::Medium;
use crate::process::OwnerProcess;

/// Where side files lie.
const DIRECTORY: &str = "/dev/shm";

/// Longer than any process holds the lock of a side file, unless it was stopped.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// When a side file takes its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// When it is opened, where a full system is an error.
    AtOnce,
    /// When something is stored, after another opening has taken all.
    WhenStored,
}

/// The side files of one file.
#[derive(Clone, Debug)]
pub struct Side {
    base: PathBuf,
}

/// A place that this process has taken: given back when dropped, or when the process ends.
pub struct Place {
    /// Its number.
    pub number: usize,
    path: PathBuf,
    file: File,
    owner: OwnerProcess,
}

impl Drop for Place {
    fn drop(&mut self) {
        // A forked child's copy is its parent's place.
        if self.owner.is_this_process() && crate::is_named(&self.path, &self.file).unwrap_or(false)
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Side {
    /// Those of an open file; `None` where there is no shared memory.
    pub fn of(file: &File) -> Option<Self> {
        let name = name_of(file)?;
        Path::new(DIRECTORY).is_dir().then(|| Self { base: Path::new(DIRECTORY).join(name) })
    }

    fn path(&self, kind: &str) -> PathBuf {
        let mut name = self.base.clone().into_os_string();
        name.push(kind);
        name.into()
    }

    /// Maps the side file of a kind, made of zeros where there is none, or one that is too short, and calls `begin`
    /// with it under its lock (SIDE-1).
    ///
    /// # Errors
    /// [`MapError`]; also for a file of that name that belongs to another user.
    pub fn open<R>(
        &self,
        kind: &str,
        len: u64,
        memory: Memory,
        begin: impl FnOnce(&Mapped) -> R,
    ) -> Result<(Mapped, R), MapError> {
        let path = self.path(kind);
        let failed = |error| MapError::io(&path, "open", error);
        loop {
            let file = open(&path).map_err(failed)?;
            lock(&file).map_err(|error| MapError::io(&path, "lock", error))?;
            if !crate::is_named(&path, &file).unwrap_or(false) {
                continue;
            }
            let is_new = file.metadata().is_ok_and(|found| found.len() == 0);
            let shared = Mapped::share(&path, file, len.next_multiple_of(PAGE_BYTES), memory);
            let shared = shared.inspect_err(|_| {
                // Under the lock still, which the file's end lets go of: others find it gone, or wait no longer.
                if is_new {
                    let _ = fs::remove_file(&path);
                }
            })?;
            let result = begin(&shared);
            unlock(&shared);
            return Ok((shared, result));
        }
    }

    /// Calls `body` under the lock of a side file that is mapped; `None` when the file has lost its name.
    ///
    /// # Errors
    /// Those of the lock.
    pub fn under_lock<R>(
        &self,
        kind: &str,
        shared: &impl Medium,
        body: impl FnOnce() -> R,
    ) -> io::Result<Option<R>> {
        let file = shared.file().expect("a side file is a file");
        lock(file)?;
        let is_named = crate::is_named(&self.path(kind), file).unwrap_or(false);
        let result = is_named.then(body);
        unlock(shared);
        Ok(result)
    }

    /// Removes the side file of a kind. For a caller that holds the lock of the one that says who uses it.
    pub fn remove(&self, kind: &str) {
        let _ = fs::remove_file(self.path(kind));
    }

    /// Removes what killed processes have left of other files' side files of the kinds in `kinds`, the first of which
    /// says who uses the others: where no process has a place of `places`, none uses any.
    pub fn remove_left_over(&self, kinds: &[&str], places: usize) {
        let Some(user) = self.base.to_str().and_then(|base| base.rsplitn(3, '-').last()) else {
            return;
        };
        let Ok(entries) = fs::read_dir(DIRECTORY) else { return };
        let names = entries.flatten().filter_map(|entry| entry.path().to_str().map(str::to_owned));
        let is_base = |name: &String| {
            let rest = name.strip_prefix(user).and_then(|rest| rest.strip_prefix('-'));
            rest.is_some_and(|rest| {
                rest.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
            })
        };
        for base in names.filter(is_base).map(PathBuf::from).filter(|base| *base != self.base) {
            let other = Self { base };
            let path = other.path(kinds[0]);
            // SIDE-1.
            let Ok(file) = look_at(&path) else { continue };
            if file.try_lock().is_ok()
                && crate::is_named(&path, &file).unwrap_or(false)
                && !(0..places).any(|number| other.is_taken(number))
            {
                kinds.iter().rev().for_each(|kind| other.remove(kind));
            }
        }
    }

    /// Takes the first free place of so many.
    ///
    /// # Errors
    /// Those of making its file.
    pub fn take_place(&self, places: usize) -> io::Result<Option<Place>> {
        for number in 0..places {
            if let Some(place) = self.take_place_at(number)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Takes that place, if it is free (SIDE-2).
    ///
    /// # Errors
    /// Those of making its file.
    pub fn take_place_at(&self, number: usize) -> io::Result<Option<Place>> {
        let path = self.place_path(number);
        loop {
            let file = open(&path)?;
            match file.try_lock() {
                Ok(()) if crate::is_named(&path, &file).unwrap_or(false) => {
                    return Ok(Some(Place { number, path, file, owner: OwnerProcess::new() }));
                }
                // The owner before has just removed it.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// As [`take_place_at`](Self::take_place_at), and waits for processes that only [look](Self::is_taken) whether it is
    /// taken: they have its lock for moments.
    ///
    /// # Errors
    /// As of `take_place_at`.
    pub fn wait_for_place(&self, number: usize) -> io::Result<Option<Place>> {
        let until = Instant::now() + LOCK_WAIT;
        loop {
            match self.take_place_at(number)? {
                None if Instant::now() < until => std::thread::sleep(Duration::from_micros(200)),
                taken => return Ok(taken),
            }
        }
    }

    /// Whether there is a side file of a kind.
    pub fn has(&self, kind: &str) -> bool {
        look_at(&self.path(kind)).is_ok()
    }

    /// Whether that is a place of these side files.
    pub fn is_of(&self, place: &Place) -> bool {
        place.path == self.place_path(place.number)
    }

    /// Whether a living process has that place. What a dead one has left is removed.
    pub fn is_taken(&self, number: usize) -> bool {
        let path = self.place_path(number);
        let file = match look_at(&path) {
            Ok(file) => file,
            // For want of a descriptor nothing is known.
            Err(error) => return error.kind() != io::ErrorKind::NotFound,
        };
        match file.try_lock() {
            Ok(()) => {
                drop(Place { number, path, file, owner: OwnerProcess::new() });
                false
            }
            Err(_) => true,
        }
    }

    fn place_path(&self, number: usize) -> PathBuf {
        self.path(&format!("-place-{number}"))
    }
}

/// Opens a side file of this user that is there.
fn look_at(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    os::make_private(&mut options);
    let file = options.open(path)?;
    if !os::is_ours(&file)? {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(file)
}

/// Opens or makes a side file of this user.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    os::make_private(&mut options);
    let file = options.open(path)?;
    if !os::is_ours(&file)? {
        return Err(io::Error::other("it is another user's, or no plain file"));
    }
    Ok(file)
}

fn lock(file: &File) -> io::Result<()> {
    let until = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_micros(200));
            }
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

fn unlock(shared: &impl Medium) {
    let _ = shared.file().expect("a side file is a file").unlock();
}

#[cfg(all(unix, not(outlast_portable)))]
fn name_of(file: &File) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let found = file.metadata().ok()?;
    let user = rustix::process::geteuid().as_raw();
    Some(format!("outlast-{user}-{:x}-{:x}", found.dev(), found.ino()))
}

#[cfg(not(all(unix, not(outlast_portable))))]
fn name_of(_: &File) -> Option<String> {
    None
}

#[cfg(all(unix, not(outlast_portable)))]
mod os {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

    pub fn make_private(options: &mut OpenOptions) {
        // Neither a link nor a pipe, which would be waited for.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }

    pub fn is_ours(file: &File) -> io::Result<bool> {
        let found = file.metadata()?;
        Ok(found.is_file() && found.uid() == rustix::process::geteuid().as_raw())
    }
}

#[cfg(not(all(unix, not(outlast_portable))))]
mod os {
    use std::fs::{File, OpenOptions};
    use std::io;

    pub fn make_private(_: &mut OpenOptions) {}

    pub fn is_ours(_: &File) -> io::Result<bool> {
        Ok(true)
    }
}

#[cfg(all(test, target_os = "linux", not(outlast_portable), not(miri)))]
mod tests {
    use outlast_trace::PoolOffset;

    use super::*;

    #[test]
    fn two_openings_share_words_and_a_removed_file_is_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("file")).unwrap();
        let side = Side::of(&file).unwrap();
        let at = PoolOffset(64);
        let (one, ()) =
            side.open("-test", 100, Memory::AtOnce, |shared| shared.store_u64(at, 7)).unwrap();
        let (two, seen) =
            side.open("-test", 5000, Memory::WhenStored, |shared| shared.load_u64(at)).unwrap();
        assert_eq!((seen, two.len()), (7, 8192), "it grows, and keeps what it has");
        two.store_u64(at, 8);
        assert_eq!(one.load_u64(at), 8);
        assert_eq!(side.under_lock("-test", &one, || 3).unwrap(), Some(3));
        side.remove("-test");
        assert_eq!(side.under_lock("-test", &one, || 3).unwrap(), None);
        let (three, ()) = side.open("-test", 64, Memory::AtOnce, |_| ()).unwrap();
        assert_eq!(three.load_u64(at), 0);
        side.remove("-test");
    }

    #[test]
    fn only_what_no_process_uses_is_left_over() {
        let directory = tempfile::tempdir().unwrap();
        let [mine, used, left] = ["mine", "used", "left"]
            .map(|name| Side::of(&File::create(directory.path().join(name)).unwrap()).unwrap());
        for side in [&used, &left] {
            side.open("", 64, Memory::AtOnce, |_| ()).unwrap();
            side.open("-more", 64, Memory::AtOnce, |_| ()).unwrap();
        }
        let _place = used.take_place(3).unwrap().unwrap();
        mine.remove_left_over(&["", "-more"], 3);
        let is_there = |side: &Side| ["", "-more"].map(|kind| side.path(kind).exists());
        assert_eq!(is_there(&used), [true; 2]);
        assert_eq!(is_there(&left), [false; 2]);
        ["-more", ""].iter().for_each(|kind| used.remove(kind));
    }

    #[test]
    fn a_place_is_taken_as_long_as_its_owner_lives() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("file")).unwrap();
        let side = Side::of(&file).unwrap();
        let (one, two) =
            (side.take_place(2).unwrap().unwrap(), side.take_place(2).unwrap().unwrap());
        assert_eq!((one.number, two.number), (0, 1));
        assert!(side.take_place(2).unwrap().is_none());
        assert!(side.is_taken(0) && side.is_taken(1));
        drop(one);
        assert!(!side.is_taken(0) && side.is_taken(1));
        assert_eq!(side.take_place(2).unwrap().unwrap().number, 0);
    }
}
