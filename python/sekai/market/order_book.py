"""Limit order book with price-time priority, in integer ticks and lots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quant_gym_rs import _core
from quant_gym_rs._core import DepthLevel, Fill, Placement, QueuePosition, Resting
from quant_gym_rs.codes import SelfTrade, Side
from sekai.error import OrderError, StateError
from sekai.storage.display import brief_repr, html_table

__all__ = [
    "BatchResult",
    "Depth",
    "DepthLevel",
    "Fill",
    "Fills",
    "OrderBook",
    "Orders",
    "Placement",
    "QueuePosition",
    "Resting",
    "depth_html",
    "integer_columns",
]

SHOWN_LEVELS = 10
"""Price levels in the table of a notebook."""


class OrderBook(_core.OrderBook):
    """Limit order book with price-time priority.

    Prices are ticks from 1 to 2**30, sizes lots from 1 to 2**32 - 1, accounts 32-bit integers.
    A rejected call raises `OrderError` and leaves the book unchanged. Thread-safe: each call waits
    for the one before it.
    """

    __slots__ = ()

    @property
    def self_trade(self) -> SelfTrade:
        """Rule of self-trade prevention."""
        return SelfTrade(self.rule)

    def batch(
        self,
        kind: ArrayLike,
        *,
        side: ArrayLike | None = None,
        price: ArrayLike | None = None,
        size: ArrayLike | None = None,
        account: ArrayLike | None = None,
        id: ArrayLike | None = None,
        strict: bool = False,
    ) -> BatchResult:
        """Process one operation for every row of the columns, in order.

        A rejected row has a status and the batch goes on. Columns that cannot be read are rejected
        before anything changes.

        Args:
            kind: `Operation` of each row, which also names the columns it reads.
            side: `Side` of new orders.
            price: in ticks.
            size: in lots.
            account: owner of the order.
            id: the order to cancel, reduce or replace; `~row` is the order that an earlier row of
                this batch left in the book.
            strict: reject the whole batch if one row is rejected, without any change.
        """
        rows = integer_columns(kind=kind, side=side, price=price, size=size, account=account, id=id)
        results, fills = self.batch_columns(**rows, strict=bool(strict))
        return BatchResult(*results, fills=Fills(*fills))

    def orders(self, side: Side) -> Orders:
        """Resting orders of a side, best price first, then oldest first."""
        return Orders(Side(side), *self.order_columns(side))

    def depth(self, levels: int) -> Depth:
        """Depth: the best `levels` price levels of both sides."""
        bids = self.depth_columns(Side.BUY, levels)
        return Depth(*bids, *self.depth_columns(Side.SELL, levels))

    def copy(self) -> OrderBook:
        """Independent copy of the book."""
        book = type(self)(self.self_trade)
        book.copy_from(self)
        return book

    def state_dict(self) -> dict[str, Any]:
        """State of the book, ids and rule included, as bytes with version and checksum."""
        return {"book": self.encode()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state; a rejected one changes nothing."""
        encoded = state.get("book") if isinstance(state, Mapping) else None
        if not isinstance(encoded, bytes):
            raise StateError(
                "state must have the bytes of a book under 'book', got "
                f"{_keys(state) if encoded is None else type(encoded).__name__}"
            )
        self.decode(encoded)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.self_trade,), self.state_dict()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.load_state_dict(state)

    def __repr__(self) -> str:
        bid, ask = (self._top(side) for side in Side)
        return (
            f"{type(self).__name__}(bid={bid}, ask={ask}, orders={len(self)}, "
            f"traded={self.traded}, self_trade={self.self_trade.name})"
        )

    def _repr_html_(self) -> str:
        return depth_html(repr(self), self.depth(SHOWN_LEVELS))

    def _top(self, side: Side) -> str:
        for level in self.levels(side, 1):
            return f"{level.size} at {level.price}"
        return "none"


def depth_html(caption: str, depth: Depth) -> str:
    """HTML table of the depth: orders, size and price of the bids beside those of the asks."""
    sides = (("bid_orders", "bid_size", "bid_price"), ("ask_price", "ask_size", "ask_orders"))
    names = [name for side in sides for name in side]
    columns = [getattr(depth, name).tolist() for name in names]
    # Zeros stand for levels that a side does not have.
    rows = [
        ["" if value == 0 else f"{value:,}" for value in row] for row in zip(*columns, strict=True)
    ]
    header = [name.replace("_", " ") for name in names]
    return html_table(caption, header, [row for row in rows if any(row)])


def _keys(state: object) -> str:
    return f"the keys {list(state)}" if isinstance(state, Mapping) else type(state).__name__


@dataclass(frozen=True, slots=True, eq=False)
class Fills:
    """Fills as columns, in order of execution; `fills[i]` is one as a record."""

    operation: NDArray[np.int64]
    """Row of the batch that traded."""
    maker: NDArray[np.int64]
    """Id of the resting order."""
    maker_account: NDArray[np.int64]
    taker_account: NDArray[np.int64]
    price: NDArray[np.int64]
    size: NDArray[np.int64]
    maker_left: NDArray[np.int64]
    """Lots left of the resting order; at zero its id is no longer valid."""
    taker_side: NDArray[np.int8]

    __repr__ = brief_repr

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
    """Result of each row of a batch, and its fills."""

    id: NDArray[np.int64]
    """Id of the resting order, else -1."""
    filled: NDArray[np.int64]
    """Lots filled."""
    resting: NDArray[np.int64]
    """Lots resting."""
    cancelled: NDArray[np.int64]
    """Lots cancelled: not filled, or removed by the row."""
    prevented: NDArray[np.int64]
    """Lots that self-trade prevention removed from resting orders of the same account."""
    status: NDArray[np.int8]
    """`Status.OK`, or the reason for rejection."""
    fills: Fills

    __repr__ = brief_repr

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

    __repr__ = brief_repr

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
    """Depth as columns: best levels of both sides, best first; zeros where a side has no more."""

    bid_price: NDArray[np.int64]
    bid_size: NDArray[np.int64]
    bid_orders: NDArray[np.int64]
    ask_price: NDArray[np.int64]
    ask_size: NDArray[np.int64]
    ask_orders: NDArray[np.int64]

    __repr__ = brief_repr

    def _repr_html_(self) -> str:
        return depth_html("Depth", self)


CODES = np.dtype(np.int8)
NUMBERS = np.dtype(np.int64)
DTYPES = {"kind": CODES, "side": CODES, "taker_side": CODES}
"""Columns of codes; all others are `NUMBERS`."""


def integer_columns(**values: ArrayLike | None) -> dict[str, Any]:
    """Contiguous columns of integers; a scalar applies to every row, None stays None."""
    if all(_is_ready(name, column) for name, column in values.items()):
        return values
    arrays = {name: _integers(name, column) for name, column in values.items()}
    rows = next((len(a) for a in arrays.values() if a is not None and a.ndim), 1)
    return {name: None if a is None else _column(name, a, rows) for name, a in arrays.items()}


def _is_ready(name: str, values: ArrayLike | None) -> bool:
    if type(values) is not np.ndarray:
        return values is None
    flags = values.flags
    ready = values.ndim == 1 and flags.c_contiguous and flags.aligned
    return ready and values.dtype == DTYPES.get(name, NUMBERS)


def _integers(name: str, values: ArrayLike | None) -> NDArray[Any] | None:
    if values is None:
        return None
    array = np.asarray(values)
    # An empty list has no type of its own and becomes an array of floats.
    if array.dtype.kind not in "iu" and array.size:
        raise OrderError(f'column "{name}" must be integers, got {array.dtype}')
    if array.ndim > 1:
        raise OrderError(f'column "{name}" must have one dimension, got shape {array.shape}')
    return array


def _column(name: str, array: NDArray[Any], rows: int) -> NDArray[Any]:
    dtype = DTYPES.get(name, NUMBERS)
    if array.size and not np.can_cast(array.dtype, dtype):
        _check_range(name, array, dtype)
    if array.ndim == 0:
        return np.full(rows, array, dtype)
    return np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def _check_range(name: str, array: NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Reject values that a cast would change silently."""
    limits = np.iinfo(dtype)
    for value in (int(array.min()), int(array.max())):
        if not limits.min <= value <= limits.max:
            raise OrderError(
                f'column "{name}" must be integers from {limits.min} to {limits.max}, got {value}'
            )
