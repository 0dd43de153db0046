"""Tells writers of episodes as a vector env would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from sekai.compose import LogLevel, LogWriter

Steps = Sequence[Mapping[str, Any]]


def log_of(values: Mapping[str, Any], level: int = LogLevel.PERIODIC) -> dict[str, Any]:
    """The info of a step in which `values` were logged."""
    return {"log": {name: (level, value) for name, value in values.items()}}


def tell(writer: LogWriter, steps: Steps, env_id: int = 0) -> None:
    """One episode, with what was logged in each of its steps."""
    writer.on_env_reset(env_id, None)
    for number, values in enumerate(steps, start=1):
        reward = values.get("reward", 0.0)
        writer.on_env_step(env_id, None, reward, number == len(steps), log_of(values))


def tell_all(writer: LogWriter, episodes: Sequence[Steps]) -> None:
    """A whole collection of episodes."""
    writer.on_env_all_ready()
    for steps in episodes:
        tell(writer, steps)
    writer.on_env_all_done()


def broken_off(writer: LogWriter, steps: Steps) -> NoReturn:
    """One episode, and an error after it."""
    tell(writer, steps)
    raise RuntimeError("the collection was broken off")
