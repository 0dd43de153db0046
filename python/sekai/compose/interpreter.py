"""Interpreters between policy and simulator, and validation against their spaces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

import numpy as np

from sekai.compose.component import Component
from sekai.compose.simulator import ActType, StateType
from sekai.core.env import ObsType
from sekai.error import SpaceError
from sekai.spaces import Box, Dict, Space, Tuple
from sekai.spaces.blank import blank_sample, is_blank
from sekai.spaces.nested import nested_mismatch

__all__ = [
    "ActionInterpreter",
    "Interpreter",
    "PolicyActType",
    "SpaceValidationError",
    "StateInterpreter",
    "check_nan_observation",
    "generate_nan_observation",
    "validate_space",
]

PolicyActType = TypeVar("PolicyActType")


class Interpreter(Component, ABC):
    """Base of interpreters, which convert and validate and have no state.

    A subclass implements `interpret` and has a space: an attribute declared in the class and set in
    `__init__`, or a property. The space is read at every call, so a property should return the
    same object every time (`functools.cached_property`).
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        definer = next((base for base in cls.__mro__ if "__call__" in vars(base)), cls)
        if cls.__module__ != __name__ and definer.__module__ != __name__:
            raise TypeError(
                f"{definer.__qualname__} overrides __call__, which is final in an interpreter; "
                "implement interpret() instead"
            )


class StateInterpreter(Interpreter, Generic[StateType, ObsType]):
    """Converts a simulator state to an observation."""

    if TYPE_CHECKING:

        @property
        def observation_space(self) -> Space[Any]:
            """Space of the observations."""

    @final
    def __call__(self, simulator_state: StateType) -> ObsType:
        """Observation of the state, validated against `observation_space`."""
        obs = self.interpret(simulator_state)
        self.validate(obs)
        return obs

    def validate(self, obs: ObsType) -> None:
        """Raise `SpaceValidationError` unless the observation is in the space."""
        validate_space(self.observation_space, obs, f"the observation of {type(self).__name__}")

    @abstractmethod
    def interpret(self, simulator_state: StateType) -> ObsType:
        """Observation of the state."""


class ActionInterpreter(Interpreter, Generic[StateType, PolicyActType, ActType]):
    """Converts an action of the policy to an action of the simulator."""

    if TYPE_CHECKING:

        @property
        def action_space(self) -> Space[Any]:
            """Space of the policy's actions."""

    @final
    def __call__(self, simulator_state: StateType, action: PolicyActType) -> ActType:
        """Simulator action, after validation of the policy's action against `action_space`."""
        self.validate(action)
        return self.interpret(simulator_state, action)

    def validate(self, action: PolicyActType) -> None:
        """Raise `SpaceValidationError` unless the action is in the space."""
        validate_space(self.action_space, action, f"the action for {type(self).__name__}")

    @abstractmethod
    def interpret(self, simulator_state: StateType, action: PolicyActType) -> ActType:
        """Simulator action for the policy's action."""


class SpaceValidationError(SpaceError):
    """Value outside its space; the cause is the error of the nested value at fault.

    Args:
        message: problem and expectation.
        space: the space.
        sample: the value.
    """

    def __init__(self, message: str, space: Space[Any], sample: Any) -> None:
        super().__init__(message)
        self.message = message
        self.space = space
        self.sample = sample

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.space, self.sample)


def validate_space(space: Space[Any], sample: Any, subject: str = "the value") -> None:
    """Raise unless `sample` is in `space`.

    Dicts need exactly the keys of the space; a list or array passes for a tuple. Leaves are
    checked by the space itself, and NaN is rejected.

    Args:
        space: the space.
        sample: the value.
        subject: name of the value in the message.

    Raises:
        SpaceValidationError: the value is not in the space.
    """
    fault = _fault(space, sample)
    if fault is not None:
        message = f"{subject} does not fit {space}: {fault.message}"
        raise SpaceValidationError(message, space, sample) from fault.__cause__


def _fault(space: Space[Any], sample: Any) -> SpaceValidationError | None:
    if isinstance(space, Dict):
        if not isinstance(sample, dict) or sample.keys() != space.spaces.keys():
            return SpaceValidationError(str(space.mismatch(sample)), space, sample)
        return _nested_fault(space, sample, iter(space.spaces.items()))
    if isinstance(space, Tuple):
        if isinstance(sample, list) or (isinstance(sample, np.ndarray) and sample.ndim):
            sample = tuple(sample)
        if not isinstance(sample, tuple) or len(sample) != len(space.spaces):
            return SpaceValidationError(str(space.mismatch(sample)), space, sample)
        return _nested_fault(space, sample, enumerate(space.spaces))
    sentence = space.mismatch(sample) or _nan_mismatch(space, sample)
    return None if sentence is None else SpaceValidationError(sentence, space, sample)


def _nested_fault(
    space: Space[Any], sample: Any, children: Iterator[tuple[Any, Space[Any]]]
) -> SpaceValidationError | None:
    for key, child in children:
        cause = _fault(child, sample[key])
        if cause is not None:
            fault = SpaceValidationError(nested_mismatch(key, cause.message), space, sample)
            fault.__cause__ = cause
            return fault
    return None


def _nan_mismatch(space: Space[Any], sample: Any) -> str | None:
    """Problem with NaN in a space that may accept it; a plain `Box` never does."""
    if type(space) is Box or space.dtype is None or space.dtype.kind != "f":
        return None
    if isinstance(sample, dict):
        return None
    count = int(np.count_nonzero(np.isnan(np.asarray(space.to_numpy(sample), dtype=np.float64))))
    return f"expected numbers, got {count} NaN" if count else None


def generate_nan_observation(space: Space[Any]) -> Any:
    """Placeholder observation of an exhausted env, with the structure and dtypes of the space.

    Floats are NaN, times NaT, integers the largest of their dtype, bools True. `None` could not
    cross shared memory. `info["exhausted"]` is the reliable flag: an observation of integers or
    bools may be at its largest without being a placeholder.
    """
    return blank_sample(space)


def check_nan_observation(obs: Any) -> bool:
    """Return True if the observation is a placeholder of `generate_nan_observation`.

    A plain bool is data: only NumPy arrays and scalars are placeholders.
    """
    return is_blank(obs)
