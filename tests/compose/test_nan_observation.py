"""The observation that stands for none, in every space there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from sekai.compose import check_nan_observation, generate_nan_observation
from sekai.error import SpaceError
from sekai.spaces import Box, Dict, Discrete, MultiBinary, Space, Tuple, stack_samples, unstack
from tests.spaces.strategies import law, seeds, spaces


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in leaves(part)]
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [np.asarray(value)]


def same_form(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return list(left) == list(right) and all(same_form(left[k], right[k]) for k in left)
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same_form, left, right))
    one, other = np.asarray(left), np.asarray(right)
    return bool(one.shape == other.shape and one.dtype == other.dtype and type(left) is type(right))


@law
@given(space=spaces(), seed=seeds())
def test_it_has_the_form_of_a_sample_and_is_recognised(space: Any, seed: int) -> None:
    space.seed(seed)

    made = generate_nan_observation(space)

    assert same_form(made, space.sample())
    assert check_nan_observation(made)


@law
@given(space=spaces())
def test_it_survives_a_batch(space: Any) -> None:
    made = generate_nan_observation(space)

    batch = stack_samples(space, [space.sample(), made])

    assert check_nan_observation(unstack(space, batch)[1])


@law
@given(space=spaces(), seed=seeds())
def test_a_sample_with_a_number_that_is_not_the_greatest_is_none(space: Any, seed: int) -> None:
    space.seed(seed)
    sample = space.sample()
    says_something = any(
        leaf.size and (leaf.dtype.kind == "f" or (leaf != generic_max(leaf)).any())
        for leaf in leaves(sample)
    )

    assert check_nan_observation(sample) is not says_something


def generic_max(leaf: Any) -> Any:
    return True if leaf.dtype.kind == "b" else np.iinfo(leaf.dtype).max


@law
@given(space=spaces(), seed=seeds())
def test_the_stream_of_the_space_does_not_move(space: Any, seed: int) -> None:
    space.seed(seed)
    before = space.state_dict()

    generate_nan_observation(space)

    assert space.state_dict() == before


def test_what_is_put_where() -> None:
    space = Dict(
        {
            "price": Box(-1.0, 1.0, (2,), np.float32),
            "volume": Box(0, 9, (), np.uint8),
            "acquiring": Box(False, True, (2,), np.bool_),
            "step": Discrete(4),
            "flags": Tuple([MultiBinary(2)]),
        }
    )

    made = generate_nan_observation(space)

    assert np.isnan(made["price"]).all()
    assert made["volume"] == 255
    assert made["acquiring"].tolist() == [True, True]
    assert made["step"] == np.iinfo(np.intp).max
    assert made["flags"][0].tolist() == [127, 127]


@pytest.mark.parametrize(
    ("observation", "answer"),
    [
        (np.array([np.nan, np.nan]), True),
        (np.array([np.nan, 0.0]), False),
        (float("nan"), True),
        (0.5, False),
        ({"a": np.array(np.nan), "b": (np.int8(127), np.True_)}, True),
        ({"a": np.array(np.nan), "b": (np.int8(126), np.True_)}, False),
        ({"a": np.array(np.nan), "b": (np.int8(127), np.False_)}, False),
        # A plain bool is data: what stands for none is an array, or a scalar of NumPy.
        (True, False),
        (False, False),
        ({"a": np.array(np.nan), "b": True}, False),
        ([np.nan, [np.nan]], True),
        (np.array("NaT", "datetime64[ns]"), True),
        (np.array("2020-01-01", "datetime64[ns]"), False),
        ("nan", False),
        (None, False),
    ],
)
def test_all_of_it_must_stand_for_nothing(observation: Any, answer: bool) -> None:
    assert check_nan_observation(observation) is answer


class Plain(Space[Any]):
    """Samples whatever it was given."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value

    def sample(self, mask: Any = None) -> Any:
        return self.value

    def mismatch(self, value: object) -> str | None:
        return None


def test_plain_numbers_become_arrays_without_axes() -> None:
    made = generate_nan_observation(Plain([1.0, 2, True]))

    assert [(part.shape, part.dtype.kind) for part in made] == [((), "f"), ((), "i"), ((), "b")]
    assert check_nan_observation(made)


def test_times_stand_for_nothing_as_well() -> None:
    made = generate_nan_observation(Plain(np.array(["2020-01-01"], "datetime64[ns]")))

    assert np.isnat(made).all()
    assert check_nan_observation(made)


def test_what_has_no_such_value_is_refused() -> None:
    with pytest.raises(
        SpaceError, match="expected an observation of numbers, times or bools, got dtype <U2"
    ):
        generate_nan_observation(Plain("up"))


def test_tensors_are_made_by_their_backend() -> None:
    torch = pytest.importorskip("torch")
    space = Dict({"x": Box(-1.0, 1.0, (2,)), "n": Discrete(3)}, backend="torch")

    made = generate_nan_observation(space)

    assert isinstance(made["x"], torch.Tensor)
    assert torch.isnan(made["x"]).all()
    assert check_nan_observation(made)
