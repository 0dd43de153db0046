"""State of an order: history, metrics, and the day's deal prices and volumes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import OrderMatcher
from sekai.compose.orders.order import Order, OrderDir
from sekai.data.intraday import DayTicks, resolve_column
from sekai.error import DataError

__all__ = [
    "FILLS",
    "BacktestData",
    "OrderHistory",
    "SAOEMetrics",
    "SAOEState",
    "check_price_type",
    "deal_prices",
    "metrics_dtype",
    "price_advantage",
    "summary_metrics",
    "volume_notice",
]


@dataclass(frozen=True, slots=True, eq=False)
class SAOEState:
    """State of single-asset order execution between two steps.

    Histories are NumPy structured arrays with the fields of `SAOEMetrics`, built when read.
    """

    order: Order
    cur_time: np.datetime64
    """Start of the next step; the order's end after the last."""
    cur_step: int
    """Number of steps taken."""
    position: float
    """Amount left to trade."""
    metrics: SAOEMetrics | None
    """Metrics of the whole order, once it is done."""
    backtest_data: BacktestData
    """The days of the order; values at or after `cur_time` are not known yet."""
    ticks_per_step: int
    ticks_index: NDArray[np.datetime64]
    """All ticks of the order's day; of an order over several days, of all of them."""
    ticks_for_order: NDArray[np.datetime64]
    """The ticks of the order's window."""
    cur_tick: int
    """Number of ticks in `ticks_index` that are over."""
    first_tick: int
    """Index of the window's first tick."""
    num_steps: int
    """Steps in the window; fewer are taken if the order is filled before its end."""
    history: OrderHistory

    @property
    def history_exec(self) -> NDArray[Any]:
        """Metrics of each tick so far."""
        return self.history.ticks()

    @property
    def history_steps(self) -> NDArray[Any]:
        """Metrics of each step so far."""
        return self.history.steps()

    @property
    def last_step(self) -> SAOEMetrics | None:
        """Metrics of the last step."""
        return self.history.step_metrics[-1] if self.history.step_metrics else None

    @property
    def stop_tick(self) -> int:
        """Index of the tick after the window's last."""
        return self.first_tick + len(self.ticks_for_order)

    @property
    def date(self) -> np.datetime64:
        """Day of the next step, or of the last one after the end."""
        tick = min(self.cur_tick, self.stop_tick - 1)
        day: np.datetime64 = self.ticks_index[tick].astype("datetime64[D]")
        return day

    @property
    def next_boundary(self) -> int:
        """Index of the tick at which the next step ends, at the latest with its session."""
        return self.history.matcher.boundary_after(self.cur_tick)

    def boundaries(self, tick: int) -> list[int]:
        """Ticks at which the step of a tick and all later steps end."""
        boundaries = []
        while tick < self.stop_tick:
            tick = self.history.matcher.boundary_after(tick)
            boundaries.append(tick)
        return boundaries

    @property
    def step_ticks(self) -> int:
        """Ticks in the next step."""
        return max(0, self.next_boundary - self.cur_tick)

    @property
    def ticks_left(self) -> int:
        """Ticks left in the window."""
        return self.stop_tick - self.cur_tick

    @property
    def step_share(self) -> float:
        """Share of the next step in the ticks left; 1 in the last step."""
        return self.step_ticks / self.ticks_left if self.ticks_left else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class OrderHistory:
    """History of an order: the first `worked` ticks and all steps so far.

    The matcher only adds ticks, so that a history never changes.
    """

    order: Order
    twap_price: float
    times: NDArray[np.datetime64]
    """Ticks of the order."""
    matcher: OrderMatcher
    worked: int
    step_metrics: tuple[SAOEMetrics, ...]

    def fills(self) -> NDArray[Any]:
        """Fills as a table: time, wanted, filled, price, value, cost of each tick."""
        wanted, filled, value, cost, price, _ = self.matcher.fills(0, self.worked)
        table = np.empty(self.worked, FILLS)
        columns = (self.times[: self.worked], wanted, filled, price, value, cost)
        for name, column in zip(FILLS.names or (), columns, strict=True):
            table[name] = column
        return table

    def filled(self, begin: int = 0) -> NDArray[np.float64]:
        """Amounts filled from tick `begin` on."""
        amounts: NDArray[np.float64] = self.matcher.fills(begin, self.worked)[1]
        return amounts

    def ticks(self) -> NDArray[Any]:
        """Metrics of each tick as a table."""
        wanted, filled, value, _, price, volume = self.matcher.fills(0, self.worked)
        table = np.empty(self.worked, metrics_dtype(len(self.order.stock_id)))
        traded = np.where(filled > 0, price, 0.0)
        columns = {
            "stock_id": self.order.stock_id,
            "datetime": self.times[: self.worked],
            "direction": int(self.order.direction),
            "market_volume": volume,
            "market_price": price,
            "amount": wanted,
            "inner_amount": wanted,
            "deal_amount": filled,
            "trade_price": traded,
            "trade_value": value,
            "position": self.order.amount - np.cumsum(filled),
            "ffr": filled / self.order.amount,
            "pa": price_advantage(traded, self.twap_price, self.order.direction),
        }
        for name, column in columns.items():
            table[name] = column
        return table

    def steps(self) -> NDArray[Any]:
        """Metrics of each step as a table."""
        return metrics_table(self.step_metrics)


ID_LENGTH = 32
BASIS_POINTS = 1e4

FILLS = np.dtype(
    [
        ("time", "datetime64[ns]"),
        ("wanted", "f8"),
        ("filled", "f8"),
        ("price", "f8"),
        ("value", "f8"),
        ("cost", "f8"),
    ]
)
"""Dtype of a fill: one row per tick, with the amounts wanted and filled."""


@dataclass(frozen=True, slots=True)
class SAOEMetrics:
    """Metrics of single-asset order execution, over a tick, a step or the whole order.

    Fields can be read by name as well: `metrics["pa"]`.
    """

    stock_id: str
    datetime: np.datetime64
    """First tick of the step, or of the day for a whole order."""
    direction: int
    market_volume: float
    """Market volume."""
    market_price: float
    """Unweighted mean of deal prices; 0 if there was none."""
    amount: float
    """Amount that the strategy ordered."""
    inner_amount: float
    """Amount ordered in ticks, repeated orders after a cap included."""
    deal_amount: float
    """Amount filled."""
    trade_price: float
    """Mean fill price; 0 if there was none."""
    trade_value: float
    """Value of all fills."""
    position: float
    """Amount left afterwards."""
    ffr: float
    """Fill rate: amount filled over the order's amount."""
    pa: float
    """Price advantage over the order's TWAP, in basis points; 0 if nothing was filled."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
            raise KeyError(f"unknown metric {name!r}; expected one of {list(self)}")
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(self))

    def __len__(self) -> int:
        return len(self.__dataclass_fields__)

    def keys(self) -> list[str]:
        """Names of the fields, which also makes `dict(metrics)` work."""
        return list(self)

    def items(self) -> list[tuple[str, Any]]:
        """Names and values of the fields."""
        return [(name, getattr(self, name)) for name in self]


def metrics_dtype(id_length: int = ID_LENGTH) -> np.dtype[Any]:
    """Dtype of a row of metrics, for ids of up to `id_length` characters."""
    kinds = {"stock_id": f"U{max(ID_LENGTH, id_length)}", "datetime": "datetime64[ns]"}
    names = [field.name for field in fields(SAOEMetrics)]
    return np.dtype([(n, kinds.get(n, "i8" if n == "direction" else "f8")) for n in names])


def metrics_table(rows: list[SAOEMetrics] | tuple[SAOEMetrics, ...]) -> NDArray[Any]:
    """Structured array of metrics, one row each."""
    longest = max((len(row.stock_id) for row in rows), default=ID_LENGTH)
    return np.array([astuple(row) for row in rows], metrics_dtype(longest))


def price_advantage(price: Any, twap_price: float, direction: OrderDir) -> Any:
    """Price advantage over TWAP in basis points; 0 where a price is missing."""
    if isinstance(price, float):
        # Neither NaN nor 0 is a price.
        is_known = 0.0 < price < math.inf and twap_price > 0
        return -direction.sign * (price / twap_price - 1.0) * BASIS_POINTS if is_known else 0.0
    prices = np.asarray(price, np.float64)
    are_known = (prices > 0) & np.isfinite(prices) & bool(twap_price > 0)
    relative = np.where(are_known, prices, 1.0) / (twap_price if twap_price > 0 else 1.0) - 1.0
    return np.where(are_known, -direction.sign * relative * BASIS_POINTS, 0.0)


def summary_metrics(
    stock_id: str,
    direction: OrderDir,
    order_amount: float,
    begin: np.datetime64,
    amounts: tuple[float, float],
    twap: float,
    summary: Any,
) -> SAOEMetrics:
    """Metrics of the ticks that the matcher summed.

    Args:
        stock_id: asset of the order.
        direction: its direction.
        order_amount: its size.
        begin: time of the first tick.
        amounts: amount that the strategy ordered, and amount left afterwards.
        twap: mean price of the order's window.
        summary: sums over the ticks.
    """
    filled, value = summary.filled, summary.value
    price = value / filled if filled > 0 else 0.0
    known = summary.market_price == summary.market_price  # not NaN
    return SAOEMetrics(
        stock_id=stock_id,
        datetime=begin,
        direction=int(direction),
        market_volume=summary.market_volume,
        market_price=summary.market_price if known else 0.0,
        amount=amounts[0],
        inner_amount=summary.wanted,
        deal_amount=filled,
        trade_price=price,
        trade_value=value,
        position=amounts[1],
        ffr=filled / order_amount,
        pa=price_advantage(price, twap, direction),
    )


def volume_notice(order_amount: float, metrics: SAOEMetrics) -> str | None:
    """Notice of a finished order that is larger than the market volume of its ticks."""
    volume = metrics.market_volume
    if order_amount <= volume:
        return None
    times = f"{order_amount / volume:,.1f} times" if volume > 0 else "beyond"
    return (
        f"order of {order_amount:,.0f} is {times} the market volume of {volume:,.0f} in its ticks, "
        f"and {metrics.deal_amount:,.0f} were filled; cap fills by vol_threshold, or trade less"
    )


DealPriceType = Literal["close", "bid_or_ask", "bid_or_ask_fill"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class BacktestData:
    """Ticks of a day, or of the days of an order, with the deal price of one direction."""

    ticks: DayTicks
    deal_price: Floats
    """NaN or 0 where nothing can be traded."""
    volume: Floats

    def get_deal_price(self) -> Floats:
        """Deal price of each tick."""
        return self.deal_price

    def get_volume(self) -> Floats:
        """Market volume of each tick."""
        return self.volume

    def get_time_index(self) -> NDArray[np.datetime64]:
        """Start time of each tick."""
        return self.ticks.times


def deal_prices(ticks: DayTicks, price_type: str, direction: OrderDir) -> BacktestData:
    """Deal prices and volumes of a day, by the type of deal price.

    `close` trades at the tick's close; `bid_or_ask` sells at the bid and buys at the ask;
    `bid_or_ask_fill` takes the other side where one is missing.
    """
    check_price_type(price_type)
    return BacktestData(ticks, _price(ticks, price_type, direction), _column(ticks, "volume"))


def check_price_type(price_type: Any) -> None:
    """Raise unless a type of deal price is known."""
    if price_type not in get_args(DealPriceType):
        raise ValueError(
            f"deal_price_type must be one of {list(get_args(DealPriceType))}, got {price_type!r}"
        )


def _price(ticks: DayTicks, price_type: str, direction: OrderDir) -> Floats:
    if price_type == "close":
        return _column(ticks, "close")
    sides = ("ask", "bid") if direction is OrderDir.BUY else ("bid", "ask")
    own = _column(ticks, sides[0])
    if price_type == "bid_or_ask":
        return own
    return np.where(own > 0, own, _column(ticks, sides[1]))


def _column(ticks: DayTicks, name: str) -> Floats:
    column = resolve_column(ticks.columns, f"${name}")
    if column is None:
        raise DataError(
            f"{ticks.stock_id} has no column '${name}', which orders need; got "
            f"{', '.join(sorted(ticks.columns)) or 'none'}"
        )
    return ticks.columns[column]
