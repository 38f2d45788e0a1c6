//! Opening, creating and closing the process's pool.

use std::ffi::{CStr, c_char};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::{Ack, Pool, PoolError, Scheme};
use outlast_pmem::{Domain, MapError, MapOptions, Medium};

use crate::code::ArchaptCode;
use crate::error::{Failure, Kind, guarded};
use crate::session::{self, Shared};

/// How to open or create a pool. Start from `ArchaptOptions options = {0};`: what is zero or null
/// takes its default. Texts are read during the call only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArchaptOptions {
    /// The pool's file. Not null.
    pub path: *const c_char,
    /// Bytes of a new pool; needed where one is created.
    pub size_bytes: u64,
    /// How transactions are made durable: "undo", "redo", "undo-archapt" or "redo-archapt", which
    /// is the default; or "none", which loses everything in a crash.
    pub scheme: *const c_char,
    /// When Archapt_Tx_End answers: "logical", the default, or "physical".
    pub ack: *const c_char,
    /// The memory that a crash spares: "process", "page", "adr" or "eadr". The default is what this machine
    /// and the file are found to have.
    pub domain: *const c_char,
    /// Bytes of the cache that the LRU queue reckons with; 0 for this machine's last level.
    pub cache_bytes: u64,
    /// The pool grows by itself up to this many bytes; 0 for never.
    pub grow_limit_bytes: u64,
    /// Threads that can have transactions in a new pool at the same time; 0 for 8.
    pub lanes: u32,
    /// Not 0: the first thread locks too. Else it runs without locks until another thread starts
    /// a transaction, which then waits for the one under way.
    pub lock_always: u32,
    /// Zero.
    pub reserved: [u64; 4],
}

/// The options, read.
struct Wanted {
    path: PathBuf,
    size_bytes: u64,
    create: CreateOptions,
    open: OpenOptions,
    map: MapOptions,
    ack: Ack,
}

/// The name that a field gives, read as what it is the name of.
///
/// # Safety
/// - `name` is null or points to a text that ends with a zero.
pub(crate) unsafe fn named<T: FromStr<Err: ToString>>(
    name: *const c_char,
) -> Result<Option<T>, Failure> {
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: it is not null, so the caller says that it is a text.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    name.parse().map(Some).map_err(|error: T::Err| Failure::bad(error.to_string()))
}

#[cfg(unix)]
pub(crate) fn path_of(path: &CStr) -> Result<PathBuf, Failure> {
    use std::os::unix::ffi::OsStrExt;
    Ok(std::ffi::OsStr::from_bytes(path.to_bytes()).into())
}

#[cfg(not(unix))]
pub(crate) fn path_of(path: &CStr) -> Result<PathBuf, Failure> {
    path.to_str().map(PathBuf::from).map_err(|_| Failure::bad("the path is not UTF-8"))
}

/// # Safety
/// - `options` is null or points to options whose texts are null or end with a zero.
unsafe fn read(options: *const ArchaptOptions) -> Result<Wanted, Failure> {
    // SAFETY: null becomes `None`, else the caller says that they are options.
    let options =
        unsafe { options.as_ref() }.ok_or_else(|| Failure::bad("the options are null"))?;
    if options.path.is_null() {
        return Err(Failure::bad("the options name no path"));
    }
    if options.reserved != [0; 4] {
        return Err(Failure::bad("the options' reserved words are not zero: start from `= {0}`"));
    }
    // SAFETY: it is not null, so the caller says that it is a text.
    let path = path_of(unsafe { CStr::from_ptr(options.path) })?;
    // SAFETY: the caller says that these are null or texts.
    let (scheme, ack, domain) = unsafe {
        (
            named::<Scheme>(options.scheme)?,
            named::<Ack>(options.ack)?,
            named::<Domain>(options.domain)?,
        )
    };
    let mut create = CreateOptions::default();
    if options.lanes != 0 {
        create.lanes = options.lanes;
    }
    let open = OpenOptions {
        cache_bytes: (options.cache_bytes != 0).then_some(options.cache_bytes),
        grow_limit_bytes: options.grow_limit_bytes,
        lock_always: options.lock_always != 0,
        ..OpenOptions::with_scheme(scheme.unwrap_or(Scheme::RedoArchapt))
    };
    let map = MapOptions { domain, ..MapOptions::default() };
    let max_len = map.max_len.max(options.grow_limit_bytes);
    let map = MapOptions { max_len, ..map };
    let (size_bytes, ack) = (options.size_bytes, ack.unwrap_or_default());
    Ok(Wanted { path, size_bytes, create, open, map, ack })
}

impl Wanted {
    fn create(&self) -> Result<Pool, PoolError> {
        Pool::create_with(&self.path, self.size_bytes, &self.create, &self.open, &self.map)
    }

    fn open(&self) -> Result<Pool, PoolError> {
        Pool::open_with(&self.path, &self.open, &self.map)
    }

    fn open_or_create(&self) -> Result<Pool, PoolError> {
        match self.open() {
            Err(PoolError::Map(MapError::NotFound { .. })) if self.size_bytes > 0 => self.create(),
            opened => opened,
        }
    }
}

/// Makes a pool the process's.
///
/// # Safety
/// - As of [`read`].
unsafe fn begin(
    options: *const ArchaptOptions,
    how: fn(&Wanted) -> Result<Pool, PoolError>,
) -> ArchaptCode {
    guarded(|| {
        // SAFETY: the caller says so.
        let wanted = unsafe { read(options) }?;
        let mut place = session::pool();
        if place.is_some() {
            return Err(Failure::of(Kind::AlreadyOpen));
        }
        *place = Some(Shared { pool: Arc::new(how(&wanted)?), ack: wanted.ack });
        Ok(())
    })
}

/// Table II. Opens the pool of that path through recovery, or creates it where there is no such
/// file and a size is given. A process has one pool at a time.
///
/// # Safety
/// - `options` is null or points to options whose texts are null or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Archapt_Init(options: *const ArchaptOptions) -> ArchaptCode {
    // SAFETY: the caller says so.
    unsafe { begin(options, Wanted::open_or_create) }
}

/// Creates a pool in a new file. An existing file is never overwritten.
///
/// # Safety
/// - As of Archapt_Init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Archapt_Create(options: *const ArchaptOptions) -> ArchaptCode {
    // SAFETY: the caller says so.
    unsafe { begin(options, Wanted::create) }
}

/// Opens a pool through recovery. Size and lanes are the pool's own.
///
/// # Safety
/// - As of Archapt_Init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Archapt_Open(options: *const ArchaptOptions) -> ArchaptCode {
    // SAFETY: the caller says so.
    unsafe { begin(options, Wanted::open) }
}

/// Closes the process's pool in peace: every commit is physical. The calling thread must have no
/// transaction, and other threads no session: they have ended or called Archapt_Leave. A process
/// that ends without it loses nothing.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Close() -> ArchaptCode {
    guarded(|| {
        session::leave()?;
        let mut place = session::pool();
        let shared = place.take().ok_or_else(session::not_open)?;
        match Arc::try_unwrap(shared.pool) {
            Ok(pool) => close(pool)?,
            Err(pool) => {
                let sessions = Arc::strong_count(&pool) - 1;
                *place = Some(Shared { pool, ..shared });
                let text = format!("{sessions} other threads have sessions with the pool");
                return Err(Failure::new(Kind::Busy, text));
            }
        }
        Ok(())
    })
}

/// Closes a pool. It is closed also when a write to its file has failed, now or earlier; then that is
/// the error.
pub(crate) fn close(pool: Pool) -> Result<(), PoolError> {
    pool.close().failure().map_or(Ok(()), |failure| Err(failure.into()))
}

/// Gives the calling thread's session with the pool back, so that another thread can have its lane. A
/// thread that ends does so by itself, and one that starts a transaction takes a session again.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Leave() -> ArchaptCode {
    guarded(session::leave)
}
