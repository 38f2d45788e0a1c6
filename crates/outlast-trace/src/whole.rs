//! Files that are there whole or not at all.
//!
//! Bytes go to a file beside the place, which is renamed when all are in it.
//! Until then the place holds what it held: a full disk, a limit on file sizes or a failed run
//! leaves nothing behind. Devices and pipes are written through.
//!
//! A killed run cannot remove its file: the next one that writes into the same directory does. The
//! owner of such a file holds a lock on it, which the system lets go of with the process.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tempfile::NamedTempFile;

/// The first bytes of files that hold a user's data: pools and their checkpoints.
const PRECIOUS: [&[u8]; 2] = [b"OUTLAST", b"OUTLCKPT"];

/// The prefix of the names of files under way; some letters and digits follow.
const PREFIX: &str = ".outlast-";

/// Letters and digits behind the prefix.
const DRAWN: usize = 6;

/// A file under way. Dropped without [`finish`](Self::finish) it leaves nothing.
#[derive(Debug)]
pub struct WholeFile {
    file: BufWriter<Under>,
    path: PathBuf,
}

/// Where the bytes go.
#[derive(Debug)]
enum Under {
    /// A file beside the place.
    Beside(NamedTempFile, Scratch),
    /// A device or a pipe.
    Through(File),
}

impl Write for Under {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Beside(file, _) => file.write(bytes),
            Self::Through(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Beside(file, _) => file.flush(),
            Self::Through(file) => file.flush(),
        }
    }
}

impl WholeFile {
    /// Begins a file for this place. A regular file that is there stays until the end, and has to
    /// be one that could be written to.
    ///
    /// # Errors
    /// When the place cannot be written to, or holds a pool or a checkpoint.
    pub fn create(path: &Path) -> io::Result<Self> {
        let begun = |under| Self { file: BufWriter::new(under), path: path.to_owned() };
        let (target, mode) = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
            Err(error) => return Err(error),
            Ok(found) if !found.is_file() || is_open_already(path) => {
                return File::options().write(true).open(path).map(Under::Through).map(begun);
            }
            Ok(found) => {
                // Renaming asks the directory alone; opening asks for the right to write the file.
                drop(File::options().append(true).open(path)?);
                refuse_precious(path)?;
                // Behind a link it is the file that is replaced.
                (fs::canonicalize(path)?, Some(found.permissions()))
            }
        };
        let directory = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).rand_bytes(DRAWN);
        #[cfg(unix)]
        builder.permissions(mode.unwrap_or_else(|| {
            std::os::unix::fs::PermissionsExt::from_mode(0o666) // As far as the umask lets.
        }));
        #[cfg(not(unix))]
        let _ = mode;
        sweep(directory);
        let file = loop {
            let file = builder.tempfile_in(directory)?;
            // Where files have no locks, nothing is swept either. Another run may have swept this one
            // before it was locked.
            if file.as_file().lock().is_err() || file.path().exists() {
                break file;
            }
        };
        let scratch = Scratch::register(file.path());
        Ok(Self { file: BufWriter::new(Under::Beside(file, scratch)), path: target })
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// When something could not be written; the place is as it was.
    pub fn finish(self) -> io::Result<()> {
        match self.file.into_inner().map_err(io::IntoInnerError::into_error)? {
            Under::Beside(file, _scratch) => {
                file.persist(&self.path).map(drop).map_err(|error| error.error)
            }
            Under::Through(mut file) => file.flush(),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a file whole, or leaves the place as it was.
///
/// # Errors
/// As [`WholeFile`] has them.
pub fn write_whole(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes.as_ref())?;
    file.finish()
}

/// Whether the path is another name of what the process has open: behind it the file may be one
/// that the caller's other output goes to.
fn is_open_already(path: &Path) -> bool {
    path == Path::new("/dev/stdout")
        || path == Path::new("/dev/stderr")
        || path.starts_with("/dev/fd")
        || path.starts_with("/proc")
}

/// Removes files of runs that live no more. What cannot be removed stays: it may be another user's.
fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let is_ours = |name: &std::ffi::OsStr| {
        let drawn = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        drawn.is_some_and(|drawn| {
            drawn.len() == DRAWN && drawn.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    };
    for entry in entries.flatten().filter(|entry| is_ours(&entry.file_name())) {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let Some(file) = File::open(entry.path()).ok().filter(|_| is_file) else { continue };
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn refuse_precious(path: &Path) -> io::Result<()> {
    let mut start = [0; 8];
    // What cannot be read, or is shorter, is neither.
    let is_read =
        File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut start)).is_ok();
    if is_read && PRECIOUS.iter().any(|magic| start.starts_with(magic)) {
        let what = "holds a pool or its checkpoint, and is not written over";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    Ok(())
}

/// Files and directories of this process that are only there for a time. A process that is told
/// to end removes them first.
static SCRATCH: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn scratch() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    SCRATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file or directory that is only there for a time, as long as this lives.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Registers it; its owner removes it.
    pub fn register(path: &Path) -> Self {
        scratch().insert(path.to_owned());
        Self(path.to_owned())
    }

    /// Removes all that is registered: the process is about to end.
    pub fn remove_all() {
        let registered = scratch();
        for path in registered.iter() {
            // Other threads may still make files in a directory.
            let _ = (0..8).any(|_| match fs::symlink_metadata(path) {
                Ok(found) if found.is_dir() => fs::remove_dir_all(path).is_ok(),
                Ok(_) => fs::remove_file(path).is_ok(),
                Err(_) => true,
            });
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        scratch().remove(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_there_whole_or_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert!(names(directory.path()).is_empty());
        write_whole(&path, "first").unwrap();
        let mut second = WholeFile::create(&path).unwrap();
        second.write_all(&[b's'; 100_000]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        second.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap().len(), 100_000);
        assert_eq!(names(directory.path()), ["f"]);
    }

    #[test]
    fn what_a_killed_run_left_is_swept_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in [".outlast-a1B2c3", ".outlast-notes.txt", ".outlast-"] {
            fs::write(at(name), "left").unwrap();
        }
        fs::create_dir(at(".outlast-folder")).unwrap();
        let living = WholeFile::create(&at("living")).unwrap();
        write_whole(&at("f"), "next").unwrap();
        let names = names(directory.path());
        assert!(!at(".outlast-a1B2c3").exists(), "{names:?}");
        assert_eq!(names.len(), 5, "the living run's, and four: {names:?}");
        living.finish().unwrap();
        assert!(at("living").exists() && at(".outlast-notes.txt").exists());
    }

    #[cfg(unix)]
    #[test]
    fn modes_links_and_devices_stay_what_they_are() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("f"), directory.path().join("l"));
        write_whole(&path, "first").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        symlink(&path, &link).unwrap();
        write_whole(&link, "second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        write_whole(Path::new("/dev/null"), "gone").unwrap();
        assert!(write_whole(Path::new("/dev/full"), "no room").is_err());
        assert!(write_whole(directory.path(), "a directory").is_err());
        assert!(write_whole(&directory.path().join("absent/f"), "nowhere").is_err());
    }

    #[test]
    fn a_pool_is_not_written_over() {
        let directory = tempfile::tempdir().unwrap();
        for magic in PRECIOUS {
            let path = directory.path().join("p");
            fs::write(&path, [magic, b"\x01data"].concat()).unwrap();
            let error = write_whole(&path, "trace").unwrap_err().to_string();
            assert!(error.contains("not written over"), "{error}");
            assert!(fs::read(&path).unwrap().ends_with(b"data"));
        }
    }
}
