"""Random streams: seeds that are checked, and states that are loaded whole or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.error import StateError
from sekai.spaces import Box, Dict, Discrete, Tuple
from sekai.spaces.space import child_seed


def test_two_unseeded_spaces_differ() -> None:
    assert Box(0, 1, (4,)).sample().tolist() != Box(0, 1, (4,)).sample().tolist()
    assert Box(0, 1).seed() != Box(0, 1).seed()


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True, [1]])
def test_a_seed_is_a_whole_number_of_at_least_zero(seed: Any) -> None:
    space = Box(0, 1)
    space.seed(3)
    before = space.state_dict()

    with pytest.raises(ValueError, match="seed must be an integer of at least 0"):
        space.seed(seed)

    assert space.state_dict() == before


def test_a_numpy_seed_is_as_good_as_a_python_one() -> None:
    one, other = Box(0, 1), Box(0, 1)

    assert one.seed(5) == other.seed(np.int64(5)) == 5
    assert one.sample() == other.sample()


def test_names_and_positions_give_different_seeds() -> None:
    keys: list[str | int] = ["a", "b", "ab", "ba", "", "\0", "é", 0, 1, 97]

    assert len({child_seed(seed, key) for seed in (7, 8) for key in keys}) == 2 * len(keys)


def test_a_fresh_state_says_that_no_stream_has_begun() -> None:
    space = Dict(a=Box(0, 1), b=Tuple([Discrete(2)]))
    nothing: dict[str, Any] = {"rng": None, "spaces": {}}
    inner = {"rng": None, "spaces": {"0": nothing}}

    assert space.state_dict() == {"rng": None, "spaces": {"a": nothing, "b": inner}}


def test_a_state_taken_is_not_moved_by_later_samples() -> None:
    space = Box(0, 1)
    space.seed(0)
    state = space.state_dict()
    first = space.sample()

    space.load_state_dict(state)

    assert space.sample() == first


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda state: None, "state must be a dict with the keys"),
        (lambda state: {"rng": None}, r"got \['rng'\]"),
        (lambda state: {**state, "more": 1}, "'more'"),
        (lambda state: {**state, "spaces": {}}, r"state\['spaces'\] must be a dict with the keys"),
        (lambda state: {**state, "rng": 5}, r"state\['rng'\] must be the state of a PCG64"),
        (lambda state: {**state, "rng": {**state["rng"], "bit_generator": "MT19937"}}, "PCG64"),
        (lambda state: {**state, "rng": {**state["rng"], "more": 1}}, "PCG64"),
        (
            lambda state: {**state, "rng": {**state["rng"], "state": {"state": 0.5, "inc": 1}}},
            "PCG64",
        ),
        (
            lambda state: {**state, "spaces": {**state["spaces"], "b": {"rng": 1, "spaces": {}}}},
            r"state\['spaces'\]\['b'\]\['rng'\] must be",
        ),
    ],
)
def test_another_state_is_refused_and_changes_nothing(spoil: Any, words: str) -> None:
    space = Dict(a=Box(0, 1), b=Discrete(2))
    space.seed(1)
    spoilt = spoil(space.state_dict())
    space.seed(2)
    before = space.state_dict()

    with pytest.raises(StateError, match=words):
        space.load_state_dict(spoilt)

    assert space.state_dict() == before
