//! Pools, transactions and readers.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use outlast::error::MapError;
use outlast::{Domain, PoolError, PoolReader, Scheme};
use pyo3::exceptions::{PyBufferError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{Error, of_pool, of_read};
use crate::home::{Home, PATIENCE, Readers, Writer};
use crate::structures;

/// A pool that is open for writing; made where there is none.
#[pyclass(subclass, frozen, module = "outlast._outlast")]
pub struct Pool {
    writer: Arc<Writer>,
    path: PathBuf,
    /// The path from the root on: the folder of this process may change.
    whole: PathBuf,
}

fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|_| {
        PyValueError::new_err(format!("{name} is a number of seconds, and not {value}"))
    })
}

/// A path from the root on; an empty one stays so, and opening it says that it is none.
fn whole(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (path, *, size = None, grow_to = None, scheme = None, domain = None, lanes = None, wait = None, alone = false, create = true))]
    #[expect(clippy::too_many_arguments, reason = "Python's are named")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        size: Option<u64>,
        grow_to: Option<u64>,
        scheme: Option<&str>,
        domain: Option<&str>,
        lanes: Option<u32>,
        wait: Option<f64>,
        alone: bool,
        create: bool,
    ) -> PyResult<Self> {
        let mut options = outlast::Pool::options();
        if let Some(bytes) = size {
            options = options.size(bytes);
        }
        if let Some(bytes) = grow_to {
            options = options.grow_to(bytes);
        }
        if let Some(name) = scheme {
            let scheme: Scheme = name.parse().map_err(said)?;
            options = options.scheme(scheme);
        }
        if let Some(name) = domain {
            let domain: Domain = name.parse().map_err(said)?;
            options = options.domain(domain);
        }
        if let Some(count) = lanes {
            options = options.lanes(count);
        }
        let wait = wait.map(|time| seconds("wait", time)).transpose()?.unwrap_or_default();
        if alone {
            options = options.alone();
        }
        let (until, whole) = (Instant::now().checked_add(wait), whole(&path));
        let opened = loop {
            // In parts, between which Ctrl-C ends it.
            let left =
                until.map_or(PATIENCE, |until| until.saturating_duration_since(Instant::now()));
            let options = options.clone().wait(left.min(PATIENCE));
            let opened = py.detach(|| match create {
                true => options.open_or_create(&path),
                false => options.open(&path),
            });
            let is_waiting = left > PATIENCE
                && matches!(&opened, Err(PoolError::Map(MapError::AlreadyOpen { .. })));
            if !is_waiting {
                break opened;
            }
            py.check_signals()?;
        };
        Ok(Self { writer: Arc::new(Writer::new(opened.map_err(of_pool)?)), path, whole })
    }

    /// Its file.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        !self.writer.is_open()
    }

    /// Its scheme.
    #[getter]
    fn scheme(&self) -> PyResult<&'static str> {
        Ok(self.writer.pool()?.scheme().name())
    }

    /// Its persistence domain.
    #[getter]
    fn domain(&self) -> PyResult<String> {
        Ok(self.writer.pool()?.medium().domain().to_string())
    }

    /// Closes it. A second time does nothing. `BufferError` while a transaction is open or a NumPy array shows its memory.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.writer.close())?.then_some(()).ok_or_else(in_use)
    }

    /// Closes it at the end of a `with` block: arrays that show its memory keep it mapped.
    #[pyo3(name = "_leave")]
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.writer.leave())?.then_some(()).ok_or_else(in_use)
    }

    /// A transaction, for a `with` statement: what is done in the block is durable at its end, or undone by an exception. It
    /// is its thread's; transactions do not nest.
    fn transaction(&self) -> Transaction {
        Transaction::new(self.home())
    }

    #[pyo3(name = "_is_inside")]
    fn is_inside(&self, py: Python<'_>) -> bool {
        self.home().is_inside(py)
    }

    /// A structure by its name, if it is there.
    fn find<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        structures::find(py, &self.home(), name)
    }

    /// All names, each with its kind of structure.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        structures::names(py, &self.home())
    }

    /// Takes a name and its structure away.
    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        match structures::remove(py, &self.home(), name)? {
            true => Ok(()),
            false => Err(PyKeyError::new_err(name.to_owned())),
        }
    }

    /// A map.
    #[pyo3(name = "_make_map")]
    fn make_map<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        structures::map(py, &self.home(), name)
    }

    /// A list.
    #[pyo3(name = "_make_list")]
    fn make_list<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        structures::list(py, &self.home(), name)
    }

    /// A counter.
    fn counter<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        structures::counter(py, &self.home(), name)
    }

    /// An array of items of that type.
    #[pyo3(name = "_make_array")]
    fn make_array<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        dtype: &str,
        shape: Vec<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        structures::array(py, &self.home(), name, dtype, &shape)
    }

    /// Writes a checkpoint of the pool beside it, or to a file of that name, while transactions go on.
    #[pyo3(signature = (path = None))]
    fn checkpoint(&self, py: Python<'_>, path: Option<PathBuf>) -> PyResult<PathBuf> {
        let pool = self.writer.pool()?;
        let path = path.unwrap_or_else(|| outlast::checkpoint::checkpoint_path(&self.whole));
        let written = py.detach(|| pool.checkpoint(&path));
        written.map_err(|error| Error::new_err(error.to_string()))?;
        Ok(path)
    }

    /// What the pool is doing.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        stats_dict(py, &self.writer.pool()?.stats())
    }
}

impl Pool {
    fn home(&self) -> Home {
        Home::Writer(self.writer.clone())
    }
}

fn in_use() -> PyErr {
    PyBufferError::new_err(
        "the pool is in use: end its transactions, and let go of the NumPy arrays that show its memory (`del`), or take copies",
    )
}

/// An error as its text says it.
fn said(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Statistics as a dictionary: numbers in the units that their names end with.
fn stats_dict<'py>(py: Python<'py>, stats: &outlast::stats::Stats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("pool_bytes", stats.pool_bytes)?;
    dict.set_item("lanes", stats.lanes)?;
    if let Some(domain) = stats.domain {
        dict.set_item("domain", domain.to_string())?;
    }
    if let Some(space) = &stats.space {
        dict.set_item("heap_bytes", space.heap_bytes)?;
        dict.set_item("used_bytes", space.used_bytes)?;
        dict.set_item("free_bytes", space.free_bytes)?;
        dict.set_item("largest_free_bytes", space.largest_free_bytes)?;
        dict.set_item("log_bytes", space.log_bytes)?;
        dict.set_item("log_used_bytes", space.log_used_bytes)?;
    }
    if let Some(counters) = &stats.counters {
        dict.set_item("commits", counters.commits)?;
        dict.set_item("conflicts", counters.conflicts)?;
        dict.set_item("flushed_lines", counters.flushed_lines)?;
        dict.set_item("fences", counters.fences)?;
        dict.set_item("syncs", counters.syncs)?;
        dict.set_item("growths", counters.growths)?;
    }
    Ok(dict)
}

/// A transaction of a thread, or a reader's snapshot, for a `with` statement. Leaving the block makes the transaction durable,
/// an exception undoes it.
#[pyclass(frozen, module = "outlast._outlast")]
pub struct Transaction {
    home: Home,
    begun: Mutex<Option<Begun>>,
}

/// A transaction that has begun.
struct Begun {
    thread: ThreadId,
    /// Has its thread undo it when it is set.
    is_left: Arc<AtomicBool>,
}

impl Transaction {
    fn new(home: Home) -> Self {
        Self { home, begun: Mutex::new(None) }
    }

    fn begun(&self) -> MutexGuard<'_, Option<Begun>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Transaction {
    /// Begins it.
    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let (own, here) = (slf.get(), thread::current().id());
        let is_of_another = || own.begun().as_ref().is_some_and(|begun| begun.thread != here);
        if is_of_another() {
            return Err(of_another());
        }
        let is_left = own.home.begin(slf.py())?;
        // Beginning may have waited, and another thread entered it meanwhile.
        if is_of_another() {
            let _ = own.home.end(slf.py(), false);
            return Err(of_another());
        }
        *own.begun() = Some(Begun { thread: here, is_left });
        Ok(slf)
    }

    /// Ends it: commits, or undoes it after an exception.
    #[pyo3(signature = (kind, _value, _traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        match &*self.begun() {
            None => {
                return Err(Error::new_err("the transaction has not begun: use it in a `with`"));
            }
            Some(begun) if begun.thread != thread::current().id() => {
                return Err(Error::new_err(
                    "the transaction was begun by another thread: end it there",
                ));
            }
            Some(_) => {}
        }
        *self.begun() = None;
        self.home.end(py, kind.is_none())
    }
}

fn of_another() -> PyErr {
    Error::new_err(
        "another thread is in this transaction: each takes one of its own, with pool.transaction()",
    )
}

impl Drop for Transaction {
    /// Undoes it at once, since others may wait for it; another thread's when that thread works on the pool again.
    fn drop(&mut self) {
        if let Some(begun) = self.begun().take() {
            begun.is_left.store(true, Ordering::Release);
            if begun.thread == thread::current().id() {
                Python::try_attach(|py| self.home.end_left(py));
            }
        }
    }
}

/// A pool that is open for reading, also beside a process that writes it.
#[pyclass(subclass, frozen, module = "outlast._outlast")]
pub struct Reader {
    readers: Arc<Readers>,
    path: PathBuf,
}

#[pymethods]
impl Reader {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        // Threads open it again by this name.
        let whole = whole(&path);
        let first = py.detach(|| outlast::Pool::read(&path)).map_err(of_pool)?;
        Ok(Self { readers: Arc::new(Readers::new(whole, first)), path })
    }

    /// Its file.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        !self.readers.is_open()
    }

    /// Closes it. A second time does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.readers.close())
    }

    /// One moment of the pool, for a `with` statement: all that is read in the block is of it. The end of the block raises
    /// `Conflict` when the writer has changed 65,536 lines or more meanwhile; `run` then begins again.
    fn snapshot(&self) -> Transaction {
        Transaction::new(self.home())
    }

    #[pyo3(name = "_is_inside")]
    fn is_inside(&self, py: Python<'_>) -> bool {
        self.home().is_inside(py)
    }

    /// A structure by its name, if it is there.
    fn find<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        structures::find(py, &self.home(), name)
    }

    /// All names, each with its kind of structure.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        structures::names(py, &self.home())
    }

    /// What the pool is doing, in the units that the names end with; of its writer's work what that has published last.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.readers.with(py, PoolReader::stats)?;
        stats_dict(py, &stats.map_err(of_read)?)
    }
}

impl Reader {
    fn home(&self) -> Home {
        Home::Readers(self.readers.clone())
    }
}
