"""What waits in an order book: over time as a heat map, and now as a ladder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.look import BUY, PANEL, SELL, caption, dress
from sekai.rendering.scene import TradingScene

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SHADES", "DepthMap", "Ladder", "depth_codes"]

SHADES = 7
"""Steps between an empty price and a full one: few, so that a GIF needs no other colours."""

Codes = NDArray[np.int8]


class DepthMap:
    """A cell for each price and tick: blue where buyers wait, orange where sellers do."""

    def __init__(self, axes: Axes) -> None:
        """Draw on `axes`, behind everything else."""
        from matplotlib.colors import ListedColormap, to_rgb

        panel, buy, sell = (np.array(to_rgb(colour)) for colour in (PANEL, BUY, SELL))
        strengths = 0.75 * np.arange(1, SHADES + 1)[:, np.newaxis] / SHADES
        bids, asks = panel + strengths * (buy - panel), panel + strengths * (sell - panel)
        self.image = axes.imshow(
            np.zeros((1, 1), dtype=np.int8),
            cmap=ListedColormap(np.concatenate([asks[::-1], [panel], bids])),
            vmin=-SHADES - 0.5,
            vmax=SHADES + 0.5,
            aspect="auto",
            interpolation="nearest",
            origin="lower",
            zorder=0,
        )

    def update(self, scenes: Sequence[TradingScene], low: int, high: int) -> None:
        """Show the books of `scenes` between two prices in ticks, both included."""
        codes = depth_codes(scenes, low, high)
        size = scenes[-1].tick_size
        self.image.set_data(codes)
        first = scenes[0].tick - 0.5
        bottom, top = (low - 0.5) * size, (high + 0.5) * size
        self.image.set_extent((first, first + codes.shape[1], bottom, top))


class Ladder:
    """The present book beside the prices: how many lots wait at each of them."""

    def __init__(self, axes: Axes) -> None:
        """Draw on `axes`, whose prices are those of the axes to its left."""
        dress(axes, has_ticks=False)
        axes.grid(visible=False)
        axes.tick_params(labelleft=False)
        axes.tick_params(labelbottom=True)
        caption(axes, "Book", "lots")
        self.axes = axes
        none = np.zeros(1), np.array([-0.5, 0.5])
        self.bids, self.asks = (
            axes.stairs(*none, orientation="horizontal", fill=True, color=colour, alpha=0.8)
            for colour in (BUY, SELL)
        )

    def update(self, scene: TradingScene, low: int, high: int) -> None:
        """Show the book of `scene` between two prices in ticks, both included."""
        edges = (np.arange(low, high + 2) - 0.5) * scene.tick_size
        bids = _by_price(scene.bid_price, scene.bid_size, low, high)
        asks = _by_price(scene.ask_price, scene.ask_size, low, high)
        self.bids.set_data(bids, edges)
        self.asks.set_data(asks, edges)
        most = round_up(max(bids.max(), asks.max(), 1))
        self.axes.set_xlim(0, most)
        self.axes.set_xticks([most], [f"{most:,}"], ha="right")


def depth_codes(scenes: Sequence[TradingScene], low: int, high: int) -> Codes:
    """A row for each price from `low` to `high`, a column for each tick.

    Cells are 0 where nothing waits, 1 to `SHADES` where buyers do and -1 to -`SHADES` where
    sellers do: the more, the larger. A tick that no scene tells of is like the one before.
    """
    bids = np.stack([_by_price(one.bid_price, one.bid_size, low, high) for one in scenes], 1)
    asks = np.stack([_by_price(one.ask_price, one.ask_size, low, high) for one in scenes], 1)
    sizes = bids + asks
    waiting = sizes[sizes > 0]
    # Rounded up, so that colours do not change with every order; few levels are larger by far.
    full = round_up(np.percentile(waiting, 98)) if waiting.size else 1
    # The root shows small orders beside large ones.
    shades = np.ceil(SHADES * np.sqrt(np.minimum(sizes / full, 1))).astype(np.int8)
    ticks = np.array([scene.tick for scene in scenes])
    widths = np.diff(np.append(ticks, ticks[-1] + 1))
    return np.repeat(np.where(asks > bids, -shades, shades), widths, axis=1)


def round_up(size: float) -> int:
    """The next power of two."""
    return 1 << max(int(np.ceil(size)) - 1, 0).bit_length()


def _by_price(
    prices: NDArray[np.int64], sizes: NDArray[np.int64], low: int, high: int
) -> NDArray[np.int64]:
    """Sizes of all prices from `low` to `high`."""
    found = np.zeros(high - low + 1, dtype=np.int64)
    is_shown = (low <= prices) & (prices <= high)
    found[prices[is_shown] - low] = sizes[is_shown]
    return found
