"""Round trip of files: the same panel, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import Frequency, MarketData, Policies
from sekai.error import DataError
from tests.data.panels import bars


@st.composite
def panels(draw: st.DrawFn) -> MarketData:
    """Panels of every kind: with halts, holes, series, sectors, zones, or with no row at all."""
    rows, seed = draw(st.integers(0, 30)), draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    assets = draw(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]),
                                   min_size=1, max_size=4).map(str.strip).filter(bool),
                           min_size=1, max_size=4, unique=True))  # fmt: skip
    values = rng.uniform(1, 9, (rows, len(assets), 3))
    values[rng.random(values.shape) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    times = np.cumsum(rng.integers(1, 10**15, rows)).astype("datetime64[ns]")
    quoted = np.isfinite(values[:, :, 0]) & (rng.random(values.shape[:2]) < 0.9)
    market = {"close": rng.normal(size=rows), "rate": np.full(rows, np.nan)}
    return MarketData(
        times, assets, ["close", "market/x", "a b"], values, quoted=quoted,
        tradable=quoted & (rng.random(quoted.shape) < 0.9),
        market=market if draw(st.booleans()) else {},
        sectors={assets[0]: "Énergie"} if draw(st.booleans()) else {},
        timezone=draw(st.sampled_from([None, "America/New_York"])),
        frequency=draw(st.sampled_from([None, Frequency(60 * 10**9, 98_280.1)])),
        warm_up=draw(st.integers(0, rows)),
    )  # fmt: skip


@given(data=panels(), by_asset=st.booleans())
@settings(deadline=None, max_examples=30)
def test_a_panel_that_was_written_is_read_as_it_was(
    data: MarketData, by_asset: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("panel") / ("folder" if by_asset else "panel.parquet")
    data.to_parquet(path, by_asset=by_asset)

    again = MarketData.from_parquet(path)

    assert again == data
    assert again.digest == data.digest
    assert again.values.tobytes() == data.values.tobytes()


def test_a_part_of_a_written_panel_can_be_read(tmp_path: Path) -> None:
    data = MarketData.from_frame(bars(), sectors={"AAA": "Energy"}).replace(warm_up=3)
    data.to_parquet(tmp_path / "x.parquet")

    some = MarketData.from_parquet(
        tmp_path / "x.parquet", start="2020-01-05", assets=["CCC", "AAA"], fields=["close"]
    )

    assert some == data.rows(4, 12).select(["CCC", "AAA"], ["close"])
    with pytest.raises(TypeError, match="options timezone are not allowed for data written"):
        MarketData.from_parquet(tmp_path / "x.parquet", timezone="UTC")


def test_a_file_is_replaced_in_one_move_and_kept_if_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = MarketData.from_frame(bars())
    path = tmp_path / "x.parquet"
    data.to_parquet(path)
    before = path.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    with pytest.raises(OSError, match="no space left"):
        data.rows(0, 5).to_parquet(path)
    with pytest.raises(OSError, match="no space left"):
        data.to_parquet(tmp_path / "folder", by_asset=True)

    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["x.parquet"]


def test_a_folder_must_be_new(tmp_path: Path) -> None:
    data = MarketData.from_frame(bars())
    with pytest.raises(FileExistsError, match="exists; remove it, or choose another name"):
        data.to_parquet(tmp_path, by_asset=True)
    with pytest.raises(FileNotFoundError, match="create it"):
        data.to_parquet(tmp_path / "a" / "b", by_asset=True)
    with pytest.raises(ValueError, match=r"must end in \.parquet"):
        data.to_parquet(tmp_path / "x.csv")


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_panel_becomes_a_frame(kind: str, wide: bool) -> None:
    kinds = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}
    frame = bars()
    frame.loc[frame["symbol"] == "BBB", "close"] = np.nan
    frame = frame.drop(index=[0, 3])
    data = MarketData.from_frame(frame, policies=Policies(missing="halt", empty="drop"))

    made = data.to_frame(kind, wide=wide)

    assert isinstance(made, kinds[kind])
    assert len(made) == (12 if wide else 22)
    if kind == "pandas" or not wide:
        assert MarketData.from_frame(made) == data
    with pytest.raises(ValueError, match="backend must be one of"):
        data.to_frame("spreadsheet")


def test_what_sekai_noted_in_a_file_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    MarketData.from_frame(bars()).to_parquet(path)
    table = pq.read_table(path)
    for note in (b"{", b"[]", b'{"version": 9}', b'{"version": 1, "assets": ["A"]}'):
        pq.write_table(table.replace_schema_metadata({b"sekai.market_data": note}), path)

        with pytest.raises(DataError, match="malformed sekai metadata"):
            MarketData.from_parquet(path)
