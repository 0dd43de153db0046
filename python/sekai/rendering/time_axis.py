"""Axes of an episode: which ticks they show, and how high they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sekai.rendering.episode_history import EpisodeHistory

__all__ = ["Dates", "edges_of", "fit", "follow"]

Floats = NDArray[np.float64]

HALF_A_DAY = np.timedelta64(12, "h")
"""Rows that are nearer to each other are told apart by the minute as well."""


class Dates:
    """Writes under axes when the rows of data were known, instead of their numbers."""

    def __init__(self, axes: Axes) -> None:
        """Write under `axes`."""
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
        axes.xaxis.set_major_formatter(self._name)
        axes.set_xlabel("date of the data")
        self._names: dict[int, str] = {}

    def update(self, history: EpisodeHistory[Any]) -> str:
        """Take the dates of every scene, and return the last of them."""
        times = np.array([scene.time for scene in history.scenes])
        is_daily = bool((np.diff(times) >= HALF_A_DAY).all())
        names = np.datetime_as_string(times, unit="D" if is_daily else "m")
        ticks = history.column("tick").astype(int).tolist()
        self._names = dict(zip(ticks, (name.replace("T", " ") for name in names), strict=True))
        return self._names[ticks[-1]]

    def _name(self, tick: float, place: float) -> str:
        # What is still to come has no date yet.
        return self._names.get(round(tick), "")


def edges_of(history: EpisodeHistory[Any]) -> Floats:
    """Where the cells of ticks begin and end; a tick that was not watched belongs to the last."""
    ticks = history.column("tick")
    return np.append(ticks, ticks[-1] + 1) - 0.5


def fit(axes: Axes, values: Floats, *, least: float = 1.0) -> None:
    """Give `axes` room for all `values` and a little more, and for `least` where all are alike."""
    low, high = float(values.min()), float(values.max())
    margin = 0.08 * (high - low) or least
    axes.set_ylim(low - margin, high + margin)


def follow(axes: Axes, history: EpisodeHistory[Any], *, begin: int = 0, room: int = 0) -> None:
    """Let `axes` show the last ticks; until there are enough of them, from `begin` on.

    Args:
        axes: what is moved, and all axes that share its ticks.
        history: what is shown.
        begin: the tick that an episode begins with.
        room: for how many ticks there is room; all that the history has room for if 0.
    """
    room = room or history.ticks
    first = max(history.last.tick - room, begin)
    axes.set_xlim(first - 0.5, first + room + 0.5)
