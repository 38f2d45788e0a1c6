//! Why a file could not be mapped: one line each, naming the file and what would be right.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outlast_trace::Domain;

/// Lengths of mapped files are multiples of this many bytes, on every system.
pub const PAGE_BYTES: u64 = 4096;

/// A file could not be created, opened or made larger. The file is as it was before, and one
/// that was being created is gone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// There is nothing of this name.
    #[error("{}: there is no such file", path.display())]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// The directory that was to hold a new file is missing.
    #[error("{}: the directory to create it in does not exist; create that first", path.display())]
    NoDirectory {
        /// The file.
        path: PathBuf,
    },
    /// Something of this name exists, and nothing is ever overwritten.
    #[error("{}: exists already and is not overwritten; remove it or take another name", path.display())]
    AlreadyExists {
        /// The file.
        path: PathBuf,
    },
    /// The operating system denies access.
    #[error("{}: no permission to {what} it", path.display())]
    PermissionDenied {
        /// The file.
        path: PathBuf,
        /// What was attempted.
        what: &'static str,
    },
    /// A directory, a device or a pipe.
    #[error("{}: is {is}, not a regular file", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
        /// What it is.
        is: &'static str,
    },
    /// The file system cannot hold the file.
    #[error("{}: {needed} bytes do not fit on its file system{}", path.display(), free_words(*.free))]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// Bytes that had to be allocated.
        needed: u64,
        /// Bytes that were free, where the file system tells it.
        free: Option<u64>,
    },
    /// The file has holes, and its file system no space for them: storing there would end the
    /// process.
    #[error(
        "{}: it has holes, whose {holes} bytes do not fit on its file system{}; free space there, or copy it whole elsewhere",
        path.display(),
        free_words(*.free)
    )]
    Holes {
        /// The file.
        path: PathBuf,
        /// Bytes that are not allocated.
        holes: u64,
        /// Bytes that were free, where the file system tells it.
        free: Option<u64>,
    },
    /// The process may not make files as long.
    #[error("{}: {len} bytes are past this process's limit of {limit} for a file (ulimit -f)", path.display())]
    FileLimit {
        /// The file.
        path: PathBuf,
        /// The length asked for, in bytes.
        len: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// Each time that the file was opened another one had its name by the time it was locked.
    #[error("{}: another file took its name while it was opened; open it again", path.display())]
    Replaced {
        /// The name.
        path: PathBuf,
    },
    /// The file was cut off while it was mapped, in spite of its lock.
    #[error("{}: cut off to {found} bytes while {mapped} were mapped; restore it from a checkpoint", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes mapped.
        mapped: u64,
        /// Bytes of the file now.
        found: u64,
    },
    /// The calling process is a forked child of the one that mapped the file.
    #[error("{}: was mapped by the process that forked this one; close it there, then open it here", path.display())]
    Forked {
        /// The file.
        path: PathBuf,
    },
    /// This process or another one has the file mapped: a writer, or, for a writer, any process.
    #[error("{}: is already open, in this process or another; close it there first", path.display())]
    AlreadyOpen {
        /// The file.
        path: PathBuf,
    },
    /// The length is one that no mapped file has.
    #[error("{}: a length of {len} bytes is not a positive multiple of {PAGE_BYTES}", path.display())]
    BadLength {
        /// The file.
        path: PathBuf,
        /// Its length, or the one asked for, in bytes.
        len: u64,
    },
    /// Growth past the address space that was reserved when the file was mapped.
    #[error("{}: cannot grow to {len} bytes, it was opened for at most {max_len}: open it with a larger limit", path.display())]
    PastLimit {
        /// The file.
        path: PathBuf,
        /// The length asked for, in bytes.
        len: u64,
        /// The limit, in bytes.
        max_len: u64,
    },
    /// The process has no room for the mapping.
    #[error("{}: the process cannot reserve {len} bytes of addresses: {source}", path.display())]
    NoAddresses {
        /// The file.
        path: PathBuf,
        /// Bytes of address space asked for.
        len: u64,
        /// What the operating system said.
        source: io::Error,
    },
    /// Something that writes, on a medium for reading only.
    #[error("{}: opened for reading only, a file can be neither created nor enlarged", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The domain needs an instruction that makes single lines durable, and none is known for this processor.
    #[error(
        "{}: the domain {domain} needs an x86-64 processor, or one of AArch64 with dc cvap; use page or process here",
        path.display()
    )]
    NoSuchDomain {
        /// The file.
        path: PathBuf,
        /// The domain asked for.
        domain: Domain,
    },
    /// Anything else that the operating system reported.
    #[error("{}: cannot {what} it: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was attempted.
        what: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
}

/// A write to a medium has failed. The system may have dropped what was to be written and called it
/// clean, so a later success would prove nothing: the medium takes no further writes, and every later
/// commit fails with this error. Everything acknowledged before is durable. Close the pool and open
/// it again; recovery brings it to a state with all of that.
///
/// Clones share the cause.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}; the pool takes no more commits: close it and open it again")]
pub struct MediumFailure(#[source] Arc<MapError>);

impl MediumFailure {
    /// With the name of the file and the call that failed.
    pub(crate) fn new(path: &Path, what: &'static str, source: io::Error) -> Self {
        Self(Arc::new(MapError::Io { path: path.to_owned(), what, source }))
    }

    /// The file, the call and the operating system's error.
    pub fn cause(&self) -> &MapError {
        &self.0
    }

    /// The operating system's number of the error, if it gave one.
    pub fn errno(&self) -> Option<i32> {
        match &*self.0 {
            MapError::Io { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// An error like this one, which cannot be cloned.
pub(crate) fn same_error(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

impl MapError {
    /// Sorts an error of the operating system into the kinds above.
    /// What the system said of `what` was to be done with a file.
    #[doc(hidden)]
    pub fn io(path: &Path, what: &'static str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            io::ErrorKind::AlreadyExists => Self::AlreadyExists { path },
            // A read-only file system is a missing permission too.
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::PermissionDenied { path, what }
            }
            io::ErrorKind::IsADirectory => Self::NotRegular { path, is: "a directory" },
            _ => Self::Io { path, what, source },
        }
    }
}

fn free_words(free: Option<u64>) -> String {
    free.map_or_else(String::new, |free| format!(", which has {free} free"))
}
