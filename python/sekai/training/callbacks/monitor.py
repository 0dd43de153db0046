"""One metric, and which of its values is the better."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Literal

from sekai.training.settings import require

__all__ = ["Mode", "Monitor"]

Mode = Literal["max", "min"]
"""Whether more is better, or less."""


class Monitor:
    """Reads one metric; who asks for one that does not exist is warned once."""

    def __init__(self, name: str, mode: Mode) -> None:
        require(mode in ("max", "min"), "mode", "'max' or 'min'", mode)
        self.name, self.mode = name, mode
        self._has_warned = False

    @property
    def worst(self) -> float:
        """What everything is better than."""
        return -math.inf if self.mode == "max" else math.inf

    def value(self, metrics: Mapping[str, float]) -> float | None:
        """The metric; None where it is not there, or NaN because it is not known this time."""
        found = metrics.get(self.name)
        if found is None and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"there is no metric {self.name!r} to watch; there are {', '.join(metrics)} (what "
                "other callbacks add is there for those that come later in the list)",
                UserWarning,
                stacklevel=3,
            )
        return None if found is None or math.isnan(found) else found

    def is_better(self, value: float, than: float, by: float = 0.0) -> bool:
        """Whether a value is better than another, by more than so much."""
        return value > than + by if self.mode == "max" else value < than - by
