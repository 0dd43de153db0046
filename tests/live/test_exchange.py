"""Broker in another process: whichever side is killed, every order is executed once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from sekai.error import BrokerError
from sekai.live.account import BrokerAccount
from sekai.live.backoff import Backoff
from sekai.live.events import BarEvent
from sekai.live.orders import BrokerOrder, OrderTracker
from sekai.live.paper.account import PaperAccount
from sekai.live.paper.broker import PaperBroker
from tests.live.exchange_client import ExchangeBroker, ExchangeFeed
from tests.live.trading import retry

T = TypeVar("T")
ROOT = Path(__file__).parents[2]


class Host:
    """Starts, kills and restarts the exchange."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.port_file, self.ledger = folder / "exchange.json", folder / "paper.jsonl"
        given = {"rows": 20, "seed": 5, "idle-seconds": 30, **options}
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        self._command = [
            sys.executable, "-m", "tests.live.exchange", "--port-file", str(self.port_file),
            "--ledger", str(self.ledger), *words,
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.port_file.unlink(missing_ok=True)
        self._process = subprocess.Popen(self._command, cwd=ROOT)
        while not self.port_file.exists():
            assert self._process.poll() is None, "the exchange did not start"
            time.sleep(0.01)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


@contextlib.contextmanager
def hosted(folder: Path, **options: Any) -> Iterator[Host]:
    host = Host(folder, **options)
    host.start()
    try:
        yield host
    finally:
        host.kill()


def order_for(row: int, assets: tuple[str, ...]) -> BrokerOrder:
    asset = assets[row % len(assets)]
    units = 5.0 if row % 4 else -3.0
    return BrokerOrder(id=f"s-{row}-{asset}", asset=asset, units=units, reference_price=100.0)


async def asked(call: Callable[[], Awaitable[T]], broker: ExchangeBroker) -> T:
    return await retry(call, broker, attempts=100, backoff=Backoff(first=0.001))


async def trade(host: Host, between: Callable[[int], None]) -> tuple[BrokerAccount, OrderTracker]:
    """Submit an order per row; `between` is called before each row and may inject a fault."""
    broker, feed, tracker = (
        ExchangeBroker(host.port_file),
        ExchangeFeed(host.port_file),
        OrderTracker(),
    )
    row = 0
    async for event in feed:
        assert isinstance(event, BarEvent)
        await asked(partial(broker.see, event.bar), broker)
        for report in await asked(broker.reports, broker):
            tracker.apply(report)
        order = order_for(row, feed.history.assets)
        tracker.intend(order)
        between(row)
        await asked(partial(broker.submit, order), broker)
        row += 1
    account = await asked(broker.account, broker)
    await broker.close()
    await feed.close()
    return account, tracker


async def traded_here(host: Host) -> BrokerAccount:
    """Execute the same plan with a broker in this process."""
    feed = ExchangeFeed(host.port_file)
    broker = PaperBroker(PaperAccount(feed.history))
    row = 0
    async for event in feed:
        assert isinstance(event, BarEvent)
        await broker.see(event.bar)
        await broker.submit(order_for(row, feed.history.assets))
        row += 1
    await feed.close()
    return await broker.account()


def same(one: BrokerAccount, other: BrokerAccount) -> bool:
    return (one.cash, one.units, one.costs) == (other.cash, other.units, other.costs)


def test_a_broker_behind_a_socket_is_the_broker(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        account, tracker = asyncio.run(trade(host, lambda row: None))

        assert same(account, asyncio.run(traded_here(host)))
        assert len(tracker.open_orders()) <= 1
        assert tracker.fills == 18


def test_an_exchange_that_is_killed_and_started_again_forgets_nothing(tmp_path: Path) -> None:
    with hosted(tmp_path, rows=6) as host:

        def harm(row: int) -> None:
            if row in (1, 4):
                host.kill()
                host.start()

        account, tracker = asyncio.run(trade(host, harm))

        assert same(account, asyncio.run(traded_here(host)))
        assert len(tracker.open_orders()) <= 1


def test_faults_come_over_the_wire(tmp_path: Path) -> None:
    faults = json.dumps({"seed": 2, "disconnect": 0.1, "lose_acknowledgement": 0.3})
    with hosted(tmp_path, faults=faults) as host:
        account, _ = asyncio.run(trade(host, lambda row: None))

        assert same(account, asyncio.run(traded_here(host)))


def test_rows_come_again_from_any_time_on(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        feed = ExchangeFeed(host.port_file)
        events = [event async for event in feed]
        await feed.since(events[7].exchange_time)
        again = [event async for event in feed]
        await feed.close()

        assert [event.exchange_time for event in again] == [
            event.exchange_time for event in events[8:]
        ]
        first, repeated = events[8], again[0]
        assert isinstance(first, BarEvent)
        assert isinstance(repeated, BarEvent)
        assert np.array_equal(first.bar.values, repeated.bar.values)
        assert events[0].exchange_time > int(feed.history.times[-1].astype("int64"))

    with hosted(tmp_path) as host:
        asyncio.run(scene(host))


def test_what_is_wrong_is_said_and_what_is_not_answered_is_a_broker_error(tmp_path: Path) -> None:
    async def scene(host: Host) -> None:
        broker = ExchangeBroker(host.port_file)
        await broker.submit(order_for(1, ("A000",)))
        with pytest.raises(ValueError, match="is taken by another order"):
            await broker.submit(
                BrokerOrder(id="s-1-A000", asset="A000", units=7.0, reference_price=100.0)
            )
        host.kill()
        with pytest.raises(BrokerError, match="the exchange did not answer account"):
            await broker.account()
        await broker.close()

    with hosted(tmp_path) as host:
        asyncio.run(scene(host))


CLIENT = """
import asyncio, sys
from pathlib import Path
from tests.live.test_exchange import replayed
asyncio.run(replayed(Path(sys.argv[1]), Path(sys.argv[2])))
"""


async def replayed(port_file: Path, done: Path) -> None:
    """Stateless client that restarts at the first row."""
    broker, feed = ExchangeBroker(port_file), ExchangeFeed(port_file)
    row = 0
    async for event in feed:
        assert isinstance(event, BarEvent)
        await broker.see(event.bar)
        await broker.submit(order_for(row, feed.history.assets))
        row += 1
    await broker.close()
    await feed.close()
    done.touch()


@pytest.mark.nightly
def test_clients_that_are_killed_at_random_moments_trade_every_order_once(tmp_path: Path) -> None:
    rng = random.Random(7)
    with hosted(tmp_path, rows=400) as host:
        for _ in range(30):
            client = subprocess.Popen(
                [sys.executable, "-c", CLIENT, str(host.port_file), str(tmp_path / "done")],
                cwd=ROOT, env=dict(os.environ),
            )  # fmt: skip
            with contextlib.suppress(subprocess.TimeoutExpired):
                client.wait(rng.uniform(0.5, 1.5))
            client.kill()
            client.wait()
        asyncio.run(replayed(host.port_file, tmp_path / "done"))

        async def account() -> BrokerAccount:
            broker = ExchangeBroker(host.port_file)
            found = await broker.account()
            await broker.close()
            return found

        assert same(asyncio.run(account()), asyncio.run(traded_here(host)))
