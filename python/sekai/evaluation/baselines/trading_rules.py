"""Rules for one market at a time: never, always, with the trend, against it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.players import Ground, Moment, Player
from sekai.spaces import Box

__all__ = ["AlwaysLong", "Hold", "MeanReversion", "TrendFollowing"]

Floats = NDArray[np.float64]

FEATURES = 54
"""Numbers that are shown of a symbol; a 55th only if it is asked for."""

SLOW_RETURN = 24
"""Where the log return over the last 64 ticks stands among them."""

FAST_RETURN = 18
"""Where the log return over the last 8 ticks stands."""


class TradingRule(Player):
    """Says for each symbol whether to be short, flat or long."""

    def sides(self, moment: Moment) -> Floats:
        """-1, 0 or 1: envs by symbols."""
        raise NotImplementedError

    def begin(self, ground: Ground) -> None:
        """Count the symbols."""
        super().begin(ground)
        shape = ground.vec.action_space.shape
        self._symbols = int(np.prod(shape)) if shape else 1

    def decide(self, moment: Moment) -> Any:
        """Sell, hold or buy; or weights, with equal parts for all symbols."""
        space, sides = self.ground.vec.action_space, self.sides(moment)
        if isinstance(space, Box):
            return sides / self._symbols
        actions = (1 + sides).astype(space.dtype)
        return actions.reshape(len(actions), *(space.shape or ()))

    def shown(self, moment: Moment, place: int) -> Floats:
        """A feature of each symbol."""
        rows = np.asarray(moment.observations, np.float64)
        names = getattr(getattr(self.ground.vec, "batch", None), "feature_names", None)
        width = FEATURES
        if names is not None:
            width = 55 if len(names()) >= 55 * self._symbols and "net_order_flow" in str(
                names()
            ) else FEATURES  # fmt: skip
        return rows[:, [symbol * width + place for symbol in range(self._symbols)]]


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
