"""Frame stacking: the last observations in one array."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

from sekai.core.env import ActType, Env
from sekai.core.result import ResetResult
from sekai.core.wrapper import ObservationWrapper
from sekai.spaces.batch import batch_space, stack_samples


class FrameStackObservation(ObservationWrapper[Any, ActType, Any]):
    """Wrapper that stacks the last `n` observations along a new leading axis, oldest first.

    At the start of an episode the first observation fills all `n` frames.
    """

    def __init__(self, env: Env[Any, ActType], n: int) -> None:
        super().__init__(env)
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        self.n = n
        self.observation_space = batch_space(env.observation_space, n)
        self._frames: deque[Any] = deque(maxlen=n)

    def observation(self, obs: Any) -> Any:
        """Stack an observation and the `n - 1` before it."""
        # Copied, because the env or its user may overwrite the array.
        self._frames.append(copy.deepcopy(obs))
        return stack_samples(self.env.observation_space, self._frames)

    def _map_reset(self, result: ResetResult[Any], seed: int | None) -> ResetResult[Any]:
        # `observation` adds the last one; together they replace all frames.
        self._frames.extend([copy.deepcopy(result.observation)] * (self.n - 1))
        return super()._map_reset(result, seed)
