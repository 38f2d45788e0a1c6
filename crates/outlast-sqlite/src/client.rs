//! The system's SQLite, loaded at run time, with the VFS of this crate in it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use libloading::{Library, Symbol};

use crate::ffi;
use crate::vfs::sqlite3_extension_init;

/// Names of the library, the first that is found is taken.
const LIBRARIES: [&str; 3] = ["libsqlite3.so.0", "libsqlite3.so", "libsqlite3.dylib"];

const ROW: c_int = 100;
const DONE: c_int = 101;
/// SQLite copies the bytes that are bound.
const TRANSIENT: isize = -1;

/// An error of SQLite, in its own words.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no library.
    #[error("no SQLite here: install libsqlite3-0 (Debian) or set the loader's path")]
    Missing,
    /// A library without a function.
    #[error("this SQLite lacks {0}")]
    Lacks(&'static str),
    /// A call failed.
    #[error("SQLite: {text} ({code})")]
    Failed {
        /// The result code.
        code: i32,
        /// The message.
        text: String,
    },
}

type Entry = unsafe extern "C" fn(*mut c_void, *mut *mut c_char, *const c_void) -> c_int;
type Destructor = isize;

/// SQLite's functions.
struct Functions {
    auto_extension: unsafe extern "C" fn(Option<unsafe extern "C" fn()>) -> c_int,
    open: unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, *const c_char) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
    message: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    prepare: unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        c_int,
        *mut *mut c_void,
        *mut *const c_char,
    ) -> c_int,
    step: unsafe extern "C" fn(*mut c_void) -> c_int,
    reset: unsafe extern "C" fn(*mut c_void) -> c_int,
    finalize: unsafe extern "C" fn(*mut c_void) -> c_int,
    bind_int: unsafe extern "C" fn(*mut c_void, c_int, i64) -> c_int,
    bind_blob: unsafe extern "C" fn(*mut c_void, c_int, *const c_void, c_int, Destructor) -> c_int,
    bind_text: unsafe extern "C" fn(*mut c_void, c_int, *const c_char, c_int, Destructor) -> c_int,
    column_blob: unsafe extern "C" fn(*mut c_void, c_int) -> *const c_void,
    column_bytes: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    column_int: unsafe extern "C" fn(*mut c_void, c_int) -> i64,
    column_text: unsafe extern "C" fn(*mut c_void, c_int) -> *const c_char,
    version: unsafe extern "C" fn() -> *const c_char,
    backup_init:
        unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_void, *const c_char) -> *mut c_void,
    backup_step: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    backup_finish: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// A SQLite whose connections know the VFS `outlast`.
pub struct Sqlite {
    functions: Functions,
}

/// A connection.
pub struct Client<'s> {
    sqlite: &'s Sqlite,
    handle: *mut c_void,
}

/// A prepared statement.
pub struct Statement<'c> {
    client: &'c Client<'c>,
    handle: *mut c_void,
}

impl Sqlite {
    /// Loads the system's library and registers the VFS with it.
    ///
    /// # Errors
    /// [`ClientError::Missing`] above all.
    pub fn load() -> Result<Self, ClientError> {
        // SAFETY: SQLite's library has no constructors.
        let found = LIBRARIES.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
        // It is never unloaded: the VFS stays registered.
        let library: &'static Library = Box::leak(Box::new(found.ok_or(ClientError::Missing)?));
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the field's type is the function's, as `sqlite3.h` has it.
                let symbol: Result<Symbol<'_, _>, _> = unsafe { library.get($name.as_bytes()) };
                *symbol.map_err(|_| ClientError::Lacks($name))?
            }};
        }
        let functions = Functions {
            auto_extension: function!("sqlite3_auto_extension"),
            open: function!("sqlite3_open_v2"),
            close: function!("sqlite3_close"),
            message: function!("sqlite3_errmsg"),
            prepare: function!("sqlite3_prepare_v2"),
            step: function!("sqlite3_step"),
            reset: function!("sqlite3_reset"),
            finalize: function!("sqlite3_finalize"),
            bind_int: function!("sqlite3_bind_int64"),
            bind_blob: function!("sqlite3_bind_blob"),
            bind_text: function!("sqlite3_bind_text"),
            column_blob: function!("sqlite3_column_blob"),
            column_bytes: function!("sqlite3_column_bytes"),
            column_int: function!("sqlite3_column_int64"),
            column_text: function!("sqlite3_column_text"),
            version: function!("sqlite3_libversion"),
            backup_init: function!("sqlite3_backup_init"),
            backup_step: function!("sqlite3_backup_step"),
            backup_finish: function!("sqlite3_backup_finish"),
        };
        let entry: Entry = sqlite3_extension_init;
        // SAFETY: SQLite calls an entry point with an entry point's arguments, whatever this type says.
        let entry = unsafe { std::mem::transmute::<Entry, unsafe extern "C" fn()>(entry) };
        // SAFETY: the function lives as long as the process.
        let code = unsafe { (functions.auto_extension)(Some(entry)) };
        let sqlite = Self { functions };
        sqlite.check(code, null_mut())?;
        drop(sqlite.open(":memory:")?);
        Ok(sqlite)
    }

    /// Its version.
    pub fn version(&self) -> String {
        // SAFETY: a text that is always there.
        unsafe { CStr::from_ptr((self.functions.version)()) }.to_string_lossy().into_owned()
    }

    /// Opens a database by its name or URI.
    ///
    /// # Errors
    /// [`ClientError::Failed`].
    pub fn open(&self, name: &str) -> Result<Client<'_>, ClientError> {
        const URI: c_int = 0x40;
        let name = text(name);
        let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | URI;
        let mut client = Client { sqlite: self, handle: null_mut() };
        // SAFETY: a text, and a place for the handle.
        let code =
            unsafe { (self.functions.open)(name.as_ptr(), &mut client.handle, flags, null()) };
        self.check(code, client.handle)?;
        Ok(client)
    }

    fn check(&self, code: c_int, handle: *mut c_void) -> Result<(), ClientError> {
        if matches!(code, ffi::OK | ROW | DONE) {
            return Ok(());
        }
        // SAFETY: a handle, or null, which has a message too.
        let text = unsafe { CStr::from_ptr((self.functions.message)(handle)) };
        Err(ClientError::Failed { code, text: text.to_string_lossy().into_owned() })
    }
}

fn text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

impl Client<'_> {
    /// Runs statements, separated by semicolons; returns the first column of every row.
    ///
    /// # Errors
    /// [`ClientError::Failed`].
    pub fn run(&self, sql: &str) -> Result<Vec<String>, ClientError> {
        let sql = text(sql);
        let functions = &self.sqlite.functions;
        let (mut rest, mut rows) = (sql.as_ptr(), Vec::new());
        loop {
            let mut statement = Statement { client: self, handle: null_mut() };
            let mut tail = null();
            // SAFETY: texts, and places for handle and rest, which points into the text.
            let code = unsafe {
                (functions.prepare)(self.handle, rest, -1, &mut statement.handle, &mut tail)
            };
            self.sqlite.check(code, self.handle)?;
            if statement.handle.is_null() {
                return Ok(rows);
            }
            while statement.step()? {
                // SAFETY: there is a row; null is SQL's NULL.
                let column = unsafe { (functions.column_text)(statement.handle, 0) };
                if !column.is_null() {
                    // SAFETY: SQLite's texts end with a zero.
                    let column = unsafe { CStr::from_ptr(column) };
                    rows.push(column.to_string_lossy().into_owned());
                }
            }
            rest = tail;
        }
    }

    /// Makes this connection's database a copy of another one's.
    ///
    /// # Errors
    /// [`ClientError::Failed`].
    pub fn copy_from(&self, source: &Client<'_>) -> Result<(), ClientError> {
        const ALL_PAGES: c_int = -1;
        let (functions, main) = (&self.sqlite.functions, c"main".as_ptr());
        // SAFETY: open connections, and names of databases that each has.
        let backup = unsafe { (functions.backup_init)(self.handle, main, source.handle, main) };
        if backup.is_null() {
            return self.sqlite.check(ffi::ERROR, self.handle);
        }
        // SAFETY: it was begun, and is finished once; an error of a step is told again by the end.
        let code = unsafe {
            (functions.backup_step)(backup, ALL_PAGES);
            (functions.backup_finish)(backup)
        };
        self.sqlite.check(code, self.handle)
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// [`ClientError::Failed`].
    pub fn prepare(&self, sql: &str) -> Result<Statement<'_>, ClientError> {
        let sql = text(sql);
        let mut statement = Statement { client: self, handle: null_mut() };
        // SAFETY: a text, and a place for the handle.
        let code = unsafe {
            let prepare = self.sqlite.functions.prepare;
            prepare(self.handle, sql.as_ptr(), -1, &mut statement.handle, null_mut())
        };
        self.sqlite.check(code, self.handle)?;
        Ok(statement)
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        // SAFETY: it is open, or null; its statements are gone.
        unsafe { (self.sqlite.functions.close)(self.handle) };
    }
}

/// A value of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Value<'v> {
    /// A number.
    Int(i64),
    /// A text.
    Text(&'v str),
    /// Bytes.
    Blob(&'v [u8]),
}

/// The row that a statement is at.
#[derive(Clone, Copy)]
pub struct Row<'s> {
    statement: &'s Statement<'s>,
}

impl Row<'_> {
    /// A column's number, from 0 on.
    pub fn int(&self, column: i32) -> i64 {
        let Statement { client, handle } = self.statement;
        // SAFETY: there is a row; a column that does not exist is 0.
        unsafe { (client.sqlite.functions.column_int)(*handle, column) }
    }

    /// A column's bytes; NULL has none.
    pub fn blob(&self, column: i32) -> Vec<u8> {
        let Statement { client, handle } = self.statement;
        let functions = &client.sqlite.functions;
        // SAFETY: there is a row; a column that does not exist is null.
        let bytes = unsafe { (functions.column_blob)(*handle, column) };
        // SAFETY: as above; it is asked behind `column_blob`, so the value stays as it is.
        let count = unsafe { (functions.column_bytes)(*handle, column) };
        if bytes.is_null() {
            return Vec::new();
        }
        // SAFETY: the value has `count` bytes, which stay until the statement is stepped or reset.
        unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), count as usize) }.to_vec()
    }

    /// A column's text; NULL is an empty one.
    pub fn text(&self, column: i32) -> String {
        let Statement { client, handle } = self.statement;
        // SAFETY: there is a row; a column that does not exist is null.
        let text = unsafe { (client.sqlite.functions.column_text)(*handle, column) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: SQLite's texts end with a zero.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

impl Statement<'_> {
    /// Gives the parameters their values.
    ///
    /// # Errors
    /// [`ClientError::Failed`].
    pub fn bind(&mut self, values: &[Value<'_>]) -> Result<(), ClientError> {
        let (functions, handle) = (&self.client.sqlite.functions, self.handle);
        for (parameter, value) in (1..).zip(values) {
            // SAFETY: a prepared statement, and bytes that SQLite copies.
            let code = unsafe {
                match *value {
                    Value::Int(value) => (functions.bind_int)(handle, parameter, value),
                    Value::Text(text) => {
                        let (from, len) = (text.as_ptr().cast(), text.len() as c_int);
                        (functions.bind_text)(handle, parameter, from, len, TRANSIENT)
                    }
                    Value::Blob(bytes) => {
                        let (from, len) = (bytes.as_ptr().cast(), bytes.len() as c_int);
                        (functions.bind_blob)(handle, parameter, from, len, TRANSIENT)
                    }
                }
            };
            self.client.sqlite.check(code, self.client.handle)?;
        }
        Ok(())
    }

    /// Runs it to its end with these values.
    ///
    /// # Errors
    /// [`ClientError::Failed`]; it is ready to run again.
    pub fn execute(&mut self, values: &[Value<'_>]) -> Result<(), ClientError> {
        self.each(values, |_| ())
    }

    /// The value that `read` finds in the first row, if there is one. The other rows are not looked for.
    ///
    /// # Errors
    /// [`ClientError::Failed`]; it is ready to run again.
    pub fn first<R>(
        &mut self,
        values: &[Value<'_>],
        read: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, ClientError> {
        self.bind(values)?;
        let found = self.step().map(|is_row| is_row.then(|| read(Row { statement: self })));
        self.reset();
        found
    }

    /// Calls `read` with every row.
    ///
    /// # Errors
    /// [`ClientError::Failed`]; it is ready to run again.
    pub fn each(
        &mut self,
        values: &[Value<'_>],
        mut read: impl FnMut(Row<'_>),
    ) -> Result<(), ClientError> {
        self.bind(values)?;
        let ended = loop {
            match self.step() {
                Ok(true) => read(Row { statement: self }),
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.reset();
        ended
    }

    /// Goes on to the next row. `false` when there is none.
    ///
    /// # Errors
    /// [`ClientError::Failed`].
    pub fn step(&mut self) -> Result<bool, ClientError> {
        let sqlite = self.client.sqlite;
        // SAFETY: a prepared statement.
        let code = unsafe { (sqlite.functions.step)(self.handle) };
        sqlite.check(code, self.client.handle)?;
        Ok(code == ROW)
    }

    /// Makes it ready to run again.
    pub fn reset(&mut self) {
        // SAFETY: a prepared statement.
        unsafe { (self.client.sqlite.functions.reset)(self.handle) };
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        // SAFETY: a prepared statement, or null.
        unsafe { (self.client.sqlite.functions.finalize)(self.handle) };
    }
}
