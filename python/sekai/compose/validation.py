"""Whether a value belongs to a space, and where in it the fault lies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sekai.error import SpaceError
from sekai.spaces import Box, Dict, Space, Tuple
from sekai.spaces.nested import nested_mismatch

__all__ = ["SpaceValidationError", "validate_space"]


class SpaceValidationError(SpaceError):
    """A value does not belong to its space; the cause is the same of the nested value at fault."""

    def __init__(self, message: str, space: Space[Any], sample: Any) -> None:
        """Say what is wrong, and keep what is needed to look into it.

        Args:
            message: what was wanted and what was found, and where.
            space: the space that the value should belong to.
            sample: the value.
        """
        super().__init__(message)
        self.message = message
        self.space = space
        self.sample = sample

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.space, self.sample)


def validate_space(space: Space[Any], sample: Any, subject: str = "the value") -> None:
    """Raise unless `sample` belongs to `space`.

    Dicts need exactly the keys of the space; a list or an array passes for a tuple. Leaves are
    judged by the space itself, and NaN belongs nowhere among floats.

    Args:
        space: what to belong to.
        sample: what should belong.
        subject: what the message calls the value.

    Raises:
        SpaceValidationError: it does not belong.
    """
    fault = _fault(space, sample)
    if fault is not None:
        message = f"{subject} does not fit {space}: {fault.message}"
        raise SpaceValidationError(message, space, sample) from fault.__cause__


def _fault(space: Space[Any], sample: Any) -> SpaceValidationError | None:
    if isinstance(space, Dict):
        if not isinstance(sample, dict) or sample.keys() != space.spaces.keys():
            # The space's own judge finds the words, before it would look inside.
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
    """What is wrong with NaN in a space whose judge may be lenient; a plain `Box` never is."""
    if type(space) is Box or space.dtype is None or space.dtype.kind != "f":
        return None
    if isinstance(sample, dict):
        return None
    count = int(np.count_nonzero(np.isnan(np.asarray(space.to_numpy(sample), dtype=np.float64))))
    return f"wanted numbers, found {count} NaN" if count else None
