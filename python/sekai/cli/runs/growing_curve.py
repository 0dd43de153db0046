"""The learning curve of a run that goes on: only what is new is read."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np

from sekai.evaluation.report.thinning import kept_points

__all__ = ["GrowingCurve"]

MOST_POINTS = 600
"""Of each line on the page."""


class GrowingCurve:
    """Follows a file of JSON lines, which may also be replaced by a shorter one."""

    def __init__(self, file: Path) -> None:
        """Say where it is; it need not be there yet.

        Args:
            file: that ends in .jsonl.
        """
        self._file = file
        self._inode, self._read, self._rows = -1, 0, 0
        self._columns: dict[str, list[float]] = {}

    def follow(self) -> None:
        """Read what was added; a line that is not whole yet is left for the next time."""
        try:
            with self._file.open("rb") as lines:
                found = os.fstat(lines.fileno())
                if found.st_ino != self._inode or found.st_size < self._read:
                    self._inode, self._read, self._rows = found.st_ino, 0, 0
                    self._columns = {}
                lines.seek(self._read)
                added = lines.read()
        except OSError:
            # Not there yet, or just being replaced: what was read stays.
            return
        whole = added[: added.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self._add(line)

    @property
    def latest(self) -> dict[str, float]:
        """The last finite number that was told, by name."""
        finite = {
            name: next((one for one in reversed(values) if math.isfinite(one)), None)
            for name, values in self._columns.items()
        }
        return {name: one for name, one in finite.items() if one is not None}

    def columns(self) -> dict[str, dict[str, list[float | None]]]:
        """Of each name its steps and its values, as many as a screen has room for."""
        steps = self._columns.get("steps", [])
        found: dict[str, dict[str, list[float | None]]] = {}
        for name, values in self._columns.items():
            # Names that were first told late have fewer rows: `_add` fills them up.
            told = [place for place, one in enumerate(values) if not math.isnan(one)]
            if name == "steps" or not told:
                continue
            kept = kept_points(np.array([values[place] for place in told]), MOST_POINTS)
            places = [told[place] for place in kept]
            found[name] = {
                "steps": [_finite(steps[place]) for place in places],
                "values": [_finite(values[place]) for place in places],
            }
        return found

    def _add(self, line: bytes) -> None:
        try:
            told = {str(name): float(one) for name, one in json.loads(line).items()}
            _ = told["steps"]
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
            # Left by a process that was killed while it wrote: it is told again.
            return
        for name in told:
            self._columns.setdefault(name, [math.nan] * self._rows)
        for name, values in self._columns.items():
            values.append(told.get(name, math.nan))
        self._rows += 1


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
