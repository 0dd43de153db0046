"""What an agent holds and what it is worth, over the ticks of an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.rendering.equity_panel import EquityPanel
from sekai.rendering.look import BUY, INK, SELL, caption, dress
from sekai.rendering.time_axis import edges_of, fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sekai.rendering.episode_history import EpisodeHistory

__all__ = ["AccountPanels"]


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
        self.worth = EquityPanel(equity)

    def update(self, history: EpisodeHistory[Any]) -> None:
        """Show the account of every scene."""
        ticks, edges = history.column("tick"), edges_of(history)
        position = history.column("position")
        self.long.set_data(np.maximum(position, 0), edges)
        self.short.set_data(np.minimum(position, 0), edges)
        self.position.set_data(ticks, position)
        fit(self.axes[0], np.append(position, 0))
        self.worth.update(history)
