"""Draws an episode in which one thing is traded: its price above, the account below."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sekai.rendering.account_panels import AccountPanels
from sekai.rendering.episode_history import SceneType
from sekai.rendering.episode_renderer import EpisodeRenderer
from sekai.rendering.look import INK, Title, caption, dress
from sekai.rendering.own_fills import OwnFills

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PriceRenderer"]


class PriceRenderer(EpisodeRenderer[SceneType]):
    """Lays out a chart of prices with the agent's own fills, and the account under it."""

    name: ClassVar[str]
    """What the picture is called."""

    prices_caption: ClassVar[str]
    """What the chart of prices shows."""

    heights: ClassVar[tuple[float, float, float]]
    """Of prices, the position and equity, in relation to each other."""

    left: ClassVar[float]
    """Where the charts begin, as a share of the width: numbers are to their left."""

    def build(self, figure: Figure) -> None:
        """Make everything that will be drawn, on an empty `figure`."""
        grid = figure.add_gridspec(
            3, 1, height_ratios=self.heights, hspace=0.22,
            left=self.left, right=0.96, top=0.88, bottom=0.075,
        )  # fmt: skip
        self.prices = figure.add_subplot(grid[0])
        position = figure.add_subplot(grid[1], sharex=self.prices)
        equity = figure.add_subplot(grid[2], sharex=self.prices)
        self.title = Title(figure, self.name)
        dress(self.prices, has_ticks=False)
        caption(self.prices, self.prices_caption, "currency")
        self.prices.yaxis.set_major_formatter("{x:,.2f}")
        (self.price,) = self.prices.plot([], [], color=INK, linewidth=1.6, zorder=2.5)
        self.fills = OwnFills(self.prices)
        self.account = AccountPanels(position, equity)
