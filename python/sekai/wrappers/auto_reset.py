"""Begin the next episode as soon as one ends."""

from __future__ import annotations

import copy

from sekai.core.autoreset import has_reset_itself, joined
from sekai.core.env import ActType, ObsType
from sekai.core.result import StepResult
from sekai.core.wrapper import Wrapper

__all__ = ["AutoReset"]


class AutoReset(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Resets when an episode ends and shows the first observation of the next one.

    The step that ended the episode keeps its reward, its flags and what its info said
    (`info["episode"]`), except where the reset says otherwise; the last observation and the whole
    info of the finished episode are in `info["final_observation"]` and `info["final_info"]`.
    """

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Act once; if that ends the episode, begin the next."""
        result = self.env.step(action)
        if not result.done or has_reset_itself(result):
            return result
        # The reset may write into the array that the env has shown.
        final = copy.deepcopy(result.observation)
        return joined(result, final, self.env.reset())

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """Act once; if that ends the episode, begin the next."""
        result = await self.env.async_step(action)
        if not result.done or has_reset_itself(result):
            return result
        final = copy.deepcopy(result.observation)
        return joined(result, final, await self.env.async_reset())
