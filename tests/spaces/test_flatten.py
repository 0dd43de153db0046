"""Rows of floats: one-hot, exact, and refused when something is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.error import SpaceError
from sekai.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Simplex,
    Space,
    Tuple,
    flatdim,
    flatten,
    flatten_space,
    unflatten,
)


def test_discrete_values_become_one_hot() -> None:
    assert flatten(Discrete(4, start=2), 3).tolist() == [0, 1, 0, 0]
    assert flatten(MultiDiscrete([2, 3]), np.array([1, 0])).tolist() == [0, 1, 1, 0, 0]
    assert flatdim(MultiDiscrete([[2, 3], [4, 5]])) == 14


def test_nested_values_follow_one_another_in_order() -> None:
    space = Dict(b=Discrete(2), a=Tuple([MultiBinary(2), Box(-1, 1, (2,))]))
    value = {"a": (np.array([0, 1], np.int8), np.array([0.5, -0.5], np.float32)), "b": 1}

    assert flatten(space, value).tolist() == [0, 1, 0, 1, 0.5, -0.5]


def test_the_flattened_space_keeps_the_bounds() -> None:
    box = flatten_space(Dict(a=Box([[0, 1]], [[2, np.inf]]), b=Discrete(2)))

    assert box == Box([0, 1, 0, 0], [2, np.inf, 1, 1])
    assert flatten_space(Simplex(2, 0.75, np.float32)).high == pytest.approx(0.75, abs=2e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "space",
    [
        Box(0, 1, (2,), np.float16),
        Box(0, 1, (2,)),
        Box(0, 1, (2,), np.float64),
        Box(0, 255, (2,), np.uint8),
        Box(0, 2**24 + 1, (2,), np.int32),
        Box(0, 2**62, (2,), np.int64),
        Discrete(3),
        Simplex(3),
        Dict(a=Box(0, 1, (2,), np.float64), b=Tuple([Discrete(3), MultiBinary(2)])),
    ],
    ids=str,
)
def test_a_row_is_float32_unless_another_dtype_is_asked_for(space: Space[Any], dtype: Any) -> None:
    value = space.sample()

    assert flatten(space, value).dtype == np.float32
    assert flatten_space(space).dtype == np.float32
    assert flatten(space, value, dtype=dtype).dtype == dtype
    assert flatten_space(space, dtype=dtype).dtype == dtype
    assert flatten(space, value, dtype=dtype) in flatten_space(space, dtype=dtype)


def test_float64_rows_keep_what_float32_rows_round() -> None:
    space = Dict(price=Box(0, 1, (1,), np.float64), size=Box(0, 2**30, (1,), np.int32))
    value = {"price": np.array([0.1]), "size": np.array([2**24 + 1], np.int32)}

    rounded = unflatten(space, flatten(space, value))
    exact = unflatten(space, flatten(space, value, dtype=np.float64))

    assert rounded["price"][0] == float(np.float32(0.1))
    assert rounded["size"].tolist() == [2**24]
    assert exact["price"].tolist() == [0.1]
    assert exact["size"].tolist() == [2**24 + 1]


@pytest.mark.parametrize(
    "space",
    [
        Box(0, 0.1, (1,), np.float64),
        Box(-0.1, 0, (1,), np.float64),
        Box(0, 2**24 + 3, (1,), np.int32),
        Box(-(2**24) - 3, 0, (1,), np.int64),
        Box(np.iinfo(np.int64).min, np.iinfo(np.int64).max, (1,), np.int64),
        Box(0, np.iinfo(np.uint64).max, (1,), np.uint64),
        Box(-1e300, 1e300, (1,), np.float64),
    ],
    ids=str,
)
def test_rounding_carries_no_bound_out_of_the_space(space: Box) -> None:
    for bound in (space.low, space.high):
        flat = flatten(space, bound)

        assert flat in flatten_space(space)
        assert unflatten(space, flat) in space


@pytest.mark.parametrize(
    ("flat", "whole"), [(2.9999998, 3), (3.0000002, 3), (2.4, 2), (-0.3, 0), (8.7, 9)]
)
def test_whole_numbers_are_rounded_when_they_are_restored(flat: float, whole: int) -> None:
    restored = unflatten(Box(0, 9, (1,), np.int32), np.array([flat], np.float32))

    assert restored.tolist() == [whole]
    assert restored.dtype == np.int32
    assert unflatten(MultiBinary(1), np.array([0.9999999])).tolist() == [1]


@pytest.mark.parametrize("dtype", [np.int32, "intp", bool, complex])
def test_a_row_has_a_float_dtype(dtype: Any) -> None:
    with pytest.raises(ValueError, match="dtype must be float"):
        flatten(Box(0, 1, (2,)), np.zeros(2, np.float32), dtype=dtype)
    with pytest.raises(ValueError, match="dtype must be float"):
        flatten_space(Box(0, 1, (2,)), dtype=dtype)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_no_float_holds_take_two_floats_each(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    space = Box(limits.min, limits.max, (3,), dtype)
    value = np.array([limits.min, limits.max, 2**53 + 1], dtype)

    flat = flatten(space, value, dtype=np.float64)

    assert flatdim(space) == 6
    assert flat in flatten_space(space, dtype=np.float64)
    assert unflatten(space, flat).tolist() == value.tolist()
    assert flatten(Box(0, 2**53, (3,), dtype), np.ones(3, dtype)).tolist() == [1, 1, 1]


def test_flatten_never_shares_memory() -> None:
    value = np.zeros(2, np.float32)
    flat = flatten(Box(0, 1, (2,)), value)
    restored = unflatten(Box(0, 1, (2,)), flat)

    assert not np.shares_memory(flat, value)
    assert not np.shares_memory(restored, flat)


@pytest.mark.parametrize(
    ("space", "value", "words"),
    [
        (Box(0, 1, (2,)), np.zeros(3, np.float32), r"expected shape \(2,\), got \(3,\)"),
        (Box(0, 1, (2,)), np.zeros(2), "expected dtype float32, got float64"),
        (Box(0, 1, (2,)), [0, 0], "got list"),
        (Discrete(3), -1, "expected a value from 0 to 2, got -1"),
        (MultiDiscrete([3]), np.array([3]), "expected a value from 0 to 2"),
        (Dict(a=Discrete(3)), {}, r"expected the keys \['a'\], got \[\]"),
        (Dict(a=Discrete(3)), {"a": 0, "b": 1}, "expected the keys"),
        (Dict(a=Tuple([Discrete(3)])), {"a": (3,)}, r"at \['a'\]\[0\]: expected a value from 0"),
        (Tuple([Discrete(3)]), (1, 2), "expected 1 values, got 2"),
    ],
)
def test_flatten_refuses_values_of_another_structure(
    space: Space[Any], value: Any, words: str
) -> None:
    with pytest.raises(SpaceError, match=words):
        flatten(space, value)


@pytest.mark.parametrize(
    ("space", "flat", "words"),
    [
        (Discrete(3), [0, 0, 0], "expected exactly one non-zero entry, got 0"),
        (Discrete(3), [1, 1, 0], "expected exactly one non-zero entry, got 2"),
        (MultiDiscrete([2, 2]), [1, 1, 0, 0], "one non-zero entry per element"),
        (MultiDiscrete([2, 2]), [1, 1, 1, 0], "one non-zero entry per element"),
        (MultiBinary(2), [np.nan, 1], "expected integers that fit int8, got nan"),
        (Box(0, 9, (1,), np.int8), [1e6], "expected integers that fit int8, got 1000000.0"),
        (Box(0, 9, (1,), np.int32), [np.nan], "expected integers that fit int32, got nan"),
        (Box(0, 1, (2,)), [[0, 1]], r"expected a row of 2 floats, got shape \(1, 2\)"),
        (Box(0, 1, (2,)), 3.0, r"expected a row of 2 floats, got shape \(\)"),
    ],
)
def test_unflatten_refuses_what_no_value_flattens_to(
    space: Space[Any], flat: Any, words: str
) -> None:
    with pytest.raises(SpaceError, match=words):
        unflatten(space, np.array(flat))
