"""Call order: reject `step` before `reset`, after the end of an episode and after `close`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sekai.core.autoreset import has_autoreset
from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import Wrapper
from sekai.error import ClosedError, ResetRequired


class CallOrder:
    """State of an env between construction and close."""

    def __init__(self) -> None:
        self.running = False
        self._closed = False
        self._begun = False

    def begin(self) -> None:
        """Record that an episode has started."""
        self.running = self._begun = True

    def close(self) -> bool:
        """Record that the env is closed; return True if it was open."""
        was_open = not self._closed
        self.running, self._closed = False, True
        return was_open

    def check_open(self) -> None:
        """Raise `ClosedError` if the env is closed."""
        if self._closed:
            raise ClosedError("env is closed; create a new one")

    def state_dict(self) -> dict[str, bool]:
        """Return the flags of a running and of any earlier episode."""
        return {"running": self.running, "begun": self._begun}

    def load_state_dict(self, state: Mapping[str, bool]) -> None:
        """Restore a saved state; a closed env stays closed."""
        self.check_open()
        self.running, self._begun = bool(state["running"]), bool(state["begun"])

    def refusal(self) -> Exception:
        """Return the error for a step that is not allowed now."""
        if self._closed:
            return ClosedError("step() called on a closed env; create a new one")
        if self._begun:
            return ResetRequired("episode is over; call reset() to start the next one")
        return ResetRequired("step() called before reset(); call reset() first")


class OrderEnforcing(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Wrapper that raises `ResetRequired` for a `step()` before `reset()` or after an episode.

    After `close()` both raise `ClosedError`. The env is never stepped in these cases.
    """

    def __init__(self, env: Env[ObsType, ActType]) -> None:
        super().__init__(env)
        self._order = CallOrder()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Start an episode, or raise `ClosedError` if the env is closed."""
        self._order.check_open()
        return super().reset(seed=seed, options=options)

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Start an episode without blocking the event loop."""
        self._order.check_open()
        return await super().async_reset(seed=seed, options=options)

    def close(self) -> None:
        """Close the env; a second call does nothing."""
        if self._order.close():
            super().close()

    def _map_action(self, action: ActType) -> ActType:
        if not self._order.running:
            raise self._order.refusal()
        return action

    def _map_step(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        # If an inner wrapper has started the next episode, steps may continue.
        if result.done and not has_autoreset(result):
            self._order.running = False
        return result

    def _map_reset(self, result: ResetResult[ObsType], seed: int | None) -> ResetResult[ObsType]:
        self._order.begin()
        return result
