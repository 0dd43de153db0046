"""Access control of the monitor: token, allowed hosts, CSRF checks, throttle and body limit."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["MAX_BODY_BYTES", "AccessControl", "AllowedHosts", "Token", "is_loopback"]

PUBLIC_PATHS = frozenset({"/healthz"})
SAFE_METHODS = frozenset({"GET", "HEAD"})
MAX_BODY_BYTES = 4096
MIN_TOKEN_LENGTH = 32
TOKEN_CHARACTERS = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""Characters allowed in a header and in a URL."""

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Default headers of every response."""

LOGIN_PAGE = '<!doctype html><meta http-equiv="refresh" content="0;url=/"><title>sekai</title>'


class Token:
    """Secret token of the monitor, and the cookie and one-time tickets derived from it.

    Args:
        text: at least 32 characters; None for 32 random bytes.
    """

    def __init__(self, text: str | None = None) -> None:
        self.text = secrets.token_urlsafe(32) if text is None else text
        if len(self.text) < MIN_TOKEN_LENGTH or not TOKEN_CHARACTERS.fullmatch(self.text):
            raise ValueError(
                f"invalid token of {len(self.text)} characters; expected at least "
                f"{MIN_TOKEN_LENGTH} letters, digits or any of ._~+/=-, such as from "
                'python -c "import secrets; print(secrets.token_urlsafe(32))"'
            )
        self._tickets: set[str] = set()

    @property
    def cookie_name(self) -> str:
        """Name of the cookie; differs between monitors, as browsers ignore the port."""
        return f"sekai-watch-{self._derived('name')[:12]}"

    @property
    def cookie_value(self) -> str:
        """Value of the cookie, from which the token cannot be computed."""
        return self._derived("value")

    def ticket(self) -> str:
        """Create a ticket that opens the page once: process arguments are visible to all users."""
        ticket = secrets.token_urlsafe(32)
        self._tickets.add(ticket)
        return ticket

    def is_secret(self, text: str) -> bool:
        """Return True for the token, compared in constant time."""
        return _equal(text, self.text)

    def is_cookie(self, text: str) -> bool:
        """Return True for the value of the cookie."""
        return _equal(text, self.cookie_value)

    def is_in(self, data: bytes) -> bool:
        """Return True if raw data of a request may authorize it; for a first, cheap selection."""
        known = (self.text, self.cookie_value, *self._tickets)
        return any(text.encode() in data for text in known)

    def opens(self, text: str) -> bool:
        """Return True for the token or an unused ticket, which is then used."""
        used = [ticket for ticket in self._tickets if _equal(text, ticket)]
        self._tickets.difference_update(used)
        return self.is_secret(text) or bool(used)

    def __repr__(self) -> str:
        return "Token(...)"

    def _derived(self, purpose: str) -> str:
        return hmac.new(self.text.encode(), purpose.encode(), hashlib.sha256).hexdigest()


class AllowedHosts:
    """Allowed `Host` headers, with any port: protection against DNS rebinding.

    Args:
        bound: address or name that the server listens on.
    """

    def __init__(self, bound: str = "127.0.0.1") -> None:
        self._names = {*LOOPBACK, bound.lower()}
        self._any_address = _is_every_address(bound)
        if self._any_address:
            self._names |= {socket.gethostname().lower()}

    def allows(self, host: str) -> bool:
        """Return True if the `Host` of a request is allowed."""
        name = _host_name(host)
        if name is None:
            return False
        # A DNS record can map a name to this machine, but cannot choose its address.
        return name in self._names or (self._any_address and _address(name) is not None)


class Throttle:
    """Counts failed logins in a time window; valid tokens are never rejected.

    Otherwise any web page could lock the kill switch by sending wrong tokens.

    Args:
        most: failures per window that are answered as such.
        seconds: length of the window.
        clock: monotonic seconds.
    """

    def __init__(
        self, most: int = 10, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._times: deque[float] = deque(maxlen=most)
        self._seconds = seconds
        self._clock = clock

    def count(self) -> bool:
        """Count a failure, and return True if there were too many."""
        now = self._clock()
        is_full = len(self._times) == self._times.maxlen
        if is_full and now - self._times[0] < self._seconds:
            return True
        self._times.append(now)
        return False


class AccessControl:
    """Middleware that passes authorized requests to the app and rejects all others.

    Args:
        app: the protected app.
        token: token of the monitor.
        hosts: allowed hosts.
        throttle: limit of failed logins.
    """

    def __init__(
        self, app: ASGIApp, token: Token, hosts: AllowedHosts, throttle: Throttle | None = None
    ) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        self._throttle = throttle or Throttle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        response = self._rejection(Request(scope))
        send_with_headers = _with_headers(send)
        if response is not None:
            await response(scope, receive, send_with_headers)
            return
        await self._app(scope, _limited(receive), send_with_headers)

    def _rejection(self, request: Request) -> Response | None:
        """Response to a rejected request or a login; None if the request is authorized."""
        host = request.headers.get("host", "")
        if len(request.headers.getlist("host")) != 1 or not self._hosts.allows(host):
            return PlainTextResponse("host not allowed\n", 403)
        # The path of the router, not one built from request headers.
        path = request.scope["path"]
        if path in PUBLIC_PATHS:
            return None
        guess = request.query_params.get("token")
        if path == "/" and guess is not None and request.method == "GET":
            return self._login(request.headers) if self._token.opens(guess) else self._failure()
        bearer = _bearer(request.headers)
        if bearer is not None:
            is_authorized = self._token.is_secret(bearer)
        else:
            cookie = _cookie(request.headers, self._token.cookie_name)
            if cookie is None:
                return _unauthorized()
            if _is_cross_site(request.headers) and path != "/":
                return PlainTextResponse("cross-site request\n", 403)
            is_authorized = self._token.is_cookie(cookie)
        if not is_authorized:
            return self._failure()
        if request.method in SAFE_METHODS:
            return None
        return _write_rejection(request.headers, has_bearer=bearer is not None)

    def _login(self, headers: Headers) -> Response:
        """Set the cookie, and remove the token from the URL."""
        response: Response = RedirectResponse("/", 303)
        if _is_cross_site(headers):
            # After a link on another site, a strict cookie is not sent with a redirect.
            response = HTMLResponse(LOGIN_PAGE)
        name, value = self._token.cookie_name, self._token.cookie_value
        response.set_cookie(name, value, httponly=True, samesite="strict", path="/")
        return response

    def _failure(self) -> Response:
        if self._throttle.count():
            return PlainTextResponse("too many failed logins\n", 429, {"Retry-After": "60"})
        return _unauthorized()


def is_loopback(host: str) -> bool:
    """Return True if the host is reachable from this machine only."""
    address = _address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def _write_rejection(headers: Headers, *, has_bearer: bool) -> Response | None:
    """Response to a rejected write request of an authorized client: CSRF, type or length."""
    if not has_bearer and not _is_same_origin(headers.get("origin", ""), headers["host"]):
        return PlainTextResponse("cross-site request\n", 403)
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return PlainTextResponse("content type must be application/json\n", 415)
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 9 or int(length) > MAX_BODY_BYTES:
        return PlainTextResponse(f"body must have at most {MAX_BODY_BYTES} bytes\n", 413)
    return None


def _limited(receive: Receive) -> Receive:
    """Limit the request body, whatever its declared length: reading on raises a 413."""
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_BODY_BYTES:
            raise HTTPException(413, f"body must have at most {MAX_BODY_BYTES} bytes")
        return message

    return receive_limited


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


def _unauthorized() -> Response:
    text = "a token is needed: open the address that `sekai watch` printed\n"
    return PlainTextResponse(text, 401, {"WWW-Authenticate": "Bearer"})


def _is_cross_site(headers: Headers) -> bool:
    """Return True if the browser reports another origin: other ports share the cookie."""
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _is_same_origin(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _bearer(headers: Headers) -> str | None:
    value = headers.get("authorization")
    if value is None:
        return None
    scheme, _, token = value.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _cookie(headers: Headers, name: str) -> str | None:
    for header in headers.getlist("cookie"):
        for pair in header.split(";"):
            key, _, value = pair.partition("=")
            if key.strip() == name:
                return value.strip()
    return None


def _host_name(host: str) -> str | None:
    """Host name without the port; None if it is invalid."""
    if any(letter in host for letter in "@/\\ #?"):
        return None
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname


def _is_every_address(host: str) -> bool:
    address = _address(host)
    return host == "" or (address is not None and address.is_unspecified)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _equal(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode("utf-8", "replace"), secret.encode())
