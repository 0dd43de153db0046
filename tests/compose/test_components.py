"""Components know the wrapper that calls them, and nothing keeps it alive or takes it along."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sekai.compose import (
    ActionInterpreter,
    EnvWrapper,
    Interpreter,
    LogCollector,
    Reward,
    RewardCombination,
    SpaceValidationError,
    StateInterpreter,
)
from sekai.spaces import Box, Discrete
from tests.compose.walks import Count, Nearness, Place, Push, Rightness, Seen, Walk, walk_env


class Sheet(Reward[Place]):
    """Keeps its numbers in a slot and writes its own `__getstate__`."""

    __slots__ = ("scale",)

    def __init__(self) -> None:
        self.scale = 2.0
        self.handle = lambda: None

    def reward(self, simulator_state: Place) -> float:
        return self.scale * simulator_state.position


class OwnState(Nearness):
    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()


@dataclass(frozen=True)
class Scaled(StateInterpreter[Place, Any]):
    """A frozen dataclass is a natural form for something without state."""

    scale: float = 0.5

    @property
    def observation_space(self) -> Box:
        return Box(-np.inf, np.inf, (1,), np.float64)

    def interpret(self, simulator_state: Place) -> Any:
        return np.array([self.scale * simulator_state.position])


COPIES: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    lambda component: pickle.loads(pickle.dumps(component)),
]


def components(env: Any) -> list[Any]:
    return [
        env.state_interpreter,
        env.action_interpreter,
        env.reward_fn,
        env.aux_info_collector,
        env.simulator,
    ]


def test_before_any_wrapper_a_component_has_no_env() -> None:
    assert Nearness().env is None
    assert Seen().env is None
    assert Count().env is None
    assert Walk().env is None


def test_every_component_knows_its_wrapper() -> None:
    env = walk_env()
    env.reset()

    assert all(component.env is env for component in components(env))


def test_a_simulator_is_attached_after_it_is_made() -> None:
    env = walk_env()
    env.reset()

    assert isinstance(env.simulator, Walk)
    assert env.simulator.env_at_birth is None
    assert env.simulator.env is env


def test_components_do_not_keep_their_wrapper_alive() -> None:
    env = walk_env(reward=RewardCombination({"a": (Nearness(), 1.0)}))
    env.reset()
    env.step(1)
    left, watch = components(env), weakref.ref(env)
    gc.disable()
    try:
        del env
        assert watch() is None, "there is a cycle"
    finally:
        gc.enable()

    for component in left:
        with pytest.raises(ReferenceError, match=f"{type(component).__name__}.* is gone; .*keep"):
            _ = component.env


def test_a_component_in_two_wrappers_sees_the_one_that_calls() -> None:
    seen: list[Any] = []

    class Watching(Nearness):
        def reward(self, simulator_state: Place) -> float:
            seen.append(self.env)
            return super().reward(simulator_state)

    shared = Watching()
    combined = RewardCombination({"shared": (shared, 1.0)})
    envs = [walk_env(reward=shared), walk_env(reward=combined), walk_env(reward=shared)]
    for env in envs:
        env.reset()

    order = [0, 1, 2, 1, 0, 2]
    for number in order:
        envs[number].step(1)

    assert seen == [envs[number] for number in order]


def test_a_component_outlives_its_wrapper_in_another() -> None:
    reward = Nearness()
    walk_env(reward=reward).reset()
    later = walk_env(reward=reward)
    later.reset()

    assert later.step(2).reward == -1.0
    assert reward.env is later


@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_is_not_attached(copied: Callable[[Any], Any]) -> None:
    # A generator cannot be pickled: if the env came along, this would fail.
    env = walk_env(seed for seed in [1.0, 2.0])
    env.reset()

    for component in components(env):
        assert copied(component).env is None
        assert component.env is env


@pytest.mark.parametrize("copied", COPIES[1:])
def test_a_class_with_a_state_of_its_own_takes_no_env_along(copied: Callable[[Any], Any]) -> None:
    reward = OwnState()
    env = walk_env((seed for seed in [1.0, 2.0]), reward=reward)

    assert copied(reward).env is None
    assert reward.env is env


def test_a_copy_keeps_what_is_in_slots() -> None:
    sheet = Sheet()
    env = walk_env(reward=sheet)

    assert copy.copy(sheet).scale == 2.0
    assert copy.copy(sheet).env is None
    assert sheet.env is env


def test_an_env_can_be_given_to_a_component_by_hand() -> None:
    env, reward = walk_env(), Rightness()
    env.reset()

    reward.env = env
    reward.log("x", 1)

    assert env.logger.logs() == {"x": (20, 1.0)}
    reward.env = None
    assert reward.env is None


def test_a_frozen_dataclass_is_a_component() -> None:
    env = EnvWrapper(Walk, Scaled(), Push(), [4.0])

    assert env.reset().observation == [2.0]
    state = env.state_dict()
    env.step(2)
    env.load_state_dict(state)

    assert env.step(2).observation == [2.5]


def test_calling_an_interpreter_is_final() -> None:
    class Sly:
        def __call__(self, simulator_state: Place) -> Any:
            return None

    for bases in [(Sly, Seen), (Sly, Push)]:
        with pytest.raises(TypeError, match="Sly overrides __call__, which is final.*interpret"):
            type("Mixed", bases, {})
    with pytest.raises(
        TypeError, match="Own overrides __call__, which is final.*implement interpret"
    ):
        type("Own", (Seen,), {"__call__": Sly.__call__})
    assert issubclass(Seen, Interpreter)


def test_observations_are_checked_after_and_actions_before_they_are_interpreted() -> None:
    calls: list[str] = []

    class Eyes(Seen):
        def interpret(self, simulator_state: Place) -> Any:
            calls.append("interpret")
            return super().interpret(simulator_state)

        def validate(self, obs: Any) -> None:
            calls.append("validate")
            super().validate(obs)

    class Hands(Push):
        def interpret(self, simulator_state: Place, action: Any) -> float:
            calls.append("act")
            return super().interpret(simulator_state, action)

        def validate(self, action: Any) -> None:
            calls.append("check")
            super().validate(action)

    Eyes()(Place(1.0, 1))
    assert Hands()(Place(1.0, 1), 2) == 1.0
    with pytest.raises(SpaceValidationError, match="the action for Hands does not fit Discrete"):
        Hands()(Place(1.0, 1), 3)

    assert calls == ["interpret", "validate", "check", "act", "check"]


class Bare(ActionInterpreter[Place, Any, float]):
    def interpret(self, simulator_state: Place, action: Any) -> float:
        return 0.0


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"state_interpreter": Seen}, "state_interpreter must be a sekai.compose.StateInterpreter"),
        ({"action_interpreter": Seen()}, "action_interpreter must be a .*ActionInterpreter"),
        ({"action_interpreter": Bare()}, "action_space of Bare must be a sekai.Space"),
        ({"reward_fn": abs}, "reward_fn must be a sekai.compose.Reward"),
        ({"aux_info_collector": {}}, "aux_info_collector must be a .*AuxiliaryInfoCollector"),
        ({"logger": print}, "logger must be a sekai.compose.LogCollector"),
    ],
)
def test_a_part_of_the_wrong_kind_is_refused_at_once(parts: dict[str, Any], words: str) -> None:
    given_parts: dict[str, Any] = {"state_interpreter": Seen(), "action_interpreter": Push()}

    with pytest.raises(TypeError, match=words):
        EnvWrapper(Walk, seed_iterator=None, **{**given_parts, **parts})


def test_envs_that_share_an_interpreter_have_streams_of_their_own() -> None:
    class Fixed(Push):
        action_space = Discrete(3)

    shared = Fixed()
    first, second = (EnvWrapper(Walk, Seen(), shared, None) for _ in range(2))
    first.action_space.seed(1)
    second.action_space.seed(1)

    drawn = [first.action_space.sample() for _ in range(20)]
    assert [second.action_space.sample() for _ in range(20)] == drawn
    assert first.action_space == shared.action_space


def test_a_collector_serves_without_a_reset() -> None:
    collector = LogCollector()
    collector.add_scalar("x", 1)

    assert collector.logs() == {"x": (20, 1.0)}
