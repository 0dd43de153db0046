"""Changes as they come: server-sent events."""

from __future__ import annotations

import asyncio
import json
import time

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from sekai.live.watch.board import Board

__all__ = ["Stream"]

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    # Whoever passes it on must not wait until there is more.
    (b"x-accel-buffering", b"no"),
]


class Stream:
    """Tells each client what has changed since it was told last; nothing is queued for anybody.

    A client that reads slowly is told less often; one that does not read at all is let go.
    """

    def __init__(
        self,
        board: Board,
        *,
        most_clients: int = 32,
        poll_seconds: float = 0.25,
        beat_seconds: float = 2.0,
        send_seconds: float = 20.0,
    ) -> None:
        """Say what of, and how.

        Args:
            board: what is told.
            most_clients: at once; more are asked to come again.
            poll_seconds: between two looks.
            beat_seconds: the longest silence.
            send_seconds: how long a client may take to read.
        """
        self._board = board
        self._most = most_clients
        self._poll = poll_seconds
        self._beat = beat_seconds
        self._send_seconds = send_seconds
        self._is_ending = False
        self.clients = 0

    def end(self) -> None:
        """Let all clients go."""
        self._is_ending = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell one client, until it has gone."""
        if self.clients >= self._most:
            words = f"{self._most} are watching already: close a page, or come again\n"
            await PlainTextResponse(words, 503, {"Retry-After": "5"})(scope, receive, send)
            return
        self.clients += 1
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await self._tell(gone, send)
        finally:
            self.clients -= 1
            gone.cancel()

    async def _tell(self, gone: asyncio.Future[None], send: Send) -> None:
        seen = [0] * len(self._board.sources)
        last = -float("inf")
        while not gone.done() and not self._is_ending:
            told = ""
            for place, posted in enumerate(await self._board.posted()):
                if posted.changes != seen[place]:
                    seen[place] = posted.changes
                    told += f"event: source\nid: {place}\ndata: {posted.text}\n\n"
            if told or time.monotonic() - last >= self._beat:
                told += f": beat\nevent: beat\ndata: {json.dumps(time.time())}\n\n"
                if not await self._sent(told, send):
                    return
                last = time.monotonic()
            await asyncio.wait({gone}, timeout=self._poll)
        if not gone.done():
            await self._sent("", send, is_last=True)

    async def _sent(self, text: str, send: Send, *, is_last: bool = False) -> bool:
        message = {"type": "http.response.body", "body": text.encode(), "more_body": not is_last}
        try:
            await asyncio.wait_for(send(message), self._send_seconds)
        except asyncio.TimeoutError:
            return False
        return True


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
