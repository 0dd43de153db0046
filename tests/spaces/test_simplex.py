"""Weights that sum to one, under caps or free."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.error import SpaceError
from sekai.spaces import Simplex
from sekai.spaces.simplex import _exchanged
from tests.spaces.strategies import law, seeds, simplexes


def drawn(space: Simplex, count: int = 1500) -> np.ndarray[Any, Any]:
    space.seed(0)
    return np.stack([space.sample() for _ in range(count)])


def free(n: int, caps: Any, count: int = 300_000) -> np.ndarray[Any, Any]:
    """Weights under caps from plain rejection: slow, and surely uniform."""
    weights = np.random.default_rng(1).dirichlet(np.ones(n), count)
    return weights[(weights <= np.asarray(caps)).all(axis=1)]


def test_free_weights_are_uniform_on_the_simplex() -> None:
    weights = drawn(Simplex(4), 4000)

    # Each weight of a uniform point has the distribution Beta(1, 3).
    assert weights.dtype == np.float64
    assert weights.mean(axis=0) == pytest.approx([0.25] * 4, abs=0.01)
    assert weights.var(axis=0) == pytest.approx([3 / 80] * 4, rel=0.1)


@pytest.mark.parametrize(
    "caps",
    [
        [0.6, 0.6, 0.6, 0.6],
        [0.3, 0.3, 0.3, 0.3],
        [0.28, 0.29, 0.3, 0.29],
        [0.05, 0.9, 0.4, 0.1],
        [0.05, 0.5, 0.6, 0.06],
    ],
)
def test_capped_weights_are_uniform_whichever_way_they_are_drawn(caps: list[float]) -> None:
    wanted, found = free(4, caps, 600_000), drawn(Simplex(4, caps), 3000)

    assert len(wanted) > 50
    error = 5 * wanted.std(axis=0) / np.sqrt(min(len(wanted), len(found)))
    assert (np.abs(found.mean(axis=0) - wanted.mean(axis=0)) < error).all()
    assert found.std(axis=0) == pytest.approx(wanted.std(axis=0), rel=0.2)


def test_exchanging_weights_mixes_as_well_as_rejecting_them() -> None:
    caps = np.array([0.5, 0.4, 0.3, 0.3, 0.2])
    rng = np.random.default_rng(2)
    wanted = free(5, caps)
    found = np.stack([_exchanged(rng, caps) for _ in range(2000)])

    assert found.mean(axis=0) == pytest.approx(wanted.mean(axis=0), abs=0.008)
    assert np.cov(found.T) == pytest.approx(np.cov(wanted.T), abs=0.0012)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "caps", [[0.1] * 10, [1 / 3] * 3, [0, 0, 1], [1 / 7] * 7, [0.5, 0.5], [0.25, 0.75, 0.0]]
)
def test_caps_that_sum_to_one_leave_one_choice(caps: list[float], dtype: Any) -> None:
    space = Simplex(len(caps), caps, dtype)

    assert space.sample() == pytest.approx(np.array(caps), abs=1e-6)
    assert space.sample() in space


@law
@given(simplexes(), seeds(), st.data())
def test_a_mask_forces_zeros_and_the_rest_still_belongs(
    space: Simplex, seed: int, data: st.DataObject
) -> None:
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=space.n, max_size=space.n)))
    space.seed(seed)

    if space.caps[mask].sum() >= 1:
        weights = space.sample(mask=mask)
        assert not weights[~mask].any()
        assert space.mismatch(weights) is None


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ([0, 0, 0], "caps of the weights that mask allows must sum to at least 1, got 0.0"),
        ([1, 0, 0], "must sum to at least 1, got 0.5"),
        ([1, 1], r"mask must have shape \(3,\), got \(2,\)"),
        ([0.5, 1, 1], "must hold integers"),
    ],
)
def test_a_mask_that_leaves_no_weights_is_refused(mask: Any, words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        Simplex(3, caps=0.5).sample(mask=mask)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.array([0.5, 0.5, 0.1]), "expected weights that sum to 1 within 1e-06, got 1.1"),
        (np.array([0.7, 0.2, 0.1]), "at index [0], got 0.7"),
        (np.array([0.6, 0.5, -0.1]), "at index [2], got -0.1"),
        (np.array([np.nan, 0.5, 0.5]), "got nan"),
        (np.array([0.5, 0.5]), "expected shape (3,), got (2,)"),
        ([0.5, 0.5, 0.0], "expected an array of shape (3,), got list"),
    ],
)
def test_what_does_not_belong_is_described(value: Any, words: str) -> None:
    space = Simplex(3, caps=[0.6, 0.9, 0.9])

    assert value not in space
    assert words in str(space.mismatch(value))


def test_weights_normalised_in_float32_belong_to_both_dtypes() -> None:
    scores = np.random.default_rng(0).random((50, 500), np.float32)
    weights = scores / scores.sum(axis=1, keepdims=True)

    assert all(row in Simplex(500, dtype=np.float32) for row in weights)
    assert all(row in Simplex(500) for row in weights)


def test_a_weight_at_its_cap_in_float32_belongs() -> None:
    weights = np.array([0.3, 0.7], np.float32)

    assert weights.astype(np.float64)[0] > 0.3
    assert weights in Simplex(2, caps=[0.3, 0.7])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0,), "n must be an integer of at least 1, got 0"),
        ((3, 0.3), "caps must sum to at least 1, got 0.89"),
        ((2, [1.5, -0.1]), "caps must not be negative, got -0.1"),
        ((2, [0.5, 0.5, 0.5]), r"caps must be a number or have the shape \(2,\), got \(3,\)"),
        ((2, np.nan), "caps must not be NaN"),
        ((2, None, np.float16), "dtype must be float32 or float64, got float16"),
        ((2, None, np.int64), "dtype must be float32 or float64, got int64"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Simplex(*arguments)


def test_caps_above_one_are_no_caps() -> None:
    assert Simplex(3, caps=2.0) == Simplex(3) == Simplex(3, caps=np.inf)
    assert repr(Simplex(3)) == "Simplex(3, dtype=float64)"
    assert repr(Simplex(2, 0.75)) == "Simplex(2, caps=[0.75, 0.75], dtype=float64)"


def test_a_large_capped_portfolio_is_sampled_promptly() -> None:
    space = Simplex(500, caps=0.004)
    weights = drawn(space, 20)

    assert all(row in space for row in weights)
    assert len(np.unique(weights[:, 0])) == 20
