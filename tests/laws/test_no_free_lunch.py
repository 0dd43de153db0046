"""Simple rules earn nothing in the simulated market once they have paid their costs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sekai.error import OrderError
from sekai.market import Market, Side, TimeInForce
from tests.laws.market_statistics import Floats, t_statistic

SEEDS = range(1_000, 1_016)
TICKS = 40_000
BAR = 100
"""Ticks of the bars that the technical rules look at."""
LOTS = 100


def trade_to(market: Market, target: int) -> None:
    missing = target - market.account().lots[0]
    if missing:
        market.take(0, 0, Side.BUY if missing > 0 else Side.SELL, abs(missing))


def buy_and_hold(market: Market) -> None:
    trade_to(market, 3 * LOTS)
    market.tick(TICKS)


def by_strength(market: Market) -> None:
    """Buy what has fallen for a while, sell what has risen (RSI of 14 bars, 30 and 70)."""
    last, gain, loss = market.mid(), 0.0, 0.0
    for _ in range(TICKS // BAR):
        market.tick(BAR)
        change, last = market.mid() - last, market.mid()
        gain += (max(change, 0.0) - gain) / 14
        loss += (max(-change, 0.0) - loss) / 14
        strength = 100.0 * gain / (gain + loss) if gain + loss else 50.0
        if strength < 30.0:
            trade_to(market, LOTS)
        elif strength > 70.0:
            trade_to(market, -LOTS)


def by_trend(market: Market) -> None:
    """Hold what is above its slower average (12 and 26 bars)."""
    fast = slow = market.mid()
    for _ in range(TICKS // BAR):
        market.tick(BAR)
        fast += (market.mid() - fast) * 2 / 13
        slow += (market.mid() - slow) * 2 / 27
        trade_to(market, LOTS if fast > slow else -LOTS)


def join_the_best(market: Market) -> None:
    """Always wait at the best bid and ask, ten lots at a time."""
    quotes: dict[Side, tuple[int, int]] = {}
    for _ in range(TICKS):
        for side, best in zip(Side, market.quote(), strict=True):
            waiting = quotes.get(side)
            if waiting and market.order(waiting[0]) is None:
                waiting = None
            if waiting and waiting[1] != best:
                market.cancel(0, 0, waiting[0])
                waiting = None
            if waiting is None and best is not None and market.room(0, 0, side) >= 10:
                waiting = wait_at(market, side, best)
            quotes.pop(side, None)
            if waiting:
                quotes[side] = waiting
        market.tick()


def wait_at(market: Market, side: Side, price: int) -> tuple[int, int] | None:
    try:
        placed = market.place(side, price, 10, time_in_force=TimeInForce.POST_ONLY)
    except OrderError:  # the account is full, or somebody was faster
        return None
    return None if placed.id is None else (placed.id, price)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("rule", [buy_and_hold, by_strength, by_trend, join_the_best])
def test_a_simple_rule_earns_nothing_significant(rule: Callable[[Market], None]) -> None:
    profits: Floats = np.empty(len(SEEDS))
    for place, seed in enumerate(SEEDS):
        market = Market(seed=seed)
        market.tick(200)
        before = market.account().equity
        rule(market)
        profits[place] = market.account().equity - before

    assert abs(t_statistic(profits)) < 2.0, profits
