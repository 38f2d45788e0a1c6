//! A pool of libpmemobj's.
//!
//! Offsets are libpmemobj's own: bytes from the start of the pool, which is mapped as a whole,
//! so a load is a copy from base + offset. The root object holds the offset and the kind of our
//! root. Blocks come from header-less allocation classes at multiples of 64 bytes (of 16 below
//! 64): the default classes put data 16 bytes into a line behind a header, which would break
//! `Transact`'s alignment promise and flush one line more per block.

use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use outlast::Abort;
use rustc_hash::FxHashSet;

use crate::api::{Pmdk, RawPool, flushing_is_forced};
use crate::classes::Classes;
use crate::intervals::Intervals;
use crate::place::is_memory;
use crate::tx::PmdkTx;

/// The extent that is snapshotted before stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Granularity {
    /// Each announced range as a whole, and each store that was not announced: how a careful C
    /// program uses libpmemobj. Scheme `pmdk`.
    Range,
    /// Each aligned 8-byte word of a store on its own; announcements are ignored: what
    /// `p<T>` of the C++ bindings does at every assignment. Scheme `pmdk-word`.
    Word,
}

/// A pool could not be created, opened or checked.
#[derive(Debug, thiserror::Error)]
pub enum PmdkError {
    /// libpmemobj refused; the text is its own.
    #[error("{}: libpmemobj: {reason}", path.display())]
    Library {
        /// The pool.
        path: PathBuf,
        /// The library's words.
        reason: String,
    },
    /// The path cannot be handed to a C library.
    #[error("{}: libpmemobj takes no such path", .0.display())]
    Path(PathBuf),
    /// Flushing caches would not make this file durable.
    #[error(
        "{}: not in memory, and PMEM_IS_PMEM_FORCE=1 makes libpmemobj flush caches only; \
         use /dev/shm or a DAX file system",
        .0.display()
    )]
    NotMemory(PathBuf),
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The pool.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

const LAYOUT: &CStr = c"outlast-peer";

/// The least pool of libpmemobj, in bytes.
const SIZE_BYTES_MIN: u64 = 8 << 20;
const PAGE_BYTES: u64 = 4096;

/// Offset and kind of our root: two words.
pub(crate) const ROOT_BYTES: u64 = 16;

/// A libpmemobj pool, open, as a [`Runner`](outlast::Runner) for one thread at a time.
///
/// libpmemobj promises no isolation, so a pool has one session. Transactions are bound to the
/// thread that began them; between transactions a pool may move to another thread.
pub struct PmdkPool {
    /// Between transactions: one that has not begun.
    pub(crate) tx: PmdkTx,
}

/// An open pool, and what is remembered of its running transaction.
pub(crate) struct Opened {
    pub(crate) pmdk: Pmdk,
    pub(crate) raw: NonNull<RawPool>,
    /// Bytes mapped from `raw` on.
    pub(crate) len: u64,
    pub(crate) uuid_lo: u64,
    pub(crate) root: u64,
    pub(crate) granularity: Granularity,
    pub(crate) classes: Classes,
    /// The ranges that the running transaction may store into: snapshotted, or allocated by it.
    pub(crate) covered: Intervals,
    /// Blocks that the running transaction frees.
    pub(crate) freed: FxHashSet<u64>,
}

// SAFETY: libpmemobj's pools may be used from any thread, one after another and even at once;
// what is bound to a thread is a running transaction, and that cannot outlive the call of `run`
// that borrows the pool.
unsafe impl Send for PmdkPool {}

impl PmdkPool {
    /// Creates a pool file of `size_bytes` bytes, at least 8 MiB, rounded up to whole pages.
    ///
    /// # Errors
    /// When the file exists, does not lie in memory, or libpmemobj refuses.
    pub fn create(
        pmdk: Pmdk,
        path: &Path,
        size_bytes: u64,
        granularity: Granularity,
    ) -> Result<Self, PmdkError> {
        let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        require_memory(directory.unwrap_or(Path::new(".")), path)?;
        let c_path = c_path(path)?;
        let len = size_bytes.max(SIZE_BYTES_MIN).next_multiple_of(PAGE_BYTES);
        // SAFETY: both strings are C strings that outlive the call.
        let raw =
            unsafe { (pmdk.api().create)(c_path.as_ptr(), LAYOUT.as_ptr(), len as usize, 0o600) };
        Self::adopt(pmdk, raw, path, len, granularity)
    }

    /// Opens a pool, undoing what a crash interrupted.
    ///
    /// # Errors
    /// When the file is not such a pool, is open elsewhere, does not lie in memory, or
    /// libpmemobj refuses.
    pub fn open(pmdk: Pmdk, path: &Path, granularity: Granularity) -> Result<Self, PmdkError> {
        require_memory(path, path)?;
        let c_path = c_path(path)?;
        let io = |source| PmdkError::Io { path: path.to_owned(), source };
        let len = std::fs::metadata(path).map_err(io)?.len() / PAGE_BYTES * PAGE_BYTES;
        // SAFETY: both strings are C strings that outlive the call.
        let raw = unsafe { (pmdk.api().open)(c_path.as_ptr(), LAYOUT.as_ptr()) };
        Self::adopt(pmdk, raw, path, len, granularity)
    }

    /// Whether libpmemobj finds the pool file consistent. It must not be open.
    ///
    /// # Errors
    /// When the check cannot be made.
    pub fn check(pmdk: Pmdk, path: &Path) -> Result<bool, PmdkError> {
        let c_path = c_path(path)?;
        // SAFETY: both strings are C strings that outlive the call.
        match unsafe { (pmdk.api().check)(c_path.as_ptr(), LAYOUT.as_ptr()) } {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(library_error(pmdk, path)),
        }
    }

    fn adopt(
        pmdk: Pmdk,
        raw: *mut RawPool,
        path: &Path,
        len: u64,
        granularity: Granularity,
    ) -> Result<Self, PmdkError> {
        let raw = NonNull::new(raw).ok_or_else(|| library_error(pmdk, path))?;
        // From here on, dropping the value closes the pool.
        let mut pool = Opened {
            pmdk,
            raw,
            len,
            uuid_lo: 0,
            root: 0,
            granularity,
            classes: Classes::default(),
            covered: Intervals::default(),
            freed: FxHashSet::default(),
        };
        // SAFETY: the pool was opened just now, so no transaction has run on it.
        pool.classes = unsafe { Classes::register(pmdk.api(), raw.as_ptr()) }.map_err(|size| {
            let reason = format!("no allocation class for blocks of {size} bytes");
            PmdkError::Library { path: path.to_owned(), reason }
        })?;
        // SAFETY: the pool is open. The root object is made, of zeros, if there was none.
        let root = unsafe { (pmdk.api().root)(raw.as_ptr(), ROOT_BYTES as usize) };
        if root.offset == 0 {
            return Err(library_error(pmdk, path));
        }
        pool.root = root.offset;
        pool.uuid_lo = root.pool_uuid_lo;
        Ok(Self { tx: PmdkTx::new(pool) })
    }
}

impl Opened {
    /// The address of the `len` bytes at `at`.
    #[inline]
    pub(crate) fn address(&self, what: &'static str, at: u64, len: u64) -> Result<*mut u8, Abort> {
        if at > self.len || self.len - at < len {
            return Err(outside(what, at));
        }
        // SAFETY: the mapping is one allocation of `self.len` bytes from `raw` on, and `at` was
        // just found inside it.
        Ok(unsafe { self.raw.as_ptr().cast::<u8>().add(at as usize) })
    }
}

#[cold]
fn outside(what: &'static str, at: u64) -> Abort {
    Abort::bad_address(what, outlast::PoolOffset(at), "outside the pool")
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the pool is open, and every transaction has ended with the call that ran it.
        unsafe { (self.pmdk.api().close)(self.raw.as_ptr()) };
    }
}

impl std::fmt::Debug for PmdkPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PmdkPool")
            .field("len", &self.tx.pool.len)
            .field("granularity", &self.tx.pool.granularity)
            .finish_non_exhaustive()
    }
}

fn require_memory(probe: &Path, path: &Path) -> Result<(), PmdkError> {
    let io = |source| PmdkError::Io { path: path.to_owned(), source };
    if flushing_is_forced() && !is_memory(probe).map_err(io)? {
        return Err(PmdkError::NotMemory(path.to_owned()));
    }
    Ok(())
}

fn library_error(pmdk: Pmdk, path: &Path) -> PmdkError {
    PmdkError::Library { path: path.to_owned(), reason: pmdk.last_error() }
}

fn c_path(path: &Path) -> Result<CString, PmdkError> {
    let refused = || PmdkError::Path(path.to_owned());
    CString::new(path.to_str().ok_or_else(refused)?).map_err(|_| refused())
}

/// A pointer as the C interface takes it.
#[inline]
pub(crate) fn as_c(pointer: *const u8) -> *const c_void {
    pointer.cast()
}
