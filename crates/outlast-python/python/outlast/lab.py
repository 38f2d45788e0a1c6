"""The laboratory as functions: each runs one command of ``outlast`` and returns its records as a data frame.

>>> import outlast                                                          # doctest: +SKIP
>>> runs = outlast.sim("hash", scheme=["swift", "undo"])                    # doctest: +SKIP
>>> runs.wide("throughput")                                                 # doctest: +SKIP
>>> runs.plot()                                                             # doctest: +SKIP

Options have the names of the command's, with underscores: ``lane_bytes=65536`` is ``--lane-bytes 65536``, ``shared=True`` is
``--shared``, and ``set={"core.count": 4}`` is ``--set core.count=4``. A machine is a preset's name, a file, or a
:class:`Machine`.
"""

from __future__ import annotations

import functools as _functools
import json as _json
import os as _os
import shutil as _shutil
import subprocess as _subprocess
import sys as _sys
import tempfile as _tempfile

from ._outlast import Error
from .machine import Machine
from .results import Results, read

__all__ = [
    "Machine",
    "Results",
    "bench",
    "check",
    "command",
    "compare",
    "crash",
    "document",
    "explain",
    "image",
    "read",
    "reproduce",
    "run",
    "schemes",
    "sim",
    "workloads",
]


def command() -> str:
    """The program that runs: ``OUTLAST_COMMAND``, the one beside this Python, or the first on the path."""
    named = _os.environ.get("OUTLAST_COMMAND")
    if named:
        return named
    beside = _os.path.join(_os.path.dirname(_sys.executable), "outlast")
    found = beside if _os.access(beside, _os.X_OK) else _shutil.which("outlast")
    if found is None:
        raise FileNotFoundError("no command 'outlast' on the path: OUTLAST_COMMAND names it")
    return found


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
                words += [flag, f"{key}={_value(part)}"]
        elif isinstance(value, (list, tuple)):
            words += [flag, ",".join(map(str, value))]
        else:
            words += [flag, str(value)]
    return words


def _value(value):
    # Several values of a key are one run each.
    values = value if isinstance(value, (list, tuple)) else [value]
    return ",".join({True: "true", False: "false"}.get(part, str(part)) if isinstance(part, bool) else str(part) for part in values)


def run(*words, program=None, progress=False, timeout=None, cwd=None, machine=None, **options) -> Results:
    """Runs a command of ``outlast`` with ``--json``; its :class:`Results`.

    Bad input is a :class:`ValueError` with the command's line. ``program`` is what ``check`` runs, a list of words. With
    ``progress`` the command tells on standard error how far it is. ``machine`` and ``config`` take a :class:`Machine`.
    """
    status, found = _told(words, {**options, "machine": machine}, program, progress, timeout, cwd)
    return Results.of(found, "bad" if status else "good")


def _told(words, options, program=None, progress=False, timeout=None, cwd=None):
    """The exit status and the document of a command."""
    machine = options.pop("machine", None)
    if isinstance(options.get("config"), Machine):
        machine = options.pop("config") if machine is None else machine
    if machine is not None and not isinstance(machine, Machine):
        options["config"], machine = machine, None
    with _tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        names = {}
        if machine is not None:
            of_machine, path = machine.words(folder)
            names = {path: machine.name} if path else {}
            words = (*words, *of_machine)
        line = [*map(str, words), *_words(options)]
        return _run(line, program, progress, timeout, cwd, names)


def document(words, names=None) -> dict:
    """The JSON document that a command prints, as dictionaries and lists. ``names`` are texts to put in place of others."""
    return _run(list(map(str, words)), names=names or {})[1]


def _run(words, program=None, progress=False, timeout=None, cwd=None, names=None):
    line = [command(), *map(str, words), "--json"]
    if program is not None:
        line += ["--", *map(str, program)]
    said = None if progress else _subprocess.PIPE
    done = _subprocess.run(line, stdout=_subprocess.PIPE, stderr=said, text=True, timeout=timeout, cwd=cwd)
    told, printed = (done.stderr or "").strip(), done.stdout
    for text, name in (names or {}).items():
        told, printed = told.replace(text, name), printed.replace(_json.dumps(text)[1:-1], name)
    if done.returncode not in (0, 1):
        lines = told.splitlines() or [f"exit status {done.returncode}"]
        wrong = next((text for text in lines if text.startswith(("outlast: ", "error: "))), lines[-1])
        kind = ValueError if done.returncode == 2 else Error
        raise kind(wrong.removeprefix("outlast: ").removeprefix("error: "))
    try:
        return done.returncode, _json.loads(printed)
    except ValueError:
        raise Error(f"no results: {told or printed.strip()}") from None


def sim(work, scheme=None, config=None, set=None, seed=1, **options) -> Results:
    """Runs a workload, program or stream on the timed machine: ``outlast sim``. Values are of simulated time.

    ``set`` changes keys of the machine; a list of values runs each of them, and the key is a column of the frame.
    """
    return run("sim", work, scheme=scheme, config=config, set=set, seed=seed, **options)


def compare(work=None, scheme=None, config=None, set=None, seed=1, out=None, **options) -> Results:
    """Every scheme that applies on the same work: ``outlast compare``. ``out`` is a folder for its page, if that is wanted."""
    words = [] if work is None else [work]
    with _tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        options.update(scheme=scheme, config=config, set=set, seed=seed, out=out or folder)
        return run("compare", *words, **options)


def bench(work, scheme=None, seed=1, **options) -> Results:
    """Measures schemes on this machine, in turns: ``outlast bench``."""
    names = str(work) if isinstance(work, (str, _os.PathLike)) else ",".join(map(str, work))
    return run("bench", names, scheme=scheme, seed=seed, **options)


def crash(work, scheme=None, seed=1, points=None, config=None, set=None, machine=None, **options) -> Results:
    """Crashes a workload at ``points`` of its run, recovers, and judges.

    Schemes of the runtime run on models of caches (``outlast crash``), schemes of the machine on the timed machine
    (``outlast sim --crash``; there caches of a few lines and a small program where nothing else is said). The first failing
    points are ``failures`` of the results.
    """
    words, options = _crash_options(work, scheme, seed, points, config, set, machine, options)
    return run(*words, **options)


def _crash_options(work, scheme, seed, points, config, set, machine, options):
    """The words and options of the command that crashes schemes of the runtime, or of the machine."""
    if not _is_of_machine(scheme):
        if config is not None or set is not None or machine is not None:
            raise ValueError("the runtime's schemes crash on models of caches: give policy and caches, and no machine")
        return ["crash", work], {"scheme": scheme, "seed": seed, "points": points, **options}
    name = str(work)
    # A file says itself how much it runs and touches.
    is_file = name.endswith(".work") or "/" in name
    small = options if is_file else {"transactions": 80, "footprint": "2K", **options}
    machine = machine if machine is not None else config if config is not None else "tiny"
    crash = {"crash": "all" if points is None else points, "machine": machine, "set": set}
    return ["sim", work], {"scheme": scheme, "seed": seed, **crash, **small}


def _is_of_machine(scheme):
    names = [scheme] if isinstance(scheme, str) else scheme or []
    names = [part for name in names for part in name.split(",")]
    kinds = {_kinds(command()).get(name) for name in names}
    return kinds == {"machine"}


@_functools.cache
def _kinds(_command):
    return {row["scheme"]: row["of"] for row in document(["schemes"])["records"]}


def schemes() -> Results:
    """All schemes, with what each promises: a frame."""
    return Results(document(["schemes"])["records"])


def workloads() -> Results:
    """All workloads: a frame."""
    return Results(document(["workloads"])["records"])


def image(work, scheme, point=None, policy=None, caches=None, seed=1, config=None, set=None, machine=None, **options):
    """One crash to look at, an :class:`outlast.crashed.Image`: the bytes, the journal, the recovery, and a page.

    ``point`` is a crash point, as :attr:`Results.failures` has them. For schemes of the runtime that is ``crash_op``:
    operations, or ``"1234+2"`` with two lines of the next operation; ``policy`` and ``caches`` are of these. For schemes of
    the machine it is ``crash_entry``, or the pair of it and ``resume_entry``; ``config``, ``set`` and ``machine`` are of
    these. Without it the first failing point is shown; without a failing one that is a :class:`ValueError`.
    """
    from .crashed import Image

    words, options = _crash_options(work, scheme, seed, options.pop("points", None), config, set, machine, options)
    if _is_of_machine(scheme):
        if policy is not None or caches is not None:
            raise ValueError("policy and caches are of the runtime's schemes: those of the machine crash on a machine")
        if point is not None:
            entry, resumed = point if isinstance(point, tuple) else (point, None)
            resumed = None if resumed is None else int(resumed)
            options.update(crash=None, crash_entry=int(entry), resume_entry=resumed)
    else:
        options.update(_of_point(scheme, point, policy, caches, seed))
    with _tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        _told(words, {**options, "keep": folder})
        return Image(folder)


def _of_point(scheme, point, policy, caches, seed):
    return {"scheme": scheme, "crash_op": point, "policy": policy, "caches": caches, "seed": seed}


def explain(work=None, scheme=None, plant=None, policy="any", seed=1, **options):
    """Explained crashes as the explorer's page, an :class:`outlast.crashed.Page`: of a paper's flaw (``"ARC-2"``), a planted bug
    (``plant=``), or a scope. In a notebook it is shown at once."""
    from .crashed import Page

    words = ["crash", *([] if work is None else [work]), "--explain", "--policy", policy]
    with _tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        file = _os.path.join(folder, "explained.html")
        _run([*words, *_words({"scheme": scheme, "plant": plant, "seed": seed, **options}), "--html", file])
        with open(file, encoding="utf-8") as page:
            return Page(page.read())


def check(program, dir, then, seed=1, **options) -> Results:
    """Crashes any program that writes files: ``outlast check``; a row for each finding, none where no state fails.

    ``program`` is a list of words, ``then`` the command that has it recover and judges. ``attrs`` has how much was tried:
    ``states``, ``distinct``, ``moments``, ``exhausted``, ``cut_short``.
    """
    return run("check", program=program, dir=dir, then=then, seed=seed, **options)


def reproduce(paper, figure=None, scale="quick", seed=1, out=None, **options) -> Results:
    """A paper's figures again, claimed and measured: ``outlast reproduce``. ``out`` is a folder for its page, if wanted."""
    with _tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        return run("reproduce", paper, figure=figure, scale=scale, seed=seed, out=out or folder, **options)
