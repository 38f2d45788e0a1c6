"""One crash to look at: bytes as arrays, the journal as frames, and the explorer's page."""

from __future__ import annotations

import json as _json
import os as _os

import pandas as _pandas

try:
    import numpy as _numpy
except ImportError as error:
    raise ImportError("an image is an array: pip install numpy") from error

__all__ = ["Image", "Page"]


class Page:
    """A page of one file, shown in a notebook in a frame of its own."""

    def __init__(self, html, height=640):
        self.html, self.height = html, height

    def save(self, path):
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)
        return path

    def _repr_html_(self):
        inside = self.html.replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{inside}" style="width: 100%; height: {self.height}px; border: 0"></iframe>'

    def __repr__(self):
        return f"<Page of {len(self.html)} bytes; save(path) writes it>"


class Image:
    """A crash of a campaign.

    Under a scheme of the runtime: ``before``, ``crashed`` and ``recovered`` are the pool's bytes as NumPy arrays of
    ``uint8``: before the run, as the crash leaves them, and after recovery. ``operations`` is the run as a frame: lane,
    kind, address and bytes, place, transaction, and whether it was before the crash; rows of kind ``ack`` are the marks. ``journal`` has the writes that
    reached memory, in order, and whether each is ``in_image``. ``transactions`` has when each began and was acknowledged,
    in operations, and the keys that it wrote. ``wrong`` says what the oracle found, or is ``None``; ``replay`` is the
    command that shows it again. In a notebook it shows the explorer's page.

    Under a scheme of the machine, where they differ: ``memory`` has the program's bytes after recovery, wherever the scheme
    has its lines, or is ``None`` where recovery refused. ``operations`` are those of the work itself, one stream after the
    other. ``journal`` has the cycle of each write. ``transactions`` has the cycle in which each was acknowledged, and the
    lines of data that it wrote. ``attrs`` has what was ``reported`` to the program before the crash, and ``kept`` by
    recovery, in words.
    """

    def __init__(self, folder):
        read = lambda name: _numpy.fromfile(_os.path.join(folder, name), dtype=_numpy.uint8)
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

    def lines(self, which="crashed"):
        """The bytes of ``"before"``, ``"crashed"`` or ``"recovered"`` as an array of lines: (lines, 64)."""
        bytes_ = getattr(self, which)
        return bytes_[: len(bytes_) // 64 * 64].reshape(-1, 64)

    def changed(self, one="crashed", other="recovered"):
        """The numbers of the lines in which two of the three differ."""
        first, second = self.lines(one), self.lines(other)
        size = min(len(first), len(second))
        differ = (first[:size] != second[:size]).any(axis=1).nonzero()[0]
        return _numpy.concatenate([differ, _numpy.arange(size, max(len(first), len(second)))])

    def line_states(self):
        """A frame of the lines that the run stored to before the crash: the words that it changed, and whether the newest
        content of each is in the image. Under a scheme of the machine it is of the lines that acknowledged transactions
        changed; there are none under schemes of epochs, and behind an earlier recovery."""
        if self._states is not None:
            return self._states.copy()
        newest = _numpy.zeros(len(self.crashed), dtype=_numpy.uint8)
        newest[: len(self.before)] = self.before
        stores = self.operations[self.operations["data"].notna() & self.operations["before_crash"]]
        touched = {}
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

    def _repr_html_(self):
        return self.page._repr_html_()

    def __repr__(self):
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


def _point(document):
    """The crash point, as :func:`outlast.lab.image` takes it."""
    if "crash_entry" not in document:
        return document["crash_op"]
    entry, resumed = document["crash_entry"], document["resume_entry"]
    return entry if resumed is None else (entry, resumed)


def _frame(document, name):
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
