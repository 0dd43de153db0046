"""Progress bar on the terminal, and tracking of metrics and episodes."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from sekai.policy.settings import require
from sekai.stats import StatsTracker
from sekai.storage.event_file import EventFile
from sekai.training.callbacks.callback import Callback

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["ProgressBar", "Track"]

SHORT = {"episode_return": "return", "episode_length": "length", "eval/return": "eval"}


class ProgressBar(Callback):
    """Progress bar with steps, steps per second, returns, losses and remaining time.

    Drawn by rich if installed, else as plain text on the standard error stream. Without a terminal
    nothing is written, unless `always`: then a line from time to time.

    Args:
        always: write without a terminal too.
        seconds: least time between two lines.
        stream: output; None for the standard error stream.
    """

    def __init__(
        self, *, always: bool = False, seconds: float = 0.5, stream: TextIO | None = None
    ) -> None:
        require(seconds >= 0, "seconds", "at least 0", seconds)
        self.always, self.seconds, self.stream = always, seconds, stream
        self._line: _Line | None = None

    def on_start(self, agent: Agent) -> None:
        """Start the progress bar."""
        stream = sys.stderr if self.stream is None else self.stream
        is_terminal = stream.isatty()
        if is_terminal or self.always:
            rich = _rich() if is_terminal else None
            self._line = _PlainLine(stream, is_terminal) if rich is None else _RichLine(stream)
        self._began = self._shown_at = time.monotonic()
        self._steps_before = agent.steps
        self._known: dict[str, float] = {}

    def after_iteration(self, agent: Agent, metrics: Mapping[str, float]) -> None:
        """Update the progress bar if it is due."""
        self._known.update(
            {name: value for name, value in metrics.items() if not math.isnan(value)}
        )
        now = time.monotonic()
        if self._line is not None and now - self._shown_at >= self.seconds:
            self._shown_at = now
            self._line.show(min(1.0, agent.progress), self.text(agent))

    def on_end(self, agent: Agent) -> None:
        """Write the last line."""
        line, self._line = self._line, None
        if line is not None:
            if self._known:
                line.show(min(1.0, agent.progress), self.text(agent))
            line.close()

    def text(self, agent: Agent) -> str:
        """Text of the progress bar."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        speed = (agent.steps - self._steps_before) / seconds
        left = (agent.planned_steps - agent.steps) / speed if speed else math.inf
        rounded = ""
        if agent.planned_steps > agent.requested_steps:
            rounded = f" ({agent.requested_steps:,} in iterations of {agent.iteration_steps:,})"
        parts = [f"{agent.steps:,}/{agent.planned_steps:,} steps{rounded}", f"{speed:,.0f}/s"]
        figures = [f"{SHORT.get(n, n)} {self._known[n]:.4g}" for n in _shown(self._known)]
        # Narrow terminals cut off the end.
        return "  ".join([*parts, f"left {_clock(left)}", *figures])


def _shown(known: Mapping[str, float]) -> list[str]:
    losses = [name for name in known if name.startswith("loss")]
    return [name for name in SHORT if name in known] + losses


def _clock(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class _Line(Protocol):
    """Output of the progress bar."""

    def show(self, share: float, text: str) -> None: ...

    def close(self) -> None: ...


class _PlainLine:
    """Plain text: overwritten on a terminal, line by line elsewhere."""

    def __init__(self, stream: TextIO, is_terminal: bool) -> None:
        self._stream, self._is_terminal = stream, is_terminal
        self._width = 0

    def show(self, share: float, text: str) -> None:
        line = f"{share:4.0%}  {text}"
        if self._is_terminal:
            self._stream.write(f"\r{line:<{self._width}}")
            self._width = len(line)
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()

    def close(self) -> None:
        if self._is_terminal and self._width:
            self._stream.write("\n")
            self._stream.flush()


class _RichLine:
    """Progress bar of rich."""

    def __init__(self, stream: TextIO) -> None:
        parts, console = import_module("rich.progress"), import_module("rich.console")
        column = import_module("rich.table").Column
        self._bar: Any = parts.Progress(
            parts.BarColumn(bar_width=20, table_column=column(min_width=20)),
            parts.TaskProgressColumn(table_column=column(min_width=4)),
            parts.TextColumn(
                "{task.description}",
                markup=False,
                table_column=column(no_wrap=True, overflow="ellipsis"),
            ),
            console=console.Console(file=stream),
        )
        self._task = self._bar.add_task("", total=1.0)
        self._bar.start()

    def show(self, share: float, text: str) -> None:
        self._bar.update(self._task, completed=share, description=text)

    def close(self) -> None:
        self._bar.stop()


def _rich() -> Any:
    try:
        return import_module("rich.progress")
    except ImportError:
        return None


MetricsWriter = Callable[[int, Mapping[str, float]], object]
"""Called with the steps so far and the known metrics."""


class Track(Callback):
    """Writes metrics for TensorBoard, or passes metrics or episodes on.

    Args:
        to: a folder for TensorBoard event files; a `StatsTracker`, which receives every episode
            (with a duration of NaN, because envs act together); or a function, called with the
            steps so far and the metrics.
    """

    def __init__(self, to: str | os.PathLike[str] | StatsTracker | MetricsWriter) -> None:
        self.tracker: StatsTracker | None = None
        self.writer: MetricsWriter | None = None
        self._event_file: EventFile | None = None
        if isinstance(to, (str, os.PathLike)):
            self._folder = os.fspath(to)
            self._event_file = self._new_file()
            self.writer = self._write_curves
        elif isinstance(to, StatsTracker):
            self.tracker = to
        elif callable(to):
            self.writer = to
        else:
            raise TypeError(
                f"cannot track to {to!r}; expected a folder, a StatsTracker or a function"
            )

    def on_start(self, agent: Agent) -> None:
        """Have episodes listed for the tracker."""
        if self.tracker is not None:
            agent.episodes.is_listing = True
            self.tracker.on_reset(agent.env_name, agent.seed)

    def after_iteration(self, agent: Agent, metrics: Mapping[str, float]) -> None:
        """Write metrics and episodes."""
        if self.tracker is not None:
            for stats in agent.episodes.ended:
                self.tracker.on_episode_end(stats)
        if self.writer is not None:
            known = {name: value for name, value in metrics.items() if not math.isnan(value)}
            self.writer(agent.steps, known)

    def on_end(self, agent: Agent) -> None:
        """Close the event file."""
        if self._event_file is not None:
            self._event_file.close()
            # Another run starts another file.
            self._event_file = self._new_file()

    def _write_curves(self, steps: int, metrics: Mapping[str, float]) -> None:
        assert self._event_file is not None, "set with this writer"
        self._event_file.add_scalars(steps, metrics)

    def _new_file(self) -> EventFile:
        return EventFile(self._folder, "train", "Track(folder)")
