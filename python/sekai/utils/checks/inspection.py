"""What all checks of one `check_env` call share."""

from __future__ import annotations

import dataclasses
from typing import Any

from sekai.utils.checks.report import Report
from sekai.utils.checks.rollout import Event
from sekai.utils.checks.subject import Subject

__all__ = ["Inspection", "whose"]


@dataclasses.dataclass(slots=True)
class Inspection:
    """An env, what is asked of it, and what is known about it so far."""

    subject: Subject
    report: Report
    n_steps: int
    seed: int
    events: list[Event] = dataclasses.field(default_factory=list)
    """The first run with `seed`, which the others are compared with."""

    @property
    def env(self) -> Any:
        """The env itself."""
        return self.subject.env


def whose(agent: str) -> str:
    """`" of agent 'a'"`, or nothing where there is only one."""
    return f" of agent {agent!r}" if agent else ""
