"""Renderer of baskets of orders: filled shares and price advantages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sekai.compose.orders.basket_execution import BasketExecutionBatch
from sekai.compose.orders.order_batch import INFO
from sekai.error import ResetRequired
from sekai.rendering.matplotlib_renderer import MatplotlibRenderer
from sekai.rendering.style import BUY, FAIR, FOREGROUND, SELL, Title, set_caption, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BasketRenderer"]


class BasketRenderer(MatplotlibRenderer):
    """Renderer of a basket: filled share and price advantage of each order so far.

    The dashed line is the share of an even schedule. Nothing at or after the current time is drawn.

    Args:
        width: width in pixels.
        height: height in pixels.
        dpi: resolution that text is sized for.
    """

    def __init__(self, width: int = 640, height: int = 800, dpi: int = 100) -> None:
        super().__init__(width, height, dpi)

    def draw(self, env: Any, figure: Figure) -> None:
        """Draw the current basket of `env` on an empty `figure`."""
        batch: BasketExecutionBatch = env.get_attr("batch")
        numbers = batch.batch.order_infos()[0]
        if not numbers[:, INFO["amount"]].all():
            raise ResetRequired("there is no basket to draw: call reset() first")
        grid = figure.add_gridspec(2, 1, hspace=0.25, left=0.16, right=0.95, top=0.86, bottom=0.09)
        filled, advantage = (figure.add_subplot(grid[row]) for row in range(2))
        ticks = [batch.table.ticks[int(index)] for index in numbers[:, INFO["ticks"]]]
        names = [own.stock_id for own in ticks]
        colors = [BUY if buys else SELL for buys in numbers[:, INFO["direction"]]]
        _draw_filled(numbers, names, colors, filled)
        _bars(batch.infos()["price_advantage"][0], names, colors, advantage)
        set_caption(advantage, "Price advantage over the mean price so far", "basis points")
        value, shares = numbers[:, INFO["value"]].sum(), _shares(numbers)
        tick = min(int(numbers[:, INFO["tick"]].max()), len(ticks[0].times) - 1)
        when = str(ticks[0].times[tick].astype("datetime64[m]")).replace("T", " ")
        title = Title(figure, f"Basket of {len(names)} orders")
        title.write(when, f"filled {shares.mean():.1%}   value {value:,.0f}")


def _shares(numbers: Any) -> Any:
    return numbers[:, INFO["filled"]] / numbers[:, INFO["amount"]]


def _draw_filled(numbers: Any, names: list[str], colors: list[str], axes: Axes) -> None:
    _bars(_shares(numbers), names, colors, axes)
    set_caption(axes, "Filled", "share of the order")
    first, stop = numbers[:, INFO["first"]], numbers[:, INFO["stop"]]
    even = float(np.max((numbers[:, INFO["tick"]] - first) / (stop - first)))
    axes.axvline(even, color=FAIR, linestyle="--", linewidth=1.2)
    axes.set_xlim(0, 1.05)


def _bars(values: Any, names: list[str], colors: list[str], axes: Axes) -> None:
    style_axes(axes, has_ticks=True)
    axes.set_xlabel("")
    rows = np.arange(len(names))
    axes.barh(rows, values, color=colors, height=0.6)
    axes.axvline(0.0, color=FOREGROUND, linewidth=0.8)
    axes.set_yticks(rows, names)
    axes.invert_yaxis()
