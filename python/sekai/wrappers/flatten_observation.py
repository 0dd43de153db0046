"""Show any observation as one row of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import ActType, Env
from sekai.core.wrapper import ObservationWrapper
from sekai.spaces import flatten, flatten_space

__all__ = ["FlattenObservation"]


class FlattenObservation(ObservationWrapper[NDArray[np.floating[Any]], ActType, Any]):
    """Flattens observations of any space into a one-dimensional Box."""

    def __init__(self, env: Env[Any, ActType]) -> None:
        super().__init__(env)
        self.observation_space = flatten_space(env.observation_space)

    def observation(self, obs: Any) -> NDArray[np.floating[Any]]:
        """`obs` as one row of numbers."""
        return flatten(self.env.observation_space, obs)
