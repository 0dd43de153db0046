"""The index of a frame, in a file or not, is a time, an asset or left out: never a field."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from sekai.data import FrameIntraday, MarketData
from sekai.error import DataError
from tests.data.panels import FIELDS, bars

BARS = bars(5)
EXPECTED = MarketData.from_frame(BARS)
PART = BARS[BARS["symbol"] != "BBB"]


def without_names(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.copy()
    frame.index.names = [None] * frame.index.nlevels
    return frame


INDEXED = {
    "time": without_names(BARS.set_index("time")),
    "time and asset": without_names(BARS.set_index(["time", "symbol"])),
    "asset and time": without_names(BARS.set_index(["symbol", "time"])),
    "named otherwise": BARS.set_index("time").rename_axis("moment"),
    "counter": BARS.set_index(pd.Index(range(7, 22))),
    "named counter": BARS.rename_axis("row"),
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_in_parquet_is_never_a_field(name: str, tmp_path: Path) -> None:
    INDEXED[name].to_parquet(tmp_path / "bars.parquet", index=True)
    data = MarketData.from_parquet(tmp_path / "bars.parquet")

    assert data == EXPECTED
    counted = [problem for problem in data.repairs if "row index" in problem.found]
    assert len(counted) == ("counter" in name)


@pytest.mark.parametrize("name", ["time", "counter"])
def test_an_index_without_a_name_in_csv_is_never_a_field(name: str, tmp_path: Path) -> None:
    INDEXED[name].to_csv(tmp_path / "bars.csv")
    data = MarketData.from_csv(tmp_path / "bars.csv")

    assert data == EXPECTED
    assert len(data.repairs) == (name == "counter")


@pytest.mark.parametrize(
    "convert",
    [
        lambda frame: pa.Table.from_pandas(frame),
        lambda frame: pl.from_pandas(frame, include_index=True),
        lambda frame: pd.read_csv(io.StringIO(frame.to_csv())),
    ],
    ids=["arrow", "polars", "read_csv"],
)
def test_an_index_in_a_frame_is_never_a_field(convert: Callable[[Any], Any]) -> None:
    data = MarketData.from_frame(convert(PART))

    assert data == MarketData.from_frame(PART)
    (dropped,) = data.repairs
    assert dropped.kind == "column"


def test_an_index_is_a_field_if_an_option_names_it(tmp_path: Path) -> None:
    PART.to_parquet(tmp_path / "bars.parquet")
    renamed = MarketData.from_parquet(
        tmp_path / "bars.parquet", rename={"__index_level_0__": "number"}
    )

    assert renamed.fields == (*FIELDS, "number")


def test_an_index_of_a_wide_table_is_its_time_and_never_an_asset(tmp_path: Path) -> None:
    wide = BARS.pivot(index="time", columns="symbol", values="close")
    wide.index.name = wide.columns.name = None
    wide.to_parquet(tmp_path / "wide.parquet")
    wide.reset_index(names="time").to_csv(tmp_path / "wide.csv")

    expected = EXPECTED.select(fields=["close"])
    assert MarketData.from_parquet(tmp_path / "wide.parquet", field="close") == expected
    assert MarketData.from_csv(tmp_path / "wide.csv", field="close") == expected


def test_an_index_of_a_market_frame_is_never_a_series(tmp_path: Path) -> None:
    rates = pd.DataFrame({"time": BARS["time"].unique(), "rate": range(5)})
    rates.to_csv(tmp_path / "rates.csv")
    data = MarketData.from_frame(BARS, market=tmp_path / "rates.csv")

    assert list(data.market) == ["rate"]


def test_an_index_of_numbers_is_no_time(tmp_path: Path) -> None:
    PART.drop(columns="time").to_parquet(tmp_path / "bars.parquet")

    with pytest.raises(DataError, match="missing time column.*'__index_level_0__', without dates"):
        MarketData.from_parquet(tmp_path / "bars.parquet")


def test_an_index_of_ticks_is_never_a_field() -> None:
    ticks = FrameIntraday(pd.read_csv(io.StringIO(BARS.to_csv())), timezone="UTC")

    _, columns = ticks.ticks("AAA")
    assert list(columns) == [f"${name}" for name in FIELDS]
