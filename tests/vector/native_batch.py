"""A batch as Rust would write it, in NumPy: the reference for the native protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.error import StateError
from sekai.spaces import Box, Discrete
from sekai.vector import Autoreset, NativeVecEnv

GROWTH = np.uint64(6364136223846793005)
SHIFT = np.uint64(1442695040888963407)


def draw(words: NDArray[np.uint64]) -> NDArray[np.float32]:
    """The next number of each stream, which moves on in place."""
    with np.errstate(over="ignore"):
        words *= GROWTH
        words += SHIFT
    numbers: NDArray[np.float32] = (words >> np.uint64(40)).astype(np.float32)
    numbers /= np.float32(2**24)
    return numbers


class LotteryBatch:
    """Draw numbers until one is above 0.8; guess whether the next is above one half.

    Observation: the number, and how many were drawn.
    Action: 0 or 1.
    Reward: 1 for a right guess.
    Terminates: when a number is above 0.8.
    Truncates: after 6 numbers.
    """

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.words = np.arange(num_envs, dtype=np.uint64)
        self.drawn = np.zeros(num_envs, np.int64)
        self.number = np.zeros(num_envs, np.float32)
        self.ended = np.zeros(num_envs, np.int64)

    def reset(
        self,
        ids: NDArray[np.int64],
        seeds: NDArray[np.uint64] | None,
        observations: NDArray[np.float32],
        options: Sequence[dict[str, Any] | None] | None,
    ) -> None:
        words = self.words[ids] if seeds is None else seeds.copy()
        self.number[ids] = draw(words)
        self.words[ids] = words
        self.drawn[ids] = 0
        self._show(ids, observations)

    def step(
        self,
        actions: NDArray[np.int64],
        observations: NDArray[np.float32],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_observations: NDArray[np.float32] | None,
        skip: NDArray[np.bool_] | None,
    ) -> None:
        ids = np.arange(self.num_envs) if skip is None else np.flatnonzero(~skip)
        words = self.words[ids]
        self.number[ids] = draw(words)
        self.words[ids] = words
        self.drawn[ids] += 1
        rewards[ids] = (self.number[ids] > 0.5) == (actions[ids] == 1)
        terminated[ids] = self.number[ids] > 0.8
        truncated[ids] = ~terminated[ids] & (self.drawn[ids] >= 6)
        self._show(ids, observations)
        over = ids[terminated[ids] | truncated[ids]]
        self.ended[over] = self.drawn[over]
        if final_observations is not None and len(over):
            self._show(over, final_observations)
            self.reset(over, None, observations, None)

    def clone_env(self, source: int, target: int) -> None:
        for values in (self.words, self.drawn, self.number, self.ended):
            values[target] = values[source]

    def infos(self) -> dict[str, NDArray[Any]]:
        return {"drawn": self.drawn.copy()}

    def final_infos(self) -> dict[str, NDArray[Any]]:
        return {"drawn": self.ended.copy()}

    def state_dict(self) -> dict[str, Any]:
        return {name: value.copy() for name, value in vars(self).items() if name != "num_envs"}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if len(state["words"]) != self.num_envs:
            raise StateError(f"expected {self.num_envs} envs, got {len(state['words'])}")
        for name, value in state.items():
            setattr(self, name, value.copy())

    def _show(self, ids: NDArray[np.int64], observations: NDArray[np.float32]) -> None:
        observations[ids, 0] = self.number[ids]
        observations[ids, 1] = self.drawn[ids]


OBSERVATION_SPACE = Box(0.0, 6.0, shape=(2,))
ACTION_SPACE = Discrete(2)


def lottery_vector(
    num_envs: int,
    *,
    autoreset: Autoreset = "same_step",
    backend: str = "numpy",
    copy: bool = True,
) -> NativeVecEnv:
    """Return value of an entry point for native batches."""
    return NativeVecEnv(
        LotteryBatch(num_envs),
        OBSERVATION_SPACE,
        ACTION_SPACE,
        autoreset=autoreset,
        backend=backend,
        copy=copy,
    )


class Lottery(Env[Any, Any]):
    """A single env is a batch of one, with its first axis removed."""

    def __init__(self) -> None:
        self.observation_space = OBSERVATION_SPACE
        self.action_space = ACTION_SPACE
        self.batch = LotteryBatch(1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Any]:
        seeds = None if seed is None else np.array([seed], np.uint64)
        shown = np.empty((1, 2), np.float32)
        self.batch.reset(np.array([0]), seeds, shown, None)
        return ResetResult(shown[0], {"drawn": self.batch.drawn[0]})

    def step(self, action: Any) -> StepResult[Any]:
        shown, reward = np.empty((1, 2), np.float32), np.empty(1)
        flags = np.empty((2, 1), np.bool_)
        self.batch.step(np.array([action]), shown, reward, flags[0], flags[1], None, None)
        drawn = {"drawn": self.batch.drawn[0]}
        return StepResult(shown[0], float(reward[0]), bool(flags[0, 0]), bool(flags[1, 0]), drawn)
