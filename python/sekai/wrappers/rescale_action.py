"""Let a policy act on a scale of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import Env, ObsType
from sekai.core.real_numbers import real_numbers
from sekai.core.wrapper import ActionWrapper
from sekai.error import InvalidActionError, SpaceError
from sekai.spaces import Box
from sekai.wrappers.clip_action import box_of

__all__ = ["RescaleAction"]

Array = NDArray[Any]


class RescaleAction(ActionWrapper[ObsType, Array, Array]):
    """Maps actions between `min` and `max` linearly onto the env's own range.

    `min` and `max` may be numbers or arrays with one value per element.
    """

    def __init__(
        self,
        env: Env[ObsType, Array],
        min: float | Array,
        max: float | Array,
    ) -> None:
        super().__init__(env)
        box = box_of(self, env)
        if box.is_bounded != (True, True):
            raise SpaceError(f"RescaleAction needs bounds on both sides, found {box}")
        dtype = np.promote_types(box.dtype, np.float32)
        self._min = np.broadcast_to(np.asarray(min, dtype), box.shape)
        self._max = np.broadcast_to(np.asarray(max, dtype), box.shape)
        if not (np.isfinite(self._min) & np.isfinite(self._max) & (self._min < self._max)).all():
            raise ValueError(f"min must be below max, both finite; were {min} and {max}")
        self._box = box
        self.action_space = Box(self._min, self._max, dtype=dtype)

    def action(self, action: Array) -> Array:
        """`action` on the env's scale."""
        share = (np.asarray(real_numbers(action), np.float64) - self._min) / (self._max - self._min)
        if not ((share >= 0.0) & (share <= 1.0)).all():
            raise InvalidActionError(
                f"an action between {self._min.min()} and {self._max.max()} was wanted, "
                f"found {action}"
            )
        return self._nearest(self._between(self._box.low, self._box.high, share))

    def reverse_action(self, action: Array) -> Array:
        """The action that `action()` maps to this one."""
        low, high = self._box.low.astype(np.float64), self._box.high.astype(np.float64)
        width = np.where(high > low, high - low, 1.0)
        share = (np.asarray(real_numbers(action), np.float64) - low) / width
        mapped: Array = self._between(self._min, self._max, share).astype(self._min.dtype)
        return mapped

    def _nearest(self, values: Array) -> Array:
        """The element of the env's action space nearest to `values`."""
        whole = np.rint(values) if self._box.dtype.kind in "iu" else values
        nearest: Array = np.clip(whole, self._box.low, self._box.high).astype(self._box.dtype)
        return nearest

    @staticmethod
    def _between(low: Array, high: Array, share: Array) -> Array:
        # Weighted ends, not low + width * share: exact at both ends, and no overflow of width.
        mixed: Array = low.astype(np.float64) * (1.0 - share) + high.astype(np.float64) * share
        return mixed
