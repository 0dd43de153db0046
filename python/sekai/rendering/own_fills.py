"""What the agent itself has bought and sold, on a chart of prices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.look import BUY, SELL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["OwnFills"]

Floats = NDArray[np.float64]


class OwnFills:
    """A triangle for each fill: blue and up for a purchase, orange and down for a sale."""

    def __init__(self, axes: Axes) -> None:
        """Draw on `axes`."""
        marks: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.8, "zorder": 4}
        self.bought = axes.scatter([], [], marker="^", color=BUY, **marks)
        self.sold = axes.scatter([], [], marker="v", color=SELL, **marks)

    def keys(self) -> dict[str, Any]:
        """What explains the marks in a legend."""
        return {"bought": self.bought, "sold": self.sold}

    def update(self, sign: int, ticks: Floats, prices: Floats, areas: Floats) -> None:
        """Mark the fills of one side where there are any.

        Args:
            sign: 1 for what was bought, -1 for what was sold.
            ticks: when.
            prices: where.
            areas: how large a mark is, in square points; none is made where it is 0.
        """
        marks, is_there = self.bought if sign > 0 else self.sold, areas > 0
        marks.set_offsets(np.column_stack([ticks, prices])[is_there])
        marks.set_sizes(areas[is_there])
