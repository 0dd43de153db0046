"""Results of `reset` and `step`: frozen dataclasses that compare by value and unpack like tuples.

`StepResult` and `ResetResult` are created in every step of every env, so their storage is native
(a Python dataclass costs about five times as much). They support the dataclass protocol:
`fields`, `replace`, `asdict`, pattern matching, pickling and frozen attributes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import ResetResult, StepResult
from sekai.storage.display import brief_repr

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
    """Equality by value, arrays element by element, and unpacking. Results are not hashable."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    __repr__ = brief_repr

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = self.__dataclass_fields__  # type: ignore[attr-defined]
        return all(equal_values(getattr(self, name), getattr(other, name)) for name in names)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the field values, so that a result unpacks like a tuple."""
        return iter([getattr(self, name) for name in self.__dataclass_fields__])  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class VecResetResult(_ByValue, Generic[Observations]):
    """Result of resetting N environments."""

    observations: Observations
    infos: Sequence[dict[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class VecStepResult(_ByValue, Generic[Observations]):
    """Result of one step of N environments."""

    observations: Observations
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    infos: Sequence[dict[str, Any]]

    @property
    def dones(self) -> NDArray[np.bool_]:
        """Flags of envs whose episode ended: terminated or truncated."""
        return self.terminated | self.truncated


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class MAResetResult(_ByValue):
    """Result of resetting a multi-agent environment, by agent name."""

    observations: dict[str, Any]
    info: dict[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class MAStepResult(_ByValue):
    """Result of one step of a multi-agent environment, by agent name."""

    observations: dict[str, Any]
    rewards: dict[str, float]
    terminated: dict[str, bool]
    truncated: dict[str, bool]
    info: dict[str, dict[str, Any]]

    @property
    def dones(self) -> dict[str, bool]:
        """Flag per agent: terminated or truncated. Flags are matched by name, not by position."""
        names = dict.fromkeys((*self.terminated, *self.truncated))
        return {
            name: bool(self.terminated.get(name, False) or self.truncated.get(name, False))
            for name in names
        }

    @property
    def all_done(self) -> bool:
        """True if every agent is done."""
        return all(self.dones.values())

    @property
    def any_done(self) -> bool:
        """True if at least one agent is done."""
        return any(self.dones.values())


class _Frozen(_ByValue):
    """Methods that a native record lacks to be a frozen dataclass."""

    __slots__ = ()
    __match_args__: tuple[str, ...]

    def __setattr__(self, name: str, value: Any) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), tuple(getattr(self, name) for name in self.__match_args__)

    def __replace__(self, /, **changes: Any) -> Any:
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


def _give_dataclass_protocol(native: type, fields: type) -> None:
    """Add the frozen dataclass protocol of `fields` to a native record."""
    for name in ("__setattr__", "__delattr__", "__reduce__", "__replace__"):
        setattr(native, name, vars(_Frozen)[name])
    for name in ("__eq__", "__hash__", "__repr__"):
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


def equal_values(left: Any, right: Any) -> bool:
    """Return True if two nested values are equal: arrays element by element, NaN equal to NaN.

    NaN counts as equal because a result must equal its own copy: two runs that produced the same
    bytes are the same run.
    """
    if left is right:
        return True
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal_values(left[k], right[k]) for k in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        same_kind = isinstance(left, list) == isinstance(right, list)
        return same_kind and len(left) == len(right) and all(map(equal_values, left, right))
    if hasattr(left, "__array__") and hasattr(right, "__array__"):
        return _equal_arrays(np.asarray(left), np.asarray(right))
    return _equal_scalars(left, right)


def _equal_arrays(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if left.dtype == object:
        return all(map(equal_values, left.ravel().tolist(), right.ravel().tolist()))
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fc"))


def _equal_scalars(left: Any, right: Any) -> bool:
    if isinstance(left, (float, np.floating)) and isinstance(right, (float, np.floating)):
        return bool(left == right or (left != left and right != right))
    return bool(np.all(left == right))
