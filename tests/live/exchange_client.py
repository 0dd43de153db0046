"""Adapters to the exchange of the tests: a `Broker` and a `Feed`, about a page each."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from sekai.data import Bar, MarketData
from sekai.error import BrokerError, FeedError
from sekai.live.bar_records import bar_from, bar_time
from sekai.live.broker import Broker, BrokerAccount
from sekai.live.events import BarEvent, FeedEvent
from sekai.live.feed import Feed
from sekai.live.order_records import account_from, order_fields, report_from, state_from
from sekai.live.orders import Order, OrderReport, OrderState
from tests.live.exchange import LONGEST_LINE, world


class Line:
    """A connection that asks one thing at a time, and is opened again when it broke."""

    def __init__(self, port_file: Path, error: type[Exception], timeout: float = 10.0) -> None:
        self.port_file, self._error, self._timeout = port_file, error, timeout
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()

    async def ask(self, call: str, **fields: Any) -> Any:
        async with self._turn:
            try:
                reply = await asyncio.wait_for(self._exchange(call, fields), self._timeout)
            except (OSError, ValueError, asyncio.TimeoutError) as error:
                self.hang_up()
                raise self._error(f"the exchange did not answer {call}: {error!r}") from error
            except BaseException:
                # Cancelled: the answer may still come, and must not be taken for the next one.
                self.hang_up()
                raise
        if "broken" in reply:
            raise self._error(reply["broken"])
        if "wrong" in reply:
            raise ValueError(reply["wrong"])
        return reply["answer"]

    def hang_up(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()

    async def close(self) -> None:
        if self._streams is not None:
            writer = self._streams[1]
            self.hang_up()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _exchange(self, call: str, fields: dict[str, Any]) -> Any:
        if self._streams is None:
            port = json.loads(self.port_file.read_text())["port"]
            self._streams = await asyncio.open_connection("127.0.0.1", port, limit=LONGEST_LINE)
        reader, writer = self._streams
        writer.write(json.dumps({"call": call, **fields}).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("it hung up")
        return json.loads(line)


class ExchangeBroker(Broker):
    """Hands orders to the exchange whose port is in a file."""

    def __init__(self, port_file: Path) -> None:
        self._line = Line(port_file, BrokerError)

    async def connect(self) -> None:
        await self._line.ask("connect")

    async def submit(self, order: Order) -> None:
        await self._line.ask("submit", order=order_fields(order))

    async def cancel(self, order_id: str) -> None:
        await self._line.ask("cancel", id=order_id)

    async def account(self) -> BrokerAccount:
        return account_from(await self._line.ask("account"))

    async def known(self, order_ids: Collection[str]) -> dict[str, OrderState]:
        found = await self._line.ask("known", ids=list(order_ids))
        return {name: state_from(state) for name, state in found.items()}

    async def reports(self) -> list[OrderReport]:
        return [report_from(report) for report in await self._line.ask("reports")]

    async def see(self, bar: Bar) -> None:
        await self._line.ask("see", time=bar_time(bar))

    async def close(self) -> None:
        await self._line.close()


class ExchangeFeed(Feed):
    """Takes row after row from the exchange, from any time on."""

    history: MarketData

    def __init__(self, port_file: Path, after: int | None = None) -> None:
        super().__init__()
        self._line = Line(port_file, FeedError)
        self._after = after
        facts = json.loads(port_file.read_text())
        size = {name: facts[name] for name in ("rows", "seed", "assets", "history")}
        self.history = world(**size).rows(0, facts["history"])

    async def __anext__(self) -> FeedEvent:
        found = await self._next_row()
        if not found:
            raise StopAsyncIteration
        (row,) = found
        self._after = row["time"]
        self.health.received += 1
        masks = {name: np.array(row[name]) for name in ("listed", "quoted", "tradable")}
        return BarEvent(
            exchange_time=row["time"], bar=bar_from({**row, **masks, "values": _floats(row)})
        )

    async def _next_row(self, attempts: int = 100) -> list[dict[str, Any]]:
        while True:
            try:
                rows: list[dict[str, Any]] = await self._line.ask(
                    "bars", after=self._after, limit=1
                )
            except FeedError:
                attempts -= 1
                if not attempts:
                    raise
            else:
                return rows
            self.health.reconnects += 1
            await asyncio.sleep(0.05)

    async def since(self, exchange_time: int) -> list[FeedEvent]:
        """Nothing can be missed: go on after that time."""
        self._after = exchange_time
        return []

    async def close(self) -> None:
        await self._line.close()


def _floats(row: dict[str, Any]) -> np.ndarray:
    return np.array(row["values"], dtype=np.float64)
