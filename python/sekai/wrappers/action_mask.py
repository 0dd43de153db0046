"""Action masks: report allowed actions and reject the others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import Wrapper
from sekai.error import InvalidActionError
from sekai.spaces.masks import allows


class ActionMask(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Wrapper that adds `info["action_mask"]` and rejects masked actions with `InvalidActionError`.

    The mask comes from `mask_of(env)` if passed, otherwise from the env's own `action_mask()`. It
    has the format of `action_space.sample(mask=...)`.
    """

    masks_actions = True
    """Marker for learners: `env.has_attr("masks_actions")`."""

    def __init__(
        self, env: Env[ObsType, ActType], mask_of: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(env)
        if mask_of is None and not env.has_attr("action_mask"):
            raise TypeError(
                f"ActionMask needs mask_of or an env with a method action_mask(); "
                f"{env.unwrapped!r} has no such method"
            )
        self._mask_of = mask_of
        self._mask: Any = None

    def action_mask(self) -> Any:
        """Current mask, in the format of `action_space.sample(mask=...)`."""
        if self._mask_of is not None:
            return self._mask_of(self.env)
        return self.env.get_attr("action_mask")()

    def _map_action(self, action: ActType) -> ActType:
        if self._mask is not None and not allows(self.action_space, self._mask, action):
            raise InvalidActionError(
                f"action {action!r} is masked; expected one that the mask allows: {self._mask!r}"
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
        # Two copies: neither the env nor the caller can change the enforced mask.
        self._mask = copy.deepcopy(self.action_mask())
        return {**info, "action_mask": copy.deepcopy(self._mask)}
