"""Says at which moments of a run a frame is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Moment", "Trigger", "every_episode", "every_step", "first_steps"]


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a recording stands."""

    episode: int
    """Episodes begun before this one."""

    step: int
    """Steps taken in this episode: 0 right after its reset."""

    total_steps: int
    """Steps taken in all episodes."""


Trigger: TypeAlias = Callable[[Moment], bool]
"""Whether a frame is recorded at a moment."""


def every_episode(number: int) -> Trigger:
    """Record one episode out of `number`, beginning with the first."""
    if number < 1:
        raise ValueError(f"one out of at least 1 episode can be recorded, was {number}")
    return lambda moment: moment.episode % number == 0


def every_step(number: int) -> Trigger:
    """Record one step out of `number` of every episode, beginning with its reset."""
    if number < 1:
        raise ValueError(f"one out of at least 1 step can be recorded, was {number}")
    return lambda moment: moment.step % number == 0


def first_steps(number: int) -> Trigger:
    """Record until `number` steps have been taken, over however many episodes."""
    if number < 0:
        raise ValueError(f"at least 0 steps can be recorded, was {number}")
    return lambda moment: moment.total_steps <= number
