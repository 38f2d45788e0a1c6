//! Errors: a code that each call returns, and a text that each thread keeps.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

use outlast::{Abort, PoolError};
use outlast_pmem::MapError;

use crate::{guard, session};

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

/// Every code and what it means, in one line.
const TEXTS: &[(ArchaptCode, &CStr)] = &[
    (ARCHAPT_OK, c"done"),
    (ARCHAPT_CONFLICT, c"another transaction was in the way: abort and start again"),
    (ARCHAPT_OUT_OF_SPACE, c"no space left in the pool"),
    (ARCHAPT_LOG_FULL, c"the transaction is too large for the log"),
    (ARCHAPT_BAD_ADDRESS, c"not an address of the pool, or not of a block"),
    (ARCHAPT_BAD_ARGUMENT, c"an argument that this call cannot take"),
    (ARCHAPT_NOT_OPEN, c"no pool is open: call Archapt_Init first"),
    (ARCHAPT_ALREADY_OPEN, c"a pool is open already: call Archapt_Close first"),
    (ARCHAPT_NO_TRANSACTION, c"no transaction: call Archapt_Tx_Start first"),
    (ARCHAPT_IN_TRANSACTION, c"a transaction has not ended: call Archapt_Tx_End first"),
    (ARCHAPT_NOT_COMMITTED, c"ended without Archapt_Tx_LCommit: the transaction was undone"),
    (ARCHAPT_NO_LANE, c"all lanes of the pool are taken: create it with more"),
    (ARCHAPT_BUSY, c"others are using it"),
    (ARCHAPT_NOT_A_POOL, c"not an Outlast pool"),
    (ARCHAPT_UNFINISHED, c"the pool's creation was cut short: delete the file"),
    (ARCHAPT_DAMAGED, c"the pool is damaged: restore it from a copy"),
    (ARCHAPT_VERSION, c"the pool has a format that this version does not read"),
    (ARCHAPT_NOT_FOUND, c"there is no such file"),
    (ARCHAPT_EXISTS, c"there is such a file already"),
    (ARCHAPT_WRONG_SIZE, c"the block has another size"),
    (ARCHAPT_WRONG_TYPE, c"the block belongs to another type's pool"),
    (ARCHAPT_UNKNOWN_TICKET, c"no commit of this pool has that ticket"),
    (ARCHAPT_SYSTEM, c"the operating system refused"),
    (ARCHAPT_INTERNAL, c"a bug in the library"),
    (ARCHAPT_FORKED, c"the pool is open in the process that forked this one: close it there first"),
];

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub code: ArchaptCode,
    pub text: String,
}

impl Failure {
    pub fn new(code: ArchaptCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// With what the code says.
    pub fn of(code: ArchaptCode) -> Self {
        Self::new(code, text_of(code).to_string_lossy())
    }
}

impl From<Abort> for Failure {
    fn from(abort: Abort) -> Self {
        let code = match &abort {
            Abort::Conflict => ARCHAPT_CONFLICT,
            Abort::Cancelled(_) => ARCHAPT_NOT_COMMITTED,
            Abort::OutOfSpace { .. } | Abort::TooLarge(_) => ARCHAPT_OUT_OF_SPACE,
            Abort::LogFull { .. } | Abort::NumbersUsedUp => ARCHAPT_LOG_FULL,
            Abort::BadAddress(_) => ARCHAPT_BAD_ADDRESS,
            Abort::Forked => ARCHAPT_FORKED,
            Abort::Medium(_) | Abort::Growth(_) => ARCHAPT_SYSTEM,
            // No caller asks for types here.
            Abort::Damaged(_) | Abort::Schema(_) => ARCHAPT_DAMAGED,
            Abort::NoLane { .. } => ARCHAPT_NO_LANE,
            // No call opens for reading only.
            _ => ARCHAPT_INTERNAL,
        };
        Self::new(code, abort.to_string())
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        let code = match &error {
            PoolError::Abort(abort) => return abort.clone().into(),
            PoolError::NotAPool => ARCHAPT_NOT_A_POOL,
            PoolError::Unfinished => ARCHAPT_UNFINISHED,
            PoolError::Version { .. } | PoolError::Flags { .. } | PoolError::NeedsLab { .. } => {
                ARCHAPT_VERSION
            }
            PoolError::Damaged { .. }
            | PoolError::Truncated { .. }
            | PoolError::Fault { .. }
            | PoolError::Uncorrectable { .. } => ARCHAPT_DAMAGED,
            PoolError::KeepsChecksums { .. }
            | PoolError::NotLiteral { .. }
            | PoolError::Literal { .. } => ARCHAPT_BAD_ARGUMENT,
            PoolError::TooSmall { .. } | PoolError::TooLarge { .. } | PoolError::Parameters(_) => {
                ARCHAPT_BAD_ARGUMENT
            }
            PoolError::NoLane { .. } => ARCHAPT_NO_LANE,
            PoolError::NoSnapshot { .. } => ARCHAPT_BUSY,
            PoolError::Forked | PoolError::Map(MapError::Forked { .. }) => ARCHAPT_FORKED,
            PoolError::Map(MapError::NotFound { .. } | MapError::NoDirectory { .. }) => {
                ARCHAPT_NOT_FOUND
            }
            PoolError::Map(MapError::AlreadyExists { .. }) => ARCHAPT_EXISTS,
            PoolError::Map(MapError::AlreadyOpen { .. }) => ARCHAPT_BUSY,
            PoolError::Map(MapError::NotRegular { .. } | MapError::BadLength { len: 0, .. }) => {
                ARCHAPT_NOT_A_POOL
            }
            // Other files of such lengths are no pools, and called so.
            PoolError::Map(MapError::BadLength { .. } | MapError::Truncated { .. }) => {
                ARCHAPT_DAMAGED
            }
            PoolError::Map(_) | PoolError::Grow(_) | PoolError::Medium(_) => ARCHAPT_SYSTEM,
            // No call opens for reading only.
            _ => ARCHAPT_INTERNAL,
        };
        Self::new(code, error.to_string())
    }
}

thread_local! {
    /// Of the thread's last call that failed.
    static LAST: RefCell<(ArchaptCode, CString)> =
        RefCell::new((ARCHAPT_OK, CString::default()));
}

/// Keeps the failure for this thread to ask about.
fn keep(Failure { code, text }: Failure) -> ArchaptCode {
    // In a thread that is about to end there is no one left to ask.
    let _ = LAST.try_with(|last| *last.borrow_mut() = (code, guard::c_text(&text)));
    code
}

/// Runs what a C function does.
pub(crate) fn guarded(body: impl FnOnce() -> Result<(), Failure>) -> ArchaptCode {
    match guard::run(body, session::give_up) {
        Ok(Ok(())) => ARCHAPT_OK,
        Ok(Err(failure)) => keep(failure),
        Err(panic) => keep(Failure::new(ARCHAPT_INTERNAL, panic)),
    }
}

fn text_of(code: ArchaptCode) -> &'static CStr {
    TEXTS.iter().find(|row| row.0 == code).map_or(c"a code without a text", |row| row.1)
}

/// The meaning of a code, in one line. Never null; the text lives as long as the process.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Error_Text(code: c_int) -> *const c_char {
    let found = TEXTS.iter().find(|row| row.0 as c_int == code);
    found.map_or(c"no such code", |row| row.1).as_ptr()
}

/// The error of the calling thread's last call that failed: one line that names the thing.
/// Empty before the first. The text is good until the thread's next call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Last_Error() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or(c"".as_ptr())
}

/// The code of that call.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Last_Code() -> ArchaptCode {
    LAST.try_with(|last| last.borrow().0).unwrap_or(ARCHAPT_OK)
}

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn Archapt_Version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_text_and_stands_in_its_row() {
        for (row, (code, text)) in TEXTS.iter().enumerate() {
            assert_eq!(*code as usize, row);
            assert!(!text.is_empty());
        }
        assert_eq!(TEXTS.len(), ARCHAPT_FORKED as usize + 1);
    }

    #[test]
    fn a_panic_becomes_a_code() {
        assert_eq!(guarded(|| panic!("of {} kind", "some")), ARCHAPT_INTERNAL);
        // SAFETY: the library's text ends with a zero, and this thread fails nothing meanwhile.
        let text = unsafe { CStr::from_ptr(Archapt_Last_Error()) };
        assert_eq!(text, c"a bug in Outlast: of some kind");
        assert_eq!(Archapt_Last_Code(), ARCHAPT_INTERNAL);
    }
}
