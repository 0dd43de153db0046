"""What operations on an order book cost, beside limit-order-book and PyPI's sekai 0.2.0.

CPU time, medians of rounds that take turns, since the machine is shared. Each peer works in an
interpreter of its own, does the same operations in the same run, and must leave the same book.
The book itself, without Python: `cargo bench -p market --bench book`.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from measure import in_peer, peer_python, show
from sekai.market import Operation, OrderBook, SelfTrade, Side

OPERATIONS = 200_000
BATCH = 1_000
LIVE = {65: 12, 1_900: 150}
"""Orders that rest at a time, and how many ticks from the middle new ones may be."""

PEER = """
import json, sys, time
rows = json.load(open(sys.argv[1]))
{}
for repeat in range(2):
    book = Book()
    begin = time.process_time()
    replay(book)
    seconds = time.process_time() - begin
print(json.dumps({{"seconds": [seconds], "left": [left(book)]}}))
"""

SEKAI_020 = PEER.format("""
from sekai.finance.lob import OrderBook as Book, Side
SIDES = (Side.BID, Side.ASK)
def replay(book):
    ids = {}
    limit, market, cancel = book.limit, book.market, book.cancel
    for index, (kind, side, price, size, account, earlier) in enumerate(rows):
        if kind == 4:
            market(SIDES[side], size, account)
            continue
        if kind != 0:
            cancel(ids[earlier])
        if kind != 5:
            ids[index], fills = limit(SIDES[side], price, size, account)
def left(book):
    sizes = [book.depth(10_000)[place].sum() for place in (1, 3)]
    return int(sum(sizes))
""")

LIMIT_ORDER_BOOK = PEER.format("""
from limit_order_book import LimitOrderBook as Book
def replay(book):
    limit, market, cancel = book.limit, book.market, book.cancel
    for index, (kind, side, price, size, account, earlier) in enumerate(rows):
        if kind == 4:
            market(side == 0, index, size)
            continue
        if kind != 0:
            cancel(earlier)
        if kind != 5:
            limit(side == 0, index, size, price)
def left(book):
    return book.volume()
""")


class Script:
    """Operations made beforehand on a book of its own, so that every one finds its order.

    Of 100 rows about 50 place, 35 cancel, 10 trade at the market and 5 replace; the reductions
    are among the replacements, since no peer's are like another's. Accounts may meet themselves,
    as they may in the peers.
    """

    def __init__(self, target: int) -> None:
        self.rng = np.random.default_rng(target)
        self.book = OrderBook(SelfTrade.ALLOW)
        self.target, self.middle = target, 100_000
        self.live: list[tuple[int, int]] = []
        self.rows: list[tuple[int, ...]] = []
        self.ids: list[int] = []
        while len(self.book) < target:
            self.limit()
        while len(self.rows) < OPERATIONS:
            self.step()

    def step(self) -> None:
        """One operation; cancellations hold the book at its size."""
        draw = self.rng.random()
        self.middle += int(self.rng.integers(-1, 2)) if draw > 0.8 else 0
        if draw < 0.1:
            side, size, account = (int(self.rng.integers(n)) for n in (2, 20, 100))
            self.book.market(account, side, size + 1)
            self.note(Operation.MARKET, side, 0, size + 1, account)
        elif draw < 0.15:
            self.replace()
        elif len(self.book) > self.target:
            earlier, id = self.pick()
            self.book.cancel(id)
            self.note(Operation.CANCEL, 0, 0, 0, 0, earlier, id)
        else:
            self.limit()

    def limit(self) -> None:
        """Place away from the middle."""
        side, size, account = (int(self.rng.integers(n)) for n in (2, 20, 100))
        price = self.price(side)
        placed = self.book.limit(account, side, price, size + 1)
        self.note(Operation.LIMIT, side, price, size + 1, account, created=placed.id)

    def replace(self) -> None:
        """Give an order another price: it comes in anew."""
        earlier, id = self.pick()
        order = self.book.order(id)
        assert order is not None
        price = self.price(order.side)
        price += price == order.price
        placed = self.book.replace(id, price, order.size)
        row = (order.side, price, order.size, order.account, earlier, id)
        self.note(Operation.REPLACE, *row, created=placed.id)

    def price(self, side: int) -> int:
        """A price on this side of the middle."""
        away = int(self.rng.integers(1, LIVE[self.target] + 1))
        return self.middle - away * Side(side).sign

    def pick(self) -> tuple[int, int]:
        """The row and id of an order that rests."""
        while True:
            place = int(self.rng.integers(len(self.live)))
            self.live[place], self.live[-1] = self.live[-1], self.live[place]
            earlier, id = self.live.pop()
            if self.book.order(id) is not None:
                return earlier, id

    def note(self, kind: int, *row: int, created: int | None = None) -> None:
        """Write a row down, and the order that it left in the book."""
        if created is not None:
            self.live.append((len(self.rows), created))
        *shown, earlier, id = (*row, 0, 0) if len(row) == 4 else row
        self.rows.append((int(kind), *(int(value) for value in shown), earlier))
        self.ids.append(id)

    def columns(self) -> dict[str, Any]:
        """The rows for `batch`, orders by the ids that they will have."""
        kind, side, price, size, account, _ = np.array(self.rows, np.int64).T
        codes = {"kind": kind.astype(np.int8), "side": side.astype(np.int8)}
        numbers = {"price": price, "size": size, "account": account, "id": np.array(self.ids)}
        return {name: np.ascontiguousarray(values) for name, values in (codes | numbers).items()}


def by_batches(script: Script, size: int) -> Callable[[], float]:
    """Operations in calls of `size` rows each."""
    columns = script.columns()
    starts = range(0, len(script.rows), size)
    cut = [{name: c[at : at + size] for name, c in columns.items()} for at in starts]

    def run() -> float:
        book = OrderBook(SelfTrade.ALLOW)
        begin = time.process_time()
        for part in cut:
            book.batch(**part)
        seconds = time.process_time() - begin
        assert book.encode() == script.book.encode()
        return seconds

    return run


def one_by_one(script: Script) -> Callable[[], float]:
    """Operations by a call each, orders by the rows that made them, as the peers do it."""

    def run() -> float:
        book, ids = OrderBook(SelfTrade.ALLOW), {}
        limit, market, cancel, replace = book.limit, book.market, book.cancel, book.replace
        begin = time.process_time()
        for index, (kind, side, price, size, account, earlier) in enumerate(script.rows):
            if kind == 4:
                market(account, side, size)
            elif kind == 0:
                ids[index] = limit(account, side, price, size).id
            elif kind == 5:
                cancel(ids[earlier])  # type: ignore[arg-type]
            else:
                ids[index] = replace(ids[earlier], price, size).id  # type: ignore[arg-type]
        seconds = time.process_time() - begin
        assert book.encode() == script.book.encode()
        return seconds

    return run


def in_its_own(python: Path, code: str, script: Script, rows: Path) -> Callable[[], float]:
    """The same in a peer's interpreter, which must be left with as many lots."""
    wanted = script.book.volume(Side.BUY) + script.book.volume(Side.SELL)

    def run() -> float:
        found = in_peer(python, code, str(rows))
        assert found["left"] == [wanted], (found["left"], wanted)
        return found["seconds"][0]

    return run


def book(rounds: int) -> None:
    """Mixed operations on a book of about 65 and of about 1,900 orders."""
    old = peer_python("sekai-0.2.0", "sekai==0.2.0", "numpy", "cloudpickle")
    other = peer_python("limit-order-book", "limit-order-book")
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for target in LIVE:
            script, rows = Script(target), Path(folder) / f"{target}.json"
            rows.write_text(json.dumps(script.rows), encoding="utf-8")
            subjects = {
                "sekai, all in one batch": by_batches(script, len(script.rows)),
                f"sekai, batches of {BATCH:,}": by_batches(script, BATCH),
                "sekai, a call for each": one_by_one(script),
                "limit-order-book": in_its_own(other, LIMIT_ORDER_BOOK, script, rows),
                "sekai 0.2.0": in_its_own(old, SEKAI_020, script, rows),
            }
            rates = millions_a_second(subjects, len(script.rows), rounds)
            slowest = rates["sekai 0.2.0"]
            for name, rate in rates.items():
                table.append([f"{target:,}", name, f"{rate:.2f}", f"{rate / slowest:.1f}"])
    columns = ["live orders", "book", "M operations/CPU-second", "times sekai 0.2.0"]
    show("Mixed operations on an order book", columns, table)


def millions_a_second(
    subjects: dict[str, Callable[[], float]], operations: int, rounds: int
) -> dict[str, float]:
    """The median rate of each subject, taking turns so that noise is shared."""
    for run in subjects.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, run in subjects.items():
            seconds[name].append(run())
    return {name: 1e-6 * operations / statistics.median(s) for name, s in seconds.items()}
