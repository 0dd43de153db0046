"""What an agent holds and what it is worth, over the ticks of an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.look import BUY, DRAWDOWN, EQUITY, INK, SELL, caption, dress

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sekai.rendering.episode_history import EpisodeHistory

__all__ = ["AccountPanels", "edges_of", "fit"]

Floats = NDArray[np.float64]


class AccountPanels:
    """The position as an area around zero, and equity with what is missing to its peak."""

    def __init__(self, position: Axes, equity: Axes) -> None:
        """Draw on these two axes, the lower of which has the ticks."""
        for axes, what, unit in (
            (position, "Position", "lots"),
            (equity, "Equity and drawdown from its peak", "currency"),
        ):
            dress(axes, has_ticks=axes is equity)
            caption(axes, what, unit)
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.locator_params(axis="y", nbins=4)
        self.axes = position, equity
        none = np.zeros(1), np.array([-0.5, 0.5])
        self.long = position.stairs(*none, fill=True, color=BUY, alpha=0.55)
        self.short = position.stairs(*none, fill=True, color=SELL, alpha=0.55)
        (self.position,) = position.plot([], [], color=INK, linewidth=1.2, drawstyle="steps-mid")
        position.axhline(0, color=INK, alpha=0.35, linewidth=0.8)
        # Areas are joined by their edges: a baseline of its own lets them hang from the peak.
        self.drawdown: Any = equity.stairs(*none, baseline=np.zeros(1), fill=True, color=DRAWDOWN)
        self.drawdown.set_alpha(0.45)
        (self.equity,) = equity.plot([], [], color=EQUITY, linewidth=1.8)

    def update(self, history: EpisodeHistory[Any]) -> None:
        """Show the account of every scene."""
        ticks, edges = history.column("tick"), edges_of(history)
        position, equity = history.column("position"), history.column("equity")
        peaks = history.peaks()
        self.long.set_data(np.maximum(position, 0), edges)
        self.short.set_data(np.minimum(position, 0), edges)
        self.position.set_data(ticks, position)
        self.drawdown.set_data(equity, edges, baseline=peaks)
        self.equity.set_data(ticks, equity)
        fit(self.axes[0], np.append(position, 0))
        fit(self.axes[1], np.append(equity, peaks))


def edges_of(history: EpisodeHistory[Any]) -> Floats:
    """Where the cells of ticks begin and end; a tick that was not watched belongs to the last."""
    ticks = history.column("tick")
    return np.append(ticks, ticks[-1] + 1) - 0.5


def fit(axes: Axes, values: Floats) -> None:
    """Give `axes` room for all `values`, and for a little more."""
    low, high = float(values.min()), float(values.max())
    margin = 0.08 * (high - low or 1.0)
    axes.set_ylim(low - margin, high + margin)
