"""One crash to look at: bytes as arrays, the journal as frames, and the explorer's page."""

from __future__ import annotations

import json as _json
import os as _os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pandas as _pandas

try:
    import numpy as _numpy
except ImportError as _error:
    raise ImportError("an image is an array: pip install numpy") from _error

if TYPE_CHECKING:
    from .arguments import Path

    _Which: TypeAlias = Literal["before", "crashed", "recovered"]

__all__ = ["Image", "Page"]

_Bytes: TypeAlias = _numpy.ndarray[Any, _numpy.dtype[_numpy.uint8]]


class Page:
    """A page of one file, shown in a notebook in a frame of its own: ``html`` is its text, ``height`` the frame's, in pixels."""

    html: str
    height: int

    def __init__(self, html: str, height: int = 640) -> None:
        self.html, self.height = html, height

    def save(self, path: Path) -> Path:
        """Writes the page to a file; the file's path."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)
        return path

    def _repr_html_(self) -> str:
        inside = self.html.replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{inside}" style="width: 100%; height: {self.height}px; border: 0"></iframe>'

    def __repr__(self) -> str:
        return f"<Page of {len(self.html)} bytes; save(path) writes it>"


class Image:
    """A crash of a campaign, made by :func:`outlast.lab.image`.

    ``before``, ``crashed`` and ``recovered`` are the pool's bytes as NumPy arrays of ``uint8``: before the run, as the
    crash leaves them, and after recovery. ``before`` may be shorter, where the pool grew.

    Three frames tell the run. Places are in bytes from the pool's start (``address``) and in lines of 64 bytes (``line``).

    - ``operations``, a row each, numbered by ``op``: ``lane``, ``kind``, ``address``, ``bytes``, ``line``, ``place`` in words,
      ``transaction``, ``before_crash``, and the stored ``data`` in hexadecimal. Rows of kind ``ack`` are acknowledgements.
    - ``journal``, the writes that reached memory, in order: ``entry``, ``op``, ``lane``, ``line``, ``address``, ``bytes``, ``place``, the
      ``cause``, ``in_image``, ``data``.
    - ``transactions``: ``lane``, ``transaction``, ``begun`` and ``acked`` in operations, ``acked_before_crash``, and the ``keys``
      that it wrote.

    ``point`` is the crash point, as :func:`outlast.lab.image` takes it, ``wrong`` the oracle's finding or ``None``, ``replay`` the
    command that shows it again, and ``page`` the explorer's :class:`Page`, which a notebook shows. ``attrs`` has the workload,
    scheme, policy, caches and seed.

    Under a scheme of the machine ``memory`` has the program's bytes after recovery, wherever the scheme has its lines; it is
    ``None`` where recovery refused, and under schemes of the runtime. The frames differ:

    - ``operations`` are those of the work itself, one stream after the other: ``stream`` and the columns above without
      ``transaction`` and ``before_crash``.
    - ``journal`` has the ``cycle`` of each write, and neither ``op`` nor ``lane``.
    - ``transactions``: the ``data`` that it is of, ``transaction``, the cycle in which it was ``acked``, ``acked_before_crash``, and
      the ``lines`` of data that it wrote.

    ``attrs`` has what was ``reported`` to the program before the crash, and ``kept`` by recovery, in words.

    >>> image = outlast.image("hash", "undo", point=400, keys=200, transactions=60)
    >>> int(image.operations["before_crash"].sum()), image.crashed.shape == image.recovered.shape
    (400, True)
    >>> bool((image.journal[~image.journal["in_image"]]["op"] >= 400).all())
    True
    >>> outlast.image("hash", "redu", point=40).journal["in_image"].sum().item()
    40
    """

    before: _Bytes
    crashed: _Bytes
    recovered: _Bytes
    memory: _Bytes | None
    operations: _pandas.DataFrame
    journal: _pandas.DataFrame
    transactions: _pandas.DataFrame
    point: str | int | tuple[int, int]
    wrong: str | None
    replay: str
    attrs: dict[str, Any]
    page: Page

    def __init__(self, folder: Path) -> None:
        def read(name: str) -> _Bytes:
            return _numpy.fromfile(_os.path.join(folder, name), dtype=_numpy.uint8)

        self.before, self.crashed, self.recovered = read("before.bin"), read("image.bin"), read("recovered.bin")
        with open(_os.path.join(folder, "journal.json"), encoding="utf-8") as file:
            document = _json.load(file)
        self.operations = _frame(document, "operations")
        self.journal = _frame(document, "lines")
        self.transactions = _frame(document, "transactions")
        self._states = _frame(document, "states") if "states" in document else None
        memory = _os.path.join(folder, "memory.bin")
        self.memory = read("memory.bin") if _os.path.exists(memory) else None
        self.wrong, self.replay, self.point = document["wrong"], document["command"], _point(document)
        self.attrs = {name: value for name, value in document.items() if not isinstance(value, dict)}
        with open(_os.path.join(folder, "index.html"), encoding="utf-8") as file:
            self.page = Page(file.read())

    def lines(self, which: _Which = "crashed") -> _Bytes:
        """The bytes of ``"before"``, ``"crashed"`` or ``"recovered"`` as an array of lines, of shape (lines, 64); no copy."""
        if which not in ("before", "crashed", "recovered"):
            raise ValueError(f"{which!r}: expected 'before', 'crashed' or 'recovered'")
        bytes_: _Bytes = getattr(self, which)
        return bytes_[: len(bytes_) // 64 * 64].reshape(-1, 64)

    def changed(self, one: _Which = "crashed", other: _Which = "recovered") -> _numpy.ndarray[Any, _numpy.dtype[_numpy.int64]]:
        """The numbers of the lines in which two of the three differ, ascending.

        >>> image = outlast.image("hash", "undo", point=400, keys=200, transactions=60)
        >>> lines = image.changed("crashed", "recovered")
        >>> (image.lines("crashed")[lines] != image.lines("recovered")[lines]).any(axis=1).all().item()
        True
        """
        first, second = self.lines(one), self.lines(other)
        size = min(len(first), len(second))
        differ = (first[:size] != second[:size]).any(axis=1).nonzero()[0]
        return _numpy.concatenate([differ, _numpy.arange(size, max(len(first), len(second)))])

    def line_states(self) -> _pandas.DataFrame:
        """A frame of the lines that the run stored to before the crash, a row each: ``line``, its ``place`` in words, whether the
        image has its newest content (``is_newest``), and the words of 8 bytes that it lacks (``words_missing``, 0 to 8).

        Under a scheme of the machine it is of the lines that acknowledged transactions changed; there are none under schemes of
        epochs, and behind an earlier recovery.
        """
        if self._states is not None:
            return self._states.copy()
        newest = _numpy.zeros(len(self.crashed), dtype=_numpy.uint8)
        newest[: len(self.before)] = self.before
        stores = self.operations[self.operations["data"].notna() & self.operations["before_crash"]]
        touched: dict[int, str] = {}
        for at, data, place in zip(stores["address"].astype(int), stores["data"], stores["place"]):
            stored = _numpy.frombuffer(bytes.fromhex(data), dtype=_numpy.uint8)
            newest[at : at + len(stored)] = stored
            for line in range(at // 64, (at + len(stored) + 63) // 64):
                touched.setdefault(line, place)
        rows = []
        for line in sorted(touched):
            part = slice(line * 64, line * 64 + 64)
            is_new = bool((self.crashed[part] == newest[part]).all())
            missing = int((self.crashed[part].reshape(8, 8) != newest[part].reshape(8, 8)).any(axis=1).sum())
            rows.append({"line": line, "place": touched[line], "is_newest": is_new, "words_missing": missing})
        return _pandas.DataFrame(rows, columns=["line", "place", "is_newest", "words_missing"])

    def _repr_html_(self) -> str:
        return self.page._repr_html_()

    def __repr__(self) -> str:
        told = self.wrong or "nothing is wrong"
        unit = "entry" if self._states is not None else "operation"
        return f"<Image {self.attrs['workload']} under {self.attrs['scheme']}, crash before {unit} {self.point}: {told}>"


_COLUMNS = {
    "operations": "op lane kind address bytes line place transaction before_crash data".split(),
    "lines": "entry op lane line address bytes place cause in_image data".split(),
    "transactions": "lane transaction begun acked acked_before_crash keys".split(),
}
_OF_MACHINE = {
    "operations": "stream op lane kind address bytes line place data".split(),
    "lines": "entry cycle line address bytes place cause in_image data".split(),
    "transactions": "data transaction acked acked_before_crash lines".split(),
    "states": "line place is_newest words_missing".split(),
}


def _point(document: Mapping[str, Any]) -> str | int | tuple[int, int]:
    """The crash point, as :func:`outlast.lab.image` takes it."""
    if "crash_entry" not in document:
        operations: str = document["crash_op"]
        return operations
    entry: int = document["crash_entry"]
    resumed: int | None = document["resume_entry"]
    return entry if resumed is None else (entry, resumed)


def _frame(document: Mapping[str, Any], name: str) -> _pandas.DataFrame:
    columns = _OF_MACHINE if "crash_entry" in document else _COLUMNS
    frame = _pandas.DataFrame(document[name], columns=columns[name])
    units = {"address": "B", "bytes": "B", "line": "64 B"}
    whole = ["address", "bytes", "line", "transaction", "lane"]
    if columns is _OF_MACHINE:
        units.update(cycle="cycles", acked="cycles")
        whole.append("acked")
    for column in whole:
        if column in frame.columns:
            # Whole numbers, also where some are missing.
            frame[column] = frame[column].astype("Int64")
    frame.attrs = {"units": units, "command": document["command"]}
    return frame
