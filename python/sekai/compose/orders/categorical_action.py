"""Choose a share of the order out of a list."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sekai.compose.interpreter import ActionInterpreter
from sekai.compose.orders.state import SAOEState
from sekai.spaces import Discrete

__all__ = ["CategoricalActionInterpreter"]


class CategoricalActionInterpreter(ActionInterpreter[SAOEState, int, float]):
    """An action is the place of a share of the order in a list; the last step trades the rest."""

    def __init__(self, values: int | Sequence[float], max_step: int | None = None) -> None:
        """Choose the shares.

        Args:
            values: shares from 0 to 1; or how many parts the order is cut into, for the shares
                0, 1/n, ..., 1.
            max_step: the step, counted from 1, from which on all that is left is traded; None to
                leave that to the policy.
        """
        if isinstance(values, int):
            if values < 1:
                raise ValueError(f"values must be at least 1 part, was {values}")
            values = [part / values for part in range(values + 1)]
        shares = [float(value) for value in values]
        if not shares or not all(math.isfinite(share) and share >= 0 for share in shares):
            raise ValueError(f"values must be shares of at least 0, was {shares}")
        if max_step is not None and max_step < 1:
            raise ValueError(f"max_step must be at least 1 step, was {max_step}")
        self.action_values = shares
        self.max_step = max_step
        self._space = Discrete(len(shares))

    @property
    def action_space(self) -> Discrete:
        """What every action belongs to."""
        return self._space

    def interpret(self, simulator_state: SAOEState, action: int) -> float:
        """The amount that the share comes to, or what is left if that is less."""
        position = simulator_state.position
        if self.max_step is not None and simulator_state.cur_step >= self.max_step - 1:
            return position
        return min(position, simulator_state.order.amount * self.action_values[int(action)])
