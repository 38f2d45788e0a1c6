//! The VFS: which file is a pool's, and everything else, which is the default VFS's.
//!
//! Under its name `outlast` it takes every main database for a pool. To be the default one, it does not take the place
//! of the default VFS but hooks that VFS's opening, deleting and looking for files ([`Hooked`]). SQLite identifies
//! shared in-memory databases by the address of their VFS: connections of before and after the load must have the
//! same one.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::database::{self, Database, OpenError, Request};
use crate::ffi::{self, Api, ApiRoutines, File, Symbol, Vfs};
use crate::file::{Connection, DatabaseFile, FILE_BYTES, JournalFile, code_of, guarded, told};
use crate::options::DatabaseOptions;

/// The name of the VFS.
pub(crate) const NAME: &CStr = c"outlast";

/// Not `0`: the VFS becomes the default one when the extension is loaded.
const DEFAULT_VARIABLE: &str = "OUTLAST_SQLITE_DEFAULT";

/// A VFS over another one. It lives as long as the process.
struct Registered {
    api: Api,
    default: *mut Vfs,
    /// The functions of the VFS below, which a hook may take the place of.
    below: Below,
}

/// `xOpen`.
type OpenFunction =
    unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int;

/// Functions of the default VFS.
#[derive(Clone, Copy)]
struct Below {
    open: OpenFunction,
    delete: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int,
    access: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int,
}

/// A default VFS whose three functions lead here first: one of each SQLite in the process.
struct Hooked {
    registered: Registered,
    next: *const Hooked,
}

/// The hooked ones, the last one first.
static HOOKED: AtomicPtr<Hooked> = AtomicPtr::new(null_mut());

/// Held while a VFS is hooked.
static HOOKING: Mutex<()> = Mutex::new(());

/// The functions of a VFS, below the hook that it may have.
///
/// # Safety
/// - `vfs` is registered.
unsafe fn below(vfs: *mut Vfs) -> Below {
    if let Some(hooked) = hooked(vfs) {
        return hooked.below;
    }
    // SAFETY: the caller's.
    let Vfs { open, delete, access, .. } = unsafe { &*vfs };
    Below { open: *open, delete: *delete, access: *access }
}

/// The hook of a VFS, if it has one.
fn hooked<'h>(vfs: *mut Vfs) -> Option<&'h Registered> {
    let mut next = HOOKED.load(Ordering::Acquire).cast_const();
    // SAFETY: hooks are complete when they can be found, and live as long as the process.
    while let Some(hooked) = unsafe { next.as_ref() } {
        if hooked.registered.default == vfs {
            return Some(&hooked.registered);
        }
        next = hooked.next;
    }
    None
}

/// Hooks the default VFS, once.
///
/// # Safety
/// - `default` is registered and lives as long as the process, as SQLite's own do.
unsafe fn hook(api: Api, default: *mut Vfs) {
    let _hooking = HOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    if hooked(default).is_some() {
        return;
    }
    // SAFETY: the caller's.
    let registered = Registered { api, default, below: unsafe { below(default) } };
    let next = HOOKED.load(Ordering::Acquire);
    HOOKED.store(Box::into_raw(Box::new(Hooked { registered, next })), Ordering::Release);
    // SAFETY: the caller's. Other threads may call the VFS meanwhile; each function is one aligned word, they are
    // changed one by one, and in any mixture of them a file that is no pool's is the VFS's below.
    unsafe {
        let Vfs { open, delete, access, file_bytes, .. } = &mut *default;
        AtomicI32::from_ptr(file_bytes).fetch_max(FILE_BYTES as c_int, Ordering::Relaxed);
        let set = |function: *mut *mut c_void, to: *mut c_void| {
            AtomicPtr::from_ptr(function).store(to, Ordering::Release);
        };
        set((&raw mut *access).cast(), hooked_access as *mut c_void);
        set((&raw mut *delete).cast(), hooked_delete as *mut c_void);
        set((&raw mut *open).cast(), hooked_open as *mut c_void);
    }
}

/// The entry point that SQLite looks for first. The VFS is there afterwards, by its name; it is the
/// default one if the environment says so.
///
/// # Safety
/// - SQLite calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    _database: *mut c_void,
    error: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    let is_default = std::env::var_os(DEFAULT_VARIABLE).is_some_and(|value| value != "0");
    // SAFETY: the caller's.
    unsafe { register(error, routines.cast(), is_default) }
}

/// As [`sqlite3_extension_init`], and the VFS is the default one: for programs that only open a file.
///
/// # Safety
/// - SQLite calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_outlastdefault_init(
    _database: *mut c_void,
    error: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // SAFETY: the caller's.
    unsafe { register(error, routines.cast(), true) }
}

/// # Safety
/// - SQLite's arguments of an entry point.
unsafe fn register(
    error: *mut *mut c_char,
    routines: *const ApiRoutines,
    is_default: bool,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's.
        let Some(api) = (unsafe { Api::of(routines) }) else { return ffi::ERROR };
        // SAFETY: a text and null are what it takes.
        let (registered, default) =
            unsafe { ((api.vfs_find)(NAME.as_ptr()), (api.vfs_find)(std::ptr::null())) };
        if default.is_null() {
            if !error.is_null() {
                let text = c"outlast: this SQLite has no VFS to leave other files to";
                // SAFETY: SQLite wants a text of its own there.
                unsafe { error.write(api.text(text)) };
            }
            return ffi::ERROR;
        }
        if registered.is_null() {
            // SAFETY: SQLite's VFS live as long as they are registered, and this one is.
            let vfs = Box::into_raw(Box::new(unsafe { vfs_over(api, default) }));
            // SAFETY: it lives as long as the process.
            let code = unsafe { (api.vfs_register)(vfs, 0) };
            if code != ffi::OK {
                return code;
            }
        }
        // SAFETY: it is registered.
        let is_other = |vfs: *mut Vfs| !std::ptr::fn_addr_eq(unsafe { (*vfs).open }, OPEN);
        if is_default && !registered.is_null() && is_other(registered) {
            // Another copy of this library was loaded. It has the pools of the process; two hooks would share none.
            // SAFETY: it is registered.
            return match unsafe { (api.vfs_register)(registered, 1) } {
                ffi::OK => ffi::OK_LOAD_PERMANENTLY,
                code => code,
            };
        }
        if is_default && default != registered {
            // SAFETY: it is registered, and SQLite's own ones stay.
            unsafe { hook(api, default) };
        }
        ffi::OK_LOAD_PERMANENTLY
    })
}

/// # Safety
/// - `default` is a VFS.
unsafe fn vfs_over(api: Api, default: *mut Vfs) -> Vfs {
    // SAFETY: the caller's.
    let (file_bytes, path_bytes_max) =
        unsafe { ((*default).file_bytes, (*default).path_bytes_max) };
    // SAFETY: the caller's.
    let registered = Registered { api, default, below: unsafe { below(default) } };
    Vfs {
        version: 2,
        file_bytes: file_bytes.max(FILE_BYTES as c_int),
        path_bytes_max,
        next: std::ptr::null_mut(),
        name: NAME.as_ptr(),
        app_data: Box::into_raw(Box::new(registered)).cast(),
        open,
        delete,
        access,
        full_pathname,
        dl_open,
        dl_error,
        dl_sym,
        dl_close,
        randomness,
        sleep,
        current_time,
        last_error: Some(last_error),
        current_time_int64: Some(current_time_int64),
    }
}

/// # Safety
/// - `vfs` is a registered one of this crate.
unsafe fn registered<'a>(vfs: *mut Vfs) -> &'a Registered {
    // SAFETY: it lives as long as the process.
    unsafe { &*(*vfs).app_data.cast::<Registered>() }
}

/// The bytes of a path of SQLite's.
///
/// # Safety
/// - `name` is a text that lives as long as the result is used.
unsafe fn bytes<'a>(name: *const c_char) -> &'a [u8] {
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

/// Its address tells this copy of the library from another one.
const OPEN: OpenFunction = open;

unsafe extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite's call of a registered VFS.
    guarded(|| unsafe { open_by(registered(vfs), name, file, flags, flags_out, |_, _| true) })
}

unsafe extern "C" fn hooked_open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    guarded(|| {
        let Some(registered) = hooked(vfs) else { return ffi::CANTOPEN };
        // A file that asks for this VFS by its name is not for the hook; nor is one that exists and is no pool.
        let is_ours = |api: &Api, name| {
            // SAFETY: SQLite's name of a main database; the VFS has a name.
            let (asked, own, path) = unsafe {
                let own = CStr::from_ptr((*vfs).name).to_string_lossy();
                (api.parameter(name, "vfs"), own, Path::new(OsStr::from_bytes(bytes(name))))
            };
            asked.is_none_or(|asked| asked != own) && database::may_be_a_pool(path)
        };
        // SAFETY: SQLite's call of a VFS that was hooked.
        unsafe { open_by(registered, name, file, flags, flags_out, is_ours) }
    })
}

/// Opens a file: a pool's, if it is a main database and `is_ours`, or the VFS's below.
///
/// # Safety
/// - SQLite's arguments of `xOpen`, with memory for a file.
unsafe fn open_by(
    registered: &Registered,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    flags_out: *mut c_int,
    is_ours: impl FnOnce(&Api, *const c_char) -> bool,
) -> c_int {
    let Registered { api, default, below } = registered;
    // SAFETY: the caller's. A file without methods is not closed.
    unsafe {
        (*file).methods = std::ptr::null();
        let pass = || (below.open)(*default, name, file, flags, flags_out);
        // Names of volatile files are empty or SQLite's own inventions.
        let volatile = ffi::OPEN_DELETEONCLOSE | ffi::OPEN_MEMORY;
        if name.is_null() || bytes(name).is_empty() || flags & volatile != 0 {
            return pass();
        }
        if flags & ffi::OPEN_MAIN_DB != 0 && is_ours(api, name) {
            return open_database(api, name, file, flags, flags_out);
        }
        if flags & ffi::OPEN_MAIN_JOURNAL != 0
            && let Some(()) = database::with(bytes(name), "-journal", |database| {
                database.state().journal.create();
                JournalFile::put(file, database.clone());
            })
        {
            if !flags_out.is_null() {
                flags_out.write(flags);
            }
            return ffi::OK;
        }
        if flags & ffi::OPEN_WAL != 0 && database::with(bytes(name), "-wal", |_| ()).is_some() {
            return ffi::CANTOPEN;
        }
        pass()
    }
}

/// Opens a main database. Where another process has the pool, the connection is there and finds it busy until it can be
/// opened: only so does SQLite wait as long as the program has told it to.
///
/// # Safety
/// - SQLite's arguments of `xOpen`, with a name.
unsafe fn open_database(
    api: &Api,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: the caller's.
    let (path, options, is_immutable) = unsafe {
        let value_of = |parameter: &str| api.parameter(name, parameter);
        let path = Path::new(OsStr::from_bytes(bytes(name)));
        (path, DatabaseOptions::from_uri(value_of), api.is_set(name, "immutable"))
    };
    let options = match options {
        Ok(options) => options,
        Err(error) => return told(api, ffi::CANTOPEN, format!("{}: {error}", path.display())),
    };
    let can_write = flags & ffi::OPEN_READWRITE != 0 && !is_immutable;
    let creates = flags & ffi::OPEN_CREATE != 0;
    let request = Request { path: path.to_owned(), options, can_write, creates };
    let opened = request.open();
    let (connection, can_write) = match opened {
        Ok((database, can_write)) => (Connection::new(*api, database, can_write), can_write),
        // Without locks, SQLite never asks again.
        // SAFETY: the caller's.
        Err(OpenError::InUse(_)) if !is_immutable && !unsafe { api.is_set(name, "nolock") } => {
            (Connection::waiting(*api, request), can_write)
        }
        Err(OpenError::NotFound(_)) => return ffi::CANTOPEN,
        Err(error @ OpenError::InUse(_)) => return told(api, ffi::BUSY, error.to_string()),
        Err(error) => return told(api, ffi::CANTOPEN, error.to_string()),
    };
    if !flags_out.is_null() {
        let wanted = flags & !(ffi::OPEN_READWRITE | ffi::OPEN_CREATE | ffi::OPEN_READONLY);
        let given = if can_write { ffi::OPEN_READWRITE } else { ffi::OPEN_READONLY };
        // SAFETY: SQLite wants the flags there.
        unsafe { flags_out.write(wanted | given) };
    }
    // SAFETY: SQLite has so much memory there as the VFS asks for.
    unsafe { DatabaseFile::put(file, connection) };
    ffi::OK
}

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite's call of a registered VFS.
    guarded(|| unsafe { delete_by(registered(vfs), name, sync) })
}

unsafe extern "C" fn hooked_delete(vfs: *mut Vfs, name: *const c_char, sync: c_int) -> c_int {
    guarded(|| match hooked(vfs) {
        // SAFETY: SQLite's call of a VFS that was hooked.
        Some(registered) => unsafe { delete_by(registered, name, sync) },
        None => ffi::ERROR,
    })
}

/// # Safety
/// - SQLite's arguments of `xDelete`.
unsafe fn delete_by(registered: &Registered, name: *const c_char, sync: c_int) -> c_int {
    let Registered { default, below, .. } = registered;
    // SAFETY: the caller's.
    let Some(database) = database::with(unsafe { bytes(name) }, "-journal", Arc::clone) else {
        // SAFETY: the same call, for the VFS below.
        return unsafe { (below.delete)(*default, name, sync) };
    };
    let code = delete_journal(&database);
    database::close(database);
    code
}

/// The end of a transaction in journal mode `DELETE`.
fn delete_journal(database: &Database) -> c_int {
    let mut state = database.state();
    if !state.journal.exists() {
        return ffi::IOERR_DELETE_NOENT;
    }
    let done = database.commit(&mut state);
    state.journal.delete();
    done.map_or_else(|abort| code_of(&abort), |()| ffi::OK)
}

unsafe extern "C" fn access(
    vfs: *mut Vfs,
    name: *const c_char,
    flags: c_int,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: SQLite's call of a registered VFS.
    guarded(|| unsafe { access_by(registered(vfs), name, flags, answer) })
}

unsafe extern "C" fn hooked_access(
    vfs: *mut Vfs,
    name: *const c_char,
    flags: c_int,
    answer: *mut c_int,
) -> c_int {
    guarded(|| match hooked(vfs) {
        // SAFETY: SQLite's call of a VFS that was hooked.
        Some(registered) => unsafe { access_by(registered, name, flags, answer) },
        None => ffi::ERROR,
    })
}

/// # Safety
/// - SQLite's arguments of `xAccess`.
unsafe fn access_by(
    registered: &Registered,
    name: *const c_char,
    flags: c_int,
    answer: *mut c_int,
) -> c_int {
    let Registered { default, below, .. } = registered;
    // SAFETY: the caller's.
    let name_bytes = unsafe { bytes(name) };
    let known = match name_bytes.last() {
        Some(b'l') => {
            let exists = |database: &Arc<Database>| database.state().journal.exists();
            database::with(name_bytes, "-journal", exists)
                .or_else(|| database::with(name_bytes, "-wal", |_| false))
        }
        _ => None,
    };
    match known {
        Some(exists) => {
            // SAFETY: SQLite wants the answer there.
            unsafe { answer.write(c_int::from(exists)) };
            ffi::OK
        }
        // SAFETY: the same call, for the VFS below.
        None => unsafe { (below.access)(*default, name, flags, answer) },
    }
}

/// Functions that the default VFS answers.
macro_rules! by_the_default {
    ($($function:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(unsafe extern "C" fn $function(vfs: *mut Vfs, $($argument: $kind),*) -> $result {
            // SAFETY: SQLite's call of a registered VFS; the same call, for the VFS below.
            unsafe {
                let default = registered(vfs).default;
                ((*default).$function)(default, $($argument),*)
            }
        })*
    };
}

by_the_default! {
    full_pathname(name: *const c_char, bytes: c_int, out: *mut c_char) -> c_int;
    dl_open(name: *const c_char) -> *mut c_void;
    dl_error(bytes: c_int, out: *mut c_char) -> ();
    dl_sym(library: *mut c_void, name: *const c_char) -> Symbol;
    dl_close(library: *mut c_void) -> ();
    randomness(bytes: c_int, out: *mut c_char) -> c_int;
    sleep(microseconds: c_int) -> c_int;
    current_time(out: *mut f64) -> c_int;
}

unsafe extern "C" fn last_error(vfs: *mut Vfs, bytes: c_int, out: *mut c_char) -> c_int {
    // SAFETY: SQLite's call of a registered VFS; the same call, for the VFS below.
    unsafe {
        let default = registered(vfs).default;
        (*default).last_error.map_or(ffi::OK, |last_error| last_error(default, bytes, out))
    }
}

unsafe extern "C" fn current_time_int64(vfs: *mut Vfs, out: *mut i64) -> c_int {
    // SAFETY: SQLite's call of a registered VFS; the same call, for the VFS below, which has it since
    // version 2.
    unsafe {
        let default = registered(vfs).default;
        let function = (*default).current_time_int64.filter(|_| (*default).version >= 2);
        if let Some(current_time_int64) = function {
            return current_time_int64(default, out);
        }
        let mut days = 0.0;
        let code = ((*default).current_time)(default, &mut days);
        out.write((days * 86_400_000.0) as i64);
        code
    }
}
