"""What is told of an order, a step of it, or a tick."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.compose.orders.order import Order, OrderDir

__all__ = [
    "FILLS",
    "SAOEMetrics",
    "metrics_dtype",
    "metrics_table",
    "price_advantage",
    "summary_metrics",
]

ID_LENGTH = 32
BASIS_POINTS = 1e4

FILLS = np.dtype([
    ("time", "datetime64[ns]"), ("wanted", "f8"), ("filled", "f8"), ("price", "f8"),
    ("value", "f8"), ("cost", "f8"),
])  # fmt: skip
"""One row a tick: what was asked of it, and what it gave."""


@dataclass(frozen=True, slots=True)
class SAOEMetrics:
    """How single-asset order execution went, over the ticks of a step or of all steps.

    Fields can be read by name as well: `metrics["pa"]`.
    """

    stock_id: str
    datetime: np.datetime64
    """The first tick: of the step, or of the day for a whole order."""
    direction: int
    market_volume: float
    """What the market traded."""
    market_price: float
    """The plain mean of deal prices; 0 if there was none."""
    amount: float
    """What the strategy wanted."""
    inner_amount: float
    """What was asked of the ticks, what a cap refused and was asked for again included."""
    deal_amount: float
    """What was filled."""
    trade_price: float
    """The mean price of fills; 0 if there was none."""
    trade_value: float
    """Price times amount, of all fills."""
    position: float
    """What is left to be traded afterwards."""
    ffr: float
    """What was filled, as a share of the order."""
    pa: float
    """Price advantage over the order's TWAP, in basis points; 0 if nothing was filled."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
            raise KeyError(f"no {name!r} in the metrics; there are {list(self)}")
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(self))

    def __len__(self) -> int:
        return len(self.__dataclass_fields__)

    def keys(self) -> list[str]:
        """The names of the fields, which also makes `dict(metrics)` work."""
        return list(self)

    def items(self) -> list[tuple[str, Any]]:
        """Names and values."""
        return [(name, getattr(self, name)) for name in self]


def metrics_dtype(id_length: int = ID_LENGTH) -> np.dtype[Any]:
    """A row of metrics in a NumPy table, for ids of up to so many characters."""
    kinds = {"stock_id": f"U{max(ID_LENGTH, id_length)}", "datetime": "datetime64[ns]"}
    names = [field.name for field in fields(SAOEMetrics)]
    return np.dtype([(n, kinds.get(n, "i8" if n == "direction" else "f8")) for n in names])


def metrics_table(rows: list[SAOEMetrics] | tuple[SAOEMetrics, ...]) -> NDArray[Any]:
    """Metrics as a structured array, one row each."""
    longest = max((len(row.stock_id) for row in rows), default=ID_LENGTH)
    return np.array([astuple(row) for row in rows], metrics_dtype(longest))


def price_advantage(price: Any, twap_price: float, direction: OrderDir) -> Any:
    """How much better than TWAP a price is, in basis points; 0 where one of them is missing."""
    prices = np.asarray(price, np.float64)
    # Not a NaN, but also an advantage of nothing over something: both are no price.
    is_known = (prices > 0) & np.isfinite(prices) & bool(twap_price > 0)
    relative = np.where(is_known, prices, 1.0) / (twap_price if twap_price > 0 else 1.0) - 1.0
    advantage = np.where(is_known, -direction.sign * relative * BASIS_POINTS, 0.0)
    return float(advantage) if advantage.ndim == 0 else advantage


def summary_metrics(
    order: Order, begin: np.datetime64, amount: float, position: float, twap: float, summary: Any
) -> SAOEMetrics:
    """Metrics of ticks whose sums the matcher gave."""
    filled, value = summary.filled, summary.value
    price = value / filled if filled > 0 else 0.0
    known = summary.market_price == summary.market_price  # not NaN
    advantage = 0.0
    if price > 0 and twap > 0:
        advantage = -order.sign * (price / twap - 1.0) * BASIS_POINTS
    return SAOEMetrics(
        stock_id=order.stock_id, datetime=begin, direction=int(order.direction),
        market_volume=summary.market_volume,
        market_price=summary.market_price if known else 0.0,
        amount=amount, inner_amount=summary.wanted, deal_amount=filled,
        trade_price=price, trade_value=value, position=position,
        ffr=filled / order.amount, pa=advantage,
    )  # fmt: skip
