//! The error layer under both headers. A call that fails has a [`Kind`] and a text; each header has a table
//! ([`Code::ROWS`]) from kinds to its codes. The kind and the text of the last failure are kept for each thread.
//! Nothing unwinds over the boundary to C.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use outlast::error::{MapError, ReadError, SessionError};
use outlast::{Abort, PoolError};

/// Why a call failed, in the terms of neither header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Ok,
    Conflict,
    OutOfSpace,
    LogFull,
    BadAddress,
    BadArgument,
    /// No such pool is open, or the thread has no such lane.
    NotOpen,
    AlreadyOpen,
    NoTransaction,
    InTransaction,
    NotCommitted,
    NoLane,
    Busy,
    NotAPool,
    Unfinished,
    Damaged,
    Version,
    NotFound,
    Exists,
    WrongSize,
    WrongType,
    UnknownTicket,
    System,
    Internal,
    Forked,
}

/// A code of a header: its kind, itself, and its meaning in one line.
pub(crate) type Row<C> = (Kind, C, &'static CStr);

/// The codes of a header.
pub(crate) trait Code: Copy + 'static {
    /// Every code, in the order of the numbers; each has a kind of its own.
    const ROWS: &'static [Row<Self>];

    /// After a panic: undoes the thread's transactions through this header.
    fn give_up();
}

/// The row of a kind. One that the header has no code for is a call that its user cannot make, as far as it
/// knows: a bad argument.
fn row_of<C: Code>(kind: Kind) -> &'static Row<C> {
    let row = |kind| C::ROWS.iter().find(|row| row.0 == kind);
    row(kind).or_else(|| row(Kind::BadArgument)).expect("each header has a code for bad arguments")
}

/// The row of a code by its number, if the header has one of that number.
pub(crate) fn row_of_number<C: Code>(number: c_int) -> Option<&'static Row<C>> {
    C::ROWS.get(usize::try_from(number).ok()?)
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub kind: Kind,
    /// One line that names the thing; without one, the code's meaning.
    text: Option<String>,
}

impl Failure {
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: Some(text.into()) }
    }

    /// With the code's meaning as its text.
    pub fn of(kind: Kind) -> Self {
        Self { kind, text: None }
    }

    pub fn bad(text: impl Into<String>) -> Self {
        Self::new(Kind::BadArgument, text)
    }
}

impl From<Abort> for Failure {
    fn from(abort: Abort) -> Self {
        let kind = match &abort {
            Abort::Conflict => Kind::Conflict,
            Abort::Cancelled(_) => Kind::NotCommitted,
            Abort::OutOfSpace { .. } | Abort::TooLarge(_) => Kind::OutOfSpace,
            Abort::LogFull { .. } | Abort::NumbersUsedUp => Kind::LogFull,
            Abort::BadAddress(_) => Kind::BadAddress,
            Abort::Forked => Kind::Forked,
            Abort::Medium(_) | Abort::Growth(_) => Kind::System,
            // No caller asks for types here.
            Abort::Damaged(_) | Abort::Schema(_) => Kind::Damaged,
            Abort::NoLane { .. } => Kind::NoLane,
            // No call opens for reading only.
            _ => Kind::Internal,
        };
        Self::new(kind, abort.to_string())
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        let kind = match &error {
            PoolError::Abort(abort) => return abort.clone().into(),
            PoolError::NotAPool { .. } => Kind::NotAPool,
            PoolError::Unfinished => Kind::Unfinished,
            PoolError::Version { .. } | PoolError::Flags { .. } | PoolError::NeedsLab { .. } => {
                Kind::Version
            }
            PoolError::Damaged { .. }
            | PoolError::Truncated { .. }
            | PoolError::Fault { .. }
            | PoolError::Uncorrectable { .. } => Kind::Damaged,
            PoolError::KeepsChecksums { .. }
            | PoolError::NotLiteral { .. }
            | PoolError::Literal { .. } => Kind::BadArgument,
            PoolError::TooSmall { .. } | PoolError::TooLarge { .. } | PoolError::Parameters(_) => {
                Kind::BadArgument
            }
            PoolError::NoLane { .. } => Kind::NoLane,
            PoolError::Forked | PoolError::Map(MapError::Forked { .. }) => Kind::Forked,
            PoolError::Map(MapError::NotFound { .. } | MapError::NoDirectory { .. }) => {
                Kind::NotFound
            }
            PoolError::Map(MapError::AlreadyExists { .. }) => Kind::Exists,
            PoolError::Map(MapError::AlreadyOpen { .. }) => Kind::Busy,
            PoolError::Map(MapError::NotRegular { .. } | MapError::BadLength { len: 0, .. }) => {
                Kind::NotAPool
            }
            // Other files of such lengths are no pools, and called so.
            PoolError::Map(MapError::BadLength { .. } | MapError::Truncated { .. }) => {
                Kind::Damaged
            }
            PoolError::Map(_) | PoolError::Grow(_) | PoolError::Medium(_) => Kind::System,
            PoolError::NoSnapshot { .. } => Kind::Busy,
            // No call opens for reading only.
            _ => Kind::Internal,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::InTransaction => Self::of(Kind::InTransaction),
            SessionError::NoTransaction => Self::of(Kind::NoTransaction),
            SessionError::Abort(abort) => abort.into(),
            _ => Self::new(Kind::Internal, error.to_string()),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Pool(error) => error.into(),
            ReadError::Abort(abort) => abort.into(),
            _ => Self::new(Kind::Internal, error.to_string()),
        }
    }
}

thread_local! {
    /// Of the thread's last call that failed, through whichever header.
    static LAST: RefCell<(Kind, CString)> = RefCell::new((Kind::Ok, CString::default()));
}

/// Keeps the failure for this thread to ask about.
fn keep<C: Code>(failure: Failure) -> C {
    let (_, code, meaning) = row_of::<C>(failure.kind);
    let text = failure.text.map_or_else(|| CString::from(*meaning), |text| c_text(&text));
    // A thread that is about to end asks no more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = (failure.kind, text));
    *code
}

/// Runs what a C function does.
pub(crate) fn guarded<C: Code>(body: impl FnOnce() -> Result<(), Failure>) -> C {
    match run(body, C::give_up) {
        Ok(Ok(())) => row_of::<C>(Kind::Ok).1,
        Ok(Err(failure)) => keep(failure),
        Err(panic) => keep(Failure::new(Kind::Internal, panic)),
    }
}

/// The code of the thread's last call that failed.
pub(crate) fn last_code<C: Code>() -> C {
    row_of::<C>(LAST.try_with(|last| last.borrow().0).unwrap_or(Kind::Ok)).1
}

/// Its text.
pub(crate) fn last_text() -> *const c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr()).unwrap_or(c"".as_ptr())
}

/// The version of the library.
pub(crate) fn version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Runs `body`. After a panic `give_up` undoes what is left of the thread's transactions, and the panic's
/// text comes back as an error.
fn run<R>(body: impl FnOnce() -> R, give_up: impl FnOnce()) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let _ = catch_unwind(AssertUnwindSafe(give_up));
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("no text");
        let text = format!("a bug in Outlast: {text}");
        // A payload's own destructor may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        text
    })
}

/// A text for C.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::ArchaptCode;
    use crate::handles::code::outlast_code;

    fn check_rows<C: Code>(number: impl Fn(C) -> usize) {
        for (row, (kind, code, text)) in C::ROWS.iter().enumerate() {
            assert_eq!(number(*code), row);
            assert!(!text.is_empty());
            let of_kind = C::ROWS.iter().filter(|other| other.0 == *kind).count();
            assert_eq!(of_kind, 1, "{kind:?}");
        }
        assert_eq!(C::ROWS[0].0, Kind::Ok);
    }

    #[test]
    fn every_code_stands_in_its_row_with_a_kind_of_its_own() {
        check_rows::<ArchaptCode>(|code| code as usize);
        check_rows::<outlast_code>(|code| code as usize);
        assert_eq!(ArchaptCode::ROWS.len(), ArchaptCode::ARCHAPT_FORKED as usize + 1);
        assert_eq!(outlast_code::ROWS.len(), outlast_code::OUTLAST_FORKED as usize + 1);
    }

    fn last() -> &'static CStr {
        // SAFETY: the text ends with a zero, and this thread fails nothing until it was read.
        unsafe { CStr::from_ptr(last_text()) }
    }

    fn archapt(body: impl FnOnce() -> Result<(), Failure>) -> ArchaptCode {
        guarded(body)
    }

    fn handles(body: impl FnOnce() -> Result<(), Failure>) -> outlast_code {
        guarded(body)
    }

    #[test]
    fn a_panic_becomes_a_code_of_either_header() {
        assert_eq!(archapt(|| panic!("of {} kind", "some")), ArchaptCode::ARCHAPT_INTERNAL);
        assert_eq!(last(), c"a bug in Outlast: of some kind");
        assert_eq!(handles(|| panic!("again")), outlast_code::OUTLAST_INTERNAL);
        assert_eq!(last(), c"a bug in Outlast: again");
        assert_eq!(last_code::<outlast_code>(), outlast_code::OUTLAST_INTERNAL);
    }

    /// A failure is kept once, and each header tells it in its own words.
    #[test]
    fn one_failure_has_a_code_in_each_header() {
        let failed = |kind| move || Err(Failure::of(kind));
        archapt(failed(Kind::NoTransaction));
        assert_eq!(last(), c"no transaction: call Archapt_Tx_Start first");
        assert_eq!(last_code::<ArchaptCode>(), ArchaptCode::ARCHAPT_NO_TRANSACTION);
        assert_eq!(last_code::<outlast_code>(), outlast_code::OUTLAST_NO_TRANSACTION);
        handles(failed(Kind::NoTransaction));
        assert_eq!(last(), c"no transaction: call outlast_begin first");
        assert_eq!(archapt(failed(Kind::WrongSize)), ArchaptCode::ARCHAPT_WRONG_SIZE);
        let other = last_code::<outlast_code>();
        assert_eq!(other, outlast_code::OUTLAST_BAD_ARGUMENT, "there is no such code");
        assert_eq!(handles(|| Ok(())), outlast_code::OUTLAST_OK);
        let last = last_code::<ArchaptCode>();
        assert_eq!(last, ArchaptCode::ARCHAPT_WRONG_SIZE, "of the last that failed");
    }

    #[test]
    fn neither_a_panic_nor_its_remains_unwind() {
        struct Grenade;
        impl Drop for Grenade {
            fn drop(&mut self) {
                panic!("once more");
            }
        }
        let mut gave_up = false;
        let body = || std::panic::panic_any(Grenade);
        let result: Result<(), String> = run(body, || {
            gave_up = true;
            panic!("and again");
        });
        assert_eq!(result, Err("a bug in Outlast: no text".to_owned()));
        assert!(gave_up);
        assert_eq!(run(|| 7, || unreachable!("nothing failed")), Ok(7));
        assert_eq!(c_text("a\0b").as_c_str(), c"a b");
    }
}
