"""Collects what the parts of an env tell of one step."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from sekai.compose.logs.level import LogLevel
from sekai.core.world import Stateful

__all__ = ["LogCollector"]


class LogCollector(Stateful):
    """Takes named values of one step; the env empties it at each step and puts them into its info.

    Entries below `min_loglevel` are dropped. They leave as `info["log"]`, name -> (level, value).
    """

    def __init__(self, min_loglevel: int | LogLevel = LogLevel.PERIODIC) -> None:
        """Take entries from `min_loglevel` upwards."""
        self.min_loglevel = int(min_loglevel)
        self._logs: dict[str, tuple[int, Any]] = {}

    def reset(self) -> None:
        """Forget everything: the next step begins."""
        self._logs.clear()

    def add_scalar(
        self, name: str, value: Any, loglevel: int | LogLevel = LogLevel.PERIODIC
    ) -> None:
        """Take a number, or an array or tensor of one element; it is kept as a float."""
        if loglevel >= self.min_loglevel:
            self._add(name, loglevel, value if type(value) is float else _number(name, value))

    def add_string(
        self, name: str, value: str, loglevel: int | LogLevel = LogLevel.PERIODIC
    ) -> None:
        """Take a string."""
        if loglevel >= self.min_loglevel:
            if not isinstance(value, str):
                raise TypeError(f"{name!r} must be a string, was {type(value).__name__} {value!r}")
            self._add(name, loglevel, value)

    def add_array(
        self, name: str, value: Any, loglevel: int | LogLevel = LogLevel.PERIODIC
    ) -> None:
        """Take a copy of a NumPy array or of a frame or series of pandas."""
        if loglevel >= self.min_loglevel:
            if not isinstance(value, _array_types()):
                raise TypeError(
                    f"{name!r} must be an array, or a frame or series of pandas, was "
                    f"{type(value).__name__}: add_any takes everything"
                )
            self._add(name, loglevel, value.copy())

    def add_any(self, name: str, value: Any, loglevel: int | LogLevel = LogLevel.PERIODIC) -> None:
        """Take anything that can be pickled, as it is."""
        if loglevel >= self.min_loglevel:
            self._add(name, loglevel, value)

    def logs(self) -> dict[str, tuple[int, Any]]:
        """What was taken since the last `reset`, name -> (level, value)."""
        return dict(self._logs)

    def _add(self, name: str, loglevel: int | LogLevel, value: Any) -> None:
        if name in self._logs:
            raise ValueError(
                f"{name!r} is in the log of this step already: log it under another name"
            )
        self._logs[name] = (loglevel, value)


def _number(name: str, value: Any) -> float:
    if not isinstance(value, (int, float)) and hasattr(value, "item"):
        try:
            value = value.item()
        except (ValueError, RuntimeError) as error:
            raise TypeError(
                f"{name!r} must be one number, was {type(value).__name__} of shape "
                f"{getattr(value, 'shape', '?')}: add_array takes more"
            ) from error
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name!r} must be a number, was {type(value).__name__} {value!r}")
    return float(value)


def _array_types() -> tuple[type[Any], ...]:
    # Whoever has a frame has imported pandas; it need not be imported to find that out.
    pandas: Any = sys.modules.get("pandas")
    return (np.ndarray,) if pandas is None else (np.ndarray, pandas.DataFrame, pandas.Series)
