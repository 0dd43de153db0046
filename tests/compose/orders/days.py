"""Small days of ticks with orders, and execution of an order to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from sekai.compose import Order, OrderDir
from sekai.compose.orders.simulators import OrderSimulator
from sekai.data.intraday import DayTicks
from sekai.data.market_data import MarketData

DATE = "2020-01-02"
MINUTE = np.timedelta64(60 * 10**9, "ns")
OPEN = np.datetime64(f"{DATE}T09:30", "ns")


def times(ticks: int = 240, date: str = DATE) -> NDArray[np.datetime64]:
    """Minutes from half past nine on, with a break for lunch after two hours."""
    minutes: Any = np.arange(ticks)
    stamps: NDArray[np.datetime64] = (
        np.datetime64(f"{date}T09:30", "ns") + (minutes + 90 * (minutes >= 120)) * MINUTE
    )
    return stamps


def day(ticks: int = 240, seed: int = 0, **columns: Any) -> DayTicks:
    """A random walk with random volumes; columns by name instead of those drawn."""
    rng = np.random.default_rng(seed)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.001, ticks)))
    volume = rng.uniform(100, 200, ticks)
    drawn = {"close": close, "volume": volume, "bid": close - 0.01, "ask": close + 0.01}
    return DayTicks("AAA", times(ticks), {f"${k}": v for k, v in {**drawn, **columns}.items()})


def order(
    start: str = "09:30", end: str = "15:00", amount: float = 1000.0, direction: int = OrderDir.BUY
) -> Order:
    return Order("AAA", amount, OrderDir(direction), f"{DATE} {start}", f"{DATE} {end}")


def work(simulator: OrderSimulator, policy: Callable[[Any], float]) -> OrderSimulator:
    while not simulator.done():
        simulator.step(policy(simulator.get_state()))
    return simulator


def shares_of_rest(shares: list[float]) -> Callable[[Any], float]:
    """Policy that trades these shares of the remaining amount, and all of it in the last step."""

    def amount(state: Any) -> float:
        is_last = state.cur_step + 1 == state.num_steps
        share = 1.0 if is_last else shares[state.cur_step % len(shares)]
        return float(state.position * share)

    return amount


def panel(days: int = 3, seed: int = 0, ticks: int = 240) -> MarketData:
    """Minute bars of two assets on some days, with the fields of an exchange."""
    rng = np.random.default_rng(seed)
    dates = np.datetime64(DATE) + np.arange(days)
    stamps = np.concatenate([times(ticks, str(date)) for date in dates])
    close = 50 * np.exp(np.cumsum(rng.normal(0, 0.001, (len(stamps), 2)), axis=0))
    volume = rng.integers(100, 300, close.shape).astype(float)
    values = np.stack([close, volume, np.full(close.shape, 2.0), 0 * close], axis=2)
    return MarketData(stamps, ["AAA", "BBB"], ["close", "volume", "factor", "change"], values)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[DayTicks, Order, int, list[float]]:
    """A day, an order on it, the length of a step, and shares of what is left to trade."""
    ticks = draw(st.integers(1, 240))
    first = draw(st.integers(0, ticks - 1))
    last = draw(st.integers(first, ticks - 1))
    ticks_of_day = day(ticks, draw(st.integers(0, 1000)))
    window = Order(
        "AAA",
        draw(st.floats(0.01, 1e6)),
        draw(st.sampled_from(OrderDir)),
        ticks_of_day.times[first],
        ticks_of_day.times[last] + MINUTE // 2,
    )
    shares = draw(st.lists(st.floats(0, 1), min_size=1, max_size=4))
    return ticks_of_day, window, draw(st.integers(1, 60)), shares
