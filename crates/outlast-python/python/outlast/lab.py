"""The laboratory as functions: each runs one command of ``outlast`` and returns its records as a data frame.

>>> import outlast.lab                                                      # doctest: +SKIP
>>> runs = outlast.lab.sim("hash", scheme=["swift", "undo"])                # doctest: +SKIP
>>> runs.wide("throughput")                                                 # doctest: +SKIP

Options have the names of the command's, with underscores: ``lane_bytes=65536`` is ``--lane-bytes 65536``, ``shared=True`` is
``--shared``, and ``set={"core.count": 4}`` is ``--set core.count=4``.
"""

from __future__ import annotations

import json as _json
import os as _os
import shutil as _shutil
import subprocess as _subprocess
import sys as _sys

try:
    import pandas as _pandas
except ImportError as error:
    raise ImportError("the laboratory's results are data frames: pip install pandas") from error

from ._outlast import Error

__all__ = ["Results", "bench", "check", "command", "compare", "crash", "reproduce", "run", "sim"]


def command():
    """The program that runs: ``OUTLAST_COMMAND``, the one beside this Python, or the first on the path."""
    named = _os.environ.get("OUTLAST_COMMAND")
    if named:
        return named
    beside = _os.path.join(_os.path.dirname(_sys.executable), "outlast")
    found = beside if _os.access(beside, _os.X_OK) else _shutil.which("outlast")
    if found is None:
        raise FileNotFoundError("no command 'outlast' on the path: OUTLAST_COMMAND names it")
    return found


class Results(_pandas.DataFrame):
    """Records of a run, a row for each figure: ``metric``, ``value``, ``unit``, and what it is of.

    ``attrs`` has the command, the machine, the seed, and the unit of each metric. A ``verdict`` of ``"bad"`` says that a
    check has found damage or a loss.
    """

    @property
    def _constructor(self):
        return Results

    @classmethod
    def of(cls, document, verdict="good"):
        """The results of a document that the command has printed."""
        results = cls(document.get("records", []))
        attrs = {name: value for name, value in document.items() if name != "records"}
        if {"metric", "unit"} <= set(results.columns):
            pairs = results[["metric", "unit"]].dropna().drop_duplicates()
            attrs["units"] = dict(zip(pairs["metric"], pairs["unit"]))
        attrs["verdict"] = verdict
        results.attrs = attrs
        return results

    def wide(self, metric=None, index="workload", columns="scheme"):
        """One metric as a table, by workload and scheme, or by other columns."""
        metric = self._metric(metric)
        rows = self[self["metric"] == metric]
        table = rows.pivot_table(index=index, columns=columns, values="value", sort=False)
        table.attrs = {**self.attrs, "unit": self.attrs.get("units", {}).get(metric, "")}
        return table

    def figure(self, metric=None, index="workload", columns="scheme", ax=None):
        """Bars of one metric, with quartiles where the records have them; Matplotlib's axes."""
        from matplotlib import pyplot

        metric = self._metric(metric)
        table = self.wide(metric, index, columns)
        axes = ax if ax is not None else pyplot.subplots(figsize=(8, 4))[1]
        rows = self[self["metric"] == metric]
        errors = None
        if {"p25", "p75"} <= set(rows.columns) and rows["p25"].notna().all():
            low, high = (
                rows.pivot_table(index=index, columns=columns, values=side, sort=False)
                for side in ("p25", "p75")
            )
            errors = [[table[name] - low[name], high[name] - table[name]] for name in table.columns]
        _pandas.DataFrame(table).plot.bar(ax=axes, yerr=errors, capsize=2, rot=0)
        unit = table.attrs["unit"]
        axes.set_ylabel(f"{metric} ({unit})" if unit else metric)
        axes.set_xlabel("")
        return axes

    def _metric(self, metric):
        names = list(dict.fromkeys(self.get("metric", [])))
        if metric is None and names:
            return "throughput" if "throughput" in names else names[0]
        if metric not in names:
            raise KeyError(f"no metric {metric!r}: there are {', '.join(names)}")
        return metric


def _words(options):
    words = []
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, dict):
            for key, part in value.items():
                words += [flag, f"{key}={part}"]
        elif isinstance(value, (list, tuple)):
            words += [flag, ",".join(map(str, value))]
        else:
            words += [flag, str(value)]
    return words


def run(*words, program=None, progress=False, timeout=None, **options):
    """Runs a command of ``outlast`` with ``--json``; its :class:`Results`.

    Bad input is a :class:`ValueError` with the command's line. ``program`` is what ``check`` runs, a list of words. With
    ``progress`` the command tells on standard error how far it is.
    """
    line = [command(), *map(str, words), *_words(options), "--json"]
    if program is not None:
        line += ["--", *map(str, program)]
    said = None if progress else _subprocess.PIPE
    done = _subprocess.run(line, stdout=_subprocess.PIPE, stderr=said, text=True, timeout=timeout)
    if done.returncode not in (0, 1):
        last = (done.stderr or "").strip().splitlines() or [f"exit status {done.returncode}"]
        kind = ValueError if done.returncode == 2 else Error
        raise kind(last[-1].removeprefix("outlast: "))
    try:
        document = _json.loads(done.stdout)
    except ValueError:
        raise Error(f"no results: {(done.stderr or done.stdout).strip()}") from None
    return Results.of(document, "bad" if done.returncode else "good")


def sim(work, scheme=None, config=None, set=None, seed=1, **options):
    """Runs a workload, program or stream on the timed machine: ``outlast sim``. Values are of simulated time."""
    return run("sim", work, scheme=scheme, config=config, set=set, seed=seed, **options)


def compare(work=None, scheme=None, seed=1, **options):
    """Every scheme that applies on the same work: ``outlast compare``."""
    return run("compare", *([] if work is None else [work]), scheme=scheme, seed=seed, **options)


def bench(work, scheme=None, seed=1, **options):
    """Measures schemes on this machine, in turns: ``outlast bench``."""
    names = str(work) if isinstance(work, (str, _os.PathLike)) else ",".join(map(str, work))
    return run("bench", names, scheme=scheme, seed=seed, **options)


def crash(work, scheme=None, seed=1, **options):
    """Crashes a workload at its points, recovers, and judges: ``outlast crash``."""
    return run("crash", work, scheme=scheme, seed=seed, **options)


def check(program, dir, then, seed=1, **options):
    """Crashes any program that writes files: ``outlast check``. ``program`` is a list of words, ``then`` the command that
    has it recover and judges."""
    return run("check", program=program, dir=dir, then=then, seed=seed, **options)


def reproduce(paper, figure=None, scale="quick", seed=1, **options):
    """A paper's figures again, claimed and measured: ``outlast reproduce``."""
    return run("reproduce", paper, figure=figure, scale=scale, seed=seed, **options)
