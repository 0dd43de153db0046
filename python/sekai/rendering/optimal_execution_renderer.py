"""Renderer of `OptimalExecution`: price, fills, remaining inventory and shortfall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.rendering.episode_renderer import EpisodeHistory, native_scene
from sekai.rendering.panels import PriceRenderer
from sekai.rendering.style import FAIR, add_legend, fit_y_limits, follow_ticks, set_caption

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FULL_ORDER_AREA = 600
"""Area of a marker that fills the whole order, in square points."""


@dataclass(frozen=True, kw_only=True)
class OptimalExecutionScene:
    """State of `OptimalExecution` at one step."""

    seed: int
    episode: int
    tick: int
    sign: int
    """1 for a sell order, -1 for a buy order."""
    shares: float
    """Size of the order."""
    episode_steps: int
    shortfall: float
    inventory: float
    """Remaining size."""
    optimal_inventory: float
    """Remaining size of the optimal schedule."""
    price: float
    traded: float
    """Size traded in the last step."""
    fill_price: float | None
    """Price of the last fill; None if nothing was traded."""
    cash: float
    expected_cost: float
    variance: float
    initial_cash: float = 0.0

    @property
    def position(self) -> float:
        """Remaining size; short for a buy order."""
        return self.sign * self.inventory

    @property
    def equity(self) -> float:
        """Negative implementation shortfall."""
        return -self.shortfall


class OptimalExecutionRenderer(PriceRenderer[OptimalExecutionScene]):
    """Renderer of optimal execution: fills, and the inventory beside the optimal schedule.

    A triangle marks the fill of a step, sized by its share of the order: orange and down for a
    sale, blue and up for a purchase. The position is the remaining size, short for a buy order;
    equity is the negative shortfall.
    """

    name = "Optimal execution"
    prices_caption = "Price and own fills"
    heights = (2.0, 1.5, 1.3)
    left = 0.17

    def read_scene(self, env: Any) -> OptimalExecutionScene:
        """Read the current scene of `env`."""
        return OptimalExecutionScene(**native_scene(env, self.env_index))

    def build(self, figure: Figure) -> None:
        """Create all axes and artists on an empty `figure`."""
        super().build(figure)
        position, equity = self.account.axes
        set_caption(position, "Remaining, and the optimal schedule", "shares")
        set_caption(equity, "Negative shortfall, and its drawdown", "currency")
        (self.optimum,) = position.plot([], [], color=FAIR, linewidth=1.4, linestyle="--")
        lines = {"price": self.price, **self.fills.legend()}
        add_legend(figure, {**lines, "remaining": self.account.position, "optimal": self.optimum})

    def update(self, history: EpisodeHistory[OptimalExecutionScene]) -> None:
        """Update the artists to show `history`."""
        ticks, prices = history.column("tick"), history.column("price")
        fills, traded = history.column("fill_price"), history.column("traded")
        self.price.set_data(ticks, prices)
        last, sign = history.last, history.last.sign
        areas = FULL_ORDER_AREA * traded / last.shares
        for side in (1, -1):
            # A sell order has the sign 1.
            self.fills.update(side, ticks, fills, areas * (side == -sign))
        self.account.update(history)
        optimum = sign * history.column("optimal_inventory")
        self.optimum.set_data(ticks, optimum)
        positions = history.column("position")
        fit_y_limits(self.account.axes[0], np.concatenate([[0.0], optimum, positions]))
        self.title.update(last, float(history.peaks()[-1]))
        follow_ticks(self.prices, history, room=min(history.ticks, last.episode_steps))
        fit_y_limits(self.prices, np.concatenate([prices, fills[traded > 0]]))
