"""The contract of a single-agent environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sekai.core.result import ResetResult, StepResult
from sekai.core.twins import complete_twins
from sekai.core.world import World

if TYPE_CHECKING:
    from sekai.spaces import Space

__all__ = ["ActType", "Env", "ObsType"]

ObsType = TypeVar("ObsType")
ActType = TypeVar("ActType")


class Env(World, Generic[ObsType, ActType]):
    """A world that one agent acts in.

    Subclasses set `observation_space` and `action_space` in `__init__` and write `reset` and
    `step`, or `async_reset` and `async_step`; the twin that is not written follows from the
    one that is.
    """

    observation_space: Space[ObsType]
    action_space: Space[ActType]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        complete_twins(cls, ("reset", "step"), Env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Begin an episode. Call `self._set_rng(seed)` inside."""
        raise NotImplementedError

    def step(self, action: ActType) -> StepResult[ObsType]:
        """Act once."""
        raise NotImplementedError

    async def async_reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ResetResult[ObsType]:
        """Begin an episode without blocking the event loop."""
        raise NotImplementedError

    async def async_step(self, action: ActType) -> StepResult[ObsType]:
        """Act once without blocking the event loop."""
        raise NotImplementedError

    @property
    def unwrapped(self) -> Env[Any, Any]:
        """The env underneath all wrappers."""
        return self
