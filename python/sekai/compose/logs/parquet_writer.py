"""Episodes as rows of a Parquet file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from sekai.compose.logs.level import LogLevel
from sekai.compose.logs.packages import needed
from sekai.compose.logs.row_writer import Cell, RowWriter
from sekai.error import DataError

__all__ = ["ParquetWriter"]


class ParquetWriter(RowWriter):
    """Writes `result.parquet`, one row for each episode; null where an episode lacks a value.

    A column holds values of one kind: floats, strings or times.
    """

    file_name: ClassVar[str] = "result.parquet"

    def __init__(
        self, output_dir: str | os.PathLike[str], loglevel: int | LogLevel = LogLevel.PERIODIC
    ) -> None:
        """Write into `output_dir`, which is made if it is not there."""
        _pyarrow("pyarrow.parquet")  # It is missed now, not after a night of episodes.
        super().__init__(output_dir, loglevel)

    def _write(self, path: Path) -> None:
        columns = {name: _column(name, cells) for name, cells in self.columns().items()}
        _pyarrow("pyarrow.parquet").write_table(_pyarrow("pyarrow").table(columns), path)


def _column(name: str, cells: list[Cell | None]) -> Any:
    arrow = _pyarrow("pyarrow")
    try:
        return arrow.array(cells)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
        kinds = sorted({type(cell).__name__ for cell in cells if cell is not None})
        raise DataError(
            f"the column {name!r} must hold values of one kind, found {', '.join(kinds)}: log "
            f"them under different names, or use a CsvWriter"
        ) from error


def _pyarrow(module: str) -> Any:
    return needed(module, "data", "ParquetWriter")
