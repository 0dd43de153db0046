"""Draws of the stationary bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sekai.evaluation.statistics import bootstrap
from sekai.evaluation.statistics.bootstrap import stationary_bootstrap_rows


def drawn(lengths: list[int], block: float, resamples: int, seed: int = 0) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    return np.concatenate(list(stationary_bootstrap_rows(lengths, block, resamples, rng)))


@settings(deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.floats(1, 50), st.integers(1, 40))
def test_every_resample_has_as_many_rows_as_there_are(
    lengths: list[int], block: float, resamples: int
) -> None:
    rows = drawn(lengths, block, resamples)

    assert rows.shape == (resamples, sum(lengths))
    assert rows.min() >= 0
    assert rows.max() < sum(lengths)


@pytest.mark.parametrize("block", [1.0, 4.0, 25.0])
def test_blocks_are_as_long_as_is_asked_on_average(block: float) -> None:
    rows = drawn([1000], block, 200)
    follows = (rows[:, 1:] == (rows[:, :-1] + 1) % 1000).mean()

    assert follows == pytest.approx(1 - 1 / block, abs=0.005)


def test_every_row_is_drawn_as_often() -> None:
    counts = np.bincount(drawn([10, 30, 60], 7.0, 20_000).ravel(), minlength=100)

    assert counts == pytest.approx(np.full(100, 20_000), rel=0.06)


def test_blocks_wrap_within_their_episode_and_never_leave_it() -> None:
    rows = drawn([10, 30], 1e9, 500)
    whole = {tuple(row) for row in np.sort(rows, axis=1)}

    assert whole == {
        tuple(np.sort(np.arange(40) % 10)),
        # Of the longer episode, 40 rows are all of it and a part of it again.
        *(row for row in whole if min(row) >= 10),
    }
    assert all((row < 10).all() or (row >= 10).all() for row in rows)


def test_rows_that_are_held_at_once_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "BATCH_SIZE", 1000)
    rng = np.random.default_rng(0)

    sizes = [rows.size for rows in stationary_bootstrap_rows([100], 5.0, 95, rng)]

    assert max(sizes) == 1000
    assert sum(sizes) == 9500


def test_a_seed_draws_the_same() -> None:
    assert np.array_equal(drawn([50], 5.0, 10), drawn([50], 5.0, 10))
    assert not np.array_equal(drawn([50], 5.0, 10), drawn([50], 5.0, 10, seed=1))
