"""The book against a naive one: every answer, every fill, every order in its queue."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings

from sekai.market import SelfTrade
from tests.market.flow import Draw, draws, flows, rules
from tests.market.pair import Pair


@given(rule=rules, flow=flows)
@settings(deadline=None, max_examples=50)
def test_single_calls_answer_as_the_reference_does(rule: SelfTrade, flow: list[Draw]) -> None:
    pair = Pair(rule)
    for draw in flow:
        pair.step(draw)


@given(rule=rules, first=flows, second=flows)
@settings(deadline=None, max_examples=50)
def test_batches_answer_as_the_reference_does(
    rule: SelfTrade, first: list[Draw], second: list[Draw]
) -> None:
    pair = Pair(rule)
    pair.batch(first)
    pair.batch(second)


@pytest.mark.parametrize("rule", SelfTrade)
def test_the_book_is_the_reference_after_every_one_of_25_000_operations(rule: SelfTrade) -> None:
    pair = Pair(rule)
    for draw in draws(int(rule), 25_000):
        pair.step(draw)

    assert pair.book.traded > 10_000


def in_batches(rule: SelfTrade, operations: int, size: int) -> Pair:
    pair, flow = Pair(rule), draws(100 + int(rule), operations)
    while chunk := list(itertools.islice(flow, size)):
        pair.batch(chunk)
    return pair


@pytest.mark.parametrize("rule", SelfTrade)
def test_batches_leave_the_book_of_the_reference(rule: SelfTrade) -> None:
    assert in_batches(rule, 25_000, 500).book.traded > 10_000


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rule", SelfTrade)
def test_ten_million_operations_in_batches_leave_the_book_of_the_reference(
    rule: SelfTrade,
) -> None:
    assert in_batches(rule, 2_500_000, 5_000).book.traded > 1_000_000
