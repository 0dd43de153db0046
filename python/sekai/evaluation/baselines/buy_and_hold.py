"""The same of every asset at first, and nothing done after that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sekai.evaluation.arena import Arena
from sekai.evaluation.baselines.equal_weight import equal_weights
from sekai.evaluation.baselines.target_weights import TargetWeights
from sekai.evaluation.players import Moment
from sekai.evaluation.tasks.portfolio import config_of, reconfigured

__all__ = ["BuyAndHold"]

PART = 0.5
"""The part of a first purchase that is the smallest trade of this account."""


class BuyAndHold(TargetWeights):
    """Buys once, and lets what it has drift."""

    name = "buy_and_hold"

    def where(self, arena: Arena) -> Arena:
        """The same env, with a smallest trade that only the first purchase exceeds.

        Weights are brought about at the price of a fill: who asks for those of the last close
        would trade against every gap between that and the next open.
        """
        found, config = super().where(arena), config_of(arena)
        if config is None or found.options is None or found.options.get("data") is None:
            return found
        smallest = PART / len(found.options["data"].assets)
        execution = config.execution
        execution = replace(execution, smallest_trade=max(execution.smallest_trade, smallest))
        return reconfigured(found, execution=execution)

    def targets(self, moment: Moment) -> NDArray[np.float64]:
        """Equal weights before the first step, then no order."""
        if moment.step == 0:
            return equal_weights(moment)
        return self.wait(moment)
