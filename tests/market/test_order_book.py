"""Single calls: what each does, and what it says when it is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sekai
from sekai.error import OrderError
from sekai.market import (
    DepthLevel,
    Fill,
    OrderBook,
    QueuePosition,
    Resting,
    SelfTrade,
    Side,
    Status,
    TimeInForce,
)


@pytest.fixture
def book() -> OrderBook:
    """Bids of 4 at 98 and 2 + 3 at 99, asks of 5 at 101 and 7 at 103, of accounts 1 to 5."""
    book = OrderBook()
    for account, price, size in ((1, 98, 4), (2, 99, 2), (3, 99, 3)):
        book.limit(account, Side.BUY, price, size)
    for account, price, size in ((4, 101, 5), (5, 103, 7)):
        book.limit(account, Side.SELL, price, size)
    return book


def resting(book: OrderBook, side: Side, place: int = 0) -> int:
    return int(book.orders(side).id[place])


def test_a_limit_order_trades_up_to_its_price_and_rests_there(book: OrderBook) -> None:
    placement = book.limit(9, Side.BUY, 102, 8)

    assert (placement.filled, placement.resting, placement.cancelled) == (5, 3, 0)
    assert [fill.price for fill in placement.fills] == [101]
    assert (book.best_bid, book.best_ask, book.traded) == (102, 103, 5)


def test_a_market_order_trades_at_any_price_and_never_rests(book: OrderBook) -> None:
    placement = book.market(9, Side.SELL, 20)

    assert (placement.id, placement.filled, placement.cancelled) == (None, 9, 11)
    assert [fill.price for fill in placement.fills] == [99, 99, 98]
    assert book.best_bid is None
    assert (book.mid, book.spread) == (None, None)


def test_older_orders_of_a_price_trade_first(book: OrderBook) -> None:
    first, second = resting(book, Side.BUY, 0), resting(book, Side.BUY, 1)

    placement = book.market(9, Side.SELL, 3)

    assert placement.fills == (
        Fill(first, 2, 9, 99, 2, 0, Side.SELL),
        Fill(second, 3, 9, 99, 1, 2, Side.SELL),
    )


@pytest.mark.parametrize(
    ("time_in_force", "price", "reported"),
    [
        (TimeInForce.GOOD_TILL_CANCELLED, 101, (5, 4, 0)),
        (TimeInForce.IMMEDIATE_OR_CANCEL, 101, (5, 0, 4)),
        (TimeInForce.FILL_OR_KILL, 103, (9, 0, 0)),
        (TimeInForce.POST_ONLY, 100, (0, 9, 0)),
    ],
)
def test_time_in_force_says_what_becomes_of_the_rest(
    book: OrderBook, time_in_force: TimeInForce, price: int, reported: tuple[int, int, int]
) -> None:
    named = book.copy()
    calls = (named.limit, named.post_only, named.immediate_or_cancel, named.fill_or_kill)

    placement = book.place(9, Side.BUY, price, 9, time_in_force)

    assert (placement.filled, placement.resting, placement.cancelled) == reported
    assert calls[time_in_force](9, Side.BUY, price, 9) == placement
    assert named.encode() == book.encode()


@pytest.mark.parametrize(
    ("rule", "reported"),
    [
        (SelfTrade.ALLOW, (8, 0, 0, 0)),
        (SelfTrade.CANCEL_RESTING, (5, 3, 0, 5)),
        (SelfTrade.CANCEL_INCOMING, (0, 0, 8, 0)),
        (SelfTrade.DECREMENT_BOTH, (3, 0, 5, 5)),
    ],
)
def test_each_rule_treats_an_account_that_meets_itself_in_its_way(
    rule: SelfTrade, reported: tuple[int, int, int, int]
) -> None:
    book = OrderBook(rule)
    book.limit(1, Side.SELL, 100, 5)
    book.limit(2, Side.SELL, 100, 5)

    placed = book.limit(1, Side.BUY, 100, 8)

    assert (placed.filled, placed.resting, placed.cancelled, placed.prevented) == reported
    assert book.self_trade is rule


def test_a_cancelled_order_is_given_back(book: OrderBook) -> None:
    id = resting(book, Side.SELL)

    assert book.cancel(id) == Resting(id, 4, Side.SELL, 101, 5)
    assert book.order(id) is None
    assert book.best_ask == 103


def test_a_reduced_order_keeps_its_place(book: OrderBook) -> None:
    first, second = resting(book, Side.BUY, 0), resting(book, Side.BUY, 1)

    assert book.reduce(first, 1) == 1

    assert book.queue_position(second) == QueuePosition(lots_ahead=1, orders_ahead=1)


def test_a_replaced_order_keeps_its_place_only_if_it_shrinks_where_it_is(book: OrderBook) -> None:
    first = resting(book, Side.BUY, 0)

    assert book.replace(first, 99, 1).id == first
    grown = book.replace(first, 99, 2).id

    assert grown != first
    assert resting(book, Side.BUY, 1) == grown


def test_cancel_all_takes_one_account_out(book: OrderBook) -> None:
    book.limit(4, Side.BUY, 97, 6)

    cancelled = book.cancel_all(4)

    assert [(order.side, order.price, order.size) for order in cancelled] == [
        (0, 97, 6),
        (1, 101, 5),
    ]
    assert len(book) == 4
    assert book.cancel_all(4) == []


def test_what_can_be_seen_of_a_book(book: OrderBook) -> None:
    assert (book.mid, book.spread, len(book)) == (100.0, 2, 5)
    assert (book.volume(Side.BUY), book.volume_at(Side.BUY, 99), book.volume_at(1, 99)) == (9, 5, 0)
    assert book.levels(Side.BUY) == [DepthLevel(99, 5, 2), DepthLevel(98, 4, 1)]
    assert book.levels(Side.SELL, 1) == [DepthLevel(101, 5, 1)]
    assert book.order(resting(book, Side.SELL, 1)) == book.orders(Side.SELL)[1]


def test_depth_has_a_row_for_every_level_asked_for(book: OrderBook) -> None:
    depth = book.depth(3)

    assert depth.bid_price.tolist() == [99, 98, 0]
    assert depth.bid_size.tolist() == [5, 4, 0]
    assert depth.bid_orders.tolist() == [2, 1, 0]
    assert depth.ask_price.tolist() == [101, 103, 0]
    assert depth.ask_size.tolist() == [5, 7, 0]
    assert depth.ask_orders.tolist() == [1, 1, 0]
    assert len(book.depth(0).bid_price) == 0


def test_a_book_is_shown_by_its_top(book: OrderBook) -> None:
    assert repr(book) == (
        "OrderBook(bid=5 at 99, ask=5 at 101, orders=5, traded=0, self_trade=CANCEL_RESTING)"
    )
    assert repr(OrderBook(SelfTrade.ALLOW)).startswith("OrderBook(bid=none, ask=none, orders=0")


def test_integers_of_numpy_are_integers(book: OrderBook) -> None:
    placement = book.limit(np.uint8(9), np.int8(1), np.int64(105), np.int32(2))

    assert placement.resting == 2


# What is called takes anything here: wrong types are among what is refused.
REFUSALS: list[tuple[Callable[[Any], Any], Status | None, str]] = [
    (lambda b: b.limit(9, 0, 0, 1), Status.PRICE_OUT_OF_RANGE, "1 to 1073741824 ticks.* got 0"),
    (lambda b: b.limit(9, 0, 2**30 + 1, 1), Status.PRICE_OUT_OF_RANGE, "got 1073741825"),
    (lambda b: b.limit(9, 0, -7, 1), Status.PRICE_OUT_OF_RANGE, "got -7"),
    (lambda b: b.limit(9, 0, 99.5, 1), None, "whole ticks, got 99.5 of type float"),
    (lambda b: b.limit(9, 0, 10**30, 1), None, "whole ticks, got 10+ of type int"),
    (lambda b: b.limit(9, 0, "99", 1), None, "whole ticks, got '99' of type str"),
    (lambda b: b.limit(9, 0, 99, 0), Status.SIZE_OUT_OF_RANGE, "1 to 4294967295 lots.* got 0"),
    (lambda b: b.limit(9, 0, 99, -1), Status.SIZE_OUT_OF_RANGE, "got -1"),
    (lambda b: b.market(9, 0, 2**32), Status.SIZE_OUT_OF_RANGE, "got 4294967296"),
    (lambda b: b.market(9, 0, 1.0), None, "whole lots, got 1.0 of type float"),
    (lambda b: b.market(9, 2, 1), Status.UNKNOWN_SIDE, r"0 \(buy\) or 1 \(sell\).* got 2"),
    (lambda b: b.market(9, True, 1), None, "Side.BUY or Side.SELL, got True"),
    (lambda b: b.market(-1, 0, 1), Status.UNKNOWN_ACCOUNT, "0 to 4294967295, got -1"),
    (lambda b: b.market(None, 0, 1), None, "account, got None of type NoneType"),
    (lambda b: b.place(9, 0, 99, 1, 4), None, "a TimeInForce from 0 to 3, got 4"),
    (lambda b: b.cancel(77), Status.NOT_RESTING, "no resting order with id 77"),
    (lambda b: b.cancel(1.5), None, "the id of an order, got 1.5"),
    (lambda b: b.reduce(77, 1), Status.NOT_RESTING, "no resting order with id 77"),
    (lambda b: b.reduce(resting(b, Side.SELL), 5), Status.NOTHING_LEFT, "cancel the order instead"),
    (lambda b: b.replace(resting(b, Side.SELL), 0, 5), Status.PRICE_OUT_OF_RANGE, "got 0"),
    (lambda b: b.queue_position(77), Status.NOT_RESTING, "no resting order with id 77"),
    (
        lambda b: b.post_only(9, 0, 101, 1),
        Status.WOULD_TRADE,
        "post-only order at 101 would trade against 101",
    ),
    (lambda b: b.fill_or_kill(9, 0, 101, 9), Status.NOT_FILLABLE, "of 9 lots, but only 5 lots"),
    (lambda b: b.limit(9, 0, 99, 2**32 - 1), Status.LEVEL_FULL, "count in larger lots"),
    (lambda b: b.depth(-1), None, "a number of levels from 0"),
    (lambda b: b.depth(10**9), None, "a number of levels from 0"),
    (lambda b: b.levels(0, 2.0), None, "a number of levels from 0"),
]


@pytest.mark.parametrize(("call", "status", "text"), REFUSALS)
def test_a_refused_call_says_what_was_wanted_and_found(
    book: OrderBook, call: Callable[[OrderBook], Any], status: Status | None, text: str
) -> None:
    before = book.encode()

    with pytest.raises(OrderError, match=text) as caught:
        call(book)

    assert caught.value.status == status
    assert isinstance(caught.value, ValueError)
    assert book.encode() == before


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(OrderError, match="a SelfTrade from 0 to 3, got 4"):
        OrderBook(4)


def test_the_market_is_imported_when_first_asked_for() -> None:
    assert sekai.market.OrderBook is OrderBook
    assert "market" in dir(sekai)
