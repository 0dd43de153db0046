"""Log collector of an env: named values of one step, with levels."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import Any

import numpy as np

from sekai.core.base import Stateful

__all__ = ["LogCollector", "LogLevel"]


class LogLevel(IntEnum):
    """Level of a log entry, from debugging to critical."""

    DEBUG = 10
    """Large values: observations, actions, histories."""

    PERIODIC = 20
    """Values of every step, reported periodically."""

    INFO = 30
    CRITICAL = 40


class LogCollector(Stateful):
    """Log collector of one step; the env clears it at each step and puts it into its info.

    `info["log"]` is name -> (level, value).

    Args:
        min_loglevel: entries below this level are dropped.
    """

    def __init__(self, min_loglevel: int | LogLevel = LogLevel.PERIODIC) -> None:
        self.min_loglevel = int(min_loglevel)
        self._logs: dict[str, tuple[int, Any]] = {}

    def reset(self) -> None:
        """Clear the entries at the start of a step."""
        self._logs.clear()

    def add_scalar(
        self, name: str, value: Any, loglevel: int | LogLevel = LogLevel.PERIODIC
    ) -> None:
        """Add a number, or an array or tensor of one element, as a float."""
        if loglevel >= self.min_loglevel:
            self._add(name, loglevel, value if type(value) is float else _number(name, value))

    def add_string(
        self, name: str, value: str, loglevel: int | LogLevel = LogLevel.PERIODIC
    ) -> None:
        """Add a string."""
        if loglevel >= self.min_loglevel:
            if not isinstance(value, str):
                raise TypeError(f"{name!r} must be a string, got {type(value).__name__} {value!r}")
            self._add(name, loglevel, value)

    def add_array(
        self, name: str, value: Any, loglevel: int | LogLevel = LogLevel.PERIODIC
    ) -> None:
        """Add a copy of a NumPy array, or of a DataFrame or Series of pandas."""
        if loglevel >= self.min_loglevel:
            if not isinstance(value, _array_types()):
                raise TypeError(
                    f"{name!r} must be an array, DataFrame or Series, got {type(value).__name__}; "
                    "use add_any for other values"
                )
            self._add(name, loglevel, value.copy())

    def add_any(self, name: str, value: Any, loglevel: int | LogLevel = LogLevel.PERIODIC) -> None:
        """Add any value that can be pickled."""
        if loglevel >= self.min_loglevel:
            self._add(name, loglevel, value)

    def logs(self) -> dict[str, tuple[int, Any]]:
        """Entries since the last `reset`, name -> (level, value)."""
        return dict(self._logs)

    def _add(self, name: str, loglevel: int | LogLevel, value: Any) -> None:
        if name in self._logs:
            raise ValueError(f"{name!r} is already in the log of this step; use another name")
        self._logs[name] = (loglevel, value)


def _number(name: str, value: Any) -> float:
    if not isinstance(value, (int, float)) and hasattr(value, "item"):
        try:
            value = value.item()
        except (ValueError, RuntimeError) as error:
            raise TypeError(
                f"{name!r} must be one number, got {type(value).__name__} of shape "
                f"{getattr(value, 'shape', '?')}; use add_array for arrays"
            ) from error
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name!r} must be a number, got {type(value).__name__} {value!r}")
    return float(value)


def _array_types() -> tuple[type[Any], ...]:
    # A caller with a DataFrame has imported pandas already.
    pandas: Any = sys.modules.get("pandas")
    return (np.ndarray,) if pandas is None else (np.ndarray, pandas.DataFrame, pandas.Series)
