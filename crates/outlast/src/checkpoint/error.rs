//! Errors of a checkpoint, its making and its restoring.

use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// Why there is no checkpoint, or nothing restored from it. Each is one line that names the file
/// and what would be right. The pool is as it was, and so are the checkpoints made before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The operating system refused.
    #[error("{}: cannot {what} it: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation.
        what: &'static str,
        /// The operating system's error.
        error: io::Error,
    },
    /// A write to the pool's file has failed.
    #[error(transparent)]
    Medium(#[from] outlast_pmem::MediumFailure),
    /// Nothing of this name.
    #[error("{}: there is no such checkpoint; `outlast pool checkpoint` makes one", path.display())]
    Missing {
        /// The file looked for.
        path: PathBuf,
    },
    /// A directory, a device or a pipe.
    #[error("{}: is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A file of another kind.
    #[error("{}: is no checkpoint of a pool, and is not touched", path.display())]
    NotACheckpoint {
        /// The file.
        path: PathBuf,
    },
    /// The file was cut off before its first checkpoint ends.
    #[error("{}: holds no whole checkpoint", path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
    },
    /// A format that this code does not know.
    #[error("{}: checkpoint format version {found}, this Outlast reads version {expected}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: u32,
        /// The value that this code reads.
        expected: u32,
    },
    /// The checkpoint is another pool's.
    #[error("{}: is of the pool with UUID {found}, not of {expected}", path.display())]
    OtherPool {
        /// The checkpoint.
        path: PathBuf,
        /// Whose it is.
        found: Uuid,
        /// Whose was wanted.
        expected: Uuid,
    },
    /// Bytes that were not written so.
    #[error("{}: damaged at byte {at}: {what}", path.display())]
    Damaged {
        /// The checkpoint.
        path: PathBuf,
        /// Where the damaged part begins.
        at: u64,
        /// What about it.
        what: &'static str,
    },
    /// The file that a pool would replace is something else.
    #[error("{}: is no pool, and is not overwritten; `--aside` keeps it under another name", path.display())]
    NotAPool {
        /// The file.
        path: PathBuf,
    },
    /// A file of this name was made meanwhile.
    #[error("{}: was made by another program meanwhile, and is not overwritten", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file has more than one name, of which replacing it would change one.
    #[error("{}: has {names} names (hard links), and would be parted from the others; remove those first", path.display())]
    HardLinks {
        /// The file.
        path: PathBuf,
        /// How many names.
        names: u64,
    },
    /// A symbolic link whose target is missing.
    #[error("{}: is a symbolic link to nothing; name the file itself", path.display())]
    DanglingLink {
        /// The link.
        path: PathBuf,
    },
    /// Each time that the file was opened another one had its name by the time it was locked.
    #[error("{}: another file took its name meanwhile; try again", path.display())]
    Replaced {
        /// The name.
        path: PathBuf,
    },
    /// The pool's file was cut off while it was mapped, in spite of its lock.
    #[error(
        "the pool's file was cut off to {found} bytes while {mapped} were mapped; restore it from a checkpoint"
    )]
    Truncated {
        /// Bytes mapped.
        mapped: u64,
        /// Bytes of the file now.
        found: u64,
    },
    /// This process or another one has the file open.
    #[error("{}: is in use, by this process or another; close it there first", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The pool's own file is missing or does not say which pool it is.
    #[error("{}: {why}, so name the checkpoint to restore with --from", path.display())]
    SourceUnknown {
        /// The pool's file.
        path: PathBuf,
        /// What is the matter with it.
        why: &'static str,
    },
    /// This process is a forked child of the one that opened the pool.
    #[error(
        "the pool was opened by the process that forked this one, and is that one's: close it there, then open it here"
    )]
    Forked,
    /// The calling thread has a transaction open, for whose end the checkpoint would wait.
    #[error("this thread has a transaction open: end it before making a checkpoint")]
    InTransaction,
}

impl CheckpointError {
    /// Whether stored bytes contradict themselves, rather than something being asked for that is
    /// not there.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Incomplete { .. })
    }

    pub(super) fn io(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { path, what, error }
    }
}
