"""Optimal execution in closed form: the model of Almgren and Chriss (2000)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import optimal_trajectory
from sekai.config.checked import CheckedConfig

Floats = NDArray[np.float64]

SLACK = 1e-9
"""Tolerance of the sum of a schedule, as a share of the order."""


class Frontier(NamedTuple):
    """Efficient frontier: expected cost and variance by risk aversion."""

    risk_aversions: Floats
    expected_costs: Floats
    variances: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class AlmgrenChriss(CheckedConfig):
    """Model of an order executed in equal time steps, with its optimal schedule and cost.

    Selling `n` shares within a step of length `tau` fills them at the price before it, less
    `half_spread + temporary_impact * n / tau`, and lowers the price for good by
    `permanent_impact * n`; buying is the mirror image. Meanwhile the price moves by
    `volatility * sqrt(tau)` times a standard normal draw. Cost is the implementation shortfall
    against the initial price. Times are in any one unit.
    """

    shares: float
    """Size of the order."""

    horizon: float
    """Time to complete the order."""

    steps: int
    """Number of trades."""

    volatility: float
    """Standard deviation of the price after a unit of time, in currency."""

    temporary_impact: float
    """Temporary price impact per share per unit of time."""

    permanent_impact: float = 0.0
    """Permanent price impact per share."""

    half_spread: float = 0.0
    """Half of the bid-ask spread, paid on each share."""

    risk_aversion: float = 0.0
    """Cost of a unit of variance: `expected cost + risk_aversion * variance` is minimised."""

    initial_price: float = 1.0
    """Price at the start."""

    def __post_init__(self) -> None:
        for name in ("shares", "horizon", "initial_price"):
            _check(name, "finite and above 0", getattr(self, name), lambda value: value > 0)
        for name in ("volatility", "permanent_impact", "half_spread", "risk_aversion"):
            _check(name, "finite and at least 0", getattr(self, name), lambda value: value >= 0)
        is_whole = isinstance(self.steps, (int, np.integer)) and not isinstance(self.steps, bool)
        if not is_whole or self.steps < 1:
            raise ValueError(f"steps must be an integer of at least 1, got {self.steps!r}")
        # Otherwise trading in lumps would be cheaper than trading evenly.
        least = self.permanent_impact * self.step_time / 2
        expected = f"finite and above permanent_impact * horizon / steps / 2 = {least:g}"
        _check("temporary_impact", expected, self.temporary_impact, lambda value: value > least)

    @property
    def step_time(self) -> float:
        """Duration of a step: `tau`."""
        return self.horizon / self.steps

    @property
    def notional(self) -> float:
        """Value of the order at the initial price."""
        return self.shares * self.initial_price

    @property
    def effective_impact(self) -> float:
        """Temporary impact less half of the permanent impact of a step."""
        return self.temporary_impact - self.permanent_impact * self.step_time / 2

    @property
    def urgency(self) -> float:
        """Decay rate of holdings per unit of time: `kappa`; 0 without risk or risk aversion."""
        return self._solution()[0] / self.step_time

    @property
    def half_life(self) -> float:
        """Half-life of the paper, `1 / kappa`, in which holdings fall to about 1 / e.

        Infinite without risk or risk aversion.
        """
        urgency = self.urgency
        return 1.0 / urgency if urgency > 0 else math.inf

    def trajectory(self) -> Floats:
        """Optimal holdings before the first trade and after every one: `steps + 1` values."""
        held: Floats = self.shares * self._solution()[1]
        return held

    def trades(self) -> Floats:
        """Optimal trade of every step; sums to `shares`."""
        return self.trajectory()[:-1] * self.shares_of_rest()

    def shares_of_rest(self) -> Floats:
        """Optimal trade of every step as a share of the remaining order.

        Optimal for any remaining size, since it depends on the remaining time alone. The last is 1.
        """
        return self._solution()[2]

    def expected_cost(self, trades: Any = None) -> Any:
        """Expected cost of a fixed schedule.

        Args:
            trades: trade of every step, in sum the order, or rows of such schedules; None for the
                optimal one.
        """
        trades = self._schedule(trades)
        spread = self.half_spread * np.abs(trades).sum(axis=-1)
        lasting = self.permanent_impact * self.shares**2 / 2
        rate = self.effective_impact / self.step_time
        return lasting + spread + rate * np.square(trades).sum(axis=-1)

    def variance(self, trades: Any = None) -> Any:
        """Variance of the cost of a fixed schedule."""
        held = self.shares - np.cumsum(self._schedule(trades), axis=-1)[..., :-1]
        return self.volatility**2 * self.step_time * np.square(held).sum(axis=-1)

    def objective(self, trades: Any = None) -> Any:
        """Objective that the optimal schedule minimises: expected cost plus priced variance."""
        return self.expected_cost(trades) + self.risk_aversion * self.variance(trades)

    def frontier(self, risk_aversions: Sequence[float] | Floats) -> Frontier:
        """Efficient frontier: optimal schedules for these risk aversions."""
        aversions = np.asarray(risk_aversions, np.float64)
        models = [replace(self, risk_aversion=float(aversion)) for aversion in aversions]
        costs = np.array([model.expected_cost() for model in models], np.float64)
        variances = np.array([model.variance() for model in models], np.float64)
        return Frontier(aversions, costs, variances)

    def _solution(self) -> tuple[float, Floats, Floats]:
        """Decay in a step, remaining shares of the order, and trades as shares of the rest."""
        return optimal_trajectory(
            int(self.steps),
            self.step_time,
            self.volatility,
            self.risk_aversion,
            self.effective_impact,
        )

    def _schedule(self, trades: Any) -> Floats:
        if trades is None:
            return self.trades()
        schedule = np.asarray(trades, np.float64)
        if schedule.ndim == 0 or schedule.shape[-1] != self.steps:
            raise ValueError(
                f"a schedule must have {self.steps} trades, got an array of shape {schedule.shape}"
            )
        # Written so that NaN fails as well.
        missing = np.abs(schedule.sum(axis=-1) - self.shares)
        if not np.all(missing <= SLACK * self.shares):
            total = schedule.sum(axis=-1).ravel()[np.argmax(missing)]
            raise ValueError(f"a schedule must trade {self.shares:g} in total, got {total:g}")
        return schedule


def almgren_chriss_schedule(
    shares: float,
    steps: int,
    *,
    horizon: float,
    volatility: float,
    temporary_impact: float,
    permanent_impact: float = 0.0,
    risk_aversion: float = 0.0,
) -> Floats:
    """Optimal trade of every step of Almgren and Chriss; see `AlmgrenChriss`."""
    return AlmgrenChriss(
        shares=shares,
        horizon=horizon,
        steps=steps,
        volatility=volatility,
        temporary_impact=temporary_impact,
        permanent_impact=permanent_impact,
        risk_aversion=risk_aversion,
    ).trades()


def _check(name: str, expected: str, value: float, holds: Callable[[float], bool]) -> None:
    if not (math.isfinite(value) and holds(value)):
        raise ValueError(f"{name} must be {expected}, got {value}")
