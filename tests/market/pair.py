"""A book and the reference, asked the same and compared."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from sekai.error import OrderError
from sekai.market import BatchResult, Fill, OrderBook, SelfTrade, Side
from tests.market.flow import Draw, ask
from tests.market.reference_book import Answer, ReferenceBook, Refused, Row, Trade


class Pair:
    """Both books, and which id of the one is which name of the other."""

    def __init__(self, rule: SelfTrade) -> None:
        self.book, self.reference = OrderBook(rule), ReferenceBook(rule)
        self.names: list[int] = []
        self.ids: dict[int, int] = {}

    def step(self, draw: Draw) -> None:
        """Do one operation by one call, and compare all that can be seen."""
        row = draw.row(self.names)
        expected = self._expected(row)
        id = self.ids.get(row.name, 2**40)
        if isinstance(expected, Refused):
            self._refused(row, id, expected)
        else:
            found = ask(self.book, row, id)
            self._note(expected, found.id)
            assert found[1:5] == lots(expected), row
            fills = found.placement.fills if found.placement else ()
            assert list(fills) == [self._fill(trade) for trade in expected.trades], row
        self.compare()

    def batch(self, draws: Iterable[Draw]) -> None:
        """Do many operations by one call, which names orders of its own by their rows."""
        rows, answers = [], []
        created: dict[int, int] = {}
        for index, draw in enumerate(draws):
            row = draw.row(self.names)
            answers.append(self._expected(row))
            id = ~created[row.name] if row.name in created else self.ids.get(row.name, 2**40)
            rows.append((*row[:5], id))
            named = self._name_of(answers[-1])
            if named and named not in created and named not in self.ids:
                created[named] = index
                self.names.append(named)
        kind, side, price, size, account, ids = np.array(rows, np.int64).T
        found = self.book.batch(kind, side=side, price=price, size=size, account=account, id=ids)
        for name, index in created.items():
            self.ids[name] = int(found.id[index])
        self._compare_batch(answers, found)
        self.compare()

    def compare(self) -> None:
        """Every order of both books, in the order of its queue."""
        for side in Side:
            orders = self.book.orders(side)
            columns = (orders.id, orders.account, orders.price, orders.size)
            found = list(zip(*(column.tolist() for column in columns), strict=True))
            expected = [
                (self.ids[order.name], order.account, price, order.size)
                for price, order in self.reference.orders(side)
            ]
            assert found == expected, side

    def _expected(self, row: Row) -> Answer | Refused:
        try:
            return self.reference.do(row)
        except Refused as refusal:
            return refusal

    def _name_of(self, answer: Answer | Refused) -> int | None:
        return answer.name if isinstance(answer, Answer) else None

    def _refused(self, row: Row, id: int, expected: Refused) -> None:
        before = self.book.encode()
        with pytest.raises(OrderError) as caught:
            ask(self.book, row, id)
        assert caught.value.status == expected.status, row
        assert self.book.encode() == before, row

    def _note(self, answer: Answer, id: int) -> None:
        if answer.name is None:
            assert id == -1
        elif answer.name in self.ids:
            assert self.ids[answer.name] == id
        else:
            self.ids[answer.name] = id
            self.names.append(answer.name)

    def _fill(self, trade: Trade) -> Fill:
        return Fill(self.ids[trade.maker], *trade[1:])

    def _compare_batch(self, answers: list[Answer | Refused], found: BatchResult) -> None:
        refused = [answer.status if isinstance(answer, Refused) else 0 for answer in answers]
        assert found.status.tolist() == refused
        done = [Answer() if isinstance(answer, Refused) else answer for answer in answers]
        reported = np.stack([found.filled, found.resting, found.cancelled, found.prevented], 1)
        assert reported.tolist() == [list(lots(answer)) for answer in done]
        trades = [
            (index, self.ids[trade.maker], *trade[1:])
            for index, answer in enumerate(done)
            for trade in answer.trades
        ]
        fills = found.fills
        columns = (fills.operation, fills.maker, fills.maker_account, fills.taker_account)
        more = (fills.price, fills.size, fills.maker_left, fills.taker_side)
        assert list(zip(*(c.tolist() for c in (*columns, *more)), strict=True)) == trades


def lots(answer: Answer) -> tuple[int, int, int, int]:
    """Lots of an outcome, in the order of the columns."""
    return answer.filled, answer.resting, answer.cancelled, answer.prevented
