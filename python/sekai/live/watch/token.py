"""The secret that lets somebody look."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

__all__ = ["Token"]

LEAST_LETTERS = 32
ALLOWED = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""What may stand in a header and in an address."""


class Token:
    """A secret, and what is made of it; it is never shown by accident."""

    def __init__(self, text: str | None = None) -> None:
        """Take a secret, or make one.

        Args:
            text: at least 32 letters and digits; None for 32 random bytes.
        """
        self.text = secrets.token_urlsafe(32) if text is None else text
        if len(self.text) < LEAST_LETTERS or not ALLOWED.fullmatch(self.text):
            raise ValueError(
                f"a token of at least {LEAST_LETTERS} letters, digits or any of ._~+/=- was "
                f"wanted, found {len(self.text)} characters: "
                'python -c "import secrets; print(secrets.token_urlsafe(32))" makes one'
            )
        self._tickets: set[str] = set()

    @property
    def cookie_name(self) -> str:
        """Differs between watchers: browsers send cookies to every port of a host."""
        return f"sekai-watch-{self._made('name')[:12]}"

    @property
    def cookie_value(self) -> str:
        """Stands for the secret in a browser, which need not keep the secret itself."""
        return self._made("value")

    def ticket(self) -> str:
        """What opens the page once: other users may see the arguments of a browser that starts."""
        made = secrets.token_urlsafe(32)
        self._tickets.add(made)
        return made

    def is_secret(self, given: str) -> bool:
        """Whether that is the secret; it takes as long if it is not."""
        return _are_same(given, self.text)

    def is_cookie(self, given: str) -> bool:
        """Whether that is the value of the cookie."""
        return _are_same(given, self.cookie_value)

    def opens(self, given: str) -> bool:
        """Whether that is the secret, or a ticket that was not used."""
        found = [one for one in self._tickets if _are_same(given, one)]
        self._tickets.difference_update(found)
        return self.is_secret(given) or bool(found)

    def __repr__(self) -> str:
        return "Token(...)"

    def _made(self, purpose: str) -> str:
        return hmac.new(self.text.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def _are_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())
