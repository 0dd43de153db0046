"""A book that is slow and obviously right: a dictionary of lists of orders for each side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sekai.market import Operation, SelfTrade, Side, Status

LARGEST_PRICE = 2**30
LARGEST_SIZE = 2**32 - 1


class Row(NamedTuple):
    """Operation on a book; `name` is the reference's own name of a resting order."""

    kind: Operation
    side: Side
    price: int
    size: int
    account: int
    name: int


class Trade(NamedTuple):
    """One trade, the maker by its name."""

    maker: int
    maker_account: int
    taker_account: int
    price: int
    size: int
    maker_left: int
    taker_side: Side


@dataclass
class Order:
    """A resting order."""

    name: int
    account: int
    size: int


@dataclass
class Answer:
    """Outcome of an operation."""

    name: int | None = None
    filled: int = 0
    resting: int = 0
    cancelled: int = 0
    prevented: int = 0
    trades: list[Trade] = field(default_factory=list)


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """The reason of a refusal."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.name)
        self.status = status


class ReferenceBook:
    """Orders by side, price and arrival; every rule is written out plainly."""

    def __init__(self, rule: SelfTrade) -> None:
        self.rule = rule
        self.queues: dict[Side, dict[int, list[Order]]] = {Side.BUY: {}, Side.SELL: {}}
        self.places: dict[int, tuple[Side, int]] = {}
        self.names = 0

    def do(self, row: Row) -> Answer:
        """Answer one operation, or raise `Refused` with nothing moved."""
        if row.kind == Operation.CANCEL:
            return Answer(cancelled=self._take_out(row.name).size)
        if row.kind == Operation.CANCEL_ALL:
            own = [order for side in Side for _, order in self.orders(side)]
            names = [order.name for order in own if order.account == row.account]
            return Answer(cancelled=sum(self._take_out(name).size for name in names))
        if row.kind == Operation.REDUCE:
            return self._reduce(row)
        if row.kind == Operation.REPLACE:
            return self._replace(row)
        return self._place(row)

    def orders(self, side: Side) -> Iterator[tuple[int, Order]]:
        """Prices and orders of a side, best price first, then oldest first."""
        for price in sorted(self.queues[side], reverse=side is Side.BUY):
            for order in self.queues[side][price]:
                yield price, order

    def _place(self, row: Row) -> Answer:
        if row.kind == Operation.MARKET:
            row = row._replace(price=LARGEST_PRICE if row.side is Side.BUY else 1)
        self._check(row.price, row.size)
        rests = row.kind in (Operation.LIMIT, Operation.POST_ONLY)
        if row.kind == Operation.POST_ONLY and next(self._makers(row), None):
            raise Refused(Status.WOULD_TRADE)
        if rests:
            self._check_room(row, 0)
        if row.kind == Operation.FILL_OR_KILL and self._fillable(row) < row.size:
            raise Refused(Status.NOT_FILLABLE)
        return self._trade(row, rests)

    def _reduce(self, row: Row) -> Answer:
        self._check(1, row.size)
        order = self._find(row.name)
        if row.size >= order.size:
            raise Refused(Status.NOTHING_LEFT)
        order.size -= row.size
        return Answer(name=order.name, resting=order.size, cancelled=row.size)

    def _replace(self, row: Row) -> Answer:
        self._check(row.price, row.size)
        old = self._find(row.name)
        side, price = self.places[row.name]
        if price == row.price and row.size <= old.size:
            old.size = row.size
            return Answer(name=old.name, resting=row.size)
        anew = row._replace(side=side, account=old.account)
        self._check_room(anew, old.size if price == row.price else 0)
        self._take_out(old.name)
        return self._trade(anew, rests=True)

    def _trade(self, row: Row, rests: bool) -> Answer:
        answer, left = Answer(), row.size
        for price, maker in list(self._makers(row)):
            if left == 0:
                break
            met = min(left, maker.size)
            if maker.account != row.account or self.rule is SelfTrade.ALLOW:
                maker.size -= met
                left -= met
                answer.filled += met
                people = (maker.account, row.account)
                trade = Trade(maker.name, *people, price, met, maker.size, row.side)
                answer.trades.append(trade)
            elif self.rule is SelfTrade.CANCEL_INCOMING:
                left = 0
            elif self.rule is SelfTrade.CANCEL_RESTING:
                answer.prevented += maker.size
                maker.size = 0
            else:
                answer.prevented += met
                maker.size -= met
                left -= met
            if maker.size == 0:
                self._take_out(maker.name)
        if rests and left:
            answer.name, answer.resting = self._rest(row, left), left
        answer.cancelled = row.size - answer.filled - answer.resting
        return answer

    def _fillable(self, row: Row) -> int:
        left, filled = row.size, 0
        for _, maker in self._makers(row):
            own = maker.account == row.account and self.rule is not SelfTrade.ALLOW
            if left == 0 or (own and self.rule is SelfTrade.CANCEL_INCOMING):
                break
            if not own:
                filled += min(left, maker.size)
            if not own or self.rule is SelfTrade.DECREMENT_BOTH:
                left -= min(left, maker.size)
        return filled

    def _makers(self, row: Row) -> Iterator[tuple[int, Order]]:
        """Orders that `row` may trade with, in the order in which it meets them."""
        for price, order in self.orders(row.side.opposite):
            if price > row.price if row.side is Side.BUY else price < row.price:
                return
            yield price, order

    def _rest(self, row: Row, size: int) -> int:
        self.names += 1
        self.queues[row.side].setdefault(row.price, []).append(Order(self.names, row.account, size))
        self.places[self.names] = (row.side, row.price)
        return self.names

    def _find(self, name: int) -> Order:
        if name not in self.places:
            raise Refused(Status.NOT_RESTING)
        side, price = self.places[name]
        return next(order for order in self.queues[side][price] if order.name == name)

    def _take_out(self, name: int) -> Order:
        order = self._find(name)
        side, price = self.places.pop(name)
        self.queues[side][price].remove(order)
        if not self.queues[side][price]:
            del self.queues[side][price]
        return order

    def _check(self, price: int, size: int) -> None:
        if not 1 <= price <= LARGEST_PRICE:
            raise Refused(Status.PRICE_OUT_OF_RANGE)
        if not 1 <= size <= LARGEST_SIZE:
            raise Refused(Status.SIZE_OUT_OF_RANGE)

    def _check_room(self, row: Row, leaving: int) -> None:
        held = sum(order.size for order in self.queues[row.side].get(row.price, []))
        if held - leaving + row.size > LARGEST_SIZE:
            raise Refused(Status.LEVEL_FULL)
