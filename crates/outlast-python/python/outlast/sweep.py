"""Sweeps: one function of the laboratory at every point of a grid, on the cores here, on a Dask cluster, or as a Slurm array.

>>> grid = {"work": ["hash", "btree"], "scheme": "swift", "seed": [1, 2], "transactions": 300, "keys": 1000}
>>> runs = outlast.sweep(outlast.sim, grid)
>>> runs[["at_work", "at_seed"]].drop_duplicates().values.tolist()
[['hash', 1], ['hash', 2], ['btree', 1], ['btree', 2]]
>>> outlast.sweep(outlast.sim, grid, file="sweep.parquet", client=dask_client)                  # doctest: +SKIP

The frame is the same wherever the points ran: rows in the order of the grid, with the point's arguments in front (``at_work``
and so on). A point whose process dies is run once more and then has a row with its ``error``. With ``file`` a sweep that was
interrupted goes on. Speeds of this host (``sim_speed`` and its kin) are left out, except in sweeps of ``bench``.

:func:`crash` and :func:`check` divide one campaign into parts: together they try exactly what one run tries.
"""

from __future__ import annotations

import base64 as _base64
import collections as _collections
import concurrent.futures as _futures
import hashlib as _hashlib
import inspect as _inspect
import itertools as _itertools
import json as _json
import operator as _operator
import os as _os
import re as _re
import shlex as _shlex
import shutil as _shutil
import sys as _sys
import tempfile as _tempfile
import time as _time
import types as _types
import warnings as _warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, overload

import pandas as _pandas

from . import lab as _lab
from ._outlast import Error as _Error
from .kept import Kept as _Kept
from .kept import joined as _concat
from .kept import write as _write
from .kept import write_bytes as _write_bytes
from .results import Results
from .work import Work as _Work

if TYPE_CHECKING:
    from .arguments import Client, Function, Grid, MachineLike, Option, Path, Progress, Settings, Words, WorkLike

__all__ = ["check", "collect", "crash", "points", "run", "slurm"]


_F = TypeVar("_F")


def points(grid: Grid) -> list[dict[str, Any]]:
    """The points of a grid, dictionaries of arguments, in order: the last name changes fastest.

    A list, a tuple, a range, an array, or anything else that is iterated over has the values of its name. A text, a dictionary, a
    machine or a work is one value. A list that is a value itself stands in another one: ``{"scheme": [["swift", "undo"]]}``
    has both schemes at each point.

    >>> outlast.sweep.points({"work": "hash", "seed": range(2), "set": {"core.rob": 64}})
    [{'work': 'hash', 'seed': 0, 'set': {'core.rob': 64}}, {'work': 'hash', 'seed': 1, 'set': {'core.rob': 64}}]
    """
    if not isinstance(grid, Mapping):
        raise TypeError(f"a grid has values by their names, such as {{'work': ['hash', 'btree']}}, and is not {grid!r}")
    lists = {name: _several(values) for name, values in grid.items()}
    return [dict(zip(lists, values)) for values in _itertools.product(*lists.values())]


def _several(values: Any) -> list[Any]:
    """The values of an argument: lists, ranges, arrays, generators and all else that has several, texts and objects as one."""
    if isinstance(values, (str, bytes, Mapping, _lab.Machine)) or not isinstance(values, Iterable):
        return [_plain(values)]
    if getattr(values, "shape", None) == ():
        return [_plain(values)]
    if isinstance(values, (set, frozenset)):
        raise TypeError(f"a set has no order, and a grid has one: sorted({values!r}) would be right")
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    """NumPy's scalars as Python's."""
    return value.item() if hasattr(value, "dtype") and getattr(value, "shape", None) == () else value


@overload
def run(
    function: Function,
    grid: Grid,
    workers: int | None = None,
    client: Client | None = None,
    file: Path | None = None,
    progress: Progress | None = None,
) -> Results: ...
@overload
def run(
    function: Grid,
    grid: None = None,
    workers: int | None = None,
    client: Client | None = None,
    file: Path | None = None,
    progress: Progress | None = None,
) -> Results: ...
def run(
    function: Function | Grid,
    grid: Grid | None = None,
    workers: int | None = None,
    client: Client | None = None,
    file: Path | None = None,
    progress: Progress | None = None,
) -> Results:
    """Runs a function of :mod:`outlast.lab` at each point of a grid: its :class:`~outlast.lab.Results`.

    ``function`` is one that returns results: ``sim``, ``compare``, ``crash``, ``bench``, ``check``, ``reproduce``. ``grid`` has its
    arguments, each with a value or a list of values. ``run(grid)`` sweeps ``sim``.

    ``workers`` run at a time here, one for each core if not given; with ``client``, a Dask client, points run on its
    cluster. ``file`` is a Parquet file that keeps the records of points that are done; points that failed are tried again.
    ``progress`` is called with (done, all, seconds); ``True`` prints that on standard error.

    Columns are those of the function, behind the point's arguments ``at_NAME`` (lists, dictionaries and machines as text); a
    point that failed has one row with its ``error``. Where all points are bad input the sweep raises :class:`ValueError`.

    >>> small = {"transactions": 300, "keys": 1000}
    >>> runs = outlast.sweep(outlast.sim, {"work": "hash", "scheme": ["swift", "swiftly"], **small})
    >>> runs["at_scheme"].unique().tolist(), runs["error"].dropna().size
    (['swift', 'swiftly'], 1)
    """
    if grid is None:
        if not isinstance(function, Mapping):
            raise TypeError("a sweep needs a grid: sweep(outlast.sim, {'work': ['hash', 'btree'], 'seed': [1, 2]})")
        return run(_lab.sim, function, workers, client, file, progress)
    name, wanted = _name(function), points(grid)
    for point in wanted:
        # A wrong argument is one everywhere.
        _inspect.signature(getattr(_lab, name)).bind(**point)
    return _joined(_run(name, wanted, {}, workers, client, file, progress))


def _run(
    name: str,
    wanted: Sequence[dict[str, Any]],
    common: Mapping[str, Any],
    workers: int | None,
    client: Client | None,
    file: Path | None,
    progress: Progress | None,
) -> list[_pandas.DataFrame]:
    """The frames of the points, in their order."""
    kept = None if file is None else _Kept(file)
    done = {} if kept is None else dict(kept.frames)
    keys = [_key(name, point, common) for point in wanted]
    # A point that the grid has twice runs once.
    left = {key: point for key, point in zip(keys, wanted) if key not in done}
    tell = progress if callable(progress) else _printed if progress else _silent
    start = stored = _time.monotonic()
    pause = 1.0
    times = _collections.Counter(keys)
    count = sum(times[key] for key in times if key not in left)
    futures: dict[Any, str]
    finished: Iterable[Any]
    executor = None
    if client is not None:
        if not callable(getattr(client, "map", None)):
            raise TypeError(f"client={client!r}: expected a client of Dask's, such as dask.distributed.Client({client!r})")
        import dask.distributed

        completed: Callable[..., Iterable[Any]] = dask.distributed.as_completed
        shared = client.scatter(common, broadcast=True) if common else {}
        mapped = client.map(_at, [name] * len(left), list(left.values()), [shared] * len(left), pure=False, retries=2)
        futures = dict(zip(mapped, left))
        finished = completed(futures)
    else:
        executor = _futures.ThreadPoolExecutor(workers or _os.cpu_count())
        futures = {executor.submit(_at, name, point, common): key for key, point in left.items()}
        finished = _futures.as_completed(futures)
    try:
        for future in finished:
            key = futures[future]
            try:
                frame = future.result()
            except Exception as error:
                if client is None:
                    raise
                frame = _failed(left[key], error)
            done[key] = frame
            count += times[key]
            tell(count, len(wanted), _time.monotonic() - start)
            if kept is not None and _time.monotonic() - stored > pause:
                began = _time.monotonic()
                _keep(kept, done)
                stored = _time.monotonic()
                # Of many points the file takes its time: a tenth of all at most.
                pause = max(1, 9 * (stored - began))
    finally:
        if executor is not None:
            executor.shutdown(cancel_futures=True)
        if kept is not None and left:
            _keep(kept, done)
    frames = [done[key] for key in keys]
    # Bad input at some points has rows; where all are bad the sweep is.
    if frames and all(_REFUSED in frame.attrs for frame in frames):
        raise ValueError(frames[-1].attrs[_REFUSED])
    return frames


def _keep(kept: _Kept, done: dict[str, _pandas.DataFrame]) -> None:
    try:
        kept.store(done)
    except OSError as error:
        # A disk that is full costs no results: they are returned.
        _warnings.warn(f"{kept.file} is not written, and the results are returned alone: {error}", RuntimeWarning, stacklevel=2)


def _joined(frames: Sequence[_pandas.DataFrame]) -> Results:
    """One frame of all, with the units of each."""
    if not frames:
        return Results()
    whole = Results(_concat([_pandas.DataFrame(frame) for frame in frames]))
    names = sorted((str(name) for name in whole.columns), key=_place)
    whole = Results(whole[names])
    verdicts = {frame.attrs["verdict"] for frame in frames if "verdict" in frame.attrs}
    whole.attrs = {"units": whole.units}
    if verdicts:
        whole.attrs["verdict"] = "bad" if "bad" in verdicts else "good"
    return whole


#: The order of columns, whatever run or file they come from: arguments, records, keys that were set, the error.
_RECORD = (
    "kind workload scheme metric unit value p25 p75 rounds threads config machine footprint keys transactions seed policy domain "
    "guarantee lines class ack arrivals_per_s write_latency_ns plant paper claim paper_value verdict reason"
).split()


def _place(column: str) -> tuple[int, int, str]:
    if column.startswith("at_"):
        return (0, 0, "")
    if column == "error":
        return (3, 0, "")
    return (1, _RECORD.index(column), "") if column in _RECORD else (2, 0, column)


#: Functions that return results.
_SWEPT = ["sim", "compare", "crash", "check", "bench", "reproduce", "run", "schemes", "workloads"]


def _name(function: object) -> str:
    name: str = getattr(function, "__name__", "")
    if name not in _SWEPT or getattr(_lab, name) is not function:
        raise TypeError(f"a sweep runs a function of outlast.lab that returns results ({', '.join(_SWEPT[:6])}), and not {function!r}")
    return name


def _at(name: str, point: dict[str, Any], common: Mapping[str, Any]) -> _pandas.DataFrame:
    """Runs a function of the laboratory at a point; its records with the point's arguments in front."""
    function: Callable[..., Results] = _PARTS.get(name) or getattr(_lab, name)
    for is_last in (False, True):
        try:
            results = function(**point, **common)
            break
        except (_Error, OSError) as error:
            if is_last:
                return _failed(point, error)
        except ValueError as error:
            refused = _failed(point, error)
            refused.attrs[_REFUSED] = str(error)
            return refused
    frame = _pandas.DataFrame(results)
    if name != "bench" and "metric" in frame.columns:
        # Speeds of this host are no results of the point.
        frame = frame[~frame["metric"].isin(_OF_HOST)].reset_index(drop=True)
    frame.attrs = {}
    # A repetition of what the records say themselves is left out.
    columns = _pandas.DataFrame([_columns(point)] * len(frame), index=frame.index)
    whole = _pandas.concat([columns, frame], axis=1)
    # Whether something was lost is the sweep's to say, too.
    whole.attrs = {name: value for name, value in results.attrs.items() if name == "verdict"}
    return whole


#: The attribute of a point's frame with the command's line about bad input.
_REFUSED = "refused"

#: Metrics in the time of the host: in every sweep but one of ``bench`` they are left out.
_OF_HOST = ["sim_speed", "recovery_host_time", "verify_rate"]


def _failed(point: Mapping[str, Any], error: Exception) -> _pandas.DataFrame:
    return _pandas.DataFrame([{**_columns(point), "error": str(error) or type(error).__name__}])


def _columns(point: Mapping[str, Any]) -> dict[str, str | int | float]:
    return {f"at_{name}": _shown(value) for name, value in point.items()}


def _shown(value: Any) -> str | int | float:
    if isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (_lab.Machine, _Work)):
        return repr(value)
    return str(_os.fspath(value)) if isinstance(value, _os.PathLike) else _json.dumps(value, default=repr)


def _key(name: str, point: Mapping[str, Any], common: Mapping[str, Any]) -> str:
    """All that a point's frame depends on, with the content of files that it names."""
    of_common = _digest(repr(sorted(common.items())).encode()) if common else None
    named = [value for value in point.values() if isinstance(value, (str, _os.PathLike)) and not isinstance(value, _Work)]
    files = {_os.fspath(value): _file_digest(_os.fspath(value)) for value in named if _os.path.isfile(value)}
    return _json.dumps([name, _columns(point), files, of_common], sort_keys=True)


def _digest(content: bytes) -> str:
    return _hashlib.sha256(content).hexdigest()[:12]


def _file_digest(path: Path) -> str:
    with open(path, "rb") as file:
        return _hashlib.file_digest(file, "sha256").hexdigest()[:12]


def _silent(done: int, all: int, seconds: float) -> None:
    pass


def _printed(done: int, all: int, seconds: float) -> None:
    print(f"\r{done} of {all} points, {seconds:.0f} s", end="" if done < all else "\n", file=_sys.stderr, flush=True)


# Campaigns in parts.


@overload
def crash(
    work: WorkLike,
    scheme: str | Sequence[str] | None = None,
    parts: int | None = None,
    seed: int = 1,
    workers: int | None = None,
    client: Client | None = None,
    file: Path | None = None,
    progress: Progress | None = None,
    slurm: None = None,
    *,
    points: int | Literal["all"] | None = None,
    config: MachineLike | None = None,
    set: Settings | None = None,
    machine: MachineLike | None = None,
    **options: Option,
) -> Results: ...
@overload
def crash(
    work: WorkLike,
    scheme: str | Sequence[str] | None = None,
    parts: int | None = None,
    seed: int = 1,
    workers: int | None = None,
    client: Client | None = None,
    file: Path | None = None,
    progress: Progress | None = None,
    *,
    slurm: Path,
    points: int | Literal["all"] | None = None,
    config: MachineLike | None = None,
    set: Settings | None = None,
    machine: MachineLike | None = None,
    **options: Option,
) -> str: ...
def crash(
    work: WorkLike,
    scheme: str | Sequence[str] | None = None,
    parts: int | None = None,
    seed: int = 1,
    workers: int | None = None,
    client: Client | None = None,
    file: Path | None = None,
    progress: Progress | None = None,
    slurm: Path | None = None,
    **options: Any,
) -> Results | str:
    """A crash campaign (:func:`outlast.lab.crash`) in ``parts``: the same points and findings for every number of parts.

    ``parts`` is four for each worker if not given; the other arguments are those of :func:`run` and of
    :func:`outlast.lab.crash`, and so are the rows. Every point is judged, also behind a failing one. A part that does not end is
    an :class:`outlast.Error`; with ``file`` the next call goes on with the parts that are left.

    With ``slurm``, a folder, it writes an array there and returns the script's path; :func:`collect` makes the results.

    >>> options = {"keys": 200, "transactions": 60, "points": 60, "policy": "lru"}
    >>> judged = outlast.sweep.crash("hash", "swift", parts=2, **options)
    >>> judged.attrs["verdict"], judged["scheme"].unique().tolist()
    ('good', ['swift'])
    """
    head = {"work": work, "scheme": scheme, "seed": seed, **options}
    return _in_parts("crash", head, {}, parts, workers, client, file, progress, slurm)


@overload
def check(
    program: Words[Path],
    dir: Path,
    then: str | None,
    parts: int | None = None,
    seed: int = 1,
    workers: int | None = None,
    client: Client | None = None,
    file: Path | None = None,
    progress: Progress | None = None,
    slurm: None = None,
    save: Path | None = None,
    **options: Option,
) -> Results: ...
@overload
def check(
    program: Words[Path],
    dir: Path,
    then: str | None,
    parts: int | None = None,
    seed: int = 1,
    workers: int | None = None,
    client: Client | None = None,
    file: Path | None = None,
    progress: Progress | None = None,
    *,
    slurm: Path,
    save: Path | None = None,
    **options: Option,
) -> str: ...
def check(
    program: Words[Path],
    dir: Path,
    then: str | None,
    parts: int | None = None,
    seed: int = 1,
    workers: int | None = None,
    client: Client | None = None,
    file: Path | None = None,
    progress: Progress | None = None,
    slurm: Path | None = None,
    save: Path | None = None,
    **options: Any,
) -> Results | str:
    """A check of a program (:func:`outlast.lab.check`) in ``parts``: the same states and findings for every number of parts.

    The program runs once, here; ``save`` keeps the captured run. With ``file`` a check that was interrupted goes on with the run
    that it began with, kept beside the file until then; one that is whole begins anew. ``then`` runs on each worker, in this folder if it is
    there. ``budget``, in seconds, is that of each part. Arguments, rows and errors are otherwise those of :func:`crash` and
    :func:`outlast.lab.check`. A run that cannot be captured whole is a :class:`ValueError`.

    >>> import tempfile
    >>> data = tempfile.mkdtemp()
    >>> program = ["/bin/sh", "-c", 'echo I 1; echo one >"$0/log"; sync "$0/log" "$0"; echo A 1', data]
    >>> found = outlast.sweep.check(program, data, "[ $OUTLAST_ACKED = 0 ] || grep -q one {}/log", parts=2)
    >>> found.attrs["verdict"], len(found)
    ('good', 0)
    """
    of_capture = {name: value for name, value in options.items() if name not in ("budget", "jobs", "failures", "twice", "write")}
    words = _lab._words({"dir": dir, "then": then, "seed": seed, "capture": True, **of_capture})
    # A sweep that goes on needs the run that it began with: captures of one program differ.
    began = None if file is None else f"{_os.fspath(file)}.{_digest(repr([words, _program_digests(program, then)]).encode())}.run"
    if began is not None and _os.path.exists(began):
        with open(began, "rb") as file_:
            captured = file_.read()
    else:
        captured = _captured(words, program, save)
        if began is not None:
            _write_bytes(captured, began)
    common = {"captured": captured, "cwd": _os.getcwd(), "name": None if save is None else _os.fspath(save)}
    of_parts = {name: value for name, value in options.items() if name not in ("time", "exact", "marks_fd", "issued", "acked")}
    head = {"then": then, "seed": seed, **of_parts}
    results = _in_parts("check", head, common, parts, workers, client, file, progress, slurm)
    if began is not None:
        _os.unlink(began)
    return results


def _captured(words: list[str], program: Words[Path], save: Path | None) -> bytes:
    """The captured run of a program."""
    with _tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        path = _os.fspath(save) if save is not None else _os.path.join(folder, "run")
        found = _lab._run(["check", *words, "--save", path], program=program)[1]
        if found["not_measured"]:
            raise ValueError(f"not measured: {'; '.join(found['not_measured'])}")
        with open(path, "rb") as file:
            return file.read()


def _program_digests(program: Words[Path], then: str | None) -> list[Any]:
    """The words of a program and of the command that judges, and the content of those that are files."""
    words = [*map(str, program), *(then or "").split()]
    paths = [_shutil.which(word) or word for word in words[:1]] + words[1:]
    return [words, *(_file_digest(path) for path in paths if _os.path.isfile(path))]


def _in_parts(
    kind: Literal["crash", "check"],
    head: Mapping[str, Any],
    common: Mapping[str, Any],
    parts: int | None,
    workers: int | None,
    client: Client | None,
    file: Path | None,
    progress: Progress | None,
    folder: Path | None,
) -> Results | str:
    if parts is None:
        parts = 4 * (sum(client.nthreads().values()) if client is not None else workers or _os.cpu_count() or 1)
    parts = _operator.index(parts)
    if parts < 1:
        raise ValueError(f"{parts} parts: at least 1 would be right")
    wanted = [{**head, "part": f"{number}/{parts}"} for number in range(1, parts + 1)]
    if folder is not None:
        return _array(f"_{kind}", wanted, common, folder)
    frames = _run(f"_{kind}", wanted, common, workers, client, file, progress)
    lost = [frame for frame in frames if "error" in frame.columns]
    if lost:
        raise _Error(f"{len(lost)} of {parts} parts did not end: {lost[0]['error'].iloc[0]}; again with file= they go on")
    return _whole(f"_{kind}", frames)


def _crash_part(
    work: WorkLike,
    scheme: str | Sequence[str] | None = None,
    seed: int = 1,
    points: int | Literal["all"] | None = None,
    config: MachineLike | None = None,
    set: Settings | None = None,
    machine: MachineLike | None = None,
    **options: Any,
) -> Results:
    words, given = _lab._crash_options(work, scheme, seed, points, config, set, machine, options)
    return _packed(_lab._told(words, given))


def _check_part(then: str | None, captured: bytes, cwd: str, name: str | None, **options: Any) -> Results:
    with _tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        path = _os.path.join(folder, "run")
        with open(path, "wb") as file:
            file.write(captured)
        words = ["check", *_lab._words({"run": path, "then": then, **options})]
        here = cwd if _os.path.isdir(cwd) else None
        return _packed(_lab._run(words, cwd=here, names={path: name or "RUN"}))


def _packed(found: tuple[int, dict[str, Any]]) -> Results:
    status, document = found
    return Results([{"status": status, "document": _json.dumps(document)}])


_PARTS: dict[str, Callable[..., Results]] = {"_crash": _crash_part, "_check": _check_part}


def _whole(name: str, frames: Sequence[_pandas.DataFrame]) -> Results:
    """The results of all parts as one."""
    documents = [_json.loads(frame["document"].iloc[0]) for frame in frames]
    verdict: Literal["good", "bad"] = "bad" if any(frame["status"].iloc[0] for frame in frames) else "good"
    whole = _merged_crashes(documents) if name == "_crash" else _merged_checks(documents)
    whole["command"] = _re.sub(r" --part \d+/\d+", "", whole["command"])
    return Results.of(whole, verdict)


#: Failures that the command keeps of each policy and caches.
_FAILURES_KEPT = 16
_CACHES = ["tiny", "tiny-exclusive", "small", "server", "server-16th"]


def _merged_crashes(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    head = documents[0]
    records: dict[str, dict[str, Any]] = {}
    order: list[tuple[str, str | None]] = []
    for document in documents:
        for record in document["records"]:
            identity = {name: value for name, value in record.items() if name not in ("value", "reason")}
            key = _json.dumps(identity, sort_keys=True)
            if key not in records:
                records[key] = {**{name: value for name, value in record.items() if name != "reason"}, "value": 0.0}
                order.append((record["scheme"], record.get("policy")))
            records[key]["value"] += record["value"]
    places = {place: number for number, place in reversed(list(enumerate(order)))}

    machines = list(dict.fromkeys(failure.get("machine") for document in documents for failure in document.get("failures", [])))

    def place(failure: Mapping[str, Any]) -> tuple[int, ...]:
        operations, _, lines = failure.get("crash_op", "0").partition("+")
        caches = failure.get("caches")
        of_caches = _CACHES.index(caches) if caches in _CACHES else -1
        of_scheme = places.get((failure["scheme"], failure.get("policy")), -1)
        machine = machines.index(failure.get("machine"))
        # What one crash point leads to stands in one part, in its order.
        return machine, of_scheme, of_caches, int(operations), int(lines or 0), failure.get("crash_entry", 0)

    failures: list[dict[str, Any]] = []
    kept: dict[tuple[str | None, ...], int] = {}
    for failure in sorted((failure for document in documents for failure in document.get("failures", [])), key=place):
        machine = tuple(failure.get(name) for name in ("scheme", "policy", "caches", "machine"))
        kept[machine] = kept.get(machine, 0) + 1
        # What goes wrong with no crash at all each part meets.
        is_point = "crash_op" in failure or "crash_entry" in failure
        if kept[machine] <= (_FAILURES_KEPT if is_point else 1):
            failures.append(failure)
    firsts: dict[str, dict[str, Any]] = {}
    for failure in failures:
        # Records of the timed machine tell no reason.
        if "crash_entry" not in failure:
            firsts.setdefault(failure["scheme"], failure)
    for record in records.values():
        first = firsts.get(record["scheme"])
        if first is None or first.get("policy") not in (None, record.get("policy")):
            continue
        if record["metric"] in ("lost", "torn", "uncorrectable") and record["value"] > 0:
            record["reason"] = f"{first['wrong']}; replay: {first['replay']}"
    return {**head, "records": list(records.values()), **({"failures": failures} if failures else {})}


def _merged_checks(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    whole = {name: value for name, value in documents[0].items() if name != "part"}
    for name in ("states", "distinct", "recoveries_crashed"):
        whole[name] = sum(document[name] for document in documents)
    whole["cut_short"] = any(document["cut_short"] for document in documents)
    findings: dict[tuple[str, ...], dict[str, Any]] = {}
    for finding in (finding for document in documents for finding in document["findings"]):
        key = (finding["class"], *(_re.sub(r"\d+", "#", finding[name] or "") for name in ("lost", "kept")))
        known = findings.get(key)
        if known is None:
            findings[key] = dict(finding)
            continue
        count, models = known["count"] + finding["count"], list(dict.fromkeys([*known["models"], *finding["models"]]))
        shorter = min(known, finding, key=lambda one: (len(one["lost_units"]), one["acked"], one["state"]))
        findings[key] = {**shorter, "count": count, "models": models}
    whole["findings"] = sorted(findings.values(), key=lambda finding: (finding["class"], len(finding["lost_units"]), finding["lost"]))
    return whole


# Slurm.


def slurm(function: Function, grid: Grid, folder: Path, options: Iterable[str] = ()) -> str:
    """Writes a Slurm array that runs a point a task: ``sbatch FOLDER/array``. Then :func:`collect` makes the frame.

    ``options`` are further lines for ``#SBATCH``, such as ``"--time=1:00:00"``. Returns the path of the script.

    >>> import pathlib, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> script = outlast.sweep.slurm(outlast.sim, {"work": "hash", "seed": range(64)}, folder, ["--time=0:10:00"])
    >>> print(pathlib.Path(script).read_text())
    #!/bin/sh
    #SBATCH --array=0-63
    #SBATCH --time=0:10:00
    exec ... -m outlast.sweep ... "$SLURM_ARRAY_TASK_ID"
    <BLANKLINE>
    >>> results, missing = outlast.sweep.collect(folder)
    >>> len(results), len(missing)
    (0, 64)
    """
    return _array(_name(function), points(grid), {}, folder, options)


def _array(
    name: str, wanted: Sequence[dict[str, Any]], common: Mapping[str, Any], folder: Path, options: Iterable[str] = ()
) -> str:
    _os.makedirs(folder, exist_ok=True)
    if not wanted:
        raise ValueError("the grid has no points: an array has one task at least")
    packed = {key: _base64.b64encode(value).decode() if isinstance(value, bytes) else value for key, value in common.items()}
    text = _json.dumps({"function": name, "points": wanted, "common": packed}, default=_told)
    path = _os.path.join(folder, "points.json")
    if _os.path.exists(path) and any(other.endswith(".parquet") for other in _os.listdir(folder)):
        with open(path) as file:
            if file.read() != text:
                raise ValueError(f"{folder} has results of another array: collect them, and take another folder")
    with open(path, "w") as file:
        file.write(text)
    lines = ["#!/bin/sh", f"#SBATCH --array=0-{len(wanted) - 1}", *(f"#SBATCH {option}" for option in options)]
    words = [_sys.executable, "-m", "outlast.sweep", _os.path.abspath(folder)]
    lines.append(f'exec {_shlex.join(words)} "$SLURM_ARRAY_TASK_ID"')
    script = _os.path.join(folder, "array")
    with open(script, "w") as file:
        file.write("\n".join(lines) + "\n")
    return script


def _told(value: Any) -> Any:
    """A point's objects in an array's file."""
    if isinstance(value, _lab.Machine):
        return {"of": "machine", **value.__getstate__()}
    if isinstance(value, _Work):
        return {"of": "work", "name": value.name, "text": value.text()}
    if isinstance(value, _os.PathLike):
        return _os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be handed to the tasks of an array")


def _heard(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get("of") == "machine":
            machine = object.__new__(_lab.Machine)
            machine.__setstate__({key: part for key, part in value.items() if key != "of"})
            return machine
        if value.get("of") == "work":
            return _Work.parse(value["text"], value["name"])
        return {key: _heard(part) for key, part in value.items()}
    return [_heard(part) for part in value] if isinstance(value, list) else value


def collect(folder: Path) -> tuple[Results | None, list[int]]:
    """The results of an array's tasks, in the order of the grid; and the numbers of points that are not there yet.

    Of a campaign in parts the results are ``None`` until all are there.
    """
    with open(_os.path.join(folder, "points.json")) as file:
        array = _json.load(file)
    files = [_os.path.join(folder, f"{number}.parquet") for number in range(len(array["points"]))]
    frames = [_pandas.read_parquet(file) if _os.path.exists(file) else None for file in files]
    is_campaign = array["function"] in _PARTS
    missing = [number for number, frame in enumerate(frames) if frame is None or (is_campaign and "error" in frame.columns)]
    done = [frame for frame in frames if frame is not None]
    if is_campaign:
        return (None if missing else _whole(array["function"], done)), missing
    return _joined(done), missing


def _task(folder: str, number: str) -> None:
    with open(_os.path.join(folder, "points.json")) as file:
        array = _json.load(file)
    common = dict(array["common"])
    if "captured" in common:
        common["captured"] = _base64.b64decode(common["captured"])
    point = {key: _heard(value) for key, value in array["points"][int(number)].items()}
    frame = _at(array["function"], point, common)
    _write(frame, _os.path.join(folder, f"{int(number)}.parquet"))


class _Static(Generic[_F]):
    """A function that an attribute leads to as it is, with all of its overloads."""

    def __init__(self, function: _F) -> None:
        self.function = function

    @overload
    def __get__(self, module: None, kind: type) -> Self: ...
    @overload
    def __get__(self, module: _Callable, kind: type) -> _F: ...
    def __get__(self, module: _Callable | None, kind: type) -> Self | _F:
        return self if module is None else self.function


class _Callable:
    """``outlast.sweep(…)`` is :func:`run`. A type checker sees this module as one of these: it has the functions and no others."""

    __slots__ = ()
    __call__ = _Static(run)
    run = _Static(run)
    points = _Static(points)
    crash = _Static(crash)
    check = _Static(check)
    slurm = _Static(slurm)
    collect = _Static(collect)


if __name__ == "__main__":
    _task(*_sys.argv[1:])
else:
    _sys.modules[__name__].__class__ = type("module", (_Callable, _types.ModuleType), {})
