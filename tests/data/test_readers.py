"""Every form in which people keep bars gives the same panel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from sekai.data import MarketData, Policies
from sekai.error import DataError
from tests.data.panels import ASSETS, FIELDS, bars, stamp

FRAME = bars()
PLAIN = MarketData.from_frame(FRAME)


def wide(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns (field, asset)."""
    return frame.pivot(index="time", columns="symbol")


FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "pandas by asset": lambda frame: frame.sort_values(["symbol", "time"]),
    "pandas with two labels": lambda frame: frame.set_index(["time", "symbol"]),
    "pandas with a time as label": lambda frame: frame.set_index("time"),
    "pandas with unnamed labels": lambda frame: frame.set_index(["time", "symbol"]).rename_axis(
        [None, None]
    ),
    "pandas by field and asset": wide,
    "pandas by asset and field": lambda frame: wide(frame).swaplevel(axis=1),
    "pandas with capitals": lambda frame: frame.rename(columns=str.capitalize),
    "polars": pl.from_pandas,
    "lazy polars": lambda frame: pl.from_pandas(frame).lazy(),
    "arrow": pa.Table.from_pandas,
    "text": lambda frame: frame.astype(str),
    "categories": lambda frame: frame.astype({"symbol": "category"}),
    "dates": lambda frame: frame.assign(time=frame["time"].dt.date),
    "decimals": lambda frame: pa.table(
        {
            **{name: frame[name] for name in ("time", "symbol")},
            **{
                name: pa.array(frame[name].round(4)).cast(pa.decimal128(12, 4), safe=False)
                for name in FIELDS
            },
        }
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_a_frame_does_not_matter(form: str) -> None:
    data = MarketData.from_frame(FORMS[form](FRAME))

    assert data.assets == ASSETS
    assert np.allclose(data.select(fields=FIELDS).values, PLAIN.values, rtol=0, atol=1e-9)
    assert data.listed.all()
    assert data.quoted.all()
    assert not len(data.repairs)


def test_one_field_whose_columns_are_assets() -> None:
    closes = wide(FRAME)["close"]
    closes.loc[closes.index[:4], "CCC"] = np.nan
    data = MarketData.from_frame(closes, field="close")

    assert data.fields == ("close",)
    assert data.assets == ASSETS
    assert np.array_equal(data.field("close")[4:], PLAIN.field("close")[4:])
    assert not data.listed[:4, 2].any(), "an asset that begins later is not listed before"
    assert not len(data.repairs)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_csv_file_and_a_folder_of_one_for_each_asset(tmp_path: Path, suffix: str) -> None:
    FRAME.to_csv(tmp_path / f"all{suffix}", index=False)
    folder = tmp_path / "each"
    folder.mkdir()
    for asset, part in FRAME.groupby("symbol"):
        part.drop(columns="symbol").to_csv(folder / f"{asset}{suffix}", index=False)

    assert MarketData.from_csv(tmp_path / f"all{suffix}") == PLAIN
    assert MarketData.from_csv(folder) == PLAIN


def test_folders_that_name_columns(tmp_path: Path) -> None:
    for asset, part in FRAME.groupby("symbol"):
        for half, rows in enumerate((part[:5], part[5:])):
            place = tmp_path / f"symbol={asset}" / f"year={2020 + half}"
            place.mkdir(parents=True)
            rows.drop(columns="symbol").to_parquet(place / "rows.parquet", index=False)
    (tmp_path / "_SUCCESS").write_text("")

    assert MarketData.from_parquet(tmp_path) == PLAIN


def test_zeros_before_a_code_are_kept(tmp_path: Path) -> None:
    for form in ("csv", "parquet"):
        place = tmp_path / form / "code=000001"
        place.mkdir(parents=True)
        part = FRAME[FRAME["symbol"] == "AAA"].drop(columns="symbol")
        getattr(part, f"to_{form}")(place / f"x.{form}", index=False)
    FRAME.assign(symbol="000002").drop_duplicates("time").to_csv(tmp_path / "x.csv", index=False)

    assert MarketData.from_parquet(tmp_path / "parquet").assets == ("000001",)
    assert MarketData.from_csv(tmp_path / "csv").assets == ("000001",)
    assert MarketData.from_csv(tmp_path / "x.csv").assets == ("000002",)


@pytest.mark.parametrize("form", ["parquet", "csv", "frame"])
def test_only_what_is_asked_for_is_taken(form: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "start": "2020-01-03", "stop": "2020-01-08", "assets": ["CCC", "AAA"], "fields": ["close"],
    }  # fmt: skip
    if form == "frame":
        data = MarketData.from_frame(FRAME, **options)
    else:
        path = tmp_path / f"x.{form}"
        getattr(FRAME, f"to_{form}")(path, index=False)
        data = getattr(MarketData, f"from_{form}")(path, **options)

    assert data == PLAIN.rows(2, 7).select(["CCC", "AAA"], ["close"])
    assert data.assets == ("CCC", "AAA")


def test_columns_can_be_named_and_renamed() -> None:
    odd = FRAME.rename(columns={"time": "when", "symbol": "who", "close": "last"})

    data = MarketData.from_frame(odd, time="when", asset="who", rename={"last": "close"})

    assert data == PLAIN


@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        ({"time": "when"}, {}, "or pass time=, columns are when, symbol, open"),
        ({"symbol": "who"}, {}, "such as symbol, asset= or field=, columns are time, who"),
        ({"open": "date"}, {}, "ambiguous time column: time, date; pass time="),
        ({"open": "ticker"}, {}, "column: ambiguous asset column: symbol, ticker"),
        ({}, {"time": "when"}, "column: no column 'when' as passed by time=; columns"),
        ({}, {"fields": ["close", "bid"]}, "column: no column 'bid' as passed by fields="),
        (
            {},
            {"rename": {"bid": "ask"}},
            r"rename= names unknown columns \['bid'\]; columns are time",
        ),
        ({}, {"market": ["rate"]}, "column: no column 'rate' as passed by market="),
        ({"open": "Close"}, {}, "duplicate fields: close"),
        ({}, {"rename": {"open": "close"}}, "column: duplicate columns after rename=: close"),
    ],
)
def test_a_column_that_is_missing_or_could_be_two_things_is_told(
    changed: dict[str, str], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        MarketData.from_frame(FRAME.rename(columns=changed), **options)

    assert caught.value.problems[0].kind == "column"


def test_an_option_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        MarketData.from_frame(FRAME, colour="red")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="frame must be of pandas, polars or pyarrow, got"):
        MarketData.from_frame([1, 2, 3])
    with pytest.raises(TypeError, match="assets must be a list of names, got 'AAA'"):
        MarketData.from_frame(FRAME, assets="AAA")
    with pytest.raises(ValueError, match="unknown timezone 'Mars/Olympus'; expected a name"):
        MarketData.from_frame(FRAME, timezone="Mars/Olympus")
    with pytest.raises(ValueError, match="field= means that columns are assets; omit asset="):
        MarketData.from_frame(FRAME, field="close", fields=["close"])


def test_series_of_the_market_come_from_columns_or_from_another_frame(tmp_path: Path) -> None:
    rates = pd.DataFrame({"time": FRAME["time"].unique(), "rate": np.arange(12.0)})
    beside = FRAME.merge(rates, on="time")
    rates.to_csv(tmp_path / "rates.csv", index=False)
    rates.to_parquet(tmp_path / "rates.parquet")
    given = [
        MarketData.from_frame(beside, market=["rate"]),
        MarketData.from_frame(FRAME, market=rates),
        MarketData.from_frame(FRAME, market=tmp_path / "rates.csv"),
        MarketData.from_frame(FRAME, market=str(tmp_path / "rates.parquet")),
    ]

    for data in given:
        assert data.fields == FIELDS
        assert np.array_equal(data.market["rate"], np.arange(12.0))
        assert data == given[0]


def test_a_series_of_the_market_with_holes_or_two_minds_is_a_problem() -> None:
    frame = FRAME.assign(rate=np.arange(12.0).repeat(3))
    frame.loc[4, "rate"] = 2.0
    frame.loc[9:11, "rate"] = np.nan

    with pytest.raises(
        DataError, match="market rate at 2020-01-02: values differ between"
    ) as caught:
        MarketData.from_frame(frame, market=["rate"])
    filled = MarketData.from_frame(frame, market=["rate"], policies=Policies(market="forward_fill"))
    kept = MarketData.from_frame(frame, market=["rate"], policies=Policies(market="keep"))

    assert {problem.time for problem in caught.value.problems} == {
        stamp("2020-01-02"), stamp("2020-01-04"),
    }  # fmt: skip
    assert list(filled.market["rate"]) == [0, 0, 2, 2, *range(4, 12)]
    assert list(np.flatnonzero(np.isnan(kept.market["rate"]))) == [1, 3]
    assert [problem.policy for problem in kept.repairs] == ["keep", "keep"]


def test_sectors_come_from_a_mapping_a_frame_or_a_file(tmp_path: Path) -> None:
    mapping = {"AAA": "Energy", "CCC": "Banks"}
    # A table may list a larger universe.
    listed = {**mapping, "ZZZ": "Not here"}
    frame = pd.DataFrame({"GICS Sector": listed.values(), "Symbol": listed.keys()})
    frame.to_csv(tmp_path / "sectors.csv", index=False)

    for given in (mapping, frame, tmp_path / "sectors.csv"):
        data = MarketData.from_frame(FRAME, sectors=given)
        assert data.sectors == {"AAA": "Energy", "CCC": "Banks"}
    with pytest.raises(DataError, match="must have a column such as symbol and one such as sector"):
        MarketData.from_frame(FRAME, sectors=frame[["Symbol"]])
    with pytest.raises(DataError, match=r"sectors= names none of the assets: .*got ZZZ"):
        MarketData.from_frame(FRAME, sectors=frame[-1:])


@pytest.mark.parametrize("option", ["sectors", "listing"])
def test_unknown_names_in_a_mapping_are_refused_with_the_closest(option: str) -> None:
    value = {"sectors": "Energy", "listing": ("2020-01-02", None)}[option]
    options: dict[str, Any] = {option: {"AAA": value, "AAB": value}}

    with pytest.raises(ValueError, match=f"{option}: unknown asset 'AAB'; did you mean 'AAA'"):
        MarketData.from_frame(FRAME, **options)


def test_columns_of_masks_are_taken_as_masks() -> None:
    frame = FRAME.assign(listed=True, quoted=True, tradable=True)
    frame.loc[3, ["quoted", "tradable"]] = False
    frame.loc[3, list(FIELDS)] = np.nan
    frame.loc[7, "tradable"] = False
    data = MarketData.from_frame(frame)

    assert data.fields == FIELDS
    assert [tuple(place) for place in np.argwhere(~data.quoted)] == [(1, 0)]
    assert [tuple(place) for place in np.argwhere(~data.tradable)] == [(1, 0), (2, 1)]
    assert data.listed.all()
    with pytest.raises(DataError, match=r"be used: values must be true or false, got \['maybe'\]"):
        MarketData.from_frame(FRAME.assign(quoted="maybe"))


def test_a_table_of_listings_says_who_is_listed() -> None:
    frame = FRAME[~((FRAME["symbol"] == "BBB") & (FRAME["time"] < "2020-01-04"))]
    listing = {"BBB": ("2020-01-03", None)}
    data = MarketData.from_frame(frame, listing=listing)

    assert list(np.flatnonzero(data.listed[:, 1])) == list(range(2, 12))
    assert list(np.flatnonzero(data.quoted[:, 1])) == list(range(3, 12))
    with pytest.raises(
        DataError, match=r"at 2020-01-11 to 2020-01-12 \(2 rows\): row while not listed"
    ) as caught:
        MarketData.from_frame(frame, listing={"AAA": (None, "2020-01-10")})
    assert caught.value.problems[0].count == 2
    dropped = MarketData.from_frame(
        frame, listing={"AAA": (None, "2020-01-10")}, policies=Policies(listing="drop_row")
    )
    assert list(np.flatnonzero(~dropped.listed[:, 0])) == [10, 11]
    assert np.isnan(dropped.values[10:, 0]).all()
