"""Autoreset of a single env."""

from __future__ import annotations

import copy

from sekai.core.autoreset import autoreset_result, has_autoreset
from sekai.core.env import ActType, ObsType
from sekai.core.result import StepResult
from sekai.core.wrapper import Wrapper


class AutoReset(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Wrapper that resets the env when an episode ends and returns the next first observation.

    The final step keeps its reward, flags and info entries (`info["episode"]`), except those that
    the reset sets too; the last observation and the info of the finished episode are in
    `info["final_observation"]` and `info["final_info"]`.
    """

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Apply an action; if the episode ends, start the next."""
        result = self.env.step(action)
        if not result.done or has_autoreset(result):
            return result
        # The reset may overwrite the array of the last observation.
        final = copy.deepcopy(result.observation)
        return autoreset_result(result, final, self.env.reset())

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """Apply an action without blocking the event loop; if the episode ends, start the next."""
        result = await self.env.async_step(action)
        if not result.done or has_autoreset(result):
            return result
        final = copy.deepcopy(result.observation)
        return autoreset_result(result, final, await self.env.async_reset())
