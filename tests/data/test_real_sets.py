"""Real bars, with all that is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest

from sekai.data import MarketData, Policies
from sekai.error import DataError
from tests.data.panels import real, stamp

DAILY = "daily_stocknet/stocknet_88_daily_ohlcv_2012-2017.csv.gz"
MINUTES = "minute_oanda/oanda_1m_9symbols_2020Q1.csv.gz"


def test_daily_bars_of_stocks_have_eighteen_holes_and_four_late_listings() -> None:
    path, sectors = real(DAILY), real("daily_stocknet/sectors.csv")
    with pytest.raises(DataError) as caught:
        MarketData.from_csv(path)
    data = MarketData.from_csv(path, sectors=sectors, policies=Policies(missing="halt"))

    assert {problem.kind for problem in caught.value.problems} == {"missing"}
    assert sum(problem.count for problem in caught.value.problems) == 18
    assert {problem.asset for problem in caught.value.problems} == {"PTR", "REX", "SNP"}
    assert {problem.time for problem in caught.value.problems} == {stamp("2016-06-29")}
    assert data.values.shape == (1258, 88, 6)
    assert int(data.quoted.sum()) == 108_592 - 3
    late = {data.assets[place] for place in np.flatnonzero(~data.listed[0])}
    assert late == {"ABBV", "BABA", "AGFS", "GMRE"}
    assert len(set(data.sectors.values())) == 9
    assert 251 < data.frequency.periods_per_year < 253


def test_minutes_without_a_tick_are_halts_if_the_user_says_so() -> None:
    path = real(MINUTES)
    policies = Policies(calendars="union")
    data = MarketData.from_csv(path, timezone="UTC", policies=policies)

    assert len(data.assets) == 9
    assert int(data.quoted.sum()) == 730_836
    assert data.frequency.name == "1min"
    assert {problem.kind for problem in data.repairs} == {"calendar"}
