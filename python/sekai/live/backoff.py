"""Back-off: growing, jittered waits between attempts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Backoff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential back-off with jitter: each wait is drawn from the upper half of its limit."""

    first: float = 0.5
    """Longest wait after the first failure, in seconds."""

    factor: float = 2.0
    """Growth of the limit per failure."""

    longest: float = 60.0
    """Upper bound of all waits, in seconds."""

    def __post_init__(self) -> None:
        if not (0 <= self.first <= self.longest < float("inf") and 1 <= self.factor <= 100):
            raise ValueError(
                f"back-off needs 0 <= first <= longest and a factor from 1 to 100, got {self}"
            )

    def seconds(self, failures: int, rng: np.random.Generator) -> float:
        """Wait after `failures` consecutive failures (at least 1).

        Uniform between half of the limit and the limit, so that clients which lost a server
        together do not reconnect together.
        """
        # The exponent is bounded: a week of failures would overflow a float.
        limit = min(self.longest, self.first * self.factor ** min(failures - 1, 64))
        return float(limit * rng.uniform(0.5, 1.0))
