"""The simulated market has the shapes that real ones have, over many seeds."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from sekai.market import Market, MarketConfig, Recording
from tests.laws.market_statistics import (
    Floats,
    autocorrelation,
    excess_kurtosis,
    hill_index,
    returns,
)

SEEDS = range(8)
TICKS = 40_000
PRESETS = ("light", "standard")


@cache
def recorded(preset: str) -> tuple[Recording, ...]:
    markets = [Market(MarketConfig(population=preset), seed=seed) for seed in SEEDS]  # type: ignore[arg-type]
    for market in markets:
        market.tick(200)
    return tuple(market.record(TICKS) for market in markets)


def mids(recording: Recording) -> Floats:
    return recording.mid[:, 0]


@pytest.mark.parametrize("preset", PRESETS)
def test_tails_are_those_of_stocks(preset: str) -> None:
    indices = [hill_index(returns(mids(recording), 10)) for recording in recorded(preset)]

    assert all(2.0 < index < 5.0 for index in indices), indices


@pytest.mark.parametrize("preset", PRESETS)
def test_moves_are_peaked_and_less_so_over_longer_horizons(preset: str) -> None:
    for recording in recorded(preset):
        over = [excess_kurtosis(returns(mids(recording), horizon)) for horizon in (1, 10, 100)]

        assert over[0] > over[1] > over[2], over
        assert over[1] > 3.0, over


@pytest.mark.parametrize("preset", PRESETS)
def test_returns_do_not_foretell_returns(preset: str) -> None:
    found = [autocorrelation(returns(mids(recording), 10), 1) for recording in recorded(preset)]

    assert all(abs(value) < 0.1 for value in found), found


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(("lag", "least"), [(1, 0.15), (20, 0.05), (50, 0.02)])
def test_large_moves_follow_large_moves(preset: str, lag: int, least: float) -> None:
    found = [
        autocorrelation(np.abs(returns(mids(recording))), lag) for recording in recorded(preset)
    ]

    assert all(value > least for value in found), found


@pytest.mark.parametrize("preset", PRESETS)
def test_buys_follow_buys(preset: str) -> None:
    found = []
    for recording in recorded(preset):
        # What one order takes at several prices is one trade: its parts say nothing new.
        tick, sign = recording.trade_tick, recording.trade_sign
        price_runs = (np.diff(tick) == 0) & (np.diff(sign) == 0)
        moved_on = (sign[1:] * np.diff(recording.trade_price)) > 0
        is_new = np.concatenate([[True], ~(price_runs & moved_on)])
        found.append(autocorrelation(sign[is_new].astype(np.float64), 1))

    assert all(value > 0.2 for value in found), found


@pytest.mark.parametrize("preset", PRESETS)
def test_volume_comes_with_volatility(preset: str) -> None:
    found = []
    for recording in recorded(preset):
        moves = np.abs(returns(mids(recording), 10))
        volume = recording.volume[:, 0].reshape(-1, 10).sum(axis=1)[: len(moves)]
        found.append(float(np.corrcoef(moves, volume)[0, 1]))

    assert all(value > 0.2 for value in found), found


@pytest.mark.parametrize("preset", PRESETS)
def test_books_are_quoted_and_priced_near_their_worth(preset: str) -> None:
    for recording in recorded(preset):
        assert (recording.spread > 0).mean() > 0.999
        assert 1.0 <= recording.spread.mean() < 4.0
        assert np.abs(recording.mid - recording.fair).mean() < 3.0


def test_noise_does_not_pass_for_a_market() -> None:
    rng = np.random.default_rng(0)
    normal = rng.normal(size=TICKS)
    heavy = rng.standard_t(3, size=TICKS)

    assert hill_index(normal) > 5.0
    assert 2.0 < hill_index(heavy) < 5.0
    assert abs(autocorrelation(np.abs(heavy), 1)) < 0.05
