"""Stamps are instants: how they are written, and where, is told or asked for."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import MarketData, Policies, inspect
from sekai.data.reading.decoding import localize
from sekai.error import DataError
from tests.data.panels import stamp

NEW_YORK = "America/New_York"


def table(times: Any) -> pa.Table:
    column = times if isinstance(times, pa.Array) else pa.array(list(times))
    closes = np.arange(1.0, len(column) + 1)
    return pa.table({"time": column, "symbol": ["A"] * len(column), "close": closes})


def first(times: Any, **options: Any) -> str:
    return str(MarketData.from_frame(table(times), **options).times[0])[:16]


HALF_PAST = "2020-01-02 09:30:00"


@pytest.mark.parametrize(
    ("times", "options", "expected"),
    [
        ([HALF_PAST], {"timezone": NEW_YORK}, "2020-01-02T14:30"),
        ([HALF_PAST], {"timezone": "UTC"}, "2020-01-02T09:30"),
        (["2020-01-02T09:30:00Z"], {}, "2020-01-02T09:30"),
        (["2020-01-02 09:30:00+00:00"], {}, "2020-01-02T09:30"),
        (["2020-01-02 09:30:00-05:00"], {"timezone": NEW_YORK}, "2020-01-02T14:30"),
        ([date(2020, 1, 2)], {}, "2020-01-02T00:00"),
        ([date(2020, 1, 2)], {"timezone": NEW_YORK}, "2020-01-02T05:00"),
        (["20200102"], {"time_format": "%Y%m%d"}, "2020-01-02T00:00"),
        ([20200102], {"time_format": "%Y%m%d"}, "2020-01-02T00:00"),
        ([1577957400], {"time_unit": "s"}, "2020-01-02T09:30"),
        ([1577957400000], {"time_unit": "ms"}, "2020-01-02T09:30"),
        ([datetime(2020, 1, 2, 9, 30, tzinfo=timezone.utc)], {}, "2020-01-02T09:30"),
        (["2020-01-02"], {"known_after": timedelta(hours=16), "timezone": NEW_YORK},
         "2020-01-02T21:00"),
        (["2020-01-02"], {"known_after": "16h", "timezone": NEW_YORK}, "2020-01-02T21:00"),
    ],
)  # fmt: skip
def test_a_stamp_is_read_as_it_is_written(
    times: Any, options: dict[str, Any], expected: str
) -> None:
    assert first(times, **options) == expected


def test_times_of_day_without_a_zone_are_asked_about_and_dates_are_not() -> None:
    with pytest.raises(DataError, match="time_zone: times of day without a time zone"):
        MarketData.from_frame(table([HALF_PAST]))
    assert not len(inspect(table(["2020-01-02"])))


@pytest.mark.parametrize(
    "times",
    [
        ["2020-01-02 09:30:00-05:00", "2020-01-03 09:30:00+01:00"],
        ["2020-01-02 09:30:00-05:00", "2020-01-03 09:30:00-05:00"],
        ["2020-01-02 09:30:00Z", "2020-01-03 09:30:00"],
    ],
)
def test_mixed_or_nameless_zones_are_a_problem_until_one_is_named(times: list[str]) -> None:
    kinds = {problem.kind for problem in inspect(table(times))}

    assert kinds == {"time_zone"}
    assert MarketData.from_frame(table(times), timezone="UTC").timezone is None
    assert MarketData.from_frame(table(times), timezone=NEW_YORK).timezone == NEW_YORK


def test_zones_that_differ_from_file_to_file_are_a_problem(tmp_path: Path) -> None:
    for day, zone in ((2, "UTC"), (3, NEW_YORK)):
        times = pa.array([datetime(2020, 1, day, 9, 30)], pa.timestamp("us", zone))
        pq.write_table(table(times), tmp_path / f"{day}.parquet")

    with pytest.raises(DataError, match="stamps of America/New_York, UTC"):
        MarketData.from_parquet(tmp_path)
    assert len(MarketData.from_parquet(tmp_path, timezone=NEW_YORK)) == 2


def test_a_zone_that_a_column_names_is_kept() -> None:
    times = pd.date_range("2020-01-02", periods=3, tz=NEW_YORK)
    frame = pd.DataFrame({"time": times, "symbol": "A", "close": 1.0})
    data = MarketData.from_frame(frame)

    assert data.timezone == NEW_YORK
    assert [str(day) for day in data.calendar.dates] == ["2020-01-02", "2020-01-03", "2020-01-04"]


def test_a_mixture_of_zones_in_a_column_of_objects_is_seen() -> None:
    times = [
        pd.Timestamp("2020-01-02 10:00", tz="UTC"),
        pd.Timestamp("2020-01-03 10:00", tz="Asia/Tokyo"),
    ]
    frame = pd.DataFrame({"time": pd.Series(times, dtype=object), "symbol": "A", "close": 1.0})

    assert [problem.kind for problem in inspect(frame)] == ["time_zone"]


def test_times_that_no_clock_showed_or_that_it_showed_twice_are_problems() -> None:
    times = ["2020-03-08 01:30:00", "2020-03-08 02:30:00", "2020-11-01 00:30:00",
             "2020-11-01 01:30:00", "2020-11-01 02:30:00"]  # fmt: skip
    allowed = Policies(gaps="allow")
    found = inspect(table(times), timezone=NEW_YORK, policies=allowed)
    dropped = MarketData.from_frame(
        table(times), timezone=NEW_YORK, policies=Policies(gaps="allow", keys="drop_row")
    )

    reported = [problem.found for problem in found if problem.kind == "local_time"]
    assert reported == [
        "skipped local time 2020-03-08 02:30:00 in America/New_York",
        "ambiguous local time 2020-11-01 01:30:00 in America/New_York",
    ]
    assert list(dropped.field("close")[:, 0]) == [1, 3, 5]
    assert str(dropped.times[1])[:16] == "2020-11-01T04:30"
    assert str(dropped.times[2])[:16] == "2020-11-01T07:30"


@given(
    moment=st.datetimes(datetime(1975, 1, 1), datetime(2035, 1, 1)),
    zone=st.sampled_from([NEW_YORK, "Europe/London", "Asia/Kolkata", "Australia/Lord_Howe"]),
)
@settings(deadline=None, max_examples=300)
def test_local_times_are_those_of_the_standard_library(moment: datetime, zone: str) -> None:
    from zoneinfo import ZoneInfo

    wall = np.array([np.datetime64(moment, "ns")]).astype(np.int64)
    ours = localize(wall, zone)
    theirs = moment.replace(tzinfo=ZoneInfo(zone)).astimezone(timezone.utc).replace(tzinfo=None)

    assert ours.instants.astype("datetime64[ns]")[0] == np.datetime64(theirs, "ns")
    back = theirs.replace(tzinfo=timezone.utc).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    if back != moment:
        assert "no clock" in ours.wrong[0][2]


@pytest.mark.parametrize("text", ["yesterday", "2020-13-01", "01/02/2020", "2020-01-02 25:00:00"])
def test_a_stamp_that_cannot_be_read_is_told_and_the_others_are_read(text: str) -> None:
    times = ["2020-01-01", text, "2020-01-03"]

    (problem,) = inspect(table(times))

    assert problem.kind == "key"
    assert problem.found == f"malformed time {text!r}"
    data = MarketData.from_frame(table(times), policies=Policies(keys="drop_row"))
    assert list(data.times) == [stamp("2020-01-01"), stamp("2020-01-03")]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([20200102], "column has type int64; expected time_unit= or time_format="),
        ([1.5], "be used: column has type double; expected dates or times"),
        (
            pa.array([datetime(3000, 1, 1)], pa.timestamp("s")),
            "be used: timestamps must be within the years 1678 to 2261",
        ),
    ],
)
def test_a_column_that_cannot_be_a_time_is_refused(times: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        MarketData.from_frame(table(times))


def test_a_cut_is_made_in_the_zone_that_is_named() -> None:
    times = [f"2020-01-0{day} 22:00:00" for day in range(1, 8)]
    data = MarketData.from_frame(
        table(times), timezone=NEW_YORK, start="2020-01-02", stop=date(2020, 1, 5)
    )

    assert list(data.field("close")[:, 0]) == [2, 3, 4]
    later = MarketData.from_frame(table(times), timezone=NEW_YORK, start="2020-01-03T03:00Z")
    assert later.field("close")[0, 0] == 2
    with pytest.raises(DataError, match="file: no rows with start=2021-01-01"):
        MarketData.from_frame(table(times), timezone=NEW_YORK, start="2021-01-01")


@pytest.mark.parametrize(("delay", "kind"), [("16 hours", ValueError), (16, TypeError)])
def test_a_delay_that_is_no_duration_is_named(delay: Any, kind: type[Exception]) -> None:
    frame = pd.DataFrame({"date": ["2020-01-02"], "symbol": "A", "close": 1.0})

    with pytest.raises(kind, match="known_after: .*'90d'"):
        MarketData.from_frame(frame, known_after=delay)
