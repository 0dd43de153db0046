"""Unknown names and empty selections raise errors that list what there is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sekai.data import MarketData, Policies, inspect, simulate_gbm
from sekai.data.streaming import StreamingPanel
from sekai.error import DataError
from tests.data.panels import FIELDS, bars, spoilt

PAIRS = ("EURUSD", "GBPUSD", "USDJPY")
FRAME = bars(6, PAIRS)


def test_an_unknown_asset_names_the_closest_and_lists_the_known(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "fx.parquet")
    FRAME.to_csv(tmp_path / "fx.csv", index=False)
    message = r"unknown asset 'USD_JPY'; did you mean 'USDJPY'\? expected one of \['EURUSD'"

    for assets in (["USD_JPY"], ["EURUSD", "USD_JPY"]):
        with pytest.raises(DataError, match=message):
            MarketData.from_frame(FRAME, assets=assets)
        with pytest.raises(DataError, match=message):
            MarketData.from_parquet(tmp_path / "fx.parquet", assets=assets)
        with pytest.raises(DataError, match=message):
            MarketData.from_csv(tmp_path / "fx.csv", assets=assets)
        assert "did you mean 'USDJPY'" in str(inspect(FRAME, assets=assets))


def test_an_unknown_asset_is_an_error_for_stored_and_wide_data(tmp_path: Path) -> None:
    MarketData.from_frame(FRAME).to_parquet(tmp_path / "stored.parquet")
    wide = FRAME.pivot(index="time", columns="symbol", values="close").reset_index()

    with pytest.raises(DataError, match="did you mean 'USDJPY'"):
        MarketData.from_parquet(tmp_path / "stored.parquet", assets=["USD_JPY"])
    with pytest.raises(DataError, match="did you mean 'USDJPY'"):
        MarketData.from_frame(wide, field="close", assets=["USD_JPY"])


def test_an_unknown_asset_can_be_dropped_and_is_reported() -> None:
    data = MarketData.from_frame(
        FRAME, assets=["USD_JPY", "EURUSD"], policies=Policies(empty="drop")
    )

    assert data.assets == ("EURUSD",)
    assert "unknown asset 'USD_JPY'" in str(data.repairs)


def test_a_known_asset_without_rows_in_the_range_is_empty_and_not_unknown() -> None:
    frame = FRAME[(FRAME["symbol"] != "USDJPY") | (FRAME["time"] < "2020-01-03")]

    with pytest.raises(DataError, match="USDJPY: no quotes"):
        MarketData.from_frame(frame, assets=list(PAIRS), start="2020-01-04")


def test_an_empty_range_names_the_range_of_the_source() -> None:
    with pytest.raises(DataError, match="the source has rows from 2020-01-01.* to 2020-01-06"):
        MarketData.from_frame(FRAME, start="2030-01-01")
    with pytest.raises(ValueError, match="start must be before stop, got 2020-01-03"):
        MarketData.from_frame(FRAME, start="2020-01-03", stop="2020-01-02")


def test_unknown_names_of_a_panel_have_suggestions() -> None:
    data = MarketData.from_frame(FRAME)

    with pytest.raises(KeyError, match="unknown asset 'usd_jpy'; did you mean 'USDJPY'"):
        data.select(["usd_jpy"])
    with pytest.raises(KeyError, match="unknown field 'clse'; did you mean 'close'"):
        data.field("clse")
    with pytest.raises(DataError, match="no column 'clse'.*did you mean 'close'"):
        MarketData.from_frame(FRAME, fields=["clse"])


def test_many_known_names_are_not_all_listed() -> None:
    data = simulate_gbm(assets=300, rows=2)

    with pytest.raises(KeyError) as caught:
        data.asset("nothing like it")
    assert "and 280 more" in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_streamed_row_without_a_close_names_the_fields() -> None:
    data = MarketData.from_frame(FRAME)
    panel = StreamingPanel(data)
    time = data.times[-1] + np.timedelta64(1, "D")
    without_close = np.delete(data.values[-1], FIELDS.index("close"), axis=1)

    with pytest.raises(ValueError, match=r"\(assets by the fields open, high, low, close, volume"):
        panel.push(time, without_close)
    assert len(panel) == len(data)


def test_problems_show_all_decimals_of_a_price() -> None:
    frame = spoilt(bars(4, ("EURUSD",)), 1, "close", -1.08512)

    assert "price EURUSD close at 2020-01-02: -1.08512" in str(inspect(frame))
