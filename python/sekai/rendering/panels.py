"""Chart panels shared by renderers: equity, position, fills, weights, and a price layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.episode_renderer import EpisodeHistory, EpisodeRenderer, SceneType
from sekai.rendering.style import (
    BUY,
    DRAWDOWN,
    EQUITY,
    FOREGROUND,
    OTHER_COLOR,
    PANEL,
    SELL,
    SERIES_COLORS,
    Title,
    add_side_legend,
    fit_y_limits,
    set_caption,
    style_axes,
    tick_edges,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sekai.rendering.portfolio_renderer import PortfolioScene

Floats = NDArray[np.float64]
NAME_LENGTH = 10
"""Characters of an asset name in a legend."""

EMPTY_STAIRS = np.zeros(1), np.array([-0.5, 0.5])
"""Values and edges of an area before its first update."""


class EquityPanel:
    """Equity as a line, with the drawdown as an area up to the peak."""

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        # The area needs a baseline of its own to hang from the peak.
        self.drawdown: Any = axes.stairs(
            *EMPTY_STAIRS, baseline=np.zeros(1), fill=True, color=DRAWDOWN
        )
        self.drawdown.set_alpha(0.45)
        (self.line,) = axes.plot([], [], color=EQUITY, linewidth=1.8)

    def update(self, history: EpisodeHistory[Any]) -> None:
        """Show the equity of every scene."""
        equity, peaks = history.column("equity"), history.peaks()
        self.drawdown.set_data(equity, tick_edges(history), baseline=peaks)
        self.line.set_data(history.column("tick"), equity)
        fit_y_limits(self.axes, np.append(equity, peaks))


class AccountPanels:
    """Position as an area around zero, and equity with its drawdown, on two axes."""

    def __init__(self, position: Axes, equity: Axes) -> None:
        for axes, text, unit in (
            (position, "Position", "lots"),
            (equity, "Equity and drawdown from its peak", "currency"),
        ):
            style_axes(axes, has_ticks=axes is equity)
            set_caption(axes, text, unit)
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.locator_params(axis="y", nbins=4)
        self.axes = position, equity
        self.long = position.stairs(*EMPTY_STAIRS, fill=True, color=BUY, alpha=0.55)
        self.short = position.stairs(*EMPTY_STAIRS, fill=True, color=SELL, alpha=0.55)
        line: dict[str, Any] = {"color": FOREGROUND, "linewidth": 1.2, "drawstyle": "steps-mid"}
        (self.position,) = position.plot([], [], **line)
        position.axhline(0, color=FOREGROUND, alpha=0.35, linewidth=0.8)
        self.equity = EquityPanel(equity)

    def update(self, history: EpisodeHistory[Any]) -> None:
        """Show the account of every scene."""
        ticks, edges = history.column("tick"), tick_edges(history)
        position = history.column("position")
        self.long.set_data(np.maximum(position, 0), edges)
        self.short.set_data(np.minimum(position, 0), edges)
        self.position.set_data(ticks, position)
        fit_y_limits(self.axes[0], np.append(position, 0))
        self.equity.update(history)


class FillMarkers:
    """Markers of the agent's own fills: buys blue and up, sells orange and down."""

    def __init__(self, axes: Axes) -> None:
        shared: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.8, "zorder": 4}
        self.bought = axes.scatter([], [], marker="^", color=BUY, **shared)
        self.sold = axes.scatter([], [], marker="v", color=SELL, **shared)

    def legend(self) -> dict[str, Any]:
        """Legend entries by label."""
        return {"bought": self.bought, "sold": self.sold}

    def update(self, sign: int, ticks: Floats, prices: Floats, areas: Floats) -> None:
        """Show the fills of one side.

        Args:
            sign: 1 for buys, -1 for sells.
            ticks: ticks of the fills.
            prices: prices of the fills.
            areas: marker areas in square points; no marker where 0.
        """
        markers, has_fill = self.bought if sign > 0 else self.sold, areas > 0
        markers.set_offsets(np.column_stack([ticks, prices])[has_fill])
        markers.set_sizes(areas[has_fill])


class StackedWeights:
    """Portfolio weights as stacked areas: long positions above zero, short ones below.

    The assets with the largest mean absolute weight over the shown ticks have a color each, all
    others share a grey. Cash is last and the palest.

    Args:
        axes: the axes to draw on.
        suffix: end of the caption, such as " of agent_0".
    """

    def __init__(self, axes: Axes, suffix: str) -> None:
        style_axes(axes, has_ticks=False)
        set_caption(axes, f"Weights{suffix}", "share of equity")
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.locator_params(axis="y", nbins=4)
        axes.axhline(0, color=FOREGROUND, alpha=0.35, linewidth=0.8, zorder=3)
        self.axes = axes
        # Thin dark edges separate areas without relying on color.
        shared: dict[str, Any] = {"fill": True, "linewidth": 0.3, "edgecolor": PANEL}
        self.areas: list[Any] = [
            axes.stairs(*EMPTY_STAIRS, baseline=np.zeros(1), facecolor=color, **shared)
            for color in (*SERIES_COLORS, OTHER_COLOR, FOREGROUND)
        ]
        self.areas[-1].set_alpha(0.25)
        self.names: dict[str, int] = {}

    def update(self, history: EpisodeHistory[PortfolioScene]) -> None:
        """Show the weights of every scene."""
        last = history.last
        weights = np.array([scene.weights[last.agent] for scene in history.scenes], np.float64)
        colors = assign_colors(largest_assets(weights[:, :-1], len(SERIES_COLORS)))
        bottoms, tops = stacked_areas(_by_color(weights, colors))
        for area, bottom, top in zip(self.areas, bottoms.T, tops.T, strict=True):
            area.set_data(top, tick_edges(history), baseline=bottom)
        fit_y_limits(self.axes, np.concatenate([bottoms.ravel(), tops.ravel()]))
        names = {last.assets[asset][:NAME_LENGTH]: color for color, asset in sorted(colors.items())}
        others = {"others": -2} if len(last.assets) > len(colors) else {}
        self._set_legend({**names, **others, "cash": -1})

    def _set_legend(self, names: dict[str, int]) -> None:
        if names != self.names:
            self.names = names
            # Reversed: the legend has the order of the stack.
            stack = reversed(names.items())
            add_side_legend(self.axes, {name: self.areas[index] for name, index in stack})


def largest_assets(weights: Floats, count: int) -> list[int]:
    """Indices of at most `count` assets with the largest mean absolute weight, ascending."""
    sizes = np.abs(weights).mean(axis=0)
    # Stable: of equal assets, the first.
    return sorted(np.argsort(-sizes, kind="stable")[:count].tolist())


def assign_colors(assets: list[int]) -> dict[int, int]:
    """Assign a color index to each asset; the result maps colors to assets.

    Each asset has a preferred color, so that few change when the largest assets change.
    """
    colors: dict[int, int] = {}
    for asset in assets:
        color = asset % len(SERIES_COLORS)
        while color in colors:
            color = (color + 1) % len(SERIES_COLORS)
        colors[color] = asset
    return colors


def stacked_areas(parts: Floats) -> tuple[Floats, Floats]:
    """Bottoms and tops of stacked areas: rows are ticks, columns areas from the bottom up."""
    long, short = np.maximum(parts, 0.0), np.minimum(parts, 0.0)
    tops = np.where(parts >= 0, np.cumsum(long, axis=1), np.cumsum(short, axis=1))
    return tops - parts, tops


def _by_color(weights: Floats, colors: dict[int, int]) -> Floats:
    """Weights with one column per color: the chosen assets, all others together, cash."""
    parts = np.zeros((len(weights), len(SERIES_COLORS) + 2))
    for color, asset in colors.items():
        parts[:, color] = weights[:, asset]
    parts[:, -2] = weights[:, :-1].sum(axis=1) - parts[:, :-2].sum(axis=1)
    parts[:, -1] = weights[:, -1]
    return parts


class PriceRenderer(EpisodeRenderer[SceneType]):
    """Renderer base class for one traded asset: price with own fills, position and equity."""

    name: ClassVar[str]
    """Title of the chart."""

    prices_caption: ClassVar[str]
    """Caption of the price panel."""

    heights: ClassVar[tuple[float, float, float]]
    """Relative heights of the price, position and equity panels."""

    left: ClassVar[float]
    """Left margin for tick labels, as a share of the width."""

    def build(self, figure: Figure) -> None:
        """Create all axes and artists on an empty `figure`."""
        margins = {"left": self.left, "right": 0.96, "top": 0.88, "bottom": 0.075}
        grid = figure.add_gridspec(3, 1, height_ratios=self.heights, hspace=0.22, **margins)
        self.prices = figure.add_subplot(grid[0])
        position = figure.add_subplot(grid[1], sharex=self.prices)
        equity = figure.add_subplot(grid[2], sharex=self.prices)
        self.title = Title(figure, self.name)
        style_axes(self.prices, has_ticks=False)
        set_caption(self.prices, self.prices_caption, "currency")
        self.prices.yaxis.set_major_formatter("{x:,.2f}")
        (self.price,) = self.prices.plot([], [], color=FOREGROUND, linewidth=1.6, zorder=2.5)
        self.fills = FillMarkers(self.prices)
        self.account = AccountPanels(position, equity)
