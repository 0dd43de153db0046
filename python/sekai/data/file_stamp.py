"""Tells whether a file is still the one that was read."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

__all__ = ["FRESH", "Stamp", "is_settled", "stamp_of"]

Stamp = tuple[int, int, int]
"""The file's number on its disk, when it was written in nanoseconds, and its size."""

FRESH = 50_000_000
"""Nanoseconds in which a file system may give two writings one time."""


def stamp_of(path: str | os.PathLike[str]) -> Stamp:
    """What changes when a file is rewritten."""
    status = os.stat(path)
    return status.st_ino, status.st_mtime_ns, status.st_size


def is_settled(stamps: Iterable[Stamp]) -> bool:
    """Whether a later writing is sure to have other stamps.

    Clocks of file systems stand still for some milliseconds, and numbers of files are used again:
    what was written just now could be rewritten without a trace, so it is not to be remembered.
    """
    latest = time.time_ns() - FRESH
    return all(written < latest for _, written, _ in stamps)
