"""Time limit: truncate long episodes."""

from __future__ import annotations

from typing import Any

from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import Wrapper


class TimeLimit(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Wrapper that truncates an episode after `max_episode_steps` steps."""

    def __init__(self, env: Env[ObsType, ActType], max_episode_steps: int) -> None:
        super().__init__(env)
        self.max_episode_steps = checked_limit(max_episode_steps)
        self._elapsed_steps = 0

    def _map_step(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        self._elapsed_steps += 1
        if result.done:
            # An inner wrapper may start the next episode itself; count its steps from zero.
            self._elapsed_steps = 0
            return result
        if self._elapsed_steps < self.max_episode_steps:
            return result
        return StepResult(result.observation, result.reward, result.terminated, True, result.info)

    def _map_reset(self, result: ResetResult[ObsType], seed: int | None) -> ResetResult[ObsType]:
        self._elapsed_steps = 0
        return result


def checked_limit(max_episode_steps: Any) -> int:
    """Return the limit as an int, or raise `ValueError`."""
    if int(max_episode_steps) != max_episode_steps or max_episode_steps < 1:
        raise ValueError(f"max_episode_steps must be at least 1, got {max_episode_steps!r}")
    return int(max_episode_steps)
