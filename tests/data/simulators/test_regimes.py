"""Regimes come, last and go as their chain says, and prices follow them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.data.simulators import Regime, regime_path, simulate_gbm, simulate_regimes
from tests.data.statistics import assert_correlation, assert_mean, assert_variance

ROWS = 60_000
CHAIN = np.array([[0.9, 0.1, 0.0], [0.0, 0.8, 0.2], [0.3, 0.2, 0.5]])


def test_the_next_regime_is_drawn_with_the_chances_of_the_chain() -> None:
    path = regime_path(ROWS, 1, CHAIN)

    for regime in range(3):
        after = path[1:][path[:-1] == regime]
        for following in range(3):
            chance = CHAIN[regime, following]
            if chance == 0:
                assert not np.any(after == following)
            else:
                assert_mean(after == following, chance, np.sqrt(chance * (1 - chance)))


def test_regimes_last_as_long_as_geometric_waiting_times() -> None:
    path = regime_path(ROWS, 2, CHAIN)

    edges = np.flatnonzero(np.diff(path)) + 1
    lengths, regimes = np.diff(edges), path[edges[:-1]]
    for regime in range(3):
        stay = CHAIN[regime, regime]
        assert_mean(lengths[regimes == regime], 1 / (1 - stay), np.sqrt(stay) / (1 - stay))


def test_the_share_of_time_in_each_regime_is_the_stationary_one_from_the_first_row_on() -> None:
    # Two states: the share of the first is b / (a + b), and rows k apart correlate (1 - a - b)^k.
    leave, come_back = 0.05, 0.15
    chain = [[1 - leave, leave], [come_back, 1 - come_back]]
    share = come_back / (leave + come_back)

    path = regime_path(ROWS, 3, chain)
    firsts = [regime_path(1, seed, chain)[0] for seed in range(3000)]

    memory = 1 - leave - come_back
    inflated = np.sqrt(share * (1 - share) * (1 + memory) / (1 - memory))
    assert_mean(path == 0, share, inflated)
    assert_mean(np.array(firsts) == 0, share)


def test_returns_have_the_moments_of_the_regime_they_fall_in() -> None:
    regimes = [
        Regime(drift=0.2, volatility=0.1, correlation=0.1),
        Regime(drift=-0.4, volatility=[0.5, 0.3], correlation=0.8),
    ]
    chain = [[0.95, 0.05], [0.1, 0.9]]

    data = simulate_regimes(2, ROWS, 4, regimes=regimes, switching=chain)

    path, year = regime_path(ROWS, 4, chain), data.frequency.periods_per_year
    moves = np.log(data.field("close") / data.field("open"))
    for number, (mu, sigma, correlation) in enumerate([(0.2, 0.1, 0.1), (-0.4, 0.5, 0.8)]):
        inside = moves[path == number]
        assert_mean(inside[:, 0], (mu - sigma**2 / 2) / year, sigma / np.sqrt(year))
        assert_variance(inside[:, 0], sigma**2 / year)
        assert_correlation(inside[:, 0], inside[:, 1], correlation)


def test_turbulent_rows_have_more_volume() -> None:
    data = simulate_regimes(3, 20_000, 5)

    path = regime_path(20_000, 5)
    volume = data.field("volume").mean(axis=1)
    assert volume[path == 1].mean() > 1.3 * volume[path == 0].mean()


def test_the_regime_is_not_shown() -> None:
    data = simulate_regimes(2, 100)

    assert data.fields == ("open", "high", "low", "close", "volume")
    assert not data.market


def test_one_regime_is_geometric_brownian_motion() -> None:
    one = simulate_regimes(3, 200, 6, regimes=[Regime(volatility=0.3)], switching=[[1.0]])

    assert one == simulate_gbm(3, 200, 6, volatility=0.3)


def test_further_rows_and_another_asset_change_nothing() -> None:
    start = "2000-01-03"
    small, large = (
        simulate_regimes(2, 100, 7, start=start),
        simulate_regimes(5, 900, 7, start=start),
    )

    assert large.select(small.assets).rows(0, 100) == small


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"switching": [[0.5, 0.4], [0.5, 0.5]]}, "add up to 1"),
        ({"switching": [[1.5, -0.5], [0.5, 0.5]]}, "add up to 1"),
        ({"switching": [[np.nan, 0.5], [0.5, 0.5]]}, "add up to 1"),
        ({"switching": [0.5, 0.5]}, "regimes by regimes"),
        ({"switching": CHAIN}, "switching has 3 regimes, but 2 regimes were passed"),
        ({"rows": 0}, "rows must be at least 1"),
    ],
)
def test_what_is_no_chain_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        simulate_regimes(**{"assets": 2, "rows": 10, **wrong})
