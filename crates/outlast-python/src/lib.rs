//! `outlast._outlast`: pools for Python. What a user sees of it is in `python/outlast/`.
//!
//! * `home`: where operations run: in the transaction that the thread has open, in one of their own, or on a snapshot.
//! * `scope`: how a structure is found by its name, and is not used when it is gone.
//! * `codec`: Python's values as bytes.
//! * `structures`: maps, lists and counters by their names. `array`: arrays of numbers.

mod array;
mod codec;
mod error;
mod home;
mod pool;
mod scope;
mod structures;

use pyo3::prelude::*;

#[pymodule]
mod _outlast {
    #[pymodule_export]
    use crate::array::{Array, View};
    #[pymodule_export]
    use crate::error::{ClosedError, Conflict, Damaged, Error, OutOfSpace};
    #[pymodule_export]
    use crate::pool::{Pool, Reader, Transaction};
    #[pymodule_export]
    use crate::structures::{Counter, List, Map};
}
