"""How much was traded and held, and what that cost."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.episode import Episode

__all__ = ["cost", "exposure", "net_exposure", "turnover"]

Floats = NDArray[np.float64]


def turnover(episode: Episode) -> float:
    """Values traded in a step, as a share of equity, on average; NaN where they are not told."""
    told = episode.turnover
    return float(np.mean(told)) if told is not None and len(told) else math.nan


def exposure(episode: Episode) -> float:
    """Assets held, long and short added up, as a share of equity, on average."""
    held = _held(episode)
    return float(np.mean(np.abs(held).sum(axis=1))) if len(held) else math.nan


def net_exposure(episode: Episode) -> float:
    """Assets held, with shorts taken off, as a share of equity, on average."""
    held = _held(episode)
    return float(np.mean(held.sum(axis=1))) if len(held) else math.nan


def cost(episode: Episode) -> float:
    """All that was paid, as a share of the equity at the beginning."""
    if not episode.costs or not len(episode.equity) or not episode.equity[0] > 0:
        return math.nan
    return episode.total_cost / float(episode.equity[0])


def _held(episode: Episode) -> Floats:
    """What assets are of equity after each step, without cash; no rows where it is not told."""
    return np.zeros((0, 0)) if episode.weights is None else episode.weights[:, :-1]
