"""Who may look, and who may stop trading: every request passes here first."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sekai.live.watch.body_limit import MOST_BYTES, limited
from sekai.live.watch.hosts import Hosts
from sekai.live.watch.throttle import Throttle
from sekai.live.watch.token import Token

__all__ = ["Gate"]

OPEN_PATHS = frozenset({"/healthz"})
"""What tells nothing."""

SAFE_METHODS = frozenset({"GET", "HEAD"})

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer that does not say otherwise."""

STEP_IN = '<!doctype html><meta http-equiv="refresh" content="0;url=/"><title>sekai</title>'


class Gate:
    """Lets a request through to the app, or answers it; who is refused learns nothing."""

    def __init__(
        self, app: ASGIApp, token: Token, hosts: Hosts, throttle: Throttle | None = None
    ) -> None:
        """Stand before an app.

        Args:
            app: what is behind.
            token: what opens it.
            hosts: names that it may be called by.
            throttle: how many wrong tokens are answered.
        """
        self._app = app
        self._token = token
        self._hosts = hosts
        self._throttle = throttle or Throttle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through or not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope)
        answer = self._answer(request)
        sending = _with_headers(send)
        if answer is not None:
            await answer(scope, receive, sending)
            return
        await self._app(scope, limited(receive), sending)

    def _answer(self, request: Request) -> Response | None:
        """What a request is told here; None if it may pass."""
        host = request.headers.get("host", "")
        if len(request.headers.getlist("host")) != 1 or not self._hosts.knows(host):
            return PlainTextResponse("this name is not served here\n", 403)
        # What the router goes by, and not a URL that is put together with what was sent.
        path = request.scope["path"]
        if path in OPEN_PATHS:
            return None
        guess = request.query_params.get("token")
        if path == "/" and guess is not None and request.method == "GET":
            return self._step_in(request.headers) if self._token.opens(guess) else self._refused()
        bearer = _bearer(request.headers)
        if bearer is not None:
            is_right = self._token.is_secret(bearer)
        else:
            cookie = _cookie(request.headers, self._token.cookie_name)
            if cookie is None:
                return _unknown()
            if _is_from_elsewhere(request.headers) and path != "/":
                return PlainTextResponse("only the page itself may ask for this\n", 403)
            is_right = self._token.is_cookie(cookie)
        if not is_right:
            return self._refused()
        return None if request.method in SAFE_METHODS else self._change(request, bearer is not None)

    def _change(self, request: Request, has_bearer: bool) -> Response | None:
        """Whether somebody who is known may change something: a page elsewhere may not."""
        headers = request.headers
        origin = headers.get("origin", "")
        if not has_bearer and not self._hosts.is_same_origin(origin, headers["host"]):
            return PlainTextResponse("only the page itself may ask for this\n", 403)
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return PlainTextResponse("application/json was wanted\n", 415)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 9 or int(length) > MOST_BYTES:
            return PlainTextResponse(f"at most {MOST_BYTES} bytes were wanted\n", 413)
        return None

    def _step_in(self, headers: Headers) -> Response:
        """Keep what was given in a cookie, so that it does not stay in the address."""
        answer: Response = RedirectResponse("/", 303)
        if _is_from_elsewhere(headers):
            # Who followed a link on another page has no cookie yet where that link leads on to.
            answer = HTMLResponse(STEP_IN)
        name, value = self._token.cookie_name, self._token.cookie_value
        answer.set_cookie(name, value, httponly=True, samesite="strict", path="/")
        return answer

    def _refused(self) -> Response:
        if self._throttle.count():
            return PlainTextResponse("too many wrong tokens\n", 429, {"Retry-After": "60"})
        return _unknown()


def _is_from_elsewhere(headers: Headers) -> bool:
    """Whether a browser says that another page asks: one at another port has the cookie too."""
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _unknown() -> Response:
    words = "a token is needed: open the address that `sekai watch` printed\n"
    return PlainTextResponse(words, 401, {"WWW-Authenticate": "Bearer"})


def _bearer(headers: Headers) -> str | None:
    given = headers.get("authorization")
    if given is None:
        return None
    scheme, _, rest = given.partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else ""


def _cookie(headers: Headers, name: str) -> str | None:
    for given in headers.getlist("cookie"):
        for pair in given.split(";"):
            key, _, value = pair.partition("=")
            if key.strip() == name:
                return value.strip()
    return None


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
