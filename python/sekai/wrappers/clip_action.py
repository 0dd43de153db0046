"""Clip actions to the bounds of the action space."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import Env, ObsType
from sekai.core.wrapper import ActionWrapper
from sekai.error import InvalidActionError, SpaceError
from sekai.spaces import Box
from sekai.spaces.numbers import require_real

Array = NDArray[Any]


class ClipAction(ActionWrapper[ObsType, Array, Array]):
    """Wrapper that accepts any real numbers and clips them to the action bounds."""

    def __init__(self, env: Env[ObsType, Array]) -> None:
        super().__init__(env)
        box = box_of(self, env)
        low, high = -np.inf, np.inf
        self._low, self._high = box.low, box.high
        self.action_space = Box(low, high, shape=box.shape, dtype=box.dtype)

    def action(self, action: Array) -> Array:
        """Clip an action."""
        if np.isnan(require_real(action)).any():
            raise InvalidActionError(f"action must not contain NaN, got {action}")
        return np.clip(action, self._low, self._high).astype(self._low.dtype, copy=False)

    def reverse_action(self, action: Array) -> Array:
        """Return the action unchanged: an allowed action is its own inverse."""
        return action


def box_of(wrapper: object, env: Env[Any, Any]) -> Box:
    """Return the env's action space, or raise `SpaceError` unless it is a numeric Box."""
    space = env.action_space
    if not isinstance(space, Box) or space.dtype == bool:
        raise SpaceError(f"{type(wrapper).__name__} needs a Box action space, got {space}")
    return space
