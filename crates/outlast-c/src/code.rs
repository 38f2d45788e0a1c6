//! The codes of `archapt.h`, and the functions that tell the last error.

use std::ffi::{c_char, c_int};

use crate::error::{self, Code, Kind, Row};
use crate::session;

/// The result of a call.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(non_camel_case_types, reason = "the names are C's")]
pub enum ArchaptCode {
    /// It is done.
    ARCHAPT_OK = 0,
    /// Another transaction was in the way. Abort this one and start again.
    ARCHAPT_CONFLICT = 1,
    /// The pool has no free block of this size, or never has one so large: the text tells.
    ARCHAPT_OUT_OF_SPACE = 2,
    /// The transaction is too large for the log.
    ARCHAPT_LOG_FULL = 3,
    /// An offset that the pool does not have, or where no block starts.
    ARCHAPT_BAD_ADDRESS = 4,
    /// A null pointer, an unknown name or type, a size that nothing can have.
    ARCHAPT_BAD_ARGUMENT = 5,
    /// The process has no pool open.
    ARCHAPT_NOT_OPEN = 6,
    /// The process has a pool open already.
    ARCHAPT_ALREADY_OPEN = 7,
    /// The thread has no transaction to do this in.
    ARCHAPT_NO_TRANSACTION = 8,
    /// The thread's transaction has not ended yet.
    ARCHAPT_IN_TRANSACTION = 9,
    /// The transaction ended without a commit: it was undone.
    ARCHAPT_NOT_COMMITTED = 10,
    /// More threads than the pool has lanes.
    ARCHAPT_NO_LANE = 11,
    /// Other threads have sessions, or another process has the file open.
    ARCHAPT_BUSY = 12,
    /// The file is no pool.
    ARCHAPT_NOT_A_POOL = 13,
    /// The pool's creation was cut short.
    ARCHAPT_UNFINISHED = 14,
    /// The pool's content is not what was written there.
    ARCHAPT_DAMAGED = 15,
    /// The pool has a format that this version does not read.
    ARCHAPT_VERSION = 16,
    /// There is no such file.
    ARCHAPT_NOT_FOUND = 17,
    /// There is such a file already.
    ARCHAPT_EXISTS = 18,
    /// The size given is not that of the block.
    ARCHAPT_WRONG_SIZE = 19,
    /// The block belongs to another type's pool.
    ARCHAPT_WRONG_TYPE = 20,
    /// No commit of this pool has that ticket.
    ARCHAPT_UNKNOWN_TICKET = 21,
    /// The operating system refused.
    ARCHAPT_SYSTEM = 22,
    /// The library broke a promise of its own. The thread's transaction was undone.
    ARCHAPT_INTERNAL = 23,
    /// The pool was opened by the process that forked this one, which must not use it.
    ARCHAPT_FORKED = 24,
}

use ArchaptCode::*;

impl Code for ArchaptCode {
    const ROWS: &'static [Row<Self>] = &[
        (Kind::Ok, ARCHAPT_OK, c"done"),
        (
            Kind::Conflict,
            ARCHAPT_CONFLICT,
            c"another transaction was in the way: abort and start again",
        ),
        (Kind::OutOfSpace, ARCHAPT_OUT_OF_SPACE, c"no space left in the pool"),
        (Kind::LogFull, ARCHAPT_LOG_FULL, c"the transaction is too large for the log"),
        (Kind::BadAddress, ARCHAPT_BAD_ADDRESS, c"not an address of the pool, or not of a block"),
        (Kind::BadArgument, ARCHAPT_BAD_ARGUMENT, c"an argument that this call cannot take"),
        (Kind::NotOpen, ARCHAPT_NOT_OPEN, c"no pool is open: call Archapt_Init first"),
        (
            Kind::AlreadyOpen,
            ARCHAPT_ALREADY_OPEN,
            c"a pool is open already: call Archapt_Close first",
        ),
        (
            Kind::NoTransaction,
            ARCHAPT_NO_TRANSACTION,
            c"no transaction: call Archapt_Tx_Start first",
        ),
        (
            Kind::InTransaction,
            ARCHAPT_IN_TRANSACTION,
            c"a transaction has not ended: call Archapt_Tx_End first",
        ),
        (
            Kind::NotCommitted,
            ARCHAPT_NOT_COMMITTED,
            c"ended without Archapt_Tx_LCommit: the transaction was undone",
        ),
        (Kind::NoLane, ARCHAPT_NO_LANE, c"all lanes of the pool are taken: create it with more"),
        (Kind::Busy, ARCHAPT_BUSY, c"others are using it"),
        (Kind::NotAPool, ARCHAPT_NOT_A_POOL, c"not an Outlast pool"),
        (
            Kind::Unfinished,
            ARCHAPT_UNFINISHED,
            c"the pool's creation was cut short: delete the file",
        ),
        (Kind::Damaged, ARCHAPT_DAMAGED, c"the pool is damaged: restore it from a copy"),
        (Kind::Version, ARCHAPT_VERSION, c"the pool has a format that this version does not read"),
        (Kind::NotFound, ARCHAPT_NOT_FOUND, c"there is no such file"),
        (Kind::Exists, ARCHAPT_EXISTS, c"there is such a file already"),
        (Kind::WrongSize, ARCHAPT_WRONG_SIZE, c"the block has another size"),
        (Kind::WrongType, ARCHAPT_WRONG_TYPE, c"the block belongs to another type's pool"),
        (Kind::UnknownTicket, ARCHAPT_UNKNOWN_TICKET, c"no commit of this pool has that ticket"),
        (Kind::System, ARCHAPT_SYSTEM, c"the operating system refused"),
        (Kind::Internal, ARCHAPT_INTERNAL, c"a bug in the library"),
        (
            Kind::Forked,
            ARCHAPT_FORKED,
            c"the pool is open in the process that forked this one: close it there first",
        ),
    ];

    fn give_up() {
        session::give_up();
    }
}

/// The meaning of a code, in one line. Never null; the text lives as long as the process.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Error_Text(code: c_int) -> *const c_char {
    error::row_of_number::<ArchaptCode>(code).map_or(c"no such code", |row| row.2).as_ptr()
}

/// The error of the calling thread's last call that failed: one line that names the thing.
/// Empty before the first. The text is good until the thread's next call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Last_Error() -> *const c_char {
    error::last_text()
}

/// The code of that call.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Last_Code() -> ArchaptCode {
    error::last_code()
}

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Version() -> *const c_char {
    error::version()
}
