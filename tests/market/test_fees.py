"""Settling trades in columns, and fees that no market may charge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.error import OrderError
from sekai.market import Fills, Free, OfNotional, OrderBook, PerLot, Side, settle

LOOSE: list[Any] = [0, 0.5]
"""Arguments that no type checker would let through."""


def fills(price: Any, size: Any, side: Any) -> Fills:
    zeros = np.zeros(len(price), np.int64)
    prices, sizes, sides = np.asarray(price), np.asarray(size), np.asarray(side, np.int8)
    return Fills(zeros, zeros, zeros, zeros, prices, sizes, zeros, sides)


@given(
    price=st.integers(1, 2**30),
    size=st.integers(1, 2**32 - 1),
    side=st.sampled_from(Side),
    maker=st.integers(-(10**6), 10**6),
    taker=st.integers(-(10**6), 10**6),
)
def test_a_part_of_the_notional_is_rounded_up_for_the_market(
    price: int, size: int, side: Side, maker: int, taker: int
) -> None:
    settled = settle(fills([price], [size], [side]), OfNotional(maker, taker))

    notional = price * size
    maker_fee, taker_fee = (-(-notional * rate // 10**6) for rate in (maker, taker))
    assert settled.taker_cash.tolist() == [-side.sign * notional - taker_fee]
    assert settled.maker_cash.tolist() == [side.sign * notional - maker_fee]
    assert settled.fees.tolist() == [maker_fee + taker_fee]
    assert settled.taker_lots.tolist() == [side.sign * size]


def test_fees_for_a_lot_and_none_at_all() -> None:
    trades = fills([10, 10], [4, 4], [Side.BUY, Side.SELL])

    assert settle(trades, PerLot(-1, 3)).taker_cash.tolist() == [-52, 28]
    assert settle(trades, PerLot(-1, 3)).maker_cash.tolist() == [44, -36]
    assert settle(trades, Free()).taker_cash.tolist() == [-40, 40]


def test_the_trades_of_a_batch_are_settled_as_they_come() -> None:
    book = OrderBook()
    trades = book.batch([0, 4], side=[1, 0], price=[100, 0], size=[5, 3], account=[1, 2]).fills

    assert settle(trades, Free()).maker_cash.tolist() == [300]
    assert len(settle(OrderBook().batch([]).fills, Free()).fees) == 0


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: PerLot(2**30 + 1, 0), "within \\+-1073741824"),
        (lambda: PerLot(*LOOSE), "whole ticks for one lot, got 0.5"),
        (lambda: OfNotional(0, 1_000_001), "within \\+-1,000,000 millionths"),
        (lambda: OfNotional(*LOOSE), "whole millionths, got 0.5"),
        (lambda: OfNotional(2**40, 0), "got 1099511627776"),
        (
            lambda: settle(fills([1], [1], [0]), *LOOSE[1:]),
            "Free, PerLot or OfNotional, got float",
        ),
        (lambda: settle(fills([0], [1], [0]), Free()), 'column "price", row 0: .* got 0'),
        (lambda: settle(fills([1], [1], [2]), Free()), 'column "taker_side", row 0: .* got 2'),
        (lambda: settle(fills([1], [1.5], [0]), Free()), 'column "size" must be integers'),
        (lambda: settle(fills([1], [1, 2], [0]), Free()), 'column "size": expected 1 rows'),
    ],
)
def test_what_cannot_be_charged_or_settled_says_why(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(OrderError, match=text):
        make()
