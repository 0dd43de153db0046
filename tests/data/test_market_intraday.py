from __future__ import annotations

import numpy as np
import pytest

from sekai.data import IntradayData, MarketData, MarketIntraday
from sekai.error import DataError
from tests.data.qlib.providers import minutes


def panel(timezone: str | None = None) -> MarketData:
    values = np.arange(1.0, 480 * 4 + 1).reshape(480, 2, 2)
    listed = np.ones((480, 2), np.bool_)
    listed[:250, 1] = False
    values[:250, 1] = np.nan
    return MarketData(
        minutes(2), ["A", "B"], ["close", "volume"], values, listed=listed, timezone=timezone
    )


def test_a_day_is_the_rows_of_that_day() -> None:
    data = panel()
    ticks = MarketIntraday(data).day("A", np.datetime64("2020-01-02"))
    assert isinstance(MarketIntraday(data), IntradayData)
    assert np.array_equal(ticks.times, data.times[240:])
    assert np.array_equal(ticks.column("$close"), data.field("close")[240:, 0])
    assert set(ticks.columns) == {"$close", "$volume"}


def test_rows_in_which_an_asset_is_not_listed_are_no_ticks() -> None:
    source = MarketIntraday(panel())
    assert len(source.day("B", np.datetime64("2020-01-02T09:30"))) == 230
    with pytest.raises(DataError, match="B has no ticks on 2020-01-01: it is listed from"):
        source.day("B", np.datetime64("2020-01-01"))


def test_days_and_stamps_are_those_of_the_panels_clocks() -> None:
    data = panel("Pacific/Kiritimati")
    ticks = MarketIntraday(data, known_after="1min").day("A", np.datetime64("2020-01-02"))
    assert str(ticks.times[0]) == "2020-01-02T00:00:00.000000000"
    assert len(ticks) == 209 + 31
    assert str(ticks.times[-1]) == "2020-01-02T23:59:00.000000000"


def test_an_asset_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(DataError, match="unknown asset 'C'; expected one of A, B"):
        MarketIntraday(panel()).day("C", np.datetime64("2020-01-02"))
    with pytest.raises(ValueError, match="date must be a day or a time, got 'no day'"):
        MarketIntraday(panel()).day("A", "no day")  # type: ignore[arg-type]
