//! Arrays of numbers, and their memory as NumPy sees it.

use std::sync::Arc;

use outlast::collections::Words;
use outlast::{Abort, ByteRange, PoolOffset, Transact};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::error::Error;
use crate::home::{Home, Writer};
use crate::structures::Handle;

/// Bytes of an array of that type and shape; `None` for a type whose items are no plain bytes, and for more than there can be.
pub fn bytes_of(dtype: &str, shape: &[u64]) -> Option<u64> {
    let kind = dtype.chars().nth(1).filter(|kind| "biufcSUVmM".contains(*kind))?;
    let digits = dtype.get(2..)?.split('[').next()?;
    let width: u64 = digits.parse().ok().filter(|width| *width > 0)?;
    let item = width.checked_mul(if kind == 'U' { 4 } else { 1 })?;
    shape.iter().try_fold(item, |bytes, length| bytes.checked_mul(*length))
}

/// A persistent array of numbers.
#[pyclass(subclass, frozen, module = "outlast._outlast")]
pub struct Array {
    handle: Handle,
    /// The type of its items, as NumPy writes it.
    dtype: String,
    shape: Vec<u64>,
}

impl Array {
    pub fn of(handle: Handle, dtype: String, shape: Vec<u64>) -> Self {
        Self { handle, dtype, shape }
    }
}

#[pymethods]
impl Array {
    /// The array that a handle leads to.
    #[new]
    fn new(handle: &Bound<'_, Self>) -> Self {
        let Self { handle, dtype, shape } = handle.get();
        Self { handle: handle.clone(), dtype: dtype.clone(), shape: shape.clone() }
    }

    /// Its name in the pool.
    #[getter]
    fn name(&self) -> &str {
        &self.handle.name
    }

    /// The type of its items, as NumPy writes it, such as `<f8`.
    #[getter]
    fn typestr(&self) -> &str {
        &self.dtype
    }

    /// Its lengths.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The memory of the array, without a copy, for NumPy to read: what is committed, also what other threads commit
    /// meanwhile; a transaction's own changes from its commit on. `None` for a reader's array, which another process changes.
    fn view(&self, py: Python<'_>) -> PyResult<Option<View>> {
        let Home::Writer(writer) = &self.handle.home else { return Ok(None) };
        let pool = writer.pool()?;
        let mut shown: Option<Shown> = None;
        let bytes = self.handle.run(py, |tx, root| {
            // From here on a removal sees it.
            if shown.as_ref().is_none_or(|shown| shown.at != root) {
                shown = Some(Shown::new(writer, root));
            }
            let words = Words::open(tx, root)?;
            part(tx, root, 0, 8 * words.len())
        })?;
        // A damaged note is not to lead behind the array.
        if bytes_of(&self.dtype, &self.shape).is_none_or(|shown| shown > bytes.len) {
            return Err(crate::error::of_abort(Abort::damaged("an array shorter than its shape")));
        }
        let address = pool.medium().address(bytes.at, bytes.len);
        let address =
            address.ok_or_else(|| Error::new_err("the array does not lie in the pool"))?;
        let (dtype, shape) = (self.dtype.clone(), self.shape.clone());
        Ok(Some(View { address, dtype, shape, _shown: shown, _pool: pool }))
    }

    /// A part of its bytes, in the transaction or on the snapshot.
    #[pyo3(name = "_load")]
    fn load<'py>(&self, py: Python<'py>, at: u64, len: u64) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.handle.run(py, |tx, root| {
            let range = part(tx, root, at, len)?;
            let mut bytes = vec![0; range.len as usize];
            if !bytes.is_empty() {
                tx.load(range.at, &mut bytes)?;
            }
            Ok(bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Stores parts of its bytes, as (first byte, bytes), in one transaction.
    #[pyo3(name = "_store")]
    fn store(&self, py: Python<'_>, parts: Vec<(u64, Vec<u8>)>) -> PyResult<()> {
        self.handle.run(py, |tx, root| {
            let ranges = parts.iter().map(|(at, bytes)| part(tx, root, *at, bytes.len() as u64));
            let ranges: Vec<_> = ranges.collect::<Result<_, _>>()?;
            tx.will_write(&ranges)?;
            ranges.iter().zip(&parts).try_for_each(|(range, (_, bytes))| tx.store(range.at, bytes))
        })
    }
}

/// A part of the bytes of words.
fn part<T: Transact>(tx: &mut T, root: PoolOffset, at: u64, len: u64) -> Result<ByteRange, Abort> {
    let words = Words::open(tx, root)?;
    let fits = at.checked_add(len).is_some_and(|end| end <= 8 * words.len());
    if !fits {
        return Err(Abort::bad_address("a part of an array", root, "the array ends before that"));
    }
    let first = if words.len() == 0 { root } else { words.range(0).at };
    Ok(ByteRange::new(first.plus(at), len))
}

/// The memory of an array, for NumPy. The pool stays open as long as there are views of it.
#[pyclass(frozen, module = "outlast._outlast")]
pub struct View {
    address: usize,
    dtype: String,
    shape: Vec<u64>,
    _shown: Option<Shown>,
    _pool: Arc<outlast::Pool>,
}

/// Keeps an array from being removed.
struct Shown {
    writer: Arc<Writer>,
    at: PoolOffset,
}

impl Shown {
    fn new(writer: &Arc<Writer>, at: PoolOffset) -> Self {
        writer.add_view(at);
        Self { writer: writer.clone(), at }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.writer.remove_view(self.at);
    }
}

#[pymethods]
impl View {
    /// NumPy's protocol: the address, for reading only.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", &self.dtype)?;
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        interface.set_item("data", (self.address, true))?;
        Ok(interface)
    }
}
