from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest

from sekai.error import StateError
from tests.worlds import AsyncRandomWalk, Duel, Market, RandomWalk

ACTION = np.full(2, 0.25, dtype=np.float32)


def walk_on(env: Any, steps: int = 5) -> list[Any]:
    return [env.step(ACTION) for _ in range(steps)]


@pytest.mark.parametrize("make", [RandomWalk, AsyncRandomWalk])
def test_a_restored_env_continues_bit_for_bit(make: type) -> None:
    env = make()
    env.reset(seed=11)
    walk_on(env)
    state = env.state_dict()
    expected = walk_on(env)

    env.load_state_dict(state)
    fresh = make()
    fresh.load_state_dict(pickle.loads(pickle.dumps(state)))

    assert walk_on(env) == expected
    assert walk_on(fresh) == expected


def test_a_state_is_a_value_that_later_steps_do_not_reach() -> None:
    env = Market()
    env.reset(seed=0)
    state = env.state_dict()
    prices = list(state["values"]["_prices"])

    env.step(2)

    assert state["values"]["_prices"] == prices


def test_loading_does_not_hand_the_env_the_callers_objects() -> None:
    env = Market()
    env.reset(seed=0)
    state = env.state_dict()

    env.load_state_dict(state)
    env.step(2)

    env.load_state_dict(state)
    assert len(env._prices) == 3


def test_a_multi_agent_env_is_restored_with_the_agents_alive() -> None:
    env = Duel(length=2)
    env.reset(seed=1)
    state = env.state_dict()
    actions = {"north": np.zeros(1), "south": np.intp(1)}
    expected = [env.step(actions), env.step(actions)]
    assert env.agents == []

    env.load_state_dict(state)

    assert env.agents == ["north", "south"]
    assert [env.step(actions), env.step(actions)] == expected


def test_the_spaces_of_an_env_go_on_sampling_where_they_were() -> None:
    env = RandomWalk()
    env.action_space.seed(3)
    state = env.state_dict()
    expected = env.action_space.sample()

    env.load_state_dict(state)

    assert np.array_equal(env.action_space.sample(), expected)


def test_a_state_of_another_env_is_refused_and_changes_nothing() -> None:
    env = RandomWalk()
    env.reset(seed=2)
    before = env.state_dict()

    with pytest.raises(StateError, match="expected a state of RandomWalk, got one of Market"):
        env.load_state_dict(Market().state_dict())
    with pytest.raises(StateError, match="lacks the keys"):
        env.load_state_dict({})

    assert walk_on(env) == walk_on(restored(before))


def restored(state: dict[str, Any]) -> RandomWalk:
    env = RandomWalk()
    env.load_state_dict(state)
    return env


def test_attributes_that_came_later_are_gone_after_a_restore() -> None:
    env = RandomWalk()
    state = env.state_dict()
    env.cache = 1  # type: ignore[attr-defined]

    env.load_state_dict(state)

    assert not hasattr(env, "cache")


def test_what_cannot_be_copied_is_named() -> None:
    class Connected(RandomWalk):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

    with pytest.raises(StateError, match=r"Connected\.lock .*state_excludes"):
        Connected().state_dict()


def test_an_excluded_attribute_stays_as_it_is() -> None:
    class Connected(RandomWalk):
        state_excludes = ("lock",)

        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

    env = Connected()
    lock = env.lock

    env.load_state_dict(env.state_dict())

    assert env.lock is lock


def test_what_attributes_share_they_share_after_a_restore() -> None:
    env: Any = RandomWalk()
    env.book = [1]
    env.view = {"book": env.book, "env": env}

    env.load_state_dict(pickle.loads(pickle.dumps(env.state_dict())))

    assert env.view["book"] is env.book
    assert env.view["env"] is env


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (None, "unknown bit generator None"),
        ({"bit_generator": "os.system"}, "unknown bit generator 'os.system'; expected one of"),
        ({"bit_generator": "PCG64", "state": {}}, "malformed state of generator '_rng'"),
    ],
)
def test_a_damaged_generator_is_refused_and_changes_nothing(damaged: Any, reason: str) -> None:
    env = RandomWalk()
    env.reset(seed=1)
    before = env.state_dict()

    with pytest.raises(StateError, match=reason):
        env.load_state_dict({**before, "generators": {"_rng": damaged}})

    assert walk_on(env) == walk_on(restored(before))


def test_half_used_random_words_are_part_of_the_state() -> None:
    env = RandomWalk()
    env.reset(seed=1)
    env.rng.integers(0, 10, dtype=np.int32)
    state = env.state_dict()
    expected = env.rng.integers(0, 1000, size=3, dtype=np.int32)

    env.load_state_dict(state)

    assert np.array_equal(env.rng.integers(0, 1000, size=3, dtype=np.int32), expected)


def test_a_part_that_refuses_its_state_leaves_the_other_parts_as_they_were() -> None:
    class Gauge:
        def __init__(self) -> None:
            self.level = 0

        def state_dict(self) -> dict[str, int]:
            return {"level": self.level}

        def load_state_dict(self, state: dict[str, int]) -> None:
            self.level = state["level"]

    env: Any = RandomWalk()
    env.first, env.second = Gauge(), Gauge()
    state = env.state_dict()
    state["parts"].update(first={"level": 5}, second={"lvl": 5})

    with pytest.raises(StateError, match=r"RandomWalk\.second rejected its state: KeyError"):
        env.load_state_dict(state)

    assert (env.first.level, env.second.level) == (0, 0)
