from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import DayCache, IntradayData, QlibIntraday, QlibProvider
from sekai.data.intraday import file_version
from sekai.error import DataError
from tests.data.qlib.providers import daily, let_settle, minutely, minutes, provider, text

DATE = np.datetime64("2020-01-02")


def test_a_day_has_the_columns_that_were_asked_for(tmp_path: Path) -> None:
    found = QlibProvider(minutely(tmp_path / "min"))
    deal = "If($ask == 0, $bid, $ask)"
    source = QlibIntraday(found, columns=["$close", deal])
    ticks = source.day("SH600000", DATE)
    assert isinstance(source, IntradayData)
    assert list(ticks.columns) == ["$close", deal]
    assert np.array_equal(ticks.times, minutes()[240:480])
    table = found.features(None, ["$close", deal], freq="1min")[240:480]
    np.testing.assert_array_equal(ticks.column("$close"), table["$close"].astype(np.float64))
    np.testing.assert_array_equal(ticks.column(deal), table[deal].astype(np.float64))


def test_all_fields_are_columns_if_none_are_named(tmp_path: Path) -> None:
    ticks = QlibIntraday(QlibProvider(minutely(tmp_path / "min"))).day("sh600000", DATE)
    assert set(ticks.columns) == {
        "$open", "$high", "$low", "$close", "$volume", "$bid", "$ask",
    }  # fmt: skip
    assert ticks.stock_id == "sh600000"


@pytest.mark.parametrize(
    ("stock", "date", "said"),
    [
        ("SH600001", DATE, r"'SH600001' in market 'all'; did you mean 'SH600000'\?"),
        ("SH600000", np.datetime64("2020-02-02"), "has no ticks on 2020-02-02.*listed from"),
    ],
)
def test_a_day_that_is_not_there_is_an_error(
    tmp_path: Path, stock: str, date: np.datetime64, said: str
) -> None:
    source = QlibIntraday(QlibProvider(minutely(tmp_path / "min")))
    with pytest.raises(DataError, match=said):
        source.day(stock, date)


def test_ticks_outside_of_the_listing_are_left_out(tmp_path: Path) -> None:
    stamps = minutes(2)
    root = provider(tmp_path / "x", "1min", stamps, {"A": {"close": (0, np.ones(480))}},
                    {"A": [(text(stamps[300]), text(stamps[310]))]})  # fmt: skip
    source = QlibIntraday(QlibProvider(root))
    assert len(source.day("A", DATE)) == 11
    assert source.has("A", DATE)
    assert not source.has("A", np.datetime64("2020-01-01"))


def test_a_day_that_no_file_has_a_place_for_has_no_ticks(tmp_path: Path) -> None:
    root = provider(tmp_path / "x", "1min", minutes(2), {"A": {"close": (0, np.full(240, np.nan))}})
    source = QlibIntraday(QlibProvider(root), columns=["If(IsNull($close), 1, 0)"])
    assert not source.has("A", DATE)
    with pytest.raises(DataError, match="A has no ticks on 2020-01-02"):
        source.day("A", DATE)
    assert source.has("A", np.datetime64("2020-01-01"))
    assert len(source.day("A", np.datetime64("2020-01-01"))) == 240
    assert source.preload(["A"], [DATE]) == 0


def test_columns_and_frequencies_are_checked_when_it_is_made(tmp_path: Path) -> None:
    found = QlibProvider(minutely(tmp_path / "min"))
    with pytest.raises(DataError, match="looks ahead"):
        QlibIntraday(found, columns=["Ref($close, -1)"])
    with pytest.raises(DataError, match="no data of frequency '5min'; expected freq='1min'"):
        QlibIntraday(found, "5min")


def test_a_day_that_was_read_is_kept_and_shared_by_none_with_other_columns(tmp_path: Path) -> None:
    found = QlibProvider(minutely(tmp_path / "min"))
    let_settle()
    cache = DayCache()
    one = QlibIntraday(found, columns=["$close"], cache=cache)
    other = QlibIntraday(found, columns=["$open"], cache=cache)
    assert one.day("SH600000", DATE) is one.day("SH600000", DATE)
    assert list(other.day("SH600000", DATE).columns) == ["$open"]
    doubled = QlibIntraday(found, columns=["2 * $close"], cache=cache).day("SH600000", DATE)
    assert list(doubled.columns) == ["2 * $close"]
    assert len(cache) == 3
    assert cache.nbytes == 3 * 240 * 16


def test_preloading_reads_every_day_that_there_is_and_tells_how_far_it_is(tmp_path: Path) -> None:
    source = QlibIntraday(QlibProvider(minutely(tmp_path / "min")), columns=["$close"])
    let_settle()
    reported: list[tuple[int, int]] = []
    dates = np.arange("2020-01-01", "2020-01-07", dtype="datetime64[D]")
    count = source.preload(
        ["SH600000"], dates, workers=2, progress=lambda done, total: reported.append((done, total))
    )
    assert count == 3
    assert len(source.cache) == 3
    assert reported == [(done, 6) for done in range(7)]
    with pytest.raises(DataError, match="unknown instrument 'X' in market 'all'; expected"):
        source.preload(["X"], dates)
    with pytest.raises(ValueError, match="workers must be at least 1"):
        source.preload(["SH600000"], dates, workers=0)


def test_preloading_shows_a_bar_if_asked_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = QlibIntraday(QlibProvider(minutely(tmp_path / "min")))
    source.preload(["SH600000"], [DATE])
    assert capsys.readouterr().err == ""
    source.preload(["SH600000"], [DATE], progress=True)
    captured = capsys.readouterr()
    assert captured.err.endswith("1/1\n")
    assert captured.out == ""


def test_a_pickle_reads_the_same_and_carries_no_days(tmp_path: Path) -> None:
    source = QlibIntraday(QlibProvider(minutely(tmp_path / "min")), columns=["$close"])
    let_settle()
    wanted = source.day("SH600000", DATE).column("$close")
    again = pickle.loads(pickle.dumps(source))
    assert len(again.cache) == 0
    np.testing.assert_array_equal(again.day("SH600000", DATE).column("$close"), wanted)


def test_a_file_that_changes_while_it_is_read_is_not_served_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = minutely(tmp_path / "min")
    found = QlibProvider(root)
    source = QlibIntraday(found, columns=["$close"])
    rounds = iter(range(100))
    monkeypatch.setattr(type(found), "file_versions", lambda *_: ((next(rounds), 0, 0),))
    with pytest.raises(DataError, match="changed while they were read"):
        source.day("SH600000", DATE)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 1), st.integers(1, 1000)),
        st.tuples(st.just("patch"), st.integers(0, 1), st.integers(1, 1000)),
        st.tuples(st.just("switch"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("settle"), st.just(0), st.just(0)),
    ),
    max_size=14,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(operations=OPERATIONS)
def test_no_order_of_switching_rewriting_and_reading_serves_an_old_value(
    operations: list[tuple[str, int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        roots = [Path(folder) / name for name in "ab"]
        wrote = [1, 2]
        for root, value in zip(roots, wrote, strict=True):
            constant(root, value)
        cache = DayCache()
        sources = [QlibIntraday(QlibProvider(root), cache=cache) for root in roots]
        current = 0
        for name, place, value in operations:
            if name == "switch":
                current = place
            elif name == "settle":
                let_settle()
            elif name != "read":
                (constant if name == "write" else patch)(roots[place], value)
                wrote[place] = value
            for _ in range(2):
                ticks = sources[current].day("A", np.datetime64("2020-01-01"))
                assert (ticks.column("$close") == wrote[current]).all()


def test_rewriting_within_one_tick_of_the_disks_clock_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick = 10_000_000

    def coarse(path: str) -> tuple[int, int, int]:
        number, written, size = file_version(path)
        return number, written // tick * tick, size

    monkeypatch.setattr("sekai.data.qlib.provider.file_version", coarse)
    constant(tmp_path / "a", 1)
    source = QlibIntraday(QlibProvider(tmp_path / "a"))
    for value in range(2, 300):
        patch(tmp_path / "a", value)
        assert source.day("A", np.datetime64("2020-01-01")).column("$close")[0] == value


def constant(root: Path, value: int) -> None:
    """Write a provider whose closes are all one value, over one that may be there."""
    from sekai.data import MarketData

    MarketData(minutes(1), ["A"], ["close"], np.full((240, 1, 1), value)).to_qlib(
        root, overwrite=True
    )


def patch(root: Path, value: int) -> None:
    """Rewrite a file in place, as Qlib does: the same size, the same number on its disk."""
    path = root / "features" / "a" / "close.1min.bin"
    with path.open("rb+") as file:
        np.array([0, *[value] * 240], "<f4").tofile(file)


def test_days_of_daily_data_have_one_tick(tmp_path: Path) -> None:
    source = QlibIntraday(QlibProvider(daily(tmp_path / "day")), "day")
    assert source.day("AAA", DATE).column("$close").tolist() == [2]
