"""Evaluation carries the states of recurrent policies from step to step, and resets them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.evaluation.env_source import as_env_source
from sekai.evaluation.policy import as_policy
from sekai.evaluation.recorder import run_episodes
from sekai.evaluation.tasks import task_of
from sekai.policy.base import PolicyState
from sekai.spaces import Box, Discrete


class Dark(Env[Any, Any]):
    """Episodes of different lengths in which nothing is observed."""

    def __init__(self) -> None:
        self.observation_space = Box(0.0, 1.0, (1,), np.float32)
        self.action_space = Discrete(100)
        self._left = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> ResetResult[Any]:
        self._set_rng(seed)
        self._left = int(self.rng.integers(3, 12))
        return ResetResult(np.zeros(1, np.float32), {})

    def step(self, action: Any) -> StepResult[Any]:
        self._left -= 1
        return StepResult(np.zeros(1, np.float32), 0.0, self._left == 0, False, {})


class Counting:
    """Policy whose actions are the numbers of its steps in the episode."""

    def predict(self, observation: Any, state: Any = None, episode_start: Any = None) -> Any:
        step = 0 if state is None or bool(np.all(episode_start)) else state[0] + 1
        return step, (step,)


class CountingBatch:
    """The same policy for a batch of envs."""

    def predict_batch(self, observations: Any, state: Any = None, episode_start: Any = None) -> Any:
        before = np.full(len(observations), -1) if state is None else state[0]
        starts = np.zeros(len(before), bool) if episode_start is None else episode_start
        steps = np.where(starts, 0, before + 1)
        return steps, (steps,)


@pytest.mark.parametrize("policy", [Counting(), CountingBatch()], ids=["one env", "batch"])
def test_the_state_is_carried_through_each_episode_and_no_further(policy: Any) -> None:
    source = as_env_source(Dark)
    task, judged = task_of(source), as_policy(policy)

    for _ in range(2):
        episodes = run_episodes(judged, source, task, range(40))

        assert len({len(episode.actions) for episode in episodes}) > 3
        for episode in episodes:
            assert episode.actions.ravel().tolist() == list(range(len(episode.actions)))


def test_a_function_of_something_called_state_is_not_recurrent() -> None:
    class Named:
        def predict(self, state: Any) -> Any:
            return int(state[0]) + 3

    source = as_env_source(Dark)

    episodes = run_episodes(as_policy(Named()), source, task_of(source), [1])

    assert set(episodes[0].actions.ravel()) == {3}


def test_states_are_reset_where_an_episode_starts() -> None:
    predict = PolicyState(CountingBatch().predict_batch)
    starts = [[True, True], [False, False], [False, True], [False, False]]

    actions = [predict(np.zeros((2, 1)), starts=np.array(row)).tolist() for row in starts]

    assert actions == [[0, 0], [1, 1], [2, 0], [3, 1]]
