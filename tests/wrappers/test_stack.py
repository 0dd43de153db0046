from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from sekai.core.env import Env
from sekai.core.result import StepResult
from sekai.core.wrapper import ActionWrapper, ObservationWrapper, RewardWrapper, Wrapper
from sekai.error import StateError
from sekai.spaces import Box
from sekai.wrappers import NormalizeObservation, RecordEpisodeStatistics, TimeLimit
from tests.worlds import RandomWalk

ACTION = np.zeros(2, dtype=np.float32)


def stack() -> Wrapper[Any, Any, Any, Any]:
    return NormalizeObservation(RecordEpisodeStatistics(TimeLimit(RandomWalk(), 9)))


def test_a_stack_lists_its_layers_from_the_outside_in() -> None:
    env = stack()

    layers = [type(layer) for layer in env]

    assert layers == [NormalizeObservation, RecordEpisodeStatistics, TimeLimit, RandomWalk]
    assert repr(list(env)[1]) == "<RecordEpisodeStatistics(<TimeLimit(<RandomWalk>)>)>"
    assert env.unwrapped is list(env)[-1]


def test_attributes_are_found_through_the_stack() -> None:
    env = stack()

    assert env.get_attr("noise") == 0.5
    assert env.get_attr("max_episode_steps") == 9
    assert env.has_attr("noise")
    assert not env.has_attr("velocity")
    with pytest.raises(AttributeError, match="<NormalizeObservation.*'velocity'"):
        env.get_attr("velocity")


def test_a_setting_reaches_the_layer_that_owns_it() -> None:
    env = stack()

    env.set_attr("max_episode_steps", 3)
    env.set_attr("noise", 0.0)
    env.set_attr("invented", 1)

    assert list(env)[2].max_episode_steps == 3
    assert vars(env.unwrapped)["noise"] == 0.0
    assert vars(env.unwrapped)["invented"] == 1


def test_the_rng_of_a_stack_is_that_of_its_env() -> None:
    env = stack()

    assert env.rng is env.unwrapped.rng


def test_only_an_env_can_be_wrapped() -> None:
    with pytest.raises(TypeError, match="TimeLimit expected a sekai.Env, got 5"):
        TimeLimit(5, 10)  # type: ignore[arg-type]


def test_closing_a_stack_closes_the_env() -> None:
    class Closing(RandomWalk):
        closed = False

        def close(self) -> None:
            self.closed = True

    with TimeLimit(Closing(), 5) as env:
        pass

    assert env.get_attr("closed")


def test_a_custom_observation_wrapper_states_its_space_and_function() -> None:
    class Doubled(ObservationWrapper[Any, Any, Any]):
        def __init__(self, env: Env[Any, Any]) -> None:
            super().__init__(env)
            self.observation_space = Box(-9, 9, shape=(2,))

        def observation(self, obs: Any) -> Any:
            return obs * 2

    plain, doubled = RandomWalk(), Doubled(RandomWalk())

    assert np.array_equal(doubled.reset(seed=1).observation, plain.reset(seed=1).observation * 2)
    assert doubled.observation_space == Box(-9, 9, shape=(2,))
    assert doubled.action_space is doubled.env.action_space


def test_a_custom_reward_wrapper_keeps_its_history_in_the_state() -> None:
    class Summed(RewardWrapper[Any, Any]):
        def __init__(self, env: Env[Any, Any]) -> None:
            super().__init__(env)
            self._rewards: list[float] = []

        def reward(self, reward: float) -> float:
            self._rewards.append(reward)
            return sum(self._rewards)

    env = Summed(RandomWalk())
    env.reset(seed=1)
    env.step(ACTION)
    state = env.state_dict()
    expected = env.step(ACTION)

    env.load_state_dict(state)

    assert env.step(ACTION) == expected


def test_a_custom_action_wrapper_maps_both_ways() -> None:
    class Scaled(ActionWrapper[Any, Any, Any]):
        def action(self, action: Any) -> Any:
            return (action * 0.5).astype(np.float32)

        def reverse_action(self, action: Any) -> Any:
            return (action / 0.5).astype(np.float32)

    env, plain = Scaled(RandomWalk()), RandomWalk()
    env.reset(seed=1)
    plain.reset(seed=1)

    assert env.step(ACTION + 1) == plain.step(ACTION + np.float32(0.5))
    assert np.array_equal(env.reverse_action(env.action(ACTION + 1)), ACTION + 1)


@pytest.mark.parametrize(
    ("kind", "hook"),
    [(ObservationWrapper, "observation"), (RewardWrapper, "reward"), (ActionWrapper, "action")],
)
def test_a_wrapper_that_lacks_its_function_says_which(kind: Any, hook: str) -> None:
    with pytest.raises(NotImplementedError, match=f"must define {hook}"):
        play_one_step(kind(RandomWalk()))


def play_one_step(env: Env[Any, Any]) -> None:
    env.reset(seed=0)
    env.step(ACTION)


def test_a_wrapper_that_overrides_step_alone_has_its_async_path_follow() -> None:
    class Generous(Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> StepResult[Any]:
            result = self.env.step(action)
            return StepResult(result.observation, 1.0, False, False, result.info)

    async def one_step() -> StepResult[Any]:
        env = TimeLimit(Generous(RandomWalk()), 5)
        await env.async_reset(seed=1)
        return await env.async_step(ACTION)

    assert asyncio.run(one_step()).reward == 1.0


def test_a_state_of_another_stack_is_refused_and_changes_nothing() -> None:
    env = TimeLimit(RandomWalk(), 9)
    env.reset(seed=1)
    env.step(ACTION)
    before = env.state_dict()

    with pytest.raises(StateError, match="with the keys 'layer' and 'env'"):
        env.load_state_dict(RandomWalk().state_dict())
    with pytest.raises(StateError, match="expected a state of TimeLimit"):
        env.load_state_dict(RecordEpisodeStatistics(RandomWalk()).state_dict())
    broken = {**before, "env": {}}
    broken["layer"] = {**before["layer"], "values": {"max_episode_steps": 9, "_elapsed_steps": 8}}
    with pytest.raises(StateError, match="lacks the keys"):
        env.load_state_dict(broken)

    assert env.state_dict()["layer"] == before["layer"]
