"""Results of the laboratory: records as a data frame, with units."""

from __future__ import annotations

import json as _json

try:
    import pandas as _pandas
    from pandas.plotting import PlotAccessor as _PlotAccessor
except ImportError as error:
    raise ImportError("the laboratory's results are data frames: pip install pandas") from error

__all__ = ["Results", "read"]

#: What a frame is of: these attributes of a document are left out of Arrow's metadata.
_BULKY = ("simulated", "failures")


class _Plot(_PlotAccessor):
    """``results.plot()`` is the report's figure; ``results.plot.bar(…)`` and the others are those of pandas."""

    def __init__(self, results):
        super().__init__(results)
        self._results = results

    def __call__(self, *args, **options):
        is_metric = bool(args) and args[0] in set(self._results.get("metric", []))
        if "kind" in options or "x" in options or "y" in options or (args and not is_metric):
            return super().__call__(*args, **options)
        from . import figures

        return figures.draw(self._results, *args, **options)


class Results(_pandas.DataFrame):
    """Records of a run, a row for each figure: ``metric``, ``value``, ``unit``, and what it is of.

    ``attrs`` has the command, the machine, the seed, and ``units``, the unit of each metric; they are kept by slices, by
    :func:`pandas.concat` and in Parquet files. A ``verdict`` of ``"bad"`` says that a check has found damage or a loss.
    Keys of ``--set`` are columns of their own.
    """

    @property
    def _constructor(self):
        return Results

    @classmethod
    def of(cls, document, verdict="good"):
        """The results of a document that the command has printed."""
        records = document.get("records", document.get("findings", []))
        results = cls(_with_keys(records))
        results.attrs = {name: value for name, value in document.items() if name not in ("records", "findings")}
        results.attrs["units"] = _units_of(results)
        results.attrs["verdict"] = verdict
        if "findings" in document:
            results.attrs["kind"] = "check"
        return results

    def __finalize__(self, other, method=None, **options):
        super().__finalize__(other, method, **options)
        if method == "concat":
            parts = getattr(other, "objs", None) or getattr(other, "input_objs", None) or []
            self.attrs = _common([part.attrs for part in parts])
        return self

    @property
    def units(self):
        """The unit of each metric, a dictionary; of a wide table, of each column that has one."""
        return {**self.attrs.get("units", {}), **_units_of(self)}

    @property
    def failures(self):
        """A crash campaign's failing points, the first ones under each policy and caches, or on each machine: a frame.
        ``crash_op`` of a row is the ``point`` for :func:`outlast.lab.image`, ``replay`` the command that shows it again."""
        failures = self.attrs.get("failures", [])
        of_machine = any("crash_entry" in failure for failure in failures)
        return _pandas.DataFrame(failures, columns=_OF_MACHINE if of_machine else _OF_CACHES)

    def wide(self, metric=None, index="workload", columns="scheme"):
        """One metric as a table, by workload and scheme, or by other columns."""
        metric = self._metric(metric)
        rows = self[self["metric"] == metric]
        table = rows.pivot_table(index=index, columns=columns, values="value", sort=False)
        unit = self.units.get(metric, "")
        table.attrs = {**self.attrs, "metric": metric, "unit": unit, "units": {str(name): unit for name in table.columns}}
        return table

    def to_arrow(self):
        """As an Arrow table, whose schema has the units and attributes in its metadata, as JSON under ``units`` and
        ``outlast``. ``value`` has its ``unit`` in the field's metadata, if all rows have the same."""
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

    def polars(self):
        """As a Polars frame, through Arrow. Units stand in the column ``unit``, and in :attr:`units` here."""
        try:
            import polars
        except ImportError as error:
            raise ImportError("a Polars frame needs polars: pip install polars") from error
        return polars.from_arrow(self.to_arrow())

    def _metric(self, metric):
        names = list(dict.fromkeys(self.get("metric", [])))
        if metric is None and names:
            return "throughput" if "throughput" in names else names[0]
        if metric not in names:
            raise KeyError(f"no metric {metric!r}: there are {', '.join(names) or 'none'}")
        return metric


_OF_CACHES = ["workload", "scheme", "policy", "caches", "crash_op", "wrong", "replay"]
_OF_MACHINE = ["workload", "scheme", "machine", "crash_entry", "resume_entry", "wrong", "replay"]


def _accessor(plot):
    # As pandas makes accessors: an object for each frame.
    return property(lambda results: plot(results), doc=plot.__doc__)


Results.plot = _accessor(_Plot)


def read(source):
    """Results from a Parquet file, with their units and attributes, or from an Arrow table of :meth:`Results.to_arrow`."""
    if hasattr(source, "schema") and hasattr(source, "to_pandas"):
        results = Results(source.to_pandas())
        metadata = source.schema.metadata or {}
        results.attrs = _json.loads(metadata.get(b"outlast", b"{}"))
        results.attrs["units"] = _json.loads(metadata.get(b"units", b"{}"))
        return results
    frame = _pandas.read_parquet(source)
    results = Results(frame)
    results.attrs = dict(frame.attrs)
    return results


def _with_keys(records):
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


def _units_of(frame):
    if not {"metric", "unit"} <= set(frame.columns):
        return {}
    pairs = _pandas.DataFrame(frame)[["metric", "unit"]].dropna().drop_duplicates()
    return dict(zip(pairs["metric"], pairs["unit"]))


def _common(all_attrs):
    """The attributes that several frames agree in, and all of their units."""
    if not all_attrs:
        return {}
    first = all_attrs[0]
    common = {name: value for name, value in first.items() if all(name in other and other[name] == value for other in all_attrs)}
    common["units"] = {name: unit for attrs in all_attrs for name, unit in attrs.get("units", {}).items()}
    if any("verdict" in attrs for attrs in all_attrs):
        common["verdict"] = "bad" if any(attrs.get("verdict") == "bad" for attrs in all_attrs) else "good"
    return common
