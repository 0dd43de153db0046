"""Charts: traces and layouts, downsampling, and series of episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.evaluation import Episode

__all__ = [
    "AXIS_FORMATS",
    "COLOURS",
    "MAX_POINTS",
    "Chart",
    "ChartView",
    "Floats",
    "Panel",
    "Style",
    "Trace",
    "aligned",
    "band",
    "downsample",
    "drawdown",
    "has_equity",
    "is_relative",
    "line",
    "milliseconds",
    "monthly_returns",
    "rolling_beta",
    "rolling_mean_and_deviation",
    "stacked",
    "style_of",
    "wealth",
]

Floats = NDArray[np.float64]
Trace = dict[str, Any]

AXIS_FORMATS = {"percent": "~%", "money": ",.3~s", "count": ",.0~f"}
HOVER_FORMATS = {"percent": ".2%", "money": ",.2f", "number": ",.4~f", "count": ",.0f"}
DASHES = (
    "solid",
    "dash",
    "dot",
    "dashdot",
    "longdash",
    "longdashdot",
    "14px,3px,2px,3px,2px,3px",
    "2px,6px",
)
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
COLOURS = 8
"""Number of line colours of the style sheet."""

MAX_POINTS = 1200
"""Points of one line: more than a wide screen shows."""

MIN_POINTS = 5


class Style(NamedTuple):
    """Line style of a policy, distinct also without colour."""

    colour: str
    """Theme colour that the page's script resolves, such as `$0`."""

    dash: str
    symbol: str


class Panel(NamedTuple):
    """One of several plots stacked over a common x axis."""

    title: str
    kind: str = "number"
    share: float = 1.0
    """Relative height."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartView:
    """Traces and layout of one selectable view of a chart."""

    traces: list[Trace]
    layout: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Chart with a title, selectable views and a note."""

    title: str
    views: dict[str, ChartView]
    choice: str = ""
    """Label of the view selector."""

    note: str = ""
    height: int = 420


def style_of(index: int) -> Style:
    """Line style of the policy at `index`; the agent is at 0."""
    return Style(f"${index % COLOURS}", DASHES[index % len(DASHES)], SYMBOLS[index % len(SYMBOLS)])


def line(
    x: Floats,
    y: Floats,
    name: str,
    style: Style,
    *,
    panel: int = 0,
    kind: str = "number",
    max_points: int = MAX_POINTS,
) -> Trace:
    """Downsampled line trace; traces of one name share a legend entry."""
    rows = downsample(np.asarray(y[: len(x)], np.float64), max_points)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": np.asarray(x, np.float64)[rows],
        "y": np.asarray(y, np.float32)[rows],
        "yaxis": _axis(panel),
        "line": {
            "color": style.colour,
            "dash": style.dash,
            "width": 2.2 if style.colour == "$0" else 1.6,
        },
        "yhoverformat": HOVER_FORMATS.get(kind, ""),
        "legendgroup": name,
        "showlegend": panel == 0,
    }


def band(
    x: Floats, low: Floats, high: Floats, name: str, style: Style, *, panel: int = 0
) -> list[Trace]:
    """Filled area between two lines, toggled with the line of that name."""
    edges = [line(x, edge, name, style, panel=panel) for edge in (low, high)]
    for edge in edges:
        edge |= {"line": {"width": 0, "color": style.colour}, "showlegend": False}
        edge["hoverinfo"] = "skip"
    edges[1] |= {"fill": "tonexty", "fillcolor": f"{style.colour}/0.18"}
    return edges


def stacked(
    panels: Sequence[Panel], *, dates: bool = False, x_title: str = "step", agent_last: bool = False
) -> dict[str, Any]:
    """Layout of panels stacked over one x axis.

    Args:
        panels: panels from the top.
        dates: True for an axis of dates.
        x_title: title of the axis, if not of dates.
        agent_last: True if the agent's trace is drawn last, on top; the legend is reversed.
    """
    gap = 0.09 if len(panels) > 1 else 0.0
    room = 1.0 - gap * (len(panels) - 1)
    total = sum(panel.share for panel in panels)
    layout: dict[str, Any] = {
        "annotations": [],
        "legend": {"traceorder": "reversed" if agent_last else "normal"},
    }
    top = 1.0
    for index, panel in enumerate(panels):
        bottom = max(top - room * panel.share / total, 0.0)
        layout[_axis(index).replace("y", "yaxis")] = {
            "domain": [round(bottom, 6), round(top, 6)],
            "tickformat": AXIS_FORMATS.get(panel.kind, ""),
        }
        layout["annotations"].append(_panel_title(panel.title, top))
        top = bottom - gap
    layout["xaxis"] = {"type": "date" if dates else "linear", "anchor": _axis(len(panels) - 1)}
    if not dates:
        layout["xaxis"]["title"] = {"text": x_title}
    return layout


def milliseconds(times: NDArray[np.datetime64]) -> Floats:
    """Timestamps as milliseconds since 1970."""
    return times.astype("datetime64[ms]").astype(np.int64).astype(np.float64)


def downsample(values: NDArray[np.float64], max_points: int = MAX_POINTS) -> NDArray[np.int64]:
    """Indices of at most `max_points` values that draw the same line.

    Keeps the first and the last value, and of equal intervals between them the minimum, the
    maximum and, where the line is broken, a NaN.
    """
    if max_points < MIN_POINTS:
        raise ValueError(f"max_points must be at least {MIN_POINTS}, got {max_points}")
    count = len(values)
    if count <= max_points:
        return np.arange(count)
    inner = values[1:-1]
    intervals = (max_points - 2) // 3
    width = -(-len(inner) // intervals)
    padded = np.full(intervals * width, np.nan)
    padded[: len(inner)] = inner
    rows = padded.reshape(intervals, width)
    missing = np.isnan(rows)
    lowest = np.where(missing, np.inf, rows).argmin(axis=1)
    highest = np.where(missing, -np.inf, rows).argmax(axis=1)
    extremes = np.stack([lowest, highest, missing.argmax(axis=1)])
    indices = np.unique(extremes + np.arange(intervals) * width)
    return np.concatenate([[0], indices[indices < len(inner)] + 1, [count - 1]])


def has_equity(episodes: Sequence[Episode]) -> bool:
    """Return True if all episodes have an equity curve."""
    return bool(episodes) and all(len(episode.equity) > 1 for episode in episodes)


def is_relative(episodes: Sequence[Episode]) -> bool:
    """Return True if all accounts start with positive equity, so that returns are defined."""
    return all(len(episode.equity) > 1 and episode.equity[0] > 0 for episode in episodes)


def wealth(episode: Episode, relative: bool) -> Floats:
    """Profit since the start, over initial equity or in money."""
    gained: Floats = episode.equity - episode.equity[0]
    return gained / episode.equity[0] if relative else gained


def drawdown(episode: Episode, relative: bool) -> Floats:
    """Drawdown by step, as a share of the peak or in money."""
    peak = np.fmax.accumulate(episode.equity)
    loss: Floats = episode.equity - peak
    return loss / peak if relative else loss


def aligned(rows: Sequence[Floats]) -> Floats:
    """Stack series; shorter ones keep their last value.

    Dropping them instead would remove ruined episodes from the median.
    """
    longest = max(map(len, rows))
    return np.stack([np.pad(row, (0, longest - len(row)), mode="edge") for row in rows])


def monthly_returns(episode: Episode) -> dict[tuple[int, int], float]:
    """Returns by year and month; the first and last months may be partial."""
    if episode.times is None:
        return {}
    months = episode.times.astype("datetime64[M]").astype(np.int64)
    # Equity at the end of a month is the start of the next one.
    ends = np.append(np.flatnonzero(np.diff(months)), len(months) - 1)
    starts = np.append(0, ends[:-1])
    returns = episode.equity[ends] / episode.equity[starts] - 1
    return {
        (1970 + int(month) // 12, 1 + int(month) % 12): float(value)
        for month, value, start, end in zip(months[ends], returns, starts, ends, strict=True)
        if end > start
    }


def rolling_mean_and_deviation(returns: Floats, window: int) -> tuple[Floats, Floats]:
    """Rolling mean and standard deviation, from the first full window on."""
    views = np.lib.stride_tricks.sliding_window_view(returns, window)
    return views.mean(axis=1), views.std(axis=1, ddof=1)


def rolling_beta(returns: Floats, benchmark: Floats, window: int) -> Floats:
    """Rolling beta against a benchmark; NaN where the benchmark is constant."""
    own = np.lib.stride_tricks.sliding_window_view(returns, window)
    other = np.lib.stride_tricks.sliding_window_view(benchmark, window)
    other = other - other.mean(axis=1, keepdims=True)
    variance = (other**2).sum(axis=1)
    covariance = (own * other).sum(axis=1)
    out = np.full(len(variance), np.nan)
    beta: Floats = np.divide(covariance, variance, out=out, where=variance > 0)
    return beta


def _panel_title(text: str, height: float) -> dict[str, Any]:
    return {
        "text": text,
        "x": 0,
        "y": round(height, 6),
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
    }


def _axis(panel: int) -> str:
    return "y" if panel == 0 else f"y{panel + 1}"
