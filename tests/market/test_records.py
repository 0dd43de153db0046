"""Records and columns: frozen, compared by value, and good for a match and a pickle."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from sekai.market import (
    DepthLevel,
    Fill,
    Free,
    OfNotional,
    OrderBook,
    PerLot,
    Placement,
    QueuePosition,
    Resting,
    Side,
)

FILL = Fill(3, 1, 2, 100, 5, 0, Side.BUY)
RECORDS = [
    FILL,
    Placement(None, 5, 0, 0, 0, (FILL,)),
    Placement(7, 0, 5, 0, 0, ()),
    Resting(3, 1, Side.SELL, 100, 5),
    DepthLevel(100, 5, 1),
    QueuePosition(4, 2),
    Free(),
    PerLot(-1, 2),
    OfNotional(-100, 250),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_is_its_pickle_and_its_copy(record: Any) -> None:
    again = pickle.loads(pickle.dumps(record))

    assert again == record == copy.deepcopy(record)
    assert hash(again) == hash(record)
    assert repr(again) == repr(record)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_differs_from_all_others(record: Any) -> None:
    assert sum(record == other for other in RECORDS) == 1
    assert record != tuple(record.__getnewargs__())


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_cannot_be_changed(record: Any) -> None:
    for name in (*record.__match_args__, "other"):
        with pytest.raises(AttributeError):
            setattr(record, name, 1)


def test_a_record_is_shown_by_its_fields() -> None:
    assert repr(DepthLevel(100, 5, 1)) == "DepthLevel(price=100, size=5, orders=1)"
    assert repr(Resting(3, 1, 1, 100, 5)).startswith("Resting(id=3, account=1, side=<Side.SELL: 1>")


def test_a_record_can_be_matched() -> None:
    match FILL:
        case Fill(maker, taker_side=Side.BUY):
            assert maker == 3
        case _:
            pytest.fail("the fill did not match")


def test_a_side_of_a_record_is_a_side() -> None:
    assert Resting(3, 1, 0, 100, 5).side is Side.BUY
    assert (Side.BUY.opposite, Side.SELL.opposite) == (Side.SELL, Side.BUY)
    assert (Side.BUY.sign, Side.SELL.sign) == (1, -1)


def test_columns_of_orders_are_read_as_records() -> None:
    book = OrderBook()
    for size in (5, 6):
        book.limit(1, Side.SELL, 100, size)

    orders = book.orders(Side.SELL)

    assert [order.size for order in orders] == [5, 6]
    assert orders[-1] == book.order(int(orders.id[1]))
    with pytest.raises(IndexError):
        orders[2]
