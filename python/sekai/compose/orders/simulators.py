"""Simulators of order execution: the simple one for training, and one by Qlib's exchange rules."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import OrderMatcher
from sekai.compat.qlib import QlibConfig, current_qlib, init_qlib
from sekai.compose.logs.collector import LogLevel
from sekai.compose.orders.data import (
    TRADABLE,
    OrderData,
    as_intraday,
    frame_days,
    order_ticks,
    order_window,
)
from sekai.compose.orders.order import Order, OrderDir, is_number
from sekai.compose.orders.qlib_config import ExchangeConfig, ExecutorConfig
from sekai.compose.orders.state import (
    BacktestData,
    OrderHistory,
    SAOEMetrics,
    SAOEState,
    deal_prices,
    summary_metrics,
    volume_notice,
)
from sekai.compose.simulator import Simulator
from sekai.config.checked import CheckedConfig
from sekai.data.intraday import DayTicks
from sekai.data.qlib.intraday import FrameProvider, QlibIntraday
from sekai.data.qlib.provider import QlibProvider
from sekai.error import DataError, InvalidActionError
from sekai.rendering.renderer import Frame
from sekai.spaces.numbers import require_real

__all__ = [
    "OrderCosts",
    "OrderSimulator",
    "SingleAssetOrderExecution",
    "SingleAssetOrderExecutionSimple",
    "check_threshold",
    "simple_limits",
]


class OrderSimulator(Simulator[Order, SAOEState, float]):
    """Simulator of an order that trades an amount per step over the ticks of its day or days.

    Steps begin at multiples of `ticks_per_step`, counted from the first tick of each day, so that
    an order that starts in between has a short first step, and no step spans two days.

    Args:
        order: the order.
        data: deal prices and volumes of its day, or of all of its days.
        window: index of the order's first tick, and of the one after its last.
        ticks_per_step: ticks in a step.
        matcher: matcher of an order at work, to go on from; None to start the order.
        **rules: caps, units, costs and cash of a started order, see
            `quant_gym_rs._core.OrderMatcher`.
    """

    def __init__(
        self,
        order: Order,
        data: BacktestData,
        window: tuple[int, int],
        ticks_per_step: int,
        *,
        matcher: OrderMatcher | None = None,
        **rules: Any,
    ) -> None:
        super().__init__(order)
        self.order = order
        self.backtest_data = data
        self.ticks_per_step = ticks_per_step
        self.ticks_index = data.ticks.times
        self._first, self._stop = window
        self.ticks_for_order = self.ticks_index[slice(*window)]
        if matcher is None:
            if not ((data.deal_price > 0) & np.isfinite(data.deal_price)).any():
                raise DataError(
                    f"{order.stock_id} has no price on {order.date}; choose another day or fix the "
                    "data"
                )
            matcher = OrderMatcher(
                _floats(data.deal_price),
                _floats(data.volume),
                order.direction is OrderDir.BUY,
                order.amount,
                *window,
                ticks_per_step=ticks_per_step,
                sessions=getattr(data.ticks, "sessions", ()),
                **rules,
            )
        self._matcher = matcher
        self.twap_price = matcher.twap_price
        self._steps = self._step_metrics(0)
        self.metrics = self._order_metrics() if matcher.done else None

    def step(self, amount: float) -> None:
        """Trade `amount` over the ticks of the next step.

        Raises:
            InvalidActionError: the amount is NaN, negative or more than is left; nothing changed.
            ResetRequired: the order is done.
        """
        try:
            wanted = float(require_real(amount))
        except (TypeError, ValueError) as error:
            raise InvalidActionError(f"amount must be a number, got {amount!r}") from error
        self._matcher.step(wanted)
        self._steps += self._step_metrics(len(self._steps))
        if self.done():
            self.metrics = self._order_metrics()
            self._log(self.metrics)

    def get_state(self) -> SAOEState:
        """State of the order."""
        return SAOEState(
            order=self.order,
            cur_time=self.cur_time,
            cur_step=self._matcher.steps,
            position=self.position,
            metrics=self.metrics,
            backtest_data=self.backtest_data,
            ticks_per_step=self.ticks_per_step,
            ticks_index=self.ticks_index,
            ticks_for_order=self.ticks_for_order,
            cur_tick=self._matcher.tick,
            first_tick=self._first,
            num_steps=self._matcher.total_steps,
            history=self._history(),
        )

    def done(self) -> bool:
        """Return True if everything is traded, or the window is over."""
        return self._matcher.done

    def render(self, width: int = 640, height: int = 800) -> Frame:
        """Render prices, fills, volumes and the amount left, up to now."""
        from sekai.compose.orders.order_renderer import OrderRenderer

        with OrderRenderer(width, height) as renderer:
            return renderer.render(self)

    @property
    def position(self) -> float:
        """Amount left to trade."""
        return self._matcher.position

    @property
    def cash(self) -> float | None:
        """Cash available; None for no limit."""
        return self._matcher.cash

    @property
    def cost(self) -> float:
        """Commission and impact so far."""
        return self._matcher.total().cost

    @property
    def notice(self) -> str | None:
        """Notice that the order is larger than the market volume of its ticks, once it is done."""
        return None if self.metrics is None else volume_notice(self.order.amount, self.metrics)

    @property
    def cur_step(self) -> int:
        """Number of steps taken."""
        return self._matcher.steps

    @property
    def cur_time(self) -> np.datetime64:
        """Start of the next step; the order's end after the last."""
        tick = self._matcher.tick
        start: np.datetime64 = self.ticks_index[tick] if tick < self._stop else self.order.end_time
        return start

    @property
    def fills(self) -> NDArray[Any]:
        """Fills so far: time, wanted, filled, price, value, cost of each tick."""
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
            self.order,
            self.twap_price,
            self.ticks_for_order,
            self._matcher,
            self._matcher.tick - self._first,
            self._steps,
        )

    def _step_metrics(self, first: int) -> tuple[SAOEMetrics, ...]:
        """Metrics of the steps from the `first`th on."""
        steps = self._matcher.step_summaries(first)
        return tuple(
            self._metrics(tick, (ordered, left), summary) for tick, ordered, left, summary in steps
        )

    def _order_metrics(self) -> SAOEMetrics:
        """Metrics of the whole order."""
        matcher = self._matcher
        return self._metrics(0, (matcher.ordered, matcher.position), matcher.total())

    def _metrics(self, tick: int, amounts: tuple[float, float], summary: Any) -> SAOEMetrics:
        order, begin = self.order, self.ticks_index[tick]
        key = order.stock_id, order.direction, order.amount
        return summary_metrics(*key, begin, amounts, self.twap_price, summary)

    def _log(self, metrics: SAOEMetrics) -> None:
        env = self.env
        if env is None:
            return
        for name, value in metrics.items():
            if isinstance(value, float):
                env.logger.add_scalar(name, value)
            else:
                env.logger.add_any(name, value)
        if self.notice is not None:
            env.logger.add_string("notice", self.notice)
        if env.logger.min_loglevel <= LogLevel.DEBUG:
            for name in ("history_steps", "history_exec", "fills"):
                env.logger.add_any(name, getattr(self, name), LogLevel.DEBUG)


def _floats(values: Any) -> NDArray[np.float64]:
    return np.ascontiguousarray(values, np.float64)


class SingleAssetOrderExecutionSimple(OrderSimulator):
    """Simple order execution simulator for training, on any ticks.

    The amount of a step is spread equally over its ticks, each of which fills at most
    `vol_threshold` times its volume. Amounts above a cap are dropped; those of a tick without a
    price pass to the next. The last tick of the window orders all that is left. The window has
    the ticks from the order's start up to but not including its end. Both must be inside of the
    dates and hours of the data; a date alone stands for its whole session. Of an order over
    several days, what is left at the end of a day goes on with the first tick of the next day that
    has ticks; days without ticks are skipped.

    Args:
        order: the order.
        data: a day, anything that has days, a panel, a frame of minutes (see
            `sekai.data.FrameIntraday`), or the folder of a `TickStore`.
        ticks_per_step: minutes in a step.
        deal_price_type: `close`, `bid_or_ask` or `bid_or_ask_fill`.
        data_granularity: minutes in a tick; divides `ticks_per_step`.
        vol_threshold: largest share of a tick's volume that is filled.
        costs: costs of fills; none by default.
        data_dir: folder of a `TickStore`, as Qlib names it, instead of `data`.

    Raises:
        DataError: there are no such ticks, or the order is outside or partly outside of the data.
    """

    def __init__(
        self,
        order: Order,
        data: OrderData | None = None,
        ticks_per_step: int = 30,
        deal_price_type: str = "close",
        data_granularity: int = 1,
        vol_threshold: float | None = None,
        *,
        costs: OrderCosts | None = None,
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        if data_granularity < 1 or ticks_per_step < 1 or ticks_per_step % data_granularity:
            raise ValueError(
                f"ticks_per_step must be a multiple of data_granularity, and both at least 1, got "
                f"{ticks_per_step} and {data_granularity}"
            )
        if (data is None) == (data_dir is None):
            raise TypeError("pass one of data and data_dir, got both or neither")
        days = as_intraday(data_dir if data is None else data)
        ticks = order_ticks(days, order)
        chosen = deal_prices(ticks, deal_price_type, order.direction)
        super().__init__(
            order,
            chosen,
            order_window(days, ticks, order, closed=False),
            ticks_per_step // data_granularity,
            **simple_limits(chosen, vol_threshold),
            **asdict(costs or OrderCosts()),
        )


def simple_limits(data: BacktestData, threshold: float | None) -> dict[str, Any]:
    """Limits of fills of the simple simulator: ticks without trading, and volume caps."""
    limits: dict[str, Any] = {}
    check_threshold(threshold)
    if TRADABLE in data.ticks.columns:
        limits["tradable"] = data.ticks.columns[TRADABLE] > 0
    if threshold is not None:
        limits["current_cap"] = np.asarray(threshold * data.volume, np.float64)
    return limits


def check_threshold(threshold: Any) -> None:
    """Raise unless a share of the volume is one, or None."""
    if threshold is not None and not (is_number(threshold) and threshold >= 0):
        raise ValueError(
            f"vol_threshold must be None or a finite number of at least 0, got {threshold!r}"
        )


FACTOR = "$factor"


class SingleAssetOrderExecution(OrderSimulator):
    """Order execution simulator by Qlib's exchange rules: limits, caps, units, costs and cash.

    Within a step the order is executed by TWAP: each tick orders what should have been traded by
    then, in whole units, and the last one all that is left of the step. Fills are clipped by
    volume, then by cash, then to whole units. The window has the ticks from the order's start to
    its end, the end included.

    Args:
        order: the order, within one day.
        executor_config: length of a step, see `ExecutorConfig.of`.
        exchange_config: prices, limits, caps and costs, see `ExchangeConfig`.
        qlib_config: data folders, passed to `init_qlib` unless it has them already; None for
            those of the last `init_qlib`.
        cash_limit: cash available; None for no limit. With a limit a sale of the last shares need
            not be in whole units.
        data: frame of minutes instead of Qlib's folders, or a `sekai.data.FrameIntraday` that has
            read one, which many orders can share.

    Raises:
        DataError: there are no such ticks, or the order is outside or partly outside of the data.
    """

    def __init__(
        self,
        order: Order,
        executor_config: Mapping[str, Any],
        exchange_config: Mapping[str, Any],
        qlib_config: Mapping[str, Any] | None = None,
        cash_limit: float | None = None,
        *,
        data: Any = None,
    ) -> None:
        if order.end_time.astype("datetime64[D]") != order.date:
            raise ValueError(
                f"an order by Qlib's rules must be within one day, got one from "
                f"{order.start_time} to {order.end_time}; split it into one order for each day, or "
                "use SingleAssetOrderExecutionSimple"
            )
        exchange = ExchangeConfig.of(exchange_config)
        executor = ExecutorConfig.of(executor_config, exchange.freq)
        if executor.settles_late and cash_limit is not None:
            raise ValueError(
                "executor_config: settle_type 'cash' is not supported with a cash_limit; use "
                "settle_type 'None', or no cash_limit"
            )
        days = _qlib_source(order, exchange, _provider(qlib_config, data, exchange.freq))
        ticks = days.day(order.stock_id, order.date)
        price = ticks.column(exchange.price(order.direction))
        data = BacktestData(ticks, price, ticks.column("$volume"))
        super().__init__(
            order,
            data,
            order_window(days, ticks, order, closed=True),
            executor.ticks_per_step,
            carries=True,
            finishes=False,
            cash=cash_limit,
            **_qlib_limits(order, exchange, ticks),
            **_costs(exchange),
        )


def _provider(config: Mapping[str, Any] | None, data: Any, freq: str) -> QlibProvider:
    if data is None:
        return _session(config).provider
    if config is not None:
        raise TypeError("pass one of data and qlib_config, got both")
    return frame_days(data).provider(freq)


def _qlib_source(order: Order, exchange: ExchangeConfig, provider: QlibProvider) -> QlibIntraday:
    codes = exchange.codes
    if codes != "all" and order.stock_id not in ([codes] if isinstance(codes, str) else codes):
        raise DataError(f"unknown asset {order.stock_id!r}; expected one of the codes {codes!r}")
    columns = exchange.columns(order.direction)
    symbol = provider.symbol(order.stock_id, exchange.freq)
    if provider.has_field(symbol, FACTOR, exchange.freq) and FACTOR not in columns:
        columns.append(FACTOR)
    chosen = tuple(columns)
    if isinstance(provider, FrameProvider):
        return provider.days(chosen)
    return _qlib_days(provider, exchange.freq, chosen)


def _qlib_limits(order: Order, exchange: ExchangeConfig, ticks: DayTicks) -> dict[str, Any]:
    limits = {
        "tradable": exchange.tradable(ticks, order.direction),
        "current_cap": exchange.cap(ticks, order.direction, "current"),
        "cumulative_cap": exchange.cap(ticks, order.direction, "cum"),
    }
    factor = ticks.columns.get(FACTOR)
    if factor is not None and not np.isnan(factor[np.isfinite(ticks.column("$close"))]).any():
        # Without a factor prices are adjusted, and real shares are unknown.
        limits["factor"] = np.ascontiguousarray(factor)
    return limits


def _costs(exchange: ExchangeConfig) -> dict[str, Any]:
    return {
        "open_cost": exchange.open_cost,
        "close_cost": exchange.close_cost,
        "min_cost": exchange.min_cost,
        "impact_cost": exchange.impact_cost,
        "trade_unit": exchange.trade_unit,
    }


def _session(config: Mapping[str, Any] | None) -> QlibConfig:
    """Result of `init_qlib`; the same config is not opened twice."""
    global _last
    if config is None:
        return current_qlib()
    if _last is None or _last[0] != config or _last[1] is not current_qlib():
        _last = dict(config), init_qlib(config)
    return _last[1]


_last: tuple[Mapping[str, Any], QlibConfig] | None = None


@lru_cache(maxsize=32)
def _qlib_days(provider: QlibProvider, freq: str, columns: tuple[str, ...]) -> QlibIntraday:
    return QlibIntraday(provider, freq, columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderCosts(CheckedConfig):
    """Costs of fills: commission `max(value * rate, min_cost)` plus impact; 0 without a fill."""

    open_cost: float = 0.0
    """Commission rate of purchases."""

    close_cost: float = 0.0
    """Commission rate of sales."""

    min_cost: float = 0.0
    """Smallest commission of a fill."""

    impact_cost: float = 0.0
    """Impact: added to the rate, times the squared share of the fill in the market volume."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be finite and at least 0, got {value}")
