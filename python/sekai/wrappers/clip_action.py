"""Bring actions that overshoot back to the bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import Env, ObsType
from sekai.core.real_numbers import real_numbers
from sekai.core.wrapper import ActionWrapper
from sekai.error import InvalidActionError, SpaceError
from sekai.spaces import Box

__all__ = ["ClipAction", "box_of"]

Array = NDArray[Any]


class ClipAction(ActionWrapper[ObsType, Array, Array]):
    """Accepts any real numbers and clips them to the bounds of the action space."""

    def __init__(self, env: Env[ObsType, Array]) -> None:
        super().__init__(env)
        box = box_of(self, env)
        low, high = -np.inf, np.inf
        self._low, self._high = box.low, box.high
        self.action_space = Box(low, high, shape=box.shape, dtype=box.dtype)

    def action(self, action: Array) -> Array:
        """The allowed action nearest to `action`."""
        if np.isnan(real_numbers(action)).any():
            raise InvalidActionError(f"an action of numbers was wanted, found NaN in {action}")
        return np.clip(action, self._low, self._high).astype(self._low.dtype, copy=False)

    def reverse_action(self, action: Array) -> Array:
        """An allowed action is its own original."""
        return action


def box_of(wrapper: object, env: Env[Any, Any]) -> Box:
    """The env's action space if it is a Box of numbers, or a `SpaceError`."""
    space = env.action_space
    if not isinstance(space, Box) or space.dtype == bool:
        raise SpaceError(f"{type(wrapper).__name__} needs a Box of actions, found {space}")
    return space
