"""Results do not depend on the split of rows over files, groups and batches."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import MarketData, Policies, inspect
from tests.data.panels import bars

FRAME = bars(30).drop(index=[10, 40, 41])
POLICIES = Policies(calendars="union", missing="halt", duplicates="last")


@given(
    cuts=st.lists(st.integers(1, 86), max_size=6, unique=True).map(sorted),
    batch_rows=st.integers(7, 100),
    group=st.integers(7, 100),
    by_asset=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_files_groups_and_batches_do_not_matter(
    cuts: list[int], batch_rows: int, group: int, by_asset: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("rows")
    frame = FRAME.sort_values(["symbol", "time"]) if by_asset else FRAME
    frame = pd.concat([frame.iloc[:20], frame.iloc[[19]].assign(volume=3.0), frame.iloc[20:]])
    frame.loc[frame.index[50], "close"] = np.nan
    for place, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(frame)], strict=True)):
        name = folder / f"{place:03}.parquet"
        frame.iloc[start:stop].to_parquet(name, index=False, row_group_size=group)
    whole = MarketData.from_frame(frame, policies=POLICIES)

    data = MarketData.from_parquet(folder, policies=POLICIES, batch_rows=batch_rows)

    assert data == whole
    assert data.values.tobytes() == whole.values.tobytes()
    assert data.repairs.counts == whole.repairs.counts  # type: ignore[attr-defined]
    assert (data.field("volume") == 3.0).any(), "the last of two rows is kept"


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_problem_names_its_file(tmp_path: Path, form: str) -> None:
    frame = bars().astype({"close": object if form == "csv" else float})
    frame.loc[20, "close"] = np.nan
    frame.loc[30, "volume"] = -5.0
    for place, part in enumerate((frame[:18], frame[18:27], frame[27:])):
        getattr(part, f"to_{form}")(tmp_path / f"{place}.{form}", index=False)

    found = inspect(tmp_path)

    files = {problem.kind: Path(str(problem.file)).name for problem in found}
    assert files == {"missing": f"1.{form}", "volume": f"2.{form}"}


def test_a_column_that_only_some_files_have_is_a_problem(tmp_path: Path) -> None:
    bars()[:18].to_parquet(tmp_path / "a.parquet")
    bars()[18:].assign(mood=1.0).to_parquet(tmp_path / "b.parquet")

    (problem,) = inspect(tmp_path)

    assert (problem.kind, problem.field) == ("column", "mood")
    assert str(problem.file).endswith("a.parquet")
    plain = MarketData.from_frame(bars())
    assert MarketData.from_parquet(tmp_path, policies=Policies(columns="ignore")) == plain
    assert MarketData.from_parquet(tmp_path, fields=plain.fields) == plain


def test_columns_may_be_in_another_order_and_of_another_type_in_each_file(tmp_path: Path) -> None:
    bars()[:18].to_parquet(tmp_path / "a.parquet")
    other = bars()[18:].astype({"volume": "int32", "symbol": "category"})
    other[other.columns[::-1]].to_parquet(tmp_path / "b.parquet")

    assert MarketData.from_parquet(tmp_path) == MarketData.from_frame(bars())


def test_the_names_of_files_need_not_be_in_the_order_of_time(tmp_path: Path) -> None:
    bars()[:18].to_parquet(tmp_path / "z.parquet")
    bars()[18:].to_parquet(tmp_path / "a.parquet")

    assert MarketData.from_parquet(tmp_path) == MarketData.from_frame(bars())


def test_folders_may_name_what_needs_quoting(tmp_path: Path) -> None:
    data = MarketData.from_frame(bars(assets=("A/B", "C D", "E=F%")))
    data.to_parquet(tmp_path / "folder", by_asset=True)
    for asset in data.assets:
        frame = data.select([asset]).to_frame().drop(columns="asset")
        place = tmp_path / "plain" / f"symbol={quote(asset, safe='')}"
        place.mkdir(parents=True)
        frame.to_parquet(place / "x.parquet")

    assert MarketData.from_parquet(tmp_path / "folder") == data
    assert MarketData.from_parquet(tmp_path / "plain") == data
