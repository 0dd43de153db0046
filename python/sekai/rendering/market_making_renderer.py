"""Draws an episode of `MarketMaking`: the mid price, quotes, fills and the agent's account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.account_panels import AccountPanels, edges_of, fit
from sekai.rendering.episode_history import EpisodeHistory
from sekai.rendering.episode_renderer import EpisodeRenderer
from sekai.rendering.look import BUY, INK, SELL, Title, caption, dress, explain
from sekai.rendering.scene import MarketMakingScene, native_scene

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MarketMakingRenderer", "filled"]

Floats = NDArray[np.float64]


class MarketMakingRenderer(EpisodeRenderer[MarketMakingScene]):
    """Shows the quotes around the mid price, which of them were hit, and how the agent does.

    The bid is blue and the ask orange. A triangle is what was bought or sold in a step, on the
    quote that was hit, as large as the number of fills.
    """

    def look(self, env: Any) -> MarketMakingScene:
        """What `env` is like now."""
        return MarketMakingScene(**native_scene(env, self.env_index))

    def build(self, figure: Figure) -> None:
        """Make everything that will be drawn, on an empty `figure`."""
        grid = figure.add_gridspec(
            3, 1, height_ratios=(3.0, 1, 1.3), hspace=0.22,
            left=0.12, right=0.96, top=0.88, bottom=0.075,
        )  # fmt: skip
        self.prices = figure.add_subplot(grid[0])
        position = figure.add_subplot(grid[1], sharex=self.prices)
        equity = figure.add_subplot(grid[2], sharex=self.prices)
        self.title = Title(figure, "Market making")
        dress(self.prices, has_ticks=False)
        caption(self.prices, "Mid price and own quotes", "currency")
        self.prices.yaxis.set_major_formatter("{x:,.2f}")
        none = np.zeros(1), np.array([-0.5, 0.5])
        self.spread: Any = self.prices.stairs(
            *none, baseline=np.zeros(1), fill=True, color=INK, alpha=0.08
        )
        steps: dict[str, Any] = {"linewidth": 1.2, "drawstyle": "steps-mid"}
        (self.bid,) = self.prices.plot([], [], color=BUY, **steps)
        (self.ask,) = self.prices.plot([], [], color=SELL, **steps)
        (self.mid,) = self.prices.plot([], [], color=INK, linewidth=1.6)
        marks: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.8, "zorder": 4}
        self.bought = self.prices.scatter([], [], marker="^", color=BUY, **marks)
        self.sold = self.prices.scatter([], [], marker="v", color=SELL, **marks)
        keys = {"mid": self.mid, "bid": self.bid, "ask": self.ask}
        explain(figure, {**keys, "bought": self.bought, "sold": self.sold})
        self.account = AccountPanels(position, equity)

    def update(self, history: EpisodeHistory[MarketMakingScene]) -> None:
        """Let what was made show `history`."""
        ticks, mids = history.column("tick"), history.column("mid")
        bids = mids - history.column("bid_distance")
        asks = mids + history.column("ask_distance")
        # Nothing is quoted before the first step: there the area has no height.
        low, high = (np.where(np.isnan(quotes), mids, quotes) for quotes in (bids, asks))
        self.spread.set_data(high, edges_of(history), baseline=low)
        for line, values in ((self.mid, mids), (self.bid, bids), (self.ask, asks)):
            line.set_data(ticks, values)
        for marks, quotes, counts in zip(
            (self.bought, self.sold), (bids, asks), filled(history), strict=True
        ):
            is_hit = counts > 0
            marks.set_offsets(np.column_stack([ticks, quotes])[is_hit])
            marks.set_sizes(36 * counts[is_hit])
        self.account.update(history)
        last = history.last
        self.title.update(last, float(history.peaks()[-1]))
        begin = max(last.tick - history.ticks, 0)
        self.prices.set_xlim(begin - 0.5, begin + history.ticks + 0.5)
        fit(self.prices, np.concatenate([low, high]))


def filled(history: EpisodeHistory[MarketMakingScene]) -> tuple[Floats, Floats]:
    """How often the bid and the ask were hit since the scene before."""
    fills, held = history.column("fills"), history.column("inventory")
    hits, change = np.diff(fills, prepend=fills[0]), np.diff(held, prepend=held[0])
    return (hits + change) / 2, (hits - change) / 2
