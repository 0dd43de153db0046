"""Autoreset: start of the next episode in each of the three modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.core.result import ResetResult, StepResult, equal_values
from sekai.error import ResetRequired
from sekai.vector import (
    NormalizeVecReward,
    RecordVecEpisodeStatistics,
    SyncVecEnv,
    VecEnv,
    VecObservationWrapper,
    env_seed,
    stack_infos,
)
from sekai.wrappers import AutoReset, RecordEpisodeStatistics
from tests.vector.worlds import ALL_BACKENDS, Drifter, Scripted, actions_for, build

pytestmark = pytest.mark.parametrize("backend", ALL_BACKENDS)


def steps_of(vec: VecEnv, count: int) -> list[Any]:
    return [vec.step(np.zeros(vec.num_envs, np.int64)) for _ in range(count)]


def test_same_step_shows_the_next_episode_and_keeps_the_last_observation(backend: str) -> None:
    with build(backend, [lambda: Scripted(3)] * 2) as vec:
        vec.reset(seed=0)
        results = steps_of(vec, 4)

    assert [result.observations[0].tolist() for result in results] == [
        [0, 1],
        [0, 2],
        [1, 0],
        [1, 1],
    ]
    assert [result.rewards[0] for result in results] == [1, 2, 3, 1]
    assert [bool(result.terminated[0]) for result in results] == [False, False, True, False]
    ended = results[2].infos[0]
    assert ended["final_observation"].tolist() == [0, 3]
    assert ended["final_info"] == {"step": 3.0}
    assert ended["first"] is True
    assert "final_observation" not in results[3].infos[0]


def test_next_step_shows_the_end_and_spends_a_step_on_the_beginning(backend: str) -> None:
    with build(backend, [lambda: Scripted(2)] * 2, autoreset="next_step") as vec:
        vec.reset(seed=0)
        results = steps_of(vec, 4)

    assert [result.observations[1].tolist() for result in results] == [
        [0, 1],
        [0, 2],
        [1, 0],
        [1, 1],
    ]
    assert [result.rewards[1] for result in results] == [1, 2, 0, 1]
    assert [bool(result.dones[1]) for result in results] == [False, True, False, False]
    assert results[2].infos[1] == {"first": True}
    assert all("final_observation" not in result.infos[1] for result in results)


def test_disabled_leaves_resetting_to_the_caller(backend: str) -> None:
    lengths = [lambda: Scripted(2), lambda: Scripted(9), lambda: Scripted(2)]
    with build(backend, lengths, autoreset="disabled") as vec:
        vec.reset(seed=0)
        ended = steps_of(vec, 2)[-1]
        assert ended.observations[:, 1].tolist() == [2, 2, 2]
        assert ended.dones.tolist() == [True, False, True]

        with pytest.raises(ResetRequired, match=r"envs \[0, 2\] are over"):
            vec.step(np.zeros(3, np.int64))
        vec.reset(ids=[0])
        with pytest.raises(ResetRequired, match=r"envs \[2\] are over"):
            vec.step(np.zeros(3, np.int64))
        again = vec.reset(ids=ended.dones)
        assert again.observations.tolist() == [[2, 0], [1, 0]]

        assert vec.step(np.zeros(3, np.int64)).observations[:, 1].tolist() == [1, 3, 1]


def test_a_reset_forgets_that_an_episode_was_over(backend: str) -> None:
    with build(backend, [lambda: Scripted(1)] * 2, autoreset="next_step") as vec:
        vec.reset(seed=0)
        assert vec.step([0, 0]).dones.all()
        vec.reset(ids=[1])
        result = vec.step([0, 0])

    assert result.rewards.tolist() == [0, 1]


def transitions_of(backend: str, mode: Any, num_envs: int, length: int) -> list[list[Any]]:
    """For each env its transitions (before, action, reward, after, terminated, truncated)."""
    found: list[list[Any]] = [[] for _ in range(num_envs)]
    with build(backend, [lambda: Drifter("box", "box", 3)] * num_envs, autoreset=mode) as vec:
        before = vec.reset(seed=4).observations
        plans = [iter(rows) for rows in zip(*actions_for(vec, length, seed=1), strict=True)]
        waits = np.zeros(num_envs, bool)
        idle = np.zeros(4, np.float32)
        while min(map(len, found)) < length - 5:
            acts = [idle if wait else next(plan) for wait, plan in zip(waits, plans, strict=True)]
            result = vec.step(acts)
            after = result.observations
            for i in np.flatnonzero(~waits).tolist():
                last = result.infos[i].get("final_observation", after[i])
                flags = (result.terminated[i], result.truncated[i])
                found[i].append((before[i], acts[i], result.rewards[i], last, *flags))
            waits = result.dones if mode == "next_step" else waits
            if mode == "disabled" and result.dones.any():
                after = after.copy()
                after[result.dones] = vec.reset(ids=result.dones).observations
            before = after
    return [rows[: length - 5] for rows in found]


def scalar_transitions(num_envs: int, length: int) -> list[list[Any]]:
    found: list[list[Any]] = []
    vec = SyncVecEnv([lambda: Drifter("box", "box", 3)] * num_envs)
    plans = actions_for(vec, length, seed=1)
    for index in range(num_envs):
        env = Drifter("box", "box", 3)
        before = env.reset(seed=env_seed(4, index)).observation
        rows = []
        for plan in plans[: length - 5]:
            result = env.step(plan[index])
            flags = (result.terminated, result.truncated)
            rows.append((before, plan[index], result.reward, result.observation, *flags))
            before = env.reset().observation if result.done else result.observation
        found.append(rows)
    return found


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
def test_every_mode_sees_the_transitions_of_the_single_env(backend: str, mode: str) -> None:
    seen = transitions_of(backend, mode, 3, 40)

    assert equal_values(_plain(seen), _plain(scalar_transitions(3, 40)))


def _plain(rows: list[list[Any]]) -> list[Any]:
    return [[[np.asarray(part).tolist() for part in row] for row in env] for env in rows]


def test_the_finishing_step_s_info_stands_beside_the_next_observation(backend: str) -> None:
    with build(backend, [lambda: RecordEpisodeStatistics(Scripted(3))] * 2) as vec:
        vec.reset(seed=0)
        ended = steps_of(vec, 3)[-1].infos[1]

    assert ended["episode"].episode_return == 6.0
    assert ended["episode"] == ended["final_info"]["episode"]
    assert ended["step"] == ended["final_info"]["step"] == 3.0
    assert ended["first"] is True
    assert set(ended["final_info"]) == {"step", "episode"}


def test_what_the_reset_says_wins_and_masks_are_those_of_the_observation(backend: str) -> None:
    with build(backend, [lambda: Masked(2), lambda: Masked(2, masks_reset=False)]) as vec:
        vec.reset(seed=0)
        ended = steps_of(vec, 2)[-1].infos

    assert [info["moment"] for info in ended] == ["reset", "reset"]
    assert [info["final_info"]["moment"] for info in ended] == ["step", "step"]
    assert ended[0]["action_mask"].tolist() == [1, 1]
    assert "action_mask" not in ended[1]
    assert ended[1]["final_info"]["action_mask"].tolist() == [0, 1]


def test_columns_and_stacks_hold_the_finishing_step_s_info(backend: str) -> None:
    with build(backend, [lambda: Scripted(2), lambda: Scripted(3)]) as vec:
        vec.reset(seed=0)
        infos: Any = steps_of(vec, 2)[-1].infos
        stacked = stack_infos(infos)

    assert stacked["step"].tolist() == [2.0, 2.0]
    assert infos.column("step").indices.tolist() == [0, 1]
    assert infos.column("first").indices.tolist() == [0]
    assert infos.value(0, "step") == 2.0


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_an_env_that_reset_itself_is_not_reset_again(backend: str, mode: Any) -> None:
    with build(backend, [lambda: AutoReset(Scripted(2))] * 2, autoreset=mode) as vec:
        vec.reset(seed=0)
        results = steps_of(vec, 5)

    shown = [result.observations[0].tolist() for result in results]
    assert shown == [[0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
    assert [result.rewards[0] for result in results] == [1, 2, 1, 2, 1]
    assert [bool(result.dones[0]) for result in results] == [False, True, False, True, False]
    assert results[1].infos[0]["final_observation"].tolist() == [0, 2]
    assert results[1].infos[0]["final_info"] == {"step": 2.0}
    assert (results[1].infos[0]["first"], results[1].infos[0]["step"]) == (True, 2.0)


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_layers_of_the_vector_follow_an_env_that_resets_itself(backend: str, mode: Any) -> None:
    class Doubled(VecObservationWrapper):
        def observation(self, obs: Any) -> Any:
            return 2 * obs

    inner = build(backend, [lambda: AutoReset(Scripted(2))] * 2, autoreset=mode)
    with Doubled(RecordVecEpisodeStatistics(NormalizeVecReward(inner))) as vec:
        vec.reset(seed=0)
        results = steps_of(vec, 4)

    assert results[1].infos[0]["final_observation"].tolist() == [0, 4]
    assert [results[k].infos[1]["episode"].episode_length for k in (1, 3)] == [2, 2]
    assert all(results[k].rewards[1] > 0 for k in range(4))


class Masked(Scripted):
    """Shows a mask with each step and, if asked to, with each reset."""

    def __init__(self, length: int, masks_reset: bool = True) -> None:
        super().__init__(length)
        self.masks_reset = masks_reset

    def reset(self, **arguments: Any) -> ResetResult[Any]:
        first = super().reset(**arguments)
        mask = {"action_mask": np.array([1, 1], np.int8)} if self.masks_reset else {}
        return ResetResult(first.observation, {"moment": "reset", **mask})

    def step(self, action: Any) -> StepResult[Any]:
        result = super().step(action)
        info = {"moment": "step", "action_mask": np.array([0, 1], np.int8)}
        return StepResult(result.observation, result.reward, result.terminated, False, info)
