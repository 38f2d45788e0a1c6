//! Files that are replaced whole: what checkpoints need of a file system, so that a test can cut
//! it short anywhere.
//!
//! A file is made beside the one that it replaces, under a name with a number that no other has,
//! locked, and renamed when it is whole. What replaces a file holds the lock of the file that has
//! the name, and what opens one looks at the name again once it is locked: so a file that is open
//! keeps its name, and what is stored in it is not lost with it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use outlast_pmem::OwnerProcess;
use uuid::Uuid;

use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::format::HEADER_MAGIC;
use crate::layout::MAGIC;

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
    /// Puts a file that was made beside it, and made durable, in its place, durably. What it
    /// replaces was opened here and is open still; without any, nothing is replaced.
    fn put_in_place(&self, file: &Self::File, replaced: Option<&Self::File>) -> Result<()>;
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
        // Past the process's limit a write would end it with a signal.
        let end = at.saturating_add(bytes.len() as u64);
        if outlast_pmem::file_len_limit().is_some_and(|limit| limit < end) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
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

/// An open, locked file and its name. It is unlocked when dropped: a child that is forked meanwhile
/// holds the same lock, and would keep it.
pub(super) struct Held {
    pub file: File,
    path: PathBuf,
    owner: OwnerProcess,
}

impl Held {
    fn new(file: File, path: PathBuf) -> Self {
        Self { file, path, owner: OwnerProcess::new() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.owner.is_this_process() {
            // Closing unlocks too, as far as no child has the file.
            let _ = self.file.unlock();
        }
    }
}

impl Volume for Held {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(at, out)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(at, bytes)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        Volume::sync(&self.file)
    }
}

/// A path in a file system.
pub(super) struct Place {
    /// As it was given, for messages.
    path: PathBuf,
    /// The file itself, with symbolic links followed.
    target: PathBuf,
    purpose: Purpose,
    /// A new file gets its mode and owner from what it replaces, and else from this.
    like: Option<Metadata>,
}

/// The purpose of a file made beside another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// A checkpoint file.
    Checkpoint,
    /// A pool's file.
    Pool,
}

impl Purpose {
    /// How the name goes on, before the number that no other has.
    fn suffix(self) -> &'static str {
        match self {
            Self::Checkpoint => ".new-",
            Self::Pool => ".restoring-",
        }
    }

    /// How the file begins, once that part is written.
    fn begins(self) -> [u8; 8] {
        match self {
            Self::Checkpoint => *HEADER_MAGIC,
            Self::Pool => MAGIC.to_le_bytes(),
        }
    }
}

/// Digits of the number in the name of a file that is being made.
const NUMBER_DIGITS: usize = 16;

/// Openings in a row that may find the file replaced. Each replacement writes a whole file.
const REPLACED_MAX: u32 = 100;

impl Place {
    pub fn new(path: &Path, purpose: Purpose) -> Result<Self> {
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if fs::symlink_metadata(path).is_ok() {
                    return Err(CheckpointError::DanglingLink { path: path.to_owned() });
                }
                path.to_owned()
            }
            Err(error) => return Err(CheckpointError::io(path, "find")(error)),
        };
        Ok(Self { path: path.to_owned(), target, purpose, like: None })
    }

    /// With that file's mode and owner for a new one.
    pub fn like(self, file: Option<&File>) -> Self {
        Self { like: file.and_then(|file| file.metadata().ok()), ..self }
    }

    /// The file, if there is one, beside other readers.
    pub fn open_to_read(&self) -> Result<Option<Held>> {
        let file = open_and_lock(&self.target, false)?;
        Ok(file.map(|file| Held::new(file, self.target.clone())))
    }

    fn directory(&self) -> &Path {
        match self.target.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        }
    }

    /// How the names begin of files that are made beside this one; `None` of a path without a name.
    fn prefix(&self) -> Option<OsString> {
        let mut prefix = self.target.file_name()?.to_owned();
        prefix.push(self.purpose.suffix());
        Some(prefix)
    }

    /// A new file beside this place.
    fn create_and_lock(&self, prefix: &OsStr) -> Result<Held> {
        for _ in 0..REPLACED_MAX {
            let number = Uuid::new_v4().simple().to_string();
            let mut name = prefix.to_owned();
            name.push(&number[..NUMBER_DIGITS]);
            let path = self.target.with_file_name(name);
            let failed = || CheckpointError::io(&self.path, "make a new file beside");
            let file = new_private_file(&path).map_err(failed())?;
            file.lock().map_err(failed())?;
            // Before it was locked, another process could take it for one that was left over.
            if outlast_pmem::is_named(&path, &file).unwrap_or(false) {
                return Ok(Held::new(file, path));
            }
        }
        Err(CheckpointError::Replaced { path: self.path.clone() })
    }

    /// Removes what killed processes have left beside this place: files of our names that no
    /// process has locked, and that are zero or begin as ours do. What cannot be removed stays.
    fn sweep(&self, prefix: &OsStr) {
        let Ok(entries) = fs::read_dir(self.directory()) else { return };
        for entry in entries.flatten() {
            if is_number(entry.file_name().as_encoded_bytes(), prefix.as_encoded_bytes())
                && entry.file_type().is_ok_and(|kind| kind.is_file())
            {
                let _ = self.remove_left_over(&entry.path());
            }
        }
    }

    fn remove_left_over(&self, path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        let mut start = [0; 8];
        let begins_like_ours = match file.read_exact(&mut start) {
            Ok(()) => start == [0; 8] || start == self.purpose.begins(),
            Err(_) => file.metadata()?.len() == 0,
        };
        if begins_like_ours && names_of(&file.metadata()?) == 1 {
            outlast_pmem::remove_if_free(path, &file);
        }
        Ok(())
    }
}

/// Whether a name is the prefix and one of our numbers.
fn is_number(name: &[u8], prefix: &[u8]) -> bool {
    let digits = name.strip_prefix(prefix).unwrap_or_default();
    digits.len() == NUMBER_DIGITS
        && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// The path with something appended to its last component.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Opens the file that has this name when it is locked, and refuses what is no file. A writer has
/// it alone; readers exclude writers.
fn open_and_lock(path: &Path, writable: bool) -> Result<Option<File>> {
    for _ in 0..REPLACED_MAX {
        let Some(file) = open_file(path, writable)? else { return Ok(None) };
        let locked = if writable { file.try_lock() } else { file.try_lock_shared() };
        locked.map_err(|error| match error {
            TryLockError::WouldBlock => CheckpointError::InUse { path: path.to_owned() },
            TryLockError::Error(error) => CheckpointError::io(path, "lock")(error),
        })?;
        match outlast_pmem::is_named(path, &file) {
            Ok(true) => return Ok(Some(file)),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(CheckpointError::io(path, "find")(error)),
        }
    }
    Err(CheckpointError::Replaced { path: path.to_owned() })
}

/// Opens what is there. A pipe is not opened: that would wait for its other end.
fn open_file(path: &Path, writable: bool) -> Result<Option<File>> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(CheckpointError::NotAFile { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CheckpointError::io(path, "open")(error)),
    }
    match OpenOptions::new().read(true).write(writable).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CheckpointError::io(path, "open")(error)),
    }
}

impl Shelf for Place {
    type File = Held;

    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> Result<Option<Held>> {
        let Some(file) = open_and_lock(&self.target, true)? else { return Ok(None) };
        let found = file.metadata().map_err(CheckpointError::io(&self.path, "open"))?;
        match names_of(&found) {
            1 => Ok(Some(Held::new(file, self.target.clone()))),
            names => Err(CheckpointError::HardLinks { path: self.path.clone(), names }),
        }
    }

    fn create(&self) -> Result<Held> {
        let no_name = || CheckpointError::NotAFile { path: self.path.clone() };
        let prefix = self.prefix().ok_or_else(no_name)?;
        self.sweep(&prefix);
        let held = self.create_and_lock(&prefix)?;
        // Like no other file, it stays its owner's alone.
        let like = fs::metadata(&self.target).ok().or(self.like.clone());
        if let Err(error) = like.map_or(Ok(()), |like| adopt(&held.file, &like)) {
            let error = CheckpointError::io(&held.path, "set the owner and mode of")(error);
            self.discard(held);
            return Err(error);
        }
        Ok(held)
    }

    fn put_in_place(&self, file: &Held, replaced: Option<&Held>) -> Result<()> {
        let failed = || CheckpointError::io(&self.path, "replace");
        match replaced {
            // The file that has the name is locked here, so that no other process replaces it meanwhile.
            Some(replaced)
                if !outlast_pmem::is_named(&self.target, &replaced.file).unwrap_or(false) =>
            {
                return Err(CheckpointError::Replaced { path: self.path.clone() });
            }
            Some(_) => fs::rename(&file.path, &self.target).map_err(failed())?,
            None => {
                rename_to_new(&file.path, &self.target).map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => {
                        CheckpointError::Exists { path: self.path.clone() }
                    }
                    _ => failed()(error),
                })?
            }
        }
        let directory = self.directory();
        sync_directory(directory).map_err(CheckpointError::io(directory, "make durable"))
    }

    fn discard(&self, held: Held) {
        // The error that is reported is the one that made the file useless.
        outlast_pmem::remove_if_free(&held.path, &held.file);
    }
}

/// Gives a file a name that no other file has.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Some file systems do not know it.
            Err(Errno::INVAL | Errno::NOSYS) => {}
            renamed => return Ok(renamed?),
        }
    }
    fs::hard_link(from, to)?;
    fs::remove_file(from)
}

#[cfg(unix)]
fn names_of(found: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(found)
}

/// Elsewhere hard links are not counted.
#[cfg(not(unix))]
fn names_of(_found: &Metadata) -> u64 {
    1
}

/// A new file that no other user can read.
fn new_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The mode and, where that is allowed, the owner of another file. A group that cannot be given
/// the file gets no more than others may.
#[cfg(unix)]
fn adopt(file: &File, like: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let (uid, gid) = (like.uid(), like.gid());
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (uid, gid) && fchown(file, Some(uid), Some(gid)).is_err() {
        let _ = fchown(file, None, Some(gid));
    }
    let mut mode = like.mode() & 0o777;
    if file.metadata()?.gid() != gid {
        mode &= !0o070 | (mode & 0o007) << 3;
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn adopt(_file: &File, _like: &Metadata) -> io::Result<()> {
    Ok(())
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
