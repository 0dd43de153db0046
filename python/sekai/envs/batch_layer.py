"""A batch around another one, for what is not written in Rust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sekai.core.result import ResetResult, StepResult

__all__ = ["BatchLayer", "InnerBatch", "Observation"]

Observation = dict[str, NDArray[Any]]


class InnerBatch(Protocol):
    """A native batch, a batch of a market, or another layer."""

    @property
    def num_envs(self) -> int:
        """How many envs the batch has."""

    def reset_one(self, seed: int | None = None) -> ResetResult[Observation]:
        """Begin an episode of a batch of one."""

    def step_one(self, action: Any) -> StepResult[Observation]:
        """Step a batch of one."""

    def infos(self) -> Mapping[str, NDArray[Any]]:
        """What the envs have to say now."""

    def final_infos(self) -> Mapping[str, NDArray[Any]]:
        """What they had to say at the ends of episodes."""

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue from here."""

    def __getattr__(self, name: str) -> Any:
        """All else that batches have."""


class BatchLayer:
    """Does what the batch underneath does; a subclass says what is different.

    It fulfils `sekai.vector.NativeBatch` and `sekai.envs.native_env.BatchOfOne`.
    """

    def __init__(self, batch: InnerBatch) -> None:
        """Take over a batch."""
        self.batch = batch

    def __getattr__(self, name: str) -> Any:
        # What batches have beside the protocol: their threads, their logs, rows that are pushed.
        if name == "batch":
            raise AttributeError("a layer has no batch before it is made")
        return getattr(self.batch, name)

    @property
    def num_envs(self) -> int:
        """How many envs the batch has."""
        return self.batch.num_envs

    def reset(
        self,
        ids: NDArray[np.int64],
        seeds: NDArray[np.uint64] | None,
        observations: Observation,
        options: Sequence[dict[str, Any] | None] | None,
    ) -> None:
        """Begin an episode in the envs `ids`, with one seed each or in their own streams."""
        self.batch.reset(ids, seeds, observations, options)

    def step(
        self,
        actions: NDArray[Any],
        observations: Observation,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_observations: Observation | None,
        skip: NDArray[np.bool_] | None,
    ) -> None:
        """Let every env act once, except where `skip` is true: rows of those stay untouched."""
        self.batch.step(
            actions, observations, rewards, terminated, truncated, final_observations, skip
        )

    def reset_one(self, seed: int | None = None) -> ResetResult[Observation]:
        """Begin an episode of a batch of one."""
        return self.batch.reset_one(seed)

    def step_one(self, action: Any) -> StepResult[Observation]:
        """Step a batch of one."""
        return self.batch.step_one(action)

    def clone_env(self, source: int, target: int) -> None:
        """Let env `target` become exactly what env `source` is, its random streams included."""
        self.batch.clone_env(source, target)

    def infos(self) -> Mapping[str, NDArray[Any]]:
        """What the envs have to say now, one array for each key."""
        return self.batch.infos()

    def final_infos(self) -> Mapping[str, NDArray[Any]]:
        """The same for the ends of episodes that the last step has ended; other rows are void."""
        return self.batch.final_infos()

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue from here, bit for bit."""
        return self.batch.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; a refused one changes nothing."""
        self.batch.load_state_dict(state)
