"""Progress of an evaluation: share of all runs, on a terminal or in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from sekai.data.intraday import Progress, reporter

__all__ = ["EvaluationProgress"]

DELAY = 1.5
"""Seconds before the bar appears: short evaluations show none."""

PARTS = 1000
"""Parts of the whole that are reported."""

STEPS_BETWEEN = 64
"""Steps between two reports."""


class EvaluationProgress:
    """Progress over the runs of an evaluation: one run is one policy on all seeds.

    Args:
        progress: True for a bar on standard error, False for none, a function of the done and the
            total count, or None for a bar if there is a terminal or a notebook.
        runs: expected number of runs.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        progress: Progress | None,
        runs: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._delay = DELAY if progress is None or progress is True else 0.0
        shown = _has_viewer() if progress is None else progress
        self._report = reporter(shown, "evaluate")
        self._runs, self._done, self._steps, self._length = runs, 0, 0, 0
        self._clock, self._began, self._reported = clock, clock(), 0

    def expect(self, runs: int) -> None:
        """Add to the expected number of runs."""
        self._runs += runs

    def step(self) -> None:
        """Count one step of all envs in the current run."""
        self._steps += 1
        if self._steps % STEPS_BETWEEN == 0:
            self._show()

    def end_run(self) -> None:
        """Count a finished run; its length is expected of the next."""
        self._length, self._steps = max(self._steps, 1), 0
        self._done += 1
        self._runs = max(self._runs, self._done)
        self._show()

    def close(self) -> None:
        """Complete the bar, if it was shown."""
        if self._reported:
            self._report(PARTS, PARTS)

    def _show(self) -> None:
        if self._clock() - self._began < self._delay:
            return
        part = min(self._steps / self._length, 1.0) if self._length else 0.0
        share = min((self._done + part) / self._runs, 0.999)
        # The expected number of runs may grow, but a bar never goes back.
        self._reported = max(int(PARTS * share), self._reported, 1)
        self._report(self._reported, PARTS)


def _has_viewer() -> bool:
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
