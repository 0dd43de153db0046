"""Envs with known optima as one NumPy batch, which vector envs run like a native one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.spaces import Space
from sekai.vector.native import NativeVecEnv

__all__ = ["NumpyBatch", "vector"]

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

_ODD = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class NumpyBatch(ABC):
    """Episodes of `episode_steps` steps, all alike but for their random numbers.

    Subclasses say what is seen, what a step earns, and whether episodes end or are cut off.
    """

    observation_space: Space[Any]
    action_space: Space[Any]
    ends = False
    """Whether the last step of an episode is its end; otherwise it is cut off there."""

    def __init__(self, num_envs: int, episode_steps: int) -> None:
        self.num_envs, self.episode_steps = num_envs, episode_steps
        self.stream = np.arange(num_envs, dtype=np.uint64)
        self.clock = np.zeros(num_envs, np.int64)

    @abstractmethod
    def _observe(self) -> NDArray[np.float32]:
        """What all envs see."""

    @abstractmethod
    def _earn(self, actions: NDArray[Any]) -> Floats:
        """What a step of all envs earns."""

    def _start(self, ids: Ids) -> None:  # noqa: B027 (most need nothing)
        """Whatever a new episode of some envs needs beside its clock."""

    def _state(self) -> dict[str, NDArray[Any]]:
        """Arrays with a row per env that make up an episode."""
        return {"stream": self.stream, "clock": self.clock}

    def reset(
        self,
        ids: Ids,
        seeds: NDArray[np.uint64] | None,
        observations: NDArray[np.float32],
        options: Sequence[dict[str, Any] | None] | None,
    ) -> None:
        """Begin episodes."""
        if seeds is not None:
            self.stream[ids] = seeds
        self.clock[ids] = 0
        self._start(ids)
        observations[ids] = self._observe()[ids]

    def step(
        self,
        actions: NDArray[Any],
        observations: NDArray[np.float32],
        rewards: Floats,
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_observations: NDArray[np.float32] | None,
        skip: NDArray[np.bool_] | None,
    ) -> None:
        """Let every env act once."""
        assert skip is None, "episodes begin in the step that ends the one before"
        rewards[:] = self._earn(actions)
        self.clock += 1
        over = self.clock >= self.episode_steps
        terminated[:] = over & self.ends
        truncated[:] = over & (not self.ends)
        observations[:] = self._observe()
        ended = np.flatnonzero(over)
        if final_observations is not None and ended.size:
            final_observations[ended] = observations[ended]
            self.reset(ended, None, observations, None)

    def uniform(self) -> Floats:
        """A number from 0 to 1 for each env, from its own stream."""
        with np.errstate(over="ignore"):
            self.stream += _ODD
            mixed = self.stream.copy()
            mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
            mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
            mixed ^= mixed >> np.uint64(31)
        return np.asarray((mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def normal(self) -> Floats:
        """A normal number for each env."""
        radius = np.sqrt(-2.0 * np.log1p(-self.uniform()))
        return np.asarray(radius * np.cos(2.0 * np.pi * self.uniform()))

    def clone_env(self, source: int, target: int) -> None:
        """Let one env become another."""
        for array in self._state().values():
            array[target] = array[source]

    def infos(self) -> dict[str, NDArray[Any]]:
        """Nothing to say."""
        return {}

    def final_infos(self) -> dict[str, NDArray[Any]]:
        """Nothing to say."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue."""
        return {name: array.copy() for name, array in self._state().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        for name, array in self._state().items():
            array[:] = state[name]


def vector(batch: NumpyBatch) -> NativeVecEnv:
    """The batch as a vector env."""
    return NativeVecEnv(batch, batch.observation_space, batch.action_space, copy=False)
