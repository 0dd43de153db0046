"""Validation of values against their spaces, with error messages."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.compose import SpaceValidationError, validate_space
from sekai.error import SpaceError
from sekai.spaces import Box, Dict, Discrete, Simplex, Space, Tuple
from tests.spaces.strategies import law, seeds, spaces

NESTED = Dict(
    {"pair": Tuple([Discrete(3), Dict({"x": Box(-1.0, 1.0, (2,), np.float64)})]), "n": Discrete(2)}
)


def good() -> dict[str, Any]:
    return {"pair": (1, {"x": np.zeros(2)}), "n": 1}


class Lenient(Box):
    """A box that takes NaN for a number."""

    def mismatch(self, value: object) -> str | None:
        array = np.asarray(value)
        return super().mismatch(np.where(np.isnan(array), self.low, array))


class Whole(Space[Any]):
    """A space of its own that lets everything in."""

    def sample(self, mask: Any = None) -> Any:
        return np.zeros(2)

    def mismatch(self, value: object) -> str | None:
        return None


@law
@given(space=spaces(), seed=seeds())
def test_every_sample_belongs(space: Any, seed: int) -> None:
    space.seed(seed)

    validate_space(space, space.sample())


@law
@given(space=spaces(), other=spaces(), seed=seeds())
def test_it_agrees_with_the_judge_of_the_space(space: Any, other: Any, seed: int) -> None:
    other.seed(seed)
    sample = other.sample()
    if space.contains(sample):
        validate_space(space, sample)
    else:
        with pytest.raises(SpaceValidationError) as raised:
            validate_space(space, sample)
        assert raised.value.space is space
        assert raised.value.sample is sample


def test_an_error_names_the_place_and_carries_value_and_space_at_each_level() -> None:
    sample = good()
    sample["pair"][1]["x"][1] = 2.0

    with pytest.raises(SpaceValidationError) as raised:
        validate_space(NESTED, sample, "the observation")

    error: Any = raised.value
    assert str(error).startswith("the observation does not fit Dict(")
    assert str(error) == error.message
    assert error.message.endswith(
        "at ['pair'][1]['x']: expected a value from -1.0 to 1.0 at index [1], got 2.0"
    )
    spaces_found, samples, messages = [], [], []
    while error is not None:
        spaces_found.append(error.space)
        samples.append(error.sample)
        messages.append(error.message)
        error = error.__cause__
    pair = NESTED["pair"]
    assert spaces_found == [NESTED, pair, pair[1], pair[1]["x"]]  # type: ignore[index]
    assert samples[0] is sample
    assert samples[1] is sample["pair"]
    assert samples[3] is sample["pair"][1]["x"]
    assert messages[1].startswith("at [1]['x']: expected")
    assert messages[2].startswith("at ['x']: expected")
    assert messages[3].startswith("expected a value")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda value: None, "expected a dict, got NoneType"),
        (lambda value: {"pair": value["pair"]}, r"expected the keys \['pair', 'n'\], got"),
        (lambda value: {**value, "more": 1}, r"expected the keys \['pair', 'n'\], got"),
        (lambda value: {**value, "pair": (1,)}, r"at \['pair'\]: expected 2 values, got 1"),
        (lambda value: {**value, "pair": [1, 2, 3]}, r"at \['pair'\]: expected 2 values, got 3"),
        (lambda value: {**value, "pair": "ab"}, r"at \['pair'\]: expected a tuple, got str"),
        (lambda value: {**value, "pair": np.array(3)}, "expected a tuple, got ndarray"),
        (lambda value: {**value, "n": 2}, r"at \['n'\]: expected a value from 0 to 1, got 2"),
    ],
)
def test_a_value_of_another_form_is_refused(change: Any, words: str) -> None:
    with pytest.raises(SpaceValidationError, match=words):
        validate_space(NESTED, change(good()))


@pytest.mark.parametrize("values", [[1, 2], np.array([1, 2]), (1, 2)])
def test_lists_and_arrays_pass_for_tuples(values: Any) -> None:
    space = Tuple([Discrete(3), Discrete(3)])

    validate_space(space, values)
    validate_space(Dict({"a": Tuple([space, Discrete(2)])}), {"a": [values, 1]})
    with pytest.raises(SpaceValidationError, match=r"at \[1\]: expected a value from 0 to 1"):
        validate_space(Tuple([Discrete(3), Discrete(2)]), values)


FLOATS = st.sampled_from([np.float16, np.float32, np.float64])


@law
@given(
    dtype=FLOATS,
    size=st.integers(1, 4),
    place=st.integers(0, 3),
    bound=st.sampled_from([1.0, np.inf]),
    kind=st.sampled_from([Box, Lenient]),
)
def test_nan_belongs_to_no_box(dtype: Any, size: int, place: int, bound: float, kind: Any) -> None:
    values = np.zeros(size, dtype)
    space = kind(-bound, bound, (size,), dtype)
    validate_space(space, values)
    values[place % size] = np.nan

    with pytest.raises(SpaceValidationError, match="(?i)nan"):
        validate_space(space, values)
    with pytest.raises(SpaceValidationError, match="(?i)nan"):
        validate_space(Tuple([space]), (values,))


def test_nan_is_no_number_of_a_box_without_axes_and_no_weight() -> None:
    with pytest.raises(SpaceValidationError, match="nan"):
        validate_space(Box(-np.inf, np.inf, ()), float("nan"))
    with pytest.raises(SpaceValidationError):
        validate_space(Simplex(2), np.array([np.nan, 1.0], np.float32))


def test_a_space_of_ones_own_is_its_own_judge() -> None:
    validate_space(Whole(), object())
    validate_space(Whole((2,), np.float32), np.zeros(2))
    with pytest.raises(SpaceValidationError, match="expected numbers, got 1 NaN"):
        validate_space(Whole((2,), np.float32), np.array([0.0, np.nan]))


def test_the_error_is_a_space_error_and_can_be_pickled() -> None:
    with pytest.raises(SpaceError) as raised:
        validate_space(Discrete(2), 5)

    copied = pickle.loads(pickle.dumps(raised.value))
    assert (str(copied), copied.space, copied.sample) == (str(raised.value), Discrete(2), 5)
