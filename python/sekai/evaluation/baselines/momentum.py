"""The assets that have risen most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.baselines.target_weights import EstimatedWeights

__all__ = ["Momentum"]


class Momentum(EstimatedWeights):
    """Holds the third of the assets with the highest past return, alike, about a month long."""

    name = "momentum"

    def estimate(self, returns: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same of each of the best third."""
        growth = np.log1p(np.maximum(returns, -1.0 + 1e-12)).sum(axis=0)
        best = np.argsort(-growth, kind="stable")[: max(1, len(growth) // 3)]
        weights = np.zeros(len(growth))
        weights[best] = 1.0 / len(best)
        return weights
