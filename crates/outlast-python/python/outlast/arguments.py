"""Types of the laboratory's arguments, for the annotations of a program that hands them on.

>>> from typing import Any
>>> from outlast.arguments import MachineLike, Settings, WorkLike
>>> def on_slow_memory(work: WorkLike, machine: MachineLike, **options: Any) -> outlast.Results:
...     settings: Settings = {"memory.tWR": ["150 ns", "500 ns"]}
...     return outlast.sim(work, config=machine, set=settings, **options)
...
>>> runs = on_slow_memory("hash", "tiny", scheme="swift", transactions=200, keys=500)
>>> runs.wide("throughput", index="memory.tWR").index.tolist()
['150 ns', '500 ns']

Options that a program keeps in a dictionary or hands on are ``dict[str, Any]`` and ``**options: Any``, since each has a type of
its own. This module imports neither pandas nor NumPy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, TypeAlias, TypeVar

from .machine import Machine
from .work import Work

if TYPE_CHECKING:
    from .results import Results

__all__ = ["Client", "Function", "Grid", "MachineLike", "Option", "Path", "Progress", "Settings", "Value", "WorkLike", "Words"]

_T = TypeVar("_T", covariant=True)

#: A file or folder.
Path: TypeAlias = str | os.PathLike[str]

#: A workload's name, a file ``.work``, or transactions of one's own.
WorkLike: TypeAlias = Work | str | os.PathLike[str]

#: A preset's name, a machine file ``.toml``, or a machine with changes.
MachineLike: TypeAlias = Machine | str | os.PathLike[str]

#: A value of a machine's key or of an option: text with its unit, a number (NumPy's, too) or a truth value.
Value: TypeAlias = str | float | SupportsIndex

#: Keys that ``set=`` changes, each with a :data:`Value` or a list of them: one run for each.
Settings: TypeAlias = Mapping[str, object]

#: An option of the command: a value, or a list of them that is joined by commas. ``True`` sets a flag; ``None`` and ``False``
#: leave it out.
Option: TypeAlias = Value | os.PathLike[str] | Sequence[Value | os.PathLike[str]] | Settings | None

#: Arguments of a sweep by name, each with a value or a list of values.
Grid: TypeAlias = Mapping[str, object]

#: A function of :mod:`outlast.lab` that returns results.
Function: TypeAlias = Callable[..., "Results"]

#: Called with the points that are done, all points, and the seconds since the start; ``True`` prints them on standard error.
Progress: TypeAlias = Callable[[int, int, float], object] | bool


class Words(Protocol[_T]):
    """Several words, as a list or tuple: a text alone is none."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[_T]: ...
    # The text's own takes texts alone: that tells the two apart.
    def __contains__(self, word: object, /) -> bool: ...
    def __reversed__(self) -> Iterator[_T]: ...


class Client(Protocol):
    """The methods of Dask's ``distributed.Client`` that a sweep calls."""

    def map(self, function: Any, /, *iterables: Any, pure: bool, retries: int) -> Any:
        """Futures of a function's calls, one for each item of the iterables."""

    def scatter(self, data: Any, /, *, broadcast: bool) -> Any:
        """Moves data to the workers."""

    def nthreads(self) -> Any:
        """The threads of each worker."""
