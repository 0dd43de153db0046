"""Laws that hold for any stack of wrappers: sync = async, and a restored stack continues."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.spaces import Box
from sekai.wrappers import (
    ActionMask,
    AutoReset,
    ClipAction,
    DelayAction,
    DelayObservation,
    FlattenObservation,
    FrameStackObservation,
    NormalizeObservation,
    NormalizeReward,
    OrderEnforcing,
    RecordEpisodeStatistics,
    RescaleAction,
    TimeLimit,
    TransformObservation,
    TransformReward,
    ValidateAction,
)
from tests.worlds import AsyncRandomWalk, Market, RandomWalk

AnyEnv = Env[Any, Any]
Layer = Callable[[AnyEnv], AnyEnv]


def halved(reward: float) -> float:
    return reward / 2


def reversed_rows(observation: Any) -> Any:
    return observation[::-1].copy()


def rescaled(env: AnyEnv) -> AnyEnv:
    space = env.action_space
    bounded = isinstance(space, Box) and space.is_bounded == (True, True)
    return RescaleAction(env, -2.0, 3.0) if bounded else env


LAYERS: dict[str, Layer] = {
    "limit": lambda env: TimeLimit(env, 7),
    "statistics": RecordEpisodeStatistics,
    "observation": NormalizeObservation,
    "reward": NormalizeReward,
    "flatten": FlattenObservation,
    "stack": lambda env: FrameStackObservation(env, 3),
    "clip": ClipAction,
    "rescale": rescaled,
    "transform observation": lambda env: TransformObservation(env, reversed_rows),
    "transform reward": lambda env: TransformReward(env, halved),
    "order": OrderEnforcing,
    "validate": ValidateAction,
    "late observation": lambda env: DelayObservation(env, 2),
    "late action": lambda env: DelayAction(env, 2),
    "reset": AutoReset,
}

stacks = st.lists(st.sampled_from(sorted(LAYERS)), max_size=6)


def build(base: AnyEnv, names: list[str]) -> AnyEnv:
    for name in names:
        base = LAYERS[name](base)
    return base


def without_times(value: Any) -> Any:
    """Episode statistics hold wall-clock seconds, which no two runs share."""
    if isinstance(value, (StepResult, ResetResult)):
        return type(value)(*(without_times(getattr(value, f)) for f in type(value).__match_args__))
    if isinstance(value, dict):
        return {key: without_times(part) for key, part in value.items()}
    if hasattr(value, "elapsed_time"):
        return (value.episode_return, value.episode_length, value.terminated, value.truncated)
    return value


def is_over(result: StepResult[Any]) -> bool:
    """Return True if a reset is needed: no wrapper has started the next episode."""
    return result.done and "final_observation" not in result.info


def play(env: AnyEnv, steps: int, seed: int | None = None) -> list[Any]:
    results: list[Any] = [env.reset(seed=seed)] if seed is not None else []
    for _ in range(steps):
        results.append(env.step(env.action_space.sample()))
        if is_over(results[-1]):
            results.append(env.reset())
    return [without_times(result) for result in results]


async def play_async(env: AnyEnv, steps: int, seed: int) -> list[Any]:
    results: list[Any] = [await env.async_reset(seed=seed)]
    for _ in range(steps):
        results.append(await env.async_step(env.action_space.sample()))
        if is_over(results[-1]):
            results.append(await env.async_reset())
    return [without_times(result) for result in results]


@given(names=stacks, seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_an_async_env_in_any_stack_behaves_as_its_sync_twin(names: list[str], seed: int) -> None:
    sync, by_async = build(RandomWalk(), names), build(AsyncRandomWalk(), names)
    for env in (sync, by_async):
        env.action_space.seed(seed)

    assert asyncio.run(play_async(by_async, 20, seed)) == play(sync, 20, seed)


@given(names=stacks, seed=st.integers(0, 2**32), cut=st.integers(0, 15))
@settings(max_examples=60, deadline=None)
def test_any_stack_restored_in_mid_episode_continues_bit_for_bit(
    names: list[str], seed: int, cut: int
) -> None:
    env = build(RandomWalk(), names)
    env.action_space.seed(seed)
    play(env, cut, seed)
    state = env.state_dict()
    expected = play(env, 12)

    env.load_state_dict(state)
    fresh = build(RandomWalk(), names)
    fresh.load_state_dict(pickle.loads(pickle.dumps(state)))

    assert play(env, 12) == expected
    assert play(fresh, 12) == expected


@given(names=stacks, seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_the_same_seed_gives_the_same_episode_and_another_seed_another(
    names: list[str], seed: int
) -> None:
    first, second, other = (build(RandomWalk(), names) for _ in range(3))
    for env in (first, second, other):
        env.action_space.seed(seed)

    episode = play(first, 6, seed)

    assert play(second, 6, seed) == episode
    assert play(other, 6, seed + 1) != episode


def test_a_mask_is_the_same_on_both_paths_and_after_a_restore() -> None:
    def make() -> AnyEnv:
        return ActionMask(TimeLimit(Market(), 9))

    async def episode(env: AnyEnv) -> list[Any]:
        first = await env.async_reset(seed=1)
        return [first, *[await env.async_step(np.intp(action)) for action in (2, 0, 2, 1)]]

    env = make()
    expected: list[Any] = [env.reset(seed=1), env.step(2)]
    state = env.state_dict()
    rest = [env.step(action) for action in (0, 2, 1)]
    env.load_state_dict(state)

    assert [env.step(action) for action in (0, 2, 1)] == rest
    assert asyncio.run(episode(make())) == expected + rest


class OnTheCallersLoop(AsyncRandomWalk):
    """Fails unless it is awaited on the loop of the test itself."""

    async def async_step(self, action: Any) -> StepResult[Any]:
        assert asyncio.current_task() is not None
        assert threading.current_thread() is threading.main_thread()
        return await super().async_step(action)


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_a_layer_and_its_subclasses_await_the_env_instead_of_blocking(name: str) -> None:
    async def one_step(env: AnyEnv) -> None:
        await env.async_reset(seed=1)
        await env.async_step(env.action_space.sample())

    env = LAYERS[name](OnTheCallersLoop())
    asyncio.run(one_step(env))

    env.__class__ = type("Derived", (type(env),), {})
    asyncio.run(one_step(env))
    assert type(env).__name__ == "Derived"
