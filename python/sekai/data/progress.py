"""Shows how far long work has come."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

__all__ = ["Progress", "reporter"]

Report = Callable[[int, int], None]
Progress = bool | Report
"""True for a bar on the standard error stream, or a function of what is done and of all."""

WIDTH = 30
SHOWN_EVERY = 0.1
"""Seconds between two looks of the bar."""


def reporter(progress: Progress, what: str) -> Report:
    """A function to be called with how much is done and how much there is."""
    if callable(progress):
        return progress
    return _bar(what) if progress else _silent


def _silent(done: int, total: int) -> None:
    """Nobody wants to know."""


def _bar(what: str) -> Report:
    last = 0.0

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done < total and now - last < SHOWN_EVERY:
            return
        last = now
        filled = WIDTH * done // max(1, total)
        end = "\n" if done >= total else ""
        bar = "#" * filled + "." * (WIDTH - filled)
        sys.stderr.write(f"\r{what} [{bar}] {done}/{total}{end}")
        sys.stderr.flush()

    return report
