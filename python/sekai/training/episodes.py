"""Returns and lengths of the episodes that end while an agent learns."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

from sekai.stats.episode import EpisodeStats

__all__ = ["Episodes"]

RECENT = 100


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """What recent episodes were like, on average."""

    episodes: int
    """All that have ended since training began."""

    episode_return: float
    episode_length: float


class Episodes:
    """Adds up rewards of all envs, and remembers those of recent episodes."""

    def __init__(self, num_envs: int) -> None:
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, np.int64)
        self.count = 0
        self._recent: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self.ended: list[EpisodeStats] = []
        """Those that have ended since this was last emptied, while `is_listing`."""
        self.is_listing = False

    def add(
        self,
        rewards: NDArray[np.float64],
        done: NDArray[np.bool_],
        terminated: NDArray[np.bool_] | None = None,
    ) -> None:
        """Take in one step of all envs.

        Args:
            rewards: of each env.
            done: whose episode is over.
            terminated: whose episode has ended, and was not cut off; None for all.
        """
        self._returns += rewards
        self._lengths += 1
        ended = np.flatnonzero(done)
        if ended.size:
            returns, lengths = self._returns[ended].tolist(), self._lengths[ended].tolist()
            self._recent.extend(zip(returns, lengths, strict=True))
            if self.is_listing:
                is_end = done if terminated is None else terminated
                flags = is_end[ended].tolist()
                # Envs act together, and learning comes between: nobody knows how long one took.
                self.ended += [
                    EpisodeStats(value, length, nan, flag, not flag)
                    for value, length, flag in zip(returns, lengths, flags, strict=True)
                ]
            self.count += int(ended.size)
            self._returns[ended] = 0.0
            self._lengths[ended] = 0

    @property
    def summary(self) -> EpisodeSummary:
        """Means over the last hundred; NaN before the first has ended."""
        if not self._recent:
            return EpisodeSummary(self.count, float("nan"), float("nan"))
        returns, lengths = zip(*self._recent, strict=True)
        return EpisodeSummary(self.count, float(np.mean(returns)), float(np.mean(lengths)))

    def state_dict(self) -> dict[str, NDArray[np.float64]]:
        """Everything needed to go on."""
        recent = np.array(list(self._recent), np.float64).reshape(-1, 2)
        return {"returns": self._returns.copy(), "lengths": self._lengths.astype(np.float64),
                "recent": recent, "count": np.array([self.count], np.float64)}  # fmt: skip

    def load_state_dict(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Go on from a saved state."""
        self._returns = state["returns"].copy()
        self._lengths = state["lengths"].astype(np.int64)
        pairs = ((float(value), int(length)) for value, length in state["recent"])
        self._recent = deque(pairs, maxlen=RECENT)
        self.count = int(state["count"][0])
