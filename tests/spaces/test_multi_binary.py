"""Zeros and ones, free or forced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.error import SpaceError
from sekai.spaces import MultiBinary


def test_samples_are_fair_coin_flips() -> None:
    space = MultiBinary(10)
    space.seed(0)
    values = np.stack([space.sample() for _ in range(500)])

    assert values.dtype == np.int8
    assert set(np.unique(values)) == {0, 1}
    assert values.mean(axis=0) == pytest.approx([0.5] * 10, abs=0.1)


def test_n_is_a_length_or_a_shape() -> None:
    assert (MultiBinary(3).n, MultiBinary(3).shape) == (3, (3,))
    assert (MultiBinary((2, 3)).n, MultiBinary([2, 3]).shape) == ((2, 3), (2, 3))
    assert MultiBinary((3,)) == MultiBinary(3)
    assert repr(MultiBinary((2, 3))) == "MultiBinary((2, 3))"


def test_the_mask_forces_or_leaves_free() -> None:
    space = MultiBinary(4)
    space.seed(0)
    values = np.stack([space.sample(mask=np.array([0, 1, -1, 2], np.int8)) for _ in range(60)])

    assert values.dtype == np.int8
    assert values[:, 0].tolist() == [0] * 60
    assert values[:, 1].tolist() == [1] * 60
    assert set(values[:, 2]) == set(values[:, 3]) == {0, 1}


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ([0, 1, 3], r"must hold only \[-1, 0, 1, 2\], got 3"),
        ([0, 1], r"must have shape \(3,\), got \(2,\)"),
        ([0.0, 1.0, 2.0], "got dtype float64"),
    ],
)
def test_a_bad_mask_is_refused(mask: Any, words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        MultiBinary(3).sample(mask=mask)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, np.bool_])
def test_zeros_and_ones_of_any_whole_dtype_belong(dtype: Any) -> None:
    assert np.array([0, 1, 1], dtype) in MultiBinary(3)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.array([0, 1, 2]), "expected 0 or 1 at index [2], got 2"),
        (np.array([0, -1, 1]), "expected 0 or 1 at index [1], got -1"),
        (np.array([0.0, 1.0, 1.0]), "expected an integer dtype or bool, got float64"),
        (np.array([0, 1]), "expected shape (3,), got (2,)"),
        ([0, 1, 1], "expected an array of shape (3,), got list"),
    ],
)
def test_what_does_not_belong_is_described(value: Any, words: str) -> None:
    assert value not in MultiBinary(3)
    assert words in str(MultiBinary(3).mismatch(value))


@pytest.mark.parametrize("n", [2**70, (2**40, 2**40)])
def test_sizes_beyond_all_memory_are_refused(n: Any) -> None:
    with pytest.raises(ValueError, match="n must have a number of elements that fits memory"):
        MultiBinary(n)


@pytest.mark.parametrize("n", [-1, 2.5, "ab", (2, -1), True])
def test_bad_sizes_are_refused(n: Any) -> None:
    with pytest.raises(ValueError, match="each size in n must be an integer of at least 0"):
        MultiBinary(n)
