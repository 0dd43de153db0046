"""Flatten observations to one vector."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sekai.core.env import ActType, Env
from sekai.core.wrapper import ObservationWrapper
from sekai.spaces import flatten, flatten_space


class FlattenObservation(ObservationWrapper[NDArray[np.floating[Any]], ActType, Any]):
    """Wrapper that flattens observations of any space to a 1-D Box.

    The default dtype is float32; `dtype="float64"` keeps every bit of float64 and large integer
    parts.
    """

    def __init__(self, env: Env[Any, ActType], dtype: DTypeLike = np.float32) -> None:
        super().__init__(env)
        self.observation_space = flatten_space(env.observation_space, dtype=dtype)
        self.dtype = self.observation_space.dtype

    def observation(self, obs: Any) -> NDArray[np.floating[Any]]:
        """Flatten an observation."""
        return flatten(self.env.observation_space, obs, dtype=self.dtype)
