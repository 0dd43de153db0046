"""Begin the next episode as soon as one ends."""

from __future__ import annotations

from sekai.core.env import ActType, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import Wrapper

__all__ = ["AutoReset"]


class AutoReset(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Resets when an episode ends and shows the first observation of the next one.

    The step that ended the episode keeps its reward and flags; the last observation and info of
    the finished episode are in `info["final_observation"]` and `info["final_info"]`.
    """

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Act once; if that ends the episode, begin the next."""
        result = self.env.step(action)
        return _joined(result, self.env.reset()) if result.done else result

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """Act once; if that ends the episode, begin the next."""
        result = await self.env.async_step(action)
        return _joined(result, await self.env.async_reset()) if result.done else result


def _joined(last: StepResult[ObsType], first: ResetResult[ObsType]) -> StepResult[ObsType]:
    info = {**first.info, "final_observation": last.observation, "final_info": last.info}
    return StepResult(first.observation, last.reward, last.terminated, last.truncated, info)
