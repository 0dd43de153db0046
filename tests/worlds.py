"""Small environments that several test folders use."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import Env
from sekai.core.multi_agent import MultiAgentEnv
from sekai.core.result import MAResetResult, MAStepResult, ResetResult, StepResult
from sekai.spaces import Box, Dict, Discrete

Array = NDArray[Any]


class RandomWalk(Env[Array, Array]):
    """Walk in the plane, pushed by the action and by noise.

    Observation: the position.
    Action: a push in each direction, -1 to 1.
    Reward: minus the distance from the origin.
    Terminates: when the distance exceeds 4.
    Truncates: never.
    """

    def __init__(self, noise: float = 0.5) -> None:
        self.noise = noise
        self.observation_space = Box(-np.inf, np.inf, shape=(2,), dtype=np.float32)
        self.action_space = Box(-1.0, 1.0, shape=(2,), dtype=np.float32)
        self._position = np.zeros(2, dtype=np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Array]:
        self._set_rng(seed)
        self._position = self.rng.normal(size=2).astype(np.float32)
        return ResetResult(self._position.copy(), {"begun": True})

    def step(self, action: Array) -> StepResult[Array]:
        noise = self.rng.normal(size=2) * self.noise
        self._position = (self._position + action + noise).astype(np.float32)
        distance = float(np.linalg.norm(self._position))
        return StepResult(
            self._position.copy(), -distance, distance > 4.0, False, {"distance": distance}
        )


class AsyncRandomWalk(Env[Array, Array]):
    """`RandomWalk` written with the async methods alone."""

    def __init__(self, noise: float = 0.5) -> None:
        self.walk = RandomWalk(noise)
        self.observation_space = self.walk.observation_space
        self.action_space = self.walk.action_space

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Array]:
        await asyncio.sleep(0)
        return self.walk.reset(seed=seed, options=options)

    async def async_step(self, action: Array) -> StepResult[Array]:
        await asyncio.sleep(0)
        return self.walk.step(action)


class Market(Env[dict[str, Any], Any]):
    """Hold or drop one asset; the observation is nested.

    Observation: recent prices, and whether the asset is held.
    Action: 0 drop, 1 keep, 2 hold.
    Reward: the price change if the asset is held.
    Terminates: never.
    Truncates: after `length` steps.
    """

    def __init__(self, length: int = 20) -> None:
        self.length = length
        self.observation_space = Dict(
            {"prices": Box(-np.inf, np.inf, shape=(3,), dtype=np.float64), "held": Discrete(2)}
        )
        self.action_space = Discrete(3)
        self._prices: list[float] = []
        self._held = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[dict[str, Any]]:
        self._set_rng(seed)
        self._prices = list(100.0 + self.rng.normal(size=3))
        self._held = 0
        return ResetResult(self._observation(), {})

    def step(self, action: Any) -> StepResult[dict[str, Any]]:
        self._held = {0: 0, 1: self._held, 2: 1}[int(action)]
        self._prices.append(self._prices[-1] + float(self.rng.normal()))
        reward = self._held * (self._prices[-1] - self._prices[-2])
        truncated = len(self._prices) >= self.length + 3
        return StepResult(self._observation(), reward, False, truncated, {})

    def action_mask(self) -> NDArray[np.int8]:
        """Dropping what is not held is not allowed."""
        return np.array([self._held, 1, 1], dtype=np.int8)

    def _observation(self) -> dict[str, Any]:
        return {"prices": np.array(self._prices[-3:]), "held": np.intp(self._held)}


class Duel(MultiAgentEnv):
    """Two agents guess a number; the one that is nearer wins; a lost lead sends an agent out."""

    def __init__(self, length: int = 10) -> None:
        self.length = length
        self.possible_agents = ["north", "south"]
        self.agents = list(self.possible_agents)
        self.observation_spaces = {
            name: Box(-np.inf, np.inf, shape=(2,), dtype=np.float64)
            for name in self.possible_agents
        }
        self.action_spaces = {
            "north": Box(-1.0, 1.0, shape=(1,), dtype=np.float64),
            "south": Discrete(3),
        }
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MAResetResult:
        self._set_rng(seed)
        self._steps = 0
        self.agents = list(self.possible_agents)
        return MAResetResult(self._observations(), {name: {} for name in self.agents})

    def step(self, actions: Mapping[str, Any]) -> MAStepResult:
        self._steps += 1
        target = float(self.rng.normal())
        rewards = {name: -abs(float(np.sum(actions[name])) - target) for name in self.agents}
        over = self._steps >= self.length
        result = MAStepResult(
            self._observations(),
            rewards,
            dict.fromkeys(self.agents, False),
            dict.fromkeys(self.agents, over),
            {name: {} for name in self.agents},
        )
        if over:
            self.agents = []
        return result

    def _observations(self) -> dict[str, Array]:
        return {name: self.rng.normal(size=2) for name in self.agents}
