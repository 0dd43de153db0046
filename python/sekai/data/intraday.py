"""Ticks of one asset on one day, and who can be asked for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sekai.data.market_data import frozen
from sekai.error import DataError

__all__ = ["DayTicks", "IntradayData", "named"]


@dataclass(frozen=True, slots=True, eq=False)
class DayTicks:
    """All ticks of one asset on one day: minute bars, as a rule.

    Columns are named as Qlib names them, with a dollar in front: `$close`, `$volume`, `$bid`. A
    tick without a value has NaN there.
    """

    stock_id: str
    times: NDArray[np.datetime64]
    """The beginning of each tick, in nanoseconds, ascending."""
    columns: Mapping[str, NDArray[np.float64]]

    def __post_init__(self) -> None:
        times = frozen(np.asarray(self.times, dtype="datetime64[ns]"))
        if times.ndim != 1 or not len(times) or np.any(np.diff(times) <= np.timedelta64(0)):
            raise DataError(f"{self.stock_id}: ticks of a day must be at least one, and ascending")
        if len(np.unique(times.astype("datetime64[D]"))) > 1:
            raise DataError(f"{self.stock_id}: ticks of one day were wanted, found those of more")
        columns = {}
        for name, values in self.columns.items():
            columns[name] = frozen(np.asarray(values, dtype=np.float64))
            if columns[name].shape != times.shape:
                found = f"found {columns[name].shape}"
                raise DataError(f"{self.stock_id}: {name} needs {times.shape} values, {found}")
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "columns", MappingProxyType(columns))

    def __len__(self) -> int:
        return len(self.times)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.stock_id, self.times, dict(self.columns))

    def __deepcopy__(self, memo: dict[int, Any]) -> DayTicks:
        # Nobody can write into it, so a copy would only take room.
        return self

    def column(self, name: str) -> NDArray[np.float64]:
        """The values of a column, one for each tick; see `named`."""
        found = named(self.columns, name)
        if found is None:
            there = ", ".join(sorted(self.columns)) or "none"
            raise DataError(f"{self.stock_id}: no column {name!r}; there are {there}")
        return self.columns[found]


def named(columns: Mapping[str, Any], name: str) -> str | None:
    """Column of a name, or with the 0 behind it that Qlib's processed files have."""
    return next((one for one in (name, f"{name}0") if one in columns), None)


@runtime_checkable
class IntradayData(Protocol):
    """Anything that has the ticks of many assets on many days."""

    def day(self, stock_id: str, date: np.datetime64) -> DayTicks:
        """The ticks of an asset on a day; a `DataError` where there are none."""
