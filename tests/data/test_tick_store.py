from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import DayCache, IntradayData, MarketData, MarketIntraday, QlibProvider, TickStore
from sekai.error import DataError
from tests.data.qlib.providers import let_settle, minutely, minutes

DATE = np.datetime64("2020-01-02")
HOURS = np.array(["2020-01-02T09", "2020-01-02T10"], "datetime64[ns]")


def panel(days: int = 3, assets: tuple[str, ...] = ("A", "B"), seed: int = 0) -> MarketData:
    values = np.random.default_rng(seed).uniform(1, 9, (240 * days, len(assets), 2))
    return MarketData(minutes(days), assets, ["close", "volume"], values.astype(np.float32))


def test_a_day_of_ticks_is_that_of_the_panel(tmp_path: Path) -> None:
    data = panel()
    store = TickStore.build(data, tmp_path / "s")
    assert isinstance(store, IntradayData)
    found, wanted = store.day("B", DATE), MarketIntraday(data).day("B", DATE)
    assert np.array_equal(found.times, wanted.times)
    assert np.array_equal(found.column("$volume"), wanted.column("$volume"))
    assert store.stocks() == ("A", "B")
    assert repr(store.span("A")).endswith("3 days, 240 times of day)")
    assert [str(day) for day in store.dates("A")] == ["2020-01-01", "2020-01-02", "2020-01-03"]


def test_features_of_yesterday_are_those_of_the_same_time_of_day(tmp_path: Path) -> None:
    data = panel()
    store = TickStore.build(data, tmp_path / "s")
    today, yesterday = store.processed("A", DATE, ["$volume", "$close"], ["$close_1"])
    assert (today.shape, yesterday.shape) == ((240, 2), (240, 1))
    assert today.dtype == yesterday.dtype == np.dtype(np.float32)
    assert np.array_equal(today[:, 1], data.field("close")[240:480, 0])
    assert np.array_equal(yesterday[:, 0], data.field("close")[:240, 0])
    _, none = store.processed("A", np.datetime64("2020-01-01"), ["$close"], ["$close_1"])
    assert np.isnan(none).all()


def test_a_short_day_is_matched_by_the_clock(tmp_path: Path) -> None:
    data = panel()
    listed = np.ones((720, 2), np.bool_)
    listed[200:240, 0] = False
    values = data.values.copy()
    values[200:240, 0] = np.nan
    short = MarketData(data.times, data.assets, data.fields, values, listed=listed)
    store = TickStore.build(short, tmp_path / "s", missing=0.0)
    _, yesterday = store.processed("A", DATE, ["$close"], ["$close_1"])
    assert np.array_equal(yesterday[:200, 0], data.field("close")[:200, 0])
    assert not yesterday[200:].any()


def test_the_day_before_is_the_last_one_with_ticks(tmp_path: Path) -> None:
    data = panel()
    later = np.where(np.arange(720) < 240, np.timedelta64(0, "D"), np.timedelta64(2, "D"))
    weekend = data.replace(times=data.times + later)
    store = TickStore.build(weekend, tmp_path / "s")
    _, yesterday = store.processed("A", DATE + np.timedelta64(2, "D"), ["$close"], ["$close_1"])
    assert np.array_equal(yesterday[:, 0], data.field("close")[:240, 0])


def test_a_store_is_built_from_a_provider_with_expressions(tmp_path: Path) -> None:
    found = QlibProvider(minutely(tmp_path / "min"))
    store = TickStore.build(
        found, tmp_path / "s", backtest_columns=["$close", "$volume"],
        feature_columns={"$growth": "$close / Ref($close, 1)"}, start="2020-01-02",
    )  # fmt: skip
    assert list(store.day("SH600000", DATE).columns) == ["$close", "$volume"]
    assert store.feature_columns("SH600000") == ("$growth", "$growth_1")
    today, _ = store.processed("SH600000", DATE, ["$growth"], ["$growth_1"])
    table = found.features(None, ["$close / Ref($close, 1)"], "2020-01-02", freq="1min")
    np.testing.assert_array_equal(today[:, 0], table["$close / Ref($close, 1)"][:240])


def test_only_the_groups_of_rows_that_hold_the_day_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = (np.arange("2020-01-01", "2020-03-01", dtype="datetime64[D]")[:, None]
             + np.arange(240).astype("timedelta64[m]")).ravel()  # fmt: skip
    data = MarketData(times, ["A"], ["close"], np.ones((len(times), 1, 1)))
    store = TickStore.build(data, tmp_path / "s")
    store.day("A", DATE)
    asked: list[list[int]] = []
    read = pq.ParquetFile.read_row_groups

    def spy(self: Any, groups: list[int], *rest: Any, **options: Any) -> Any:
        asked.append(groups)
        return read(self, groups, *rest, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", spy)
    assert len(store.day("A", np.datetime64("2020-02-29"))) == 240
    assert asked == [[3]]


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "..", ".hidden", "a/b\\c", "%2e", "N\0L", "\u4e2d"]
)
def test_whatever_a_stock_is_called_its_file_is_in_the_folder(tmp_path: Path, name: str) -> None:
    store = TickStore.build(panel(1, (name,)), tmp_path / "s")
    assert {file.parent for file in tmp_path.rglob("*.parquet")} == {
        tmp_path / "s" / "backtest", tmp_path / "s" / "feature",
    }  # fmt: skip
    assert store.stocks() == (name,)
    assert len(store.day(name, np.datetime64("2020-01-01"))) == 240


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda s: s.day("AB", DATE), "no backtest of 'AB'.*did you mean .*'A'"),
        (lambda s: s.day("", DATE), "stock_id must be a name of 1 to 80 characters"),
        (lambda s: s.day("A", DATE + 100), "A has no ticks on 2020-04-11"),
        (lambda s: s.processed("A", DATE + 100, ["$close"], []), "no features on"),
        (
            lambda s: s.processed("A", DATE, ["$clos"], []),
            r"unknown column '\$clos'; did you mean '\$close'",
        ),
        (
            lambda s: TickStore(s.folder, ["$x"]).day("A", DATE),
            r"unknown column '\$x'; expected one of \$close, \$volume",
        ),
        (lambda s: TickStore(s.folder + "/feature"), "neither backtest nor feature"),
    ],
)
def test_what_is_not_there_is_an_error(tmp_path: Path, ask: Any, said: str) -> None:
    store = TickStore.build(panel(), tmp_path / "s")
    with pytest.raises(DataError, match=said):
        ask(store)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (
            {"feature_columns": ["$close_1"]},
            DataError,
            "be 'datetime' nor end in '_1', which marks the day before",
        ),
        (
            {"backtest_columns": ["$nothing"]},
            DataError,
            r"unknown field 'nothing'; expected one of \['close'",
        ),
        ({"backtest_columns": "$close"}, TypeError, r"columns must be a list, got '\$close'"),
        (
            {"feature_columns": {"$x": "$close"}},
            TypeError,
            "columns must be names: expressions need a provider",
        ),
        ({"stocks": ["C"]}, DataError, r"unknown asset 'C'; expected one of \['A', 'B'\]"),
        ({"stocks": []}, DataError, "at least one stock"),
        ({"columns": ["$close"]}, TypeError, "unexpected keyword argument 'columns'"),
        ({"start": "2021-01-01"}, DataError, "A has no ticks between start and end"),
    ],
)
def test_what_cannot_be_built_is_refused(
    tmp_path: Path, options: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        TickStore.build(panel(), tmp_path / "s", **options)
    assert not list(tmp_path.rglob("*.parquet"))


def test_files_that_are_there_are_replaced_only_if_asked(tmp_path: Path) -> None:
    TickStore.build(panel(seed=1), tmp_path / "s")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        TickStore.build(panel(seed=2), tmp_path / "s")
    store = TickStore.build(panel(seed=2), tmp_path / "s", overwrite=True)
    wanted = MarketIntraday(panel(seed=2)).day("A", DATE).column("$close")
    assert np.array_equal(store.day("A", DATE).column("$close"), wanted)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (b"no parquet", "cannot be read"),
        ({"x": [1.0]}, "column 'datetime' must hold"),
        ({"datetime": ["2020"], "x": [1.0]}, "column 'datetime' must hold"),
        ({"datetime": HOURS[::-1], "x": [1.0, 2.0]}, "ascending"),
        ({"datetime": HOURS, "x": ["some", "text"]}, "column 'x' must be numeric, got string"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named(tmp_path: Path, table: Any, said: str) -> None:
    store = TickStore.build(panel(), tmp_path / "s")
    path = tmp_path / "s" / "backtest" / "A.parquet"
    if isinstance(table, bytes):
        path.write_bytes(table)
    else:
        pq.write_table(pa.table(table), path)
    with pytest.raises(DataError, match=rf"(?s){said}"):
        store.day("A", DATE)


def test_days_are_kept_by_folder_and_columns_and_cannot_be_written_to(tmp_path: Path) -> None:
    cache = DayCache()
    TickStore.build(panel(seed=1), tmp_path / "a")
    TickStore.build(panel(seed=2), tmp_path / "b")
    let_settle()
    one, other = (TickStore(tmp_path / name, cache=cache) for name in "ab")
    close = one.processed("A", DATE, ["$close"], ["$close_1"])[0]
    assert one.processed("A", DATE, ["$close"], ["$close_1"])[0] is close
    assert not np.array_equal(other.processed("A", DATE, ["$close"], ["$close_1"])[0], close)
    assert not np.array_equal(one.processed("A", DATE, ["$volume"], ["$close_1"])[0], close)
    assert one.day("A", DATE) is one.day("A", DATE)
    with pytest.raises(ValueError, match="read-only"):
        close[0] = 1
    assert pickle.loads(pickle.dumps(one)).day("A", DATE).column("$close")[0] == close[0]


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(st.sampled_from(["write", "switch", "settle", "read"]), max_size=8))
def test_no_order_of_rewriting_and_reading_serves_an_old_value(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cache, places, current, seeds = DayCache(), [Path(folder) / n for n in "ab"], 0, [0, 1]
        for place, seed in zip(places, seeds, strict=True):
            TickStore.build(panel(1, ("A",), seed), place)
        stores = [TickStore(place, cache=cache) for place in places]
        for number, step in enumerate(steps):
            if step == "write":
                seeds[current] = 10 + number
                TickStore.build(panel(1, ("A",), seeds[current]), places[current], overwrite=True)
            elif step == "switch":
                current = 1 - current
            elif step == "settle":
                let_settle()
            wanted = panel(1, ("A",), seeds[current]).field("close")[:, 0]
            day = np.datetime64("2020-01-01")
            assert np.array_equal(stores[current].day("A", day).column("$close"), wanted)
            found = stores[current].processed("A", day, ["$close"], ["$close_1"])[0]
            assert np.array_equal(found[:, 0], wanted)


def test_building_and_preloading_tell_how_far_they_are(tmp_path: Path) -> None:
    reported: list[tuple[int, int]] = []
    store = TickStore.build(panel(), tmp_path / "s", progress=lambda *how: reported.append(how))
    assert reported == [(0, 2), (1, 2), (2, 2)]
    let_settle()
    assert store.preload(["A", "B"], [DATE, DATE + 50]) == 2
    assert len(store.cache) == 2
