"""The optimal way to work an order in closed form: the model of Almgren and Chriss (2000)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["AlmgrenChriss", "Frontier", "almgren_chriss_schedule"]

Floats = NDArray[np.float64]

SLACK = 1e-9
"""How far the sum of a schedule may be from the order, as a share of it."""

STRAIGHT = 1e-8
"""Decay over the whole horizon below which holdings fall in a straight line: what is left out is
its square, which is below rounding."""


class Frontier(NamedTuple):
    """The least expected cost for each variance, and whom it suits."""

    risk_aversions: Floats
    expected_costs: Floats
    variances: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class AlmgrenChriss:
    """An order that is worked in equal steps of time, and what that costs.

    Selling `n` shares within a step of length `tau` fills them at the price before it, less
    `half_spread + temporary_impact * n / tau`, and lowers the price for good by
    `permanent_impact * n`; buying is the mirror image. Meanwhile the price moves by
    `volatility * sqrt(tau)` times a standard normal draw. A cost is what falls short of the
    order's value at the initial price. Times are in any one unit.
    """

    shares: float
    """How much is to be sold or bought."""

    horizon: float
    """The time there is for it."""

    steps: int
    """Into how many trades it is cut."""

    volatility: float
    """Standard deviation of the price after a unit of time, in currency."""

    temporary_impact: float
    """How far the price of a fill gives way, for each share in a unit of time."""

    permanent_impact: float = 0.0
    """How far the price gives way for good, for each share."""

    half_spread: float = 0.0
    """What a share costs however slowly it is traded."""

    risk_aversion: float = 0.0
    """What a unit of variance is worth: `expected cost + risk_aversion * variance` is least."""

    initial_price: float = 1.0
    """The price when the order is given."""

    def __post_init__(self) -> None:
        for name in ("shares", "horizon", "initial_price"):
            _check(name, "finite and above 0", getattr(self, name), lambda value: value > 0)
        for name in ("volatility", "permanent_impact", "half_spread", "risk_aversion"):
            _check(name, "finite and at least 0", getattr(self, name), lambda value: value >= 0)
        is_whole = isinstance(self.steps, (int, np.integer)) and not isinstance(self.steps, bool)
        if not is_whole or self.steps < 1:
            raise ValueError(f"steps must be a whole number of at least 1, was {self.steps!r}")
        # Otherwise trading in lumps would be cheaper than trading evenly.
        least = self.permanent_impact * self.step_time / 2
        wanted = f"finite and above permanent_impact * horizon / steps / 2 = {least:g}"
        _check("temporary_impact", wanted, self.temporary_impact, lambda value: value > least)

    @property
    def step_time(self) -> float:
        """How long a step lasts: `tau`."""
        return self.horizon / self.steps

    @property
    def notional(self) -> float:
        """What the order is worth at the initial price."""
        return self.shares * self.initial_price

    @property
    def effective_impact(self) -> float:
        """Temporary impact, less what permanent impact takes from it by coming a step late."""
        return self.temporary_impact - self.permanent_impact * self.step_time / 2

    @property
    def urgency(self) -> float:
        """How fast holdings decay in a unit of time: `kappa`; 0 without risk or its aversion."""
        return self._decay() / self.step_time

    @property
    def half_life(self) -> float:
        """The paper's half-life `1 / kappa`, in which holdings fall to about 1 / e of themselves.

        Whatever the horizon; infinite without risk or its aversion.
        """
        urgency = self.urgency
        return 1.0 / urgency if urgency > 0 else math.inf

    def trajectory(self) -> Floats:
        """Optimal holdings before the first trade and after every one: `steps + 1` numbers."""
        done = np.arange(self.steps + 1.0)
        left = self.steps - done
        decay = self._decay()
        if decay * self.steps < STRAIGHT:
            return self.shares * (left / self.steps)
        # A ratio of hyperbolic sines, written so that nothing overflows and no digit is lost.
        ratio = np.expm1(-2.0 * decay * left) / np.expm1(-2.0 * decay * self.steps)
        held: Floats = self.shares * np.exp(-decay * done) * ratio
        return held

    def trades(self) -> Floats:
        """What is optimally traded in every step; sums to `shares`."""
        return self.trajectory()[:-1] * self.shares_of_rest()

    def shares_of_rest(self) -> Floats:
        """What is optimally traded in every step, as a share of what is left then.

        Optimal for whatever is left, since it depends on the remaining time alone. The last is 1.
        """
        left = np.arange(self.steps - 1.0, -1.0, -1.0)
        decay = self._decay()
        if decay * self.steps < STRAIGHT:
            return 1.0 / (left + 1.0)
        later = 1.0 + np.exp(-decay * (2.0 * left + 1.0))
        share: Floats = np.expm1(-decay) * later / np.expm1(-2.0 * decay * (left + 1.0))
        share[-1] = 1.0
        return share

    def expected_cost(self, trades: Any = None) -> Any:
        """The mean cost of a schedule fixed in advance: the optimal one, or any other.

        Args:
            trades: what is traded in every step, in all the order; or rows of such schedules, for
                a number each.
        """
        trades = self._schedule(trades)
        spread = self.half_spread * np.abs(trades).sum(axis=-1)
        lasting = self.permanent_impact * self.shares**2 / 2
        rate = self.effective_impact / self.step_time
        return lasting + spread + rate * np.square(trades).sum(axis=-1)

    def variance(self, trades: Any = None) -> Any:
        """The variance of the cost of a schedule fixed in advance."""
        held = self.shares - np.cumsum(self._schedule(trades), axis=-1)[..., :-1]
        return self.volatility**2 * self.step_time * np.square(held).sum(axis=-1)

    def objective(self, trades: Any = None) -> Any:
        """Expected cost, and variance at what it is worth: what the optimal schedule minimises."""
        return self.expected_cost(trades) + self.risk_aversion * self.variance(trades)

    def frontier(self, risk_aversions: Sequence[float] | Floats) -> Frontier:
        """What the best schedules for these risk aversions cost, and how surely."""
        aversions = np.asarray(risk_aversions, np.float64)
        models = [replace(self, risk_aversion=float(aversion)) for aversion in aversions]
        costs = np.array([model.expected_cost() for model in models], np.float64)
        variances = np.array([model.variance() for model in models], np.float64)
        return Frontier(aversions, costs, variances)

    def _decay(self) -> float:
        """`kappa * tau`, from `cosh(kappa tau) = 1 + aversion volatility² tau² / (2 impact)`."""
        risk = math.sqrt(self.risk_aversion) * self.volatility / math.sqrt(self.effective_impact)
        # The same as the inverse of cosh, without losing the digits of a number next to 1.
        return 2.0 * math.asinh(self.step_time * risk / 2.0)

    def _schedule(self, trades: Any) -> Floats:
        if trades is None:
            return self.trades()
        schedule = np.asarray(trades, np.float64)
        if schedule.ndim == 0 or schedule.shape[-1] != self.steps:
            raise ValueError(
                f"a schedule needs {self.steps} trades, found an array of shape {schedule.shape}"
            )
        # Written so that NaN fails as well.
        missing = np.abs(schedule.sum(axis=-1) - self.shares)
        if not np.all(missing <= SLACK * self.shares):
            found = schedule.sum(axis=-1).ravel()[np.argmax(missing)]
            raise ValueError(f"a schedule must trade {self.shares:g} in all, found {found:g}")
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
    """What to trade in every step so that cost and risk are least; see `AlmgrenChriss`."""
    return AlmgrenChriss(
        shares=shares,
        horizon=horizon,
        steps=steps,
        volatility=volatility,
        temporary_impact=temporary_impact,
        permanent_impact=permanent_impact,
        risk_aversion=risk_aversion,
    ).trades()


def _check(name: str, wanted: str, value: float, holds: Callable[[float], bool]) -> None:
    if not (math.isfinite(value) and holds(value)):
        raise ValueError(f"{name} must be {wanted}, was {value}")
