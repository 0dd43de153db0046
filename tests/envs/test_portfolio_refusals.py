"""Error messages of unsupported portfolio calls."""

from __future__ import annotations

from typing import Any

import pytest

import sekai
from sekai.data import default_pipeline, simulate_gbm
from sekai.error import NotFittedError
from sekai.market import Constraints

DATA = simulate_gbm(assets=3, rows=100)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"data": "bars.parquet"}, TypeError, "MarketData.from_parquet"),
        ({"costs": {"proportional": 0.1}}, TypeError, "costs must be a Costs"),
        ({"account": "margin"}, TypeError, "account must be a CashAccount or MarginAccount"),
        ({"starts": "nonsense"}, ValueError, "starts must be 'random', 'sequential'"),
        ({"starts": "1990-01-01"}, ValueError, "from row 29 to row 98"),
        ({"lookback": 200}, ValueError, "at least 201 rows"),
        ({"reward": "sharp"}, ValueError, "expected one of return, log_return"),
        ({"features": ["momentums(20)"]}, KeyError, "did you mean 'momentum'"),
        ({"features": default_pipeline(DATA)}, NotFittedError, "fit"),
        ({"observation": "indx"}, ValueError, "`window` or `index`"),
        ({"benchmark": "SPY"}, ValueError, "unknown benchmark"),
        ({"constraints": Constraints(sector_caps=0.3)}, ValueError, "sectors"),
        ({"constraints": Constraints(long_short=True)}, ValueError, "MarginAccount"),
        ({"data": DATA.select(fields=["close"])}, ValueError, "next_close"),
    ],
)
def test_the_message_says_what_was_wanted(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        sekai.make("Portfolio-v0", **{"data": DATA, "features": ["log_return"], **settings})
