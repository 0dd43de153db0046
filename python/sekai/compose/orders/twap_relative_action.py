"""Trade faster or slower than TWAP."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.compose.interpreter import ActionInterpreter
from sekai.compose.orders.state import SAOEState
from sekai.core.real_numbers import real_numbers
from sekai.spaces import Box

__all__ = ["TwapRelativeActionInterpreter"]


class TwapRelativeActionInterpreter(ActionInterpreter[SAOEState, Any, float]):
    """An action is a multiple of what TWAP would trade of what is left: 1 is TWAP.

    TWAP's amount is the step's share of the ticks that are left, which is `1 / steps left` where
    all steps are whole, and lets an order that starts between two boundaries fill evenly too.
    """

    def __init__(self) -> None:
        """There is nothing to choose."""
        self._space = Box(0.0, np.inf, (), np.float32)

    @property
    def action_space(self) -> Box:
        """What every action belongs to."""
        return self._space

    def interpret(self, simulator_state: SAOEState, action: Any) -> float:
        """The amount, or what is left if that is less."""
        position = simulator_state.position
        return min(position, position * simulator_state.step_share * float(real_numbers(action)))
