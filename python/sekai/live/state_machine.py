"""State machine of a live session: states, triggers and allowed transitions.

| state | meaning |
|---|---|
| starting | connecting to the broker and recovering |
| trading | deciding on every row |
| halted | not trading: the broker does not answer, or the episode is over |
| killed | not trading: the kill switch is on |
| stopped | ended as configured |
| failed | aborted by an error or an interrupt; open orders may remain at the broker |

A session that ends while it is halted or killed keeps that state, so that monitors show why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "TERMINAL_STATES",
    "TRANSITIONS",
    "Component",
    "SessionState",
    "SessionStateMachine",
    "Transition",
    "Trigger",
]

SessionState = Literal["starting", "trading", "halted", "killed", "stopped", "failed"]
Component = Literal["runner", "session", "execution"]
Trigger = Literal[
    "start",
    "kill",
    "release",
    "broker_lost",
    "broker_reconnected",
    "episode_over",
    "stop",
    "fail",
]

TERMINAL_STATES: frozenset[SessionState] = frozenset({"stopped", "failed"})


@dataclass(frozen=True, slots=True)
class Transition:
    """Transition of the state machine: who may trigger it, from which states, to which state."""

    by: Component
    sources: tuple[SessionState, ...]
    target: SessionState | None = None
    """None returns to the state that the trigger `resumes` interrupted."""

    resumes: Trigger | None = None


TRANSITIONS: Mapping[Trigger, Transition] = {
    "start": Transition("runner", ("starting",), "trading"),
    "kill": Transition("runner", ("trading", "halted"), "killed"),
    "release": Transition("runner", ("killed",), resumes="kill"),
    "broker_lost": Transition("execution", ("starting", "trading", "halted", "killed"), "halted"),
    "broker_reconnected": Transition("execution", ("halted",), resumes="broker_lost"),
    "episode_over": Transition("session", ("trading", "killed"), "halted"),
    "stop": Transition("runner", ("trading",), "stopped"),
    "fail": Transition("runner", ("starting", "trading", "halted", "killed"), "failed"),
}


class SessionStateMachine:
    """Current state of a session and its reason; changes only by `TRANSITIONS`."""

    def __init__(self) -> None:
        self._state: SessionState = "starting"
        self._reason = ""
        self._interrupted: dict[Trigger, tuple[SessionState, str]] = {}

    @property
    def state(self) -> SessionState:
        """Current state."""
        return self._state

    @property
    def reason(self) -> str:
        """Reason of the current state; empty while trading."""
        return self._reason

    @property
    def is_terminal(self) -> bool:
        """True if the session has ended as stopped or failed."""
        return self._state in TERMINAL_STATES

    def allows(self, trigger: Trigger, by: Component) -> bool:
        """Return True if `by` may fire `trigger` in the current state."""
        transition = TRANSITIONS[trigger]
        if transition.by != by or self._state not in transition.sources:
            return False
        return transition.resumes is None or transition.resumes in self._interrupted

    def fire(self, trigger: Trigger, by: Component, reason: str = "") -> None:
        """Apply a trigger.

        Raises:
            RuntimeError: the transition is not allowed; the state is unchanged.
        """
        if not self.allows(trigger, by):
            raise RuntimeError(
                f"trigger {trigger!r} by {by} is not allowed in state {self._state!r}; "
                f"expected {TRANSITIONS[trigger]}"
            )
        transition = TRANSITIONS[trigger]
        before = (self._state, self._reason)
        if transition.resumes is not None:
            self._state, self._reason = self._interrupted.pop(transition.resumes)
        elif transition.target is not None:
            self._interrupted[trigger] = before
            self._state, self._reason = transition.target, reason
