//! The codes of `outlast.h`, and the functions that tell the last error.

use std::ffi::{c_char, c_int};

use super::sessions;
use crate::error::{self, Code, Kind, Row};

/// The result of a call.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types, reason = "the names are C's")]
pub enum outlast_code {
    /// It is done.
    OUTLAST_OK = 0,
    /// Another transaction was in the way. Abort this one and begin again.
    OUTLAST_CONFLICT = 1,
    /// The pool has no free block of this size, or never has one so large: the text tells.
    OUTLAST_OUT_OF_SPACE = 2,
    /// The transaction is too large for the log.
    OUTLAST_LOG_FULL = 3,
    /// An offset that the pool does not have, or where no block starts.
    OUTLAST_BAD_ADDRESS = 4,
    /// A null pointer, an unknown name, a size that nothing can have.
    OUTLAST_BAD_ARGUMENT = 5,
    /// No such pool is open; or the calling thread has no such lane.
    OUTLAST_BAD_HANDLE = 6,
    /// The lane has no transaction to do this in.
    OUTLAST_NO_TRANSACTION = 7,
    /// A transaction of the thread has not ended yet.
    OUTLAST_IN_TRANSACTION = 8,
    /// All lanes of the pool are taken.
    OUTLAST_NO_LANE = 9,
    /// Lanes of the pool are taken, or another process has the file open.
    OUTLAST_BUSY = 10,
    /// The file is no pool.
    OUTLAST_NOT_A_POOL = 11,
    /// The pool's creation was cut short.
    OUTLAST_UNFINISHED = 12,
    /// The pool's content is not what was written there.
    OUTLAST_DAMAGED = 13,
    /// The pool has a format that this version does not read.
    OUTLAST_VERSION = 14,
    /// There is no such file.
    OUTLAST_NOT_FOUND = 15,
    /// There is such a file already.
    OUTLAST_EXISTS = 16,
    /// The operating system refused.
    OUTLAST_SYSTEM = 17,
    /// The library broke a promise of its own. The thread's transactions were undone and its
    /// lanes given back.
    OUTLAST_INTERNAL = 18,
    /// The pool was opened by the process that forked this one, which must not use it.
    OUTLAST_FORKED = 19,
}

use outlast_code::*;

impl Code for outlast_code {
    const ROWS: &'static [Row<Self>] = &[
        (Kind::Ok, OUTLAST_OK, c"done"),
        (
            Kind::Conflict,
            OUTLAST_CONFLICT,
            c"another transaction was in the way: abort and begin again",
        ),
        (Kind::OutOfSpace, OUTLAST_OUT_OF_SPACE, c"no space left in the pool"),
        (Kind::LogFull, OUTLAST_LOG_FULL, c"the transaction is too large for the log"),
        (Kind::BadAddress, OUTLAST_BAD_ADDRESS, c"not an address of the pool, or not of a block"),
        (Kind::BadArgument, OUTLAST_BAD_ARGUMENT, c"an argument that this call cannot take"),
        (
            Kind::NotOpen,
            OUTLAST_BAD_HANDLE,
            c"no such pool is open, or the thread has no such lane",
        ),
        (Kind::NoTransaction, OUTLAST_NO_TRANSACTION, c"no transaction: call outlast_begin first"),
        (
            Kind::InTransaction,
            OUTLAST_IN_TRANSACTION,
            c"a transaction has not ended: commit or abort it first",
        ),
        (Kind::NoLane, OUTLAST_NO_LANE, c"all lanes of the pool are taken: create it with more"),
        (Kind::Busy, OUTLAST_BUSY, c"others are using it"),
        (Kind::NotAPool, OUTLAST_NOT_A_POOL, c"not an Outlast pool"),
        (
            Kind::Unfinished,
            OUTLAST_UNFINISHED,
            c"the pool's creation was cut short: delete the file",
        ),
        (Kind::Damaged, OUTLAST_DAMAGED, c"the pool is damaged: restore it from a copy"),
        (Kind::Version, OUTLAST_VERSION, c"the pool has a format that this version does not read"),
        (Kind::NotFound, OUTLAST_NOT_FOUND, c"there is no such file"),
        (Kind::Exists, OUTLAST_EXISTS, c"there is such a file already"),
        (Kind::System, OUTLAST_SYSTEM, c"the operating system refused"),
        (Kind::Internal, OUTLAST_INTERNAL, c"a bug in the library"),
        (
            Kind::Forked,
            OUTLAST_FORKED,
            c"the pool is open in the process that forked this one: close it there first",
        ),
    ];

    fn give_up() {
        sessions::give_up();
    }
}

/// The meaning of a code, in one line; of a number that is no code, that it is none. The text lives
/// as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_error_text(code: c_int) -> *const c_char {
    error::row_of_number::<outlast_code>(code).map_or(c"no code of Outlast's", |row| row.2).as_ptr()
}

/// The error of the calling thread's last call that failed: one line that names the thing.
/// Empty before the first. The text is good until the thread's next call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_last_error() -> *const c_char {
    error::last_text()
}

/// The code of that call.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_last_code() -> outlast_code {
    error::last_code()
}

/// The version of the library. The text lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_version() -> *const c_char {
    error::version()
}
