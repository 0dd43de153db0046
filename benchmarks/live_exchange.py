"""Simulated exchange: synthetic trades over a websocket, faster than real time.

    python benchmarks/live_exchange.py --port-file FILE --speed 144 --rate 8

Frames are those of Binance's trade stream.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import random
import time
from pathlib import Path

import websockets

BEGIN_MS = 1_700_000_000_000
SLICE_SECONDS = 0.01
SYMBOLS = ("AAA", "BBB", "CCC", "DDD", "EEE")


class Tape:
    """Random trades of all symbols, ordered by time."""

    def __init__(self, seed: int, rate: float) -> None:
        """Start with every price at 100.

        Args:
            seed: seed of prices, sizes and times.
            rate: trades per second, over all symbols.
        """
        self._rng, self._rate = random.Random(seed), rate
        self._prices = dict.fromkeys(SYMBOLS, 100.0)
        self._ids = dict.fromkeys(SYMBOLS, 0)
        self.milliseconds = float(BEGIN_MS)
        """Time of the last trade since 1970."""

    def next(self) -> str:
        """Return the next trade as a JSON frame."""
        rng = self._rng
        self.milliseconds += 1_000.0 * rng.expovariate(self._rate)
        symbol = rng.choice(SYMBOLS)
        self._prices[symbol] *= math.exp(1e-4 * rng.gauss(0.0, 1.0))
        self._ids[symbol] += 1
        hundredths = rng.randint(1, 500)
        stamp = int(self.milliseconds)
        return (
            f'{{"e":"trade","E":{stamp},"s":"{symbol}","t":{self._ids[symbol]},'
            f'"p":"{self._prices[symbol]:.4f}","q":"{hundredths / 100:.2f}","T":{stamp},"m":false}}'
        )


async def _send(socket: websockets.ServerConnection, given: argparse.Namespace) -> None:
    tape = Tape(given.seed, given.rate)
    began, pending = time.monotonic(), tape.next()
    while True:
        reached = BEGIN_MS + 1_000 * given.speed * (time.monotonic() - began)
        while tape.milliseconds <= reached:
            await socket.send(pending)
            pending = tape.next()
        await asyncio.sleep(SLICE_SECONDS)


async def _serve(given: argparse.Namespace) -> None:
    async def handle(socket: websockets.ServerConnection) -> None:
        # Clients disconnect when they have enough trades.
        with contextlib.suppress(websockets.ConnectionClosed):
            await _send(socket, given)

    async with websockets.serve(handle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        draft = Path(given.port_file).with_suffix(".draft")
        draft.write_text(str(port), encoding="utf-8")
        draft.rename(given.port_file)
        await server.serve_forever()


def main() -> None:
    """Serve until the process is terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port-file", required=True)
    parser.add_argument("--speed", type=float, default=144.0)
    parser.add_argument("--rate", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=0)
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
