"""Automatic block length of the stationary bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal  # type: ignore[import-untyped]
from numpy.typing import NDArray

from sekai.evaluation.statistics import block_length

Floats = NDArray[np.float64]


def persistent(steps: int, persistence: float, seed: int) -> Floats:
    """Each value keeps a share of the one before."""
    shocks = np.random.default_rng(seed).normal(size=steps + 500)
    found: Floats = scipy.signal.lfilter([1.0], [1.0, -persistence], shocks)[500:]
    return found


@pytest.mark.parametrize("persistence", [0.3, 0.6, 0.8])
def test_a_known_persistence_asks_for_the_known_length(persistence: float) -> None:
    steps = 20_000
    wanted = (2 * persistence / (1 - persistence**2)) ** (2 / 3) * steps ** (1 / 3)

    found = [block_length([persistent(steps, persistence, seed)]) for seed in range(20)]

    assert np.median(found) == pytest.approx(wanted, rel=0.15)


@pytest.mark.parametrize(
    ("steps", "persistence", "seed", "wanted"),
    [
        (250, 0.6, 0, 7.074549146471474),
        (1000, 0.3, 0, 7.807749694802062),
        (500, -0.4, 1, 4.769697837040271),
        (2000, 0.8, 1, 27.306019310991346),
        (60, -0.5, 24, 20.0),
    ],
)
def test_it_is_what_the_package_arch_finds(
    steps: int, persistence: float, seed: int, wanted: float
) -> None:
    # By arch 8.0; the last is the most that 60 steps bear.
    assert block_length([persistent(steps, persistence, seed)]) == pytest.approx(wanted)


def test_what_has_no_memory_asks_for_short_blocks() -> None:
    found = [block_length([persistent(1000, 0.0, seed)]) for seed in range(50)]

    assert np.median(found) < 3


def test_episodes_that_differ_ask_for_longer_blocks() -> None:
    rng = np.random.default_rng(0)
    alike = [rng.normal(0.0, 1.0, 100) for _ in range(12)]
    differ = [one + rng.normal(0.0, 1.0) for one in alike]

    assert block_length(differ) > 5 * block_length(alike)


def test_many_short_episodes_count_like_one_long_one() -> None:
    parts = [persistent(200, 0.5, seed) for seed in range(100)]
    wanted = (2 * 0.5 / 0.75) ** (2 / 3) * 20_000 ** (1 / 3)

    assert block_length(parts) == pytest.approx(wanted, rel=0.3)


@pytest.mark.parametrize("values", [[1.0], [1.0] * 100, [0.0, 1.0, 0.0]])
def test_what_does_not_vary_asks_for_nothing(values: list[float]) -> None:
    assert block_length([np.array(values)]) == 1.0


def test_no_length_is_more_than_the_data_bears() -> None:
    assert block_length([np.cumsum(np.ones(300))]) <= 52
    assert block_length([np.cumsum(np.ones(12))]) <= 4


def test_the_scale_does_not_matter() -> None:
    values = persistent(500, 0.5, 1)

    assert block_length([values]) == pytest.approx(block_length([1e-6 * values + 3.0]))
