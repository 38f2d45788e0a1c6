"""Durable transactions on memory-mapped files, and a laboratory for crash consistency.

>>> import outlast, tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "orders.pool")
>>> with outlast.Pool(path) as pool:
...     users, visits = pool.map("users"), pool.counter("visits")
...     with pool.transaction():
...         users["ada"] = {"born": 1815}
...         visits += 1
...
>>> with outlast.Pool(path) as pool:
...     pool.map("users")["ada"]["born"], int(pool.counter("visits"))
(1815, 1)

Beside this process's writer, or any other process's:

>>> reader = outlast.read(path)
>>> with reader.snapshot():
...     dict(reader.map("users")), int(reader.counter("visits"))
({'ada': {'born': 1815}}, 1)

Keys of maps are int (64 bits), str and bytes. Values are None, bool, int, float, str, bytes, and lists and dicts of all but
bytes; tuples come back as lists. Integers and scalars of NumPy are taken for Python's.

The laboratory's functions, ``outlast.sim``, ``compare``, ``crash``, ``check`` and others, are described in ``outlast.lab``, their
frames in ``outlast.results``, ``Machine`` in ``outlast.machine``, sweeps in ``outlast.sweep``, and work of one's own in
``outlast.work``. They are imported when they are first used.
"""

from __future__ import annotations

import operator as _operator
import time as _time
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import ItemsView as _ItemsView
from collections.abc import KeysView as _KeysView
from collections.abc import MutableMapping as _MutableMapping
from collections.abc import Sequence as _Sequence
from collections.abc import ValuesView as _ValuesView
from types import AsyncGeneratorType, CoroutineType, GeneratorType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, ParamSpec, Protocol, TypeVar, cast, overload

from . import _outlast
from ._outlast import ClosedError, Conflict, Counter, Damaged, Error, OutOfSpace, Transaction

if TYPE_CHECKING:
    import os

    import numpy

    from . import lab as lab
    from .lab import Machine as Machine
    from .lab import Results as Results
    from .lab import bench as bench
    from .lab import check as check
    from .lab import compare as compare
    from .lab import crash as crash
    from .lab import explain as explain
    from .lab import image as image
    from .lab import reproduce as reproduce
    from .lab import schemes as schemes
    from .lab import sim as sim
    from .lab import workloads as workloads
    from .sweep import _Callable

    #: The module, which can be called.
    sweep: _Callable

__all__ = [
    "Array",
    "ClosedError",
    "Conflict",
    "Counter",
    "Damaged",
    "Error",
    "List",
    "Map",
    "OutOfSpace",
    "Pool",
    "Queue",
    "Reader",
    "Transaction",
    "read",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")
_Key = int | str | bytes

# How often a reader begins anew whose snapshot was overtaken.
_TRIES_MAX = 16


def _done(function: Any, result: _T) -> _T:
    """What a function returned, which has done its work then."""
    if isinstance(result, _LATER) or (isinstance(result, GeneratorType) and result.gi_code is getattr(function, "__code__", None)):
        if isinstance(result, CoroutineType):
            result.close()
        raise TypeError(f"{function!r} works after its call, behind the transaction's end: a plain function is possible")
    return result


_LATER: tuple[type, type] = (CoroutineType, AsyncGeneratorType)


class _Local:
    """What leads to memory of this process."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} stays in its process: hand on the pool's path, and use outlast.read(path) there"
        )


class Map(_Local, _outlast.Map, _MutableMapping[_Key, Any]):
    """A persistent map, in the order of its keys: integers, then text, then bytes.

    Keys are int (64 bits), str or bytes (up to 65,534 bytes); values are None, bool, int, float, str, bytes (up to 511 MiB),
    and lists and dicts of all but bytes. Each operation is a transaction, or part of the one that its thread has open.
    ``len`` counts the keys one by one.

    >>> with outlast.Pool(path) as pool:
    ...     ages = pool.map("ages")
    ...     ages.update({"ada": 36, "alan": 41, 7: "seven"})
    ...     list(ages), list(ages.range("b")), ages.pop(7), ages.get("bob", 0)
    ([7, 'ada', 'alan'], [], 'seven', 0)
    """

    def range(self, start: _Key | None = None, stop: _Key | None = None) -> Iterator[tuple[_Key, Any]]:
        """Pairs from the key ``start`` on, up to and without ``stop``, in the order of keys.

        Outside a transaction they are read 256 at a time: changes of other threads may show meanwhile.
        """
        behind = False
        while True:
            pairs, is_more = self._scan(start, behind, stop)
            yield from pairs
            if not is_more:
                return
            start, behind = pairs[-1][0], True

    def __iter__(self) -> Iterator[_Key]:
        return (key for key, _ in self.range())

    def keys(self) -> _KeysView[_Key]:
        """Its keys, in order."""
        return _Keys(self)

    def items(self) -> _ItemsView[_Key, Any]:
        """Its pairs, in the order of keys."""
        return _Items(self)

    def values(self) -> _ValuesView[Any]:
        """Its values, in the order of keys."""
        return _Values(self)

    _MISSING = object()

    def pop(self, key: _Key, default: Any = _MISSING) -> Any:
        """Takes a key out and returns its value, or ``default``; without one, :class:`KeyError` when it is not there."""
        # A stored None is told from a missing key in the same transaction.
        found = self._take(key)
        if found is not None:
            return found[0]
        if default is Map._MISSING:
            raise KeyError(key)
        return default

    def popitem(self) -> tuple[_Key, Any]:
        """Takes the first pair out; :class:`KeyError` when the map is empty."""
        while True:
            for key in self:
                found = self._take(key)
                if found is not None:
                    return key, found[0]
                break
            else:
                raise KeyError(f"the map '{self.name}' is empty")

    def update(self, other: Any = (), /, **pairs: Any) -> None:
        """Sets many pairs in one transaction. Takes what ``dict.update`` takes."""
        source = other.items() if hasattr(other, "items") else other
        self._set_pairs([(key, value) for key, value in source] + list(pairs.items()))

    def __eq__(self, other: object) -> bool:
        return self is other or dict(self.items()) == other

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<map '{self.name}'>"


class _Keys(_KeysView[_Key]):
    _mapping: Map

    def __repr__(self) -> str:
        return f"keys({list(self)!r})"


class _Items(_ItemsView[_Key, Any]):
    _mapping: Map

    def __iter__(self) -> Iterator[tuple[_Key, Any]]:
        return self._mapping.range()

    def __repr__(self) -> str:
        return f"items({list(self)!r})"


class _Values(_ValuesView[Any]):
    _mapping: Map

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping.range())

    def __contains__(self, value: object) -> bool:
        return any(own == value for own in self)

    def __repr__(self) -> str:
        return f"values({list(self)!r})"


class List(_Local, _outlast.List, _Sequence[Any]):
    """A persistent list that grows at its end (``append``, ``extend``) and is taken from both (``pop``, ``popleft``).

    Items are values as a map's. An index costs a search; a slice and a loop read many items at a time.

    >>> with outlast.Pool(path) as pool:
    ...     items = pool.list("items")
    ...     items.extend([1, 2, 3])
    ...     items[0] = "one"
    ...     items[0:2], items.popleft(), items.pop(), len(items)
    (['one', 2], 'one', 3, 1)
    """

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if not isinstance(index, slice):
            return self._load(_index(index))
        start, stop, step = index.indices(len(self))
        if step != 1:
            return [self._load(place) for place in range(start, stop, step)]
        return self._part(start, stop - start) if stop > start else []

    def __setitem__(self, index: int, value: Any) -> None:
        if isinstance(index, slice):
            raise TypeError("items of a list in a pool are set one by one, and not by slices")
        self._store(_index(index), value)

    def __delitem__(self, index: int) -> NoReturn:
        raise TypeError("a list in a pool is taken from its ends: pop() and popleft()")

    def __iter__(self) -> Iterator[Any]:
        index = 0
        while True:
            items = self._part(index, 256)
            yield from items
            if len(items) < 256:
                return
            index += len(items)

    def __eq__(self, other: object) -> bool:
        return self is other or list(self) == other

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<list '{self.name}'>"


def _index(index: int) -> int:
    index = _operator.index(index)
    if not -(2**63) <= index < 2**63:
        raise IndexError("list index out of range")
    return index


class Queue(_Local):
    """A persistent queue: items that one process puts in, it or a later one takes out, in order.

    ``get`` waits for an item by looking again. Inside a transaction it does not wait, as no other thread's item could show
    there: it raises at once.

    >>> with outlast.Pool(path) as pool:
    ...     jobs, done = pool.queue("jobs"), pool.list("done")
    ...     jobs.put({"job": 1})
    ...     with pool.transaction():      # taken and written down, or neither
    ...         done.append(jobs.get())
    ...     len(jobs), list(done)
    (0, [{'job': 1}])
    """

    Empty = IndexError

    def __init__(self, items: List) -> None:
        self._items = items

    @property
    def name(self) -> str:
        """Its name in the pool."""
        return self._items.name

    def put(self, item: Any) -> None:
        """Adds an item."""
        self._items.append(item)

    def get_nowait(self) -> Any:
        """Takes the first item out; :class:`IndexError` (also ``Queue.Empty``) where there is none."""
        return self._items.popleft()

    def get(self, timeout: float | None = None) -> Any:
        """Takes the first item out. Waits up to ``timeout`` seconds for one, or for ever; ``Queue.Empty`` after that."""
        until = None if timeout is None else _time.monotonic() + timeout
        pause = 0.0005
        while True:
            try:
                return self._items.popleft()
            except IndexError:
                if self._items._is_inside() or (until is not None and _time.monotonic() >= until):
                    raise
            _time.sleep(pause if until is None else max(0.0, min(pause, until - _time.monotonic())))
            pause = min(2 * pause, 0.05)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __repr__(self) -> str:
        return f"<queue '{self.name}'>"


class Array(_Local, _outlast.Array):
    """A persistent array of numbers, dates, or texts of one length: any type of NumPy's without objects and fields.

    ``array[...]`` reads in the transaction and gives a copy; ``array[...] = values`` stores in it. Both take NumPy's
    indexes. Calculate with either of ``array[...]`` and ``numpy.asarray(array)``.

    ``numpy.asarray(array)`` shows the pool's memory without a copy, for reading only: committed values, also those that other
    threads commit meanwhile. Under schemes that store in place before they commit (``undo`` and its kin) values of open
    transactions show, too. While such a view lives, ``close`` and the array's removal raise :class:`BufferError`; the end of
    a ``with`` block closes the pool for all work, and its memory stays until the last view is gone.
    A reader's array is always copied, as of one moment.

    >>> import numpy
    >>> with outlast.Pool(path) as pool:
    ...     weights = pool.array("weights", (1000, 8), "float32")
    ...     weights[3] = range(8)
    ...     float(numpy.asarray(weights).sum()), weights[3, 2:4].tolist()
    (28.0, [2.0, 3.0])
    """

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """The type of its items."""
        return cast("numpy.dtype[Any]", _numpy().dtype(self.typestr))

    @property
    def ndim(self) -> int:
        """How many lengths it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many items it has."""
        count = 1
        for length in self.shape:
            count *= length
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of its items."""
        return self.size * self.dtype.itemsize

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray[Any, Any]:
        view = self.view()
        if view is None:
            if copy is False:
                raise ValueError("a reader's array is copied: its writer changes it meanwhile")
            array, copy = self._copied(), False
        else:
            array = _numpy().asarray(view)
        if dtype is not None and array.dtype != dtype:
            if copy is False and view is not None:
                raise ValueError(f"another type than {array.dtype} takes a copy")
            return cast("numpy.ndarray[Any, Any]", array.astype(dtype))
        return cast("numpy.ndarray[Any, Any]", array.copy() if copy else array)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without lengths")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self[...])

    def _copied(self) -> Any:
        raw = self._load(0, self.nbytes)
        return _numpy().frombuffer(raw, self.dtype).reshape(self.shape).copy()

    def __getitem__(self, index: Any) -> Any:
        place = self._rows(index)
        if place is None:
            found = self._copied()[index]
            return found.copy() if hasattr(found, "copy") else found
        first, count, shape = place
        part = _numpy().frombuffer(self._load(first, count), self.dtype).reshape(shape)
        return part[()] if shape == () and index is not Ellipsis else part.copy()

    def __setitem__(self, index: Any, values: Any) -> None:
        numpy = _numpy()
        place = self._rows(index)
        if place is not None:
            first, _, shape = place
            self._store([(first, self._shaped(values, shape).tobytes())])
            return
        # Places of the items that change, and their new values.
        places = numpy.arange(self.size).reshape(self.shape)[index]
        size = self.dtype.itemsize
        flat, items = places.ravel(), self._shaped(values, places.shape).ravel()
        ends = numpy.flatnonzero(numpy.diff(flat) != 1) + 1
        parts = zip(numpy.split(flat, ends), numpy.split(items, ends))
        self._store([(int(run[0]) * size, values.tobytes()) for run, values in parts if len(run)])

    def _shaped(self, values: Any, shape: tuple[int, ...]) -> Any:
        """Values as NumPy stores them into a part of that shape."""
        part = _numpy().empty(shape, self.dtype)
        part[...] = values
        return part

    def _rows(self, index: Any) -> tuple[int, int, tuple[int, ...]] | None:
        """First byte, bytes and shape of a run of rows; None for any other index."""
        size = self.dtype.itemsize
        for length in self.shape[1:]:
            size *= length
        rows = self.shape[0] if self.shape else 1
        if index is Ellipsis:
            return 0, rows * size, self.shape
        if not self.shape:
            return (0, size, ()) if isinstance(index, tuple) and index == () else None
        if isinstance(index, slice):
            start, stop, step = index.indices(rows)
            count = max(0, stop - start)
            return (start * size, count * size, (count, *self.shape[1:])) if step == 1 else None
        is_scalar = getattr(index, "shape", None) == () and index.dtype.kind in "iu"
        if not isinstance(index, bool) and (isinstance(index, int) or is_scalar):
            row = int(index)
            row += rows if row < 0 else 0
            if not 0 <= row < rows:
                raise IndexError(f"index {index} is out of bounds for {rows} rows")
            return row * size, size, self.shape[1:]
        return None

    def __repr__(self) -> str:
        return f"<array '{self.name}': {self.typestr}, {self.shape}>"


def _numpy() -> ModuleType:
    try:
        import numpy
    except ImportError as error:
        raise ImportError("arrays need NumPy: pip install numpy") from error
    return numpy


_OWN: dict[type, Callable[[Any], Any]] = {_outlast.Map: Map, _outlast.List: List, _outlast.Array: Array}


def _dressed(found: Any) -> Any:
    """A structure of the module as the class that users see."""
    own = _OWN.get(type(found))
    return found if own is None else own(found)


class _HasNames(Protocol):
    @property
    def path(self) -> Any: ...
    def find(self, name: str) -> Any: ...
    def names(self) -> list[tuple[str, str]]: ...


class _Named(_Local):
    """Structures by their names."""

    def __getitem__(self: _HasNames, name: str) -> Any:
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        return _dressed(found)

    def __contains__(self: _HasNames, name: object) -> bool:
        return any(found == name for found, _ in self.names())

    def __iter__(self: _HasNames) -> Iterator[str]:
        return (name for name, _ in self.names())

    def __len__(self: _HasNames) -> int:
        return len(self.names())

    def __bool__(self) -> bool:
        # One without structures is a pool, too.
        return True

    def __repr__(self: _HasNames) -> str:
        return f"<{type(self).__name__.lower()} '{self.path}'>"


class Pool(_Named, _outlast.Pool):
    """A pool that this process writes, made where there is none. One process at a time has it so; others :func:`read`.

    ``size`` and ``grow_to`` are bytes of a new file and of the largest that it grows to; ``scheme`` and ``domain`` have the
    names of ``outlast schemes``; ``lanes`` is how many transactions can run at the same time in a new pool (1 to 1,024).
    ``wait`` is how many seconds to wait for another process that has the pool. ``alone`` lets no other process read
    meanwhile. With ``create=False`` a missing file is an error. A pool is a context manager that closes itself, and
    has its structures by name: ``pool["users"]``, ``"users" in pool``, ``del pool["users"]``, ``list(pool)``.

    Raises :class:`Error` with the reason when the file is no pool, is in use or cannot be made, :class:`Damaged` when its bytes
    are not as they were stored, :class:`ValueError` for unknown names.

    >>> with outlast.Pool(path, scheme="swift", size=16 << 20) as pool:
    ...     pool.run(pool.counter("orders").add, 2), list(pool), "users" in pool
    (2, ['orders'], False)
    """

    def run(self, function: Callable[_P, _R], /, *arguments: _P.args, **named: _P.kwargs) -> _R:
        """Calls ``function`` with the arguments in a transaction, and again after each conflict; what it returns.

        Inside a transaction of this thread it joins that one. An exception undoes the transaction and goes on.
        A coroutine or a generator is a :class:`TypeError`: its work would be done after the transaction.
        """
        if self._is_inside():
            return _done(function, function(*arguments, **named))
        while True:
            try:
                with self.transaction():
                    return _done(function, function(*arguments, **named))
            except Conflict:
                pass

    def map(self, name: str) -> Map:
        """The map of that name, made where it is not there; :class:`TypeError` when the name has another kind."""
        return Map(self._make_map(name))

    def list(self, name: str) -> List:
        """The list of that name, made where it is not there; :class:`TypeError` when the name has another kind."""
        return List(self._make_list(name))

    def queue(self, name: str) -> Queue:
        """The queue of that name, made where it is not there: a list that is taken from its front."""
        return Queue(self.list(name))

    def array(self, name: str, shape: int | Iterable[int], dtype: Any = "float64") -> Array:
        """The array of that name, made of zeros where it is not there; :class:`TypeError` when it has another shape or type.

        ``shape`` is a length or several. ``dtype`` is any type of NumPy without objects and fields.
        """
        kind = _numpy().dtype(dtype)
        if kind.hasobject or kind.names or kind.subdtype or kind.itemsize == 0:
            raise TypeError(
                f"items of arrays are numbers, dates, or texts of one length such as 'S16', and not {kind}"
            )
        several = shape if isinstance(shape, Iterable) else (shape,)
        lengths = tuple(_operator.index(length) for length in several)
        if any(length < 0 for length in lengths) or len(lengths) > 32:
            raise ValueError(f"a shape has up to 32 lengths, 0 or more each, and not {lengths}")
        return Array(self._make_array(name, kind.str, lengths))

    def __setitem__(self, name: str, value: Any) -> None:
        # `pool["visits"] += 1` ends here.
        if not (isinstance(value, Counter) and value.name == name):
            raise TypeError(
                "structures are made by map(), list(), queue(), counter() and array(), and hold the values"
            )

    def __delitem__(self, name: str) -> None:
        self.remove(name)

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._leave()
        except BufferError:
            # An error that is under way says more.
            if kind is None:
                raise


class Reader(_Named, _outlast.Reader):
    """A pool that this process reads, also beside the one that writes it.

    Each operation sees one moment of the pool, with all that was acknowledged before; all operations of a
    :meth:`snapshot`, and of a function that :meth:`run` calls, see the same one. Arrays are copied. Threads may share a reader.
    Storing raises :class:`Error`.
    """

    def run(self, function: Callable[_P, _R], /, *arguments: _P.args, **named: _P.kwargs) -> _R:
        """Calls ``function`` with the arguments in a :meth:`snapshot`; what it returns.

        It is called again, up to 16 times, when the writer has changed 65,536 lines or more meanwhile.
        """
        if self._is_inside():
            return _done(function, function(*arguments, **named))
        for _ in range(_TRIES_MAX):
            try:
                with self.snapshot():
                    return _done(function, function(*arguments, **named))
            except Conflict:
                pass
        raise Error("the reader is overtaken by its writer again and again: read less at a time")

    def _of(self, name: str, kind: type[_T]) -> _T:
        found = self[name]
        if not isinstance(found, kind):
            raise TypeError(f"'{name}' is {found!r}")
        return found

    def map(self, name: str) -> Map:
        """The map of that name; :class:`KeyError` where it is not there."""
        return self._of(name, Map)

    def list(self, name: str) -> List:
        """The list of that name; :class:`KeyError` where it is not there."""
        return self._of(name, List)

    def queue(self, name: str) -> Queue:
        """The queue of that name, to look at; :class:`KeyError` where it is not there."""
        return Queue(self.list(name))

    def counter(self, name: str) -> Counter:
        """The counter of that name; :class:`KeyError` where it is not there."""
        return self._of(name, Counter)

    def array(self, name: str) -> Array:
        """The array of that name; :class:`KeyError` where it is not there."""
        return self._of(name, Array)

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def read(path: str | os.PathLike[str]) -> Reader:
    """Opens a pool for reading, also beside a process that writes it.

    Raises :class:`Error` when there is no such pool, and when its writer lets no other process read: the message says why.
    """
    return Reader(path)


#: The laboratory's names, of modules that need pandas: they are imported when they are first used.
_LABORATORY: dict[str, str | None] = {
    **dict.fromkeys(
        ["Machine", "Results", "bench", "check", "compare", "crash", "explain", "image", "reproduce", "schemes", "sim", "workloads"],
        "lab",
    ),
    "lab": None,
    "sweep": None,
}


if not TYPE_CHECKING:  # It would give any name a type.

    def __getattr__(name: str) -> Any:
        import importlib

        if name not in _LABORATORY:
            raise AttributeError(f"module 'outlast' has no attribute {name!r}")
        module = importlib.import_module(f".{_LABORATORY[name] or name}", __name__)
        found = module if _LABORATORY[name] is None else getattr(module, name)
        # A module of the same name is not to hide the function.
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LABORATORY})
