"""The portfolio that has varied least, without shorts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.baselines.coordinate_descent import covariance_of, minimum_variance_weights
from sekai.evaluation.baselines.target_weights import EstimatedWeights

__all__ = ["MinimumVariance"]


class MinimumVariance(EstimatedWeights):
    """Estimates covariances from the last rows, about once a month."""

    name = "minimum_variance"

    def estimate(self, returns: NDArray[np.float64]) -> NDArray[np.float64]:
        """The long-only weights of least variance."""
        return minimum_variance_weights(covariance_of(returns), 1e-8)
