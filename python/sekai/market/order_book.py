"""A limit order book that matches by price, then time, in integer ticks and lots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from quant_gym_rs import _core
from quant_gym_rs.codes import SelfTrade, Side
from sekai.error import StateError
from sekai.market.columns import columns
from sekai.market.records import BatchResult, Depth, Fills, Orders

__all__ = ["OrderBook"]


class OrderBook(_core.OrderBook):
    """Resting orders of both sides, and the rules by which incoming ones trade with them.

    Prices are ticks from 1 to 2**30, sizes lots from 1 to 2**32 - 1, accounts numbers of 32 bits.
    A refused call raises `OrderError` and leaves the book as it was. Threads may share a book:
    each call waits for the one before it.
    """

    __slots__ = ()

    @property
    def self_trade(self) -> SelfTrade:
        """The rule for accounts that meet themselves."""
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
        """Do one operation for every row of the columns, in turn.

        A refused row has a status and the batch goes on, as single calls would whose errors were
        caught. Columns that cannot be read are refused before anything moves.

        Args:
            kind: what each row does, as `Operation` tells, with the columns that it reads.
            side: `Side` of new orders.
            price: in ticks.
            size: in lots.
            account: whose orders.
            id: the order to cancel, reduce or replace; `~row` stands for the order that an
                earlier row of this batch left in the book.
            strict: refuse the whole batch if one row is refused; nothing has moved then.
        """
        rows = columns(kind=kind, side=side, price=price, size=size, account=account, id=id)
        answers, fills = self.batch_columns(**rows, strict=bool(strict))
        return BatchResult(*answers, fills=Fills(*fills))

    def orders(self, side: Side) -> Orders:
        """The orders of a side, best price first, then oldest first."""
        return Orders(Side(side), *self.order_columns(side))

    def depth(self, levels: int) -> Depth:
        """The best `levels` levels of both sides."""
        bids = self.depth_columns(Side.BUY, levels)
        return Depth(*bids, *self.depth_columns(Side.SELL, levels))

    def copy(self) -> OrderBook:
        """A book of its own in the same state."""
        book = type(self)(self.self_trade)
        book.copy_from(self)
        return book

    def state_dict(self) -> dict[str, Any]:
        """The whole state, ids and rule included, as bytes with version and checksum."""
        return {"book": self.encode()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become the book that `state_dict` told of; a refused state changes nothing."""
        found = state.get("book") if isinstance(state, Mapping) else None
        if not isinstance(found, bytes):
            raise StateError(
                "a state with the bytes of a book under 'book' was wanted, found "
                f"{_keys(state) if found is None else type(found).__name__}"
            )
        self.decode(found)

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

    def _top(self, side: Side) -> str:
        for level in self.levels(side, 1):
            return f"{level.size} at {level.price}"
        return "none"


def _keys(state: object) -> str:
    return f"the keys {list(state)}" if isinstance(state, Mapping) else type(state).__name__
