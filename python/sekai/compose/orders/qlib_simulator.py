"""Work one order by the rules of Qlib's exchange, on data in Qlib's format."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from sekai.compat.qlib import QlibConfig, current_qlib, init_qlib
from sekai.compose.orders.backtest_data import BacktestData
from sekai.compose.orders.day_source import frame_days, window
from sekai.compose.orders.exchange_config import ExchangeConfig
from sekai.compose.orders.executor_config import ExecutorConfig
from sekai.compose.orders.order import Order
from sekai.compose.orders.order_simulator import OrderSimulator
from sekai.data.intraday import DayTicks
from sekai.data.qlib.frame_provider import FrameProvider
from sekai.data.qlib.intraday import QlibIntraday
from sekai.data.qlib.provider import QlibProvider
from sekai.error import DataError

__all__ = ["SingleAssetOrderExecution"]

FACTOR = "$factor"


class SingleAssetOrderExecution(OrderSimulator):
    """The simulator to judge with: limits, caps, whole units, commissions and cash.

    Within a step the order is worked by TWAP: each tick asks for what should have been traded by
    then, in whole units, and the last for all that is left of the step. Fills are clipped by
    volume, then by cash, then to whole units. The window has the ticks from the order's start to
    its end, the end included.
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
        """Begin with nothing traded.

        Args:
            order: what is to be traded, within one day.
            executor_config: how long a step is, see `ExecutorConfig.of`.
            exchange_config: prices, limits, caps and costs, see `ExchangeConfig`.
            qlib_config: where the data is: given to `init_qlib`, unless it has that already; what
                that was last given if this is None.
            cash_limit: what can be paid with; None if money is no object. A sale of the last
                shares need not be in whole units if it is given.
            data: a frame of minutes in the place of Qlib's folders, or a
                `sekai.data.FrameIntraday` that has read one, which many orders can share.

        Raises:
            DataError: there are no such ticks, or the order is outside of the session.
        """
        if order.end_time.astype("datetime64[D]") != order.date:
            raise ValueError(
                f"an order within one day was wanted, found one from {order.start_time} to "
                f"{order.end_time}"
            )
        exchange = ExchangeConfig.of(exchange_config)
        executor = ExecutorConfig.of(executor_config, exchange.freq)
        if executor.settles_late and cash_limit is not None:
            raise ValueError(
                "executor_config: settle_type 'cash' is not supported with a cash_limit, which "
                "sales add to at once; use settle_type 'None', or no cash_limit"
            )
        ticks = _day(order, exchange, _provider(qlib_config, data, exchange.freq))
        price = ticks.column(exchange.price(order.direction))
        data = BacktestData(ticks, price, ticks.column("$volume"))
        super().__init__(
            order, data, window(ticks, order, closed=True), executor.ticks_per_step,
            carries=True, finishes=False, cash=cash_limit,
            **_limits(order, exchange, ticks), **_costs(exchange),
        )  # fmt: skip


def _provider(config: Mapping[str, Any] | None, data: Any, freq: str) -> QlibProvider:
    if data is None:
        return _session(config).provider
    if config is not None:
        raise TypeError("data and qlib_config both name a source of ticks; pass one of them")
    return frame_days(data).provider(freq)


def _day(order: Order, exchange: ExchangeConfig, provider: QlibProvider) -> DayTicks:
    codes = exchange.codes
    if codes != "all" and order.stock_id not in ([codes] if isinstance(codes, str) else codes):
        raise DataError(f"{order.stock_id} is not among the exchange's codes {codes!r}")
    columns = exchange.columns(order.direction)
    symbol = provider.symbol(order.stock_id, exchange.freq)
    if provider.has_field(symbol, FACTOR, exchange.freq) and FACTOR not in columns:
        columns.append(FACTOR)
    chosen = tuple(columns)
    if isinstance(provider, FrameProvider):
        return provider.days(chosen).day(order.stock_id, order.date)
    return _days(provider, exchange.freq, chosen).day(order.stock_id, order.date)


def _limits(order: Order, exchange: ExchangeConfig, ticks: DayTicks) -> dict[str, Any]:
    limits = {
        "tradable": exchange.tradable(ticks, order.direction),
        "current_cap": exchange.cap(ticks, order.direction, "current"),
        "cumulative_cap": exchange.cap(ticks, order.direction, "cum"),
    }
    factor = ticks.columns.get(FACTOR)
    if factor is not None and not np.isnan(factor[np.isfinite(ticks.column("$close"))]).any():
        # Without a factor prices are adjusted ones, of which nobody knows the real shares.
        limits["factor"] = np.ascontiguousarray(factor)
    return limits


def _costs(exchange: ExchangeConfig) -> dict[str, Any]:
    return {
        "open_cost": exchange.open_cost, "close_cost": exchange.close_cost,
        "min_cost": exchange.min_cost, "impact_cost": exchange.impact_cost,
        "trade_unit": exchange.trade_unit,
    }  # fmt: skip


def _session(config: Mapping[str, Any] | None) -> QlibConfig:
    """What `init_qlib` made of the config; the same config again is not opened again."""
    global _last
    if config is None:
        return current_qlib()
    if _last is None or _last[0] != config or _last[1] is not current_qlib():
        _last = dict(config), init_qlib(config)
    return _last[1]


_last: tuple[Mapping[str, Any], QlibConfig] | None = None


@lru_cache(maxsize=32)
def _days(provider: QlibProvider, freq: str, columns: tuple[str, ...]) -> QlibIntraday:
    return QlibIntraday(provider, freq, columns)
