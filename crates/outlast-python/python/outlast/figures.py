"""The figures of the report, drawn with Matplotlib: ``results.plot()`` picks the one that its records are for.

Each function takes :class:`~outlast.lab.Results` and returns Matplotlib's axes, new ones of a figure of its own or the ``ax``
that is given. Axes are labelled with the unit. Without Matplotlib they raise :class:`ImportError`.

>>> from outlast import figures
>>> runs = outlast.sim("hash", scheme=["swift", "undo"], transactions=300, keys=1000)
>>> axes = figures.bars(runs, "fences")
>>> axes.get_ylabel(), len(axes.patches)
('fences (fences/tx)', 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as _pandas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

    from .results import Results

__all__ = ["bars", "claims", "comparison", "coverage", "draw", "findings"]

#: Colours as in the report: a scheme has the same in every figure. Others take the next of the series.
_SCHEMES = {
    "none": "#8c8c8c",
    "ideal": "#8c8c8c",
    "undo": "#3f86c8",
    "undo-archapt": "#7b6fd0",
    "redo": "#e07f3c",
    "redo-archapt": "#c89b1f",
    "swift": "#2fa07a",
    "pmdk": "#b44f80",
    "pmdk-word": "#d38fb4",
}
_GUARANTEES = {"durable": "#2fa07a", "buffered": "#3f86c8", "epoch": "#7b6fd0", "replay": "#c89b1f", "none": "#8c8c8c"}
_VERDICTS = {"reached": "#2fa07a", "not_reached": "#c8503c", "contradictory": "#e07f3c", "not_testable": "#8c8c8c"}
_GOOD, _HARMS = "#2fa07a", {"lost": "#c8503c", "torn": "#e07f3c", "uncorrectable": "#b44f80"}


def draw(results: Results, metric: str | None = None, **options: Any) -> Axes:
    """The figure that the report has for such records; Matplotlib's axes.

    Claims of a paper are drawn beside what was measured, crashes by policy, findings of ``check`` by class, a comparison as
    speeds over plain memory, and other records as bars of one ``metric`` with quartiles. ``options`` are those of that figure:
    ``ax`` draws into axes of yours.
    """
    if results.attrs.get("kind") == "check":
        return findings(results, **options)
    if "error" in results.columns:
        # Points that failed have no figures.
        results = results[results["error"].isna()]
    names = set(results.get("metric", []))
    if metric is None and "kind" in results.columns:
        kinds = set(results["kind"])
        if "claim" in kinds:
            return claims(results, **options)
        if "speed_over_plain" in names:
            return comparison(results, **options)
        if "crash" in kinds:
            return coverage(results, **options)
    return bars(results, metric, **options)


def _axes(ax: Axes | None, width: float = 8.0, height: float = 4.0) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("a figure needs Matplotlib: pip install matplotlib") from error
    axes: Axes = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    return axes


def _colours(names: Sequence[str]) -> list[Any]:
    from matplotlib import colormaps

    series: Any = colormaps["tab20"]
    others = iter(series.colors * (1 + len(names) // 20))
    return [_SCHEMES.get(name) or next(others) for name in names]


def bars(
    results: Results,
    metric: str | None = None,
    index: str | Sequence[str] = "workload",
    columns: str | Sequence[str] = "scheme",
    ax: Axes | None = None,
) -> Axes:
    """Bars of one metric, a group for each workload and a bar for each scheme, with quartiles where the records have them.

    ``index`` and ``columns`` name other columns. A ``metric`` that no row has is a :class:`KeyError`.
    """
    metric = results._metric(metric)
    table = results.wide(metric, index, columns)
    axes = _axes(ax)
    rows = _pandas.DataFrame(results[results["metric"] == metric])
    errors = None
    if {"p25", "p75"} <= set(rows.columns) and rows["p25"].notna().all():
        low, high = (rows.pivot_table(index=index, columns=columns, values=side, sort=False) for side in ("p25", "p75"))
        # A median of medians may lie outside: such a whisker has no length.
        errors = [[(table[name] - low[name]).clip(lower=0), (high[name] - table[name]).clip(lower=0)] for name in table.columns]
    colours = _colours(list(table.columns)) if columns == "scheme" else None
    _pandas.DataFrame(table).plot.bar(ax=axes, yerr=errors, capsize=2, rot=0, color=colours)
    unit = table.attrs["unit"]
    axes.set_ylabel(f"{metric} ({unit})" if unit else metric)
    axes.set_xlabel("")
    return axes


def comparison(results: Results, ax: Axes | None = None) -> Axes:
    """Speeds over plain memory, the fastest on top, coloured by guarantee."""
    rows = _pandas.DataFrame(results[results["metric"] == "speed_over_plain"])
    rows = rows.groupby(["scheme", "guarantee"], sort=False, dropna=False)["value"].mean().reset_index().sort_values("value")
    axes = _axes(ax, height=1 + 0.22 * len(rows))
    colours = [_GUARANTEES.get(name, "#8c8c8c") for name in rows["guarantee"]]
    axes.barh(rows["scheme"], rows["value"], color=colours)
    axes.axvline(1, color="#404040", linewidth=0.8)
    present = [name for name in _GUARANTEES if name in set(rows["guarantee"])]
    _beside(axes, handles=[_patch(_GUARANTEES[name], name) for name in present], title="guarantee")
    unit = results.units.get("speed_over_plain", "")
    axes.set_xlabel(f"throughput over that of plain memory{f' ({unit})' if unit else ''}")
    works = list(dict.fromkeys(results["workload"]))
    axes.set_title(", ".join(works))
    return axes


def coverage(results: Results, ax: Axes | None = None) -> Axes:
    """Crash points that were recovered and judged, by policy, and those at which something was wrong."""
    rows = _pandas.DataFrame(results)
    by = "policy" if "policy" in rows.columns and rows["policy"].notna().any() else "scheme"
    schemes = list(dict.fromkeys(rows["scheme"]))
    names = rows["scheme"] if by == "scheme" else rows[by] if len(schemes) == 1 else rows["scheme"] + ", " + rows[by]
    table = rows.assign(name=names).pivot_table(index="name", columns="metric", values="value", aggfunc="sum", sort=False)
    table = table.fillna(0)
    points = table["crash_points"] if "crash_points" in table else table["images_verified"]
    axes = _axes(ax, height=1.2 + 0.3 * len(table))
    harms = [name for name in _HARMS if name in table.columns]
    good = points - table[harms].sum(axis=1)
    axes.barh(table.index, good, color=_GOOD, label="nothing missing")
    left = good
    for name in harms:
        if table[name].any():
            axes.barh(table.index, table[name], left=left, color=_HARMS[name], label=name)
            left = left + table[name]
    for place, (count, total) in enumerate(zip(good, points)):
        axes.text(total, place, f" {int(total)}" if count == total else f" {int(total - count)} of {int(total)}", va="center")
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.set_xlabel("crash points recovered and judged (count)")
    axes.set_title(f"{', '.join(dict.fromkeys(rows['workload']))} under {', '.join(schemes)}")
    _beside(axes)
    return axes


def claims(results: Results, ax: Axes | None = None) -> Axes:
    """A paper's claims and what was measured: the measured value over the claimed one, 1 being the claim."""
    rows = _pandas.DataFrame(results[results["kind"] == "claim"]).reset_index(drop=True)
    axes = _axes(ax, height=1.2 + 0.32 * len(rows))
    names, ticks = [], []
    for place, (_, row) in enumerate(rows.iterrows()):
        verdict: Any = row.get("verdict")
        unit = f" {row['unit']}" if isinstance(row.get("unit"), str) and row["unit"] else ""
        names.append(f"{row['metric'].split('.')[-1]}: {row['scheme']}, {row['workload']}")
        colour = _VERDICTS.get(verdict, "#8c8c8c")
        claimed, measured = row.get("paper_value"), row.get("value")
        if _pandas.isna(claimed) or _pandas.isna(measured) or claimed == 0:
            axes.text(1, place, f" {_shown(verdict)}", va="center", color=colour)
        else:
            axes.plot([1, measured / claimed], [place, place], color=colour, linewidth=1.5)
            axes.plot([1], [place], marker="|", color="#404040", markersize=9)
            axes.plot([measured / claimed], [place], marker="o", color=colour)
            label = f"  {measured:.3g}{unit}, claimed {claimed:.3g}{unit}"
            axes.text(max(1, measured / claimed), place, label, va="center", fontsize="small")
        ticks.append(place)
    axes.set_yticks(ticks, names)
    axes.axvline(1, color="#404040", linewidth=0.8)
    axes.margins(x=0.4, y=0.1)
    axes.set_xlim(left=min(0.0, *map(_end, axes.lines)))
    axes.invert_yaxis()
    present = [name for name in _VERDICTS if name in set(rows.get("verdict", []))]
    _beside(axes, handles=[_patch(_VERDICTS[name], _shown(name)) for name in present])
    axes.set_xlabel("measured over claimed (1)")
    axes.set_title(", ".join(dict.fromkeys(rows["paper"])) if "paper" in rows else "")
    return axes


def findings(results: Results, ax: Axes | None = None) -> Axes:
    """Findings of ``check`` by class, and how much was tried."""
    attrs = results.attrs
    counts = _pandas.DataFrame(results).groupby("class", sort=False)["count"].sum() if len(results) else _pandas.Series(dtype=int)
    axes = _axes(ax, height=1.6 + 0.35 * max(1, len(counts)))
    if len(counts):
        axes.barh(counts.index, counts.tolist(), color=_HARMS["lost"])
        axes.invert_yaxis()
    else:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no state fails", transform=axes.transAxes, ha="center", color=_GOOD)
    axes.set_xlabel("failing states that were reduced (count)")
    title = f"{attrs.get('states', 0)} states of {attrs.get('moments', 0)} moments, {attrs.get('distinct', 0)} distinct"
    axes.set_title(title + (", cut short" if attrs.get("cut_short") else ""))
    return axes


def _beside(axes: Axes, **options: Any) -> None:
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, fontsize="small", **options)


def _end(line: Any) -> float:
    return float(line.get_xdata()[-1])


def _shown(verdict: object) -> str:
    return verdict.replace("_", " ") if isinstance(verdict, str) else "not tested"


def _patch(colour: str, label: str) -> Patch:
    from matplotlib.patches import Patch

    return Patch(color=colour, label=label)
