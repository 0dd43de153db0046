"""Checkpoint callback: saves the agent during training."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sekai.policy.settings import require
from sekai.training.callbacks.callback import Callback, Mode, Monitor

if TYPE_CHECKING:
    from sekai.training.agent import Agent

__all__ = ["Checkpoint", "latest_checkpoint"]

BEST = "best.safetensors"
SUFFIX = ".safetensors"
DIGITS = 8


class Checkpoint(Callback):
    """Saves the agent every few iterations or seconds, and when training ends or is interrupted.

    Files are named by iteration, written atomically, and include the states of all callbacks.

    Args:
        folder: folder of the files; created if missing.
        every: iterations between files; None to save by time only.
        seconds: seconds between files; None to save by iterations only.
        keep: number of files that are kept.
        monitor: metric; the agent with its best value is saved as `best.safetensors`.
        mode: "max" or "min".
        envs: as in `Agent.save`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        every: int | None = 10,
        seconds: float | None = None,
        keep: int = 3,
        monitor: str | None = None,
        mode: Mode = "max",
        envs: bool | None = None,
    ) -> None:
        require(every is None or every >= 1, "every", "None or at least 1 iteration", every)
        require(seconds is None or seconds > 0, "seconds", "None or above 0", seconds)
        require(
            every is not None or seconds is not None,
            "every",
            "a number where seconds is None",
            every,
        )
        require(keep >= 1, "keep", "at least 1", keep)
        self.folder = Path(folder)
        self.every, self.seconds, self.keep, self.envs = every, seconds, keep, envs
        self.monitor = None if monitor is None else Monitor(monitor, mode)
        self._begin(0)

    def _begin(self, iterations: int) -> None:
        self.best: float | None = None
        self._saved_at = iterations
        self._time = time.monotonic()

    def on_start(self, agent: Agent) -> None:
        """Refuse a folder with later checkpoints of another run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        later = [number for number in _numbered(self.folder) if number > agent.iterations]
        if later:
            raise ValueError(
                f"{self.folder} holds iteration {max(later)}, and this training is at "
                f"{agent.iterations}: resume from latest_checkpoint(folder), or take another folder"
            )
        for broken in self.folder.glob(f".*{SUFFIX}-*"):
            # Left by a killed process.
            broken.unlink(missing_ok=True)
        self._begin(agent.iterations)

    def after_iteration(self, agent: Agent, metrics: Mapping[str, float]) -> None:
        """Save if it is due."""
        value = None if self.monitor is None else self.monitor.value(metrics)
        is_best = value is not None and self._is_best(value)
        if is_best:
            self.best = value
            self._write(agent, BEST)
        if self._is_time(agent):
            self._save(agent)

    def on_end(self, agent: Agent) -> None:
        """Save the last iteration, unless an error interrupted it."""
        if agent.is_between_iterations and agent.iterations > self._saved_at:
            self._save(agent)

    def state_dict(self) -> dict[str, Any]:
        """Best value so far."""
        return {"best": self.best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the best value."""
        self.best = None if state["best"] is None else float(state["best"])

    def _is_best(self, value: float) -> bool:
        assert self.monitor is not None, "there is a value of it"
        return self.best is None or self.monitor.is_better(value, self.best)

    def _is_time(self, agent: Agent) -> bool:
        if self.every is not None and agent.iterations % self.every == 0:
            return True
        return self.seconds is not None and time.monotonic() - self._time >= self.seconds

    def _save(self, agent: Agent) -> None:
        self._write(agent, f"{agent.iterations:0{DIGITS}d}{SUFFIX}")
        self._saved_at, self._time = agent.iterations, time.monotonic()
        files = _numbered(self.folder)
        for number in sorted(files)[: -self.keep]:
            files[number].unlink(missing_ok=True)

    def _write(self, agent: Agent, name: str) -> None:
        agent.save(self.folder / name, envs=self.envs)


def latest_checkpoint(folder: str | os.PathLike[str]) -> Path | None:
    """Path of the latest checkpoint in a folder; None if there is none."""
    files = _numbered(Path(folder))
    return files[max(files)] if files else None


def _numbered(folder: Path) -> dict[int, Path]:
    files = folder.glob(f"*{SUFFIX}")
    return {int(file.stem): file for file in files if file.stem.isascii() and file.stem.isdigit()}
