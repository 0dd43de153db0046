"""Falls of an account from its peak: how deep, how long, and whether it came back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Drawdown", "drawdowns", "longest_drawdown", "max_drawdown"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawdown:
    """A fall below a peak, until the peak is reached again."""

    depth: float
    """How far it went, as a share of the peak: below 0."""

    start: int
    """The place of the peak."""

    trough: int
    """The place of the lowest value."""

    recovery: int | None
    """The first place that is as high as the peak; None while it is under water."""

    length: int
    """Steps from the peak to the recovery, or to the last value while it is under water."""


def drawdowns(equity: Floats) -> list[Drawdown]:
    """Every fall of an account, in the order of time."""
    peaks = np.maximum.accumulate(equity)
    under = np.concatenate(([False], equity < peaks, [False]))
    edges = np.flatnonzero(np.diff(under.astype(np.int8)))
    return [
        _drawdown(equity, int(begin), int(end))
        for begin, end in zip(edges[::2], edges[1::2], strict=True)
    ]


def max_drawdown(returns: Floats) -> float:
    """The deepest fall, as a share of its peak: 0 or less, NaN without returns."""
    if not len(returns):
        return math.nan
    equity = _equity(returns)
    return float(np.min(equity / np.maximum.accumulate(equity)) - 1.0)


def longest_drawdown(returns: Floats) -> float:
    """The steps of the longest fall; 0 without a fall, NaN without returns."""
    if not len(returns) or np.isnan(returns).any():
        return math.nan
    return float(max((fall.length for fall in drawdowns(_equity(returns))), default=0))


def _drawdown(equity: Floats, begin: int, end: int) -> Drawdown:
    """The fall whose values are from `begin` to before `end`."""
    start, recovered = begin - 1, end < len(equity)
    trough = begin + int(np.argmin(equity[begin:end]))
    return Drawdown(
        depth=float(equity[trough] / equity[start] - 1.0),
        start=start,
        trough=trough,
        recovery=end if recovered else None,
        length=(end if recovered else end - 1) - start,
    )


def _equity(returns: Floats) -> Floats:
    """An account that begins with 1."""
    grown: Floats = np.concatenate(([1.0], np.cumprod(1.0 + returns)))
    return grown
