"""Web app of the monitor: page, state, event stream, Prometheus metrics and kill switch."""

from __future__ import annotations

import asyncio
import gzip
import json
import secrets
import time
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from sekai.live.watch.prometheus import CONTENT_TYPE, metrics_text
from sekai.live.watch.security import AccessControl, AllowedHosts, Token
from sekai.live.watch.sources import MonitorSource, SessionSource
from sekai.live.watch.stream import EventStream, SourcePoller
from sekai.storage.optional import optional_import

__all__ = ["SCRIPTS", "asset", "watch_app"]

DEFAULT_REASON = "stopped manually"

SCRIPTS = (
    *("theme.js", "plotly.js", "elements.js", "numbers.js", "charts.js"),
    *("session.js", "kill_switch.js", "training.js", "tabs.js", "stream.js"),
)
"""Scripts of the page in execution order."""

STYLES = ("report.css", "watch.css")

SHARED = {"theme.js": "theme.js", "report.css": "style.css"}
"""Assets shared with reports, with their names there."""


def watch_app(
    sources: Sequence[MonitorSource], token: Token | str, host: str = "127.0.0.1"
) -> Starlette:
    """Create the monitor app.

    Args:
        sources: the sources in display order.
        token: access token.
        host: address that the server listens on, which becomes an allowed host.
    """
    access_token = Token(token) if isinstance(token, str) else token
    poller = SourcePoller(sources)
    endpoints = _Endpoints(poller)
    stream = EventStream(poller)
    app = Starlette(
        routes=[
            Route("/", _page),
            Route("/healthz", _health),
            Route("/assets/{name}", _asset),
            Route("/api/state", endpoints.state),
            Route("/api/stream", stream, methods=["GET"]),
            Route("/metrics", endpoints.metrics),
            Route("/api/kill", endpoints.kill, methods=["POST"]),
            Route("/api/release", endpoints.release, methods=["POST"]),
        ],
        middleware=[Middleware(AccessControl, token=access_token, hosts=AllowedHosts(host))],
        exception_handlers={HTTPException: _error},
    )
    app.state.stream = stream
    app.state.token = access_token
    return app


class _Endpoints:
    def __init__(self, poller: SourcePoller) -> None:
        self._poller = poller

    async def state(self, request: Request) -> Response:
        texts = ", ".join(state.text for state in await self._poller.states())
        text = f'{{"now": {json.dumps(time.time())}, "sources": [{texts}]}}'
        return Response(text, media_type="application/json")

    async def metrics(self, request: Request) -> Response:
        values = [state.value for state in await self._poller.states()]
        return Response(metrics_text(values), headers={"Content-Type": CONTENT_TYPE})

    async def kill(self, request: Request) -> Response:
        body = await _json_body(request)
        index, session = self._session(body)
        reason = body.get("reason") or DEFAULT_REASON
        if not isinstance(reason, str):
            raise HTTPException(400, "reason must be text")
        try:
            await asyncio.to_thread(session.kill, reason)
        except OSError as error:
            raise HTTPException(500, f"trading is NOT stopped: {error}") from error
        return await self._current(index)

    async def release(self, request: Request) -> Response:
        body = await _json_body(request)
        index, session = self._session(body)
        name = body.get("confirm")
        if not isinstance(name, str):
            raise HTTPException(400, "missing `confirm`: the name of the session")
        try:
            await asyncio.to_thread(session.release, name)
        except ValueError as error:
            raise HTTPException(409, str(error)) from error
        except OSError as error:
            raise HTTPException(500, f"trading is still stopped: {error}") from error
        return await self._current(index)

    async def _current(self, index: int) -> Response:
        state = (await self._poller.states(at_once=True))[index]
        return Response(state.text, media_type="application/json")

    def _session(self, body: dict[str, Any]) -> tuple[int, SessionSource]:
        index = body.get("source")
        sources = self._poller.sources
        if not isinstance(index, int) or not 0 <= index < len(sources):
            raise HTTPException(404, f"unknown source {index!r}; expected 0 to {len(sources) - 1}")
        source = sources[index]
        # A page of an earlier server may have another session at the same index.
        if body.get("session", source.title) != source.title:
            raise HTTPException(409, f"source {index} is now {source.title}; reload the page")
        if not isinstance(source, SessionSource):
            raise HTTPException(409, f"{source.title} is not a trading session")
        return index, source


async def _json_body(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise HTTPException(400, "body must be a JSON object")
    return body


async def _page(request: Request) -> Response:
    nonce = secrets.token_urlsafe(18)
    headers = {"Content-Security-Policy": _content_policy(nonce)}
    return HTMLResponse(_page_html(nonce), headers=headers)


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "plotly.js":
        # Not secret and large: the browser may cache it.
        headers = {"Content-Encoding": "gzip", "Cache-Control": "private, max-age=86400"}
        body = await asyncio.to_thread(_compressed_plotly)
        return Response(body, media_type="text/javascript", headers=headers)
    if name in SCRIPTS:
        return Response(asset(name), media_type="text/javascript")
    if name in STYLES:
        return Response(asset(name), media_type="text/css")
    raise HTTPException(404, "unknown asset")


async def _health(request: Request) -> Response:
    return PlainTextResponse("ok")


async def _error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return PlainTextResponse(f"{error.detail}\n", error.status_code, error.headers)


@cache
def asset(name: str) -> str:
    """Text of a script or style of the page, except plotly."""
    package = "sekai.evaluation.report" if name in SHARED else "sekai.live.watch"
    file = files(package) / "templates" / SHARED.get(name, name)
    return file.read_text(encoding="utf-8")


def _page_html(nonce: str) -> str:
    styles = "\n".join(f'<link rel="stylesheet" href="/assets/{name}">' for name in STYLES)
    # The theme first, so that a dark page does not start with a white flash.
    theme, *others = (f'<script nonce="{nonce}" src="/assets/{name}"></script>' for name in SCRIPTS)
    html = asset("page.html").replace("{{ styles }}", styles).replace("{{ theme }}", theme)
    return html.replace("{{ scripts }}", "\n".join(others))


def _content_policy(nonce: str) -> str:
    """Content security policy: only our scripts run, and connect to this server alone."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; "
        "connect-src 'self'; img-src data: blob:; font-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )


@cache
def _compressed_plotly() -> bytes:
    offline = optional_import("plotly.offline", "live,cli", "the monitor page")
    return gzip.compress(str(offline.get_plotlyjs()).encode("utf-8"), compresslevel=6, mtime=0)
