"""The indicators against TA-Lib, from its first valid bar on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import talib
from numpy.typing import NDArray

from sekai.data import compute, feature_names

Prices = NDArray[np.float64]
Oracle = Callable[[Prices, Prices, Prices], Prices]

ORACLES: dict[str, Oracle] = {
    "f_sma_8": lambda high, low, close: talib.SMA(close, 8),
    "f_sma_16": lambda high, low, close: talib.SMA(close, 16),
    "f_ema_8": lambda high, low, close: talib.EMA(close, 8),
    "f_ema_16": lambda high, low, close: talib.EMA(close, 16),
    "f_rsi_8": lambda high, low, close: talib.RSI(close, 8),
    "f_atr_8": lambda high, low, close: talib.ATR(high, low, close, 8),
    "f_bb_upper": lambda high, low, close: talib.BBANDS(close, 12)[0],
    "f_bb_middle": lambda high, low, close: talib.BBANDS(close, 12)[1],
    "f_bb_lower": lambda high, low, close: talib.BBANDS(close, 12)[2],
    "f_macd_line": lambda high, low, close: talib.MACD(close, 8, 16, 4)[0],
    "f_macd_signal": lambda high, low, close: talib.MACD(close, 8, 16, 4)[1],
    "f_macd_histogram": lambda high, low, close: talib.MACD(close, 8, 16, 4)[2],
}
FIRST_LINE = 15
"""The bar of the first MACD line; TA-Lib withholds it until there is a signal."""


def market(seed: int, deviation: float, bars: int = 600) -> tuple[Prices, Prices, Prices]:
    rng = np.random.default_rng(seed)
    close = 100 * np.exp(np.cumsum(rng.normal(0, deviation, bars)))
    spread = deviation * rng.uniform(0, 1, (2, bars))
    return close * (1 + spread[0]), close * (1 - spread[1]), close


def column(name: str, market: tuple[Prices, Prices, Prices]) -> Prices:
    return compute(*market, raw=True)[:, feature_names().index(name)]


@pytest.mark.parametrize("deviation", [0.05, 0.003])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ORACLES)
def test_an_indicator_equals_that_of_talib(name: str, seed: int, deviation: float) -> None:
    prices = market(seed, deviation)

    wanted, found = ORACLES[name](*prices), column(name, prices)

    valid = ~np.isnan(wanted)
    first = FIRST_LINE if name == "f_macd_line" else int(np.argmax(valid))
    assert np.isnan(found[:first]).all()
    assert not np.isnan(found[first:]).any()
    # The difference of averages is as exact as these: a share of the price, not of itself.
    allowed = 1e-14 * prices[2][valid] if name.startswith("f_macd") else 0.0
    assert (abs(found - wanted)[valid] <= 1e-11 * abs(wanted[valid]) + allowed).all()


def test_the_line_begins_with_the_mean_of_eight_less_the_mean_of_sixteen() -> None:
    prices = market(seed=0, deviation=0.02)
    close = prices[2]

    line = column("f_macd_line", prices)

    assert np.isclose(line[15], close[8:16].mean() - close[:16].mean(), rtol=0, atol=1e-12)


def test_the_line_of_talib_is_not_that_of_the_averages_shown_until_it_has_faded() -> None:
    prices = market(seed=0, deviation=0.02)
    averages = talib.EMA(prices[2], 8) - talib.EMA(prices[2], 16)

    distance = abs(column("f_macd_line", prices) - averages)

    assert distance[18] > 1e-3
    assert distance[-1] < 1e-11


def test_a_market_that_never_moved_has_no_strength() -> None:
    still = np.full(20, 100.0)

    assert talib.RSI(still, 8)[-1] == 0.0
    assert np.isnan(column("f_rsi_8", (still, still, still))[-1])
    assert compute(still, still, still)[-1, feature_names().index("f_rsi_8")] == 50.0
