//! Open files as SQLite sees them: databases and their journals.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use outlast::Abort;

use crate::database::{self, Database, OpenError, Request, WriteError};
use crate::ffi::{self, Api, File, IoMethods};
use crate::locks::{Busy, Level};

/// An open database: what stands in the memory that SQLite has for it.
#[repr(C)]
pub(crate) struct DatabaseFile {
    base: File,
    open: ManuallyDrop<Box<Connection>>,
}

/// A connection's side of a database.
pub(crate) struct Connection {
    api: Api,
    link: Link,
    can_write: bool,
    level: Level,
    /// SQLite's journal mode, as far as this file was told.
    journal_mode: CString,
    /// It has said why it fails: this process is a forked child, or another one has the pool.
    has_told: bool,
}

/// The database of a connection.
enum Link {
    /// It is open.
    Open(Arc<Database>),
    /// Another process has the pool. Each attempt to lock the database tries to open it.
    Waiting(Request),
}

impl Connection {
    /// A connection to an open database.
    pub fn new(api: Api, database: Arc<Database>, can_write: bool) -> Self {
        Self::of(api, Link::Open(database), can_write)
    }

    /// A connection to a database that another process has.
    pub fn waiting(api: Api, request: Request) -> Self {
        let can_write = request.can_write;
        Self::of(api, Link::Waiting(request), can_write)
    }

    fn of(api: Api, link: Link, can_write: bool) -> Self {
        let journal_mode = c"delete".to_owned();
        Self { api, link, can_write, level: Level::None, journal_mode, has_told: false }
    }

    /// The database, if it is open.
    fn database(&self) -> Option<&Arc<Database>> {
        match &self.link {
            Link::Open(database) => Some(database),
            Link::Waiting(_) => None,
        }
    }

    /// Opens the database if it waits for that.
    ///
    /// # Errors
    /// SQLite's code.
    fn connect(&mut self) -> Result<(), c_int> {
        let Link::Waiting(request) = &self.link else { return Ok(()) };
        match request.open() {
            Ok((database, can_write)) => {
                (self.link, self.can_write) = (Link::Open(database), can_write);
                Ok(())
            }
            Err(error) => {
                let code = match error {
                    OpenError::InUse(_) => ffi::BUSY,
                    _ => ffi::CANTOPEN,
                };
                Err(self.tell_once(code, error.to_string()))
            }
        }
    }

    /// Says once why calls fail with `code`.
    fn tell_once(&mut self, code: c_int, text: String) -> c_int {
        match std::mem::replace(&mut self.has_told, true) {
            true => code,
            false => told(&self.api, code, text),
        }
    }

    /// Raises the lock.
    fn lock(&mut self, to: Level) -> c_int {
        if let Err(code) = self.connect() {
            return code;
        }
        let Link::Open(database) = &self.link else { return ffi::BUSY };
        if self.level == Level::None && database.is_forked() {
            return self.tell_once(ffi::IOERR_LOCK, Abort::Forked.to_string());
        }
        match database.raise(&mut self.level, to) {
            Ok(()) => ffi::OK,
            Err(Busy) => ffi::BUSY,
        }
    }

    /// The database, for one that changes it.
    ///
    /// # Errors
    /// SQLite's code.
    fn writable(&mut self) -> Result<&Arc<Database>, c_int> {
        if !self.can_write {
            return Err(ffi::READONLY);
        }
        if self.level != Level::Exclusive {
            // Only a connection with `nolock=1` writes without a lock. It gets one, and keeps it (DATABASE-1).
            let before = self.level;
            let code = self.lock(Level::Exclusive);
            if code != ffi::OK {
                if let Link::Open(database) = &self.link {
                    database.lower(&mut self.level, before);
                }
                return Err(code);
            }
        }
        self.database().ok_or(ffi::BUSY)
    }
}

/// Tells standard error and SQLite's log of an error. Returns its code.
pub(crate) fn told(api: &Api, code: c_int, text: String) -> c_int {
    eprintln!("outlast: {text}");
    api.log(code, &CString::new(text).unwrap_or_default());
    code
}

/// The journal of an open database.
#[repr(C)]
pub(crate) struct JournalFile {
    base: File,
    database: ManuallyDrop<Arc<Database>>,
}

/// Bytes that SQLite has to have for either.
pub(crate) const FILE_BYTES: usize = {
    let (database, journal) = (size_of::<DatabaseFile>(), size_of::<JournalFile>());
    if database > journal { database } else { journal }
};

/// Calls from SQLite: nothing unwinds into it.
pub(crate) fn guarded(body: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        // Its destructor could panic.
        std::mem::forget(payload);
        ffi::IOERR
    })
}

/// SQLite's code for a transaction's end.
pub(crate) fn code_of(abort: &Abort) -> c_int {
    match abort {
        Abort::OutOfSpace { .. } | Abort::LogFull { .. } | Abort::TooLarge(_) => ffi::FULL,
        Abort::ReadOnly => ffi::READONLY,
        _ => ffi::IOERR,
    }
}

impl DatabaseFile {
    /// Makes the memory at `file` an open database.
    ///
    /// # Safety
    /// - `file` has [`FILE_BYTES`] bytes for it, aligned to 8.
    pub unsafe fn put(file: *mut File, connection: Connection) {
        let base = File { methods: &raw const DATABASE_METHODS };
        let open = ManuallyDrop::new(Box::new(connection));
        // SAFETY: the caller's.
        unsafe { file.cast::<Self>().write(Self { base, open }) };
    }
}

impl JournalFile {
    /// Makes the memory at `file` an open journal.
    ///
    /// # Safety
    /// - `file` has [`FILE_BYTES`] bytes for it, aligned to 8.
    pub unsafe fn put(file: *mut File, database: Arc<Database>) {
        let base = File { methods: &raw const JOURNAL_METHODS };
        let database = ManuallyDrop::new(database);
        // SAFETY: the caller's.
        unsafe { file.cast::<Self>().write(Self { base, database }) };
    }
}

static DATABASE_METHODS: IoMethods = IoMethods {
    version: 1,
    close: database_close,
    read: database_read,
    write: database_write,
    truncate: database_truncate,
    sync: no_sync,
    file_size: database_size,
    lock: database_lock,
    unlock: database_unlock,
    check_reserved_lock: database_check_reserved,
    file_control: database_control,
    sector_size,
    device_characteristics,
};

static JOURNAL_METHODS: IoMethods = IoMethods {
    version: 1,
    close: journal_close,
    read: journal_read,
    write: journal_write,
    truncate: journal_truncate,
    sync: no_sync,
    file_size: journal_size,
    lock: no_lock,
    unlock: no_lock,
    check_reserved_lock: no_reserved,
    file_control: no_control,
    sector_size,
    device_characteristics,
};

/// The connection of an open database.
///
/// # Safety
/// - `file` is an open [`DatabaseFile`], and SQLite is in one call of it at a time.
unsafe fn connection<'a>(file: *mut File) -> &'a mut Connection {
    // SAFETY: the caller's.
    unsafe { &mut *(&raw mut (*file.cast::<DatabaseFile>()).open).cast::<Box<Connection>>() }
}

/// The database of an open journal.
///
/// # Safety
/// - `file` is an open [`JournalFile`].
unsafe fn journal_of<'a>(file: *mut File) -> &'a Arc<Database> {
    // SAFETY: the caller's.
    unsafe { &(*file.cast::<JournalFile>()).database }
}

/// The bytes to read into.
///
/// # Safety
/// - `to` is memory of `len` bytes that nothing else uses meanwhile.
unsafe fn bytes_mut<'a>(to: *mut c_void, len: c_int) -> &'a mut [u8] {
    // SAFETY: the caller's. SQLite's buffers may never have been stored to, and bytes are all right
    // whatever they are: they are only stored to here.
    unsafe { std::slice::from_raw_parts_mut(to.cast(), len.max(0) as usize) }
}

unsafe extern "C" fn database_close(file: *mut File) -> c_int {
    guarded(|| {
        // SAFETY: SQLite closes what it has opened, once.
        let connection = unsafe {
            let open = &raw mut (*file.cast::<DatabaseFile>()).open;
            (*file).methods = std::ptr::null();
            ManuallyDrop::into_inner(open.read())
        };
        let Connection { link, mut level, .. } = *connection;
        if let Link::Open(database) = link {
            database.lower(&mut level, Level::None);
            database::close(database);
        }
        ffi::OK
    })
}

unsafe extern "C" fn database_read(file: *mut File, to: *mut c_void, len: c_int, at: i64) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's call of an open file.
        let (connection, out) = unsafe { (connection(file), bytes_mut(to, len)) };
        let at = at as u64;
        let Some(database) = connection.database() else {
            out.fill(0);
            return ffi::IOERR_SHORT_READ;
        };
        // DATABASE-1.
        let file_len = match connection.level == Level::Exclusive {
            true => database.read_changed(&database.state(), at, out),
            false => database.read_stored(at, out),
        };
        if at + out.len() as u64 > file_len { ffi::IOERR_SHORT_READ } else { ffi::OK }
    })
}

unsafe extern "C" fn database_write(
    file: *mut File,
    from: *const c_void,
    len: c_int,
    at: i64,
) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's call of an open file.
        let (connection, bytes) = unsafe {
            (connection(file), std::slice::from_raw_parts(from.cast::<u8>(), len.max(0) as usize))
        };
        let database = match connection.writable() {
            Ok(database) => database,
            Err(code) => return code,
        };
        match database.write(&mut database.state(), at as u64, bytes) {
            Ok(()) => ffi::OK,
            Err(WriteError::Memory(_)) => ffi::NOMEM,
            Err(WriteError::Abort(abort)) => code_of(&abort),
        }
    })
}

unsafe extern "C" fn database_truncate(file: *mut File, len: i64) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's call of an open file.
        let connection = unsafe { connection(file) };
        let database = match connection.writable() {
            Ok(database) => database,
            Err(code) => return code,
        };
        database.set_len(&mut database.state(), len.max(0) as u64);
        ffi::OK
    })
}

unsafe extern "C" fn database_size(file: *mut File, len: *mut i64) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's call of an open file.
        let Connection { link, level, .. } = unsafe { connection(file) };
        let file_len = match link {
            Link::Open(database) if *level == Level::Exclusive => {
                database.state().changes.len(database.stored_len())
            }
            Link::Open(database) => database.stored_len(),
            Link::Waiting(_) => 0,
        };
        // SAFETY: SQLite wants it there.
        unsafe { len.write(file_len as i64) };
        ffi::OK
    })
}

unsafe extern "C" fn database_lock(file: *mut File, level: c_int) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's call of an open file.
        let connection = unsafe { connection(file) };
        let Some(to) = Level::from_number(level) else { return ffi::ERROR };
        connection.lock(to)
    })
}

unsafe extern "C" fn database_unlock(file: *mut File, level: c_int) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's call of an open file.
        let connection = unsafe { connection(file) };
        let Some(to) = Level::from_number(level) else { return ffi::ERROR };
        if let Link::Open(database) = &connection.link {
            database.lower(&mut connection.level, to);
        }
        ffi::OK
    })
}

unsafe extern "C" fn database_check_reserved(file: *mut File, is_reserved: *mut c_int) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's call of an open file, which wants the answer there.
        unsafe {
            // The other process that has the pool may write.
            let database = connection(file).database();
            let has_writer = database.is_none_or(|database| database.state().locks.has_writer());
            is_reserved.write(c_int::from(has_writer));
        }
        ffi::OK
    })
}

unsafe extern "C" fn database_control(file: *mut File, op: c_int, argument: *mut c_void) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's call of an open file.
        let connection = unsafe { connection(file) };
        match op {
            ffi::FCNTL_COMMIT_PHASETWO => connection.database().map_or(ffi::OK, |of| commit(of)),
            ffi::FCNTL_COMMIT_ATOMIC_WRITE => {
                let Some(database) = connection.database() else { return ffi::IOERR };
                database.state().batches += 1;
                commit(database)
            }
            ffi::FCNTL_ROLLBACK_ATOMIC_WRITE => {
                if let Some(database) = connection.database() {
                    database.forget(&mut database.state());
                }
                ffi::OK
            }
            ffi::FCNTL_SYNC if !argument.is_null() => {
                // SAFETY: the argument of this one is the super-journal's name.
                let super_journal = unsafe { CStr::from_ptr(argument.cast()) }.to_bytes();
                let Some(database) = connection.database() else { return ffi::IOERR };
                let done = database.prepare(&mut database.state(), super_journal);
                done.map_or_else(|abort| code_of(&abort), |()| ffi::OK)
            }
            ffi::FCNTL_BEGIN_ATOMIC_WRITE | ffi::FCNTL_SYNC | ffi::FCNTL_SIZE_HINT => ffi::OK,
            ffi::FCNTL_LOCKSTATE => {
                // SAFETY: SQLite wants the level's number there.
                unsafe { argument.cast::<c_int>().write(connection.level as c_int) };
                ffi::OK
            }
            ffi::FCNTL_VFSNAME => {
                // SAFETY: SQLite wants a text there.
                unsafe {
                    argument.cast::<*mut c_char>().write(connection.api.text(crate::vfs::NAME));
                }
                ffi::OK
            }
            // SAFETY: the argument of this one is three texts.
            ffi::FCNTL_PRAGMA => unsafe { pragma(connection, argument.cast()) },
            _ => ffi::NOTFOUND,
        }
    })
}

/// Makes a transaction durable.
fn commit(database: &Database) -> c_int {
    match database.commit(&mut database.state()) {
        Ok(()) => ffi::OK,
        Err(abort) => code_of(&abort),
    }
}

/// `PRAGMA journal_mode`: every mode whose journal can be rolled back is as good as another one, since it lies in
/// volatile memory. `OFF` and `WAL` are answered with the mode that stays. `PRAGMA outlast` tells of
/// the pool.
///
/// # Safety
/// - `texts` are the answer, the pragma's name and its value or null.
unsafe fn pragma(connection: &mut Connection, texts: *mut *mut c_char) -> c_int {
    // SAFETY: the caller's.
    let (name, value) = unsafe { (CStr::from_ptr(*texts.add(1)), *texts.add(2)) };
    let answer = |text: &CStr, api: &Api| {
        // SAFETY: the caller's.
        unsafe { texts.write(api.text(text)) };
        ffi::OK
    };
    if name.to_bytes().eq_ignore_ascii_case(b"outlast") {
        let about = match &connection.link {
            Link::Open(database) => database.about(),
            Link::Waiting(_) => "open in another process".to_owned(),
        };
        let about = CString::new(about).unwrap_or_default();
        return answer(&about, &connection.api);
    }
    if !name.to_bytes().eq_ignore_ascii_case(b"journal_mode") || value.is_null() {
        return ffi::NOTFOUND;
    }
    // SAFETY: it is not null.
    let mode = unsafe { CStr::from_ptr(value) }.to_bytes().to_ascii_lowercase();
    match &mode[..] {
        b"off" | b"wal" => answer(&connection.journal_mode, &connection.api),
        b"delete" | b"truncate" | b"persist" | b"memory" => {
            connection.journal_mode = CString::new(mode).unwrap_or_default();
            ffi::NOTFOUND
        }
        _ => ffi::NOTFOUND,
    }
}

unsafe extern "C" fn journal_close(file: *mut File) -> c_int {
    guarded(|| {
        // SAFETY: SQLite closes what it has opened, once.
        let database = unsafe {
            let open = &raw mut (*file.cast::<JournalFile>()).database;
            (*file).methods = std::ptr::null();
            ManuallyDrop::into_inner(open.read())
        };
        database::close(database);
        ffi::OK
    })
}

unsafe extern "C" fn journal_read(file: *mut File, to: *mut c_void, len: c_int, at: i64) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's call of an open file.
        let (database, out) = unsafe { (journal_of(file), bytes_mut(to, len)) };
        let there = database.read_journal(&database.state(), at as u64, out);
        if there < out.len() { ffi::IOERR_SHORT_READ } else { ffi::OK }
    })
}

unsafe extern "C" fn journal_write(
    file: *mut File,
    from: *const c_void,
    len: c_int,
    at: i64,
) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's call of an open file.
        let (database, bytes) = unsafe {
            (journal_of(file), std::slice::from_raw_parts(from.cast::<u8>(), len.max(0) as usize))
        };
        let written = database.write_journal(&mut database.state(), at as u64, bytes);
        match written {
            Ok(true) => commit(database),
            Ok(false) => ffi::OK,
            Err(_) => ffi::NOMEM,
        }
    })
}

unsafe extern "C" fn journal_truncate(file: *mut File, len: i64) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's call of an open file.
        let database = unsafe { journal_of(file) };
        database.set_journal_len(&mut database.state(), len.max(0) as u64);
        if len == 0 { commit(database) } else { ffi::OK }
    })
}

unsafe extern "C" fn journal_size(file: *mut File, len: *mut i64) -> c_int {
    guarded(|| {
        // SAFETY: SQLite's call of an open file, which wants the answer there.
        unsafe { len.write(journal_of(file).state().journal.len() as i64) };
        ffi::OK
    })
}

unsafe extern "C" fn no_sync(_: *mut File, _: c_int) -> c_int {
    ffi::OK
}

unsafe extern "C" fn no_lock(_: *mut File, _: c_int) -> c_int {
    ffi::OK
}

unsafe extern "C" fn no_reserved(_: *mut File, is_reserved: *mut c_int) -> c_int {
    // SAFETY: SQLite wants the answer there.
    unsafe { is_reserved.write(0) };
    ffi::OK
}

unsafe extern "C" fn no_control(_: *mut File, _: c_int, _: *mut c_void) -> c_int {
    ffi::NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut File) -> c_int {
    512
}

/// Files in volatile memory need no order between their writes, and keep the bytes beside a write.
unsafe extern "C" fn device_characteristics(_: *mut File) -> c_int {
    ffi::IOCAP_SAFE_APPEND
        | ffi::IOCAP_SEQUENTIAL
        | ffi::IOCAP_UNDELETABLE_WHEN_OPEN
        | ffi::IOCAP_POWERSAFE_OVERWRITE
        | ffi::IOCAP_BATCH_ATOMIC
}
