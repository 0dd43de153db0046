"""The portfolio in which every asset has the same share of the risk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.baselines.coordinate_descent import covariance_of, risk_parity_weights
from sekai.evaluation.baselines.target_weights import EstimatedWeights

__all__ = ["RiskParity"]


class RiskParity(EstimatedWeights):
    """Estimates covariances from the last rows, about once a month."""

    name = "risk_parity"

    def estimate(self, returns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights whose contributions to the variance are the same."""
        return risk_parity_weights(covariance_of(returns), 1e-8)
