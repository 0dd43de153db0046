"""Shows how far an order is, and the day's features up to now beside those of the day before."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.compose.interpreter import StateInterpreter
from sekai.compose.orders.current_step import progress_of, progress_spaces
from sekai.compose.orders.features import FeatureProvider
from sekai.compose.orders.state import SAOEState
from sekai.error import DataError
from sekai.spaces import Box, Dict

__all__ = ["FullHistoryStateInterpreter"]

Floats = NDArray[np.float32]


class FullHistoryStateInterpreter(StateInterpreter[SAOEState, dict[str, Any]]):
    """Features of today and yesterday, direction, progress, and the history of what is left.

    Rows of today at and after the current time are zeros: the future is never shown.
    """

    # It never changes, and has all the data.
    state_excludes = ("provider",)

    def __init__(
        self, max_step: int, data_ticks: int, data_dim: int, provider: FeatureProvider
    ) -> None:
        """Choose the shape.

        Args:
            max_step: the most steps that an order has.
            data_ticks: how many ticks of a day are shown; days with fewer are filled with zeros.
            data_dim: how many features a tick has.
            provider: where features come from.
        """
        for name, value in (
            ("max_step", max_step), ("data_ticks", data_ticks), ("data_dim", data_dim),
        ):  # fmt: skip
            if value < 1:
                raise ValueError(f"{name} must be at least 1, was {value}")
        self.max_step, self.data_ticks, self.data_dim = max_step, data_ticks, data_dim
        self.provider = provider
        features = Box(-np.inf, np.inf, (data_ticks, data_dim), np.float32)
        self._space = Dict({
            "data_processed": features,
            "data_processed_prev": Box(-np.inf, np.inf, (data_ticks, data_dim), np.float32),
            "cur_tick": Box(0, data_ticks - 1, (), np.int32),
            "position_history": Box(0.0, np.inf, (max_step,), np.float32),
            **progress_spaces(max_step, max_step - 1),
        })  # fmt: skip

    @property
    def observation_space(self) -> Dict:
        """What every observation belongs to."""
        return self._space

    def interpret(self, simulator_state: SAOEState) -> dict[str, Any]:
        """What the policy sees of the state."""
        state = simulator_state
        day = self.provider.features(state.order.stock_id, state.order.date)
        known = int(np.searchsorted(day.times, state.cur_time))
        return {
            "data_processed": self._fitted(day.today[:known], state),
            "data_processed_prev": self._fitted(day.yesterday, state),
            "cur_tick": np.array(min(known, self.data_ticks - 1), np.int32),
            "position_history": self._positions(state),
            **progress_of(state, self.max_step, self.max_step - 1),
        }

    def _fitted(self, rows: NDArray[Any], state: SAOEState) -> Floats:
        """New rows of the right number, zeros behind those that there are."""
        if rows.ndim != 2 or rows.shape[1] != self.data_dim or len(rows) > self.data_ticks:
            raise DataError(
                f"{state.order.stock_id} on {state.order.date}: at most {self.data_ticks} ticks "
                f"by {self.data_dim} features were wanted, found {rows.shape}"
            )
        fitted = np.zeros((self.data_ticks, self.data_dim), np.float32)
        fitted[: len(rows)] = rows
        return fitted

    def _positions(self, state: SAOEState) -> Floats:
        positions = np.zeros(self.max_step, np.float32)
        left = [state.order.amount, *(step.position for step in state.history.step_metrics)]
        positions[: len(left)] = left[: self.max_step]
        return positions
