"""Several integers at once, each with its own values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.error import SpaceError
from sekai.spaces import MultiDiscrete


def test_positions_of_three_assets() -> None:
    space = MultiDiscrete(nvec=[3, 3, 3], start=[-1, -1, -1])
    space.seed(0)
    values = np.stack([space.sample() for _ in range(600)])

    assert values.dtype == np.intp
    for column in values.T:
        found, counts = np.unique(column, return_counts=True)
        assert found.tolist() == [-1, 0, 1]
        assert counts == pytest.approx([200] * 3, abs=50)


def test_nvec_may_have_any_shape() -> None:
    space = MultiDiscrete([[2, 3], [4, 5]], start=10)
    space.seed(0)
    values = np.stack([space.sample() for _ in range(300)])

    assert space.shape == (2, 2)
    assert values.min(axis=0).tolist() == [[10, 10], [10, 10]]
    assert values.max(axis=0).tolist() == [[11, 12], [13, 14]]


def test_very_many_values_are_drawn_over_the_whole_range() -> None:
    space = MultiDiscrete([2**62, 2])
    space.seed(0)
    values = np.stack([space.sample() for _ in range(100)])

    assert all(value in space for value in values)
    assert (values[:, 0] > 2**61).any()
    assert (values[:, 0] < 2**61).any()


def test_each_element_keeps_to_its_own_mask() -> None:
    space = MultiDiscrete([2, 3], start=[5, 0])
    mask = (np.array([0, 1], np.int8), np.array([1, 0, 1], np.int8))

    drawn = {tuple(space.sample(mask=mask).tolist()) for _ in range(60)}

    assert drawn == {(6, 0), (6, 2)}


def test_masks_nest_as_deep_as_nvec() -> None:
    space = MultiDiscrete([[2, 2], [2, 2]])
    mask = (([0, 1], [1, 0]), ([1, 0], [0, 1]))

    assert space.sample(mask=mask).tolist() == [[1, 0], [0, 1]]
    assert MultiDiscrete(3).sample(mask=[0, 0, 1]).tolist() == 2


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (([1, 1],), r"mask must hold 2 masks for shape \(2,\), got 1"),
        (5, "mask must hold 2 masks .* got int"),
        (([1, 1], [1, 1]), r"mask\[1\] must have shape \(3,\), got \(2,\)"),
        (([1, 1], [0, 0, 0]), r"mask\[1\] must allow at least one of 3 values"),
        (([0.5, 1], [1, 1, 1]), r"mask\[0\] must hold integers"),
    ],
)
def test_a_bad_mask_says_which_part_is_bad(mask: Any, words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        MultiDiscrete([2, 3]).sample(mask=mask)


@pytest.mark.parametrize("dtype", [np.intp, np.int8, np.uint64])
def test_arrays_of_any_integers_belong(dtype: Any) -> None:
    assert np.array([1, 2], dtype) in MultiDiscrete([2, 3])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([0, 0], "expected an array of shape (2,), got list"),
        (np.array([0.0, 0.0]), "expected an integer dtype, got float64"),
        (np.array([True, True]), "expected an integer dtype, got bool"),
        (np.array([0, 0, 0]), "expected shape (2,), got (3,)"),
        (np.array([0, 3]), "expected a value from 0 to 2 at index [1], got 3"),
        (np.array([-1, 0]), "expected a value from 0 to 1 at index [0], got -1"),
    ],
)
def test_what_does_not_belong_is_described(value: Any, words: str) -> None:
    space = MultiDiscrete([2, 3])

    assert value not in space
    assert words in str(space.mismatch(value))


@pytest.mark.parametrize(
    ("nvec", "start", "words"),
    [
        ([2, 0], None, "nvec must be at least 1 everywhere"),
        ([2, 1.5], None, "nvec must be an integer"),
        ([2, np.inf], None, "nvec must fit int64"),
        (["a"], None, "nvec must be a number or an array of numbers"),
        ([2, 3], [1, 2, 3], r"start must be a number or have the shape \(2,\), got \(3,\)"),
        ([2], [np.iinfo(np.intp).max], "values must fit int64"),
    ],
)
def test_bad_arguments_are_refused_by_name(nvec: Any, start: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MultiDiscrete(nvec, start)


def test_it_prints_as_it_is_written_and_compares_by_value() -> None:
    assert repr(MultiDiscrete([2, 3])) == "MultiDiscrete([2, 3])"
    assert repr(MultiDiscrete([2, 3], start=1)) == "MultiDiscrete([2, 3], start=[1, 1])"
    assert MultiDiscrete([2, 3], start=1) == MultiDiscrete((2, 3), [1, 1])
    assert MultiDiscrete([2, 3]) != MultiDiscrete([[2, 3]])
    assert not MultiDiscrete([2, 3]).nvec.flags.writeable
