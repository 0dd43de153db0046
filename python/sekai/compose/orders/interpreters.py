"""Interpreters of order execution: observations of an order, and amounts to trade."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.compose.interpreter import ActionInterpreter, StateInterpreter
from sekai.compose.orders.features import FeatureProvider
from sekai.compose.orders.order import OrderDir, is_number
from sekai.compose.orders.state import SAOEState
from sekai.error import DataError
from sekai.spaces import Box, Dict, Discrete, MultiDiscrete
from sekai.spaces.numbers import require_real

__all__ = [
    "CategoricalActionInterpreter",
    "CurrentStepStateInterpreter",
    "DummyStateInterpreter",
    "FullHistoryStateInterpreter",
    "TwapRelativeActionInterpreter",
    "action_shares",
    "check_steps",
    "history_spaces",
    "order_progress",
    "progress_spaces",
]


class CategoricalActionInterpreter(ActionInterpreter[SAOEState, int, float]):
    """Action interpreter: index into a list of shares of the order; the last step trades the rest.

    Args:
        values: shares from 0 to 1; or a number n of parts, for the shares 0, 1/n, ..., 1.
        max_step: step, counted from 1, from which on all that is left is traded; None for never.
    """

    def __init__(self, values: int | Sequence[float], max_step: int | None = None) -> None:
        shares = action_shares("values", values)
        if max_step is not None and max_step < 1:
            raise ValueError(f"max_step must be at least 1, got {max_step}")
        self.action_values = shares
        self.max_step = max_step
        self._space = Discrete(len(shares))

    @property
    def action_space(self) -> Discrete:
        """Space of the actions."""
        return self._space

    def interpret(self, simulator_state: SAOEState, action: int) -> float:
        """Amount of the share, at most what is left."""
        position = simulator_state.position
        if self.max_step is not None and simulator_state.cur_step >= self.max_step - 1:
            return position
        return min(position, simulator_state.order.amount * self.action_values[int(action)])


def action_shares(name: str, values: Any) -> list[float]:
    """Shares of an order from a list of them, or from a number of parts.

    Args:
        name: name of the argument in errors.
        values: the argument.
    """
    if isinstance(values, int):
        if values < 1:
            raise ValueError(f"{name} must be at least 1, got {values}")
        values = [part / values for part in range(values + 1)]
    is_list = not isinstance(values, str) and hasattr(values, "__iter__")
    shares = list(values) if is_list else values
    if not is_list or not shares or not all(is_number(own) and own >= 0 for own in shares):
        raise ValueError(f"{name} must be shares of at least 0, got {shares!r}")
    return [float(share) for share in shares]


class TwapRelativeActionInterpreter(ActionInterpreter[SAOEState, Any, float]):
    """Action interpreter: multiple of the amount of TWAP; 1 is TWAP.

    The amount of TWAP is the step's share of the ticks left: `1 / steps left` where all steps are
    whole, and even fills also for an order that starts between two step boundaries.
    """

    def __init__(self) -> None:
        self._space = Box(0.0, np.inf, (), np.float32)

    @property
    def action_space(self) -> Box:
        """Space of the actions."""
        return self._space

    def interpret(self, simulator_state: SAOEState, action: Any) -> float:
        """Amount to trade, at most what is left."""
        position = simulator_state.position
        return min(position, position * simulator_state.step_share * float(require_real(action)))


class DummyStateInterpreter(StateInterpreter[SAOEState, int]):
    """State interpreter of a constant observation, for policies without input."""

    def __init__(self) -> None:
        # Two values, of which one is never shown: some libraries reject spaces of one.
        self._space = Discrete(2)

    @property
    def observation_space(self) -> Discrete:
        """Space of the observations."""
        return self._space

    def interpret(self, simulator_state: SAOEState) -> int:
        """Constant observation."""
        return 1


class CurrentStepStateInterpreter(StateInterpreter[SAOEState, dict[str, Any]]):
    """State interpreter of an order's progress: direction, steps, amount and amount left.

    Args:
        max_step: most steps of an order; the step counter has this value when an order is done.
    """

    def __init__(self, max_step: int) -> None:
        self.max_step = _checked(max_step)
        self._space = Dict(progress_spaces(max_step, max_step))

    @property
    def observation_space(self) -> Dict:
        """Space of the observations."""
        return self._space

    def interpret(self, simulator_state: SAOEState) -> dict[str, Any]:
        """Observation of the state."""
        return order_progress(simulator_state, self.max_step, self.max_step)


def progress_spaces(max_step: int, last_step: int, rows: tuple[int, ...] = ()) -> dict[str, Any]:
    """Spaces of an order's progress, whose step counter goes up to `last_step`.

    Args:
        max_step: most steps of an order.
        last_step: highest step counter.
        rows: the number of orders of a basket, which have a row each; () for one order.
    """
    return {
        "acquiring": MultiDiscrete([2] * rows[0]) if rows else Discrete(2),
        "cur_step": Box(0, last_step, rows, np.int32),
        "num_step": Box(max_step, max_step, rows, np.int32),
        "target": Box(0.0, np.inf, rows, np.float32),
        "position": Box(0.0, np.inf, rows, np.float32),
    }


def history_spaces(
    max_step: int, data_ticks: int, data_dim: int, rows: tuple[int, ...] = ()
) -> dict[str, Any]:
    """Spaces of `FullHistoryStateInterpreter`, which the native batch writes too."""
    shape = (*rows, data_ticks, data_dim)
    return {
        "data_processed": Box(-np.inf, np.inf, shape, np.float32),
        "data_processed_prev": Box(-np.inf, np.inf, shape, np.float32),
        "cur_tick": Box(0, data_ticks - 1, rows, np.int32),
        "position_history": Box(0.0, np.inf, (*rows, max_step), np.float32),
        **progress_spaces(max_step, max_step - 1, rows),
    }


def order_progress(state: SAOEState, max_step: int, last_step: int) -> dict[str, Any]:
    """Progress of an order."""
    check_steps(state, "max_step", max_step)
    return {
        "acquiring": np.int64(state.order.direction is OrderDir.BUY),
        "cur_step": np.array(min(state.cur_step, last_step), np.int32),
        "num_step": np.array(max_step, np.int32),
        "target": np.array(state.order.amount, np.float32),
        "position": np.array(state.position, np.float32),
    }


def check_steps(state: SAOEState, name: str, most: int) -> None:
    """Raise for an order of more steps than the setting `name` allows."""
    if state.num_steps > most:
        raise ValueError(
            f"orders must have at most {most} steps ({name}), got one of {state.num_steps} for "
            f"{state.order.stock_id} from {state.order.start_time} to {state.order.end_time}; "
            f"raise {name} or ticks_per_step"
        )


def _checked(max_step: int) -> int:
    if max_step < 1:
        raise ValueError(f"max_step must be at least 1, got {max_step}")
    return max_step


Floats32 = NDArray[np.float32]


class FullHistoryStateInterpreter(StateInterpreter[SAOEState, dict[str, Any]]):
    """State interpreter of features of today and yesterday, progress and history of the order.

    Rows of today at and after the current time are zeros: the future is never shown. Today is the
    day of the next step, also of an order over several days.

    Args:
        max_step: most steps of an order.
        data_ticks: ticks of a day; shorter days are padded with zeros.
        data_dim: features of a tick.
        provider: source of features.
    """

    # It never changes, and holds all the data.
    state_excludes = ("provider",)

    def __init__(
        self, max_step: int, data_ticks: int, data_dim: int, provider: FeatureProvider
    ) -> None:
        for name, value in (
            ("max_step", max_step),
            ("data_ticks", data_ticks),
            ("data_dim", data_dim),
        ):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.max_step, self.data_ticks, self.data_dim = max_step, data_ticks, data_dim
        self.provider = provider
        self._space = Dict(history_spaces(max_step, data_ticks, data_dim))

    @property
    def observation_space(self) -> Dict:
        """Space of the observations."""
        return self._space

    def interpret(self, simulator_state: SAOEState) -> dict[str, Any]:
        """Observation of the state."""
        state = simulator_state
        day = self.provider.features(state.order.stock_id, state.date)
        known = int(np.searchsorted(day.times, state.cur_time))
        return {
            "data_processed": self._fitted(day.today[:known], state),
            "data_processed_prev": self._fitted(day.yesterday, state),
            "cur_tick": np.array(min(known, self.data_ticks - 1), np.int32),
            "position_history": self._positions(state),
            **order_progress(state, self.max_step, self.max_step - 1),
        }

    def _fitted(self, rows: NDArray[Any], state: SAOEState) -> Floats32:
        """Rows padded with zeros."""
        if rows.ndim != 2 or rows.shape[1] != self.data_dim or len(rows) > self.data_ticks:
            raise DataError(
                f"features of {state.order.stock_id} on {state.date} must be at most "
                f"{self.data_ticks} ticks by {self.data_dim}, got {rows.shape}; raise data_ticks "
                "(of an env, day_ticks), or fix the features"
            )
        fitted = np.zeros((self.data_ticks, self.data_dim), np.float32)
        fitted[: len(rows)] = rows
        return fitted

    def _positions(self, state: SAOEState) -> Floats32:
        positions = np.zeros(self.max_step, np.float32)
        left = [state.order.amount, *(step.position for step in state.history.step_metrics)]
        positions[: len(left)] = left[: self.max_step]
        return positions
