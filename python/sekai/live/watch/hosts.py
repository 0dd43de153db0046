"""By which names a watcher may be called: a page of another name must not reach it.

Otherwise a page on the web could give its own name this machine's address, and read along.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

__all__ = ["Hosts", "is_loopback"]

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Hosts:
    """The names that are let through, with any port: a tunnel may begin at another one."""

    def __init__(self, bound: str = "127.0.0.1") -> None:
        """Say where the watcher listens.

        Args:
            bound: an address or a name.
        """
        self._names = {*LOOPBACK, bound.lower()}
        self._any_address = _is_every_address(bound)
        if self._any_address:
            self._names |= {socket.gethostname().lower()}

    def knows(self, host: str) -> bool:
        """Whether the `Host` of a request is one of them."""
        name = name_in(host)
        if name is None:
            return False
        # Whoever gives names to addresses cannot choose an address.
        return name in self._names or (self._any_address and _address(name) is not None)

    def is_same_origin(self, origin: str, host: str) -> bool:
        """Whether a request comes from a page of this very watcher."""
        try:
            found = urlsplit(origin)
        except ValueError:
            return False
        return found.scheme in ("http", "https") and found.netloc.lower() == host.lower()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    found = _address(host)
    return host.lower() == "localhost" or (found is not None and found.is_loopback)


def name_in(host: str) -> str | None:
    """The name without its port; None if there is none."""
    if any(letter in host for letter in "@/\\ #?"):
        return None
    try:
        found = urlsplit(f"//{host}")
        _ = found.port
    except ValueError:
        return None
    return found.hostname


def _is_every_address(host: str) -> bool:
    found = _address(host)
    return host == "" or (found is not None and found.is_unspecified)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
