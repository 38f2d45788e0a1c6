//! The structures of `sqlite3.h` and `sqlite3ext.h` that a VFS needs, and SQLite's numbers.
//!
//! They are written down here, since SQLite promises that none of them ever changes but by growing at its end:
//! so no C header is needed to build this crate.
#![allow(missing_docs)]

use std::ffi::{CStr, c_char, c_int, c_void};

pub(crate) const OK: c_int = 0;
pub(crate) const ERROR: c_int = 1;
pub(crate) const BUSY: c_int = 5;
pub(crate) const NOMEM: c_int = 7;
pub(crate) const READONLY: c_int = 8;
pub(crate) const IOERR: c_int = 10;
pub(crate) const NOTFOUND: c_int = 12;
pub(crate) const FULL: c_int = 13;
pub(crate) const CANTOPEN: c_int = 14;
pub(crate) const OK_LOAD_PERMANENTLY: c_int = 1 << 8;
pub(crate) const IOERR_SHORT_READ: c_int = IOERR | 2 << 8;
pub(crate) const IOERR_LOCK: c_int = IOERR | 15 << 8;
pub(crate) const IOERR_DELETE_NOENT: c_int = IOERR | 23 << 8;

pub(crate) const OPEN_READONLY: c_int = 0x1;
pub(crate) const OPEN_READWRITE: c_int = 0x2;
pub(crate) const OPEN_CREATE: c_int = 0x4;
pub(crate) const OPEN_DELETEONCLOSE: c_int = 0x8;
pub(crate) const OPEN_MEMORY: c_int = 0x80;
pub(crate) const OPEN_MAIN_DB: c_int = 0x100;
pub(crate) const OPEN_MAIN_JOURNAL: c_int = 0x800;
pub(crate) const OPEN_WAL: c_int = 0x80000;

pub(crate) const IOCAP_SAFE_APPEND: c_int = 0x200;
pub(crate) const IOCAP_SEQUENTIAL: c_int = 0x400;
pub(crate) const IOCAP_UNDELETABLE_WHEN_OPEN: c_int = 0x800;
pub(crate) const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x1000;
pub(crate) const IOCAP_BATCH_ATOMIC: c_int = 0x4000;

pub(crate) const FCNTL_LOCKSTATE: c_int = 1;
pub(crate) const FCNTL_SIZE_HINT: c_int = 5;
pub(crate) const FCNTL_VFSNAME: c_int = 12;
pub(crate) const FCNTL_PRAGMA: c_int = 14;
pub(crate) const FCNTL_SYNC: c_int = 21;
pub(crate) const FCNTL_COMMIT_PHASETWO: c_int = 22;
pub(crate) const FCNTL_BEGIN_ATOMIC_WRITE: c_int = 31;
pub(crate) const FCNTL_COMMIT_ATOMIC_WRITE: c_int = 32;
pub(crate) const FCNTL_ROLLBACK_ATOMIC_WRITE: c_int = 33;

/// `sqlite3_file`.
#[repr(C)]
pub(crate) struct File {
    pub methods: *const IoMethods,
}

/// `sqlite3_io_methods`, version 1.
#[repr(C)]
pub(crate) struct IoMethods {
    pub version: c_int,
    pub close: unsafe extern "C" fn(*mut File) -> c_int,
    pub read: unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int,
    pub write: unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int,
    pub truncate: unsafe extern "C" fn(*mut File, i64) -> c_int,
    pub sync: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub file_size: unsafe extern "C" fn(*mut File, *mut i64) -> c_int,
    pub lock: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub unlock: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub check_reserved_lock: unsafe extern "C" fn(*mut File, *mut c_int) -> c_int,
    pub file_control: unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int,
    pub sector_size: unsafe extern "C" fn(*mut File) -> c_int,
    pub device_characteristics: unsafe extern "C" fn(*mut File) -> c_int,
}

pub(crate) type Symbol = Option<unsafe extern "C" fn()>;

/// `sqlite3_vfs`, version 2.
#[repr(C)]
pub(crate) struct Vfs {
    pub version: c_int,
    pub file_bytes: c_int,
    pub path_bytes_max: c_int,
    pub next: *mut Vfs,
    pub name: *const c_char,
    pub app_data: *mut c_void,
    pub open: unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int,
    pub delete: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int,
    pub access: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int,
    pub full_pathname: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int,
    pub dl_open: unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void,
    pub dl_error: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char),
    pub dl_sym: unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> Symbol,
    pub dl_close: unsafe extern "C" fn(*mut Vfs, *mut c_void),
    pub randomness: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub sleep: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub current_time: unsafe extern "C" fn(*mut Vfs, *mut f64) -> c_int,
    pub last_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    pub current_time_int64: Option<unsafe extern "C" fn(*mut Vfs, *mut i64) -> c_int>,
}

/// Places in `sqlite3_api_routines` of the functions that are called.
mod place {
    pub const LIBVERSION_NUMBER: usize = 67;
    pub const MPRINTF: usize = 69;
    pub const VFS_FIND: usize = 141;
    pub const VFS_REGISTER: usize = 142;
    pub const LOG: usize = 167;
    pub const URI_PARAMETER: usize = 189;
    /// Functions of SQLite 3.40.
    pub const COUNT: usize = 266;
}

/// `sqlite3_api_routines`: what SQLite hands to an extension instead of symbols.
#[repr(C)]
pub(crate) struct ApiRoutines([Symbol; place::COUNT]);

/// The functions of SQLite that are called.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    mprintf: unsafe extern "C" fn(*const c_char, ...) -> *mut c_char,
    pub vfs_find: unsafe extern "C" fn(*const c_char) -> *mut Vfs,
    pub vfs_register: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    log: unsafe extern "C" fn(c_int, *const c_char, ...),
    uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
}

/// The oldest version that is known to have all of them.
pub(crate) const VERSION_MIN: c_int = 3_040_000;

impl Api {
    /// Reads the table. `None` when SQLite is older than [`VERSION_MIN`].
    ///
    /// # Safety
    /// - `routines` is what SQLite has handed to an extension's entry point.
    pub unsafe fn of(routines: *const ApiRoutines) -> Option<Self> {
        // SAFETY: the table of every SQLite since 3.5 has these places.
        let at = |place: usize| unsafe { (&raw const (*routines).0[place]).read() };
        let version = at(place::LIBVERSION_NUMBER)?;
        // SAFETY: `sqlite3ext.h` says what stands in each place.
        unsafe {
            use std::mem::transmute;
            let libversion_number: unsafe extern "C" fn() -> c_int = transmute(version);
            if libversion_number() < VERSION_MIN {
                return None;
            }
            Some(Self {
                mprintf: transmute::<Symbol, Option<_>>(at(place::MPRINTF))?,
                vfs_find: transmute::<Symbol, Option<_>>(at(place::VFS_FIND))?,
                vfs_register: transmute::<Symbol, Option<_>>(at(place::VFS_REGISTER))?,
                log: transmute::<Symbol, Option<_>>(at(place::LOG))?,
                uri_parameter: transmute::<Symbol, Option<_>>(at(place::URI_PARAMETER))?,
            })
        }
    }

    /// A text in SQLite's memory, which the caller of a VFS frees.
    pub fn text(&self, text: &CStr) -> *mut c_char {
        // SAFETY: the format takes one text.
        unsafe { (self.mprintf)(c"%s".as_ptr(), text.as_ptr()) }
    }

    /// A line for the program's error log.
    pub fn log(&self, code: c_int, text: &CStr) {
        // SAFETY: the format takes one text.
        unsafe { (self.log)(code, c"%s".as_ptr(), text.as_ptr()) }
    }

    /// The value of a parameter of the URI that a database was opened with.
    ///
    /// # Safety
    /// - `name` is what SQLite has handed to `xOpen`.
    pub unsafe fn parameter(&self, name: *const c_char, parameter: &str) -> Option<String> {
        let parameter = std::ffi::CString::new(parameter).ok()?;
        // SAFETY: the caller vouches for `name`.
        let value = unsafe { (self.uri_parameter)(name, parameter.as_ptr()) };
        if value.is_null() {
            return None;
        }
        // SAFETY: SQLite's texts end with a zero.
        Some(unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
    }

    /// Whether a parameter of the URI is a true one, as SQLite reads it.
    ///
    /// # Safety
    /// - `name` is what SQLite has handed to `xOpen`.
    pub unsafe fn is_set(&self, name: *const c_char, parameter: &str) -> bool {
        // SAFETY: the caller's.
        let value = unsafe { self.parameter(name, parameter) }.unwrap_or_default();
        let value = value.to_ascii_lowercase();
        matches!(&value[..], "yes" | "true" | "on") || value.parse().is_ok_and(|n: i64| n != 0)
    }
}
