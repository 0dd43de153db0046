"""Results of resets and steps: frozen, slotted dataclasses that compare by value and unpack.

`StepResult` and `ResetResult` are made on every step of every env, so their storage is native
(a Python dataclass costs about five times as much). To their users they are dataclasses:
`fields`, `replace`, `asdict`, pattern matching, pickling and frozen attributes all work.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import ResetResult, StepResult
from sekai.core.equality import equal_values

__all__ = [
    "MAResetResult",
    "MAStepResult",
    "ResetResult",
    "StepResult",
    "VecResetResult",
    "VecStepResult",
]

Observations = TypeVar("Observations")


class _ByValue:
    """Equality of all fields, arrays element by element; unpacking. Results are not hashable."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = self.__dataclass_fields__  # type: ignore[attr-defined]
        return all(equal_values(getattr(self, name), getattr(other, name)) for name in names)

    def __iter__(self) -> Iterator[Any]:
        """The values of the fields in their order, so that a result unpacks like a tuple."""
        return iter([getattr(self, name) for name in self.__dataclass_fields__])  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class VecResetResult(_ByValue, Generic[Observations]):
    """What resetting N environments gave back."""

    observations: Observations
    infos: Sequence[dict[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class VecStepResult(_ByValue, Generic[Observations]):
    """What one step of N environments gave back."""

    observations: Observations
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    infos: Sequence[dict[str, Any]]

    @property
    def dones(self) -> NDArray[np.bool_]:
        """Where an episode ended: terminated or truncated."""
        return self.terminated | self.truncated


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class MAResetResult(_ByValue):
    """What resetting a multi-agent environment gave back, by agent name."""

    observations: dict[str, Any]
    info: dict[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class MAStepResult(_ByValue):
    """What one step of a multi-agent environment gave back, by agent name."""

    observations: dict[str, Any]
    rewards: dict[str, float]
    terminated: dict[str, bool]
    truncated: dict[str, bool]
    info: dict[str, dict[str, Any]]

    @property
    def dones(self) -> dict[str, bool]:
        """For each agent, whether it is out. Flags are paired by name, not by position."""
        names = dict.fromkeys((*self.terminated, *self.truncated))
        return {
            name: bool(self.terminated.get(name, False) or self.truncated.get(name, False))
            for name in names
        }

    @property
    def all_done(self) -> bool:
        """Whether no agent is left."""
        return all(self.dones.values())

    @property
    def any_done(self) -> bool:
        """Whether at least one agent is out."""
        return any(self.dones.values())


class _Frozen(_ByValue):
    """What a native record lacks to be a frozen dataclass."""

    __slots__ = ()
    __match_args__: tuple[str, ...]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__name__}({shown})"

    def __setattr__(self, name: str, value: Any) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), tuple(getattr(self, name) for name in self.__match_args__)

    def __replace__(self, /, **changes: Any) -> Any:
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


def _give_dataclass_protocol(native: type, fields: type) -> None:
    """Let a native record with the names of `fields` behave as that frozen dataclass."""
    for name in ("__repr__", "__setattr__", "__delattr__", "__reduce__", "__replace__"):
        setattr(native, name, vars(_Frozen)[name])
    for name in ("__eq__", "__hash__"):
        setattr(native, name, vars(_ByValue)[name])
    for name in ("__dataclass_fields__", "__dataclass_params__", "__match_args__"):
        setattr(native, name, getattr(fields, name))
    native.__slots__ = fields.__match_args__  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True, eq=False)
class _StepFields:
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


@dataclasses.dataclass(frozen=True, eq=False)
class _ResetFields:
    observation: Any
    info: dict[str, Any]


_give_dataclass_protocol(StepResult, _StepFields)
_give_dataclass_protocol(ResetResult, _ResetFields)
