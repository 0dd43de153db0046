"""State machine of a live session: lifecycle, trading state, and the causes that restrict trading.

The lifecycle is starting -> running -> stopped or failed. The trading state is `active`, `reducing`
(only orders that reduce a position are sent) or `halted` (no orders are sent), as the strictest of
the causes that hold. Causes are independent of each other: each is raised and cleared by one
component, and trading resumes when the last one is cleared.

| status | meaning |
|---|---|
| starting | connecting to the broker and recovering |
| trading | deciding on every row |
| reducing | only reductions are sent: see the causes |
| halted | not trading: see the causes |
| killed | not trading: the kill switch is on |
| stopped | ended as configured |
| failed | aborted by an error or an interrupt; open orders may remain at the broker |

A session that ends while it is halted or killed keeps that state, so that monitors show why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

__all__ = [
    "CAUSES",
    "Cause",
    "CauseName",
    "Component",
    "Lifecycle",
    "SessionState",
    "SessionStateMachine",
    "TradingState",
]

Lifecycle = Literal["starting", "running", "stopped", "failed"]
TradingState = Literal["active", "reducing", "halted"]
SessionState = Literal["starting", "trading", "reducing", "halted", "killed", "stopped", "failed"]
Component = Literal["runner", "session", "execution", "watchdog"]
CauseName = Literal[
    "kill",
    "stalled",
    "folder_replaced",
    "broker_lost",
    "order_unknown",
    "account_mismatch",
    "loss_limit",
    "episode_over",
]


@dataclass(frozen=True, slots=True)
class Cause:
    """Cause that restricts trading: the trading state it demands, and who raises and clears it."""

    level: Literal["reducing", "halted"]
    by: Component


CAUSES: Mapping[CauseName, Cause] = {
    "kill": Cause("halted", "watchdog"),
    "stalled": Cause("halted", "watchdog"),
    "folder_replaced": Cause("halted", "watchdog"),
    "broker_lost": Cause("halted", "execution"),
    "order_unknown": Cause("reducing", "execution"),
    "account_mismatch": Cause("reducing", "session"),
    "loss_limit": Cause("halted", "session"),
    "episode_over": Cause("halted", "session"),
}

_NEXT: Mapping[Lifecycle, tuple[Lifecycle, ...]] = {
    "starting": ("running", "failed"),
    "running": ("stopped", "failed"),
    "stopped": (),
    "failed": (),
}


class SessionStateMachine:
    """Lifecycle and trading state of a session.

    Each component replaces a mapping of its own, so that the watchdog's thread and the session
    share no lock.
    """

    def __init__(self) -> None:
        self._lifecycle: Lifecycle = "starting"
        self._end_reason = ""
        self._raised: dict[Component, Mapping[CauseName, str]] = {
            component: {} for component in get_args(Component)
        }

    @property
    def lifecycle(self) -> Lifecycle:
        """Lifecycle of the session."""
        return self._lifecycle

    @property
    def is_terminal(self) -> bool:
        """True if the session has ended as stopped or failed."""
        return self._lifecycle in ("stopped", "failed")

    @property
    def causes(self) -> dict[CauseName, str]:
        """Causes that hold, with their reasons, in the order of `CAUSES`."""
        raised = {name: reason for part in self._raised.values() for name, reason in part.items()}
        return {name: raised[name] for name in CAUSES if name in raised}

    @property
    def trading_state(self) -> TradingState:
        """Strictest trading state that a cause demands."""
        levels = {CAUSES[name].level for part in self._raised.values() for name in part}
        if "halted" in levels:
            return "halted"
        return "reducing" if levels else "active"

    @property
    def state(self) -> SessionState:
        """State in one word, for monitors."""
        if self._lifecycle == "failed":
            return "failed"
        trading = self.trading_state
        if trading == "halted":
            return "killed" if "kill" in self._raised["watchdog"] else "halted"
        if self._lifecycle == "running":
            return "reducing" if trading == "reducing" else "trading"
        return self._lifecycle

    @property
    def reason(self) -> str:
        """Reasons of the current state; empty while trading."""
        if self._lifecycle == "failed" or (self._end_reason and self.state == "stopped"):
            return self._end_reason
        causes = self.causes
        if "kill" in causes:
            return causes["kill"]
        level = self.trading_state
        return "; ".join(reason for name, reason in causes.items() if CAUSES[name].level == level)

    def raise_cause(self, name: CauseName, by: Component, reason: str) -> bool:
        """Restrict trading for a cause; return True if it is new.

        Raises:
            RuntimeError: another component owns the cause.
        """
        self._require_owner(name, by)
        is_new = name not in self._raised[by]
        if is_new or self._raised[by][name] != reason:
            self._raised[by] = {**self._raised[by], name: reason}
        return is_new

    def clear_cause(self, name: CauseName, by: Component) -> bool:
        """Remove a cause; return True if it held."""
        self._require_owner(name, by)
        if name not in self._raised[by]:
            return False
        self._raised[by] = {
            other: reason for other, reason in self._raised[by].items() if other != name
        }
        return True

    def holds(self, name: CauseName) -> bool:
        """Return True if a cause holds."""
        return name in self._raised[CAUSES[name].by]

    def advance(self, lifecycle: Lifecycle, reason: str = "") -> None:
        """Enter the next stage of the lifecycle.

        Raises:
            RuntimeError: the stage cannot follow; nothing has changed.
        """
        if lifecycle not in _NEXT[self._lifecycle]:
            raise RuntimeError(
                f"lifecycle {lifecycle!r} cannot follow {self._lifecycle!r}; expected one of "
                f"{_NEXT[self._lifecycle]}"
            )
        self._lifecycle, self._end_reason = lifecycle, reason

    def _require_owner(self, name: CauseName, by: Component) -> None:
        if CAUSES[name].by != by:
            raise RuntimeError(f"cause {name!r} belongs to {CAUSES[name].by}, got {by}")
