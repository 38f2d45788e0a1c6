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
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple,
};

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
    if let Some(plain) = plain(key)?.filter(|plain| plain.is_instance_of::<PyInt>()) {
        return key_bytes(&plain);
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
            Err(_) => Ok(tagged(4, digits(value)?.to_cow()?.as_bytes())),
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
    if is_json(value) {
        check_json(value, 0)?;
        return Ok(tagged(8, json_text(value)?.to_cow()?.as_bytes()));
    }
    if value.is_instance_of::<PyByteArray>() || value.is_instance_of::<PyMemoryView>() {
        return value_bytes(&value.py().get_type::<PyBytes>().call1((value,))?);
    }
    match plain(value)? {
        Some(plain) => value_bytes(&plain),
        None => Err(refused(value)),
    }
}

/// The decimal digits of an integer, whatever its class writes of itself.
fn digits<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    let own = value.py().get_type::<PyInt>();
    Ok(own.call_method1(intern!(value.py(), "__repr__"), (value,))?.cast_into()?)
}

fn is_json(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyDict>()
        || value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
}

/// An integer of another type, or a scalar of NumPy, as Python's own.
fn plain<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    if value.hasattr(intern!(py, "__index__"))? && !value.hasattr(intern!(py, "__len__"))? {
        return value.call_method0(intern!(py, "__index__")).map(Some);
    }
    let is_scalar = value.hasattr(intern!(py, "dtype"))? && value.hasattr(intern!(py, "item"))?;
    if is_scalar && !value.is_instance_of::<PyFloat>() {
        let item = value.call_method0(intern!(py, "item"));
        // An array of several items has none.
        let item = item.ok().filter(|item| {
            item.is_instance_of::<PyBool>()
                || item.is_exact_instance_of::<PyInt>()
                || item.is_exact_instance_of::<PyFloat>()
        });
        let is_array = value.getattr(intern!(py, "ndim"))?.extract::<usize>()? > 0;
        return Ok(item.filter(|_| !is_array));
    }
    Ok(None)
}

fn refused(value: &Bound<'_, PyAny>) -> PyErr {
    let name = value.get_type().name().map_or_else(|_| "this".to_owned(), |name| name.to_string());
    let instead = match name.as_str() {
        "ndarray" => "keep it in `pool.array`, or store its `tobytes()`",
        "set" | "frozenset" | "range" => "store a list of it",
        _ => "turn it into bytes, for instance by pickle",
    };
    PyTypeError::new_err(format!(
        "values are None, bool, int, float, str, bytes, and lists and dicts of these, and not {name}: {instead}"
    ))
}

/// Lists deeper than this are refused, well before a reader of JSON would.
const DEPTH_MAX: usize = 200;

/// Refuses values in lists and dicts that would come back as others.
fn check_json(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<()> {
    if depth > DEPTH_MAX {
        return Err(PyValueError::new_err(format!(
            "lists and dicts in a value go {DEPTH_MAX} deep at most, and none contains itself"
        )));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return dict.iter().try_for_each(|(key, value)| {
            if key.is_instance_of::<PyString>() {
                return check_json(&value, depth + 1);
            }
            let name = key.get_type().name()?;
            Err(PyTypeError::new_err(format!(
                "keys of a dict in a value are str, and not {name}: a map of the pool takes int, str and bytes"
            )))
        });
    }
    if is_json(value) {
        return value.try_iter()?.try_for_each(|item| check_json(&item?, depth + 1));
    }
    let is_plain = value.is_none()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyString>();
    if is_plain {
        return Ok(());
    }
    let name = value.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "lists and dicts in a value hold None, bool, int, float, str, lists and dicts, and not {name}: store it under a key of its own"
    )))
}

/// The C parts of Python's `json`, called without a frame of the interpreter between: one that ends unwinds its frames.
fn json_text<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    static ENCODER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let encoder = ENCODER.get_or_try_init(py, || -> PyResult<_> {
        let json = py.import("json.encoder")?;
        let text = json.getattr("encode_basestring_ascii")?;
        let own = py.import("json")?.getattr("JSONEncoder")?.call0()?.getattr("default")?;
        let none = py.None();
        let arguments = (none.clone_ref(py), own, text, none, ":", ",", false, false, true);
        Ok(json.getattr("c_make_encoder")?.call1(arguments)?.unbind())
    })?;
    let parts = encoder.bind(py).call1((value, 0))?;
    let empty = PyString::new(py, "");
    Ok(empty.call_method1(intern!(py, "join"), (parts,))?.cast_into::<PyString>()?)
}

fn json_value<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    static DECODER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let decoder = DECODER.get_or_try_init(py, || -> PyResult<_> {
        Ok(py.import("json")?.getattr("JSONDecoder")?.call0()?.getattr("scan_once")?.unbind())
    })?;
    let found = decoder.bind(py).call1((text, 0)).map_err(|_| unknown("value"))?;
    found.get_item(0)
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
        8 => json_value(py, text(rest)?),
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
