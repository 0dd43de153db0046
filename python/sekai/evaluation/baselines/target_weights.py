"""Baselines that hold portfolios: they name weights, and when they want no change."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data import MarketData
from sekai.error import SekaiError
from sekai.evaluation.players import Ground, Moment, Player
from sekai.evaluation.tasks.portfolio import PortfolioTask
from sekai.spaces import MultiDiscrete

__all__ = ["EstimatedWeights", "TargetWeights", "UnfitBaselineError"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

REBALANCING = 21
"""Decisions from one estimate to the next: about a month of days."""


class UnfitBaselineError(SekaiError, ValueError):
    """A baseline that can not be played in this env."""


class TargetWeights(Player):
    """Names weights of all assets and cash, or NaN where nothing shall be traded."""

    is_bare = True

    @abstractmethod
    def targets(self, moment: Moment) -> Floats:
        """Rows of weights, one for each env."""

    def begin(self, ground: Ground) -> None:
        """Find out what an action is there."""
        super().begin(ground)
        seen: Any = ground.vec.observation_space
        if not {"weights", "mask"} <= set(getattr(seen, "spaces", ())):
            raise UnfitBaselineError(
                f"{self.name} needs an env that shows 'weights' and 'mask', found {seen}: leave it "
                f"out, or judge without the layer that hides them"
            )
        assert isinstance(ground.task, PortfolioTask), "weights are of portfolios"
        config = ground.task.config()
        self._tilt = 0.05 if config is None else config.tilt
        self._delay = 0 if config is None else config.execution.delay
        self._order = np.full((ground.vec.num_envs, *seen["weights"].shape), np.nan)
        self._age = np.zeros(ground.vec.num_envs, np.int64)

    def decide(self, moment: Moment) -> Floats:
        """The weights to hold."""
        return self.targets(moment)

    def wait(self, moment: Moment) -> Floats:
        """No order."""
        return np.full(np.shape(moment.observations["weights"]), np.nan)

    def send(self, decided: Floats, moment: Moment) -> Any:
        """The weights themselves, or tilts towards them; no order is what is held now."""
        held = np.asarray(moment.observations["weights"], np.float64)
        standing = self._standing(decided)
        wanted = np.where(np.isnan(standing), held, standing)
        space = self.ground.vec.action_space
        if isinstance(space, MultiDiscrete):
            change = (wanted - held)[:, :-1]
            half = self._tilt / 2
            return (1 + (change > half) - (change < -half)).astype(space.dtype)
        return wanted

    def _standing(self, decided: Floats) -> Floats:
        """The orders of today, or those that an env with a delay has not filled yet.

        There to want what is held, while it is about to change, is an order to change it back.
        """
        is_new = ~np.isnan(decided).all(axis=1)
        self._age = np.where(is_new, 0, self._age + 1)
        self._order[is_new] = decided[is_new]
        is_open = self._age <= self._delay
        return np.where(is_open[:, None], self._order, np.nan)


class EstimatedWeights(TargetWeights):
    """Weights from what was seen of prices, taken anew after some decisions and held between."""

    lookback = 120
    """Rows that are looked back on."""

    least = 20
    """Rows without which nothing is estimated: then all assets get the same."""

    def __init__(self) -> None:
        self._of: MarketData | None = None
        self._found: dict[tuple[int, bytes], Floats] = {}

    def begin(self, ground: Ground) -> None:
        """Find the prices."""
        super().begin(ground)
        assert isinstance(ground.task, PortfolioTask), "weights are of portfolios"
        data = ground.task.data
        if data is None:
            raise UnfitBaselineError(
                f"{self.name} needs the prices of the env's data, found none: leave it out"
            )
        if self._of is not data:
            # What is estimated depends on the row alone, whatever is paid or held.
            self._of, self._found = data, {}

    @abstractmethod
    def estimate(self, returns: Floats) -> Floats:
        """Weights that sum to 1, from past simple returns: rows by assets, all there."""

    def targets(self, moment: Moment) -> Floats:
        """Estimates on the day of rebalancing, nothing between."""
        held = moment.observations["weights"]
        if moment.step % REBALANCING:
            return np.full(held.shape, np.nan)
        weights = np.zeros(held.shape)
        masks = np.asarray(moment.observations["mask"], np.bool_)
        # Where one of several agents has left, nothing is told, and nothing can be traded.
        rows = np.nan_to_num(moment.infos["time_index"]).astype(np.int64)
        for place, row in enumerate(rows.tolist()):
            weights[place, :-1] = self._weights(row, masks[place])
        return weights

    def _weights(self, row: int, mask: Bools) -> Floats:
        key = (row, mask.tobytes())
        if key not in self._found:
            self._found[key] = self._estimated(row, mask)
        return self._found[key]

    def _estimated(self, row: int, mask: Bools) -> Floats:
        task = self.ground.task
        assert isinstance(task, PortfolioTask), "weights are of portfolios"
        # Ends with the row of the decision, whose close is known when it is taken.
        prices = task.marks[max(0, row - self.lookback) : row + 1]
        there = mask & np.isfinite(prices).all(axis=0)
        weights = np.zeros(len(mask))
        if len(prices) <= self.least or not there.any():
            weights[mask] = 1.0 / max(1, mask.sum())
            return weights
        known = prices[:, there]
        weights[there] = self.estimate(known[1:] / known[:-1] - 1.0)
        return weights
