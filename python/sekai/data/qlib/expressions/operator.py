"""What an operator takes, what it gives, and which slots it looks at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CONDITION", "COUNT", "FRACTION", "NOTHING", "SERIES", "TIME", "VALUE", "WINDOW", "Array",
    "Operator", "Window",
]  # fmt: skip

Array = NDArray[Any]
"""Floats of 32 or 64 bits, or conditions."""

SERIES = "a column, or what is computed from one"
VALUE = "a column or a number"
CONDITION = "a condition"
WINDOW = "a number of slots from 1, or 0 for all before"
COUNT = "a whole number above 0"
FRACTION = "a number from 0 to 1"
NOTHING = "None, as the end of data is not known beforehand"
TIME = "a time of day such as '9:30'"


@dataclass(frozen=True, slots=True)
class Window:
    """The slots that an expression is computed over."""

    first: int
    """The number of the first in the calendar."""
    times: NDArray[np.datetime64]
    days: NDArray[np.int64]
    """The number of each slot's day, ascending."""
    origin: int
    """The slot at which the asset's data begin."""

    @property
    def slots(self) -> NDArray[np.int64]:
        """The numbers of the slots in the calendar."""
        return np.arange(self.first, self.first + len(self.times))


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of Qlib."""

    name: str
    takes: tuple[str, ...]
    """The kind of each argument; those in `defaults` can be left out."""
    compute: Callable[..., Array]
    """From a `Window` and the arguments to the result."""
    defaults: tuple[Any, ...] = ()
    back: Callable[..., int | None] = field(default=lambda *_: 0)
    """How many slots before its own a value depends on, of the arguments that are no series; None
    for all."""
    by_day: bool = False
    """Whether it looks at the whole day up to its slot."""
    sees_day: bool = False
    """Whether it looks at the whole day, also after its slot."""
    shifts: bool = False
    """Whether it moves values to later slots, at which more is known."""
