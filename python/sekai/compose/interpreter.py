"""Between policy and simulator: what is shown of a state, and what an action means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from sekai.compose.attached import Component
from sekai.compose.simulator import ActType, StateType
from sekai.compose.validation import validate_space
from sekai.core.env import ObsType

if TYPE_CHECKING:
    from sekai.spaces import Space

__all__ = ["ActionInterpreter", "Interpreter", "PolicyActType", "StateInterpreter"]

PolicyActType = TypeVar("PolicyActType")


class Interpreter(Component, ABC):
    """Translates and checks; meant to have no state of its own.

    A subclass writes `interpret` and has a space: an attribute that is declared in the class and
    set in `__init__`, or a property. It is asked for with every call, so let a property give the
    same object every time (`functools.cached_property` does).
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        definer = next((one for one in cls.__mro__ if "__call__" in vars(one)), cls)
        if cls.__module__ != __name__ and definer.__module__ != __name__:
            raise TypeError(
                f"{definer.__qualname__} defines __call__, which is final in an interpreter: it "
                f"interprets and checks; write interpret() instead"
            )


class StateInterpreter(Interpreter, Generic[StateType, ObsType]):
    """Makes the observation of a state."""

    if TYPE_CHECKING:

        @property
        def observation_space(self) -> Space[Any]:
            """What every observation belongs to."""

    @final
    def __call__(self, simulator_state: StateType) -> ObsType:
        """The observation of the state, which belongs to `observation_space`."""
        obs = self.interpret(simulator_state)
        self.validate(obs)
        return obs

    def validate(self, obs: ObsType) -> None:
        """Raise `SpaceValidationError` unless the observation belongs to the space."""
        validate_space(self.observation_space, obs, f"the observation of {type(self).__name__}")

    @abstractmethod
    def interpret(self, simulator_state: StateType) -> ObsType:
        """What the policy sees of the state."""


class ActionInterpreter(Interpreter, Generic[StateType, PolicyActType, ActType]):
    """Makes what a simulator takes of what a policy wants."""

    if TYPE_CHECKING:

        @property
        def action_space(self) -> Space[Any]:
            """What every action of the policy belongs to."""

    @final
    def __call__(self, simulator_state: StateType, action: PolicyActType) -> ActType:
        """What the action means in the state; the action must belong to `action_space`."""
        self.validate(action)
        return self.interpret(simulator_state, action)

    def validate(self, action: PolicyActType) -> None:
        """Raise `SpaceValidationError` unless the action belongs to the space."""
        validate_space(self.action_space, action, f"the action for {type(self).__name__}")

    @abstractmethod
    def interpret(self, simulator_state: StateType, action: PolicyActType) -> ActType:
        """What the simulator is given."""
