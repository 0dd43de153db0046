"""Who bought and who sold, as triangles on a chart of prices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.look import BUY, SELL
from sekai.rendering.scene import TradingScene

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["TradeMarks", "traded"]

SHAPES = {1: ("^", BUY), -1: ("v", SELL)}
"""Buyers point up and are blue, sellers point down and are orange."""

Floats = NDArray[np.float64]


class TradeMarks:
    """A triangle for what one side traded in a tick, at its average price; area is volume."""

    def __init__(self, axes: Axes) -> None:
        """Draw on `axes`."""
        self.others = {
            sign: axes.scatter([], [], marker=shape, color=colour, linewidth=0, zorder=3)
            for sign, (shape, colour) in SHAPES.items()
        }
        self.own = {
            sign: axes.scatter(
                [], [], marker=shape, color=colour, edgecolor="white", linewidth=1.1, zorder=4
            )
            for sign, (shape, colour) in SHAPES.items()
        }

    def keys(self) -> dict[str, Any]:
        """What explains the marks in a legend."""
        from matplotlib.lines import Line2D

        def mark(sign: int, **edge: Any) -> Line2D:
            shape, colour = SHAPES[sign]
            return Line2D([], [], marker=shape, color=colour, linestyle="none", **edge)

        white: dict[str, Any] = {"markeredgecolor": "white", "markersize": 8}
        return {
            "buyers": mark(1, markersize=5),
            "sellers": mark(-1, markersize=5),
            "own buy": mark(1, **white),
            "own sell": mark(-1, **white),
        }

    def update(self, scenes: Sequence[TradingScene]) -> None:
        """Show the trades of `scenes`: those of everybody else, and the agent's own."""
        size = scenes[-1].tick_size
        for marks, is_own, least, area in (
            (self.others, False, 0.0, 0.2),
            (self.own, True, 24.0, 0.5),
        ):
            for sign, mark in marks.items():
                ticks, prices, volumes = traded(scenes, sign, is_own=is_own)
                mark.set_offsets(np.column_stack([ticks, prices * size]))
                mark.set_sizes(least + area * volumes)


def traded(
    scenes: Sequence[TradingScene], sign: int, *, is_own: bool
) -> tuple[Floats, Floats, Floats]:
    """Ticks in which one side traded, its average price in each, and its volume.

    Args:
        scenes: what happened.
        sign: 1 for buying, -1 for selling.
        is_own: whether the agent's own trades are wanted, or those in which it took no part, with
            the side of the incoming order.
    """
    ticks = np.repeat([one.tick for one in scenes], [one.trade_size.size for one in scenes])
    if ticks.size == 0:
        return np.empty(0), np.empty(0), np.empty(0)
    price, size, taker, own = (
        np.concatenate([getattr(one, f"trade_{name}") for one in scenes])
        for name in ("price", "size", "sign", "own")
    )
    is_wanted = own == sign if is_own else (own == 0) & (taker == sign)
    found, place = np.unique(ticks[is_wanted], return_inverse=True)
    volumes: Floats = np.bincount(place, weights=size[is_wanted], minlength=found.size).astype(
        float
    )
    paid = np.bincount(place, weights=(price * size)[is_wanted], minlength=found.size)
    return found.astype(np.float64), paid / volumes, volumes
