"""Words about a session for people and machines: a line of JSON each, without secrets."""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import sys
from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sekai.core.closing import Closing
from sekai.live.redaction import redacted, redacted_fields

__all__ = ["LOGGER", "SessionLog", "redacted"]

LOGGER = "sekai.live"
"""What the logger of live sessions is called; other handlers may be added to it as well."""

OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "fields"}
"""What every record of `logging` has; everything else was added by who logged."""


class SessionLog(Closing):
    """Writes what is logged to `sekai.live` to a file, and begins a new one when that is full.

    `log.event("reconnected", tries=3)` is short for
    `logging.getLogger("sekai.live").info("reconnected", extra={"tries": 3})`, which is written by
    the same rules. A line has `time`, `level`, `event` and the fields. Secrets are hidden.
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
        """Begin to write; what is there is added to.

        Args:
            path: the file; older ones have `.1`, `.2` and so on behind their names.
            level: what is less important is left out.
            largest: bytes of a file.
            kept: how many older files there are.
            secrets: what must not appear anywhere, besides what looks like a secret.
        """
        if largest < 1 or kept < 1:
            raise ValueError(f"largest and kept must be positive, were {largest} and {kept}")
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
        """Lines that could not be written: a full disk stops no trading."""
        return self._handler.lost

    def event(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log that something happened."""
        if self._logger.isEnabledFor(level):
            hidden = redacted_fields(fields, self._secrets)
            self._logger.log(level, redacted(event, self._secrets), extra={"fields": hidden})

    def close(self) -> None:
        """Write no more. Closing twice is no error."""
        self._logger.removeHandler(self._handler)
        self._logger.setLevel(self._level_before)
        self._handler.close()


class _QuietHandler(logging.handlers.RotatingFileHandler):
    """Counts what it could not write; the usual report of that would show what was to be hidden."""

    lost = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - as logging calls it
        self.lost += 1
        if self.lost == 1:
            error = sys.exc_info()[1]
            words = f"sekai: the log {self.baseFilename} cannot be written: {type(error).__name__}"
            sys.stderr.write(f"{words}\n")

    def close(self) -> None:
        try:
            super().close()
        except OSError:
            self.lost += 1


class _LineFormatter(logging.Formatter):
    """A record as a line of JSON."""

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
            # The first three mean the same in every line.
            f"{name}_" if name in line else name: value
            for name, value in redacted_fields(fields, self._secrets).items()
        }
        if record.exc_info:
            line["error"] = redacted(self.formatException(record.exc_info), self._secrets)
        return json.dumps(_finite(line), allow_nan=False)


def _fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    # Libraries mark every record of a process with what is for themselves alone.
    everything = vars(record).items()
    added = {name: one for name, one in everything if name not in OWN and not name.startswith("_")}
    return {**getattr(record, "fields", {}), **added}


def _finite(value: Any) -> Any:
    """The same with words for the numbers that JSON has none for."""
    if isinstance(value, float) and not -sys.float_info.max <= value <= sys.float_info.max:
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list) else value
