"""Draws an episode of `Trading`: the book, prices, trades, news and the agent's account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.account_panels import AccountPanels
from sekai.rendering.depth_map import DepthMap, Ladder
from sekai.rendering.episode_history import EpisodeHistory
from sekai.rendering.episode_renderer import EpisodeRenderer
from sekai.rendering.look import FAIR, INK, Title, caption, dress, explain
from sekai.rendering.news_spans import NewsSpans
from sekai.rendering.scene import TradingScene, native_scene
from sekai.rendering.time_axis import follow
from sekai.rendering.trade_marks import TradeMarks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TradingRenderer"]

LEVELS = 40
"""Levels of each side of the book that are asked for."""

Floats = NDArray[np.float64]


class TradingRenderer(EpisodeRenderer[TradingScene]):
    """Shows what waits in the book around the mid price, who trades, and how the agent does.

    Bids are blue and asks orange, the brighter the more. Small triangles are trades of everybody
    else, up for buyers and down for sellers, as large as their volume; large ones with a white
    edge are the agent's own. The fair value is dashed, where the agent sees it too.
    """

    def __init__(self, *, symbol: int = 0, margin: int = 12, **settings: Any) -> None:
        """Draw one symbol.

        Args:
            symbol: which one.
            margin: ticks of price that are shown beyond the highest and lowest mid.
            settings: those of every `EpisodeRenderer`: `env_index`, `ticks`, `width`, `height`,
                `dpi`.
        """
        super().__init__(**settings)
        if isinstance(margin, bool) or not isinstance(margin, int) or margin < 1:
            raise ValueError(f"margin must be a whole number of at least 1, was {margin!r}")
        self.symbol = symbol
        self.margin = margin

    def look(self, env: Any) -> TradingScene:
        """What `env` is like now."""
        return TradingScene(**native_scene(env, self.env_index, self.symbol, LEVELS))

    def build(self, figure: Figure) -> None:
        """Make everything that will be drawn, on an empty `figure`."""
        grid = figure.add_gridspec(
            3, 2, height_ratios=(3.4, 1, 1.3), width_ratios=(1, 0.16), hspace=0.2, wspace=0.03,
            left=0.13, right=0.975, top=0.88, bottom=0.075,
        )  # fmt: skip
        self.prices = figure.add_subplot(grid[0, 0])
        position = figure.add_subplot(grid[1, 0], sharex=self.prices)
        equity = figure.add_subplot(grid[2, 0], sharex=self.prices)
        self.ladder = Ladder(figure.add_subplot(grid[0, 1], sharey=self.prices))
        name = "Trading" if self.symbol == 0 else f"Trading, symbol {self.symbol}"
        self.title = Title(figure, name)
        dress(self.prices, has_ticks=False)
        caption(self.prices, "Price and book depth", "currency")
        self.prices.yaxis.set_major_formatter("{x:,.2f}")
        self.depth = DepthMap(self.prices)
        self.news = NewsSpans((self.prices, position, equity))
        self._add_lines(figure)
        self.account = AccountPanels(position, equity)

    def _add_lines(self, figure: Figure) -> None:
        (self.mid,) = self.prices.plot([], [], color=INK, linewidth=1.6)
        (self.fair,) = self.prices.plot([], [], color=FAIR, linewidth=1.2, linestyle=(0, (3, 2)))
        self.trades = TradeMarks(self.prices)
        lines = {"mid": self.mid, "fair value": self.fair}
        if self.history.last.fair is None:
            del lines["fair value"]
        explain(figure, {**lines, **self.trades.keys()})

    def update(self, history: EpisodeHistory[TradingScene]) -> None:
        """Let what was made show `history`."""
        scenes, ticks = history.scenes, history.column("tick")
        last, size = history.last, history.last.tick_size
        mids = history.column("mid")
        low, high = self._range(mids)
        self.depth.update(scenes, low, high)
        self.ladder.update(last, low, high)
        self.mid.set_data(ticks, mids * size)
        self.fair.set_data(ticks, history.column("fair") * size)
        self.trades.update(scenes)
        self.news.update(scenes)
        self.account.update(history)
        self.title.update(last, float(history.peaks()[-1]))
        follow(self.prices, history)
        self.prices.set_ylim((low - 0.5) * size, (high + 0.5) * size)

    def _range(self, mids: Floats) -> tuple[int, int]:
        """The lowest and highest price to show, in steps that a single trade does not change."""
        step = max(self.margin // 2, 1)
        low = step * int((mids.min() - self.margin) // step)
        return low, step * int(-((-mids.max() - self.margin) // step))
