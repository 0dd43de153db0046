"""Envs whose rows come from a feed: what is known when they begin, and what they wait for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from sekai.data import Bar, BarFeed, MarketData
from sekai.envs.portfolio_config import PortfolioConfig

__all__ = ["begun_with", "take_rows"]

Config = TypeVar("Config", bound=PortfolioConfig)


def begun_with(
    data: MarketData | BarFeed | None, config: Config
) -> tuple[MarketData | None, BarFeed | None, Config]:
    """The rows that are known, the feed that has the others, and the config of both together."""
    if isinstance(data, MarketData) or not isinstance(data, BarFeed):
        return data, None, config
    if data.history is None:
        raise ValueError(
            f"a feed with a history was wanted, since an env shows rows before the first that "
            f"comes, found {data!r} without one: make the feed with history=MarketData(...)"
        )
    return data.history, data, replace(config, stream=True)


async def take_rows(batch: Any, feed: BarFeed) -> None:
    """Push rows of a feed until the next step of a batch of one can be taken.

    Whoever waits can be cancelled: what came before is pushed, and the rest is still the feed's.
    """
    while batch.waits():
        bar: Bar = await feed.next_bar()
        batch.push(bar)
