//! `outlast._outlast`: pools for Python. What a user sees of it is in `python/outlast/`.
//!
//! * `home`: where operations run: in the transaction that the thread has open, in one of their own, or on a snapshot.
//! * `codec`: Python's values as bytes.
//! * `structures`: maps, lists, counters and arrays by their names.

mod codec;
mod error;
mod home;
mod pool;
mod structures;

use pyo3::prelude::*;

#[pymodule]
mod _outlast {
    #[pymodule_export]
    use crate::error::{ClosedError, Conflict, Damaged, Error, OutOfSpace};
    #[pymodule_export]
    use crate::pool::{Pool, Reader, Transaction};
    #[pymodule_export]
    use crate::structures::{Array, Counter, List, Map, View};
}
