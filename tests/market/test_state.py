"""Saving and loading a book: all of it, or a refusal that changes nothing."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sekai.error import StateError
from sekai.market import OrderBook, SelfTrade, Side
from tests.market.flow import draws


def grown(rule: SelfTrade = SelfTrade.ALLOW) -> OrderBook:
    book = OrderBook(rule)
    columns = list(zip(*(draw[:5] for draw in draws(0, 300)), strict=True))
    kind, side, price, size, account = columns
    book.batch(kind, side=side, price=price, size=size, account=account, id=0)
    return book


@pytest.mark.parametrize("rule", SelfTrade)
def test_a_loaded_book_is_the_saved_one_rule_and_ids_included(rule: SelfTrade) -> None:
    book, loaded = grown(rule), OrderBook()

    loaded.load_state_dict(book.state_dict())

    assert loaded.encode() == book.encode()
    assert (loaded.self_trade, loaded.traded, len(loaded)) == (rule, book.traded, len(book))
    assert loaded.market(9, Side.BUY, 50) == book.market(9, Side.BUY, 50)


@pytest.mark.parametrize(
    "again",
    [OrderBook.copy, copy.copy, copy.deepcopy, lambda book: pickle.loads(pickle.dumps(book))],
)
def test_a_copy_is_a_book_of_its_own(again: Any) -> None:
    book = grown()
    before = book.encode()

    copied = again(book)
    assert copied.encode() == before
    copied.market(9, Side.BUY, 50)

    assert book.encode() == before != copied.encode()


STATE = grown().encode()


@given(place=st.integers(0, len(STATE) - 1), change=st.integers(1, 255))
def test_a_state_with_one_byte_changed_is_refused(place: int, change: int) -> None:
    spoilt = bytearray(STATE)
    spoilt[place] ^= change
    refused(bytes(spoilt))


@given(length=st.integers(0, len(STATE) - 1))
def test_a_state_that_ends_early_is_refused(length: int) -> None:
    refused(STATE[:length])


def refused(spoilt: bytes) -> None:
    book = OrderBook()
    book.limit(1, Side.BUY, 99, 5)
    before = book.encode()
    with pytest.raises(StateError, match="expected"):
        book.load_state_dict({"book": spoilt})
    assert book.encode() == before


def test_a_state_of_a_newer_version_says_so() -> None:
    newer = bytearray(STATE)
    newer[4] = 9

    with pytest.raises(StateError, match="version 1, got version 9; update sekai"):
        OrderBook().load_state_dict({"book": bytes(newer)})


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({}, r"got the keys \[\]"),
        ({"other": b""}, r"got the keys \['other'\]"),
        ({"book": "text"}, "got str"),
        (b"", "got bytes"),
        (None, "got NoneType"),
    ],
)
def test_a_state_of_another_form_is_refused(state: Any, text: str) -> None:
    with pytest.raises(StateError, match=text):
        OrderBook().load_state_dict(state)


def test_a_subclass_copies_itself() -> None:
    class Venue(OrderBook):
        pass

    assert type(Venue(SelfTrade.ALLOW).copy()) is Venue
