"""What a book tells: records of one thing, and columns of many.

A record is native, since one is made for every single call; columns are arrays, so that a batch
makes no object for an order or a fill.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import DepthLevel, Fill, Placement, QueuePosition, Resting
from quant_gym_rs.codes import Side

__all__ = [
    "BatchResult",
    "Depth",
    "DepthLevel",
    "Fill",
    "Fills",
    "Orders",
    "Placement",
    "QueuePosition",
    "Resting",
]


@dataclass(frozen=True, slots=True, eq=False)
class Fills:
    """Trades as columns, in the order in which they happened; `fills[i]` is one as a record."""

    operation: NDArray[np.int64]
    """The row of the batch that traded."""
    maker: NDArray[np.int64]
    """The id of the resting order."""
    maker_account: NDArray[np.int64]
    taker_account: NDArray[np.int64]
    price: NDArray[np.int64]
    size: NDArray[np.int64]
    maker_left: NDArray[np.int64]
    """Lots that are left of the resting order; at zero its id is stale."""
    taker_side: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.price)

    def __getitem__(self, index: int) -> Fill:
        return Fill(
            int(self.maker[index]),
            int(self.maker_account[index]),
            int(self.taker_account[index]),
            int(self.price[index]),
            int(self.size[index]),
            int(self.maker_left[index]),
            Side(self.taker_side[index]),
        )

    def __iter__(self) -> Iterator[Fill]:
        return (self[index] for index in range(len(self)))


@dataclass(frozen=True, slots=True, eq=False)
class BatchResult:
    """What became of each row of a batch, and its trades."""

    id: NDArray[np.int64]
    """The id of what rests, else -1."""
    filled: NDArray[np.int64]
    """Lots that traded."""
    resting: NDArray[np.int64]
    """Lots that rest."""
    cancelled: NDArray[np.int64]
    """Lots that will never trade: nobody took them, or the row took them away."""
    prevented: NDArray[np.int64]
    """Lots that self-trade prevention took from resting orders of the same account."""
    status: NDArray[np.int8]
    """`Status.OK`, or why the row was refused."""
    fills: Fills

    def __len__(self) -> int:
        return len(self.status)


@dataclass(frozen=True, slots=True, eq=False)
class Orders:
    """Resting orders of a side as columns, best price first, then oldest first."""

    side: Side
    id: NDArray[np.int64]
    account: NDArray[np.int64]
    price: NDArray[np.int64]
    size: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.id)

    def __getitem__(self, index: int) -> Resting:
        columns = (self.price[index], self.size[index])
        price, size = (int(value) for value in columns)
        return Resting(int(self.id[index]), int(self.account[index]), self.side, price, size)

    def __iter__(self) -> Iterator[Resting]:
        return (self[index] for index in range(len(self)))


@dataclass(frozen=True, slots=True, eq=False)
class Depth:
    """The best levels of both sides as columns, best first; zeros where a side has no more."""

    bid_price: NDArray[np.int64]
    bid_size: NDArray[np.int64]
    bid_orders: NDArray[np.int64]
    ask_price: NDArray[np.int64]
    ask_size: NDArray[np.int64]
    ask_orders: NDArray[np.int64]
