"""Baselines for `Trading-v0` and `MarketMaking-v0`: market timing and quotes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.baselines import IncompatibleBaselineError
from sekai.evaluation.policy import EpisodeContext, Policy, StepContext
from sekai.evaluation.tasks.trading import MarketMakingTask
from sekai.spaces import Box

__all__ = [
    "AlwaysLong",
    "ConstantQuotes",
    "Hold",
    "MeanReversion",
    "OptimalQuotes",
    "TrendFollowing",
    "WideQuotes",
]

Floats = NDArray[np.float64]

SLOW_RETURN = "log_return_64"
FAST_RETURN = "log_return_8"


class TradingRule(Policy):
    """Market timing: short, flat or long in each symbol."""

    ignores_wrappers = True

    @abstractmethod
    def sides(self, step: StepContext) -> Floats:
        """Return -1, 0 or 1, envs by symbols."""

    def begin(self, context: EpisodeContext) -> None:
        """Read the symbols and features of the env."""
        super().begin(context)
        shape = context.vec.action_space.shape
        self._symbols = int(np.prod(shape)) if shape else 1
        self._features = [name.partition("@")[0] for name in _feature_names(context)]

    def decide(self, step: StepContext) -> Any:
        """Return sell, hold or buy; or equal weights of all symbols."""
        space, sides = self.context.vec.action_space, self.sides(step)
        if isinstance(space, Box):
            return sides / self._symbols
        actions = (1 + sides).astype(space.dtype)
        return actions.reshape(len(actions), *(space.shape or ()))

    def feature(self, step: StepContext, name: str) -> Floats:
        """Values of a feature, envs by symbols."""
        columns = [column for column, own in enumerate(self._features) if own == f"f_{name}"]
        if len(columns) != self._symbols:
            raise IncompatibleBaselineError(
                f"{self.name} needs the feature {name} of {self._symbols} symbols, got "
                f"{len(columns)}; remove the wrapper that hides the feature"
            )
        return np.asarray(step.observations, np.float64)[:, columns]

    def _constant(self, side: float) -> Floats:
        return np.full((self.context.vec.num_envs, self._symbols), side)


class Hold(TradingRule):
    """Never trades."""

    name = "hold"

    def sides(self, step: StepContext) -> Floats:
        """Flat."""
        return self._constant(0.0)


class AlwaysLong(TradingRule):
    """Buys as much as the account allows, and holds it."""

    name = "always_long"

    def sides(self, step: StepContext) -> Floats:
        """Long."""
        return self._constant(1.0)


class TrendFollowing(TradingRule):
    """Momentum: sign of the return of the last 64 ticks."""

    name = "momentum"

    def sides(self, step: StepContext) -> Floats:
        """Sign of the slow return."""
        return np.sign(self.feature(step, SLOW_RETURN))


class MeanReversion(TradingRule):
    """Mean reversion: opposite sign of the return of the last 8 ticks."""

    name = "mean_reversion"

    def sides(self, step: StepContext) -> Floats:
        """Opposite sign of the fast return."""
        return -np.sign(self.feature(step, FAST_RETURN))


class ConstantQuotes(Policy):
    """Constant quotes at the optimal distance of a risk-neutral market maker."""

    name = "constant_quotes"
    ignores_wrappers = True
    multiple = 1.0

    def begin(self, context: EpisodeContext) -> None:
        """Compute the distance: expected profit per unit of time is largest at 1 / decay."""
        super().begin(context)
        assert isinstance(context.task, MarketMakingTask), "quotes need a market-making task"
        space: Any = context.vec.action_space
        best = self.multiple / context.task.config().fill_decay
        self._distance = float(np.clip(best, space.low.min(), space.high.max()))

    def decide(self, step: StepContext) -> Floats:
        """Return the same distance on both sides."""
        return np.full((self.context.vec.num_envs, 2), self._distance)


class WideQuotes(ConstantQuotes):
    """Constant quotes at twice the distance: fewer fills with a larger spread."""

    name = "wide_quotes"
    multiple = 2.0


class OptimalQuotes(Policy):
    """Closed-form quotes that maximize expected utility."""

    name = "optimal_quotes"
    ignores_wrappers = True

    def decide(self, step: StepContext) -> Floats:
        """Return the optimal quotes for the inventory and the remaining time."""
        batch = getattr(self.context.vec, "batch", None)
        if batch is not None:
            quotes: Floats = batch.optimal_action()
            return quotes
        envs = getattr(self.context.vec, "envs", None)
        if not envs:
            raise IncompatibleBaselineError(
                "optimal_quotes needs envs in this process; use mode='sync'"
            )
        return np.stack([env.unwrapped.optimal_action() for env in envs])


def _feature_names(context: EpisodeContext) -> list[str]:
    batch = getattr(context.vec, "batch", None)
    if batch is not None:
        names: list[str] = batch.feature_names()
        return names
    envs = getattr(context.vec, "envs", None)
    return envs[0].unwrapped.feature_names() if envs else []
