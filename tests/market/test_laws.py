"""Laws of every book under any operations."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sekai.error import OrderError
from sekai.market import (
    Free,
    OfNotional,
    Operation,
    OrderBook,
    PerLot,
    SelfTrade,
    Side,
    settle,
)
from tests.market.flow import Draw, Told, ask, draws, flows, rules

fee_models = st.one_of(
    st.just(Free()),
    st.builds(PerLot, st.integers(-5, 5), st.integers(-5, 5)),
    st.builds(OfNotional, st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6)),
)


def live(book: OrderBook) -> list[int]:
    return [id for side in Side for id in book.orders(side).id.tolist()]


def try_one(book: OrderBook, draw: Draw) -> Told | None:
    """Do an operation about one of the resting orders; None if it was refused."""
    names = live(book)
    row = draw.row(names)
    try:
        return ask(book, row, row.name if names else 2**40)
    except OrderError:
        return None


def lots_in(book: OrderBook) -> int:
    return book.volume(Side.BUY) + book.volume(Side.SELL)


@given(rule=rules, flow=flows)
@settings(deadline=None, max_examples=50)
def test_a_book_never_crosses(rule: SelfTrade, flow: list[Draw]) -> None:
    book = OrderBook(rule)
    for draw in flow:
        try_one(book, draw)

        assert book.spread is None or book.spread > 0
        for side in Side:
            prices = book.orders(side).price * side.sign
            assert (np.diff(prices) <= 0).all()


@given(rule=rules, flow=flows)
@settings(deadline=None, max_examples=50)
def test_no_lot_appears_or_vanishes(rule: SelfTrade, flow: list[Draw]) -> None:
    book = OrderBook(rule)
    for draw in flow:
        before, traded = lots_in(book), book.traded
        reported = try_one(book, draw)
        if reported is None:
            assert lots_in(book) == before
        elif reported.placement is None:
            assert lots_in(book) == before - reported.cancelled
        elif draw.kind != Operation.REPLACE:
            assert reported.filled + reported.resting + reported.cancelled == draw.size
            assert lots_in(book) == before + reported.resting - reported.filled - reported.prevented
            assert sum(fill.size for fill in reported.placement.fills) == reported.filled
            assert book.traded == traded + reported.filled


@given(rule=rules, fees=fee_models, seed=st.integers(0, 2**20))
@settings(deadline=None, max_examples=25)
def test_trades_move_lots_and_cash_and_create_neither(
    rule: SelfTrade, fees: Free | PerLot | OfNotional, seed: int
) -> None:
    columns = np.array([(*draw[:5], 0) for draw in draws(seed, 300)], np.int64)
    kind, side, price, size, account, id = columns.T
    found = OrderBook(rule).batch(kind, side=side, price=price, size=size, account=account, id=id)

    settled = settle(found.fills, fees)

    assert (settled.maker_lots + settled.taker_lots == 0).all()
    assert (settled.maker_cash + settled.taker_cash + settled.fees == 0).all()
    bought = np.where(found.fills.taker_side == Side.BUY, settled.taker_lots, settled.maker_lots)
    assert (bought == found.fills.size).all()


@given(rule=rules, flow=flows)
@settings(deadline=None, max_examples=50)
def test_a_book_restored_after_any_operation_goes_on_identically(
    rule: SelfTrade, flow: list[Draw]
) -> None:
    book = OrderBook(rule)
    for draw in flow:
        restored = OrderBook()
        restored.load_state_dict(book.state_dict())
        copied = book.copy()

        reported = try_one(book, draw)

        assert try_one(restored, draw) == reported == try_one(copied, draw)
        assert restored.encode() == book.encode() == copied.encode()


@given(rule=rules, flow=flows, refused=flows)
@settings(deadline=None, max_examples=50)
def test_a_refused_call_leaves_every_byte_as_it_was(
    rule: SelfTrade, flow: list[Draw], refused: list[Draw]
) -> None:
    book = OrderBook(rule)
    for draw in flow:
        try_one(book, draw)
    for draw in refused:
        before = book.encode()
        if try_one(book, draw) is None:
            assert book.encode() == before


def test_no_id_is_given_twice() -> None:
    book = OrderBook()
    seen: set[int] = set()
    for draw in draws(0, 5_000):
        known = set(live(book))
        try_one(book, draw)
        fresh = set(live(book)) - known
        assert not fresh & seen
        seen |= fresh
    assert len(seen) > 1_000
