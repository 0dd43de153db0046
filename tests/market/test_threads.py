"""One book in two threads: calls wait for each other, and none is lost or torn."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from sekai.market import Operation, OrderBook, SelfTrade, Side

ROWS = 2_000


def together(*works: Callable[[], object]) -> None:
    """Run all at once; raise what any of them raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


def test_batches_of_two_threads_both_happen_whole() -> None:
    book = OrderBook(SelfTrade.ALLOW)
    sizes = np.ones(ROWS, np.int64)

    def batches(side: Side, price: int) -> None:
        for _ in range(20):
            found = book.batch(Operation.LIMIT, side=side, price=price, size=sizes, account=side)
            # No row of the other thread stands between two of this one.
            assert np.unique(np.diff(book.orders(side).account)).tolist() == [0]
            assert found.resting.sum() == ROWS

    together(lambda: batches(Side.BUY, 99), lambda: batches(Side.SELL, 101))

    assert (book.volume(Side.BUY), book.volume(Side.SELL)) == (20 * ROWS, 20 * ROWS)


def test_single_calls_wait_for_a_batch_of_another_thread() -> None:
    book = OrderBook(SelfTrade.ALLOW)
    seen: list[int] = []

    def look() -> None:
        for _ in range(300):
            seen.append(len(book))
            book.cancel(book.limit(7, Side.SELL, 200, 1).id or 0)

    def grow() -> None:
        for _ in range(20):
            book.batch(Operation.LIMIT, side=0, price=99, size=np.ones(ROWS, np.int64), account=1)

    together(look, grow)

    # Whole batches, with or without the order that is about to be cancelled.
    assert all(count % ROWS <= 1 for count in seen)
    assert len(book) == 20 * ROWS


def test_books_that_copy_each_other_do_not_wait_for_ever() -> None:
    first, second = OrderBook(SelfTrade.ALLOW), OrderBook(SelfTrade.ALLOW)

    def copying(one: OrderBook, other: OrderBook) -> None:
        for _ in range(500):
            one.copy_from(other)
            one.copy_from(one)

    together(lambda: copying(first, second), lambda: copying(second, first))

    assert first.encode() == second.encode()


def test_an_error_in_the_middle_of_a_batch_leaves_the_book_usable() -> None:
    book = OrderBook()

    with pytest.raises(ValueError, match="got 9"):
        book.batch([0, 9], side=0, price=1, size=1, account=1)

    assert book.limit(1, Side.BUY, 1, 1).resting == 1
