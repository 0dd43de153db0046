"""Takes secrets out of words before anybody writes them down."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

__all__ = ["HIDDEN", "WORDS", "is_secret_name", "redacted", "redacted_fields"]

HIDDEN = "***"
WORDS = ("detail", "reason", "error", "message")
"""Fields that quote what others said: a venue, a broker, an exception."""

DEEPEST = 8
"""Levels of fields that are looked into; what lies deeper is hidden."""

SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|pwd|api[-_.]?key|access[-_.]?key|private[-_.]?key|credential|"
    r"authorization|signature|cookie|listen[-_.]?key|bearer|jwt|^(?:auth|sig|key|sid)$",
    re.IGNORECASE,
)
# Every pattern below takes time that grows with the text alone: no two of its parts can share
# the same characters, and names are tried from their first letter only.
LOGIN = re.compile(r"://[^\s/?#\"']*@")
HEADER = re.compile(r"(authorization\\*[\"']?\s*[:=]\s*\\*[\"']?)[^\"'\r\n]+", re.IGNORECASE)
NAME = re.compile(r"(?<![\w.-])([\w.-]+)\\*[\"']?\s*(?:=>|[:=]|%3[dD])\s*")
# What begins with a backslash is quoted twice or more: its end is not looked for.
VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|\\.*|[^\s&\"'\\][^\s&]*", re.DOTALL)
SCHEME = re.compile(r"\b(bearer\s+|basic\s+(?=[\w+/=-]{6}))[^\s\"',;&]+", re.IGNORECASE)
SHAPED = re.compile(
    r"(?<![\w-])(?:eyJ[\w-]{5,}\.[\w-]+\.[\w-]*|gh[opsu]_\w{16,}|sk-[\w-]{16,}|"
    r"AKIA[A-Z0-9]{12,}|xox[abprs]-[\w-]{8,})"
)


def redacted(text: str, secrets: Collection[str] = ()) -> str:
    """`text` with what looks like a secret replaced by `***`.

    Passwords in URLs, authorization headers, and whatever is called a token, a key, a secret, a
    signature or a password: in queries, in JSON and in `name=value`.

    Args:
        text: what somebody wants to write down.
        secrets: what is known to be secret, wherever it stands.
    """
    # Longest first: one secret may be part of another.
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    if ":" in text or "=" in text or "%3" in text:
        text = LOGIN.sub(f"://{HIDDEN}@", text)
        text = HEADER.sub(_kept_first, text)
        text = _without_values(text)
    return SHAPED.sub(HIDDEN, SCHEME.sub(_kept_first, text))


def redacted_fields(
    fields: Mapping[Any, Any], secrets: Collection[str] = (), depth: int = 0
) -> dict[str, Any]:
    """The same with every secret hidden, by its look or by the name of its field."""
    return {
        redacted(str(name), secrets): (
            HIDDEN if is_secret_name(str(name)) else _redacted_value(value, secrets, depth + 1)
        )
        for name, value in fields.items()
    }


def is_secret_name(name: str) -> bool:
    """Whether what is called so should be hidden."""
    return SECRET_NAME.search(name) is not None


def _redacted_value(value: Any, secrets: Collection[str], depth: int) -> Any:
    if value is None or isinstance(value, (bool, int, float, np.number, np.bool_)):
        return value.item() if isinstance(value, np.generic) else value
    if depth > DEEPEST:
        return HIDDEN
    if isinstance(value, Mapping):
        return redacted_fields(value, secrets, depth)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_redacted_value(one, secrets, depth + 1) for one in value]
    # Bytes would be written with escapes, which no pattern sees through.
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return redacted(text, secrets)


def _kept_first(found: re.Match[str]) -> str:
    return f"{found[1]}{HIDDEN}"


def _without_values(text: str) -> str:
    """The same without the values of what has the name of a secret."""
    parts, done = [], 0
    found = NAME.search(text)
    while found is not None:
        start = found.end()
        value = VALUE.match(text, start) if is_secret_name(found[1]) else None
        if value is not None:
            quote = value[0][0] if value[0][0] in "\"'" else ""
            parts += [text[done:start], quote, HIDDEN, quote]
            start = done = value.end()
        found = NAME.search(text, start)
    return "".join([*parts, text[done:]])
