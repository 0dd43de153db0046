"""What a market is made of: the limit order book, its orders, and what it charges."""

from __future__ import annotations

from quant_gym_rs.codes import Operation, SelfTrade, Side, Status, TimeInForce
from sekai.market.fees import Free, OfNotional, PerLot, Settled, settle
from sekai.market.order_book import OrderBook
from sekai.market.records import (
    BatchResult,
    Depth,
    DepthLevel,
    Fill,
    Fills,
    Orders,
    Placement,
    QueuePosition,
    Resting,
)

__all__ = [
    "BatchResult",
    "Depth",
    "DepthLevel",
    "Fill",
    "Fills",
    "Free",
    "OfNotional",
    "Operation",
    "OrderBook",
    "Orders",
    "PerLot",
    "Placement",
    "QueuePosition",
    "Resting",
    "SelfTrade",
    "Settled",
    "Side",
    "Status",
    "TimeInForce",
    "settle",
]
