"""When there was news, and whether it was good."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sekai.rendering.look import BUY, PAPER, SELL, SMALL
from sekai.rendering.scene import News, TradingScene

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["NewsSpans"]

STRIP = 0.055
"""How much of the first axes is for the names of events."""


class NewsSpans:
    """Shades the ticks in which people talk about an event: blue if it is good, orange if bad."""

    def __init__(self, axes: Sequence[Axes]) -> None:
        """Name events in a strip of the first of `axes`, and shade the others."""
        self.axes = axes
        self.spans: dict[News, list[Any]] = {}

    def update(self, scenes: Iterable[TradingScene]) -> None:
        """Show what `scenes` tell of; an event is shaded until it ends or now, if that is first."""
        scenes = list(scenes)
        first, now = scenes[0].tick, scenes[-1].tick
        told = {news for scene in scenes for news in scene.news}
        for news in self.spans.keys() - told:
            for artist in self.spans.pop(news):
                artist.remove()
        for news in sorted(told, key=lambda news: news[3]):
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
        colour, sign = (BUY, "▲") if sentiment > 0 else (SELL, "▼")
        top, *others = self.axes
        # Only a strip of the first axes, whose own colours say something else.
        strip = _span(top, 1 - STRIP, color=colour, zorder=5)
        areas = [_span(axes, 0, color=colour, alpha=0.14, zorder=0.5) for axes in others]
        name = top.text(
            0, 1 - STRIP / 2, f" {sign} {topic} {sentiment:+.1f}", color=PAPER, fontsize=SMALL,
            transform=top.get_xaxis_transform(), va="center_baseline", clip_on=True, zorder=6,
        )  # fmt: skip
        return [strip, *areas, name]


def _span(axes: Axes, bottom: float, **look: Any) -> Any:
    """A rectangle from a height of `axes` to their top; its ticks are said later."""
    from matplotlib.patches import Rectangle

    transform = axes.get_xaxis_transform()
    area = Rectangle((0, bottom), 1, 1 - bottom, transform=transform, linewidth=0, **look)
    return axes.add_patch(area)
