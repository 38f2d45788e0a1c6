"""The Parquet file in which a sweep keeps the frames of its points, each as it was when its run ended."""

from __future__ import annotations

import contextlib as _contextlib
import fcntl as _fcntl
import importlib.util as _util
import json as _json
import os as _os
import re as _re
import socket as _socket
import threading as _threading
from collections.abc import Callable, Iterator
from typing import Any

import pandas as _pandas

__all__ = ["Kept", "joined", "write", "write_bytes"]

#: Columns of the file that are none of a frame: the point of a row, and the number of its frame's columns in ``shapes``.
_OWN = ("point", "shape")


#: The names and types of a frame's columns.
_Shape = tuple[tuple[str, str], ...]


class Kept:
    """Frames by the keys of their points. Several sweeps may keep theirs in one file at the same time.

    Raises :class:`ValueError` when the file is another program's, before anything runs.
    """

    def __init__(self, file: str | _os.PathLike[str]) -> None:
        if _util.find_spec("pyarrow") is None:
            raise ImportError("a sweep's file needs pyarrow: pip install pyarrow")
        self.file = _os.path.abspath(_os.fspath(file))
        folder, name = _os.path.split(self.file)
        if not _os.path.isdir(folder):
            raise FileNotFoundError(f"no folder {folder}: the file {name} of the sweep is to be kept there")
        _clean(folder, name)
        self._stored = _state(self.file)
        self.frames = _load(self.file)

    def store(self, frames: dict[str, _pandas.DataFrame]) -> None:
        """Replaces the file by one with these frames, those that have failed left out, and all others that it has: whole, or not
        at all."""
        with _locked(_os.path.dirname(self.file)):
            if _state(self.file) != self._stored:
                self.frames = _load(self.file)
            self.frames.update((key, frame) for key, frame in frames.items() if "error" not in frame.columns)
            if self.frames:
                write(_whole(self.frames), self.file)
                self._stored = _state(self.file)


def write(frame: _pandas.DataFrame, file: str) -> None:
    """Replaces a file by the frame as Parquet."""
    _replace(file, frame.to_parquet)


def write_bytes(content: bytes, file: str) -> None:
    """Replaces a file by this content."""

    def of(path: str) -> None:
        with open(path, "wb") as file:
            file.write(content)

    _replace(file, of)


def _replace(file: str, write_to: Callable[[str], None]) -> None:
    """Replaces a file, whole or not at all."""
    folder, name = _os.path.split(_os.path.abspath(file))
    beside = _os.path.join(folder, f".{name}.{_socket.gethostname()}.{_os.getpid()}.{_threading.get_ident()}.outlast")
    try:
        write_to(beside)
        # After a crash the name has the old content or the new one.
        with open(beside, "rb") as written:
            _os.fsync(written.fileno())
        _os.replace(beside, file)
    except BaseException:
        with _contextlib.suppress(OSError):
            _os.unlink(beside)
        raise
    of_folder = _os.open(folder, _os.O_RDONLY)
    try:
        _os.fsync(of_folder)
    finally:
        _os.close(of_folder)


def joined(frames: list[_pandas.DataFrame]) -> _pandas.DataFrame:
    """Frames one after the other. Whole numbers of which some are beyond ``int64`` stay exact."""
    whole = _pandas.concat(frames, ignore_index=True)
    for name in whole.columns:
        parts = [frame[name] for frame in frames if name in frame.columns]
        is_mixed = {"int64", "uint64"} <= {str(part.dtype).lower() for part in parts}
        if is_mixed and len(parts) == len(frames):
            whole[name] = _pandas.Series([int(value) for part in parts for value in part], index=whole.index)
    return whole


def _clean(folder: str, name: str) -> None:
    """Removes files that a process of this machine left when it was killed while it wrote."""
    ours = _re.compile(_re.escape(f".{name}.{_socket.gethostname()}.") + r"(\d+)\.\d+\.outlast")
    for other in _os.listdir(folder):
        owner = ours.fullmatch(other)
        if owner and not _os.path.exists(f"/proc/{owner[1]}"):
            with _contextlib.suppress(FileNotFoundError):
                _os.unlink(_os.path.join(folder, other))


@_contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Keeps other sweeps from writing into the folder, where its file system has locks."""
    opened = _os.open(folder, _os.O_RDONLY)
    try:
        with _contextlib.suppress(OSError):
            _fcntl.flock(opened, _fcntl.LOCK_EX)
        yield
    finally:
        _os.close(opened)


def _state(file: str) -> tuple[int, ...] | None:
    try:
        found = _os.stat(file)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _whole(frames: dict[str, _pandas.DataFrame]) -> _pandas.DataFrame:
    """All frames as one, which Parquet can hold: whole numbers stay whole where other frames lack the column."""
    shapes: dict[_Shape, dict[str, _pandas.DataFrame]] = {}
    for key, frame in frames.items():
        shape = tuple((str(name), str(dtype)) for name, dtype in frame.dtypes.items())
        shapes.setdefault(shape, {})[key] = frame
    parts, empty = [], []
    for number, (shape, alike) in enumerate(shapes.items()):
        empty += [[key, number] for key, frame in alike.items() if not len(frame)]
        filled = {key: frame for key, frame in alike.items() if len(frame)}
        if filled:
            part = _pandas.concat(filled.values(), ignore_index=True).astype({name: _WIDE[dtype] for name, dtype in shape if dtype in _WIDE})
            points = [key for key, frame in filled.items() for _ in range(len(frame))]
            parts.append(part.assign(point=points, shape=number))
    whole = joined(parts) if parts else _pandas.DataFrame(columns=list(_OWN))
    # Texts beside numbers in one column are kept as JSON.
    mixed = [name for name in whole.columns if whole[name].dtype == object and not _is_text(whole[name])]
    for name in mixed:
        whole[name] = [_json.dumps(None if value is _pandas.NA else value, default=_item) for value in whole[name]]
    units = whole[["metric", "unit"]].dropna() if {"metric", "unit"} <= set(whole.columns) else None
    whole.attrs = {
        "units": {} if units is None else dict(zip(units["metric"], units["unit"], strict=True)),
        "sweep": {"verdicts": _verdicts(frames), "shapes": list(shapes), "mixed": mixed, "empty": empty},
    }
    return whole


#: Types that have no value for a missing one, and those of pandas that do.
_WIDE = {"int64": "Int64", "uint64": "UInt64", "bool": "boolean"}


def _is_text(column: _pandas.Series) -> bool:
    return _pandas.api.types.infer_dtype(column, skipna=True) in ("string", "empty")


def _item(value: object) -> object:
    item = getattr(value, "item", None)
    if item is None:
        raise TypeError(f"a frame with a {type(value).__name__} cannot be kept")
    return item()


def _load(file: str) -> dict[str, _pandas.DataFrame]:
    if not _os.path.exists(file):
        return {}
    try:
        stored = _pandas.read_parquet(file)
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} is no file of a sweep: {str(error).splitlines()[0]}") from None
    ours = stored.attrs.get("sweep")
    if not isinstance(ours, dict) or not set(_OWN) <= set(stored.columns):
        raise ValueError(f"{file} is no file of a sweep: another name keeps this one's results")
    for name in ours["mixed"]:
        stored[name] = _pandas.Series([_json.loads(text) for text in stored[name]], index=stored.index, dtype=object)
    stored.attrs = {}
    frames = {}
    for number, shape in enumerate(ours["shapes"]):
        alike = stored[stored["shape"] == number]
        typed = _of_shape(alike, shape, ours["mixed"])
        for key, rows in typed.groupby(alike["point"], sort=False):
            frames[str(key)] = rows.reset_index(drop=True)
    for key, number in ours["empty"]:
        frames[key] = _of_shape(None, ours["shapes"][number], [])
    for verdict, keys in ours["verdicts"].items():
        for key in keys:
            frames[key].attrs["verdict"] = verdict
    return frames


def _verdicts(frames: dict[str, _pandas.DataFrame]) -> dict[str, list[str]]:
    """The points of each verdict."""
    points: dict[str, list[str]] = {}
    for key, frame in frames.items():
        if "verdict" in frame.attrs:
            points.setdefault(frame.attrs["verdict"], []).append(key)
    return points


def _of_shape(rows: _pandas.DataFrame | None, shape: _Shape, mixed: list[str]) -> _pandas.DataFrame:
    """The columns of a frame with their types."""
    columns = {}
    for name, dtype in shape:
        column = _pandas.Series(dtype=dtype) if rows is None else rows[name]
        if dtype == "object" and name not in mixed:
            column = column.astype(object).where(column.notna(), None)
        kind: Any = dtype
        columns[name] = column.astype(kind)
    return _pandas.DataFrame(columns)
