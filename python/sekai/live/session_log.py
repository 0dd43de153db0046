"""Session log in JSON lines, and redaction of secrets in logs, alerts and journals."""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import re
import sys
from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np

from sekai.core.base import Closeable
from sekai.live.secret import REDACTED, Secret, values_without_secrets, without_secrets
from sekai.storage.files import private_opener

__all__ = [
    "FREE_TEXT_FIELDS",
    "LOGGER",
    "SessionLog",
    "is_secret_name",
    "redacted",
    "redacted_fields",
    "redacted_record",
]

LOGGER = "sekai.live"
"""Name of the logger of live sessions."""

STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "fields",
}
"""Attributes of every `logging` record; all others are fields of the log call."""


class SessionLog(Closeable):
    """Rotating log file of the logger `sekai.live`, in JSON lines with secrets redacted.

    `log.event("reconnected", tries=3)` is short for
    `logging.getLogger("sekai.live").info("reconnected", extra={"tries": 3})`. A line has `time`,
    `level`, `event` and the fields.

    Args:
        path: the file; rotated files have the suffixes `.1`, `.2` and so on.
        level: least level that is written.
        largest: bytes of a file.
        kept: number of rotated files.
        secrets: strings to redact, besides those that look like secrets.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        level: int = logging.INFO,
        largest: int = 10_000_000,
        kept: int = 5,
        secrets: Collection[str] = (),
    ) -> None:
        if largest < 1 or kept < 1:
            raise ValueError(f"largest and kept must be positive, got {largest} and {kept}")
        self._logger = logging.getLogger(LOGGER)
        self._handler = _QuietHandler(
            Path(path), maxBytes=largest, backupCount=kept, encoding="utf-8"
        )
        self._handler.setFormatter(_LineFormatter(secrets))
        self._handler.setLevel(level)
        self._secrets = secrets
        self._level_before = self._logger.level
        if not self._logger.isEnabledFor(level):
            self._logger.setLevel(level)
        self._logger.addHandler(self._handler)

    @property
    def lost(self) -> int:
        """Number of lines that could not be written; trading continues without them."""
        return self._handler.lost

    def event(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event with its fields."""
        if self._logger.isEnabledFor(level):
            hidden = redacted_fields(fields, self._secrets)
            self._logger.log(level, redacted(event, self._secrets), extra={"fields": hidden})

    def close(self) -> None:
        """Close the file. Closing twice is no error."""
        self._logger.removeHandler(self._handler)
        self._logger.setLevel(self._level_before)
        self._handler.close()


class _QuietHandler(logging.handlers.RotatingFileHandler):
    """Counts failed writes; the standard report would print unredacted text."""

    lost = 0

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", opener=private_opener)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - as logging calls it
        self.lost += 1
        if self.lost == 1:
            error = sys.exc_info()[1]
            sys.stderr.write(
                f"sekai: log {self.baseFilename} cannot be written: {type(error).__name__}\n"
            )

    def close(self) -> None:
        try:
            super().close()
        except OSError:
            self.lost += 1


class _LineFormatter(logging.Formatter):
    def __init__(self, secrets: Collection[str]) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, timezone.utc)
        line: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": redacted(record.getMessage(), self._secrets),
        }
        fields = _fields_of(record)
        line |= {
            # Time, level and event have the same meaning in every line.
            f"{name}_" if name in line else name: value
            for name, value in redacted_fields(fields, self._secrets).items()
        }
        if record.exc_info:
            line["error"] = redacted(self.formatException(record.exc_info), self._secrets)
        return json.dumps(_finite(line), allow_nan=False)


def _fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    # Libraries add private attributes to every record of a process.
    added = {
        name: value
        for name, value in vars(record).items()
        if name not in STANDARD_ATTRIBUTES and not name.startswith("_")
    }
    return {**getattr(record, "fields", {}), **added}


def _finite(value: Any) -> Any:
    """Replace infinite and NaN floats by strings, for JSON."""
    if isinstance(value, float) and not -sys.float_info.max <= value <= sys.float_info.max:
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list) else value


FREE_TEXT_FIELDS = ("detail", "reason", "error", "message")
"""Fields with text of venues, brokers and exceptions, which are redacted in journals."""

MAX_DEPTH = 8
"""Levels of nested fields that are searched; deeper ones are replaced."""

SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|pwd|api[-_.]?key|access[-_.]?key|private[-_.]?key|credential|"
    r"authorization|signature|cookie|listen[-_.]?key|bearer|jwt|hmac|mnemonic|api[-_.]?sign|"
    r"(?:^|[-_.])sign$|^(?:auth|sig|key|sid)$",
    re.IGNORECASE,
)
# Every pattern below runs in linear time: no two of its parts can match the same characters, and
# names are tried from their first letter only.
LOGIN = re.compile(r"://[^\s/?#\"']*@")
HEADER = re.compile(r"(authorization\\*[\"']?\s*[:=]\s*\\*[\"']?)[^\"'\r\n]+", re.IGNORECASE)
NAME = re.compile(
    r"(?<![\w.-])([\w.-]+)"
    # As in `name: value`, or in a list of pairs such as `("name", b"value")`.
    r"(?:\\*[\"']?\s*(?:=>|[:=]|%3[dD])\s*|\\*[\"']\s*,\s*b?(?=\\*[\"']))"
)
# A value that begins with a backslash is quoted more than once: it extends to the end.
VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|\\.*|[^\s&\"'\\][^\s&]*", re.DOTALL)
SCHEME = re.compile(r"\b(bearer\s+|basic\s+(?=[\w+/=-]{6}))[^\s\"',;&]+", re.IGNORECASE)
URL = re.compile(r"://[^\s\"'<>\\]+")
LONG_SEGMENT = re.compile(r"[\w~+=%-]{32,}")
"""Key in the path of a URL: no word is that long."""

BOT = re.compile(r"(/bot[0-9]+:|hooks\.slack\.com/services/)[\w/-]+")
PEM = re.compile(
    # Without an end all of the rest is secret; it is searched once.
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----"
    r"(?:.*?-----END [A-Z0-9 ]{0,60}-----|.*)",
    re.DOTALL,
)
SHAPED = re.compile(
    r"(?<![\w-])(?:eyJ[\w-]{5,}\.[\w-]+\.[\w-]*|gh[opsu]_\w{16,}|sk-[\w-]{16,}|"
    r"AKIA[A-Z0-9]{12,}|xox[abprs]-[\w-]{8,})"
)


def redacted(text: str, secrets: Collection[str] = ()) -> str:
    """Redact secrets: replace what looks like one by `***`.

    Covers passwords and long keys in URLs, private keys in PEM, authorization and signature
    headers, values named token, key, secret, signature or password in queries, in JSON, in pairs
    and in `name=value`, and every `Secret`.

    Args:
        text: text to be written.
        secrets: known secrets, replaced wherever they occur.
    """
    text = without_secrets(text)
    # Longest first: one secret may be part of another.
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    text = PEM.sub(REDACTED, text)
    if ":" in text or "=" in text or "%3" in text or "," in text:
        text = LOGIN.sub(f"://{REDACTED}@", text)
        text = URL.sub(_without_keys, BOT.sub(_keep_prefix, text))
        text = HEADER.sub(_keep_prefix, text)
        text = _without_values(text)
    return SHAPED.sub(REDACTED, SCHEME.sub(_keep_prefix, text))


def redacted_fields(
    fields: Mapping[Any, Any], secrets: Collection[str] = (), depth: int = 0
) -> dict[str, Any]:
    """Redact fields, by their names and by what their values look like."""
    return {
        redacted(str(name), secrets): (
            REDACTED if is_secret_name(str(name)) else _redacted_value(value, secrets, depth + 1)
        )
        for name, value in fields.items()
    }


def redacted_record(fields: dict[str, Any]) -> dict[str, Any]:
    """Redact the free texts of a journal record, and known secrets in all of its texts."""
    for name in FREE_TEXT_FIELDS:
        if fields.get(name) and isinstance(fields[name], str):
            fields[name] = redacted(fields[name])
    result: dict[str, Any] = values_without_secrets(fields)
    return result


def is_secret_name(name: str) -> bool:
    """Return True if a field of this name holds a secret."""
    return SECRET_NAME.search(name) is not None


def _redacted_value(value: Any, secrets: Collection[str], depth: int) -> Any:
    if value is None or isinstance(value, (bool, int, float, np.number, np.bool_)):
        return value.item() if isinstance(value, np.generic) else value
    if depth > MAX_DEPTH:
        return REDACTED
    if isinstance(value, Mapping):
        return redacted_fields(value, secrets, depth)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_redacted_value(item, secrets, depth + 1) for item in value]
    if isinstance(value, Secret):
        return REDACTED
    # The repr of bytes has escapes, which no pattern matches.
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return redacted(text, secrets)


def _keep_prefix(match: re.Match[str]) -> str:
    return f"{match[1]}{REDACTED}"


def _without_keys(match: re.Match[str]) -> str:
    """URL whose path has no long segments."""
    host, slash, rest = match[0].removeprefix("://").partition("/")
    path, mark, query = rest.partition("?")
    return f"://{host}{slash}{LONG_SEGMENT.sub(REDACTED, path)}{mark}{query}"


def _without_values(text: str) -> str:
    """Redact the values of secret names."""
    parts, done = [], 0
    match = NAME.search(text)
    while match is not None:
        start = match.end()
        value = VALUE.match(text, start) if is_secret_name(match[1]) else None
        if value is not None:
            quote = value[0][0] if value[0][0] in "\"'" else ""
            parts += [text[done:start], quote, REDACTED, quote]
            start = done = value.end()
        match = NAME.search(text, start)
    return "".join([*parts, text[done:]])
