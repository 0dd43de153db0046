"""Peak memory of a program that reads a file of windows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["WINDOW_BYTES", "peaks"]

WINDOW_BYTES = 60 * 20 * 8 * 4
"""A window of 60 rows, 20 assets and 8 features."""


def peaks(script: str, folder: Path, rows: int, timeout: float) -> tuple[float, float]:
    """Megabytes that a script's peak rose by, and the peak itself, as it prints them."""
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder), str(rows)],
        check=True, capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip
    grown, peak = map(float, done.stdout.split())
    return grown, peak
