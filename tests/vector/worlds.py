"""Environments that vector envs are tested with, well-behaved ones and others."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from sekai.vector import AsyncVecEnv, PipeVecEnv, ProcVecEnv, SyncVecEnv, VecEnv

BACKENDS = ["sync", "async", "proc"]
"""Vectors that can begin failed envs anew."""
ALL_BACKENDS = [*BACKENDS, "pipe"]
START_METHODS = ["fork", "forkserver", "spawn"]

SPACES: dict[str, Callable[[], Space[Any]]] = {
    "box": lambda: Box(-1.0, 1.0, shape=(4,)),
    "number": lambda: Box(-5.0, 5.0, shape=(), dtype=np.float64),
    "image": lambda: Box(0, 255, shape=(3, 2, 2), dtype=np.uint8),
    "discrete": lambda: Discrete(5, start=-2),
    "multi_discrete": lambda: MultiDiscrete([3, 4]),
    "multi_binary": lambda: MultiBinary((2, 2)),
    "dict": lambda: Dict({"a": Box(-1.0, 1.0, shape=(2,)), "b": Discrete(3)}),
    "tuple": lambda: Tuple([Discrete(2), Box(-1.0, 1.0, shape=(3,), dtype=np.float64)]),
    "nested": lambda: Dict(
        {"x": Tuple([Dict({"y": MultiBinary(3)}), Box(-1.0, 1.0, shape=(1,))]), "z": Discrete(2)}
    ),
}


class Drifter(Env[Any, Any]):
    """Shows samples of any space; what it shows and pays depends on its seed and its actions.

    Observation: a sample of the space named `observes`.
    Action: a sample of the space named `acts`.
    Reward: a random number, plus the sum of the numbers in the action.
    Terminates: at random, once in `mean_length` steps.
    Truncates: after three times `mean_length` steps.
    """

    def __init__(self, observes: str = "box", acts: str = "discrete", mean_length: int = 5) -> None:
        self.observation_space = SPACES[observes]()
        self.action_space = SPACES[acts]()
        self.mean_length = mean_length
        self.label = "none"
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        self._set_rng(seed)
        self._steps = 0
        self.label = (options or {}).get("label", "none")
        return ResetResult(self._observation(), {"began": int(self.rng.integers(100))})

    def step(self, action: Any) -> StepResult[Any]:
        self._steps += 1
        reward = float(self.rng.normal()) + total(action)
        terminated = bool(self.rng.random() < 1.0 / self.mean_length)
        truncated = not terminated and self._steps >= 3 * self.mean_length
        info: dict[str, Any] = {"steps": self._steps} if self._steps % 2 else {}
        return StepResult(self._observation(), reward, terminated, truncated, info)

    def told(self, word: str, loud: bool = False) -> str:
        """Answers, for `call`."""
        return word.upper() if loud else word

    def _observation(self) -> Any:
        self.observation_space.seed(int(self.rng.integers(2**31)))
        return self.observation_space.sample()


class Scripted(Env[Any, Any]):
    """Counts its steps; episodes last `length` steps. It writes all into one array of its own.

    Observation: the number of the episode and of the step in it.
    Action: ignored.
    Reward: the number of the step.
    Terminates: after `length` steps.
    Truncates: never.
    """

    def __init__(self, length: int = 3) -> None:
        self.length = length
        self.observation_space = Box(-np.inf, np.inf, shape=(2,), dtype=np.float64)
        self.action_space = Discrete(2)
        self._shown = np.array([-1.0, 0.0])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        self._set_rng(seed)
        self._shown[0] += 1
        self._shown[1] = 0
        return ResetResult(self._shown, {"first": True})

    def step(self, action: Any) -> StepResult[Any]:
        self._shown[1] += 1
        step = float(self._shown[1])
        return StepResult(self._shown, step, step >= self.length, False, {"step": step})


class Faulty(Scripted):
    """Does something bad, once, when it is given the action 1; `harm` says what."""

    def __init__(self, harm: str = "raise", length: int = 100, in_reset: bool = False) -> None:
        super().__init__(length)
        self.harm = harm
        self.in_reset = in_reset

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        if self.in_reset and options:
            do_harm(self.harm)
        self._set_rng(seed)
        first = super().reset(seed=seed)
        return ResetResult(first.observation, {"draw": float(self.rng.random())})

    def step(self, action: Any) -> StepResult[Any]:
        if action == 1:
            do_harm(self.harm)
        return super().step(action)


class UnportableError(Exception):
    """An error that can be pickled and not read back."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def do_harm(harm: str) -> None:
    if harm == "raise":
        raise ValueError("the market is closed")
    if harm == "unportable":
        raise UnportableError(1, 2)
    if harm == "exit":
        os._exit(17)
    if harm == "sys_exit":
        raise SystemExit(5)
    if harm == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if harm == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if harm == "hang":
        time.sleep(600)


class Waiter(Env[Any, Any]):
    """Waits for the outside world in each call, and can be told to fail.

    Observation: how many calls have begun and how many have ended.
    Action: 0 waits, 1 fails after half the wait.
    Reward: 1.
    Terminates: never.
    Truncates: never.
    """

    def __init__(self, seconds: float = 0.02) -> None:
        self.seconds = seconds
        self.observation_space = Box(-np.inf, np.inf, shape=(2,), dtype=np.float64)
        self.action_space = Discrete(2)
        self.begun = 0
        self.ended = 0

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        self._set_rng(seed)
        self.begun = self.ended = 0
        await asyncio.sleep(self.seconds)
        return ResetResult(np.zeros(2), {})

    async def async_step(self, action: Any) -> StepResult[Any]:
        self.begun += 1
        try:
            if action == 1:
                await asyncio.sleep(self.seconds / 2)
                raise ValueError("the feed is gone")
            await asyncio.sleep(self.seconds)
        finally:
            self.ended += 1
        return StepResult(np.array([self.begun, self.ended]), 1.0, False, False, {})


def total(action: Any) -> float:
    """The sum of all numbers in a nested action."""
    if isinstance(action, dict):
        return sum(total(part) for part in action.values())
    if isinstance(action, tuple):
        return sum(map(total, action))
    return float(np.sum(action))


def build(backend: str, env_fns: Sequence[Callable[[], Any]], **options: Any) -> VecEnv:
    """A vector env of the backend; processes are forked, which is the quickest."""
    if backend == "sync":
        return SyncVecEnv(env_fns, **options)
    if backend == "async":
        return AsyncVecEnv(env_fns, **options)
    in_processes = {"num_workers": 2, "start_method": "fork", **options}
    return (PipeVecEnv if backend == "pipe" else ProcVecEnv)(env_fns, **in_processes)


def actions_for(vec: VecEnv, steps: int, seed: int = 0) -> list[list[Any]]:
    """`steps` times an action for each env, which does not depend on how many envs there are."""
    plans = []
    for index in range(vec.num_envs):
        vec.action_space.seed(1000 * seed + index)
        plans.append([vec.action_space.sample() for _ in range(steps)])
    return [list(actions) for actions in zip(*plans, strict=True)]
