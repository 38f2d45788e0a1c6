"""The laboratory as functions: each runs one command of ``outlast`` and returns its records as a data frame.

>>> import outlast
>>> runs = outlast.sim("hash", scheme=["swift", "undo"], transactions=300, keys=1000)
>>> runs.wide("throughput").shape, runs.units["throughput"]
((1, 2), 'tx/s')
>>> axes = runs.plot()

Options have the names of the command's, with underscores: ``lane_bytes=65536`` is ``--lane-bytes 65536``, ``shared=True`` is
``--shared``, and ``set={"core.count": 4}`` is ``--set core.count=4``. A list is joined by commas. ``outlast sim --help`` has the
options of :func:`sim`, and so on. A machine is a preset's name, a file, or a :class:`Machine`; a work is a workload's name,
a file ``.work``, or a :class:`outlast.work.Work`.

Every function raises :class:`ValueError` with the command's line for bad input, :class:`TypeError` for an option of a type that
no option has, :class:`outlast.Error` when the command fails, and :class:`FileNotFoundError` where there is none. Those that run
something take ``timeout`` (seconds of this host, then :class:`subprocess.TimeoutExpired`), ``cwd``, the folder that the command
runs in, and ``progress``, with which the command tells on standard error how far it is.
"""

from __future__ import annotations

import json as _json
import os as _os
import shutil as _shutil
import subprocess as _subprocess
import sys as _sys
import tempfile as _tempfile
from collections.abc import Iterable, Mapping, Sequence
from numbers import Number as _Number
from typing import TYPE_CHECKING, Any, Literal

from ._outlast import Error
from .machine import Machine
from .results import Results, read
from .work import folder as _work_folder

if TYPE_CHECKING:
    from .arguments import MachineLike, Option, Path, Settings, Words, WorkLike
    from .crashed import Image, Page

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
    """The program that runs: ``OUTLAST_COMMAND``, the one beside this Python, or the first on the path.

    Raises :class:`FileNotFoundError` where there is none.
    """
    named = _os.environ.get("OUTLAST_COMMAND")
    if named:
        return named
    beside = _os.path.join(_os.path.dirname(_sys.executable), "outlast")
    found = beside if _os.access(beside, _os.X_OK) else _shutil.which("outlast")
    if found is None:
        raise FileNotFoundError("no command 'outlast' on the path: OUTLAST_COMMAND names it")
    return found


def _words(options: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if getattr(value, "shape", None) == ():
            value = value.item()
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            for key, part in value.items():
                words += [flag, f"{key}={_value(part)}"]
        elif _is_several(value) or isinstance(value, (str, _os.PathLike, _Number)):
            text = _value(value)
            # One that begins with a dash is a value all the same.
            words += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
        else:
            raise TypeError(f"{name}={value!r}: expected text, a number, a truth value, or a list of them")
    return words


def _value(value: Any) -> str:
    # Several values of a key are one run each.
    texts = [str(part) for part in (value if _is_several(value) else [value])]
    return ",".join({"True": "true", "False": "false"}.get(text, text) for text in texts)


def _is_several(value: Any) -> bool:
    """A list, a range, an array and the like; no text, no object of the package, and no set, which has no order."""
    is_one = isinstance(value, (str, bytes, Mapping, Machine, frozenset, type({0}))) or getattr(value, "shape", None) == ()
    return isinstance(value, Iterable) and not is_one


def run(
    *words: str | int | _os.PathLike[str],
    program: Words[Path] | None = None,
    progress: bool = False,
    timeout: float | None = None,
    cwd: Path | None = None,
    machine: MachineLike | None = None,
    config: MachineLike | None = None,
    **options: Option,
) -> Results:
    """Runs a command of ``outlast`` with ``--json``; its :class:`Results`.

    ``program`` has the words of the program that ``check`` runs. ``machine`` and ``config`` are the same option.

    >>> from outlast import lab
    >>> lab.run("sim", "hash", scheme="swift", transactions=300, keys=1000)["scheme"].unique().tolist()
    ['swift']
    >>> lab.run("sim", "hash", scheme="swiftly")
    Traceback (most recent call last):
    ValueError: ...'swiftly'...
    """
    return _results(words, {"config": config, **options}, program, machine, progress, timeout, cwd)


def _results(
    words: Iterable[object],
    options: Mapping[str, Any],
    program: Words[Path] | None = None,
    machine: MachineLike | None = None,
    progress: bool = False,
    timeout: float | None = None,
    cwd: Path | None = None,
) -> Results:
    status, found = _told(words, {**options, "machine": machine}, program, progress, timeout, cwd)
    return Results.of(found, "bad" if status else "good")


def _told(
    words: Iterable[object],
    options: Mapping[str, Any],
    program: Words[Path] | None = None,
    progress: bool = False,
    timeout: float | None = None,
    cwd: Path | None = None,
) -> tuple[int, dict[str, Any]]:
    """The exit status and the document of a command."""
    options = dict(options)
    machine, config = options.pop("machine", None), options.pop("config", None)
    if machine is not None and config is not None:
        raise ValueError("machine and config are both given: they name one machine")
    machine = config if machine is None else machine
    if _is_several(machine):
        raise ValueError("a run is on one machine: sweep runs several")
    if not isinstance(machine, Machine):
        options["config"], machine = machine, None
    with _tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        names: dict[str, str] = {}
        if machine is not None:
            of_machine, path = machine.words(folder)
            names = {path: machine.name} if path else {}
            words = (*words, *of_machine)
        line = [*map(str, words), *_words(options)]
        return _run(line, program, progress, timeout, cwd, names)


def document(words: Iterable[object], names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The JSON document that a command prints, as dictionaries and lists. ``names`` are texts to put in place of others.

    >>> from outlast import lab
    >>> sorted(lab.document(["schemes"]))
    ['command', 'machine', 'outlast', 'records', 'seed']
    """
    return _run(list(map(str, words)), names=names)[1]


def _run(
    words: Iterable[object],
    program: Words[Path] | None = None,
    progress: bool = False,
    timeout: float | None = None,
    cwd: Path | None = None,
    names: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, Any]]:
    line = [command(), *map(str, words), "--json"]
    if isinstance(program, (str, bytes)):
        raise TypeError(f"program={program!r}: expected a list of words, such as ['./engine', 'data']")
    if program is not None:
        line += ["--", *map(str, program)]
    said = None if progress else _subprocess.PIPE
    try:
        done = _subprocess.run(line, stdout=_subprocess.PIPE, stderr=said, text=True, timeout=timeout, cwd=cwd)
    except _subprocess.TimeoutExpired:
        raise TimeoutError(f"outlast {line[1]} did not end within {timeout} s") from None
    told, printed = (done.stderr or "").strip(), done.stdout
    for text, name in (names or {}).items():
        told, printed = told.replace(text, name), printed.replace(_json.dumps(text)[1:-1], name)
    if done.returncode not in (0, 1):
        lines = told.splitlines() or [f"exit status {done.returncode}"]
        wrong = next((text for text in lines if text.startswith(("outlast: ", "error: "))), lines[-1])
        kind = ValueError if done.returncode == 2 else Error
        raise kind(wrong.removeprefix("outlast: ").removeprefix("error: "))
    try:
        return done.returncode, _with_names(_json.loads(printed))
    except ValueError:
        raise Error(f"no results: {told or printed.strip()}") from None


def _with_names(document: dict[str, Any]) -> dict[str, Any]:
    """A document in which a :class:`Work` has its name, and not the file that it was given in, which each user has elsewhere."""
    if isinstance(document, dict):
        for record in (*document.get("records", ()), *document.get("failures", ())):
            if "workload" in record:
                record["workload"] = _named(record["workload"])
    return document


def _named(workload: str | None) -> str | None:
    folder, name = _os.path.split(workload or "")
    return name.removesuffix(".work") if folder and folder == str(_work_folder()) else workload


def sim(
    work: WorkLike,
    scheme: str | Sequence[str] | None = None,
    config: MachineLike | None = None,
    set: Settings | None = None,
    seed: int = 1,
    *,
    machine: MachineLike | None = None,
    progress: bool = False,
    timeout: float | None = None,
    cwd: Path | None = None,
    **options: Option,
) -> Results:
    """Runs a workload, program or stream on the timed machine: ``outlast sim``.

    A row for each scheme and metric: ``workload``, ``scheme``, ``machine``, ``guarantee``, ``metric``, ``value``, ``unit`` and the
    sizes of the run. Values are of simulated time, ``throughput`` in tx/s and latencies in ns; ``sim_speed`` alone is of this
    host. The same arguments give the same values everywhere.

    ``set`` changes keys of the machine. A list of values runs each of them, and the key is a column of the frame.
    ``machine`` and ``config`` are the same option. ``lab.run("sim", trace=FILE)`` runs a trace in place of a work.

    >>> small = {"transactions": 300, "keys": 1000}
    >>> runs = outlast.sim("hash", scheme="swift", set={"core.rob": [64, 224]}, **small)
    >>> runs.wide("throughput", index="core.rob").index.tolist(), runs.units["latency_p99"]
    ([64, 224], 'ns')
    """
    given = {"scheme": scheme, "config": config, "set": set, "seed": seed, **options}
    return _results(["sim", work], given, None, machine, progress, timeout, cwd)


def compare(
    work: WorkLike | None = None,
    scheme: str | Sequence[str] | None = None,
    config: MachineLike | None = None,
    set: Settings | None = None,
    seed: int = 1,
    out: Path | None = None,
    *,
    machine: MachineLike | None = None,
    progress: bool = False,
    timeout: float | None = None,
    cwd: Path | None = None,
    **options: Option,
) -> Results:
    """Every scheme that applies on the same work, on the timed machine: ``outlast compare``.

    Rows as those of :func:`sim`. Plain memory (``non-pers``) always runs; ``speed_over_plain`` is a scheme's throughput over
    that of plain memory. ``lost`` and ``torn`` count wrong recoveries; ``recovery_host_time`` is of this host. ``out`` is a folder
    for its page, if that is wanted.

    >>> sides = outlast.compare("hash", scheme=["fwb", "undo-clwb"], transactions=100, footprint="64K")
    >>> sides["scheme"].unique().tolist(), sides.units["speed_over_plain"]
    (['non-pers', 'fwb', 'undo-clwb'], 'ratio')
    """
    words = [] if work is None else [work]
    with _tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        given = {**options, "scheme": scheme, "config": config, "set": set, "seed": seed, "out": out or folder}
        return _results(["compare", *words], given, None, machine, progress, timeout, cwd)


def bench(
    work: WorkLike | Sequence[WorkLike],
    scheme: str | Sequence[str] | None = None,
    seed: int = 1,
    *,
    progress: bool = False,
    timeout: float | None = None,
    cwd: Path | None = None,
    **options: Option,
) -> Results:
    """Measures the runtime's schemes on this host, in turns: ``outlast bench``.

    A row for each scheme and metric, its ``value`` the median of ``rounds`` and ``p25`` and ``p75`` its quartiles, in ``unit``:
    ``throughput`` in tx/s, ``tx_time`` and latencies in ns.

    >>> runs = outlast.bench("words", scheme="swift", domain="process", rounds=2, turn_ms=1)
    >>> {"value", "p25", "p75", "rounds"} <= {*runs.columns}, runs.units["tx_time"]
    (True, 'ns')
    """
    names = str(work) if isinstance(work, (str, _os.PathLike)) else ",".join(map(str, work))
    given = {"scheme": scheme, "seed": seed, **options}
    return _results(["bench", names], given, None, None, progress, timeout, cwd)


def crash(
    work: WorkLike,
    scheme: str | Sequence[str] | None = None,
    seed: int = 1,
    points: int | Literal["all"] | None = None,
    config: MachineLike | None = None,
    set: Settings | None = None,
    machine: MachineLike | None = None,
    *,
    progress: bool = False,
    timeout: float | None = None,
    cwd: Path | None = None,
    **options: Option,
) -> Results:
    """Crashes a workload at ``points`` of its run, recovers, and judges.

    Schemes of the runtime run on models of caches (``outlast crash``), schemes of the machine on the timed machine
    (``outlast sim --crash``; there caches of a few lines and a small program where nothing else is said).

    Rows count, for each scheme and ``policy`` or ``machine``, ``images_verified``, ``lost`` and ``torn``; of the runtime's schemes
    also ``crash_points`` and ``uncorrectable``. ``attrs["verdict"]`` is ``"bad"`` where one failed, and the first failing points
    are :attr:`Results.failures`. A finding is no error. A ``machine``, ``config`` or ``set`` with a scheme of the runtime is a
    :class:`ValueError`.

    >>> judged = outlast.crash("words", scheme="swift", transactions=40, points=60, policy="lru")
    >>> judged.attrs["verdict"], len(judged.failures), judged["metric"].tolist()[:3]
    ('good', 0, ['crash_points', 'images_verified', 'lost'])
    """
    words, given = _crash_options(work, scheme, seed, points, config, set, machine, options)
    return _results(words, given, None, given.pop("machine", None), progress, timeout, cwd)


def _crash_options(
    work: WorkLike,
    scheme: str | Sequence[str] | None,
    seed: int,
    points: int | Literal["all"] | None,
    config: MachineLike | None,
    set: Settings | None,
    machine: MachineLike | None,
    options: Mapping[str, Any],
) -> tuple[list[object], dict[str, Any]]:
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


def _is_of_machine(scheme: str | Sequence[str] | None) -> bool:
    names = [scheme] if isinstance(scheme, str) else scheme or []
    names = [part for name in names for part in name.split(",")]
    kinds = {name: _kinds(command()).get(name) for name in names}
    if {"machine", "runtime"} <= set(kinds.values()):
        told = " and ".join(f"{', '.join(name for name in names if kinds[name] == kind)} of the {kind}" for kind in ("runtime", "machine"))
        raise ValueError(f"{told} crash in two ways: give one kind, and the other in a call of its own")
    return set(kinds.values()) == {"machine"}


#: Of each command the kinds of its schemes.
_KINDS: dict[str, dict[str, str]] = {}


def _kinds(program: str) -> dict[str, str]:
    if program not in _KINDS:
        _KINDS[program] = {row["scheme"]: row["of"] for row in document(["schemes"])["records"]}
    return _KINDS[program]


def schemes() -> Results:
    """All schemes, a row each: ``scheme``, ``of`` (``runtime`` or ``machine``), the ``guarantee`` that it gives, ``description``.

    >>> known = outlast.schemes().set_index("scheme")
    >>> known.loc["swift", ["of", "guarantee"]].tolist()
    ['runtime', 'durable']
    """
    return Results(document(["schemes"])["records"])


def workloads() -> Results:
    """All workloads, a row each: ``workload``, ``of`` (``runtime`` or ``machine``), ``description``, the ``scale`` as published.

    >>> "hash" in set(outlast.workloads()["workload"])
    True
    """
    return Results(document(["workloads"])["records"])


def image(
    work: WorkLike,
    scheme: str,
    point: int | str | tuple[int, int | None] | None = None,
    policy: str | Sequence[str] | None = None,
    caches: str | Sequence[str] | None = None,
    seed: int = 1,
    config: MachineLike | None = None,
    set: Settings | None = None,
    machine: MachineLike | None = None,
    *,
    points: int | Literal["all"] | None = None,
    **options: Option,
) -> Image:
    """One crash to look at, an :class:`outlast.crashed.Image`: the bytes, the journal, the recovery, and a page.

    ``point`` is a crash point, as :attr:`Results.failures` has them. For schemes of the runtime that is ``crash_op``:
    operations, or ``"1234+2"`` with two lines of the next operation; ``policy`` and ``caches`` are of these. For schemes of
    the machine it is ``crash_entry``, or the pair of it and ``resume_entry``; ``config``, ``set`` and ``machine`` are of
    these. Without it the first failing one of ``points`` is shown. Where none fails, and for a point behind the run's end, it
    is a :class:`ValueError`.

    >>> image = outlast.image("hash", "undo", point=400, keys=200, transactions=60)
    >>> image.crashed.dtype, image.lines().shape[1], image.wrong
    (dtype('uint8'), 64, None)
    >>> outlast.image("hash", "redu", point=40)
    <Image hash under redu, crash before entry 40: nothing is wrong>
    """
    from .crashed import Image

    if not isinstance(scheme, str) or "," in scheme:
        raise ValueError(f"an image is of one scheme, and not of {scheme!r}")
    words, given = _crash_options(work, scheme, seed, points, config, set, machine, options)
    if _is_of_machine(scheme):
        if policy is not None or caches is not None:
            raise ValueError("policy and caches are of the runtime's schemes: those of the machine crash on a machine")
        if point is not None:
            entry, resumed = point if isinstance(point, (tuple, list)) and len(point) == 2 else (point, None)
            # A frame of failures has NaN where a crash is not one of a recovery.
            resumed = None if resumed is None or resumed != resumed else _entry(resumed)
            given.update(crash=None, crash_entry=_entry(entry), resume_entry=resumed)
    else:
        given.update(_of_point(scheme, point, policy, caches, seed))
    with _tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        _told(words, {**given, "keep": folder})
        found = Image(folder)
    found.attrs["workload"] = _named(found.attrs["workload"])
    return found


def _entry(value: Any) -> int:
    """An entry of the journal; a float where it is of a frame."""
    try:
        entry = int(value)
        if float(value) == entry:
            return entry
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{value!r} is no entry of the journal: a whole number is one, or a pair of two")


def _of_point(
    scheme: str,
    point: int | str | tuple[int, int | None] | None,
    policy: str | Sequence[str] | None,
    caches: str | Sequence[str] | None,
    seed: int,
) -> dict[str, Any]:
    return {"scheme": scheme, "crash_op": point, "policy": policy, "caches": caches, "seed": seed}


def explain(
    work: WorkLike | None = None,
    scheme: str | None = None,
    plant: str | None = None,
    policy: str = "any",
    seed: int = 1,
    **options: Option,
) -> Page:
    """Explained crashes as the explorer's page, an :class:`outlast.crashed.Page`: of a paper's flaw (``"ARC-2"``), a planted bug
    (``plant=``), or a scope. In a notebook it is shown at once; ``save("page.html")`` writes it.

    >>> page = outlast.explain(plant="flush-wrong-address", scheme="undo")
    >>> "flush-wrong-address" in page.html
    True
    """
    from .crashed import Page

    words = ["crash", *([] if work is None else [work]), "--explain", "--policy", policy]
    with _tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        file = _os.path.join(folder, "explained.html")
        _run([*words, *_words({"scheme": scheme, "plant": plant, "seed": seed, **options}), "--html", file])
        with open(file, encoding="utf-8") as page:
            return Page(page.read())


def check(
    program: Words[Path] | None,
    dir: Path | None,
    then: str | None,
    seed: int = 1,
    *,
    progress: bool = False,
    timeout: float | None = None,
    cwd: Path | None = None,
    **options: Option,
) -> Results:
    """Crashes any program that writes files, and has it recover: ``outlast check``.

    ``program`` is a list of words, ``dir`` the directory that it keeps its files in, ``then`` a line of the shell that recovers
    and judges: status 0 where the state is right. In it ``{}`` is the directory of a state. With ``judge=`` or ``server=`` in its
    place ``then`` is ``None``; with ``run=FILE``, a run that ``save=FILE`` has kept, ``program`` and ``dir`` are.

    A row for each finding: its ``class``, the first failing ``state`` and the ``count`` of them, the write that it lost (``lost``)
    and a later one that it kept (``kept``), the ``remedy``, ``wrong``, the check's answer, and the command that shows it again
    (``replay``). Where no state fails there is no row. ``attrs`` has the ``verdict``, and counts of the crash ``moments``, of the
    ``exhausted`` ones, whose states were all tried, and of ``states``, which have ``distinct`` contents. ``cut_short`` is whether
    the budget ended it. A system that refuses to trace is a :class:`ValueError`.

    >>> import tempfile
    >>> data = tempfile.mkdtemp()
    >>> program = ["/bin/sh", "-c", 'echo I 1; echo one >"$0/log"; echo A 1', data]
    >>> found = outlast.check(program, data, "[ $OUTLAST_ACKED = 0 ] || grep -q one {}/log")
    >>> found.attrs["verdict"], sorted(found["class"])
    ('bad', ['directory not synced', 'file not synced'])
    """
    given = {"dir": dir, "then": then, "seed": seed, **options}
    return _results(["check"], given, program, None, progress, timeout, cwd)


def reproduce(
    paper: str,
    figure: str | Sequence[str] | None = None,
    scale: Literal["quick", "full"] = "quick",
    seed: int = 1,
    out: Path | None = None,
    *,
    progress: bool = False,
    timeout: float | None = None,
    cwd: Path | None = None,
    **options: Option,
) -> Results:
    """A paper's figures again, claimed and measured: ``outlast reproduce``. ``"quick"`` takes minutes, ``"full"`` hours.

    Rows of ``kind`` ``"claim"`` have a paper's ``claim``, its ``paper_value`` and the measured ``value`` in ``unit``, and the
    ``verdict``: ``reached``, ``not_reached``, ``contradictory`` or ``not_testable``. The others are the measurements.
    ``out`` is a folder for its page, if that is wanted.

    >>> outlast.reproduce("ehou", figure="assumptions").plot()                         # doctest: +SKIP
    """
    with _tempfile.TemporaryDirectory(prefix="outlast-") as folder:
        given = {"figure": figure, "scale": scale, "seed": seed, "out": out or folder, **options}
        return _results(["reproduce", paper], given, None, None, progress, timeout, cwd)
