"""Action validation: reject actions outside the action space."""

from __future__ import annotations

from sekai.core.env import ActType, Env, ObsType
from sekai.core.wrapper import Wrapper
from sekai.error import InvalidActionError


class ValidateAction(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Wrapper that raises `InvalidActionError` for an action outside the action space."""

    def __init__(self, env: Env[ObsType, ActType]) -> None:
        super().__init__(env)

    def _map_action(self, action: ActType) -> ActType:
        reason = self.env.action_space.mismatch(action)
        if reason is not None:
            raise InvalidActionError(f"action is not in {self.env.action_space}: {reason}")
        return action
