"""Point-in-time events: no value before its publication, revisions in order."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sekai.data import MarketData
from sekai.data.features.events import Events
from tests.data.holed_panels import same_numbers

DAYS = np.datetime64("2024-01-01", "ns") + np.arange(12) * np.timedelta64(1, "D")
DATA = MarketData(DAYS, ["A", "B"], ["close"], np.ones((12, 2, 1)))


def stamps(*days: str) -> NDArray[np.datetime64]:
    return np.array([f"2024-01-{day}" for day in days], "datetime64[ns]")


def test_an_event_is_known_from_its_publication_on_the_same_stamp_included() -> None:
    events = Events(stamps("02", "02"), [5.0, 6.0], assets=["A", "B"], delay="3d")
    a_moment_late = Events(stamps("02T00:00:00.000000001"), [5.0], delay="3d")

    known = events.latest()(DATA)[:, :, 0]

    assert np.isnan(known[:4]).all()
    assert (known[4:] == [5.0, 6.0]).all()
    assert np.isnan(a_moment_late.latest()(DATA)[4]).all()
    assert (a_moment_late.latest()(DATA)[5:] == 5).all()


def test_a_value_is_as_first_published_until_it_is_revised() -> None:
    events = Events(stamps("01", "01", "03"), [1.0, 1.5, 3.0], published=stamps("02", "05", "08"))

    known = events.latest()(DATA)[:, 0, 0]

    assert np.isnan(known[0])
    assert known[1:].tolist() == [1, 1, 1, 1.5, 1.5, 1.5, 3, 3, 3, 3, 3]


def test_a_late_revision_of_an_old_time_does_not_hide_a_newer_one() -> None:
    events = Events(stamps("01", "04", "01"), [1.0, 4.0, 1.5], published=stamps("02", "05", "07"))

    assert events.latest()(DATA)[:, 0, 0][1:].tolist() == [1, 1, 1, *[4] * 8]


def test_of_two_that_are_published_together_the_one_given_last_counts() -> None:
    events = Events(stamps("02", "02"), [1.0, 2.0], delay=timedelta(0))

    assert events.latest()(DATA)[1, 0, 0] == 2


def test_age_is_days_since_publication_and_old_values_can_be_dropped() -> None:
    events = Events(stamps("02"), [7.0], delay="12h")

    shown = events.latest(age=True, longest="60h")(DATA)[:, 0]

    assert shown[2:4].tolist() == [[7.0, 0.5], [7.0, 1.5]]
    assert np.isnan(shown[[0, 1, 5, 6]]).all()
    assert events.latest(age=True).channels(2) == ("events_latest.value", "events_latest.age")


def test_sums_are_of_what_was_first_published_in_the_last_rows() -> None:
    events = Events(
        stamps("03", "04T12:00", "03"), [1.0, 10.0, 100.0],
        published=stamps("03", "04T12:00", "06"), name="news",
    )  # fmt: skip

    sums = events.sum(2)(DATA)[:, 0, 0]

    assert np.isnan(sums[:2]).all()
    assert sums[2:].tolist() == [1, 1, 10, 10, 0, 0, 0, 0, 0, 0]
    assert events.sum(2).lookback == 3
    assert events.sum(2).name == "news_sum_2"


def test_values_fade_by_half_in_a_half_life() -> None:
    events = Events(stamps("03", "05"), [8.0, 16.0], assets=["A", "A"], delay="0s")

    faded = events.decay("2d")(DATA)[:, :, 0]

    assert faded[[0, 1], 0].tolist() == [0, 0]
    assert faded[[2, 4, 6, 8], 0].tolist() == [8, 20, 10, 5]
    assert not faded[:, 1].any()


def test_other_assets_know_nothing_of_it() -> None:
    events = Events(stamps("02"), [1.0], assets=["B"], delay="0s")

    assert np.isnan(events.latest()(DATA)[:, 0]).all()
    with pytest.raises(ValueError, match="events have none of the assets A, B of the panel"):
        Events(stamps("02"), [1.0], assets=["X"], delay="0s").latest()(DATA)


@given(
    days=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 5), st.floats(-9, 9)), max_size=12),
    row=st.integers(0, 11),
)
@settings(deadline=None)
def test_what_is_published_later_changes_no_bit_of_a_row(
    days: list[tuple[int, int, float]], row: int
) -> None:
    times = DAYS[[day for day, _, _ in days]] if days else DAYS[:0]
    delays = np.array([delay for _, delay, _ in days], "timedelta64[D]")
    events = Events(times, [value for *_, value in days], delay=delays)
    known = events.published <= DAYS[row]
    before = Events(times[known], events.values[known], delay=delays[known])
    other = events.perturb_after(DAYS[row], np.random.default_rng(0))

    def features(of: Events) -> list[Any]:
        return [of.latest(age=True), of.sum(3), of.decay("36h")]

    for whole, past, changed in zip(*map(features, (events, before, other)), strict=True):
        assert same_numbers(whole(DATA)[: row + 1], past(DATA)[: row + 1])
        assert same_numbers(whole(DATA)[: row + 1], changed(DATA)[: row + 1])
    assert len(other) == len(events)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_events_come_from_frames(make: Any) -> None:
    table = {
        "when": list(stamps("02", "04").astype("datetime64[us]").tolist()),
        "surprise": [1.0, 2.0],
        "ticker": ["A", "B"],
        "known": list(stamps("03", "05").astype("datetime64[us]").tolist()),
    }

    events = Events.from_frame(
        make(table), time="when", value="surprise", asset="ticker", published="known"
    )

    wanted = Events(stamps("02", "04"), [1.0, 2.0], assets=["A", "B"], delay="1d")
    assert same_numbers(events.latest()(DATA), wanted.latest()(DATA))
    assert events.name == "surprise"


def test_times_of_a_zone_are_taken_to_utc() -> None:
    times = pd.to_datetime(["2024-01-02 22:00"]).tz_localize("America/New_York")

    events = Events.from_frame(pd.DataFrame({"time": times, "value": [1.0]}), delay="0s")

    assert events.times[0] == np.datetime64("2024-01-03T03:00", "ns")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, TypeError, "pass either delay or published; delay='0s' if there is"),
        ({"delay": "1d", "published": DAYS[:2]}, TypeError, "either delay or published"),
        ({"delay": "1 month"}, ValueError, "'1 month'; expected a number and a unit such as '90d'"),
        (
            {"delay": np.timedelta64(-1, "D")},
            ValueError,
            r"duration must be at least 0, got np\.timedelta64\(-1,'D'\)",
        ),
        ({"delay": [1, 2]}, TypeError, "a timedelta for each of 2 events"),
        (
            {"published": DAYS[:2] - DAYS[1] + DAYS[0]},
            ValueError,
            "published must not be before times, got",
        ),
        ({"delay": "1d", "assets": ["A"]}, ValueError, "assets must have 2 elements, got 1"),
    ],
)
def test_events_that_cannot_be_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Events(DAYS[:2], [1.0, 2.0], **options)


def test_values_are_numbers_and_amounts_above_0() -> None:
    with pytest.raises(ValueError, match="values must be finite, got NaN or infinity; leave"):
        Events(DAYS[:1], [np.nan], delay="0s")
    with pytest.raises(ValueError, match="times must be a 1-d array of datetime64 without"):
        Events([1], [1.0], delay="0s")
    events = Events(DAYS[:1], [1.0], delay="0s")
    with pytest.raises(ValueError, match="rows must be at least 1, got 0"):
        events.sum(0)
    with pytest.raises(ValueError, match="half_life must be above 0, got 0"):
        events.decay("0d")


def test_another_future_of_events_has_other_values_and_some_that_come_later() -> None:
    events = Events(np.repeat(DAYS, 4), np.ones(48), delay="0s")

    other = events.perturb_after(DAYS[5], np.random.default_rng(0))

    later = events.published > DAYS[5]
    assert (other.values[later] != 1).all()
    assert 0 < (other.published > events.published)[later].sum() < later.sum()
    assert np.array_equal(other.published[~later], events.published[~later])
    assert (other.values[~later] == 1).all()
