"""The same of every asset at first, and nothing done after that."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.baselines.equal_weight import equal_weights
from sekai.evaluation.baselines.target_weights import TargetWeights
from sekai.evaluation.players import Moment

__all__ = ["BuyAndHold"]


class BuyAndHold(TargetWeights):
    """Buys once, and lets what it has drift."""

    name = "buy_and_hold"

    def targets(self, moment: Moment) -> NDArray[np.float64]:
        """Equal weights before the first step, then no order."""
        if moment.step == 0:
            return equal_weights(moment)
        return self.wait(moment)
