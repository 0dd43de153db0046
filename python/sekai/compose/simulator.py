"""Simulator contract: one episode, from its seed to its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from sekai.compose.component import EnvAware

__all__ = ["ActType", "InitialStateType", "Simulator", "StateType"]

InitialStateType = TypeVar("InitialStateType")
StateType = TypeVar("StateType")
ActType = TypeVar("ActType")


class Simulator(EnvAware, ABC, Generic[InitialStateType, StateType, ActType]):
    """Simulator of one episode: made from its seed, changed by `step` alone.

    There is no `reset`: the next episode is another simulator. `self.env` is its `EnvWrapper`
    (None in the constructor); draw random numbers from `self.env.rng`. An optional `close()` is
    called at the end of the episode, an optional `render()` by `EnvWrapper.render`. The state is
    saved as a deep copy.

    Args:
        initial: seed of the episode.
        **kwargs: arguments of subclasses.
    """

    def __init__(self, initial: InitialStateType, **kwargs: Any) -> None:
        pass

    @abstractmethod
    def step(self, action: ActType) -> None:
        """Advance by one decision; a rejected action changes nothing."""

    @abstractmethod
    def get_state(self) -> StateType:
        """Current state."""

    @abstractmethod
    def done(self) -> bool:
        """Return True if the episode is over."""
