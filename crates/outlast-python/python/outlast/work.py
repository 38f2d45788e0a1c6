"""Transactions of one's own, as a workload under every scheme.

>>> from outlast.work import Work
>>> work = Work(memory=8192, lanes=2, name="transfer")
>>> work.init(0x40, 100, 100)
>>> with work.transaction(lane=0):
...     work.load(0x40, words=2)
...     work.think(20)
...     work.store(0x40, 90, 110)
...
>>> with work.transaction(lane=1):
...     work.store(0x1000, 1)
...
>>> len(work), work.memory()[8:10].tolist()
(2, [90, 110])
>>> Work.parse(work.text()) == work
True

``outlast.lab.sim(work, scheme="swift")`` and every other function of the laboratory take it where they take the name of a
workload; ``work.save("mine.work")`` writes the file that the command takes.
"""

from __future__ import annotations

import array as _array
import contextlib as _contextlib
import hashlib as _hashlib
import operator as _operator
import os as _os
import pathlib as _pathlib
import re as _re
import tempfile as _tempfile
from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal, SupportsIndex, TypeAlias, cast

__all__ = ["Work"]

_FIRST = "outlast-work 1"
_WORD = 8
_LINE = 64
_MEMORY_MAX = 32 << 20
_LANES_MAX = 8
_WORDS_MAX = _INIT_MAX = 512
_THINK_MAX = 1_000_000

_Step: TypeAlias = (
    tuple[Literal["load"], int, int] | tuple[Literal["store"], int, tuple[int, ...]] | tuple[Literal["think"], int]
)


class Work(_os.PathLike[str]):
    """Memory, lanes and transactions: what a file ``.work`` says.

    ``memory`` is in bytes, a multiple of 64, and zero at first. Addresses are in bytes from its start and multiples of
    8; values are integers of 64 bits, those below zero as their two's complement. Results call it by ``name`` and a digest of
    its content. Two of them with the same content are equal, and ``len`` counts the transactions. Wrong numbers are a
    :class:`ValueError` at once.
    """

    memory_bytes: int
    lanes: int
    name: str

    def __init__(self, memory: SupportsIndex, lanes: SupportsIndex = 1, name: str = "own") -> None:
        if not name or not all(letter.isalnum() or letter in "-_." for letter in name):
            raise ValueError(f"name {name!r}: letters, digits, '-', '_' and '.' are possible")
        self.memory_bytes = _limited("memory", memory, _LINE, _MEMORY_MAX, _LINE)
        self.lanes = _limited("lanes", lanes, 1, _LANES_MAX)
        self.name = name
        self._initial: dict[int, int] = {}
        self._transactions: list[tuple[int, list[_Step]]] = []
        self._open: list[_Step] | None = None
        self._digested: tuple[int, str] | None = None
        self._changes = 0

    def init(self, address: SupportsIndex, *values: SupportsIndex | Iterable[SupportsIndex]) -> None:
        """Says the first content of words, from an address on: integers, or arrays of them."""
        given, first = list(_values(values)), self._word(address)
        for word in (first, first + max(0, len(given) - 1)):
            self._inside(word, 1)
        self._initial.update(enumerate(given, first))
        self._changes += 1

    @_contextlib.contextmanager
    def transaction(self, lane: SupportsIndex = 0) -> Iterator[Work]:
        """A transaction of a lane: the loads and stores in its ``with``. An exception leaves it out.

        Transactions do not nest, and a lane is below ``lanes``: :class:`ValueError`.
        """
        lane = _operator.index(lane)
        if self._open is not None:
            raise ValueError("a transaction is open: they do not nest")
        if not 0 <= lane < self.lanes:
            raise ValueError(f"there is no lane {lane}: expected 0 to {self.lanes - 1}, or more lanes")
        self._open = []
        try:
            yield self
            self._transactions.append((lane, self._open))
            self._changes += 1
        finally:
            self._open = None

    def load(self, address: SupportsIndex, words: SupportsIndex = 1) -> None:
        """Loads words of 8 bytes from an address on. Outside of the memory, or of a transaction, it is a :class:`ValueError`."""
        words = _operator.index(words)
        self._step(("load", self._inside(self._word(address), words), words))

    def store(self, address: SupportsIndex, *values: SupportsIndex | Iterable[SupportsIndex]) -> None:
        """Stores words from an address on: integers, or arrays of them. Outside of the memory, or of a transaction, it is a
        :class:`ValueError`; a value that is no integer is a :class:`TypeError`."""
        found = tuple(_values(values))
        self._step(("store", self._inside(self._word(address), len(found)), found))

    def think(self, instructions: SupportsIndex) -> None:
        """Executes instructions that touch no persistent memory."""
        self._step(("think", _limited("think", instructions, 0, _THINK_MAX)))

    def memory(self) -> _array.array[int]:
        """The words of memory when all transactions have run one after the other: an array of type ``Q``, of which
        ``numpy.frombuffer(work.memory(), "uint64")`` makes NumPy's without a copy."""
        memory = _array.array("Q", bytes(self.memory_bytes))
        for word, value in self._initial.items():
            memory[word] = value
        for _, steps in self._transactions:
            for step in steps:
                if step[0] == "store":
                    memory[step[1] : step[1] + len(step[2])] = _array.array("Q", step[2])
        return memory

    def text(self) -> str:
        """The file's text."""
        lines = [_FIRST, f"memory {self.memory_bytes}", f"lanes {self.lanes}"]
        run: list[int] = []
        for word in sorted(word for word, value in self._initial.items() if value):
            if run and (word != run[-1] + 1 or len(run) == _INIT_MAX):
                lines.append(self._init_line(run))
                run = []
            run.append(word)
        if run:
            lines.append(self._init_line(run))
        for lane, steps in self._transactions:
            lines += ["", f"tx {lane}", *(f"  {_step_text(step)}" for step in steps), "end"]
        return "\n".join(lines) + "\n"

    def save(self, path: str | _os.PathLike[str]) -> None:
        """Writes the file; the command takes it by its name, which ends in ``.work``."""
        _pathlib.Path(path).write_text(self.text(), encoding="utf-8")

    @classmethod
    def read(cls, path: str | _os.PathLike[str]) -> Work:
        """The work of a file, named as the file. A line that is no line of the format is a :class:`ValueError` with its number."""
        path = _pathlib.Path(path)
        try:
            return cls.parse(path.read_text(encoding="utf-8"), path.stem)
        except ValueError as error:
            raise ValueError(f"{path}:{error}") from None

    @classmethod
    def parse(cls, text: str, name: str = "own") -> Work:
        """The work of a file's text. The command checks limits; this one what it needs to read it."""
        name = "".join(c if c.isalnum() or c in "-_." else "-" for c in name) or "own"
        work, number = None, 0
        for number, line in enumerate(text.split("\n"), 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            try:
                if work is not None:
                    work._line(*words)
                elif words == _FIRST.split():
                    work = cls(_LINE, name=name)
                    work.memory_bytes = 0
                else:
                    raise ValueError(f"expected `{_FIRST}` in the first line")
            except (ValueError, TypeError) as error:
                raise ValueError(f"{number}: {error}") from None
        if work is None or work._open is not None:
            missing = f"`{_FIRST}`" if work is None else "`end` of the last transaction"
            raise ValueError(f"{number}: expected {missing}")
        return work

    def _line(self, first: str, *rest: str) -> None:
        numbers = [_number(word) for word in rest]
        if first == "memory" and len(numbers) == 1 and not self.memory_bytes:
            self.memory_bytes = _limited("memory", numbers[0], _LINE, _MEMORY_MAX, _LINE)
        elif first == "lanes" and len(numbers) == 1:
            self.lanes = _limited("lanes", numbers[0], 1, _LANES_MAX)
        elif first == "init" and len(numbers) > 1:
            self.init(numbers[0], *numbers[1:])
        elif first == "tx" and len(numbers) < 2 and self._open is None:
            lane = numbers[0] if numbers else 0
            if lane >= self.lanes:
                raise ValueError(f"there is no lane {lane}")
            self._open = []
            self._transactions.append((lane, self._open))
        elif first == "end" and not numbers and self._open is not None:
            self._open = None
        elif first in ("load", "store", "think") and self._open is not None:
            getattr(self, first)(*numbers)
        else:
            raise ValueError(f"no line of the format: {' '.join((first, *rest))[:40]!r}")

    def __len__(self) -> int:
        return len(self._transactions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Work) and self.text() == other.text()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        content = f"{self.memory_bytes} bytes, {self.lanes} lanes, {len(self)} transactions"
        return f"<Work {self.name}-{self._digest()}: {content}>"

    def __str__(self) -> str:
        """The file that the laboratory's functions give to the command: see :meth:`__fspath__`."""
        return self.__fspath__()

    def _digest(self) -> str:
        if self._digested is None or self._digested[0] != self._changes:
            self._digested = self._changes, _hashlib.sha256(self.text().encode()).hexdigest()[:12]
        return self._digested[1]

    def __fspath__(self) -> str:
        """A file with this text in the user's cache, so that a command that replays a failure finds it."""
        if self._open is not None:
            raise ValueError("a transaction is open: its `with` has not ended")
        path = folder() / f"{self.name}-{self._digest()}.work"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with _tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                file.write(self.text().encode())
            _os.replace(file.name, path)
        return str(path)

    def _init_line(self, run: list[int]) -> str:
        return " ".join(["init", hex(run[0] * _WORD), *(str(self._initial[word]) for word in run)])

    def _word(self, address: SupportsIndex) -> int:
        address = _operator.index(address)
        if address % _WORD:
            raise ValueError(f"address {address:#x}: expected a multiple of {_WORD}")
        return address // _WORD

    def _inside(self, word: int, words: int) -> int:
        if not 1 <= words <= _WORDS_MAX:
            raise ValueError(f"{words} words at once: expected 1 to {_WORDS_MAX}")
        if word < 0 or (word + words) * _WORD > self.memory_bytes:
            end = self.memory_bytes
            raise ValueError(f"{words} words at {word * _WORD:#x} end outside of the memory of {end} bytes")
        return word

    def _step(self, step: _Step) -> None:
        if self._open is None:
            raise ValueError("no transaction is open: with work.transaction(): ...")
        self._open.append(step)


def folder() -> _pathlib.Path:
    """Where the files lie that the laboratory's functions give to the command."""
    cache = _os.environ.get("XDG_CACHE_HOME") or _os.path.expanduser("~/.cache")
    return _pathlib.Path(cache, "outlast", "work")


def _step_text(step: _Step) -> str:
    if step[0] == "think":
        return f"think {step[1]}"
    rest = step[2] if step[0] == "store" else [step[2]] * (step[2] != 1)
    return " ".join([step[0], hex(step[1] * _WORD), *map(str, rest)])


def _number(word: str) -> int:
    if not _re.fullmatch(r"0x[0-9a-fA-F]+|-?[0-9]+", word, _re.ASCII):
        raise ValueError(f"expected a number, found {word!r}")
    return int(word, 16 if word.startswith("0x") else 10)


def _limited(name: str, value: SupportsIndex, least: int, most: int, multiple: int = 1) -> int:
    number = _operator.index(value)
    if not least <= number <= most or number % multiple:
        of = f"a multiple of {multiple}, " if multiple > 1 else ""
        raise ValueError(f"{name} is {number}: expected {of}{least} to {most}")
    return number


def _values(given: Iterable[SupportsIndex | Iterable[SupportsIndex]]) -> Iterator[int]:
    for value in given:
        if isinstance(value, (str, bytes, dict)):
            raise TypeError(f"values are integers, or arrays of them, and not {value!r}")
        if isinstance(value, Iterable) and getattr(value, "shape", None) != ():
            yield from _values(tuple(value))
            continue
        number = _operator.index(cast(SupportsIndex, value))
        if not -(1 << 63) <= number < 1 << 64:
            raise ValueError(f"value {number}: 64 bits are possible")
        yield number % (1 << 64)
