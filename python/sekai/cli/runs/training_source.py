"""A training as those who watch see it: by the files in its folder alone."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

from sekai.cli.failure import CommandError
from sekai.cli.runs.growing_curve import GrowingCurve
from sekai.cli.runs.run_folder import RunFolder
from sekai.live.watch.file_mark import mark_of
from sekai.live.watch.source import Kind

__all__ = ["TrainingSource"]

FACTS_SECONDS = 2.0
"""How often it is asked whether the process is there: that takes its lock for a moment."""

SPEED_SECONDS = 60.0
"""The time over which speed is measured."""

MOST_STEPS = 2**53
"""What a browser can count."""

TOLD = ("env", "algorithm", "seed", "error", "created", "finished")
"""What is passed on of a run as it is."""


class TrainingSource:
    """Reads how far a training is and how it goes."""

    kind: Kind = "training"

    def __init__(self, run: RunFolder, clock: Callable[[], float] = time.monotonic) -> None:
        """Say which run.

        Args:
            run: its folder.
            clock: what gives seconds.
        """
        self.run = run
        self._clock = clock
        self._curve = GrowingCurve(run.curve.file)
        self._facts: dict[str, Any] = {"state": "unknown"}
        self._facts_read = -float("inf")
        self._note = ""
        self._seen: deque[tuple[float, float]] = deque()

    @property
    def title(self) -> str:
        """What the run is called."""
        return self.run.name

    def version(self) -> Hashable:
        """Whether there are new lines, and what state the run is in."""
        self._ask()
        return mark_of(self.run.curve.file), repr(self._facts), self._note

    def read(self) -> dict[str, Any]:
        """How far it is, how fast, and its learning curves."""
        self._ask()
        self._curve.follow()
        latest = self._curve.latest
        steps, planned = int(latest.pop("steps", 0)), _count(self._facts.get("planned_steps"))
        speed = self._speed(steps)
        is_running = self._facts["state"] == "running"
        left = max(planned - steps, 0) / speed if speed and is_running else None
        return {
            "kind": self.kind,
            "title": self.title,
            "state": str(self._facts["state"]),
            "note": self._note,
            "steps": steps,
            "planned_steps": planned,
            "steps_per_second": speed if is_running else None,
            "seconds_left": left,
            "latest": latest,
            "columns": self._curve.columns(),
            **{name: _text(self._facts.get(name)) for name in TOLD},
        }

    def _ask(self) -> None:
        now = self._clock()
        if now - self._facts_read < FACTS_SECONDS:
            return
        self._facts_read = now
        try:
            self._facts, self._note = self.run.facts, ""
        except (CommandError, OSError, RecursionError) as error:
            self._note = f"run.json cannot be read, this is the last that could: {error}"

    def _speed(self, steps: int) -> float | None:
        """Steps a second of late; None until that is known."""
        mark = mark_of(self.run.curve.file)
        if mark is None:
            return None
        seen, told = self._seen, mark[1] / 1e9
        if seen and steps < seen[-1][1]:
            # It went back to a checkpoint.
            seen.clear()
        if not seen or steps > seen[-1][1]:
            seen.append((told, steps))
        while len(seen) > 2 and told - seen[1][0] > SPEED_SECONDS:
            seen.popleft()
        span = seen[-1][0] - seen[0][0]
        return (seen[-1][1] - seen[0][1]) / span if span > 0 else None


def _count(value: object) -> int:
    return value if isinstance(value, int) and abs(value) < MOST_STEPS else 0


def _text(value: object) -> str | None:
    return None if value is None else str(value)
