"""One integer out of several, with and without a mask."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from sekai.error import SpaceError
from sekai.spaces import Discrete

INTP = np.iinfo(np.intp)


def counted(space: Discrete, mask: Any = None, draws: int = 3000) -> Counter[int]:
    space.seed(0)
    return Counter(int(space.sample(mask=mask)) for _ in range(draws))


def test_a_sample_is_an_intp() -> None:
    assert type(Discrete(4).sample()) is np.intp
    assert type(Discrete(4).sample(mask=[1, 0, 0, 0])) is np.intp


def test_every_value_is_as_likely_as_the_others() -> None:
    counts = counted(Discrete(5, start=-2))

    assert sorted(counts) == [-2, -1, 0, 1, 2]
    assert all(500 < count < 700 for count in counts.values())


def test_only_what_the_mask_allows_is_drawn() -> None:
    counts = counted(Discrete(5, start=10), np.array([1, 0, 1, 0, 1], np.int8))

    assert sorted(counts) == [10, 12, 14]
    assert all(850 < count < 1150 for count in counts.values())


@pytest.mark.parametrize("mask", [[True, False], (1, 0), np.array([1, 0], np.uint8)])
def test_a_mask_may_be_anything_of_zeros_and_ones(mask: Any) -> None:
    assert Discrete(2).sample(mask=mask) == 0


def test_a_mask_may_be_a_tensor() -> None:
    assert Discrete(2, backend="torch").sample(mask=torch.tensor([0, 1])) == 1
    assert Discrete(2).sample(mask=torch.tensor([0, 1])) == 1


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ([0, 0, 0], "must allow at least one of 3 values, all were 0"),
        ([1, 1], r"must have shape \(3,\), got \(2,\)"),
        ([[1, 1, 1]], r"must have shape \(3,\), got \(1, 3\)"),
        ([1.0, 0.0, 1.0], "must hold integers or bools, got dtype float64"),
        ([1, 2, 0], r"must hold only \[0, 1\], got 2"),
        ([1, [1, 2], 0], "must be an array"),
        ("101", "got dtype <U3"),
    ],
)
def test_a_bad_mask_is_refused_before_anything_is_drawn(mask: Any, words: str) -> None:
    space = Discrete(3)
    space.seed(0)
    before = space.state_dict()

    with pytest.raises(SpaceError, match=words):
        space.sample(mask=mask)

    assert space.state_dict() == before


@pytest.mark.parametrize("value", [-1, 1, np.int8(0), np.uint64(1), np.array(0), np.array(1, "u1")])
def test_whole_numbers_in_range_belong(value: Any) -> None:
    assert value in Discrete(3, start=-1)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (2, "expected a value from -1 to 1, got 2"),
        (np.int64(-2), "expected a value from -1 to 1, got -2"),
        (True, "expected an integer, got bool True"),
        (np.True_, "expected an integer, got bool"),
        (1.0, "expected an integer, got float 1.0"),
        (np.array([1]), "expected an integer, got ndarray of shape (1,) and dtype int64"),
        (np.array(True), "got ndarray of shape () and dtype bool"),
        ("1", "got str '1'"),
    ],
)
def test_what_does_not_belong_is_described(value: Any, words: str) -> None:
    space = Discrete(3, start=-1)

    assert value not in space
    assert words in str(space.mismatch(value))


@pytest.mark.parametrize(
    ("n", "start", "words"),
    [
        (0, 0, "n must be an integer of at least 1, got 0"),
        (2.0, 0, "n must be an integer of at least 1, got 2.0"),
        (True, 0, "n must be an integer of at least 1, got True"),
        (3, 0.5, "start must be an integer, got 0.5"),
        (3, INTP.max, "values must fit int64"),
        (2**64, INTP.min, "values must fit int64"),
    ],
)
def test_bad_arguments_are_refused_by_name(n: Any, start: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Discrete(n, start)


def test_very_many_values_are_drawn_evenly() -> None:
    space = Discrete(INTP.max, start=INTP.min)
    space.seed(0)
    values = [int(space.sample()) for _ in range(400)]

    assert all(value in space for value in values)
    assert sum(value < INTP.min // 2 for value in values) == pytest.approx(200, abs=50)
    assert len({value % 1024 for value in values}) > 300


def test_a_discrete_space_prints_as_it_is_written() -> None:
    assert repr(Discrete(5)) == "Discrete(5)"
    assert repr(Discrete(5, start=-2)) == "Discrete(5, start=-2)"
    assert Discrete(5) != Discrete(5, 1)
    assert Discrete(np.int64(5)) == Discrete(5)
