"""Secrets: values that show themselves nowhere, and whose text is redacted wherever it occurs."""

from __future__ import annotations

import base64
import hmac
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import quote, quote_plus

__all__ = [
    "REDACTED",
    "Secret",
    "revealed",
    "revealed_headers",
    "values_without_secrets",
    "without_secrets",
]

REDACTED = "***"
MIN_LENGTH = 6
"""Characters of a secret: shorter ones occur in any text."""

MAX_DEPTH = 64
"""Levels of nested values that are searched."""

MAX_KNOWN = 256
"""Secrets that are redacted; of more, those revealed last. Rotated keys expire by then."""


class Secret:
    """Secret text, such as an API key: only `reveal` returns it.

    `str`, `repr` and f-strings show `***`, pickling and copying are refused, and comparison takes
    constant time. The text is redacted in every log, alert, journal, status and trade file of the
    process, also URL-encoded, in base64 and escaped for JSON.

    Args:
        text: the secret, of at least 6 characters.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or len(text) < MIN_LENGTH:
            # Without the value: it would be shown.
            raise ValueError(
                f"a secret must be text of at least {MIN_LENGTH} characters; shorter ones cannot "
                "be redacted, because they occur in any text"
            )
        self._text = text
        _REGISTRY.add(text)

    @classmethod
    def from_env(cls, variable: str) -> Secret:
        """Secret from an environment variable.

        Raises:
            KeyError: the variable is not set, or empty.
        """
        text = os.environ.get(variable)
        if not text:
            raise KeyError(f"environment variable {variable} is not set; expected a secret in it")
        return cls(text)

    def reveal(self) -> str:
        """Text of the secret."""
        _REGISTRY.add(self._text)
        return self._text

    def __repr__(self) -> str:
        return f"Secret({REDACTED})"

    def __str__(self) -> str:
        return REDACTED

    def __format__(self, specification: str) -> str:
        return REDACTED

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_encoded(self._text), _encoded(other._text))

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "a Secret cannot be pickled: the file would hold it; pass the name of an environment "
            "variable, and read it with Secret.from_env"
        )


def revealed(value: str | Secret) -> str:
    """Text of a value that may be a secret."""
    return value.reveal() if isinstance(value, Secret) else value


def revealed_headers(headers: Mapping[str, str | Secret] | None) -> dict[str, str]:
    """HTTP headers with their secrets revealed; the result is for the connection alone."""
    return {name: revealed(value) for name, value in (headers or {}).items()}


def without_secrets(text: str) -> str:
    """Replace every known `Secret`, in any of its encodings, by `***`."""
    forms = _REGISTRY.forms
    if not forms or len(text) < len(forms[-1]):
        return text
    for form in forms:
        if form in text:
            text = text.replace(form, REDACTED)
    return text


def values_without_secrets(value: Any, depth: int = 0) -> Any:
    """Replace known secrets in all texts of nested dicts, lists and tuples; others stay.

    Encoded JSON cannot be searched instead: a secret of digits would match inside a number.
    """
    # Values that are nested deeper, or hold themselves, are refused by the encoders.
    if not _REGISTRY.forms or depth > MAX_DEPTH:
        return value
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Secret):
        return REDACTED
    if isinstance(value, Mapping):
        return {
            values_without_secrets(name, depth + 1): values_without_secrets(part, depth + 1)
            for name, part in value.items()
        }
    if type(value) in (list, tuple):
        return type(value)(values_without_secrets(part, depth + 1) for part in value)
    return value


class _Registry:
    """Known secrets, a bounded number, and their encodings, longest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        # Replaced as a whole, so that readers need no lock.
        self.forms: tuple[str, ...] = ()

    def add(self, text: str) -> None:
        with self._lock:
            if text in self._known:
                self._known.move_to_end(text)
                return
            self._known[text] = _forms(text)
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
            every = {form for forms in self._known.values() for form in forms}
            # Longest first: one secret may be part of another.
            self.forms = tuple(sorted(every, key=len, reverse=True))


def _forms(text: str) -> tuple[str, ...]:
    content = _encoded(text)
    forms = {text, json.dumps(text)[1:-1], repr(text)[1:-1], repr(content)[2:-1]}
    encoded = text.encode("utf-8", "replace").decode()
    forms |= {quote(encoded), quote(encoded, safe=""), quote_plus(encoded), quote(quote_plus(text))}
    for shift in range(3):
        forms |= _base64_forms(content, shift)
    return tuple(form for form in forms if len(form) >= MIN_LENGTH)


def _base64_forms(content: bytes, shift: int) -> set[str]:
    """Base64 of the content inside a longer text, such as `user:secret`, at one of 3 positions."""
    padded = bytes(shift) + content
    # Characters that depend on the bytes before or after the content are left out.
    begin, end = -(-shift * 8 // 6), len(padded) * 8 // 6
    standard = base64.b64encode(padded).decode()[begin:end]
    return {standard, standard.replace("+", "-").replace("/", "_")}


def _encoded(text: str) -> bytes:
    # Text of environment variables may hold lone surrogates.
    return text.encode("utf-8", "surrogatepass")


_REGISTRY = _Registry()
