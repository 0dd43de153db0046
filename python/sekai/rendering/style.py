"""Chart style of the built-in renderers: colors, captions, legends, title and time axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sekai.rendering.episode_renderer import EpisodeHistory, Scene

Floats = NDArray[np.float64]

# The colorblind-safe palette of Okabe and Ito; the side of a trade is shown by shape as well.
BACKGROUND, PANEL, FOREGROUND, MUTED = "#0d1117", "#131923", "#e8eaed", "#9aa4b0"
BUY, SELL, FAIR, EQUITY, DRAWDOWN = "#56b4e9", "#e69f00", "#f0e442", "#1fbf93", "#cc79a7"

SERIES_COLORS = (BUY, SELL, EQUITY, FAIR, DRAWDOWN, "#d55e00", "#4a8fd6")
"""Colors of adjacent lines and areas: the same palette with a lighter blue."""

OTHER_COLOR = "#6b7684"
"""Color of everything without a series color."""

SMALL, MEDIUM, LARGE = 11, 12, 14
"""Font sizes in points: readable on a phone, which shows 640 pixels at about half size."""

LEGEND: dict[str, Any] = {
    "loc": "upper left",
    "frameon": False,
    "labelcolor": MUTED,
    "handletextpad": 0.4,
    "borderpad": 0,
}

HALF_DAY = np.timedelta64(12, "h")
"""Rows that are closer together are labelled with minutes."""

MAX_DATES = 4
"""Number of date labels that fit on the axis; one less with minutes."""


def style_axes(axes: Axes, *, has_ticks: bool) -> None:
    """Apply the chart style; only the lowest axes have tick labels."""
    axes.set_facecolor(PANEL)
    axes.grid(color=FOREGROUND, alpha=0.08, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED, labelsize=SMALL, length=0, labelbottom=has_ticks)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if has_ticks:
        axes.set_xlabel("tick of the episode", color=MUTED, fontsize=SMALL)
    # Fixed coordinates: automatic label placement takes a quarter of the drawing time.
    axes.xaxis.set_label_coords(0.5, -0.2)
    axes.yaxis.set_label_coords(0, 0.5)


def set_caption(axes: Axes, text: str, unit: str) -> None:
    """Set the caption above axes: quantity and unit."""
    axes.set_title(f"{text}, {unit}", loc="left", color=FOREGROUND, fontsize=SMALL, y=1.0, pad=4)


def format_amount(amount: float, position: float = 0.0) -> str:
    """Format an amount for tick labels, which have room for seven digits."""
    for unit, size in (("B", 1e9), ("M", 1e6)):
        if abs(amount) >= 10 * size:
            return f"{amount / size:,.1f}{unit}"
    return f"{amount:,.0f}"


def add_legend(figure: Figure, artists: dict[str, Any]) -> None:
    """Add a legend in one row under the title."""
    figure.legend(
        list(artists.values()),
        list(artists),
        bbox_to_anchor=(0.022, 0.937),
        ncols=len(artists),
        fontsize=SMALL,
        handlelength=1.3,
        columnspacing=1.1,
        **LEGEND,
    )


def add_side_legend(axes: Axes, artists: dict[str, Any]) -> None:
    """Add a legend to the right of axes, the uppermost artist first."""
    legend = axes.legend(
        list(artists.values()),
        list(artists),
        bbox_to_anchor=(1.01, 1.02),
        fontsize=SMALL - 2,
        handlelength=1.0,
        labelspacing=0.25,
        borderaxespad=0,
        **LEGEND,
    )
    legend.set_in_layout(False)


class Title:
    """Two title lines: episode and tick; equity, profit and drawdown.

    Args:
        figure: the figure to write on.
        name: name of the task.
    """

    def __init__(self, figure: Figure, name: str) -> None:
        self._name = name
        figure.set_facecolor(BACKGROUND)
        shared: dict[str, Any] = {"x": 0.03, "va": "top", "color": FOREGROUND}
        self.first = figure.text(y=0.988, s="", fontsize=LARGE, fontweight="bold", **shared)
        self.second = figure.text(y=0.957, s="", fontsize=MEDIUM, **shared)

    def update(self, scene: Scene, peak: float, when: str | None = None) -> None:
        """Show the account of `scene`; `when` replaces its tick number."""
        profit = scene.equity - scene.initial_cash
        when = when or f"tick {scene.tick:,}"
        self.write(
            f"seed {scene.seed} · {when}",
            f"equity {scene.equity:,.2f}   profit {profit:+,.2f}"
            f"   drawdown {peak - scene.equity:,.2f}",
        )

    def write(self, when: str, numbers: str) -> None:
        """Set the text after the task name, and the second line."""
        self.first.set_text(f"{self._name} · {when}")
        self.second.set_text(numbers)


class DateTicks:
    """Date labels of the x axis, for episodes on dated data."""

    def __init__(self, axes: Axes) -> None:
        axes.set_xlabel("date of the data")
        # The first label is below the lowest label of the y axis.
        axes.tick_params(axis="x", pad=9)
        self._axes = axes

    def update(self, history: EpisodeHistory[Any]) -> str:
        """Set the date labels, and return the last date."""
        times = np.array([scene.time for scene in history.scenes])
        is_daily = bool((np.diff(times) >= HALF_DAY).all())
        names = [
            str(name).replace("T", " ")
            for name in np.datetime_as_string(times, unit="D" if is_daily else "m")
        ]
        ticks = history.column("tick").astype(int)
        begin = history.first.tick
        parts = (ticks - begin) // -(-history.ticks // (MAX_DATES if is_daily else MAX_DATES - 1))
        # The first tick of each part; none for a part whose first tick is no longer stored.
        chosen = np.flatnonzero(np.diff(parts, prepend=-1 if ticks[0] == begin else parts[0]))
        self._axes.set_xticks(ticks[chosen], [names[index] for index in chosen])
        return names[-1]


def tick_edges(history: EpisodeHistory[Any]) -> Floats:
    """Edges of the cells of all ticks; a tick that was not watched extends the cell before."""
    ticks = history.column("tick")
    return np.append(ticks, ticks[-1] + 1) - 0.5


def fit_y_limits(axes: Axes, values: Floats, *, least: float = 1.0) -> None:
    """Set the y limits to the range of `values` with a margin; `least` if all are equal."""
    low, high = float(values.min()), float(values.max())
    margin = 0.08 * (high - low) or least
    axes.set_ylim(low - margin, high + margin)


def follow_ticks(
    axes: Axes, history: EpisodeHistory[Any], *, begin: int = 0, room: int = 0
) -> None:
    """Set the x limits to the last ticks, starting at `begin` until the axis is full.

    Args:
        axes: the axes, and all axes that share their x axis.
        history: the episode to show.
        begin: first tick of the episode.
        room: number of ticks on the axis; that of the history if 0.
    """
    room = room or history.ticks
    first = max(history.last.tick - room, begin)
    axes.set_xlim(first - 0.5, first + room + 0.5)
