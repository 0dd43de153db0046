"""The check for look-ahead: it finds every leak, and raises no false alarm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.data import MarketData
from sekai.data.features.events import Events
from sekai.data.features.feature import PanelFeature, make_feature
from sekai.data.features.library import momentum, quoted
from sekai.data.features.lookahead import check_features
from sekai.data.features.perturb import perturb_panel, perturb_rows
from sekai.data.features.pipeline import Pipeline, default_pipeline
from sekai.utils.perturbation import KINDS, Perturbable
from tests.data.holed_panels import NAMED, make_panel, panels, same_numbers

DATA = make_panel(rows=80, assets=6, seed=11)
WHOLE = make_panel(rows=60, assets=3, holes=0.0)
FULL_SAMPLE = momentum(DATA, 5)
FUNDAMENTALS = Events(DATA.times[5::12], np.arange(7.0), delay="9d")


def closes(data: MarketData) -> Any:
    return pd.DataFrame(quoted(data, "close"))


def z_score_of_the_full_sample(data: MarketData) -> Any:
    return (closes(data) - closes(data).mean()) / closes(data).std()


def back_filled(data: MarketData) -> Any:
    return closes(data).bfill()


def centred_mean(data: MarketData) -> Any:
    return closes(data).rolling(3, center=True, min_periods=1).mean()


def return_of_tomorrow(data: MarketData) -> Any:
    return closes(data).pct_change(fill_method=None).shift(-1)


def only_those_that_survive(data: MarketData) -> Any:
    return np.where(data.listed[-1], quoted(data, "close"), np.nan)


def rank_among_those_listed_later(data: MarketData) -> Any:
    ever_later = np.logical_or.accumulate(data.listed[::-1])[::-1]
    return closes(data).where(ever_later).rank(axis=1) / ever_later.sum(axis=1)[:, None]


def fundamentals_of_the_day_they_are_about(data: MarketData, events: Events) -> Any:
    row = events.times.searchsorted(data.times, "right") - 1
    return np.where(row >= 0, events.values[row], np.nan)


def week_labelled_by_its_open(data: MarketData) -> Any:
    week = np.minimum(np.arange(len(data)) // 5 * 5 + 4, len(data) - 1)
    return quoted(data, "close")[week]


def merged_by_position(data: MarketData) -> Any:
    return MACRO[: len(data)]


def closed_over_the_full_sample(data: MarketData) -> Any:
    return FULL_SAMPLE[: len(data)]


MACRO = np.random.default_rng(0).normal(size=len(DATA))

LEAKS: list[Callable[..., Any]] = [
    z_score_of_the_full_sample,
    back_filled,
    centred_mean,
    return_of_tomorrow,
    only_those_that_survive,
    rank_among_those_listed_later,
    week_labelled_by_its_open,
    merged_by_position,
    closed_over_the_full_sample,
]


def errors(*arguments: Any, **options: Any) -> list[str]:
    return [line for line in check_features(*arguments, **options) if line.startswith("ERROR")]


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_found(leak: Callable[..., Any]) -> None:
    assert errors(leak, DATA, cuts=8)


@pytest.mark.parametrize("leak", [f for f in LEAKS if f is not merged_by_position])
def test_a_leak_is_found_in_a_panel_without_holes(leak: Callable[..., Any]) -> None:
    data = WHOLE
    if leak is closed_over_the_full_sample:
        data = DATA

    assert errors(leak, data, cuts=8)


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_in_a_pipeline_is_found_and_named(leak: Callable[..., Any]) -> None:
    found = errors(Pipeline(["gap", leak], scaling="zscore"), DATA, cuts=8)

    assert found
    assert any(leak.__name__ in line for line in found)
    assert not any("gap" in line for line in found)


def test_fundamentals_before_their_publication_are_found() -> None:
    found = errors(fundamentals_of_the_day_they_are_about, DATA, events=[FUNDAMENTALS])

    assert len(found) == 1
    assert "sees the future" in found[0]


def test_fundamentals_since_their_publication_are_fine() -> None:
    def known(data: MarketData, events: Events) -> Any:
        return events.latest()(data)

    assert check_features(known, DATA, events=[FUNDAMENTALS]) == []


def test_a_number_of_the_full_sample_under_a_mask_is_found() -> None:
    def masked(data: MarketData) -> Any:
        return np.where(data.quoted, FULL_SAMPLE[: len(data)], np.nan)

    def looked_up(data: MarketData) -> Any:
        return FULL_SAMPLE[np.minimum(DATA.times.searchsorted(data.times), len(DATA) - 1)]

    assert "holds data of its own (ndarray)" in errors(masked, DATA, cuts=2)[0]
    assert "takes no value from its input" in errors(looked_up, DATA, cuts=2)[0]


def test_data_of_its_own_beside_that_of_the_panel_is_warned_of() -> None:
    def mixed(data: MarketData) -> Any:
        return quoted(data, "close") * MACRO[: len(data), None]

    found = check_features(mixed, DATA, cuts=2)

    assert any("WARNING: it holds data of its own" in line for line in found)
    assert any("WARNING: no row of mixed is equal if the data begins" in line for line in found)
    assert "matches rows by position" in errors(mixed, DATA, cuts=2, lookback=1)[0]


def test_a_lookback_that_is_too_short_is_found() -> None:
    short = PanelFeature(lambda data: momentum(data, 5), name="short", lookback=5)

    assert "short depends on more than its lookback of 5 rows" in errors(short, DATA, cuts=2)[0]
    assert not check_features(PanelFeature(lambda data: momentum(data, 5), lookback=6), DATA)


def test_a_frequency_that_is_counted_over_the_sample_is_found() -> None:
    def yearly(data: MarketData) -> Any:
        return momentum(data, 1) * data.frequency.periods_per_year

    stated = DATA.replace(frequency=DATA.frequency)

    weekdays = DATA.replace(times=DATA.times + (np.arange(80) // 5 * 2).astype("timedelta64[D]"))
    uncounted = MarketData(
        weekdays.times, weekdays.assets, weekdays.fields, weekdays.values,
        listed=weekdays.listed, quoted=weekdays.quoted,
    )  # fmt: skip
    assert errors(yearly, uncounted, cuts=4)
    assert not errors(yearly, stated, cuts=4)


@pytest.mark.parametrize("data", [DATA, WHOLE], ids=["holed", "whole"])
@pytest.mark.parametrize("spec", NAMED)
def test_no_feature_of_the_library_raises_an_alarm(spec: str, data: MarketData) -> None:
    assert check_features(spec, data, cuts=6) == []


@pytest.mark.parametrize("data", [DATA, WHOLE], ids=["holed", "whole"])
def test_pipelines_and_events_raise_no_alarm(data: MarketData) -> None:
    news = Events(data.times[::9], np.arange(len(data.times[::9])) * 1.0, delay="30h")
    ours = [
        news.latest(age=True),
        news.sum(3),
        news.decay("5d"),
        make_feature("rank", of=news.sum(4)),
    ]

    for feature in ours[:3]:
        assert check_features(feature, data, cuts=4) == []
    assert check_features(Pipeline([*NAMED, *ours], scaling="rank"), data, cuts=4) == []


@pytest.mark.parametrize("holes", [0.0, 0.01])
def test_the_default_pipeline_raises_no_alarm(holes: float) -> None:
    data = make_panel(rows=160, holes=holes)

    assert check_features(default_pipeline(data), data, cuts=6) == []


def test_a_feature_that_takes_no_holes_is_warned_of() -> None:
    def whole(data: MarketData) -> Any:
        if not data.quoted.all():
            raise ValueError("no holes, please")
        return data.field("close")

    found = check_features(PanelFeature(whole, lookback=1), WHOLE, cuts=2)

    assert any("WARNING: it cannot be computed of a panel with halts" in line for line in found)


def test_features_of_masks_and_of_stamps_alone_raise_no_alarm() -> None:
    def listed_so_far(data: MarketData) -> Any:
        return np.cumsum(data.listed, axis=0)

    def hour(data: MarketData) -> Any:
        return data.times.astype("datetime64[D]").astype(int) % 7

    assert errors(listed_so_far, DATA, cuts=4) == []
    assert check_features(hour, DATA, cuts=4) == []
    assert check_features(lambda data: np.ones(len(data)), DATA, cuts=4) == []


def test_a_pipeline_that_was_fitted_on_everything_is_warned_of() -> None:
    pipeline = Pipeline(["log_return"], scaling="zscore").fit(DATA)

    assert "fitted on the data it is checked on" in check_features(pipeline, DATA, cuts=2)[0]
    assert pipeline.fitted_on == DATA.digest
    assert check_features(pipeline.fit(DATA.rows(0, 40)), DATA, cuts=2) == []


def test_what_differs_by_itself_proves_nothing() -> None:
    rng = np.random.default_rng(0)

    found = check_features(lambda data: rng.normal(size=len(data)), DATA)

    assert len(found) == 1
    assert "gave different values the second time" in found[0]


def test_what_raises_or_has_other_rows_is_told() -> None:
    def needs_all(data: MarketData) -> Any:
        if len(data) < 80:
            raise RuntimeError("too short")
        return quoted(data, "close")

    assert "RuntimeError: too short" in errors(needs_all, DATA, cuts=2)[0]
    longer = errors(lambda data: FULL_SAMPLE, DATA, cuts=2)[0]
    assert "a panel of 1 rows and 6 assets, got shape (80, 6)" in longer
    with pytest.raises(ValueError, match="data must have at least 4 rows, got 3"):
        check_features("gap", DATA.rows(0, 3))


@given(data=panels(min_rows=2), kind=st.sampled_from(sorted(KINDS)), part=st.floats(0, 0.99))
@settings(deadline=None, max_examples=80)
def test_another_future_is_a_panel_with_the_same_past(
    data: MarketData, kind: str, part: float
) -> None:
    row = int(part * (len(data) - 1))
    rng = np.random.default_rng(0)

    by_row, by_time = (
        perturb_panel(data, row, rng, kind),
        perturb_panel(data, data.times[row], rng, kind),
    )

    for other in (by_row, by_time, data.perturb_after(row, rng)):
        assert other.rows(0, row + 1) == data.rows(0, row + 1)
        assert np.array_equal(other.times, data.times)
        assert not same_numbers(other.market["rate"], data.market["rate"]) or row >= len(data) - 2


def test_another_future_has_other_halts_and_delistings() -> None:
    other = DATA.perturb_after(40, np.random.default_rng(0))

    assert isinstance(DATA, Perturbable)
    for name in ("listed", "quoted", "tradable"):
        assert (getattr(other, name)[41:] != getattr(DATA, name)[41:]).any()
    high, low = other.field("high"), other.field("low")
    close = other.field("close")
    there = other.quoted
    assert ((high >= close) & (close >= low))[there].all()


def test_values_alone_can_be_changed() -> None:
    everything = np.ones(len(DATA), bool)

    for kind in KINDS:
        other = perturb_rows(DATA, everything, np.random.default_rng(0), kind, holes=False)
        assert np.array_equal(other.quoted, DATA.quoted)
        assert np.array_equal(other.listed, DATA.listed)
        assert not same_numbers(other.field("close"), DATA.field("close"))


def test_assets_are_halted_in_another_future_of_any_kind() -> None:
    for kind in KINDS:
        other = perturb_panel(WHOLE, 20, np.random.default_rng(0), kind)
        assert (other.listed & ~other.quoted)[21:].any()
        assert not (other.listed & ~other.quoted)[:21].any()
