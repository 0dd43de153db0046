"""Portfolio baselines: equal weight, buy and hold, minimum variance, risk parity, momentum."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data import MarketData
from sekai.envs.portfolio.config import AgentConfig
from sekai.evaluation.baselines import IncompatibleBaselineError
from sekai.evaluation.env_source import EnvSource
from sekai.evaluation.policy import EpisodeContext, Policy, StepContext
from sekai.evaluation.tasks import reconfigured
from sekai.evaluation.tasks.portfolio import Mandate, PortfolioTask, portfolio_config
from sekai.spaces import MultiDiscrete

__all__ = [
    "BuyAndHold",
    "EqualWeight",
    "EstimatedWeights",
    "MinimumVariance",
    "Momentum",
    "RiskParity",
    "TargetWeights",
    "covariance_of",
    "minimum_variance_weights",
    "risk_parity_weights",
]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

REBALANCE_STEPS = 21
"""Steps between estimates: about a month of days."""

SMALLEST_SHARE = 0.25
"""Share of a part of the purchase below which buy and hold does not trade."""

COMPLETE = 0.9
"""Traded share of an order from which the order is complete; prices move until the fill."""

SHRINKAGE = 0.1
"""Shrinkage of the covariance towards its diagonal, so that few rows do not make it singular."""

SWEEPS = 1_000
TOLERANCE = 1e-8


class TargetWeights(Policy):
    """Target weights of all assets and cash; NaN for no order.

    Where the mandate limits names by `max_names` or `min_weight`, those with the largest traded
    value in the rows up to the start of the episode come first, ties by name; see
    `PortfolioTask.names_by_traded_value`.
    """

    ignores_wrappers = True

    @abstractmethod
    def targets(self, step: StepContext) -> Floats:
        """Return target weights, one row for each env."""

    def begin(self, context: EpisodeContext) -> None:
        """Check the observation space, and read the delay from the task's config."""
        super().begin(context)
        space: Any = context.vec.observation_space
        if not {"weights", "mask"} <= set(getattr(space, "spaces", ())):
            raise IncompatibleBaselineError(
                f"{self.name} needs observations with 'weights' and 'mask', got {space}; "
                "remove the wrapper that hides them"
            )
        assert isinstance(context.task, PortfolioTask), "target weights need a portfolio task"
        self._task = context.task
        config = context.task.config()
        self._tilt = 0.05 if config is None else config.tilt
        self._delay = 0 if config is None else config.execution.delay
        self._mandate = context.task.mandate(getattr(context.vec, "agent", None))
        self._names: NDArray[np.int64] | None = None
        self._target = np.full((context.vec.num_envs, *space["weights"].shape), np.nan)
        self._order = self._target.copy()
        self._age = np.full(context.vec.num_envs, self._delay + 1)
        self._distance = np.zeros(context.vec.num_envs)

    def decide(self, step: StepContext) -> Floats:
        """Return the target weights."""
        return self.targets(step)

    def idle(self, step: StepContext) -> Floats:
        """Return no order."""
        return np.full(np.shape(step.observations["weights"]), np.nan)

    def actions(self, decision: Floats, step: StepContext) -> Any:
        """Convert targets to weights or tilts; without an order, the held weights."""
        held = np.asarray(step.observations["weights"], np.float64)
        pending = self._pending(decision, held, step)
        targets = np.where(np.isnan(pending), held, pending)
        space = self.context.vec.action_space
        if isinstance(space, MultiDiscrete):
            change = (targets - held)[:, :-1]
            half = self._tilt / 2
            return (1 + (change > half) - (change < -half)).astype(space.dtype)
        return targets

    def _pending(self, decision: Floats, held: Floats, step: StepContext) -> Floats:
        """Orders of this step, and those that have not been filled completely.

        An env with a delay fills later: asking for the held weights before the fill would cancel
        the order. Limits of turnover, volume or tilts fill a part: the rest is sent again.
        """
        is_new = ~np.isnan(decision).all(axis=1)
        was_open = self._age <= self._delay
        self._age = np.where(is_new, 0, self._age + 1)
        self._target[is_new] = decision[is_new]
        is_partial = was_open & (self._age > self._delay) & self._is_partial(step)
        self._age[is_partial] = 0
        self._send(self._age == 0, held, step)
        return np.where((self._age <= self._delay)[:, None], self._order, np.nan)

    def _is_partial(self, step: StepContext) -> NDArray[np.bool_]:
        """Return True where the last order was a part of the way, or a part of it was filled."""
        traded = np.nan_to_num(step.infos.get("turnover", self._distance))
        return (traded > 0) & (traded < COMPLETE * self._distance)

    def _send(self, is_sent: Bools, held: Floats, step: StepContext) -> None:
        """Order the target, or an equal part of the way if it exceeds the turnover limit."""
        if not is_sent.any():
            return
        target, movable = self._target[is_sent], np.asarray(step.observations["mask"], np.bool_)
        names = self._ranked_names(step)
        order = None if names is None else names[is_sent]
        allowed = self._mandate.allowed(target, held[is_sent], movable[is_sent], order)
        if names is not None:
            # The env would choose names of the same weight by column.
            target = allowed
        change = allowed - held[is_sent]
        distance = np.abs(change[:, :-1]).sum(axis=1)
        parts = np.maximum(np.ceil(distance / self._mandate.turnover - TOLERANCE), 1.0)
        self._distance[is_sent] = distance
        self._order[is_sent] = np.where(
            parts[:, None] > 1, held[is_sent] + change / parts[:, None], target
        )

    def _ranked_names(self, step: StepContext) -> NDArray[np.int64] | None:
        """Assets of each env in order of preference; None if the mandate limits no names."""
        if self._names is None and self._mandate.most_names < np.inf:
            # Infos of an agent that has left are NaN, and it cannot trade.
            rows = np.nan_to_num(step.infos["time_index"]).astype(np.int64)
            self._names = np.array([self._task.names_by_traded_value(row) for row in rows.tolist()])
        return self._names

    def _equal_weights(self, step: StepContext) -> Floats:
        """Equal weights of tradable assets, of as many names as allowed; all cash if none."""
        mask = np.asarray(step.observations["mask"], np.bool_)
        names = self._ranked_names(step)
        if names is not None:
            # Positions that cannot be sold are names too.
            held = np.asarray(step.observations["weights"])[:, :-1]
            mask = mask | (np.abs(held) > TOLERANCE)
            ranked = np.take_along_axis(mask, names, axis=1)
            ranked &= np.cumsum(ranked, axis=1) <= self._mandate.most_names
            np.put_along_axis(mask, names, ranked, axis=1)
        count = mask.sum(axis=1, keepdims=True)
        return np.concatenate([mask / np.maximum(count, 1.0), 1.0 - (count > 0)], axis=1)


class EqualWeight(TargetWeights):
    """Equal weights of all tradable assets, rebalanced in every step."""

    name = "equal_weight"

    def targets(self, step: StepContext) -> Floats:
        """Equal weights."""
        return self._equal_weights(step)


class BuyAndHold(TargetWeights):
    """Buy and hold: equal weights as soon as the mandate allows them, never rebalanced."""

    name = "buy_and_hold"

    def source_for(self, source: EnvSource) -> EnvSource:
        """Return the env with orders sized at the decision, and a smallest trade.

        If weights were reached at the fill price, asking for the held weights would trade against
        every gap between the close and the next open. The smallest trade, below any part of the
        purchase, prevents corrections of orders that a delay has not filled yet.
        """
        adapted, config = super().source_for(source), portfolio_config(source)
        if config is None or adapted.options is None or adapted.options.get("data") is None:
            return adapted
        part = min(
            _smallest_purchase(member, adapted.options["data"])
            for member in config.members.values()
        )
        part = min(part, config.tilt) if config.action == "tilts" else part
        smallest = max(config.execution.smallest_trade, SMALLEST_SHARE * part)
        execution = replace(config.execution, sizing="decision", smallest_trade=smallest)
        return reconfigured(adapted, execution=execution)

    def targets(self, step: StepContext) -> Floats:
        """Equal weights in the first step, then no order."""
        return self._equal_weights(step) if step.step == 0 else self.idle(step)


class EstimatedWeights(TargetWeights):
    """Weights estimated from past prices, about once a month."""

    lookback = 120
    """Rows of history."""

    min_rows = 20
    """Rows below which all assets get equal weights."""

    def __init__(self) -> None:
        self._data: MarketData | None = None
        self._estimates: dict[tuple[int, bytes], Floats] = {}

    def begin(self, context: EpisodeContext) -> None:
        """Find the prices."""
        super().begin(context)
        data = self._task.data
        if data is None:
            raise IncompatibleBaselineError(
                f"{self.name} needs the prices of the env's data, which are not available; pass an "
                "env id with its data as env_options"
            )
        if self._data is not data:
            # Estimates depend on the row only, not on costs or holdings.
            self._data, self._estimates = data, {}

    @abstractmethod
    def estimate(self, returns: Floats) -> Floats:
        """Return weights that sum to 1 from past simple returns, rows by assets."""

    def targets(self, step: StepContext) -> Floats:
        """Estimated weights on rebalancing steps, else no order."""
        if step.step % REBALANCE_STEPS:
            return self.idle(step)
        weights = np.zeros(np.shape(step.observations["weights"]))
        masks = np.asarray(step.observations["mask"], np.bool_)
        # Infos of an agent that has left are NaN, and it cannot trade.
        rows = np.nan_to_num(step.infos["time_index"]).astype(np.int64)
        for index, row in enumerate(rows.tolist()):
            key = (row, masks[index].tobytes())
            if key not in self._estimates:
                self._estimates[key] = self._estimated(row, masks[index])
            weights[index, :-1] = self._estimates[key]
        return weights

    def _estimated(self, row: int, mask: Bools) -> Floats:
        # Ends with the row of the decision, whose close is known.
        prices = self._task.adjusted_marks[max(0, row - self.lookback) : row + 1]
        priced = mask & np.isfinite(prices).all(axis=0)
        weights = np.zeros(len(mask))
        if len(prices) <= self.min_rows or not priced.any():
            weights[mask] = 1.0 / max(1, mask.sum())
            return weights
        known = prices[:, priced]
        weights[priced] = self.estimate(known[1:] / known[:-1] - 1.0)
        return weights


class MinimumVariance(EstimatedWeights):
    """Long-only minimum-variance portfolio."""

    name = "minimum_variance"

    def estimate(self, returns: Floats) -> Floats:
        """Minimum-variance weights."""
        return minimum_variance_weights(covariance_of(returns), TOLERANCE)


class RiskParity(EstimatedWeights):
    """Risk parity: equal risk contributions of all assets."""

    name = "risk_parity"

    def estimate(self, returns: Floats) -> Floats:
        """Risk-parity weights."""
        return risk_parity_weights(covariance_of(returns), TOLERANCE)


class Momentum(EstimatedWeights):
    """Momentum: equal weights of the third of the assets with the highest past return."""

    name = "momentum"

    def estimate(self, returns: Floats) -> Floats:
        """Equal weights of the best third."""
        growth = np.log1p(np.maximum(returns, -1.0 + 1e-12)).sum(axis=0)
        best = np.argsort(-growth, kind="stable")[: max(1, len(growth) // 3)]
        weights = np.zeros(len(growth))
        weights[best] = 1.0 / len(best)
        return weights


def covariance_of(returns: Floats) -> Floats:
    """Sample covariance, shrunk towards its diagonal."""
    sample = np.atleast_2d(np.cov(returns, rowvar=False))
    diagonal = np.diag(np.maximum(np.diag(sample), 1e-12))
    shrunk: Floats = (1.0 - SHRINKAGE) * sample + SHRINKAGE * diagonal
    shrunk[np.diag_indices_from(shrunk)] = np.diag(diagonal)
    return shrunk


def minimum_variance_weights(covariance: Floats, tolerance: float = 1e-10) -> Floats:
    """Long-only minimum-variance weights, by coordinate descent.

    Proportional to the `x >= 0` that minimizes `x'Cx / 2 - sum x`.
    """

    def update(rest: float, variance: float) -> float:
        return max(0.0, (1.0 - rest) / variance)

    unit = covariance / float(np.diag(covariance).mean())
    return _coordinate_descent(unit, 1.0 / np.diag(unit) / len(unit), update, tolerance)


def risk_parity_weights(covariance: Floats, tolerance: float = 1e-10) -> Floats:
    """Weights with equal risk contributions, by coordinate descent.

    Proportional to the `x > 0` that minimizes `x'Cx / 2 - mean log x`.
    """
    unit = covariance / float(np.diag(covariance).mean())
    budget = 1.0 / len(unit)

    def update(rest: float, variance: float) -> float:
        root = np.sqrt(rest * rest + 4.0 * variance * budget)
        return float((root - rest) / (2.0 * variance))

    return _coordinate_descent(unit, np.sqrt(budget / np.diag(unit)), update, tolerance)


def _coordinate_descent(
    matrix: Floats, x: Floats, update: Callable[[float, float], float], tolerance: float
) -> Floats:
    """Update one asset after the other until `x` is stable; returns `x` scaled to a sum of 1."""
    diagonal = np.diag(matrix)
    for _ in range(SWEEPS):
        before = x.copy()
        for index in range(len(x)):
            rest = matrix[index] @ x - diagonal[index] * x[index]
            x[index] = update(rest, diagonal[index])
        if np.abs(x - before).max() <= tolerance * x.max():
            break
    weights: Floats = x / x.sum()
    return weights


def _smallest_purchase(agent: AgentConfig, data: MarketData) -> float:
    """Smallest weight that is bought at once on the way from cash to allowed equal weights."""
    settings = agent.constraints.settings(data.assets, data.sectors, agent.account)
    # Limits on names leave larger positions only.
    mandate = Mandate({**settings, "max_names": None, "min_weight": 0.0})
    assets = len(data.assets)
    equal = np.append(np.full(assets, 1.0 / assets), 0.0)
    bought = mandate.allowed(equal, np.eye(assets + 1)[-1], np.ones(assets, np.bool_))[:-1]
    parts = max(1.0, np.ceil(np.abs(bought).sum() / mandate.turnover))
    return float(np.abs(bought[bought != 0.0]).min(initial=1.0) / parts)
