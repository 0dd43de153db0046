"""Native acting: one observation to an action, and network outputs to actions of a space."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quant_gym_rs._core import PolicyActor, PolicyProgram
from sekai.backend import NumpyOps
from sekai.policy.actions import REACH, ActionLayout
from sekai.policy.observations import is_action_mask
from sekai.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Simplex, Space

__all__ = ["NativeActions", "action_kind"]

EXACT = 2.0**53
"""Integers up to here are exact as floats, by which native bounds are compared."""


class Field(NamedTuple):
    """Array of an observation, as `PolicyActor` reads it."""

    key: str | None
    """Key in a dict; None for an observation that is one array."""

    shape: tuple[int, ...]
    dtype: str
    low: list[float]
    """Lower bounds; empty without bounds."""

    high: list[float]
    is_action_mask: bool


class NativeActions:
    """Actions of a space from observations and network outputs, in the native core.

    Weights differ from those of `ActionLayout` by rounding, other actions do not.

    Args:
        program: program whose first output is converted.
        observation_space: observation space of the env.
        layout: layout of the actions.
        slot_mask: leaf with the slots that continuous actions belong to; None without.
    """

    def __init__(
        self,
        program: PolicyProgram,
        observation_space: Space[Any],
        layout: ActionLayout,
        slot_mask: str | None,
    ) -> None:
        self.space = layout.space
        self._slots = slot_mask
        fields = _fields(observation_space) if _is_direct(self.space) else None
        keys = [] if fields is None else [field.key for field in fields]
        if fields is not None and slot_mask is not None and slot_mask not in keys:
            fields = None
        index = None if fields is None or slot_mask is None else keys.index(slot_mask)
        self._is_scalar = isinstance(self.space, Discrete)
        self._dtype = np.dtype(self.space.dtype) if self.space.dtype is not None else None
        kind, sizes, limits = action_kind(self.space, layout)
        shape = () if self._is_scalar else tuple(self.space.shape or ())
        is_float32 = self._dtype == np.float32 and kind != "choices"
        self._actor = PolicyActor(program, kind, sizes, limits, shape, is_float32, fields, index)

    def predict(self, observation: Any) -> Any:
        """Deterministic action for an observation of plain arrays; None for any other value."""
        action = self._actor.predict(observation)
        return action[()] if self._is_scalar and action is not None else action

    def actions(self, outputs: NDArray[np.float32], used: NDArray[Any] | None) -> NDArray[Any]:
        """Actions for a batch of outputs: the most likely choices, weights or numbers.

        Args:
            outputs: batch of logits, or of numbers.
            used: batch of slot masks; None for all.
        """
        if used is not None:
            used = np.ascontiguousarray(used != 0, np.float32)
        actions = self._actor.convert(np.ascontiguousarray(outputs, np.float32), used)
        if self._is_scalar or actions.dtype == self._dtype:
            return actions
        if actions.dtype.kind == "f" and self._dtype is not None and self._dtype.kind in "iu":
            actions = np.rint(actions)
        return actions.astype(self._dtype)


def action_kind(
    space: Space[Any], layout: ActionLayout
) -> tuple[str, list[int], list[tuple[float, float]]]:
    """Kind of actions with its sizes and limits, as the native core reads them."""
    if isinstance(space, (Discrete, MultiDiscrete)):
        starts = np.ravel(np.broadcast_to(np.ravel(space.start), len(layout.choices))).tolist()
        return "choices", [*layout.choices, *starts], []
    if isinstance(space, Simplex):
        return "weights", [layout.size], [(-REACH, REACH)]
    assert isinstance(space, Box), "layouts refuse other spaces"
    low, high = (np.ravel(bound).astype(np.float64).tolist() for bound in (space.low, space.high))
    return "numbers", [], list(zip(low, high, strict=True))


def _is_direct(space: Space[Any]) -> bool:
    """True if the native core makes single actions of a space in their type."""
    if not _is_plain(space):
        return False
    if type(space) is Discrete:
        return True
    if type(space) is MultiDiscrete:
        return space.dtype == np.int64
    is_float = space.dtype in (np.float32, np.float64)
    return type(space) in (Box, Simplex) and is_float and bool(space.shape)


def _is_plain(space: Space[Any]) -> bool:
    return isinstance(space.backend, NumpyOps)


def _fields(space: Space[Any]) -> list[Field] | None:
    """Arrays of an observation; None if the native core reads no such observations."""
    if type(space) is not Dict:
        field = _field(None, space)
        return None if field is None else [field]
    fields = [_field(key, part) for key, part in space.spaces.items()]
    return None if None in fields or not _is_plain(space) else [f for f in fields if f is not None]


def _field(key: str | None, space: Space[Any]) -> Field | None:
    if not _is_plain(space):
        return None
    if type(space) is Box:
        low, high = space.low, space.high
    elif type(space) is MultiBinary:
        low, high = np.zeros(space.shape), np.ones(space.shape)
    elif type(space) is MultiDiscrete:
        low, high = space.start, space.last
    else:
        return None
    bounds = [np.ravel(np.broadcast_to(part, space.shape)) for part in (low, high)]
    is_bounded = not all(np.isinf(part).all() for part in bounds)
    limits = [part.astype(np.float64) for part in bounds] if is_bounded else []
    if space.dtype.kind != "f" and any((np.abs(part) > EXACT).any() for part in limits):
        return None
    low_list, high_list = (part.tolist() for part in limits) if limits else ([], [])
    return Field(
        key,
        space.shape,
        space.dtype.name,
        low_list,
        high_list,
        key is not None and is_action_mask(key),
    )
