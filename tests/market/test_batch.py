"""Batches of operations: columns in, columns out, and errors of malformed columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from sekai.error import OrderError
from sekai.market import Operation, OrderBook, SelfTrade, Side, Status
from tests.market.flow import Draw, ask, draws, flows, rules
from tests.market.reference_book import Row

GOOD: dict[str, Any] = {
    "kind": [Operation.LIMIT, Operation.CANCEL],
    "side": [Side.BUY, 0],
    "price": [99, 0],
    "size": [5, 0],
    "account": [1, 0],
    "id": [0, ~0],
}


def one_by_one(book: OrderBook, rows: list[tuple[Row, int]]) -> list[tuple[int, ...]]:
    """Answers and status of each row, done by a call of its own."""
    return [one(book, row, id) for row, id in rows]


def one(book: OrderBook, row: Row, id: int) -> tuple[int, ...]:
    try:
        return (*ask(book, row, id)[:5], 0)
    except OrderError as error:
        return (-1, 0, 0, 0, 0, error.status or -1)


@given(rule=rules, flow=flows)
@settings(deadline=None)
def test_a_batch_is_its_rows_one_by_one(rule: SelfTrade, flow: list[Draw]) -> None:
    single, batch = OrderBook(rule), OrderBook(rule)
    for draw in draws(3, 60):
        one(single, draw.row([]), 0)
    batch.load_state_dict(single.state_dict())
    ids = [*single.orders(Side.BUY).id.tolist(), *single.orders(Side.SELL).id.tolist(), 2**40]
    rows = [(draw.row([]), ids[draw.pick % len(ids)]) for draw in flow]
    columns = np.array([(*row[:5], id) for row, id in rows], np.int64).reshape(-1, 6)

    kind, side, price, size, account, id = columns.T
    found = batch.batch(kind, side=side, price=price, size=size, account=account, id=id)

    reported = (
        found.id,
        found.filled,
        found.resting,
        found.cancelled,
        found.prevented,
        found.status,
    )
    answers = list(zip(*(column.tolist() for column in reported), strict=True))
    assert answers == one_by_one(single, rows)
    assert batch.encode() == single.encode()


def test_a_row_names_the_order_of_an_earlier_row() -> None:
    book = OrderBook()
    kind = [Operation.LIMIT, Operation.REPLACE, Operation.REDUCE, Operation.CANCEL]

    found = book.batch(
        kind,
        side=Side.SELL,
        price=[100, 101, 0, 0],
        size=[5, 7, 3, 0],
        account=1,
        id=[0, ~0, ~1, ~0],
    )

    assert found.status.tolist() == [0, 0, 0, Status.NOT_RESTING]
    assert (found.id[2], found.resting[2]) == (found.id[1], 4)
    assert book.volume_at(Side.SELL, 101) == 4


def test_fills_name_their_row_and_become_records() -> None:
    book = OrderBook()
    maker = book.limit(1, Side.SELL, 100, 5).id

    found = book.batch(
        [Operation.LIMIT, Operation.MARKET], side=[0, 0], price=[98, 0], size=[1, 3], account=[2, 3]
    )

    (fill,) = found.fills
    assert found.fills.operation.tolist() == [1]
    assert (fill.maker, fill.maker_account, fill.taker_account) == (maker, 1, 3)
    assert (fill.price, fill.size, fill.maker_left, fill.taker_side) == (100, 3, 2, Side.BUY)
    assert found.filled.tolist() == [0, 3]


@pytest.mark.parametrize(
    ("column", "values", "text"),
    [
        ("kind", [0, 9], 'column "kind", row 1: expected a kind from 0 to 8, got 9'),
        ("side", [-1, 0], 'column "side", row 0: expected a side of 0'),
        ("side", [300, 0], 'column "side" must be integers from -128 to 127, got 300'),
        ("price", [99.0, 0.0], 'column "price" must be integers, got float64'),
        ("price", [True, False], 'column "price" must be integers, got bool'),
        ("size", [1, 2, 3], 'column "size": expected 2 rows, as many as "kind" has, got 3'),
        ("size", [[1], [2]], r'column "size" must have one dimension, got shape \(2, 1\)'),
        ("size", np.array([2**63, 0], np.uint64), "got 9223372036854775808"),
        ("size", np.zeros((2, 1), np.int64), "must have one dimension"),
        ("account", [-1, 0], 'column "account", row 0: expected an account from 0'),
        ("account", None, 'missing column "account" for the limit order of row 0'),
        ("id", [0, ~1], 'column "id", row 1: expected an id or the ~ of an earlier row'),
        ("id", None, 'missing column "id" for the cancellation of row 1'),
    ],
)
def test_a_column_that_cannot_be_read_is_named_and_nothing_moves(
    column: str, values: Any, text: str
) -> None:
    book = OrderBook()

    with pytest.raises(OrderError, match=text):
        book.batch(**GOOD | {column: values})

    assert (len(book), book.encode()) == (0, OrderBook().encode())


@pytest.mark.parametrize(
    "price",
    [
        np.array([99, 98], np.uint64),
        np.array([99, 98], ">i8"),
        np.array([[99, 7], [98, 7]])[:, 0],
        np.array([[99, 7], [98, 7]], np.int16)[:, 0],
        np.frombuffer(b"-" + np.array([99, 98]).tobytes(), np.int64, offset=1),
        (99, 98),
    ],
    ids=["unsigned", "swapped", "strided", "short", "unaligned", "tuple"],
)
def test_integers_are_read_however_they_are_stored(price: Any) -> None:
    book = OrderBook()

    book.batch(Operation.LIMIT, side=0, price=price, size=5, account=1)

    assert book.orders(Side.BUY).price.tolist() == [99, 98]


def test_columns_that_no_row_reads_need_not_exist() -> None:
    book = OrderBook()
    ids = [book.limit(1, Side.BUY, price, 1).id or 0 for price in (97, 98, 99)]

    found = book.batch(Operation.CANCEL, id=ids)

    assert found.cancelled.tolist() == [1, 1, 1]
    assert len(book) == 0


def test_an_empty_batch_answers_nothing() -> None:
    found = OrderBook().batch([])

    assert (len(found), len(found.fills)) == (0, 0)


@given(rule=rules, flow=flows)
@settings(deadline=None)
def test_a_strict_batch_does_all_of_its_rows_or_none(rule: SelfTrade, flow: list[Draw]) -> None:
    book = OrderBook(rule)
    before = book.encode()
    columns = np.array([(*draw[:5], 0) for draw in flow], np.int64).reshape(-1, 6)
    kind, side, price, size, account, id = columns.T
    rest = {"side": side, "price": price, "size": size, "account": account, "id": id}
    loose = book.copy()
    status = loose.batch(kind, **rest).status

    if status.any():
        row = int(np.flatnonzero(status)[0])
        with pytest.raises(OrderError, match=f"^row {row}: ") as caught:
            book.batch(kind, **rest, strict=True)
        assert (caught.value.row, caught.value.status) == (row, status[row])
        assert book.encode() == before
    else:
        book.batch(kind, **rest, strict=True)
        assert book.encode() == loose.encode()
