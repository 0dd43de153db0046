"""What was told while an agent learnt: a line of JSON for each iteration."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from sekai.rendering.replacement import replacing
from sekai.storage.strict_json import parsed

__all__ = ["LearningCurve"]


class LearningCurve:
    """A file that grows by a line with each iteration."""

    def __init__(self, file: Path) -> None:
        """Say where it is; it need not be there yet.

        Args:
            file: that ends in .jsonl.
        """
        self.file = file

    def __call__(self, steps: int, metrics: Mapping[str, float]) -> None:
        """Add an iteration: what `sekai.training.Track` calls."""
        values = {name: one if math.isfinite(one) else str(one) for name, one in metrics.items()}
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({**values, "steps": steps}, allow_nan=False) + "\n")

    def rows(self) -> list[dict[str, float]]:
        """What was told, iteration by iteration; a line that broke off counts as none."""
        if not self.file.exists():
            return []
        found = []
        for line in self.file.read_text(encoding="utf-8").splitlines():
            try:
                told = {name: float(value) for name, value in parsed(line).items()}
                _ = int(told["steps"])
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                # Left by a process that was killed while it wrote, or altered since.
                break
            found.append(told)
        return found

    def columns(self) -> dict[str, list[float]]:
        """The same by name; NaN where something was not told."""
        rows = self.rows()
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name, math.nan) for row in rows] for name in names}

    def last_steps(self) -> int:
        """How many steps were learnt when the last line was written."""
        rows = self.rows()
        return int(rows[-1]["steps"]) if rows else 0

    def go_back_to(self, steps: int) -> None:
        """Forget what came after so many steps: it is going to be told again."""
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
        kept = [
            line for line, row in zip(lines, self.rows(), strict=False) if row["steps"] <= steps
        ]
        with replacing(self.file, ".jsonl") as draft:
            draft.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
