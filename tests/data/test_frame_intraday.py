"""Frames of ticks, as pandas, polars and pyarrow have them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from sekai.data import FrameIntraday
from sekai.error import DataError

pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")
pa: Any = pytest.importorskip("pyarrow")

DAY = np.datetime64("2020-01-02")
TIMES = np.array(["2020-01-02T09:30", "2020-01-02T09:31", "2020-01-03T09:30"], "datetime64[ns]")


def plain(**columns: Any) -> Any:
    values = {"close": [1.0, 2.0, 3.0], "volume": [10, 20, 30], **columns}
    return pd.DataFrame({"datetime": TIMES, **values})


FRAMES: dict[str, Any] = {
    "a column of pandas": plain,
    "an index": lambda: plain().set_index("datetime"),
    "an index without a name": lambda: plain().set_index("datetime").rename_axis(None),
    "polars": lambda: pl.from_pandas(plain()),
    "lazy polars": lambda: pl.from_pandas(plain()).lazy(),
    "arrow": lambda: pa.Table.from_pandas(plain()),
    "dollars": lambda: plain().rename(columns={"close": "$close", "volume": "$volume"}),
    "capitals": lambda: plain().rename(columns={"close": "Close", "volume": "VOLUME"}),
    "text": lambda: plain(datetime=[str(time) for time in TIMES]),
    "a zone": lambda: plain(datetime=pd.DatetimeIndex(TIMES, tz="Asia/Shanghai")),
    "a zone of polars": lambda: pl.from_pandas(plain()).with_columns(
        pl.col("datetime").dt.replace_time_zone("America/New_York")
    ),
    "a symbol": lambda: plain(symbol="AAA"),
    "a level of the index": lambda: plain(instrument="AAA").set_index(["instrument", "datetime"]),
    "the index of Qlib": lambda: plain(
        instrument="AAA", date=TIMES.astype("datetime64[D]").astype("datetime64[ns]")
    ).set_index(["instrument", "datetime", "date"]),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_kind_of_frame_gives_the_same_days(kind: str) -> None:
    days = FrameIntraday(FRAMES[kind]())

    ticks = days.day("AAA", DAY)

    assert ticks.stock_id == "AAA"
    assert ticks.times.tolist() == TIMES[:2].tolist()
    assert {name: column.tolist() for name, column in ticks.columns.items()} == {
        "$close": [1.0, 2.0],
        "$volume": [10.0, 20.0],
    }
    assert days.dates.tolist() == TIMES[[0, 2]].astype("datetime64[D]").tolist()
    assert days.has("AAA", DAY)
    assert not days.has("AAA", DAY + 5)


def test_the_market_s_clock_can_be_of_another_zone_than_the_stamps() -> None:
    utc = plain(datetime=pd.DatetimeIndex(TIMES, tz="America/New_York").tz_convert("UTC"))

    assert FrameIntraday(utc).day("AAA", DAY).times[0] == TIMES[0] + np.timedelta64(5, "h")
    ticks = FrameIntraday(utc, timezone="America/New_York").day("AAA", DAY)
    assert ticks.times.tolist() == TIMES[:2].tolist()


def test_symbols_have_their_own_ticks_in_any_order() -> None:
    both = pd.concat([plain(symbol="BBB", close=[4.0, 5.0, 6.0]), plain(symbol="AAA")])
    mixed = both.sort_values("datetime", kind="stable")

    for frame in (both, mixed):
        days = FrameIntraday(frame)
        assert days.assets == ("AAA", "BBB")
        assert days.day("BBB", DAY).column("$close").tolist() == [4.0, 5.0]
    with pytest.raises(DataError, match="no ticks of 'AAB'.*did you mean 'AAA'"):
        days.day("AAB", DAY)
    with pytest.raises(DataError, match="AAA has no ticks on 2021-01-01.*from 2020-01-02T09:30"):
        days.day("AAA", np.datetime64("2021-01-01"))


def test_columns_of_other_names_are_named() -> None:
    frame = plain().rename(columns={"datetime": "when"}).assign(which="AAA")

    days = FrameIntraday(frame, time="when", asset="which")

    assert days.assets == ("AAA",)


def test_missing_numbers_are_nan_and_whole_numbers_stay_exact() -> None:
    frame = pl.DataFrame({"datetime": TIMES, "close": [1.5, None, 2.0], "volume": [1, 2**53, 3]})

    ticks = FrameIntraday(frame).day("AAA", DAY)

    assert np.isnan(ticks.column("$close")[1])
    assert ticks.column("$volume")[1] == 2**53


def test_a_column_with_a_zero_behind_it_is_found_without() -> None:
    ticks = FrameIntraday(plain().rename(columns={"close": "$close0"})).day("AAA", DAY)

    assert ticks.column("$close").tolist() == ticks.column("$close0").tolist() == [1.0, 2.0]


def test_later_changes_of_the_frame_are_not_seen() -> None:
    frame = plain()
    days = FrameIntraday(frame)

    frame.loc[:, "close"] = 99.0

    assert days.day("AAA", DAY).column("$close").tolist() == [1.0, 2.0]
    assert days.day("AAA", DAY) is days.day("AAA", DAY)


def test_it_can_be_sent_to_other_processes() -> None:
    days = pickle.loads(pickle.dumps(FrameIntraday(plain(symbol="AAA"))))

    assert days.day("AAA", DAY).column("$close").tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (
            lambda: plain().drop(columns="datetime"),
            r"column: missing time column; name it one of \('time'",
        ),
        (lambda: plain()[["datetime"]], "no fields"),
        (lambda: plain().iloc[[1, 0, 2]], "unsorted.*09:30.*after.*09:31.*sort the frame"),
        (
            lambda: plain(symbol="AAA").iloc[[1, 0, 2]],
            r"unsorted timestamps: AAA has 2020-01-02T09:30:00\.000000000",
        ),
        (lambda: plain().iloc[[0, 1, 1]], r"asset has two rows at 2020-01-02T09:31:00\.000000000"),
        (
            lambda: plain(datetime=[TIMES[0], None, TIMES[2]]),
            "row 1 of column 'datetime' has no time; drop rows",
        ),
        (lambda: plain(datetime=["2020-01-02", "soon", "x"]), "row 1.*'soon'"),
        (lambda: plain(datetime=[1.5, 2.5, 3.5]), "'datetime' cannot be the time"),
        (
            lambda: plain(close=["a", "b", "c"]),
            "'close' of type large_string has no number in row 0",
        ),
        (
            lambda: plain(symbol=["AAA", None, "AAA"]),
            "row 1 of column 'symbol' has no symbol; drop rows",
        ),
        (
            lambda: plain(**{"$close": [1.0, 2.0, 3.0]}),
            r"duplicate column '\$close': 'close' and '\$close'",
        ),
        (lambda: plain(timestamp=TIMES), "ambiguous time column: datetime, timestamp"),
        (lambda: plain().iloc[:0], "no rows"),
        (
            lambda: plain(datetime=[f"{time}+08:00" for time in TIMES.astype("datetime64[s]")]),
            "stamps of \\+08:00.*timezone=",
        ),
    ],
)
def test_a_frame_that_is_wrong_is_an_error_that_names_what(frame: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        FrameIntraday(frame())


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(TypeError, match="frame must be of pandas, polars or pyarrow, got"):
        FrameIntraday(3)
