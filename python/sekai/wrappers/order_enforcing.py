"""Refuse calls that come in the wrong order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sekai.core.autoreset import has_reset_itself
from sekai.core.env import ActType, Env, ObsType
from sekai.core.result import ResetResult, StepResult
from sekai.core.wrapper import Wrapper
from sekai.error import ClosedError, ResetRequired

__all__ = ["CallOrder", "OrderEnforcing"]


class CallOrder:
    """Where an env is between construction and close."""

    def __init__(self) -> None:
        self.running = False
        self._closed = False
        self._begun = False

    def begin(self) -> None:
        """An episode has begun."""
        self.running = self._begun = True

    def close(self) -> bool:
        """The env is closed for good; tell whether it was open until now."""
        was_open = not self._closed
        self.running, self._closed = False, True
        return was_open

    def check_open(self) -> None:
        """Raise if the env is closed."""
        if self._closed:
            raise ClosedError("the env is closed: make a new one")

    def state_dict(self) -> dict[str, bool]:
        """Whether an episode runs and whether one ever began."""
        return {"running": self.running, "begun": self._begun}

    def load_state_dict(self, state: Mapping[str, bool]) -> None:
        """Continue from a saved state; what is closed stays closed."""
        self.check_open()
        self.running, self._begun = bool(state["running"]), bool(state["begun"])

    def refusal(self) -> Exception:
        """Why a step is refused now."""
        if self._closed:
            return ClosedError("step() was called on a closed env: make a new one")
        if self._begun:
            return ResetRequired("the episode is over: call reset() to begin the next one")
        return ResetRequired("step() was called before reset(): call reset() first")


class OrderEnforcing(Wrapper[ObsType, ActType, ObsType, ActType]):
    """Raises `ResetRequired` when `step()` comes before `reset()` or after the episode's end.

    After `close()` both raise `ClosedError`. In every case nothing has moved.
    """

    def __init__(self, env: Env[ObsType, ActType]) -> None:
        super().__init__(env)
        self._order = CallOrder()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Begin an episode, unless the env is closed."""
        self._order.check_open()
        return super().reset(seed=seed, options=options)

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Begin an episode, unless the env is closed."""
        self._order.check_open()
        return await super().async_reset(seed=seed, options=options)

    def close(self) -> None:
        """Release what the env holds; a second call does nothing."""
        if self._order.close():
            super().close()

    def _map_action(self, action: ActType) -> ActType:
        if not self._order.running:
            raise self._order.refusal()
        return action

    def _map_step(self, result: StepResult[ObsType]) -> StepResult[ObsType]:
        # Where a layer below has begun the next episode already, steps may go on.
        if result.done and not has_reset_itself(result):
            self._order.running = False
        return result

    def _map_reset(self, result: ResetResult[ObsType], seed: int | None) -> ResetResult[ObsType]:
        self._order.begin()
        return result
