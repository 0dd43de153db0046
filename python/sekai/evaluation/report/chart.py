"""Charts as the page's own words for them: traces and layouts that its script hands to plotly."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.report.numbers import AXIS_FORMATS
from sekai.evaluation.report.series import Floats
from sekai.evaluation.report.thinning import MOST_POINTS, kept_points

__all__ = ["Chart", "Panel", "Style", "View", "band", "line", "plain", "stacked", "style_of"]

Trace = dict[str, Any]

HOVER_FORMATS = {"percent": ".2%", "money": ",.2f", "number": ",.4~f", "count": ",.0f"}
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot",
          "14px,3px,2px,3px,2px,3px", "2px,6px")  # fmt: skip
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
COLOURS = 8
"""How many colours of lines the page's style sheet knows; after these they begin anew."""


class Style(NamedTuple):
    """How a policy looks wherever it is shown: never told by its colour alone."""

    colour: str
    """A name that the page's script looks up in the theme, such as `$0`."""

    dash: str
    symbol: str


class Panel(NamedTuple):
    """One of the plots that share an axis from left to right, from the top."""

    title: str
    kind: str = "number"
    share: float = 1.0
    """How high it is beside the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a chart shows at a time."""

    traces: list[Trace]
    layout: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A figure with its title, its views to choose from, and what to know when reading it."""

    title: str
    views: dict[str, View]
    choice: str = ""
    """What its views differ by, where there are several."""

    note: str = ""
    height: int = 420


def style_of(place: int) -> Style:
    """How the policy at `place` looks; the agent is at 0."""
    return Style(f"${place % COLOURS}", DASHES[place % len(DASHES)], SYMBOLS[place % len(SYMBOLS)])


def plain(name: str) -> str:
    """A name in which plotly finds no tags."""
    return html.escape(name, quote=False)


def line(
    x: Floats,
    y: Floats,
    name: str,
    style: Style,
    *,
    panel: int = 0,
    kind: str = "number",
    most: int = MOST_POINTS,
) -> Trace:
    """A line as far as `x` and `y` go, thinned; one name is one entry of the legend."""
    kept = kept_points(np.asarray(y[: len(x)], np.float64), most)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(name),
        "x": np.asarray(x, np.float64)[kept],
        "y": np.asarray(y, np.float32)[kept],
        "yaxis": _axis(panel),
        "line": {
            "color": style.colour,
            "dash": style.dash,
            "width": 2.2 if _is_first(style) else 1.6,
        },
        "yhoverformat": HOVER_FORMATS.get(kind, ""),
        "legendgroup": plain(name),
        "showlegend": panel == 0,
    }


def band(
    x: Floats, low: Floats, high: Floats, name: str, style: Style, *, panel: int = 0
) -> list[Trace]:
    """The area between two lines, which comes and goes with the line of that name."""
    edges = [line(x, edge, name, style, panel=panel) for edge in (low, high)]
    for edge in edges:
        edge |= {"line": {"width": 0, "color": style.colour}, "showlegend": False}
        edge["hoverinfo"] = "skip"
    edges[1] |= {"fill": "tonexty", "fillcolor": f"{style.colour}/0.18"}
    return edges


def stacked(
    panels: Sequence[Panel], *, dates: bool = False, x_title: str = "step", agent_last: bool = False
) -> dict[str, Any]:
    """The layout of panels on top of one another, over one axis of dates or steps.

    Args:
        panels: from the top.
        dates: whether the axis is of dates.
        x_title: what the axis is of, if not of dates.
        agent_last: whether the agent's line is the last, which is the uppermost; it is the first
            of the legend all the same.
    """
    gap = 0.09 if len(panels) > 1 else 0.0
    room = 1.0 - gap * (len(panels) - 1)
    total = sum(panel.share for panel in panels)
    layout: dict[str, Any] = {
        "annotations": [],
        "legend": {"traceorder": "reversed" if agent_last else "normal"},
    }
    top = 1.0
    for place, panel in enumerate(panels):
        bottom = max(top - room * panel.share / total, 0.0)
        layout[_axis(place).replace("y", "yaxis")] = {
            "domain": [round(bottom, 6), round(top, 6)],
            "tickformat": AXIS_FORMATS.get(panel.kind, ""),
        }
        layout["annotations"].append(_heading(panel.title, top))
        top = bottom - gap
    layout["xaxis"] = {"type": "date" if dates else "linear", "anchor": _axis(len(panels) - 1)}
    if not dates:
        layout["xaxis"]["title"] = {"text": x_title}
    return layout


def _heading(text: str, height: float) -> dict[str, Any]:
    """A panel's title, above it on the left, where it takes no room from the lines."""
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


def _is_first(style: Style) -> bool:
    return style.colour == "$0"


def moments(times: NDArray[np.datetime64]) -> Floats:
    """Dates as plotly takes them in numbers: milliseconds since 1970."""
    return times.astype("datetime64[ms]").astype(np.int64).astype(np.float64)
