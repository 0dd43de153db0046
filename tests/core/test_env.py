from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import ResetResult, StepResult
from sekai.core.sync_async import run_coroutine
from sekai.error import SekaiError
from tests.worlds import AsyncRandomWalk, Duel, RandomWalk

ACTION = np.zeros(2, dtype=np.float32)


def test_an_env_without_step_cannot_be_made() -> None:
    class NoStep(Env[int, int]):
        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> ResetResult[int]:
            return ResetResult(0, {})

    with pytest.raises(TypeError, match="abstract.*step"):
        NoStep()


def test_a_multi_agent_env_without_methods_cannot_be_made() -> None:
    class Nothing(MultiAgentEnv):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Nothing()


def test_an_async_env_is_complete_without_sync_methods() -> None:
    sync, by_async = RandomWalk(), AsyncRandomWalk()

    assert sync.reset(seed=3) == by_async.reset(seed=3)
    assert [sync.step(ACTION) for _ in range(5)] == [by_async.step(ACTION) for _ in range(5)]


def test_a_sync_env_is_complete_without_async_methods() -> None:
    async def episode(env: RandomWalk) -> list[StepResult[Any]]:
        await env.async_reset(seed=3)
        return [await env.async_step(ACTION) for _ in range(5)]

    expected = RandomWalk()
    expected.reset(seed=3)
    assert asyncio.run(episode(RandomWalk())) == [expected.step(ACTION) for _ in range(5)]


def test_sync_methods_of_an_async_env_work_inside_a_running_loop() -> None:
    async def main() -> ResetResult[Any]:
        return AsyncRandomWalk().reset(seed=1)

    assert asyncio.run(main()) == RandomWalk().reset(seed=1)


def test_a_sync_call_on_the_background_loop_is_refused_instead_of_waiting_for_itself() -> None:
    async def nested() -> None:
        AsyncRandomWalk().reset(seed=1)

    with pytest.raises(SekaiError, match="await env.async_step"):
        run_coroutine(nested())


def test_an_error_inside_an_async_env_reaches_the_sync_caller() -> None:
    class Failing(AsyncRandomWalk):
        async def async_step(self, action: Any) -> StepResult[Any]:
            raise ConnectionError("feed lost")

    env = Failing()
    env.reset(seed=0)

    with pytest.raises(ConnectionError, match="feed lost"):
        env.step(ACTION)


def test_a_subclass_that_overrides_step_has_an_async_twin_that_follows() -> None:
    class Doubled(AsyncRandomWalk):
        def step(self, action: Any) -> StepResult[Any]:
            result = super().step(action)
            return StepResult(
                result.observation,
                2 * result.reward,
                result.terminated,
                result.truncated,
                result.info,
            )

    async def one_step(env: Env[Any, Any]) -> StepResult[Any]:
        await env.async_reset(seed=4)
        return await env.async_step(ACTION)

    plain = asyncio.run(one_step(AsyncRandomWalk()))
    doubled = asyncio.run(one_step(Doubled()))
    assert doubled.reward == 2 * plain.reward


def test_a_mixin_that_overrides_step_decides_for_both_paths() -> None:
    class Free:
        def step(self, action: Any) -> StepResult[Any]:
            return StepResult(np.zeros(2, np.float32), 7.0, False, False, {})

    class Mixed(Free, RandomWalk):
        pass

    assert asyncio.run(Mixed().async_step(ACTION)).reward == 7.0


def test_the_same_seed_begins_the_same_stream() -> None:
    first, second = RandomWalk(), RandomWalk()

    assert first._set_rng(5) == 5
    assert first.reset(seed=5) == second.reset(seed=5)
    assert first.reset(seed=5) != first.reset(seed=6)


def test_no_seed_continues_the_current_stream() -> None:
    env, twin = RandomWalk(), RandomWalk()
    env.reset(seed=5)
    twin.reset(seed=5)

    assert env.reset() == twin.reset()
    assert env._set_rng(None) == 5


def test_the_first_unseeded_stream_comes_from_the_operating_system() -> None:
    first, second = RandomWalk(), RandomWalk()

    assert first.reset() != second.reset()
    assert first._rng_seed != second._rng_seed


def test_the_seed_in_use_replays_an_unseeded_episode() -> None:
    env = RandomWalk()
    seed = env._set_rng(None)
    drawn = env.rng.normal(size=3)

    env._set_rng(seed)

    assert np.array_equal(env.rng.normal(size=3), drawn)


@pytest.mark.parametrize("seed", [-1, 1.5, "a", True])
def test_a_bad_seed_is_refused(seed: Any) -> None:
    env = RandomWalk()
    with pytest.raises(ValueError, match=f"seed must be .* got {seed!r}"):
        env.reset(seed=seed)
    assert env._rng is None


def test_leaving_the_context_closes_the_env() -> None:
    class Closing(RandomWalk):
        closed = False

        def close(self) -> None:
            self.closed = True

    with Closing() as env:
        assert not env.closed
    assert env.closed


def test_an_env_is_its_own_only_layer() -> None:
    env, duel = RandomWalk(), Duel()

    assert env.unwrapped is env
    assert list(env) == [env]
    assert list(duel) == [duel]
    assert repr(env) == "<RandomWalk>"
    assert repr(duel) == "<Duel>"
