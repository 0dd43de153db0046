"""A small but real simulator and its interpreters, which the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.compose import (
    ActionInterpreter,
    AuxiliaryInfoCollector,
    EnvWrapper,
    LogCollector,
    Reward,
    Simulator,
    StateInterpreter,
)
from sekai.spaces import Box, Dict, Discrete

Array = NDArray[Any]
MOVES = 3
LENGTH = 4


@dataclass(frozen=True)
class Place:
    """State of a walk."""

    position: float
    steps: int


class Walk(Simulator[float, Place, float]):
    """Walk on a line for `length` steps, pushed by the action, and by noise if asked."""

    def __init__(self, initial: float = 0.0, length: int = LENGTH, noise: float = 0.0) -> None:
        super().__init__(initial)
        self.position = float(initial)
        self.steps = 0
        self.length = length
        self.noise = noise
        self.closed = 0
        self.env_at_birth = self.env

    def step(self, action: float) -> None:
        if self.noise:
            assert self.env is not None
            action = action + self.noise * float(self.env.rng.normal())
        self.position += action
        self.steps += 1

    def get_state(self) -> Place:
        return Place(self.position, self.steps)

    def done(self) -> bool:
        return self.steps >= self.length

    def render(self, mode: str = "text") -> str:
        return f"{mode}: {self.position}"

    def close(self) -> None:
        self.closed += 1


class Seen(StateInterpreter[Place, dict[str, Any]]):
    """The position, the steps, and whether the walk is on the right."""

    observation_space: Dict

    def __init__(self) -> None:
        self.observation_space = Dict(
            {
                "position": Box(-np.inf, np.inf, (1,), np.float64),
                "steps": Discrete(1000),
                "right": Box(False, True, (), np.bool_),
            }
        )

    def interpret(self, simulator_state: Place) -> dict[str, Any]:
        return {
            "position": np.array([simulator_state.position]),
            "steps": np.intp(simulator_state.steps),
            "right": np.array(simulator_state.position > 0),
        }


class Push(ActionInterpreter[Place, Any, float]):
    """0 pushes left, 1 not at all, 2 right."""

    @property
    def action_space(self) -> Discrete:
        return Discrete(MOVES)

    def interpret(self, simulator_state: Place, action: Any) -> float:
        return float(action) - 1.0


class Nearness(Reward[Place]):
    """Minus the distance from the origin."""

    def reward(self, simulator_state: Place) -> float:
        return -abs(simulator_state.position)


class Rightness(Reward[Place]):
    """The position; logs it too."""

    def reward(self, simulator_state: Place) -> float:
        self.log("position", simulator_state.position)
        return simulator_state.position


class Count(AuxiliaryInfoCollector[Place, dict[str, Any]]):
    """Number of rewards so far."""

    def collect(self, simulator_state: Place) -> dict[str, Any]:
        assert self.env is not None
        assert self.env.status is not None
        return {"rewards": len(self.env.status.reward_history)}


WalkEnv = EnvWrapper[float, Place, float, dict[str, Any], Any]


def walk_env(
    seeds: Iterable[float] | None = (0.0, 5.0, -3.0),
    *,
    length: int = LENGTH,
    noise: float = 0.0,
    reward: Reward[Place] | None = None,
    logger: LogCollector | None = None,
) -> WalkEnv:
    """An env of walks; without seeds they begin at the origin."""

    def simulator_fn(initial: float = 0.0) -> Walk:
        return Walk(initial, length, noise)

    return EnvWrapper(
        simulator_fn, Seen(), Push(), seeds, Nearness() if reward is None else reward, Count(),
        logger,
    )  # fmt: skip
