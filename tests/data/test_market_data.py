"""The laws of a panel: it cannot be changed, shares memory, and knows itself by its content."""

from __future__ import annotations

import copy
import pickle
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sekai.data import Calendar, Frequency, MarketData
from sekai.data.delisting import lifetimes
from tests.data.panels import stamp

TIMES = np.arange("2020-01-01", "2020-01-07", dtype="datetime64[D]")


def panel(**changes: Any) -> MarketData:
    values = np.arange(1.0, 25.0).reshape(6, 2, 2)
    given = {"times": TIMES, "assets": ["A", "B"], "fields": ["close", "volume"], "values": values}
    return MarketData(**{**given, **changes})


def test_nobody_can_write_into_a_panel() -> None:
    values = np.ones((6, 2, 2))
    data = panel(values=values, market={"rate": np.ones(6)})

    values[:] = 7.0

    assert data.values.max() == 1.0
    for array in (data.values, data.times, data.listed, data.quoted, data.market["rate"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    with pytest.raises(TypeError):
        data.market["rate"] = np.zeros(6)  # type: ignore[index]


def test_a_view_that_is_read_only_is_copied_if_its_owner_is_not() -> None:
    values = np.ones((6, 2, 2))
    view = values.view()
    view.flags.writeable = False
    data = panel(values=view)

    values[:] = 7.0

    assert data.values.max() == 1.0


def test_cutting_rows_shares_memory() -> None:
    data = panel()
    cut = data.rows(2, 5)

    assert np.shares_memory(cut.values, data.values)
    assert np.shares_memory(cut.field("close"), data.values)
    assert np.shares_memory(cut.listed, data.listed)
    assert list(cut.times) == list(data.times[2:5])


def test_rows_outside_of_the_panel_are_refused() -> None:
    for start, stop in ((-1, 3), (3, 2), (0, 7)):
        with pytest.raises(IndexError, match="rows must be within 0 and 6"):
            panel().rows(start, stop)


@pytest.mark.parametrize(
    "changes",
    [
        {"times": TIMES + np.timedelta64(1, "D")},
        {"assets": ["A", "C"]},
        {"fields": ["close", "shares"]},
        {"values": np.arange(2.0, 26.0).reshape(6, 2, 2)},
        {"listed": np.ones((6, 2), bool), "quoted": np.arange(12).reshape(6, 2) > 0},
        {"tradable": np.arange(12).reshape(6, 2) > 0},
        {"market": {"rate": np.zeros(6)}},
        {"sectors": {"A": "Energy"}},
        {"timezone": "Asia/Tokyo"},
        {"warm_up": 1},
        {"frequency": Frequency(10**9, 7.0)},
    ],
)
def test_panels_that_differ_in_anything_have_other_digests(changes: dict[str, Any]) -> None:
    assert panel(**changes) != panel()
    assert panel(**changes).digest != panel().digest


def test_panels_of_the_same_content_are_equal_whatever_the_bits_of_nan() -> None:
    values = np.ones((6, 2, 2))
    values[2, 1, 1] = np.nan
    other = values.copy()
    other[2, 1, 1] = -np.float64(np.nan)

    assert values.tobytes() != other.tobytes()
    assert panel(values=values) == panel(values=np.asfortranarray(other))
    assert hash(panel(values=values)) == hash(panel(values=other))
    assert panel() != "a panel"


def test_what_was_repaired_is_no_part_of_the_content() -> None:
    from sekai.data import Problem

    mended = panel(repairs=[Problem("missing", "no value", policy="halt")])

    assert mended == panel()
    assert list(mended.rows(1, 3).repairs) == list(mended.repairs)


def test_some_assets_and_fields_come_in_the_order_they_are_named() -> None:
    data = panel(sectors={"A": "Energy", "B": "Banks"})
    some = data.select(assets=["B"], fields=["volume", "close"])

    assert some.assets == ("B",)
    assert some.sectors == {"B": "Banks"}
    assert np.array_equal(some.field("close")[:, 0], data.field("close")[:, 1])
    with pytest.raises(KeyError, match="unknown asset 'C'"):
        data.select(assets=["C"])


def test_replacing_keeps_the_rest_and_refuses_strangers() -> None:
    changed = panel().replace(warm_up=2)

    assert changed.warm_up == 2
    assert changed.replace(warm_up=0) == panel()
    with pytest.raises(TypeError, match=r"unknown arguments \['colour'\]; expected some of"):
        panel().replace(colour="red")


@pytest.mark.parametrize("copied", [lambda data: pickle.loads(pickle.dumps(data)), copy.deepcopy])
def test_a_panel_survives_pickling(copied: Any) -> None:
    data = panel(market={"rate": np.ones(6)}, sectors={"A": "Energy"}, timezone="Asia/Tokyo")
    again = copied(data)

    assert again == data
    with pytest.raises(ValueError, match="read-only"):
        again.values[0] = 1.0


@given(seen=arrays(np.bool_, st.tuples(st.integers(1, 40), st.integers(1, 3))),
       delist_after=st.integers(1, 6), cut=st.integers(0, 40))  # fmt: skip
def test_whether_an_asset_is_listed_does_not_depend_on_the_future(
    seen: np.ndarray[Any, Any], delist_after: int, cut: int
) -> None:
    whole = lifetimes(seen, delist_after)

    assert np.array_equal(whole[:cut], lifetimes(seen[:cut], delist_after))
    assert (whole | ~seen).all(), "what is seen is listed"


@given(silent=st.lists(st.integers(0, 59), max_size=50, unique=True), cut=st.integers(1, 60))
def test_masks_of_a_panel_that_is_cut_are_those_of_the_whole(silent: list[int], cut: int) -> None:
    values = np.ones((60, 1, 1))
    values[silent] = np.nan
    times = np.arange("2020-01-01", 60, dtype="datetime64[D]")
    whole = MarketData(times, ["A"], ["close"], values)
    early = MarketData(times[:cut], ["A"], ["close"], values[:cut])

    for mask in ("listed", "quoted", "tradable"):
        assert np.array_equal(getattr(whole, mask)[:cut], getattr(early, mask))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"times": TIMES[::-1]}, r"be strictly ascending, got 2020-01-06T00:00:00\.000000000"),
        ({"times": np.array([*TIMES[:5], np.datetime64("NaT")])}, "strictly ascending"),
        ({"times": np.arange(6)}, "datetime64"),
        ({"values": np.ones((6, 2))}, r"values must have shape \(6, 2, 2\), got \(6, 2\)"),
        ({"values": np.zeros((6, 2, 2))}, "A is quoted without a close above 0 at 2020-01-01"),
        ({"assets": ["A", "A"]}, r"assets must be unique, got duplicates \['A'\]"),
        ({"fields": ["close", ""]}, r"fields must be one or more names, got \['close'"),
        (
            {"listed": np.zeros((6, 2), bool)},
            r"is quoted but not listed at 2020-01-01T00:00:00\.000000000",
        ),
        (
            {"quoted": np.zeros((6, 2), bool), "tradable": np.ones((6, 2), bool)},
            r"tradable but not quoted at 2020-01-01T00:00:00\.000000000",
        ),
        ({"quoted": np.ones((6, 2))}, "quoted must have dtype bool, got float64"),
        ({"market": {"rate": np.ones(5)}}, "market series 'rate'"),
        ({"sectors": {"C": "Energy"}}, r"sectors: unknown asset 'C'; expected one of \['A', 'B'\]"),
        ({"warm_up": 7}, "warm_up must be from 0 to 6"),
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        panel(**changes)


def test_days_are_those_where_the_market_is() -> None:
    # Clocks in New York were set on 8 March 2020, at 07:00 in UTC.
    hours = np.arange("2020-03-07T00", "2020-03-10T00", dtype="datetime64[h]")
    data = MarketData(hours, ["A"], ["close"], np.ones((72, 1, 1)), timezone="America/New_York")

    turns = hours[1:][np.diff(data.calendar.dates) > np.timedelta64(0, "D")]

    assert [str(turn) for turn in turns] == ["2020-03-07T05", "2020-03-08T05", "2020-03-09T04"]
    assert len(data.calendar.sessions) == 4
    assert data.frequency.name == "1h"


@given(
    day=st.integers(0, 20_000),
    zone=st.sampled_from(["America/Santiago", "Africa/Cairo", "Europe/Lisbon", "Asia/Kolkata"]),
)
@settings(deadline=None, max_examples=200)
def test_days_are_those_of_the_standard_library(day: int, zone: str) -> None:
    hours = np.datetime64("1972-01-01", "h") + 24 * day + np.arange(72)
    dates = Calendar(hours.astype("datetime64[ns]"), zone).dates
    local = (datetime.fromtimestamp(int(hour.astype(int)) * 3600, ZoneInfo(zone)) for hour in hours)

    assert [str(date) for date in dates] == [str(moment.date()) for moment in local]


def test_days_follow_a_clock_that_is_set_back_over_midnight() -> None:
    # In Santiago midnight of 5 April 2020 was 23:00 of the day before once more.
    hours = np.arange("2020-04-05T02", "2020-04-05T06", dtype="datetime64[h]")
    dates = Calendar(hours.astype("datetime64[ns]"), "America/Santiago").dates

    assert [str(date) for date in dates] == [*["2020-04-04"] * 2, *["2020-04-05"] * 2]


def test_a_gap_is_told_by_the_row_after_it() -> None:
    times = np.array([stamp("2020-01-01"), stamp("2020-01-02"), stamp("2020-02-01")])
    data = MarketData(times, ["A"], ["close"], np.ones((3, 1, 1)))

    assert list(data.calendar.gaps(5)) == [2]
    assert list(data.calendar.days_since_previous) == [0, 1, 30]
