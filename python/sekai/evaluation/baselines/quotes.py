"""Quotes that need no learning: always the same, or the best in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.baselines.target_weights import UnfitBaselineError
from sekai.evaluation.players import Ground, Moment, Player
from sekai.evaluation.tasks.market_making import MarketMakingTask

__all__ = ["ConstantQuotes", "OptimalQuotes", "WideQuotes"]

Floats = NDArray[np.float64]


class ConstantQuotes(Player):
    """Quotes both sides at the distance that is best for somebody who fears no risk."""

    name = "constant_quotes"
    is_bare = True
    times = 1.0

    def begin(self, ground: Ground) -> None:
        """Find the distance: what a fill earns, times how often it comes, is most at 1 / decay."""
        super().begin(ground)
        assert isinstance(ground.task, MarketMakingTask), "quotes are of markets that are made"
        space: Any = ground.vec.action_space
        best = self.times / ground.task.config().fill_decay
        self._distance = float(np.clip(best, space.low.min(), space.high.max()))

    def decide(self, moment: Moment) -> Floats:
        """The same on both sides, always."""
        return np.full((self.ground.vec.num_envs, 2), self._distance)


class WideQuotes(ConstantQuotes):
    """Quotes twice as far away: fewer fills, each worth more."""

    name = "wide_quotes"
    times = 2.0


class OptimalQuotes(Player):
    """The quotes that maximise expected utility, in closed form."""

    name = "optimal_quotes"
    is_bare = True

    def decide(self, moment: Moment) -> Floats:
        """What the env's own model says for what is held, and the time that is left."""
        batch = getattr(self.ground.vec, "batch", None)
        if batch is not None:
            found: Floats = batch.optimal_action()
            return found
        envs = getattr(self.ground.vec, "envs", None)
        if not envs:
            raise UnfitBaselineError(
                "optimal_quotes needs envs in this process, found others: leave it out"
            )
        return np.stack([env.unwrapped.optimal_action() for env in envs])
