"""The same of every asset, again after every step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.baselines.target_weights import TargetWeights
from sekai.evaluation.players import Moment

__all__ = ["EqualWeight", "equal_weights"]

Floats = NDArray[np.float64]


class EqualWeight(TargetWeights):
    """Holds as much of every asset that can be traded, and no cash."""

    name = "equal_weight"

    def targets(self, moment: Moment) -> Floats:
        """The same of all."""
        return equal_weights(moment)


def equal_weights(moment: Moment) -> Floats:
    """Weights of all assets and cash; all cash where nothing can be traded."""
    mask = np.asarray(moment.observations["mask"], np.float64)
    count = mask.sum(axis=1, keepdims=True)
    shares = mask / np.maximum(count, 1.0)
    return np.concatenate([shares, 1.0 - (count > 0)], axis=1)
