"""Machines as objects: a preset or a TOML file, with changes.

>>> machine = outlast.Machine.of("archapt")
>>> machine.core.count = 4
>>> machine["core.clock"] = "3 GHz"
>>> machine
<Machine archapt, core.count=4, core.clock=3 GHz>
>>> runs = outlast.sim("hash", scheme="fwb", machine=machine, threads=2, transactions=50, footprint="64K")
>>> runs["machine"].unique().tolist(), runs["threads"].unique().tolist()
(['archapt'], [2])
"""

from __future__ import annotations

import hashlib as _hashlib
import os as _os
import tempfile as _tempfile
import tomllib as _tomllib
from collections.abc import ItemsView, Iterator, KeysView, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Never

if TYPE_CHECKING:
    from .arguments import Path, Value

__all__ = ["Machine"]


class _Section:
    """The keys of a machine that begin with the same word, as attributes."""

    __slots__ = ("_machine", "_name")
    _machine: Machine
    _name: str

    def __init__(self, machine: Machine, name: str) -> None:
        object.__setattr__(self, "_machine", machine)
        object.__setattr__(self, "_name", name)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        try:
            return self._machine[f"{self._name}.{key}"]
        except ValueError as error:
            raise AttributeError(str(error)) from None

    def __setattr__(self, key: str, value: Value) -> None:
        self._machine[f"{self._name}.{key}"] = value

    def __dir__(self) -> list[str]:
        return [key.split(".", 1)[1] for key in self._machine if key.startswith(self._name + ".")]

    def __repr__(self) -> str:
        return "\n".join(f"{self._name}.{key} = {getattr(self, key)}" for key in dir(self))


class Machine:
    """A machine for ``sim``, ``compare`` and crashes on the timed machine: pass it as ``machine=`` or ``config=``.

    Keys are those that ``outlast sim machines`` lists, as attributes (``machine.core.count = 4``) or items
    (``machine["llc.size"] = "16 MiB"``). Values are numbers, truth values, or text with a unit. A wrong key or value is a
    :class:`ValueError` with the command's line, at once; reading an attribute that is no key is an :class:`AttributeError`.
    A machine can be pickled: it carries its file's text. It compares by name, text and changes.

    >>> machine = outlast.Machine("tiny", set={"core.count": 2})
    >>> machine.core.count, machine["core.clock"], "core.cluck" in machine
    (2, '2500 MHz', False)
    >>> machine.core.clock = "fast"
    Traceback (most recent call last):
    ValueError: ...core.clock...
    """

    _name: str
    _text: str | None
    _set: dict[str, str]
    _values: dict[str, Any] | None

    def __init__(self, name: str = "server", *, text: str | None = None, set: Mapping[str, Value] | None = None) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_text", text)
        # All at once: one may be right with the others alone.
        object.__setattr__(self, "_set", {key: _text_of(value) for key, value in (set or {}).items()})
        object.__setattr__(self, "_values", None)
        self._values_now()

    @classmethod
    def of(cls, source: Path = "server", **set: Value) -> Machine:
        """A preset by its name, or a machine file (``.toml``). ``set`` changes keys: ``of("hwl", **{"core.count": 2})``.

        A name that no preset has is a :class:`ValueError` that says the nearest one.
        """
        source = _os.fspath(source)
        if not source.endswith(".toml"):
            return cls(source, set=set)
        with open(source, encoding="utf-8") as file:
            return cls(_os.path.basename(source), text=file.read(), set=set)

    @classmethod
    def toml(cls, text: str, name: str = "machine.toml") -> Machine:
        """A machine from the text of a machine file; results call it by ``name``.

        >>> outlast.Machine.toml('base = "tiny"\\n[core]\\ncount = 2', name="mine").core.count
        2
        """
        _tomllib.loads(text)
        name = _os.path.basename(name)
        return cls(name if name.endswith(".toml") else f"{name}.toml", text=text)

    @property
    def name(self) -> str:
        """The preset's or the file's name, as results have it in ``machine``."""
        return self._name

    @property
    def changes(self) -> dict[str, str]:
        """The keys that were set, with their values as the command takes them."""
        return dict(self._set)

    def copy(self) -> Machine:
        """An equal machine; changes of the one leave the other as it is."""
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__())
        return other

    def keys(self) -> KeysView[str]:
        """All keys, as ``"core.count"``."""
        return self._values_now().keys()

    def items(self) -> ItemsView[str, Any]:
        """All keys with their values: ``int``, ``float``, ``bool``, or ``str`` with a unit."""
        return self._values_now().items()

    def __iter__(self) -> Iterator[str]:
        return iter(self._values_now())

    def __len__(self) -> int:
        return len(self._values_now())

    def __contains__(self, key: object) -> bool:
        return key in self._values_now()

    def __getitem__(self, key: str) -> Any:
        values = self._values_now()
        if key not in values:
            # The command's own line, which names the nearest key.
            self._described({**self._set, key: "0"})
            raise ValueError(f"no key is named {key!r}")
        return values[key]

    def __setitem__(self, key: str, value: Value) -> None:
        changed = {**self._set, key: _text_of(value)}
        object.__setattr__(self, "_values", self._described(changed))
        object.__setattr__(self, "_set", changed)

    def __getattr__(self, name: str) -> _Section:
        if name.startswith("_"):
            raise AttributeError(name)
        sections = {key.split(".")[0] for key in self._values_now()}
        if name not in sections:
            raise AttributeError(f"a machine has no {name!r}: it has {', '.join(sorted(sections))}")
        return _Section(self, name)

    def __setattr__(self, name: str, value: Never) -> None:
        raise AttributeError(f"{name} is no key: machine.core.count = 4 or machine['core.count'] = 4 would be right")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *sorted({key.split(".")[0] for key in self._values_now()})]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Machine) and self.__getstate__() == other.__getstate__()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self._name, "text": self._text, "set": dict(self._set)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, "_" + name, value)
        object.__setattr__(self, "_values", None)

    def __repr__(self) -> str:
        changes = ", ".join(f"{key}={value}" for key, value in self._set.items())
        # Two files of one name are two machines.
        text = "" if self._text is None else f"-{_hashlib.sha256(self._text.encode()).hexdigest()[:12]}"
        return f"<Machine {self._name}{text}{', ' if changes else ''}{changes}>"

    def to_toml(self) -> str:
        """The text of a machine file with all of its changes.

        >>> print(outlast.Machine.of("tiny", **{"core.count": 2}).to_toml())
        base = "tiny"
        <BLANKLINE>
        [core]
        count = 2
        <BLANKLINE>
        """
        sections: dict[str, dict[str, str]] = {}
        base = "server" if self._text is not None else self._name
        if self._text is not None:
            for name, value in _tomllib.loads(self._text).items():
                if isinstance(value, dict):
                    sections.setdefault(name, {}).update({key: _text_of(part) for key, part in value.items()})
                elif name == "base":
                    base = value
        for key, value in self._set.items():
            section, name = key.split(".", 1)
            sections.setdefault(section, {})[name] = value
        lines = [f'base = "{base}"']
        for section, keys in sections.items():
            lines += ["", f"[{section}]", *(f"{name} = {_toml(value)}" for name, value in keys.items())]
        return "\n".join(lines) + "\n"

    def words(self, folder: Path) -> tuple[list[str], str | None]:
        """The command's options for it; a machine file is written to ``folder``. Returns them and the file's path, if any."""
        path: str | None = None
        if self._text is not None:
            path = _os.path.join(folder, self._name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(self._text)
        words = ["--config", path or self._name]
        for key, value in self._set.items():
            words += ["--set", f"{key}={value}"]
        return words, path

    def _values_now(self) -> dict[str, Any]:
        values = self._values
        if values is None:
            values = self._described(self._set)
            object.__setattr__(self, "_values", values)
        return values

    def _described(self, changes: Mapping[str, str]) -> dict[str, Any]:
        from . import lab

        with _tempfile.TemporaryDirectory() as folder:
            probe = object.__new__(Machine)
            probe.__setstate__({"name": self._name, "text": self._text, "set": changes})
            words, path = probe.words(folder)
            document = lab.document(["sim", "machines", *words], names={path: self._name} if path else {})
        rows = document["records"]
        return {row["name"]: _value_of(row["value"]) for row in rows if row["kind"] == "key" and "schemes" not in row}


def _text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _value_of(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    kinds: tuple[type[int], type[float]] = (int, float)
    for kind in kinds:
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _toml(text: str) -> str:
    value = _value_of(text)
    return f'"{text}"' if isinstance(value, str) else text
