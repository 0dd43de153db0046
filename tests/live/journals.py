"""Journals for tests of damage."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sekai.core.result import equal_values
from sekai.live.journal import Journal, JournalRecord, read_journal

WRITTEN: list[tuple[Any, dict[str, Any]]] = [
    ("bar", {"time": 1, "values": np.array([[1.5, math.nan], [2.5, -0.0]])}),
    ("decision", {"action": [0.25, 0.75]}),
    ("order", {"id": "s-1-A", "asset": "A", "units": 3.0, "reference_price": 1.5}),
    ("sent", {"id": "s-1-A"}),
    ("refusal", {"reason": "too much"}),
]


def small_journal(path: Path) -> list[JournalRecord]:
    """Write a journal of a few records."""
    with Journal(path, sync="never", session="s") as journal:
        for kind, fields in WRITTEN:
            journal.append(kind, **fields)
    return list(read_journal(path))


def same(left: JournalRecord, right: JournalRecord) -> bool:
    """Return True if two records are equal, NaN included."""
    return (left.number, left.time, left.kind) == (right.number, right.time, right.kind) and (
        equal_values(dict(left.fields), dict(right.fields))
    )


def are_first_of(found: list[JournalRecord], written: list[JournalRecord]) -> bool:
    """Return True if the records read are the first of those written."""
    return len(found) <= len(written) and all(map(same, found, written))


def bits_of(value: Any) -> Any:
    """Bits of a value, for comparison bit for bit."""
    if isinstance(value, float):
        return np.float64(value).tobytes()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.str, np.shape(value), value.tobytes()
    if isinstance(value, Mapping):
        return {key: bits_of(part) for key, part in value.items()}
    return [bits_of(part) for part in value] if isinstance(value, (list, tuple)) else value


def files_of_this_process() -> int:
    """Number of open files."""
    return len(os.listdir("/proc/self/fd"))
