"""Refusal of complex numbers, of which a conversion to floats keeps the real part alone."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from sekai.error import InvalidActionError

__all__ = ["real_numbers"]

Value = TypeVar("Value")


def real_numbers(action: Value) -> Value:
    """Return an action as it is, or raise `InvalidActionError` if it has complex numbers."""
    given: Any = action
    if np.iscomplexobj(given):
        raise InvalidActionError(
            f"an action has complex numbers; expected real ones, was {action!r}: pass its real "
            f"part if that is what is meant"
        )
    return action
