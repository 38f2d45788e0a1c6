"""Sweeps: one function of the laboratory at every point of a grid, on the cores here, on a Dask cluster, or as a Slurm array.

>>> import outlast                                                                              # doctest: +SKIP
>>> grid = {"work": ["hash", "btree"], "scheme": ["swift", "undo"], "seed": [1, 2]}            # doctest: +SKIP
>>> outlast.sweep(outlast.sim, grid, file="sweep.parquet")                                      # doctest: +SKIP
>>> outlast.sweep(outlast.sim, grid, file="sweep.parquet", client=dask_client)                  # doctest: +SKIP

The frame is the same wherever the points ran: rows in the order of the grid, with the point's arguments in front. A point
whose process dies is run once more and then has a row with its ``error``. With ``file`` a sweep that was interrupted goes on.

:func:`crash` and :func:`check` divide one campaign into parts: together they try exactly what one run tries.
"""

from __future__ import annotations

import base64 as _base64
import concurrent.futures as _futures
import itertools as _itertools
import json as _json
import os as _os
import re as _re
import sys as _sys
import tempfile as _tempfile
import time as _time
import types as _types

import pandas as _pandas

from . import lab as _lab
from .results import Results, _common

__all__ = ["check", "collect", "crash", "points", "run", "slurm"]


def points(grid):
    """The points of a grid, dictionaries of arguments, in order: the last name changes fastest."""
    lists = {
        name: list(values) if isinstance(values, (list, tuple, range)) else [values]
        for name, values in grid.items()
    }
    return [dict(zip(lists, values)) for values in _itertools.product(*lists.values())]


def run(function, grid=None, workers=None, client=None, file=None, progress=None) -> Results:
    """Runs a function of :mod:`outlast.lab` at each point of a grid: its :class:`~outlast.lab.Results`.

    ``workers`` is how many run at a time here, a core each if not given; with ``client``, a Dask client, they run on its
    cluster. ``file`` is a Parquet file that keeps what is done; points that failed are tried again. ``progress`` is called
    with (done, all, seconds); ``True`` prints that on standard error. ``run(grid)`` sweeps ``sim``.
    """
    if grid is None:
        function, grid = _lab.sim, function
    return _joined(_run(_name(function), points(grid), {}, workers, client, file, progress))


def _run(name, wanted, common, workers, client, file, progress):
    """The frames of the points, in their order."""
    done = _load(file)
    left = [point for point in wanted if _key(point) not in done]
    tell = progress if callable(progress) else _printed if progress else lambda *_: None
    start = stored = _time.monotonic()
    count = len(wanted) - len(left)
    if client is not None:
        from dask.distributed import as_completed

        shared = client.scatter(common, broadcast=True) if common else {}
        futures = dict(zip(client.map(_at, [name] * len(left), left, [shared] * len(left), pure=False, retries=2), left))
        finished, executor = as_completed(futures), None
    else:
        executor = _futures.ThreadPoolExecutor(workers or _os.cpu_count())
        futures = {executor.submit(_at, name, point, common): point for point in left}
        finished = _futures.as_completed(futures)
    refused = None
    try:
        for future in finished:
            point = futures[future]
            try:
                frame = future.result()
            except ValueError as error:
                # Bad input at this point; where all are bad the sweep is.
                refused, frame = error, _failed(point, error)
            except Exception as error:
                if client is None:
                    raise
                frame = _failed(point, error)
            done[_key(point)] = frame
            count += 1
            tell(count, len(wanted), _time.monotonic() - start)
            if file is not None and _time.monotonic() - stored > 1:
                _store(file, done)
                stored = _time.monotonic()
    finally:
        if executor is not None:
            executor.shutdown(cancel_futures=True)
        if file is not None and done:
            _store(file, done)
    frames = [done[_key(point)] for point in wanted]
    if refused is not None and all("error" in frame.columns for frame in frames):
        raise refused
    return frames


def _joined(frames):
    """One frame of all, with the units of each."""
    if not frames:
        return Results()
    whole = Results(_pandas.concat([_pandas.DataFrame(frame) for frame in frames], ignore_index=True))
    whole = whole[sorted(whole.columns, key=_place)]
    whole.attrs = _common([{"units": frame.attrs.get("units", {})} for frame in frames])
    whole.attrs["units"] = whole.units
    return whole


#: The order of columns, whatever run or file they come from: arguments, records, keys that were set, the error.
_RECORD = (
    "kind workload scheme metric unit value p25 p75 rounds threads config machine footprint keys transactions seed policy domain "
    "guarantee lines class ack arrivals_per_s write_latency_ns plant paper claim paper_value verdict reason"
).split()


def _place(column):
    if column.startswith("at_"):
        return (0, 0, "")
    if column == "error":
        return (3, 0, "")
    return (1, _RECORD.index(column), "") if column in _RECORD else (2, 0, column)


def _name(function):
    name = getattr(function, "__name__", "")
    if name not in _lab.__all__ or getattr(_lab, name) is not function:
        raise TypeError(f"a sweep runs a function of outlast.lab, and not {function!r}")
    return name


def _at(name, point, common):
    """Runs a function of the laboratory at a point; its records with the point's arguments in front."""
    function = _PARTS.get(name) or getattr(_lab, name)
    for is_last in (False, True):
        try:
            results = function(**point, **common)
            break
        except (_lab.Error, OSError) as error:
            if is_last:
                return _failed(point, error)
    frame = _pandas.DataFrame(results)
    if name != "bench" and "metric" in frame.columns:
        # Speeds of this host are no results of the point.
        frame = frame[~frame["metric"].isin(_OF_HOST)].reset_index(drop=True)
    frame.attrs = {"units": results.attrs.get("units", {})}
    # A repetition of what the records say themselves is left out.
    columns = _pandas.DataFrame([_columns(point)] * len(frame), index=frame.index)
    return _pandas.concat([columns, frame], axis=1)


#: Metrics in the time of the host: in every sweep but one of ``bench`` they are left out.
_OF_HOST = ["sim_speed", "recovery_host_time", "verify_rate"]


def _failed(point, error):
    return _pandas.DataFrame([{**_columns(point), "error": str(error) or type(error).__name__}])


def _columns(point):
    plain = {name: value if isinstance(value, (str, int, float)) else _json.dumps(value, default=repr) for name, value in point.items()}
    return {f"at_{name}": value for name, value in plain.items()}


def _key(point):
    return _json.dumps(_columns(point), sort_keys=True)


def _store(file, done):
    """Replaces the file by one with all that is done, whole or not at all."""
    frames = [_pandas.DataFrame(frame).assign(point=key) for key, frame in done.items() if "error" not in frame.columns]
    if not frames:
        return
    whole = _pandas.concat(frames, ignore_index=True)
    whole.attrs = {"units": Results(whole).units}
    _write(whole, _os.fspath(file))


def _write(frame, file):
    beside = f"{file}.{_os.getpid()}"
    frame.to_parquet(beside)
    # What a crash leaves under the name is then the old content or the new one.
    with open(beside, "rb") as written:
        _os.fsync(written.fileno())
    _os.replace(beside, file)
    folder = _os.open(_os.path.dirname(_os.path.abspath(file)), _os.O_RDONLY)
    try:
        _os.fsync(folder)
    finally:
        _os.close(folder)


def _load(file):
    if file is None:
        return {}
    file = _os.fspath(file)
    folder, name = _os.path.split(_os.path.abspath(file))
    for other in _os.listdir(folder) if _os.path.isdir(folder) else []:
        # Left by a process that was killed while it wrote.
        owner = _re.fullmatch(_re.escape(name) + r"\.(\d+)", other)
        if owner and not _os.path.exists(f"/proc/{owner[1]}"):
            _os.unlink(_os.path.join(folder, other))
    if not _os.path.exists(file):
        return {}
    stored = _pandas.read_parquet(file)
    return {key: rows.drop(columns="point").dropna(axis=1, how="all") for key, rows in stored.groupby("point", sort=False)}


def _printed(done, all, seconds):
    print(f"\r{done} of {all} points, {seconds:.0f} s", end="" if done < all else "\n", file=_sys.stderr, flush=True)


# Campaigns in parts.


def crash(work, scheme=None, parts=None, seed=1, workers=None, client=None, file=None, progress=None, slurm=None, **options):
    """A crash campaign (:func:`outlast.lab.crash`) in ``parts``: the same points and findings, whatever their number is.

    Every point is judged, also behind a failing one. With ``slurm``, a folder, it writes an array there, of which
    :func:`collect` makes the results.
    """
    head = {"work": work, "scheme": scheme, "seed": seed, **options}
    return _in_parts("crash", head, {}, parts, workers, client, file, progress, slurm)


def check(program, dir, then, parts=None, seed=1, workers=None, client=None, file=None, progress=None, slurm=None, save=None, **options):
    """A check of a program (:func:`outlast.lab.check`) in ``parts``: the same states and findings, whatever their number is.

    The program runs once, here; ``save`` keeps the captured run. ``then`` runs wherever a part does, in this folder if it is
    there. ``budget`` is that of each part.
    """
    with _tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        captured = save or _os.path.join(folder, "run")
        of_capture = {name: value for name, value in options.items() if name not in ("budget", "jobs", "failures", "twice", "write")}
        words = _lab._words({"dir": dir, "then": then, "seed": seed, "save": captured, "capture": True, **of_capture})
        found = _lab._run(["check", *words], program=program)[1]
        if found["not_measured"]:
            raise ValueError(f"not measured: {'; '.join(found['not_measured'])}")
        with open(captured, "rb") as file_:
            common = {"captured": file_.read(), "cwd": _os.getcwd(), "name": save}
    of_parts = {name: value for name, value in options.items() if name not in ("time", "exact", "marks_fd", "issued", "acked")}
    head = {"then": then, "seed": seed, **of_parts}
    return _in_parts("check", head, common, parts, workers, client, file, progress, slurm)


def _in_parts(kind, head, common, parts, workers, client, file, progress, folder):
    if parts is None:
        parts = 4 * (sum(client.nthreads().values()) if client is not None else workers or _os.cpu_count())
    if parts < 1:
        raise ValueError(f"{parts} parts: at least 1 would be right")
    wanted = [{**head, "part": f"{number}/{parts}"} for number in range(1, parts + 1)]
    if folder is not None:
        return _array(f"_{kind}", wanted, common, folder)
    frames = _run(f"_{kind}", wanted, common, workers, client, file, progress)
    lost = [frame for frame in frames if "error" in frame.columns]
    if lost:
        raise _lab.Error(f"{len(lost)} of {parts} parts did not end: {lost[0]['error'].iloc[0]}; again with file= they go on")
    return _whole(f"_{kind}", frames)


def _crash_part(work, scheme=None, seed=1, points=None, config=None, set=None, machine=None, **options):
    words, options = _lab._crash_options(work, scheme, seed, points, config, set, machine, options)
    return _packed(_lab._told(words, options))


def _check_part(then, captured, cwd, name, **options):
    with _tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        path = _os.path.join(folder, "run")
        with open(path, "wb") as file:
            file.write(captured)
        words = ["check", *_lab._words({"run": path, "then": then, **options})]
        here = cwd if _os.path.isdir(cwd) else None
        return _packed(_lab._run(words, cwd=here, names={path: name or "RUN"}))


def _packed(found):
    status, document = found
    return Results([{"status": status, "document": _json.dumps(document)}])


_PARTS = {"_crash": _crash_part, "_check": _check_part}


def _whole(name, frames):
    """The results of all parts as one."""
    documents = [_json.loads(frame["document"].iloc[0]) for frame in frames]
    verdict = "bad" if any(frame["status"].iloc[0] for frame in frames) else "good"
    whole = _merged_crashes(documents) if name == "_crash" else _merged_checks(documents)
    whole["command"] = _re.sub(r" --part \d+/\d+", "", whole["command"])
    return Results.of(whole, verdict)


#: Failures that the command keeps of each policy and caches.
_FAILURES_KEPT = 16
_CACHES = ["tiny", "tiny-exclusive", "small", "server", "server-16th"]


def _merged_crashes(documents):
    head, records, order = documents[0], {}, []
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

    def place(failure):
        operations, _, lines = failure.get("crash_op", "0").partition("+")
        caches = failure.get("caches")
        of_caches = _CACHES.index(caches) if caches in _CACHES else -1
        of_scheme = places.get((failure["scheme"], failure.get("policy")), -1)
        machine = machines.index(failure.get("machine"))
        # What one crash point leads to stands in one part, in its order.
        return machine, of_scheme, of_caches, int(operations), int(lines or 0), failure.get("crash_entry", 0)

    failures, kept = [], {}
    for failure in sorted((failure for document in documents for failure in document.get("failures", [])), key=place):
        machine = tuple(failure.get(name) for name in ("scheme", "policy", "caches", "machine"))
        kept[machine] = kept.get(machine, 0) + 1
        # What goes wrong with no crash at all each part meets.
        is_point = "crash_op" in failure or "crash_entry" in failure
        if kept[machine] <= (_FAILURES_KEPT if is_point else 1):
            failures.append(failure)
    firsts = {}
    for failure in failures:
        # Records of the timed machine tell no reason.
        if "crash_entry" not in failure:
            firsts.setdefault(failure["scheme"], failure)
    for record in records.values():
        first = firsts.get(record["scheme"])
        is_there = first is not None and first.get("policy") in (None, record.get("policy"))
        if is_there and record["metric"] in ("lost", "torn", "uncorrectable") and record["value"] > 0:
            record["reason"] = f"{first['wrong']}; replay: {first['replay']}"
    return {**head, "records": list(records.values()), **({"failures": failures} if failures else {})}


def _merged_checks(documents):
    whole = {name: value for name, value in documents[0].items() if name != "part"}
    for name in ("states", "distinct", "recoveries_crashed"):
        whole[name] = sum(document[name] for document in documents)
    whole["cut_short"] = any(document["cut_short"] for document in documents)
    plain = lambda text: _re.sub(r"\d+", "#", text or "")
    findings = {}
    for finding in (finding for document in documents for finding in document["findings"]):
        key = (finding["class"], plain(finding["lost"]), plain(finding["kept"]))
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


def slurm(function, grid, folder, options=()):
    """Writes a Slurm array that runs a point a task: ``sbatch FOLDER/array``. Then :func:`collect` makes the frame.

    ``options`` are further lines for ``#SBATCH``, such as ``"--time=1:00:00"``.
    """
    return _array(_name(function), points(grid), {}, folder, options)


def _array(name, wanted, common, folder, options=()):
    _os.makedirs(folder, exist_ok=True)
    packed = {key: _base64.b64encode(value).decode() if isinstance(value, bytes) else value for key, value in common.items()}
    with open(_os.path.join(folder, "points.json"), "w") as file:
        _json.dump({"function": name, "points": wanted, "common": packed}, file, default=_lab.Machine.__getstate__)
    lines = ["#!/bin/sh", f"#SBATCH --array=0-{len(wanted) - 1}", *(f"#SBATCH {option}" for option in options)]
    lines.append(f'exec {_sys.executable} -m outlast.sweep {_os.path.abspath(folder)!r} "$SLURM_ARRAY_TASK_ID"')
    script = _os.path.join(folder, "array")
    with open(script, "w") as file:
        file.write("\n".join(lines) + "\n")
    return script


def collect(folder):
    """The results of an array's tasks, in the order of the grid; and the numbers of points that are not there yet. Of a
    campaign in parts the results are ``None`` until all are there."""
    with open(_os.path.join(folder, "points.json")) as file:
        array = _json.load(file)
    files = [_os.path.join(folder, f"{number}.parquet") for number in range(len(array["points"]))]
    frames = [_pandas.read_parquet(file) if _os.path.exists(file) else None for file in files]
    missing = [number for number, frame in enumerate(frames) if frame is None or (array["function"] in _PARTS and "error" in frame.columns)]
    if array["function"] in _PARTS:
        return (None if missing else _whole(array["function"], frames)), missing
    return _joined([frame for frame in frames if frame is not None]), missing


def _task(folder, number):
    with open(_os.path.join(folder, "points.json")) as file:
        array = _json.load(file)
    common = dict(array["common"])
    if "captured" in common:
        common["captured"] = _base64.b64decode(common["captured"])
    point = array["points"][int(number)]
    for key in ("machine", "config"):
        if isinstance(point.get(key), dict):
            state, point[key] = point[key], object.__new__(_lab.Machine)
            point[key].__setstate__(state)
    frame = _at(array["function"], point, common)
    _write(frame, _os.path.join(folder, f"{int(number)}.parquet"))


class _Callable(_types.ModuleType):
    """``outlast.sweep(…)`` is :func:`run`."""

    def __call__(self, *args, **options):
        return run(*args, **options)


if __name__ == "__main__":
    _task(*_sys.argv[1:])
else:
    _sys.modules[__name__].__class__ = _Callable
