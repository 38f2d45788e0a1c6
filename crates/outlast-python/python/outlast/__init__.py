"""Durable transactions on memory-mapped files, and a laboratory for crash consistency.

>>> import outlast, tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "orders.pool")
>>> with outlast.Pool(path) as pool:
...     users, visits = pool.map("users"), pool.counter("visits")
...     with pool.transaction():
...         users["ada"] = {"born": 1815}
...         visits.add()
...
1
>>> with outlast.Pool(path) as pool:
...     pool.map("users")["ada"]["born"], int(pool["visits"])
(1815, 1)
"""

from __future__ import annotations

import time as _time
from collections.abc import MutableMapping as _MutableMapping
from collections.abc import Sequence as _Sequence

from . import _outlast
from ._outlast import ClosedError, Conflict, Counter, Damaged, Error, OutOfSpace, Transaction

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


class Map(_outlast.Map, _MutableMapping):
    """A persistent map, in the order of its keys: integers, then text, then bytes.

    Keys are int (64 bits), str or bytes; values are None, bool, int, float, str, bytes, and lists and dicts of these.
    Each operation is a transaction, or part of the one that its thread has open.
    """

    def range(self, start=None, stop=None):
        """Pairs from the key ``start`` on, up to and without ``stop``, in the order of keys.

        Outside a transaction they are read some at a time: what others change meanwhile may show.
        """
        behind = False
        while True:
            pairs, is_more = self.scan(start, behind, stop)
            yield from pairs
            if not is_more:
                return
            start, behind = pairs[-1][0], True

    def __iter__(self):
        return (key for key, _ in self.range())

    def keys(self):
        """Its keys, in order."""
        return _Keys(self)

    def items(self):
        """Its pairs, in the order of keys."""
        return _Items(self)

    def values(self):
        """Its values, in the order of keys."""
        return _Values(self)

    _MISSING = object()

    def pop(self, key, default=_MISSING):
        """Takes a key out and returns its value, or ``default``."""
        # A stored None is told from a missing key in the same transaction.
        found = self._take(key)
        if found is not None:
            return found[0]
        if default is Map._MISSING:
            raise KeyError(key)
        return default

    def update(self, other=(), /, **pairs):
        """Sets many pairs in one transaction."""
        source = other.items() if hasattr(other, "items") else other
        self.set_pairs([(key, value) for key, value in source] + list(pairs.items()))

    def __eq__(self, other):
        return self is other or dict(self.items()) == other

    __hash__ = None

    def __repr__(self):
        return f"<map '{self.name}'>"


class _View:
    def __init__(self, map):
        self._map = map

    def __len__(self):
        return len(self._map)


class _Keys(_View):
    def __iter__(self):
        return iter(self._map)

    def __contains__(self, key):
        return key in self._map

    def __repr__(self):
        return f"keys({list(self)!r})"


class _Items(_View):
    def __iter__(self):
        return self._map.range()

    def __repr__(self):
        return f"items({list(self)!r})"


class _Values(_View):
    def __iter__(self):
        return (value for _, value in self._map.range())

    def __repr__(self):
        return f"values({list(self)!r})"


class List(_outlast.List, _Sequence):
    """A persistent list that grows at its end and is taken from both ends."""

    def __getitem__(self, index):
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return [self.load(place) for place in range(start, stop, step)]
            return self.part(start, stop - start) if stop > start else []
        return self.load(index)

    def __setitem__(self, index, value):
        self.store(index, value)

    def __iter__(self):
        index = 0
        while True:
            items = self.part(index, 256)
            yield from items
            if len(items) < 256:
                return
            index += len(items)

    def __eq__(self, other):
        return self is other or list(self) == other

    __hash__ = None

    def __repr__(self):
        return f"<list '{self.name}'>"


class Queue:
    """A persistent queue: what one process puts in, it or a later one takes out, in order.

    ``get`` waits for an item by looking again; inside a transaction it does not wait.
    """

    Empty = IndexError

    def __init__(self, items):
        self._items = items

    @property
    def name(self):
        """Its name in the pool."""
        return self._items.name

    def put(self, item):
        """Adds an item."""
        self._items.append(item)

    def get_nowait(self):
        """Takes the first item out; :class:`IndexError` where there is none."""
        return self._items.popleft()

    def get(self, timeout=None):
        """Takes the first item out; waits up to ``timeout`` seconds for one, or for ever."""
        until = None if timeout is None else _time.monotonic() + timeout
        pause = 0.0005
        while True:
            try:
                return self._items.popleft()
            except IndexError:
                if until is not None and _time.monotonic() >= until:
                    raise
            _time.sleep(pause if until is None else max(0.0, min(pause, until - _time.monotonic())))
            pause = min(2 * pause, 0.05)

    def __len__(self):
        return len(self._items)

    def __repr__(self):
        return f"<queue '{self.name}'>"


class Array(_outlast.Array):
    """A persistent array of numbers.

    ``numpy.asarray(array)`` shows its memory without a copy, for reading only: what is committed, also what other threads
    commit meanwhile. ``array[...]`` reads in the transaction; ``array[...] = values`` stores in it.
    """

    @property
    def dtype(self):
        """The type of its items."""
        return _numpy().dtype(self.typestr)

    def __array__(self, dtype=None, copy=None):
        array = _numpy().asarray(self.view())
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"another type than {array.dtype} takes a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __len__(self):
        return self.shape[0]

    def _copied(self):
        numpy = _numpy()
        count = 1
        for length in self.shape:
            count *= length
        raw = self.load(0, count * self.dtype.itemsize)
        return numpy.frombuffer(raw, self.dtype).reshape(self.shape)

    def __getitem__(self, index):
        place = self._rows(index)
        if place is None:
            return self._copied()[index].copy()
        first, count, shape = place
        raw = self.load(first, count)
        part = _numpy().frombuffer(raw, self.dtype).reshape(shape)
        return part[()] if shape == () else part.copy()

    def __setitem__(self, index, values):
        numpy = _numpy()
        place = self._rows(index)
        if place is not None:
            first, _, shape = place
            part = numpy.broadcast_to(numpy.asarray(values, self.dtype), shape)
            self.store([(first, numpy.ascontiguousarray(part).tobytes())])
            return
        # Places of the items that change, and what they become.
        total = 1
        for length in self.shape:
            total *= length
        places = numpy.arange(total).reshape(self.shape)[index]
        part = numpy.broadcast_to(numpy.asarray(values, self.dtype), places.shape)
        size = self.dtype.itemsize
        flat, items = places.ravel(), numpy.ascontiguousarray(part).ravel()
        ends = numpy.flatnonzero(numpy.diff(flat) != 1) + 1
        parts = zip(numpy.split(flat, ends), numpy.split(items, ends))
        self.store([(int(run[0]) * size, values.tobytes()) for run, values in parts if len(run)])

    def _rows(self, index):
        """First byte, bytes and shape of a run of rows; None for any other index."""
        size = self.dtype.itemsize
        for length in self.shape[1:]:
            size *= length
        rows = self.shape[0] if self.shape else 1
        if index is Ellipsis:
            return 0, rows * size, self.shape
        if not self.shape:
            return (0, size, ()) if index == () else None
        if isinstance(index, slice):
            start, stop, step = index.indices(rows)
            count = max(0, stop - start)
            return (start * size, count * size, (count, *self.shape[1:])) if step == 1 else None
        if isinstance(index, int) or getattr(index, "shape", None) == () and index.dtype.kind in "iu":
            if isinstance(index, bool):
                return None
            row = int(index)
            row += rows if row < 0 else 0
            if not 0 <= row < rows:
                raise IndexError(f"index {index} is out of bounds for {rows} rows")
            return row * size, size, self.shape[1:]
        return None

    def __repr__(self):
        return f"<array '{self.name}': {self.typestr}, {self.shape}>"


def _numpy():
    try:
        import numpy
    except ImportError as error:
        raise ImportError("arrays need NumPy: pip install numpy") from error
    return numpy


def _dressed(found):
    """A structure of the module as the class that users see."""
    for plain, own in ((_outlast.Map, Map), (_outlast.List, List), (_outlast.Array, Array)):
        if type(found) is plain:
            return own(found)
    return found


class _Named:
    """Structures by their names."""

    def __getitem__(self, name):
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        return _dressed(found)

    def __contains__(self, name):
        return any(found == name for found, _ in self.names())

    def __iter__(self):
        return (name for name, _ in self.names())

    def __len__(self):
        return len(self.names())

    def __repr__(self):
        return f"<{type(self).__name__.lower()} '{self.path}'>"


class Pool(_Named, _outlast.Pool):
    """A pool that this process writes, made where there is none.

    ``size`` and ``grow_to`` are bytes; ``scheme`` and ``domain`` have the names of ``outlast schemes``; ``wait`` is how many
    seconds to wait for another process that has the pool. ``alone`` lets no other process read meanwhile.
    """

    def map(self, name):
        """The map of that name, made where it is not there."""
        return Map(self.make_map(name))

    def list(self, name):
        """The list of that name, made where it is not there."""
        return List(self.make_list(name))

    def queue(self, name):
        """The queue of that name, made where it is not there: a list that is taken from its front."""
        return Queue(self.list(name))

    def array(self, name, shape, dtype="float64"):
        """The array of that name, made of zeros where it is not there."""
        kind = _numpy().dtype(dtype)
        if kind.hasobject or kind.names:
            raise TypeError(f"items of arrays are plain numbers, and not {kind}")
        shape = (shape,) if hasattr(shape, "__index__") else tuple(shape)
        return Array(self.make_array(name, kind.str, kind.itemsize, [int(length) for length in shape]))

    def __delitem__(self, name):
        self.remove(name)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.close()


class Reader(_Named, _outlast.Reader):
    """A pool that this process reads, also beside the one that writes it. Each operation sees one moment of the pool;
    all operations of a function that :meth:`run` calls see the same one."""


def read(path):
    """Opens a pool for reading, also beside a process that writes it."""
    return Reader(path)


#: The laboratory's names, of modules that need pandas: they are imported when they are first used.
_LABORATORY = {
    **dict.fromkeys(
        ["Machine", "Results", "bench", "check", "compare", "crash", "explain", "image", "reproduce", "schemes", "sim", "workloads"],
        "lab",
    ),
    "lab": None,
    "sweep": None,
}


def __getattr__(name):
    import importlib

    if name not in _LABORATORY:
        raise AttributeError(f"module 'outlast' has no attribute {name!r}")
    module = importlib.import_module(f".{_LABORATORY[name] or name}", __name__)
    found = module if _LABORATORY[name] is None else getattr(module, name)
    # A module of the same name is not to hide the function.
    globals()[name] = found
    return found


def __dir__():
    return sorted({*globals(), *_LABORATORY})
