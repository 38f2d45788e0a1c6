"""Results of the laboratory: records as a data frame, with units.

>>> runs = outlast.sim("hash", scheme=["swift", "undo"], transactions=300, keys=1000)
>>> speeds = runs[runs["metric"] == "throughput"]
>>> type(speeds).__name__, speeds[["scheme", "unit"]].values.tolist()
('Results', [['swift', 'tx/s'], ['undo', 'tx/s']])
"""

from __future__ import annotations

import json as _json
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol, overload

try:
    import pandas as _pandas
    from pandas.plotting import PlotAccessor as _PlotAccessor
except ImportError as _error:
    raise ImportError("the laboratory's results are data frames: pip install pandas") from _error

if TYPE_CHECKING:
    import polars as _polars
    import pyarrow as _pyarrow
    from matplotlib.axes import Axes

    from .arguments import Path

__all__ = ["Results", "read"]

#: These attributes of a document are left out of Arrow's metadata.
_BULKY = ("simulated", "failures")


class _Plot(_PlotAccessor):  # type: ignore[misc, unused-ignore]
    """``results.plot()`` draws the figure that the report has for such records, in Matplotlib's axes.

    ``plot("fences")`` draws bars of one metric, ``index`` and ``columns`` choose what stands side by side, and ``ax`` draws into
    axes of yours: :mod:`outlast.figures` has the figures. ``plot(kind=…)``, ``plot(x=…)``, ``plot.bar(…)`` and the others are
    those of pandas.
    """

    def __init__(self, results: Results) -> None:
        super().__init__(results)
        self._results = results

    @overload  # type: ignore[override, unused-ignore]
    def __call__(
        self, metric: str | None = None, *, index: str | Sequence[str] = ..., columns: str | Sequence[str] = ..., ax: Axes | None = None
    ) -> Axes: ...
    @overload
    def __call__(self, *, kind: str, **options: Any) -> Any: ...
    @overload
    def __call__(self, *, x: Any, **options: Any) -> Any: ...
    @overload
    def __call__(self, *, y: Any, **options: Any) -> Any: ...
    def __call__(self, *args: Any, **options: Any) -> Any:
        is_column = bool(args) and not (isinstance(args[0], str) and args[0] not in self._results.columns)
        is_metric = bool(args) and args[0] in set(self._results.get("metric", []))
        if "kind" in options or "x" in options or "y" in options or (is_column and not is_metric):
            return super().__call__(*args, **options)
        from . import figures

        return figures.draw(self._results, *args, **options)


class Results(_pandas.DataFrame):  # type: ignore[misc, unused-ignore]
    """Records of a run, a row for each figure: ``metric``, ``value``, ``unit``, and the run's ``workload``, ``scheme`` and sizes.

    A :class:`pandas.DataFrame`, with all of its methods. ``attrs`` has the command, the machine, the seed, and ``units``, the unit
    of each metric; they are kept by slices, by :func:`pandas.concat` and in Parquet files. A ``verdict`` of ``"bad"`` says that a
    check has found damage or a loss. Keys of ``set=`` are columns of their own.

    >>> import pandas
    >>> runs = [outlast.sim(work, scheme="swift", transactions=300, keys=1000) for work in ("hash", "btree")]
    >>> both = pandas.concat(runs)
    >>> both.attrs["seed"], both.units["fences"], both.wide("fences").shape
    (1, 'fences/tx', (2, 1))
    """

    @property
    def _constructor(self) -> type[Results]:
        return Results

    @property
    def plot(self) -> _Plot:
        """The report's figure, or one of pandas': call it."""
        return _Plot(self)

    @classmethod
    def of(cls, document: Mapping[str, Any], verdict: Literal["good", "bad"] = "good") -> Results:
        """The results of a document that the command has printed."""
        records = document.get("records", document.get("findings", []))
        results = cls(_with_keys(records))
        results.attrs = {name: value for name, value in document.items() if name not in ("records", "findings")}
        results.attrs["units"] = _units_of(results)
        results.attrs["verdict"] = verdict
        if "findings" in document:
            results.attrs["kind"] = "check"
        return results

    def __finalize__(self, other: object, method: str | None = None, **options: Any) -> Results:
        super().__finalize__(other, method, **options)  # type: ignore[misc, unused-ignore]
        if method == "concat":
            parts = getattr(other, "objs", None) or getattr(other, "input_objs", None) or []
            self.attrs = _common([part.attrs for part in parts])
        return self

    @property
    def units(self) -> dict[str, str]:
        """The unit of each metric, by its name; of a wide table, of each column that has one."""
        return {**self.attrs.get("units", {}), **_units_of(self)}

    @property
    def failures(self) -> _pandas.DataFrame:
        """A crash campaign's failing points, a row each: up to 16 under each policy and caches, or on each machine.

        Of the runtime's schemes the columns are ``workload``, ``scheme``, ``policy``, ``caches``, ``crash_op``, ``wrong`` and ``replay``:
        ``crash_op`` is the ``point`` for :func:`outlast.lab.image`, ``wrong`` the oracle's finding, ``replay`` the command that
        shows it again. Of the machine's, ``machine``, ``crash_entry`` and ``resume_entry`` stand in place of the middle three.

        >>> options = {"plant": "flush-wrong-address", "keys": 200, "transactions": 60, "policy": "lru"}
        >>> row = outlast.crash("hash", "undo", points=60, **options).failures.iloc[0]
        >>> image = outlast.image("hash", "undo", row["crash_op"], caches=row["caches"], **options)
        >>> image.wrong == row["wrong"]
        True
        """
        failures = self.attrs.get("failures", [])
        of_machine = any("crash_entry" in failure for failure in failures)
        return _pandas.DataFrame(failures, columns=_OF_MACHINE if of_machine else _OF_CACHES)

    def wide(
        self, metric: str | None = None, index: str | Sequence[str] = "workload", columns: str | Sequence[str] = "scheme"
    ) -> Results:
        """One metric as a table: a row for each workload and a column for each scheme, or by other columns.

        Rows that share both, such as those of several seeds, are averaged. Without ``metric`` it is ``throughput``, or the first one; a name that no row has is
        a :class:`KeyError`. ``units`` has the unit of each column.

        >>> runs = outlast.sim("hash", scheme=["swift", "undo"], transactions=300, keys=1000)
        >>> table = runs.wide("fences")
        >>> list(table.index), table.units
        (['hash'], {'swift': 'fences/tx', 'undo': 'fences/tx'})
        """
        metric = self._metric(metric)
        for names in (index, columns):
            for name in [names] if isinstance(names, str) else names:
                if name not in self.columns:
                    raise KeyError(f"no column {name!r}: there are {', '.join(map(str, self.columns))}")
        rows = self[self["metric"] == metric]
        table: Results = rows.pivot_table(index=index, columns=columns, values="value", sort=False)
        unit = self.units.get(metric, "")
        table.attrs = {**self.attrs, "metric": metric, "unit": unit, "units": {str(name): unit for name in table.columns}}
        return table

    def to_arrow(self) -> _pyarrow.Table:
        """As an Arrow table, whose schema has the units and attributes in its metadata, as JSON under ``units`` and
        ``outlast``. ``value`` has its ``unit`` in the field's metadata, if all rows have the same. :func:`read` takes it back."""
        try:
            import pyarrow
        except ImportError as error:
            raise ImportError("an Arrow table needs pyarrow: pip install pyarrow") from error
        table = pyarrow.Table.from_pandas(_pandas.DataFrame(self), preserve_index=not isinstance(self.index, _pandas.RangeIndex))
        head = {name: value for name, value in self.attrs.items() if name not in _BULKY}
        own = {"units": _json.dumps(self.units), "outlast": _json.dumps(head)}
        schema = table.schema.with_metadata({**(table.schema.metadata or {}), **own})
        units = set(self["unit"].dropna()) if "unit" in self.columns else set()
        for place, field in enumerate(schema):
            of_column = self.units.get(field.name) or (next(iter(units)) if field.name == "value" and len(units) == 1 else None)
            if of_column is not None:
                schema = schema.set(place, field.with_metadata({"unit": of_column}))
        return table.cast(schema)

    def polars(self) -> _polars.DataFrame:
        """As a Polars frame, through Arrow, with the same columns. Units stand in the column ``unit``, and in :attr:`units` here."""
        try:
            import polars
        except ImportError as error:
            raise ImportError("a Polars frame needs polars: pip install polars") from error
        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def _metric(self, metric: str | None) -> str:
        names = [name for name in dict.fromkeys(self.get("metric", [])) if isinstance(name, str)]
        if not names:
            raise KeyError("these results have no metrics, and nothing to draw or to put into a table")
        if metric is None:
            return "throughput" if "throughput" in names else names[0]
        if metric not in names:
            raise KeyError(f"no metric {metric!r}: there are {', '.join(names)}")
        return metric


_OF_CACHES = ["workload", "scheme", "policy", "caches", "crash_op", "wrong", "replay"]
_OF_MACHINE = ["workload", "scheme", "machine", "crash_entry", "resume_entry", "wrong", "replay"]


class _Arrow(Protocol):
    """An Arrow table."""

    @property
    def schema(self) -> Any: ...
    def to_pandas(self) -> Any: ...


def read(source: Path | IO[bytes] | _Arrow) -> Results:
    """Results from a Parquet file, with their units and attributes, or from an Arrow table of :meth:`Results.to_arrow`.

    >>> import os, tempfile
    >>> runs = outlast.sim("hash", scheme="swift", transactions=300, keys=1000)
    >>> file = os.path.join(tempfile.mkdtemp(), "runs.parquet")
    >>> runs.to_parquet(file)
    >>> again = outlast.lab.read(file)
    >>> again.units == runs.units, again.attrs["command"] == runs.attrs["command"]
    (True, True)
    """
    table: Any = source
    if hasattr(table, "schema") and hasattr(table, "to_pandas"):
        results = Results(table.to_pandas())
        metadata = table.schema.metadata or {}
        results.attrs = _json.loads(metadata.get(b"outlast", b"{}"))
        results.attrs["units"] = _json.loads(metadata.get(b"units", b"{}"))
        return results
    frame = _pandas.read_parquet(table)
    results = Results(frame)
    results.attrs = dict(frame.attrs)
    return results


def _with_keys(records: Sequence[Mapping[str, Any]]) -> _pandas.DataFrame:
    """Records with the keys that were set as columns: numbers where all values are."""
    rows = [{**{name: value for name, value in row.items() if name != "set"}, **row.get("set", {})} for row in records]
    keys = dict.fromkeys(key for row in records for key in row.get("set", {}))
    frame = _pandas.DataFrame(rows)
    for key in keys:
        try:
            frame[key] = _pandas.to_numeric(frame[key])
        except ValueError:
            pass
    return frame


def _units_of(frame: _pandas.DataFrame) -> dict[str, str]:
    if not {"metric", "unit"} <= set(frame.columns):
        return {}
    pairs = _pandas.DataFrame(frame)[["metric", "unit"]].dropna().drop_duplicates()
    return dict(zip(pairs["metric"], pairs["unit"]))


def _common(all_attrs: Sequence[Mapping[Any, Any]]) -> dict[Any, Any]:
    """The attributes that several frames agree in, and all of their units."""
    if not all_attrs:
        return {}
    first = all_attrs[0]
    common = {name: value for name, value in first.items() if all(name in other and other[name] == value for other in all_attrs)}
    common["units"] = {name: unit for attrs in all_attrs for name, unit in attrs.get("units", {}).items()}
    if any("verdict" in attrs for attrs in all_attrs):
        common["verdict"] = "bad" if any(attrs.get("verdict") == "bad" for attrs in all_attrs) else "good"
    return common
