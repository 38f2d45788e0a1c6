//! Python's values as bytes. The first byte is the type.
//!
//! ```text
//! keys    1 int: 8 bytes, highest first, the sign bit turned    2 str: UTF-8    3 bytes
//! values  0 None   1 False   2 True   3 int: 8 bytes, lowest first   4 int: decimal digits   5 float: 8 bytes, lowest first
//!         6 str: UTF-8   7 bytes   8 JSON
//! ```
//!
//! Keys are in the order of their bytes: integers by value, then text by code points, then bytes.

use outlast::Abort;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// The sign bit of a key's number, turned so that negative ones come first.
const SIGN: u64 = 1 << 63;

/// The bytes of a key.
pub fn key_bytes(key: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(text) = key.cast::<PyString>() {
        return Ok(tagged(2, text.to_cow()?.as_bytes()));
    }
    if let Ok(bytes) = key.cast::<PyBytes>() {
        return Ok(tagged(3, bytes.as_bytes()));
    }
    if key.is_instance_of::<PyInt>() {
        let number: i64 = key
            .extract()
            .map_err(|_| PyValueError::new_err("an int as a key has 64 bits: make it a str"))?;
        return Ok(tagged(1, &(number.cast_unsigned() ^ SIGN).to_be_bytes()));
    }
    let name = key.get_type().name()?;
    Err(PyTypeError::new_err(format!("keys are int, str or bytes, and not {name}")))
}

/// The key that has these bytes.
pub fn key_of<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match bytes.split_first() {
        Some((1, rest)) if rest.len() == 8 => {
            let number = u64::from_be_bytes(rest.try_into().expect("8 bytes")) ^ SIGN;
            Ok(number.cast_signed().into_pyobject(py)?.into_any())
        }
        Some((2, rest)) => Ok(PyString::new(py, text(rest)?).into_any()),
        Some((3, rest)) => Ok(PyBytes::new(py, rest).into_any()),
        _ => Err(unknown("key")),
    }
}

/// The bytes of a value.
pub fn value_bytes(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if value.is_none() {
        return Ok(vec![0]);
    }
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(vec![1 + u8::from(truth.is_true())]);
    }
    if value.is_instance_of::<PyInt>() {
        return match value.extract::<i64>() {
            Ok(number) => Ok(tagged(3, &number.to_le_bytes())),
            Err(_) => Ok(tagged(4, value.str()?.to_cow()?.as_bytes())),
        };
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(tagged(5, &number.value().to_le_bytes()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(tagged(6, text.to_cow()?.as_bytes()));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(tagged(7, bytes.as_bytes()));
    }
    let is_json = value.is_instance_of::<PyDict>()
        || value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>();
    if is_json {
        let py = value.py();
        let options = PyDict::new(py);
        options.set_item("separators", (",", ":"))?;
        let text = py.import("json")?.call_method("dumps", (value,), Some(&options))?;
        return Ok(tagged(8, text.cast::<PyString>()?.to_cow()?.as_bytes()));
    }
    if let Ok(bytes) = value.extract::<Vec<u8>>() {
        return Ok(tagged(7, &bytes));
    }
    let name = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "values are None, bool, int, float, str, bytes, and lists and dicts of these, and not {name}: turn it into bytes, for instance by pickle"
    )))
}

/// The value that has these bytes.
pub fn value_of<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let Some((kind, rest)) = bytes.split_first() else { return Err(unknown("value")) };
    let word = || <[u8; 8]>::try_from(rest).map_err(|_| unknown("value"));
    match kind {
        0 => Ok(py.None().into_bound(py)),
        1 | 2 => Ok(PyBool::new(py, *kind == 2).to_owned().into_any()),
        3 => Ok(i64::from_le_bytes(word()?).into_pyobject(py)?.into_any()),
        4 => py.get_type::<PyInt>().call1((text(rest)?,)),
        5 => Ok(PyFloat::new(py, f64::from_le_bytes(word()?)).into_any()),
        6 => Ok(PyString::new(py, text(rest)?).into_any()),
        7 => Ok(PyBytes::new(py, rest).into_any()),
        8 => py.import("json")?.call_method1("loads", (text(rest)?,)),
        _ => Err(unknown("value")),
    }
}

fn tagged(kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + rest.len());
    bytes.push(kind);
    bytes.extend_from_slice(rest);
    bytes
}

fn text(bytes: &[u8]) -> PyResult<&str> {
    std::str::from_utf8(bytes).map_err(|_| unknown("text"))
}

fn unknown(what: &str) -> PyErr {
    crate::error::of_abort(Abort::damaged(format!("a {what} that this version does not know")))
}
