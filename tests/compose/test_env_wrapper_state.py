"""A composed env is saved in mid-episode and goes on from there, its seeds included."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai import check_env
from sekai.compose import EnvAware, EnvWrapper
from sekai.error import ClosedError, StateError
from tests.compose.walks import Push, Seen, Walk, walk_env
from tests.spaces.strategies import law

STARTS = [3.0, -1.0, 4.0, -1.5]


def ahead(env: Any, actions: list[int]) -> list[Any]:
    """Results of continuing the env, over several episodes."""
    results: list[Any] = []
    for action in actions:
        if env.exhausted:
            break
        results.append(env.reset() if env.status.done else env.step(action))
    return results


class Steady(Sequence[float]):
    """A sequence that is no list."""

    def __len__(self) -> int:
        return len(STARTS)

    def __getitem__(self, index: Any) -> Any:
        return STARTS[index]


KINDS: dict[str, Any] = {
    "list": lambda: list(STARTS),
    "tuple": lambda: tuple(STARTS),
    "array": lambda: np.array(STARTS),
    "sequence": Steady,
    "iterator": lambda: iter(STARTS),
    "nothing": lambda: None,
}

ACTIONS = st.lists(st.integers(0, 2), max_size=12)


@pytest.mark.parametrize("kind", KINDS)
@law
@given(before=ACTIONS, after=ACTIONS)
def test_an_env_goes_on_from_its_state(kind: str, before: list[int], after: list[int]) -> None:
    env = walk_env(KINDS[kind](), noise=1.0, length=3)
    env.reset(seed=7)
    ahead(env, before)
    state = env.state_dict()
    wanted = ahead(env, after)
    other = walk_env(KINDS[kind](), noise=1.0, length=3)
    if len(before) % 2:
        other.reset()

    for one in (env, other, other):
        one.load_state_dict(state)
        assert ahead(one, after) == wanted


def test_a_state_can_be_pickled_and_is_not_reached_by_later_steps() -> None:
    env = walk_env(STARTS)
    env.reset()
    env.step(2)
    state = env.state_dict()
    kept = pickle.dumps(state)
    env.step(2)

    env.load_state_dict(pickle.loads(kept))

    assert env.status is not None
    assert env.status.cur_step == 1
    assert env.simulator is not None
    assert env.simulator.env is env
    assert pickle.dumps(state) == kept


def test_a_state_before_the_first_reset_brings_it_back_there() -> None:
    env = walk_env(STARTS)
    state = env.state_dict()
    env.reset()

    env.load_state_dict(state)

    assert env.status is None
    assert env.reset().observation["position"] == STARTS[0]


def generated() -> Iterator[float]:
    yield from STARTS


def test_seeds_that_cannot_be_copied_are_an_error_that_says_so() -> None:
    env = walk_env(generated())
    env.reset()

    with pytest.raises(StateError, match="seeds of a generator cannot be saved; pass a list"):
        env.state_dict()
    assert env.step(2).observation["position"] == STARTS[0] + 1


class Counted:
    """An iterator that can say where it stands."""

    def __init__(self) -> None:
        self.lock = generated()  # Something that cannot be copied.
        self.position = 0

    def __iter__(self) -> Counted:
        return self

    def __next__(self) -> float:
        self.position += 1
        return float(self.position)

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.position = state_dict["position"]


def test_an_iterator_with_a_state_of_its_own_is_asked_for_it() -> None:
    env = walk_env(Counted())
    env.reset()
    state = env.state_dict()
    env.reset()
    env.reset()

    env.load_state_dict(state)

    assert env.reset().observation["position"] == 2.0


class Drawn(EnvAware):
    """Seeds from the stream of whichever env asks."""

    def __iter__(self) -> Iterator[float]:
        return self

    def __next__(self) -> float:
        assert self.env is not None
        return float(self.env.rng.normal())


def test_seeds_may_be_drawn_from_the_stream_of_the_env() -> None:
    drawn = Drawn()
    first, second = walk_env(drawn), walk_env(drawn)
    starts = [first.reset(seed=3), second.reset(seed=3), first.reset(), second.reset()]
    state = first.state_dict()
    following = first.reset()

    first.load_state_dict(state)

    assert starts[0] == starts[1] != starts[2] == starts[3]
    assert first.reset() == following
    assert check_env(walk_env(Drawn())) == []


@pytest.mark.parametrize(
    ("seeds", "words"),
    [
        ([1.0, 2.0], "a position among 2 seeds"),
        (None, "it is of another kind of seeds"),
        (itertools.chain(STARTS), "it is of another kind of seeds"),
    ],
)
def test_a_state_of_other_seeds_is_refused_and_changes_nothing(
    seeds: Iterable[float] | None, words: str
) -> None:
    env = walk_env(STARTS)
    env.reset()
    other = walk_env(seeds)
    other.reset()
    other.step(2)
    status, simulator = other.status, other.simulator

    with pytest.raises(StateError, match=words):
        other.load_state_dict(env.state_dict())

    assert other.status is status
    assert other.simulator is simulator
    other.step(2)


def test_a_simulator_that_cannot_be_copied_is_named() -> None:
    class Locked(Walk):
        def __init__(self, initial: float) -> None:
            super().__init__(initial)
            self.line = generated()

    env = EnvWrapper(Locked, Seen(), Push(), [1.0])
    env.reset()

    with pytest.raises(StateError, match=r"EnvWrapper\.simulator \(Locked\) cannot be copied"):
        env.state_dict()


def test_what_is_closed_stays_closed() -> None:
    env = walk_env(STARTS)
    env.reset()
    state = env.state_dict()
    env.close()
    env.load_state_dict(state)

    with pytest.raises(ClosedError):
        env.step(1)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_of_an_env_goes_its_own_way(copied: Any) -> None:
    env: Any = EnvWrapper(Walk, Seen(), Push(), STARTS)
    env.reset()
    env.step(2)

    twin = copied(env)
    twin.step(2)
    env.step(0)

    assert twin.simulator.env is twin
    assert twin.state_interpreter.env is twin
    assert env.state_interpreter.env is env
    assert [one.status.cur_step for one in (env, twin)] == [2, 2]
    assert twin.status.obs_history[-1]["position"] == STARTS[0] + 2
    assert env.status.obs_history[-1]["position"] == STARTS[0]
