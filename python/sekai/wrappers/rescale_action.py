"""Rescale actions linearly from a range of one's own to the env's bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import Env, ObsType
from sekai.core.wrapper import ActionWrapper
from sekai.error import InvalidActionError, SpaceError
from sekai.spaces import Box
from sekai.spaces.numbers import require_real
from sekai.wrappers.clip_action import box_of

Array = NDArray[Any]


class RescaleAction(ActionWrapper[ObsType, Array, Array]):
    """Wrapper that maps actions between `min` and `max` linearly to the env's bounds.

    `min` and `max` may be numbers or arrays with one value per element.
    """

    def __init__(self, env: Env[ObsType, Array], min: float | Array, max: float | Array) -> None:
        super().__init__(env)
        box = box_of(self, env)
        if box.is_bounded != (True, True):
            raise SpaceError(f"RescaleAction needs a bounded Box, got {box}")
        dtype = np.promote_types(box.dtype, np.float32)
        self._min = np.broadcast_to(np.asarray(min, dtype), box.shape)
        self._max = np.broadcast_to(np.asarray(max, dtype), box.shape)
        if not (np.isfinite(self._min) & np.isfinite(self._max) & (self._min < self._max)).all():
            raise ValueError(f"min must be below max and both must be finite, got {min} and {max}")
        self._box = box
        self.action_space = Box(self._min, self._max, dtype=dtype)

    def action(self, action: Array) -> Array:
        """Rescale an action to the env's bounds."""
        share = (np.asarray(require_real(action), np.float64) - self._min) / (self._max - self._min)
        if not ((share >= 0.0) & (share <= 1.0)).all():
            raise InvalidActionError(
                f"action must be between {self._min.min()} and {self._max.max()}, got {action}"
            )
        return self._nearest(self._between(self._box.low, self._box.high, share))

    def reverse_action(self, action: Array) -> Array:
        """Return the action that `action()` maps to this one."""
        low, high = self._box.low.astype(np.float64), self._box.high.astype(np.float64)
        width = np.where(high > low, high - low, 1.0)
        share = (np.asarray(require_real(action), np.float64) - low) / width
        mapped: Array = self._between(self._min, self._max, share).astype(self._min.dtype)
        return mapped

    def _nearest(self, values: Array) -> Array:
        """Round and clip values to the env's action space."""
        rounded = np.rint(values) if self._box.dtype.kind in "iu" else values
        nearest: Array = np.clip(rounded, self._box.low, self._box.high).astype(self._box.dtype)
        return nearest

    @staticmethod
    def _between(low: Array, high: Array, share: Array) -> Array:
        # Not low + width * share: exact at both ends, and width cannot overflow.
        mixed: Array = low.astype(np.float64) * (1.0 - share) + high.astype(np.float64) * share
        return mixed
