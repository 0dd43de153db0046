"""What happened in a live session, written before it is acted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Record", "RecordKind"]

RecordKind = Literal[
    "session", "bar", "notice", "observed", "decision", "order", "sent", "cancel", "report",
    "refusal", "account", "kill", "released", "snapshot", "recovered", "abandoned", "stopped",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One thing that happened."""

    number: int
    """Counted from 0, without a gap."""

    time: int
    """In nanoseconds since 1970 in UTC, by this machine's clock."""

    kind: RecordKind
    fields: Mapping[str, Any]
    """Numbers, words, lists and dicts of them, and NumPy arrays."""
