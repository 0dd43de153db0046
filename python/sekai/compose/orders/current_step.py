"""Shows how far an order is, and nothing of the market."""

from __future__ import annotations

from typing import Any

import numpy as np

from sekai.compose.interpreter import StateInterpreter
from sekai.compose.orders.order import OrderDir
from sekai.compose.orders.state import SAOEState
from sekai.spaces import Box, Dict, Discrete

__all__ = ["CurrentStepStateInterpreter", "progress_of", "progress_spaces"]


class CurrentStepStateInterpreter(StateInterpreter[SAOEState, dict[str, Any]]):
    """Direction, steps taken and to take, order and what is left of it."""

    def __init__(self, max_step: int) -> None:
        """Serve orders of at most `max_step` steps.

        The step counter goes up to `max_step` itself, which it has when an order is done.
        """
        self.max_step = _checked(max_step)
        self._space = Dict(progress_spaces(max_step, max_step))

    @property
    def observation_space(self) -> Dict:
        """What every observation belongs to."""
        return self._space

    def interpret(self, simulator_state: SAOEState) -> dict[str, Any]:
        """What the policy sees of the state."""
        return progress_of(simulator_state, self.max_step, self.max_step)


def progress_spaces(max_step: int, last_step: int) -> dict[str, Any]:
    """Spaces of how far an order is, whose step counter goes up to `last_step`."""
    return {
        "acquiring": Discrete(2),
        "cur_step": Box(0, last_step, (), np.int32),
        "num_step": Box(max_step, max_step, (), np.int32),
        "target": Box(0.0, np.inf, (), np.float32),
        "position": Box(0.0, np.inf, (), np.float32),
    }


def progress_of(state: SAOEState, max_step: int, last_step: int) -> dict[str, Any]:
    """How far an order is."""
    if state.num_steps > max_step:
        raise ValueError(
            f"orders of at most {max_step} steps were wanted, found one of {state.num_steps}: "
            f"raise max_step, or ticks_per_step"
        )
    return {
        "acquiring": np.int64(state.order.direction is OrderDir.BUY),
        "cur_step": np.array(min(state.cur_step, last_step), np.int32),
        "num_step": np.array(max_step, np.int32),
        "target": np.array(state.order.amount, np.float32),
        "position": np.array(state.position, np.float32),
    }


def _checked(max_step: int) -> int:
    if max_step < 1:
        raise ValueError(f"max_step must be at least 1 step, was {max_step}")
    return max_step
