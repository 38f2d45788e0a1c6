"""Machines as objects: a preset or a TOML file, with changes.

>>> from outlast import lab                                                 # doctest: +SKIP
>>> machine = lab.Machine.of("archapt")                                     # doctest: +SKIP
>>> machine.core.count = 4                                                  # doctest: +SKIP
>>> lab.sim("hash", scheme="fwb", machine=machine)                          # doctest: +SKIP
"""

from __future__ import annotations

import os as _os
import tempfile as _tempfile
import tomllib as _tomllib

__all__ = ["Machine"]


class _Section:
    """The keys of a machine that begin with the same word."""

    __slots__ = ("_machine", "_name")

    def __init__(self, machine, name):
        object.__setattr__(self, "_machine", machine)
        object.__setattr__(self, "_name", name)

    def __getattr__(self, key):
        if key.startswith("__"):
            raise AttributeError(key)
        try:
            return self._machine[f"{self._name}.{key}"]
        except ValueError as error:
            raise AttributeError(str(error)) from None

    def __setattr__(self, key, value):
        self._machine[f"{self._name}.{key}"] = value

    def __dir__(self):
        return [key.split(".", 1)[1] for key in self._machine if key.startswith(self._name + ".")]

    def __repr__(self):
        return "\n".join(f"{self._name}.{key} = {getattr(self, key)}" for key in dir(self))


class Machine:
    """A machine for ``sim``, ``compare`` and crashes on the timed machine: pass it as ``machine=`` or ``config=``.

    Keys are those that ``outlast sim machines`` lists, as attributes (``machine.core.count = 4``) or items
    (``machine["llc.size"] = "16 MiB"``). Values are numbers, truth values, or text with a unit. A wrong key or value is a
    :class:`ValueError` with the command's line, at once. A machine can be pickled: it carries its file's text.
    """

    def __init__(self, name="server", *, text=None, set=None):
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_text", text)
        object.__setattr__(self, "_set", {})
        object.__setattr__(self, "_values", None)
        self._values_now()
        for key, value in (set or {}).items():
            self[key] = value

    @classmethod
    def of(cls, source="server", **set):
        """A preset by its name, or a machine file (``.toml``). ``set`` changes keys: ``of("hwl", **{"core.count": 2})``."""
        source = _os.fspath(source)
        if not source.endswith(".toml"):
            return cls(source, set=set)
        with open(source, encoding="utf-8") as file:
            return cls(_os.path.basename(source), text=file.read(), set=set)

    @classmethod
    def toml(cls, text, name="machine.toml"):
        """A machine from the text of a machine file."""
        _tomllib.loads(text)
        return cls(name if name.endswith(".toml") else f"{name}.toml", text=text)

    @property
    def name(self):
        """The preset's or the file's name, as results have it in ``machine``."""
        return self._name

    @property
    def changes(self):
        """The keys that were set, with their values as the command takes them."""
        return dict(self._set)

    def copy(self):
        """Another machine that is the same."""
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__())
        return other

    def keys(self):
        """All keys."""
        return self._values_now().keys()

    def items(self):
        """All keys with their values."""
        return self._values_now().items()

    def __iter__(self):
        return iter(self._values_now())

    def __len__(self):
        return len(self._values_now())

    def __contains__(self, key):
        return key in self._values_now()

    def __getitem__(self, key):
        values = self._values_now()
        if key not in values:
            # The command's own line, which names the nearest key.
            self._described({**self._set, key: "0"})
            raise ValueError(f"no key is named {key!r}")
        return values[key]

    def __setitem__(self, key, value):
        changed = {**self._set, key: _text_of(value)}
        object.__setattr__(self, "_values", self._described(changed))
        object.__setattr__(self, "_set", changed)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        sections = {key.split(".")[0] for key in self._values_now()}
        if name not in sections:
            raise AttributeError(f"a machine has no {name!r}: it has {', '.join(sorted(sections))}")
        return _Section(self, name)

    def __setattr__(self, name, value):
        raise AttributeError(f"{name} is no key: machine.core.count = 4 or machine['core.count'] = 4 would be right")

    def __dir__(self):
        return [*super().__dir__(), *sorted({key.split(".")[0] for key in self._values_now()})]

    def __eq__(self, other):
        return isinstance(other, Machine) and self.__getstate__() == other.__getstate__()

    __hash__ = None

    def __getstate__(self):
        return {"name": self._name, "text": self._text, "set": dict(self._set)}

    def __setstate__(self, state):
        for name, value in state.items():
            object.__setattr__(self, "_" + name, value)
        object.__setattr__(self, "_values", None)

    def __repr__(self):
        changes = ", ".join(f"{key}={value}" for key, value in self._set.items())
        return f"<Machine {self._name}{', ' if changes else ''}{changes}>"

    def to_toml(self):
        """The text of a machine file with all of its changes."""
        sections = {}
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

    def words(self, folder):
        """The command's options for it; a machine file is written to ``folder``. Returns them and the file's path, if any."""
        path = None
        if self._text is not None:
            path = _os.path.join(folder, self._name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(self._text)
        words = ["--config", path or self._name]
        for key, value in self._set.items():
            words += ["--set", f"{key}={value}"]
        return words, path

    def _values_now(self):
        if self._values is None:
            object.__setattr__(self, "_values", self._described(self._set))
        return self._values

    def _described(self, changes):
        from . import lab

        with _tempfile.TemporaryDirectory() as folder:
            probe = object.__new__(Machine)
            probe.__setstate__({"name": self._name, "text": self._text, "set": changes})
            words, path = probe.words(folder)
            document = lab.document(["sim", "machines", *words], names={path: self._name} if path else {})
        rows = document["records"]
        return {row["name"]: _value_of(row["value"]) for row in rows if row["kind"] == "key" and "schemes" not in row}


def _text_of(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _value_of(text):
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _toml(text):
    value = _value_of(text)
    return f'"{text}"' if isinstance(value, str) else text
