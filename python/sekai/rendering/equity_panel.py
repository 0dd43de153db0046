"""What an agent is worth, and what is missing to its peak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.rendering.look import DRAWDOWN, EQUITY
from sekai.rendering.time_axis import edges_of, fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sekai.rendering.episode_history import EpisodeHistory

__all__ = ["EquityPanel"]


class EquityPanel:
    """Equity as a line, from which an area rises to the highest that it has been."""

    def __init__(self, axes: Axes) -> None:
        """Draw on `axes`."""
        self.axes = axes
        none = np.zeros(1), np.array([-0.5, 0.5])
        # Areas are joined by their edges: a baseline of its own lets them hang from the peak.
        self.drawdown: Any = axes.stairs(*none, baseline=np.zeros(1), fill=True, color=DRAWDOWN)
        self.drawdown.set_alpha(0.45)
        (self.line,) = axes.plot([], [], color=EQUITY, linewidth=1.8)

    def update(self, history: EpisodeHistory[Any]) -> None:
        """Show the equity of every scene."""
        equity, peaks = history.column("equity"), history.peaks()
        self.drawdown.set_data(equity, edges_of(history), baseline=peaks)
        self.line.set_data(history.column("tick"), equity)
        fit(self.axes, np.append(equity, peaks))
