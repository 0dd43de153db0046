"""Episodes that last as long as their seed says, and writers that remember what they heard."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from sekai.compose import (
    ActionInterpreter,
    EnvWrapper,
    FiniteVectorEnv,
    LogWriter,
    Reward,
    Simulator,
    StateInterpreter,
    vectorize_env,
)
from sekai.spaces import Box, Dict, Discrete

Seed = tuple[int, int]
"""A number by which an episode is known, and how many steps it lasts."""

ENV_TYPES = ["dummy", "subproc", "shmem"]


class Countdown(Simulator[Seed, tuple[int, int], int]):
    """Counts down from the length of its seed; the action 2 does what `harm` says."""

    def __init__(self, initial: Seed, harm: str = "none") -> None:
        super().__init__(initial)
        self.number, self.left = initial
        self.harm = harm
        if harm == "in_reset" and self.number == 1:
            raise LookupError("no data for this seed")

    def step(self, action: int) -> None:
        if action == 2:
            self._suffer()
        self.left -= 1

    def get_state(self) -> tuple[int, int]:
        return self.number, self.left

    def done(self) -> bool:
        return self.left <= 0

    def _suffer(self) -> None:
        if self.harm == "raise":
            raise LookupError(f"no data for seed {self.number}")
        if self.harm == "exit":
            os._exit(9)
        if self.harm == "kill":
            os.kill(os.getpid(), signal.SIGKILL)


class Shown(StateInterpreter[tuple[int, int], dict[str, Any]]):
    """The number of the seed, the steps left, and whether it is the last one."""

    @property
    def observation_space(self) -> Dict:
        return Dict(
            {
                "number": Box(-np.inf, np.inf, (1,), np.float64),
                "left": Discrete(2**40),
                "last": Box(False, True, (), np.bool_),
            }
        )

    def interpret(self, simulator_state: tuple[int, int]) -> dict[str, Any]:
        number, left = simulator_state
        return {
            "number": np.array([float(number)]),
            "left": np.int64(left),
            "last": np.array(left <= 1),
        }


class Plain(ActionInterpreter[tuple[int, int], Any, int]):
    """Three choices, which mean themselves."""

    @property
    def action_space(self) -> Discrete:
        return Discrete(3)

    def interpret(self, simulator_state: tuple[int, int], action: Any) -> int:
        return int(action)


class Progress(Reward[tuple[int, int]]):
    """The number of the seed, for each step."""

    def reward(self, simulator_state: tuple[int, int]) -> float:
        return float(simulator_state[0])


def countdown_env(seeds: Iterable[Seed], harm: str = "none") -> Any:
    """One worker's env."""
    return EnvWrapper(partial(Countdown, harm=harm), Shown(), Plain(), seeds, Progress())


def countdowns(
    seeds: Iterable[Seed],
    env_type: str = "dummy",
    concurrency: int = 3,
    logger: Any = None,
    harm: str = "none",
) -> FiniteVectorEnv:
    """A finite vector env of countdowns that share `seeds`."""
    return vectorize_env(lambda: countdown_env(seeds, harm), env_type, concurrency, logger)


class Memory(LogWriter):
    """Remembers every call."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[tuple[int, int]] = []
        self.steps: list[tuple[int, int, float, bool]] = []
        self.finished: list[int] = []
        self.calls: list[str] = []

    def on_env_all_ready(self) -> None:
        super().on_env_all_ready()
        self.calls.append("all_ready")

    def on_env_all_done(self) -> None:
        self.calls.append("all_done")

    def flush(self) -> None:
        self.calls.append("flush")

    def on_env_reset(self, env_id: int, obs: Any, info: Mapping[str, Any] | None = None) -> None:
        super().on_env_reset(env_id, obs, info)
        self.begun.append((env_id, int(obs["number"][0])))

    def on_env_step(
        self, env_id: int, obs: Any, rew: float, done: bool, info: Mapping[str, Any]
    ) -> None:
        super().on_env_step(env_id, obs, rew, done, info)
        number = int(obs["number"][0])
        self.steps.append((env_id, number, rew, done))
        if done:
            self.finished.append(number)


def collect(
    env: FiniteVectorEnv,
    steps: int | None = None,
    act: Callable[[Any], Any] | None = None,
) -> None:
    """Run the loop that finite vector envs are meant for, to its end or for some steps."""
    choose = act or (lambda numbers: np.ones(len(numbers), np.int64))
    with env.collector_guard():
        numbers = env.reset().observations["number"][:, 0]
        while steps is None or steps > 0:
            steps = None if steps is None else steps - 1
            result = env.step(choose(numbers))
            numbers = result.observations["number"][:, 0]
            finished = np.flatnonzero(result.dones)
            if finished.size:
                numbers[finished] = env.reset(finished).observations["number"][:, 0]
