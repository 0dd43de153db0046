"""Where an order stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.backtest_data import BacktestData
from sekai.compose.orders.history import OrderHistory
from sekai.compose.orders.metrics import SAOEMetrics
from sekai.compose.orders.order import Order

__all__ = ["SAOEState"]


@dataclass(frozen=True, slots=True, eq=False)
class SAOEState:
    """Single-asset order execution between two steps.

    Tables are NumPy structured arrays with the fields of `SAOEMetrics`, made when asked for.
    """

    order: Order
    cur_time: np.datetime64
    """When the next step begins; the order's end after the last."""
    cur_step: int
    """How many steps have been taken."""
    position: float
    """What is left to be traded."""
    metrics: SAOEMetrics | None
    """How the whole order went, once it is done."""
    backtest_data: BacktestData
    """The whole day: what is at or after `cur_time` is not known yet."""
    ticks_per_step: int
    ticks_index: NDArray[np.datetime64]
    """All ticks of the day."""
    ticks_for_order: NDArray[np.datetime64]
    """The ticks of the order's window."""
    cur_tick: int
    """How many ticks of the day are over."""
    first_tick: int
    """Where in the day the window begins."""
    num_steps: int
    """How many steps the window has; fewer are taken if the order is filled before its end."""
    history: OrderHistory

    @property
    def history_exec(self) -> NDArray[Any]:
        """What was done in each tick so far."""
        return self.history.ticks()

    @property
    def history_steps(self) -> NDArray[Any]:
        """What was done in each step so far."""
        return self.history.steps()

    @property
    def last_step(self) -> SAOEMetrics | None:
        """What was done in the step just taken."""
        return self.history.step_metrics[-1] if self.history.step_metrics else None

    @property
    def stop_tick(self) -> int:
        """Where in the day the window ends: the tick after its last."""
        return self.first_tick + len(self.ticks_for_order)

    @property
    def next_boundary(self) -> int:
        """The tick of the day at which the next step ends."""
        boundary = (self.cur_tick // self.ticks_per_step + 1) * self.ticks_per_step
        return min(boundary, self.stop_tick)

    @property
    def step_ticks(self) -> int:
        """How many ticks the next step has."""
        return max(0, self.next_boundary - self.cur_tick)

    @property
    def ticks_left(self) -> int:
        """How many ticks of the window are left."""
        return self.stop_tick - self.cur_tick

    @property
    def step_share(self) -> float:
        """The next step's share of the ticks that are left: all of them in the last step."""
        return self.step_ticks / self.ticks_left if self.ticks_left else 1.0
