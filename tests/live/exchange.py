"""Exchange server for tests: a paper broker and its market in another process, over loopback.

    python -m tests.live.exchange --port-file exchange.json --ledger paper.jsonl --rows 500 --seed 1

A line of JSON is asked, a line of JSON is answered. Rows are handed out on request and the market
moves when a client says that it has seen a row, so that a client that was killed goes on where it
was. Everything is in the ledger: the exchange may be killed as well, and started again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from bisect import bisect_right
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sekai.data import Bar, MarketData, simulate_gbm
from sekai.error import BrokerError
from sekai.live.events import bar_fields, bar_time
from sekai.live.orders import OrderState, order_fields, order_from_fields, report_fields
from sekai.live.paper.account import PaperAccount
from sekai.live.paper.broker import PaperBroker
from sekai.live.paper.faults import PaperFaults
from sekai.market import Execution

LONGEST_LINE = 2**24


def world(rows: int, seed: int, assets: int, history: int) -> MarketData:
    """Market of the exchange and its clients: history, then rows to come."""
    return simulate_gbm(assets=assets, rows=history + rows, seed=seed)


class Exchange:
    """Answers requests of clients."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.data = world(options.rows, options.seed, options.assets, options.history)
        account = PaperAccount(
            self.data.rows(0, options.history),
            execution=Execution(unfilled=options.unfilled, participation=options.participation),
            initial_cash=options.cash,
        )
        faults = PaperFaults(**json.loads(options.faults))
        self.broker = PaperBroker(account, options.ledger, faults)
        self.bars = list(Bar.each(self.data, options.history))
        self.times = [bar_time(bar) for bar in self.bars]
        self.asked = 0

    async def answer(self, asked: dict[str, Any]) -> Any:
        self.asked += 1
        call, broker = asked["call"], self.broker
        if call == "bars":
            return self._bars_after(asked["after"], asked["limit"])
        if call == "see":
            return await self._see(asked["time"])
        if call == "submit":
            return await broker.submit(order_from_fields(asked["order"]))
        if call == "cancel":
            return await broker.cancel(asked["id"])
        if call == "account":
            account = asdict(await broker.account())
            return {
                name: account[name] for name in ("cash", "units", "open_units", "costs", "time")
            }
        if call == "known":
            known = await broker.known(asked["ids"])
            return {name: state_fields(state) for name, state in known.items()}
        if call == "open_orders":
            return [order_fields(order) for order in await broker.open_orders()]
        if call == "reports":
            return [report_fields(report) for report in await broker.reports()]
        if call == "connect":
            return await broker.connect()
        raise ValueError(f"no such call: {call!r}")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it disconnects, in the middle of a request or not."""
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                writer.write(await self._reply(line))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _reply(self, line: bytes) -> bytes:
        reply: dict[str, Any]
        try:
            reply = {"answer": await self.answer(json.loads(line))}
        except BrokerError as error:
            reply = {"broken": str(error)}
        except (ValueError, LookupError, TypeError) as error:
            reply = {"wrong": repr(error)}
        return json.dumps(reply).encode() + b"\n"

    def _bars_after(self, after: int | None, limit: int) -> list[dict[str, Any]]:
        first = 0 if after is None else bisect_right(self.times, after)
        return [
            {name: getattr(part, "tolist", lambda part=part: part)() for name, part in row.items()}
            for row in map(bar_fields, self.bars[first : first + limit])
        ]

    async def _see(self, time: int) -> None:
        seen = self.broker.last_time
        first = 0 if seen is None else bisect_right(self.times, seen)
        for bar in self.bars[first : bisect_right(self.times, time)]:
            await self.broker.see(bar)


def state_fields(state: OrderState) -> dict[str, Any]:
    return {
        "order": order_fields(state.order),
        "filled": state.filled,
        "is_open": state.is_open,
        "reports": [report_fields(report) for report in state.reports],
    }


async def run(options: argparse.Namespace) -> None:
    exchange = Exchange(options)
    server = await asyncio.start_server(exchange.serve, "127.0.0.1", limit=LONGEST_LINE)
    facts = {"port": server.sockets[0].getsockname()[1], "pid": os.getpid()}
    facts |= {name: getattr(options, name) for name in ("rows", "seed", "assets", "history")}
    draft = options.port_file.with_name(f".{options.port_file.name}.{os.getpid()}")
    draft.write_text(json.dumps(facts))
    os.replace(draft, options.port_file)
    asked = -1
    while asked != exchange.asked:
        # Nobody has asked for so long: whoever started it is gone.
        asked = exchange.asked
        await asyncio.sleep(options.idle_seconds)
    server.close()
    await exchange.broker.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port-file", type=Path, required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--assets", type=int, default=3)
    parser.add_argument("--history", type=int, default=60)
    parser.add_argument("--cash", type=float, default=100_000.0)
    parser.add_argument("--unfilled", choices=["drop", "carry"], default="drop")
    parser.add_argument("--participation", type=float)
    parser.add_argument("--faults", default="{}", help="fields of PaperFaults in JSON")
    parser.add_argument("--idle-seconds", type=float, default=120.0)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
