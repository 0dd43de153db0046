"""Local venue with an endpoint of klines."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from sekai.data import MarketData

UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class KlineServer:
    """Answers with the rows of a panel as candles, and keeps the queries."""

    def __init__(self, data: MarketData) -> None:
        self.data = data
        self.queries: list[dict[str, str]] = []
        self.answer: Any = None
        """Answer instead of candles."""

    def klines(self, query: dict[str, str]) -> list[list[Any]]:
        span = int(query["interval"][:-1]) * UNITS[query["interval"][-1]]
        begins = self.data.calendar.nanoseconds // 1_000_000 - span
        chosen = (begins >= int(query["startTime"])) & (begins <= int(query["endTime"]))
        column = self.data.values[:, self.data.asset(query["symbol"])]
        return [
            [int(begins[row]), *map(str, column[row]), int(begins[row]) + span - 1, "0", 1]
            for row in np.flatnonzero(chosen)[: int(query["limit"])]
            if np.isfinite(column[row]).all()
        ]


@contextmanager
def serving(venue: KlineServer) -> Iterator[str]:
    """Serve the venue; yields the URL of its klines."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = {name: rows[0] for name, rows in parse_qs(urlsplit(self.path).query).items()}
            venue.queries.append(query)
            answer = venue.klines(query) if venue.answer is None else venue.answer
            self.send_response(200 if venue.answer != 500 else 500)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/api/v3/klines"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
