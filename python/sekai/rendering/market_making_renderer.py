"""Renderer of `MarketMaking`: mid price, quotes, fills and account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.episode_renderer import EpisodeHistory, native_scene
from sekai.rendering.panels import EMPTY_STAIRS, PriceRenderer
from sekai.rendering.style import (
    BUY,
    FOREGROUND,
    SELL,
    add_legend,
    fit_y_limits,
    follow_ticks,
    tick_edges,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class MarketMakingScene:
    """State of `MarketMaking` at one step."""

    seed: int
    episode: int
    tick: int
    mid: float
    inventory: float
    cash: float
    wealth: float
    initial_cash: float
    fills: float
    """Fills since the start of the episode."""
    bid_distance: float | None
    """Distance of the last bid quote from the mid price; None before the first step."""
    ask_distance: float | None

    @property
    def position(self) -> float:
        """Position in lots."""
        return self.inventory

    @property
    def equity(self) -> float:
        """Cash plus lots at the mid price."""
        return self.wealth


class MarketMakingRenderer(PriceRenderer[MarketMakingScene]):
    """Renderer of market making: quotes around the mid price, own fills, position and equity.

    The bid is blue, the ask orange. A triangle marks the fills of a step at the quote, sized by
    their number.
    """

    name = "Market making"
    prices_caption = "Mid price and own quotes"
    heights = (3.0, 1, 1.3)
    left = 0.12

    def read_scene(self, env: Any) -> MarketMakingScene:
        """Read the current scene of `env`."""
        return MarketMakingScene(**native_scene(env, self.env_index))

    def build(self, figure: Figure) -> None:
        """Create all axes and artists on an empty `figure`."""
        super().build(figure)
        self.spread: Any = self.prices.stairs(
            *EMPTY_STAIRS, baseline=np.zeros(1), fill=True, color=FOREGROUND, alpha=0.08
        )
        steps: dict[str, Any] = {"linewidth": 1.2, "drawstyle": "steps-mid"}
        (self.bid,) = self.prices.plot([], [], color=BUY, **steps)
        (self.ask,) = self.prices.plot([], [], color=SELL, **steps)
        lines = {"mid": self.price, "bid": self.bid, "ask": self.ask}
        add_legend(figure, {**lines, **self.fills.legend()})

    def update(self, history: EpisodeHistory[MarketMakingScene]) -> None:
        """Update the artists to show `history`."""
        ticks, mids = history.column("tick"), history.column("mid")
        bids = mids - history.column("bid_distance")
        asks = mids + history.column("ask_distance")
        # No quotes before the first step: the area has no height there.
        low, high = (np.where(np.isnan(quotes), mids, quotes) for quotes in (bids, asks))
        self.spread.set_data(high, tick_edges(history), baseline=low)
        for line, values in ((self.price, mids), (self.bid, bids), (self.ask, asks)):
            line.set_data(ticks, values)
        bought, sold = quote_fills(history)
        self.fills.update(1, ticks, bids, 36 * bought)
        self.fills.update(-1, ticks, asks, 36 * sold)
        self.account.update(history)
        self.title.update(history.last, float(history.peaks()[-1]))
        follow_ticks(self.prices, history)
        fit_y_limits(self.prices, np.concatenate([low, high]))


def quote_fills(history: EpisodeHistory[MarketMakingScene]) -> tuple[Floats, Floats]:
    """Number of fills of the bid and of the ask since the previous scene."""
    fills, inventory = history.column("fills"), history.column("inventory")
    count, change = np.diff(fills, prepend=fills[0]), np.diff(inventory, prepend=inventory[0])
    return (count + change) / 2, (count - change) / 2
