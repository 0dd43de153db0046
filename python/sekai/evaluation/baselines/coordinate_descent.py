"""Weights from a covariance, found one asset after the other until nothing changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["covariance_of", "minimum_variance_weights", "risk_parity_weights"]

Floats = NDArray[np.float64]

SWEEPS = 1_000
SHRINKAGE = 0.1
"""The share of the diagonal in the covariance, so that few rows do not make it singular."""


def covariance_of(returns: Floats) -> Floats:
    """The covariance of a sample, drawn a little towards its diagonal."""
    sample = np.atleast_2d(np.cov(returns, rowvar=False))
    spread = np.diag(np.maximum(np.diag(sample), 1e-12))
    mixed: Floats = (1.0 - SHRINKAGE) * sample + SHRINKAGE * spread
    mixed[np.diag_indices_from(mixed)] = np.diag(spread)
    return mixed


def minimum_variance_weights(covariance: Floats, tolerance: float = 1e-10) -> Floats:
    """Weights of at least 0 that sum to 1 and vary least together.

    They are proportional to the `x >= 0` that makes `x'Cx / 2 - sum x` least.
    """
    scale = float(np.diag(covariance).mean())
    unit = covariance / scale
    diagonal = np.diag(unit)
    x = 1.0 / diagonal / len(unit)
    for _ in range(SWEEPS):
        before = x.copy()
        for place in range(len(x)):
            rest = unit[place] @ x - diagonal[place] * x[place]
            x[place] = max(0.0, (1.0 - rest) / diagonal[place])
        if np.abs(x - before).max() <= tolerance * x.max():
            break
    weights: Floats = x / x.sum()
    return weights


def risk_parity_weights(covariance: Floats, tolerance: float = 1e-10) -> Floats:
    """Weights above 0 that sum to 1, each asset with the same share of the risk.

    They are proportional to the `x > 0` that makes `x'Cx / 2 - mean log x` least.
    """
    scale = float(np.diag(covariance).mean())
    unit = covariance / scale
    diagonal = np.diag(unit)
    budget = 1.0 / len(unit)
    x = np.sqrt(budget / diagonal)
    for _ in range(SWEEPS):
        before = x.copy()
        for place in range(len(x)):
            rest = unit[place] @ x - diagonal[place] * x[place]
            root = np.sqrt(rest * rest + 4.0 * diagonal[place] * budget)
            x[place] = (root - rest) / (2.0 * diagonal[place])
        if np.abs(x - before).max() <= tolerance * x.max():
            break
    weights: Floats = x / x.sum()
    return weights
