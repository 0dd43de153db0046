"""Numbers that change while an agent learns."""

from __future__ import annotations

from typing import Literal

__all__ = ["Schedule", "scheduled"]

Schedule = Literal["constant", "linear"]
"""As it is; or straight down to zero at the horizon of the training, see `Agent.fit`."""


def scheduled(start: float, schedule: Schedule, done: float) -> float:
    """The number when a share `done` of all steps is over."""
    return start if schedule == "constant" else start * max(0.0, 1.0 - done)
