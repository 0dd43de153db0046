"""Draws an episode of `OptimalExecution`: the price, fills, what is left, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.rendering.episode_history import EpisodeHistory
from sekai.rendering.look import FAIR, caption, explain
from sekai.rendering.price_renderer import PriceRenderer
from sekai.rendering.scene import OptimalExecutionScene, native_scene
from sekai.rendering.time_axis import fit, follow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["OptimalExecutionRenderer"]

LARGEST = 600
"""The area of a mark that trades the whole order, in square points."""


class OptimalExecutionRenderer(PriceRenderer[OptimalExecutionScene]):
    """Shows where an order was filled, and what is left of it beside the optimal schedule.

    A triangle is what a step traded, as large as its share of the order: orange and down for a
    sale, blue and up for a purchase. What is left is a position, short for a buyer; equity is
    minus the shortfall.
    """

    name = "Optimal execution"
    prices_caption = "Price and own fills"
    heights = (2.0, 1.5, 1.3)
    left = 0.17

    def look(self, env: Any) -> OptimalExecutionScene:
        """What `env` is like now."""
        return OptimalExecutionScene(**native_scene(env, self.env_index))

    def build(self, figure: Figure) -> None:
        """Make everything that will be drawn, on an empty `figure`."""
        super().build(figure)
        position, equity = self.account.axes
        caption(position, "Left to trade, and the optimal schedule", "shares")
        caption(equity, "Minus the shortfall, and its drawdown", "currency")
        (self.optimum,) = position.plot([], [], color=FAIR, linewidth=1.4, linestyle="--")
        keys = {"price": self.price, **self.fills.keys()}
        explain(figure, {**keys, "left": self.account.position, "optimal": self.optimum})

    def update(self, history: EpisodeHistory[OptimalExecutionScene]) -> None:
        """Let what was made show `history`."""
        ticks, prices = history.column("tick"), history.column("price")
        fills, traded = history.column("fill_price"), history.column("traded")
        self.price.set_data(ticks, prices)
        last, sign = history.last, history.last.sign
        areas = LARGEST * traded / last.shares
        for side in (1, -1):
            # An order that sells has the sign 1.
            self.fills.update(side, ticks, fills, areas * (side == -sign))
        self.account.update(history)
        optimum = sign * history.column("optimal_inventory")
        self.optimum.set_data(ticks, optimum)
        fit(self.account.axes[0], np.concatenate([[0.0], optimum, history.column("position")]))
        self.title.update(last, float(history.peaks()[-1]))
        follow(self.prices, history, room=min(history.ticks, last.episode_steps))
        fit(self.prices, np.concatenate([prices, fills[traded > 0]]))
