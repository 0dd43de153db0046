"""Returns and lengths of the episodes that end while an agent learns."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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

    def add(self, rewards: NDArray[np.float64], done: NDArray[np.bool_]) -> None:
        """Take in one step of all envs."""
        self._returns += rewards
        self._lengths += 1
        ended = np.flatnonzero(done)
        if ended.size:
            pairs = zip(self._returns[ended].tolist(), self._lengths[ended].tolist(), strict=True)
            self._recent.extend(pairs)
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
