"""The web app of those who watch: a page, its data, numbers for Prometheus, and a kill switch."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from sekai.live.watch.assets import (
    SCRIPTS,
    STYLES,
    content_policy,
    page,
    part,
    zipped_plotly,
)
from sekai.live.watch.board import Board, Posted
from sekai.live.watch.gate import Gate
from sekai.live.watch.hosts import Hosts
from sekai.live.watch.prometheus import CONTENT_TYPE, metrics_text
from sekai.live.watch.session_source import SessionSource
from sekai.live.watch.source import Source
from sekai.live.watch.stream import Stream
from sekai.live.watch.token import Token

__all__ = ["watch_app"]

USUAL_REASON = "stopped by hand"


def watch_app(sources: Sequence[Source], token: Token | str, host: str = "127.0.0.1") -> Starlette:
    """An app that shows how sources are doing to who has the token.

    Args:
        sources: what is watched, in the order in which it is shown.
        token: what opens it.
        host: where it will listen, which is a name that it may be called by.
    """
    given = Token(token) if isinstance(token, str) else token
    board = Board(sources)
    asked = _Asked(board)
    stream = Stream(board)
    app = Starlette(
        routes=[
            Route("/", _page),
            Route("/healthz", _health),
            Route("/assets/{name}", _asset),
            Route("/api/state", asked.state),
            Route("/api/stream", stream, methods=["GET"]),
            Route("/metrics", asked.metrics),
            Route("/api/kill", asked.kill, methods=["POST"]),
            Route("/api/release", asked.release, methods=["POST"]),
        ],
        middleware=[Middleware(Gate, token=given, hosts=Hosts(host))],
        exception_handlers={HTTPException: _told},
    )
    app.state.stream = stream
    return app


class _Asked:
    """What can be asked about the sources."""

    def __init__(self, board: Board) -> None:
        self._board = board

    async def state(self, request: Request) -> Response:
        posted = await self._board.posted()
        texts = ", ".join(one.text for one in posted)
        text = f'{{"now": {json.dumps(time.time())}, "sources": [{texts}]}}'
        return Response(text, media_type="application/json")

    async def metrics(self, request: Request) -> Response:
        values = [one.value for one in await self._board.posted()]
        return Response(metrics_text(values), headers={"Content-Type": CONTENT_TYPE})

    async def kill(self, request: Request) -> Response:
        body = await _body(request)
        place, session = self._session(body)
        reason = body.get("reason") or USUAL_REASON
        if not isinstance(reason, str):
            raise HTTPException(400, "the reason must be text")
        try:
            await asyncio.to_thread(session.kill, reason)
        except OSError as error:
            raise HTTPException(500, f"trading is NOT stopped: {error}") from error
        return await self._now(place)

    async def release(self, request: Request) -> Response:
        body = await _body(request)
        place, session = self._session(body)
        name = body.get("confirm")
        if not isinstance(name, str):
            raise HTTPException(400, "the name of the session was wanted as `confirm`")
        try:
            await asyncio.to_thread(session.release, name)
        except ValueError as error:
            raise HTTPException(409, str(error)) from error
        except OSError as error:
            raise HTTPException(500, f"trading is still stopped: {error}") from error
        return await self._now(place)

    async def _now(self, place: int) -> Response:
        posted: Posted = (await self._board.posted(at_once=True))[place]
        return Response(posted.text, media_type="application/json")

    def _session(self, body: dict[str, Any]) -> tuple[int, SessionSource]:
        place = body.get("source")
        sources = self._board.sources
        if not isinstance(place, int) or not 0 <= place < len(sources):
            raise HTTPException(404, f"the number of a source was wanted, found {place!r}")
        source = sources[place]
        # A page that is older than this watcher may mean another session by the same number.
        if body.get("session", source.title) != source.title:
            raise HTTPException(409, f"here it is {source.title}: load the page again")
        if not isinstance(source, SessionSource):
            raise HTTPException(409, f"{source.title} is no session: nothing is traded there")
        return place, source


async def _body(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise HTTPException(400, "an object of JSON was wanted")
    return found


async def _page(request: Request) -> Response:
    nonce = secrets.token_urlsafe(18)
    return HTMLResponse(page(nonce), headers={"Content-Security-Policy": content_policy(nonce)})


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "plotly.js":
        # No secret, and large: a browser may keep it.
        headers = {"Content-Encoding": "gzip", "Cache-Control": "private, max-age=86400"}
        body = await asyncio.to_thread(zipped_plotly)
        return Response(body, media_type="text/javascript", headers=headers)
    if name in SCRIPTS:
        return Response(part(name), media_type="text/javascript")
    if name in STYLES:
        return Response(part(name), media_type="text/css")
    raise HTTPException(404, "there is no such part of the page")


async def _health(request: Request) -> Response:
    return PlainTextResponse("ok")


async def _told(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return PlainTextResponse(f"{error.detail}\n", error.status_code, error.headers)
