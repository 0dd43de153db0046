"""A Parquet file of one stock's ticks, of which only the days that are asked for are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sekai.data.market_data import frozen
from sekai.data.near_names import near
from sekai.data.reading.extras import arrow, needed
from sekai.data.reading.files import readable
from sekai.error import DataError

__all__ = ["TIME", "TickFile", "write_ticks"]

Times = NDArray[np.datetime64]
Floats = NDArray[np.float64]

TIME = "datetime"
GROUP_ROWS = 4096
"""Rows of a file that are read at once; some days of minutes."""
PURPOSE = "sekai.data.TickStore"


class TickFile:
    """What the end of a file says of it: the columns, and the times of each group of rows."""

    def __init__(self, path: str) -> None:
        """Look at a file.

        Raises:
            DataError: when it is no Parquet file of ticks.
        """
        self._parquet = needed("pyarrow.parquet", PURPOSE)
        self.path = path
        with readable(Path(path)):
            self._metadata = self._parquet.read_metadata(path)
            schema = self._metadata.schema.to_arrow_schema()
        self._check(schema)
        self.columns = tuple(name for name in schema.names if name != TIME)
        self._place = schema.names.index(TIME)
        self._bounds = [self._bound(group) for group in range(self._metadata.num_row_groups)]

    def read(self, day: np.datetime64, columns: Sequence[str]) -> tuple[Times, dict[str, Floats]]:
        """The times and columns of a day; none of them if the day is not there."""
        for name in columns:
            if name not in self.columns:
                raise DataError(f"{self.path}: no column {name!r}{near(name, self.columns)}")
        first, last = day.astype("datetime64[ns]"), (day + 1).astype("datetime64[ns]")
        groups = [
            group for group, (low, high) in enumerate(self._bounds)
            if low is None or high is None or (low < last and high >= first)
        ]  # fmt: skip
        table = self._rows(groups, [TIME, *dict.fromkeys(columns)])
        times = self._times(table)
        begin, stop = np.searchsorted(times, [first, last])
        values = {name: _numbers(table.column(name))[begin:stop] for name in columns}
        return times[begin:stop], values

    @cached_property
    def days(self) -> Times:
        """The days on which there are ticks."""
        times = self._times(self._rows(list(range(self._metadata.num_row_groups)), [TIME]))
        return frozen(np.unique(times.astype("datetime64[D]")))

    def _rows(self, groups: list[int], columns: list[str]) -> Any:
        with readable(Path(self.path)):
            file = self._parquet.ParquetFile(self.path, metadata=self._metadata, pre_buffer=False)
            with file:
                return file.read_row_groups(groups, columns, use_threads=False)

    def _times(self, table: Any) -> Times:
        column = table.column(TIME)
        times: Times = column.to_numpy().astype("datetime64[ns]")
        if column.null_count or np.any(np.diff(times) <= np.timedelta64(0)):
            raise DataError(f"{self.path}: times in ascending order were wanted")
        return times

    def _check(self, schema: Any) -> None:
        pa = arrow()
        found = schema.field(TIME).type if TIME in schema.names else None
        if found is None or not pa.types.is_timestamp(found) or found.tz is not None:
            raise DataError(
                f"{self.path}: a column {TIME!r} of times without a zone was wanted, found "
                f"{found or ', '.join(schema.names)}"
            )
        for name in schema.names:
            kind = schema.field(name).type
            if name != TIME and not pa.types.is_floating(kind):
                raise DataError(f"{self.path}: numbers were wanted, {name!r} is of {kind}")

    def _bound(self, group: int) -> tuple[np.datetime64 | None, np.datetime64 | None]:
        statistics = self._metadata.row_group(group).column(self._place).statistics
        if statistics is None or not statistics.has_min_max:
            return None, None
        low, high = statistics.min_raw, statistics.max_raw
        unit = self._metadata.schema.to_arrow_schema().field(TIME).type.unit
        return np.datetime64(low, unit), np.datetime64(high, unit)


def write_ticks(path: str, times: Times, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write a file in one move."""
    from sekai.rendering.replacement import replacing

    pa, parquet = arrow(), needed("pyarrow.parquet", PURPOSE)
    stamps = pa.array(times.astype("datetime64[ns]"), pa.timestamp("ns"))
    arrays = {name: pa.array(np.ascontiguousarray(column)) for name, column in columns.items()}
    with replacing(path, ".parquet") as draft:
        parquet.write_table(
            pa.table({TIME: stamps, **arrays}), draft, row_group_size=GROUP_ROWS, version="2.6"
        )


def _numbers(column: Any) -> Floats:
    numbers: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers
