"""The book against bourse, an independent matching engine: every trade, by the ids of both orders.

bourse numbers every order and keeps the number of one that is replaced; this book names only
what rests, anew when it is replaced. `Twins` keeps the map.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from sekai.market import OrderBook, Placement, SelfTrade, Side

# It offers no wheel for the newest Pythons; the naive book is compared on all of them.
bourse: Any = pytest.importorskip("bourse")

NO_BID, NO_ASK = 0, 2**32 - 1


class Twins:
    """Both engines, and bourse's number of each order that rests here."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.book = OrderBook(SelfTrade.ALLOW)
        self.peer = bourse.core.OrderBook(0, 1, True)
        self.numbers: dict[int, int] = {}
        self.trades: list[tuple[bool, int, int, int, int]] = []
        self.now = 0
        self.middle = 1_000

    def step(self) -> None:
        """Ask the same of both; bourse keeps time priority by its clock."""
        self.now += 1
        self.peer.set_time(self.now)
        self.middle += self.rng.choice((-1, 0, 0, 0, 1))
        kind = self.rng.randrange(20)
        if kind < 11 or len(self.book) < 10:
            self.limit()
        elif kind < 13:
            self.market()
        elif kind < 17 or len(self.book) > 80:
            self.cancel()
        else:
            self.replace()

    def limit(self) -> None:
        side, price, size = self.side(), self.price(), self.size()
        number = self.peer.place_order(side is Side.BUY, size, 7, price=price)
        self.note(self.book.limit(7, side, price, size), number)

    def market(self) -> None:
        side, size = self.side(), self.rng.randint(1, 60)
        number = self.peer.place_order(side is Side.BUY, size, 7)
        self.note(self.book.market(7, side, size), number)

    def cancel(self) -> None:
        id = self.resting()
        self.peer.cancel_order(self.numbers.pop(id))
        self.book.cancel(id)

    def replace(self) -> None:
        id = self.resting()
        old = self.book.order(id)
        assert old is not None
        price, size = self.rng.choice((self.price(), old.price)), self.size()
        if (price, size) == (old.price, old.size):
            return
        number = self.numbers.pop(id)
        changed = None if price == old.price else price
        self.peer.modify_order(number, new_price=changed, new_vol=size)
        self.note(self.book.replace(id, price, size), number)

    def note(self, placement: Placement, number: int) -> None:
        """Keep the map up to date, and the trades in bourse's words: the passive side first."""
        for fill in placement.fills:
            passive = fill.taker_side.opposite is Side.BUY
            maker = self.numbers[fill.maker]
            self.trades.append((passive, fill.price, fill.size, number, maker))
            if fill.maker_left == 0:
                del self.numbers[fill.maker]
        if placement.id is not None:
            self.numbers[placement.id] = number

    def compare(self) -> None:
        """Trades with their ids, prices at the top, and every order that rests."""
        assert [trade[1:] for trade in self.peer.get_trades()] == self.trades
        bid, ask = self.book.best_bid or NO_BID, self.book.best_ask or NO_ASK
        assert self.peer.bid_ask() == (bid, ask)
        active = {
            order[8]: (order[0], order[6], order[4])
            for order in self.peer.get_orders()
            if order[1] == 1
        }
        resting = {
            self.numbers[order.id]: (side is Side.BUY, order.price, order.size)
            for side in Side
            for order in self.book.orders(side)
        }
        assert resting == active

    def side(self) -> Side:
        return Side(self.rng.randrange(2))

    def price(self) -> int:
        return self.middle + self.rng.randint(-6, 6)

    def size(self) -> int:
        return self.rng.randint(1, 20)

    def resting(self) -> int:
        return self.rng.choice(list(self.numbers))


@pytest.mark.parametrize("seed", range(4))
def test_every_trade_is_that_of_bourse(seed: int) -> None:
    twins = Twins(seed)
    for _ in range(10):
        for _ in range(750):
            twins.step()
        twins.compare()

    assert len(twins.trades) > 2_000
