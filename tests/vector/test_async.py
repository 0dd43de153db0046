"""Envs that wait together, and what happens when one of them fails or the wait is cancelled."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import numpy as np
import pytest

from sekai.core.result import StepResult
from sekai.error import ClosedError, ResetRequired, SekaiError, WorkerError
from sekai.vector import AsyncVecEnv
from tests.vector.worlds import Waiter


def test_a_step_takes_as_long_as_the_slowest_env() -> None:
    seconds = [0.01, 0.01, 0.2, 0.01, 0.2]
    vec = AsyncVecEnv([lambda seconds=one: Waiter(seconds) for one in seconds])  # type: ignore[misc]
    vec.reset(seed=0)

    begun = time.perf_counter()
    vec.step(np.zeros(5, np.int64))

    assert time.perf_counter() - begun < 0.35


def test_a_vector_works_inside_a_running_loop() -> None:
    async def main() -> Any:
        vec = AsyncVecEnv([Waiter] * 4)
        await vec.async_reset(seed=0)
        ticks = asyncio.create_task(_ticks(0.001))
        result = await vec.async_step(np.stack([vec.action_space.sample() * 0 for _ in range(4)]))
        ticks.cancel()
        return result, vec.step([0] * 4)

    result, blocking = asyncio.run(main())
    assert result.observations.tolist() == [[1, 1]] * 4
    assert blocking.observations.tolist() == [[2, 2]] * 4


async def _ticks(seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)


def test_the_loop_goes_on_while_envs_wait() -> None:
    async def main() -> int:
        vec = AsyncVecEnv([lambda: Waiter(0.1)] * 2)
        await vec.async_reset(seed=0)
        ticked = 0

        async def tick() -> None:
            nonlocal ticked
            while True:
                await asyncio.sleep(0.005)
                ticked += 1

        ticker = asyncio.create_task(tick())
        await vec.async_step([0, 0])
        ticker.cancel()
        return ticked

    assert asyncio.run(main()) >= 5


def test_threads_may_each_have_a_vector() -> None:
    found: dict[int, list[Any]] = {}

    def work(number: int) -> None:
        vec = AsyncVecEnv([lambda: Waiter(0.005)] * 3)
        vec.reset(seed=number)
        found[number] = [vec.step([0, 0, 0]).observations.tolist() for _ in range(3)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {n: [[[k, k]] * 3 for k in (1, 2, 3)] for n in range(4)}


def test_a_vector_does_one_thing_at_a_time() -> None:
    async def main() -> None:
        vec = AsyncVecEnv([Waiter] * 2)
        await vec.async_reset(seed=0)
        under_way = asyncio.create_task(vec.async_step([0, 0]))
        await asyncio.sleep(0.005)
        with pytest.raises(SekaiError, match="is running"):
            await vec.async_step([0, 0])
        assert (await under_way).observations.tolist() == [[1, 1]] * 2

    asyncio.run(main())


def test_a_cancelled_step_leaves_no_env_in_mid_step() -> None:
    async def main() -> None:
        vec = AsyncVecEnv([lambda: Waiter(5.0)] * 3)
        vec.set_attr("seconds", 0.0)
        await vec.async_reset(seed=0)
        vec.set_attr("seconds", 5.0)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(vec.async_step([0, 0, 0]), 0.05)
        assert vec.get_attr("begun") == vec.get_attr("ended") == [1, 1, 1]

        with pytest.raises(ResetRequired):
            await vec.async_step([0, 0, 0])
        vec.set_attr("seconds", 0.0)
        await vec.async_reset(seed=0)
        assert (await vec.async_step([0, 0, 0])).rewards.tolist() == [1, 1, 1]

    asyncio.run(main())


def test_the_others_finish_their_step_before_an_error_is_raised() -> None:
    finished: list[int] = []

    class Recording(Waiter):
        async def async_step(self, action: Any) -> StepResult[Any]:
            result = await super().async_step(action)
            finished.append(1)
            return result

    vec = AsyncVecEnv([lambda: Recording(0.0)] * 3)
    vec.reset(seed=9)
    vec.set_attr("seconds", [0.2, 0.02, 0.3], per_env=True)
    envs = vec.envs

    with pytest.raises(WorkerError, match="env 1 .*ValueError: the feed is gone") as raised:
        vec.step([0, 1, 0])

    assert len(finished) == 2
    assert isinstance(raised.value.__cause__, ValueError)
    assert (raised.value.env_index, raised.value.last_action) == (1, 1)
    assert [env.begun for env in envs] == [env.ended for env in envs] == [1, 1, 1]
    with pytest.raises(ClosedError):
        vec.step([0, 0, 0])


def test_of_several_errors_the_first_env_s_is_raised() -> None:
    vec = AsyncVecEnv([lambda: Waiter(0.0)] * 3)
    vec.reset(seed=0)
    vec.set_attr("seconds", [0.0, 0.1, 0.02], per_env=True)

    with pytest.raises(WorkerError, match="env 1 "):
        vec.step([0, 1, 1])


def test_a_step_can_be_cancelled_while_the_others_finish_after_an_error() -> None:
    async def main() -> None:
        vec = AsyncVecEnv([lambda: Waiter(0.0)] * 2)
        await vec.async_reset(seed=0)
        vec.set_attr("seconds", [0.01, 5.0], per_env=True)
        envs = vec.envs
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(vec.async_step([1, 0]), 0.1)
        assert [env.begun for env in envs] == [env.ended for env in envs] == [1, 1]
        assert len(asyncio.all_tasks()) == 1
        with pytest.raises(ResetRequired):
            await vec.async_step([0, 0])

    asyncio.run(main())


def test_an_env_that_fails_comes_back_and_the_others_finish_their_step() -> None:
    vec = AsyncVecEnv([lambda: Waiter(0.02)] * 3, on_error="restart")
    vec.reset(seed=9)
    vec.step([0, 0, 0])
    result = vec.step([0, 1, 0])

    assert result.observations.tolist() == [[2, 2], [0, 0], [2, 2]]
    assert result.truncated.tolist() == [False, True, False]
    assert result.rewards.tolist() == [1, 0, 1]
    assert result.infos[1]["final_observation"].tolist() == [1, 1]
    assert result.infos[1]["restart"].reason == "ValueError: the feed is gone"
    assert vec.step([0, 0, 0]).observations.tolist() == [[3, 3], [1, 1], [3, 3]]


@pytest.mark.parametrize("on_error", ["raise", "restart"])
def test_an_env_that_takes_too_long_fails(on_error: Any) -> None:
    vec = AsyncVecEnv([lambda: Waiter(0.0)] * 2, on_error=on_error, step_timeout=0.1)
    vec.reset(seed=0)
    vec.set_attr("seconds", [0.0, 5.0], per_env=True)

    if on_error == "raise":
        with pytest.raises(WorkerError, match=r"env 1 .*no result within 0.1 seconds"):
            vec.step([0, 0])
    else:
        result = vec.step([0, 0])
        assert result.truncated.tolist() == [False, True]
        assert "0.1 seconds" in result.infos[1]["restart"].reason


def test_envs_with_sync_methods_work_too() -> None:
    class Sync(Waiter):
        def step(self, action: Any) -> StepResult[Any]:
            return StepResult(np.ones(2), 2.0, False, False, {})

    vec = AsyncVecEnv([Sync] * 2)
    vec.reset(seed=0)

    assert vec.step([0, 0]).rewards.tolist() == [2, 2]
