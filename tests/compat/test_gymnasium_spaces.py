"""Spaces keep their meaning on the way to gymnasium and back."""

from __future__ import annotations

from typing import Any

import gymnasium.spaces as theirs
import numpy as np
import pytest

from sekai import spaces as ours
from sekai.compat import space_from_gymnasium, space_to_gymnasium
from sekai.compat.gymnasium.spaces import value_from_gymnasium, value_to_gymnasium
from sekai.error import SpaceError

EXACT: list[ours.Space[Any]] = [
    ours.Box(-1.0, 1.0, (3, 2), np.float32),
    ours.Box([-np.inf, 0.0, -1.0], [np.inf, np.inf, 2.5], dtype=np.float64),
    ours.Box(0, 255, (4, 4, 3), np.uint8),
    ours.Box(-5, 5, (2,), np.int16),
    ours.Box(0.0, 1.0, (), np.float32),
    ours.Discrete(5),
    ours.Discrete(3, start=-1),
    ours.MultiDiscrete([2, 3, 4]),
    ours.MultiDiscrete([[2, 3], [4, 5]], start=[[0, -1], [1, 7]]),
    ours.MultiBinary(4),
    ours.MultiBinary((2, 3)),
    ours.Dict({"z": ours.Discrete(2), "a": ours.Box(-1.0, 1.0, (2,))}),
    ours.Tuple([ours.Discrete(2), ours.Dict({"x": ours.MultiBinary(3)})]),
]

NEAREST: list[ours.Space[Any]] = [
    ours.Simplex(4),
    ours.Simplex(3, caps=[0.5, 0.6, 0.4], dtype=np.float32),
    ours.MaskedBox(-1.0, 1.0, (5, 2)),
    ours.MaskedBox(1.0, 3.0, (4,)),
    ours.Dict({"weights": ours.Simplex(2), "set": ours.MaskedBox(-1.0, 1.0, (2, 2))}),
]


@pytest.mark.parametrize("space", EXACT, ids=repr)
def test_a_space_comes_back_as_it_went(space: ours.Space[Any]) -> None:
    assert space_from_gymnasium(space_to_gymnasium(space)) == space


@pytest.mark.parametrize("space", EXACT + NEAREST, ids=repr)
def test_our_samples_belong_to_their_space(space: ours.Space[Any]) -> None:
    space.seed(0)
    counterpart = space_to_gymnasium(space)

    for _ in range(20):
        assert value_to_gymnasium(space, space.sample()) in counterpart


@pytest.mark.parametrize("space", EXACT + NEAREST, ids=repr)
def test_their_samples_belong_to_our_space(space: ours.Space[Any]) -> None:
    counterpart = space_to_gymnasium(space)
    counterpart.seed(0)

    for _ in range(20):
        value = value_from_gymnasium(space, counterpart.sample())
        assert space.mismatch(value) is None


@pytest.mark.parametrize("space", EXACT + NEAREST, ids=repr)
def test_our_samples_survive_the_way_there_and_back(space: ours.Space[Any]) -> None:
    space.seed(1)

    for _ in range(10):
        sample = space.sample()
        returned = value_from_gymnasium(space, value_to_gymnasium(space, sample))
        assert str(returned) == str(sample)


def test_the_order_of_a_dict_is_kept() -> None:
    space = ours.Dict({"z": ours.Discrete(2), "a": ours.Discrete(3)})

    counterpart = space_to_gymnasium(space)

    assert isinstance(counterpart, theirs.Dict)
    assert list(counterpart.spaces) == ["z", "a"]


def test_weights_are_projected_to_the_nearest_on_the_simplex() -> None:
    space = ours.Simplex(3, caps=[0.5, 1.0, 1.0])

    projected = value_from_gymnasium(space, np.array([2.0, 0.2, 0.1]))

    assert projected in space
    assert projected == pytest.approx([0.5, 0.3, 0.2])


def test_a_batch_is_converted_row_by_row() -> None:
    space = ours.Dict({"weights": ours.Simplex(2), "set": ours.MaskedBox(-1.0, 1.0, (2, 2))})
    batch = {
        "weights": np.array([[1.0, 1.0], [0.25, 0.75]]),
        "set": {
            "values": np.ones((2, 2, 2), np.float32),
            "mask": np.array([[1, 0], [0, 1]], np.int8),
        },
    }

    converted = value_from_gymnasium(space, batch)

    assert converted["weights"] == pytest.approx(np.array([[0.5, 0.5], [0.25, 0.75]]))
    assert converted["set"]["values"][:, :, 0].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert converted["set"]["mask"].dtype == np.bool_


@pytest.mark.parametrize(
    "space",
    [
        theirs.Text(5),
        theirs.Sequence(theirs.Discrete(2)),
        theirs.Graph(theirs.Discrete(2), theirs.Discrete(2)),
        theirs.OneOf([theirs.Discrete(2), theirs.MultiBinary(2)]),
        theirs.Dict({"text": theirs.Text(5)}),
    ],
    ids=lambda space: type(space).__name__,
)
def test_a_space_without_counterpart_is_refused_by_name(space: theirs.Space[Any]) -> None:
    with pytest.raises(SpaceError, match="no counterpart of gymnasium's (Text|Seq|Graph|OneOf)"):
        space_from_gymnasium(space)


def test_a_space_of_the_users_own_can_be_registered() -> None:
    class Colour(ours.Space[str]):
        def sample(self, mask: Any = None) -> str:
            return "red"

        def mismatch(self, value: object) -> str | None:
            return None if value == "red" else "wanted red"

    with pytest.raises(SpaceError, match="no counterpart of Colour"):
        space_to_gymnasium(Colour())

    space_to_gymnasium.register(Colour, lambda space: theirs.Text(3))

    assert isinstance(space_to_gymnasium(Colour()), theirs.Text)
