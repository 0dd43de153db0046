"""Puts features on one scale, by what the training part shows.

A scaling has `fit(values)` and `transform(values)`: the last axis is the channels, NaN is what is
missing and takes no part. All assets share one scale, so that they can still be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sekai.error import StateError

__all__ = ["SCALINGS", "RankScaling", "RobustScaling", "Scaling", "ZScoreScaling"]

Floats = NDArray[np.float64]

KNOTS = 1000
"""Quantiles that `RankScaling` remembers of each channel."""


@runtime_checkable
class Scaling(Protocol):
    """What `Pipeline(scaling=...)` takes; scalers of scikit-learn are such."""

    def fit(self, values: Floats) -> Any:
        """Learn from samples by channels, NaN where a value is missing."""

    def transform(self, values: Floats) -> Floats:
        """Samples by channels on the scale that was learned; NaN stays NaN."""


class _Linear:
    """Less a centre, over a width: both of each channel."""

    def __init__(self) -> None:
        self._center: Floats = np.empty(0)
        self._width: Floats = np.empty(0)

    def _measured(self, column: Floats) -> tuple[float, float]:
        raise NotImplementedError("a linear scaling says where a column is, and how wide")

    def fit(self, values: Floats) -> None:
        """Measure each column, leaving out what is missing."""
        measured = [self._measured(column) for column in _columns(values)]
        self._center = np.array([center for center, _ in measured])
        # What never moved in training is shown as its distance from where it stood.
        self._width = np.array([width if width > 0 else 1.0 for _, width in measured])

    def transform(self, values: Floats) -> Floats:
        """Values less the centre, over the width."""
        return (values - self._center) / self._width

    def state_dict(self) -> dict[str, list[float]]:
        """What was learned, as JSON can hold it."""
        return {"center": self._center.tolist(), "width": self._width.tolist()}

    def load_state_dict(self, state: Mapping[str, Sequence[float]]) -> None:
        """Continue from what was learned."""
        center, width = _row(state, "center"), _row(state, "width")
        if center.shape != width.shape or not (width > 0).all():
            raise StateError(f"a center and a width above 0 of each channel was wanted: {state}")
        self._center, self._width = center, width


class ZScoreScaling(_Linear):
    """Less the mean, over the standard deviation."""

    def _measured(self, column: Floats) -> tuple[float, float]:
        return float(column.mean()), float(column.std())


class RobustScaling(_Linear):
    """Less the median, over the distance of the quartiles: outliers count no more than others."""

    def _measured(self, column: Floats) -> tuple[float, float]:
        low, middle, high = np.quantile(column, [0.25, 0.5, 0.75])
        return float(middle), float(high - low)


class RankScaling:
    """The place of a value among those of the training part: -1 below all, 1 above all."""

    def __init__(self) -> None:
        self._knots: list[Floats] = []

    def fit(self, values: Floats) -> None:
        """Remember up to `KNOTS` quantiles of each column."""
        self._knots = [_quantiles(column) for column in _columns(values)]

    def transform(self, values: Floats) -> Floats:
        """How many of the knots are below, ties counted as half."""
        shown = np.full(values.shape, np.nan)
        for place, knots in enumerate(self._knots):
            column = values[..., place]
            below = knots.searchsorted(column, "left") + knots.searchsorted(column, "right")
            shown[..., place] = np.where(np.isnan(column), np.nan, below / len(knots) - 1)
        return shown

    def state_dict(self) -> dict[str, list[list[float]]]:
        """What was learned, as JSON can hold it."""
        return {"knots": [knots.tolist() for knots in self._knots]}

    def load_state_dict(self, state: Mapping[str, Sequence[Sequence[float]]]) -> None:
        """Continue from what was learned."""
        found = state.get("knots") if isinstance(state, Mapping) else None
        knots = [np.asarray(row, np.float64) for row in found or ()]
        if not knots or any(
            row.ndim != 1 or not row.size or (np.diff(row) < 0).any() for row in knots
        ):
            raise StateError(f"ascending knots of each channel were wanted, found {found!r:.80}")
        self._knots = knots


SCALINGS: dict[str, type[_Linear] | type[RankScaling]] = {
    "zscore": ZScoreScaling,
    "robust": RobustScaling,
    "rank": RankScaling,
}
"""The scalings that have a name."""


def _columns(values: Floats) -> list[Floats]:
    columns = [values[:, place] for place in range(values.shape[1])]
    return [column[np.isfinite(column)] for column in columns]


def _quantiles(column: Floats) -> Floats:
    if len(column) <= KNOTS:
        return np.sort(column)
    return np.quantile(column, np.linspace(0, 1, KNOTS), method="inverted_cdf")


def _row(state: Any, name: str) -> Floats:
    found = state.get(name) if isinstance(state, Mapping) else None
    row = np.asarray(found if found is not None else [], np.float64)
    if row.ndim != 1 or not row.size or not np.isfinite(row).all():
        raise StateError(f"numbers of each channel under {name!r} were wanted, found {found!r}")
    return row
