"""What a policy did in one episode, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Episode", "Fills"]

Floats = NDArray[np.float64]
Times = NDArray[np.datetime64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Fills:
    """Trades in the order in which they happened."""

    step: NDArray[np.int64]
    """The step in which each happened."""

    asset: NDArray[np.str_]
    """What was traded."""

    units: Floats
    """How many units; below 0 for a sale."""

    price: Floats
    """At which price."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self.step)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Episode:
    """An episode of so many steps; what an env does not tell is empty or None."""

    seed: int

    rewards: Floats
    """Of each step."""

    equity: Floats
    """Before the first step, and after each; empty where there is no account."""

    times: Times | None = None
    """When equity was so; None where steps have no dates."""

    assets: tuple[str, ...] = ()
    """The names of what is held, without cash."""

    actions: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """What was done, as numbers: steps by numbers of an action."""

    weights: Floats | None = None
    """What assets and cash, which is last, are of equity after each step."""

    prices: Floats | None = None
    """Of each asset, when equity was taken: one time more than there are steps."""

    turnover: Floats | None = None
    """Values traded in each step, as shares of equity."""

    costs: dict[str, Floats] = field(default_factory=dict)
    """What was paid in each step, by kind, in money."""

    fills: Fills | None = None

    outcome: dict[str, float] = field(default_factory=dict)
    """What the task itself counts by: a shortfall, say."""

    members: dict[str, Floats] = field(default_factory=dict)
    """Equity of each of several agents, of which `equity` is the sum; empty where there is one."""

    @property
    def returns(self) -> Floats:
        """Simple returns of equity, step by step; of nothing comes nothing."""
        before = self.equity[:-1]
        found: Floats = np.zeros(len(before))
        np.divide(np.diff(self.equity), before, out=found, where=before > 0)
        return found

    @property
    def total_cost(self) -> float:
        """What was paid of every kind."""
        return float(sum(paid.sum() for paid in self.costs.values()))
