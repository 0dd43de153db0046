"""Synthetic minutes."""

from __future__ import annotations

import numpy as np
import pytest

from sekai.compose import SimulatedMinutes

DATE = np.datetime64("2020-03-04")


def test_the_same_seed_makes_the_same_day() -> None:
    one, other = (SimulatedMinutes(seed=5).make("SIM", DATE) for _ in range(2))

    assert all(np.array_equal(one.column(name), other.column(name)) for name in one.columns)


def test_seeds_assets_and_dates_make_days_of_their_own() -> None:
    days = [
        SimulatedMinutes(seed=seed).day(asset, date).column("$close")[5]
        for seed in (0, 1)
        for asset in ("A", "B")
        for date in (DATE, DATE + 1)
    ]

    assert len(set(days)) == len(days)


def test_volume_is_large_at_both_ends() -> None:
    world = SimulatedMinutes()
    days = np.stack([world.day("A", DATE + n).column("$volume") for n in range(50)])
    mean = days.mean(axis=0)

    assert mean.sum() == pytest.approx(world.daily_volume, rel=0.05)
    middle = mean[90:150].mean()
    assert mean[:30].mean() > 1.5 * middle
    assert mean[-30:].mean() > 1.5 * middle


def test_bars_are_sound() -> None:
    ticks = SimulatedMinutes().day("A", DATE)

    assert np.all(ticks.column("$low") <= np.minimum(ticks.column("$open"), ticks.column("$close")))
    assert np.all(ticks.column("$bid") < ticks.column("$ask"))


def test_what_makes_no_day_is_refused() -> None:
    with pytest.raises(ValueError, match="ticks must fit a day"):
        SimulatedMinutes(ticks=1440)
    with pytest.raises(ValueError, match="price must be"):
        SimulatedMinutes(price=0.0)
