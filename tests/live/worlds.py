"""Small markets and brokers for tests of live sessions."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from sekai.data import Bar, MarketData, simulate_gbm
from sekai.live.orders import BrokerOrder

ASSETS = ("A", "B", "C")


def market(rows: int = 40, seed: int = 0) -> MarketData:
    return simulate_gbm(assets=list(ASSETS), rows=rows, seed=seed)


def bars(data: MarketData, start: int) -> list[Bar]:
    return list(Bar.each(data, start))


def order(name: str, asset: str = "A", units: float = 10.0, price: float = 100.0) -> BrokerOrder:
    return BrokerOrder(id=name, asset=asset, units=units, reference_price=price)


def ticks() -> Callable[[], int]:
    """Clock that advances by one with each call."""
    count = itertools.count(1)
    return lambda: next(count)
