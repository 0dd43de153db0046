"""Broker and feed adapters to the exchange server of the tests."""

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
from sekai.live.account import BrokerAccount
from sekai.live.broker import Broker
from sekai.live.events import BarEvent, FeedEvent, bar_from_fields, bar_time
from sekai.live.feed import Feed
from sekai.live.orders import (
    BrokerOrder,
    ExecutionReport,
    OrderState,
    order_fields,
    order_from_fields,
    report_from_fields,
)
from tests.live.exchange import LONGEST_LINE, world


class Line:
    """Connection with one request at a time, reopened after a failure."""

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
    """Broker adapter to the exchange whose port is in a file."""

    def __init__(self, port_file: Path) -> None:
        self._port_file = port_file
        self._line = Line(port_file, BrokerError)

    def control(self) -> Broker:
        return ExchangeBroker(self._port_file)

    async def open_orders(self) -> list[BrokerOrder]:
        return [order_from_fields(order) for order in await self._line.ask("open_orders")]

    async def connect(self) -> None:
        await self._line.ask("connect")

    async def submit(self, order: BrokerOrder) -> None:
        await self._line.ask("submit", order=order_fields(order))

    async def cancel(self, order_id: str) -> None:
        await self._line.ask("cancel", id=order_id)

    async def account(self) -> BrokerAccount:
        return BrokerAccount(**await self._line.ask("account"))

    async def known(self, order_ids: Collection[str]) -> dict[str, OrderState]:
        found = await self._line.ask("known", ids=list(order_ids))
        return {
            name: OrderState(
                order=order_from_fields(state["order"]),
                filled=state["filled"],
                is_open=state["is_open"],
                reports=tuple(report_from_fields(report) for report in state["reports"]),
            )
            for name, state in found.items()
        }

    async def reports(self) -> list[ExecutionReport]:
        return [report_from_fields(report) for report in await self._line.ask("reports")]

    async def see(self, bar: Bar) -> None:
        await self._line.ask("see", time=bar_time(bar))

    async def close(self) -> None:
        await self._line.close()


class ExchangeFeed(Feed):
    """Feed of the exchange's rows, from any time on."""

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
            exchange_time=row["time"], bar=bar_from_fields({**row, **masks, "values": _floats(row)})
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
        """Continue after that time: no row can be missed."""
        self._after = exchange_time
        return []

    async def close(self) -> None:
        await self._line.close()


def _floats(row: dict[str, Any]) -> np.ndarray:
    return np.array(row["values"], dtype=np.float64)
