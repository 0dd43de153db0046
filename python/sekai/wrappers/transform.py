"""Apply a function to observations or rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sekai.core.env import ActType, Env, ObsType
from sekai.core.wrapper import ObservationWrapper, RewardWrapper
from sekai.spaces import Space


class TransformObservation(ObservationWrapper[Any, ActType, Any]):
    """Wrapper that returns `fn(observation)`; pass the new space if `fn` changes it."""

    def __init__(
        self,
        env: Env[Any, ActType],
        fn: Callable[[Any], Any],
        observation_space: Space[Any] | None = None,
    ) -> None:
        super().__init__(env)
        self.fn = fn
        if observation_space is not None:
            self.observation_space = observation_space

    def observation(self, obs: Any) -> Any:
        """Return `fn(obs)`."""
        return self.fn(obs)


class TransformReward(RewardWrapper[ObsType, ActType]):
    """Wrapper that returns `fn(reward)`."""

    def __init__(self, env: Env[ObsType, ActType], fn: Callable[[float], float]) -> None:
        super().__init__(env)
        self.fn = fn

    def reward(self, reward: float) -> float:
        """Return `fn(reward)`."""
        return self.fn(reward)
