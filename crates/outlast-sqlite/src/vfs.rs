//! The VFS: which file is a pool's, and everything else, which is the default VFS's.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use crate::database::{self, Database, OpenError};
use crate::ffi::{self, Api, ApiRoutines, File, Symbol, Vfs};
use crate::file::{Connection, DatabaseFile, FILE_BYTES, JournalFile, code_of, guarded};
use crate::locks::Level;
use crate::options::DatabaseOptions;

/// The name of the VFS.
pub(crate) const NAME: &CStr = c"outlast";

/// Not `0`: the VFS becomes the default one when the extension is loaded.
const DEFAULT_VARIABLE: &str = "OUTLAST_SQLITE_DEFAULT";

/// A registered VFS. It lives as long as the process.
struct Registered {
    api: Api,
    default: *mut Vfs,
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
        if !registered.is_null() {
            let code = match is_default {
                // SAFETY: it is registered.
                true => unsafe { (api.vfs_register)(registered, 1) },
                false => ffi::OK,
            };
            return if code == ffi::OK { ffi::OK_LOAD_PERMANENTLY } else { code };
        }
        if default.is_null() {
            if !error.is_null() {
                let text = c"outlast: this SQLite has no VFS to leave other files to";
                // SAFETY: SQLite wants a text of its own there.
                unsafe { error.write(api.text(text)) };
            }
            return ffi::ERROR;
        }
        // SAFETY: SQLite's VFS live as long as they are registered, and this one is.
        let vfs = Box::into_raw(Box::new(unsafe { vfs_over(api, default) }));
        // SAFETY: it lives as long as the process.
        match unsafe { (api.vfs_register)(vfs, c_int::from(is_default)) } {
            ffi::OK => ffi::OK_LOAD_PERMANENTLY,
            code => code,
        }
    })
}

/// # Safety
/// - `default` is a VFS.
unsafe fn vfs_over(api: Api, default: *mut Vfs) -> Vfs {
    // SAFETY: the caller's.
    let (file_bytes, path_bytes_max) =
        unsafe { ((*default).file_bytes, (*default).path_bytes_max) };
    Vfs {
        version: 2,
        file_bytes: file_bytes.max(FILE_BYTES as c_int),
        path_bytes_max,
        next: std::ptr::null_mut(),
        name: NAME.as_ptr(),
        app_data: Box::into_raw(Box::new(Registered { api, default })).cast(),
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

unsafe extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's call of a registered VFS, with memory for a file. A file without methods is
        // not closed.
        unsafe {
            (*file).methods = std::ptr::null();
            let Registered { api, default } = registered(vfs);
            if name.is_null() {
                return ((**default).open)(*default, name, file, flags, flags_out);
            }
            if flags & ffi::OPEN_MAIN_DB != 0 {
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
            if flags & ffi::OPEN_WAL != 0 {
                return ffi::CANTOPEN;
            }
            ((**default).open)(*default, name, file, flags, flags_out)
        }
    })
}

/// # Safety
/// - SQLite's arguments of `xOpen`, with a name.
unsafe fn open_database(
    api: &Api,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    let told = |code: c_int, text: String| {
        eprintln!("outlast: {text}");
        api.log(code, &CString::new(text).unwrap_or_default());
        code
    };
    // SAFETY: the caller's.
    let (path, options) = unsafe {
        let value_of = |parameter: &str| api.parameter(name, parameter);
        (Path::new(OsStr::from_bytes(bytes(name))), DatabaseOptions::from_uri(value_of))
    };
    let options = match options {
        Ok(options) => options,
        Err(error) => return told(ffi::CANTOPEN, format!("{}: {error}", path.display())),
    };
    let can_write = flags & ffi::OPEN_READWRITE != 0;
    match database::open(path, &options, can_write, flags & ffi::OPEN_CREATE != 0) {
        Ok((database, can_write)) => {
            if !flags_out.is_null() {
                let wanted = flags & !(ffi::OPEN_READWRITE | ffi::OPEN_CREATE | ffi::OPEN_READONLY);
                let given = if can_write { ffi::OPEN_READWRITE } else { ffi::OPEN_READONLY };
                // SAFETY: SQLite wants the flags there.
                unsafe { flags_out.write(wanted | given) };
            }
            let connection = Connection {
                api: *api,
                database,
                can_write,
                level: Level::None,
                journal_mode: c"delete".to_owned(),
                has_told: false,
            };
            // SAFETY: SQLite has so much memory there as the VFS asks for.
            unsafe { DatabaseFile::put(file, connection) };
            ffi::OK
        }
        Err(OpenError::NotFound(_)) => ffi::CANTOPEN,
        Err(error @ OpenError::InUse(_)) => told(ffi::BUSY, error.to_string()),
        Err(error) => told(ffi::CANTOPEN, error.to_string()),
    }
}

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, sync: c_int) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's call of a registered VFS.
        let (registered, name_bytes) = unsafe { (registered(vfs), bytes(name)) };
        let Some(database) = database::with(name_bytes, "-journal", Arc::clone) else {
            let default = registered.default;
            // SAFETY: the same call, for the VFS below.
            return unsafe { ((*default).delete)(default, name, sync) };
        };
        let code = delete_journal(&database);
        database::close(database);
        code
    })
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
    guarded(|| {
        // SAFETY: SQLite's call of a registered VFS.
        let (registered, name_bytes) = unsafe { (registered(vfs), bytes(name)) };
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
            None => unsafe {
                let default = registered.default;
                ((*default).access)(default, name, flags, answer)
            },
        }
    })
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
