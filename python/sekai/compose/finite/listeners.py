"""The writers that hear of a finite vector env's episodes."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

from sekai.compose.logs.writer import LogWriter

__all__ = ["Listeners"]

HOOKS = ("on_env_all_ready", "on_env_reset", "on_env_step", "on_env_all_done")


class Listeners:
    """Passes on what happens to every writer, in their order."""

    def __init__(self, logger: LogWriter | list[LogWriter] | None) -> None:
        """Take one writer, a list of writers, or None."""
        if logger is None:
            self.writers = []
        else:
            self.writers = list(logger) if isinstance(logger, (list, tuple)) else [logger]
        for writer in self.writers:
            missing = [name for name in HOOKS if not callable(getattr(writer, name, None))]
            if missing:
                raise TypeError(
                    f"logger must be a sekai.compose.LogWriter, a list of them or None; "
                    f"{writer!r} has no {', '.join(missing)}"
                )
        self._takes_info = [_takes_info(writer) for writer in self.writers]

    def all_ready(self) -> None:
        """A collection begins."""
        for writer in self.writers:
            writer.on_env_all_ready()

    def reset(self, env_id: int, observation: Any, info: Mapping[str, Any]) -> None:
        """A worker has begun an episode."""
        for writer, takes_info in zip(self.writers, self._takes_info, strict=True):
            if takes_info:
                writer.on_env_reset(env_id, observation, info)
            else:
                writer.on_env_reset(env_id, observation)

    def step(
        self, env_id: int, observation: Any, reward: float, done: bool, info: Mapping[str, Any]
    ) -> None:
        """A worker has made a step."""
        for writer in self.writers:
            writer.on_env_step(env_id, observation, reward, done, info)

    def all_done(self) -> None:
        """A collection has come to its end."""
        for writer in self.writers:
            writer.on_env_all_done()

    def broken_off(self) -> None:
        """A collection ends by an exception, which what writers raise now must not hide."""
        for writer in self.writers:
            flush = getattr(writer, "flush", None)
            if flush is not None:
                without_hiding(flush, f"{type(writer).__name__} could not keep what it knew")


def without_hiding(action: Any, what: str) -> None:
    """Do something while an exception is on its way: its own errors become warnings."""
    try:
        action()
    except Exception as error:
        warnings.warn(f"{what}: {error!r}", RuntimeWarning, stacklevel=3)


def _takes_info(writer: LogWriter) -> bool:
    """Whether a writer wants to know what was logged in a reset."""
    try:
        inspect.signature(writer.on_env_reset).bind(0, None, {})
    except TypeError:
        return False
    return True
