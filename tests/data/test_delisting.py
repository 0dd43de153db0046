"""Listing lifetimes: no delisting is inferred without a rule, and a rule counts trading days."""

from __future__ import annotations

import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sekai.data import MarketData, Policies
from sekai.data.delisting import lifetimes
from sekai.data.streaming import StreamingPanel
from tests.data.panels import bars, real

MINUTES = "minute_oanda/oanda_1m_9symbols_2020Q1.csv.gz"
MORNING = np.timedelta64(14 * 60 + 30, "m")


def minutes(days: int, per_day: int, start: str = "2020-01-06") -> NDArray[Any]:
    """Stamps of so many minutes on so many days in a row, from 14:30 UTC on."""
    day = np.datetime64(start, "ns") + np.arange(days)[:, None] * np.timedelta64(1, "D")
    return (day + MORNING + np.arange(per_day) * np.timedelta64(1, "m")).ravel()


def panel(seen: NDArray[np.bool_], times: NDArray[Any], **options: Any) -> MarketData:
    """Closes of 10 where assets are seen."""
    values = np.where(seen, 10.0, np.nan)[:, :, None]
    names = [f"A{place}" for place in range(seen.shape[1])]
    return MarketData(times, names, ["close"], values, **options)


def test_minutes_without_a_quote_are_no_delisting() -> None:
    seen = np.ones((780, 2), np.bool_)
    seen[40:300, 1] = False
    times = minutes(2, 390)

    for rule in (None, 1, 20):
        data = panel(seen, times, delist_after=rule)
        assert data.listed.all()
        assert len(data.repairs) == 0


def test_no_delisting_is_inferred_unless_a_rule_is_named() -> None:
    seen = np.ones((60, 2), np.bool_)
    seen[:5, 0] = False
    seen[10:, 1] = False
    times = np.datetime64("2020-01-01", "ns") + np.arange(60) * np.timedelta64(1, "D")

    data = panel(seen, times)

    assert data.listed[:, 0].tolist() == [False] * 5 + [True] * 55
    assert data.listed[:, 1].all()


def test_a_rule_counts_trading_days_and_not_rows() -> None:
    seen = np.ones((5 * 10, 2), np.bool_)
    seen[17:, 1] = False  # in the middle of the second day

    for rule, listed in ((1, 20), (2, 30), (3, 40), (4, 50)):
        data = panel(seen, minutes(5, 10), delist_after=rule)
        assert int(data.listed[:, 1].sum()) == listed


def test_days_without_any_row_do_not_count() -> None:
    days = np.array(["2020-01-03", "2020-01-06", "2020-01-07"], "datetime64[ns]")  # a weekend
    seen = np.array([[True, True], [True, False], [True, False]])

    data = panel(seen, days, delist_after=2)

    assert data.listed[:, 1].tolist() == [True, True, False]


def test_days_begin_where_the_market_is() -> None:
    # Noon to noon in UTC is one day in Auckland.
    times = np.datetime64("2020-01-06T11:00", "ns") + np.arange(24) * np.timedelta64(1, "h")
    seen = np.ones((24, 2), np.bool_)
    seen[1:, 1] = False

    local = panel(seen, times, delist_after=1, timezone="Pacific/Auckland")
    utc = panel(seen, times, delist_after=1)

    assert int(local.listed[:, 1].sum()) == 24
    assert int(utc.listed[:, 1].sum()) == 13


def test_an_inferred_delisting_is_reported_with_asset_last_row_and_rule() -> None:
    seen = np.ones((50, 2), np.bool_)
    seen[17:45, 1] = False
    times = minutes(5, 10)

    (report,) = panel(seen, times, delist_after=2).repairs

    assert (report.kind, report.asset, report.policy) == ("delisting", "A1", "delisted")
    assert (report.time, report.until, report.count) == (times[30], times[44], 15)
    assert str(times[16]) in str(report)
    assert "delist_after=2 trading days" in str(report)


def test_readers_report_what_they_infer_and_infer_nothing_unasked() -> None:
    frame = bars(60)
    frame = frame[(frame["symbol"] != "BBB") | (frame["time"] < "2020-01-11")]

    silent = MarketData.from_frame(frame, timezone="UTC")
    reported = MarketData.from_frame(frame, timezone="UTC", policies=Policies(delist_after=20))

    assert silent.listed.all()
    assert not len(silent.repairs)
    assert int(reported.listed[:, 1].sum()) == 29
    (report,) = reported.repairs
    assert (report.kind, report.asset) == ("delisting", "BBB")
    assert "2020-01-10" in report.found
    assert "delist_after=20" in report.found


def test_what_the_source_says_is_not_inferred() -> None:
    frame = bars(60)
    frame = frame[(frame["symbol"] != "BBB") | (frame["time"] < "2020-01-11")]
    rule = Policies(delist_after=20)
    in_column = frame.assign(listed=(frame["symbol"] != "BBB") | (frame["time"] < "2020-01-10"))
    in_column.loc[~in_column["listed"], "close"] = np.nan
    without = Policies(delist_after=20, missing="halt")

    table = {"BBB": (None, "2020-01-15")}
    by_table = MarketData.from_frame(frame, timezone="UTC", listing=table, policies=rule)
    by_column = MarketData.from_frame(in_column, timezone="UTC", policies=without)

    assert int(by_table.listed[:, 1].sum()) == 15
    assert int(by_column.listed[:, 1].sum()) == 9
    for data in (by_table, by_column):
        assert "delisting" not in {problem.kind for problem in data.repairs}


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "20d", timedelta(days=20)])
def test_a_rule_is_a_whole_number_of_days(wrong: Any) -> None:
    with pytest.raises(
        ValueError,
        match="delist_after must be an integer of at least 1",
    ):
        Policies(delist_after=wrong)
    with pytest.raises(ValueError, match="delist_after must be an integer of at least 1"):
        panel(np.ones((3, 1), np.bool_), minutes(1, 3), delist_after=wrong)


def test_the_rule_goes_along_with_the_panel(tmp_path: Path) -> None:
    data = panel(np.ones((20, 2), np.bool_), minutes(2, 10), delist_after=3)

    data.to_parquet(tmp_path / "bars.parquet")
    again = MarketData.from_parquet(tmp_path / "bars.parquet")

    for one in (again, pickle.loads(pickle.dumps(data)), data.rows(0, 20), data.select(["A0"])):
        assert one.delist_after == 3
    assert again == data
    assert data != data.replace(delist_after=None)


@st.composite
def quotes(draw: st.DrawFn) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Masks of quoted assets, with timestamps minutes, hours or days apart."""
    rows = draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = draw(st.sampled_from([0.03, 0.3, 0.9]))
    gap = draw(st.sampled_from([1, 60, 400, 1440]))
    steps = rng.integers(1, 1 + 2 * gap, rows).cumsum() * np.timedelta64(1, "m")
    return rng.random((rows, 3)) < share, np.datetime64("2020-03-07T20:00", "ns") + steps


@given(
    drawn=quotes(), rule=st.none() | st.integers(1, 4), cut=st.integers(0, 40),
    zone=st.sampled_from([None, "America/New_York", "Pacific/Auckland"]),
)  # fmt: skip
@settings(deadline=None, max_examples=150)
def test_rows_that_arrive_are_listed_as_those_of_a_panel(
    drawn: Any, rule: int | None, cut: int, zone: str | None
) -> None:
    seen, times = drawn
    whole = panel(seen, times, delist_after=rule, timezone=zone)
    cut = min(cut, len(seen) - 1)
    rows = StreamingPanel(whole.rows(0, cut))

    for time, values in zip(times[cut:], whole.values[cut:], strict=True):
        with pytest.raises(ValueError, match="above 0"):  # a refused row counts for nothing
            rows.push(time + np.timedelta64(3, "D"), np.full((3, 1), -1.0), quoted=np.ones(3, bool))
        rows.push(time, values)

    assert np.array_equal(rows.panel().listed, whole.listed)


@given(drawn=quotes(), rule=st.none() | st.integers(1, 4), cut=st.integers(1, 40))
@example(drawn=(np.array([[True], [False]]), minutes(2, 1)), rule=1, cut=1)
@settings(deadline=None)
def test_what_is_listed_does_not_depend_on_later_rows(
    drawn: Any, rule: int | None, cut: int
) -> None:
    seen, times = drawn
    days = panel(seen, times).calendar.day_numbers

    whole, early = lifetimes(seen, rule, days), lifetimes(seen[:cut], rule, days[:cut])

    assert np.array_equal(whole[:cut], early)
    assert (whole | ~seen).all(), "what is seen is listed"


def test_streams_go_on_with_what_history_says_of_listings() -> None:
    seen, times = np.ones((4, 2), np.bool_), minutes(1, 4)
    seen[2:, 1] = False
    listed = seen.copy()
    rows = StreamingPanel(panel(seen, times, listed=listed))

    quiet = rows.push(times[-1] + np.timedelta64(1, "m"), [[10.0], [np.nan]])
    back = rows.push(times[-1] + np.timedelta64(2, "m"), [[10.0], [10.0]])

    assert quiet.listed[0].tolist() == [True, False]
    assert back.listed[0].tolist() == [True, True]


def test_real_minutes_hold_no_delisting_of_twenty_days() -> None:
    policies = Policies(calendars="union", delist_after=20)
    data = MarketData.from_csv(real(MINUTES), timezone="UTC", policies=policies)

    first, rows = np.argmax(data.quoted, axis=0), np.arange(len(data))[:, None]

    assert np.array_equal(data.listed, rows >= first)
    assert "delisting" not in {problem.kind for problem in data.repairs}
