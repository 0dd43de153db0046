"""Show observations in standard deviations from their running mean."""

from __future__ import annotations

import math
from typing import Any

from sekai.core.env import ActType, Env
from sekai.core.wrapper import ObservationWrapper
from sekai.wrappers.nested_moments import NestedMoments

__all__ = ["NormalizeObservation"]


class NormalizeObservation(ObservationWrapper[Any, ActType, Any]):
    """Normalises observations by their running mean and variance (Welford).

    Every Box inside a nested space is normalised on its own, element by element; what is not a
    Box passes unchanged. Set `learning` to False to stop the statistics, for evaluation say. An
    observation that is not finite is refused: it would spoil the statistics for good.
    """

    def __init__(
        self, env: Env[Any, ActType], epsilon: float = 1e-8, clip: float = math.inf
    ) -> None:
        super().__init__(env)
        self.learning = True
        self.moments = NestedMoments(env.observation_space, epsilon, clip)
        self.observation_space = self.moments.normalised_space

    def observation(self, obs: Any) -> Any:
        """Take `obs` into the statistics and show it in standard deviations from the mean."""
        return self.moments.normalise(obs, self.learning)
