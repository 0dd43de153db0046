"""What both simulators of an order share: the matching, and what is told of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import OrderMatcher
from sekai.compose.logs.level import LogLevel
from sekai.compose.orders.backtest_data import BacktestData
from sekai.compose.orders.history import OrderHistory
from sekai.compose.orders.metrics import SAOEMetrics, summary_metrics
from sekai.compose.orders.order import Order, OrderDir
from sekai.compose.orders.state import SAOEState
from sekai.compose.simulator import Simulator
from sekai.core.real_numbers import real_numbers
from sekai.error import DataError, InvalidActionError
from sekai.rendering.renderer import Frame

__all__ = ["OrderSimulator"]


class OrderSimulator(Simulator[Order, SAOEState, float]):
    """An order that is worked over the ticks of its day, an amount a step.

    Steps begin at multiples of `ticks_per_step`, counted from the day's first tick, so that an
    order that starts in between has a short first step.
    """

    def __init__(
        self,
        order: Order,
        data: BacktestData,
        window: tuple[int, int],
        ticks_per_step: int,
        **rules: Any,
    ) -> None:
        """Begin with nothing traded.

        Args:
            order: what is to be traded.
            data: deal prices and volumes of its day.
            window: the first tick of the order in the day, and the one after its last.
            ticks_per_step: how many ticks a step has.
            **rules: caps, units, costs and cash, see `quant_gym_rs._core.OrderMatcher`.
        """
        super().__init__(order)
        self.order = order
        self.backtest_data = data
        self.ticks_per_step = ticks_per_step
        self.ticks_index = data.ticks.times
        self._first, self._stop = window
        self.ticks_for_order = self.ticks_index[slice(*window)]
        self.twap_price = _mean_price(order, data.deal_price, window)
        self.metrics: SAOEMetrics | None = None
        self._steps: tuple[SAOEMetrics, ...] = ()
        self._matcher = OrderMatcher(
            _floats(data.deal_price), _floats(data.volume), order.direction is OrderDir.BUY,
            order.amount, *window, ticks_per_step=ticks_per_step, **rules,
        )  # fmt: skip

    def step(self, amount: float) -> None:
        """Trade `amount` over the ticks of the next step.

        Raises:
            InvalidActionError: the amount is NaN, negative or more than is left; nothing moved.
            ResetRequired: the order is done.
        """
        try:
            wanted = float(real_numbers(amount))
        except (TypeError, ValueError) as error:
            raise InvalidActionError(f"an amount was wanted, found {amount!r}") from error
        begin = self.ticks_index[min(self._matcher.tick, self._stop - 1)]
        summary = self._matcher.step(wanted)
        self._steps += (self._told(begin, wanted, summary),)
        if self.done():
            asked = sum(step.amount for step in self._steps)
            self.metrics = self._told(self.ticks_index[0], asked, self._matcher.total())
            self._log(self.metrics)

    def get_state(self) -> SAOEState:
        """Where the order stands."""
        return SAOEState(
            order=self.order, cur_time=self.cur_time, cur_step=self._matcher.steps,
            position=self.position, metrics=self.metrics, backtest_data=self.backtest_data,
            ticks_per_step=self.ticks_per_step, ticks_index=self.ticks_index,
            ticks_for_order=self.ticks_for_order, cur_tick=self._matcher.tick,
            first_tick=self._first, num_steps=self._matcher.total_steps, history=self._history(),
        )  # fmt: skip

    def done(self) -> bool:
        """Whether everything is traded, or the window is over."""
        return self._matcher.done

    def render(self, width: int = 640, height: int = 800) -> Frame:
        """A picture of prices, fills, volumes and what is left, up to now."""
        from sekai.compose.orders.order_renderer import OrderRenderer

        with OrderRenderer(width, height) as renderer:
            return renderer.render(self)

    @property
    def position(self) -> float:
        """What is left to be traded."""
        return self._matcher.position

    @property
    def cash(self) -> float | None:
        """What can be paid with; None if money is no object."""
        return self._matcher.cash

    @property
    def cost(self) -> float:
        """Commission and impact so far."""
        return self._matcher.total().cost

    @property
    def cur_step(self) -> int:
        """How many steps have been taken."""
        return self._matcher.steps

    @property
    def cur_time(self) -> np.datetime64:
        """When the next step begins; the order's end after the last."""
        tick = self._matcher.tick
        at: np.datetime64 = self.ticks_index[tick] if tick < self._stop else self.order.end_time
        return at

    @property
    def fills(self) -> NDArray[Any]:
        """One row a tick so far: time, wanted, filled, price, value, cost."""
        return self._history().fills()

    @property
    def history_exec(self) -> NDArray[Any]:
        """Metrics of each tick so far."""
        return self._history().ticks()

    @property
    def history_steps(self) -> NDArray[Any]:
        """Metrics of each step so far."""
        return self._history().steps()

    def _history(self) -> OrderHistory:
        return OrderHistory(
            self.order, self.twap_price, self.ticks_for_order, self._matcher,
            self._matcher.tick - self._first, self._steps,
        )  # fmt: skip

    def _told(self, begin: np.datetime64, amount: float, summary: Any) -> SAOEMetrics:
        left, twap = self._matcher.position, self.twap_price
        return summary_metrics(self.order, begin, amount, left, twap, summary)

    def _log(self, metrics: SAOEMetrics) -> None:
        env = self.env
        if env is None:
            return
        for name, value in metrics.items():
            if isinstance(value, float):
                env.logger.add_scalar(name, value)
            else:
                env.logger.add_any(name, value)
        if env.logger.min_loglevel <= LogLevel.DEBUG:
            for name in ("history_steps", "history_exec", "fills"):
                env.logger.add_any(name, getattr(self, name), LogLevel.DEBUG)


def _mean_price(order: Order, prices: NDArray[np.float64], window: tuple[int, int]) -> float:
    """The mean of the window's prices; 0 if the asset was suspended all the time."""
    is_known = (prices > 0) & np.isfinite(prices)
    if not is_known.any():
        raise DataError(
            f"{order.stock_id} has no price on {order.date}: choose another day or mend the data"
        )
    known = prices[slice(*window)][is_known[slice(*window)]]
    return float(known.mean()) if len(known) else 0.0


def _floats(values: Any) -> NDArray[np.float64]:
    return np.ascontiguousarray(values, np.float64)
