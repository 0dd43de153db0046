"""Draws an episode of `OptimalExecution`: the price, fills, what is left, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.rendering.account_panels import AccountPanels, fit
from sekai.rendering.episode_history import EpisodeHistory
from sekai.rendering.episode_renderer import EpisodeRenderer
from sekai.rendering.look import BUY, FAIR, INK, SELL, Title, caption, dress, explain
from sekai.rendering.scene import OptimalExecutionScene, native_scene

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["OptimalExecutionRenderer"]

LARGEST = 600
"""The area of a mark that trades the whole order, in square points."""


class OptimalExecutionRenderer(EpisodeRenderer[OptimalExecutionScene]):
    """Shows where an order was filled, and what is left of it beside the optimal schedule.

    A triangle is what a step traded, as large as its share of the order: orange and down for a
    sale, blue and up for a purchase. What is left is a position, short for a buyer; equity is
    minus the shortfall.
    """

    def look(self, env: Any) -> OptimalExecutionScene:
        """What `env` is like now."""
        return OptimalExecutionScene(**native_scene(env, self.env_index))

    def build(self, figure: Figure) -> None:
        """Make everything that will be drawn, on an empty `figure`."""
        grid = figure.add_gridspec(
            3, 1, height_ratios=(2.0, 1.5, 1.3), hspace=0.22,
            left=0.17, right=0.96, top=0.88, bottom=0.075,
        )  # fmt: skip
        self.prices = figure.add_subplot(grid[0])
        position = figure.add_subplot(grid[1], sharex=self.prices)
        equity = figure.add_subplot(grid[2], sharex=self.prices)
        self.title = Title(figure, "Optimal execution")
        dress(self.prices, has_ticks=False)
        caption(self.prices, "Price and own fills", "currency")
        self.prices.yaxis.set_major_formatter("{x:,.2f}")
        (self.price,) = self.prices.plot([], [], color=INK, linewidth=1.6)
        marks: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.8, "zorder": 4}
        self.bought = self.prices.scatter([], [], marker="^", color=BUY, **marks)
        self.sold = self.prices.scatter([], [], marker="v", color=SELL, **marks)
        self.account = AccountPanels(position, equity)
        caption(position, "Left to trade, and the optimal schedule", "shares")
        caption(equity, "Minus the shortfall, and its drawdown", "currency")
        (self.optimum,) = position.plot([], [], color=FAIR, linewidth=1.4, linestyle="--")
        keys = {"price": self.price, "bought": self.bought, "sold": self.sold}
        explain(figure, {**keys, "left": self.account.position, "optimal": self.optimum})

    def update(self, history: EpisodeHistory[OptimalExecutionScene]) -> None:
        """Let what was made show `history`."""
        ticks, prices = history.column("tick"), history.column("price")
        fills, traded = history.column("fill_price"), history.column("traded")
        self.price.set_data(ticks, prices)
        last, sign = history.last, history.last.sign
        for marks, side in ((self.bought, -1), (self.sold, 1)):
            is_own = (traded > 0) & (sign == side)
            marks.set_offsets(np.column_stack([ticks, fills])[is_own])
            marks.set_sizes(LARGEST * traded[is_own] / last.shares)
        self.account.update(history)
        optimum = sign * history.column("optimal_inventory")
        self.optimum.set_data(ticks, optimum)
        fit(self.account.axes[0], np.concatenate([[0.0], optimum, history.column("position")]))
        self.title.update(last, float(history.peaks()[-1]))
        room = min(history.ticks, last.episode_steps)
        begin = max(last.tick - room, 0)
        self.prices.set_xlim(begin - 0.5, begin + room + 0.5)
        fit(self.prices, np.concatenate([prices, fills[traded > 0]]))
