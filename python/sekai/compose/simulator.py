"""The contract of what is simulated: one episode, from a seed to its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from sekai.compose.attached import Attached

__all__ = ["ActType", "InitialStateType", "Simulator", "StateType"]

InitialStateType = TypeVar("InitialStateType")
StateType = TypeVar("StateType")
ActType = TypeVar("ActType")


class Simulator(Attached, ABC, Generic[InitialStateType, StateType, ActType]):
    """One episode: made from its seed, changed by `step` alone, and thrown away at its end.

    There is no `reset`: the next episode is another simulator. `self.env` is the `EnvWrapper` it
    runs in (None in the constructor); a simulator that is random draws from `self.env.rng`. One
    that has a `close()` is closed when its episode is over, one that has a `render()` is drawn by
    `EnvWrapper.render`. Its state is saved by copying it deeply.
    """

    def __init__(self, initial: InitialStateType, **kwargs: Any) -> None:
        """Begin at `initial`, the seed of the episode; subclasses say what else they take."""

    @abstractmethod
    def step(self, action: ActType) -> None:
        """Move on by one decision; a refused action changes nothing."""

    @abstractmethod
    def get_state(self) -> StateType:
        """Everything there is to know now."""

    @abstractmethod
    def done(self) -> bool:
        """Whether the episode is over."""
