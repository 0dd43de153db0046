"""Single-agent environment API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sekai.core.base import BaseEnv
from sekai.core.result import ResetResult, StepResult
from sekai.core.sync_async import derive_missing_methods

if TYPE_CHECKING:
    from sekai.spaces import Space

__all__ = ["ActType", "Env", "ObsType"]

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")


class Env(BaseEnv, Generic[ObsType, ActType]):
    """Single-agent environment.

    Subclasses set `observation_space` and `action_space` in `__init__` and define `reset` and
    `step`, or `async_reset` and `async_step`; the other two methods are derived.
    """

    observation_space: Space[ObsType]
    action_space: Space[ActType]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        derive_missing_methods(cls, ("reset", "step"), Env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Start an episode and return its first observation.

        Implementations call `self._set_rng(seed)` first.
        """
        raise NotImplementedError

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Apply an action and return the next observation, reward, flags and info."""
        raise NotImplementedError

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Start an episode without blocking the event loop."""
        raise NotImplementedError

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """Apply an action without blocking the event loop."""
        raise NotImplementedError

    @property
    def unwrapped(self) -> Env[Any, Any]:
        """Base env inside all wrappers."""
        return self
