"""Storage of a rollout: envs write into it, and cut-off episodes keep their last observation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import sekai
from sekai.spaces import Box
from sekai.training.actions import ActionMap
from sekai.training.learner import next_values
from sekai.training.rollout import RolloutBuffer
from sekai.vector import SyncVecEnv
from sekai.vector.vec_env import VecEnv
from tests.training.optima.batch import vector
from tests.training.optima.chain import Chain


class Walk(sekai.Env[Any, Any]):
    """See how many steps there were; episodes of 3 steps end, or are cut off."""

    def __init__(self, ends: bool) -> None:
        self.ends = ends
        self.observation_space = Box(0.0, 10.0, (1,), np.float32)
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.clock = 0
        return sekai.ResetResult(np.zeros(1, np.float32), {})

    def step(self, action: Any) -> Any:
        self.clock += 1
        over = self.clock == 3
        seen = np.array([self.clock], np.float32)
        return sekai.StepResult(seen, 1.0, over and self.ends, over and not self.ends, {})


def _rollout(vec: VecEnv, steps: int) -> RolloutBuffer:
    rollout = RolloutBuffer(vec, ActionMap(vec.action_space), steps)
    rollout.begin(0)
    return rollout


def _still(seen: dict[str, Tensor]) -> Tensor:
    return torch.zeros(len(seen["observation"]), 1)


def test_native_envs_write_into_the_storage_itself() -> None:
    vec = vector(Chain(3, ends=False, episode_steps=4))
    rollout = _rollout(vec, 6)
    before = rollout.observations()["observation"]
    written: list[Any] = []

    rollout.fill(_still, lambda result, step: written.append((result, step)))

    assert [step for _, step in written] == list(range(6))
    for result, step in written:
        assert np.shares_memory(result.rewards, rollout.rewards[step])
        assert np.shares_memory(result.observations, before[step + 1].numpy())
    clocks = np.array([0, 1, 2, 3, 0, 1, 2]) / 4
    assert np.allclose(before[:, :, 0].numpy(), clocks[:, None])


def test_the_next_rollout_begins_where_the_last_one_ended() -> None:
    vec = vector(Chain(2, ends=False, episode_steps=10))
    rollout = _rollout(vec, 3)

    rollout.fill(_still)
    rollout.fill(_still)

    seen = rollout.observations()["observation"][:, 0, 0]
    assert np.allclose(seen.numpy(), [0.3, 0.4, 0.5, 0.6])


def test_cut_off_episodes_are_followed_by_their_own_last_observation() -> None:
    for vec in (SyncVecEnv([lambda: Walk(False)] * 2), vector(Chain(2, False, 3))):
        rollout = _rollout(vec, 5)
        rollout.fill(_still)
        last = 3.0 if isinstance(vec, SyncVecEnv) else 1.0
        judged: list[Tensor] = []

        def judge(finals: dict[str, Tensor], judged: list[Tensor] = judged) -> Tensor:
            judged.append(finals["observation"])
            return 100.0 + finals["observation"]

        values = rollout.observations()["observation"][:, :, 0].clone()
        after = next_values(rollout.cuts, values, judge)

        assert torch.equal(judged[0], torch.full((2, 1), last))
        assert torch.equal(after[2], torch.full((2,), 100.0 + last))
        others = [0, 1, 3, 4]
        assert torch.equal(after[others], values[1:][others])


def test_nothing_follows_an_end() -> None:
    vec = SyncVecEnv([lambda: Walk(True)])
    rollout = _rollout(vec, 4)

    rollout.fill(_still)

    assert rollout.terminated[:, 0].tolist() == [False, False, True, False]
    assert not rollout.truncated.any()
    values = torch.zeros(5, 1)
    assert torch.equal(next_values(rollout.cuts, values, _never), values[1:])


def test_finals_of_the_rollout_before_are_forgotten() -> None:
    vec = vector(Chain(1, False, 3))
    rollout = _rollout(vec, 3)
    rollout.fill(_still)
    rollout.vec.reset(seed=0)
    short = RolloutBuffer(vec, ActionMap(vec.action_space), 2)
    short.begin(0)

    short.fill(_still)

    assert torch.equal(next_values(short.cuts, torch.zeros(3, 1), _never), torch.zeros(2, 1))


def test_a_saved_state_is_where_the_next_rollout_begins() -> None:
    vec = vector(Chain(2, False, 10))
    rollout = _rollout(vec, 3)
    rollout.fill(_still)
    state = rollout.state()
    other = _rollout(vector(Chain(2, False, 10)), 3)

    other.load_state(state)

    assert np.allclose(other.state()["seen"], 0.3)


def _never(finals: dict[str, Tensor]) -> Tensor:
    raise AssertionError(f"nothing was cut off, found {finals}")
