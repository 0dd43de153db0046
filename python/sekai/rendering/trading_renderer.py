"""Renderer of `Trading`: book depth, prices, trades, news and account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sekai.rendering.episode_renderer import EpisodeHistory, EpisodeRenderer, native_scene
from sekai.rendering.matplotlib_renderer import check_count
from sekai.rendering.panels import EMPTY_STAIRS, AccountPanels
from sekai.rendering.style import (
    BACKGROUND,
    BUY,
    FAIR,
    FOREGROUND,
    PANEL,
    SELL,
    SMALL,
    Title,
    add_legend,
    follow_ticks,
    set_caption,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVELS = 40
"""Levels of each side of the book that are read."""

SHADES = 7
"""Shades between an empty price level and a full one: few, to stay within a GIF palette."""

STRIP = 0.055
"""Share of the first axes for the names of news events."""

MARKERS = {1: ("^", BUY), -1: ("v", SELL)}
"""Marker and color by side: buys blue and up, sells orange and down."""

Codes = NDArray[np.int8]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

News = tuple[str, float, float, int, int]
"""Topic, sentiment from -1 to 1, magnitude, tick of publication, duration in ticks."""


@dataclass(frozen=True, kw_only=True)
class TradingScene:
    """State of one symbol of `Trading` at one tick; prices in ticks, amounts in currency."""

    seed: int
    episode: int
    tick: int
    tick_size: float
    """Currency value of one price tick."""
    mid: float
    fair: float | None
    """Fair value; None if the agent does not observe it."""
    lots: int
    cash: float
    equity: float
    initial_cash: float
    bid_price: Integers
    """Levels of the book, best first."""
    bid_size: Integers
    ask_price: Integers
    ask_size: Integers
    trade_price: Integers
    """Trades of the last tick in order."""
    trade_size: Integers
    trade_sign: Integers
    """1 for a buying taker, -1 for a selling taker."""
    trade_own: Integers
    """1 where the agent bought, -1 where it sold, 0 otherwise."""
    news: list[News]

    @property
    def position(self) -> float:
        """Position in lots."""
        return self.lots


class TradingRenderer(EpisodeRenderer[TradingScene]):
    """Renderer of `Trading`: book depth around the mid price, trades, news and account.

    Bids are blue, asks orange; brighter means larger. Small triangles are trades of other agents,
    up for buying and down for selling takers, sized by volume; large ones with a white edge are
    the agent's own. The fair value is dashed if the agent observes it.

    Args:
        symbol: index of the symbol.
        margin: price ticks shown beyond the highest and lowest mid price.
        settings: arguments of `EpisodeRenderer`: `env_index`, `ticks`, `width`, `height`, `dpi`.
    """

    def __init__(self, *, symbol: int = 0, margin: int = 12, **settings: Any) -> None:
        super().__init__(**settings)
        check_count("margin", margin)
        self.symbol = symbol
        self.margin = margin

    def read_scene(self, env: Any) -> TradingScene:
        """Read the current scene of `env`."""
        return TradingScene(**native_scene(env, self.env_index, self.symbol, LEVELS))

    def build(self, figure: Figure) -> None:
        """Create all axes and artists on an empty `figure`."""
        ratios = {"height_ratios": (3.4, 1, 1.3), "width_ratios": (1, 0.16)}
        spaces = {"hspace": 0.2, "wspace": 0.03, "left": 0.13, "right": 0.975}
        grid = figure.add_gridspec(3, 2, **ratios, **spaces, top=0.88, bottom=0.075)
        self.prices = figure.add_subplot(grid[0, 0])
        position = figure.add_subplot(grid[1, 0], sharex=self.prices)
        equity = figure.add_subplot(grid[2, 0], sharex=self.prices)
        self.ladder = BookLadder(figure.add_subplot(grid[0, 1], sharey=self.prices))
        name = "Trading" if self.symbol == 0 else f"Trading, symbol {self.symbol}"
        self.title = Title(figure, name)
        style_axes(self.prices, has_ticks=False)
        set_caption(self.prices, "Price and book depth", "currency")
        self.prices.yaxis.set_major_formatter("{x:,.2f}")
        self.depth = DepthHeatmap(self.prices)
        self.news = NewsSpans((self.prices, position, equity))
        self._add_lines(figure)
        self.account = AccountPanels(position, equity)

    def _add_lines(self, figure: Figure) -> None:
        (self.mid,) = self.prices.plot([], [], color=FOREGROUND, linewidth=1.6)
        (self.fair,) = self.prices.plot([], [], color=FAIR, linewidth=1.2, linestyle=(0, (3, 2)))
        self.trades = TradeMarkers(self.prices)
        lines = {"mid": self.mid, "fair value": self.fair}
        if self.history.last.fair is None:
            del lines["fair value"]
        add_legend(figure, {**lines, **self.trades.legend()})

    def update(self, history: EpisodeHistory[TradingScene]) -> None:
        """Update the artists to show `history`."""
        scenes, ticks = history.scenes, history.column("tick")
        last, size = history.last, history.last.tick_size
        mids = history.column("mid")
        low, high = self._price_range(mids)
        self.depth.update(scenes, low, high)
        self.ladder.update(last, low, high)
        self.mid.set_data(ticks, mids * size)
        self.fair.set_data(ticks, history.column("fair") * size)
        self.trades.update(scenes)
        self.news.update(scenes)
        self.account.update(history)
        self.title.update(last, float(history.peaks()[-1]))
        follow_ticks(self.prices, history)
        self.prices.set_ylim((low - 0.5) * size, (high + 0.5) * size)

    def _price_range(self, mids: Floats) -> tuple[int, int]:
        """Lowest and highest price on the axis, in steps that a single trade does not change."""
        step = max(self.margin // 2, 1)
        low = step * int((mids.min() - self.margin) // step)
        return low, step * int(-((-mids.max() - self.margin) // step))


class DepthHeatmap:
    """Heat map of book depth by price and tick: bids blue, asks orange, behind everything else."""

    def __init__(self, axes: Axes) -> None:
        from matplotlib.colors import ListedColormap, to_rgb

        panel, buy, sell = (np.array(to_rgb(color)) for color in (PANEL, BUY, SELL))
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
        """Show the books of `scenes` for prices from `low` to `high` in ticks, inclusive."""
        codes = depth_codes(scenes, low, high)
        size = scenes[-1].tick_size
        self.image.set_data(codes)
        first = scenes[0].tick - 0.5
        bottom, top = (low - 0.5) * size, (high + 0.5) * size
        self.image.set_extent((first, first + codes.shape[1], bottom, top))


class BookLadder:
    """Current book beside the price panel: resting lots by price."""

    def __init__(self, axes: Axes) -> None:
        style_axes(axes, has_ticks=False)
        axes.grid(visible=False)
        axes.tick_params(labelleft=False, labelbottom=True)
        set_caption(axes, "Book", "lots")
        self.axes = axes
        shared: dict[str, Any] = {"orientation": "horizontal", "fill": True, "alpha": 0.8}
        self.bids, self.asks = (
            axes.stairs(*EMPTY_STAIRS, color=color, **shared) for color in (BUY, SELL)
        )

    def update(self, scene: TradingScene, low: int, high: int) -> None:
        """Show the book of `scene` for prices from `low` to `high` in ticks, inclusive."""
        edges = (np.arange(low, high + 2) - 0.5) * scene.tick_size
        bids = _size_by_price(scene.bid_price, scene.bid_size, low, high)
        asks = _size_by_price(scene.ask_price, scene.ask_size, low, high)
        self.bids.set_data(bids, edges)
        self.asks.set_data(asks, edges)
        limit = next_power_of_two(max(bids.max(), asks.max(), 1))
        self.axes.set_xlim(0, limit)
        self.axes.set_xticks([limit], [f"{limit:,}"], ha="right")


class NewsSpans:
    """Shaded ticks of news events: blue for positive sentiment, orange for negative.

    Args:
        axes: the first axes show the names of events in a strip, the others are shaded.
    """

    def __init__(self, axes: Sequence[Axes]) -> None:
        self.axes = axes
        self.spans: dict[News, list[Any]] = {}

    def update(self, scenes: Sequence[TradingScene]) -> None:
        """Show the news of `scenes`; an event is shaded until its end or the current tick."""
        first, now = scenes[0].tick, scenes[-1].tick
        events = {news for scene in scenes for news in scene.news}
        for news in self.spans.keys() - events:
            for artist in self.spans.pop(news):
                artist.remove()
        for news in sorted(events, key=lambda news: news[3]):
            if news not in self.spans:
                self.spans[news] = self._artists(news)
            *areas, name = self.spans[news]
            begin, end = max(news[3], first), min(news[3] + news[4], now)
            for area in areas:
                area.set_x(begin - 0.5)
                area.set_width(end - begin + 1)
            name.set_x(begin)
            name.set_clip_path(areas[0])

    def _artists(self, news: News) -> list[Any]:
        topic, sentiment, *_ = news
        color, sign = (BUY, "▲") if sentiment > 0 else (SELL, "▼")
        top, *others = self.axes
        # Only a strip of the first axes: their colors show book depth.
        strip = _span(top, 1 - STRIP, color=color, zorder=5)
        areas = [_span(axes, 0, color=color, alpha=0.14, zorder=0.5) for axes in others]
        text = f" {sign} {topic} {sentiment:+.1f}"
        style: dict[str, Any] = {"color": BACKGROUND, "fontsize": SMALL, "va": "center_baseline"}
        name = top.text(0, 1 - STRIP / 2, text, clip_on=True, zorder=6, **style)
        name.set_transform(top.get_xaxis_transform())
        return [strip, *areas, name]


class TradeMarkers:
    """Markers of the trades of one side in a tick, at the mean price, with the volume as area."""

    def __init__(self, axes: Axes) -> None:
        self.others = {
            sign: axes.scatter([], [], marker=marker, color=color, linewidth=0, zorder=3)
            for sign, (marker, color) in MARKERS.items()
        }
        edge: dict[str, Any] = {"edgecolor": "white", "linewidth": 1.1, "zorder": 4}
        self.own = {
            sign: axes.scatter([], [], marker=marker, color=color, **edge)
            for sign, (marker, color) in MARKERS.items()
        }

    def legend(self) -> dict[str, Any]:
        """Legend entries by label."""
        from matplotlib.lines import Line2D

        def entry(sign: int, **edge: Any) -> Line2D:
            marker, color = MARKERS[sign]
            return Line2D([], [], marker=marker, color=color, linestyle="none", **edge)

        white: dict[str, Any] = {"markeredgecolor": "white", "markersize": 8}
        return {
            "buyers": entry(1, markersize=5),
            "sellers": entry(-1, markersize=5),
            "own buy": entry(1, **white),
            "own sell": entry(-1, **white),
        }

    def update(self, scenes: Sequence[TradingScene]) -> None:
        """Show the trades of `scenes`: those of other agents, and the agent's own."""
        size = scenes[-1].tick_size
        for markers, is_own, least, area in (
            (self.others, False, 0.0, 0.2),
            (self.own, True, 24.0, 0.5),
        ):
            for sign, marker in markers.items():
                ticks, prices, volumes = trades_by_tick(scenes, sign, is_own=is_own)
                marker.set_offsets(np.column_stack([ticks, prices * size]))
                marker.set_sizes(least + area * volumes)


def depth_codes(scenes: Sequence[TradingScene], low: int, high: int) -> Codes:
    """Depth codes with a row per price from `low` to `high` and a column per tick.

    A code is 0 for no depth, 1 to `SHADES` for bids and -1 to -`SHADES` for asks, larger for more
    depth. A tick without a scene repeats the previous one.
    """
    bids = np.stack(
        [_size_by_price(each.bid_price, each.bid_size, low, high) for each in scenes], 1
    )
    asks = np.stack(
        [_size_by_price(each.ask_price, each.ask_size, low, high) for each in scenes], 1
    )
    sizes = bids + asks
    resting = sizes[sizes > 0]
    # Rounded up, so that colors do not change with every order; a few levels are much larger.
    full = next_power_of_two(np.percentile(resting, 98)) if resting.size else 1
    # The root shows small orders beside large ones.
    shades = np.ceil(SHADES * np.sqrt(np.minimum(sizes / full, 1))).astype(np.int8)
    ticks = np.array([scene.tick for scene in scenes])
    widths = np.diff(np.append(ticks, ticks[-1] + 1))
    return np.repeat(np.where(asks > bids, -shades, shades), widths, axis=1)


def trades_by_tick(
    scenes: Sequence[TradingScene], sign: int, *, is_own: bool
) -> tuple[Floats, Floats, Floats]:
    """Ticks with trades of one side, the mean price and the volume of each.

    Args:
        scenes: scenes with trades.
        sign: 1 for buys, -1 for sells.
        is_own: the agent's own trades if True, else those without the agent, by side of the taker.
    """
    ticks = np.repeat([scene.tick for scene in scenes], [scene.trade_size.size for scene in scenes])
    if ticks.size == 0:
        return np.empty(0), np.empty(0), np.empty(0)
    price, size, taker, own = (
        np.concatenate([getattr(scene, f"trade_{name}") for scene in scenes])
        for name in ("price", "size", "sign", "own")
    )
    mask = own == sign if is_own else (own == 0) & (taker == sign)
    unique, index = np.unique(ticks[mask], return_inverse=True)
    volumes = np.bincount(index, weights=size[mask], minlength=unique.size).astype(np.float64)
    amounts = np.bincount(index, weights=(price * size)[mask], minlength=unique.size)
    return unique.astype(np.float64), amounts / volumes, volumes


def next_power_of_two(size: float) -> int:
    """Smallest power of two that is at least `size`."""
    return 1 << max(int(np.ceil(size)) - 1, 0).bit_length()


def _size_by_price(prices: Integers, sizes: Integers, low: int, high: int) -> Integers:
    result = np.zeros(high - low + 1, dtype=np.int64)
    is_shown = (low <= prices) & (prices <= high)
    result[prices[is_shown] - low] = sizes[is_shown]
    return result


def _span(axes: Axes, bottom: float, **style: Any) -> Any:
    """Rectangle from a height of `axes` to their top; its ticks are set by `update`."""
    from matplotlib.patches import Rectangle

    transform = axes.get_xaxis_transform()
    area = Rectangle((0, bottom), 1, 1 - bottom, transform=transform, linewidth=0, **style)
    return axes.add_patch(area)
