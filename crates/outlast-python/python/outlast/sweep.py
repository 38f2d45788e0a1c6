"""Sweeps: one function of the laboratory at every point of a grid, on the cores here, on a Dask cluster, or as a Slurm array.

>>> from outlast import lab, sweep                                                              # doctest: +SKIP
>>> grid = {"work": ["hash", "btree"], "scheme": ["swift", "undo"], "seed": [1, 2]}            # doctest: +SKIP
>>> sweep.run(lab.sim, grid, file="sweep.parquet")                                              # doctest: +SKIP

The frame is the same wherever the points ran: rows in the order of the grid, with the point's arguments in front. A point
whose process dies is run once more and then has a row with its ``error``. With ``file`` a sweep that was interrupted goes on.
"""

from __future__ import annotations

import concurrent.futures as _futures
import itertools as _itertools
import json as _json
import os as _os
import sys as _sys
import time as _time

import pandas as _pandas

from . import lab as _lab

__all__ = ["points", "run", "slurm"]


def points(grid):
    """The points of a grid, dictionaries of arguments, in order: the last name changes fastest."""
    lists = {
        name: list(values) if isinstance(values, (list, tuple, range)) else [values]
        for name, values in grid.items()
    }
    return [dict(zip(lists, values)) for values in _itertools.product(*lists.values())]


def _name(function):
    if getattr(_lab, getattr(function, "__name__", ""), None) is not function:
        raise TypeError(f"a sweep runs a function of outlast.lab, and not {function!r}")
    return function.__name__


def _at(name, point):
    """Runs a function of the laboratory at a point; its records with the point's arguments in front."""
    for is_last in (False, True):
        try:
            results = getattr(_lab, name)(**point)
            break
        except (_lab.Error, OSError) as error:
            if is_last:
                return _pandas.DataFrame([{**_columns(point), "error": str(error)}])
    frame = _pandas.DataFrame(results)
    # A repetition of what the records say themselves is left out.
    for place, (column, value) in enumerate(_columns(point).items()):
        frame.insert(place, column, value)
    return frame


def _columns(point):
    plain = {name: value if isinstance(value, (str, int, float)) else _json.dumps(value) for name, value in point.items()}
    return {f"at_{name}": value for name, value in plain.items()}


def _key(point):
    return _json.dumps(_columns(point), sort_keys=True)


def _store(file, done):
    """Replaces the file by one with all that is done, whole or not at all."""
    frames = [frame.assign(point=key) for key, frame in done.items()]
    beside = f"{file}.{_os.getpid()}"
    _pandas.concat(frames, ignore_index=True).to_parquet(beside)
    _os.replace(beside, file)


def _load(file):
    if file is None or not _os.path.exists(file):
        return {}
    stored = _pandas.read_parquet(file)
    return {key: rows.drop(columns="point").dropna(axis=1, how="all") for key, rows in stored.groupby("point", sort=False)}


def run(function, grid, workers=None, client=None, file=None, progress=None):
    """Runs a function of :mod:`outlast.lab` at each point of a grid.

    ``workers`` is how many run at a time here, a core each if not given; with ``client``, a Dask client, they run on its
    cluster. ``file`` is a Parquet file that keeps what is done. ``progress`` is called with (done, all, seconds); ``True``
    prints that on standard error.
    """
    name, wanted = _name(function), points(grid)
    done = _load(file)
    left = [point for point in wanted if _key(point) not in done]
    tell = progress if callable(progress) else _printed if progress else lambda *_: None
    start = stored = _time.monotonic()
    if client is not None:
        futures = {client.submit(_at, name, point, pure=False, retries=2): point for point in left}
        from dask.distributed import as_completed

        finished, executor = as_completed(futures), None
    else:
        executor = _futures.ThreadPoolExecutor(workers or _os.cpu_count())
        futures = {executor.submit(_at, name, point): point for point in left}
        finished = _futures.as_completed(futures)
    try:
        for future in finished:
            done[_key(futures[future])] = future.result()
            tell(len(wanted) - len(left) + sum(f.done() for f in futures), len(wanted), _time.monotonic() - start)
            if file is not None and _time.monotonic() - stored > 1:
                _store(file, done)
                stored = _time.monotonic()
    finally:
        if executor is not None:
            executor.shutdown(cancel_futures=True)
        if file is not None and done:
            _store(file, done)
    frames = [done[_key(point)] for point in wanted]
    return _pandas.concat(frames, ignore_index=True) if frames else _pandas.DataFrame()


def _printed(done, all, seconds):
    print(f"\r{done} of {all} points, {seconds:.0f} s", end="" if done < all else "\n", file=_sys.stderr, flush=True)


def slurm(function, grid, folder, options=()):
    """Writes a Slurm array that runs a point a task: ``sbatch FOLDER/array``. Then :func:`collect` makes the frame.

    ``options`` are further lines for ``#SBATCH``, such as ``"--time=1:00:00"``.
    """
    name, wanted = _name(function), points(grid)
    _os.makedirs(folder, exist_ok=True)
    with open(_os.path.join(folder, "points.json"), "w") as file:
        _json.dump({"function": name, "points": wanted}, file)
    lines = ["#!/bin/sh", f"#SBATCH --array=0-{len(wanted) - 1}", *(f"#SBATCH {option}" for option in options)]
    lines.append(f'exec {_sys.executable} -m outlast.sweep {_os.path.abspath(folder)!r} "$SLURM_ARRAY_TASK_ID"')
    script = _os.path.join(folder, "array")
    with open(script, "w") as file:
        file.write("\n".join(lines) + "\n")
    return script


def collect(folder):
    """The frame of an array's tasks, in the order of the grid; and the numbers of points that are not there yet."""
    with open(_os.path.join(folder, "points.json")) as file:
        wanted = _json.load(file)["points"]
    files = [_os.path.join(folder, f"{number}.parquet") for number in range(len(wanted))]
    frames = [_pandas.read_parquet(file) for file in files if _os.path.exists(file)]
    missing = [number for number, file in enumerate(files) if not _os.path.exists(file)]
    return _pandas.concat(frames, ignore_index=True) if frames else _pandas.DataFrame(), missing


def _task(folder, number):
    with open(_os.path.join(folder, "points.json")) as file:
        task = _json.load(file)
    frame = _at(task["function"], task["points"][int(number)])
    target = _os.path.join(folder, f"{int(number)}.parquet")
    frame.to_parquet(target + ".part")
    _os.replace(target + ".part", target)


if __name__ == "__main__":
    _task(*_sys.argv[1:])
