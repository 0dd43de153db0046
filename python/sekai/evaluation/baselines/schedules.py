"""Ways to work the order of `OptimalExecution-v0` that need no learning."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.players import Ground, Moment, Player
from sekai.evaluation.tasks.execution import ExecutionTask

__all__ = ["AllAtOnce", "AlmgrenChrissSchedule", "TimeWeighted"]

Floats = NDArray[np.float64]


class Schedule(Player):
    """Trades a share of what is left that depends on the time alone."""

    is_bare = True

    @abstractmethod
    def shares(self, steps_left: NDArray[np.int64]) -> Floats:
        """What to trade now of what is left."""

    def begin(self, ground: Ground) -> None:
        """Read what the order is."""
        super().begin(ground)
        assert isinstance(ground.task, ExecutionTask), "schedules are of orders"
        self.config = ground.task.config()

    def decide(self, moment: Moment) -> Any:
        """Shares of what is left, or of the order."""
        shown = np.asarray(moment.observations, np.float64)
        left = np.rint(shown[:, 0] * self.config.episode_steps).astype(np.int64)
        shares = self.shares(left)
        if self.config.action == "order":
            shares = shares * shown[:, 1]
        return np.clip(shares, 0.0, 1.0)[:, None]


class TimeWeighted(Schedule):
    """The same in every step."""

    name = "twap"

    def shares(self, steps_left: NDArray[np.int64]) -> Floats:
        """One part of as many as there are steps left."""
        return 1.0 / np.maximum(steps_left, 1)


class AllAtOnce(Schedule):
    """Everything in the first step."""

    name = "all_at_once"

    def shares(self, steps_left: NDArray[np.int64]) -> Floats:
        """All of it."""
        return np.ones(len(steps_left))


class AlmgrenChrissSchedule(Schedule):
    """The schedule of least cost and risk, in closed form."""

    name = "almgren_chriss"

    def begin(self, ground: Ground) -> None:
        """Solve it once."""
        super().begin(ground)
        # By how many steps are left; at the end nothing is, and any share will do.
        self._shares = np.append(self.config.model.shares_of_rest(), 1.0)[::-1]

    def shares(self, steps_left: NDArray[np.int64]) -> Floats:
        """What is best for whatever is left."""
        found: Floats = self._shares[steps_left]
        return found
