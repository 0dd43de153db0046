"""Rules for one market at a time: never, always, with the trend, against it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.baselines.target_weights import UnfitBaselineError
from sekai.evaluation.players import Ground, Moment, Player
from sekai.spaces import Box

__all__ = ["AlwaysLong", "Hold", "MeanReversion", "TrendFollowing"]

Floats = NDArray[np.float64]

SLOW_RETURN = "log_return_64"
"""The feature that trends are told by."""

FAST_RETURN = "log_return_8"
"""The feature that overreactions are told by."""


class TradingRule(Player):
    """Says for each symbol whether to be short, flat or long."""

    is_bare = True

    @abstractmethod
    def sides(self, moment: Moment) -> Floats:
        """-1, 0 or 1: envs by symbols."""

    def begin(self, ground: Ground) -> None:
        """Count the symbols."""
        super().begin(ground)
        shape = ground.vec.action_space.shape
        self._symbols = int(np.prod(shape)) if shape else 1
        self._features = [name.partition("@")[0] for name in _feature_names(ground)]

    def decide(self, moment: Moment) -> Any:
        """Sell, hold or buy; or weights, with equal parts for all symbols."""
        space, sides = self.ground.vec.action_space, self.sides(moment)
        if isinstance(space, Box):
            return sides / self._symbols
        actions = (1 + sides).astype(space.dtype)
        return actions.reshape(len(actions), *(space.shape or ()))

    def shown(self, moment: Moment, feature: str) -> Floats:
        """A feature of each symbol."""
        places = [place for place, name in enumerate(self._features) if name == f"f_{feature}"]
        if len(places) != self._symbols:
            raise UnfitBaselineError(
                f"{self.name} needs {feature} of {self._symbols} symbols, found {len(places)}: "
                f"leave it out, or judge without the layer that hides it"
            )
        return np.asarray(moment.observations, np.float64)[:, places]


class Hold(TradingRule):
    """Never trades."""

    name = "hold"

    def sides(self, moment: Moment) -> Floats:
        """Flat."""
        return np.zeros((self.ground.vec.num_envs, self._symbols))


class AlwaysLong(TradingRule):
    """Buys as long as the account may, and keeps it."""

    name = "always_long"

    def sides(self, moment: Moment) -> Floats:
        """Long."""
        return np.ones((self.ground.vec.num_envs, self._symbols))


class TrendFollowing(TradingRule):
    """Goes with the return of the last 64 ticks."""

    name = "momentum"

    def sides(self, moment: Moment) -> Floats:
        """The sign of the slow return."""
        return np.sign(self.shown(moment, SLOW_RETURN))


class MeanReversion(TradingRule):
    """Goes against the return of the last 8 ticks."""

    name = "mean_reversion"

    def sides(self, moment: Moment) -> Floats:
        """The opposite sign of the fast return."""
        return -np.sign(self.shown(moment, FAST_RETURN))


def _feature_names(ground: Ground) -> list[str]:
    batch = getattr(ground.vec, "batch", None)
    if batch is not None:
        names: list[str] = batch.feature_names()
        return names
    envs = getattr(ground.vec, "envs", None)
    return envs[0].unwrapped.feature_names() if envs else []
