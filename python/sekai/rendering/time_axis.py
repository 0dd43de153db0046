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


DATES = 4
"""How many dates have room beside each other; of minutes, one less."""


class Dates:
    """Writes under axes when rows of the data were known, of some that were seen."""

    def __init__(self, axes: Axes) -> None:
        """Write under `axes`."""
        axes.set_xlabel("date of the data")
        # The first is written under the lowest number of the other axis.
        axes.tick_params(axis="x", pad=9)
        self._axes = axes

    def update(self, history: EpisodeHistory[Any]) -> str:
        """Take the dates of every scene, and return the last of them."""
        times = np.array([scene.time for scene in history.scenes])
        is_daily = bool((np.diff(times) >= HALF_A_DAY).all())
        names = [
            str(name).replace("T", " ")
            for name in np.datetime_as_string(times, unit="D" if is_daily else "m")
        ]
        ticks = history.column("tick").astype(int)
        begin = history.first.tick
        parts = (ticks - begin) // -(-history.ticks // (DATES if is_daily else DATES - 1))
        # The first that was seen of each part; of one whose beginning has left, none.
        chosen = np.flatnonzero(np.diff(parts, prepend=-1 if ticks[0] == begin else parts[0]))
        self._axes.set_xticks(ticks[chosen], [names[place] for place in chosen])
        return names[-1]


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
