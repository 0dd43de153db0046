"""Draws an episode of `MarketMaking`: the mid price, quotes, fills and the agent's account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.episode_history import EpisodeHistory
from sekai.rendering.look import BUY, INK, SELL, explain
from sekai.rendering.price_renderer import PriceRenderer
from sekai.rendering.scene import MarketMakingScene, native_scene
from sekai.rendering.time_axis import edges_of, fit, follow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MarketMakingRenderer", "filled"]

Floats = NDArray[np.float64]


class MarketMakingRenderer(PriceRenderer[MarketMakingScene]):
    """Shows the quotes around the mid price, which of them were hit, and how the agent does.

    The bid is blue and the ask orange. A triangle is what was bought or sold in a step, on the
    quote that was hit, as large as the number of fills.
    """

    name = "Market making"
    prices_caption = "Mid price and own quotes"
    heights = (3.0, 1, 1.3)
    left = 0.12

    def look(self, env: Any) -> MarketMakingScene:
        """What `env` is like now."""
        return MarketMakingScene(**native_scene(env, self.env_index))

    def build(self, figure: Figure) -> None:
        """Make everything that will be drawn, on an empty `figure`."""
        super().build(figure)
        none = np.zeros(1), np.array([-0.5, 0.5])
        self.spread: Any = self.prices.stairs(
            *none, baseline=np.zeros(1), fill=True, color=INK, alpha=0.08
        )
        steps: dict[str, Any] = {"linewidth": 1.2, "drawstyle": "steps-mid"}
        (self.bid,) = self.prices.plot([], [], color=BUY, **steps)
        (self.ask,) = self.prices.plot([], [], color=SELL, **steps)
        keys = {"mid": self.price, "bid": self.bid, "ask": self.ask}
        explain(figure, {**keys, **self.fills.keys()})

    def update(self, history: EpisodeHistory[MarketMakingScene]) -> None:
        """Let what was made show `history`."""
        ticks, mids = history.column("tick"), history.column("mid")
        bids = mids - history.column("bid_distance")
        asks = mids + history.column("ask_distance")
        # Nothing is quoted before the first step: there the area has no height.
        low, high = (np.where(np.isnan(quotes), mids, quotes) for quotes in (bids, asks))
        self.spread.set_data(high, edges_of(history), baseline=low)
        for line, values in ((self.price, mids), (self.bid, bids), (self.ask, asks)):
            line.set_data(ticks, values)
        bought, sold = filled(history)
        self.fills.update(1, ticks, bids, 36 * bought)
        self.fills.update(-1, ticks, asks, 36 * sold)
        self.account.update(history)
        self.title.update(history.last, float(history.peaks()[-1]))
        follow(self.prices, history)
        fit(self.prices, np.concatenate([low, high]))


def filled(history: EpisodeHistory[MarketMakingScene]) -> tuple[Floats, Floats]:
    """How often the bid and the ask were hit since the scene before."""
    fills, held = history.column("fills"), history.column("inventory")
    hits, change = np.diff(fills, prepend=fills[0]), np.diff(held, prepend=held[0])
    return (hits + change) / 2, (hits - change) / 2
