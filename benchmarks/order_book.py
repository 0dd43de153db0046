"""Order book throughput against limit-order-book and PyPI's sekai 0.2.0.

Medians of interleaved rounds of CPU time, since the machine is shared. Each peer runs in an
interpreter of its own, replays the same operations, and must end with the same resting volume.
The book alone, without Python: `cargo bench -p market --bench book`.
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
"""Number of resting orders, and maximum distance of new orders from the mid price in ticks."""

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
    sizes = [book.depth(10_000)[index].sum() for index in (1, 3)]
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
    """Operations generated in advance on a reference book, so that each refers to a resting order.

    About 50 % are limit orders, 35 % cancellations, 10 % market orders and 5 % replacements, which
    include size reductions because the peers' reductions differ. Self-trades are allowed, as in
    the peers.
    """

    def __init__(self, target: int) -> None:
        self.rng = np.random.default_rng(target)
        self.book = OrderBook(SelfTrade.ALLOW)
        self.target, self.mid = target, 100_000
        self.live: list[tuple[int, int]] = []
        self.rows: list[tuple[int, ...]] = []
        self.ids: list[int] = []
        while len(self.book) < target:
            self.limit()
        while len(self.rows) < OPERATIONS:
            self.step()

    def step(self) -> None:
        """Add one operation; cancellations keep the book at its target size."""
        draw = self.rng.random()
        self.mid += int(self.rng.integers(-1, 2)) if draw > 0.8 else 0
        if draw < 0.1:
            side, size, account = (int(self.rng.integers(n)) for n in (2, 20, 100))
            self.book.market(account, side, size + 1)
            self.record(Operation.MARKET, side, 0, size + 1, account)
        elif draw < 0.15:
            self.replace()
        elif len(self.book) > self.target:
            earlier, id = self.pick()
            self.book.cancel(id)
            self.record(Operation.CANCEL, 0, 0, 0, 0, earlier, id)
        else:
            self.limit()

    def limit(self) -> None:
        """Place a limit order away from the mid price."""
        side, size, account = (int(self.rng.integers(n)) for n in (2, 20, 100))
        price = self.price(side)
        outcome = self.book.limit(account, side, price, size + 1)
        self.record(Operation.LIMIT, side, price, size + 1, account, created=outcome.id)

    def replace(self) -> None:
        """Replace an order at another price, which loses its queue position."""
        earlier, id = self.pick()
        order = self.book.order(id)
        assert order is not None
        price = self.price(order.side)
        price += price == order.price
        outcome = self.book.replace(id, price, order.size)
        row = (order.side, price, order.size, order.account, earlier, id)
        self.record(Operation.REPLACE, *row, created=outcome.id)

    def price(self, side: int) -> int:
        """Draw a price on a side of the mid price."""
        distance = int(self.rng.integers(1, LIVE[self.target] + 1))
        return self.mid - distance * Side(side).sign

    def pick(self) -> tuple[int, int]:
        """Draw a resting order; return its row and id."""
        while True:
            index = int(self.rng.integers(len(self.live)))
            self.live[index], self.live[-1] = self.live[-1], self.live[index]
            earlier, id = self.live.pop()
            if self.book.order(id) is not None:
                return earlier, id

    def record(self, kind: int, *row: int, created: int | None = None) -> None:
        """Record an operation, and the resting order that it created."""
        if created is not None:
            self.live.append((len(self.rows), created))
        *values, earlier, id = (*row, 0, 0) if len(row) == 4 else row
        self.rows.append((int(kind), *(int(value) for value in values), earlier))
        self.ids.append(id)

    def columns(self) -> dict[str, Any]:
        """Arguments of `OrderBook.batch`, with the ids that orders will get."""
        kind, side, price, size, account, _ = np.array(self.rows, np.int64).T
        codes = {"kind": kind.astype(np.int8), "side": side.astype(np.int8)}
        numbers = {"price": price, "size": size, "account": account, "id": np.array(self.ids)}
        return {name: np.ascontiguousarray(values) for name, values in (codes | numbers).items()}


def in_batches(script: Script, size: int) -> Callable[[], float]:
    """Return a run in calls of `size` operations each."""
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
    """Return a run with one call per operation, as in the peers."""

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


def in_peer_interpreter(python: Path, code: str, script: Script, rows: Path) -> Callable[[], float]:
    """Return a run in a peer's interpreter, which must end with the same resting volume."""
    expected = script.book.volume(Side.BUY) + script.book.volume(Side.SELL)

    def run() -> float:
        result = in_peer(python, code, str(rows))
        assert result["left"] == [expected], (result["left"], expected)
        return result["seconds"][0]

    return run


def book(rounds: int) -> None:
    """Measure mixed operations on books of about 65 and about 1,900 orders."""
    old = peer_python("sekai-0.2.0", "sekai==0.2.0", "numpy", "cloudpickle")
    other = peer_python("limit-order-book", "limit-order-book")
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for target in LIVE:
            script, rows = Script(target), Path(folder) / f"{target}.json"
            rows.write_text(json.dumps(script.rows), encoding="utf-8")
            subjects = {
                "sekai, all in one batch": in_batches(script, len(script.rows)),
                f"sekai, batches of {BATCH:,}": in_batches(script, BATCH),
                "sekai, a call for each": one_by_one(script),
                "limit-order-book": in_peer_interpreter(other, LIMIT_ORDER_BOOK, script, rows),
                "sekai 0.2.0": in_peer_interpreter(old, SEKAI_020, script, rows),
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
    """Median rate of each subject, interleaved so that noise is shared."""
    for run in subjects.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, run in subjects.items():
            seconds[name].append(run())
    return {name: 1e-6 * operations / statistics.median(s) for name, s in seconds.items()}
