"""Random operations for books, and what it takes to ask two kinds of book the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import strategies as st

from sekai.market import Operation, OrderBook, Placement, SelfTrade, Side
from tests.market.reference_book import Row

KINDS = list(Operation)
WEIGHTS = [90, 18, 12, 6, 12, 40, 10, 12, 3]
MIDDLE = 10_000


class Draw(NamedTuple):
    """An operation; `pick` chooses among the orders that rested lately."""

    kind: Operation
    side: Side
    price: int
    size: int
    account: int
    pick: int

    def row(self, names: list[int]) -> Row:
        """The same about an order with a name; 0 is the name of none."""
        name = names[-1 - self.pick % len(names)] if names else 0
        return Row(*self[:5], name)


def draws(seed: int, count: int) -> Iterator[Draw]:
    """Operations around a middle that wanders, with bad and extreme arguments among them."""
    rng = random.Random(seed)
    middle = MIDDLE
    for kind in rng.choices(KINDS, WEIGHTS, k=count):
        middle += rng.choice((-1, 0, 0, 0, 1))
        price, size = middle + rng.randint(-8, 8), rng.randint(1, 20)
        if rng.random() < 0.02:
            price = rng.choice((0, -5, 1, 2**30, 2**30 + 1, middle + 9_000, max(1, middle - 9_000)))
        if rng.random() < 0.01:
            size = rng.choice((0, -1, 2**32 - 1, 2**32, 2**31))
        yield Draw(kind, Side(rng.randrange(2)), price, size, rng.randrange(5), rng.randrange(40))


def mostly(common: st.SearchStrategy[int], rare: st.SearchStrategy[int]) -> st.SearchStrategy[int]:
    """Nine of ten from `common`."""
    return st.one_of(*[common] * 9, rare)


flows = st.lists(
    st.builds(
        Draw,
        st.sampled_from([Operation.LIMIT] * 8 + KINDS),
        st.sampled_from(Side),
        mostly(st.integers(MIDDLE - 3, MIDDLE + 3), st.sampled_from((0, 1, 2**30, 2**30 + 1))),
        mostly(st.integers(1, 6), st.sampled_from((0, -1, 2**32 - 1, 2**32))),
        st.integers(0, 2),
        st.integers(0, 9),
    ),
    # Shorter ones hardly fill a book: without a floor they have five operations on average.
    min_size=15,
    max_size=60,
)
rules = st.sampled_from(SelfTrade)


class Told(NamedTuple):
    """Outcome of a single call, as a row of a batch."""

    id: int
    filled: int
    resting: int
    cancelled: int
    prevented: int
    placement: Placement | None


def ask(book: OrderBook, row: Row, id: int) -> Told:
    """Do a row by one call."""
    if row.kind == Operation.CANCEL:
        return Told(-1, 0, 0, book.cancel(id).size, 0, None)
    if row.kind == Operation.CANCEL_ALL:
        lots = sum(order.size for order in book.cancel_all(row.account))
        return Told(-1, 0, 0, lots, 0, None)
    if row.kind == Operation.REDUCE:
        return Told(id, 0, book.reduce(id, row.size), row.size, 0, None)
    return _placed(_place(book, row, id))


def _place(book: OrderBook, row: Row, id: int) -> Placement:
    if row.kind == Operation.REPLACE:
        return book.replace(id, row.price, row.size)
    if row.kind == Operation.MARKET:
        return book.market(row.account, row.side, row.size)
    calls = (book.limit, book.post_only, book.immediate_or_cancel, book.fill_or_kill)
    return calls[row.kind](row.account, row.side, row.price, row.size)


def _placed(placement: Placement) -> Told:
    lots = (placement.filled, placement.resting, placement.cancelled, placement.prevented)
    return Told(-1 if placement.id is None else placement.id, *lots, placement)
