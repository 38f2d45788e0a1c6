//! Errors: a code that each call returns, and a text that each thread keeps.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

use outlast::{Abort, PoolError};

use super::sessions;
use crate::code::{ArchaptCode, Failure as ArchaptFailure};
use crate::guard;

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

/// Every code and what it means, in one line.
const TEXTS: &[(outlast_code, &CStr)] = &[
    (OUTLAST_OK, c"done"),
    (OUTLAST_CONFLICT, c"another transaction was in the way: abort and begin again"),
    (OUTLAST_OUT_OF_SPACE, c"no space left in the pool"),
    (OUTLAST_LOG_FULL, c"the transaction is too large for the log"),
    (OUTLAST_BAD_ADDRESS, c"not an address of the pool, or not of a block"),
    (OUTLAST_BAD_ARGUMENT, c"an argument that this call cannot take"),
    (OUTLAST_BAD_HANDLE, c"no such pool is open, or the thread has no such lane"),
    (OUTLAST_NO_TRANSACTION, c"no transaction: call outlast_begin first"),
    (OUTLAST_IN_TRANSACTION, c"a transaction has not ended: commit or abort it first"),
    (OUTLAST_NO_LANE, c"all lanes of the pool are taken: create it with more"),
    (OUTLAST_BUSY, c"others are using it"),
    (OUTLAST_NOT_A_POOL, c"not an Outlast pool"),
    (OUTLAST_UNFINISHED, c"the pool's creation was cut short: delete the file"),
    (OUTLAST_DAMAGED, c"the pool is damaged: restore it from a copy"),
    (OUTLAST_VERSION, c"the pool has a format that this version does not read"),
    (OUTLAST_NOT_FOUND, c"there is no such file"),
    (OUTLAST_EXISTS, c"there is such a file already"),
    (OUTLAST_SYSTEM, c"the operating system refused"),
    (OUTLAST_INTERNAL, c"a bug in the library"),
    (OUTLAST_FORKED, c"the pool is open in the process that forked this one: close it there first"),
];

impl outlast_code {
    /// The code with that number, where there is one.
    pub(crate) fn from_number(number: c_int) -> Option<Self> {
        TEXTS.get(usize::try_from(number).ok()?).map(|row| row.0)
    }
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub code: outlast_code,
    pub text: String,
}

impl Failure {
    pub fn new(code: outlast_code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// With what the code says.
    pub fn of(code: outlast_code) -> Self {
        Self::new(code, text_of(code).to_string_lossy())
    }

    pub fn bad(text: impl Into<String>) -> Self {
        Self::new(OUTLAST_BAD_ARGUMENT, text)
    }
}

/// Both interfaces read the runtime's errors alike. What only `archapt.h` can say does not come
/// from the runtime.
impl From<ArchaptFailure> for Failure {
    fn from(failure: ArchaptFailure) -> Self {
        use ArchaptCode::*;
        let code = match failure.code {
            ARCHAPT_CONFLICT => OUTLAST_CONFLICT,
            ARCHAPT_OUT_OF_SPACE => OUTLAST_OUT_OF_SPACE,
            ARCHAPT_LOG_FULL => OUTLAST_LOG_FULL,
            ARCHAPT_BAD_ADDRESS => OUTLAST_BAD_ADDRESS,
            ARCHAPT_BAD_ARGUMENT => OUTLAST_BAD_ARGUMENT,
            ARCHAPT_NO_LANE => OUTLAST_NO_LANE,
            ARCHAPT_BUSY => OUTLAST_BUSY,
            ARCHAPT_NOT_A_POOL => OUTLAST_NOT_A_POOL,
            ARCHAPT_UNFINISHED => OUTLAST_UNFINISHED,
            ARCHAPT_DAMAGED => OUTLAST_DAMAGED,
            ARCHAPT_VERSION => OUTLAST_VERSION,
            ARCHAPT_NOT_FOUND => OUTLAST_NOT_FOUND,
            ARCHAPT_EXISTS => OUTLAST_EXISTS,
            ARCHAPT_SYSTEM => OUTLAST_SYSTEM,
            ARCHAPT_FORKED => OUTLAST_FORKED,
            _ => OUTLAST_INTERNAL,
        };
        Self::new(code, failure.text)
    }
}

impl From<Abort> for Failure {
    fn from(abort: Abort) -> Self {
        ArchaptFailure::from(abort).into()
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        ArchaptFailure::from(error).into()
    }
}

thread_local! {
    /// Of the thread's last call that failed.
    static LAST: RefCell<(outlast_code, CString)> =
        RefCell::new((OUTLAST_OK, CString::default()));
}

/// Keeps the failure for this thread to ask about.
fn keep(Failure { code, text }: Failure) -> outlast_code {
    // In a thread that is about to end there is no one left to ask.
    let _ = LAST.try_with(|last| *last.borrow_mut() = (code, guard::c_text(&text)));
    code
}

/// Runs what a C function does.
pub(crate) fn guarded(body: impl FnOnce() -> Result<(), Failure>) -> outlast_code {
    match guard::run(body, sessions::give_up) {
        Ok(Ok(())) => OUTLAST_OK,
        Ok(Err(failure)) => keep(failure),
        Err(panic) => keep(Failure::new(OUTLAST_INTERNAL, panic)),
    }
}

fn text_of(code: outlast_code) -> &'static CStr {
    TEXTS[code as usize].1
}

/// The meaning of a code, in one line; of a number that is no code, that it is none. The text lives
/// as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_error_text(code: c_int) -> *const c_char {
    let row = usize::try_from(code).ok().and_then(|row| TEXTS.get(row));
    row.map_or(c"no code of Outlast's", |row| row.1).as_ptr()
}

/// The error of the calling thread's last call that failed: one line that names the thing.
/// Empty before the first. The text is good until the thread's next call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or(c"".as_ptr())
}

/// The code of that call.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_last_code() -> outlast_code {
    LAST.try_with(|last| last.borrow().0).unwrap_or(OUTLAST_OK)
}

/// The version of the library. The text lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn outlast_version() -> *const c_char {
    crate::code::Archapt_Version()
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
        assert_eq!(TEXTS.len(), OUTLAST_FORKED as usize + 1);
    }

    #[test]
    fn a_panic_becomes_a_code() {
        assert_eq!(guarded(|| panic!("of {} kind", "some")), OUTLAST_INTERNAL);
        // SAFETY: the library's text ends with a zero, and this thread fails nothing meanwhile.
        let text = unsafe { CStr::from_ptr(outlast_last_error()) };
        assert_eq!(text, c"a bug in Outlast: of some kind");
        assert_eq!(outlast_last_code(), OUTLAST_INTERNAL);
    }
}
