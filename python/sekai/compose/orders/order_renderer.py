"""Renderer of order execution: prices, fills, volumes and the amount left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.order import OrderDir
from sekai.compose.orders.state import SAOEState
from sekai.error import ResetRequired
from sekai.rendering.matplotlib_renderer import MatplotlibRenderer
from sekai.rendering.panels import FillMarkers
from sekai.rendering.style import (
    BUY,
    EQUITY,
    FAIR,
    FOREGROUND,
    OTHER_COLOR,
    SELL,
    Title,
    add_legend,
    set_caption,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["OrderRenderer", "running_prices", "step_fills"]

Floats = NDArray[np.float64]

LARGEST = 600
"""Area of the mark of a fill of the whole order, in square points."""


class OrderRenderer(MatplotlibRenderer):
    """Renderer of an order: its fills, its share of the market volume, and the amount left.

    Prices are white, beside the VWAP and TWAP of the order's ticks so far. A triangle is the fill
    of a step, sized by its share of the order. Below are the market volume with the own share of
    it, and the amount left beside an even schedule. Nothing at or after the current time is drawn.

    Args:
        width: width in pixels.
        height: height in pixels.
        dpi: resolution that text is sized for.
    """

    def __init__(self, width: int = 640, height: int = 800, dpi: int = 100) -> None:
        super().__init__(width, height, dpi)

    def draw(self, env: Any, figure: Figure) -> None:
        """Draw the current order of `env` on an empty `figure`."""
        simulator = env.get_attr("simulator") if hasattr(env, "get_attr") else env
        if simulator is None:
            raise ResetRequired("there is no order to draw: call reset() first")
        state: SAOEState = simulator.get_state()
        grid = figure.add_gridspec(
            3,
            1,
            height_ratios=(2.4, 1.1, 1.3),
            hspace=0.22,
            left=0.13,
            right=0.9,
            top=0.88,
            bottom=0.075,
        )
        prices = figure.add_subplot(grid[0])
        volume, left = (figure.add_subplot(grid[n], sharex=prices) for n in (1, 2))
        keys = _draw_prices(state, prices)
        _draw_volume(state, volume)
        keys["evenly"] = _draw_left(state, left)
        prices.set_xlim(-0.5, len(state.ticks_index) - 0.5)
        _write_title(state, figure)
        add_legend(figure, keys)


def running_prices(state: SAOEState) -> tuple[Floats, Floats]:
    """Running VWAP and TWAP in each tick of the order so far.

    Ticks without trading do not count; the averages are NaN before the first with trading.
    """
    known = slice(state.first_tick, state.cur_tick)
    price, volume = state.backtest_data.deal_price[known], state.backtest_data.volume[known]
    is_there = np.isfinite(price) & (price > 0)
    averages = []
    for weight in (np.where(is_there, np.nan_to_num(volume), 0.0), is_there.astype(float)):
        total = np.cumsum(weight)
        value = np.cumsum(np.where(is_there, price, 0.0) * weight)
        averages.append(np.divide(value, total, out=np.full_like(total, np.nan), where=total > 0))
    return averages[0], averages[1]


def step_fills(state: SAOEState) -> tuple[Floats, Floats, Floats]:
    """Mean tick, mean price and amount of each step with fills, weighted by amount."""
    fills = state.history.fills()
    filled = fills["filled"]
    ticks = state.first_tick + np.arange(len(filled))
    steps = np.searchsorted(state.boundaries(state.first_tick), ticks, side="right")
    amounts, weighted, value = (
        np.bincount(steps, weights=column, minlength=1).astype(np.float64)
        for column in (filled, filled * ticks, fills["value"])
    )
    has_traded = amounts > 0
    amounts = amounts[has_traded]
    return weighted[has_traded] / amounts, value[has_traded] / amounts, amounts


def _draw_prices(state: SAOEState, axes: Axes) -> dict[str, Any]:
    """Chart of prices; returns its legend."""
    style_axes(axes, has_ticks=False)
    set_caption(axes, "Price and own fills", "currency")
    axes.yaxis.set_major_formatter("{x:,.2f}")
    prices = _known_prices(state.backtest_data.deal_price, state.cur_tick)
    (price,) = axes.plot(np.arange(len(prices)), prices, color=FOREGROUND, linewidth=1.2)
    vwap, twap = running_prices(state)
    ticks = state.first_tick + np.arange(len(vwap))
    (by_volume,) = axes.plot(ticks, vwap, color=EQUITY, linewidth=1.4)
    (by_time,) = axes.plot(ticks, twap, color=FAIR, linewidth=1.2, linestyle="--")
    marks, (when, where, amounts) = FillMarkers(axes), step_fills(state)
    areas = LARGEST * amounts / state.order.amount
    marks.update(state.order.direction.sign, when, where, areas)
    own = marks.bought if state.order.direction is OrderDir.BUY else marks.sold
    return {"price": price, "VWAP": by_volume, "TWAP": by_time, "own fills": own}


def _draw_volume(state: SAOEState, axes: Axes) -> None:
    style_axes(axes, has_ticks=False)
    set_caption(axes, "Volume of the market (grey), own share of it", "shares and %")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params(axis="y", nbins=4)
    volume = np.nan_to_num(state.backtest_data.volume[: state.cur_tick])
    axes.stairs(volume, np.arange(len(volume) + 1) - 0.5, fill=True, color=OTHER_COLOR, alpha=0.7)
    shares = axes.twinx()
    style_axes(shares, has_ticks=False)
    shares.grid(visible=False)
    shares.yaxis.set_major_formatter("{x:.1%}")
    shares.locator_params(axis="y", nbins=4)
    filled = state.history.filled()
    market = volume[state.first_tick : state.first_tick + len(filled)]
    share = np.divide(filled, market, out=np.zeros_like(filled), where=market > 0)
    edges = state.first_tick + np.arange(len(filled) + 1) - 0.5
    shares.stairs(share, edges, color=_color(state), linewidth=1.4)
    shares.set_ylim(0, 1.1 * max(float(share.max(initial=0.0)), 1e-3))


def _draw_left(state: SAOEState, axes: Axes) -> Any:
    """Chart of the amount left; returns the line of an even schedule."""
    style_axes(axes, has_ticks=True)
    set_caption(axes, "Left to trade", "shares")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("time of the day")
    axes.xaxis.set_major_formatter(lambda tick, position: _clock(state, tick))
    amount, first = state.order.amount, state.first_tick
    left = amount - np.concatenate([[0.0], np.cumsum(state.history.filled())])
    ticks = first + np.arange(len(left)) - 0.5
    axes.plot(ticks, left, color=_color(state), linewidth=1.6, drawstyle="steps-post")
    window = [first - 0.5, state.stop_tick - 0.5]
    (evenly,) = axes.plot(window, [amount, 0.0], color=FAIR, linewidth=1.2, linestyle=":")
    axes.set_ylim(0, amount * 1.05)
    return evenly


def _write_title(state: SAOEState, figure: Figure) -> None:
    order = state.order
    side = "Buy" if order.direction is OrderDir.BUY else "Sell"
    when = str(state.cur_time.astype("datetime64[m]")).replace("T", " ")
    title = Title(figure, f"{side} {order.amount:,.0f} {order.stock_id}")
    fills = state.history.fills()
    traded, value = float(fills["filled"].sum()), float(fills["value"].sum())
    average = f"   own average {value / traded:,.3f}" if traded > 0 else ""
    vwap = running_prices(state)[0]
    market = f"   VWAP {vwap[-1]:,.3f}" if len(vwap) and np.isfinite(vwap[-1]) else ""
    title.write(when, f"filled {traded / order.amount:.1%}{average}{market}")


def _known_prices(values: Floats, ticks: int) -> Floats:
    """Known prices, NaN where there is none."""
    known = values[:ticks]
    return np.where(known > 0, known, np.nan)


def _clock(state: SAOEState, tick: float) -> str:
    index = round(tick)
    if not 0 <= index < len(state.ticks_index):
        return ""
    return str(state.ticks_index[index].astype("datetime64[m]"))[-5:]


def _color(state: SAOEState) -> str:
    return BUY if state.order.direction is OrderDir.BUY else SELL
