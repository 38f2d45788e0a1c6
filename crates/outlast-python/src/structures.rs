//! Structures by their names. Each is a handle; its content is in the pool.

use std::sync::Arc;

use outlast::collections::{ByteTree, Dictionary, Named, Names, Placement, Words, load_value};
use outlast::{Abort, PoolOffset, RootKind, Transact};
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyBufferError, PyIndexError, PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyList};

use crate::array::{Array, bytes_of};
use crate::codec::{key_bytes, key_of, value_bytes, value_of};
use crate::error::Error;
use crate::home::{AnyTx, Home};
use crate::scope::{Place, Scope};

/// Pairs that one look at a map takes.
const SCANNED_PAIRS: usize = 256;

/// A structure: where it is found.
#[derive(Clone)]
pub struct Handle {
    pub home: Home,
    pub name: String,
    /// Its kind in words, as its name's note has it.
    note: String,
    /// Where a writer found it last; a reader looks it up in each snapshot.
    place: Arc<Place>,
}

impl Handle {
    fn new(home: &Home, name: &str, note: &str) -> Self {
        let (name, note) = (name.to_owned(), note.to_owned());
        Self { home: home.clone(), name, note, place: Arc::default() }
    }

    fn at<T: Transact>(&self, tx: &mut T, scope: &mut Scope) -> Result<Option<PoolOffset>, Abort> {
        let Home::Writer(writer) = &self.home else { return self.look_up(tx) };
        if let Some(at) = scope.known(&writer.generation, &self.place)? {
            return Ok(Some(at));
        }
        let found = self.look_up(tx)?;
        if let Some(at) = found {
            scope.keep(&self.place, at);
        }
        Ok(found)
    }

    /// The structure that has its name and kind now.
    fn look_up<T: Transact>(&self, tx: &mut T) -> Result<Option<PoolOffset>, Abort> {
        let Some((root, RootKind::Names)) = tx.root()? else { return Ok(None) };
        let named = Names::open(tx, root)?.get(tx, &self.name)?;
        Ok(named.filter(|named| named.note == self.note.as_bytes()).map(|named| named.at))
    }

    /// Works on the structure.
    pub fn run<R: Send>(
        &self,
        py: Python<'_>,
        mut work: impl FnMut(&mut AnyTx<'_>, PoolOffset) -> Result<R, Abort> + Send,
    ) -> PyResult<R> {
        let result = self.home.run(py, |tx, scope| match self.at(tx, scope)? {
            Some(at) => work(tx, at).map(Some),
            None => Ok(None),
        })?;
        result.ok_or_else(|| {
            let (name, kind) = (&self.name, self.note.split(' ').next().unwrap_or_default());
            Error::new_err(format!(
                "the pool has no {kind} '{name}' any more: it was removed, or the transaction that made it was undone"
            ))
        })
    }

    fn run_on_tree<R: Send>(
        &self,
        py: Python<'_>,
        mut work: impl FnMut(&mut AnyTx<'_>, ByteTree) -> Result<R, Abort> + Send,
    ) -> PyResult<R> {
        self.run(py, |tx, at| {
            let tree = ByteTree::open(tx, at)?;
            work(tx, tree)
        })
    }
}

/// The kinds of structure, by the word that a name's note begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Map,
    List,
    Counter,
    Array,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::List => "list",
            Self::Counter => "counter",
            Self::Array => "array",
        }
    }

    fn of(note: &str) -> Option<Self> {
        let word = note.split(' ').next()?;
        [Self::Map, Self::List, Self::Counter, Self::Array]
            .into_iter()
            .find(|kind| kind.word() == word)
    }
}

/// The handle of a structure that is there, by its note.
fn handle<'py>(
    py: Python<'py>,
    home: &Home,
    name: &str,
    note: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let handle = Handle::new(home, name, note);
    Ok(match Kind::of(note) {
        Some(Kind::Map) => Bound::new(py, Map(handle))?.into_any(),
        Some(Kind::List) => Bound::new(py, List(handle))?.into_any(),
        Some(Kind::Counter) => Bound::new(py, Counter(handle))?.into_any(),
        Some(Kind::Array) => {
            let (dtype, shape) = array_of(note).ok_or_else(|| not_ours(name))?;
            Bound::new(py, Array::of(handle, dtype, shape))?.into_any()
        }
        None => return Err(not_ours(name)),
    })
}

fn not_ours(name: &str) -> PyErr {
    Error::new_err(format!("'{name}' is no map, list, counter or array of Python's"))
}

/// What a name leads to, in words.
fn note_of(named: &Named) -> String {
    String::from_utf8_lossy(&named.note).into_owned()
}

/// The structure of a name, if it is there.
pub fn find<'py>(py: Python<'py>, home: &Home, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let found = home.run(py, |tx, _| match tx.root()? {
        Some((root, RootKind::Names)) => Names::open(tx, root)?.get(tx, name),
        _ => Ok(None),
    })?;
    let Some(named) = found else { return Ok(None) };
    handle(py, home, name, &note_of(&named)).map(Some)
}

/// All names, each with the word for its kind.
pub fn names(py: Python<'_>, home: &Home) -> PyResult<Vec<(String, String)>> {
    home.run(py, |tx, _| {
        let mut found = Vec::new();
        if let Some((root, RootKind::Names)) = tx.root()? {
            Names::open(tx, root)?.for_each(tx, |_, name, named| {
                let note = note_of(&named);
                found
                    .push((name.to_owned(), note.split(' ').next().unwrap_or_default().to_owned()));
                Ok(())
            })?;
        }
        Ok(found)
    })
}

/// Takes a name away, with its structure's blocks. Whether it was there.
pub fn remove(py: Python<'_>, home: &Home, name: &str) -> PyResult<bool> {
    let Home::Writer(writer) = home else { return Ok(false) };
    let removed = home.run(py, |tx, scope| {
        let Some((root, RootKind::Names)) = tx.root()? else { return Ok(Some(false)) };
        let names = Names::open(tx, root)?;
        let Some(named) = names.get(tx, name)? else { return Ok(Some(false)) };
        if writer.is_viewed(named.at) {
            return Ok(None);
        }
        scope.change();
        scope.removed.push(named.at);
        names.free(tx, name).map(Some)
    })?;
    removed.ok_or_else(|| {
        PyBufferError::new_err(format!(
            "NumPy arrays show the memory of '{name}': let go of them first, or take copies"
        ))
    })
}

/// The structure of a name, made where it is not there. `words` are those of a counter or an array.
fn find_or_make<'py>(
    py: Python<'py>,
    home: &Home,
    name: &str,
    kind: Kind,
    note: &str,
    words: u64,
) -> PyResult<Bound<'py, PyAny>> {
    if name.is_empty() {
        return Err(PyValueError::new_err("a structure's name has at least one character"));
    }
    let named = home.run(py, |tx, scope| {
        let names = Names::of_pool(tx)?;
        if let Some(named) = names.get(tx, name)? {
            return Ok(named);
        }
        scope.change();
        let named = match kind {
            Kind::Map | Kind::List => {
                let tree = ByteTree::create(tx, Placement::Together)?;
                if kind == Kind::List {
                    tree.insert(tx, ENDS, &[0; 16])?;
                }
                Named::new(RootKind::BTree, tree.root())
            }
            Kind::Counter | Kind::Array => {
                Named::new(RootKind::Words, Words::create(tx, words, |_| 0)?.root())
            }
        };
        let named = named.with_note(note);
        names.set(tx, name, &named)?;
        Ok(named)
    })?;
    let found = note_of(&named);
    if found != note {
        return Err(PyTypeError::new_err(format!(
            "'{name}' is there already and of another kind: it is '{found}', and not '{note}'"
        )));
    }
    handle(py, home, name, note)
}

/// A map, made where it is not there.
pub fn map<'py>(py: Python<'py>, home: &Home, name: &str) -> PyResult<Bound<'py, PyAny>> {
    find_or_make(py, home, name, Kind::Map, "map", 0)
}

/// A list, made where it is not there.
pub fn list<'py>(py: Python<'py>, home: &Home, name: &str) -> PyResult<Bound<'py, PyAny>> {
    find_or_make(py, home, name, Kind::List, "list", 0)
}

/// A counter, made where it is not there.
pub fn counter<'py>(py: Python<'py>, home: &Home, name: &str) -> PyResult<Bound<'py, PyAny>> {
    find_or_make(py, home, name, Kind::Counter, "counter", 1)
}

/// An array, made of zeros where it is not there.
pub fn array<'py>(
    py: Python<'py>,
    home: &Home,
    name: &str,
    dtype: &str,
    shape: &[u64],
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = bytes_of(dtype, shape).ok_or_else(|| {
        PyValueError::new_err(format!("no array is of {dtype} and so large: {shape:?}"))
    })?;
    let lengths: Vec<_> = shape.iter().map(u64::to_string).collect();
    let note = format!("array {dtype} {}", lengths.join(","));
    find_or_make(py, home, name, Kind::Array, &note, bytes.div_ceil(8))
}

fn array_of(note: &str) -> Option<(String, Vec<u64>)> {
    let mut words = note.split(' ').skip(1);
    let (dtype, lengths) = (words.next()?, words.next()?);
    let shape = lengths.split(',').filter(|length| !length.is_empty());
    let shape: Vec<u64> = shape.map(|length| length.parse().ok()).collect::<Option<_>>()?;
    bytes_of(dtype, &shape)?;
    Some((dtype.to_owned(), shape))
}

/// A persistent map from keys (int, str, bytes) to values, in the order of the keys. The class that users see adds
/// what `collections.abc.MutableMapping` has.
#[pyclass(subclass, frozen, module = "outlast._outlast")]
pub struct Map(Handle);

#[pymethods]
impl Map {
    /// The map that a handle leads to.
    #[new]
    fn new(handle: &Bound<'_, Self>) -> Self {
        Self(handle.get().0.clone())
    }

    /// Its name in the pool.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.load(key)?;
        found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    /// The value of a key, or `default`.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.load(key)?.or(default))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key_bytes, value_bytes) = (key_bytes(key)?, value_bytes(value)?);
        self.0.run_on_tree(key.py(), |tx, tree| tree.insert(tx, &key_bytes, &value_bytes).map(drop))
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = key_bytes(key)?;
        match self.0.run_on_tree(key.py(), |tx, tree| tree.remove(tx, &bytes))? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let bytes = key_bytes(key)?;
        self.0.run_on_tree(key.py(), |tx, tree| Ok(tree.find(tx, &bytes)?.is_some()))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.0.run_on_tree(py, |tx, tree| tree.len(tx))? as usize)
    }

    /// Takes a key out and returns its value, alone in a tuple, in one transaction; `None` when it is not there.
    #[pyo3(name = "_take")]
    fn take<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>,)>> {
        let bytes = key_bytes(key)?;
        let taken = self.0.run_on_tree(key.py(), |tx, tree| {
            let mut value = Vec::new();
            let is_there = tree.get(tx, &bytes, &mut value)?;
            if is_there {
                tree.remove(tx, &bytes)?;
            }
            Ok(is_there.then_some(value))
        })?;
        taken.map(|value| Ok((value_of(key.py(), &value)?,))).transpose()
    }

    /// The value of a key, which gets `default` where it has none, in one transaction.
    #[pyo3(signature = (key, default = None))]
    fn setdefault<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let none = key.py().None().into_bound(key.py());
        let default = default.unwrap_or(&none);
        let (key_bytes, new) = (key_bytes(key)?, value_bytes(default)?);
        let value = self.0.run_on_tree(key.py(), |tx, tree| {
            let mut value = Vec::new();
            if !tree.get(tx, &key_bytes, &mut value)? {
                tree.insert(tx, &key_bytes, &new)?;
                value.clone_from(&new);
            }
            Ok(value)
        })?;
        value_of(key.py(), &value)
    }

    /// Sets many pairs in one transaction.
    #[pyo3(name = "_set_pairs")]
    fn set_pairs(
        &self,
        py: Python<'_>,
        pairs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    ) -> PyResult<()> {
        let bytes = pairs.iter().map(|(key, value)| Ok((key_bytes(key)?, value_bytes(value)?)));
        let bytes: Vec<_> = bytes.collect::<PyResult<_>>()?;
        self.0.run_on_tree(py, |tx, tree| {
            bytes.iter().try_for_each(|(key, value)| tree.insert(tx, key, value).map(drop))
        })
    }

    /// Takes all keys out, in one transaction.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.0.run_on_tree(py, |tx, tree| {
            let mut keys = Vec::new();
            tree.for_each(tx, |_, key, _| {
                keys.push(key.to_owned());
                Ok(())
            })?;
            keys.iter().try_for_each(|key| tree.remove(tx, key).map(drop))
        })
    }

    /// Pairs from a key on, behind it where `behind`, up to and without `stop`: some at a time, and the key to go on
    /// behind, if there may be more.
    #[pyo3(name = "_scan")]
    #[pyo3(signature = (start, behind, stop))]
    fn scan<'py>(
        &self,
        py: Python<'py>,
        start: Option<Bound<'py, PyAny>>,
        behind: bool,
        stop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyList>, bool)> {
        let mut from = start.map(|key| key_bytes(&key)).transpose()?.unwrap_or_default();
        if behind {
            from.push(0);
        }
        let stop = stop.map(|key| key_bytes(&key)).transpose()?;
        let pairs = self.0.run_on_tree(py, |tx, tree| {
            let mut pairs = Vec::new();
            tree.scan(tx, &from, SCANNED_PAIRS as u64, |tx, key, value| {
                let mut bytes = Vec::new();
                load_value(tx, value, &mut bytes)?;
                pairs.push((key.to_owned(), bytes));
                Ok(())
            })?;
            Ok(pairs)
        })?;
        let mut is_more = pairs.len() == SCANNED_PAIRS;
        let list = PyList::empty(py);
        for (key, value) in &pairs {
            if stop.as_ref().is_some_and(|stop| key >= stop) {
                is_more = false;
                break;
            }
            list.append((key_of(py, key)?, value_of(py, value)?))?;
        }
        Ok((list, is_more))
    }
}

impl Map {
    fn load<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let bytes = key_bytes(key)?;
        let found = self.0.run_on_tree(key.py(), |tx, tree| {
            let mut value = Vec::new();
            Ok(tree.get(tx, &bytes, &mut value)?.then_some(value))
        })?;
        found.map(|value| value_of(key.py(), &value)).transpose()
    }
}

/// The key under which a list keeps the numbers of its first item and of the one behind its last.
const ENDS: &[u8] = b"";

/// A persistent list that grows at its end and is taken from both ends.
#[pyclass(subclass, frozen, module = "outlast._outlast")]
pub struct List(Handle);

fn item_key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn ends<T: Transact>(tx: &mut T, tree: ByteTree) -> Result<(u64, u64), Abort> {
    let mut bytes = [0; 16];
    if !tree.read_value(tx, ENDS, 0, &mut bytes)? {
        return Err(Abort::damaged("a list without its ends"));
    }
    let [first, behind] =
        [0, 8].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes")));
    Ok((first, behind))
}

fn set_end<T: Transact>(tx: &mut T, tree: ByteTree, which: u64, number: u64) -> Result<(), Abort> {
    tree.update_value(tx, ENDS, 8 * which, &number.to_le_bytes()).map(drop)
}

/// The number of the item at an index, which counts from the end where it is negative.
fn item_of((first, behind): (u64, u64), index: i64) -> Option<u64> {
    let len = behind.checked_sub(first)?;
    let index =
        if index < 0 { len.checked_sub(index.unsigned_abs())? } else { index.unsigned_abs() };
    (index < len).then(|| first + index)
}

fn no_item() -> PyErr {
    PyIndexError::new_err("list index out of range")
}

#[pymethods]
impl List {
    /// The list that a handle leads to.
    #[new]
    fn new(handle: &Bound<'_, Self>) -> Self {
        Self(handle.get().0.clone())
    }

    /// Its name in the pool.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let (first, behind) = self.0.run_on_tree(py, |tx, tree| ends(tx, tree))?;
        Ok(behind.saturating_sub(first) as usize)
    }

    /// The item at an index.
    #[pyo3(name = "_load")]
    fn load<'py>(&self, py: Python<'py>, index: i64) -> PyResult<Bound<'py, PyAny>> {
        let found = self.0.run_on_tree(py, |tx, tree| {
            let ends = ends(tx, tree)?;
            let mut value = Vec::new();
            match item_of(ends, index) {
                Some(number) => Ok(tree.get(tx, &item_key(number), &mut value)?.then_some(value)),
                None => Ok(None),
            }
        })?;
        value_of(py, &found.ok_or_else(no_item)?)
    }

    /// Items from an index on, some at a time.
    #[pyo3(name = "_part")]
    fn part<'py>(&self, py: Python<'py>, index: u64, limit: u64) -> PyResult<Bound<'py, PyList>> {
        let items = self.0.run_on_tree(py, |tx, tree| {
            let (first, _) = ends(tx, tree)?;
            let mut items = Vec::new();
            // The ends' key comes before all others.
            tree.scan(tx, &item_key(first.saturating_add(index)), limit, |tx, _, value| {
                let mut bytes = Vec::new();
                load_value(tx, value, &mut bytes)?;
                items.push(bytes);
                Ok(())
            })?;
            Ok(items)
        })?;
        let list = PyList::empty(py);
        items.iter().try_for_each(|item| list.append(value_of(py, item)?))?;
        Ok(list)
    }

    /// Replaces the item at an index.
    #[pyo3(name = "_store")]
    fn store(&self, index: i64, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = value_bytes(value)?;
        let done = self.0.run_on_tree(value.py(), |tx, tree| {
            let ends = ends(tx, tree)?;
            match item_of(ends, index) {
                Some(number) => tree.insert(tx, &item_key(number), &bytes),
                None => Ok(false),
            }
        })?;
        done.then_some(()).ok_or_else(no_item)
    }

    /// Adds an item at the end.
    fn append(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.extend_by(value.py(), &[value_bytes(value)?])
    }

    /// Adds items at the end, in one transaction.
    fn extend(&self, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let items = values.try_iter()?.map(|value| value_bytes(&value?));
        self.extend_by(values.py(), &items.collect::<PyResult<Vec<_>>>()?)
    }

    /// Takes the last item out and returns it, or the first with the index 0.
    #[pyo3(signature = (index = -1), text_signature = "($self, index=-1)")]
    fn pop<'py>(&self, py: Python<'py>, index: i64) -> PyResult<Bound<'py, PyAny>> {
        match index {
            -1 => self.take(py, true),
            0 => self.take(py, false),
            _ => Err(PyIndexError::new_err(
                "a list in a pool is taken from its ends: pop() and pop(0)",
            )),
        }
    }

    /// Takes the first item out.
    fn popleft<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.take(py, false)
    }

    /// Whether its thread has a transaction of the pool open.
    #[pyo3(name = "_is_inside")]
    fn is_inside(&self, py: Python<'_>) -> bool {
        self.0.home.is_inside(py)
    }

    /// Takes all items out, in one transaction.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.0.run_on_tree(py, |tx, tree| {
            let (first, behind) = ends(tx, tree)?;
            (first..behind).try_for_each(|number| tree.remove(tx, &item_key(number)).map(drop))?;
            set_end(tx, tree, 0, behind)
        })
    }
}

impl List {
    fn extend_by(&self, py: Python<'_>, items: &[Vec<u8>]) -> PyResult<()> {
        self.0.run_on_tree(py, |tx, tree| {
            let (_, behind) = ends(tx, tree)?;
            for (number, item) in (behind..).zip(items) {
                tree.insert(tx, &item_key(number), item)?;
            }
            set_end(tx, tree, 1, behind + items.len() as u64)
        })
    }

    fn take<'py>(&self, py: Python<'py>, is_last: bool) -> PyResult<Bound<'py, PyAny>> {
        let taken = self.0.run_on_tree(py, |tx, tree| {
            let (first, behind) = ends(tx, tree)?;
            if first >= behind {
                return Ok(None);
            }
            let number = if is_last { behind - 1 } else { first };
            let mut value = Vec::new();
            if !tree.get(tx, &item_key(number), &mut value)? {
                return Err(Abort::damaged("a list without one of its items"));
            }
            tree.remove(tx, &item_key(number))?;
            match is_last {
                true => set_end(tx, tree, 1, number)?,
                false => set_end(tx, tree, 0, number + 1)?,
            }
            Ok(Some(value))
        })?;
        value_of(py, &taken.ok_or_else(|| PyIndexError::new_err("pop from an empty list"))?)
    }
}

/// A persistent number of 64 bits, signed.
#[pyclass(frozen, module = "outlast._outlast")]
pub struct Counter(Handle);

#[pymethods]
impl Counter {
    /// Its name in the pool.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Its value.
    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<i64> {
        let word = self.0.run(py, |tx, at| Words::open(tx, at)?.get(tx, 0))?;
        Ok(word.cast_signed())
    }

    /// Sets its value.
    fn set(&self, py: Python<'_>, value: i64) -> PyResult<()> {
        self.0.run(py, |tx, at| Words::open(tx, at)?.set(tx, 0, value.cast_unsigned()))
    }

    /// Adds to it; returns the new value. It goes round beyond 64 bits.
    #[pyo3(signature = (more = 1))]
    fn add(&self, py: Python<'_>, more: i64) -> PyResult<i64> {
        self.0.run(py, |tx, at| {
            let words = Words::open(tx, at)?;
            let value = words.get(tx, 0)?.cast_signed().wrapping_add(more);
            words.set(tx, 0, value.cast_unsigned())?;
            Ok(value)
        })
    }

    fn __richcmp__<'py>(
        &self,
        other: &Bound<'py, PyAny>,
        how: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        let is_number = other.is_instance_of::<PyInt>()
            || other.is_instance_of::<PyFloat>()
            || other.hasattr("__index__")?;
        if !is_number {
            return Ok(py.NotImplemented().into_bound(py));
        }
        let value = self.value(py)?.into_pyobject(py)?;
        match other.cast::<Self>() {
            Ok(other) => value.rich_compare(other.get().value(py)?, how),
            Err(_) => value.rich_compare(other, how),
        }
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.value(py)? != 0)
    }

    fn __iadd__(slf: &Bound<'_, Self>, more: i64) -> PyResult<()> {
        slf.get().add(slf.py(), more).map(drop)
    }

    fn __isub__(slf: &Bound<'_, Self>, less: i64) -> PyResult<()> {
        slf.get().add(slf.py(), less.wrapping_neg()).map(drop)
    }

    fn __int__(&self, py: Python<'_>) -> PyResult<i64> {
        self.value(py)
    }

    fn __index__(&self, py: Python<'_>) -> PyResult<i64> {
        self.value(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        // A debugger shows those of closed pools, too.
        let value = self.value(py).map_or_else(|_| String::new(), |value| format!(": {value}"));
        Ok(format!("<counter '{}'{value}>", self.0.name))
    }
}
