"""How long to wait before the next attempt: longer each time, and never in step with others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Backoff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Doubles the wait after every failure, up to a limit, and draws it from its upper half."""

    first: float = 0.5
    """Seconds before the second attempt, at most."""

    factor: float = 2.0
    longest: float = 60.0
    """Seconds; no wait is longer."""

    def __post_init__(self) -> None:
        if not (0 < self.first <= self.longest < float("inf") and 1 <= self.factor <= 100):
            raise ValueError(
                f"0 < first <= longest and a factor from 1 to 100 were wanted, found {self}"
            )

    def seconds(self, failures: int, rng: np.random.Generator) -> float:
        """The wait after so many failures in a row, of which there is at least one.

        It is even between half of the limit and all of it: clients that lost the same server at
        the same moment do not come back at the same moment.
        """
        # The power is bounded: a float has no room for that of a week of failures.
        grown = self.first * self.factor ** min(failures - 1, 64)
        limit = min(self.longest, grown)
        return float(limit * rng.uniform(0.5, 1.0))
