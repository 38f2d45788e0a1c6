//! Exceptions, with the runtime's messages.

use outlast::error::{ReadError, SessionError};
use outlast::{Abort, PoolError};
use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyException;

create_exception!(
    outlast,
    Error,
    PyException,
    "Whatever a pool refuses; the message says why and what to do."
);
create_exception!(
    outlast,
    Conflict,
    Error,
    "Another transaction was in the way: run this one again."
);
create_exception!(outlast, OutOfSpace, Error, "The pool, its log or its file system is full.");
create_exception!(outlast, Damaged, Error, "Durable bytes are not as they were stored.");
create_exception!(outlast, ClosedError, Error, "The pool is closed.");

/// The exception of an abort.
pub fn of_abort(abort: Abort) -> PyErr {
    let text = abort.to_string();
    match abort {
        Abort::Conflict => Conflict::new_err(text),
        Abort::OutOfSpace { .. } | Abort::LogFull { .. } | Abort::Growth(_) => {
            OutOfSpace::new_err(text)
        }
        Abort::Damaged(_) => Damaged::new_err(text),
        _ => Error::new_err(text),
    }
}

/// The exception of a pool that cannot be opened or closed.
pub fn of_pool(error: PoolError) -> PyErr {
    match error {
        PoolError::Abort(abort) => of_abort(abort),
        PoolError::Damaged { .. } | PoolError::Fault { .. } | PoolError::Uncorrectable { .. } => {
            Damaged::new_err(error.to_string())
        }
        error => Error::new_err(error.to_string()),
    }
}

/// The exception of a session.
pub fn of_session(error: SessionError) -> PyErr {
    match error {
        SessionError::Abort(abort) => of_abort(abort),
        error => Error::new_err(error.to_string()),
    }
}

/// The exception of a reader.
pub fn of_read(error: ReadError) -> PyErr {
    match error {
        ReadError::Pool(error) => of_pool(error),
        ReadError::Abort(abort) => of_abort(abort),
        error => Error::new_err(error.to_string()),
    }
}

/// The pool is closed.
pub fn closed() -> PyErr {
    ClosedError::new_err("the pool is closed")
}
