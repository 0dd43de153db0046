"""Show which actions are allowed now, and refuse the others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import Wrapper
from sekai.error import InvalidActionError
from sekai.spaces.masks import allows

__all__ = ["ActionMask"]


class ActionMask(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Puts the mask of allowed actions into `info["action_mask"]` and holds the agent to it.

    The mask comes from `mask_of(env)` if given, else from the env's own `action_mask()`. It has
    the form that `action_space.sample(mask=...)` takes. A masked action raises
    `InvalidActionError` and nothing has moved.
    """

    masks_actions = True
    """For learners to ask: `env.has_attr("masks_actions")`."""

    def __init__(
        self, env: Env[ObsType, ActType], mask_of: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(env)
        if mask_of is None and not env.has_attr("action_mask"):
            raise TypeError(
                f"ActionMask needs mask_of=..., or an env with a method action_mask(); "
                f"{env.unwrapped!r} has none"
            )
        self._mask_of = mask_of
        self._mask: Any = None

    def action_mask(self) -> Any:
        """The mask in force, in the form that `action_space.sample(mask=...)` takes."""
        if self._mask_of is not None:
            return self._mask_of(self.env)
        return self.env.get_attr("action_mask")()

    def _map_action(self, action: ActType) -> ActType:
        if self._mask is not None and not allows(self.action_space, self._mask, action):
            raise InvalidActionError(
                f"an action that the mask {self._mask!r} allows was wanted, found {action!r}"
            )
        return action

    def _map_step(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        info = self._masked(result.info)
        return StepResult(
            result.observation, result.reward, result.terminated, result.truncated, info
        )

    def _map_reset(self, result: ResetResult[ObsType], seed: int | None) -> ResetResult[ObsType]:
        return ResetResult(result.observation, self._masked(result.info))

    def _masked(self, info: dict[str, Any]) -> dict[str, Any]:
        # Two copies: neither the env nor the reader of the info can change what is enforced.
        self._mask = copy.deepcopy(self.action_mask())
        return {**info, "action_mask": copy.deepcopy(self._mask)}
