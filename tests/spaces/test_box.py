"""Membership and samples of a box."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.error import SpaceError
from sekai.spaces import Box
from tests.spaces.strategies import FLOATS, WHOLE, law, seeds

FLOAT32 = np.finfo(np.float32)
FLOAT64 = np.finfo(np.float64)
INT64 = np.iinfo(np.int64)
UINT64 = np.iinfo(np.uint64)


def samples(space: Box, count: int = 2000) -> np.ndarray[Any, Any]:
    space.seed(0)
    return np.stack([space.sample() for _ in range(count)])


def test_shape_and_dtype_are_what_was_asked_for() -> None:
    space = Box(low=0.0, high=1000.0, shape=(8,), dtype=np.float32)

    assert space.shape == space.sample().shape == (8,)
    assert space.dtype == space.sample().dtype == np.float32
    assert space.low.tolist() == [0.0] * 8
    assert space.high.tolist() == [1000.0] * 8


def test_the_shape_is_taken_from_the_bounds() -> None:
    assert Box(np.zeros((2, 3)), 1.0).shape == (2, 3)
    assert Box(0.0, [1.0, 2.0]).shape == (2,)
    assert Box(0.0, 1.0).shape == ()
    assert Box(0.0, 1.0, shape=4).shape == (4,)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-1.0, 1.0, (True, True)),
        (0.0, np.inf, (True, False)),
        (-np.inf, 0.0, (False, True)),
        (-np.inf, np.inf, (False, False)),
        ([-np.inf, 0.0], [1.0, 1.0], (False, True)),
    ],
)
def test_is_bounded_says_whether_every_element_is(
    low: Any, high: Any, expected: tuple[bool, bool]
) -> None:
    assert Box(low, high).is_bounded == expected


def test_bounds_are_read_only_and_never_the_callers() -> None:
    low = np.zeros(3, np.float32)
    space = Box(low, 1.0)
    low[0] = 9.0

    for copied in (space, copy.deepcopy(space), pickle.loads(pickle.dumps(space))):
        assert copied.low.tolist() == [0.0, 0.0, 0.0]
        with pytest.raises(ValueError, match="read-only"):
            copied.low[0] = 5.0
        with pytest.raises(ValueError, match="read-only"):
            copied.high[0] = 5.0


def test_infinite_whole_bounds_are_the_limits_of_the_dtype() -> None:
    space = Box(-np.inf, np.inf, (2,), np.int16)

    assert (space.low[0], space.high[0]) == (-(2**15), 2**15 - 1)
    assert space.is_bounded == (True, True)
    assert Box(0, np.inf, (), np.uint64).high == 2**64 - 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.nan, 1.0), "low must not be NaN"),
        ((0.0, [1.0, np.nan]), "high must not be NaN"),
        ((1.0, 0.0), "low must not be above high"),
        ((np.inf, np.inf), "low must leave at least one value, got inf"),
        ((0, [1, -np.inf], (2,), np.int8), "high must leave at least one value"),
        (([0.0, 2.0], [1.0, 1.0]), r"got 2.0 above 1.0 at \[1\]"),
        ((0.0, 1e39, (1,)), "high must fit float32, got 1e\\+39"),
        ((0, 256, (1,), np.uint8), "from 0 to 255, got 256"),
        ((-1, 5, (1,), np.uint64), "low must be an integer that fits uint64"),
        ((0, 2**64, (1,), np.uint64), "got 18446744073709551616"),
        ((0, 2.5, (1,), np.int32), "integer that fits int32, .* got 2.5"),
        ((0, 10**400, (1,)), "high must fit float32"),
        ((np.zeros(2), 1.0, (3,)), r"low must be a number or have the shape \(3,\), got \(2,\)"),
        ((np.zeros(2), np.ones(3)), r"high must be a number or have the shape \(2,\), got \(3,\)"),
        (("a", 1.0), "low must be a number or an array of numbers, got 'a'"),
        ((None, 1.0), "low must be a number"),
        ((0.0, [[1.0], [1.0, 2.0]]), "high"),
        ((0.0, 1.0, (-1,)), "each size in shape must be an integer of at least 0, got -1"),
        ((0.0, 1.0, (1.5,)), "each size in shape must be an integer"),
        ((0.0, 1.0, (1,), np.complex64), "dtype must be bool, integer, float16"),
        ((0.0, 1.0, (1,), "nonsense"), "dtype must be bool, integer, float16"),
        ((0.0, 1.0, (1,), None), "dtype must be bool, integer, float16"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Box(*arguments)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_widest_floats_are_sampled_without_overflow(dtype: Any) -> None:
    limits = np.finfo(dtype)
    values = samples(Box(limits.min, limits.max, (4,), dtype), 200)

    assert np.isfinite(values).all()
    assert (values < limits.min / 4).any()
    assert (values > limits.max / 4).any()


@pytest.mark.parametrize("dtype", FLOATS)
def test_half_bounded_floats_next_to_the_limit_stay_finite(dtype: Any) -> None:
    largest = np.finfo(dtype).max

    assert np.isfinite(samples(Box(largest, np.inf, (2,), dtype), 200)).all()
    assert np.isfinite(samples(Box(-np.inf, -largest, (2,), dtype), 200)).all()


@pytest.mark.parametrize("dtype", WHOLE)
def test_whole_numbers_reach_both_ends(dtype: Any) -> None:
    low, high = (0, 1) if dtype is np.bool_ else (np.iinfo(dtype).max - 2, np.iinfo(dtype).max)
    values = samples(Box(low, high, (3,), dtype), 60)

    assert (values.dtype, values.min(), values.max()) == (dtype, low, high)


@pytest.mark.parametrize("limits", [INT64, UINT64])
@pytest.mark.parametrize("low_shape", [(), (3,)])
def test_the_whole_range_of_64_bits_is_sampled(limits: Any, low_shape: tuple[int, ...]) -> None:
    low, high = (
        np.full(low_shape, limits.min, limits.dtype),
        np.full((3,), limits.max, limits.dtype),
    )
    values = samples(Box(low, high, (3,), limits.dtype), 200)

    assert (values > limits.max // 2 + limits.max // 4).any()
    assert (values < limits.min // 2 + limits.max // 4).any()


def test_arrays_of_whole_bounds_are_kept_element_by_element() -> None:
    values = samples(Box([0, 5, -3], [0, 6, 3], dtype=np.int8), 300)

    assert values.min(axis=0).tolist() == [0, 5, -3]
    assert values.max(axis=0).tolist() == [0, 6, 3]


def test_each_kind_of_bounds_has_its_distribution() -> None:
    low, high = [-1.0, 2.0, -np.inf, -np.inf], [1.0, np.inf, 3.0, np.inf]
    values = samples(Box(low, high, dtype=np.float64), 4000)

    # Uniform on [-1, 1], 2 + exponential, 3 - exponential, normal.
    assert values.mean(axis=0) == pytest.approx([0.0, 3.0, 2.0, 0.0], abs=0.06)
    assert values.std(axis=0) == pytest.approx([1 / np.sqrt(3), 1.0, 1.0, 1.0], abs=0.06)
    assert (np.abs(values[:, 0]) <= 1).all()
    assert (values[:, 1] >= 2).all()
    assert (values[:, 2] <= 3).all()


@law
@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(0, 3), seeds())
def test_a_sliver_between_neighbouring_floats_contains_its_samples(
    low: float, steps: int, seed: int
) -> None:
    high = np.float32(low)
    for _ in range(steps):
        high = np.nextafter(high, FLOAT32.max)
    space = Box(low, high, (16,))
    space.seed(seed)

    assert space.mismatch(space.sample()) is None


def test_what_belongs() -> None:
    space = Box(-1.0, 1.0, shape=(2,))

    assert np.array([1.0, -1.0], np.float32) in space
    assert np.array([0.5, 0.5], np.float16) in space
    assert np.array([1, 0], np.int8) in space
    assert np.zeros(4, np.float32)[::2] in space


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(3, np.float32), "expected shape (2,), got (3,)"),
        (np.zeros((2, 1), np.float32), "expected shape (2,), got (2, 1)"),
        (np.zeros(2), "expected dtype float32, got float64"),
        (np.zeros(2, complex), "expected dtype float32, got complex128"),
        (np.array([0, 1]), "expected dtype float32, got int64"),
        (np.array(["a", "b"]), "expected dtype float32, got <U1"),
        (np.array([0, np.nan], np.float32), "from -1.0 to 1.0 at index [1], got nan"),
        (np.array([2.5, 0], np.float32), "from -1.0 to 1.0 at index [0], got 2.5"),
        (np.array([0, -np.inf], np.float32), "from -1.0 to 1.0 at index [1], got -inf"),
        ([0.0, 0.0], "expected an array of shape (2,), got list"),
        (0.0, "expected an array of shape (2,), got float"),
        (None, "expected an array of shape (2,), got NoneType"),
    ],
)
def test_what_does_not_belong_is_described(value: object, words: str) -> None:
    space = Box(-1.0, 1.0, shape=(2,))

    assert value not in space
    assert not space.contains(value)
    assert words in str(space.mismatch(value))


def test_nan_never_belongs_even_without_bounds() -> None:
    space = Box(-np.inf, np.inf, (2,))

    assert np.array([1e30, np.inf], np.float32) in space
    assert "got nan" in str(space.mismatch(np.array([0, np.nan], np.float32)))


def test_numbers_belong_to_boxes_without_axes() -> None:
    space = Box(-1.0, 1.0, shape=())

    assert space.sample().shape == ()
    assert all(number in space for number in (0.5, 1, np.float32(0.5), np.array(0.5, np.float32)))
    assert not any(number in space for number in (2, 1.5, True, float("nan"), np.float64(0.5), "0"))
    assert 3 in Box(0, 5, (), np.int8)
    assert 300 not in Box(0, 5, (), np.int8)
    assert 3.0 not in Box(0, 5, (), np.int8)
    assert True in Box(False, True, (), np.bool_)
    assert 1 not in Box(False, True, (), np.bool_)


def test_a_box_takes_no_mask() -> None:
    with pytest.raises(SpaceError, match="a Box takes no mask, got list"):
        Box(0, 1).sample(mask=[1])  # type: ignore[arg-type]


def test_boxes_are_equal_by_value() -> None:
    assert Box(0, 1, (2,)) == Box(np.zeros(2), np.ones(2))
    assert Box(-0.0, 1) == Box(0.0, 1)
    assert hash(Box(-0.0, 1)) == hash(Box(0.0, 1))
    assert Box(0, 1, (2,)) != Box(0, 1, (3,))
    assert Box(0, 1, (2,)) != Box(0, 2, (2,))
    assert Box(0, 1, (2,)) != Box(0, 1, (2,), np.float64)
    assert Box(0, 1, (2,)) != "Box"
    assert Box(0, 1, dtype=">f4") == Box(0, 1, dtype="<f4")


def test_the_backend_and_the_stream_do_not_count_when_boxes_are_compared() -> None:
    space = Box(0, 1)
    space.seed(1)
    space.sample()

    assert space == Box(0, 1)
    assert space == space.with_backend("torch")


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (Box(-np.inf, np.inf, (64,)), "Box(-inf, inf, (64,), float32)"),
        (Box(0, 255, (2, 2), np.uint8), "Box(0, 255, (2, 2), uint8)"),
        (Box([0, 0.5], 1), "Box([0. 0.5], 1.0, (2,), float32)"),
        (Box(0.1, 1), "Box(0.1, 1.0, (), float32)"),
    ],
)
def test_a_box_prints_as_it_is_written(space: Box, text: str) -> None:
    assert repr(space) == text


def test_a_long_box_prints_short() -> None:
    assert len(repr(Box(np.arange(1000), np.inf))) < 80


def test_an_empty_box_holds_the_empty_array() -> None:
    space = Box(0, 1, (0, 3))

    assert space.sample().shape == (0, 3)
    assert space.sample() in space
