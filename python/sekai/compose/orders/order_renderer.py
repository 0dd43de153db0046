"""Draws an order at work: prices, fills, and what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.compose.orders.order import OrderDir
from sekai.compose.orders.state import SAOEState
from sekai.error import ResetRequired
from sekai.rendering.look import BUY, FAIR, INK, PAPER, SELL, caption, dress
from sekai.rendering.matplotlib_renderer import MatplotlibRenderer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["OrderRenderer"]


class OrderRenderer(MatplotlibRenderer):
    """Shows prices up to now, fills as dots as large as they are, and the amount that is left.

    Nothing at or after the current time is drawn.
    """

    def draw(self, env: Any, figure: Figure) -> None:
        """Draw the order that `env` is working on an empty `figure`."""
        simulator = env.get_attr("simulator") if hasattr(env, "get_attr") else env
        if simulator is None:
            raise ResetRequired("there is no order to draw: call reset() first")
        state: SAOEState = simulator.get_state()
        figure.set_facecolor(PAPER)
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        self._draw_prices(state, top)
        self._draw_left(state, bottom)
        side = "Buy" if state.order.direction is OrderDir.BUY else "Sell"
        when = str(state.cur_time.astype("datetime64[m]")).replace("T", " ")
        title = f"{side} {state.order.amount:,.0f} {state.order.stock_id}, {when}"
        figure.suptitle(title, color=INK)

    def _draw_prices(self, state: SAOEState, axes: Axes) -> None:
        dress(axes, has_ticks=False)
        caption(axes, "Price and fills", "currency")
        known = slice(0, state.cur_tick)
        prices = state.backtest_data.deal_price[known]
        axes.plot(np.arange(len(prices)), prices, color=INK, linewidth=1.2)
        filled = state.history.filled()
        ticks = state.first_tick + np.flatnonzero(filled > 0)
        if len(ticks):
            sizes = 40 * filled[filled > 0] / filled.max()
            axes.scatter(
                ticks,
                prices[ticks],
                s=sizes,
                color=BUY if state.order.direction is OrderDir.BUY else SELL,
                zorder=3,
            )
        axes.set_xlim(-0.5, len(state.ticks_index) - 0.5)

    def _draw_left(self, state: SAOEState, axes: Axes) -> None:
        dress(axes, has_ticks=True)
        caption(axes, "Left to trade", "shares")
        axes.xaxis.get_label().set_text("tick of the day")
        left = state.order.amount - np.concatenate([[0.0], np.cumsum(state.history.filled())])
        ticks = state.first_tick + np.arange(len(left))
        axes.plot(ticks, left, color=FAIR, linewidth=1.4, drawstyle="steps-post")
        axes.set_ylim(0, state.order.amount * 1.05)
