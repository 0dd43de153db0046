"""Padded sets: rows in use within bounds, the others zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.error import SpaceError
from sekai.spaces import MaskedBox, flatdim, flatten, flatten_space


@pytest.fixture
def universe() -> MaskedBox:
    space = MaskedBox(1.0, 2.0, shape=(3, 2))
    space.seed(0)
    return space


def value(rows: list[list[float]], mask: list[bool]) -> dict[str, Any]:
    return {"values": np.array(rows, np.float32), "mask": np.array(mask)}


def test_a_sample_is_values_with_their_mask(universe: MaskedBox) -> None:
    sample = universe.sample()

    assert list(sample) == ["values", "mask"]
    assert (sample["values"].shape, sample["values"].dtype) == ((3, 2), np.float32)
    assert (sample["mask"].shape, sample["mask"].dtype) == ((3,), np.bool_)
    assert universe.slots == 3


def test_any_number_of_slots_is_used_and_the_others_are_zero(universe: MaskedBox) -> None:
    samples = [universe.sample() for _ in range(800)]
    counts = np.bincount([sample["mask"].sum() for sample in samples])

    assert counts.tolist() == pytest.approx([200] * 4, abs=50)
    assert np.mean([sample["mask"] for sample in samples], axis=0) == pytest.approx(0.5, abs=0.06)
    for sample in samples:
        assert not sample["values"][~sample["mask"]].any()
        assert (sample["values"][sample["mask"]] >= 1).all()


def test_a_mask_says_which_slots_are_used(universe: MaskedBox) -> None:
    sample = universe.sample(mask=np.array([True, False, True]))

    assert sample["mask"].tolist() == [True, False, True]
    assert sample["values"].any(axis=1).tolist() == [True, False, True]
    assert not universe.sample(mask=[0, 0, 0])["mask"].any()


@pytest.mark.parametrize("mask", [[1, 0], [0.5, 1, 1], [2, 0, 1], [[1], [0], [1]]])
def test_a_bad_mask_is_refused(universe: MaskedBox, mask: Any) -> None:
    with pytest.raises(SpaceError, match="mask must"):
        universe.sample(mask=mask)


def test_what_belongs(universe: MaskedBox) -> None:
    assert value([[1, 2], [0, 0], [1.5, 1]], [True, False, True]) in universe
    assert value([[0, 0], [0, 0], [0, 0]], [False, False, False]) in universe


@pytest.mark.parametrize(
    ("stranger", "words"),
    [
        (
            value([[1, 2], [0, 0.5], [1, 1]], [True, False, True]),
            "at ['values']: expected zeros in slot 1, which the mask marks as unused",
        ),
        (
            value([[1, 2], [0, 0], [1, 0.5]], [True, False, True]),
            "at ['values']: expected a value from 1.0 to 2.0 at index [2, 1], got 0.5",
        ),
        (
            value([[1, 2], [0, 0], [1, 3]], [True, False, True]),
            "at ['values']: expected a value from 0.0 to 2.0 at index [2, 1], got 3.0",
        ),
        (value([[0, 0]], [False]), "at ['values']: expected shape (3, 2), got (1, 2)"),
        (
            {"values": np.zeros((3, 2), np.float32), "mask": np.zeros(3)},
            "at ['mask']: expected dtype bool, got float64",
        ),
        ({"values": np.zeros((3, 2), np.float32)}, "expected the keys ['values', 'mask']"),
        (np.zeros((3, 2), np.float32), "expected a dict, got ndarray"),
    ],
)
def test_what_does_not_belong_is_described(universe: MaskedBox, stranger: Any, words: str) -> None:
    assert stranger not in universe
    assert words in str(universe.mismatch(stranger))


def test_a_flattened_set_is_its_values_and_then_its_mask(universe: MaskedBox) -> None:
    flat = flatten(universe, value([[1, 2], [0, 0], [1.5, 1]], [True, False, True]))
    box = flatten_space(universe)

    assert flatdim(universe) == 9
    assert flat.tolist() == [1, 2, 0, 0, 1.5, 1, 1, 0, 1]
    assert box.low.tolist() == [0] * 9
    assert box.high.tolist() == [2] * 6 + [1] * 3


def test_rows_may_be_single_numbers() -> None:
    space = MaskedBox(5, 9, shape=(4,), dtype=np.int32)

    assert space.sample(mask=[1, 1, 0, 1])["values"].shape == (4,)
    assert space.sample() in space


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="first axis of slots"):
        MaskedBox(0, 1)
    with pytest.raises(ValueError, match="low must not be above high"):
        MaskedBox(1, 0, (3,))


def test_it_prints_as_it_is_written_and_compares_by_value() -> None:
    assert repr(MaskedBox(0, 1, (3, 2))) == "MaskedBox(0.0, 1.0, (3, 2), float32)"
    assert MaskedBox(0, 1, (3, 2)) == MaskedBox(0, 1, (3, 2))
    assert MaskedBox(0, 1, (3, 2)) != MaskedBox(0, 2, (3, 2))
