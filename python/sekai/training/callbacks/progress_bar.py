"""How far training is, how fast, and how well it goes, on the terminal."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from sekai.training.callbacks.callback import Callback
from sekai.training.settings import require

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["ProgressBar"]

SHORT = {"episode_return": "return", "episode_length": "length", "eval/return": "eval"}


class ProgressBar(Callback):
    """A line that tells steps, steps a second, episodes, losses and the time left.

    It is drawn by rich where that is installed, else as plain text on the standard error stream.
    Where that is no terminal it says nothing, unless asked to: then it writes a line now and then.
    """

    def __init__(
        self, *, always: bool = False, seconds: float = 0.5, stream: TextIO | None = None
    ) -> None:
        """Say when it is to speak.

        Args:
            always: whether it speaks where there is no terminal too.
            seconds: the least time from one line to the next.
            stream: where to; None for the standard error stream.
        """
        require(seconds >= 0, "seconds", "at least 0", seconds)
        self.always, self.seconds, self.stream = always, seconds, stream
        self._line: _Line | None = None

    def on_start(self, agent: Agent) -> None:
        """Begin the line, if there is somebody to read it."""
        stream = sys.stderr if self.stream is None else self.stream
        is_terminal = stream.isatty()
        if is_terminal or self.always:
            rich = _rich() if is_terminal else None
            self._line = _PlainLine(stream, is_terminal) if rich is None else _RichLine(stream)
        self._began = self._told = time.monotonic()
        self._steps_before = agent.steps
        self._known: dict[str, float] = {}

    def after_iteration(self, agent: Agent, metrics: Mapping[str, float]) -> None:
        """Write it anew, if it is time to."""
        self._known.update({name: one for name, one in metrics.items() if not math.isnan(one)})
        now = time.monotonic()
        if self._line is not None and now - self._told >= self.seconds:
            self._told = now
            self._line.show(min(1.0, agent.done_share), self.text(agent))

    def on_end(self, agent: Agent) -> None:
        """Write the last word."""
        line, self._line = self._line, None
        if line is not None:
            if self._known:
                line.show(min(1.0, agent.done_share), self.text(agent))
            line.close()

    def text(self, agent: Agent) -> str:
        """What the line says."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        speed = (agent.steps - self._steps_before) / seconds
        left = (agent.planned_steps - agent.steps) / speed if speed else math.inf
        parts = [f"{agent.steps:,}/{agent.planned_steps:,} steps", f"{speed:,.0f}/s"]
        figures = [f"{SHORT.get(n, n)} {self._known[n]:.4g}" for n in _shown(self._known)]
        # Where the terminal is narrow, what is last is cut off.
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
    """Something that shows how far it is."""

    def show(self, share: float, text: str) -> None: ...

    def close(self) -> None: ...


class _PlainLine:
    """Text that is written over on a terminal, and line by line elsewhere."""

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
    """A bar of the rich package."""

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
