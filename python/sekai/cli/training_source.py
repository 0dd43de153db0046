"""Status of a training run for `sekai watch`, read from the files in its folder alone."""

from __future__ import annotations

import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import numpy as np

from sekai.evaluation.report.chart import downsample
from sekai.experiment.run_folder import ExperimentError, RunFolder
from sekai.live.watch.sources import Kind, file_stamp

FACTS_SECONDS = 2.0
"""Seconds between checks of the process, each of which takes its lock for a moment."""

SPEED_SECONDS = 60.0
"""Window over which speed is measured."""

MAX_STEPS = 2**53
"""Largest integer of a browser."""

MAX_POINTS = 600
"""Maximum points of a line on the page."""

FACTS = ("env", "algorithm", "seed", "error", "created", "finished")
"""Entries of run.json that are passed on."""


class TrainingSource:
    """Progress, speed and learning curve of a training run.

    Args:
        run: folder of the run.
        clock: monotonic clock in seconds.
    """

    kind: Kind = "training"

    def __init__(self, run: RunFolder, clock: Callable[[], float] = time.monotonic) -> None:
        self.run = run
        self._clock = clock
        self._curve = CurveFollower(run.curve.file)
        self._facts: dict[str, Any] = {"state": "unknown"}
        self._facts_read = -float("inf")
        self._note = ""
        self._progress: deque[tuple[float, float]] = deque()

    @property
    def title(self) -> str:
        """Name of the run."""
        return self.run.name

    def version(self) -> Hashable:
        """Value that changes with new metrics or a new state of the run."""
        self._read_facts()
        return file_stamp(self.run.curve.file), repr(self._facts), self._note

    def read(self) -> dict[str, Any]:
        """Progress, speed and learning curves."""
        self._read_facts()
        self._curve.follow()
        latest = self._curve.latest
        steps, planned = int(latest.pop("steps", 0)), _count(self._facts.get("planned_steps"))
        speed = self._speed(steps)
        is_running = self._facts["state"] == "running"
        remaining = max(planned - steps, 0) / speed if speed and is_running else None
        return {
            "kind": self.kind,
            "title": self.title,
            "state": str(self._facts["state"]),
            "note": self._note,
            "steps": steps,
            "planned_steps": planned,
            "steps_per_second": speed if is_running else None,
            "seconds_left": remaining,
            "latest": latest,
            "columns": self._curve.columns(),
            **{name: _text(self._facts.get(name)) for name in FACTS},
        }

    def _read_facts(self) -> None:
        now = self._clock()
        if now - self._facts_read < FACTS_SECONDS:
            return
        self._facts_read = now
        try:
            self._facts, self._note = self.run.facts, ""
        except (ExperimentError, OSError, RecursionError) as error:
            self._note = f"cannot read run.json, showing the last valid state: {error}"

    def _speed(self, steps: int) -> float | None:
        """Recent steps per second; None until known."""
        mark = file_stamp(self.run.curve.file)
        if mark is None:
            return None
        progress, written = self._progress, mark[1] / 1e9
        if progress and steps < progress[-1][1]:
            # The run was resumed from a checkpoint.
            progress.clear()
        if not progress or steps > progress[-1][1]:
            progress.append((written, steps))
        while len(progress) > 2 and written - progress[1][0] > SPEED_SECONDS:
            progress.popleft()
        span = progress[-1][0] - progress[0][0]
        return (progress[-1][1] - progress[0][1]) / span if span > 0 else None


class CurveFollower:
    """Incremental reader of a growing JSON Lines file, which may be replaced by a shorter one.

    Args:
        file: path that ends in .jsonl; the file may be absent.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._inode, self._offset, self._rows = -1, 0, 0
        self._columns: dict[str, list[float]] = {}

    def follow(self) -> None:
        """Read new lines; an incomplete line is left for the next call."""
        try:
            with self._file.open("rb") as lines:
                stat = os.fstat(lines.fileno())
                if stat.st_ino != self._inode or stat.st_size < self._offset:
                    self._inode, self._offset, self._rows = stat.st_ino, 0, 0
                    self._columns = {}
                lines.seek(self._offset)
                content = lines.read()
        except OSError:
            # Absent, or being replaced: the lines so far stay.
            return
        complete = content[: content.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines():
            self._add(line)

    @property
    def latest(self) -> dict[str, float]:
        """Last finite value of each metric."""
        finite = {
            name: next((value for value in reversed(values) if math.isfinite(value)), None)
            for name, values in self._columns.items()
        }
        return {name: value for name, value in finite.items() if value is not None}

    def columns(self) -> dict[str, dict[str, list[float | None]]]:
        """Steps and values of each metric, thinned to `MAX_POINTS`."""
        steps = self._columns.get("steps", [])
        columns: dict[str, dict[str, list[float | None]]] = {}
        for name, values in self._columns.items():
            # Metrics that start late are filled with NaN by `_add`.
            known = [index for index, value in enumerate(values) if not math.isnan(value)]
            if name == "steps" or not known:
                continue
            shown = downsample(np.array([values[index] for index in known]), MAX_POINTS)
            indices = [known[index] for index in shown]
            columns[name] = {
                "steps": [_finite(steps[index]) for index in indices],
                "values": [_finite(values[index]) for index in indices],
            }
        return columns

    def _add(self, line: bytes) -> None:
        try:
            row = {str(name): float(value) for name, value in json.loads(line).items()}
            _ = row["steps"]
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
            # Left by a process that was killed while writing; the resumed run writes it again.
            return
        for name in row:
            self._columns.setdefault(name, [math.nan] * self._rows)
        for name, values in self._columns.items():
            values.append(row.get(name, math.nan))
        self._rows += 1


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _count(value: object) -> int:
    return value if isinstance(value, int) and abs(value) < MAX_STEPS else 0


def _text(value: object) -> str | None:
    return None if value is None else str(value)
