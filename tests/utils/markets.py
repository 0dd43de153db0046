"""A small market on recorded bars, whose features and fills can be made to look ahead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.core.env import Env
from sekai.core.result import ResetResult, StepResult
from sekai.spaces import Box, Discrete
from sekai.utils.perturbation import Stamped

Floats = NDArray[np.float64]
Data = Mapping[str, Any]
Features = Callable[[Data], Floats]

ROWS = 44
FIRST = 8
PUBLICATION_LAG = 5
HOUR = 4


def bars(seed: int = 0) -> dict[str, Any]:
    """Prices of four assets with gaps and a delisting, volumes, fundamentals and revisions."""
    rng = np.random.default_rng(seed)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.01, (ROWS, 4)), axis=0))
    gappy = close[:, 0].copy()
    gappy[[11, 12, 13, 20, 31, 32]] = np.nan
    listed = close.copy()
    listed[30:, 3] = np.nan
    sentiment = rng.normal(size=ROWS)
    sentiment[:3] = np.nan
    times = np.arange(ROWS)
    return {
        "close": close,
        "gappy": gappy,
        "listed": listed,
        "volume": rng.uniform(1, 100, (ROWS, 4)),
        "sentiment": sentiment,
        "fundamental": Stamped(rng.normal(size=ROWS), times + PUBLICATION_LAG),
        "revised": Stamped(rng.normal(size=ROWS), times + 3),
        "released": rng.normal(size=ROWS),
    }


class Bars(Env[Floats, Any]):
    """Hold one asset or none.

    Observation: the features of the current bar.
    Action: 0 out, 1 in.
    Reward: the change of the price if the asset is held, from the fill on.
    Terminates: never.
    Truncates: at the last bar.
    """

    def __init__(
        self,
        features: Floats,
        prices: Floats,
        *,
        fills_at_seen_close: bool = False,
        tells_time: bool = True,
        starts: int = 3,
    ) -> None:
        self._features = features.astype(np.float64)
        self._prices = prices
        self._fills_at_seen_close = fills_at_seen_close
        self._tells_time = tells_time
        self._starts = starts
        self._now = FIRST
        self._held = 0
        self.observation_space = Box(-np.inf, np.inf, features.shape[1:], np.float64)
        self.action_space = Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[Floats]:
        self._set_rng(seed)
        self._now = FIRST + int(self.rng.integers(0, self._starts))
        self._held = 0
        return ResetResult(self._observation(), self._info())

    def step(self, action: int) -> StepResult[Floats]:
        seen, self._now = self._now, self._now + 1
        fill_bar = seen if self._fills_at_seen_close else self._now
        change = float(self._prices[self._now] - self._prices[fill_bar])
        if action != self._held:
            info = {**self._info(), "fill_price": float(self._prices[fill_bar])}
            reward = change * int(action)
        else:
            info = self._info()
            reward = float(self._prices[self._now] - self._prices[seen]) * self._held
        self._held = int(action)
        is_last = self._now == len(self._prices) - 1
        return StepResult(self._observation(), reward, False, is_last, info)

    def _observation(self) -> Floats:
        return np.array(self._features[self._now])

    def _info(self) -> dict[str, Any]:
        return {"time_index": self._now} if self._tells_time else {}


def market(features: Features) -> Callable[[Data], Env[Any, Any]]:
    """Factory of a `Bars` env with these features."""
    return lambda data: Bars(features(data), data["close"][:, 0])


def column(values: Any) -> Floats:
    """Numbers in time as an array of one feature."""
    return np.asarray(values, dtype=np.float64).reshape(len(values), -1)


def delayed(values: Floats, rows: int) -> Floats:
    """Each row shown `rows` later, zeros before."""
    return np.concatenate([np.zeros((rows, *values.shape[1:])), values[: len(values) - rows]])


def forward_filled(values: Floats) -> Floats:
    """Gaps filled with the last value before them."""
    filled = values.copy()
    for row in range(1, len(filled)):
        if np.isnan(filled[row]):
            filled[row] = filled[row - 1]
    return np.asarray(np.nan_to_num(filled))
